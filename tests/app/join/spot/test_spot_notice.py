"""Amazon's notice that it takes a spot instance back asks the peer to leave."""

import signal
import threading
from collections.abc import Iterator

import pytest

from app.join.background import spot_notice
from app.join.background.spot_notice import AMAZON_GRACE, METADATA_VARIABLE, OTHER_GRACE, SpotNotice
from tests.app.join.spot.metadata_stand_in import MetadataStandIn
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataStandIn]:
    """The metadata service of this machine, as if it were Amazon's."""
    monkeypatch.setattr(spot_notice, "CHECK_EVERY", 0.005)
    monkeypatch.setattr(spot_notice, "TIMEOUT", PATIENCE)
    with MetadataStandIn() as stand_in:
        monkeypatch.setenv(METADATA_VARIABLE, stand_in.url)
        yield stand_in


@pytest.fixture
def asked_to_leave(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    asked = threading.Event()
    monkeypatch.setattr("os.kill", lambda _pid, number: asked.set() if number == signal.SIGTERM else None)
    return asked


def wait_for_checks(metadata: MetadataStandIn) -> None:
    """Until it has been checked several times: a check asks at most two questions."""
    before = metadata.answered
    wait_until(lambda: metadata.answered >= before + 4 * 2, "further checks")


def test_the_notice_asks_the_peer_to_leave_in_time(metadata: MetadataStandIn, asked_to_leave: threading.Event) -> None:
    said: list[str] = []
    watched = SpotNotice(said.append)
    assert watched.grace == AMAZON_GRACE < 120
    watched.start()
    wait_for_checks(metadata)
    metadata.failing = True
    wait_for_checks(metadata)
    assert not asked_to_leave.is_set()
    metadata.failing = False
    metadata.taken_away = True
    assert asked_to_leave.wait(PATIENCE)
    (line,) = said
    assert line.startswith("Amazon is taking this machine back (terminate at 2026-11-22T08:22:00Z)")


def test_a_service_that_does_not_answer_at_the_start_is_asked_again(
    metadata: MetadataStandIn, asked_to_leave: threading.Event
) -> None:
    metadata.failing = metadata.taken_away = True
    watched = SpotNotice(lambda _: None)
    assert watched.grace == OTHER_GRACE < 30
    watched.start()
    wait_for_checks(metadata)
    assert not asked_to_leave.is_set()
    metadata.failing = False
    assert asked_to_leave.wait(PATIENCE)
