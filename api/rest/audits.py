"""Audits: ask for one, look at it, read its differences page by page.

In:   which migration, which engine; numbers of audits.
Out:  models (api.models).
Elsewhere: running them (state_machine.audits.inspections).
"""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.models import AuditIn, AuditView, DifferenceView, Page
from api.rest.parts import Cursor, Key, Limit, Number, ServiceParts
from api.rest.problems import described
from api.views import audit_view
from migrator.http.addresses import AUDIT, AUDITS, DIFFERENCES
from state_machine.audits import audit_rows

router = APIRouter(tags=["audits"])


@router.post(AUDITS.template, status_code=202, responses=described(400, 403, 404, 409, 422))
def ask_audit(parts: ServiceParts, number: Number, body: AuditIn, response: Response, key: Key = None) -> AuditView:
    """Compare ZooKeeper with the active controller's log. Ask the audit's address for the result."""
    engine = body.engine or parts.store.snapshot(number).inventory.audit_engine
    run, new = audit_rows.ask_audit(
        parts.store, number, purpose="demand", engine=engine, who=body.who, at=parts.clock(), key=key
    )
    if new:
        parts.wake()
    response.headers["Location"] = AUDIT(number=run.id)
    return audit_view(run)


@router.get(AUDITS.template, responses=described(404, 422))
def list_audits(parts: ServiceParts, number: Number, limit: Limit = 50) -> Page[AuditView]:
    """Newest first."""
    return Page(items=[audit_view(run) for run in audit_rows.audits(parts.store, number, limit=limit)])


@router.get(AUDIT.template, responses=described(404, 422))
def get_audit(parts: ServiceParts, number: Number) -> AuditView:
    """One audit with its counts per family."""
    return audit_view(audit_rows.audit(parts.store, number))


@router.get(DIFFERENCES.template, responses=described(404, 422))
def get_differences(
    parts: ServiceParts, number: Number, cursor: Cursor = 0, limit: Limit = 100
) -> Page[DifferenceView]:
    """The differences of an audit, in the order of its report. Those of ZooKeeper with a rule are expected."""
    found = audit_rows.differences(parts.store, number, cursor=cursor, limit=limit + 1)
    items = [DifferenceView.model_validate(each) for each in found[:limit]]
    rest = found[limit:]
    more = DIFFERENCES(number=number, cursor=rest[0].number, limit=limit) if rest else None
    return Page(items=items, next=more)
