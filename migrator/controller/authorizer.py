"""May this principal do this? Answered from the ACLs in the image, as Kafka's StandardAuthorizer answers it.

In:   who asks from where, what for, the rules of the properties file, the image.
Out:  yes or no.
Elsewhere: which request needs which permission (permissions.py), changing ACLs (acls.py).
Rules: a super user may do everything. A denial that fits outweighs every permission. Without any ACL on the resource
the file decides (`allow.everyone.if.no.acl.found`); with one that does not fit the answer is no.
Source: Kafka 3.9 `StandardAuthorizer`, `StandardAuthorizerData`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from migrator.model.image import Image
from migrator.model.values import AclEntry, AclOperation, AclPattern, AclPermission, AclResource, AclResourceType

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS: Final = "User:ANONYMOUS"
"""Everybody on a listener without authentication."""

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"

IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: {
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
}
"""What a permission (never a denial) for another operation gives as well."""


@dataclass(frozen=True, slots=True)
class AuthorizerRules:
    """What the properties file says. super_users: principals as `Type:name`."""

    super_users: frozenset[str]
    allow_everyone: bool = False


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose request it is. principal: `Type:name`; host: the address the client has at its broker.

    by_token: it logged in with a delegation token, which is not good enough to get another one.
    client_id: what it calls itself; quotas may be about it.
    """

    principal: str
    host: str
    by_token: bool = False
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What the properties file says of delegation tokens. secret_key: what their secrets are derived with."""

    secret_key: str = field(repr=False)
    max_lifetime_ms: int
    renew_lifetime_ms: int


def is_allowed(
    image: Image, rules: AuthorizerRules, asker: Asker, operation: AclOperation, type_: AclResourceType, name: str
) -> bool:
    if asker.principal in rules.super_users:
        return True
    entries = [entry for resource in _patterns(type_, name) for entry in image.acl_entries(resource)]
    if not entries:
        return rules.allow_everyone
    fitting = {entry.permission for entry in entries if _fits(entry, asker, operation)}
    return AclPermission.DENY not in fitting and AclPermission.ALLOW in fitting


def _patterns(type_: AclResourceType, name: str) -> Iterator[AclResource]:
    """Every resource whose ACLs are about this name."""
    yield AclResource(type_, AclPattern.LITERAL, name)
    if name != WILDCARD:
        yield AclResource(type_, AclPattern.LITERAL, WILDCARD)
    for end in range(1, len(name) + 1):
        yield AclResource(type_, AclPattern.PREFIXED, name[:end])


def _fits(entry: AclEntry, asker: Asker, operation: AclOperation) -> bool:
    if entry.principal not in (asker.principal, WILDCARD_PRINCIPAL) or entry.host not in (asker.host, WILDCARD):
        return False
    if entry.operation in (AclOperation.ALL, operation):
        return True
    return entry.permission == AclPermission.ALLOW and entry.operation in IMPLIED_BY.get(operation, ())
