"""Many znodes read ahead: several requests in flight, as fast as a live ensemble may be pressed.

In:   paths in any number, taken as they are needed; `ReadLimits`.
Out:  what is there, in the order of the paths.
Elsewhere: the bytes of one request (bulk_read.py), the session (session.py).
Errors: as of every call (kazoo_calls.py); a path that may not be read stops the whole read and is named.
Source: ZooKeeper's multi-read (operation 22, servers from 3.6 on); older servers are read with pipelined single reads.
Servers up to 3.5 close the connection after an operation that they do not know, with or without an answer
(`UnimplementedRequestProcessor`), so the first bulk read of a session asks for it once, with nothing else in flight.
A bulk read is not a snapshot: compare `mzxid`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoNodeError,
    SessionExpiredError,
    UnimplementedError,
)

from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_REFUSES
from migrator.zk.bulk_read import ChildrenMany, GetMany, ReadRefusal, Znode
from migrator.zk.kazoo_calls import CALL_TIMEOUT_S, refuse_unconnected, translated, znode_of

log = logging.getLogger(__name__)

READS_PER_REQUEST: Final = 250
"""Paths per multi-read. One long read delays the requests behind it on the server; 250 cost it about 1 ms."""

PATHS_BYTES_MAX: Final = 40_000
"""About, of one request's paths: names may be long, and the smallest limit of a server is twice that (zk.multi)."""

REQUESTS_IN_FLIGHT: Final = 8
LISTS_NOTED: Final = 1_000
"""A tool that changes access lists changes all of them: the first ones show how."""

PROBES: Final = 2
"""A connection may be lost for other reasons too; lost each time right after a multi-read, it is the multi-read."""
PROBE_AGAIN_S: Final = 0.05
RECONNECT_S: Final = 10.0
LOSSES_MAX: Final = 3
"""After so many bulk reads in a row that lost the connection it is asked again whether the server knows them: a session
may have moved to an older server of its ensemble."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How hard a reader may press the ensemble. None: as fast as it answers."""

    in_flight: int = REQUESTS_IN_FLIGHT
    per_second: int | None = None


UNLIMITED: Final = ReadLimits()
CONSIDERATE: Final = ReadLimits(in_flight=2, per_second=150_000)
"""The default of `check`, `rehearse` and `audit`: a live ensemble keeps most of its capacity."""


class ReadPipeline:
    """Bulk reads of one session."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._has_multi_read: bool | None = None
        """None while nobody asked."""
        self._losses = 0
        self.lists_changed: dict[str, None] = {}
        """Paths that were read whose access list was changed since the znode was made; the first `LISTS_NOTED`."""

    def get_many(self, paths: Iterable[str], limits: ReadLimits) -> Iterator[Znode | None]:
        """Znodes in the order of `paths`, None for those that do not exist, read ahead as far as `limits` allow."""
        return self._read_many(paths, limits, partial(GetMany, changed=self._note_list), self._get_one)

    def _note_list(self, path: str) -> None:
        """path: with the chroot. Called while an answer is decoded, on kazoo's thread."""
        if len(self.lists_changed) < LISTS_NOTED:
            self.lists_changed[path.removeprefix(self._client.chroot)] = None

    def children_many(self, paths: Iterable[str], limits: ReadLimits) -> Iterator[list[str] | None]:
        """The names below each path, unordered, None where it does not exist."""
        return self._read_many(paths, limits, ChildrenMany, self._children_one)

    def _read_many(
        self,
        paths: Iterable[str],
        limits: ReadLimits,
        request: Callable[[Sequence[str]], Any],
        one_by_one: Callable[[str], Any],
    ) -> Iterator[Any]:
        if self._has_multi_read is None:
            self._has_multi_read = self._knows_multi_read()
        remaining: Iterator[str] = iter(paths)
        waiting: deque[tuple[Any, list[str]]] = deque()
        pace = _Pace(limits.per_second)
        while True:
            while len(waiting) < limits.in_flight:
                chunk, remaining = _chunk(remaining)
                if not chunk:
                    break
                pace.take(len(chunk))
                waiting.append((self._send_read(chunk, request, one_by_one), chunk))
            if not waiting:
                return
            result, chunk = waiting.popleft()
            yield from self._finish_read(result, chunk, one_by_one)

    def _send_read(self, chunk: list[str], request: Callable[[Sequence[str]], Any], one: Callable[[str], Any]) -> Any:
        refuse_unconnected(self._client, chunk[0])
        if not self._has_multi_read:
            return [one(path) for path in chunk]
        return self._bulk(chunk, request)

    def _bulk(self, chunk: Sequence[str], request: Callable[[Sequence[str]], Any]) -> Any:
        root = self._client.chroot
        result = self._client.handler.async_result()
        # kazoo has no public way to send a request class of one's own; the pin on kazoo < 2.12 guards this line.
        self._client._call(request([root + path if path != "/" else (root or "/") for path in chunk]), result)
        return result

    def _finish_read(self, result: Any, chunk: list[str], one: Callable[[str], Any]) -> list[Any]:
        if isinstance(result, list):
            return _taken(chunk, result)
        with translated(chunk[0]):
            try:
                found = result.get(timeout=CALL_TIMEOUT_S)
            except UnimplementedError:
                self._has_multi_read = False
                return _taken(chunk, [one(path) for path in chunk])
            except _LOST:
                self._losses += 1
                if self._losses >= LOSSES_MAX:
                    self._has_multi_read, self._losses = None, 0
                raise
            self._losses = 0
            if len(found) != len(chunk) or ReadRefusal in map(type, found):
                for path, each in zip(chunk, found, strict=True):
                    if isinstance(each, ReadRefusal):
                        raise ZOOKEEPER_REFUSES.error(path=path, reason=EXCEPTIONS[each.code].__name__)
            return list(found)

    # --- servers without the multi-read --------------------------------------------------------------------

    def _knows_multi_read(self) -> bool:
        """Ask with one path alone. Raises Z2K-2002 when ZooKeeper does not answer single reads either."""
        for _ in range(PROBES):
            refuse_unconnected(self._client, "/")
            with translated("/"):
                try:
                    self._bulk(["/"], GetMany).get(timeout=CALL_TIMEOUT_S)
                    return True
                except UnimplementedError:
                    self._wait_answered()
                    break
                except _LOST:
                    self._wait_answered()
        log.warning("ZooKeeper is older than 3.6 (it has no multi-read): znodes are read one by one, which is slower")
        return False

    def _wait_answered(self) -> None:
        """Until a single read is answered: then the connection is not the one that the server closed."""
        began = time.monotonic()
        while True:
            try:
                refuse_unconnected(self._client, "/")
                self._client.exists_async("/").get(timeout=CALL_TIMEOUT_S)
                return
            except (*_LOST, FindingError):
                if time.monotonic() - began > RECONNECT_S:
                    raise
            except KazooException:
                return  # a refusal is an answer
            time.sleep(PROBE_AGAIN_S)

    def _get_one(self, path: str) -> Any:
        def noted(found: Any) -> Znode:
            znode = znode_of(*found)
            if znode.acl_changes:
                self._note_list(path)
            return znode

        return _Mapped(self._client.get_async(path), noted)

    def _children_one(self, path: str) -> Any:
        return _Mapped(self._client.get_children_async(path), list)


_LOST: Final = (ConnectionLoss, SessionExpiredError, ConnectionClosedError)


class _Pace:
    """At most so many reads per second, spread over the second."""

    def __init__(self, per_second: int | None) -> None:
        self._per_second = per_second
        self._next = time.monotonic()

    def take(self, count: int) -> None:
        if self._per_second is None:
            return
        now = time.monotonic()
        if self._next > now:
            time.sleep(self._next - now)
        self._next = max(now, self._next) + count / self._per_second


def _chunk(remaining: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """Paths for one request, and those that are left."""
    chunk = list(islice(remaining, READS_PER_REQUEST))
    while len(chunk) > 1 and sum(map(len, chunk)) > PATHS_BYTES_MAX:
        half = len(chunk) // 2
        chunk, remaining = chunk[:half], chain(chunk[half:], remaining)
    return chunk, remaining


class _Mapped:
    """A kazoo result with a function applied to it when it is taken; a missing znode is None."""

    def __init__(self, result: Any, function: Callable[[Any], Any]) -> None:
        self._result = result
        self._function = function

    def get(self) -> Any:
        try:
            return self._function(self._result.get(timeout=CALL_TIMEOUT_S))
        except NoNodeError:
            return None


def _taken(paths: Sequence[str], results: Sequence[_Mapped]) -> list[Any]:
    """What single reads found; trouble with one of them names its path."""
    found = []
    for path, result in zip(paths, results, strict=True):
        with translated(path):
            found.append(result.get())
    return found
