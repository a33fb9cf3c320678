"""Values that nobody may read: they leave an audit only as keyed hashes.

In:   facts of a configuration, of credentials or of a token, as either side tells them.
Out:  the same facts, with the values of password-like keys replaced. Equal values stay equal.
Elsewhere: where it is applied: on what differs (compare.py), and in front of every Parquet file (spark_sources.py).
Rule: one random key for each audit, equal on both sides, held in memory only. A hash without its key cannot be tried
out against a list of passwords, and two audits do not show that a password stayed the same.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any, Final

import msgspec

from migrator.wire.messages.metadata import ConfigRecord, UserScramCredentialRecord

SENSITIVE_SUFFIXES: Final = (
    "password",
    "secret",
    "jaas.config",
    "keystore.key",
    "keystore.certificate.chain",
    "truststore.certificates",
    *("salt", "stored_key", "server_key"),
    *("token owner", "token requester", "token renewers"),
)
"""Kafka's configurations of type PASSWORD end so (behind a listener's prefix too), and so do most plug-ins' own; then
the parts of a SCRAM credential, and who is behind a delegation token.
"""

HIDDEN: Final = "(hidden)"
KEY_BYTES: Final = 32
HASH_DIGITS: Final = 32
PREFIX: Final = "hmac-sha256:"


def is_sensitive(name: str) -> bool:
    return name.lower().endswith(SENSITIVE_SUFFIXES)


def without_secrets(record: msgspec.Struct) -> msgspec.Struct:
    """A record as it may be shown to somebody: values of password-like keys and credentials are not."""
    match record:
        case ConfigRecord() if record.value is not None and is_sensitive(record.name):
            return msgspec.structs.replace(record, value=HIDDEN)
        case UserScramCredentialRecord():
            return msgspec.structs.replace(record, salt=HIDDEN, stored_key=HIDDEN, server_key=HIDDEN)
        case _:
            return record


class Seal:
    """The key of one audit. `key_hex` is for handing it to tasks of the same audit, never for writing it down."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(KEY_BYTES)

    @classmethod
    def from_hex(cls, key_hex: str) -> Seal:
        return cls(bytes.fromhex(key_hex))

    @property
    def key_hex(self) -> str:
        return self._key.hex()

    def __repr__(self) -> str:
        return "Seal(...)"

    def value(self, name: str, value: Any) -> Any:
        """The value of one configuration key; None (no value) stays None."""
        if value is None or not is_sensitive(name):
            return value
        return PREFIX + hmac.new(self._key, msgspec.json.encode(value), "sha256").hexdigest()[:HASH_DIGITS]

    def facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(name, value) for name, value in facts.items()}
