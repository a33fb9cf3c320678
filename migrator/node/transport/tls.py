"""TLS of one listener: its keys and certificates, read into the contexts that sockets are opened with.

In:   `TlsSettings`.
Out:  an `ssl.SSLContext` for who listens, or for who connects. Errors: Z2K-3021 naming the key of the file.
Elsewhere: which files and settings (security.py), reading them (migrator/tls).
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

_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(security: ListenerSecurity) -> ssl.SSLContext | None:
    """None for a listener without TLS."""
    if security.tls is None:
        return None
    context = _context(security.file, security.tls, ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[security.tls.client_auth]
    return context


def client_context(security: ListenerSecurity) -> ssl.SSLContext | None:
    """None for a listener without TLS."""
    if security.tls is None:
        return None
    context = _context(security.file, security.tls, ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = security.tls.verify_names
    context.verify_mode = ssl.CERT_REQUIRED
    return context


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
