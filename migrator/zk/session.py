"""One ZooKeeper session: its life and login, reads, conditional multis, watches.

In:   a connect string (with chroot), paths and `Multi` values.
Out:  `Znode` values and `MultiOutcome`s. All calls block; the node runs them on threads, never on its loop.
Elsewhere: what the bytes mean (znodes.py), what is written and when (driver), how many znodes are read at once
(pipeline.py), how long an answer may take and what its trouble is called (kazoo_calls.py), TLS (tls_sockets.py).
Errors: Z2K-2001 when no server answers, Z2K-2002 when an answer was lost and the outcome of a write is unknown, or
when nothing is connected: then nothing is asked. Nothing waits here for a connection that may come back, least of all
a write, which would reach a later session than the one it was planned in.
Source: ZooKeeper's client protocol.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal
from weakref import WeakSet

from kazoo.client import KazooClient, KazooState, TransactionRequest
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions

from migrator.findings.finding import words_of
from migrator.findings.preflight import ZOOKEEPER_LOGIN_UNUSABLE
from migrator.findings.zookeeper import ZOOKEEPER_LOST, ZOOKEEPER_UNREACHABLE
from migrator.kerberos.tickets import Tickets
from migrator.model.connect_string import places_of, plain_form
from migrator.model.jaas import KerberosLogin
from migrator.zk.bulk_read import Znode
from migrator.zk.kazoo_calls import CALL_TIMEOUT_S, is_connected, refuse_unconnected, translated, znode_of
from migrator.zk.kerberos import refuse_unusable, sasl_options
from migrator.zk.login import OPEN, DigestLogin, ZkLogin, is_sensitive, login_in, login_place
from migrator.zk.logins import Logins, WhoAmI
from migrator.zk.multi import Check, Create, Delete, Multi, MultiOutcome, SetData
from migrator.zk.pipeline import UNLIMITED, ReadLimits, ReadPipeline
from migrator.zk.reach import reach
from migrator.zk.select_handler import SelectHandler
from migrator.zk.tls_settings import ZkTls, tls_settings
from migrator.zk.tls_sockets import SocketHandler, sockets_of, speaking_tls

logging.getLogger("kazoo").addHandler(logging.NullHandler())
"""Its lines go where somebody asked for them, and not in front of the finding that says the same."""


PROCESS: Final[Literal["process"]] = "process"
"""Settings of the process: a command or the service has only a connect string."""
GIVEN_UP_S: Final = 1.0
"""How often somebody looks whether kazoo has given up."""


class PendingMulti:
    """A multi on its way. `outcome()` waits for the answer."""

    def __init__(self, result: Any, size: int) -> None:
        self._result = result
        self._size = size

    def outcome(self) -> MultiOutcome:
        with translated("multi"):
            return _outcome(self._result.get(timeout=CALL_TIMEOUT_S))

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back, from kazoo's thread, as soon as `outcome()` would not wait."""
        self._result.rawlink(lambda _: callback())


class _SessionWatch:
    """One thread for all sessions of this process, which begins those again whose kazoo has given up."""

    def __init__(self) -> None:
        self._sessions: WeakSet[ZkSession] = WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, session: ZkSession) -> None:
        with self._lock:
            self._sessions.add(session)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="zookeeper-sessions", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            time.sleep(GIVEN_UP_S)
            with self._lock:
                sessions = list(self._sessions)
            for session in sessions:
                try:
                    session.begin_again()
                except Exception:  # it is looked at again
                    import structlog  # it brings a fifth of a second of modules, which most commands never need

                    structlog.get_logger().exception("zookeeper.session_not_begun")
            del sessions


_WATCH: Final = _SessionWatch()


class ZkSession:
    """A session that reconnects by itself. `on_change` hears "connected", "suspended" or "lost", from its thread.

    Also after a login that failed (logins.py), and where kazoo's thread ends by an error that it does not know.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int = 18_000,
        on_change: Callable[[str], None] | None = None,
        set_acl: bool = False,
        tls: ZkTls | Literal["process"] | None = PROCESS,
        login: ZkLogin | Literal["process"] | None = PROCESS,
    ) -> None:
        """set_acl: what is made can be changed by this login only, as Kafka's brokers make it (zookeeper.set.acl).

        tls: as a controller's file says; PROCESS: as KAFKA_OPTS says; None: without TLS.
        login: PROCESS: as KAFKA_OPTS says; None: without one.
        Raises Z2K-2001 when `connect` is no address, Z2K-1092 and Z2K-1093 when login or TLS cannot be used.
        """
        self.connect = connect
        self._login = process_login() if login == PROCESS else login
        tickets = Tickets(self._login) if isinstance(self._login, KerberosLogin) else None
        self.sockets = sockets_of(process_tls() if tls == PROCESS else tls)
        self._set_acl = set_acl
        try:
            self._client = KazooClient(
                hosts=plain_form(connect),
                timeout=session_timeout_ms / 1000,
                handler=SelectHandler() if self.sockets.context is None else SocketHandler(self.sockets),
                use_ssl=self.sockets.context is not None,
                sasl_options=_sasl_options(self._login, tickets),
                connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 1.5, "max_delay": 2.0},
            )
        except ValueError as error:
            reason = f"it is not HOST:PORT[,HOST:PORT][/chroot] ({words_of(error)})"
            raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason=reason) from error
        self._known_as: tuple[int, frozenset[tuple[str, str]]] | None = None
        """In which session, and as whom."""
        self._logins = Logins(tickets)
        self._logins.attach(self._client)
        self._on_change = on_change
        self._reads = ReadPipeline(self._client)
        self._closed = False
        self._ending = threading.Lock()
        self._listeners: dict[Callable[[], None], Callable[[Any], None]] = {}
        self._client.add_listener(self._state_changed)

    # --- life ----------------------------------------------------------------------------------------------

    def start(self, timeout_s: float = 15.0) -> ZkSession:
        """Connect and log in, or raise Z2K-2001 after `timeout_s`."""
        try:
            self._client.start(timeout=timeout_s)
            if self._login is not None:  # connected comes before the login
                self._client.exists_async("/").get(timeout=timeout_s)
        except (KazooTimeoutError, KazooException) as error:
            self.close()
            reason = self._logins.fault or f"no answer in {timeout_s} s{self._why()}"
            raise ZOOKEEPER_UNREACHABLE.error(connect=self.connect, reason=reason) from error
        except BaseException:
            self.close()
            raise
        _WATCH.add(self)
        return self

    def _why(self) -> str:
        """What is known of the servers' trouble, also that they want TLS; empty when nothing is."""
        if self.sockets.context is None:
            secured = speaking_tls(sorted(set(places_of(self.connect))))
            wanted = f"{', '.join(secured)}: this port speaks TLS, and this session does not"
            return f" ({wanted}: set zookeeper.ssl.*, or KAFKA_OPTS)" if secured else ""
        faults = str(self.sockets.faults)
        return f" ({faults})" if faults else ""

    def start_in_background(self) -> None:
        """Connect whenever a server answers; until then each call raises Z2K-2002."""
        self._client.start_async()
        _WATCH.add(self)

    def close(self) -> None:
        """End the session; its ephemeral znodes vanish at once."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            with suppress(
                WriterNotClosedException
            ):  # it hangs in a server that does not answer; its thread is a daemon
                self._client.stop()
                self._client.close()

    def renew(self) -> None:
        """End the session, with its ephemeral znodes, and begin another one, which connects in the background.

        Raises Z2K-2002 when it cannot be ended yet because a server hangs; to be called again then.
        """
        with self._ending:
            if self._closed:
                return
            try:
                if not self._has_given_up:
                    self._client.stop()
                self._client.start_async()
            except (WriterNotClosedException, OSError) as error:
                raise ZOOKEEPER_LOST.error(path=self.connect, reason=f"the session does not end: {error}") from error

    def __enter__(self) -> ZkSession:
        """For a command, whose address may be mistyped: an address that nobody listens on is refused at once."""
        reach(self.connect)
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return 0 if client_id is None else int(client_id[0])

    @property
    def connected(self) -> bool:
        """Whether the session is connected to a server that takes writes."""
        return is_connected(self._client)

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

    @property
    def _has_given_up(self) -> bool:
        """kazoo's thread has ended by itself; nobody connects any more."""
        thread = self._client._connection._connection_routine
        return thread is not None and not thread.is_alive()

    def begin_again(self) -> None:
        """Where kazoo has given up. Whoever ends or renews the session just now is left alone."""
        if self._ending.acquire(blocking=False):
            try:
                if not self._closed and self._has_given_up:
                    self._client.start_async()
            finally:
                self._ending.release()

    # --- single reads --------------------------------------------------------------------------------------

    def get(self, path: str, watch: Callable[[], None] | None = None) -> Znode | None:
        """One znode, or None. `watch` is called once, from kazoo's thread, when it changes, appears or vanishes.

        A watch does not outlive a lost connection: re-read whenever `on_change` says "connected".
        """
        listener = None if watch is None else self._listener(watch)
        if listener is not None and self._ask_for(path, self._client.exists_async, watch=listener) is None:
            return None
        found = self._ask_for(path, self._client.get_async)
        return None if found is None else znode_of(*found)

    def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str] | None:
        """The names below `path` in ascending order, or None when it does not exist."""
        listener = None if watch is None else self._listener(watch)
        names = self._ask_for(path, self._client.get_children_async, watch=listener)
        return None if names is None else sorted(names)

    def _ask(self, path: str, question: Callable[..., Any], **options: Any) -> Any:
        """The answer of the server, at most `CALL_TIMEOUT_S` later; whatever else it is, is a finding with the path."""
        with translated(path):
            refuse_unconnected(self._client, path, self._logins.fault)
            return question(path, **options).get(timeout=CALL_TIMEOUT_S)

    def _ask_for(self, path: str, question: Callable[..., Any], **options: Any) -> Any:
        """The same of what may be missing: then None."""
        with translated(path):
            refuse_unconnected(self._client, path, self._logins.fault)
            try:
                return question(path, **options).get(timeout=CALL_TIMEOUT_S)
            except NoNodeError:
                return None

    def _listener(self, watch: Callable[[], None]) -> Callable[[Any], None]:
        """The same one for the same watch: kazoo keeps each that it does not know until it fires."""
        return self._listeners.setdefault(watch, lambda _event: watch())

    @property
    def lists_changed(self) -> list[str]:
        """Name znodes that `get_many` read and whose access list was changed since they were made; the first ones."""
        return list(self._reads.lists_changed)

    def guarded_by(self, path: str) -> str | None:
        """The access list of a znode as text; None where this session may do everything, or it does not exist."""
        found = self._ask_for(path, self._client.get_acls_async)
        if found is None:
            return None
        entries, _ = found
        if any(each == OPEN_ACL_UNSAFE[0] or self._is_ours(each) for each in entries):
            return None
        return "; ".join(map(_entry_text, entries))

    def unwritable(self, path: str) -> str | None:
        """The access list of a znode that nobody may write, or somebody else although this session has a login; None
        of any other. Who reads without a login cannot tell which logins brokers have.
        """
        guarded = self.guarded_by(path)
        if guarded is None or self._has_login():
            return guarded
        entries, _ = self._ask_for(path, self._client.get_acls_async) or ((), None)
        return None if any(each.perms & Permissions.WRITE for each in entries) else guarded

    def _has_login(self) -> bool:
        return any(name and scheme != "ip" for scheme, name in self._identities())

    def _is_ours(self, entry: Any) -> bool:
        return entry.perms == Permissions.ALL and (entry.id.scheme, entry.id.id) in self._identities()

    def _identities(self) -> frozenset[tuple[str, str]]:
        """Schemes and names by which ZooKeeper knows this session; as far as that is known here, of a server that does
        not tell.
        """
        if self._known_as is None or self._known_as[0] != self.session_id:
            known = self._ask_who_we_are()
            if known is None:
                names = frozenset[str]() if self._login is None else self._login.names
                known = frozenset({*(("sasl", name) for name in names), ("x509", self.sockets.name or "")})
            self._known_as = self.session_id, known
        return self._known_as[1]

    def _ask_who_we_are(self) -> frozenset[tuple[str, str]] | None:
        result = self._client.handler.async_result()
        with translated("/"):
            refuse_unconnected(self._client, "/", self._logins.fault)
            self._client._call(WhoAmI(), result)
            try:
                return frozenset(result.get(timeout=CALL_TIMEOUT_S))
            except UnimplementedError:
                return None

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

    def newest_zxid(self) -> int:
        """The newest transaction of the ensemble that was committed before now, or one after it.

        Every transaction has its number, also one that fails and the end of a session. So two answers that are equal
        say that nothing at all was changed between the first and the second.
        """
        self.sync()
        return self.last_zxid()

    # --- bulk reads ----------------------------------------------------------------------------------------

    def get_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        """Znodes in the order of `paths`, None for those that do not exist, read ahead as far as `limits` allow."""
        return self._reads.get_many(paths, limits)

    def children_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[list[str] | None]:
        """The names below each path, unordered, None where it does not exist."""
        return self._reads.children_many(paths, limits)

    # --- writes --------------------------------------------------------------------------------------------

    def send(self, multi: Multi) -> PendingMulti:
        """Send a multi without waiting; a session's multis are applied in the order of sending."""
        refuse_unconnected(self._client, "multi", self._logins.fault)
        transaction: TransactionRequest = self._client.transaction()
        for operation in multi.operations:
            match operation:
                case Check(path, version):
                    transaction.check(path, version)
                case Create(path, data, ephemeral, sequence):
                    transaction.create(path, data or b"", acl=self._acl(path), ephemeral=ephemeral, sequence=sequence)
                    _without_data(transaction, data)
                case SetData(path, data, version):
                    transaction.set_data(path, data or b"", version)
                    _without_data(transaction, data)
                case Delete(path, version):
                    transaction.delete(path, version)
        with translated("multi"):
            return PendingMulti(transaction.commit_async(), len(multi))

    def apply(self, multi: Multi) -> MultiOutcome:
        """Send a multi and wait. Z2K-2002 when the connection broke: only a re-read tells whether it was applied."""
        return self.send(multi).outcome()

    def ensure_path(self, path: str) -> None:
        self._ask(path, self._client.ensure_path_async)


def _without_data(transaction: TransactionRequest, data: bytes | None) -> None:
    """kazoo can send that there is no data, and only refuses to be asked for it."""
    if data is None:
        transaction.operations[-1] = transaction.operations[-1]._replace(data=None)


def process_login() -> ZkLogin | None:
    """Who this process is for ZooKeeper. Raises Z2K-1092 when that is said and cannot be used."""
    place = login_place(os.environ)
    if place is None:
        return None
    try:
        text = Path(place.file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=place.file, reason=error) from error
    return login_in(place, text)


def process_tls() -> ZkTls | None:
    """TLS to ZooKeeper as KAFKA_OPTS says. Raises Z2K-1093 when that is said and cannot be honoured."""
    return tls_settings(os.environ)


def _sasl_options(login: ZkLogin | None, tickets: Tickets | None) -> dict[str, Any] | None:
    """As kazoo takes them. Raises Z2K-1092."""
    match login:
        case DigestLogin(user, password):
            return {"mechanism": "DIGEST-MD5", "username": user, "password": password}
        case KerberosLogin() if tickets is not None:
            refuse_unusable(login)
            return sasl_options(login, tickets)
    return None


def _entry_text(entry: Any) -> str:
    """One entry of an access list, without the hash of a password."""
    whom = entry.id.id.partition(":")[0] if entry.id.scheme == "digest" else entry.id.id
    return f"{entry.id.scheme}:{whom} may {'+'.join(sorted(entry.acl_list)) or 'nothing'}"


def _outcome(results: Sequence[Any]) -> MultiOutcome:
    versions = []
    for index, result in enumerate(results):
        if isinstance(result, Exception):
            # Operations before the failing one answer RolledBack; those after it RuntimeInconsistency.
            name = type(result).__name__
            if name in ("RolledBackError", "RuntimeInconsistency"):
                continue
            return MultiOutcome(failed_at=index, error=_ERRORS.get(type(result), name))
        versions.append(getattr(result, "version", 0 if isinstance(result, str) else -1))
    if len(versions) < len(results):
        return MultiOutcome(failed_at=len(versions), error="inconsistent")
    return MultiOutcome(versions=tuple(versions))


_ERRORS: Final[dict[type[Exception], str]] = {
    BadVersionError: "bad_version",
    NoNodeError: "no_node",
    NodeExistsError: "node_exists",
    NotEmptyError: "not_empty",
    NoAuthError: "no_auth",
}
