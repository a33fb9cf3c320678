"""Migrations as they are: create one, look at it, and at each of its parts.

In:   an inventory; numbers of migrations.
Out:  models (api.models).
Elsewhere: asking for a step (actions.py), audits (audits.py), the report for a change board (api/change).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from api.models import (
    RAISE,
    SHOWN,
    AgreementView,
    BrokerView,
    ChangeIn,
    ControllerView,
    EdgeView,
    EventView,
    FindingView,
    InventoryIn,
    MigrationLine,
    MigrationView,
    OperationView,
    Page,
    RaiseView,
    Report,
)
from api.nodes import broker_views, controller_views
from api.raises import raise_views
from api.report import report
from api.rest.parts import Key, Number, Parts, ServiceParts
from api.rest.problems import described
from api.views import (
    event_view,
    finding_view,
    gates_view,
    migration_line,
    migration_view,
    operation_view,
)
from migrator.findings.finding import FindingError
from migrator.findings.service import ADDRESS_NOT_DECLARED
from migrator.http.addresses import (
    AGREEMENT,
    BROKERS,
    EVENTS,
    FINDINGS,
    GATES,
    MIGRATION,
    MIGRATIONS,
    OPERATION,
    QUORUM,
    RAISES,
    REPORT,
)
from state_machine.clusters.inventory import ClusterInventory
from state_machine.evidence.of_gates import evidence
from state_machine.policy.fleet_evidence import UNNAMED
from state_machine.policy.phases import APPROVED, Phase, Trigger, look_up
from state_machine.policy.raises import raise_of, raises_of
from state_machine.rows import removal
from state_machine.rows.observations import findings
from state_machine.work.agreement import agreement
from state_machine.work.operations import approvable, may_consent

Who = Annotated[
    str,
    Query(min_length=1, max_length=100, pattern=SHOWN, description="who requests it; kept in the history"),
]
router = APIRouter(tags=["migrations"])


@router.post(MIGRATIONS.template, status_code=201, responses=described(400, 403, 409, 422))
def create_migration(
    parts: ServiceParts, inventory: InventoryIn, response: Response, key: Key = None, who: Who = UNNAMED
) -> MigrationView:
    """Create a migration. Nothing is looked at or started by this; somebody has to listen on ZooKeeper's address."""
    document = inventory.model_dump()
    document["audit_engine"] = inventory.audit_engine or parts.settings.audit_engine
    wanted = msgspec.convert(document, ClusterInventory)
    refuse_outside(parts, wanted)
    parts.reach(wanted.zookeeper)
    row, _ = parts.store.create(wanted, who=who, at=parts.clock(), key=key)
    parts.wake()
    response.headers["Location"] = MIGRATION(number=row.id)
    return migration_view(parts.store, row.id, parts.clock())


def refuse_outside(parts: Parts, inventory: ClusterInventory) -> None:
    """Raises Z2K-4112 or Z2K-4118."""
    for outside in parts.settings.bounds.outside(inventory).values():
        raise FindingError(outside)
    undeclared = parts.settings.bounds.undeclared(inventory)
    if undeclared is not None:
        raise ADDRESS_NOT_DECLARED.error(node=undeclared[0], reason=undeclared[1])


@router.get(MIGRATIONS.template, responses=described(422))
def list_migrations(parts: ServiceParts) -> Page[MigrationLine]:
    """Every migration, oldest first."""
    return Page(items=[migration_line(row, parts.troubles.get(row.id)) for row in parts.store.migrations()])


@router.patch(MIGRATION.template, responses=described(400, 403, 404, 409, 422))
def change_migration(parts: ServiceParts, number: Number, body: ChangeIn) -> MigrationView:
    """Give a migration another inventory, as long as it started nothing."""
    given = body.model_dump(exclude_none=True)
    fields = {key: value for key, value in given.items() if key not in ("expected_version", "reason", "who")}

    if body.zookeeper is not None:
        parts.reach(body.zookeeper)

    def work() -> None:
        if body.controllers is not None:
            before = parts.store.snapshot(number).inventory
            refuse_outside(parts, msgspec.convert({**msgspec.to_builtins(before), **fields}, ClusterInventory))
        removal.change(
            parts.store,
            number,
            fields,
            who=body.who,
            reason=body.reason,
            at=parts.clock(),
            expected_version=body.expected_version,
        )

    parts.alone_with(number, work)
    parts.wake()
    return migration_view(parts.store, number, parts.clock())


@router.delete(MIGRATION.template, status_code=204, responses=described(403, 404, 409, 422))
def remove_migration(parts: ServiceParts, number: Number, who: Who = UNNAMED) -> None:
    """Remove a migration that holds no claim and runs no controller. Its rows stay, its name is free again."""
    parts.alone_with(number, lambda: removal.remove(parts.store, number, who=who, at=parts.clock()))
    parts.wake()


@router.get(MIGRATION.template, responses=described(404, 422))
def get_migration(parts: ServiceParts, number: Number) -> MigrationView:
    """Everything about one migration, as its page shows it."""
    return migration_view(parts.store, number, parts.clock())


@router.get(GATES.template, responses=described(404, 422))
def get_gates(parts: ServiceParts, number: Number) -> Page[EdgeView]:
    """Every step from here with each of its checks. No side effect."""
    snapshot = parts.store.snapshot(number)
    return Page(items=gates_view(snapshot, evidence(snapshot, parts.clock())))


@router.get(AGREEMENT.template, responses=described(404, 409, 422))
def get_agreement(
    parts: ServiceParts,
    number: Number,
    to: Annotated[Phase, Query(description="FINALIZING, COMPLETED or ROLLING_BACK")] = APPROVED,
    feature: Annotated[str | None, Query(pattern=RAISE, description="with COMPLETED: such as group.version=1")] = None,
) -> AgreementView:
    """What `approve` would agree to now, with its digest. No side effect."""
    snapshot, wanted = parts.store.snapshot(number), raise_of(feature)
    if to is Phase.ROLLING_BACK:
        may_consent(snapshot)
    else:
        approvable(snapshot.phase, evidence(snapshot, parts.clock(), wanted), to)
    found = agreement(snapshot, to, wanted)
    return AgreementView(to=found.to, digest=found.digest, says=list(found.says), document=dict(found.document))


@router.get(RAISES.template, responses=described(400, 404, 409, 422))
def get_raises(
    parts: ServiceParts,
    number: Number,
    release: Annotated[str, Query(max_length=20, description="of Kafka, such as 4.4")],
) -> Page[RaiseView]:
    """List in COMPLETED what a release would raise at once, each feature as a decision of its own. No side effect."""
    snapshot = parts.store.snapshot(number)
    look_up(snapshot.phase, Trigger.RAISE_VERSION)
    return Page(items=raise_views(snapshot, raises_of(release), parts.clock()))


@router.get(BROKERS.template, responses=described(404, 422))
def get_brokers(parts: ServiceParts, number: Number) -> Page[BrokerView]:
    """Readiness of every broker, as the active controller saw it last."""
    return Page(items=broker_views(parts.store, parts.store.snapshot(number), parts.clock()))


@router.get(QUORUM.template, responses=described(404, 422))
def get_quorum(parts: ServiceParts, number: Number) -> Page[ControllerView]:
    """Our controllers, as they last answered."""
    return Page(items=controller_views(parts.store.snapshot(number), parts.clock()))


@router.get(FINDINGS.template, responses=described(404, 422))
def get_findings(
    parts: ServiceParts,
    number: Number,
    only_open: Annotated[bool, Query(description="leave out those that are not seen any more")] = False,
    code: Annotated[str | None, Query(max_length=20, description="only those of this code")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="how many at most")] = 200,
) -> Page[FindingView]:
    """Findings, open ones first."""
    rows = findings(parts.store, number, only_open=only_open, code=code, limit=limit)
    return Page(items=[finding_view(row) for row in rows])


@router.get(EVENTS.template, responses=described(404, 422))
def get_events(
    parts: ServiceParts,
    number: Number,
    trigger: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="only those that this operation led to")
    ] = None,
) -> Page[EventView]:
    """The history: one row per transition, oldest first."""
    return Page(items=[event_view(row) for row in parts.store.events(number, operation_id=trigger)])


@router.get(OPERATION.template, responses=described(404, 422))
def get_signal(parts: ServiceParts, number: Number, operation: Number) -> OperationView:
    """One operation, and what became of it."""
    return operation_view(parts.store.operation(number, operation))


@router.get(REPORT.template, responses=described(404, 422))
def get_report(parts: ServiceParts, number: Number) -> Report:
    """Phases with their times, the window, audits, and what was not verified."""
    return report(parts.store, number, parts.clock())
