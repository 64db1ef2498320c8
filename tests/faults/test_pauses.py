"""Pauses of a trainer: what it had gathered goes into the next step; for a long one it leaves, and comes back."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import trainer.training_loop
from coordinator.access.person_key import issue_key
from coordinator.ledger.answers import SessionSummary
from coordinator.state_folder import AUTHORITY
from swarm.access.passes import load_authority
from tests.support.small_swarm import COUNTING, SmallSwarm, living_processes, newest_step_said, run_closely, text_of
from tests.support.waiting import PATIENCE
from tests.trainer.pausing.desktop import needs_bus, running_desktop
from trainer.data import Batch
from trainer.training_step import BatchResult

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PAUSES = 50


def run_counting(arguments: list[str]) -> None:
    """Be `sahaj join`, and write down how many samples were computed for an update of the swarm."""
    compute = trainer.training_loop.TrainingLoop._compute
    file, total = Path(arguments[arguments.index("--state") + 1]) / "computed", 0

    def counting(loop: trainer.training_loop.TrainingLoop, batch: Batch) -> BatchResult | None:
        nonlocal total
        result = compute(loop, batch)
        if result is not None and result.counts:
            total += result.samples
            file.write_text(str(total))
        return result

    trainer.training_loop.TrainingLoop._compute = counting  # type: ignore[assignment, method-assign]
    run_closely(arguments)


def test_no_sample_is_lost_over_fifty_pauses(small_swarm: Callable[..., SmallSwarm], tmp_path: Path) -> None:
    swarm = small_swarm(target_batch_size=2048)
    swarm.run_as["asha"] = run_counting
    order, computed = tmp_path / "pause", tmp_path / "peers" / "asha" / "computed"
    asha = swarm.trainer("asha", "--pause-file", order, "--grace", PATIENCE / 2)
    bela = swarm.trainer("bela")
    swarm.wait_for_step(1)

    def samples() -> int:
        return int(computed.read_text() or 0) if computed.exists() else 0

    def seen() -> int:
        return sum(one.samples for one in swarm.ledger.sessions() if one.user == "~asha")

    def told() -> list[str | None]:
        return [one.pause for one in swarm.ledger.sessions() if one.user == "~asha"]

    for number in range(1, PAUSES + 1):
        before = samples()
        swarm.wait(lambda: samples() > before, "batch of asha")  # noqa: B023
        order.touch()
        swarm.wait(lambda: text_of(asha).count("Pausing: the file of") == number, f"pause {number}")  # noqa: B023
        if number % 10 == 0:
            stands, gathered = newest_step_said(bela), samples()
            swarm.wait(lambda: newest_step_said(bela) >= stands + 2, "steps of bela alone")  # noqa: B023
            assert samples() == gathered, "a trainer that pauses computes nothing"
            swarm.wait(lambda: seen() == gathered, "what asha had gathered")  # noqa: B023
            swarm.wait(lambda: told() == ["paused"], "word of the pause in the ledger")
        order.unlink()
        swarm.wait(lambda: text_of(asha).count("Training again.") == number, f"end of pause {number}")  # noqa: B023
    asha.process.send_signal(signal.SIGTERM)
    assert asha.process.wait(PATIENCE) == 0
    assert samples() > 0
    swarm.wait(lambda: seen() == samples(), "all that asha has computed")
    assert "Traceback" not in text_of(asha) + text_of(bela)


def test_a_trainer_is_paused_and_resumed_from_the_page_over_a_restart_of_the_coordinator(
    small_swarm: Callable[..., SmallSwarm],
) -> None:
    swarm = small_swarm(target_batch_size=2048)
    asha, bela = swarm.trainer("asha"), swarm.trainer("bela")
    swarm.wait(lambda: asha.said(COUNTING) and bela.said(COUNTING), "first samples")
    order(swarm, "pause")
    swarm.wait(
        lambda: "Pausing: you have paused this machine on the page My machines" in text_of(asha), "pause of asha"
    )
    swarm.wait(lambda: [one.pause for one in _sessions(swarm)] == ["paused"], "pause in the ledger")
    stands = newest_step_said(bela)
    swarm.wait(lambda: newest_step_said(bela) >= stands + 2, "steps of bela alone")
    first = next(one for one in swarm.peers if one.name == "coordinator")
    first.process.send_signal(signal.SIGTERM)
    first.process.wait(PATIENCE)
    swarm.coordinator()
    assert "Training again." not in text_of(asha)
    order(swarm, "resume")
    swarm.wait(lambda: "Training again." in text_of(asha), "end of the pause")
    assert "Pausing:" not in text_of(bela)


def test_a_trainer_that_has_left_for_a_pause_of_the_page_comes_back_when_it_is_resumed(
    small_swarm: Callable[..., SmallSwarm], tmp_path: Path
) -> None:
    """It leaves at once here, not after ten minutes."""
    (tmp_path / "sitecustomize.py").write_text(
        "from trainer.pausing.decision import Cause\nCause.stays = property(lambda cause: 0.0)\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    swarm = small_swarm(target_batch_size=2048)
    asha = swarm.trainer("asha", by_command=True, environment={"PYTHONPATH": path})
    swarm.wait(lambda: asha.said(COUNTING), "first sample of asha")
    order(swarm, "pause")
    waits = "Not joining yet: you have paused this machine on the page My machines"
    swarm.wait(lambda: waits in text_of(asha), "pause of asha")
    swarm.wait(lambda: len(living_processes(asha)) == 1, "end of its helpers")
    swarm.wait(lambda: [one.pause for one in _sessions(swarm) if one.left] == ["paused"], "goodbye")
    order(swarm, "resume")
    swarm.wait(lambda: len(asha.said(COUNTING)) == 2, "first sample after the pause")
    assert len({one.peer_id for one in _sessions(swarm)}) == 1
    assert "Traceback" not in text_of(asha)


def order(swarm: SmallSwarm, what: str) -> None:
    """Order a pause of asha's machine, or its end, as the page does."""
    swarm.wait(lambda: _sessions(swarm), "session of asha")
    peer_id = _sessions(swarm)[0].peer_id
    key, _ = issue_key(load_authority(swarm.state / AUTHORITY), swarm.run.name, "~asha", peer_id)
    url, headers = f"{swarm.url}/api/me/machines/{what}", {"Authorization": f"Bearer {key}"}
    answer = httpx.post(url, json={}, headers=headers, timeout=PATIENCE, trust_env=False)
    (own,) = answer.json()["machines"]
    assert own["peer_id"] == peer_id and own["ordered"] is (what == "pause")


@needs_bus
def test_where_bytes_cost_a_trainer_leaves_the_run_and_comes_back_as_the_same_person(
    small_swarm: Callable[..., SmallSwarm], tmp_path_factory: pytest.TempPathFactory
) -> None:
    swarm = small_swarm(target_batch_size=2048)
    swarm.trainer("bela")
    with running_desktop(tmp_path_factory.mktemp("desktop"), has_gnome=False) as desktop:
        bus = {"DBUS_SYSTEM_BUS_ADDRESS": desktop.address}
        asha = swarm.trainer("asha", by_command=True, is_considerate=True, environment=bus)
        swarm.wait(lambda: asha.said(COUNTING), "first sample of asha")
        desktop.metered = 1
        swarm.wait(lambda: "Not joining yet: this connection is metered" in text_of(asha), "pause of asha")
        swarm.wait(lambda: len(living_processes(asha)) == 1, "end of its helpers")
        (own,) = living_processes(asha)
        assert own.split()[0] == str(asha.process.pid)
        swarm.wait(lambda: [one.pause for one in _sessions(swarm) if one.left] == ["metered line"], "goodbye")
        (before,) = _sessions(swarm)
        desktop.metered = 2
        swarm.wait(lambda: len(asha.said(COUNTING)) == 2, "first sample after the pause")
        swarm.wait(lambda: sum(one.samples for one in _sessions(swarm)) > before.samples, "credit after the pause")
        assert len({one.peer_id for one in _sessions(swarm)}) == 1
        desktop.metered = 3
        swarm.wait(lambda: text_of(asha).count("Not joining yet") == 2, "another pause")
        asha.process.send_signal(signal.SIGTERM)
        assert asha.process.wait(PATIENCE) == 130
    assert "Traceback" not in text_of(asha)


def _sessions(swarm: SmallSwarm) -> list[SessionSummary]:
    return [one for one in swarm.ledger.people.newest_sessions(10) if one.user == "~asha"]
