"""Rounds without the samples and peers that steps have, too, and that nothing read."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Drop them; SQLite copies the table, as older ones cannot drop a column."""
    with op.batch_alter_table("rounds") as table:
        for name in ("samples", "peers"):
            table.drop_column(name)
