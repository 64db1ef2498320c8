"""Real coordinators, a real Streamlit process that serves the folder `dashboard` alone, and a real browser."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

import dashboard
from dashboard.language import VARIABLE
from tests.dashboard.browsing import installed_browser
from tests.dashboard.coordinators import Switch
from tests.recorded_month.__main__ import State, record
from tests.recorded_month.hosting import hosts, with_experts, write_credit
from tests.recorded_month.serving import Served, serving
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, wait_until

REFRESH = 0.5  # seconds: tests do not wait long


@dataclass(frozen=True)
class Pages:
    """The pages as a browser finds them, before a coordinator that can be changed."""

    url: str
    switch: Switch
    log: Path


@pytest.fixture(autouse=True)
def own_main() -> Iterator[None]:
    """AppTest puts the script in the place of `__main__`, and processes that are started later would run that."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The coordinator of a run of 25 people and four days, which stands still."""
    folder = tmp_path_factory.mktemp("small")
    run = record(folder, people=25, days=4, now=time.time())
    with serving(run, folder, going_on=False) as served:
        yield served


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The coordinator of such a run with experts on the machines of volunteers."""
    folder, now = tmp_path_factory.mktemp("hosted"), time.time()
    run = with_experts(record(folder, people=25, days=4, now=now))
    with serving(run, folder, going_on=False, hosts=hosts) as served:
        write_credit(served.context.ledger, run, now)
        yield served


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The coordinator of a run to which nobody has come yet."""
    folder = tmp_path_factory.mktemp("empty")
    run = record(folder, now=time.time(), state=State.EMPTY)
    with serving(run, folder, going_on=False) as served:
        yield served


@pytest.fixture(scope="session")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The coordinator of a run of 300 people and a month, still at work."""
    folder = tmp_path_factory.mktemp("month")
    run = record(folder, now=time.time())
    with serving(run, folder) as served:
        yield served


@pytest.fixture
def decided(small: Served) -> Iterator[Served]:
    """The small coordinator, whose organizer's decisions are taken back afterwards."""
    yield small
    board = small.context.notices
    board.resume()
    board.announce("")
    for name in board.decisions.banned:
        board.unban(name)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """Streamlit at work on a copy of the folder `dashboard`, as a Space has it."""
    place = tmp_path_factory.mktemp("space")
    shutil.copytree(Path(dashboard.__file__).parent, place / "dashboard", ignore=shutil.ignore_patterns("__pycache__"))
    switch, log = Switch(), place / "log"
    port = free_port()
    where = ["--server.address", "127.0.0.1", "--server.port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "dashboard/app.py", *where],
            cwd=place,
            env=os.environ
            | {"SAHAJ_URL": switch.url, "SAHAJ_REFRESH": str(REFRESH), "PYTHONPATH": str(place), VARIABLE: "en"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _answers(f"{url}/_stcore/health"), "Streamlit that answers")
        yield Pages(url, switch, log)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        switch.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """While it is there an event loop runs in this thread, in which no other test may start one of its own."""
    path = installed_browser()
    if path is None:
        pytest.skip("Chromium is not installed; on Debian as root: make chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])  # root may not have one
        yield started
        started.close()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).status_code == 200
    return False
