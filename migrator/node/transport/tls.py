"""TLS of one listener: its keys and certificates, read into the contexts that sockets are opened with.

In:   `TlsSettings`.
Out:  a context for who listens, or for who connects, that follows its files. Errors: Z2K-3021 naming the key of the
file.
Elsewhere: which files and settings (security.py), reading them and reading them again (migrator/tls).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from migrator.findings.finding import words_of
from migrator.findings.quorum import TLS_NOT_USABLE
from migrator.node.transport.security import ClientAuth, ListenerSecurity, TlsSettings
from migrator.tls.contexts import new_context, show, trust
from migrator.tls.renewal import RenewedContext, files_of

_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(security: ListenerSecurity) -> RenewedContext | None:
    """None for a listener without TLS."""
    if security.tls is None:
        return None
    tls = security.tls

    def make() -> ssl.SSLContext:
        context = _context(security.file, tls, ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = _VERIFY[tls.client_auth]
        return context

    return RenewedContext(make, files_of(tls.identity, tls.trusted))


def client_context(security: ListenerSecurity) -> RenewedContext | None:
    """None for a listener without TLS."""
    if security.tls is None:
        return None
    tls = security.tls

    def make() -> ssl.SSLContext:
        context = _context(security.file, tls, ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = tls.verify_names
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    return RenewedContext(make, files_of(tls.identity, tls.trusted))


def check_stores(security: ListenerSecurity) -> None:
    """Raises Z2K-3021 when a key or certificate of this listener cannot be read."""
    client_context(security)


def _context(file: str, tls: TlsSettings, protocol: int) -> ssl.SSLContext:
    context = new_context(protocol, tls.versions)
    if tls.identity is not None:
        with _refused(file, tls.identity.key):
            show(context, tls.identity, tls.key_password)
    with _refused(file, "" if tls.trusted is None else tls.trusted.key):
        trust(context, tls.trusted)
    return context


@contextmanager
def _refused(file: str, key: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise TLS_NOT_USABLE.error(file=file, key=key, reason=words_of(error)) from None
