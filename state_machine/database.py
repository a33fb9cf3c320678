"""Open the service's database and bring it to the newest step.

In:   an SQLAlchemy URL; SQLite unless somebody configures another.
Out:  an engine whose commits are on disk before they return (WAL, synchronous=FULL).
Elsewhere: the tables (tables.py), the steps (`versions/`), what is read and written (store.py).
Errors: Z2K-4016 when it cannot be opened, or was written by a later release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from migrator.findings.finding import FindingError
from migrator.findings.service import DATABASE_UNUSABLE

HIDDEN: Final = "***"
HERE: Final = Path(__file__).parent
BUSY_TIMEOUT_MS: Final = 10_000
"""A writer holds the database for milliseconds; ten seconds without it is trouble, not traffic."""

WRITES: Final = "zk2kraft_writes"
"""Execution option of connections that will write: SQLite takes its lock at the begin, so no later refusal."""


def open_database(url: str) -> Engine:
    """Connect and upgrade. Raises Z2K-4016, which never names the password."""
    try:
        engine = make_engine(url)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise _unusable(url, error) from None
    try:
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            upgrade(connection)
    except (SQLAlchemyError, CommandError) as error:
        engine.dispose()
        raise _unusable(url, error) from None
    return engine


def _unusable(url: str, error: Exception) -> FindingError:
    """Without the password, also where a driver repeats the address that it was given."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    try:
        parsed = make_url(url)
    except (SQLAlchemyError, ValueError):
        return DATABASE_UNUSABLE.error(database="(no address)", reason="it is not an SQLAlchemy URL")
    for secret in (parsed.password, url):
        reason = reason.replace(str(secret), HIDDEN) if secret else reason
    return DATABASE_UNUSABLE.error(database=parsed.render_as_string(hide_password=True), reason=reason)


def make_engine(url: str) -> Engine:
    """Not connected yet, and nothing is upgraded."""
    engine = create_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def upgrade(connection: Connection) -> None:
    config = Config(HERE / "alembic.ini")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy says BEGIN; the driver would say it too late
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
