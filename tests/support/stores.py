"""The service's database for a test.

In:   a directory. Out: a `Store`.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import event

from state_machine.rows.database import WRITES, make_engine
from state_machine.rows.store import Store
from state_machine.rows.tables import Base


def a_store(directory: Path) -> Store:
    """A file without Alembic, which takes longer; `test_store.py` shows that both make the same tables.

    Not synchronous: crashes are played inside this process, and no power is cut here.
    """
    engine = make_engine(f"sqlite:///{directory / 'service.db'}")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    with engine.execution_options(**{WRITES: True}).begin() as connection:
        Base.metadata.create_all(connection)
    return Store(engine)
