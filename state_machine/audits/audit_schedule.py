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
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

from migrator.audit.compare import BrokersSide
from migrator.findings.finding import Occurrence
from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED, BROKERS_DIVERGED, BROKERS_NOT_COMPARED
from migrator.fleet.roll import UNTOUCHED, RollStep
from state_machine.audits import audit_rows
from state_machine.policy.audit_observations import (
    DIVERGED,
    INCOMPLETE,
    LATE_INTERVALS,
    LEFT_OUT,
    PASSED,
    Accepted,
    AuditObservation,
    BrokerSaid,
    BrokersAudit,
    ScheduledAudits,
)
from state_machine.rows.audit_queries import SCHEDULE, BrokersPassed
from state_machine.rows.store import AuditPlan, Snapshot, Store, reached
from state_machine.rows.tables import AuditRun

JITTER: Final = 0.1
"""Part of the interval; migrations that entered dual-write together are not audited together for ever."""
FIRST_WITHIN_S: Final = 30.0
"""The first audit begins soon after dual-write is entered."""
CONFIRM_S: Final = 60.0
"""A first result that is no pass is looked at again after this time; the second one then keeps to the interval."""


def scheduled_audits(snapshot: Snapshot, now: float) -> ScheduledAudits:
    """What the rows say of dual-write's audits."""
    plan = snapshot.audit_plan
    every_s = 0.0 if plan is None else plan.every_s
    runs = [_seen(run, now) for run in snapshot.dual_write_audits]
    compared = [run for run in runs if run.result in (PASSED, DIVERGED)]
    twice = len(compared) >= 2 and all(run.result == DIVERGED for run in compared[:2])
    since = snapshot.migration.since if snapshot.audit_passed_at is None else snapshot.audit_passed_at
    age = _age(now, since)
    return ScheduledAudits(
        every_s=every_s,
        next_s=None if plan is None or plan.next_at is None else plan.next_at - now,
        last=runs[0] if runs else None,
        diverged=tuple(run.id for run in compared[:2]) if twice else (),
        passed_s=None if snapshot.audit_passed_at is None else age,
        overdue_since=since if every_s and age > LATE_INTERVALS * every_s else None,
        brokers=tuple(_of_brokers(run, side, now) for run, side in _asked_brokers(snapshot)),
        brokers_passed=_passed(snapshot.brokers_passed, now),
        restarted_s=None if (restarted := _restarted_at(snapshot)) is None else _age(now, restarted),
    )


def _age(now: float, then: float) -> float:
    return now - then if now >= then else math.inf


def _asked_brokers(snapshot: Snapshot) -> Iterator[tuple[AuditRun, BrokersSide]]:
    for run in snapshot.dual_write_audits:
        side = audit_rows.brokers_of(run)
        if side is not None:
            yield run, side


def _restarted_at(snapshot: Snapshot) -> float | None:
    """When the journal last moved at a node that this service stopped or started."""
    return max((each.changed_at for each in snapshot.road if reached(each) not in UNTOUCHED), default=None)


def _is_rolling(snapshot: Snapshot) -> bool:
    """A node is being restarted, failed, or waits for its turn behind others."""
    begun = {each.roll for each in snapshot.road if reached(each) not in UNTOUCHED}
    return any(each.step != RollStep.WHOLE for each in snapshot.road if each.roll in begun)


def _of_brokers(run: AuditRun, side: BrokersSide, now: float) -> BrokersAudit:
    said = [BrokerSaid(each.broker, each.outcome) for each in side.asked]
    said += [BrokerSaid(each, LEFT_OUT) for each in side.not_asked]
    ended = run.asked_at if run.finished_at is None else run.finished_at
    words = f"audit {run.id}: {side.words}"
    return BrokersAudit(run.id, tuple(said), _age(now, ended), _age(now, run.asked_at), words)


def _passed(run: BrokersPassed | None, now: float) -> BrokersAudit | None:
    if run is None:
        return None
    words = f"audit {run.id}: every broker said what the log says"
    return BrokersAudit(run.id, (), _age(now, run.finished_at), _age(now, run.asked_at), words)


def _brokers_are_due(snapshot: Snapshot, evidence: ScheduledAudits) -> bool:
    """A roll is over and no audit has asked its brokers since, or audits of an earlier release asked none at all."""
    if not evidence.brokers:
        return evidence.last is not None
    asked_s = evidence.brokers[0].asked_s
    return evidence.restarted_s is not None and asked_s > evidence.restarted_s and not _is_rolling(snapshot)


def _brokers_newly_differ(evidence: ScheduledAudits, last: AuditRun) -> bool:
    """The last audit is the first one in which a broker contradicts the log, or is silent."""
    clean = [each.is_well(left_out_too=True) for each in evidence.brokers[:2]]
    return bool(clean) and evidence.brokers[0].id == last.id and not clean[0] and all(clean[1:])


def _seen(run: AuditRun, now: float) -> AuditObservation:
    age = _age(now, run.asked_at if run.finished_at is None else run.finished_at)
    return AuditObservation(run.id, audit_rows.result_of(run), audit_rows.count(run, "different"), age, said(run))


def said(run: AuditRun) -> str:
    """One finished audit in one line."""
    if run.state == "failed":
        return f"audit {run.id} has no result: {run.problem}"
    compared, different, not_read = (audit_rows.count(run, key) for key in ("compared", "different", "not_read"))
    said = f"audit {run.id} by {run.engine}: {compared} keys compared, {different} different, {not_read} not read"
    return f"{said}: {run.problem}" if run.problem else said


def schedule_findings(evidence: ScheduledAudits | None, now: float, accepted: Accepted = ()) -> tuple[Occurrence, ...]:
    """What closes the gates forward, named. accepted: brokers that need not answer."""
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
    if diverged := evidence.brokers_diverged(accepted):
        second, first = diverged
        found.append(BROKERS_DIVERGED.found(first=first.id, second=second.id, brokers=second.said))
    return (*found, *_not_compared(evidence, now, accepted))


def _not_compared(evidence: ScheduledAudits, now: float, accepted: Accepted) -> Iterator[Occurrence]:
    """A roll of hours leaves brokers out all the time, and that is nothing to call somebody for."""
    well = evidence.brokers_well(accepted, left_out_too=True)
    if well is not None and well.age_s > evidence.limit_s:
        since = datetime.fromtimestamp(now - well.age_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    elif well is None and len(evidence.brokers) >= LATE_INTERVALS:
        since = "dual-write began"
    else:
        return
    why = evidence.brokers[0].said if evidence.brokers else "no audit asked them"
    yield BROKERS_NOT_COMPARED.found(since=since, why=why)


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

    async def tend(self, snapshot: Snapshot, evidence: ScheduledAudits) -> None:
        """Request an audit when one is due. It is called in every round of dual-write."""
        if not self._every_s:
            await self._plan(snapshot, None)
            return
        last = snapshot.dual_write_audits[0] if snapshot.dual_write_audits else None
        due = self._due_at(snapshot, evidence, last)
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

    def _due_at(self, snapshot: Snapshot, evidence: ScheduledAudits, last: AuditRun | None) -> float:
        known = self._due.get(snapshot.id)
        number = None if last is None else last.id
        if known is None or known[1] != number:
            known = (self._steady() + self._wait(snapshot, evidence, last), number)
        accepted = self._accepted.get(snapshot.id, -math.inf)
        if evidence.every_s and (evidence.overdue_since is not None or _brokers_are_due(snapshot, evidence)):
            since_restart = evidence.restarted_s is not None and accepted < self._steady() - evidence.restarted_s
            earliest = -math.inf if since_restart else accepted + min(CONFIRM_S, self._every_s)
            known = (min(known[0], max(self._steady(), earliest)), number)
        self._due[snapshot.id] = known
        return known[0]

    def _wait(self, snapshot: Snapshot, evidence: ScheduledAudits, last: AuditRun | None) -> float:
        """Seconds from now, with what is gone since the last run taken off; more than an interval never."""
        if last is None:
            return self._chance.random() * min(FIRST_WITHIN_S, self._every_s / 2)
        runs = [audit_rows.result_of(run) for run in snapshot.dual_write_audits[:2]]
        again = runs[0] == INCOMPLETE or (runs[0] != PASSED and (len(runs) == 1 or runs[1] == PASSED))
        again = again or _brokers_newly_differ(evidence, last)
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
