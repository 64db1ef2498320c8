"""Hosts of experts: which sessions they are, and the tokens that they served."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add them; nobody hosted experts by a record of a session before."""
    none = sa.text("0")
    op.add_column("sessions", sa.Column("hosts_experts", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("sessions", sa.Column("tokens_served", sa.BigInteger, nullable=False, server_default=none))
    op.add_column("days", sa.Column("tokens_served", sa.BigInteger, nullable=False, server_default=none))
    op.add_column("evaluations", sa.Column("loss_with_experts", sa.Double))
    op.create_table(
        "served",
        sa.Column("session_id", sa.String(32), primary_key=True),
        sa.Column("host", sa.String, primary_key=True),
        sa.Column("told", sa.BigInteger, nullable=False),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
