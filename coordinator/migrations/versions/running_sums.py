"""Sums that are kept while contributions come in, by session, global step, and user and day; old rows rolled up."""

import datetime
import time
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables, and fill them from the contributions that are there."""
    # programs from before migrations look here; with a 2 they refuse the ledger instead of writing into it
    op.execute("DELETE FROM schema_version")
    op.execute("INSERT INTO schema_version (version) VALUES (2)")
    _sum_by_session()
    _sum_by_step()
    _sum_by_day()
    _order_contributions_by_step()
    op.create_table(
        "rolled_up",
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("session_id", sa.String(32), primary_key=True),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _sum_by_session() -> None:
    for name, kind in (
        ("samples", sa.BigInteger),
        ("tokens", sa.BigInteger),
        ("steps", sa.BigInteger),
        ("seconds", sa.Double),
        ("heard", sa.Double),
    ):
        op.add_column("sessions", sa.Column(name, kind, nullable=False, server_default="0"))
    for name, counted in (("samples", "SUM(samples)"), ("tokens", "SUM(tokens)"), ("steps", "COUNT(*)")):
        found = f"SELECT {counted} FROM contributions WHERE contributions.session_id = sessions.session_id"
        op.execute(f"UPDATE sessions SET {name} = COALESCE(({found}), 0)")
    # how long they were there is known from their own words only; a lie of more than a month is not believed
    op.execute("UPDATE sessions SET seconds = last_seen - started WHERE last_seen - started BETWEEN 0 AND 2678400")
    heard = sa.text("UPDATE sessions SET heard = CASE WHEN last_seen < :now THEN last_seen ELSE :now END")
    op.execute(heard.bindparams(sa.bindparam("now", time.time(), sa.Double)))


def _sum_by_step() -> None:
    op.create_table(
        "steps",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("peers", sa.BigInteger, nullable=False),
        sa.Column("loss_sum", sa.Double, nullable=False),
    )
    op.execute(
        "INSERT INTO steps (step, samples, tokens, peers, loss_sum) "
        "SELECT step, SUM(samples), SUM(tokens), COUNT(*), SUM(loss * samples) FROM contributions GROUP BY step"
    )


def _sum_by_day() -> None:
    """When something was counted was not kept: all of a session goes to the day on which it was heard of last."""
    days = op.create_table(
        "days",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("user_name", sa.String, primary_key=True),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    now = time.time()
    sums: defaultdict[tuple[datetime.date, str], list[float]] = defaultdict(lambda: [0, 0, 0.0])
    found = sa.text("SELECT last_seen, user_name, samples, tokens, seconds FROM sessions")
    for last_seen, user, *counted in op.get_bind().execute(found):
        # a peer's clock may be anywhere, but nothing was counted tomorrow or before there were computers
        day = datetime.datetime.fromtimestamp(min(max(last_seen, 0.0), now), datetime.timezone.utc).date()
        sums[day, user] = [one + other for one, other in zip(sums[day, user], counted, strict=True)]
    op.bulk_insert(
        days,
        [
            {"day": day, "user_name": user, "samples": samples, "tokens": tokens, "seconds": seconds}
            for (day, user), (samples, tokens, seconds) in sums.items()
        ],
    )


def _order_contributions_by_step() -> None:
    """Rows of one step lie together. Sessions and contributions are written in one transaction: no foreign key."""
    op.rename_table("contributions", "contributions_by_session")
    op.create_table(
        "contributions",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("session_id", sa.String(32), primary_key=True),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("loss", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO contributions (step, session_id, samples, tokens, loss) "
        "SELECT step, session_id, samples, tokens, loss FROM contributions_by_session ORDER BY step, session_id"
    )
    op.drop_table("contributions_by_session")
