"""outcomes and files as values

Revision: 0004, after 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("migration") as table:
        table.add_column(sa.Column("outcome", sa.String(), nullable=False, server_default=""))
    migration = sa.table("migration", sa.column("waiting", sa.Text()), sa.column("outcome", sa.String()))
    for kind in ("waiting", "blocked", "ready", "done"):
        told = migration.update().where(migration.c.waiting.startswith(f"{kind}: ")).values(outcome=kind)
        op.get_bind().execute(told)
