"""Averaging as the coordinator saw it: rounds, and flags about members whose loss or gradients are far too large."""

import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from sqlalchemy import Engine, select

from averaging.log.credit import loudness
from averaging.log.header import Header, Member, peer_of
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


class _InARow:
    """Counts global steps in a row in which peers are odd, whatever sessions they have."""

    def __init__(self) -> None:
        self._odd_for: dict[str, int] = {}  # by peer

    def flagged(self, seen: Collection[str], odd: Collection[str]) -> set[str]:
        """Those of the sessions seen in a step that have been odd for `ODD_STEPS` with it; each once."""
        are_odd = {peer_of(one) for one in odd}
        peers = {peer_of(one) for one in seen}
        self._odd_for |= {one: self._odd_for.get(one, 0) + 1 if one in are_odd else 0 for one in peers}
        found = {one for one in odd if self._odd_for[peer_of(one)] == ODD_STEPS}
        self._odd_for = {peer: count for peer, count in self._odd_for.items() if count}
        return found


class OddLosses:
    """Follows the members' losses, header by header."""

    def __init__(self) -> None:
        self._in_a_row = _InARow()

    def flags(self, header: Header) -> list[Flag]:
        """Members whose loss has been far above the others' for `ODD_STEPS` steps with this header; each once."""
        losses = {one.session: one.loss for one in header.members if one.buffers and one.loss is not None}
        odd = odd_ones(losses)
        found = self._in_a_row.flagged(losses, odd)
        what = "has a training loss of {:.2f}, the others of about {:.2f}"
        return [
            _flag(LOSS, one, header, what.format(one.loss, odd[one.session]))
            for one in header.members
            if one.session in found
        ]


class LoudGradients:
    """Follows what reducers say of the size of the members' gradients, header by header."""

    def __init__(self) -> None:
        self._in_a_row = _InARow()

    def flags(self, header: Header) -> list[Flag]:
        """Members whose gradients were far too large for `ODD_STEPS` steps with this header; each once."""
        loud = loudness(header)
        senders = {one.session for one in header.members if one.buffers}
        found = self._in_a_row.flagged(senders, {one for one, times in loud.items() if times >= LOUD})
        what = "sends gradients {:.3g} times as large as its samples explain"
        return [
            _flag(GRADIENT, one, header, what.format(loud[one.session]))
            for one in header.members
            if one.session in found
        ]


def _flag(kind: str, member: Member, header: Header, what: str) -> Flag:
    return Flag(kind, member.user, peer_of(member.session), header.step - 1, what)


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
