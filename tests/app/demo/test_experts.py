"""What the demo makes of experts: the run file's section, and figures from what peers say."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.demo.experts import (
    ExpertsSummary,
    HostSummary,
    described,
    experts_problems,
    experts_section,
    holds_some,
    serves_some,
    summarize_experts,
)
from app.demo.peers import Peer
from app.hosting.console import holdings_line
from coordinator.ledger.ledger import open_ledger
from experts.grid import Uid
from experts.layer.mixture import BatchCounts
from experts.remote.remote_experts import CallCounts
from swarm.run_file import ExpertsSection
from trainer.experts import summary

GOOD = ExpertsSummary(
    experts=16,
    calls=1200,
    failures=30,
    batches=100,
    whole_batches=90,
    loss_with_experts=5.75,
    loss_trunk_alone=5.8,
    hosts=[HostSummary("Hema", 900, "killed in the middle"), HostSummary("Kavi", 2000, "finished")],
)


@pytest.mark.parametrize(("count", "grid"), [(16, [4, 4]), (12, [3, 4]), (7, [7]), (2, [2]), (64, [8, 8])])
def test_so_many_experts_are_in_a_grid(count: int, grid: list[int]):
    section = ExpertsSection(**experts_section(count))
    assert (section.grid, section.experts_of_a_row) == (grid, 2)


def peer(folder: Path, name: str, said: str) -> Peer:
    log = folder / f"{name}.log"
    log.write_text(f"Good evening!\n{said}\nThank you!\n")
    return Peer(name, Mock(), log)


def test_figures_are_those_that_trainers_say_when_they_leave(tmp_path: Path):
    first = summary(CallCounts(asked=1200, answered=1180), BatchCounts(batches=50, whole=45))
    second = summary(CallCounts(asked=300, answered=300), BatchCounts(batches=1000, whole=1000))
    trainers = [peer(tmp_path, "asha", first), peer(tmp_path, "bela", second), peer(tmp_path, "devi", "killed")]
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    ledger.record_evaluation(5, 6.0, sentence_order_loss=None, samples=8, loss_with_experts=5.5)
    ledger.record_evaluation(9, 5.0, sentence_order_loss=None, samples=8)
    found = summarize_experts(16, trainers, [peer(tmp_path, "hema", "")], ledger)
    ledger.close()
    assert (found.calls, found.failures, found.batches, found.whole_batches) == (1500, 20, 1050, 1045)
    assert (found.loss_with_experts, found.loss_trunk_alone) == (5.5, 6.0)
    assert [one.tokens_served for one in found.hosts] == [0]


@pytest.mark.parametrize(
    ("serves", "copies", "holds", "is_serving"),
    [([], [], False, False), ([(0, 1)], [], True, True), ([], [(0, 1)], True, False), ([(0, 0)], [(0, 1)], True, True)],
)
def test_a_host_says_what_it_holds(tmp_path: Path, serves: list[Uid], copies: list[Uid], holds: bool, is_serving: bool):
    host = peer(tmp_path, "hema", f"{holdings_line([], [])}\n{holdings_line(serves, copies)}")
    assert (holds_some(host), serves_some(host)) == (holds, is_serving)


def test_a_host_that_has_said_nothing_holds_nothing(tmp_path: Path):
    host = peer(tmp_path, "hema", "")
    assert not holds_some(host) and not serves_some(host)


def test_the_figures_are_told_in_lines():
    text = "\n".join(described(GOOD))
    assert "1,200 calls, 30 without an answer; in 90.0% of the batches" in text
    assert "5.750 nats with experts, 5.800 of the trunk alone" in text
    assert "Kavi, host: 2,000 tokens served, finished" in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"calls": 0, "failures": 0}, "no expert answered"),
        ({"failures": 1200}, "no expert answered"),
        ({"loss_with_experts": None, "loss_trunk_alone": None}, "no evaluation with experts"),
        ({"hosts": [HostSummary("Hema", 0, "finished")]}, "no host has credit"),
        ({"hosts": [HostSummary("Hema", 5, "ended with an error: no port")]}, "Hema ended with an error: no port"),
    ],
)
def test_what_did_not_happen_is_a_problem(change: dict[str, object], told: str):
    assert experts_problems(GOOD) == []
    (problem,) = experts_problems(replace(GOOD, **change))  # type: ignore[arg-type]
    assert told in problem
