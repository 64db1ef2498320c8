"""Who averages which part of one round, from what its members told each other of their lines.

All members come to the same result: they have the same words, and `make_plan` rounds as they do. Parts are equal
unless the plan is clearly better, because speeds that are measured again and again go up and down.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.averaging.plan import GlobalStep, Peer, Plan, equal_parts, make_plan
from trainer.averaging.told import Told

WORTH_IT = 0.15  # of the time of a round with equal parts that a plan has to save
WORTH_SECONDS = 0.5  # and so many seconds
WITNESSED = 64  # the coordinator averages at least one of so many parts
MOST_BYTES, LEAST_BYTES, CHUNKS = 2**17, 2**15, 256  # of a chunk: a thin line is soon done with it; its header is small


@dataclass(frozen=True)
class Sharing:
    """The parts of a round, in the order of the group."""

    parts: tuple[int, ...]  # elements
    seconds: float | None  # that the round takes, as far as lines are known


def shared(told: Sequence[Told], clients: Sequence[bool], elements: int, wire_bytes: float) -> Sharing:
    """The parts that members average.

    Args:
        told: what each has told.
        clients: who accepts no connections.
        elements: of the vector.
        wire_bytes: of the whole vector as it travels.

    Raises:
        NobodyReachable: all are in client mode.
    """
    step = GlobalStep(elements, wire_bytes, samples=1.0, all_send=True)
    known = [one.upload for one in told if one.upload]
    usual = statistics.median_low(known) if 2 * len(known) > len(told) else 0.0
    peers = [_peer(one, client, usual) for one, client in zip(told, clients, strict=True)]
    equal = equal_parts(peers, step)
    if not usual:
        return Sharing(equal.parts, None)
    plan = make_plan(peers, step)
    best = plan if _is_worth_it(plan, equal) else equal
    witnesses = [one.assists and not client for one, client in zip(told, clients, strict=True)]
    return Sharing(_with_witnesses(best.parts, witnesses), best.averaging_seconds if best.problem is None else None)


def chunk_bytes(wire_bytes: float) -> int:
    """Bytes of a chunk, the same for all members: small enough to stream a small vector, and to share it out."""
    return int(min(MOST_BYTES, max(LEAST_BYTES, wire_bytes / CHUNKS)))


def _peer(told: Told, client: bool, usual: float) -> Peer:
    """Who has not said anything of its line is taken for a usual peer."""
    upload = told.upload or usual
    return Peer(1.0, upload, told.download or upload, client_mode=client)


def _is_worth_it(plan: Plan, equal: Plan) -> bool:
    saved = equal.averaging_seconds - plan.averaging_seconds
    return saved >= max(WORTH_SECONDS, WORTH_IT * equal.averaging_seconds)


def _with_witnesses(parts: tuple[int, ...], witnesses: Sequence[bool]) -> tuple[int, ...]:
    """The coordinator sees who brings what only where it averages a part itself."""
    changed, least = list(parts), sum(parts) // WITNESSED
    for number, part in enumerate(parts):
        if witnesses[number] and part < least:
            changed[changed.index(max(changed))] -= least - part
            changed[number] = least
    return tuple(changed)
