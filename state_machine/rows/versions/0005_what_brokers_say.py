"""what brokers say, in audits

Revision: 0005, after 0004
An audit of before did not ask brokers.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("audit_run") as table:
        table.add_column(sa.Column("brokers", sa.JSON(), nullable=True))
        table.add_column(sa.Column("brokers_passed", sa.Boolean(), nullable=True))
    with op.batch_alter_table("audit_difference") as table:
        table.add_column(sa.Column("broker", sa.Integer(), nullable=True))
        table.add_column(sa.Column("on_broker", sa.JSON(), nullable=True))
        table.add_column(sa.Column("alone", sa.String(), nullable=False, server_default=""))
