"""outcomes and nodes of files as values

Revision: 0004, after 0003
The last reading of all files kept nodes in English lines; it becomes what the service of today writes.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

LINES = ("drifted", "not_read", "with_zookeeper", "not_kept")
KINDS = ("waiting", "blocked", "ready", "done")


def upgrade() -> None:
    with op.batch_alter_table("migration") as table:
        table.add_column(sa.Column("outcome", sa.String(), nullable=False, server_default=""))
    bind = op.get_bind()
    migration = sa.table("migration", sa.column("waiting", sa.Text()), sa.column("outcome", sa.String()))
    for kind in KINDS:
        bind.execute(migration.update().where(migration.c.waiting.startswith(f"{kind}: ")).values(outcome=kind))
    kept = sa.table(
        "observation",
        sa.column("migration_id", sa.Integer()),
        sa.column("kind", sa.String()),
        sa.column("document", sa.JSON()),
    )
    files = kept.c.kind == "files"
    for number, document in bind.execute(sa.select(kept.c.migration_id, kept.c.document).where(files)).all():
        same = kept.update().where(files, kept.c.migration_id == number)
        bind.execute(same.values(document=of_today(document)))


def of_today(document: dict[str, Any]) -> dict[str, Any]:
    """Renew a document of the kind "files". What is of today already stays."""
    found = {key: [about(each) for each in document.get(key, ())] for key in LINES}
    guards = [{"code": code_of(each.get("reason", "")), **each} for each in document.get("guards", ())]
    return {**document, **found, "guards": guards, "code": document.get("code", code_of(document.get("problem", "")))}


def about(line: str | dict[str, Any]) -> dict[str, Any]:
    """Take `broker 1: /etc/...: why` apart. A line of another form stays, as that of a node which no waiver names, so
    that gates are closed until the first reading. No line keeps the service from its start.
    """
    if isinstance(line, dict):
        return line
    name, _, said = line.partition(": ")
    role, _, node = name.rpartition(" ")
    if not node.isdecimal():
        return {"role": "node", "node": -1, "said": line}
    return {"role": role, "node": int(node), "said": said}


def code_of(text: str) -> str:
    """The code of the finding that the text begins with; empty where it begins with another word."""
    word = text.partition(" ")[0]
    return word if word.startswith("Z2K-") else ""
