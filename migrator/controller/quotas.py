"""Quotas of users, clients and addresses are changed.

In:   AlterClientQuotas.
Out:  ClientQuota records of what differs; each entity is all or nothing, entities are independent.
Elsewhere: who is throttled (brokers), how it stands in ZooKeeper (zk.entity_znodes).
Source: Kafka 3.9 `ClientQuotaControlManager`, `QuotaConfigs`. We differ three times. An entity that is named twice is
left alone; stock carries out the first one and answers an error. An ip is an address here; stock asks its resolver
about anything else, and every broker asks its own again. What ZooKeeper cannot hold is refused while the cluster is in
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_address
from math import isfinite
from typing import Final

from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, TOO_MANY, Decision, Record, Situation
from migrator.controller.refusals import refuse
from migrator.model.image import NO_QUOTAS, Image
from migrator.model.names import RELATIVE
from migrator.model.values import QUOTA_TYPES, MigrationState, QuotaEntity
from migrator.records.builders import quota_record
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    AlterClientQuotasEntry,
    AlterClientQuotasEntryResult,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaOp,
)
from migrator.wire.messages.shared import ClientQuotaEntity

LONG_MAX: Final = float(2**63 - 1)
INT_MAX: Final = float(2**31 - 1)
FRACTION_MAX: Final = 1e-6

Limit = tuple[str, float] | None
"""Type and largest value of a key that takes whole numbers; None for one that takes any."""

OF_USERS_AND_CLIENTS: Final[dict[str, Limit]] = {
    "producer_byte_rate": ("a LONG", LONG_MAX),
    "consumer_byte_rate": ("a LONG", LONG_MAX),
    "request_percentage": None,
    "controller_mutation_rate": None,
}
OF_IPS: Final[dict[str, Limit]] = {"connection_creation_rate": ("an INT", INT_MAX)}


class _Refused(Exception):
    """Why the quotas of one entity are left alone; always INVALID_REQUEST."""


def alter_client_quotas(situation: Situation, request: AlterClientQuotasRequest) -> Decision:
    counted = Counter(_parts(entry.entity) for entry in request.entries)
    records: list[Record] = []
    results = []
    for entry in request.entries:
        try:
            if counted[_parts(entry.entity)] > 1:
                raise _Refused(f"Ignoring duplicate entity {_named(entry.entity)}")
            records += _alter(situation.image, entry)
        except _Refused as refused:
            results.append(AlterClientQuotasEntryResult(Error.INVALID_REQUEST, str(refused), entry.entity))
        else:
            results.append(AlterClientQuotasEntryResult(Error.NONE, None, entry.entity))
    if len(records) > RECORDS_PER_REQUEST_MAX:
        return Decision(refuse(request, Error.POLICY_VIOLATION, TOO_MANY))
    if request.validate_only:
        records = []
    return Decision(AlterClientQuotasResponse(entries=tuple(results)), tuple(records))


def _parts(entity: Sequence[ClientQuotaEntity]) -> QuotaEntity:
    return QuotaEntity.of((each.entity_type, each.entity_name) for each in entity)


def _named(entity: Sequence[ClientQuotaEntity]) -> str:
    return ", ".join(f"{each.entity_type} {each.entity_name or '<default>'}" for each in entity)


def _alter(image: Image, entry: AlterClientQuotasEntry) -> list[Record]:
    allowed = _keys_of(entry.entity)
    counted = Counter(op.key for op in entry.ops)
    for op in entry.ops:
        if counted[op.key] > 1:
            raise _Refused(f"Duplicate quota key {op.key} not updating quota for this entity {_named(entry.entity)}")
    entity = _parts(entry.entity)
    now = image.quotas.get(entity, NO_QUOTAS)
    records: list[Record] = []
    for op in entry.ops:
        if op.remove:
            if op.key in now:
                records.append((quota_record(entity, op.key, None), 0))
            continue
        _check_value(allowed, op)
        if image.migration is MigrationState.MIGRATION:
            _check_znode(entity, allowed, op)
        if now.get(op.key) != op.value:
            records.append((quota_record(entity, op.key, op.value), 0))
    return records


def _keys_of(entity: Sequence[ClientQuotaEntity]) -> dict[str, Limit]:
    """The keys that this kind of entity can have."""
    if not entity:
        raise _Refused("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for each in entity:
        if each.entity_type in names:
            raise _Refused(f"Invalid client quota entity, duplicate entity entry {each.entity_type}")
        if each.entity_type not in QUOTA_TYPES:
            raise _Refused(f"Unhandled client quota entity type: {each.entity_type}")
        if each.entity_name == "":
            raise _Refused(f"Empty {each.entity_type} not supported")
        names[each.entity_type] = each.entity_name
    if "ip" not in names:
        return OF_USERS_AND_CLIENTS
    if len(names) > 1:
        raise _Refused("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    address = names["ip"]
    if address is not None and not _is_address(address):
        raise _Refused(f"{address} is not a valid IP.")
    return OF_IPS


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_znode(entity: QuotaEntity, allowed: dict[str, Limit], op: ClientQuotaOp) -> None:
    """ZooKeeper has to say exactly the same: it takes no relative names, and whole numbers only as such."""
    relative = [(type_, name) for type_, name in entity.parts if name in RELATIVE]
    if relative:
        type_, name = relative[0]
        raise _Refused(f"While the cluster is in ZooKeeper too, a {type_} cannot be named {name!r}")
    if not isfinite(op.value):
        raise _Refused(f"While the cluster is in ZooKeeper too, {op.key} has to be a finite number")
    if allowed[op.key] is not None and op.value % 1.0:
        raise _Refused(f"{op.key} cannot be a fractional value.")


def _check_value(allowed: dict[str, Limit], op: ClientQuotaOp) -> None:
    if op.key not in allowed:
        raise _Refused(f"Invalid configuration key {op.key}")
    if not op.value > 0.0:  # what is no number at all is not greater either
        raise _Refused(f"Quota {op.key} must be greater than 0")
    limit = allowed[op.key]
    if limit is None:
        return
    type_, largest = limit
    if op.value > largest:
        raise _Refused(f"Proposed value for {op.key} is too large for {type_}.")
    if op.value % 1.0 > FRACTION_MAX:
        raise _Refused(f"{op.key} cannot be a fractional value.")
