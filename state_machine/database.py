"""Open the service's database and bring it to the newest step.

In:   an SQLAlchemy URL; SQLite unless somebody configures another.
Out:  an engine whose commits are on disk before they return (WAL, synchronous=FULL). An SQLite file whose schema is
      about to change is copied first, beside it: with the copy the earlier release starts again.
Elsewhere: the tables (tables.py), the steps (`versions/`), what is read and written (store.py).
Errors: Z2K-4016 when it cannot be opened or copied, or was written by a later release.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
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
COPY_MODE: Final = 0o600
"""Of the owner alone, as the database is."""

log = structlog.get_logger()


class UnfitSchema(Exception):
    """Why this database is left as it is."""


def open_database(url: str) -> Engine:
    """Connect and upgrade. Raises Z2K-4016, which never names the password."""
    try:
        engine = make_engine(url)
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise _unusable(url, error) from None
    try:
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            upgrade(connection)
    except (SQLAlchemyError, CommandError, UnfitSchema) as error:
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
    """To the newest step. An SQLite file that has rows is copied before its schema changes; other databases are copied
    by their operators, with their own tools. Raises UnfitSchema.
    """
    config = Config(HERE / "alembic.ini")
    config.attributes["connection"] = connection
    steps = ScriptDirectory.from_config(config)
    found, newest = MigrationContext.configure(connection).get_current_revision(), steps.get_current_head()
    if found is not None and found != newest:
        if found not in {each.revision for each in steps.walk_revisions()}:
            raise UnfitSchema(f"a later release wrote it (schema {found}; this release knows schemas up to {newest})")
        log.info("database.upgraded", schema=newest, before=found, copy=str(_copy(connection, found) or ""))
    command.upgrade(config, "head")


def _copy(connection: Connection, schema: str) -> Path | None:
    """Of an SQLite file, under a name that no copy before it has: `zk2kraft.db.schema-0002-20261127T101500Z`."""
    file = connection.engine.url.database
    if connection.engine.dialect.name != "sqlite" or not file or not Path(file).is_file():
        return None
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = Path(f"{file}.schema-{schema}-{stamp}")
    filling = Path(f"{target}.filling")
    try:
        filling.unlink(missing_ok=True)
        os.close(os.open(filling, os.O_CREAT | os.O_EXCL | os.O_WRONLY, COPY_MODE))
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(filling)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        for path in (filling, filling.parent):
            handle = os.open(path, os.O_RDONLY)
            os.fsync(handle)
            os.close(handle)
        filling.replace(target)
    except (OSError, sqlite3.Error) as error:
        raise UnfitSchema(f"its schema has to change, and it could not be copied to {target} before: {error}") from None
    return target


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
