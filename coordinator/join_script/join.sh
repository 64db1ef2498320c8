#!/bin/sh
# Joins a training run with this computer: installs the run's program into one folder, and starts it.
# The run's coordinator made this script. Options of `sahaj join` may follow: ... | sh -s -- --name NAME
set -eu
RUN='' LINK='' WHEEL='' SHA256='' FOLDER=''

main() {
    unset PYTHONPATH PYTHONHOME # other packages than those of the installation
    SAHAJ_HOME=${SAHAJ_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/sahaj}
    case $SAHAJ_HOME in /*) ;; *) SAHAJ_HOME=$PWD/$SAHAJ_HOME ;; esac
    export SAHAJ_HOME # where the program keeps its own files, too
    home=$SAHAJ_HOME/$FOLDER
    if ! works || [ "$(cat "$home/ready")" != "$SHA256" ]; then
        (install_program) # what it sets ends with it
    fi
    for command in sahaj hf; do # the same path for all runs: of the one that was joined last
        { mkdir -p "$SAHAJ_HOME/commands" && ln -sf "$home/venv/bin/$command" "$SAHAJ_HOME/commands/$command"; } 2>/dev/null || :
    done
    if [ ! -t 0 ]; then # this script came through a pipe: questions are asked at the terminal, if there is one
        if (: </dev/tty) 2>/dev/null; then exec </dev/tty; else exec </dev/null; fi
    fi
    exec "$home/venv/bin/sahaj" join "$LINK" "$@"
}

say() { printf '%s\n' "$@" >&2; }
fail() { printf 'join.sh: %s\n' "$*" >&2; exit 1; }
stopped() { say "Stopped. Run the same command to start again."; exit 130; }
works() { [ -f "$home/ready" ] && "$home/venv/bin/python" -I -c 'import app' 2>/dev/null; }

install_program() {
    say "This joins the run $RUN ($LINK) with this computer."
    say "Its program and PyTorch go into $home and nowhere else: about 2 GB, 6 with an NVIDIA GPU."
    say "Ctrl-C stops this at any time. To remove an unfinished installation, delete $home."
    say "To remove everything later, run: '$SAHAJ_HOME/commands/sahaj' leave '$LINK'"
    machine=$(uname -sm)
    case $machine in
        "Linux x86_64" | "Linux aarch64" | "Darwin arm64") ;;
        MINGW* | MSYS* | CYGWIN*) fail "Windows: install WSL (wsl --install), and run the same command there" ;;
        *) fail "$machine: there is no PyTorch for such a machine; use another one" ;;
    esac
    trap stopped INT TERM HUP
    tmp=$home/tmp.$$ # another start may be installing
    trap 'rm -rf "$tmp"' EXIT
    mkdir -p "$tmp" || fail "$home: cannot be written; choose another folder with SAHAJ_HOME"
    export TMPDIR="$tmp" UV_CACHE_DIR="$tmp/uv" UV_PYTHON_INSTALL_DIR="$home/python" UV_PYTHON_INSTALL_BIN=0
    export PIP_USE_PEP517=1 # pip of Python 3.11 and older builds what has no wheel in a way that fails by now
    find_python
    exec 9>"$home/lock" # a peer that runs from here holds it, too
    "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null ||
        fail "$home: in use by a peer, or by another installation; stop it, or wait for its end"
    for old in "$home"/tmp.*; do [ "$old" = "$tmp" ] || rm -rf "$old"; done # of starts that were killed
    printf '%s\n' "$LINK" >"$home/link"

    file=$TMPDIR/$WHEEL
    curl -LsSf -o "$file" "$LINK/program/$WHEEL" || fail "$LINK/program/$WHEEL: cannot be fetched; try again later"
    digest='import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())'
    found=$("$python" -I -c "$digest" "$file")
    [ "$found" = "$SHA256" ] ||
        fail "$WHEEL: its SHA-256 is $found and must be $SHA256; get this script again, or tell the organizer"
    extract='import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]).decode())'
    pins=$TMPDIR/constraints.txt
    "$python" -I -c "$extract" "$file" coordinator/join_script/constraints.txt >"$pins"

    works || rm -rf "$home/venv" # half an installation is begun again; an older program is upgraded in its place
    rm -f "$home/ready"
    [ -d "$home/venv" ] || make_venv || fail "$home/venv: cannot be made with $python"
    choose_index
    say "Installing PyTorch: about 200 MB to download, gigabytes for an NVIDIA GPU ..."
    if [ -t 1 ]; then quiet=; else quiet=--quiet; fi # somebody wants to see how far the large download is
    add --constraint "$pins" ${index:+--extra-index-url "$index"} torch ||
        fail "PyTorch could not be installed; see above"
    quiet=--quiet
    say "Installing the program and what it needs: some 250 MB ..."
    { add --force-reinstall --no-deps "$file" && add --constraint "$pins" "$file"; } ||
        fail "the program could not be installed; see above"
    sync # the stamp says that all of it is on the disk
    printf '%s\n' "$SHA256" >"$tmp/ready" && mv "$tmp/ready" "$home/ready"
}

find_python() {
    uv=$(command -v uv) || uv=
    if [ "$uv" ]; then
        python=$(uv python find --system --no-project '>=3.10,<3.14' 2>/dev/null) && return
        say "Fetching Python ..."
        uv python install --quiet 3.13 && python=$(uv python find --system --no-project 3.13) && return
        fail "uv could not install Python; see above"
    fi
    for python in python3.13 python3.12 python3.11 python3.10 python3; do
        if "$python" -I -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null; then
            "$python" -I -c 'import ensurepip, venv' 2>/dev/null && return
            bare=$python
        fi
    done
    [ ! "${bare-}" ] || fail "$bare has no venv: install it (Debian, Ubuntu: apt install python3-venv), and start again"
    fail "there is no Python 3.10 to 3.13: install one with venv (Debian, Ubuntu: apt install python3-venv), or uv (https://docs.astral.sh/uv), and start again"
}

make_venv() {
    if [ "$uv" ]; then uv venv --quiet --python "$python" "$home/venv"; else "$python" -m venv "$home/venv"; fi
}

add() {
    if [ "$uv" ]; then
        uv pip install $quiet --index-strategy unsafe-best-match --python "$home/venv/bin/python" "$@"
    else
        "$home/venv/bin/python" -m pip install $quiet --no-input --no-cache-dir --disable-pip-version-check "$@"
    fi
}

# PyPI's PyTorch is for GPUs of NVIDIA, except on a Mac. For a machine without one its own index has a smaller build.
choose_index() {
    index=${SAHAJ_TORCH_INDEX-}
    if [ -z "${SAHAJ_TORCH_INDEX+given}" ] && [ "$(uname -s)" = Linux ] && [ ! -e /proc/driver/nvidia/version ] &&
        ! nvidia-smi -L >/dev/null 2>&1 && ! env | grep -Eq '^(PIP|UV)_[A-Z_]*(INDEX|FIND_LINKS)'; then
        index=https://download.pytorch.org/whl/cpu
    fi
}

main "$@"
