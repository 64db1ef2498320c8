"""The notebook, run as Colab and Kaggle run it: until its samples count, until it is stopped, and once more."""

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from coordinator.ledger.answers import SessionSummary
from coordinator.notebook.wheel import this_program
from tests.notebook.test_kernel import platform_modules
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.small_swarm import SmallSwarm
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
CONTRIBUTED = re.compile(r"Thank you! You contributed ([\d,]+) samples")
STEP_SAMPLES = 512  # less than a fast machine computes while a group is found: the notebook says what counts
COLAB = {"COLAB_RELEASE_TAG": "release-colab_20261101-060000_RC00"}
KAGGLE = {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}


class Kernel:
    """The run's notebook in a kernel; `environment` is that of the platform."""

    def __init__(self, swarm: SmallSwarm, environment: dict[str, str]):
        self._swarm, self._environment = swarm, environment
        install_here(swarm.folder / "cache")
        notebook = nbformat.reads(httpx.get(f"{swarm.url}/join.ipynb", timeout=PATIENCE).text, as_version=4)
        self.client = NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3")

    async def run(self, meanwhile: Callable[[], None] | None = None) -> str:
        """Run all cells, and interrupt when this has come back; returns what is shown in the end."""
        running = self._execution()
        if meanwhile is not None:
            await asyncio.to_thread(meanwhile)
            await self._manager.interrupt_kernel()
        await running
        return self.shown()

    async def die(self, meanwhile: Callable[[], None]) -> None:
        """Run all cells, and when this has come back lose the kernel as a machine loses power."""
        running = self._execution()
        await asyncio.to_thread(meanwhile)
        await self._manager.signal_kernel(signal.SIGKILL)
        await asyncio.wait([running])
        assert running.exception() is not None, "the kernel is gone"

    def _execution(self) -> "asyncio.Task[Any]":
        environment = os.environ | {"XDG_CACHE_HOME": str(self._swarm.folder / "cache")} | self._environment
        return asyncio.create_task(self.client.async_execute(env=environment))

    @property
    def _manager(self) -> Any:
        return self.client.km

    def shown(self) -> str:
        """What stands below the cell."""
        (cell,) = [cell for cell in self.client.nb.cells if cell.cell_type == "code"]
        assert all(output.output_type != "error" for output in cell.outputs), cell.outputs
        parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        return "\n".join(parts)


def install_here(cache: Path) -> None:
    """The pinned program is installed already; the Python that has it is this one, which runs the same files."""
    program = this_program()
    home = cache / "sahaj" / f"program-{program.version}-{program.sha256[:16]}"
    python = home / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (home / "ready").touch()


def test_a_notebook_of_kaggle_trains_as_a_member_until_the_run_is_over(
    small_swarm: Callable[..., SmallSwarm], hub_stand_in: HubStandIn, tmp_path: Path
):
    token = hub_stand_in.add("asha")
    swarm = small_swarm(access={"users": ["asha"]}, target_batch_size=STEP_SAMPLES, total_steps=3)
    modules = platform_modules(tmp_path / "kaggle", token)
    kernel = Kernel(swarm, KAGGLE | {"PYTHONPATH": str(modules), "HF_TOKEN": ""})
    shown = asyncio.run(kernel.run())
    (session,) = swarm.ledger.sessions()
    assert (session.user, session.client_mode) == ("asha", True)
    assert contributed(shown) > 0
    swarm.wait(lambda: swarm.ledger.sessions()[0].samples == contributed(shown), "credit for what the notebook says")
    assert "Joining from Kaggle" in shown and f"Global step {swarm.run.optimizer.total_steps} of" in shown
    assert "Run the cell again to join again." in shown
    assert token not in nbformat.writes(kernel.client.nb)


@pytest.mark.faults
def test_a_notebook_of_colab_is_stopped_and_run_again_and_is_the_same_peer(small_swarm: Callable[..., SmallSwarm]):
    swarm = small_swarm(target_batch_size=STEP_SAMPLES)

    def counted(sessions: int) -> Callable[[], None]:
        def wait() -> None:
            swarm.wait(lambda: len(with_samples(swarm)) == sessions, f"samples of session {sessions} in the ledger")

        return wait

    first = asyncio.run(Kernel(swarm, COLAB).run(counted(1)))
    assert "Joining from Google Colab" in first and "Stopped" not in first
    said = contributed(first)

    def is_entered() -> bool:
        (one,) = swarm.ledger.sessions()
        return one.left and said <= one.samples <= said + STEP_SAMPLES  # a round that it left may still be committed

    swarm.wait(is_entered, "all of it, and goodbye")
    no_peer_is_left(swarm)

    asyncio.run(Kernel(swarm, COLAB).die(counted(2)))
    swarm.wait(lambda: all(one.left for one in swarm.ledger.sessions()), "goodbye of a peer whose kernel is gone")
    no_peer_is_left(swarm)

    again = asyncio.run(Kernel(swarm, COLAB).run(counted(3)))
    assert contributed(again) > 0
    sessions = swarm.ledger.sessions()
    assert {(one.user, one.client_mode) for one in sessions} == {("~colab", True)}
    assert len(sessions) == 3 and len({one.peer_id for one in sessions}) == 1


def with_samples(swarm: SmallSwarm) -> list[SessionSummary]:
    return [one for one in swarm.ledger.sessions() if one.samples]


def contributed(shown: str) -> int:
    """Samples of which the notebook says in the end that they were brought."""
    (samples,) = CONTRIBUTED.findall(shown)
    return int(samples.replace(",", ""))


def no_peer_is_left(swarm: SmallSwarm) -> None:
    """Whatever the cell has started has ended, its helpers too."""

    def living() -> list[int]:
        return [one.pid for one in psutil.process_iter(["cmdline"]) if swarm.url in (one.info["cmdline"] or [])]

    swarm.wait(lambda: not living(), "end of the notebook's peer")
