"""What a peer tells of notices that have reached it."""

from pathlib import Path

import pytest

from swarm.access.gate import Gate
from swarm.access.notices import BestCheckpoint, Notices, sign_notices
from swarm.access.passes import Authority
from swarm.identity import Identity, load_identity
from trainer.organizer_notices import OrganizerNotices

RUN = "test-run"


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return load_identity(tmp_path / "identity.key")


def test_each_announcement_and_each_best_checkpoint_is_told_once(
    authority: Authority, identity: Identity, tmp_path: Path
) -> None:
    time = [0.0]

    def signed(announcement: str, best: BestCheckpoint | None) -> bytes:
        time[0] += 1.0
        return sign_notices(Notices(time=time[0], announcement=announcement, best=best), authority, RUN)

    old, new = BestCheckpoint(5, 7.0, 0.5), BestCheckpoint(9, 6.5, 1.0, "The [river] flows.")
    own = authority.issue(RUN, "asha", identity.peer_id, 3600.0)
    gate = Gate(tmp_path, RUN, authority.public_key, own, signed("Hello", old))
    notices = OrganizerNotices(gate, identity)
    assert notices.new_lines() == ["From the organizer: Hello"], "what was best before this peer came is no news"
    gate.take_notice(signed("Hello", new))
    (line,) = notices.new_lines()
    assert line.startswith("Best checkpoint so far: global step 9") and line.endswith("The [river] flows.")
    gate.take_notice(signed("", None))  # the coordinator was started again
    gate.take_notice(signed("", new))
    assert notices.new_lines() == []


def test_who_counts_with_less_is_told_when_that_begins_and_when_it_is_over(
    authority: Authority, identity: Identity, tmp_path: Path
) -> None:
    doubted = [
        frozenset[str](),
        frozenset({"boat"}),
        frozenset({"asha", "boat"}),
        frozenset({"asha"}),
        frozenset[str](),
    ]
    signed = [
        sign_notices(Notices(time=float(time), on_probation=users), authority, RUN)
        for time, users in enumerate(doubted, start=1)
    ]
    own = authority.issue(RUN, "asha", identity.peer_id, 3600.0)
    gate = Gate(tmp_path, RUN, authority.public_key, own, signed[0])
    notices, told = OrganizerNotices(gate, identity), list[list[str]]()
    for one in signed:
        gate.take_notice(one)
        told.append(notices.new_lines())
    assert [len(lines) for lines in told] == [0, 0, 1, 0, 1]
    assert "your results are not used" in told[2][0] and told[4] == ["Your results count in full again."]
