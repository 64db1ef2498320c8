"""What a trainer says that it contributed is what the headers say."""

from typing import Any

import pytest
from msgspec import structs

from averaging.log.header import Ballot, Certificate, Entry, Exclusion, HeaderKind, Part
from tests.averaging.log.headers import header, member
from trainer.credit_tracker import CreditTracker

ASHA, BELA = "asha.1", "bela.0"


def entry(step: int, number: int, **fields: Any) -> Entry:
    ballot = Ballot(number, "coordinator.0")
    return Entry(header(step, ballot=ballot, **fields), Certificate(ballot, votes=("coordinator.0",)))


def test_samples_count_with_the_share_of_the_mean_that_includes_them() -> None:
    credit = CreditTracker(masked_fraction=0.2)
    brought = structs.replace(member(ASHA, 20), samples=8, loss=6.5)
    other = structs.replace(member(BELA, 60), samples=24, loss=6.0)
    parts = (Part(BELA, ("a", "b", "c", "d")),)
    credit.record(entry(1, 1, members=(brought, other), parts=parts), {ASHA}, now=10.0)
    credit.record(
        entry(2, 2, members=(brought, other), parts=parts, exclusions=(Exclusion(ASHA, (3,)),)), {ASHA}, now=12.0
    )
    assert (credit.samples, credit.tokens, credit.steps) == (8 + 6, 100 + 75, 2)
    assert credit.loss == 6.5
    assert credit.swarm_samples_per_second == 16.0
    assert credit.thanks() == "Thank you! You contributed 14 samples (175 tokens) to 2 global steps."


def test_updates_that_are_replayed_say_nothing_about_the_speed_of_the_swarm() -> None:
    credit = CreditTracker(masked_fraction=0.15)
    brought = structs.replace(member(BELA, 60), samples=32)
    parts = (Part(BELA, ("a",)),)
    for step in range(1, 20):
        credit.record(entry(step, step, members=(brought,), parts=parts), {ASHA}, now=step / 1000, is_replayed=True)
    assert credit.swarm_samples_per_second == 0.0
    for step in range(20, 24):
        credit.record(entry(step, step, members=(brought,), parts=parts), {ASHA}, now=0.019 + 4.0 * (step - 19))
    assert credit.swarm_samples_per_second == pytest.approx(8.0)
    credit.record(entry(24, 24, members=(brought,), parts=parts), {ASHA}, now=16.02)  # two at once, after a freeze
    assert credit.swarm_samples_per_second < 16.0


def test_rounds_that_failed_are_the_ballots_in_between() -> None:
    credit = CreditTracker(masked_fraction=0.15)
    for step, number in ((1, 4), (2, 5), (3, 8), (90, 400)):  # the last one after a state was taken over
        credit.record(entry(step, number, parts=(Part(BELA, ("a",)),)), {ASHA}, now=float(step))
    assert (credit.rounds, credit.failures, credit.steps) == (4, 2, 0)
    assert credit.thanks() == "Thank you for joining. None of your results were counted in a global step."
    early = CreditTracker(masked_fraction=0.15)
    assert early.thanks().startswith("Thank you for joining. You left before a global step was done")


def test_the_swarm_has_never_brought_less_than_its_only_volunteer() -> None:
    credit = CreditTracker(masked_fraction=0.15)
    brought = structs.replace(member(ASHA, 60), samples=150)
    parts = (Part(ASHA, ("a",)),)
    assert credit.swarm_samples(3, 100) == 300
    for step in (4, 5, 7, 9):  # 6 and 8 were taken while it was away
        kind = HeaderKind.ROLLBACK if step == 9 else HeaderKind.UPDATE
        credit.record(entry(step, step, kind=kind, members=(brought,), parts=parts), {ASHA}, now=float(step))
    assert credit.samples == 450
    assert credit.swarm_samples(9, 100) == 5 * 100 + 450


def test_one_small_group_is_not_the_swarm() -> None:
    credit = CreditTracker(masked_fraction=0.15)
    update = entry(1, 1, members=(structs.replace(member(ASHA, 60), samples=8),), parts=(Part(ASHA, ("a",)),))
    credit.record(structs.replace(update, certificate=Certificate(update.header.ballot)), {ASHA}, now=1.0)
    assert (credit.samples, credit.swarm_samples(1, 100)) == (8, 100)


def test_a_rollback_is_no_round() -> None:
    credit = CreditTracker(masked_fraction=0.15)
    credit.record(entry(1, 1, kind=HeaderKind.ROLLBACK), {ASHA}, now=1.0)
    assert (credit.rounds, credit.stepped_at) == (0, None)
