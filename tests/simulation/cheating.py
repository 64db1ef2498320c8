"""Conveners that name their friends, in the simulation: the headers that they make are not those that follow."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from averaging.log.header import Header
from averaging.protocol import next_header
from averaging.protocol.situation import Situation
from tests.simulation.world import World


@contextlib.contextmanager
def cheats(world: World) -> Iterator[None]:
    """Sessions in `world.cheats` convene in their own interest; their votes are not enough for that."""
    honest = next_header.update

    def update(situation: Situation, *rest: Any) -> Header:
        header, me = honest(situation, *rest), situation.me.session
        if world.is_honest or me not in world.cheats:
            return header
        return replace(header, voters=(me,)) if header.step % 2 else replace(header, tie_breaker=me)

    with patch.object(next_header, "update", update):
        yield
