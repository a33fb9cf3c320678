"""the road to the end

Revision: 0003, after 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

LARGE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    with op.batch_alter_table("backup") as table:
        table.add_column(sa.Column("kind", sa.String(), nullable=False, server_default="export"))
        table.add_column(sa.Column("phase", sa.String(), nullable=True))
        table.add_column(sa.Column("sha256", sa.String(), nullable=True))
        table.add_column(sa.Column("size_bytes", LARGE, nullable=True))
    op.create_table(
        "road_node",
        sa.Column("migration_id", sa.Integer(), sa.ForeignKey("migration.id"), primary_key=True),
        sa.Column("roll", sa.String(), primary_key=True),
        sa.Column("node_id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("rack", sa.String(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("failed_in", sa.String(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("rendered_from", sa.String(), nullable=False),
        sa.Column("checksum", sa.String(), nullable=False),
        sa.Column("incarnation", sa.String(), nullable=False),
        sa.Column("instruction", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("log_end", LARGE, nullable=False),
        sa.Column("began_at", sa.Float(), nullable=True),
        sa.Column("changed_at", sa.Float(), nullable=False),
    )
    op.create_table(
        "approval",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("migration_id", sa.Integer(), sa.ForeignKey("migration.id"), nullable=False),
        sa.Column("to_phase", sa.String(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
    )
    op.create_index("ix_approval_migration_id", "approval", ["migration_id"])
