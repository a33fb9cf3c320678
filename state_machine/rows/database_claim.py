"""Which service a PostgreSQL database belongs to: the one whose session holds a lock of the server's.

In:   the database's URL, and how this service is called by people.
Out:  `DatabaseClaim`, held from the start of the service to its end; every transaction that writes asks for it.
Elsewhere: the lock of the service's directory (service.py), the turn of writers (database.py).
Errors: Z2K-4013 while another service holds it, Z2K-4016 when the server cannot be asked.
The server lets go of it as soon as the session ends: with the process, when its host was silent for about ten seconds,
or when the server restarts. A service that lost it takes it again before it writes, or writes nothing. A pooler that
hands one session to several clients breaks this, and is not noticed.
"""

from __future__ import annotations

import os
import secrets
import socket
from typing import Final

import structlog
from sqlalchemy import Connection, Engine, NullPool, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.service import SERVICE_RUNS_ALREADY
from state_machine.rows.database import UnfitSchema, make_engine, shown, unusable

SERVICES: Final = 0x7A6B
"""The first of the two keys of these locks: 0 as the second one is the claim, every other one is a claim's own mark."""
THE_CLAIM: Final = 0
MARK_BITS: Final = 30
NAME_MAX: Final = 63
"""Bytes of a session's name that PostgreSQL keeps."""
LET_GO_S: Final = 3.0
"""A server notices within milliseconds that a process on a living host has ended; a service that is restarted waits."""
TRY_EVERY_S: Final = 0.1

_STAY: Final = text(
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"  # since PostgreSQL 14
)
_TAKE: Final = text(f"SELECT pg_try_advisory_lock({SERVICES}, {THE_CLAIM})")
_MARK: Final = text(f"SELECT pg_advisory_lock({SERVICES}, :mark)")
_LOCKS: Final = (
    "FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 "
    f"AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = {SERVICES}"
)
_IS_HELD: Final = text(f"SELECT count(*) {_LOCKS} AND objid = :mark")
_HOLDER: Final = text(
    f"SELECT application_name FROM pg_stat_activity WHERE pid IN (SELECT pid {_LOCKS} AND objid = {THE_CLAIM})"
)

log = structlog.get_logger()


class ClaimLost(SQLAlchemyError):
    """Another service has the database. A fault of the database for all that write, not of what they wanted to write:
    no request and no operation is refused for it.
    """

    def __init__(self, occurrence: Occurrence) -> None:
        super().__init__(occurrence.text)
        self.occurrence = occurrence


class DatabaseClaim:
    """Held while its session lives. mark: a second lock of the same session, whose number nobody else has."""

    def __init__(self, url: str, holder: str) -> None:
        self._url = url
        named = {"application_name": holder.encode()[:NAME_MAX].decode(errors="ignore")}
        self._engine: Engine = make_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=named)
        self._session: Connection | None = None
        self._mark = THE_CLAIM

    def take(self) -> None:
        """Raises Z2K-4013; what the driver says when the server cannot be asked."""
        session = self._engine.connect()
        try:
            session.execute(_STAY)
            if not session.scalar(_TAKE):
                holder = session.scalar(_HOLDER) or "it has just ended, or is not this user's to see"
                raise SERVICE_RUNS_ALREADY.error(directory=f"The database {shown(self._url)}", holder=holder)
            mark = 1 + secrets.randbits(MARK_BITS)
            session.execute(_MARK, {"mark": mark})
        except BaseException:
            session.close()
            raise
        self._session, self._mark = session, mark

    def assert_held(self, writer: Session) -> None:
        """Take the claim again if it was lost, in a transaction that has the turn of writers. Raises ClaimLost."""
        if writer.scalar(_IS_HELD, {"mark": self._mark}):
            return
        self.close()
        try:
            self.take()
        except FindingError as error:
            raise ClaimLost(error.occurrence) from error
        log.warning("database.claimed_again", reason="the session that held it had ended")

    def close(self) -> None:
        """Let go of it."""
        if self._session is not None:
            self._session.invalidate()
            self._session.close()
            self._session = None


def claim_database(url: str) -> DatabaseClaim:
    """Claim a PostgreSQL database for this process, before anything of it is read. Raises Z2K-4013, Z2K-4016."""
    holder = f"zk2kraft serve, process {os.getpid()} on {socket.gethostname()}"
    again = Retrying(
        retry=retry_if_exception_type(FindingError),
        stop=stop_after_delay(LET_GO_S),
        wait=wait_fixed(TRY_EVERY_S),
        reraise=True,
    )
    try:
        claim = DatabaseClaim(url, holder)
        again(claim.take)
    except (SQLAlchemyError, UnfitSchema, ImportError, ValueError) as error:
        raise unusable(url, error) from None
    return claim
