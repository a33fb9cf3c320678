"""Java's key stores and trust stores: what a JKS or PKCS12 file shows of this side, and whom it trusts.

In:   the bytes of a store and its passwords.
Out:  `Identity`: a private key and its chain as PEM, the key locked with a password that is made for this once; the
      trusted certificates as PEM.
Elsewhere: the bytes of JKS (jks.py); contexts of OpenSSL made of it (contexts.py).
Errors: ValueError in words, never with a password or a part of a key.
Rules: the file says what it is, whatever type it is given, as in Java since 9. The first key entry counts. A private
key never stands in clear anywhere but in this process.
Whom a store trusts, as in Java: its trusted certificates, and the first certificate of each key entry. PKCS12 says by
an attribute which certificates are trusted ones; `cryptography` does not show it. So all certificates of a PKCS12 file
without a key count, and a file with a key counts only where it has no certificate but that key's.
Source: OpenJDK 17 `KeyStoreDelegator`, `PKCS12KeyStore`, `TrustStoreUtil`.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates, load_pkcs12

from migrator.tls.jks import MAGIC, read_jks, unlock

STORE_TYPES: Final = ("JKS", "PKCS12")
"""Types of stores that are read here, as `ssl.keystore.type` names them; PEM is another matter."""

_JKS: Final = MAGIC.to_bytes(4)
_JCEKS: Final = bytes.fromhex("cececece")
_ASN1: Final = b"\x30"
_INDEFINITE: Final = 0x80
_PEM: Final = b"-----BEGIN"


@dataclass(frozen=True, slots=True)
class Identity:
    """Key and chain, its own certificate first. password: of the key in this text, and of nothing else."""

    pem: str = field(repr=False)
    password: str = field(repr=False)


def identity_in(data: bytes, password: str | None, key_password: str | None = None) -> Identity:
    """key_password: None: the store's."""
    if _is_jks(data):
        store = read_jks(data, password)
        if not store.keys:
            raise ValueError("it holds no private key")
        first, secret = store.keys[0], key_password if key_password is not None else password
        if secret is None:
            raise ValueError("its private key needs a password, and none is given")
        return _identity(unlock(first, secret), first.chain)
    found = _pkcs12(data, password)
    if found.key is None:
        raise ValueError("it holds no private key")
    if found.cert is None:
        raise ValueError("it holds no certificate for its private key")
    key = found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    chain = _in_order(found.cert.certificate, [each.certificate for each in found.additional_certs])
    return _identity(key, [each.public_bytes(Encoding.DER) for each in chain])


def trusted_in(data: bytes, password: str | None) -> str:
    """The certificates as PEM. password: None: the integrity of a JKS store is not checked, as in Java."""
    if _is_jks(data):
        store = read_jks(data, password)
        found = [*store.trusted, *(each.chain[0] for each in store.keys if each.chain)]
    else:
        held = _pkcs12(data, password)
        others = [each.certificate for each in held.additional_certs]
        if held.key is not None and others:
            reason = "it holds a private key and further certificates, and which of them are trusted cannot be told; "
            raise ValueError(reason + "make a trust store of its own with keytool -importcert")
        own = [held.cert.certificate] if held.cert is not None else []
        found = [each.public_bytes(Encoding.DER) for each in (*own, *others)]
    if not found:
        raise ValueError("it holds no trusted certificate")
    return "".join(map(pem_of, found))


def pem_of(certificate: bytes) -> str:
    """certificate: DER."""
    return _block("CERTIFICATE", certificate)


def _is_jks(data: bytes) -> bool:
    """Whether it is JKS; otherwise it is PKCS12. Everything else is refused by its name."""
    if data.startswith(_JKS):
        return True
    if data.startswith(_ASN1):
        return False
    if data.startswith(_JCEKS):
        raise ValueError("it is a JCEKS store, which is not read here; convert: keytool -importkeystore")
    if data.lstrip().startswith(_PEM):
        raise ValueError("it is a PEM file; set the type of the store to PEM and leave its password out")
    raise ValueError("it is empty" if not data else "it is neither a JKS nor a PKCS12 store")


def _pkcs12(data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    needed = _needed(data)
    if needed > len(data):
        raise ValueError(f"it is cut off: it has {len(data)} bytes and needs {needed}")
    try:
        return load_pkcs12(data, None if password is None else password.encode("utf-8", "surrogatepass"))
    except UnsupportedAlgorithm:
        raise ValueError("it is encrypted in a way that is not read here; make it again with a newer keytool") from None
    except ValueError:
        raise ValueError("its password is wrong, or the file is damaged or no PKCS12 store") from None


def _needed(data: bytes) -> int:
    """How many bytes its first length says; 0 where it says none."""
    if len(data) < 2 or data[1] == _INDEFINITE:
        return 2
    digits = data[1] & 0x7F if data[1] & 0x80 else 0
    return 2 + digits + (int.from_bytes(data[2 : 2 + digits]) if digits else data[1])


def _in_order(own: x509.Certificate, others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The chain from the key's certificate upward, by who issued whom; what does not belong to it is left out."""
    chain, left = [own], list(others)
    while chain[-1].issuer != chain[-1].subject:
        above = next((each for each in left if each.subject == chain[-1].issuer), None)
        if above is None:
            break
        left.remove(above)
        chain.append(above)
    return chain


def _identity(key: bytes, chain: Iterable[bytes]) -> Identity:
    certificates = list(chain)
    if not certificates:
        raise ValueError("it holds no certificate for its private key")
    try:
        loaded = load_der_private_key(key, None)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("its private key is of a kind that is not read here") from None
    password = secrets.token_hex(16)
    locked = loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    return Identity(locked.decode() + "".join(map(pem_of, certificates)), password)


def _block(name: str, content: bytes) -> str:
    body = "\n".join(wrap(base64.b64encode(content).decode(), 64))
    return f"-----BEGIN {name}-----\n{body}\n-----END {name}-----\n"
