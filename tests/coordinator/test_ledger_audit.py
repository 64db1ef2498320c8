"""What the coordinator saw of averaging, and what it found out about peers, in both kinds of database."""

from collections.abc import Callable
from pathlib import Path

from coordinator.flags import Flag, Kind, SeenRound
from coordinator.ledger import Ledger, SessionReport, open_ledger
from coordinator.ledger_audit import Averaged


def test_rounds_are_kept_with_those_who_were_credited(
    ledger: Ledger, report: Callable[..., SessionReport], ledger_url: str, tmp_path: Path
):
    rounds = [SeenRound(step, {"p": 100.0, "q": 50.0}, 2.0**step, 1.5) for step in range(5)]
    ledger.audit.write(rounds, [], now=1000.0)
    ledger.record([report("a", steps={3: (100, 5.0), 4: (30, 5.0)})])
    again = open_ledger(ledger_url, tmp_path)
    asha = ("peer-a", "a" * 32)
    assert again.audit.averaged(newest=3) == {
        2: Averaged(150, {}),
        3: Averaged(150, {asha: 100}),
        4: Averaged(150, {asha: 30}),
    }
    assert again.audit.gradient_norms(since=2) == [4.0, 8.0, 16.0]
    again.close()


def test_a_round_that_is_done_again_replaces_the_first(ledger: Ledger):
    ledger.audit.write([SeenRound(3, {"p": 100.0}, 1.0, 1.0)], [], now=1.0)
    ledger.audit.write([SeenRound(3, {"p": 70.0}, 5.0, 1.0)], [], now=2.0)
    assert (ledger.audit.averaged(9), ledger.audit.gradient_norms(0)) == ({3: Averaged(70, {})}, [5.0])


def test_flags_of_a_kind_are_one_with_a_count(ledger: Ledger):
    def flag(step: int, kind: Kind = Kind.CLAIM) -> Flag:
        return Flag(kind, "~<b>eve</b>", "peer-e", step, f"claimed too much of step {step}")

    ledger.audit.write([], [flag(1), flag(2)], now=10.0)
    ledger.audit.write([], [flag(7)], now=20.0)
    ledger.audit.write([], [flag(4, Kind.LOSS)], now=15.0)
    newest, older = ledger.audit.flags()
    assert (newest.kind, newest.user, newest.step, newest.what) == (
        Kind.CLAIM,
        "~<b>eve</b>",
        7,
        "claimed too much of step 7",
    )
    assert (newest.times, newest.first, newest.last) == (3, 10.0, 20.0)
    assert (older.kind, older.times) == (Kind.LOSS, 1)
