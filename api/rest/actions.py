"""Asking for a step: look it up, ask its gate with what was seen last, write the wish down.

In:   a wish (`to`, `expected_version`, `reason`), perhaps with an Idempotency-Key.
Out:  202 with the addresses of the wish and of the history rows that come of it; with `dry_run` 200 and the verdict.
Elsewhere: carrying it out (state_machine.wishes), which asks the gate again.
Errors: 409 with every failed check (a gate), with what is possible instead (the table), or because something moved.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from api.models import Accepted, ActionIn, DryRun
from api.rest.parts import DryRunFlag, Key, Number, Parts, ServiceParts
from api.rest.problems import described
from api.views import edge_view, wish_view
from migrator.findings.service import VERSION_MOVED
from state_machine.evidence import evidence
from state_machine.policy.phases import HOLD, RESUME, Edge, Signal, look_up
from state_machine.store import Order, Snapshot
from state_machine.tables import Wish
from state_machine.transition import ask_gate

router = APIRouter(prefix="/migrations/{number}", tags=["steps"])

ACCEPTED: Final[dict[str, Any]] = {"status_code": 202, "responses": described(400, 403, 404, 409, 422)}
OR_DRY: Final[dict[str, Any]] = {
    "status_code": 202,
    "response_model": Accepted,
    "responses": {
        200: {"model": DryRun, "description": "dry run: the gate is open"},
        **described(400, 403, 404, 409, 422),
    },
}


@router.post("/advance", **OR_DRY)
def advance(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """Go one step on. From READY it runs TAKEOVER, COPY and AUDIT as one act."""
    return _step(parts, number, Signal.ADVANCE, body, response, key, dry_run)


@router.post("/abort", **OR_DRY)
def abort(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """Give the controllership back before anything was committed."""
    return _step(parts, number, Signal.ABORT, body, response, key, dry_run)


@router.post("/rollback", **OR_DRY)
def rollback(
    parts: ServiceParts,
    number: Number,
    body: ActionIn,
    response: Response,
    key: Key = None,
    dry_run: DryRunFlag = False,
) -> Any:
    """Go back to ZooKeeper: stop our controllers, or hand the cluster back."""
    return _step(parts, number, Signal.ROLL_BACK, body, response, key, dry_run)


@router.post("/hold", **ACCEPTED)
def hold(parts: ServiceParts, number: Number, body: ActionIn, response: Response, key: Key = None) -> Accepted:
    """Begin no step forward until somebody resumes; an asked takeover that has not begun is taken back.

    What runs goes on, and the answer says so; undoing stays possible.
    """
    return _accepted(parts, response, record(parts, number, order(HOLD, body, key)))


@router.post("/resume", **ACCEPTED)
def resume(parts: ServiceParts, number: Number, body: ActionIn, response: Response, key: Key = None) -> Accepted:
    """Allow steps forward again, and starts of controllers that would not stay."""
    return _accepted(parts, response, record(parts, number, order(RESUME, body, key)))


def order(name: str, body: ActionIn, key: str | None) -> Order:
    return Order(
        name=name, who=body.who, reason=body.reason, to=body.to, expected_version=body.expected_version, key=key
    )


def record(parts: Parts, number: int, wish: Order) -> Wish:
    """Write a wish down and wake the loop."""
    row, new = parts.store.record_wish(number, wish, at=parts.clock())
    if new:
        parts.wake()
    return row


def ask(parts: Parts, number: int, wish: Order) -> tuple[Snapshot, Edge]:
    """The edge of a wish, its gate open by what was seen last. Raises what refuses it."""
    snapshot = parts.store.snapshot(number)
    if wish.expected_version not in (None, snapshot.migration.version):
        raise VERSION_MOVED.error(found=snapshot.migration.version, expected=wish.expected_version)
    edge = look_up(snapshot.phase, Signal(wish.name), wish.to)
    ask_gate(edge, Signal(wish.name), evidence(snapshot, parts.clock()))
    return snapshot, edge


def _step(
    parts: Parts, number: int, signal: Signal, body: ActionIn, response: Response, key: str | None, dry_run: bool
) -> Accepted | Response:
    wish = order(signal, body, key)
    known = parts.store.known_wish(number, wish)
    if known is not None and not dry_run:
        return _accepted(parts, response, known)
    snapshot, edge = ask(parts, number, wish)
    if dry_run:
        seen = evidence(snapshot, parts.clock())
        dry = DryRun(edge=edge_view(snapshot, signal, edge, seen), version=snapshot.migration.version)
        return JSONResponse(dry.model_dump(mode="json"))
    return _accepted(parts, response, record(parts, number, wish))


def _accepted(parts: Parts, response: Response, wish: Wish) -> Accepted:
    base = f"/api/v1/migrations/{wish.migration_id}"
    link = f"{base}/signals/{wish.id}"
    response.headers["Location"] = link
    return Accepted(wish=wish_view(wish), link=link, event=f"{base}/events?signal={wish.id}")
