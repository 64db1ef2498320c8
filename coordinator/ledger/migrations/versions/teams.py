"""Teams, their members, and what was counted for them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add them, and find the sessions of a peer at once; nobody is in a team yet."""
    op.create_index("ix_sessions_peer_id", "sessions", ["peer_id"])
    op.create_table(
        "teams",
        sa.Column("team_id", sa.String(16), primary_key=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("folded", sa.String, nullable=False, unique=True),
        sa.Column("creator", sa.String, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_table(
        "team_members",
        sa.Column("team_id", sa.String(16), primary_key=True),
        sa.Column("user_name", sa.String, primary_key=True),
        sa.Column("is_member", sa.Boolean, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens_served", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    now = sa.text("is_member")
    op.create_index("one_team_each", "team_members", ["user_name"], unique=True, sqlite_where=now, postgresql_where=now)
    op.create_table(
        "team_days",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("team_id", sa.String(16), primary_key=True, index=True),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("tokens_served", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
