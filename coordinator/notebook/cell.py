# @title Run this cell to join { display-mode: "form" }
URL = ""  # @param {type:"string", placeholder:"https://run.example.org"}
NAME = ""  # @param {type:"string", placeholder:"only for an open run; otherwise your Hugging Face name is used"}

import hashlib
import importlib.metadata
import ipaddress
import os
import re
import runpy
import shutil
import site
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

PROGRAM = "sahaj-swarm"
VERSION, WHEEL, SHA256 = "", "", ""  # of the program; it is installed beside the platform's packages, not among them
TEXTS: dict[str, str] = {}  # what the cell says, in the run's language, by the English words
PLATFORM = ("torch", "torchvision", "torchaudio", "triton")  # stay as they are


def _(text: str) -> str:
    """A text in the run's language."""
    return TEXTS.get(text, text)


def python_with_program(url: str) -> str:
    """The Python that has the program: this one, or a virtual environment that sees what the platform has."""
    if not SHA256 and installed(PROGRAM) == VERSION:  # of a pinned one the version alone says too little
        return sys.executable
    if not SHA256 and not is_private(url):
        told = _(
            "{url} is not encrypted: its program may be replaced on the way. Ask for an https link, or, in a network "
            "that you trust, use {url}/join.ipynb."
        )
        sys.exit(told.format(url=url))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "sahaj" / f"program-{VERSION}-{SHA256[:16] or hashlib.sha256(url.encode()).hexdigest()[:16]}"
    python, ready, constraints = home / "bin" / "python", home / "ready", home / "platform.txt"
    if ready.exists():  # written last: half an installation is begun again
        return str(python)
    print(_("Installing the program beside what is here already; this takes a minute or two."))
    shutil.rmtree(home, ignore_errors=True)
    run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", home)
    (packages,) = home.glob("lib/python*/site-packages")
    seen = [f"import site; site.addsitedir({folder!r})\n" for folder in site.getsitepackages()]
    (packages / "platform.pth").write_text("".join(seen))  # where this is a virtual environment, too
    constraints.write_text("".join(f"{name}=={installed(name)}\n" for name in PLATFORM if installed(name)))
    wheel = f"{PROGRAM} @ {url}/program/{WHEEL}" + (f"#sha256={SHA256}" if SHA256 else "")
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    install = (*pip, "install", "--quiet", "--no-input", "--constraint", constraints, wheel)
    run(*install, "--force-reinstall", "--no-deps")  # also where the platform has a package of this name and version
    run(*install)  # and what it needs
    ready.touch()
    return str(python)


def is_private(url: str) -> bool:
    """Whether the connection is encrypted, or within this machine, as `sahaj join` would see it."""
    try:
        parts = urlsplit(url)
        if parts.scheme == "https" or parts.hostname == "localhost":
            return True
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def kernel_of(python: str) -> str:
    """The file of the program that shows it in a notebook."""
    where = "import app.notebook.kernel as kernel; print(kernel.__file__)"
    done = subprocess.run([python, "-I", "-c", where], check=False, capture_output=True, text=True)
    if done.returncode:
        told = _("{python}: the program there does not start ({why}). Run {command}, then run the cell again.")
        there = Path(python).parents[1]
        command = f"%pip uninstall --yes {PROGRAM}" if python == sys.executable else f"!rm -r '{there}'"
        why = (done.stderr.strip().splitlines() or [""])[-1]
        sys.exit(told.format(python=python, why=why, command=command))
    return done.stdout.strip()


def installed(package: str) -> str:
    """The version of a package, empty if it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def run(*command: object) -> None:
    """Run a command that says nothing unless it fails."""
    done = subprocess.run([str(part) for part in command], check=False, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        hints = {
            "DO NOT MATCH THE HASHES": _(
                "The run has a newer program than this notebook: open the run's notebook again."
            ),
            "Temporary failure in name resolution": _("There is no network. On Kaggle: Settings, Turn on internet."),
            "Name or service not known": _("no such host; check the link for typing mistakes, and that you are online"),
            "Connection refused": _(
                "nothing is listening there; check the port, or try again when the coordinator is running"
            ),
            "HTTP error 404": _("The run has another version of the program: open the run's notebook again."),
        }
        sys.exit("\n".join([said[-2000:], *(hint for sign, hint in hints.items() if sign in said)]))


def whole_link(given: str) -> str:
    """The link as `sahaj join` would complete it: https for a domain name alone, http for any other machine.

    What cannot be one ends the cell with a line.
    """
    link = re.sub(r"(/join\.(sh|ipynb))?/*$", "", given)
    is_public = re.match(r"[^/:]+\.[^/:.\d][^/:.]*(:443)?(/|$)", link)
    whole = link if "://" in link else f"{'https' if is_public else 'http'}://{link}"
    if re.fullmatch(r"(?i)https?://(?!https?:?(/|$))([^\s/:@?#\"']+|\[[^\s\]]+\])(:\d+)?([/?#]\S*)?", whole):
        return whole
    example = _("{one} or {other}").format(one="https://run.example.org", other="http://192.0.2.1:8080")
    sys.exit(_("{given}: not a URL; give the run's link, as {example}").format(given=given, example=example))


def ask_for_link() -> str:
    """The link that somebody types; ends the cell with a line where nobody does."""
    try:
        given = input(_("The run's link: ")).strip()
    except (EOFError, NotImplementedError):  # nobody is there, as in a notebook that Kaggle runs by itself
        given = ""
    told = _("Write the run's link between the quotes after URL =, then run the cell again.")
    return given or sys.exit(told)


def main() -> None:
    """Install the program where it is missing, and join; whatever ends it says so in a line."""
    try:
        link = whole_link(URL.strip() or ask_for_link())
        python = python_with_program(link)
        runpy.run_path(kernel_of(python))["join"](python, link, NAME.strip())
    except KeyboardInterrupt:
        print(_("Stopped. Run the cell again to go on."))
    except SystemExit as problem:  # in a notebook its traceback would hide what it says
        print(problem)


main()
