"""Evaluations of models that do not learn the order of sentences."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Their sentence-order loss is none. SQLite makes the table anew for that."""
    with op.batch_alter_table("evaluations") as table:
        table.alter_column("sentence_order_loss", existing_type=sa.Double, nullable=True)
