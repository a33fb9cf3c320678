"""One lock per cluster: of two services with two databases, one restarts nodes.

In:   the connect string of a migration. Out: None while the lock is held; raises the finding that says who has it.
Elsewhere: the lock of a service's directory (service.py), its identity (service_identity.py), who asks before
each act (rolling/acts.py).
Rules: an ephemeral znode in a session that is kept for it alone, so that it ends with this process, at the latest at
the session time-out. It is verified before each act. It is created where there is none, and never deleted for another:
neither a name of a host nor a path nor a copied number proves that its holder is dead; ZooKeeper says it within
seconds. After COMPLETED, when ZooKeeper is gone for good, nobody asks.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

import structlog

from migrator.findings.finding import FindingError, words_of
from migrator.findings.road import CLUSTER_LOCK_LOST, CLUSTER_LOCKED, SERVICE_COPIED
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import Create, Multi, MultiOutcome
from migrator.zk.session import ZkSession
from state_machine.nodes.service_identity import new_number

log = structlog.get_logger()

CONNECT_S: Final = 10.0
OUTLIVES_S: Final = 60.0
"""A session of a dead process has ended by then: the time-out is 18 s, and ZooKeeper looks at intervals."""
HOLDER: Final = re.compile(r"service (?P<identity>[0-9a-f]{32}) \(life (?P<life>[0-9a-f]{32})\)")
"""Releases before this form wrote `service of <directory> on <host>, process <id>`: it is shown, and nobody's own."""


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
    """The locks of every migration of this service, by its number.

    home: the directory whose lock this service has. identity: of this directory. open_: makes a session; blocks,
    raises Z2K-2001. steady: seconds of a clock that is never set.
    """

    def __init__(
        self,
        home: str,
        identity: str,
        open_: Callable[[str], LockSession] = open_session,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity
        self._life = new_number()
        self._text = (
            f"service {identity} (life {self._life}) of {home} on {socket.gethostname()}, process {os.getpid()}"
        )
        self._open = open_
        self._steady = steady
        self._sessions: dict[int, LockSession] = {}
        self._own_since: dict[int, tuple[str, float]] = {}
        """By migration: another life of this identity that holds the lock, and since when it was seen."""
        self._turn = threading.Lock()

    def hold(self, migration: int, connect: str) -> None:
        """Blocks. Returns when this service has the lock. Raises Z2K-4219, Z2K-4220 or Z2K-4243."""
        with self._turn:
            try:
                self._hold(migration, connect)
            except FindingError as error:
                if error.code not in (CLUSTER_LOCKED.code, SERVICE_COPIED.code):
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
        if found is None:
            outcome = session.apply(Multi((Create(paths.ROAD_LOCK, self._text.encode(), ephemeral=True),)))
            found = session.get(paths.ROAD_LOCK)
            log.info("road.lock", applied=outcome.applied, path=paths.ROAD_LOCK)
        if found is None:
            raise CLUSTER_LOCK_LOST.error(reason=f"{paths.ROAD_LOCK} cannot be created")
        if found.owner != session.session_id:
            self._refuse(migration, (found.data or b"").decode(errors="replace")[:300] or "unknown")
        self._own_since.pop(migration, None)

    def _refuse(self, migration: int, holder: str) -> NoReturn:
        """Somebody has it. This identity in another life is a dead one for a minute, and then a copy."""
        match = HOLDER.match(holder)
        if match is None or match["identity"] != self._identity:
            self._own_since.pop(migration, None)
            raise CLUSTER_LOCKED.error(path=paths.ROAD_LOCK, holder=holder)
        life, now = match["life"], self._steady()
        seen = self._own_since.get(migration)
        if seen is None or seen[0] != life:
            seen = self._own_since[migration] = (life, now)
        if now - seen[1] >= OUTLIVES_S and life != self._life:
            raise SERVICE_COPIED.error(path=paths.ROAD_LOCK, holder=holder)
        raise CLUSTER_LOCKED.error(path=paths.ROAD_LOCK, holder=f"{holder}, this service before; its session ends soon")

    def _drop(self, migration: int) -> None:
        session = self._sessions.pop(migration, None)
        if session is not None:
            try:
                session.close()
            except FindingError as error:  # its znode ends with the session's time-out
                log.warning("road.lock_not_closed", reason=str(error))
