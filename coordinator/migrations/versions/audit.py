"""What the coordinator saw of rounds of averaging, and what it found out about peers."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the tables. Of older global steps it is not known what was averaged."""
    op.create_table(
        "rounds",
        sa.Column("step", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("peers", sa.BigInteger, nullable=False),
        sa.Column("gradient_norm", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
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
