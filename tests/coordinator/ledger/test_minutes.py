"""When a row of the run's history is written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.ledger.ledger import Ledger, LedgerError, open_ledger
from coordinator.ledger.minutes import MinuteRecorder


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger("sqlite:///ledger.db", tmp_path)


def averaging(ledger: Ledger) -> list[tuple[int, float | None]]:
    found = []
    time = 0.0
    while (minute := ledger.history.minute_after(time)) is not None:
        found.append((minute.step, minute.averaging_seconds))
        time = minute.time + 1
    return found


def follow(ledger: Ledger) -> tuple[MinuteRecorder, list[float], Callable[[float, int], None]]:
    now = [600.0]
    minutes = MinuteRecorder(ledger, lambda: now[0])

    def note_at(time: float, step: int) -> None:
        now[0] = time
        minutes.note(step)

    return minutes, now, note_at


def test_one_row_a_minute_with_the_rounds_that_ended_before_it(ledger: Ledger) -> None:
    minutes, _, note_at = follow(ledger)
    note_at(600.0, 1)
    minutes.round_ended(2.0)
    minutes.round_ended(6.0)
    note_at(659.0, 2)
    note_at(660.0, 3)
    note_at(721.0, 4)
    assert averaging(ledger) == [(1, None), (3, 4.0), (4, None)]


def test_rounds_are_not_lost_with_a_row_that_could_not_be_written(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes, _, note_at = follow(ledger)
    minutes.round_ended(2.0)
    with monkeypatch.context() as patched:

        def fail(*_: object, **__: object) -> None:
            raise LedgerError("locked")

        patched.setattr(ledger.history, "note_minute", fail)
        with pytest.raises(LedgerError):
            note_at(600.0, 1)
    note_at(601.0, 2)
    assert averaging(ledger) == [(2, 2.0)]
