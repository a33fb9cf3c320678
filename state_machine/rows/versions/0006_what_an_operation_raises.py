"""which feature an operation raises or approves

Revision: 0006, after 0005
An operation of before is about metadata.version alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("operation") as table:
        table.add_column(sa.Column("feature", sa.String(), nullable=True))
