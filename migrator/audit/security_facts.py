"""Quotas, SCRAM credentials, ACLs and delegation tokens as facts: what their znodes say, and what their records say.

In:   bytes of znodes, and records as decoded from the log's bytes.
Out:  facts by (family, key). A key is the path of the znode, on both sides.
Elsewhere: topics, configurations, producer ids (normalise.py), hiding what is secret (fingerprints.py).
Rule: nothing of the copy is imported here, as in normalise.py: names are escaped and words are read by code of our own.
A record is told as a `SecurityChange`, which is what the Spark job keeps: the record itself would hold secrets.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote_plus

import msgspec

from migrator.audit.java_texts import (
    LONG_MAX,
    java_base64,
    java_double,
    java_int,
    java_long,
    java_principal,
    java_unescaped,
)
from migrator.findings.audit import LOG_INCONSISTENT
from migrator.findings.content import MALFORMED_ZNODE
from migrator.findings.finding import words_of
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from migrator.wire.schema import Message
from migrator.zk.json_texts import check_json

QUOTAS: Final = "client quotas"
SCRAM: Final = "SCRAM credentials"
ACLS: Final = "ACLs"
TOKENS: Final = "delegation tokens"
SECURITY_FAMILIES: Final = (QUOTAS, SCRAM, ACLS, TOKENS)

SECURITY_RECORDS: Final = (
    ClientQuotaRecord,
    UserScramCredentialRecord,
    RemoveUserScramCredentialRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)

TOO_DEEP: Final = "it is nested too deeply to be read"
TOKEN_VERSION_MAX: Final = 3
"""Of the znodes that Kafka 3.9 reads; each version before is read too."""

LONG_QUOTAS: Final = frozenset({"producer_byte_rate", "consumer_byte_rate"})
INT_QUOTAS: Final = frozenset({"connection_creation_rate"})
"""A broker in ZooKeeper mode reads these as whole numbers, all others as doubles.
Source: Kafka 3.9 `QuotaConfigHandler.updateQuotaConfig`, `IpConfigHandler`.
"""

CREDENTIAL_KEYS: Final = frozenset({"salt", "stored_key", "server_key", "iterations"})
"""`ScramCredentialUtils.credentialFromString` wants these, and nothing beside them."""

ENTITY_ROOTS: Final = {"user": "users", "client-id": "clients", "ip": "ips"}
ACL_ROOTS: Final = {3: "/kafka-acl", 4: "/kafka-acl-extended/prefixed"}
TOKEN_ROOT: Final = "/delegation_token/tokens"
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_RESOURCES: Final = {2: "Topic", 3: "Group", 4: "Cluster", 5: "TransactionalId", 6: "DelegationToken", 7: "User"}
_OPERATIONS: Final = {
    2: "all", 3: "read", 4: "write", 5: "create", 6: "delete", 7: "alter", 8: "describe", 9: "clusteraction",
    10: "describeconfigs", 11: "alterconfigs", 12: "idempotentwrite", 13: "createtokens", 14: "describetokens",
}  # fmt: skip
_PERMISSIONS: Final = {2: "deny", 3: "allow"}
_OPERATION_WORDS: Final = {word.upper(): word for word in _OPERATIONS.values()}
_PERMISSION_WORDS: Final = {word.upper(): word for word in _PERMISSIONS.values()}
_UNKNOWN: Final = "0"
"""As a record is told: Kafka reads every word that it does not know as `Unknown`."""
_NO_ENTRY: Final = "ANY"
"""Kafka throws for an entry that says so."""

Facts = dict[str, Any]


# --- ZooKeeper's side -------------------------------------------------------------------------------------


class _EntityJson(msgspec.Struct):
    """Without `config` there is none, as for Kafka."""

    config: dict[str, str] = {}


class _AclJson(msgspec.Struct):
    principal: str
    host: str
    operation: str
    permission: str = msgspec.field(name="permissionType")


class _AclsJson(msgspec.Struct):
    """Kafka's reader wants this version and no other."""

    acls: list[_AclJson]
    version: Literal[1]


_Long = Annotated[int, msgspec.Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]


class _TokenJson(msgspec.Struct):
    """Kafka looks at the requester in the last version only."""

    version: Annotated[int, msgspec.Meta(ge=1, le=TOKEN_VERSION_MAX)]
    owner: str
    token_id: str = msgspec.field(name="tokenId")
    renewers: list[str]
    issued: _Long = msgspec.field(name="issueTimestamp")
    latest: _Long = msgspec.field(name="maxTimestamp")
    expires: _Long = msgspec.field(name="expiryTimestamp")
    requester: Any = msgspec.field(name="tokenRequester", default=None)


def zk_facts(path: str, data: bytes | None) -> dict[str, Facts]:
    """What a znode of any of these families says, by family. Z2K-1001 where it cannot be read."""
    try:
        if path.startswith("/config/"):
            return _zk_entity(data)
        if path.startswith(TOKEN_ROOT):
            return {TOKENS: _zk_token(data)}
        return {ACLS: _zk_acls(data)}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MALFORMED_ZNODE.error(path=path, reason=words_of(error)) from error
    except RecursionError as error:
        raise MALFORMED_ZNODE.error(path=path, reason=TOO_DEEP) from error
    except ValueError as error:  # its text may hold what was read, which may be secret
        raise MALFORMED_ZNODE.error(path=path, reason="a value in it is not of its kind") from error


def families_at(path: str) -> tuple[str, ...]:
    """The families of which a znode may say something."""
    if path.startswith("/config/"):
        return (QUOTAS, SCRAM) if path.startswith("/config/users/") and "/clients/" not in path else (QUOTAS,)
    return (TOKENS,) if path.startswith(TOKEN_ROOT) else (ACLS,)


def _zk_entity(data: bytes | None) -> dict[str, Facts]:
    values = msgspec.json.decode(check_json(data), type=_EntityJson).config if data else {}
    quotas: Facts = {}
    scram: Facts = {}
    for key, value in values.items():
        if key in _MECHANISMS.values():
            scram |= {f"{key} {name}": part for name, part in _zk_credential(value).items()}
        else:
            quotas[key] = _number(_quota(key, value))
    return {QUOTAS: quotas, SCRAM: scram}


def _quota(key: str, text: str) -> float:
    """What the migration copies: a double. A whole number has to be one for brokers first."""
    if key in LONG_QUOTAS:
        java_long(text)
    elif key in INT_QUOTAS:
        java_int(text)
    return java_double(text)


def _number(value: float) -> float | str:
    """JSON has one word, `null`, for every number that is not finite: these keep their names."""
    return value if math.isfinite(value) else str(value)


def _zk_credential(text: str) -> Facts:
    parts = dict(
        part.split("=", 1) for part in text.rstrip(",").split(",")
    )  # `String.split` drops what is empty at the end
    if parts.keys() != CREDENTIAL_KEYS:
        raise ValueError("it has other keys than Kafka's")
    keys = {name: base64.b64encode(java_base64(parts[name])).decode() for name in CREDENTIAL_KEYS - {"iterations"}}
    return {**keys, "iterations": java_int(parts["iterations"])}


def _zk_acls(data: bytes | None) -> Facts:
    found = msgspec.json.decode(check_json(data), type=_AclsJson).acls if data else []
    return {
        _acl_text(
            _word(each.permission, _PERMISSION_WORDS),
            _word(each.operation, _OPERATION_WORDS),
            java_principal(each.principal),
            each.host,
        ): 1
        for each in found
    }


def _word(text: str, words: dict[str, str]) -> str:
    """`SecurityUtils.operation` and `permissionType`: in any case."""
    if text.upper() == _NO_ENTRY:
        raise ValueError("no entry of an ACL is for any")
    return words.get(text.upper(), _UNKNOWN)


def _zk_token(data: bytes | None) -> Facts:
    found = msgspec.json.decode(check_json(data or b""), type=_TokenJson)
    owner = requester = _principal(found.owner)
    if found.version == TOKEN_VERSION_MAX:
        requester = _principal(msgspec.convert(found.requester, str))
    renewers = [_principal(each) for each in found.renewers]
    return _token_facts(found.token_id, owner, requester, renewers, (found.issued, found.latest, found.expires))


def _principal(text: str) -> str:
    return java_principal(java_unescaped(text))


def _acl_text(permission: str, operation: str, principal: str, host: str) -> str:
    """One field for one ACL, in one way only."""
    return msgspec.json.encode([permission, operation, principal, host]).decode()


def _token_facts(token: str, owner: str, requester: str, renewers: list[str], times: tuple[int, int, int]) -> Facts:
    issued, latest, expires = times
    whoever = sorted(renewers)  # a set, for brokers
    names = {"token id": token, "token owner": owner, "token requester": requester, "token renewers": whoever}
    return {**names, "issued": issued, "latest": latest, "expires": expires}


# --- the log's side ---------------------------------------------------------------------------------------


class SecurityChange(msgspec.Struct, frozen=True):
    """What one record does to one key. part: what of the key it is about: a quota, a mechanism, an ACL's id.

    path:  empty where the record names an ACL by its id alone.
    facts: None when the part goes.
    """

    family: str
    path: str
    part: str
    facts: Facts | None


def change_of(record: Message) -> SecurityChange:
    match record:
        case ClientQuotaRecord():
            path = "/config" + "".join(sorted(map(_entity_part, record.entity), key=_entity_rank))
            return SecurityChange(
                QUOTAS, path, record.key, None if record.remove else {record.key: _number(record.value)}
            )
        case UserScramCredentialRecord():
            name = _MECHANISMS.get(record.mechanism, str(record.mechanism))
            keys = {"salt": record.salt, "stored_key": record.stored_key, "server_key": record.server_key}
            facts: Facts = {f"{name} {each}": base64.b64encode(value).decode() for each, value in keys.items()}
            return SecurityChange(SCRAM, _user(record.name), name, {**facts, f"{name} iterations": record.iterations})
        case RemoveUserScramCredentialRecord():
            return SecurityChange(
                SCRAM, _user(record.name), _MECHANISMS.get(record.mechanism, str(record.mechanism)), None
            )
        case AccessControlEntryRecord():
            root = ACL_ROOTS.get(record.pattern_type, f"/pattern {record.pattern_type}")
            path = f"{root}/{_RESOURCES.get(record.resource_type, record.resource_type)}/{record.resource_name}"
            permission = _PERMISSIONS.get(record.permission_type, str(record.permission_type))
            operation = _OPERATIONS.get(record.operation, str(record.operation))
            told = _acl_text(permission, operation, record.principal, record.host)
            return SecurityChange(ACLS, path, record.id.hex(), {told: 1})
        case RemoveAccessControlEntryRecord():
            return SecurityChange(ACLS, "", record.id.hex(), None)
        case DelegationTokenRecord():
            times = record.issue_timestamp, record.max_timestamp, record.expiration_timestamp
            told_facts = _token_facts(record.token_id, record.owner, record.requester, list(record.renewers), times)
            return SecurityChange(TOKENS, f"{TOKEN_ROOT}/{record.token_id}", "", told_facts)
        case RemoveDelegationTokenRecord():
            return SecurityChange(TOKENS, f"{TOKEN_ROOT}/{record.token_id}", "", None)
        case _:
            raise AssertionError(type(record).__name__)


def _entity_rank(part: str) -> int:
    """A user comes before its client, in whatever order a record names them."""
    return -1 if part.startswith("/users/") else 0


def _entity_part(each: Any) -> str:
    name = "<default>" if each.entity_name is None else _escaped(each.entity_name)
    return f"/{ENTITY_ROOTS.get(each.entity_type, each.entity_type)}/{name}"


def _user(name: str) -> str:
    return f"/config/users/{_escaped(name)}"


def _escaped(name: str) -> str:
    """Java's form encoding with Kafka's corrections; Python leaves one sign alone that Java does not."""
    return quote_plus(name, safe="").replace("+", "%20").replace("~", "%7E")


class SecurityFacts:
    """What changes add up to. Feed it in log order."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, dict[str, Facts]]] = {family: {} for family in SECURITY_FAMILIES}
        self._acls: dict[str, str] = {}

    def put(self, change: SecurityChange) -> str:
        """Returns the key that was changed. Z2K-5002 for an ACL's id that no record gave, or that is taken."""
        path = change.path
        if change.family == ACLS:
            path = self._acl_path(change)
        parts = self._parts[change.family].setdefault(path, {})
        if change.facts is None:
            parts.pop(change.part, None)
        else:
            parts[change.part] = change.facts
        if not parts:
            del self._parts[change.family][path]
        return path

    def _acl_path(self, change: SecurityChange) -> str:
        if (change.facts is None) != (change.part in self._acls):
            reason = "an ACL has this id" if change.facts is not None else "no ACL has this id"
            raise LOG_INCONSISTENT.error(record=f"record of the ACL {change.part}", reason=reason)
        if change.facts is None:
            return self._acls.pop(change.part)
        self._acls[change.part] = change.path
        return change.path

    def path_of(self, change: SecurityChange) -> str:
        """The key that a change is about; "" for the end of an ACL that nobody knows."""
        return change.path or self._acls.get(change.part, "")

    def at(self, family: str, path: str) -> Facts | None:
        parts = self._parts[family].get(path)
        return None if parts is None else self._added_up(family, parts)

    @staticmethod
    def _added_up(family: str, parts: dict[str, Facts]) -> Facts:
        """An ACL's fact is how often the log has it: once, as ZooKeeper can."""
        if family == ACLS:
            return dict(Counter(chain(*parts.values())))
        return {name: value for facts in parts.values() for name, value in facts.items()}

    def facts(self, family: str) -> dict[str, Facts]:
        return {path: self._added_up(family, parts) for path, parts in self._parts[family].items()}

    def rows(self) -> Iterator[tuple[str, str, Facts]]:
        for family in SECURITY_FAMILIES:
            for path, facts in self.facts(family).items():
                yield family, path, facts
