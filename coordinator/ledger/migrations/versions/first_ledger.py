"""The tables of the first ledgers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create them."""
    _sessions()
    _sums()
    _learning()
    _findings()


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.String(32), primary_key=True),
        sa.Column("user_name", sa.String, nullable=False, index=True),
        sa.Column("peer_id", sa.String, nullable=False),
        sa.Column("client_mode", sa.Boolean, nullable=False),
        sa.Column("device", sa.String, nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("last_seen", sa.Double, nullable=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("samples_per_second", sa.Double, nullable=False),
        sa.Column("averaging_rounds", sa.BigInteger, nullable=False),
        sa.Column("averaging_failures", sa.BigInteger, nullable=False),
        sa.Column("data_wait_fraction", sa.Double, nullable=False),
        sa.Column("has_left", sa.Boolean, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("steps", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("heard", sa.Double, nullable=False),
        sa.Column("country", sa.String(2)),
    )


def _sums() -> None:
    op.create_table(
        "headers",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("step", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "place",
        sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("start", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
    )
    op.create_table(
        "steps",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("peers", sa.BigInteger, nullable=False),
        sa.Column("loss_sum", sa.Double, nullable=False),
        sa.Column("time", sa.Double, nullable=False, index=True),
    )
    op.create_table(
        "days",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("user_name", sa.String, primary_key=True, index=True),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "minutes",
        sa.Column("time", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("sessions", sa.BigInteger, nullable=False),
        sa.Column("users", sa.BigInteger, nullable=False),
        sa.Column("samples_per_second", sa.Double, nullable=False),
        sa.Column("data_wait_fraction", sa.Double, nullable=False),
        sa.Column("averaging_seconds", sa.Double),
        sa.Column("users_ever", sa.BigInteger, nullable=False),
        sa.Column("sessions_ever", sa.BigInteger, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("averaging_rounds", sa.BigInteger, nullable=False),
        sa.Column("averaging_failures", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _learning() -> None:
    op.create_table(
        "evaluations",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("loss", sa.Double, nullable=False),
        sa.Column("sentence_order_loss", sa.Double, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("sentence_order_accuracy", sa.Double),
    )
    op.create_table(
        "fills",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("sentences", sa.JSON, nullable=False),
    )


def _findings() -> None:
    op.create_table(
        "rounds",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("peers", sa.BigInteger, nullable=False),
        sa.Column("gradient_norm", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double),
    )
    op.create_table(
        "flags",
        sa.Column("peer_id", sa.String, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("user_name", sa.String, nullable=False),
        sa.Column("step", sa.BigInteger, nullable=False),
        sa.Column("what", sa.String, nullable=False),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("first", sa.Double, nullable=False),
        sa.Column("last", sa.Double, nullable=False),
    )
