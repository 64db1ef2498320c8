"""Conveners that name their friends, in the simulation: voters, a coordinator or members that they made up."""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from averaging.log.header import Header, Member
from averaging.protocol.commit import quorum
from averaging.protocol.messages import Plan
from averaging.protocol.rounds.meeting import Meeting
from tests.simulation.world import World


@contextlib.contextmanager
def cheats(world: World) -> Iterator[None]:
    """Sessions in `world.cheats` convene in their own interest; their votes are not enough for that."""
    honest = Meeting.update

    def update(meeting: Meeting, plan: Plan, results: Any) -> Header:
        situation = meeting.situation
        header, me = honest(meeting, plan, results), situation.me.session
        if world.is_honest or me not in world.cheats:
            return header
        match header.step % 3:
            case 0:
                return replace(header, voters=(me,))
            case 1:
                return replace(header, tie_breaker=me)
            case _:
                most = situation.session.settings.most_samples
                members = (*header.members, Member(f"{me} made up", "nobody", (0,), most, True, most))
                return replace(header, members=members, voters=quorum.choose_voters(members, situation.recent))

    with patch.object(Meeting, "update", update):
        yield
