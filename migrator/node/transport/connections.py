"""The connections that others open to this process: how many there may be, which makes room, how long one is silent.

In:   sockets that were accepted, on whatever listener; what each connection does, asking or silent.
Out:  a place for a connection, or none; the end of one that has been silent for the longest time.
Elsewhere: what is said on a connection (listener/server.py), the limits in the file (config/properties.py).
Rules: the log, ZooKeeper and the other voters never lack a descriptor because of connections: those get a part of the
process's descriptors, and when it is used up the longest silent connection is closed for a new one. So a voter or a
broker gets in, however many connections lie idle. Nobody is closed while its request is being answered. Newcomers, who
have asked nothing yet, make room before anybody else: whoever cannot authenticate takes no place of one who did.
Source: Kafka 3.9 `SocketServer` (`max.connections`), `Selector` (`connections.max.idle.ms`).
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from migrator.findings.finding import Occurrence
from migrator.findings.quorum import CONNECTIONS_FULL

log = structlog.get_logger()

RESERVED_MAX: Final = 256
"""Descriptors that no connection takes: segments of the log, snapshots, sessions, requests of our own."""
NEWCOMERS_MAX: Final = 1_024
"""So many have asked nothing yet; each may have sent half a request of 64 KB."""
SILENT_AT_LEAST_S: Final = 1.0
"""A connection that was used just now is not closed for another one. A newcomer's is: a flood is always new."""
STANDS_S: Final = 60.0
"""The finding stands for so long after the last connection that found no free place; it is logged as often."""
KEEPALIVE_S: Final = (60, 10, 6)
"""A silent peer is probed after the first, every second, and is gone after so many probes without an answer."""


def raise_descriptor_limit() -> int:
    """Take as many descriptors as this process is allowed; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        log.info("descriptors.raised", before=soft, limit=hard)
    return hard


def keep_alive(connection: socket.socket) -> None:
    """A peer that vanished without a word is noticed, also where nothing is sent."""
    idle, interval, count = KEEPALIVE_S
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)


@dataclass(slots=True, eq=False)
class ConnectionPlace:
    """One connection. silent_since_s: None while a request of it is being answered."""

    close: Callable[[], object]
    silent_since_s: float | None


class Connections:
    """The connections of one process, all listeners together. It belongs to the loop's thread.

    most:             Kafka's max.connections.
    idle_s:           how long one may be silent; None: for ever.
    descriptor_limit: how many descriptors the process may have.
    """

    def __init__(
        self,
        *,
        most: int = 2**31 - 1,
        idle_s: float | None = 600.0,
        descriptor_limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limit = descriptor_limit or resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = min(most, limit - min(RESERVED_MAX, limit // 2))
        self.idle_s = idle_s
        self.refused = 0
        self.closed_for_others = 0
        self._clock = clock
        self._places: set[ConnectionPlace] = set()
        self._newcomers: set[ConnectionPlace] = set()
        self._full_at_s: float | None = None
        self._told_at_s: float | None = None

    @property
    def open(self) -> int:
        return len(self._places)

    @property
    def finding(self) -> Occurrence | None:
        """That all places are taken, while it is so."""
        if self._full_at_s is None or self._clock() - self._full_at_s > STANDS_S:
            return None
        return CONNECTIONS_FULL.found(most=self.most, refused=self.refused, closed=self.closed_for_others)

    def has_room(self) -> bool:
        """Whether one more may come; the longest silent one is closed for it where that is needed."""
        if len(self._newcomers) >= NEWCOMERS_MAX:
            self._close_the_longest_silent(self._newcomers, 0.0)
        if len(self._places) < self.most:
            return True
        has_room = self._make_room()
        self.refused += not has_room
        self._tell()
        return has_room

    def no_descriptor(self) -> None:
        """The system gave none for a connection that waits to be accepted."""
        self._make_room()
        self._tell()

    @contextmanager
    def place(self, close: Callable[[], object]) -> Iterator[ConnectionPlace]:
        """close: ends the connection; called at the most once."""
        taken = ConnectionPlace(close, self._clock())
        self._places.add(taken)
        self._newcomers.add(taken)
        try:
            yield taken
        finally:
            self._leave(taken)

    def has_asked(self, place: ConnectionPlace) -> None:
        """Who is there has shown who they are, where that is wanted, and a whole request has come."""
        self._newcomers.discard(place)

    @contextmanager
    def silent(self, place: ConnectionPlace) -> Iterator[None]:
        """Mark a connection as silent while it waits for its peer's next request."""
        place.silent_since_s = self._clock()
        try:
            yield
        finally:
            place.silent_since_s = None

    def _make_room(self) -> bool:
        return self._close_the_longest_silent(self._newcomers, 0.0) or self._close_the_longest_silent(
            self._places, SILENT_AT_LEAST_S
        )

    def _close_the_longest_silent(self, places: set[ConnectionPlace], at_least_s: float) -> bool:
        since_s, longest = min(
            ((each.silent_since_s, each) for each in places if each.silent_since_s is not None),
            key=lambda found: found[0],
            default=(None, None),
        )
        if longest is None or since_s is None or self._clock() - since_s < at_least_s:
            return False
        self.closed_for_others += 1
        self._leave(longest)
        longest.close()
        return True

    def _leave(self, place: ConnectionPlace) -> None:
        self._places.discard(place)
        self._newcomers.discard(place)

    def _tell(self) -> None:
        now_s = self._clock()
        self._full_at_s = now_s
        finding = self.finding
        if finding is not None and (self._told_at_s is None or now_s - self._told_at_s >= STANDS_S):
            self._told_at_s = now_s
            log.warning("connections.full", code=finding.code, says=finding.text)
