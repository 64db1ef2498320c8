"""Hosts that are killed and frozen while callers call: no call fails or waits too long, and a standby serves."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.experts.remote.processes import ADDRESSES, ALL, STOP, call, host, keep
from tests.support.forked import Forked, start_function
from tests.support.waiting import PATIENCE, wait_until

TIMEOUT = 2.0  # seconds of a call
MARGIN = 1.0  # beyond it, on a machine that is not quite quiet
CALLERS = ("asha", "bela", "chitra")


class Processes:
    """Two hosts with room for every expert, three callers, and a peer by which they join."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.running: dict[str, Forked] = {}

    def start(self) -> None:
        self.begin("keeper", keep)
        wait_until((self.folder / ADDRESSES).exists, self.words("addresses"))
        for name in ("host0", "host1"):
            self.begin(name, host, name, len(ALL))
        for name in CALLERS:
            self.begin(name, call, name, TIMEOUT)
        self.wait_for_answers()

    def begin(self, name: str, function: Any, *arguments: object) -> None:
        self.running[name] = start_function(function, self.folder, *arguments, out=self.folder / f"{name}.log")

    def said(self, name: str) -> dict[str, Any]:
        file = self.folder / f"{name}.json"
        said: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return said

    def wait_for_answers(self) -> None:
        """Until each caller has had new batches that all experts answered."""
        before = {name: self.said(name).get("answered_by_all", 0) for name in CALLERS}
        wait_until(
            lambda: all(self.said(name).get("answered_by_all", 0) >= before[name] + 3 for name in CALLERS),
            self.words("answers of all experts to all callers"),
        )

    def wait_for_copies(self) -> dict[str, int]:
        """Until each expert is served once and copied once, after some steps; the versions of copies."""

        def settled() -> bool:
            hosts = [self.said(name) for name in ("host0", "host1")]
            served = [uid for one in hosts for uid in one.get("serves", {})]
            copied = {uid: version for one in hosts for uid, version in one.get("copies", {}).items()}
            return len(served) == len(set(served)) == len(copied) == len(ALL) and min(copied.values()) > 0

        wait_until(settled, self.words("a copy of each expert"))
        return {uid: version for name in ("host0", "host1") for uid, version in self.said(name)["copies"].items()}

    def a_host_that_serves(self) -> tuple[str, str]:
        """The host with most experts, and the other one."""
        gone, other = sorted(("host0", "host1"), key=lambda name: len(self.said(name)["serves"]), reverse=True)
        assert self.said(gone)["serves"]
        return gone, other

    def words(self, what: str) -> Any:
        def all_logs() -> str:
            logs = [f"--- {name}: {self.said(name)}\n{log.read_text()[-3000:]}" for name, log in self._logs()]
            return "\n".join([what, *logs, ""])

        return all_logs

    def _logs(self) -> list[tuple[str, Path]]:
        return [(name, self.folder / f"{name}.log") for name in self.running]

    def of(self, name: str) -> list[psutil.Process]:
        """A process with its helpers."""
        process = psutil.Process(self.running[name].pid)
        return [process, *process.children(recursive=True)]

    def end_well(self, *names: str) -> None:
        """All of these end when they are told, without a word of an error."""
        (self.folder / STOP).touch()
        for name in names:
            assert self.running[name].wait(PATIENCE) == 0, self.words(name)()
        for name, log in self._logs():
            assert "Traceback" not in log.read_text(), f"{name}\n{log.read_text()}"

    def kill_all(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill_all()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    them = Processes(tmp_path)
    try:
        them.start()
        yield them
    finally:
        them.kill_all()


@pytest.mark.faults
def test_when_a_host_is_killed_no_call_fails_and_the_standby_serves_from_its_copy(processes: Processes):
    copies = processes.wait_for_copies()
    gone, standby = processes.a_host_that_serves()
    of_gone = processes.said(gone)["serves"]
    processes.running[gone].kill()
    wait_until(
        lambda: len(processes.said(standby)["serves"]) == len(ALL), processes.words("all experts on the standby")
    )
    processes.wait_for_answers()
    served = processes.said(standby)["serves"]
    assert all(served[uid] >= copies[uid] for uid in of_gone)
    processes.end_well(standby, *CALLERS, "keeper")


@pytest.mark.faults
@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_no_call_takes_longer_than_the_timeout_whatever_happens_to_a_host(processes: Processes, fault: str):
    processes.wait_for_copies()
    gone, standby = processes.a_host_that_serves()
    if fault == "kill":
        for process in processes.of(gone):
            process.kill()
    else:
        for process in processes.of(gone):
            process.suspend()
    wait_until(
        lambda: len(processes.said(standby)["serves"]) == len(ALL), processes.words("all experts on the standby")
    )
    processes.wait_for_answers()
    if fault == "freeze":
        for process in processes.of(gone):
            process.resume()
        processes.wait_for_copies()
        processes.wait_for_answers()
    for name in CALLERS:
        said = processes.said(name)
        assert said["slowest"] <= TIMEOUT + MARGIN, processes.words(name)()
    survivors = (standby, gone) if fault == "freeze" else (standby,)
    processes.end_well(*survivors, *CALLERS, "keeper")


@pytest.mark.faults
def test_after_the_end_of_all_hosts_experts_are_what_they_were(processes: Processes):
    processes.wait_for_copies()
    for name in ("host0", "host1"):
        processes.running[name].kill()
        processes.running[name].wait(PATIENCE)
    before = {uid: version for name in ("host0", "host1") for uid, version in processes.said(name)["copies"].items()}
    for name in ("host0", "host1"):
        (processes.folder / f"{name}.json").unlink()
        processes.begin(name, host, name, len(ALL))
    processes.wait_for_answers()
    processes.wait_for_copies()
    after = {uid: version for name in ("host0", "host1") for uid, version in processes.said(name)["serves"].items()}
    assert all(after[uid] >= version for uid, version in before.items()), (before, after)
    processes.end_well("host0", "host1", *CALLERS, "keeper")
