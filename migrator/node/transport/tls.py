"""Certificates and keys, read into the contexts that sockets are opened with.

In:   `TlsSettings`.
Out:  an `ssl.SSLContext` for who listens, or for who connects. Errors: Z2K-3021 naming the key of the file.
Elsewhere: which files and settings (security.py).
Rules: a key given as text never reaches a disk: OpenSSL reads files only, so it is given one in memory.
What Kafka does and Python by itself would not: any certificate in the truststore is an anchor, an intermediate or a
peer's own one too.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import wrap
from typing import Final

from migrator.findings.quorum import TLS_NOT_USABLE
from migrator.node.transport.security import ClientAuth, ListenerSecurity, PemSource, TlsSettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END \1-----")
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
    context = ssl.SSLContext(protocol)
    context.minimum_version = min(_VERSIONS[each] for each in tls.versions)
    context.maximum_version = max(_VERSIONS[each] for each in tls.versions)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.identity is not None:
        _show(context, file, tls.identity, tls.key_password)
    if tls.trusted is None:
        context.load_default_certs()
    else:
        _trust(context, file, tls.trusted)
    return context


def _show(context: ssl.SSLContext, file: str, source: PemSource, password: str | None) -> None:
    try:
        with _as_file(source) as path:
            # A password is always given: without one OpenSSL would ask for it on the terminal.
            context.load_cert_chain(path, password=password or "")
    except (OSError, ValueError) as error:
        raise TLS_NOT_USABLE.error(file=file, key=source.key, reason=_reason(error, source)) from None


def _trust(context: ssl.SSLContext, file: str, source: PemSource) -> None:
    try:
        with _as_file(source) as path:
            context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise TLS_NOT_USABLE.error(file=file, key=source.key, reason=_reason(error, source)) from None


def _reason(error: Exception, source: PemSource) -> str:
    """OpenSSL's words do not hold what was in the file."""
    where = f"{source.file}: " if source.file is not None else ""
    if isinstance(error, ssl.SSLError):
        said = (
            error.reason
            or "no key and certificate, or no certificate, in PEM could be read (or ssl.key.password is wrong)"
        )
        return f"{where}{said}"
    if isinstance(error, OSError) and error.strerror:
        return f"{where}{error.strerror}"
    return f"{where}it cannot be read as PEM"


def in_lines(text: str) -> str:
    """PEM with its line breaks: in a properties file it may stand in one line, with spaces or nothing between."""

    def block(found: re.Match[str]) -> str:
        body = "\n".join(wrap("".join(found[2].split()), 64))
        return f"-----BEGIN {found[1]}-----\n{body}\n-----END {found[1]}-----\n"

    return "".join(map(block, _BLOCK.finditer(text)))


@contextmanager
def _as_file(source: PemSource) -> Iterator[str]:
    """A path that OpenSSL can open; for a text, one of a file that has no name and lives in memory."""
    if source.file is not None:
        yield str(source.file)
        return
    assert source.text is not None
    text = in_lines(source.text)
    if not hasattr(os, "memfd_create"):  # not Linux: a file that only this user can read, gone in a moment
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
