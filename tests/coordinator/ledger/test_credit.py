"""Members are credited by headers, also those that never told of themselves, and nobody else."""

import math
from pathlib import Path

import pytest
from msgspec import structs

from coordinator.ledger.ingest import is_plausible
from coordinator.ledger.ledger import open_ledger
from coordinator.ledger.recorder import credited
from tests.coordinator.ledger.brought import ASHA, BELA, NOW, report, samples, update, write


def test_members_are_credited_with_what_was_included(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA), report(BELA)], update(1, ASHA, BELA), update(2, ASHA, BELA, without=BELA))
    assert samples(ledger) == {"asha": 20, "bela": 15}
    assert [(one.step, one.samples, one.peers, one.loss) for one in ledger.steps()] == [
        (0, 20, 2, 6.0),
        (1, 15, 2, 6.0),
    ]
    assert ledger.totals().tokens == 350


def test_headers_that_are_read_again_after_a_crash_change_nothing(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA)], update(1, ASHA))
    again = open_ledger("sqlite:///ledger.db", tmp_path)
    write(again, [report(ASHA)], update(1, ASHA), update(2, ASHA))
    assert samples(again) == {"asha": 20}


def test_a_session_that_never_told_of_itself_is_there_by_its_header(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [], update(1, ASHA))
    (session,) = ledger.sessions(NOW)
    assert (session.user, session.peer_id, session.samples, session.present) == ("asha", "asha", 10, True)


def test_a_session_that_has_left_stays_as_it_was(tmp_path: Path):
    """The coordinator was away when it brought its last samples, and learns of them from the headers."""
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA, left=True, device="H200")], update(1, ASHA))
    write(ledger, [], update(2, ASHA), now=NOW + 3600)
    (session,) = ledger.sessions(NOW + 3600)
    assert (session.samples, session.device, session.left, session.last_seen) == (20, "H200", True, NOW)


def test_nobody_takes_the_credit_of_a_session_by_its_name(tmp_path: Path):
    """Sessions' names are public, and so are the ids under which they publish."""
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    thief = report(ASHA, user="mallory", peer_id="mallory")
    write(ledger, [thief])
    write(ledger, [report(ASHA), thief], update(1, ASHA))
    write(ledger, [thief], update(2, ASHA))
    assert samples(ledger) == {"asha": 20, "mallory": 0}


@pytest.mark.parametrize("loss", [math.nan, 9e18])
def test_an_impossible_loss_costs_nobody_credit(loss: float):
    one = update(1, ASHA)
    odd = structs.replace(one, members=(structs.replace(one.members[0], loss=loss),))
    (report,) = credited([], [odd], (), 0.15, NOW)
    assert [one.loss for one in report.contributions] == [0.0] and report.contributions[0].samples > 0
    assert is_plausible(report, NOW)
