"""Keys and certificates, given to the contexts that sockets are opened with.

In:   a source (sources.py).
Out:  an `ssl.SSLContext` that shows it, or trusts it.
Elsewhere: the formats of Java's stores (key_stores.py); listeners (node.transport.tls), ZooKeeper (zk.tls_sockets).
Errors: ValueError in words, without anything that was in a file.
Rules: a key given as text or in a store never reaches a disk in clear: OpenSSL reads files only, so it is given one in
memory. What Kafka does and Python by itself would not: any certificate in the truststore is an anchor, an intermediate
or a peer's own one too.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from migrator.tls.key_stores import identity_in, trusted_in
from migrator.tls.sources import PemSource, Source, StoreSource

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
STORE_BYTES_MAX: Final = 16 << 20
"""The largest store that is read: a hundred times that of all public authorities."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END \1-----")


def new_context(protocol: int, versions: Sequence[str]) -> ssl.SSLContext:
    """protocol: `ssl.PROTOCOL_TLS_SERVER` or `ssl.PROTOCOL_TLS_CLIENT`. versions: of TLS_VERSIONS, at least one."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = min(_VERSIONS[each] for each in versions)
    context.maximum_version = max(_VERSIONS[each] for each in versions)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def show(context: ssl.SSLContext, source: Source, key_password: str | None) -> None:
    """This side shows the key and chain of the source. key_password: None: of a store, that of the store."""
    with _in_words(source):
        match source:
            case PemSource():
                _load(context, source, key_password)
            case StoreSource():
                found = identity_in(_content(source), source.password, key_password)
                _load(context, PemSource(source.key, text=found.pem), found.password)


def trust(context: ssl.SSLContext, source: Source | None) -> None:
    """None: the system's authorities."""
    if source is None:
        context.load_default_certs()
        return
    with _in_words(source):
        match source:
            case PemSource():
                with _as_file(source) as path:
                    context.load_verify_locations(path)
            case StoreSource():
                context.load_verify_locations(cadata=trusted_in(_content(source), source.password))


def own_name(source: Source, key_password: str | None) -> str | None:
    """The subject of the certificate that is shown, as Java's `X500Principal.getName` writes it.

    None where the two would write it differently: with attributes that have no short name there.
    """
    with _in_words(source):
        match source:
            case StoreSource():
                text = identity_in(_content(source), source.password, key_password).pem
            case PemSource(file=None, text=given):
                text = in_lines(given or "")
            case PemSource(file=Path() as file):
                text = file.read_text(errors="replace")
        begin = text.find("-----BEGIN CERTIFICATE-----")
        if begin < 0:
            return None
        subject = x509.load_pem_x509_certificate(text[begin:].encode()).subject
    name = subject.rfc4514_string()
    return None if any(each.oid not in _SHORT_NAMES for each in subject) else name


_SHORT_NAMES: Final = frozenset(
    {
        *(NameOID.COMMON_NAME, NameOID.COUNTRY_NAME, NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME),
        *(NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.STREET_ADDRESS),
        *(NameOID.DOMAIN_COMPONENT, NameOID.USER_ID),
    }
)
"""Those of RFC 2253."""


def _load(context: ssl.SSLContext, source: PemSource, password: str | None) -> None:
    with _as_file(source) as path:
        # A password is always given: without one OpenSSL would ask for it on the terminal.
        context.load_cert_chain(path, password=password or "")


def _content(source: StoreSource) -> bytes:
    with source.file.open("rb") as file:
        data = file.read(STORE_BYTES_MAX + 1)
    if len(data) > STORE_BYTES_MAX:
        raise ValueError(f"it has more than {STORE_BYTES_MAX} bytes")
    return data


@contextmanager
def _in_words(source: Source) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        where = f"{source.file}: " if source.file is not None and source.shown else ""
        raise ValueError(where + _reason(error, source)) from None


def _reason(error: Exception, source: Source) -> str:
    """OpenSSL's words do not hold what was in the file."""
    if isinstance(error, ssl.SSLError):
        return (
            error.reason
            or "no key and certificate, or no certificate, in PEM could be read (or ssl.key.password is wrong)"
        )
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) if isinstance(source, StoreSource) else "it cannot be read as PEM"


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
