"""The change report, put together.

In:   `ChangeFacts`. Out: `ChangeReport`; the same facts give the same report.
Elsewhere: reading the facts (facts.py), the parts (plan.py, durations.py, way_back_times.py, risks.py), showing it
(api/change).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from migrator.findings.finding import FindingError
from migrator.findings.road import LATER_KAFKA_LEADS
from migrator.fleet.inventory import Window
from migrator.fleet.roll import RollStep
from migrator.model.verdict import Verdict
from state_machine.change.document import (
    SCHEMA,
    BackupReport,
    CanaryReport,
    ChangeReport,
    GoingBack,
    Leg,
    OwnZnodesReport,
    PhaseEntered,
    PhaseUndo,
    ReportedZnode,
    Requested,
    Restart,
    WayBackNow,
    WithoutController,
    ZooKeeperEnd,
)
from state_machine.change.durations import durations_of, time_of_one
from state_machine.change.facts import ChangeFacts
from state_machine.change.legs import Estate, legs_of, named_releases, with_states
from state_machine.change.plan import files_of, hosts_of, restarts_of
from state_machine.change.risks import audit_report, not_verified, risks_of, waivers_of
from state_machine.change.way_back_times import time_back, time_back_now
from state_machine.facts.canary import CanaryFact
from state_machine.finish.zookeeper_end import end_text
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phase_table import PHASES, WAY_FORWARD
from state_machine.policy.phases import OPERATIONS, Phase, Trigger, next_edges
from state_machine.policy.rolls import FORWARD, ROLLS
from state_machine.policy.undo import IRREVERSIBLE, is_irreversible, readiness, undo_of
from state_machine.rows.documents import (
    CANARY,
    INTENT,
    ZNODES,
    ZOOKEEPER_END,
    IntentDocument,
    ZnodesDocument,
    ZooKeeperEndDocument,
    document,
)
from state_machine.rows.tables import Backup

WITHOUT_FLAG: Final = (RollStep.WRITTEN, RollStep.STARTED, RollStep.WHOLE)
LAST_MOMENT: Final = (
    f"before the step to {Phase.FINALIZING}: from the first start of a controller without the migration flag on, "
    "nothing leads back"
)


def change_report(facts: ChangeFacts) -> ChangeReport:
    row, phase = facts.snapshot.migration, facts.snapshot.phase
    restarts = restarts_of(facts)
    waivers = waivers_of(facts)
    durations, total = durations_of(facts, restarts)
    back = _going_back(facts, restarts)
    inventory = facts.inventory
    return ChangeReport(
        schema=SCHEMA,
        migration=row.id,
        name=row.name,
        cluster_id=row.cluster_id or "",
        phase=phase,
        state=_state(facts),
        at=facts.at,
        created_at=row.created_at,
        created_by=row.created_by,
        waiting=row.waiting,
        paused=row.paused or "",
        zookeeper=facts.snapshot.inventory.zookeeper,
        bootstrap_servers=facts.snapshot.inventory.bootstrap_servers,
        notices=_notices(facts, back),
        no_plan=facts.no_inventory,
        inventory_digest=facts.inventory_digest,
        windows=() if inventory is None else tuple(map(_window, inventory.maintenance_windows)),
        hosts=hosts_of(facts, restarts),
        restarts=restarts,
        files=files_of(restarts),
        durations=durations,
        total=total,
        risks=risks_of(facts, restarts),
        waivers=waivers,
        back=back,
        approvals=tuple(each.fact for each in sorted(facts.approvals, key=lambda each: each.id)),
        operations=_operations(facts),
        phases=_phases(facts),
        without_controller=_without_controller(facts),
        canary=_canary(facts),
        audits=tuple(map(audit_report, facts.audits)),
        backups=tuple(map(_backup, sorted(facts.backups, key=lambda each: each.id))),
        not_verified=not_verified(facts, restarts, waivers),
        zookeeper_end=_zookeeper_end(facts),
        own_znodes=_own_znodes(facts),
        legs=_legs(facts, restarts),
    )


def _legs(facts: ChangeFacts, restarts: Sequence[Restart]) -> tuple[Leg, ...]:
    """To the last release; those of the inventory as it is now. A plan that is refused leaves them out."""
    if facts.inventory is None:
        return ()

    def time_of_role(role: str) -> tuple[float, float]:
        roll = next(each for each in FORWARD if ROLLS[each].role == role)
        return time_of_one(facts, restarts, roll, role)[:2]

    estate = Estate(
        inventory=facts.inventory,
        releases=named_releases(facts.inventory),
        time_of_one=time_of_role,
        limits=facts.limits,
    )
    try:
        return with_states(legs_of(estate), facts.snapshot.phase)
    except FindingError:
        return ()


def _state(facts: ChangeFacts) -> Literal["planned", "under way", "completed", "rolled back"]:
    phase = facts.snapshot.phase
    if phase is Phase.COMPLETED:
        return "completed"
    if phase is Phase.ROLLED_BACK:
        return "rolled back"
    begun = not PHASES[phase].before_takeover or any(each.began_at is not None for each in facts.journal)
    return "under way" if begun else "planned"


def _notices(facts: ChangeFacts, back: GoingBack) -> tuple[str, ...]:
    found = [f"{IRREVERSIBLE}: {back.now.does}"] if back.irreversible else []
    found += led_by_later_kafka(facts)
    found += [f"steps forward are paused: {facts.snapshot.migration.paused}"] if facts.snapshot.migration.paused else []
    found += [
        f"{each.role} {each.node_id} failed: {each.code} {each.cause}"
        for each in facts.journal
        if each.step == RollStep.FAILED
    ]
    return tuple(found)


def led_by_later_kafka(facts: ChangeFacts) -> list[str]:
    """Also when it is over: nothing went to ZooKeeper meanwhile, and its directory is not to be used again."""
    led = None if facts.snapshot.observation is None else facts.snapshot.observation.later_led
    if led is None:
        return []
    times = " to ".join(datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (led.since, led.until))
    said = f"controller {led.node} led with a Kafka without ZooKeeper, from {times} as observed"
    code = LATER_KAFKA_LEADS.code
    return [f"{said}: nothing went to ZooKeeper then, and its snapshots have no migration ({code})"]


def _window(window: Window) -> str:
    return f"{window.start} to {window.end} UTC, {' '.join(window.days)}"


# --- going back -------------------------------------------------------------------------------------------


def _going_back(facts: ChangeFacts, restarts: Sequence[Restart]) -> GoingBack:
    phases = tuple(
        PhaseUndo(
            phase=phase,
            command=undo.command,
            does=undo.does,
            restarts=undo.restarts,
            lost=undo.lost,
            without_controller=undo.without_controller,
            possible=not is_irreversible(phase),
            takes=time_back(facts, restarts, phase),
        )
        for phase in WAY_FORWARD
        for undo in (PHASES[phase].undo,)
    )
    since = irreversible_since(facts)
    return GoingBack(
        now=_now(facts, restarts),
        phases=phases,
        last_by_command=next((each.phase for each in reversed(phases) if each.command), ""),
        last_moment=LAST_MOMENT,
        irreversible=is_irreversible(facts.snapshot.phase, facts.observed.later, facts.observed.road),
        irreversible_since=since,
    )


def _now(facts: ChangeFacts, restarts: Sequence[Restart]) -> WayBackNow:
    road = facts.observed.road
    back = None if road is None else road.back
    undo = undo_of(facts.snapshot.phase, back, facts.observed.later, road, facts.snapshot.engine)
    verdict = readiness(facts.snapshot.phase, facts.observed) if back is not None else _verdict_of_rollback(facts)
    seconds = None if back is None or back.total_s is None else round(back.total_s, 1)
    consent = None if back is None else back.consent
    return WayBackNow(
        ready=None if verdict is None else verdict.holds,
        why_not="" if verdict is None or verdict.holds else verdict.reason(),
        command=undo.command,
        does=undo.does,
        restarts=undo.restarts,
        lost=undo.lost,
        without_controller=undo.without_controller,
        seconds=seconds,
        consented_by=consent.who if consent is not None and consent.fits else "",
        takes=time_back_now(facts, restarts),
    )


def _verdict_of_rollback(facts: ChangeFacts) -> Verdict | None:
    """Of the step back that people may take from here; None where there is none."""
    edges = next_edges(facts.snapshot.phase, facts.snapshot.engine)
    edge = edges.get(Trigger.ROLL_BACK) or edges.get(Trigger.ABORT)
    return None if edge is None else edge.gate(facts.observed)


def irreversible_since(facts: ChangeFacts) -> float | None:
    """When the first file without the flag was in use, by the journal; else when the finalize was intended; else since
    when a Kafka without ZooKeeper has ended dual-write.
    """
    final = [row for row in facts.journal if row.roll == Roll.FINAL and row.began_at is not None]
    began = [row.began_at for row in final if row.began_at is not None and row.step in WITHOUT_FLAG]
    intent = document(facts.snapshot, INTENT, IntentDocument)
    intent = None if intent is not None and intent.withdrawn else intent
    if began or intent is not None:
        return min(began) if began else None if intent is None else intent.at
    later = facts.observed.later
    return later.led_since if later.has_ended_dual_write else None


# --- what happened ----------------------------------------------------------------------------------------


def _operations(facts: ChangeFacts) -> tuple[Requested, ...]:
    return tuple(
        Requested(
            operation=OPERATIONS[each.name].word if each.name in OPERATIONS else each.name,
            to=each.to_phase or "",
            who=each.who,
            reason=each.reason,
            at=each.at,
            state=each.state,
            answer=each.answer,
        )
        for each in facts.operations
    )


def _phases(facts: ChangeFacts) -> tuple[PhaseEntered, ...]:
    row = facts.snapshot.migration
    entered = [(Phase.CREATED.value, row.created_at, row.created_by, "")]
    entered += [(each.to_phase, each.at, each.who, each.reason) for each in facts.events]
    left = [*(at for _, at, _, _ in entered[1:]), facts.at]
    return tuple(
        PhaseEntered(phase=phase, at=at, who=who, reason=reason, seconds=round(max(end - at, 0.0), 3))
        for (phase, at, who, reason), end in zip(entered, left, strict=True)
    )


def _without_controller(facts: ChangeFacts) -> tuple[WithoutController, ...]:
    """What drivers measured at takeovers, and what observations found. They overlap: both are of the same takeover."""
    look = facts.snapshot.observation
    if look is None:
        return ()
    windows = [("takeover", each) for each in look.windows]
    gaps = [("observed", each) for each in look.gaps]
    return tuple(
        WithoutController(
            kind="takeover" if kind == "takeover" else "observed",
            ended_at=each.ended_at,
            seconds=each.seconds,
            phase=_phase_at(facts, each.ended_at),
        )
        for kind, each in sorted((*windows, *gaps), key=lambda pair: (pair[1].ended_at, pair[0]))
    )


def _phase_at(facts: ChangeFacts, at: float) -> str:
    before = [each.to_phase for each in facts.events if each.at <= at]
    return before[-1] if before else Phase.CREATED.value


def _canary(facts: ChangeFacts) -> CanaryReport:
    found = document(facts.snapshot, CANARY, CanaryFact)
    spec = None if facts.inventory is None else facts.inventory.canary
    if found is None:
        return CanaryReport(
            wanted=spec is not None,
            answered=0,
            failed=0,
            last_error="",
            problem="",
            errors_max=0.0 if spec is None else spec.errors_max,
        )
    return CanaryReport(
        wanted=spec is not None or found.wanted,
        answered=found.answered,
        failed=found.failed,
        last_error=found.figures.last_error,
        problem=found.figures.problem if found.wanted else "",
        errors_max=found.errors_max,
    )


def _zookeeper_end(facts: ChangeFacts) -> ZooKeeperEnd | None:
    found = document(facts.snapshot, ZOOKEEPER_END, ZooKeeperEndDocument)
    if facts.snapshot.phase is not Phase.COMPLETED:
        return None
    kept_days = facts.limits.zookeeper_kept_days
    return ZooKeeperEnd(
        says=end_text(found, facts.snapshot.inventory.zookeeper),
        reachable=None if found is None else found.reachable,
        unreachable_since=None if found is None else found.unreachable_since,
        unobserved_s=0.0 if found is None else round(found.unobserved_s, 1),
        kept_days=kept_days if found is None else found.kept_days,
        may_delete_from=None if found is None else found.may_delete_from,
    )


def _own_znodes(facts: ChangeFacts) -> OwnZnodesReport | None:
    found = document(facts.snapshot, ZNODES, ZnodesDocument)
    if found is None:
        return None
    before, after = found.before, found.after
    was = {} if before is None else {each.path: each.says for each in before.znodes}
    now = {} if after is None else {each.path: each.says for each in after.znodes}
    return OwnZnodesReport(
        before_at=None if before is None else before.at,
        before_phase="" if before is None else before.phase,
        before_problem="it was not read" if before is None else before.problem,
        after_at=None if after is None else after.at,
        after_problem="" if after is None else after.problem,
        znodes=tuple(
            ReportedZnode(path=path, before=was.get(path, ""), after=now.get(path, ""))
            for path in dict.fromkeys((*was, *now))
        ),
    )


def _backup(row: Backup) -> BackupReport:
    return BackupReport(before=row.phase or "a claim", file=row.file, sha256=row.sha256 or "", at=row.seen_at)
