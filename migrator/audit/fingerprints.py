"""Values that nobody may read: they leave an audit only as keyed hashes.

In:   facts of a configuration, of credentials or of a token, as either side tells them.
Out:  the same facts, with the values of all keys that are not known to be harmless replaced. Equal values stay equal.
Elsewhere: where it is applied: on what differs (compare.py), and in front of every Parquet file (spark/sources.py).
Rule: one random key for each audit, equal on both sides, held in memory only. A hash without its key cannot be tried
out against a list of passwords, and two audits do not show that a password stayed the same.
"""

from __future__ import annotations

import hmac
import re
import secrets
from functools import lru_cache
from typing import Any, Final

import msgspec

from migrator.model.broker_configs import BROKER_CONFIGS, LISTENER_KEYS
from migrator.model.topic_configs import TOPIC_CONFIGS
from migrator.wire.messages.metadata import ConfigRecord, UserScramCredentialRecord

PLAIN: Final = frozenset(
    {
        *TOPIC_CONFIGS,
        *BROKER_CONFIGS,
        *LISTENER_KEYS,
        *("connections.max.reauth.ms", "metric.reporters", "metrics.num.samples", "metrics.recording.level"),
        *("metrics.sample.window.ms", "principal.builder.class", "sasl.enabled.mechanisms"),
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.principal.to.local.rules"),
        *(
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
        ),
        *("sasl.login.callback.handler.class", "sasl.login.class", "sasl.login.refresh.buffer.seconds"),
        *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor"),
        *("sasl.login.refresh.window.jitter", "sasl.mechanism.inter.broker.protocol"),
        *("sasl.server.callback.handler.class", "sasl.server.max.receive.size"),
        *("ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm"),
        *("ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.keystore.location", "ssl.keystore.type"),
        *("ssl.principal.mapping.rules", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation"),
        *("ssl.trustmanager.algorithm", "ssl.truststore.location", "ssl.truststore.type"),
        *("issued", "latest", "expires", "token id"),
    }
)
"""What everybody may read: Kafka's dynamic configuration that is not of type PASSWORD, and of a delegation token its
times and its id. Whatever else there is, a plug-in's own key too, may be a secret under any name.
Source: Kafka 3.9 `DynamicBrokerConfig.AllDynamicConfigs`, `LogConfig`.
"""

_ITERATIONS: Final = " iterations"
_LISTENER_PREFIX: Final = re.compile(r"listener\.name\.[^.]+\.")

NAMES_KEPT: Final = 4_096
"""A cluster's configurations share few names."""

HIDDEN: Final = "(hidden)"
KEY_BYTES: Final = 32
HASH_DIGITS: Final = 32
PREFIX: Final = "hmac-sha256:"


@lru_cache(maxsize=NAMES_KEPT)
def is_sensitive(name: str) -> bool:
    """name: a configuration's, with or without the prefix of a listener, or a fact's of a credential or a token."""
    return _LISTENER_PREFIX.sub("", name) not in PLAIN and not name.endswith(_ITERATIONS)


def without_secrets(record: msgspec.Struct) -> msgspec.Struct:
    """A record as it may be shown to somebody: values of password-like keys and credentials are not."""
    match record:
        case ConfigRecord() if record.value is not None and is_sensitive(record.name):
            return msgspec.structs.replace(record, value=HIDDEN)
        case UserScramCredentialRecord():
            return msgspec.structs.replace(record, salt=HIDDEN, stored_key=HIDDEN, server_key=HIDDEN)
        case _:
            return record


class SecretFingerprints:
    """The key of one audit. `key_hex` is for handing it to tasks of the same audit, never for writing it down."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(KEY_BYTES)

    @classmethod
    def from_hex(cls, key_hex: str) -> SecretFingerprints:
        return cls(bytes.fromhex(key_hex))

    @property
    def key_hex(self) -> str:
        return self._key.hex()

    def __repr__(self) -> str:
        return "SecretFingerprints(...)"

    def value(self, name: str, value: Any) -> Any:
        """The value of one configuration key; None (no value) stays None."""
        if value is None or not is_sensitive(name):
            return value
        return PREFIX + hmac.new(self._key, msgspec.json.encode(value), "sha256").hexdigest()[:HASH_DIGITS]

    def facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(name, value) for name, value in facts.items()}
