"""One ZooKeeper session: reads in bulk, conditional multis, watches. The only user of kazoo.

In:   a connect string (with chroot), paths and `Multi` values.
Out:  `Znode` values and `Outcome`s. All calls block; the node runs them on threads, never on its loop.
Elsewhere: what the bytes mean (znodes.py), what is written and when (driver).
Errors: Z2K-2001 when no server answers, Z2K-2002 when an answer was lost and the outcome of a write is unknown, or
when nothing is connected: then nothing is asked. Nothing waits here for a connection that may come back, least of all
a write, which would reach a later session than the one it was planned in.
Source: ZooKeeper's client protocol; bulk reads are its multi-read (operation 22, servers from 3.6 on), older
servers are read with pipelined single reads. A bulk read is not a snapshot: compare `mzxid`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    UnimplementedError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from migrator.errors import (
    ZOOKEEPER_LOGIN_UNUSABLE,
    ZOOKEEPER_LOST,
    ZOOKEEPER_REFUSES,
    ZOOKEEPER_UNREACHABLE,
    FindingError,
)
from migrator.zk.bulk_read import ChildrenMany, GetMany, Refusal, Znode
from migrator.zk.login import OPEN, Login, is_sensitive, login_in, login_place
from migrator.zk.multi import Check, Create, Delete, Multi, SetData

READS_PER_REQUEST: Final = 250
"""Paths per multi-read. One long read delays the requests behind it on the server; 250 cost it about 1 ms."""

REQUESTS_IN_FLIGHT: Final = 8
CALL_TIMEOUT_S: Final = 30.0
"""Longer than any session time-out in use: a call that lasts longer is a lost connection, not a slow one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a multi. `versions` has the new data version after each SetData, 0 after a Create, else -1.

    failed_at: index of the operation that was refused, -1 when all were applied.
    error:     "bad_version", "no_node", "node_exists", "not_empty", "no_auth" or the server's own name.
    """

    versions: tuple[int, ...] = ()
    failed_at: int = -1
    error: str = ""

    @property
    def applied(self) -> bool:
        return self.failed_at < 0


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How hard a reader may press the ensemble. None: as fast as it answers."""

    in_flight: int = REQUESTS_IN_FLIGHT
    per_second: int | None = None


UNLIMITED: Final = ReadLimits()
CONSIDERATE: Final = ReadLimits(in_flight=4, per_second=150_000)
"""The default of `check`, `rehearse` and `audit`: a live ensemble keeps most of its capacity."""


class Pending:
    """A multi on its way. `outcome()` waits for the answer."""

    def __init__(self, result: Any, size: int) -> None:
        self._result = result
        self._size = size

    def outcome(self) -> Outcome:
        with _translated("multi"):
            return _outcome(self._result.get(timeout=CALL_TIMEOUT_S))

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back, from kazoo's thread, as soon as `outcome()` would not wait."""
        self._result.rawlink(lambda _: callback())


class ZkSession:
    """A session that reconnects by itself. `on_change` hears "connected", "suspended" or "lost", from its thread."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        on_change: Callable[[str], None] | None = None,
        set_acl: bool = False,
    ) -> None:
        """set_acl: what is made can be changed by this login only, as Kafka's brokers make it (zookeeper.set.acl).

        Raises Z2K-2001 when `connect` is no address, Z2K-1092 when the process' login cannot be used.
        """
        self.connect = connect
        self._login = process_login()
        self._set_acl = set_acl
        try:
            self._client = KazooClient(
                hosts=connect,
                timeout=session_timeout_ms / 1000,
                sasl_options=None if self._login is None else _sasl_options(self._login),
                connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 2.0},
            )
        except ValueError as error:
            reason = f"it is not HOST:PORT[,HOST:PORT][/chroot] ({error})"
            raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason=reason) from error
        self._on_change = on_change
        self._has_multi_read = True
        self._lock = threading.Lock()
        self._closed = False
        self._listeners: dict[Callable[[], None], Callable[[Any], None]] = {}
        self._client.add_listener(self._state_changed)

    # --- life ----------------------------------------------------------------------------------------------

    def start(self, timeout_s: float = 15.0) -> ZkSession:
        """Connect, or raise Z2K-2001 after `timeout_s`."""
        try:
            self._client.start(timeout=timeout_s)
        except KazooTimeoutError as error:
            refused = self._client.client_state == KeeperState.AUTH_FAILED
            self.close()
            reason = "it refuses our login" if refused else f"no answer in {timeout_s} s"
            raise ZOOKEEPER_UNREACHABLE.error(connect=self.connect, reason=reason) from error
        return self

    def close(self) -> None:
        """End the session; its ephemeral znodes vanish at once."""
        if not self._closed:
            self._closed = True
            with suppress(
                WriterNotClosedException
            ):  # it hangs in a server that does not answer; its thread is a daemon
                self._client.stop()
                self._client.close()

    def __enter__(self) -> ZkSession:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    @property
    def connected(self) -> bool:
        """To a server that takes writes: one without a majority, which would let itself be read, does not count."""
        return bool(self._client.client_state == KeeperState.CONNECTED)

    @property
    def negotiated_timeout_ms(self) -> int:
        """The session time-out that the server granted."""
        return int(self._client._session_timeout or 0)

    def _state_changed(self, state: str) -> None:
        names = {
            KazooState.CONNECTED: "connected",
            KazooState.SUSPENDED: "suspended",
            KazooState.LOST: "lost",
        }
        if self._on_change is not None and not self._closed:
            self._on_change(names[state])

    # --- single reads --------------------------------------------------------------------------------------

    def get(self, path: str, watch: Callable[[], None] | None = None) -> Znode | None:
        """One znode, or None. `watch` is called once, from kazoo's thread, when it changes, appears or vanishes.

        A watch does not outlive a lost connection: re-read whenever `on_change` says "connected".
        """
        listener = None if watch is None else self._listener(watch)
        if listener is not None and self._ask_for(path, self._client.exists_async, watch=listener) is None:
            return None
        found = self._ask_for(path, self._client.get_async)
        return None if found is None else _znode(*found)

    def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str] | None:
        """The names below `path` in ascending order, or None when it does not exist."""
        listener = None if watch is None else self._listener(watch)
        names = self._ask_for(path, self._client.get_children_async, watch=listener)
        return None if names is None else sorted(names)

    def _ask(self, path: str, question: Callable[..., Any], **options: Any) -> Any:
        """The answer of the server, at most `CALL_TIMEOUT_S` later; whatever else it is, is a finding with the path."""
        with _translated(path):
            self._refuse_unconnected(path)
            return question(path, **options).get(timeout=CALL_TIMEOUT_S)

    def _ask_for(self, path: str, question: Callable[..., Any], **options: Any) -> Any:
        """The same of what may be missing: then None."""
        with _translated(path):
            self._refuse_unconnected(path)
            try:
                return question(path, **options).get(timeout=CALL_TIMEOUT_S)
            except NoNodeError:
                return None

    def _refuse_unconnected(self, path: str) -> None:
        """kazoo would keep the request until it is connected again, however long that takes."""
        if not self.connected:
            raise ZOOKEEPER_LOST.error(path=path, reason="not connected to a server that takes writes")

    def _listener(self, watch: Callable[[], None]) -> Callable[[Any], None]:
        """The same one for the same watch: kazoo keeps each that it does not know until it fires."""
        return self._listeners.setdefault(watch, lambda _event: watch())

    def guarded_by(self, path: str) -> str | None:
        """The access list of a znode as text; None where this session may do everything, or it does not exist."""
        found = self._ask_for(path, self._client.get_acls_async)
        if found is None:
            return None
        entries, _ = found
        if any(each == OPEN_ACL_UNSAFE[0] or self._is_ours(each) for each in entries):
            return None
        return "; ".join(map(_entry_text, entries))

    def _is_ours(self, entry: Any) -> bool:
        whom = None if self._login is None else ("sasl", self._login.user)
        return entry.perms == Permissions.ALL and (entry.id.scheme, entry.id.id) == whom

    def _acl(self, path: str) -> list[Any] | None:
        """What Kafka's brokers would give a znode that they make; None: everybody may do everything."""
        if not self._set_acl or path == OPEN:
            return None
        return list(CREATOR_ALL_ACL) if is_sensitive(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    def sync(self, path: str = "/") -> None:
        """Wait until this server has everything that was committed before now."""
        self._ask(path, self._client.sync_async)

    def last_zxid(self) -> int:
        """The last transaction that the server had processed when it answered last."""
        return int(self._client.last_zxid)

    # --- bulk reads ----------------------------------------------------------------------------------------

    def get_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        """Znodes in the order of `paths`, None for those that do not exist, read ahead as far as `limits` allow."""
        return self._read_many(paths, limits, GetMany, self._get_one)

    def children_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[list[str] | None]:
        """The names below each path, unordered, None where it does not exist."""
        return self._read_many(paths, limits, ChildrenMany, self._children_one)

    def _read_many(
        self,
        paths: Iterable[str],
        limits: ReadLimits,
        request: Callable[[Sequence[str]], Any],
        one_by_one: Callable[[str], Any],
    ) -> Iterator[Any]:
        remaining = iter(paths)
        waiting: deque[tuple[Any, list[str]]] = deque()
        pace = _Pace(limits.per_second)
        while True:
            while len(waiting) < limits.in_flight:
                chunk = list(islice(remaining, READS_PER_REQUEST))
                if not chunk:
                    break
                pace.take(len(chunk))
                waiting.append((self._send_read(chunk, request, one_by_one), chunk))
            if not waiting:
                return
            result, chunk = waiting.popleft()
            yield from self._finish_read(result, chunk, one_by_one)

    def _send_read(self, chunk: list[str], request: Callable[[Sequence[str]], Any], one: Callable[[str], Any]) -> Any:
        self._refuse_unconnected(chunk[0])
        if not self._has_multi_read:
            return [one(path) for path in chunk]
        root = self._client.chroot
        result = self._client.handler.async_result()
        # kazoo has no public way to send a request class of one's own; the pin on kazoo < 2.12 guards this line.
        self._client._call(request([root + path if path != "/" else (root or "/") for path in chunk]), result)
        return result

    def _finish_read(self, result: Any, chunk: list[str], one: Callable[[str], Any]) -> list[Any]:
        if isinstance(result, list):
            return _taken(chunk, result)
        with _translated(chunk[0]):
            try:
                found = result.get(timeout=CALL_TIMEOUT_S)
            except UnimplementedError:
                self._has_multi_read = False
                return _taken(chunk, [one(path) for path in chunk])
            for path, each in zip(chunk, found, strict=True):
                if isinstance(each, Refusal):
                    raise ZOOKEEPER_REFUSES.error(path=path, reason=EXCEPTIONS[each.code].__name__)
            return list(found)

    def _get_one(self, path: str) -> Any:
        return _Mapped(self._client.get_async(path), lambda found: _znode(*found))

    def _children_one(self, path: str) -> Any:
        return _Mapped(self._client.get_children_async(path), list)

    # --- writes --------------------------------------------------------------------------------------------

    def send(self, multi: Multi) -> Pending:
        """Send a multi without waiting; a session's multis are applied in the order of sending."""
        self._refuse_unconnected("multi")
        transaction: TransactionRequest = self._client.transaction()
        for operation in multi.operations:
            match operation:
                case Check(path, version):
                    transaction.check(path, version)
                case Create(path, data, ephemeral, sequence):
                    transaction.create(path, data, acl=self._acl(path), ephemeral=ephemeral, sequence=sequence)
                case SetData(path, data, version):
                    transaction.set_data(path, data, version)
                case Delete(path, version):
                    transaction.delete(path, version)
        with _translated("multi"):
            return Pending(transaction.commit_async(), len(multi))

    def apply(self, multi: Multi) -> Outcome:
        """Send a multi and wait. Z2K-2002 when the connection broke: only a re-read tells whether it was applied."""
        return self.send(multi).outcome()

    def ensure_path(self, path: str) -> None:
        self._ask(path, self._client.ensure_path_async)


def process_login() -> Login | None:
    """Who this process is for ZooKeeper. Raises Z2K-1092 when that is said and cannot be used."""
    place = login_place(os.environ)
    if place is None:
        return None
    try:
        text = Path(place.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=place.file, reason=str(error)) from error
    return login_in(place, text)


def _sasl_options(login: Login) -> dict[str, str]:
    return {"mechanism": "DIGEST-MD5", "username": login.user, "password": login.password}


def _entry_text(entry: Any) -> str:
    """One entry of an access list, without the hash of a password."""
    whom = entry.id.id.partition(":")[0] if entry.id.scheme == "digest" else entry.id.id
    return f"{entry.id.scheme}:{whom} may {'+'.join(sorted(entry.acl_list)) or 'nothing'}"


class _translated:
    """kazoo's exceptions as ours."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        match error:
            case None | FindingError():
                return
            case ConnectionLoss() | SessionExpiredError() | ConnectionClosedError() | KazooTimeoutError():
                raise ZOOKEEPER_LOST.error(path=self._path, reason=type(error).__name__) from error
            case NoAuthError() | AuthFailedError():
                raise ZOOKEEPER_REFUSES.error(path=self._path, reason=type(error).__name__) from error
            case KazooException():
                raise ZOOKEEPER_REFUSES.error(path=self._path, reason=f"{type(error).__name__} {error}") from error


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
        with _translated(path):
            found.append(result.get())
    return found


def _znode(data: bytes, stat: Any) -> Znode:
    return Znode(data, stat.version, stat.mzxid, stat.czxid, stat.ephemeralOwner or 0, stat.aversion)


def _outcome(results: Sequence[Any]) -> Outcome:
    versions = []
    for index, result in enumerate(results):
        if isinstance(result, Exception):
            # Operations before the failing one answer RolledBack; those after it RuntimeInconsistency.
            name = type(result).__name__
            if name in ("RolledBackError", "RuntimeInconsistency"):
                continue
            return Outcome(failed_at=index, error=_ERRORS.get(type(result), name))
        versions.append(getattr(result, "version", 0 if isinstance(result, str) else -1))
    if len(versions) < len(results):
        return Outcome(failed_at=len(versions), error="inconsistent")
    return Outcome(versions=tuple(versions))


_ERRORS: Final[dict[type[Exception], str]] = {
    BadVersionError: "bad_version",
    NoNodeError: "no_node",
    NodeExistsError: "node_exists",
    NotEmptyError: "not_empty",
    NoAuthError: "no_auth",
}
