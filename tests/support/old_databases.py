"""Databases as earlier releases left them."""

from __future__ import annotations

from typing import Any, Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Executable, insert, text

from state_machine.rows.database import HERE, WRITES, make_engine
from state_machine.rows.tables import ObservationRow

FILES_OF_0003: Final[dict[str, Any]] = {
    "at": 5.0,
    "problem": "Z2K-4207 No inventory file names the nodes.",
    "drifted": ["controller 3001: /etc/controller.properties"],
    "not_read": ["broker 1: /etc/kafka.properties: its host: refused", "nobody knows which"],
    "guards": [{"node": 3000, "state": "not proven", "reason": "Z2K-7042 The jar is one without ZooKeeper."}],
    "baseline": {"broker 1": "abc"},
}
"""The last reading of all files, with nodes in lines."""


def make_schema(url: str, schema: str, *also: Executable) -> str:
    """An empty database of that schema. also: statements, in the same transaction. Returns `url`."""
    config = Config(HERE / "alembic.ini")
    engine = make_engine(url)
    with engine.execution_options(**{WRITES: True}).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, schema)
        for statement in also:
            connection.execute(statement)
    engine.dispose()
    return url


def in_the_soak(url: str) -> str:
    """Of schema 0003: one migration that is blocked in SOAK, number 1, with `FILES_OF_0003`."""
    migration = text(
        "INSERT INTO migration (id, name, inventory, created_at, created_by, phase, since, version, waiting) "
        "VALUES (1, 'orders', '{}', 1.0, 'Ada', 'SOAK', 1.0, 1, 'blocked: it stands')"
    )
    files = insert(ObservationRow).values(migration_id=1, kind="files", at=5.0, document=FILES_OF_0003)
    return make_schema(url, "0003", migration, files)
