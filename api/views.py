"""Rows and evidence as the objects that people and programs are shown.

In:   the store and the time.
Out:  models (models.py); JSON and page are two views of the same one.
Elsewhere: what the fields mean (models.py), what the gates look at (state_machine.evidence.of_gates).
Nothing here looks at a cluster: it shows what the loop saw last, and how old that is.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.feature_view import features_view
from api.models import (
    ApprovalView,
    AuditScheduleView,
    AuditView,
    BrokersView,
    ConditionView,
    DualWriteView,
    EdgeView,
    EventView,
    FamilyView,
    FindingGroupView,
    FindingView,
    GuardView,
    MigrationLine,
    MigrationView,
    OperationView,
    RoadNodeView,
    RoadView,
    StepView,
    UndoView,
    VerdictView,
    WaiverView,
    WayBackView,
    ZooKeeperEndView,
)
from api.nodes import (
    active_controller_view,
    broker_views,
    controller_views,
    failed_nodes,
    standing_of,
    stock_may_lead,
    without_controller_s,
)
from api.remedies import remedies
from migrator.findings.finding import Occurrence
from migrator.http.addresses import AUDIT_PAGE, DIFFERENCES, LINKED, MIGRATION
from migrator.model.values import MigrationState
from migrator.model.verdict import Verdict
from state_machine.audits.audit_rows import audits, brokers_of, left_off_of, result_of
from state_machine.evidence.of_gates import evidence
from state_machine.finish.zookeeper_end import end_text
from state_machine.policy.audit_observations import PASSED
from state_machine.policy.conditions import APPROVAL_S, accepted_brokers
from state_machine.policy.fleet_evidence import Roll, RollbackPlan
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import OutcomeKind, Waiting
from state_machine.policy.phase_table import PHASES, phases_where
from state_machine.policy.phases import OPERATIONS, PEOPLE, Edge, Phase, Trigger, next_edges, word_of
from state_machine.policy.raises import raise_of
from state_machine.policy.undo import is_irreversible, readiness, undo_of
from state_machine.rows.documents import ZOOKEEPER_END, ZooKeeperEndDocument, document
from state_machine.rows.observations import FindingGroup, backups, finding_groups, findings
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import AuditRun, FindingRow, JournalRow, Migration, Operation, PhaseEvent

AUDITS_SHOWN: Final = 8
FINDINGS_SHOWN: Final = 3
"""Of one code, as `zk2kraft check` prints them."""
OPERATIONS_SHOWN: Final = 20
SERVICE_SIGNALS: Final = (
    Trigger.QUORUM_FORMED,
    Trigger.BROKERS_JOINED,
    Trigger.FOUND_ROLLED_BACK,
    Trigger.ADOPTED,
    Trigger.CONTROLLERS_REPLACED,
    Trigger.STOCK_IN_PLACE,
    Trigger.FINALIZED,
)


def migration_view(store: Store, migration_id: int, now: float) -> MigrationView:
    """Raises Z2K-4004."""
    snapshot = store.snapshot(migration_id)
    observed = evidence(snapshot, now)
    events = store.events(migration_id)
    brokers = broker_views(store, snapshot, now)
    row = snapshot.migration
    return MigrationView(
        id=row.id,
        name=row.name,
        version=row.version,
        phase=snapshot.phase,
        since=row.since,
        waiting=row.waiting,
        outcome=OutcomeKind(row.outcome) if row.outcome else None,
        paused=row.paused,
        observed_at=None if snapshot.observation is None else snapshot.observation.at,
        now=now,
        active_controller=active_controller_view(snapshot, now),
        without_controller_s=without_controller_s(snapshot, now) or 0.0,
        last_window_ms=None if snapshot.observation is None else snapshot.observation.window_ms,
        last_gap_s=None if snapshot.observation is None else snapshot.observation.gap_s,
        standing=verdict_view(standing_of(snapshot, observed)),
        steps=steps_view(snapshot, events),
        gates=gates_view(snapshot, observed),
        undo=UndoView(
            **msgspec.to_builtins(
                undo_of(
                    snapshot.phase,
                    None if observed.road is None else observed.road.back,
                    observed.later,
                    observed.road,
                    snapshot.engine,
                )
            ),
            irreversible=is_irreversible(snapshot.phase, observed.later, observed.road),
        ),
        brokers=brokers,
        features=features_view(snapshot, brokers, now),
        quorum=controller_views(snapshot, now),
        dual_write=dual_write_view(snapshot, now),
        findings=[finding_view(each) for each in findings(store, migration_id, only_open=True)],
        finding_groups=[group_view(row.id, each) for each in finding_groups(store, migration_id, FINDINGS_SHOWN)],
        audits=[audit_view(each) for each in audits(store, migration_id, limit=AUDITS_SHOWN)],
        audit_schedule=audit_schedule_view(snapshot, observed),
        events=[event_view(each) for each in events],
        operations=[operation_view(each) for each in store.operations(migration_id, OPERATIONS_SHOWN)],
        backups=[each.file for each in backups(store, migration_id)],
        road=road_view(snapshot, observed, now),
        zookeeper_end=zookeeper_end_view(snapshot),
        zookeeper=snapshot.inventory.zookeeper,
        bootstrap_servers=snapshot.inventory.bootstrap_servers,
        audit_engine=snapshot.inventory.audit_engine,
        engine=snapshot.engine,
        links=links(row.id),
    )


def migration_line(row: Migration, trouble: Occurrence | None = None) -> MigrationLine:
    """trouble: what keeps its round from its end now, also when the database could not take it down."""
    waiting, outcome = row.waiting, row.outcome
    if trouble is not None:
        kept = Waiting(f"{trouble.code} {trouble.text}")
        waiting, outcome = kept.words, kept.kind
    return MigrationLine(
        id=row.id,
        name=row.name,
        phase=Phase(row.phase) if row.phase in set(Phase) else "UNREADABLE",
        since=row.since,
        version=row.version,
        waiting=waiting,
        outcome=OutcomeKind(outcome) if outcome else None,
        link=MIGRATION(number=row.id),
    )


def links(migration_id: int) -> dict[str, str]:
    found = {name: address(number=migration_id) for name, address in LINKED.items()}
    return {**found, "page": f"/migrations/{migration_id}"}


# --- gates and phases -------------------------------------------------------------------------------------


def verdict_view(verdict: Verdict) -> VerdictView:
    return VerdictView(holds=verdict.holds, conditions=[condition_view(each.as_json()) for each in verdict.conditions])


def condition_view(condition: dict[str, Any]) -> ConditionView:
    return ConditionView.model_validate(condition)


def edge_view(snapshot: Snapshot, trigger: Trigger, edge: Edge, observed: Evidence) -> EdgeView:
    verdict = edge.gate(observed)
    person = trigger in PEOPLE
    where = f" --to {edge.to}" if trigger is Trigger.ADVANCE else ""
    command = f"zk2kraft {PEOPLE[trigger]} --migration {snapshot.id}{where}" if person else ""
    return EdgeView(
        trigger=word_of(trigger),
        by="a person" if person else "the service" if trigger in SERVICE_SIGNALS else "the driver",
        to=edge.to,
        holds=verdict.holds,
        conditions=verdict_view(verdict).conditions,
        command=command,
        irreversible=is_irreversible(edge.to) and not is_irreversible(snapshot.phase, observed.later),
    )


def gates_view(snapshot: Snapshot, observed: Evidence) -> list[EdgeView]:
    """Steps of people first."""
    edges = next_edges(snapshot.phase, snapshot.engine).items()
    views = [edge_view(snapshot, trigger, edge, observed) for trigger, edge in edges]
    return sorted(views, key=lambda view: view.by != "a person")


def steps_view(snapshot: Snapshot, events: list[PhaseEvent]) -> list[StepView]:
    """The road, with where the migration is; a phase off the road (going back) is put after the last one reached."""
    entered = {Phase(event.to_phase): event for event in events}
    now = snapshot.phase
    road = list(phases_where(lambda row: row.forward, snapshot.engine))
    if not PHASES[now].forward:
        reached = max((road.index(phase) for phase in entered if phase in road), default=0)
        road[reached + 1 :] = [phase for phase in entered if not PHASES[phase].forward] + [now] * (now not in entered)
    here = road.index(now)
    return [_step(phase, index - here, entered.get(phase), snapshot) for index, phase in enumerate(road)]


def _step(phase: Phase, distance: int, event: PhaseEvent | None, snapshot: Snapshot) -> StepView:
    if distance == 0:
        return StepView(phase=phase, state="now", at=snapshot.migration.since, note=snapshot.migration.waiting)
    if distance < 0:
        started = snapshot.migration.created_at if phase is Phase.CREATED else None
        return StepView(
            phase=phase,
            state="done",
            at=started if event is None else event.at,
            note=snapshot.migration.created_by if event is None else event.reason,
        )
    return StepView(phase=phase, state="ahead", at=None, note="")


# --- the cluster ------------------------------------------------------------------------------------------


def dual_write_view(snapshot: Snapshot, now: float) -> DualWriteView | None:
    """As a controller of ours says; once stock leads, none of ours writes to ZooKeeper."""
    look = snapshot.observation
    status = None if look is None or look.answering is None else look.answering.status
    if stock_may_lead(snapshot, now):
        return None
    if status is None or status.log is None or status.dual_write is None:
        return None
    if status.log.migration != MigrationState.MIGRATION.name:
        return None
    observed = status.dual_write
    return DualWriteView(
        offset=observed.offset,
        log_offset=status.log.offset,
        lag_records=observed.lag_records,
        behind_ms=observed.behind_ms,
        blocking_ms=observed.blocking_ms,
        divergence=observed.divergence,
        lag_ms=observed.lag_ms,
        multis_waiting=observed.multis_waiting,
        reconciled_writes=observed.reconciled_writes,
    )


def dual_write_lag(snapshot: Snapshot, observed: Evidence, now: float) -> int | None:
    """Records that ZooKeeper lacks: as ours counts them; of stock, the log's end against `/migration`. None: it is not
    known, or nothing is written to ZooKeeper.
    """
    ours = dual_write_view(snapshot, now)
    if ours is not None:
        return ours.lag_records
    written = stock_may_lead(snapshot, now) and (PHASES[snapshot.phase].audited or snapshot.phase is Phase.ROLLING_BACK)
    road = observed.road
    return None if not written or road is None or road.log_problem else road.dual_write_lag


def audit_schedule_view(snapshot: Snapshot, observed: Evidence) -> AuditScheduleView | None:
    if observed.audits is None:
        return None
    last = snapshot.dual_write_audits[0] if snapshot.dual_write_audits else None
    side = next((found for run in snapshot.dual_write_audits if (found := brokers_of(run)) is not None), None)
    return AuditScheduleView.model_validate(
        {
            "every_s": observed.audits.every_s,
            "next_at": None if snapshot.audit_plan is None else snapshot.audit_plan.next_at,
            "last": None if last is None else last.id,
            "result": None if observed.audits.last is None else observed.audits.last.result,
            "finished_at": None if last is None else last.finished_at,
            "differences": None if observed.audits.last is None else observed.audits.last.different,
            "passed_at": snapshot.audit_passed_at,
            "diverged_twice": bool(observed.audits.diverged),
            "overdue": observed.audits.overdue_since is not None,
            "brokers": None if side is None else side.outcome,
            "brokers_said": "" if side is None else side.words,
            "brokers_diverged_twice": bool(observed.audits.brokers_diverged(accepted_brokers(observed))),
        }
    )


def road_view(snapshot: Snapshot, observed: Evidence, now: float) -> RoadView | None:
    road, approval = observed.road, snapshot.approval
    if road is None or snapshot.phase is Phase.AUDIT:
        return None
    files, soak = road.files, road.soak
    consent = None if road.back is None else road.back.consent
    given = road.approval or consent
    if given is not None and given.given.raises:
        of_it = evidence(snapshot, now, raise_of(given.given.raises)).road
        given = None if of_it is None else of_it.approval
    counts = given is not None and given.fits and given.age_s <= APPROVAL_S
    return RoadView(
        nodes=[road_node_view(each, now) for each in sorted(snapshot.road, key=_by_roll)],
        failed=[road_node_view(each, now) for each in failed_nodes(snapshot)],
        remedies=remedies(snapshot, observed),
        dual_write_lag=dual_write_lag(snapshot, observed, now),
        migration_state=road.migration,
        log_problem=road.log_problem,
        leader=road.leader,
        kraft=list(road.kraft),
        zookeeper=list(road.zookeeper),
        under_replicated=road.under_replicated,
        drifted=[] if files is None else [each.words for each in files.drifted],
        not_read=[] if files is None else [each.words for each in files.not_read],
        soak_s=None if soak is None else round(soak.age_s, 1),
        elections=0 if soak is None else soak.elections,
        snapshots=[] if soak is None else list(soak.snapshots),
        led=[] if soak is None else list(soak.leaders),
        approval=None
        if approval is None
        else ApprovalView(
            who=approval.who,
            at=approval.at,
            to=approval.to_phase,
            raises=approval.fact.raises,
            counts=counts,
            digest=approval.digest,
        ),
        digest=road.digest,
        intent=road.intent,
        back=way_back_view(snapshot.phase, road.back, observed),
        backups=[
            f"before {each.phase}: {each.file} ({each.sha256})" for each in snapshot.backups if each.kind == "gate"
        ],
        guards=[GuardView(node_id=each.node, state=each.state, reason=each.reason) for each in road.guards],
        waivers=[
            WaiverView(what=each.what, node_id=each.node, owner=each.owner, reason=each.reason, end=each.end)
            for each in road.waivers
        ],
    )


def zookeeper_end_view(snapshot: Snapshot) -> ZooKeeperEndView | None:
    found = document(snapshot, ZOOKEEPER_END, ZooKeeperEndDocument)
    if found is None or snapshot.phase is not Phase.COMPLETED:
        return None
    return ZooKeeperEndView(
        says=end_text(found, snapshot.inventory.zookeeper),
        reachable=found.reachable,
        problem=found.problem,
        observed_at=found.at,
        unreachable_since=found.unreachable_since,
        unobserved_s=round(found.unobserved_s, 1),
        kept_days=found.kept_days,
        may_delete_from=found.may_delete_from,
    )


def way_back_view(phase: Phase, back: RollbackPlan | None, observed: Evidence) -> WayBackView | None:
    """Readiness of a rollback, evaluated with each view."""
    if back is None:
        return None
    verdict = readiness(phase, observed)
    return WayBackView(
        possible=verdict.holds,
        why_not="" if verdict.holds else verdict.reason(),
        controllers=list(back.controllers),
        restarts=list(back.restarts),
        again=list(back.again),
        lost=list(back.lost),
        consented_by=None if back.consent is None or not back.consent.fits else back.consent.who,
        seconds=None if back.total_s is None else round(back.total_s, 1),
        at_least_s=None if back.least_s is None else round(back.least_s, 1),
        epoch_gap=back.epoch_gap,
        unknown=list(back.unknown_words),
        left_out=list(back.left_out),
    )


def _by_roll(row: JournalRow) -> tuple[int, float, int]:
    return list(Roll).index(Roll(row.roll)), row.began_at or float("inf"), row.node_id


def road_node_view(row: JournalRow, now: float) -> RoadNodeView:
    until = row.changed_at if row.step == "WHOLE" else now
    return RoadNodeView(
        roll=row.roll,
        role=row.role,
        node_id=row.node_id,
        step=row.step,
        since=row.changed_at,
        took_s=0.0 if row.began_at is None else round(max(until - row.began_at, 0.0), 1),
        path=row.path,
        kind=row.kind,
        checksum=row.checksum,
        detail=row.detail,
        instruction=row.instruction,
        cause=f"{row.code} {row.cause}".strip(),
        code=row.code,
    )


# --- rows -------------------------------------------------------------------------------------------------


def audit_view(run: AuditRun) -> AuditView:
    ended = run.state not in ("asked", "running", "stopped")
    result = result_of(run) if ended else None
    return AuditView.model_validate(
        {
            "id": run.id,
            "migration": run.migration_id,
            "purpose": run.purpose,
            "engine": run.engine,
            "state": run.state,
            "result": result,
            "passed": None if result is None else result == PASSED,
            "who": run.who,
            "asked_at": run.asked_at,
            "finished_at": run.finished_at,
            "families": [FamilyView(**each) for each in run.families],
            "seconds": run.seconds,
            "position": {key: value for key, value in run.position.items() if key != "left_off"},
            "rehearsal": run.rehearsal,
            "directory": run.directory,
            "problem": run.problem,
            "differences": DIFFERENCES(number=run.id),
            "page": AUDIT_PAGE(number=run.id) if run.state == "done" and run.directory else None,
            "left_off": left_off_of(run),
            "brokers": _brokers_view(run),
        }
    )


def _brokers_view(run: AuditRun) -> BrokersView | None:
    side = brokers_of(run)
    if side is None:
        return None
    told = {name: value for name, value in msgspec.structs.asdict(side).items() if name != "differences"}
    asked = [{**msgspec.structs.asdict(each), "result": each.outcome} for each in side.asked]
    return BrokersView.model_validate(
        {**msgspec.to_builtins(told), "asked": asked, "result": side.outcome, "said": side.words}
    )


def event_view(event: PhaseEvent) -> EventView:
    return EventView(
        version=event.version,
        from_phase=Phase(event.from_phase),
        to_phase=Phase(event.to_phase),
        trigger=word_of(Trigger(event.trigger)),
        who=event.who,
        reason=event.reason,
        at=event.at,
        recorded_at=event.recorded_at,
        source=f"{event.source_run} {event.source_number}",
        verdict=_stored(event.verdict),
    )


def operation_view(operation: Operation) -> OperationView:
    return OperationView.model_validate(
        {
            "id": operation.id,
            "operation": OPERATIONS[operation.name].word,
            "to": operation.to_phase,
            "who": operation.who,
            "reason": operation.reason,
            "at": operation.at,
            "state": operation.state,
            "answer": operation.answer,
            "ended_at": operation.ended_at,
            "verdict": None if operation.verdict is None else _stored(operation.verdict),
        }
    )


def finding_view(row: FindingRow) -> FindingView:
    return FindingView.model_validate(
        {
            "code": row.code,
            "severity": row.severity,
            "says": row.says,
            "means": row.means,
            "remedy": row.remedy,
            "runbook": f"runbooks/{row.code}.md",
            "source": row.source,
            "open": row.open,
            "first_seen": row.first_seen,
            "last_seen": row.last_seen,
        }
    )


def group_view(migration_id: int, group: FindingGroup) -> FindingGroupView:
    first = [finding_view(each) for each in group.first]
    return FindingGroupView(
        code=group.code,
        severity=first[0].severity,
        count=group.count,
        first=first,
        remedies=list(dict.fromkeys(each.remedy for each in first)),
        since=group.since,
        page=f"/migrations/{migration_id}/findings/{group.code}",
    )


def _stored(verdict: dict[str, Any]) -> VerdictView:
    return VerdictView(holds=verdict["holds"], conditions=[condition_view(each) for each in verdict["conditions"]])
