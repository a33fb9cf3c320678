"""Sockets to ZooKeeper: plain, or with TLS from settings of ours, under kazoo and beside it.

In:   `ZkTls`.
Out:  `ZkSockets`: opens a socket; and for kazoo a handler that does the same and knows when one has bytes.
Elsewhere: which settings (tls_settings.py), the formats of stores (migrator/tls), the session (session.py).
Errors: Z2K-1093 for a store that cannot be read. Trouble of a connection is an OSError; its words are kept by server
for whoever has to say why nothing is connected (`ServerFaults`).
Rules: kazoo makes a context of its own for each connection and by default checks no host name; nothing of that is used
here. The name that is checked is that of the connect string. The handshake belongs to the connection's time.
Why the handler asks the socket: TLS arrives in records. Bytes that are decrypted already are not seen by `select`, and
a record may hold none for kazoo at all. It would wait for what is there, or stop to write while it waits for what is
not.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from migrator.findings.finding import words_of
from migrator.findings.preflight import ZOOKEEPER_TLS_UNUSABLE
from migrator.tls.renewal import RenewedContext
from migrator.tls.sources import PemSource, Source, StoreSource
from migrator.zk.select_handler import SelectHandler
from migrator.zk.tls_settings import PEM, ZkStore, ZkTls

HANDSHAKE_MAX_S: Final = 10.0
"""Longer than any server needs; shorter than commands wait, so that they can say why."""
RECORDS_BYTES: Final = 1 << 16
PROBE_S: Final = 0.5
PROBES_MAX: Final = 2
"""So many servers are asked whether they speak TLS after no session came to be."""

Address = tuple[str, int]


class ServerFaults:
    """The last trouble with each server, in words."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def note(self, server: str, why: str) -> None:
        self._found[server] = why

    def clear(self) -> None:
        self._found.clear()

    def __str__(self) -> str:
        return "; ".join(f"{server}: {why}" for server, why in sorted(self._found.items()))


@dataclass(frozen=True, slots=True)
class ZkSockets:
    """context: None: plain TCP. name: who this side is by its certificate, as ZooKeeper's access lists have it."""

    context: RenewedContext | None = None
    name: str | None = None
    faults: ServerFaults = field(default_factory=ServerFaults)

    def open(self, address: Address, timeout_s: float | None, server: str | None = None) -> socket.socket:
        """A socket on which the next bytes are requests. server: the name to check; None: that of the address."""
        plain = socket.create_connection(address, timeout_s)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.context is None:
                return plain
            plain.settimeout(HANDSHAKE_MAX_S if timeout_s is None else min(timeout_s, HANDSHAKE_MAX_S))
            name = server or address[0]
            secured = self.context.now().wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise
        secured.settimeout(timeout_s)
        if isinstance(secured, _TlsSocket):
            secured.server, secured.faults = f"{name}:{address[1]}", self.faults
        return secured


def sockets_of(tls: ZkTls | None) -> ZkSockets:
    """Raises Z2K-1093 when a key or certificate cannot be read."""
    if tls is None:
        return ZkSockets()
    stores = [Path(each.file) for each in (tls.identity, tls.trusted) if each is not None]
    context = RenewedContext(partial(_context, tls), stores)
    name = None
    if tls.identity is not None:
        from migrator.tls.contexts import own_name

        with _refused(tls.identity):
            name = own_name(*_source(tls.identity))
    return ZkSockets(context, name)


def _context(tls: ZkTls) -> ssl.SSLContext:
    from migrator.tls.contexts import new_context, show, trust  # cryptography takes 0.1 s, and few speak TLS

    context = new_context(ssl.PROTOCOL_TLS_CLIENT, tls.versions)
    context.check_hostname = tls.verify_names
    context.verify_mode = ssl.CERT_REQUIRED
    context.sslsocket_class = _TlsSocket
    if tls.ciphers:
        _choose(context, tls)
    if tls.identity is not None:
        with _refused(tls.identity):
            show(context, *_source(tls.identity))
    if tls.trusted is None:
        trust(context, None)
    else:
        with _refused(tls.trusted):
            trust(context, _source(tls.trusted)[0])
    return context


def _choose(context: ssl.SSLContext, tls: ZkTls) -> None:
    """The suites of TLSv1.2; OpenSSL passes over names that it does not know, and so they are compared."""
    origin, key = tls.ciphers_from
    try:
        context.set_ciphers(":".join(tls.ciphers))
    except ssl.SSLError:
        unknown = tls.ciphers
    else:
        known = {each["name"] for each in context.get_ciphers()}
        unknown = tuple(each for each in tls.ciphers if each not in known)
    if unknown:
        reason = f"{len(unknown)} of its suites are not known to OpenSSL here"
        raise ZOOKEEPER_TLS_UNUSABLE.error(origin=origin, key=key, reason=reason)


def content_of(store: ZkStore) -> tuple[ZkStore, bytes]:
    """Read what another process needs of a store: the store with its password in it, and the bytes of its file.

    Raises Z2K-1093.
    """
    with _refused(store):
        try:
            content = Path(store.file).read_bytes()
        except OSError as error:
            raise ValueError(words_of(error)) from None
        return replace(store, password=_password(store), password_file=None), content


def _password(store: ZkStore) -> str | None:
    """Raises ValueError where it cannot be read."""
    if store.password_file is None:
        return store.password
    try:
        lines = Path(store.password_file).read_text().splitlines()
    except OSError as error:
        raise ValueError(f"its password in {words_of(error)}") from None
    return lines[0] if lines else None


def _source(store: ZkStore) -> tuple[Source, str | None]:
    """The store, and the password of a key in PEM. Raises OSError or ValueError for a password that cannot be read."""
    password = _password(store)
    if store.kind == PEM:
        return PemSource(store.key, Path(store.file), shown=store.shown), password
    return StoreSource(store.key, Path(store.file), password, shown=store.shown), None


@contextmanager
def _refused(store: ZkStore) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ZOOKEEPER_TLS_UNUSABLE.error(origin=store.origin, key=store.key, reason=words_of(error)) from None


# --- trouble in words --------------------------------------------------------------------------------------


def fault_of(error: BaseException, name: str) -> str:
    """Why TLS did not come to be, or ended. name: the host whose certificate was expected."""
    match error:
        case ssl.SSLCertVerificationError(verify_code=code) if code in _WRONG_HOST:
            return f"its certificate is not for {name}"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted ({error.verify_message})"
        case ssl.SSLEOFError() | ConnectionResetError() | BrokenPipeError():
            return "it closes the connection during the TLS handshake: this port does not speak TLS, or refuses us"
        case ssl.SSLError(reason=str(reason)) if "ALERT" in reason:
            words = reason.partition("ALERT_")[2].replace("_", " ").lower()
            return f"it refuses our TLS settings or certificate ({words})"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE" | "HTTP_REQUEST"):
            return "this port does not speak TLS"
        case ssl.SSLError():
            return f"TLS: {error.reason or 'no common settings'}"
        case TimeoutError():
            return "no answer to the TLS handshake in time"
        case _:
            return words_of(error)


_WRONG_HOST: Final = frozenset({62, 64})
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def speaking_tls(servers: Sequence[Address]) -> list[str]:
    """Which of the first servers answer a TLS handshake: what a plain session does not get through to.

    Nobody is believed and nothing is sent; that a server answers with an alert is an answer as well.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    found = []
    for address in servers[:PROBES_MAX]:
        try:
            with socket.create_connection(address, PROBE_S) as plain, context.wrap_socket(plain):
                answered = True
        except ssl.SSLError as error:
            answered = "ALERT" in (error.reason or "")
        except (OSError, UnicodeError, OverflowError):
            answered = False
        if answered:
            found.append(f"{address[0]}:{address[1]}")
    return found


# --- under kazoo -------------------------------------------------------------------------------------------


class _TlsSocket(ssl.SSLSocket):
    """Knows what it has for its reader; for one thread."""

    server: str = ""
    faults: ServerFaults | None = None
    _ahead: bytes = b""
    _taken: int = 0
    _end: OSError | None = None
    _ended: bool = False

    def has_ahead(self) -> bool:
        """Whether `recv` answers without the network."""
        return self._taken < len(self._ahead) or self._ended or self.pending() > 0

    def fill(self) -> bool:
        """Read what the network has, without waiting; whether `recv` then answers."""
        if not self.has_ahead():
            try:
                self._ahead, self._taken = super().recv(RECORDS_BYTES), 0
                self._ended = not self._ahead
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            except OSError as error:
                self._end, self._ended = error, True
        return True

    def pending(self) -> int:
        return len(self._ahead) - self._taken + super().pending()

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        if self._taken < len(self._ahead):
            taken = self._ahead[self._taken : self._taken + buflen]
            self._taken += len(taken)
            return taken
        if self._end is not None:
            error, self._end = self._end, None
            self._note(error)
            raise error
        if self._ended:
            return b""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError as error:
            self._note(error)
            raise

    def _note(self, error: OSError) -> None:
        """TLSv1.3 refuses a certificate only after the handshake."""
        if self.faults is not None and isinstance(error, ssl.SSLError):
            self.faults.note(self.server, fault_of(error, self.server))


class SocketHandler(SelectHandler):
    """kazoo's threads, with sockets of ours."""

    def __init__(self, sockets: ZkSockets) -> None:
        super().__init__()
        self._sockets = sockets

    def create_connection(
        self, address: Address, hostname: str | None = None, timeout: float | None = None, **_: Any
    ) -> socket.socket:
        """kazoo's own keys and certificates, the options that follow, are none of ours."""
        name = hostname or address[0]
        try:
            return self._sockets.open(address, timeout, name)
        except OSError as error:
            self._sockets.faults.note(f"{name}:{address[1]}", fault_of(error, name))
            raise

    def select(
        self, readers: Iterable[Any], writers: Iterable[Any], broken: Iterable[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """A secured socket can be read when it has bytes for kazoo, or has ended."""
        secured = [each for each in readers if isinstance(each, _TlsSocket)]
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            ahead = [each for each in secured if each.has_ahead()]
            left = None if until is None else max(0.0, until - time.monotonic())
            can_read, can_write, odd = super().select(readers, writers, broken, 0.0 if ahead else left)
            plain = [each for each in can_read if not isinstance(each, _TlsSocket)]
            filled = [each for each in secured if each in ahead or (each in can_read and each.fill())]
            if filled or plain or can_write or odd or (until is not None and time.monotonic() >= until):
                return [*filled, *plain], can_write, odd
