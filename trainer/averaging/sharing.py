"""Who averages which part of one round, from what its members told each other of their lines.

All members come to the same result: they have the same words, and `make_plan` rounds as they do. Parts are equal
unless the plan is clearly better, because speeds that are measured again and again go up and down.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer.averaging.planning.plan import GlobalStep, Peer, Plan, Role, equal_parts, make_plan
from trainer.averaging.told import Told

WORTH_IT = 0.15  # of the time of a round with equal parts that a plan has to save
WORTH_SECONDS = 0.5  # and so many seconds
FASTER = 16.0  # than the usual peer: what is believed of a processor
SMALLEST = 100  # a part is at least one of so many
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
    step = GlobalStep(elements, wire_bytes, samples=1.0, smallest_part=smallest_part(elements))
    peers = known_peers(told, clients)
    if peers is None:
        unknown = [Peer(1.0, 0.0, 0.0, client_mode=client) for client in clients]
        return Sharing(equal_parts(unknown, step).parts, None)
    sends = [one.trains for one in told]
    senders = [replace(peer, samples_per_second=float(own)) for peer, own in zip(peers, sends, strict=True)]
    equal, plan = equal_parts(senders, step), make_plan(senders, step, sends)
    best = plan if _is_worth_it(plan, equal) else equal
    witnesses = [one.assists and not client for one, client in zip(told, clients, strict=True)]
    return Sharing(_with_witnesses(best.parts, witnesses), best.averaging_seconds if best.problem is None else None)


def smallest_part(elements: int) -> int:
    """Of a vector: elements below which a part is not worth its streams."""
    return elements // SMALLEST


def chunk_bytes(wire_bytes: float) -> int:
    """Bytes of a chunk, the same for all members: small enough to stream a small vector, and to share it out."""
    return int(min(MOST_BYTES, max(LEAST_BYTES, wire_bytes / CHUNKS)))


def known_peers(told: Sequence[Told], clients: Sequence[bool]) -> list[Peer] | None:
    """The members as plans see them; who has said nothing of its line or its processor is taken for a usual peer.

    None: of most lines nothing is known.
    """
    lines = [one.upload for one in told if one.upload]
    if 2 * len(lines) <= len(told):
        return None
    line, speed = statistics.median_low(lines), statistics.median_low([one.speed for one in told if one.speed] or [1.0])
    return [
        Peer(
            samples_per_second=0.0 if one.assists else min(one.speed or speed, FASTER * speed),
            upload=one.upload or line,
            download=one.download or one.upload or line,
            client_mode=client,
            role=Role.TRAINER if one.trains else Role.AGGREGATOR,
        )
        for one, client in zip(told, clients, strict=True)
    ]


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
