"""One lock per cluster: of two services with two databases, one restarts nodes.

In:   the connect string of a migration. Out: None while the lock is held; raises the finding that says who has it.
Elsewhere: the lock of a service's directory (service.py), who asks before each act (roller.py).
Rules: an ephemeral znode in a session that is kept for it alone, so that it ends with this process, at the latest at
the session time-out. It is verified before each act. A service with the same directory on the same host follows a dead
one at once: the lock of the directory proves that. After COMPLETED, when ZooKeeper is gone for good, nobody asks.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from migrator.findings.finding import FindingError, words_of
from migrator.findings.road import CLUSTER_LOCK_LOST, CLUSTER_LOCKED
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import Create, Delete, Multi, MultiOutcome
from migrator.zk.session import ZkSession

log = structlog.get_logger()

CONNECT_S: Final = 10.0


class LockSession(Protocol):
    """A ZooKeeper session, as far as a lock needs it."""

    @property
    def session_id(self) -> int: ...
    def get(self, path: str) -> Znode | None: ...
    def apply(self, multi: Multi) -> MultiOutcome: ...
    def close(self) -> None: ...


def open_session(connect: str) -> LockSession:
    return ZkSession(connect).start(CONNECT_S)


class ClusterLocks:
    """Of every migration of this service, by its number.

    home: the directory whose lock this service has. open_: makes a session; blocks, raises Z2K-2001.
    """

    def __init__(self, home: str, open_: Callable[[str], LockSession] = open_session) -> None:
        self._home = f"service of {home} on {socket.gethostname()}, process "
        self._open = open_
        self._sessions: dict[int, LockSession] = {}
        self._turn = threading.Lock()

    def hold(self, migration: int, connect: str) -> None:
        """Blocks. Returns when this service has the lock. Raises Z2K-4219 or Z2K-4220."""
        with self._turn:
            try:
                self._hold(migration, connect)
            except FindingError as error:
                if error.code != CLUSTER_LOCKED.code:
                    self._drop(migration)
                    raise CLUSTER_LOCK_LOST.error(reason=words_of(error)) from error
                raise

    def release(self, migration: int) -> None:
        with self._turn:
            self._drop(migration)

    def close(self) -> None:
        with self._turn:
            for each in list(self._sessions):
                self._drop(each)

    def _hold(self, migration: int, connect: str) -> None:
        session = self._sessions.get(migration)
        if session is None:
            session = self._sessions[migration] = self._open(connect)
        found = session.get(paths.ROAD_LOCK)
        if found is None or self._is_of_a_life_before(found, session):
            create = Create(paths.ROAD_LOCK, f"{self._home}{os.getpid()}".encode(), ephemeral=True)
            before = () if found is None else (Delete(paths.ROAD_LOCK, found.version),)
            outcome = session.apply(Multi((*before, create)))
            found = session.get(paths.ROAD_LOCK)
            log.info("road.lock", applied=outcome.applied, path=paths.ROAD_LOCK)
        if found is None:
            raise CLUSTER_LOCK_LOST.error(reason=f"{paths.ROAD_LOCK} cannot be created")
        if found.owner != session.session_id:
            holder = (found.data or b"").decode(errors="replace")[:200] or "unknown"
            raise CLUSTER_LOCKED.error(path=paths.ROAD_LOCK, holder=holder)

    def _is_of_a_life_before(self, found: Znode, session: LockSession) -> bool:
        return found.owner != session.session_id and (found.data or b"").startswith(self._home.encode())

    def _drop(self, migration: int) -> None:
        session = self._sessions.pop(migration, None)
        if session is not None:
            try:
                session.close()
            except FindingError as error:  # its znode ends with the session's time-out
                log.warning("road.lock_not_closed", reason=str(error))
