"""A peer's gradients between two headers. Each buffer gets into at most one header of a chain.

A gradient counts if it is of a state that is at most one step old. A call closes the open buffer. If the round fails,
the next call offers the closed ones again, beside each other: a header of the failed round may still be committed, and
then takes away just the buffers that it names.
"""

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from averaging.protocol.messages import Offer

STALENESS = 1  # steps that may be decided between the state of a gradient and the one that it is applied to
REMEMBERED = 5  # headers after an offer
MOST_OFFERED = 64  # buffers in a call; a header names those of each member


@dataclass
class Buffer:
    """Gradients that travel together; the process has their numbers."""

    number: int
    weight: int = 0  # masked tokens
    samples: int = 0
    loss: float = 0.0  # sum over the masked tokens, in nats; NaN: it is not known of all of them


class Buffers:
    """The open buffer, and the closed ones that are in no committed header yet. `most_samples`: that one may bring."""

    def __init__(self, most_samples: float = math.inf):
        self._most_samples = most_samples
        self._open = Buffer(0)
        self.closed: dict[int, Buffer] = {}
        self.samples = 0  # that have been gathered
        self._late: deque[bool] = deque(maxlen=REMEMBERED)  # whether a header left out something that was offered
        self.drops = 0  # states that were left behind: what was begun with one of them must not be added

    @property
    def open_number(self) -> int:
        """Of the buffer that the next batch goes into."""
        return self._open.number

    @property
    def numbers(self) -> set[int]:
        """Of the buffers whose gradients are needed."""
        return {self._open.number, *self.closed}

    def has_use(self, target: int, *, overlap: bool) -> bool:
        """Whether one more batch may go into these buffers before the next header takes some of them.

        With overlap there is room for this step, which is being averaged, and for the next one.

        Args:
            target: samples of a global step.
        """
        return self._open.samples < target and self.samples < (2 * target if overlap else target)

    def has_room(self, samples: int) -> bool:
        """Whether a batch of so many would not make this peer's offer larger than others believe."""
        return self.samples + samples <= self._most_samples

    def add(self, weight: int, samples: int = 1, loss: float = math.nan) -> None:
        """Gather one batch. `loss`: sum over its masked tokens, in nats."""
        self._open.weight += weight
        self._open.samples += samples
        self.samples += samples
        self._open.loss += loss

    def offer(self) -> tuple[Offer, ...]:
        """Close the open buffer; what is in each closed one."""
        if self._open.weight:
            self.closed[self._open.number] = self._open
            self._open = Buffer(self._open.number + 1)
        return tuple(
            Offer(one.number, one.weight, one.samples, one.loss if math.isfinite(one.loss) else None)
            for one in map(self.closed.__getitem__, self._offered)
        )

    @property
    def _offered(self) -> list[int]:
        """Numbers of the closed buffers that a call has room for, the oldest."""
        return list(self.closed)[:MOST_OFFERED]

    @property
    def late(self) -> int:
        """How many of the last headers after an offer left out some of it: it did not arrive in time."""
        return sum(self._late)

    def decided(self, numbers: Collection[int], *, is_whole: bool) -> None:
        """A header has taken these, and each chunk of its mean includes them if `is_whole`."""
        if self.closed:
            self._late.append(not (is_whole and set(self._offered) <= set(numbers)))
        self.remove(numbers)

    def remove(self, numbers: Collection[int]) -> None:
        """Drop buffers that a committed header has taken."""
        for number in self.closed.keys() & numbers:
            self.samples -= self.closed.pop(number).samples

    def drop(self) -> None:
        """Drop everything: the state that the gradients belong to has been left behind."""
        self.closed.clear()
        self.samples = 0
        self.drops += 1
        self._open = Buffer(self._open.number + 1)


def is_fresh(state: int, head: int) -> bool:
    """Whether a gradient of the state after `state` steps counts when `head` steps are decided."""
    return head <= state + STALENESS
