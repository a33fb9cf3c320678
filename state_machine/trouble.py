"""What went wrong in one migration's round, as a finding; and saying it without flooding the log.

In:   any exception of a round.
Out:  the finding that names it; a log line when it is new, or has lasted for another minute.
Elsewhere: who waits because of it (reconcile.py), the pages of the codes (runbooks/Z2K-4101.md and the next ones).
Rule: nothing is swallowed. What nobody foresaw is named with its place in our code, and its trace is logged.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Final

import structlog
from sqlalchemy.exc import (
    DatabaseError,
    DBAPIError,
    InterfaceError,
    InternalError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,
)

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.service import DATABASE_TROUBLE, ROUND_FAILED, SERVICE_FILE_TROUBLE
from state_machine.rows.database_claim import ClaimLost

log = structlog.get_logger()

StoreError = SQLAlchemyError
"""What the store raises beside findings, for packages that know no SQLAlchemy."""
_OF_THE_DATABASE: Final = (ClaimLost, InterfaceError, InternalError, OperationalError, TimeoutError)
"""A damaged SQLite file is a DatabaseError without a kind."""
SAY_AGAIN_S: Final = 60.0
REASON_MAX: Final = 300


def named(error: Exception, migration: int) -> Occurrence:
    """The finding behind an exception of one migration's round."""
    match error:
        case FindingError():
            return error.occurrence
        case ClaimLost():
            return error.occurrence
        case SQLAlchemyError():
            return DATABASE_TROUBLE.found(migration=migration, reason=words_of(error))
        case OSError():
            return SERVICE_FILE_TROUBLE.found(migration=migration, reason=words_of(error))
        case _:
            return ROUND_FAILED.found(
                migration=migration, fault=f"{type(error).__name__} {words_of(error)}{_place(error)}"
            )


def is_database_trouble(error: SQLAlchemyError) -> bool:
    """The database's own: away, locked, full, damaged, another service's. Everything else is a fault of ours."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return type(error) is DatabaseError or isinstance(error, _OF_THE_DATABASE)


def is_foreseen(found: Occurrence) -> bool:
    """Whether no trace is needed to understand it."""
    return found.code != ROUND_FAILED.code


class TroubleLog:
    """Says each migration's trouble when it changes, and then once a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: dict[int, tuple[str, float]] = {}

    def say(self, migration: int, found: Occurrence, error: Exception) -> None:
        text, now = f"{found.code} {found.text}", self._clock()
        before, at = self._said.get(migration, ("", 0.0))
        if text == before and now - at < SAY_AGAIN_S:
            return
        self._said[migration] = (text, now)
        trace = None if is_foreseen(found) else error
        log.warning("round.failed", migration=migration, code=found.code, reason=text, exc_info=trace)

    def over(self, migration: int) -> None:
        """It went well again."""
        if self._said.pop(migration, None) is not None:
            log.info("round.well_again", migration=migration)


def words_of(error: Exception) -> str:
    """One line, without the statement and its parameters that SQLAlchemy adds."""
    origin = getattr(error, "orig", None) or error
    lines = str(origin).splitlines()
    return (lines[0] if lines else type(error).__name__)[:REASON_MAX]


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
