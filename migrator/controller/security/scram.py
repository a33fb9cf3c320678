"""Credentials of users are set and deleted.

In:   AlterUserScramCredentials; what a client derived from the password (RFC 5802), never the password.
Out:  UserScramCredential records with the two keys by which brokers recognise who knows the password, and removals; an
answer per user.
Elsewhere: how they stand in ZooKeeper (zk.entity_znodes), who logs in (brokers).
Rules: the derived password is turned into keys here and is neither kept nor logged; the keys do not lead back to it.
One change per user and request, whatever the mechanism. A user without a form in ZooKeeper gets no credential while the
cluster is there too. A removal shares no delta of Kafka's loader with anything else (`BARRIER`).
Source: Kafka 3.9 `ScramControlManager`, `ScramFormatter`, `ScramDelta`, `MetadataBatchLoader`; RFC 5802 section 3.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from typing import Final

from migrator.controller.decision import Decision, ItemRefused, Record, Situation
from migrator.controller.znode_limits import larger_than_zookeeper_takes
from migrator.model import levels
from migrator.model.names import RELATIVE
from migrator.model.values import MigrationState, ScramCredential, ScramKey, ScramMechanism
from migrator.model.znode_sizes import user_bytes
from migrator.records.builders import scram_record
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    EndTransactionRecord,
    RemoveUserScramCredentialRecord,
)
from migrator.wire.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
HASHES: Final = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}

BARRIER: Final[tuple[Record, ...]] = ((BeginTransactionRecord("SCRAM"), 0), (EndTransactionRecord(), 0))
"""A transaction without anything in it. Kafka's loader finishes the image of all that stands before a Begin.

Kafka 3.5 to 4.4 lose every credential of a mechanism whose last known one is removed in the same delta in which others
are set: a node that replays such a log at its start knows nobody (K-28, docs/better-than-stock.md).
"""

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_scram(situation: Situation, request: AlterUserScramCredentialsRequest) -> Decision:
    accepted: dict[str, Change] = {}
    refused: dict[str, ItemRefused] = {}
    changes: list[Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        if change.name in refused:
            continue
        try:
            if accepted.pop(change.name, None) is not None:
                words = "A user credential cannot be altered twice in the same request"
                raise ItemRefused(Error.DUPLICATE_RESOURCE, words)
            _check(situation, change)
        except ItemRefused as reason:
            refused[change.name] = reason
        else:
            accepted[change.name] = change
    results = [AlterUserScramCredentialsResult(user, Error.NONE, None) for user in accepted]
    results += [AlterUserScramCredentialsResult(user, each.error, str(each)) for user, each in refused.items()]
    return Decision(AlterUserScramCredentialsResponse(results=tuple(results)), _records(situation, accepted.values()))


def _check(situation: Situation, change: Change) -> None:
    image = situation.image
    if image.metadata_version < levels.SCRAM:
        raise ItemRefused(Error.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.name:
        raise ItemRefused(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in HASHES:
        raise ItemRefused(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if ScramKey(change.name, change.mechanism) not in image.scram:
            raise ItemRefused(Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    elif image.migration is MigrationState.MIGRATION and change.name in RELATIVE:
        words = f"While the cluster is in ZooKeeper too, a user cannot be named {change.name!r}"
        raise ItemRefused(Error.UNACCEPTABLE_CREDENTIAL, words)
    elif change.iterations < ITERATIONS_MIN:
        raise ItemRefused(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif change.iterations > ITERATIONS_MAX:
        raise ItemRefused(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    else:
        _check_size(situation, change)


def _check_size(situation: Situation, change: ScramCredentialUpsertion) -> None:
    keys = [ScramKey(change.name, mechanism) for mechanism in HASHES]
    now = {key: kept for key in keys if (kept := situation.image.scram.get(key)) is not None}
    new = ScramCredential(change.salt, b"x" * 64, b"x" * 64, change.iterations)
    after = now | {ScramKey(change.name, change.mechanism): new}
    words = larger_than_zookeeper_takes(
        situation,
        f"User {change.name}",
        user_bytes(change.name, after.values()),
        lambda: user_bytes(change.name, now.values()),
    )
    if words is not None:
        raise ItemRefused(Error.POLICY_VIOLATION, words)


def _records(situation: Situation, changes: Collection[Change]) -> tuple[Record, ...]:
    """What is set, then what is removed. A level without transactions has no barrier: K-28 is Kafka's there."""
    records: list[Record] = []
    removals: list[Record] = []
    for change in changes:
        if isinstance(change, ScramCredentialDeletion):
            removals.append((RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism), 0))
        else:
            records.append((scram_record(ScramKey(change.name, change.mechanism), credential_of(change)), 0))
    if removals and situation.image.metadata_version >= levels.TRANSACTIONS:
        removals = [*BARRIER, *removals, *BARRIER]
    return (*records, *removals)


def credential_of(change: ScramCredentialUpsertion) -> ScramCredential:
    """StoredKey = H(HMAC(SaltedPassword, "Client Key")), ServerKey = HMAC(SaltedPassword, "Server Key")."""
    hash_ = HASHES[ScramMechanism(change.mechanism)]
    client_key = hmac.digest(change.salted_password, b"Client Key", hash_)
    return ScramCredential(
        salt=change.salt,
        stored_key=hashlib.new(hash_, client_key).digest(),
        server_key=hmac.digest(change.salted_password, b"Server Key", hash_),
        iterations=change.iterations,
    )
