"""The tables of the first ledgers, which had no migrations.

In such a ledger they are already there, or some of them where a crash interrupted its beginning.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create what is missing."""
    op.create_table(
        "schema_version",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        if_not_exists=True,
    )
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.String(32), primary_key=True),
        sa.Column("user_name", sa.String, nullable=False),
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
        if_not_exists=True,
    )
    op.create_index("ix_sessions_user_name", "sessions", ["user_name"], if_not_exists=True)
    op.create_table(
        "contributions",
        sa.Column("session_id", sa.String(32), sa.ForeignKey("sessions.session_id"), primary_key=True),
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("loss", sa.Double, nullable=False),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_index("ix_contributions_step", "contributions", ["step"], if_not_exists=True)
    op.create_table(
        "evaluations",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("loss", sa.Double, nullable=False),
        sa.Column("sentence_order_loss", sa.Double, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        if_not_exists=True,
    )
