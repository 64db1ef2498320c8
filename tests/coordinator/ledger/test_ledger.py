from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from coordinator.ledger.ingest import PRESENT_SECONDS, Contribution, SessionReport
from coordinator.ledger.ledger import Ledger, open_ledger

Report = Callable[..., SessionReport]


def test_a_new_ledger_has_nothing_to_tell(ledger: Ledger) -> None:
    assert tuple(dict(ledger.progress()).values()) == (0, 0, 0, None, None, None, None, 0, 0, 0.0)
    assert tuple(dict(ledger.totals()).values()) == (0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
    assert not any([ledger.steps(), ledger.leaderboard(), ledger.sessions(), ledger.evaluations()])


def test_a_contribution_is_counted_once_however_often_it_is_reported(ledger: Ledger, report: Report) -> None:
    one = report("a", steps={1: (32, 9.0), 2: (16, 8.0)})
    for _ in range(3):
        ledger.record([one, one])
    assert ledger.totals().samples == 48


def test_a_later_record_for_the_same_step_never_adds_or_changes(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (32, 9.0)})])
    ledger.record([report("a", steps={1: (5000, 0.1)}, last_seen=1200.0)])
    assert [(one.samples, one.tokens, one.loss) for one in ledger.steps()] == [(32, 4096, 9.0)]


def test_a_step_that_two_chains_took_counts_on_both(ledger: Ledger, report: Report) -> None:
    """A chain may be beaten by another one at the same step; what was brought to it stays credited."""
    beaten, winner = (Contribution(digest * 64, 4, 10, 1280, 5.0) for digest in "bw")
    ledger.record([report("a", contributions=(beaten,))])
    ledger.record([report("a", contributions=(winner,), last_seen=1200.0)])
    ledger.record([report("a", contributions=(beaten, winner), last_seen=1300.0)])
    (session,) = ledger.sessions()
    assert session.samples == ledger.totals().samples == 20


def test_a_late_report_counts_but_does_not_turn_the_session_back(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={5: (8, 4.0)}, last_seen=1200.0, left=True)])
    ledger.record([report("a", steps={1: (8, 6.0)}, last_seen=1100.0)])
    (session,) = ledger.sessions(now=1200.0)
    assert (session.step, session.last_seen, session.left, session.samples) == (5, 1200.0, True, 16)


def test_what_was_counted_is_not_counted_again_after_a_restart(ledger_url: str, tmp_path: Path, report: Report) -> None:
    first = open_ledger(ledger_url, tmp_path)
    first.record([report("a", steps={1: (32, 9.0), 2: (32, 8.0)})])
    first.close()
    second = open_ledger(ledger_url, tmp_path)
    second.record([report("a", steps={1: (32, 9.0), 2: (32, 8.0), 3: (32, 7.0)}, last_seen=1200.0)])
    assert second.totals().samples == 96
    second.close()


def test_concurrent_writers_count_every_contribution_once(ledger_url: str, tmp_path: Path, report: Report) -> None:
    ledgers = [open_ledger(ledger_url, tmp_path) for _ in range(4)]
    reports = [report(name, steps=dict.fromkeys(range(16), (2, 3.0))) for name in "abcdef"]

    def write(ledger: Ledger) -> None:
        for _ in range(5):
            for one in reports:
                ledger.record([one])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, ledger) for ledger in ledgers]:
            done.result()
    assert ledgers[0].totals().samples == 6 * 16 * 2
    for ledger in ledgers:
        ledger.close()


def test_the_loss_of_a_step_is_weighted_by_samples(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (30, 8.0), 2: (10, 5.0)})])
    ledger.record([report("b", user="bo", steps={1: (10, 4.0)})])
    assert [tuple(dict(step).values()) for step in ledger.steps()] == [
        (1, 40, 40 * 128, 2, pytest.approx(7.0)),
        (2, 10, 10 * 128, 1, pytest.approx(5.0)),
    ]
    assert [step.step for step in ledger.steps(since=2)] == [2]


def test_a_session_without_samples_in_a_step_is_no_peer_of_it(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", steps={1: (0, 0.0)}), report("b", steps={1: (4, 3.0)})])
    assert [(step.peers, step.samples) for step in ledger.steps()] == [(1, 4)]


def test_the_leaderboard_adds_the_sessions_of_a_user(ledger: Ledger, report: Report) -> None:
    ledger.record(
        [
            report("a", user="asha", steps={1: (30, 8.0)}, started=500.0),
            report("b", user="asha", steps={1: (30, 8.0)}, last_seen=1300.0),
            report("c", user="bo", steps={1: (50, 8.0)}, left=True),
            report("d", user="chitra"),
        ]
    )
    assert [tuple(dict(leader).values()) for leader in ledger.leaderboard(now=1300.0 + PRESENT_SECONDS)] == [
        ("asha", 60, 60 * 128, 0.0, pytest.approx(6 / 11), 0, 500.0, 1300.0, 2, 1),
        ("bo", 50, 50 * 128, 0.0, pytest.approx(5 / 11), 0, 1000.0, 1100.0, 1, 0),
        ("chitra", 0, 0, 0.0, 0.0, 0, 1000.0, 1100.0, 1, 0),
    ]


def test_progress_tells_the_newest_step_and_who_is_there(ledger: Ledger, report: Report) -> None:
    ledger.record(
        [
            report("a", steps={1: (30, 8.0), 2: (10, 6.0)}),
            report("b", steps={2: (10, 4.0)}, samples_per_second=5.5),
            report("c", user="bo", steps={1: (10, 4.0)}, left=True),
            report("d", user="di", last_seen=1e9),
        ]
    )
    ledger.record_evaluation(1, 7.5, sentence_order_loss=0.7, samples=256, unigram_loss=8.0, now=1050.0)
    here = ledger.progress(now=1100.0)
    assert (here.step, here.samples, here.tokens) == (2, 60, 60 * 128)
    assert here.loss == pytest.approx(5.0)
    assert (here.eval_step, here.eval_loss, here.unigram_loss, here.below_unigram) == (1, 7.5, 8.0, 0.5)
    assert (here.sessions_present, here.users_present, here.samples_per_second) == (2, 1, 15.5)
    assert ledger.progress(now=1100.0 + PRESENT_SECONDS + 1).sessions_present == 0


def test_totals_sum_over_sessions_and_weigh_waiting_by_time(ledger: Ledger, report: Report) -> None:
    ledger.record(
        [
            report("a", steps={1: (30, 8.0)}, averaging_rounds=4, data_wait_fraction=0.04, last_seen=1300.0),
            report("b", user="bo", averaging_rounds=2, averaging_failures=1, last_seen=1100.0),
        ]
    )
    assert tuple(dict(ledger.totals()).values()) == (1, 30, 30 * 128, 2, 2, 6, 1, pytest.approx(0.03), 0.0)


def test_the_newest_evaluation_of_a_step_stands(ledger: Ledger) -> None:
    ledger.record_evaluation(10, 9.0, sentence_order_loss=0.7, samples=256, now=5.0)
    ledger.record_evaluation(5, 9.5, sentence_order_loss=0.7, samples=256, now=6.0)
    newer: Any = {"sentence_order_loss": 0.6, "sentence_order_accuracy": 0.75, "loss_with_experts": 7.5}
    ledger.record_evaluation(10, 8.0, samples=128, now=7.0, **newer)
    ledger.record_evaluation(15, float("nan"), sentence_order_loss=0.6, samples=128, now=8.0)
    kept = [tuple(dict(one).values()) for one in ledger.evaluations()]
    assert kept == [(5, 9.5, 0.7, 256, 6.0, None, None, None), (10, 8.0, 0.6, 128, 7.0, 0.75, None, 7.5)]


def test_the_unigram_loss_is_put_beside_the_evaluations_that_came_before_it(ledger: Ledger) -> None:
    for step, unigram, now in ((0, None, 50.0), (10, 7.5, 60.0), (20, None, 100.0), (30, 7.5, 110.0)):
        ledger.record_evaluation(step, 6.0, sentence_order_loss=0.7, samples=8, unigram_loss=unigram, now=now)
    ledger.record_unigram_loss(7.0, since=100.0)  # those of an earlier start may be of another text
    assert [(one.unigram_loss, one.below_unigram) for one in ledger.evaluations()] == [
        (None, None),
        (7.5, 1.5),
        (7.0, 1.0),
        (7.5, 1.5),
    ]


def test_a_session_cannot_be_taken_over_by_another_peer_or_user(ledger: Ledger, report: Report) -> None:
    ledger.record([report("a", user="asha", steps={1: (10, 5.0)})])
    ledger.record([report("a", user="mallory", last_seen=1200.0, steps={2: (99, 5.0)})])
    ledger.record([report("a", user="asha", peer_id="peer-m", last_seen=1300.0, steps={3: (99, 5.0)})])
    (session,) = ledger.sessions()
    assert (session.user, session.peer_id, session.last_seen) == ("asha", "peer-a", 1100.0)
    assert session.samples == 10


@pytest.mark.parametrize(
    "change",
    [
        {"samples_per_second": float("inf")},
        {"samples_per_second": 1e12},
        {"last_seen": float("nan")},
        {"last_seen": 1e12},
        {"started": -1e12},
        {"started": 1101.0},
        {"step": 2**63},
        {"step": -1},
        {"averaging_rounds": 2**64},
        {"user": "a\0b"},
        {"device": "\x1b[2J"},
        {"user": "\ud800"},
        {"contributions": (Contribution("h", 1, 4, 4, float("nan")),)},
        {"contributions": (Contribution("h", 1, 2**63, 4, 1.0),)},
        {"contributions": (Contribution("h", 1, -5, 4, 1.0),)},
    ],
    ids=str,
)
def test_an_impossible_report_is_left_out_and_the_others_count(
    ledger: Ledger, report: Report, change: dict[str, object]
) -> None:
    ledger.record([report("b", **change), report("a", steps={1: (10, 5.0)})])
    assert [session.peer_id for session in ledger.sessions()] == ["peer-a"]
    assert ledger.totals().samples == 10


def test_names_in_any_script_are_kept_as_they_are(ledger: Ledger, report: Report) -> None:
    names = ["আশা", "র\u200d\u09cdযাব", "Zoë O'Neill; DROP TABLE sessions", "👩\u200d🔬"]
    ledger.record(report("abcd"[number], user=name) for number, name in enumerate(names))
    assert sorted(leader.user for leader in ledger.leaderboard()) == sorted(names)


def test_the_ledger_and_the_swarm_agree_on_when_a_silent_session_is_gone() -> None:
    from swarm.dht import records

    assert records.PRESENT_SECONDS == PRESENT_SECONDS < records.RECORD_LIFETIME
