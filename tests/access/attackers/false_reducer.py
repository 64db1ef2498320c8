"""`sahaj join` of a changed program, which gives the swarm zeros in place of each mean that it reduces."""

from typing import Any

import averaging.shell.exchange
from averaging.reduce.reducer import EncodedMean
from tests.support.small_swarm import run_closely


def run_falsely(arguments: list[str]) -> None:
    """Be such a trainer."""
    average = averaging.shell.exchange.average

    def made_up(*args: Any) -> EncodedMean:
        mean = average(*args)
        return EncodedMean(mean.encoded[:4] + bytes(len(mean.encoded) - 4), mean.excluded, mean.loud)

    averaging.shell.exchange.average = made_up  # type: ignore[assignment]
    run_closely(arguments)
