"""removed migrations and cluster ids

Revision: 0002, after 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("migration") as table:
        table.add_column(sa.Column("cluster_id", sa.String(), nullable=True))
        table.add_column(sa.Column("removed_at", sa.Float(), nullable=True))
        table.add_column(sa.Column("removed_by", sa.String(), nullable=True))
