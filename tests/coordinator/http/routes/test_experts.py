"""Experts and their hosts, as the service tells of them."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from coordinator.http.app import make_app
from coordinator.http.routes.experts import describe_experts
from coordinator.http.schemas import ExpertHealth
from coordinator.ledger.ledger import Ledger
from experts.directory.assignment import Holdings
from experts.directory.records import Listed
from experts.versions import rolled_back
from tests.coordinator.http.conftest import Serve, make_run
from tests.recorded_month.hosting import hosts, peer_of, with_experts

Ask = Callable[[str], Any]


def listed(number: int, user: str, serves: dict[Any, int], copies: dict[Any, int], *, leaves: bool = False) -> Listed:
    peer = peer_of(number)
    return Listed(peer, user, Holdings(str(peer), serves, copies, leaves), 0.0, time.time() + 30)


def test_an_expert_is_served_copied_or_nobodys():
    found = describe_experts(
        (2, 2),
        [
            listed(0, "hema", {(0, 0): 5}, {(0, 1): 7}),
            listed(1, "kavi", {(0, 0): 6}, {(0, 1): 9}),
            listed(2, "leela", {(1, 0): 5}, {}, leaves=True),
        ],
    )
    assert [(one.health, one.served_by, one.copied_by, one.steps) for one in found] == [
        (ExpertHealth.SERVING, "kavi", [], 6),
        (ExpertHealth.STANDBY, None, ["hema", "kavi"], 9),
        (ExpertHealth.NONE, None, [], 0),
        (ExpertHealth.NONE, None, [], 0),
    ]


def test_steps_are_those_of_the_expert_after_a_rollback_of_the_run_too():
    (found, *_) = describe_experts((1, 1), [listed(0, "hema", {(0, 0): rolled_back(5, newest=100)}, {})])
    assert found.steps == 5


@pytest.fixture
def ask(serve: Serve, ledger: Ledger) -> Ask:
    """What the service of a run with experts and three hosts answers."""
    service = serve(run=with_experts(make_run()))
    app = make_app(replace(service.context, hosts=hosts))
    client: Any = TestClient(app)
    return lambda path: client.get(path).json()


def test_everybody_may_see_who_hosts_which(ask: Ask, ledger: Ledger):
    ledger.record_evaluation(4, 9.0, sentence_order_loss=0.69, samples=64, loss_with_experts=8.5, now=1200.0)
    ledger.record_evaluation(6, 8.9, sentence_order_loss=0.69, samples=64, now=1300.0)  # no host was there
    answer = ask("/api/experts")
    assert (answer["grid"], len(answer["experts"])) == ([4, 4], 16)
    assert [(one["user"], one["serves"], one["copies"], one["verified"]) for one in answer["hosts"]] == [
        ("hema", 7, 8, True),
        ("~Kavi of the <b>long line</b>", 7, 7, False),
        ("leela", 1, 0, True),
    ]
    assert answer["hosts"][2]["leaves"]
    assert (answer["losses"]["loss"], answer["losses"]["loss_with_experts"]) == (9.0, 8.5)
    assert ask("/api/run")["experts"] == 16
    assert not any(str(peer_of(number)) in str(answer) for number in range(3)), "peers are nobody's business"


def test_a_run_without_experts_has_none(serve: Serve):
    service = serve()
    assert service.client.get("/api/experts").json() == {
        "grid": [],
        "experts_of_a_row": 0,
        "hosts": [],
        "experts": [],
        "losses": None,
    }
    assert service.client.get("/api/run").json()["experts"] == 0
