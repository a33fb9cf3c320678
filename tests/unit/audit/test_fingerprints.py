"""Secret values leave an audit only as keyed hashes."""

from __future__ import annotations

import pytest

from migrator.audit.fingerprints import HIDDEN, SecretFingerprints, is_sensitive, without_secrets
from migrator.model.values import PASSWORD_SUFFIXES
from migrator.wire.messages.metadata import ConfigRecord, NoOpRecord, UserScramCredentialRecord


@pytest.mark.parametrize("suffix", PASSWORD_SUFFIXES)
def test_every_password_type_key_that_the_gate_knows_is_sensitive_behind_a_listener_prefix_too(suffix: str) -> None:
    assert is_sensitive(suffix)
    assert is_sensitive(f"listener.name.external.{suffix}")


@pytest.mark.parametrize(
    "name", ["retention.ms", "ssl.keystore.location", "sasl.enabled.mechanisms", "ssl.keystore.type"]
)
def test_ordinary_keys_are_told_as_they_are(name: str) -> None:
    assert SecretFingerprints().facts({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "name", ["my.plugin.api.token", "aws.secret.access.key", "oauth.client.credentials", "Password", "ssl.key.type"]
)
def test_a_key_that_is_not_known_may_be_a_secret_under_any_name(name: str) -> None:
    told = SecretFingerprints().facts({name: "hunter2", f"listener.name.external.{name}": "hunter2"})
    assert "hunter2" not in str(told.values())


def test_a_listener_s_own_value_is_as_harmless_as_everybody_s() -> None:
    name = "listener.name.external.ssl.keystore.location"
    assert SecretFingerprints().facts({name: "/stores/one.jks"}) == {name: "/stores/one.jks"}


def test_equal_secrets_are_equal_under_one_key_and_nothing_of_them_is_left() -> None:
    fingerprints = SecretFingerprints()
    fingerprinted = fingerprints.value("ssl.key.password", "hunter2")
    assert fingerprinted == fingerprints.value("ssl.key.password", "hunter2")
    assert fingerprinted != fingerprints.value("ssl.key.password", "hunter3")
    assert "hunter2" not in fingerprinted
    assert fingerprinted == SecretFingerprints.from_hex(fingerprints.key_hex).value("ssl.key.password", "hunter2")


def test_another_audit_has_another_key() -> None:
    assert SecretFingerprints().value("ssl.key.password", "hunter2") != SecretFingerprints().value(
        "ssl.key.password", "hunter2"
    )


def test_a_secret_that_is_not_set_is_told_as_such() -> None:
    assert SecretFingerprints().value("ssl.key.password", None) is None


def test_the_key_is_not_printed_with_the_seal() -> None:
    fingerprints = SecretFingerprints()
    assert fingerprints.key_hex not in repr(fingerprints)


def test_a_record_that_is_shown_to_somebody_shows_no_secret() -> None:
    password = ConfigRecord(4, "1", "listener.name.x.ssl.key.password", "hunter2")
    assert without_secrets(password) == ConfigRecord(4, "1", "listener.name.x.ssl.key.password", HIDDEN)
    gone = ConfigRecord(4, "1", "listener.name.x.ssl.key.password", None)
    plain = ConfigRecord(2, "orders", "retention.ms", "1")
    for record in (gone, plain, NoOpRecord()):
        assert without_secrets(record) is record
    shown = without_secrets(UserScramCredentialRecord("alice", 2, b"salty", b"stored", b"server", 4096))
    assert shown == UserScramCredentialRecord("alice", 2, HIDDEN, HIDDEN, HIDDEN, 4096)  # type: ignore[arg-type]
