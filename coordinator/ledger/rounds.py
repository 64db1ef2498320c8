"""Rounds in which the coordinator took part, and flags: what it found out about peers."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Engine, select
from sqlalchemy.orm import Mapped, mapped_column

from coordinator.ledger.flags import Flag, Kind, SeenRound
from coordinator.ledger.schema import Base
from coordinator.ledger.storage.database import INSERTS, reading, writing

# What the ledger keeps


class RoundRow(Base):
    """An update that the coordinator has applied, and the round it came from; kept for ever, as steps are.

    `seconds` are those from the coordinator's call to the commit; none where it was not in the round.
    """

    __tablename__ = "rounds"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    samples: Mapped[int]
    peers: Mapped[int]
    gradient_norm: Mapped[float]
    seconds: Mapped[float | None]


class FlagRow(Base):
    """The newest flag of a kind about a peer; times are unix seconds."""

    __tablename__ = "flags"
    peer_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    user_name: Mapped[str]
    step: Mapped[int]
    what: Mapped[str]
    times: Mapped[int]
    first: Mapped[float]
    last: Mapped[float]


# What it answers


@dataclass(frozen=True)
class KnownFlag:
    """The newest flag of a kind about a peer, and how often there was one; times are unix seconds."""

    kind: Kind
    user: str
    peer_id: str
    step: int
    what: str
    times: int
    first: float
    last: float


class RoundBook:
    """A part of the ledger; every method is one transaction and raises `LedgerError` if the database fails."""

    def __init__(self, engine: Engine):
        self._engine = engine

    def write(self, rounds: Iterable[SeenRound], flags: Iterable[Flag], now: float) -> None:
        """Keep what is new; `now` is the unix time."""
        rows = [
            {
                "step": one.step,
                "samples": one.total,
                "peers": len(one.samples),
                "gradient_norm": one.gradient_norm,
                "seconds": one.seconds,
            }
            for one in rounds
        ]
        found = list(flags)
        if not rows and not found:
            return
        insert = INSERTS[self._engine.dialect.name]
        with writing(self._engine) as connection:
            for row in rows:  # a round that is repeated after going back replaces the one before
                statement = insert(RoundRow).values(row)
                connection.execute(statement.on_conflict_do_update(index_elements=["step"], set_=row))
            for one in found:
                about = {"user_name": one.user, "step": one.step, "what": one.what, "last": now}
                statement = insert(FlagRow).values(
                    peer_id=one.peer_id, kind=one.kind.value, times=1, first=now, **about
                )
                known = {**about, "times": FlagRow.times + 1}
                connection.execute(statement.on_conflict_do_update(index_elements=["peer_id", "kind"], set_=known))

    def flags(self) -> list[KnownFlag]:
        """All of them, the newest first."""
        query = select(FlagRow).order_by(FlagRow.last.desc(), FlagRow.peer_id)
        with reading(self._engine) as connection:
            rows = connection.execute(query).mappings().all()
        return [
            KnownFlag(kind=Kind(row["kind"]), user=row["user_name"], **{name: row[name] for name in _AS_THEY_ARE})
            for row in rows
        ]

    def gradient_norms(self, since: int) -> list[float]:
        """Those of the rounds from global step `since` on, in order."""
        query = select(RoundRow.gradient_norm).where(RoundRow.step >= since).order_by(RoundRow.step)
        with reading(self._engine) as connection:
            return list(connection.scalars(query))


_AS_THEY_ARE = ("peer_id", "step", "what", "times", "first", "last")
