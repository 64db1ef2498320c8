"""What a trainer says that it brought is what the headers say."""

from dataclasses import replace
from typing import Any

from msgspec import structs

from averaging.log.header import Ballot, Certificate, Entry, Exclusion, Kind, Part
from averaging.shell.shell import Progress
from tests.averaging.log.headers import header, member
from trainer.credit import Credited
from trainer.loop import may_begin_within, status_of

ASHA, BELA = "asha.1", "bela.0"


def entry(step: int, number: int, **fields: Any) -> Entry:
    ballot = Ballot(number, "coordinator.0")
    return Entry(header(step, ballot=ballot, **fields), Certificate(ballot, votes=("coordinator.0",)))


def test_samples_count_with_the_share_of_the_mean_that_includes_them() -> None:
    credited = Credited(masked_fraction=0.2)
    brought = structs.replace(member(ASHA, 20), samples=8, loss=6.5)
    other = structs.replace(member(BELA, 60), samples=24, loss=6.0)
    parts = (Part(BELA, ("a", "b", "c", "d")),)
    credited.take_in(entry(1, 1, members=(brought, other), parts=parts), {ASHA}, now=10.0)
    credited.take_in(
        entry(2, 2, members=(brought, other), parts=parts, exclusions=(Exclusion(ASHA, 3),)), {ASHA}, now=12.0
    )
    assert (credited.samples, credited.tokens, credited.steps) == (8 + 6, 100 + 75, 2)
    assert (credited.loss, credited.swarm_samples) == (6.5, 64)
    assert credited.swarm_samples_per_second == 16.0
    assert credited.thanks() == "Thank you! You contributed 14 samples (175 tokens) to 2 global steps."


def test_rounds_that_failed_are_the_ballots_in_between() -> None:
    credited = Credited(masked_fraction=0.15)
    for step, number in ((1, 4), (2, 5), (3, 8), (90, 400)):  # the last one after a state was taken over
        credited.take_in(entry(step, number, parts=(Part(BELA, ("a",)),)), {ASHA}, now=float(step))
    assert (credited.rounds, credited.failures, credited.steps) == (4, 2, 0)
    assert credited.thanks().startswith("Thank you for joining. You left before a global step was done")


def test_a_rollback_is_no_round() -> None:
    credited = Credited(masked_fraction=0.15)
    credited.take_in(entry(1, 1, kind=Kind.ROLLBACK), {ASHA}, now=1.0)
    assert (credited.rounds, credited.stepped_at) == (0, None)


def test_a_peer_that_has_to_leave_stays_if_the_round_may_begin_in_time() -> None:
    assert may_begin_within(5.0, gathered=750, target=1000, since=15.0)
    assert not may_begin_within(4.9, gathered=750, target=1000, since=15.0)
    assert not may_begin_within(5.0, gathered=0, target=1000, since=15.0)


def test_what_a_peer_says_that_it_does() -> None:
    training = Progress(gathered=10, own=5, peers=3, in_round=False, is_behind=False)
    assert status_of(training, has_state=True) == "training"
    assert status_of(replace(training, peers=1), has_state=True) == "training alone until others join"
    assert status_of(replace(training, in_round=True), has_state=True) == "averaging"
    assert status_of(replace(training, rests=True), has_state=True) == "following the others"
    assert status_of(replace(training, rests=True, share=0.5), has_state=True) == "averaging for the others"
    assert status_of(replace(training, is_behind=True), has_state=True) == "catching up with the others"
    assert status_of(training, has_state=False) == "loading the state of the run"
    assert status_of(replace(training, peers=1), has_state=False) == "waiting for the others"
