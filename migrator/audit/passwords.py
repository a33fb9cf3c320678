"""The passwords of brokers as the audit reads them: out of the encrypted texts in ZooKeeper, by code of its own.

In:   the brokers' secrets (`password.encoder.secret` and its predecessor), and values of a broker's configuration.
Out:  clear values; what cannot be decoded is the finding that names znode and key, and never a value.
Elsewhere: the copy's decoder (zk.passwords, zk.ciphers), of which the audit imports nothing; hiding values
(fingerprints.py).
Rule: a decoder that garbles a value garbles it in the log. The same decoder would garble ZooKeeper's side alike, and
both would be equal. So texts are taken apart here once more, keys are derived with `hashlib`, and the modes of ciphers
are written out over single blocks; both decoders are checked against texts of Kafka's own class.
What looks like such a text is decoded under whatever key it stands.
Source: Kafka 3.9 `EncryptingPasswordEncoder`, `DynamicBrokerConfig.DynamicPasswordConfigs`; NIST SP 800-38A.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish, TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from migrator.findings.content import PASSWORD_ALGORITHM_UNKNOWN, PASSWORD_CONFIG, PASSWORD_UNDECODABLE

ENCRYPTED_KEYS: Final = re.compile(
    r"(.*\.)?(sasl\.jaas\.config|ssl\.(key\.password|keystore\.(password|key|certificate\.chain)"
    r"|truststore\.(password|certificates)))"
)
"""What Kafka keeps encrypted, with or without the prefix of a listener."""

PARTS: Final = frozenset(
    {"keyFactoryAlgorithm", "cipherAlgorithm", "keyLength", "salt", "iterations", "encryptedPassword", "passwordLength"}
)
"""What every text has; its initialization vector goes by the cipher."""

VALUES_KEPT: Final = 10_000
"""Deriving a key takes milliseconds, and the audits of a takeover read the same texts again and again."""

ITERATIONS_MAX: Final = 10_000_000
"""Some seconds of work; the copy refuses a text that wants more, too."""

_HASHES: Final = {"SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "SHA512/224", "SHA512/256"}


class _Block(msgspec.Struct, frozen=True):
    """A block cipher. Sizes in bytes."""

    make: Callable[[bytes], Any]
    size: int
    keys: frozenset[int]


_BLOCKS: Final = {
    "AES": _Block(AES, 16, frozenset({16, 24, 32})),
    "DES": _Block(lambda key: TripleDES(3 * key), 8, frozenset({8})),
    "DESEDE": _Block(TripleDES, 8, frozenset({24})),
    "BLOWFISH": _Block(Blowfish, 8, frozenset(range(4, 57))),
}


class EncoderSecrets(Protocol):
    """What decoding takes of a file's `password.encoder.*`: a text says the rest itself."""

    @property
    def secret(self) -> str: ...
    @property
    def old_secret(self) -> str | None: ...


class Secrets(msgspec.Struct, frozen=True):
    """What texts may have been encoded under. Its text shows none."""

    tried: tuple[str, ...]

    @classmethod
    def of(cls, settings: EncoderSecrets | None) -> Secrets | None:
        return None if settings is None else cls((settings.secret, *filter(None, [settings.old_secret])))

    def __repr__(self) -> str:
        return f"Secrets({len(self.tried)})"


class _UnreadableError(Exception):
    """Its text says why, without any value."""


class _UnknownError(Exception):
    """Its text is the name of an algorithm."""


class PasswordReader:
    """Reads texts under the secrets that it is given, and remembers what they said."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._read = lru_cache(VALUES_KEPT)(self._decoded)

    @classmethod
    def of(cls, settings: EncoderSecrets | None) -> PasswordReader | None:
        secrets = Secrets.of(settings)
        return None if secrets is None else cls(secrets)

    def __repr__(self) -> str:
        return f"PasswordReader({self._secrets!r})"

    def clear(self, path: str, key: str, text: str) -> str:
        """path, key: where the text stands. Raises Z2K-1070 or Z2K-1071."""
        try:
            return self._read(text)
        except _UnknownError as error:
            raise PASSWORD_ALGORITHM_UNKNOWN.error(path=path, key=key, algorithm=str(error)) from None
        except _UnreadableError as error:
            raise PASSWORD_UNDECODABLE.error(path=path, key=key, reason=str(error)) from None

    def _decoded(self, text: str) -> str:
        parts = parts_of(text)
        if any(":" not in each for each in _pairs(text)):
            raise _UnreadableError("it is not a text of Kafka's password encoder: a part of it has no colon")
        if missing := sorted(PARTS - parts.keys()):
            raise _UnreadableError(f"it is not a text of Kafka's password encoder: it has no {missing[0]}")
        for secret in self._secrets.tried:
            clear = _opened(parts, secret)
            if clear is not None:
                return clear
        raise _UnreadableError("it was encoded under another secret, or it is damaged")


def clear_facts(path: str, values: Mapping[str, str], passwords: PasswordReader | None) -> dict[str, str]:
    """A broker's configuration with its passwords in clear. Raises the finding of the first that cannot be read."""
    return {key: _clear(path, key, value, passwords) for key, value in values.items()}


def _clear(path: str, key: str, value: str, passwords: PasswordReader | None) -> str:
    if not ENCRYPTED_KEYS.fullmatch(key) and not parts_of(value).keys() >= PARTS:
        return value
    if passwords is None:
        raise PASSWORD_CONFIG.error(path=path, key=key)
    return passwords.clear(path, key, value)


def _pairs(text: str) -> list[str]:
    """What stands between commas. Java drops what is empty at the end."""
    found = text.split(",")
    while found and not found[-1].strip():
        found.pop()
    return found


def parts_of(text: str) -> dict[str, str]:
    """`name:value` with commas between them, in any order. No base64 holds a colon, an algorithm's name neither."""
    found = (each.strip().partition(":") for each in text.split(","))
    return {name.strip(): value.strip() for name, colon, value in found if colon}


# --- one text, under one secret ----------------------------------------------------------------------------


def _opened(parts: Mapping[str, str], secret: str) -> str | None:
    """None: not under this secret, as far as can be told."""
    cipher = _named(parts, "cipherAlgorithm")
    algorithm, mode, padding = (*cipher.upper().split("/"), "", "")[:3]
    block = _BLOCKS.get(algorithm)
    if block is None or cipher.count("/") != 2:
        raise _UnknownError(cipher)
    key = _key(parts, secret)
    if len(key) not in block.keys:
        raise _UnreadableError(f"{cipher} has no keys of {8 * len(key)} bits")
    data, vector = _bytes(parts, "encryptedPassword"), _bytes(parts, "initializationVector")
    if mode == "GCM":
        clear = _gcm(key, vector, data, _number(parts, "authenticationTagLength", 128) // 8)
    else:
        clear = _unpadded(_decrypted(cipher, block, key, vector, data, mode, padding), block.size, padding, cipher)
    return _text(clear, _number(parts, "passwordLength", 2**31 - 1), is_certain=mode == "GCM" or padding != _UNPADDED)


def _text(clear: bytes | None, length: int, *, is_certain: bool) -> str | None:
    """length: in UTF-16 units, as Java counts. Without padding or tag a wrong key shows by control signs alone."""
    try:
        found = None if clear is None else clear.decode()
    except UnicodeDecodeError:
        return None
    if found is None or len(found) + sum(sign > "\uffff" for sign in found) != length:
        return None
    return found if is_certain or not re.search(r"[^\x20-\U0010ffff\t\r\n]", found) else None


def _key(parts: Mapping[str, str], secret: str) -> bytes:
    factory = _named(parts, "keyFactoryAlgorithm")
    name = re.fullmatch(r"PBKDF2WITHHMAC(.+)", factory.upper())
    if name is None or name[1] not in _HASHES:
        raise _UnknownError(factory)
    rounds, bits = _number(parts, "iterations", ITERATIONS_MAX), _number(parts, "keyLength", 4_096)
    if rounds < 1 or bits < 8:
        raise _UnreadableError("its key would have no bytes")
    digest = name[1].replace("/", "_").lower()
    return hashlib.pbkdf2_hmac(digest, secret.encode(), _bytes(parts, "salt"), rounds, bits // 8)


def _named(parts: Mapping[str, str], name: str) -> str:
    """Of an algorithm: fit to be told, as nothing else of a text is."""
    if not re.fullmatch(r"[A-Za-z0-9/_.\-]{1,60}", parts[name]):
        raise _UnreadableError(f"its {name} is no name of an algorithm")
    return parts[name]


def _number(parts: Mapping[str, str], name: str, at_most: int) -> int:
    text = parts.get(name, "")
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > at_most:
        raise _UnreadableError(f"its {name} is not a number up to {at_most}")
    return int(text)


def _bytes(parts: Mapping[str, str], name: str) -> bytes:
    try:
        return b64decode(parts[name], validate=True)
    except (KeyError, ValueError):  # also of a letter that is not ASCII
        raise _UnreadableError(f"its {name} is not base64") from None


# --- modes, over single blocks ------------------------------------------------------------------------------

_UNPADDED: Final = "NOPADDING"


def _gcm(key: bytes, vector: bytes, data: bytes, tag_bytes: int) -> bytes | None:
    if not 12 <= tag_bytes <= min(16, len(data)) or not 8 <= len(vector) <= 128:
        raise _UnreadableError("its authenticationTagLength or initializationVector is none of AES/GCM")
    tag = data[-tag_bytes:]
    opening = Cipher(AES(key), modes.GCM(vector, tag, min_tag_length=tag_bytes)).decryptor()
    try:
        return opening.update(data[:-tag_bytes]) + opening.finalize()
    except InvalidTag:
        return None


def _decrypted(cipher: str, block: _Block, key: bytes, vector: bytes, data: bytes, mode: str, padding: str) -> bytes:
    size = block.size
    whole_block = mode in (f"CFB{8 * size}", f"OFB{8 * size}")
    if len(vector) != size:
        raise _UnreadableError("its initializationVector is not one block long")
    if (mode == "CBC" or padding != _UNPADDED) and len(data) % size:
        raise _UnreadableError("its encryptedPassword is not a number of whole blocks")
    try:
        raw = Cipher(block.make(key), modes.ECB())
        encrypt, decrypt = raw.encryptor().update, raw.decryptor().update
    except UnsupportedAlgorithm:
        raise _UnknownError(cipher) from None
    match mode[:3] if whole_block else mode:
        case "CBC":
            return _xor(decrypt(data), vector + data)
        case "CFB":
            return _xor(data, encrypt((vector + data)[: -(-len(data) // size) * size]))
        case "CFB8":
            behind = vector + data
            return bytes(each ^ encrypt(behind[place : place + size])[0] for place, each in enumerate(data))
        case "OFB":
            return _xor(data, _repeated(encrypt, vector, len(data)))
        case "CTR" if padding == _UNPADDED:
            return _xor(data, encrypt(_counted(vector, -(-len(data) // size))))
        case _:
            raise _UnknownError(cipher)


def _xor(data: bytes, mask: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(data, mask, strict=False))


def _repeated(encrypt: Callable[[bytes], bytes], vector: bytes, size: int) -> bytes:
    """The vector encrypted, that encrypted again, and so on."""
    stream, last = b"", vector
    while len(stream) < size:
        last = encrypt(last)
        stream += last
    return stream


def _counted(vector: bytes, blocks: int) -> bytes:
    first, size = int.from_bytes(vector, "big"), len(vector)
    return b"".join(((first + each) % (1 << 8 * size)).to_bytes(size, "big") for each in range(blocks))


def _unpadded(clear: bytes, size: int, padding: str, cipher: str) -> bytes | None:
    """ISO 10126 fills with anything, PKCS #5 with the number itself, which both end with."""
    if padding == _UNPADDED:
        return clear
    if padding not in ("PKCS5PADDING", "ISO10126PADDING"):
        raise _UnknownError(cipher)
    count = clear[-1] if clear else 0
    filled = clear[len(clear) - count :]
    if not 1 <= count <= min(size, len(clear)):
        return None
    return clear[:-count] if padding == "ISO10126PADDING" or set(filled) == {count} else None
