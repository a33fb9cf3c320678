"""Java's names of ciphers and key factories, and what they do: as much of it as Kafka's password encoder can be set to.

In:   a transformation such as `AES/CBC/PKCS5Padding`, keys and bytes.
Out:  encrypted bytes, clear ones, or None where the key cannot be the right one.
Elsewhere: the text that carries them (passwords.py).
Names are compared without regard to case, as Java does. Ciphers without an initialization vector (ECB, streams) are
missing on purpose: Kafka's encoder fails with them.
Source: Java Security Standard Algorithm Names; checked against Java 17 by tests/e2e/test_password_vectors.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish, TripleDES
from cryptography.hazmat.decrepit.ciphers.modes import CFB, CFB8, OFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

T = TypeVar("T")

GCM_VECTOR_BYTES: Final = 12
GCM_TAG_BITS: Final = 128
_GCM_TAGS: Final = frozenset(range(96, 129, 8))


class UnknownAlgorithm(Exception):
    """Its text is the name."""


class Damaged(Exception):
    """Its text says what is wrong, without any value."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block cipher. Sizes in bytes."""

    make: Callable[[bytes], Any]
    size: int
    keys: frozenset[int]


_BLOCKS: Final = {
    "AES": _Block(AES, 16, frozenset({16, 24, 32})),
    "DESEDE": _Block(TripleDES, 8, frozenset({24})),
    "DES": _Block(lambda key: TripleDES(key * 3), 8, frozenset({8})),
    "BLOWFISH": _Block(Blowfish, 8, frozenset(range(4, 57))),
}
_MODES: Final[dict[str, Callable[[bytes], Any]]] = {
    "CBC": modes.CBC,
    "CFB": CFB,
    "CFB8": CFB8,
    "OFB": OFB,
    "CTR": modes.CTR,
}
_NO_PADDING: Final = "NOPADDING"
_PADDINGS: Final = frozenset({_NO_PADDING, "PKCS5PADDING", "ISO10126PADDING"})

_HASHES: Final[dict[str, Callable[[], hashes.HashAlgorithm]]] = {
    "SHA1": hashes.SHA1,
    "SHA224": hashes.SHA224,
    "SHA256": hashes.SHA256,
    "SHA384": hashes.SHA384,
    "SHA512": hashes.SHA512,
    "SHA512/224": hashes.SHA512_224,
    "SHA512/256": hashes.SHA512_256,
}
_KEY_FACTORY: Final = re.compile(r"PBKDF2WithHmac(SHA[0-9/]+)", re.IGNORECASE)


def derive_key(factory: str, secret: str, salt: bytes, iterations: int, bits: int) -> bytes:
    """The key that Java's `SecretKeyFactory` of this name makes of a secret. Raises `UnknownAlgorithm`."""
    found = _KEY_FACTORY.fullmatch(factory)
    make_hash = None if found is None else _HASHES.get(found[1].upper())
    if make_hash is None:
        raise UnknownAlgorithm(factory)
    if bits < 8 or iterations < 1:
        raise Damaged("its key would have no bytes")
    return PBKDF2HMAC(make_hash(), bits // 8, salt, iterations).derive(secret.encode())


@dataclass(frozen=True, slots=True)
class CipherName:
    """A transformation that is known. text: as it was given."""

    text: str
    block: _Block
    mode: str
    padding: str

    @classmethod
    def parse(cls, text: str) -> CipherName:
        """Raises `UnknownAlgorithm`."""
        algorithm, mode, padding, *more = (*text.upper().split("/"), "", "", "")
        block = _BLOCKS.get(algorithm)
        if block is None or any(more) or padding not in _PADDINGS:
            raise UnknownAlgorithm(text)
        whole_block = re.fullmatch(f"(CFB|OFB){8 * block.size}", mode)
        mode = whole_block[1] if whole_block else mode
        only_unpadded = mode in ("GCM", "CTR")
        is_known = mode in _MODES or (mode == "GCM" and algorithm == "AES")
        if not is_known or (only_unpadded and padding != _NO_PADDING):
            raise UnknownAlgorithm(text)
        return cls(text, block, mode, padding)

    @property
    def is_authenticated(self) -> bool:
        return self.mode == "GCM"

    @property
    def tells_a_wrong_key(self) -> bool:
        """Whether bytes that were decrypted with a wrong key are recognised: by their tag, or nearly always by their
        padding.
        """
        return self.is_authenticated or self.padding != _NO_PADDING

    @property
    def takes_every_length(self) -> bool:
        return self.mode != "CBC" or self.padding != _NO_PADDING

    @property
    def vector_bytes(self) -> int:
        return GCM_VECTOR_BYTES if self.is_authenticated else self.block.size

    @property
    def tag_bits(self) -> int:
        return GCM_TAG_BITS

    def takes_key(self, key: bytes) -> bool:
        return len(key) in self.block.keys

    def encrypt(self, key: bytes, vector: bytes, clear: bytes, chance: Callable[[int], bytes]) -> bytes:
        """key and vector: of the sizes that this cipher takes."""
        if self.is_authenticated:
            encrypting = Cipher(self.block.make(key), modes.GCM(vector)).encryptor()
            return bytes(encrypting.update(clear) + encrypting.finalize() + encrypting.tag)
        encryptor = self._begin(Cipher(self.block.make(key), _MODES[self.mode](vector)).encryptor)
        return encryptor.update(self._padded(clear, chance)) + encryptor.finalize()

    def decrypt(self, key: bytes, vector: bytes, encrypted: bytes, tag_bits: int) -> bytes | None:
        """None when the key is not the right one, as far as that can be told. Raises `Damaged`."""
        if not self.takes_key(key):
            raise Damaged(f"{self.text} has no keys of {8 * len(key)} bits")
        if self.is_authenticated:
            return self._opened(key, vector, encrypted, tag_bits)
        if len(vector) != self.block.size:
            raise Damaged("its initializationVector is not one block long")
        if (self.mode == "CBC" or self.padding != _NO_PADDING) and len(encrypted) % self.block.size:
            raise Damaged("its encryptedPassword is not a number of whole blocks")
        decryptor = self._begin(Cipher(self.block.make(key), _MODES[self.mode](vector)).decryptor)
        return self._unpadded(decryptor.update(encrypted) + decryptor.finalize())

    def _begin(self, begin: Callable[[], T]) -> T:
        """Raises `UnknownAlgorithm` for what this machine's cryptography library leaves out."""
        try:
            return begin()
        except UnsupportedAlgorithm:
            raise UnknownAlgorithm(self.text) from None

    def _opened(self, key: bytes, vector: bytes, encrypted: bytes, tag_bits: int) -> bytes | None:
        tag_bytes = tag_bits // 8
        if tag_bits not in _GCM_TAGS or len(encrypted) < tag_bytes or not 8 <= len(vector) <= 128:
            raise Damaged("its authenticationTagLength or initializationVector is none of AES/GCM")
        body, tag = encrypted[:-tag_bytes], encrypted[-tag_bytes:]
        decryptor = Cipher(self.block.make(key), modes.GCM(vector, tag, min_tag_length=tag_bytes)).decryptor()
        try:
            return decryptor.update(body) + decryptor.finalize()
        except InvalidTag:
            return None

    def _padded(self, clear: bytes, chance: Callable[[int], bytes]) -> bytes:
        missing = self.block.size - len(clear) % self.block.size
        match self.padding:
            case "PKCS5PADDING":
                return clear + bytes([missing]) * missing
            case "ISO10126PADDING":
                return clear + chance(missing - 1) + bytes([missing])
            case _:
                return clear

    def _unpadded(self, clear: bytes) -> bytes | None:
        if self.padding == _NO_PADDING:
            return clear
        count = clear[-1] if clear else 0
        if not 1 <= count <= min(self.block.size, len(clear)):
            return None
        if self.padding == "PKCS5PADDING" and clear[-count:] != bytes([count]) * count:
            return None
        return clear[:-count]
