"""What hosts of experts are credited: what trainers of others tell, once, and no more than those can have needed."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.ledger.ingest import SessionReport, day_of
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.serving import ServingBound, newly_counted

Report = Callable[..., SessionReport]
BOUND = ServingBound(experts_of_a_row=2, masked_fraction=0.25)  # 66 tokens for a sample of 128
HEMA, KAVI = "peer-h", "peer-k"


@pytest.mark.parametrize(
    ("told", "counted", "most", "new"),
    [
        ({"a": 10}, {}, 100, {"a": 10}),
        ({"a": 10}, {"a": 10}, 100, {}),
        ({"a": 5}, {"a": 10}, 100, {}),
        ({"a": 10, "b": 20}, {"a": 4}, 100, {"a": 6, "b": 20}),
        ({"a": 100, "b": 300}, {}, 40, {"a": 10, "b": 30}),
        ({"a": 40, "b": 300}, {"a": 40}, 40, {}),
        ({"a": 1, "b": 999}, {}, 100, {"b": 99}),
        ({"a": 50}, {"a": 60}, 40, {}),
    ],
)
def test_tokens_count_once_and_within_the_bound_of_all_hosts(
    told: dict[str, int], counted: dict[str, int], most: int, new: dict[str, int]
):
    assert newly_counted(told, counted, most) == new


def test_naming_more_and_more_hosts_mints_nothing():
    counted: dict[str, int] = {}
    for host in map(str, range(50)):
        for name, more in newly_counted({**counted, host: 10**9}, counted, 1000).items():
            counted[name] = counted.get(name, 0) + more
    assert sum(counted.values()) == 1000


def test_the_bound_is_what_a_session_brought_for_each_expert_of_a_row():
    assert BOUND.most({"tokens": 128, "samples": 1}) == 2 * (32 + 1)
    assert BOUND.most({"tokens": 0, "samples": 0}) == 0


def host(report: Report, session: str = "h", user: str = "hema", **changes: object) -> SessionReport:
    return report(session, user=user, hosts_experts=True, **changes)


def served(ledger: Ledger) -> dict[str, int]:
    return {one.user: one.tokens_served for one in ledger.leaderboard() if one.tokens_served}


def test_a_host_is_credited_what_trainers_of_others_tell(ledger: Ledger, report: Report):
    steps = {1: (100, 5.0)}
    ledger.record(
        [
            host(report),
            host(report, "k", "kavi"),
            report("a", steps=steps, served={HEMA: 500, KAVI: 200}),
            report("b", user="bela", steps=steps, served={HEMA: 50}),
        ],
        serving=BOUND,
    )
    assert served(ledger) == {"hema": 550, "kavi": 200}
    assert [one.user for one in ledger.leaderboard()] == ["asha", "bela", "hema", "kavi"]
    (day,) = ledger.people.days("hema")
    assert (day.tokens_served, day.samples) == (550, 0)
    (session,) = ledger.people.newest_sessions(9, "hema")
    assert (session.tokens_served, session.hosts_experts) == (550, True)


def test_it_counts_once_however_often_it_is_told_and_after_a_restart(ledger_url: str, tmp_path: Path, report: Report):
    for told in (300, 300, 400, 350):
        ledger = open_ledger(ledger_url, tmp_path)
        for _ in range(2):
            one = report("a", steps={1: (100, 5.0)}, served={HEMA: told}, last_seen=1100.0 + told)
            ledger.record([host(report), one], serving=BOUND)
        ledger.close()
    ledger = open_ledger(ledger_url, tmp_path)
    assert served(ledger) == {"hema": 400}
    ledger.close()


def test_no_more_than_the_trainer_brought_and_the_rest_when_it_has_brought_more(ledger: Ledger, report: Report):
    ledger.record([host(report), report("a", served={HEMA: 5000})], serving=BOUND)
    assert served(ledger) == {}
    ledger.record([report("a", steps={1: (10, 5.0)}, served={HEMA: 5000})], serving=BOUND)
    assert served(ledger) == {"hema": 660}
    ledger.record([report("a", steps={2: (10, 5.0)}, started=0.0, last_seen=0.0)], serving=BOUND)  # it has expired
    assert served(ledger) == {"hema": 1320}


def test_nothing_for_trainers_of_the_same_user_nor_for_peers_that_host_nothing(ledger: Ledger, report: Report):
    ledger.record(
        [
            host(report, user="asha"),
            report("b", user="bela"),
            report("a", steps={1: (100, 5.0)}, served={HEMA: 500, "peer-b": 500, "peer-of-nobody": 500}),
        ],
        serving=BOUND,
    )
    assert served(ledger) == {}


def test_a_host_that_is_heard_of_later_gets_what_was_told_before(ledger: Ledger, report: Report):
    one = report("a", steps={1: (100, 5.0)}, served={HEMA: 500})
    ledger.record([one], serving=BOUND)
    ledger.record([host(report)], serving=BOUND)
    ledger.record([report("a", steps={1: (100, 5.0)}, served={HEMA: 500}, last_seen=1110.0)], serving=BOUND)
    assert served(ledger) == {"hema": 500}


def test_the_newest_session_of_a_host_is_credited(ledger: Ledger, report: Report):
    again = host(report, "j", peer_id=HEMA, started=1050.0)
    ledger.record([host(report), again, report("a", steps={1: (100, 5.0)}, served={HEMA: 500})], serving=BOUND)
    assert {one.session_id[0]: one.tokens_served for one in ledger.people.newest_sessions(9, "hema")} == {
        "h": 0,
        "j": 500,
    }


def test_the_leaderboard_of_late_has_the_tokens_of_those_days(ledger: Ledger, report: Report):
    old, new = 1_000_000.0, 2_000_000.0
    ledger.record([host(report), report("a", steps={1: (100, 5.0)}, served={HEMA: 300})], old, serving=BOUND)
    later = report("a", steps={1: (100, 5.0)}, served={HEMA: 500}, last_seen=1200.0)
    ledger.record([later], new, serving=BOUND)
    found = {one.user: one.tokens_served for one in ledger.leaderboard(since=day_of(new) - datetime.timedelta(days=1))}
    assert found == {"hema": 200, "asha": 0}


def test_a_run_without_experts_counts_none(ledger: Ledger, report: Report):
    ledger.record([host(report), report("a", steps={1: (100, 5.0)}, served={HEMA: 500})])
    assert served(ledger) == {}
