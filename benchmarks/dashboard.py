"""How the dashboard serves a run of a month and 300 people: first paint, refreshes, and many viewers at once.

    python -m benchmarks.dashboard [--viewers 50] [--seconds 30] [--json FILE]

The recorded month behind the coordinator's real HTTP service, one Streamlit process, Chromium for the first paint,
and viewers that speak Streamlit's own protocol over websockets as a browser does. What counts: the key figures are on
the screen 2 s after the address was entered, a refresh takes the server less than 0.3 s, all viewers get their
refreshes from the one process, and the coordinator is asked no more often for many viewers than for one.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import psutil
import typer
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from app.organizing.dashboard import command as dashboard_command
from app.organizing.dashboard import free_port
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file
from tests.dashboard.coordinators import Switch

PAGES = ("", "learning", "people", "machines")
LOADS = 5  # of the first page; the median counts
REFRESH = 5.0  # seconds, as it is without a setting
PATIENCE = 120.0  # seconds


@dataclass(frozen=True)
class Figures:
    """Times in seconds; a refresh is of one part of a page, from the request until the last message of the answer."""

    first_paint_cold_seconds: float  # the first viewer of a new process, which imports what pages need
    first_paint_seconds: float
    refresh_seconds: dict[str, float]  # by page, one viewer: the slowest part, the median over time
    viewers: int
    refreshes: int
    refresh_median_seconds: float  # with all viewers
    refresh_slowest_tenth_seconds: float
    processor_fraction: float  # of one core, with all viewers
    memory_mb: float
    requests_in_an_interval: float  # to the coordinator, with all viewers on the first page
    coordinator_alone_fraction: float  # of one core, without viewers
    coordinator_processor_fraction: float  # with all of them


def main(
    viewers: Annotated[int, typer.Option(min=1)] = 50,
    seconds: Annotated[float, typer.Option(min=5, help="How long they look.")] = 30.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    switch = Switch()
    with _coordinator() as (served, coordinator), _streamlit(switch.url) as (url, process):
        switch.lead_to(served)
        cold, *loads = _first_paints(url, LOADS + 1)
        alone = {page or "overview": asyncio.run(_alone(url, page)) for page in PAGES}
        figures: dict[str, Any] = asyncio.run(_together(url, switch, process, coordinator, viewers, seconds))
    found = Figures(
        first_paint_cold_seconds=round(cold, 2),
        first_paint_seconds=round(statistics.median(loads), 2),
        refresh_seconds={page: round(took, 3) for page, took in alone.items()},
        viewers=viewers,
        **figures,
    )
    _print(found)
    if json_file:
        write_file(json_file, json.dumps(asdict(found), indent=2) + "\n")


@contextlib.contextmanager
def _coordinator() -> Iterator[tuple[str, psutil.Process]]:
    """The recorded month in a process of its own, and its URL; the run goes on."""
    port = free_port()
    command = [sys.executable, "-m", "tests.recorded_month", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/healthz", "the recorded month")
        yield url, psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextlib.contextmanager
def _streamlit(coordinator: str) -> Iterator[tuple[str, psutil.Process]]:
    port = free_port()
    environment = os.environ | {"SAHAJ_URL": coordinator, "SAHAJ_REFRESH": str(REFRESH)}
    process = subprocess.Popen(dashboard_command("127.0.0.1", port), env=environment, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/_stcore/health", "Streamlit")
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, what: str) -> None:
    until = time.monotonic() + PATIENCE
    while not _answers(url):
        if time.monotonic() > until:
            raise SahajError(f"{what} did not start")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, trust_env=False).is_success
    return False


def _first_paints(url: str, times: int) -> list[float]:
    """Seconds from entering the address until the key figures are on the screen, each time in an empty browser."""
    path = shutil.which("chromium")
    if path is None:
        raise SahajError("Chromium is not installed; on Debian as root: make chromium")
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(times):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            began = time.perf_counter()
            page.goto(f"{url}?lang=en", wait_until="commit")
            # tables have the same words in hidden cells, for screen readers
            page.get_by_text("Machine hours").filter(visible=True).first.wait_for(timeout=1000 * PATIENCE)
            found.append(time.perf_counter() - began)
            context.close()
        browser.close()
    return found


class Viewer:
    """One session: what a browser says to Streamlit, and when it got its answers."""

    def __init__(self, socket: ClientConnection, page: str):
        self._socket, self._page, self._hash = socket, page, ""
        self.parts: dict[str, float] = {}  # fragment: seconds between its refreshes
        self.took: dict[str, list[float]] = {}

    async def open(self) -> None:
        """Run the page for the first time, and learn which of its parts want to be kept new."""
        await self._run("")

    async def refresh(self, part: str) -> None:
        """Ask for a part again."""
        began = time.perf_counter()
        await self._run(part)
        self.took.setdefault(part, []).append(time.perf_counter() - began)

    async def _run(self, part: str) -> None:
        message = BackMsg()
        message.rerun_script.page_name, message.rerun_script.page_script_hash = self._page, self._hash
        if part:
            message.rerun_script.fragment_id, message.rerun_script.is_auto_rerun = part, True
        await self._socket.send(message.SerializeToString())
        while True:
            answer = ForwardMsg()
            answer.ParseFromString(await asyncio.wait_for(self._socket.recv(decode=False), PATIENCE))
            kind = answer.WhichOneof("type")
            if kind == "new_session":
                self._hash = answer.new_session.page_script_hash
            elif kind == "auto_rerun":
                self.parts[answer.auto_rerun.fragment_id] = answer.auto_rerun.interval
            elif kind == "delta" and answer.delta.new_element.WhichOneof("type") == "exception":
                raise SahajError(f"the page failed: {answer.delta.new_element.exception.message}")
            elif kind == "script_finished" and answer.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                return


@contextlib.asynccontextmanager
async def _viewing(url: str, page: str) -> Any:
    address = url.replace("http", "ws", 1) + "/_stcore/stream"
    async with connect(address, subprotocols=["streamlit"], max_size=None, compression=None) as socket:  # type: ignore[list-item]
        viewer = Viewer(socket, page)
        await viewer.open()
        yield viewer


async def _alone(url: str, page: str) -> float:
    """The median of the slowest part of a page."""
    async with _viewing(url, page) as viewer:
        for _ in range(5):
            for part in viewer.parts:
                await viewer.refresh(part)
    return max((statistics.median(times) for times in viewer.took.values()), default=0.0)


async def _together(
    url: str, switch: Switch, process: psutil.Process, coordinator: psutil.Process, viewers: int, seconds: float
) -> dict[str, Any]:
    """All look at the first page; each refreshes its parts when a browser would."""
    async with _busy(coordinator) as alone:  # what was asked for viewers before is still being asked for a while
        await asyncio.sleep(seconds)
    async with contextlib.AsyncExitStack() as stack:
        all_of_them = [await stack.enter_async_context(_viewing(url, "")) for _ in range(viewers)]
        asked, began = switch.asked, time.monotonic()
        until = began + seconds
        async with _busy(process) as busy, _busy(coordinator) as asked_busy:
            await asyncio.gather(*(_look(viewer, number / viewers, until) for number, viewer in enumerate(all_of_them)))
        elapsed, requests = time.monotonic() - began, switch.asked - asked
        memory = process.memory_info().rss / 1e6
    took = sorted(time for viewer in all_of_them for times in viewer.took.values() for time in times)
    return {
        "refreshes": len(took),
        "refresh_median_seconds": round(statistics.median(took), 3),
        "refresh_slowest_tenth_seconds": round(took[int(0.9 * len(took))], 3),
        "processor_fraction": round(busy[0], 2),
        "memory_mb": round(memory),
        "requests_in_an_interval": round(requests * REFRESH / elapsed, 1),
        "coordinator_alone_fraction": round(alone[0], 4),
        "coordinator_processor_fraction": round(asked_busy[0], 4),
    }


@contextlib.asynccontextmanager
async def _busy(process: psutil.Process) -> AsyncIterator[list[float]]:
    """In the end, the fraction of one core that a process took meanwhile."""
    found = [0.0]
    before, began = process.cpu_times(), time.monotonic()
    yield found
    after = process.cpu_times()
    found[0] = (after.user + after.system - before.user - before.system) / (time.monotonic() - began)


async def _look(viewer: Viewer, offset: float, until: float) -> None:
    """Refresh each part in its interval, as browsers do that were opened at different moments."""
    due = {part: time.monotonic() + offset * interval for part, interval in viewer.parts.items()}
    while due and (next_one := min(due, key=due.__getitem__)) and due[next_one] < until:
        await asyncio.sleep(max(0.0, due[next_one] - time.monotonic()))
        await viewer.refresh(next_one)
        due[next_one] += viewer.parts[next_one]


def _print(found: Figures) -> None:
    table = Table("", "")
    for name, value in asdict(found).items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for part, figure in rows:
            table.add_row(f"{name.replace('_', ' ')} {part}".strip(), f"{figure:,}")
    Console().print(table)


if __name__ == "__main__":
    command.run(main)
