"""How far each sender's gradient points where those of the others do, and how loud it is."""

import statistics
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from averaging.log.shares import counted
from averaging.reduce.clipping import FEWEST, bounded, loudness, squared_norm
from averaging.reduce.gradient_codec import Compression, decode_piece


class Agreement(NamedTuple):
    """Of a sender with the others, in a chunk."""

    session: str
    cosine: float  # between its gradient and the mean of the others'
    loudness: float  # of its gradient: `averaging.reduce.clipping`


def agreements(
    elements: int,
    kind: Compression,
    pieces: Mapping[str, bytes],
    weights: Mapping[str, int],
    users: Mapping[str, str],
    on_probation: Collection[str] = (),
) -> tuple[Agreement, ...]:
    """Of all senders.

    Nothing is said where fewer than `FEWEST` users bring some: of two that differ nobody can tell which one is odd. The
    mean is the one of a run that bounds shares and scales loud gradients down, whether this one does or not: else
    one loud liar would have all the others point against it.

    Args:
        elements: of the chunk.
        pieces: by session, as they were sent, without signatures.
        weights: masked tokens of the sessions.
        users: of the sessions.
        on_probation: users whose weight counts as 0.
    """
    if len({users[one] for one in pieces}) < FEWEST:
        return ()
    own = {one: decode_piece(piece, weights[one], elements, kind).astype(np.float64) for one, piece in pieces.items()}
    brought, whose = [weights[one] for one in own], [users[one] for one in own]
    times = loudness([squared_norm(gradient.astype(np.float32)) for gradient in own.values()], brought, whose)
    shares = dict(zip(own, map(bounded, counted(whose, brought, on_probation), times), strict=True))
    total = sum((gradient * shares[one] for one, gradient in own.items()), np.zeros(elements))
    found = []
    for (session, gradient), loud in zip(own.items(), times, strict=True):
        others = total - gradient * shares[session]
        size = float(np.linalg.norm(gradient) * np.linalg.norm(others))
        found.append(Agreement(session, float(gradient @ others) / size if size else 0.0, loud))
    return tuple(found)


def on_average(chunks: Iterable[tuple[Agreement, ...]]) -> tuple[Agreement, ...]:
    """Of each sender over some chunks of one step."""
    by_session: dict[str, list[Agreement]] = {}
    for agreement in chunks:
        for one in agreement:
            by_session.setdefault(one.session, []).append(one)
    return tuple(
        Agreement(session, statistics.fmean(one.cosine for one in ones), statistics.fmean(one.loudness for one in ones))
        for session, ones in by_session.items()
    )
