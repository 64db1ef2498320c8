"""Averaging as the coordinator saw it: rounds, and flags about peers."""

from collections.abc import Iterable

from sqlalchemy import Engine, select

from coordinator.ledger.answers import KnownFlag
from coordinator.ledger.flags import Flag, SeenRound
from coordinator.ledger.queries import ask
from coordinator.ledger.storage.database import reading, writing
from coordinator.ledger.tables import FlagRow, RoundRow
from coordinator.ledger.writes import upsert


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
                key = {"peer_id": flag.peer_id, "kind": flag.kind.value}
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
