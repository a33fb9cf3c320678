"""Rows and evidence as the objects that people and programs are shown.

In:   the store and the time.
Out:  models (models.py); JSON and page are two views of the same one.
Elsewhere: what the fields mean (models.py), what the gates look at (state_machine.evidence).
Nothing here looks at a cluster: it shows what the loop saw last, and how old that is.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.models import (
    AuditScheduleView,
    AuditView,
    BrokerView,
    CheckView,
    ControllerView,
    DenialView,
    DualWriteView,
    EdgeView,
    EventView,
    FamilyView,
    FindingGroupView,
    FindingView,
    MigrationLine,
    MigrationView,
    RulerView,
    StepView,
    UndoView,
    VerdictView,
    WishView,
)
from migrator.findings.finding import Occurrence
from migrator.model.verdict import Verdict
from state_machine.audits.audit_rows import audits
from state_machine.clusters.observe import Observation, ZooKeeperSeen
from state_machine.evidence import brokers_seen, evidence
from state_machine.looks import Group, backups, finding_groups, findings, nodes
from state_machine.policy.gates import BrokerSeen, Evidence, Holder, standing
from state_machine.policy.phases import (
    CHANGE,
    HOLD,
    LATER,
    NOT_YET,
    PEOPLE,
    RESUME,
    ROAD,
    Edge,
    Phase,
    Signal,
    next_edges,
)
from state_machine.policy.undo import UNDO
from state_machine.store import Snapshot, Store
from state_machine.tables import AuditRun, FindingRow, Migration, PhaseEvent, Wish

AUDITS_SHOWN: Final = 8
FINDINGS_SHOWN: Final = 3
"""Of one code, as `zk2kraft check` prints them."""
WISHES_SHOWN: Final = 20
SERVICE_SIGNALS: Final = (Signal.QUORUM_FORMED, Signal.BROKERS_JOINED, Signal.RELEASED, Signal.ADOPTED)
WITHOUT_CONTROLLERS: Final = (Phase.CREATED, Phase.PREFLIGHT, Phase.ROLLED_BACK)
"""Here none of ours has to run."""
WORDS: Final = {
    **{signal.value: word for signal, word in PEOPLE.items()},
    HOLD: "hold",
    RESUME: "resume",
    CHANGE: "change",
}


def migration_view(store: Store, migration_id: int, now: float) -> MigrationView:
    """Raises Z2K-4004."""
    snapshot = store.snapshot(migration_id)
    seen = evidence(snapshot, now)
    events = store.events(migration_id)
    row = snapshot.migration
    return MigrationView(
        id=row.id,
        name=row.name,
        version=row.version,
        phase=snapshot.phase,
        since=row.since,
        waiting=row.waiting,
        held=row.held,
        looked_at=None if snapshot.observation is None else snapshot.observation.at,
        now=now,
        ruler=ruler_view(snapshot.observation),
        without_controller_s=without_controller_s(snapshot.observation, now),
        last_window_ms=None if snapshot.observation is None else snapshot.observation.window_ms,
        last_gap_s=None if snapshot.observation is None else snapshot.observation.gap_s,
        standing=verdict_view(standing_of(snapshot, seen)),
        steps=steps_view(snapshot, events),
        gates=gates_view(snapshot, seen),
        undo=UndoView(**msgspec.to_builtins(UNDO[snapshot.phase])),
        brokers=broker_views(store, snapshot, now),
        quorum=controller_views(snapshot),
        dual_write=dual_write_view(snapshot.observation),
        findings=[finding_view(each) for each in findings(store, migration_id, only_open=True)],
        finding_groups=[group_view(row.id, each) for each in finding_groups(store, migration_id, FINDINGS_SHOWN)],
        audits=[audit_view(each) for each in audits(store, migration_id, limit=AUDITS_SHOWN)],
        audit_schedule=audit_schedule_view(snapshot, seen),
        events=[event_view(each) for each in events],
        wishes=[wish_view(each) for each in store.wishes(migration_id, WISHES_SHOWN)],
        backups=[each.file for each in backups(store, migration_id)],
        zookeeper=snapshot.inventory.zookeeper,
        bootstrap_servers=snapshot.inventory.bootstrap_servers,
        audit_engine=snapshot.inventory.audit_engine,
        links=links(row.id),
    )


def migration_line(row: Migration, trouble: Occurrence | None = None) -> MigrationLine:
    """trouble: what keeps its round from its end now, also when the database could not take it down."""
    return MigrationLine(
        id=row.id,
        name=row.name,
        phase=Phase(row.phase) if row.phase in set(Phase) else "UNREADABLE",
        since=row.since,
        version=row.version,
        waiting=row.waiting if trouble is None else f"waiting: {trouble.code} {trouble.text}",
        link=f"/api/v1/migrations/{row.id}",
    )


def links(migration_id: int) -> dict[str, str]:
    base = f"/api/v1/migrations/{migration_id}"
    names = ("gates", "brokers", "quorum", "findings", "events", "audits", "report")
    return {"self": base, "page": f"/migrations/{migration_id}", **{name: f"{base}/{name}" for name in names}}


# --- gates and phases -------------------------------------------------------------------------------------


def verdict_view(verdict: Verdict) -> VerdictView:
    return VerdictView(holds=verdict.holds, checks=[check_view(msgspec.to_builtins(each)) for each in verdict.checks])


def check_view(check: dict[str, Any]) -> CheckView:
    return CheckView(name=check["name"], holds=check["holds"], seen=check["seen"], codes=list(check.get("codes", ())))


def edge_view(snapshot: Snapshot, signal: Signal, edge: Edge, seen: Evidence) -> EdgeView:
    verdict = edge.gate(seen)
    person = signal in PEOPLE
    where = f" --to {edge.to}" if signal is Signal.ADVANCE else ""
    command = f"zk2kraft {PEOPLE[signal]} --migration {snapshot.id}{where}" if person else ""
    return EdgeView(
        signal=PEOPLE.get(signal, signal.value.lower().replace("_", " ")),
        by="a person" if person else "the service" if signal in SERVICE_SIGNALS else "the driver",
        to=edge.to,
        holds=verdict.holds,
        checks=verdict_view(verdict).checks,
        command=command,
    )


def gates_view(snapshot: Snapshot, seen: Evidence) -> list[EdgeView]:
    """Steps of people first."""
    edges = next_edges(snapshot.phase).items()
    views = [edge_view(snapshot, signal, edge, seen) for signal, edge in edges]
    if snapshot.phase in NOT_YET:
        views.append(edge_view(snapshot, Signal.ADVANCE, NOT_YET[snapshot.phase], seen))
    return sorted(views, key=lambda view: view.by != "a person")


def standing_of(snapshot: Snapshot, seen: Evidence) -> Verdict:
    """Before QUORUM and after the way back no controller of ours has to answer."""
    verdict = standing(seen)
    if snapshot.phase not in WITHOUT_CONTROLLERS:
        return verdict
    return Verdict(tuple(check for check in verdict.checks if check.name != "every controller answers"))


def steps_view(snapshot: Snapshot, events: list[PhaseEvent]) -> list[StepView]:
    """The road, with where the migration is; a phase off the road (going back) is put after the last one reached."""
    entered = {Phase(event.to_phase): event for event in events}
    now = snapshot.phase
    road = list(ROAD)
    if now not in road:
        reached = max((road.index(phase) for phase in entered if phase in road), default=0)
        road[reached + 1 :] = [phase for phase in entered if phase not in ROAD] + [now] * (now not in entered)
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
    if phase in LATER:
        return StepView(phase=phase, state="later", at=None, note="not in this release")
    return StepView(phase=phase, state="ahead", at=None, note="")


# --- the cluster ------------------------------------------------------------------------------------------


def ruler_view(look: Observation | None) -> RulerView:
    seen = ZooKeeperSeen() if look is None else look.zookeeper
    return RulerView(
        kind=seen.holder,
        node_id=seen.holder_id,
        since=None if seen.holder_since_ms is None else seen.holder_since_ms / 1000,
        controller_epoch=seen.controller_epoch,
        kraft_epoch=seen.kraft_epoch,
        says=_who_rules(seen, look),
    )


def _who_rules(seen: ZooKeeperSeen, look: Observation | None) -> str:
    match seen.holder:
        case Holder.ZOOKEEPER_BROKER:
            return f"broker {seen.holder_id} (ZooKeeper mode)"
        case Holder.OURS:
            silent = look is not None and seen.holder_id in look.silent()
            return f"controller {seen.holder_id} (ours, KRaft)" + (", which does not answer" if silent else "")
        case Holder.ANOTHER:
            return f"KRaft controller {seen.holder_id} of another quorum"
        case Holder.NOBODY:
            return "nobody"
        case Holder.UNKNOWN:
            return "not known: ZooKeeper does not answer"


def without_controller_s(look: Observation | None, now: float) -> float:
    """0 while somebody rules; else since somebody was last seen to. The driver's own figure, inside its window."""
    if look is None or look.zookeeper.holder is Holder.UNKNOWN or look.ruled_at is None or look.ruled_at == look.at:
        return 0.0
    driver = None if look.active is None else look.active.driver
    if driver is not None and driver["without_controller_ms"] is not None:
        return round(float(driver["without_controller_ms"]) / 1000 + now - look.at, 1)
    return round(max(0.0, now - look.ruled_at), 1)


def broker_views(store: Store, snapshot: Snapshot, now: float) -> list[BrokerView]:
    """As the active controller tells; while none answers, as it was told last, with the age in the problem.

    Where no controller of ours has to run, a broker that is not registered is no problem.
    """
    known = {row.node_id: row for row in nodes(store, snapshot.id, "broker")}
    notes = {each.id: " ".join(filter(None, (each.host, each.note))) for each in snapshot.inventory.brokers}
    found = []
    for seen in brokers_seen(snapshot):
        row = known.get(seen.id)
        told = row.document if row is not None and seen.registered is not False else {}
        problem = told.get("problem") if seen.registered else None
        if seen.registered is None and row is not None:
            problem = f"{seen.why_unfit}; last seen {now - (row.seen_at or now):.0f} s ago"
        expected = snapshot.phase not in WITHOUT_CONTROLLERS
        problem = (problem or seen.why_unfit) if expected else ""
        found.append(_broker(seen, told, problem, notes.get(seen.id, "")))
    return found


def _broker(seen: BrokerSeen, told: dict[str, Any], problem: str, note: str) -> BrokerView:
    return BrokerView(
        id=seen.id,
        registered=seen.registered,
        mode=told.get("mode", "ZooKeeper"),
        epoch=told.get("epoch"),
        fenced=told.get("fenced"),
        heartbeat_age_ms=told.get("heartbeat_age_ms"),
        metadata_version=told.get("metadata_version"),
        listeners=told.get("listeners", []),
        log_dirs=told.get("log_dirs"),
        told=told.get("told"),
        requests_waiting=told.get("requests_waiting"),
        problem=problem,
        note=note,
    )


def controller_views(snapshot: Snapshot) -> list[ControllerView]:
    look = snapshot.observation
    seen = {} if look is None else {each.node_id: each for each in look.controllers}
    found = []
    for entry in snapshot.inventory.controllers:
        controller, process = seen.get(entry.node_id), snapshot.processes.get(entry.node_id)
        status = None if controller is None else controller.status
        quorum = {} if status is None else status["quorum"]
        driver = None if controller is None else controller.driver
        found.append(
            ControllerView(
                node_id=entry.node_id,
                answers=status is not None,
                leads=controller is not None and controller.leads,
                driver="" if driver is None else f"{driver['state']}: {driver['reason']}",
                epoch=quorum.get("epoch"),
                high_watermark=quorum.get("high_watermark"),
                log_end=quorum.get("log_end"),
                observers=quorum.get("observers", {}),
                loop_delay_ms=None if status is None else status["loop_delay_ms"],
                pid=None if controller is None else controller.pid,
                problem="not looked at yet" if controller is None else controller.problem,
                denials=[DenialView(**each) for each in (status or {}).get("denials", [])],
                log="" if process is None or process.log is None else process.log,
            )
        )
    return found


def dual_write_view(look: Observation | None) -> DualWriteView | None:
    status = None if look is None or look.answering is None else look.answering.status
    if status is None or status["log"]["migration"] != "MIGRATION":
        return None
    seen = status["dual_write"]
    return DualWriteView(
        offset=seen["offset"],
        log_offset=status["log"]["offset"],
        lag_records=seen["lag_records"],
        behind_ms=seen["behind_ms"],
        blocking_ms=seen["blocking_ms"],
        divergence=seen["divergence"],
        lag_ms=seen["lag_ms"],
        multis_waiting=seen["multis_waiting"],
        reconciled_writes=seen["reconciled_writes"],
    )


def audit_schedule_view(snapshot: Snapshot, seen: Evidence) -> AuditScheduleView | None:
    if seen.audits is None:
        return None
    last = snapshot.dual_write_audits[0] if snapshot.dual_write_audits else None
    return AuditScheduleView.model_validate(
        {
            "every_s": seen.audits.every_s,
            "next_at": None if snapshot.audit_plan is None else snapshot.audit_plan.next_at,
            "last": None if last is None else last.id,
            "result": None if seen.audits.last is None else seen.audits.last.result,
            "finished_at": None if last is None else last.finished_at,
            "differences": None if seen.audits.last is None else seen.audits.last.different,
            "passed_at": snapshot.audit_passed_at,
            "diverged_twice": bool(seen.audits.diverged),
            "overdue": seen.audits.overdue_since is not None,
        }
    )


# --- rows -------------------------------------------------------------------------------------------------


def audit_view(run: AuditRun) -> AuditView:
    green = None if run.state in ("asked", "running", "stopped") else run.state == "done" and run.same is True
    return AuditView.model_validate(
        {
            "id": run.id,
            "migration": run.migration_id,
            "purpose": run.purpose,
            "engine": run.engine,
            "state": run.state,
            "green": green,
            "who": run.who,
            "asked_at": run.asked_at,
            "finished_at": run.finished_at,
            "families": [FamilyView(**each) for each in run.families],
            "seconds": run.seconds,
            "position": run.position,
            "rehearsal": run.rehearsal,
            "directory": run.directory,
            "problem": run.problem,
            "differences": f"/api/v1/audits/{run.id}/differences",
        }
    )


def event_view(event: PhaseEvent) -> EventView:
    return EventView(
        version=event.version,
        from_phase=Phase(event.from_phase),
        to_phase=Phase(event.to_phase),
        signal=PEOPLE.get(Signal(event.signal), event.signal.lower().replace("_", " ")),
        who=event.who,
        reason=event.reason,
        at=event.at,
        recorded_at=event.recorded_at,
        source=f"{event.source_run} {event.source_number}",
        verdict=_stored(event.verdict),
    )


def wish_view(wish: Wish) -> WishView:
    return WishView.model_validate(
        {
            "id": wish.id,
            "wish": WORDS[wish.name],
            "to": wish.to_phase,
            "who": wish.who,
            "reason": wish.reason,
            "at": wish.at,
            "state": wish.state,
            "answer": wish.answer,
            "settled_at": wish.settled_at,
            "verdict": None if wish.verdict is None else _stored(wish.verdict),
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


def group_view(migration_id: int, group: Group) -> FindingGroupView:
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
    return VerdictView(holds=verdict["holds"], checks=[check_view(each) for each in verdict["checks"]])
