"""Znodes of ACLs and of delegation tokens, with the notifications by which brokers hear of a change.

In:   bytes and paths from ZooKeeper, or values of the model.
Out:  the other one of the two. Strict: a word that Kafka does not know raises Z2K-1001 with the path; stock would
      copy it as UNKNOWN, which no authorizer acts on.
Elsewhere: which znodes exist (driver.mirror), quotas and credentials (entity_znodes.py).
Rules: words are read in any case, as Kafka does, and written in its own. Names of resources are not sanitised, so a
name with a slash has no znode; principals of tokens are.
Source: Kafka 3.9 `AclEntry`, `ZkAclStore`, `SecurityUtils`, `DelegationTokenManagerZk`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, TypeVar

import msgspec

from migrator.findings.content import MALFORMED_ZNODE
from migrator.findings.finding import words_of
from migrator.model.names import is_znode_name
from migrator.model.values import (
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    DelegationToken,
)
from migrator.zk import paths
from migrator.zk.entity_znodes import desanitise, sanitise
from migrator.zk.json_texts import check_json
from migrator.zk.znodes import RECORD_TEXT_BYTES_MAX, UNREADABLE, Int64

E = TypeVar("E", bound=IntEnum)


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _words(kind: type[E]) -> dict[str, E]:
    """Kafka's words in upper case, without the underscores of its enums."""
    return {_pascal(each.name).upper(): each for each in kind}


_OPERATIONS: Final = _words(AclOperation)
_PERMISSIONS: Final = _words(AclPermission)
TYPE_NAMES: Final = {each: _pascal(each.name) for each in AclResourceType}
_TYPES: Final = {name: each for each, name in TYPE_NAMES.items()}
ACL_ROOTS: Final = {AclPattern.LITERAL: paths.ACLS, AclPattern.PREFIXED: paths.PREFIXED_ACLS}
CHANGE_ROOTS: Final = {AclPattern.LITERAL: paths.ACL_CHANGES, AclPattern.PREFIXED: paths.EXTENDED_ACL_CHANGES}


# --- ACLs: places -----------------------------------------------------------------------------------------


def acl_resource(pattern: AclPattern, type_name: str, name: str) -> AclResource:
    """The resource of `<root>/<type_name>/<name>`. Raises Z2K-1001 for a type that Kafka does not look at."""
    path = f"{ACL_ROOTS[pattern]}/{type_name}/{name}"
    type_ = _TYPES.get(type_name)
    if type_ is None:
        raise MALFORMED_ZNODE.error(path=path, reason=f"{type_name[:40]!r} is no type of resource")
    _text(path, "its name", name)
    return AclResource(type_, pattern, name)


def acl_path(resource: AclResource) -> str | None:
    """Where Kafka keeps the ACLs of a resource; None for one that has no form in ZooKeeper."""
    if resource.type not in TYPE_NAMES or resource.pattern not in ACL_ROOTS or not is_znode_name(resource.name):
        return None
    return f"{ACL_ROOTS[AclPattern(resource.pattern)]}/{TYPE_NAMES[AclResourceType(resource.type)]}/{resource.name}"


def acl_change(resource: AclResource) -> tuple[str, bytes]:
    """The notification of a change: the path of a sequential znode, and its data."""
    pattern = AclPattern(resource.pattern)
    type_name = AclResourceType(resource.type).name
    path = f"{CHANGE_ROOTS[pattern]}/acl_changes_"
    if pattern is AclPattern.LITERAL:
        return path, f"{type_name}:{resource.name}".encode()
    change = {"version": 1, "resourceType": type_name, "name": resource.name, "patternType": pattern.name}
    return path, msgspec.json.encode(change)


# --- ACLs: contents ---------------------------------------------------------------------------------------


class _AclJson(msgspec.Struct):
    principal: str
    permission: str = msgspec.field(name="permissionType")
    operation: str
    host: str


class _AclsJson(msgspec.Struct):
    version: int
    acls: list[_AclJson]


_ACLS_JSON: Final = msgspec.json.Decoder(_AclsJson)


def parse_acls(path: str, data: bytes | None) -> frozenset[AclEntry]:
    """What a resource's znode grants and denies. Without data, or with an empty list, it is nothing."""
    if not data:
        return frozenset()
    try:
        found = _ACLS_JSON.decode(check_json(data))
    except UNREADABLE as error:
        raise MALFORMED_ZNODE.error(path=path, reason=words_of(error)) from error
    if found.version != 1:
        raise MALFORMED_ZNODE.error(path=path, reason=f"version {found.version} of ACLs is not known")
    return frozenset(
        AclEntry(
            _principal(path, each.principal),
            _text(path, "a host", each.host),
            _word(path, each.operation, _OPERATIONS, "operation"),
            _word(path, each.permission, _PERMISSIONS, "permission"),
        )
        for each in found.acls
    )


def _word(path: str, text: str, words: dict[str, E], what: str) -> E:
    found = words.get(text.upper())
    if found is None:
        raise MALFORMED_ZNODE.error(path=path, reason=f"{text[:40]!r} is no {what} of an ACL")
    return found


def _principal(path: str, text: str) -> str:
    kind, colon, _ = text.partition(":")
    if not kind or not colon:
        raise MALFORMED_ZNODE.error(path=path, reason=f"{text[:60]!r} is no principal (Type:name)")
    return _text(path, "a principal", text)


def _text(path: str, what: str, text: str) -> str:
    if len(text.encode()) > RECORD_TEXT_BYTES_MAX:
        reason = f"{what} takes {len(text.encode())} bytes, a metadata record holds {RECORD_TEXT_BYTES_MAX}"
        raise MALFORMED_ZNODE.error(path=path, reason=reason)
    return text


def acl_data(entries: Iterable[AclEntry]) -> bytes:
    """A resource's znode with Kafka's own order of keys; the entries in order, since they are a set."""
    acls = [
        {
            "principal": each.principal,
            "permissionType": _pascal(AclPermission(each.permission).name),
            "host": each.host,
            "operation": _pascal(AclOperation(each.operation).name),
        }
        for each in sorted(entries)
    ]
    return msgspec.json.encode({"acls": acls, "version": 1})


# --- delegation tokens ------------------------------------------------------------------------------------


class _TokenJson(msgspec.Struct):
    """Versions 1 and 2 have no requester: the owner asked."""

    version: int
    owner: str
    renewers: list[str]
    issued_ms: Int64 = msgspec.field(name="issueTimestamp")
    max_ms: Int64 = msgspec.field(name="maxTimestamp")
    expires_ms: Int64 = msgspec.field(name="expiryTimestamp")
    id: str = msgspec.field(name="tokenId")
    requester: str | None = msgspec.field(name="tokenRequester", default=None)


_TOKEN_JSON: Final = msgspec.json.Decoder(_TokenJson)
TOKEN_VERSIONS: Final = (1, 2, 3)


def parse_token(path: str, data: bytes | None) -> DelegationToken:
    """A token. Its own id has to be the name of its znode: brokers look for it there."""
    try:
        found = _TOKEN_JSON.decode(check_json(data or b""))
    except UNREADABLE as error:
        raise MALFORMED_ZNODE.error(path=path, reason=words_of(error)) from error
    if found.version not in TOKEN_VERSIONS:
        raise MALFORMED_ZNODE.error(path=path, reason=f"version {found.version} of a token is not known")
    if paths.token(found.id) != path:
        raise MALFORMED_ZNODE.error(path=path, reason="it holds a token of another id")
    if found.version == TOKEN_VERSIONS[-1] and found.requester is None:
        raise MALFORMED_ZNODE.error(path=path, reason="it has no tokenRequester")
    owner = _token_principal(path, found.owner)
    asked = found.requester if found.version == TOKEN_VERSIONS[-1] else None
    return DelegationToken(
        id=_text(path, "its id", found.id),
        owner=owner,
        requester=owner if asked is None else _token_principal(path, asked),
        renewers=tuple(_token_principal(path, each) for each in found.renewers),
        issued_ms=found.issued_ms,
        max_ms=found.max_ms,
        expires_ms=found.expires_ms,
    )


def _token_principal(path: str, text: str) -> str:
    return _principal(path, desanitise(path, text))


def token_data(token: DelegationToken) -> bytes:
    """A token's znode (version 3), in Kafka's own order of keys."""
    return msgspec.json.encode(
        {
            "issueTimestamp": token.issued_ms,
            "renewers": [sanitise(each) for each in token.renewers],
            "tokenRequester": sanitise(token.requester),
            "maxTimestamp": token.max_ms,
            "version": TOKEN_VERSIONS[-1],
            "tokenId": token.id,
            "owner": sanitise(token.owner),
            "expiryTimestamp": token.expires_ms,
        }
    )


def token_change(token_id: str) -> tuple[str, bytes]:
    """The notification by which brokers read a token again: the path of a sequential znode, and its data."""
    return f"{paths.TOKEN_CHANGES}/token_change_", token_id.encode()
