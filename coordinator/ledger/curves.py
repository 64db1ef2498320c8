"""Long tables as curves of a few points. What does not change any more is read from the database once."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, select

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Span:
    """Minutes of the run, one after the other: when the last of them began (unix seconds), and means over them.

    Tokens per second and rounds of averaging are counted from the end of the span before, also where nobody looked
    for a while in between.
    """

    time: int
    sessions: float
    users: float
    samples_per_second: float
    tokens_per_second: float
    data_wait_fraction: float
    averaging_seconds: float | None
    averaging_rounds: int
    averaging_failures: int


@dataclass(frozen=True)
class StepBucket:
    """Successive global steps: the last of them and when it was counted; means over them, the loss over samples."""

    step: int
    time: float | None
    samples: float
    tokens: float
    peers: float
    loss: float


class GrowingTable:
    """Columns of a table that grows at its end, kept in memory; only the newest rows are read again.

    Threads may share it.
    """

    def __init__(self, columns: Sequence[Any], again: int):
        """The first column is the key; rows whose key is no more than `again` below the newest are read again."""
        self._columns, self._again = columns, again
        self._lock = threading.Lock()
        self._rows: Floats = np.empty((0, len(columns)))

    def read(self, connection: Connection) -> Floats:
        """All rows by their keys, [rows, columns]; NaN where nothing is known. Nobody may write into it."""
        key = self._columns[0]
        with self._lock:
            query = select(*self._columns).order_by(key)
            old = self._rows
            if len(old):
                old = old[old[:, 0] < old[-1, 0] - self._again]
                query = query.where(key >= int(self._rows[-1, 0]) - self._again)
            new = [tuple(row) for row in connection.execute(query)]
            if new:
                self._rows = np.concatenate([old, np.array(new, dtype=np.float64)])
            return self._rows


def step_buckets(rows: Floats, points: int) -> list[StepBucket]:
    """At most so many buckets of rows with step, time, samples, tokens, peers, and the sum of losses over samples."""
    if not len(rows):
        return []
    starts, counts = _groups(rows[:, 0], points)
    samples, tokens, peers, losses = (np.add.reduceat(rows[:, column], starts) for column in (2, 3, 4, 5))
    last = np.append(starts[1:], len(rows)) - 1
    return [
        StepBucket(int(step), _known(time), *figures)
        for step, time, *figures in zip(
            rows[last, 0].tolist(),
            rows[last, 1].tolist(),
            (samples / counts).tolist(),
            (tokens / counts).tolist(),
            (peers / counts).tolist(),
            (losses / samples).tolist(),
            strict=True,
        )
    ]


def spans(rows: Floats, points: int, minute: int) -> list[Span]:
    """At most so many spans of rows with time, five figures to take means of, and three sums since the run began.

    The figures are sessions, users, samples per second, data wait and seconds of averaging, the last NaN where there
    was no round; the sums are those of tokens, rounds of averaging, and failures.
    """
    if not len(rows):
        return []
    starts, counts = _groups(rows[:, 0] // minute, points)
    last = np.append(starts[1:], len(rows)) - 1
    sessions, users, speed, waited = (np.add.reduceat(rows[:, column], starts) / counts for column in (1, 2, 3, 4))
    averaged = ~np.isnan(rows[:, 5])
    ended = np.add.reduceat(averaged.astype(np.float64), starts)
    averaging = np.add.reduceat(np.where(averaged, rows[:, 5], 0.0), starts) / np.where(ended, ended, np.nan)
    ends = np.concatenate([rows[:1], rows[last]])[:, [0, 6, 7, 8]]
    seconds, tokens, rounds, failures = np.diff(ends, axis=0).T
    return [
        Span(
            time=int(row[0]),
            sessions=row[1],
            users=row[2],
            samples_per_second=row[3],
            tokens_per_second=row[4],
            data_wait_fraction=row[5],
            averaging_seconds=_known(row[6]),
            averaging_rounds=int(row[7]),
            averaging_failures=int(row[8]),
        )
        for row in np.stack(
            [
                rows[last, 0],
                sessions,
                users,
                speed,
                tokens / np.where(seconds, seconds, 1.0),
                waited,
                averaging,
                rounds,
                failures,
            ],
            axis=1,
        ).tolist()
    ]


def _groups(keys: Floats, points: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where groups of successive keys begin, at most so many, and how many rows each has."""
    first, last = int(keys[0]), int(keys[-1])
    width = (last - first) // points + 1
    _, starts, counts = np.unique((keys - first) // width, return_index=True, return_counts=True)
    return starts, counts


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
