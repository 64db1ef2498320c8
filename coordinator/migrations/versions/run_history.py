"""What the run was like over time: when steps were counted, a row a minute, masks filled, and countries of sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add columns and tables. When older steps were counted, and what older sessions did not say, stays unknown."""
    op.add_column("steps", sa.Column("time", sa.Double))
    op.create_index("ix_steps_time", "steps", ["time"])
    op.add_column("sessions", sa.Column("country", sa.String(2)))
    op.add_column("evaluations", sa.Column("sentence_order_accuracy", sa.Double))
    op.create_index("ix_days_user_name", "days", ["user_name"])
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
    op.create_table(
        "fills",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("sentences", sa.JSON, nullable=False),
    )
