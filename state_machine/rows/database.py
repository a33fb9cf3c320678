"""Open the service's database and bring it to the newest step.

In:   an SQLAlchemy URL: SQLite, or PostgreSQL through psycopg.
Out:  an engine whose commits are on disk before they return (SQLite: WAL, synchronous=FULL). An SQLite file whose
      schema is about to change is copied first, beside it: with the copy the earlier release starts again.
Elsewhere: the tables (tables.py), the steps (`versions/`), what is read and written (store.py), which service a
PostgreSQL database belongs to (database_claim.py).
Errors: Z2K-4016 when it cannot be opened or copied, or was written by a later release.
Both give the same two kinds of transaction: one writer at a time, which sees everything that was committed before it,
and readers that see one moment.
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
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from migrator.findings.finding import FindingError
from migrator.findings.service import DATABASE_UNUSABLE

HIDDEN: Final = "***"
HERE: Final = Path(__file__).parent
BUSY_TIMEOUT_MS: Final = 10_000
"""A writer holds the database for milliseconds; ten seconds without it is trouble, not traffic."""
SILENCE_S: Final = 10
"""After which either end of a PostgreSQL session counts as gone: about so long, by keepalives of both."""
OF_THE_CLIENT: Final = {
    "connect_timeout": SILENCE_S,
    "tcp_user_timeout": SILENCE_S * 1000,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "client_encoding": "utf8",
}
OF_THE_SESSION: Final = {
    "tcp_keepalives_idle": 4,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
    "lock_timeout": BUSY_TIMEOUT_MS,
    "statement_timeout": 3 * BUSY_TIMEOUT_MS,
    "idle_in_transaction_session_timeout": 3 * BUSY_TIMEOUT_MS,
}
"""As the server sets them, in seconds and milliseconds: what a dead host left holds nobody up for longer."""
DRIVERS: Final = ("sqlite+pysqlite", "postgresql+psycopg")

WRITES: Final = "zk2kraft_writes"
"""Execution option of connections that will write: they take the writers' lock at the begin, so no later refusal."""
WRITERS: Final = 0x7A6B_0001
"""The advisory lock of a transaction that writes to PostgreSQL. Nothing but zk2kraft uses its database."""
# Said each time: a server, a database or a role may have other defaults. A writer reads after it has its turn.
BEGIN_TO_READ: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
BEGIN_TO_WRITE: Final = (
    f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; SELECT pg_advisory_xact_lock({WRITERS})"
)
NO_NUL: Final = "\N{REPLACEMENT CHARACTER}"
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
        raise unusable(url, error) from None
    try:
        with engine.execution_options(**{WRITES: True}).begin() as connection:
            upgrade(connection)
    except (SQLAlchemyError, CommandError, UnfitSchema) as error:
        engine.dispose()
        raise unusable(url, error) from None
    return engine


def unusable(url: str, error: Exception) -> FindingError:
    """Without the password, also where a driver repeats the address that it was given."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    try:
        parsed = make_url(url)
    except (SQLAlchemyError, ValueError):
        return DATABASE_UNUSABLE.error(database="(no address)", reason="it is not an SQLAlchemy URL")
    for secret in (parsed.password, *_secret_words(parsed).values(), url):
        reason = reason.replace(str(secret), HIDDEN) if secret else reason
    return DATABASE_UNUSABLE.error(database=shown(url), reason=reason)


def shown(url: str) -> str:
    """Without its password, wherever it stands in it."""
    parsed = make_url(url)
    hidden = parsed.update_query_dict(dict.fromkeys(_secret_words(parsed), HIDDEN))
    return hidden.render_as_string(hide_password=True)


def _secret_words(parsed: URL) -> dict[str, str]:
    """Of the query: `password`, `sslpassword` and the like."""
    return {key: str(value) for key, value in parsed.query.items() if "password" in key.lower()}


def make_engine(url: str, **options: Any) -> Engine:
    """Not connected yet, and nothing is upgraded. options: of SQLAlchemy's `create_engine`. Raises ValueError."""
    address = make_url(url)
    if is_postgresql(url):
        given = {**OF_THE_CLIENT, **options.pop("connect_args", {})}
        engine = create_engine(address, pool_pre_ping=True, connect_args=given, **options)
    else:
        engine = create_engine(address, **options)
    if f"{engine.dialect.name}+{engine.dialect.driver}" not in DRIVERS:
        raise ValueError(f"zk2kraft uses {' or '.join(DRIVERS)}, not {engine.dialect.name}+{engine.dialect.driver}")
    sqlite = engine.dialect.name == "sqlite"
    event.listen(engine, "connect", _prepare_sqlite if sqlite else _prepare_postgresql)
    if options.get("isolation_level") != "AUTOCOMMIT":
        event.listen(engine, "begin", _begin_sqlite if sqlite else _begin_postgresql)
    return engine


def is_postgresql(url: str) -> bool:
    return _backend(url) == "postgresql"


def sqlite_file(url: str) -> Path | None:
    """Its one name; None for another database, and for one without a file or named by a URI."""
    name = make_url(url).database if _backend(url) == "sqlite" else None
    return Path(name).resolve() if name and name != ":memory:" and not name.startswith("file:") else None


def without_nul(text: str) -> str:
    """As every database can keep it."""
    return text.replace("\0", NO_NUL)


def _backend(url: str) -> str:
    """Empty when it is no URL."""
    try:
        return make_url(url).get_backend_name()
    except SQLAlchemyError:
        return ""


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


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    """Text with the character NUL, which PostgreSQL cannot keep, is kept with a mark in its place: names of znodes and
    texts of other programs may have it. Raises UnfitSchema.
    """
    from psycopg.types.string import StrDumper

    class WithoutNul(StrDumper):
        def dump(self, obj: str) -> Any:
            return super().dump(without_nul(obj))

    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise UnfitSchema(f"its encoding is {encoding}; zk2kraft needs one of encoding UTF8")
    connection.adapters.register_dumper(str, WithoutNul)
    cursor = connection.cursor()
    cursor.execute("; ".join(f"SET {name} = {value}" for name, value in OF_THE_SESSION.items()))
    cursor.close()
    connection.commit()


def _begin_postgresql(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql(BEGIN_TO_WRITE if writes else BEGIN_TO_READ)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
