"""Credentials: what is kept of a password, and which changes are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from migrator.controller.decision import Decision, Situation
from migrator.controller.security.scram import alter_scram, credential_of
from migrator.model import levels
from migrator.model.draft import Draft
from migrator.model.values import ScramKey, ScramMechanism
from migrator.wire.errors import Error
from migrator.wire.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.builders import an_image
from tests.support.situations import a_situation, after

SHA_256, SHA_512 = ScramMechanism
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)


def setting(user: str = "alice", **changes: object) -> ScramCredentialUpsertion:
    fields: dict[str, object] = {"mechanism": SHA_256, "iterations": 4096, "salt": SALT, "salted_password": RFC}
    return ScramCredentialUpsertion(user, **{**fields, **changes})  # type: ignore[arg-type]


def deleting(user: str = "alice", mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(user, mechanism)


def a_cluster(*users: str, level: int = 21) -> Situation:
    image = an_image()
    draft = Draft(image)
    draft.set_feature("metadata.version", level)
    for user in users:
        draft.put_scram(ScramKey(user, SHA_256), credential_of(setting()))
    return a_situation(draft.finish(image.position).after)


def alter(
    situation: Situation, *changes: ScramCredentialDeletion | ScramCredentialUpsertion
) -> tuple[dict[str, Error], Decision]:
    deletions = tuple(each for each in changes if isinstance(each, ScramCredentialDeletion))
    upsertions = tuple(each for each in changes if isinstance(each, ScramCredentialUpsertion))
    decision = alter_scram(situation, AlterUserScramCredentialsRequest(deletions, upsertions))
    assert isinstance(decision.reply, AlterUserScramCredentialsResponse)
    results = decision.reply.results
    assert all((each.error_message is None) == (each.error_code == Error.NONE) for each in results)
    assert len({each.user for each in results}) == len(results)
    return {each.user: Error(each.error_code) for each in results}, decision


def test_the_keys_are_those_of_the_example_in_rfc_7677() -> None:
    """User and "pencil": server and client that only know these keys recognise each other's proofs there."""
    first = "n=user,r=rOprNGfwEbeRWgbNEkqO"
    server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    signed = f"{first},{server},{last}".encode()
    kept = credential_of(setting())

    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(kept.stored_key, signed, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == kept.stored_key
    verifier = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert hmac.digest(kept.server_key, signed, "sha256") == verifier


@pytest.mark.parametrize(("mechanism", "size"), [(SHA_256, 32), (SHA_512, 64)])
def test_a_credential_is_set_and_deleted(mechanism: ScramMechanism, size: int) -> None:
    situation = a_cluster()
    results, decision = alter(situation, setting(mechanism=mechanism, iterations=16384))
    assert results == {"alice": Error.NONE}
    there = after(situation, decision)
    kept = there.image.scram[ScramKey("alice", mechanism)]
    assert (len(kept.stored_key), len(kept.server_key), kept.salt, kept.iterations) == (size, size, SALT, 16384)
    results, decision = alter(there, deleting(mechanism=mechanism))
    assert results == {"alice": Error.NONE}
    assert not after(there, decision).image.scram


def test_what_was_derived_from_the_password_is_nowhere_in_the_records() -> None:
    _, decision = alter(a_cluster(), setting())
    assert RFC not in [getattr(record, name) for record, _ in decision.records for name in record.__struct_fields__]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (setting(""), Error.UNACCEPTABLE_CREDENTIAL),
        (setting(mechanism=0), Error.UNSUPPORTED_SASL_MECHANISM),
        (setting(mechanism=3), Error.UNSUPPORTED_SASL_MECHANISM),
        (setting(iterations=4095), Error.UNACCEPTABLE_CREDENTIAL),
        (setting(iterations=16385), Error.UNACCEPTABLE_CREDENTIAL),
        (deleting(""), Error.UNACCEPTABLE_CREDENTIAL),
        (deleting(mechanism=9), Error.UNSUPPORTED_SASL_MECHANISM),
        (deleting(), Error.RESOURCE_NOT_FOUND),
        (deleting("bob", SHA_512), Error.RESOURCE_NOT_FOUND),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_carried_out(
    change: ScramCredentialDeletion | ScramCredentialUpsertion, error: Error
) -> None:
    results, decision = alter(a_cluster("bob"), change, setting("carol"))
    assert results == {change.name: error, "carol": Error.NONE}
    assert len(decision.records) == 1


@pytest.mark.parametrize(
    "changes",
    [
        (deleting("bob"), setting("bob")),
        (setting("bob"), setting("bob", mechanism=SHA_512)),
        (deleting("bob"), deleting("bob"), deleting("bob")),
    ],
)
def test_a_user_is_changed_once_or_not_at_all(
    changes: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...],
) -> None:
    results, decision = alter(a_cluster("bob"), *changes)
    assert (results, decision.records) == ({"bob": Error.DUPLICATE_RESOURCE}, ())


def test_below_its_metadata_version_nothing_is_stored() -> None:
    results, decision = alter(a_cluster("bob", level=10), setting("alice"), deleting("bob"))
    assert set(results.values()) == {Error.UNSUPPORTED_VERSION}
    assert decision.records == ()


def test_k28_a_removal_stands_between_two_empty_transactions() -> None:
    """Kafka's loader ends its delta at a Begin, and loses in one delta what is set beside the last removal."""
    situation = a_cluster("alice", "bob", "eve")
    _, decision = alter(situation, deleting("alice"), setting("carol"), deleting("bob"))
    assert [type(record).__name__ for record, _ in decision.records] == [
        "UserScramCredentialRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "RemoveUserScramCredentialRecord",
        "RemoveUserScramCredentialRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
    ]
    assert {key.user for key in after(situation, decision).image.scram} == {"carol", "eve"}
    _, set_only = alter(situation, setting("carol"))
    assert len(set_only.records) == 1


def test_a_level_without_transactions_has_the_removal_alone() -> None:
    _, decision = alter(a_cluster("alice", level=levels.TRANSACTIONS - 1), deleting("alice"))
    assert [type(record).__name__ for record, _ in decision.records] == ["RemoveUserScramCredentialRecord"]
