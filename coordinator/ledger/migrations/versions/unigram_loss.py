"""The unigram loss beside each held-out loss."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add it; of older evaluations it is not known."""
    op.add_column("evaluations", sa.Column("unigram_loss", sa.Double))
