"""ACLs are created, deleted and described.

In:   CreateAcls, DeleteAcls, DescribeAcls.
Out:  AccessControlEntry records and removals, all of one request in one batch; an answer per ACL or filter.
Elsewhere: what an ACL allows (authorizer.py), how it stands in ZooKeeper (zk.acl_znodes).
Rules: without an authorizer in the properties file nobody heeds ACLs, and the answer is SECURITY_DISABLED. An ACL that
is there already is created once more without a record. What cannot stand in ZooKeeper is not created: brokers would
not hear of it, and it would be lost on the way back.
Source: Kafka 3.9 `AclApis`, `AclControlManager`, `AclBindingFilter`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.controller.authorizer import CLUSTER_NAME, WILDCARD
from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, TOO_MANY, Decision, ItemRefused, Record, Situation
from migrator.controller.refusals import refuse
from migrator.controller.znode_limits import larger_than_zookeeper_takes
from migrator.model.image import Image
from migrator.model.names import is_znode_name
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    MigrationState,
)
from migrator.model.znode_sizes import acl_bytes, acls_bytes
from migrator.records.builders import acl_record
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import RemoveAccessControlEntryRecord
from migrator.wire.messages.security import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

ANY: Final = 1
MATCH: Final = 2
RESOURCE_TYPES: Final = frozenset(map(int, AclResourceType))
PATTERNS: Final = frozenset(map(int, AclPattern))
OPERATIONS: Final = frozenset(map(int, AclOperation))
PERMISSIONS: Final = frozenset(map(int, AclPermission))
NO_AUTHORIZER: Final = "No Authorizer is configured."


# --- CreateAcls -------------------------------------------------------------------------------------------


def create_acls(situation: Situation, request: CreateAclsRequest) -> Decision:
    if situation.settings.authorizer is None:
        return Decision(refuse(request, Error.SECURITY_DISABLED, NO_AUTHORIZER))
    new: dict[Acl, bytes] = {}
    znodes = _Znodes(situation)
    results = []
    for asked in request.creations:
        try:
            acl = _acl(asked)
            if situation.image.migration is MigrationState.MIGRATION:
                _check_name_of_znode(acl.resource.name)
            if acl not in new and acl.entry not in znodes.entries(acl.resource):
                znodes.add(acl)
                new[acl] = situation.new_id(situation.image.acls)
        except ItemRefused as refused:
            results.append(AclCreationResult(refused.error, str(refused)))
            continue
        results.append(AclCreationResult(Error.NONE, None))
    if len(new) > RECORDS_PER_REQUEST_MAX:
        return Decision(refuse(request, Error.POLICY_VIOLATION, TOO_MANY))
    records = tuple((acl_record(acl_id, acl), 0) for acl, acl_id in new.items())
    return Decision(CreateAclsResponse(results=tuple(results)), records)


class _Znodes:
    """The ACLs of each resource that a request names, and how large its znode becomes. Each is looked at once."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._entries: dict[AclResource, frozenset[AclEntry]] = {}
        self._bytes: dict[AclResource, int] = {}

    def entries(self, resource: AclResource) -> frozenset[AclEntry]:
        if resource not in self._entries:
            self._entries[resource] = self._situation.image.acl_entries(resource)
            self._bytes[resource] = acls_bytes(resource.name, self._entries[resource])
        return self._entries[resource]

    def add(self, acl: Acl) -> None:
        """Raises `ItemRefused` where ZooKeeper could not hold one more."""
        after = self._bytes[acl.resource] + acl_bytes(acl.entry)
        what = f"The ACLs of {AclResourceType(acl.resource.type).name}:{acl.resource.name}"
        words = larger_than_zookeeper_takes(self._situation, what, after, lambda: 0)
        if words is not None:
            raise ItemRefused(Error.POLICY_VIOLATION, words)
        self._bytes[acl.resource] = after


def _acl(asked: AclCreation) -> Acl:
    """The checks in stock's order, then those of what can stand in ZooKeeper."""
    if asked.resource_type == AclResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        raise ItemRefused(Error.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not asked.resource_name:
        raise ItemRefused(Error.INVALID_REQUEST, "Invalid empty resource name")
    for what, number, known in (
        ("resourceType", asked.resource_type, RESOURCE_TYPES),
        ("patternType", asked.resource_pattern_type, PATTERNS),
        ("operation", asked.operation, OPERATIONS),
        ("permissionType", asked.permission_type, PERMISSIONS),
    ):
        if number not in known:
            raise ItemRefused(Error.INVALID_REQUEST, f"Invalid {what} {number}")
    type_, colon, _ = asked.principal.partition(":")
    if not colon or not type_:
        raise ItemRefused(
            Error.INVALID_REQUEST, f"Invalid principal {asked.principal}: it has to be of the form Type:name"
        )
    resource = AclResource(asked.resource_type, asked.resource_pattern_type, asked.resource_name)
    return Acl(resource, AclEntry(asked.principal, asked.host, asked.operation, asked.permission_type))


def _check_name_of_znode(name: str) -> None:
    if not is_znode_name(name):
        raise ItemRefused(
            Error.INVALID_REQUEST, f"While the cluster is in ZooKeeper too, a resource cannot be named {name!r}"
        )


# --- filters ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AclFilter:
    """None and ANY (1) fit everything; the pattern MATCH (2) fits every ACL that is about the name."""

    type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @classmethod
    def of(cls, asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
        """Raises `ItemRefused` for numbers that Kafka does not know."""
        patterns = (ANY, MATCH, *AclPattern)
        if asked.resource_type_filter not in (ANY, *AclResourceType) or asked.pattern_type_filter not in patterns:
            raise ItemRefused(Error.INVALID_REQUEST, "Unknown patternFilter.")
        if asked.operation not in (ANY, *AclOperation) or asked.permission_type not in (ANY, *AclPermission):
            raise ItemRefused(Error.INVALID_REQUEST, "Unknown entryFilter.")
        return cls(
            asked.resource_type_filter,
            asked.resource_name_filter,
            asked.pattern_type_filter,
            asked.principal_filter,
            asked.host_filter,
            asked.operation,
            asked.permission_type,
        )

    def fits(self, acl: Acl) -> bool:
        return self._fits_resource(acl.resource) and self._fits_entry(acl.entry)

    def _fits_resource(self, resource: AclResource) -> bool:
        if self.type not in (ANY, resource.type) or self.pattern not in (ANY, MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != MATCH:
            return self.name == resource.name
        if resource.pattern == AclPattern.LITERAL:
            return resource.name in (self.name, WILDCARD)
        return self.name.startswith(resource.name)

    def _fits_entry(self, entry: AclEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (ANY, entry.operation)
            and self.permission in (ANY, entry.permission)
        )


def _fitting(image: Image, wanted: AclFilter) -> list[tuple[Acl, bytes]]:
    """In the order of what they say, so that two answers to one question are the same."""
    return sorted((acl, acl_id) for acl_id, acl in image.acls.items() if wanted.fits(acl))


# --- DeleteAcls -------------------------------------------------------------------------------------------


def delete_acls(situation: Situation, request: DeleteAclsRequest) -> Decision:
    """An ACL that several filters fit is deleted once and named in the answer to each of them."""
    if situation.settings.authorizer is None:
        return Decision(refuse(request, Error.SECURITY_DISABLED, NO_AUTHORIZER))
    gone: dict[bytes, Record] = {}
    results = []
    for asked in request.filters:
        try:
            found = _fitting(situation.image, AclFilter.of(asked))
        except ItemRefused as refused:
            results.append(DeleteAclsFilterResult(Error.INVALID_REQUEST, str(refused)))
            continue
        gone |= {acl_id: (RemoveAccessControlEntryRecord(id=acl_id), 0) for _, acl_id in found}
        results.append(DeleteAclsFilterResult(Error.NONE, None, tuple(_deleted(acl) for acl, _ in found)))
    if len(gone) > RECORDS_PER_REQUEST_MAX:
        return Decision(refuse(request, Error.POLICY_VIOLATION, TOO_MANY))
    return Decision(DeleteAclsResponse(filter_results=tuple(results)), tuple(gone.values()))


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource.type,
        resource_name=acl.resource.name,
        pattern_type=acl.resource.pattern,
        principal=acl.entry.principal,
        host=acl.entry.host,
        operation=acl.entry.operation,
        permission_type=acl.entry.permission,
    )


# --- DescribeAcls -----------------------------------------------------------------------------------------


def describe_acls(situation: Situation, request: DescribeAclsRequest) -> Decision:
    if situation.settings.authorizer is None:
        return Decision(refuse(request, Error.SECURITY_DISABLED, "No Authorizer is configured on the broker"))
    try:
        found = _fitting(situation.image, AclFilter.of(request))
    except ItemRefused as refused:
        return Decision(refuse(request, Error.INVALID_REQUEST, str(refused)))
    by_resource: dict[AclResource, list[AclDescription]] = {}
    for acl, _ in found:
        entry = acl.entry
        described = AclDescription(entry.principal, entry.host, entry.operation, entry.permission)
        by_resource.setdefault(acl.resource, []).append(described)
    resources = tuple(
        DescribeAclsResource(resource.type, resource.name, resource.pattern, tuple(entries))
        for resource, entries in by_resource.items()
    )
    return Decision(DescribeAclsResponse(error_message=None, resources=resources))
