"""Audits of dual-write by a schedule: when the next one is due, and what the last ones say together.

In:   the rows of finished audits; the plan, one row per migration, so that a restart of the service goes on.
Out:  a row that asks for the next audit; `ScheduledAudits` for the gates; the findings behind it.
Elsewhere: running an audit (inspections.py), gates (gates.py), which runs are kept (audit_pruning.py).
Rules: the next audit is counted on a clock that never goes back; how old the last pass is, on the wall clock of the
rows, where a clock that went back means "as old as can be". Such an age only brings the next audit forward.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from migrator.findings.finding import Occurrence
from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED
from state_machine.audits import audit_rows
from state_machine.policy.audit_observations import DIVERGED, INCOMPLETE, PASSED, AuditObservation, ScheduledAudits
from state_machine.rows.audit_queries import SCHEDULE
from state_machine.rows.store import AuditPlan, Snapshot, Store
from state_machine.rows.tables import AuditRun

JITTER: Final = 0.1
"""Part of the interval; migrations that entered dual-write together are not audited together for ever."""
FIRST_WITHIN_S: Final = 30.0
"""The first audit begins soon after dual-write is entered."""
CONFIRM_S: Final = 60.0
"""A first result that is no pass is looked at again after this time; the second one then keeps to the interval."""
LATE_INTERVALS: Final = 2
"""So many intervals without a pass are a finding."""


def scheduled_audits(snapshot: Snapshot, now: float) -> ScheduledAudits:
    """What the rows say of dual-write's audits."""
    plan = snapshot.audit_plan
    every_s = 0.0 if plan is None else plan.every_s
    runs = [_seen(run, now) for run in snapshot.dual_write_audits]
    compared = [run for run in runs if run.result in (PASSED, DIVERGED)]
    twice = len(compared) >= 2 and all(run.result == DIVERGED for run in compared[:2])
    since = snapshot.migration.since if snapshot.audit_passed_at is None else snapshot.audit_passed_at
    age = now - since if now >= since else math.inf
    return ScheduledAudits(
        every_s=every_s,
        next_s=None if plan is None or plan.next_at is None else plan.next_at - now,
        last=runs[0] if runs else None,
        diverged=tuple(run.id for run in compared[:2]) if twice else (),
        passed_s=None if snapshot.audit_passed_at is None else age,
        overdue_since=since if every_s and age > LATE_INTERVALS * every_s else None,
    )


def _seen(run: AuditRun, now: float) -> AuditObservation:
    at = run.asked_at if run.finished_at is None else run.finished_at
    age = now - at if now >= at else math.inf
    return AuditObservation(run.id, audit_rows.result_of(run), audit_rows.count(run, "different"), age, said(run))


def said(run: AuditRun) -> str:
    """One finished audit in one line."""
    if run.state == "failed":
        return f"audit {run.id} has no result: {run.problem}"
    compared, different, not_read = (audit_rows.count(run, key) for key in ("compared", "different", "not_read"))
    said = f"audit {run.id} by {run.engine}: {compared} keys compared, {different} different, {not_read} not read"
    return f"{said}: {run.problem}" if run.problem else said


def schedule_findings(evidence: ScheduledAudits | None) -> tuple[Occurrence, ...]:
    """What closes the gates forward, named."""
    if evidence is None or not evidence.every_s:
        return ()
    found = []
    if evidence.diverged:
        last, before = evidence.diverged
        different = 0 if evidence.last is None else evidence.last.different
        found.append(AUDITS_DIVERGED.found(first=before, second=last, different=different))
    if evidence.overdue_since is not None:
        since = datetime.fromtimestamp(evidence.overdue_since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found.append(AUDIT_OVERDUE.found(since=since, every=f"{evidence.every_s:g}"))
    return tuple(found)


class AuditSchedule:
    """Asks for an audit when one is due. steady: seconds that only grow.

    _due: when the next one begins, by migration; _after: the finished run that this was counted from.
    """

    def __init__(
        self,
        store: Store,
        every_s: float,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._store = store
        self._every_s = every_s
        self._clock = clock
        self._steady = steady
        self._chance = chance or random.Random()
        self._due: dict[int, tuple[float, int | None]] = {}
        self._accepted: dict[int, float] = {}

    async def tend(self, snapshot: Snapshot) -> None:
        """Request an audit when one is due. It is called in every round of dual-write."""
        if not self._every_s:
            await self._plan(snapshot, None)
            return
        last = snapshot.dual_write_audits[0] if snapshot.dual_write_audits else None
        due = self._due_at(snapshot, last)
        await self._plan(snapshot, self._clock() + due - self._steady())
        if self._steady() < due or await self._store.away(audit_rows.unfinished, self._store, snapshot.id):
            return
        self._accepted[snapshot.id] = self._steady()
        self._due[snapshot.id] = (self._steady() + self._jittered(self._every_s), None if last is None else last.id)
        await self._store.away(
            audit_rows.ask_audit,
            self._store,
            snapshot.id,
            purpose=SCHEDULE,
            engine=snapshot.inventory.audit_engine,
            who="service",
            at=self._clock(),
        )

    def forget(self, migration_id: int) -> None:
        """It is not in dual-write, or is gone."""
        self._due.pop(migration_id, None)
        self._accepted.pop(migration_id, None)

    def _due_at(self, snapshot: Snapshot, last: AuditRun | None) -> float:
        known = self._due.get(snapshot.id)
        number = None if last is None else last.id
        if known is None or known[1] != number:
            known = (self._steady() + self._wait(snapshot, last), number)
        evidence = scheduled_audits(snapshot, self._clock())
        if evidence.every_s and evidence.overdue_since is not None:
            earliest = self._accepted.get(snapshot.id, -math.inf) + min(CONFIRM_S, self._every_s)
            known = (min(known[0], max(self._steady(), earliest)), number)
        self._due[snapshot.id] = known
        return known[0]

    def _wait(self, snapshot: Snapshot, last: AuditRun | None) -> float:
        """Seconds from now, with what is gone since the last run taken off; more than an interval never."""
        if last is None:
            return self._chance.random() * min(FIRST_WITHIN_S, self._every_s / 2)
        runs = [audit_rows.result_of(run) for run in snapshot.dual_write_audits[:2]]
        again = runs[0] == INCOMPLETE or (runs[0] != PASSED and (len(runs) == 1 or runs[1] == PASSED))
        pause = min(CONFIRM_S, self._every_s) if again else self._every_s
        gone = self._clock() - (last.finished_at or last.asked_at)
        return self._jittered(pause) - min(max(gone, 0.0), pause)

    def _jittered(self, pause: float) -> float:
        return pause * (1 + self._chance.uniform(-JITTER, JITTER))

    async def _plan(self, snapshot: Snapshot, next_at: float | None) -> None:
        """Write the plan down when it moved by a second or more; what is due already is due now."""
        before = snapshot.audit_plan
        if before is not None and before.every_s == self._every_s:
            if before.next_at is None or next_at is None:
                if before.next_at is next_at:
                    return
            elif abs(before.next_at - next_at) < 1.0:
                return
        plan = AuditPlan(every_s=self._every_s, next_at=next_at)
        await self._store.away(self._store.record_audit_plan, snapshot.id, plan, at=self._clock())
