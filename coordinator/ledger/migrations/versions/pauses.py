"""Why a session computes nothing, as its person wishes."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add it; older sessions did not pause."""
    op.add_column("sessions", sa.Column("pause", sa.String(20)))
