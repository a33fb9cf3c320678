"""Java's own key store format (JKS): entries read, its digest checked, a private key unlocked.

In:   the bytes of a store, its password.
Out:  `JksStore`: keys, still locked, with their chains, and trusted certificates, in the order of the file; all as DER.
Elsewhere: PKCS12, and which entry counts (key_stores.py).
Errors: ValueError in words, without anything that was in the store.
Rules: a store without a given password is read without its check, as Java reads it; its keys stay locked.
Source: OpenJDK 17 `JavaKeyStore` (layout and digest), `KeyProtector` (Sun's key protector, SHA-1 throughout).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import Final

MAGIC: Final = 0xFEEDFEED
VERSIONS: Final = (1, 2)
KEY: Final = 1
TRUSTED: Final = 2
CHECKED_WITH: Final = b"Mighty Aphrodite"
DIGEST_BYTES: Final = hashlib.sha1(usedforsecurity=False).digest_size
SUNS_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1, as DER writes it: the only protection that this format knows."""

_SEQUENCE: Final = 0x30
_OCTETS: Final = 0x04
_LONG: Final = 0x80


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key, encrypted, and its certificates, its own first."""

    alias: str
    locked: bytes = field(repr=False)
    chain: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class JksStore:
    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...] = field(repr=False)


def read_jks(data: bytes, password: str | None) -> JksStore:
    """password: None: the digest at the end is not checked."""
    reader = _Reader(data)
    magic, version, count = reader.number(), reader.number(), reader.number()
    if magic != MAGIC or version not in VERSIONS:
        raise ValueError("it is not a JKS store of version 1 or 2")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag, alias = reader.number(), reader.text()
        reader.take(8)  # when it was made
        if tag == KEY:
            locked = reader.block()
            chain = tuple(reader.certificate(version) for _ in range(reader.number()))
            keys.append(KeyEntry(alias, locked, chain))
        elif tag == TRUSTED:
            trusted.append(reader.certificate(version))
        else:
            raise ValueError(f"it is damaged: an entry of kind {tag} at byte {reader.position}")
    end = reader.position
    digest = reader.take(DIGEST_BYTES)
    if reader.position != len(data):
        raise ValueError(f"it is damaged: {len(data) - reader.position} bytes follow its end")
    if password is not None and _sha1(_utf16(password), CHECKED_WITH, data[:end]) != digest:
        raise ValueError("its password is wrong, or the file is damaged")
    return JksStore(tuple(keys), tuple(trusted))


def unlock(entry: KeyEntry, password: str) -> bytes:
    """The private key as PKCS#8."""
    octets = _protected(entry.locked)
    salt, hidden, check = octets[:DIGEST_BYTES], octets[DIGEST_BYTES:-DIGEST_BYTES], octets[-DIGEST_BYTES:]
    secret, block, stream = _utf16(password), salt, bytearray()
    while len(stream) < len(hidden):
        block = _sha1(secret, block)
        stream += block
    plain = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if _sha1(secret, plain) != check:
        raise ValueError("the password of its private key is wrong")
    return plain


def _protected(locked: bytes) -> bytes:
    """What is inside of an EncryptedPrivateKeyInfo: the algorithm is checked, its octets are returned."""
    outer, _ = _der(locked, _SEQUENCE)
    algorithm, rest = _der(outer, _SEQUENCE)
    if not algorithm.startswith(SUNS_PROTECTOR):
        raise ValueError("its private key is protected by a way that is not read here")
    octets, _ = _der(rest, _OCTETS)
    if len(octets) <= 2 * DIGEST_BYTES:
        raise ValueError("its private key is damaged")
    return octets


def _der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first element, which has to have this tag, and what follows it."""
    if len(data) < 2 or data[0] != tag:
        raise ValueError("its private key is damaged")
    start, length = 2, data[1]
    if length & _LONG:
        start += length & ~_LONG
        length = int.from_bytes(data[2:start])
    if len(data) < start + length:
        raise ValueError("its private key is damaged")
    return data[start : start + length], data[start + length :]


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


class _Reader:
    """Java's DataInputStream over bytes; what ends too early is said to do so."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self._data):
            raise ValueError(f"it is cut off: it has {len(self._data)} bytes and needs at least {end}")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def number(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def block(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        """Java's modified UTF-8 is the common one for all that an alias has to be: shown."""
        (size,) = struct.unpack(">H", self.take(2))
        return self.take(size).decode(errors="replace")

    def certificate(self, version: int) -> bytes:
        kind = self.text() if version == 2 else "X.509"
        found = self.block()
        if kind != "X.509":
            raise ValueError("it has a certificate that is not X.509")
        return found
