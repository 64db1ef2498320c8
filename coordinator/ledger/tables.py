"""The ledger's tables. A change to one needs a migration: see `coordinator/ledger/migrations.py`."""

import datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Double, Index, String, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables of the ledger; integers have 64 bits, so that sums of tokens fit."""

    type_annotation_map: ClassVar = {int: BigInteger, float: Double}


class VersionRow(Base):
    """How many steps of `coordinator/ledger/migrations.py` the ledger has seen: one row."""

    __tablename__ = "ledger_version"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class SessionRow(Base):
    """The newest report of a session, and what was counted for it since it began.

    `user` and `left` would be reserved words of PostgreSQL. `heard` is when the newest report arrived and `seconds`
    how long the session was present, both by the coordinator's clock. `tokens_served` are those that its experts have
    served to others.
    """

    __tablename__ = "sessions"
    session_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    user_name: Mapped[str] = mapped_column(index=True)
    peer_id: Mapped[str] = mapped_column(index=True)
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
    seconds: Mapped[float]
    heard: Mapped[float]
    country: Mapped[str | None] = mapped_column(String(2))
    hosts_experts: Mapped[bool]
    tokens_served: Mapped[int]
    pause: Mapped[str | None] = mapped_column(String(20))


class HeaderRow(Base):
    """A header of the log whose members are credited; the primary key excludes crediting it twice."""

    __tablename__ = "headers"
    __table_args__ = ({"sqlite_with_rowid": False},)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)


class PlaceRow(Base):
    """The place in the log on the disk up to which headers are entered: one row. See `averaging/log/entry_file.py`."""

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
    tokens_served: Mapped[int]


class TeamRow(Base):
    """A team. `folded` is its name as names are compared; `creator` and `created` bound how many somebody creates."""

    __tablename__ = "teams"
    team_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str]
    folded: Mapped[str] = mapped_column(unique=True)
    creator: Mapped[str]
    created: Mapped[float]


class TeamMemberRow(Base):
    """What a user has given to a team while they were in it; `is_member` tells whether they are now.

    It is counted in the transaction that credits the user, for the team that they are in then, and stays when they
    leave. Rows of those who have left without having given anything are removed.
    """

    __tablename__ = "team_members"
    __table_args__ = (
        Index(
            "one_team_each",
            "user_name",
            unique=True,
            sqlite_where=text("is_member"),
            postgresql_where=text("is_member"),
        ),
        {"sqlite_with_rowid": False},
    )
    team_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    user_name: Mapped[str] = mapped_column(primary_key=True)
    is_member: Mapped[bool]
    since: Mapped[float]
    samples: Mapped[int]
    tokens_served: Mapped[int]


class TeamDayRow(Base):
    """What was counted for a team on a day (UTC), over all who were in it then."""

    __tablename__ = "team_days"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day: Mapped[datetime.date] = mapped_column(primary_key=True)
    team_id: Mapped[str] = mapped_column(String(16), primary_key=True, index=True)
    samples: Mapped[int]
    tokens_served: Mapped[int]


class ServedRow(Base):
    """Tokens that experts of a host, by its peer id, have served a trainer's session: as it told, and as was counted.

    See `coordinator/ledger/serving.py`.
    """

    __tablename__ = "served"
    __table_args__ = ({"sqlite_with_rowid": False},)
    session_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    host: Mapped[str] = mapped_column(primary_key=True)
    told: Mapped[int]
    counted: Mapped[int]


class EvaluationRow(Base):
    """The newest held-out evaluation of a global step; `loss` is that of the trunk alone in a run with experts."""

    __tablename__ = "evaluations"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    loss: Mapped[float]
    sentence_order_loss: Mapped[float | None]
    samples: Mapped[int]
    time: Mapped[float]
    sentence_order_accuracy: Mapped[float | None]
    unigram_loss: Mapped[float | None]
    loss_with_experts: Mapped[float | None]


class MinuteRow(Base):
    """The run in a minute that began at `time` (unix seconds).

    First what was found then: sessions present and their users, their speed, the mean fraction of time that they
    waited for data, and the mean seconds of the coordinator's averaging rounds since the row before, None without any.
    The rest are sums since the run began; `seconds` are those of presence, rounds are summed over sessions.
    """

    __tablename__ = "minutes"
    __table_args__ = ({"sqlite_with_rowid": False},)
    time: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sessions: Mapped[int]
    users: Mapped[int]
    samples_per_second: Mapped[float]
    data_wait_fraction: Mapped[float]
    averaging_seconds: Mapped[float | None]
    users_ever: Mapped[int]
    samples: Mapped[int]
    tokens: Mapped[int]
    seconds: Mapped[float]
    averaging_rounds: Mapped[int]
    averaging_failures: Mapped[int]


class FillRow(Base):
    """What the model of a global step predicted for the masks of fixed sentences, as JSON of `FilledSentence`s."""

    __tablename__ = "fills"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    time: Mapped[float]
    sentences: Mapped[list[Any]] = mapped_column(JSON)


class RoundRow(Base):
    """An update that the coordinator has applied, kept for ever, as steps are.

    `seconds` are those from the coordinator's call to the commit, None if it did not take part in the round.
    """

    __tablename__ = "rounds"
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    gradient_norm: Mapped[float]
    seconds: Mapped[float | None]


class FlagRow(Base):
    """The newest flag of a kind about a peer, and how often there was one."""

    __tablename__ = "flags"
    peer_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    user_name: Mapped[str]
    step: Mapped[int]
    what: Mapped[str]
    times: Mapped[int]
    first: Mapped[float]
    last: Mapped[float]
