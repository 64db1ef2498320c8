"""Averaging as the coordinator saw it: rounds, and flags about members whose loss or gradients are far too large."""

import statistics
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import ClassVar

from sqlalchemy import Engine, select

from averaging.log.credit import loudness
from averaging.log.header import Header, peer_of
from coordinator.ledger.answers import KnownFlag
from coordinator.ledger.queries import ask
from coordinator.ledger.storage.database import reading, upsert, writing
from coordinator.ledger.tables import FlagRow, RoundRow

ODD_LOSS = 1.0  # nats above the median; losses of batches of 30 samples differ by 0.3
ENOUGH_LOSSES = 3  # in a global step, fewer do not tell which one is odd
LOUD = 3.0  # times what its weight explains; a heavy peer is up to 2 while much of a gradient is slope
LOSS, GRADIENT = "loss", "gradient"  # what is far above the others': kinds of flags
ODD_STEPS = 3  # global steps in a row that raise a flag


@dataclass(frozen=True)
class Flag:
    """Something about a peer that the organizer should know; `what` is one line."""

    kind: str  # its subject: LOSS, GRADIENT, or what an audit has found
    user: str
    peer_id: str
    step: int
    what: str


@dataclass(frozen=True)
class SeenRound:
    """An update and its round: seconds from the coordinator's call to the commit, if any."""

    step: int
    gradient_norm: float
    seconds: float | None


class _InARow(ABC):
    """Raises a flag of a kind when a peer is odd for `ODD_STEPS` global steps in a row, whatever sessions it has."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        self._odd_for: dict[str, int] = {}  # global steps, by peer

    def flags(self, header: Header) -> list[Flag]:
        """Members that have been odd for `ODD_STEPS` steps with this header; each once."""
        seen = self.look(header)
        odd = {peer_of(session) for session, what in seen.items() if what}
        self._odd_for |= {peer: self._odd_for.get(peer, 0) + 1 if peer in odd else 0 for peer in map(peer_of, seen)}
        found = [
            Flag(self.kind, one.user, peer_of(one.session), header.step - 1, what)
            for one in header.members
            if (what := seen.get(one.session)) and self._odd_for[peer_of(one.session)] == ODD_STEPS
        ]
        self._odd_for = {peer: count for peer, count in self._odd_for.items() if count}
        return found

    @abstractmethod
    def look(self, header: Header) -> dict[str, str]:
        """Sessions that the header tells of, with what is odd about each; empty if nothing is."""


class OddLosses(_InARow):
    """Follows the members' losses, header by header: those far above the others' are odd."""

    kind = LOSS

    def look(self, header: Header) -> dict[str, str]:
        """By the median of all."""
        losses = {one.session: one.loss for one in header.members if one.buffers and one.loss is not None}
        if len(losses) < ENOUGH_LOSSES:
            return dict.fromkeys(losses, "")
        median = statistics.median(losses.values())
        return {
            one: ""
            if loss <= median + ODD_LOSS  # a NaN is odd
            else f"has a training loss of {loss:.2f}, the others of about {median:.2f}"
            for one, loss in losses.items()
        }


class LoudGradients(_InARow):
    """Follows what reducers say of the size of the members' gradients, header by header: far too large ones are odd."""

    kind = GRADIENT

    def look(self, header: Header) -> dict[str, str]:
        """By what their weights explain."""
        loud = loudness(header)
        return {
            one.session: f"sends gradients {times:.3g} times as large as its samples explain" if times >= LOUD else ""
            for one in header.members
            if one.buffers
            for times in [loud.get(one.session, 0.0)]
        }


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
                upsert(connection, RoundRow, [asdict(one)])
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
