"""Asking for a step: look it up, ask its gate with what was seen last, write the operation down.

In:   an operation (`to`, `expected_version`, `reason`), perhaps with an Idempotency-Key.
Out:  202 with the addresses of the operation and of the history rows that come of it; with `dry_run` 200 and the
verdict.
Elsewhere: carrying it out (state_machine.work.operations), which asks the gate again.
Errors: 409 with every failed check (a gate), with what is possible instead (the table), or because something moved.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from api.models import Accepted, ActionIn, DryRun
from api.rest.parts import DryRunFlag, Key, Number, Parts, ServiceParts
from api.rest.problems import described
from api.views import edge_view, operation_view
from migrator.findings.service import VERSION_MOVED
from migrator.http.addresses import EVENTS, OPERATION, STEPS
from migrator.model.features.raises import Raise
from state_machine.evidence.of_gates import asked_by, evidence
from state_machine.policy.phases import (
    APPROVED,
    Edge,
    OperationName,
    Phase,
    Trigger,
    by_name,
    look_up,
    require_named,
)
from state_machine.policy.raises import raise_of
from state_machine.rows.store import NewOperation, Snapshot
from state_machine.rows.tables import Operation
from state_machine.rows.transition import GateClosed, ask_gate
from state_machine.work.agreement import agreement, require_read
from state_machine.work.operations import approvable, may_consent, may_send_back

router = APIRouter(tags=["steps"])

ACCEPTED: Final[dict[str, Any]] = {"status_code": 202, "responses": described(400, 403, 404, 409, 422)}
OR_DRY: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": Accepted,
    "responses": {
        200: {"model": DryRun, "description": "dry run: the gate is open"},
        **described(400, 403, 404, 409, 422),
    },
}


@router.post(STEPS["advance"].template, **OR_DRY)
def advance(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """Go one step on. From READY it runs TAKEOVER, COPY and AUDIT as one act."""
    return _step(parts, number, Trigger.ADVANCE, body, response, key, dry_run)


@router.post(STEPS["abort"].template, **OR_DRY)
def abort(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """Give the controllership back before anything was committed. In FINALIZING: give the finalize up, before any
    controller was started without the migration flag, and go back to SOAK.
    """
    return _step(parts, number, Trigger.ABORT, body, response, key, dry_run)


@router.post(STEPS["rollback"].template, **OR_DRY)
def rollback(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """Go back to ZooKeeper: stop our controllers, or roll the cluster back. From ROLLING_BROKERS to SOAK the service
    leads it: our controllers in the place of stock, brokers into ZooKeeper mode, the rollback, original files.
    """
    return _step(parts, number, Trigger.ROLL_BACK, body, response, key, dry_run)


@router.post(STEPS["finalize-version"].template, **OR_DRY)
def finalize_version(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """In COMPLETED: raise metadata.version to the highest level that the software of every broker and voter supports.

    It cannot be undone, and another person approves it before (`approve` with `to: COMPLETED`). With `feature` it
    raises that one alone, which is approved with the same `feature`; `GET .../raises` says what each one changes.
    """
    return _step(parts, number, Trigger.RAISE_VERSION, body, response, key, dry_run)


@router.post(STEPS["pause"].template, **ACCEPTED)
def pause(parts: ServiceParts, number: Number, body: ActionIn, response: Response, key: Key = None) -> Accepted:
    """Begin no step forward until somebody resumes; an asked takeover that has not begun is taken back.

    What runs goes on, and the answer says so; undoing stays possible.
    """
    return _accepted(parts, response, record(parts, number, order(OperationName.PAUSE, body, key)))


@router.post(STEPS["resume"].template, **ACCEPTED)
def resume(parts: ServiceParts, number: Number, body: ActionIn, response: Response, key: Key = None) -> Accepted:
    """Allow steps forward again, and starts of controllers that would not stay."""
    return _accepted(parts, response, record(parts, number, order(OperationName.RESUME, body, key)))


@router.post(STEPS["approve"].template, **ACCEPTED)
def approve(parts: ServiceParts, number: Number, body: ActionIn, response: Response, key: Key = None) -> Accepted:
    """Agree to FINALIZING, or with `to: COMPLETED` to the raise of metadata.version, as plan and evidence are now.

    In FINALIZING itself that is possible until its first controller is stopped, as an approval ends while it waits.
    `digest` says what was read (`GET .../agreement`); another one than the present one is refused. An approval counts
    for 4 hours, and until something in it changes. Neither step can be undone. The approver is another person than the
    one who asks for it, unless `single_operator` is on. With `to: ROLLING_BACK` it is the consent to what a rollback
    from DUAL_WRITE, ROLLING_BROKERS, REPLACING_CONTROLLERS or SOAK loses, as the view lists it.
    """
    operation = order(OperationName.APPROVE, body, key)
    known = parts.store.known_operation(number, operation)
    if known is None:
        snapshot, wanted = parts.store.snapshot(number), raise_of(operation.feature)
        to = operation.to or APPROVED
        if to is Phase.ROLLING_BACK:
            may_consent(snapshot)
        else:
            _require_approvable(snapshot, parts, to, wanted)
        require_read(operation.digest, agreement(snapshot, to, wanted))
    return _accepted(parts, response, record(parts, number, operation))


def _require_approvable(snapshot: Snapshot, parts: Parts, to: Phase, wanted: Raise | None) -> None:
    """Raises `GateClosed`, Z2K-4003."""
    verdict = approvable(snapshot.phase, evidence(snapshot, parts.clock(), wanted), to)
    if not verdict.holds:
        raise GateClosed("approve", verdict)


@router.post(STEPS["back"].template, **ACCEPTED)
def back(parts: ServiceParts, number: Number, body: ActionIn, response: Response, key: Key = None) -> Accepted:
    """Return the failed broker of ROLLING_BROKERS, alone, to its previous file: stopped, written, started in ZooKeeper
    mode. Nothing is removed. The rolling restart stands until somebody resumes. In ROLLING_BACK: a failed controller
    that ours could not replace is stock again.
    """
    operation = order(OperationName.BACK, body, key)
    if parts.store.known_operation(number, operation) is None:
        require_way_back(parts, number)
    return _accepted(parts, response, record(parts, number, operation))


def require_way_back(parts: Parts, number: int) -> None:
    """Of the failed node. Raises Z2K-4216."""
    snapshot = parts.store.snapshot(number)
    may_send_back(snapshot, evidence(snapshot, parts.clock()))


def order(name: str, body: ActionIn, key: str | None) -> NewOperation:
    return NewOperation(
        name=name,
        who=body.who,
        reason=body.reason,
        to=body.to,
        expected_version=body.expected_version,
        key=key,
        digest=body.digest if name == OperationName.APPROVE else None,
        feature=body.feature if name in (OperationName.APPROVE, OperationName.RAISE_VERSION) else None,
    )


def record(parts: Parts, number: int, operation: NewOperation) -> Operation:
    """Write an operation down and wake the loop."""
    row, new = parts.store.record_operation(number, operation, at=parts.clock())
    if new:
        parts.wake()
    return row


def ask(parts: Parts, number: int, operation: NewOperation, *, dry_run: bool = False) -> tuple[Snapshot, Edge]:
    """The edge of an operation, its gate open by what was seen last. Raises what refuses it."""
    snapshot = parts.store.snapshot(number)
    if operation.expected_version not in (None, snapshot.migration.version):
        raise VERSION_MOVED.error(found=snapshot.migration.version, expected=operation.expected_version)
    by_name(snapshot.phase, Trigger(operation.name), operation.to)
    edge = look_up(snapshot.phase, Trigger(operation.name), operation.to, snapshot.engine)
    if not dry_run:
        require_named(snapshot.phase, edge, operation.to)
    known = evidence(snapshot, parts.clock(), raise_of(operation.feature))
    ask_gate(edge, Trigger(operation.name), asked_by(known, operation.who))
    return snapshot, edge


def _step(
    parts: Parts, number: int, trigger: Trigger, body: ActionIn, response: Response, key: str | None, dry_run: bool
) -> Accepted | Response:
    operation = order(trigger, body, key)
    known = parts.store.known_operation(number, operation)
    if known is not None and not dry_run:
        return _accepted(parts, response, known)
    snapshot, edge = ask(parts, number, operation, dry_run=dry_run)
    if dry_run:
        observed = evidence(snapshot, parts.clock(), raise_of(operation.feature))
        dry = DryRun(edge=edge_view(snapshot, trigger, edge, observed), version=snapshot.migration.version)
        return JSONResponse(dry.model_dump(mode="json"))
    return _accepted(parts, response, record(parts, number, operation))


def _accepted(parts: Parts, response: Response, operation: Operation) -> Accepted:
    number = operation.migration_id
    link = OPERATION(number=number, operation=operation.id)
    response.headers["Location"] = link
    return Accepted(operation=operation_view(operation), link=link, event=EVENTS(number=number, trigger=operation.id))
