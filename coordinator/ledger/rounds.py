"""Averaging as the coordinator saw it: rounds, and flags about members whose training loss is far above the others'."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Engine, select

from averaging.log.header import Header
from coordinator.ledger.answers import KnownFlag
from coordinator.ledger.queries import ask
from coordinator.ledger.storage.database import reading, upsert, writing
from coordinator.ledger.tables import FlagRow, RoundRow

ODD_LOSS = 1.0  # nats above the median; losses of batches of 30 samples differ by 0.3
ENOUGH_LOSSES = 3  # in a global step, fewer do not tell which one is odd
LOSS = "loss"  # far above the others': the one kind of flag that there is
ODD_STEPS = 3  # global steps in a row with an odd loss that raise a flag


@dataclass(frozen=True)
class Flag:
    """Something about a peer that the organizer should know; `what` is one line."""

    kind: str  # its subject: LOSS
    user: str
    peer_id: str
    step: int
    what: str


@dataclass(frozen=True)
class SeenRound:
    """An update and its round: samples by peer id, and seconds from the coordinator's call to the commit, if any."""

    step: int
    samples: Mapping[str, float]
    gradient_norm: float
    seconds: float | None

    @property
    def total(self) -> int:
        """Samples of all members."""
        return round(sum(self.samples.values()))


class OddLosses:
    """Follows the members' losses, header by header."""

    def __init__(self) -> None:
        self._odd_for: dict[str, int] = {}  # global steps in a row, by session

    def flags(self, header: Header) -> list[Flag]:
        """Members whose loss has been far above the others' for `ODD_STEPS` steps with this header; each once."""
        losses = {one.session: one.loss for one in header.members if one.loss is not None}
        odd, flags = odd_ones(losses), []
        for member in header.members:
            session, count = member.session, self._odd_for.get(member.session, 0)
            if session in losses:
                self._odd_for[session] = count + 1 if session in odd else 0
            if session in odd and count + 1 == ODD_STEPS:
                what = f"has a training loss of {losses[session]:.2f}, the others of about {odd[session]:.2f}"
                flags.append(Flag(LOSS, member.user, session.partition(".")[0], header.step - 1, what))
        self._odd_for = {session: count for session, count in self._odd_for.items() if count}
        return flags


def odd_ones(losses: Mapping[str, float]) -> dict[str, float]:
    """Sessions whose mean loss (nats) in a global step is far above the median of all, with that median."""
    if len(losses) < ENOUGH_LOSSES:
        return {}
    median = statistics.median(losses.values())
    return {session: median for session, loss in losses.items() if not loss <= median + ODD_LOSS}


class RoundQueries:
    """A part of the ledger; every method is one transaction and raises `LedgerError` if the database fails."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def write(self, rounds: Iterable[SeenRound], flags: Iterable[Flag], now: float) -> None:
        """Keep these rounds and flags; `now` is the unix time."""
        rounds, flags = list(rounds), list(flags)
        if not rounds and not flags:
            return
        with writing(self._engine) as connection:
            for one in rounds:  # one at a time: a round after a rollback replaces the one of the same step
                sums = {"step": one.step, "samples": one.total, "peers": len(one.samples)}
                upsert(connection, RoundRow, [sums | {"gradient_norm": one.gradient_norm, "seconds": one.seconds}])
            for flag in flags:
                key = {"peer_id": flag.peer_id, "kind": flag.kind}
                found = {"user_name": flag.user, "step": flag.step, "what": flag.what}
                row = key | found | {"times": 1, "first": now, "last": now}
                upsert(connection, FlagRow, [row], adding=("times",), kept="first")

    def flags(self) -> list[KnownFlag]:
        """All of them, the newest first."""
        query = select(FlagRow.__table__, FlagRow.user_name.label("user"))
        return ask(self._engine, query.order_by(FlagRow.last.desc(), FlagRow.peer_id), KnownFlag)

    def gradient_norms(self, since: int) -> list[float]:
        """Those of the rounds from global step `since` on, in order."""
        query = select(RoundRow.gradient_norm).where(RoundRow.step >= since).order_by(RoundRow.step)
        with reading(self._engine) as connection:
            return list(connection.scalars(query))
