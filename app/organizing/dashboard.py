"""What `sahaj dashboard` does: it becomes the Streamlit process that serves the pages of a run."""

import importlib.util
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from app.join.coordinator_client import CoordinatorClient
from swarm.errors import SahajError

PAGES = Path(__file__).parents[2] / "dashboard" / "app.py"
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # addresses that cannot be opened, and what can be here
NICENESS = 10  # pages can wait a moment, training beside them should not


class DashboardError(SahajError):
    """The pages cannot be served here."""

    exit_status = 50


def is_installed() -> bool:
    """Whether the libraries of the pages are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("streamlit", "altair"))


def run_dashboard(url: str, host: str, port: int, notebook: str | None, say: Callable[[str], None]) -> NoReturn:
    """Serve the pages until Ctrl-C.

    Args:
        port: 0 for any that is free.
        notebook: its address on GitHub or the Hub, from where Colab and Kaggle open it for volunteers.

    Raises:
        DashboardError: the pages or Streamlit are missing, or the port is not available.
        JoinProblem: no coordinator answers at the URL.
    """
    if not PAGES.is_file():
        raise DashboardError(
            f"{PAGES}: not there, since this program was installed to volunteer; serve the pages from a clone, or in a "
            "Space (docs/dashboard.md)"
        )
    if not is_installed():
        raise DashboardError("the dashboard needs Streamlit, which is not installed: pip install streamlit altair")
    port = free_port(host, port)
    with CoordinatorClient(url, tolerance=float("inf")) as client:
        name, base = client.run().name, client.base
    shown = EVERYWHERE.get(host) or (f"[{host}]" if ":" in host else host)
    elsewhere = ", and at this machine's address from elsewhere" if host in EVERYWHERE else ""
    say(f"The dashboard of {name}: http://{shown}:{port}{elsewhere} (Ctrl-C ends it)")
    environment = os.environ | {"SAHAJ_URL": base} | ({"SAHAJ_NOTEBOOK": notebook} if notebook else {})
    os.nice(NICENESS)
    os.execve(sys.executable, command(host, port), environment)


def command(host: str, port: int) -> list[str]:
    """The command line of the process that serves the pages."""
    options = ["--server.address", host, "--server.port", str(port)]
    return [sys.executable, "-m", "streamlit", "run", str(PAGES), *options]


def free_port(host: str = "127.0.0.1", port: int = 0) -> int:
    """The port, if it is available; for 0, one that is free now.

    Raises:
        DashboardError: it is in use, or not for this user or machine.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            return int(tried.getsockname()[1])
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DashboardError(
            f"--host {host} --port {port}: cannot be listened on ({reason}); choose another port, "
            "or --port 0 for any that is free"
        ) from None
