"""What `join.sh` asks of uv, for tests: no index is asked, and each call becomes a line of the file UV_LOG.

With UV_PACKAGES its virtual environments see the packages of that folder. At UV_BREAKS, a word of a call, the whole
process group gets SIGINT, as by Ctrl-C, or this call's parent SIGKILL.
"""

import os
import signal
import sys
import venv
import zipfile
from pathlib import Path


def main(*arguments: str) -> None:
    line = " ".join(arguments)
    with Path(os.environ["UV_LOG"]).open("a") as log:
        log.write(f"{line}\n")
    if arguments[:2] == ("python", "find"):
        sys.stdout.write(f"{sys.executable}\n")
    elif arguments[0] == "venv":
        make(Path(arguments[-1]))
    elif arguments[:2] == ("pip", "install"):
        breaks = os.environ.get("UV_BREAKS", "")
        if breaks.startswith("kill ") and breaks.removeprefix("kill ") in line:
            os.kill(os.getppid(), signal.SIGKILL)
            return
        if breaks and breaks in line:
            os.killpg(0, signal.SIGINT)
        python = Path(arguments[arguments.index("--python") + 1])
        for one in arguments:
            if one.endswith(".whl") and "--no-deps" in arguments:
                install(Path(one), python)
    else:
        sys.exit(f"unknown: {line}")


def make(folder: Path) -> None:
    venv.create(folder, with_pip=False)
    if seen := os.environ.get("UV_PACKAGES"):
        (packages,) = folder.glob("lib/python*/site-packages")
        (packages / "seen.pth").write_text(f"{seen}\n")


def install(wheel: Path, python: Path) -> None:
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    command = python.with_name("sahaj")
    command.write_text(f"#!{python}\nfrom app.cli import main\nmain()\n")
    command.chmod(0o755)


if __name__ == "__main__":
    main(*sys.argv[1:])
