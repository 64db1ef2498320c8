"""What the ledger is told of the records that peers signed."""

from typing import Any

import pytest
from hivemind.p2p import PeerID
from pydantic.v1 import ValidationError

from coordinator.ledger.recorder import AdmittedRecord, reachable, session_reports
from swarm import clock
from swarm.dht.records import MOST_HOSTS_TOLD, PRESENT_SECONDS, SessionRecord
from trainer.pausing.decision import Cause

PEER = PeerID(b"\x12\x20" + bytes(32))


def record(country: str = "", pause: str = "", **changes: Any) -> SessionRecord:
    return SessionRecord(
        session_id="0" * 32,
        shown_pass=b"",
        device="CPU",
        country=country,
        client_mode=False,
        addresses=[],
        started=1.0,
        time=2.0,
        step=3,
        samples_per_second=10.0,
        averaging_rounds=1,
        averaging_failures=0,
        data_wait_fraction=0.0,
        pause=pause,
        left=False,
        **changes,
    )


@pytest.mark.parametrize(("said", "kept"), [("BD", "BD"), ("", None), ("XX", None)])
def test_a_country_is_kept_if_it_is_one(said: str, kept: str | None):
    (report,) = session_reports([(PEER, "asha", record(country=said))])
    assert report.country == kept


@pytest.mark.parametrize("cause", ["", *(one.told for one in Cause)])
def test_why_a_session_pauses_is_kept(cause: str):
    (report,) = session_reports([(PEER, "asha", record(pause=cause))])
    assert report.pause == cause


def test_a_session_and_what_it_was_served_are_the_signers_whatever_it_says():
    told = [{"host": str(PEER), "tokens": 5}]
    (report,) = session_reports([(PEER, "asha", record(served=told))])
    assert (report.peer_id, report.user, report.served) == (str(PEER), "asha", {str(PEER): 5})


@pytest.mark.parametrize(
    "wrong",
    [
        *({"pause": pause} for pause in ("in use", "because", "paused\n", "<b")),
        *({"country": country} for country in ("bd", "BGD", "B\n", "<b")),
        {"served": [{"host": str(PEER), "tokens": 0}]},
        {"served": [{"host": str(PEER), "tokens": 2**41}]},
        {"served": [{"host": "a name", "tokens": 1}]},
        {"served": [{"host": str(PEER), "tokens": 1}] * (MOST_HOSTS_TOLD + 1)},
    ],
)
def test_a_record_with_anything_else_is_none(wrong: dict[str, Any]):
    with pytest.raises(ValidationError):
        record(**wrong)


def test_newcomers_are_not_told_of_peers_that_left_or_are_silent():
    def way_in(peer: PeerID, ago: float, *, left: bool = False) -> AdmittedRecord:
        address = f"/ip4/127.0.0.1/tcp/31337/p2p/{peer}"
        return peer, "asha", record().copy(update={"time": clock.now() - ago, "left": left, "addresses": [address]})

    there, silent, gone = (PeerID(b"\x12\x20" + bytes([number] * 32)) for number in range(3))
    records = [way_in(there, 10.0), way_in(silent, PRESENT_SECONDS + 10.0), way_in(gone, 10.0, left=True)]
    assert reachable(records, loopback=True) == [f"/ip4/127.0.0.1/tcp/31337/p2p/{there}"]
