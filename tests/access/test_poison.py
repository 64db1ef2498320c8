"""A trainer whose gradients are multiplied by -10, in a swarm of real processes: it is named, and changes nothing."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import entries_after
from averaging.log.shares import LOUDEST
from coordinator.ledger.rounds import GRADIENT
from coordinator.state_folder import LOG
from tests.access.attackers.loud import TIMES, run_loudly
from tests.support.small_swarm import SmallSwarm, text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults, pytest.mark.timeout(1200)]

HONEST = ("asha", "bela", "chand", "dipa", "esha")
STEPS = 30  # global steps, after which losses are compared
SPREAD = 0.15  # nats, by which runs without a liar differ here


@contextlib.contextmanager
def a_run(folder: Path, corpus: Path, tokenizer: Path, *, lies: bool) -> Iterator[SmallSwarm]:
    """Five trainers and then Eve, once they have taken the steps; of fewer than five nobody can tell who is odd."""
    swarm = SmallSwarm(
        folder,
        corpus,
        tokenizer,
        target_batch_size=1024,
        access={"open": True, "robust": "enforce"},
        coordinator={"evaluate_every": STEPS // 2, "checkpoint_every": STEPS},
    )
    if lies:
        swarm.run_as["eve"] = run_loudly
    try:
        swarm.coordinator()
        for name in HONEST:
            swarm.trainer(name)
        swarm.wait(lambda: any(one.peers == len(HONEST) for one in swarm.steps()), "global step of the five")
        swarm.trainer("eve")
        swarm.wait(lambda: any(one.step >= STEPS for one in swarm.ledger.evaluations()), "the second evaluation")
        yield swarm
    finally:
        swarm.kill_all()


def told_in_headers(swarm: SmallSwarm) -> set[str]:
    """The users that headers of the log say are on probation."""
    entries, _ = entries_after(swarm.state / LOG / LOG_FILE, None, 10_000)
    return {user for entry in entries for user in entry.header.on_probation}


def loss_of(swarm: SmallSwarm) -> float:
    """Held out, after the steps."""
    return next(one.loss for one in swarm.ledger.evaluations() if one.step >= STEPS)


def test_a_liar_is_named_and_the_loss_is_as_without(corpus: Path, tokenizer_folder: Path, tmp_path: Path):
    (tmp_path / "clean").mkdir()
    (tmp_path / "attacked").mkdir()
    with a_run(tmp_path / "clean", corpus, tokenizer_folder, lies=False) as swarm:
        clean = loss_of(swarm)
        assert not [one for one in swarm.ledger.rounds.flags() if one.kind == GRADIENT]
    with a_run(tmp_path / "attacked", corpus, tokenizer_folder, lies=True) as swarm:
        swarm.wait(swarm.ledger.rounds.flags, "a flag")
        flags = [one for one in swarm.ledger.rounds.flags() if one.kind == GRADIENT]
        assert {one.user for one in flags} == {"~eve"}
        times = float(flags[0].what.split(" times")[0].rpartition(" ")[2])
        assert -TIMES / LOUDEST < times < -TIMES * LOUDEST  # so loud is an honest gradient at most
        assert "attention: ~eve sends gradients" in text_of(swarm.peers[0])
        assert loss_of(swarm) < clean + SPREAD
        swarm.wait(lambda: "~eve sends" in text_of(swarm.peers[0]) and told_in_headers(swarm), "header that doubts her")
        assert told_in_headers(swarm) == {"~eve"}
        assert "left out of the mean until" in text_of(swarm.peers[0])
        swarm.wait(lambda: "your results are not used" in text_of(swarm.peers[-1]), "word of it to her")
