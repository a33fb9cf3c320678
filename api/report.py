"""A migration in figures, for a file or a ticket: phases with their times, audits, and what was not verified.

In:   the store and the time.
Out:  `Report`.
Elsewhere: the single figures (views.py).
"""

from __future__ import annotations

from api.models import AuditView, MigrationView, PhaseStayView, Report
from api.views import audit_view, migration_view
from state_machine.audits.audit_rows import audits
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase
from state_machine.rows.store import Store


def report(store: Store, migration_id: int, now: float) -> Report:
    """Raises Z2K-4004."""
    view = migration_view(store, migration_id, now)
    kept = [audit_view(each) for each in audits(store, migration_id, limit=1000)]
    return Report(
        migration=view,
        window_ms=view.last_window_ms,
        takeover_s=_takeover_s(view),
        phases=_spent(view, store.snapshot(migration_id).migration.created_at),
        audits=kept,
        not_verified=_not_verified(view, kept),
    )


def _spent(view: MigrationView, created_at: float) -> list[PhaseStayView]:
    """Each stay in a phase with its seconds; the present one up to now."""
    entered = [(Phase.CREATED, created_at), *((event.to_phase, event.at) for event in view.events)]
    left = [*(at for _, at in entered[1:]), view.now]
    return [
        PhaseStayView(phase=phase, entered_at=at, seconds=round(max(0.0, end - at), 3))
        for (phase, at), end in zip(entered, left, strict=True)
    ]


def _takeover_s(view: MigrationView) -> float | None:
    """Of the last takeover that reached dual-write."""
    began: float | None = None
    took: float | None = None
    for event in view.events:
        if event.to_phase is Phase.TAKEOVER:
            began = event.at
        elif event.to_phase is Phase.DUAL_WRITE and began is not None and event.from_phase is Phase.AUDIT:
            took = round(event.at - began, 3)
    return took


def _not_verified(view: MigrationView, kept: list[AuditView]) -> list[str]:
    """Never left out, so that nobody takes silence for a passed light."""
    found = [f"{check.name}: {check.message}" for check in view.standing.conditions if check.status != "True"]
    found += [f"audit {each.id} ({each.purpose}) did not pass" for each in kept if each.passed is False]
    audited = any(each.passed and each.purpose in ("demand", "schedule") for each in kept)
    if not PHASES[view.phase].before_takeover and not audited:
        found.append("no audit passed since the takeover; the driver audited its copy before the commit")
    if view.undo.command:
        found.append(f"the undo from here was not tried: {view.undo.command}")
    return found
