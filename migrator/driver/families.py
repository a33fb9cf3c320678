"""Quotas, credentials, ACLs and tokens: what ZooKeeper holds of them, their records, and their place in an image.

In:   znodes as read (node.zookeeper.tree_reader), one after the other.
Out:  `Families`: values by key, what is odd as occurrences with the path; encoded records in the order of stock's copy.
Elsewhere: the formats of the znodes (zk.entity_znodes, zk.acl_znodes), topics and configurations (tree.py, copy.py).
Rules: ZooKeeper has no ids of ACLs. A copied one gets an id made of what it says, so that the same tree gives the same
records (R-866-02) and reading it again gives the same image; stock draws them.
Source: Kafka 3.9 `ZkConfigMigrationClient`, `ZkAclMigrationClient`, `ZkDelegationTokenMigrationClient`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from migrator.findings.finding import FindingError, Occurrence
from migrator.model.draft import Draft
from migrator.model.values import (
    Acl,
    AclEntry,
    AclPattern,
    AclResource,
    DelegationToken,
    QuotaEntity,
    ScramCredential,
    ScramKey,
)
from migrator.records.builders import acl_record, quota_record, scram_record, token_record
from migrator.wire.records import encode_record
from migrator.zk import paths
from migrator.zk.acl_znodes import acl_resource, parse_acls, parse_token
from migrator.zk.entity_znodes import entity_of, parse_entity


class ZnodeRead(Protocol):
    """A znode as read: its bytes, and the transaction that last changed it."""

    @property
    def data(self) -> bytes | None: ...
    @property
    def mzxid(self) -> int: ...


@dataclass(slots=True)
class Families:
    """What was read. mzxids: by path, of every znode of these families, also of those that say nothing."""

    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram: dict[ScramKey, ScramCredential] = field(default_factory=dict)
    acls: dict[AclResource, frozenset[AclEntry]] = field(default_factory=dict)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    mzxids: dict[str, int] = field(default_factory=dict)

    # --- reading -------------------------------------------------------------------------------------------

    def take_entity(self, path: str, znode: ZnodeRead | None, problems: list[Occurrence]) -> None:
        """A user, a client, an address, or a client of a user."""
        if znode is None:
            return  # deleted while we read
        self.mzxids[path] = znode.mzxid
        try:
            entity = entity_of(path)
            limits, credentials = parse_entity(path, entity, znode.data)
        except FindingError as error:
            problems.append(error.occurrence)
            return
        if limits:
            self.quotas[entity] = limits
        for mechanism, kept in credentials.items():
            self.scram[ScramKey(entity.parts[0][1] or "", mechanism)] = kept

    def take_acls(
        self,
        pattern: AclPattern,
        place: tuple[str, str],
        path: str,
        znode: ZnodeRead | None,
        problems: list[Occurrence],
    ) -> None:
        """place: the names of type and resource."""
        if znode is None:
            return
        self.mzxids[path] = znode.mzxid
        try:
            resource, entries = acl_resource(pattern, *place), parse_acls(path, znode.data)
        except FindingError as error:
            problems.append(error.occurrence)
            return
        if entries:
            self.acls[resource] = entries

    def take_token(self, path: str, znode: ZnodeRead | None, problems: list[Occurrence]) -> None:
        if znode is None:
            return
        self.mzxids[path] = znode.mzxid
        try:
            token = parse_token(path, znode.data)
        except FindingError as error:
            problems.append(error.occurrence)
            return
        self.tokens[token.id] = token

    def moved_since(self, before: Families) -> list[str]:
        """Paths that came, went or were written."""
        either = self.mzxids.keys() | before.mzxids.keys()
        return sorted(path for path in either if self.mzxids.get(path) != before.mzxids.get(path))

    def described(self) -> dict[str, object]:
        """What was read, under names for reports: nothing of it is secret."""
        return {
            **{f"quotas of {describe(entity)}": limits for entity, limits in self.quotas.items()},
            **described_credentials(self.scram),
            **{f"ACLs of {resource}": entries for resource, entries in self.acls.items()},
            **{paths.token(token): kept for token, kept in self.tokens.items()},
        }

    # --- as an image and as records ------------------------------------------------------------------------

    def put_into(self, draft: Draft) -> None:
        for entity, limits in self.quotas.items():
            for key, value in limits.items():
                draft.set_quota(entity, key, value)
        for whose, kept in self.scram.items():
            draft.put_scram(whose, kept)
        for acl in self.all_acls():
            draft.put_acl(acl_id(acl), acl)
        for token in self.tokens.values():
            draft.put_token(token)

    def all_acls(self) -> Iterator[Acl]:
        for resource in sorted(self.acls):
            for entry in sorted(self.acls[resource]):
                yield Acl(resource, entry)


def described_credentials(scram: Mapping[ScramKey, ScramCredential]) -> dict[str, object]:
    return {f"SCRAM credential {key.mechanism} of {key.user}": kept for key, kept in scram.items()}


def describe(entity: QuotaEntity) -> str:
    return ", ".join(f"{type_} {'<default>' if name is None else name}" for type_, name in entity.parts)


def acl_id(acl: Acl) -> bytes:
    """An id made of what the ACL says, with the bits of a random UUID, so that it is none of the reserved ones."""
    raw = bytearray(hashlib.sha256(msgspec.msgpack.encode(acl)).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def quota_and_scram_values(families: Families) -> Iterator[bytes]:
    for entity in sorted(families.quotas, key=lambda each: each.place):
        for key, value in sorted(families.quotas[entity].items()):
            yield encode_record(quota_record(entity, key, value), 0)
    for whose in sorted(families.scram):
        yield encode_record(scram_record(whose, families.scram[whose]), 0)


def acl_values(families: Families) -> Iterator[bytes]:
    for acl in families.all_acls():
        yield encode_record(acl_record(acl_id(acl), acl), 0)


def token_values(families: Families) -> Iterator[bytes]:
    for _, token in sorted(families.tokens.items()):
        yield encode_record(token_record(token), 0)
