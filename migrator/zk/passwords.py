"""Passwords of brokers, as brokers in ZooKeeper mode keep them: encrypted texts, to clear values and back.

In:   `EncoderSettings` (what brokers call `password.encoder.*`), and the text of a value or its clear form.
Out:  the other one of the two. What cannot be decoded becomes a finding with znode and key, and never with a value.
Elsewhere: which settings are passwords (model.values), the ciphers (ciphers.py), what becomes of the values (driver),
what audits compare (audit.fingerprints).
Rules: the text says how it was encoded; settings count only for what is written, as in Kafka. A text of the old secret
is read too, but the takeover waits until its broker wrote it again (gate.py). Audits read with code of their own
(audit.passwords); Kafka's own class checks both (tests/e2e/test_password_vectors.py).
Source: Kafka 3.9 `EncryptingPasswordEncoder`, `CipherParamsEncoder`, `Csv.parseCsvMap`, `PasswordEncoderConfigs`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from migrator.findings.content import (
    PASSWORD_ALGORITHM_UNKNOWN,
    PASSWORD_CIPHERS_DIFFER,
    PASSWORD_CONFIG,
    PASSWORD_OF_OLD_SECRET,
    PASSWORD_UNCERTAIN,
    PASSWORD_UNDECODABLE,
)
from migrator.findings.finding import Occurrence, words_of
from migrator.model.values import is_password
from migrator.zk.ciphers import CipherName, Damaged, UnknownAlgorithm, derive_key
from migrator.zk.znodes import RECORD_TEXT_BYTES_MAX

SALT_BYTES: Final = 256
ITERATIONS_MAX: Final = 10_000_000
"""Some seconds of work; a text that wants more is damaged."""

CERTAIN_BYTES: Final = 24
"""So many bytes without a control sign among them are no accident: of bytes at random every third would pass."""

KEPT: Final = 10_000
"""Values that an encoder remembers with their texts: deriving a key takes milliseconds, seconds where many iterations
are set; a tree is read many times, and a broker's configuration is written as a whole."""

Chance = Callable[[int], bytes]
"""So many random bytes."""


class EncoderSettings(msgspec.Struct, frozen=True):
    """`password.encoder.*` of a properties file. key_length in bits. Its text shows no secret."""

    secret: str
    old_secret: str | None = None
    key_factory: str = "PBKDF2WithHmacSHA512"
    cipher: str = "AES/CBC/PKCS5Padding"
    key_length: int = 128
    iterations: int = 4096

    def __repr__(self) -> str:
        return f"EncoderSettings({self.key_factory}, {self.cipher}, {self.key_length}, {self.iterations})"


class Decoded(msgspec.Struct, frozen=True):
    """A clear value, and how its text was encoded. is_certain: a wrong secret would not have given any value."""

    clear: str
    cipher: str
    by_old_secret: bool
    is_certain: bool

    def __repr__(self) -> str:
        return f"Decoded({self.cipher})"


class PasswordEncoder:
    """Encodes and decodes with one set of settings."""

    def __init__(self, settings: EncoderSettings, chance: Chance) -> None:
        self.settings = settings
        self._chance = chance
        self._decoded = lru_cache(KEPT)(self._decode)
        self._encoded = lru_cache(KEPT)(lambda path, key, clear: self.encode(clear))

    def __repr__(self) -> str:
        return f"PasswordEncoder({self.settings!r})"

    def decode(self, text: str) -> Decoded:
        """Raises `Damaged` or `UnknownAlgorithm`; neither says a value."""
        return self._decoded(text)

    def encode(self, clear: str) -> str:
        """Encrypt with a new salt each time, so that two texts of one value differ."""
        settings = self.settings
        cipher = CipherName.parse(settings.cipher)
        salt, vector = self._chance(SALT_BYTES), self._chance(cipher.vector_bytes)
        key = derive_key(settings.key_factory, settings.secret, salt, settings.iterations, settings.key_length)
        encrypted = cipher.encrypt(key, vector, clear.encode(), self._chance)
        told = {
            "keyFactoryAlgorithm": settings.key_factory,
            "cipherAlgorithm": settings.cipher,
            "keyLength": settings.key_length,
            "salt": _base64(salt),
            "iterations": settings.iterations,
            "encryptedPassword": _base64(encrypted),
            "passwordLength": _java_length(clear),
            "initializationVector": _base64(vector),
            **({"authenticationTagLength": cipher.tag_bits} if cipher.is_authenticated else {}),
        }
        return ",".join(f"{name}:{value}" for name, value in told.items())

    def text_at(self, path: str, key: str, clear: str) -> str:
        """The encoded value of a znode's key: the same text until the value is another. Two places have two salts."""
        return self._encoded(path, key, clear)

    def _decode(self, text: str) -> Decoded:
        parts = _parts(text)
        cipher = CipherName.parse(_name(parts, "cipherAlgorithm"))
        secrets = [self.settings.secret, *filter(None, [self.settings.old_secret])]
        for secret in secrets:
            clear = _decrypted(cipher, parts, secret)
            if clear is not None:
                is_certain = cipher.tells_a_wrong_key or len(clear.encode()) >= CERTAIN_BYTES
                return Decoded(clear, cipher.text, secret != self.settings.secret, is_certain)
        raise Damaged("it was encoded under another secret, or it is damaged")


def why_not_usable(settings: EncoderSettings) -> tuple[str, str] | None:
    """The key of the properties file with which no password could be written, and why; None when all can."""
    try:
        cipher = CipherName.parse(settings.cipher)
    except UnknownAlgorithm as error:
        return "password.encoder.cipher.algorithm", f"{error} is not known here"
    if not cipher.takes_every_length:
        return "password.encoder.cipher.algorithm", "it needs a padding, for passwords of every length"
    try:
        key = derive_key(settings.key_factory, "", b"", 1, settings.key_length)
    except UnknownAlgorithm as error:
        return "password.encoder.keyfactory.algorithm", f"{error} is not known here"
    if not cipher.takes_key(key):
        return "password.encoder.key.length", f"{settings.cipher} has no keys of {settings.key_length} bits"
    try:
        cipher.encrypt(key, bytes(cipher.vector_bytes), b"a trial", bytes)
    except UnknownAlgorithm as error:
        return "password.encoder.cipher.algorithm", f"{error} is not known here"
    return None


# --- a broker's whole configuration -----------------------------------------------------------------------


def clear_config(
    path: str, values: Mapping[str, str], encoder: PasswordEncoder | None
) -> tuple[dict[str, str], list[Occurrence]]:
    """A configuration with its passwords in clear; passwords that cannot be decoded are left out and told of."""
    clear: dict[str, str] = {}
    problems: list[Occurrence] = []
    for key, value in values.items():
        found = _clear_value(path, key, value, encoder) if is_password(key) else value
        if isinstance(found, Occurrence):
            problems.append(found)
        else:
            clear[key] = found
    return clear, problems


def reasons_to_wait(path: str, values: Mapping[str, str], encoder: PasswordEncoder) -> list[Occurrence]:
    """Find passwords that can be decoded here, and yet may be garbled, or whose broker could not decode what we would
    write in their place.

    Kafka's decoder takes the vector of AES/GCM, or any other, by its own settings and not by the text's.
    """
    found: list[Occurrence] = []
    for key, text in values.items():
        if not is_password(key) or isinstance(_clear_value(path, key, text, encoder), Occurrence):
            continue
        decoded, ours = encoder.decode(text), encoder.settings.cipher
        if decoded.by_old_secret:
            found.append(PASSWORD_OF_OLD_SECRET.found(path=path, key=key))
        elif decoded.cipher.startswith("AES/GCM/") != ours.startswith("AES/GCM/"):
            found.append(PASSWORD_CIPHERS_DIFFER.found(path=path, key=key, brokers=decoded.cipher, controllers=ours))
        elif not decoded.is_certain:
            found.append(PASSWORD_UNCERTAIN.found(path=path, key=key, algorithm=decoded.cipher))
    return found


def encoded_config(path: str, values: Mapping[str, str], encoder: PasswordEncoder | None) -> dict[str, str]:
    """A configuration as ZooKeeper holds it at this path. Without an encoder it may hold no password."""
    return {key: _encoded_value(path, key, value, encoder) for key, value in values.items()}


def why_not_kept(path: str, values: Mapping[str, str], encoder: PasswordEncoder) -> Occurrence | None:
    """The first password whose text in ZooKeeper would not give the value back; None: all would.

    Encodes every password for `encoded_config`, which takes long.
    """
    _, problems = clear_config(path, encoded_config(path, values, encoder), encoder)
    return problems[0] if problems else None


def _encoded_value(path: str, key: str, value: str, encoder: PasswordEncoder | None) -> str:
    if not is_password(key):
        return value
    assert encoder is not None, f"{key} would be written in clear"
    return encoder.text_at(path, key, value)


def _clear_value(path: str, key: str, text: str, encoder: PasswordEncoder | None) -> str | Occurrence:
    if encoder is None:
        return PASSWORD_CONFIG.found(path=path, key=key)
    try:
        clear = encoder.decode(text).clear
    except UnknownAlgorithm as error:
        return PASSWORD_ALGORITHM_UNKNOWN.found(path=path, key=key, algorithm=str(error))
    except Damaged as error:
        return PASSWORD_UNDECODABLE.found(path=path, key=key, reason=words_of(error))
    if len(clear.encode()) > RECORD_TEXT_BYTES_MAX:
        reason = f"it takes {len(clear.encode())} bytes, a metadata record holds {RECORD_TEXT_BYTES_MAX}"
        return PASSWORD_UNDECODABLE.found(path=path, key=key, reason=reason)
    return clear


# --- one text ---------------------------------------------------------------------------------------------


def _parts(text: str) -> dict[str, str]:
    """Pairs with commas between them; each is cut at its last colon, and Kafka throws for one without. Order says
    nothing.
    """
    texts = text.split(",")
    while texts and not texts[-1].strip():
        texts.pop()  # as Java's `split` does
    pairs = [pair.rpartition(":") for pair in texts]
    if not all(colon for _, colon, _ in pairs):
        raise Damaged("it is not a text of Kafka's password encoder: a part of it has no colon")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _part(parts: Mapping[str, str], name: str) -> str:
    if name not in parts:
        raise Damaged(f"it is not a text of Kafka's password encoder: it has no {name}")
    return parts[name]


def _name(parts: Mapping[str, str], name: str) -> str:
    """Of an algorithm: fit to be told, as nothing else of a text is."""
    found = _part(parts, name)
    if not re.fullmatch("[A-Za-z0-9/_.-]{1,60}", found):
        raise Damaged(f"its {name} is no name of an algorithm")
    return found


def _number(parts: Mapping[str, str], name: str, at_most: int) -> int:
    text = _part(parts, name)
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) > at_most:
        raise Damaged(f"its {name} is not a number up to {at_most}")
    return int(text)


def _bytes(parts: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(_part(parts, name), validate=True)
    except (binascii.Error, ValueError):
        raise Damaged(f"its {name} is not base64") from None


def _decrypted(cipher: CipherName, parts: Mapping[str, str], secret: str) -> str | None:
    """The clear value, None where this secret does not give one that fits what the text says of it."""
    iterations = _number(parts, "iterations", ITERATIONS_MAX)
    length = _number(parts, "passwordLength", 2**31 - 1)
    tag_bits = _number(parts, "authenticationTagLength", 128) if cipher.is_authenticated else 0
    key_length = _number(parts, "keyLength", 4096)
    key = derive_key(_name(parts, "keyFactoryAlgorithm"), secret, _bytes(parts, "salt"), iterations, key_length)
    vector, encrypted = _bytes(parts, "initializationVector"), _bytes(parts, "encryptedPassword")
    clear = cipher.decrypt(key, vector, encrypted, tag_bits)
    if clear is None:
        return None
    try:
        value = clear.decode()
    except UnicodeDecodeError:
        return None
    is_doubtful = not cipher.tells_a_wrong_key and any(ord(sign) < 32 and sign not in "\t\r\n" for sign in value)
    return None if _java_length(value) != length or is_doubtful else value


def _java_length(text: str) -> int:
    """In UTF-16 units, as Java counts."""
    return len(text.encode("utf-16-le")) // 2


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
