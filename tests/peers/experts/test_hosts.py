"""Volunteers host the experts of a run by its link: what is lost when hosts leave, are killed, freeze, or all end."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from app.demo.peers import Peer
from app.organizing.admin import admin
from coordinator.state_folder import ADMIN_KEY
from coordinator.state_folder import EXPERTS as EXPERTS_FOLDER
from experts import file_names
from experts.grid import Uid
from experts.host.files import StateFiles
from experts.host.settings import settings_of
from experts.host.trained_expert import TrainedExpert
from experts.released import steps_of
from experts.versions import rollbacks, steps_taken
from swarm.errors import SwarmError
from tests.peers.experts.callers import SAID, STOP, call_experts, host_closely
from tests.support.forked import start_function
from tests.support.small_swarm import FRIGHTENING, SmallSwarm, text_of
from tests.support.waiting import PATIENCE

EXPERTS = {"grid": [2, 2], "width": 16, "hidden": 32}
COUNT = 4
TIMEOUT = 2.0  # seconds of a call
MARGIN = 1.0  # beyond it, on a machine that is not quite quiet
SERVING_FROM = re.compile(r"serving expert \((\d), (\d)\) from step (\d+)")
HOLDINGS = re.compile(r"Serving (.*); keeping copies of (.*)\.$", re.MULTILINE)
UID = re.compile(r"\d\.\d")
GOES_BACK = re.compile(r"expert \((\d), (\d)\) goes back to step (\d+)")
RECOVERED = re.compile(r"expert \((\d), (\d)\) begins with the coordinator's state of step (\d+)")


class Hosted:
    """A run with experts, its hosts, and a caller."""

    def __init__(self, swarm: SmallSwarm):
        self.swarm = swarm
        self.caller = Peer("caller", None, swarm.folder / "logs" / "caller.log")  # type: ignore[arg-type]
        self.folder = swarm.folder / "peers" / "caller"

    def host(self, name: str, *options: object) -> Peer:
        """Start a host, or start it again."""
        self.swarm.run_as[name] = host_closely
        return self.swarm.host_experts(name, *options)

    def call(self) -> None:
        """Start to call all experts."""
        arguments = (self.swarm.url, self.folder, TIMEOUT)
        self.caller.process = start_function(call_experts, *arguments, out=self.caller.log)  # type: ignore[assignment]
        self.swarm.peers.append(self.caller)

    def said(self) -> dict[str, Any]:
        file = self.folder / SAID
        said: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"answered_by_all": 0}
        return said

    def wait_for_answers(self) -> None:
        """Until all experts have answered some more batches of the caller."""
        before = self.said()["answered_by_all"]
        self.swarm.wait(lambda: self.said()["answered_by_all"] >= before + 3, "answers of all experts")

    def wait_for_copies(self, name: str, newer_than: dict[Uid, int] | None = None) -> None:
        """Until this host keeps copies of all experts, which have taken steps."""

        def copied() -> bool:
            versions, before = self.files(name), newer_than or {}
            return len(versions) == COUNT and all(steps > before.get(uid, 0) for uid, steps in versions.items())

        self.swarm.wait(copied, f"copies at {name}")

    def files(self, name: str) -> dict[Uid, int]:
        """The steps of the states in a host's files; none if it has no folder for them yet."""
        folders = list((self.swarm.folder / "peers" / name).glob("*/experts-*"))
        return self.states_in(folders[0]) if folders else {}

    def states_in(self, folder: Path) -> dict[Uid, int]:
        """The steps of states, which another process may be writing."""
        return {uid: expert.version for uid, expert in self._experts_in(folder).items()}

    def have_learned(self, name: str) -> bool:
        """Whether the experts in a host's files are others than they were at the beginning."""
        (folder,) = (self.swarm.folder / "peers" / name).glob("*/experts-*")
        experts = self._experts_in(folder).items()
        return all(not torch.equal(one.network.out.weight, one.settings.new(uid).out.weight) for uid, one in experts)

    def _experts_in(self, folder: Path) -> dict[Uid, TrainedExpert]:
        settings = settings_of(self.swarm.run)
        assert settings is not None
        files = StateFiles(folder, settings)
        uids = [tuple(map(int, path.stem.split("."))) for path in folder.glob("[0-9]*.safetensors")]
        return {uid: expert for uid in uids if (expert := files.read(uid)) is not None}

    def has_each_once(self, *hosts: Peer) -> bool:
        """Whether each expert is served by one of the hosts, and copied by another one, as they said last."""
        held = [HOLDINGS.findall(text_of(host))[-1:] for host in hosts]
        served, copied = (
            sorted(uid for said in held for line in said for uid in UID.findall(line[part])) for part in (0, 1)
        )
        return served == copied and len(set(served)) == len(served) == COUNT

    def logged(self, name: str, pattern: re.Pattern[str]) -> dict[Uid, int]:
        """The newest count of steps that a host has logged for each expert."""
        logs = (self.swarm.folder / "peers" / name / "logs").glob("*.jsonl")
        found = pattern.findall("\n".join(log.read_text() for log in logs))
        return {(int(row), int(column)): int(steps) for row, column, steps in found}

    def end_well(self, *hosts: Peer) -> None:
        """The caller and these hosts end when they are told, without a word of an error."""
        (self.folder / STOP).touch()
        assert self.caller.end(PATIENCE) == 0, text_of(self.caller)
        for host in hosts:
            assert host.stop(PATIENCE) == 0, text_of(host)
            assert not FRIGHTENING.search(text_of(host)), text_of(host)
        assert "Traceback" not in text_of(self.swarm.peers[0])


@pytest.fixture
def hosted(small_swarm: Callable[..., SmallSwarm]) -> Callable[..., Hosted]:
    def make(**settings: Any) -> Hosted:
        return Hosted(small_swarm(experts=EXPERTS, **settings))

    return make


@pytest.mark.swarm
def test_a_host_answers_with_its_pass_and_goes_on_after_a_restart(hosted: Callable[..., Hosted]):
    run = hosted()
    host = run.host("hema", "--experts", 8)
    run.call()
    run.wait_for_answers()
    second = run.host("hema")
    run.swarm.wait(lambda: second.process.poll() is not None, "end of a second host in the same folder")
    assert second.process.returncode == SwarmError.exit_status
    assert "another process on this machine is this peer" in second.last_words()
    assert host.stop(PATIENCE) == 0, text_of(host)
    assert "The states of 4 experts are written." in text_of(host)
    assert "Serving experts 0.0, 0.1, 1.0, 1.1" in text_of(host)
    before = run.files("hema")
    assert min(before.values()) > 0
    assert run.have_learned("hema"), "the coordinator has told where the schedule is"
    host = run.host("hema")
    run.wait_for_answers()
    assert run.logged("hema", SERVING_FROM) == before
    run.end_well(host)
    after = run.files("hema")
    assert all(after[uid] > before[uid] for uid in before)


@pytest.mark.faults
@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_standby_goes_on_from_its_copies_and_no_call_waits_too_long(hosted: Callable[..., Hosted], fault: str):
    run = hosted()
    first = run.host("hema")
    run.call()
    run.wait_for_answers()
    second = run.host("kavi")
    run.wait_for_copies("kavi")
    copies = run.files("kavi")
    if fault == "kill":
        first.kill()
    else:
        frozen = [psutil.Process(first.process.pid), *psutil.Process(first.process.pid).children(recursive=True)]
        for process in frozen:
            process.suspend()
    run.swarm.wait(lambda: run.logged("kavi", SERVING_FROM).keys() == copies.keys(), "the standby serves")
    taken_over = run.logged("kavi", SERVING_FROM)
    assert all(taken_over[uid] >= copies[uid] for uid in copies), (taken_over, copies)
    run.wait_for_answers()
    if fault == "freeze":
        for process in frozen:
            process.resume()
        run.swarm.wait(lambda: run.has_each_once(first, second), "each expert served once and copied once")
        run.wait_for_answers()
    assert run.said()["slowest"] <= TIMEOUT + MARGIN
    run.end_well(*((second,) if fault == "kill" else (second, first)))


@pytest.mark.faults
def test_a_host_that_leaves_hands_over_everything(hosted: Callable[..., Hosted]):
    run = hosted()
    first = run.host("hema")
    run.call()
    run.wait_for_answers()
    second = run.host("kavi")
    run.wait_for_copies("kavi")
    run.wait_for_copies("kavi", newer_than=run.files("kavi"))  # by then the directory tells that it keeps some
    assert first.stop(PATIENCE) == 0, text_of(first)
    assert run.logged("kavi", SERVING_FROM) == run.files("hema"), "it has ended only when all was handed over"
    run.wait_for_answers()
    run.end_well(second)


@pytest.mark.faults
def test_after_the_end_of_everything_experts_are_what_the_last_checkpoint_has(hosted: Callable[..., Hosted]):
    run = hosted(target_batch_size=2048, access={"open": True})
    swarm = run.swarm
    host, trainer = run.host("hema"), swarm.trainer("asha")
    run.call()

    def released() -> dict[Uid, int]:
        files = sorted(
            swarm.state.glob(f"checkpoints/checkpoint-*/{file_names.EXPERTS}"), key=lambda path: path.stat().st_mtime
        )
        return steps_of(files[-1]) if files else {}

    swarm.wait(lambda: len(released()) == COUNT, "steps of all experts in a checkpoint")
    for peer in (swarm.peers[0], host, trainer, run.caller):
        peer.kill()
    kept, last = run.states_in(swarm.state / EXPERTS_FOLDER), released()
    assert all(kept[uid] >= last[uid] for uid in last), "the file is made of the states"
    shutil.rmtree(swarm.folder / "peers" / "hema")
    swarm.coordinator()
    host = run.host("hema")
    run.call()
    run.wait_for_answers()
    assert run.logged("hema", RECOVERED) == run.logged("hema", SERVING_FROM) == kept
    run.end_well(host)


@pytest.mark.faults
def test_when_the_run_goes_back_its_experts_do(hosted: Callable[..., Hosted]):
    run = hosted(target_batch_size=2048, access={"open": True}, coordinator={"keep_checkpoints": 100})
    swarm = run.swarm
    host, trainer = run.host("hema"), swarm.trainer("asha")
    run.call()

    def whole() -> list[int]:
        folders = (file.parent.name for file in swarm.state.glob(f"checkpoints/checkpoint-*/{file_names.EXPERTS}"))
        return sorted(int(name.removeprefix("checkpoint-")) for name in folders)

    swarm.wait(lambda: len(whole()) >= 2, "two checkpoints with states of experts")
    chosen = whole()[-1]
    then = steps_of(swarm.state / "checkpoints" / f"checkpoint-{chosen}" / file_names.EXPERTS)
    swarm.wait_for_step(chosen + 2)
    admin(swarm.url, swarm.state / ADMIN_KEY, "restore", str(chosen))
    swarm.wait(lambda: run.logged("hema", GOES_BACK).keys() == then.keys(), "the host that goes back")
    assert run.logged("hema", GOES_BACK) == then
    run.wait_for_answers()
    assert trainer.stop(PATIENCE) == 0
    run.end_well(host)
    after = run.files("hema")
    assert all(rollbacks(after[uid]) == 1 and steps_taken(after[uid]) > then[uid] for uid in then), "they learn on"


@pytest.mark.faults
def test_a_banned_host_leaves(hosted: Callable[..., Hosted]):
    run = hosted()
    host = run.host("hema")
    run.call()
    run.wait_for_answers()
    admin(run.swarm.url, run.swarm.state / ADMIN_KEY, "ban", "~hema")
    run.swarm.wait(lambda: host.process.poll() is not None, "end of the banned one")
    assert "The organizer has banned you" in text_of(host)
    assert "The states of 4 experts are written." in text_of(host)
    run.end_well()
