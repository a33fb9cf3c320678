"""What the service answers, in lines for people at a terminal.

In:   the models of the answers. Out: lines.
Elsewhere: asking (client.py), the change report (change/text.py), the page (pages/).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from api.models import (
    AgreementView,
    AuditScheduleView,
    AuditView,
    BrokersView,
    BrokerView,
    ConditionView,
    ControllerView,
    DenialView,
    DualWriteView,
    EdgeView,
    EventView,
    FindingGroupView,
    GuardView,
    MigrationLine,
    MigrationView,
    OperationView,
    Problem,
    RaiseView,
    RemedyView,
    Report,
    RoadView,
    WaiverView,
    WayBackView,
)
from api.pages.words import clock, dash, span
from state_machine.policy.phase_table import PHASES, phases_where
from state_machine.policy.phases import Phase
from state_machine.policy.undo import IRREVERSIBLE

MOVING: Final = phases_where(lambda row: row.moving)
NO_RETURN_SAYS: Final = PHASES[Phase.FINALIZING].undo.does


def problem_lines(problem: Problem) -> list[str]:
    lines = [f"{problem.code} {problem.detail}"]
    lines += [condition_line(each) for each in problem.conditions]
    lines += [f"  {each.says} ({'.'.join(each.where)})" for each in problem.errors]
    return [*lines, problem.remedy]


def raises_lines(release: str, found: Sequence[RaiseView]) -> list[str]:
    """One decision after the other, in their order."""
    left = sum(not each.done for each in found)
    lines = [f"Kafka {release} stands for {len(found)} raises, {left} of them not done. Each is a decision of its own:"]
    for number, each in enumerate(found, 1):
        lines.append(f"{number}. {each.feature}: " + (f"done, {each.now}" if each.done else f"{each.now} to {each.to}"))
        if each.done:
            continue
        lines.append(f"   changes  {each.changes}")
        lines.append(f"   undo     {each.undo or 'none: it cannot be undone'}")
        lines += [f"   here     {fact}" for fact in each.facts]
        closed = [one for one in each.conditions if one.status != "True" and not each.holds]
        lines += [f"   closed {condition_line(one)}" for one in closed]
        lines += [f"   {each.approve}", f"   {each.command}"] if each.holds else []
    return [*lines, "nothing was raised"]


def agreement_lines(number: int, found: AgreementView, feature: str | None = None) -> list[str]:
    digest, of_it = found.digest, "" if feature is None else f" --feature {feature}"
    return [
        *found.says,
        f"digest {digest}",
        "nothing is approved yet; this approves exactly what is shown here:",
        f"  zk2kraft approve --migration {number} --to {found.to}{of_it} --digest {digest[:16]}",
    ]


def condition_line(condition: ConditionView) -> str:
    return f"  {condition.status:<7} {condition.name}: {condition.message}{_codes(condition)}"


def _codes(condition: ConditionView) -> str:
    """The findings behind a condition that is not True: each has a runbook."""
    return f"  [{' '.join(condition.codes)}]" if condition.codes and condition.status != "True" else ""


def migration_line(line: MigrationLine) -> str:
    return f"{line.id:>3}  {line.name}  {line.phase}  {line.waiting}"


def broker_line(broker: BrokerView) -> str:
    return f"broker {broker.id}  {broker.problem or ('ready' if broker.registered else 'not observed yet')}"


def gate_lines(edge: EdgeView) -> list[str]:
    state = "open" if edge.holds else "closed"
    lines = [f"{edge.trigger} to {edge.to} ({edge.by}): {state}"]
    lines += [condition_line(each) for each in edge.conditions]
    lines += [f"  {IRREVERSIBLE}: {NO_RETURN_SAYS}"] if edge.irreversible else []
    return [*lines, f"  {edge.command}"] if edge.command else lines


def operation_lines(operation: OperationView, events: Sequence[EventView]) -> list[str]:
    lines = [f"{operation.operation}: {operation.state} {operation.answer}".rstrip()]
    if operation.state == "refused" and operation.verdict is not None:
        lines += [condition_line(each) for each in operation.verdict.conditions if each.status != "True"]
    lines += [event_line(event) for event in events]
    began = any(event.to_phase == Phase.FINALIZING for event in events)
    return [*lines, f"{IRREVERSIBLE}: {NO_RETURN_SAYS}"] if began else lines


def event_line(event: EventView) -> str:
    when = clock(event.at, time.time())
    return f"  {when}  {event.from_phase} to {event.to_phase}  by {event.who}: {event.reason}"


def status_lines(view: MigrationView) -> list[str]:
    now, active_controller, undo = view.now, view.active_controller, view.undo
    since = "" if active_controller.since is None else f", for {span(now - active_controller.since)}"
    without = view.without_controller_s
    gap = "" if not view.last_gap_s else f"; last observed: {view.last_gap_s} s"
    window = "none yet" if view.last_window_ms is None else f"{view.last_window_ms} ms"
    lines = [
        f"{view.name}  {view.phase} for {span(now - view.since)}  (version {view.version})",
        f"  {view.waiting}",
        f"controller  {active_controller.says}{since}",
        f"without controller  {span(without) if without else 'not now'}; last takeover: {window}{gap}",
    ]
    lines += [f"{IRREVERSIBLE}  {undo.does}"] if undo.irreversible else []
    lines += [f"paused  {view.paused}"] if view.paused else []
    lines += [
        f"BLOCKED  {each.name}: {each.message}{_codes(each)}"
        for each in view.standing.conditions
        if each.status != "True"
    ]
    lines += [f"controller {each.node_id}  {_voter(each)}" for each in view.quorum]
    lines += [denial_line(each.node_id, denial, now) for each in view.quorum for denial in each.denials]
    lines += [broker_line(each) for each in view.brokers]
    lines += [divergence_line(view.dual_write)] if view.dual_write else []
    lines += [audit_line(view.audit_schedule, now)] if view.audit_schedule else []
    lines += road_lines(view.road) if view.road else []
    lines += [f"end of ZooKeeper  {end.says}"] if (end := view.zookeeper_end) else []
    lines += [line for group in view.finding_groups for line in group_lines(group)]
    lines += [f"observed  {span(now - view.observed_at)} ago"] if view.observed_at else ["observed  not yet"]
    return [*lines, f"undo from here  {undo.command or dash(None)}: {undo.does}; lost: {undo.lost}"]


def _voter(node: ControllerView) -> str:
    """Of ours its driver; stock has none."""
    if node.kind == "stock":
        return "stock: " + (node.problem or ("leads" if node.leads else f"follows, log end {node.log_end}"))
    return f"driver={node.driver}" if node.driver else str(node.problem)


def road_lines(road: RoadView) -> list[str]:
    """Every node that a rolling restart has begun with, and what people have agreed to."""
    lines = [f"log  {road.log_problem or road.migration_state}; controller {road.leader or dash(None)} leads"]
    for each in road.nodes:
        said = each.cause or each.instruction or each.detail
        took = f"  {each.took_s:.0f} s" if each.took_s else ""
        lines.append(f"{each.roll}  {each.role} {each.node_id}  {each.step}{took}  {said}".rstrip())
    lines += [remedy_line(each) for each in road.remedies]
    if road.soak_s is not None:
        lines.append(f"soak  {span(road.soak_s)}, {road.elections} elections, snapshots by {road.snapshots}")
    approval = road.approval
    if approval:
        lines.append(f"approved  {approval.to} by {approval.who}{'' if approval.counts else ' (does not count now)'}")
    lines += back_lines(road.back)
    lines += [f"guard  controller {each.node_id} {each.state}: {each.reason}" for each in _unproven(road)]
    lines += [waiver_line(each) for each in road.waivers]
    return [*lines, *([f"finalize was begun  {road.intent}"] if road.intent else [])]


def remedy_line(remedy: RemedyView) -> str:
    """Of a failed node."""
    may = "" if remedy.possible else f" (not possible now: {remedy.why_not})"
    return f"failed node  {remedy.command}{may}: {remedy.does}"


def back_lines(back: WayBackView | None) -> list[str]:
    """Readiness of the rollback, its cost and its loss."""
    if back is None:
        return []
    may = "possible" if back.possible else f"not possible now: {back.why_not}"
    took = "" if back.seconds is None else f", about {back.seconds:.0f} s"
    if back.at_least_s:
        took = f", at least {back.at_least_s:.0f} s by assumption, because none was measured"
    if not (back.restarts or back.again or back.controllers):
        return [f"rollback  {may}; restarts no node; lost: {'; '.join(back.lost) or 'nothing that ZooKeeper lacks'}"]
    lost = "; ".join(back.lost) or "directory assignments only"
    said = f"restarts {back.restarts}, with original files {back.again}{took}; lost: {lost}"
    if back.controllers:
        said = f"controllers {back.controllers} are ours again, {said}"
    gap = back.epoch_gap
    if gap is not None:
        said += f"; epoch gap {gap}" + (": the rollback repairs it" if gap else "")
    said += f"; go last, since nothing is known of them: {', '.join(back.unknown)}" if back.unknown else ""
    said += f"; left out by name: {', '.join(back.left_out)}" if back.left_out else ""
    return [f"rollback  {may}; {said}"]


def waiver_line(waiver: WaiverView) -> str:
    node = "" if waiver.node_id is None else f" of node {waiver.node_id}"
    return f"waived  {waiver.what}{node} by {waiver.owner}: {waiver.reason}"


def _unproven(road: RoadView) -> list[GuardView]:
    return [each for each in road.guards if each.state != "proven"]


def group_lines(group: FindingGroupView) -> list[str]:
    """Open findings of one code: the first few, and where all of them are."""
    lines = [f"{each.code}  {each.says}" for each in group.first]
    more = group.count - len(lines)
    return [*lines, f"  and {more:,} more of {group.code}; all are on {group.page}"] if more else lines


def denial_line(node: int, denial: DenialView, now: float) -> str:
    often = f"{denial.count} requests ({', '.join(denial.requests)}) in {span(now - denial.since)}"
    return (
        f"controller {node} denies {denial.principal} {denial.operation} on the cluster: {often}, "
        f"the last {span(now - denial.last)} ago from {denial.host}"
    )


def divergence_line(observed: DualWriteView) -> str:
    oldest = f", the oldest for {span(observed.behind_ms / 1000)}" if observed.behind_ms else ""
    blocking = f"; changes refused for {span(observed.blocking_ms / 1000)}" if observed.blocking_ms else ""
    return f"ZooKeeper lacks  {dash(observed.lag_records)} records{oldest}: {observed.divergence}{blocking}"


def audit_line(observed: AuditScheduleView, now: float) -> str:
    """The audits of dual-write in one line of the status."""
    if not observed.every_s:
        return "audits  off: `audit_every_s` is 0"
    last = "none has finished yet"
    if observed.last is not None and observed.finished_at is not None:
        ago = span(now - observed.finished_at)
        last = f"audit {observed.last} {observed.result} {ago} ago, {observed.differences} different"
    due = "now" if observed.next_at is None or observed.next_at <= now else f"in {span(observed.next_at - now)}"
    brokers = f"; brokers {observed.brokers} ({observed.brokers_said})" if observed.brokers else ""
    return f"audits  {last}{brokers}; the next one {due}"


def audit_lines(audit: AuditView) -> list[str]:
    outcome = audit.result or audit.state
    families = (
        f"     {each.family}: {each.compared} compared, {each.equal} equal, {each.expected} expected, "
        f"{each.different} different, {each.not_read} not read"
        for each in audit.families
    )
    head = f"{audit.id:>3}  {audit.purpose} by {audit.engine}: {outcome} {audit.problem}".rstrip()
    return [head, *families, *_broker_lines(audit.brokers)]


def _broker_lines(side: BrokersView | None) -> Iterator[str]:
    if side is None:
        return
    yield f"     brokers: {side.result}; {side.said}"
    yield from (f"     ZooKeeper stands alone: {each}" for each in side.zookeeper_alone)


def report_lines(report: Report) -> list[str]:
    lines = status_lines(report.migration)
    lines += [f"{each.phase}  {span(each.seconds)}" for each in report.phases]
    lines += [line for audit in report.audits for line in audit_lines(audit)]
    return lines + [f"not verified  {each}" for each in report.not_verified]


def phase_lines(phase: Phase | None) -> list[str]:
    if phase in MOVING:
        return [f"not done yet: the migration is in {phase}; `zk2kraft status` shows how it goes on"]
    return [f"the migration is in {phase}"] if phase else []
