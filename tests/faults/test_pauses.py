"""Fifty pauses of a trainer: what it had gathered goes into the next global step, and nobody waits for it."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import trainer.training_loop
from tests.support.small_swarm import SmallSwarm, newest_step_said, run_closely, text_of
from tests.support.waiting import PATIENCE
from trainer.training_step import BatchResult

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PAUSES = 50


def run_counting(arguments: list[str]) -> None:
    """Be `sahaj join`, and write down how many samples were computed for an update of the swarm."""
    compute = trainer.training_loop.TrainingLoop._compute
    file, total = Path(arguments[arguments.index("--state") + 1]) / "computed", 0

    def counting(loop: trainer.training_loop.TrainingLoop) -> BatchResult | None:
        nonlocal total
        result = compute(loop)
        if result is not None and result.counts:
            total += result.samples
            file.write_text(str(total))
        return result

    trainer.training_loop.TrainingLoop._compute = counting  # type: ignore[method-assign]
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

    for number in range(1, PAUSES + 1):
        before = samples()
        swarm.wait(lambda: samples() > before, "batch of asha")  # noqa: B023
        order.touch()
        swarm.wait(lambda: text_of(asha).count("Pauses: until") == number, f"pause {number}")  # noqa: B023
        if number % 10 == 0:
            stands, gathered = newest_step_said(bela), samples()
            swarm.wait(lambda: newest_step_said(bela) >= stands + 2, "steps of bela alone")  # noqa: B023
            assert samples() == gathered, "a trainer that pauses computes nothing"
            swarm.wait(lambda: seen() == gathered, "what asha had gathered")  # noqa: B023
            (session,) = [one for one in swarm.ledger.sessions() if one.user == "~asha"]
            assert session.pause == "paused"
        order.unlink()
        swarm.wait(lambda: text_of(asha).count("Goes on.") == number, f"end of pause {number}")  # noqa: B023
    asha.process.send_signal(signal.SIGTERM)
    assert asha.process.wait(PATIENCE) == 0
    assert samples() > 0
    swarm.wait(lambda: seen() == samples(), "all that asha has computed")
    assert "Traceback" not in text_of(asha) + text_of(bela)
