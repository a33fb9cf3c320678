"""How large the znodes would be that hold what a request asks for: upper bounds, from values and without making them.

In:   partitions, ACLs, configuration, credentials, tokens.
Out:  bytes; at least what the znode takes with its path, at most a few per entry more (tests compare both).
Elsewhere: the znodes themselves (zk), the largest that ZooKeeper takes (zk.multi), what is refused (controller).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from migrator.model.values import (
    AclEntry,
    AclOperation,
    AclPermission,
    DelegationToken,
    Partition,
    ScramCredential,
    is_password,
)

_AROUND: Final = 300
"""The braces and keys around everything, and the path without its last name."""
_AROUND_PARTITION: Final = len('"":[],')
_AROUND_ACL: Final = len('{"principal":,"permissionType":"","host":,"operation":""},')
_AROUND_CREDENTIAL: Final = len('"SCRAM-SHA-512":"salt=,stored_key=,server_key=,iterations=",') + 20
_QUOTAS: Final = 400
"""All four quotas of an entity, with 24 digits each."""
_AROUND_PASSWORD: Final = 600
"""Salt, vector, algorithm and lengths of an encrypted password."""
_ESCAPED: Final = 3
"""Bytes in a path or a token's principal for one byte of a name, all of them escaped."""


def name_bytes(name: str) -> int:
    """A name as the last part of a path."""
    return _ESCAPED * len(name.encode())


def text_bytes(text: str) -> int:
    """A text in JSON, with its quotes."""
    return len(msgspec.json.encode(text))


# --- topics -----------------------------------------------------------------------------------------------


def assignment_bytes(partition_id: int, *lists: Sequence[int]) -> int:
    """What one partition takes in its topic's znode: replicas, and those that come and go."""
    return sum(
        _AROUND_PARTITION + len(str(partition_id)) + sum(len(str(broker)) + 1 for broker in brokers)
        for brokers in lists
        if brokers
    )


def partition_bytes(partition: Partition) -> int:
    return assignment_bytes(partition.id, partition.replicas, partition.adding, partition.removing)


def topic_bytes(name: str, partitions: Iterable[Partition]) -> int:
    return _AROUND + name_bytes(name) + sum(map(partition_bytes, partitions))


# --- everything else --------------------------------------------------------------------------------------


def acl_bytes(entry: AclEntry) -> int:
    words = AclPermission(entry.permission).name + AclOperation(entry.operation).name
    return _AROUND_ACL + len(words.replace("_", "")) + text_bytes(entry.principal) + text_bytes(entry.host)


def acls_bytes(name: str, entries: Iterable[AclEntry]) -> int:
    """All ACLs of one resource."""
    return _AROUND + name_bytes(name) + sum(map(acl_bytes, entries))


def config_bytes(name: str, values: Mapping[str, str]) -> int:
    """The configuration of a topic or a broker, whose passwords are encrypted there."""
    return _AROUND + name_bytes(name) + sum(text_bytes(key) + _value(key, text) + 2 for key, text in values.items())


def _value(key: str, text: str) -> int:
    return 2 * len(text.encode()) + _AROUND_PASSWORD if is_password(key) else text_bytes(text)


def user_bytes(name: str, credentials: Iterable[ScramCredential]) -> int:
    """A user with the credentials and all quotas that one can have."""
    return _AROUND + _QUOTAS + name_bytes(name) + sum(map(_credential_bytes, credentials))


def _credential_bytes(kept: ScramCredential) -> int:
    return _AROUND_CREDENTIAL + sum(4 * (len(each) // 3 + 1) for each in (kept.salt, kept.stored_key, kept.server_key))


def token_bytes(token: DelegationToken) -> int:
    return 2 * _AROUND + sum(name_bytes(each) + 3 for each in (token.id, token.owner, token.requester, *token.renewers))
