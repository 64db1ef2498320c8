"""What the ledger is told of the records that peers signed."""

from hivemind.p2p import PeerID

from coordinator.monitor import session_reports
from swarm.records import Contribution, SessionRecord

PEER = PeerID(b"\x12\x20" + bytes(32))


def record(*steps: int, loss: float = 5.0) -> SessionRecord:
    return SessionRecord(
        session_id="0" * 32,
        name="asha",
        shown_pass=b"",
        device="CPU",
        country="BD",
        client_mode=False,
        addresses=[],
        started=1.0,
        time=2.0,
        step=3,
        samples_per_second=10.0,
        averaging_rounds=1,
        averaging_failures=0,
        data_wait_fraction=0.0,
        left=False,
        contributions=[Contribution(step=step, samples=32, tokens=1000, loss=loss) for step in steps],
    )


def told(one: SessionRecord, newest_step: int) -> list[int]:
    (report,) = session_reports([(PEER, one)], newest_step)
    return [contribution.step for contribution in report.contributions]


def test_contributions_to_steps_that_nobody_has_taken_wait():
    assert told(record(6, 7, 8, 2**40), newest_step=7) == [6, 7]
    assert told(record(6, 7, 8), newest_step=8) == [6, 7, 8]  # the coordinator has caught up


def test_a_contribution_without_a_loss_is_none():
    assert told(record(6, loss=float("nan")), newest_step=7) == []


def test_a_session_is_the_signers_whatever_it_says():
    (report,) = session_reports([(PEER, record())], newest_step=0)
    assert (report.peer_id, report.user) == (str(PEER), "asha")
