"""A PostgreSQL server of its own, for tests and benchmarks: an empty one, gone when it is not needed any more."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from tests.support.waiting import PATIENCE, wait_until

PLACES = "/usr/lib/postgresql/*/bin"  # of Debian's packages, which leave the server out of PATH
USERS = ("postgres", "nobody")  # as whom to run it for root, whom it refuses


class WhyNot(Exception):
    """Why no server can be started, and what to do."""


@contextlib.contextmanager
def running_server(*, durable: bool = False) -> Iterator[str]:
    """A server that listens on a socket in a folder of its own; gives the URL of its first database.

    Args:
        durable: wait for the disk, as a server that matters does.

    Raises:
        WhyNot: PostgreSQL is not installed, or does not start.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="sahaj-pg-", dir="/tmp"))  # a socket's path must be short
    try:
        identity = _identity(folder)
        data = folder / "data"
        made = subprocess.run(
            [programs / "initdb", "-D", data, "-U", "sahaj", "--auth=trust", "--encoding=UTF8", "--no-sync"],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            **identity,
        )
        if made.returncode != 0:
            raise WhyNot(f"PostgreSQL's initdb failed: {' '.join(made.stderr.split())[-300:]}")
        settings = ["-c", "listen_addresses=", "-k", str(folder)]
        if not durable:
            settings += ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]
        log = folder / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *settings], stdout=output, stderr=output, cwd=folder, **identity
            )
        try:
            url = f"postgresql+psycopg://sahaj@/postgres?host={folder}"
            _wait_until_it_answers(url, server, log)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # ends connections, too
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """The folder of the server's programs."""
    places = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    # the newest version
    places += sorted(Path("/").glob(PLACES.lstrip("/")), key=lambda place: float(place.parent.name), reverse=True)
    for place in places:
        if (place / "initdb").is_file() and (place / "postgres").is_file():
            return place
    raise WhyNot("PostgreSQL's server is not installed; on Debian as root: make postgresql")


def _identity(folder: Path) -> dict[str, Any]:
    """Arguments of a subprocess that make it run as somebody who may run a server and owns the folder."""
    if os.geteuid() != 0:
        return {}
    for name in USERS:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            os.chown(folder, user.pw_uid, user.pw_gid)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise WhyNot("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _wait_until_it_answers(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    engine = create_engine(url)

    def answers() -> bool:
        if server.poll() is not None:
            raise WhyNot(f"PostgreSQL did not start: {log.read_text(errors='replace')[-300:]}")
        with contextlib.suppress(OperationalError):
            engine.connect().close()
            return True
        return False

    wait_until(answers, "PostgreSQL that answers")
    engine.dispose()
