"""What the ledger is told, what it keeps and what it answers. `coordinator/ledger/ledger.py` does the work."""

import datetime
from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import BigInteger, Double, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from coordinator.evaluation.unigram import below_unigram

# What the ledger is told


@dataclass(frozen=True)
class Contribution:
    """What one session brought to one global step: samples, their tokens, and their mean loss in nats.

    `header` is the digest of the header that says so, in 64 hexadecimal digits.
    """

    header: str
    step: int
    samples: int
    tokens: int
    loss: float


@dataclass(frozen=True)
class SessionReport:
    """What one session says about itself; times are unix seconds, counts are since its start.

    `contributions` are what headers say of it that were read since the last report, for all their members at once.
    `country` is a code of ISO 3166, where the person said it.
    """

    session_id: str
    user: str
    peer_id: str
    client_mode: bool
    device: str
    started: float
    last_seen: float
    step: int
    samples_per_second: float
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float
    left: bool
    contributions: tuple[Contribution, ...] = ()
    country: str | None = None


# What the ledger keeps, beside `coordinator/ledger/history.py`. Whoever changes a table adds a migration.


class Base(DeclarativeBase):
    """All tables of the ledger; whole numbers have 64 bits, so that sums of tokens fit."""

    type_annotation_map: ClassVar = {int: BigInteger, float: Double}


class SessionRow(Base):
    """The newest report of every session, and what was counted for it since it began.

    `user` and `left` would be reserved words of PostgreSQL. `heard` is when the newest report came and `seconds`
    how long the session was there, both by the coordinator's clock.
    """

    __tablename__ = "sessions"
    session_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    user_name: Mapped[str] = mapped_column(index=True)
    peer_id: Mapped[str]
    client_mode: Mapped[bool]
    device: Mapped[str]
    started: Mapped[float]
    last_seen: Mapped[float]
    step: Mapped[int]
    samples_per_second: Mapped[float]
    averaging_rounds: Mapped[int]
    averaging_failures: Mapped[int]
    data_wait_fraction: Mapped[float]
    has_left: Mapped[bool]
    samples: Mapped[int]
    tokens: Mapped[int]
    steps: Mapped[int]
    seconds: Mapped[float]
    heard: Mapped[float]
    country: Mapped[str | None] = mapped_column(String(2))


class HeaderRow(Base):
    """A header of the log whose members are credited: the primary key admits no second time."""

    __tablename__ = "headers"
    __table_args__ = ({"sqlite_with_rowid": False},)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    step: Mapped[int]


class PlaceRow(Base):
    """Up to where the headers of the log on the disk are entered: one row. See `averaging.log.log_file.Place`."""

    __tablename__ = "place"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    start: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))


class StepRow(Base):
    """One global step over all its peers, kept for ever. `loss_sum` is in nats, summed over samples.

    `time` is when the coordinator first counted something for it.
    """

    __tablename__ = "steps"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    samples: Mapped[int]
    tokens: Mapped[int]
    peers: Mapped[int]
    loss_sum: Mapped[float]
    time: Mapped[float] = mapped_column(index=True)


class DayRow(Base):
    """What was counted for a user on a day (UTC) of the coordinator's clock, over all the user's sessions."""

    __tablename__ = "days"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day: Mapped[datetime.date] = mapped_column(primary_key=True)
    user_name: Mapped[str] = mapped_column(primary_key=True, index=True)
    samples: Mapped[int]
    tokens: Mapped[int]
    seconds: Mapped[float]


class EvaluationRow(Base):
    """The newest held-out evaluation of a global step."""

    __tablename__ = "evaluations"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    loss: Mapped[float]
    sentence_order_loss: Mapped[float]
    samples: Mapped[int]
    time: Mapped[float]
    sentence_order_accuracy: Mapped[float | None]
    unigram_loss: Mapped[float | None]


# What the ledger answers


@dataclass(frozen=True)
class Progress:
    """Where the run is now. Losses in nats, `None` before the first; `present` sessions reported recently."""

    step: int
    samples: int
    tokens: int
    loss: float | None
    eval_step: int | None
    eval_loss: float | None
    unigram_loss: float | None
    sessions_present: int
    users_present: int
    samples_per_second: float

    @property
    def below_unigram(self) -> float | None:
        """By how many nats the held-out loss is below the unigram loss."""
        return below_unigram(self.eval_loss, self.unigram_loss)


@dataclass(frozen=True)
class StepSummary:
    """One global step over all its peers; `loss` is the mean over samples, in nats."""

    step: int
    samples: int
    tokens: int
    peers: int
    loss: float


@dataclass(frozen=True)
class Leader:
    """One user, over all sessions; times are unix seconds, `share` is the fraction of all users' samples.

    `hours` add up over sessions: an hour on two devices is two. They are those in which the coordinator heard of them.
    """

    user: str
    samples: int
    tokens: int
    hours: float
    share: float
    sessions: int
    sessions_present: int
    first_seen: float
    last_seen: float


@dataclass(frozen=True)
class SessionSummary:
    """The newest report of a session and the samples and tokens that were counted for it."""

    session_id: str
    user: str
    peer_id: str
    client_mode: bool
    device: str
    started: float
    last_seen: float
    step: int
    samples_per_second: float
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float
    left: bool
    samples: int
    tokens: int
    present: bool


@dataclass(frozen=True)
class EvaluationRecord:
    """A held-out evaluation: masked-LM and sentence-order loss in nats, sentence pairs, unix seconds, accuracy.

    `unigram_loss` is that of a table of token frequencies on the same masked positions, None where it was not known.
    """

    step: int
    loss: float
    sentence_order_loss: float
    samples: int
    time: float
    sentence_order_accuracy: float | None = None
    unigram_loss: float | None = None

    @property
    def below_unigram(self) -> float | None:
        """By how many nats the loss is below the unigram loss."""
        return below_unigram(self.loss, self.unigram_loss)


@dataclass(frozen=True)
class Totals:
    """The whole run so far. Rounds are summed over sessions: a round of three peers counts three times.

    `data_wait_fraction` is the fraction of all sessions' time that they waited for data. `hours` are everybody's.
    """

    steps: int
    samples: int
    tokens: int
    users: int
    sessions: int
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float
    hours: float
