"""What the gates may look at, put together from rows: the last look, the last check, the last audits.

In:   a `Snapshot` and the time.
Out:  `Evidence`, with ages instead of times.
Elsewhere: the gates (gates.py), how each part came into the rows (observations.py, inspections.py).
Handlers and the loop ask the same function, so a page, a refusal and a history row cannot disagree.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from migrator.control_api.operations import DriverOperation
from migrator.control_api.states import State
from migrator.control_api.status import BrokerStatus, ControllerStatus, DriverStatus, DualWriteStatus
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.service import INSPECTION_FAILED, REHEARSAL_NOT_PASSED
from migrator.model.features.raises import Raise
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.audits.audit_schedule import scheduled_audits
from state_machine.clusters.observe import Observation
from state_machine.evidence.after_dual_write import fleet_evidence
from state_machine.evidence.later_seen import later_seen
from state_machine.evidence.stock_driver import brokers_of_stock, stock_driver
from state_machine.finish.before_finalize import is_begun
from state_machine.policy.gates import BrokerObservation, Evidence, Holder, Inspection
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase, Trigger
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import AuditRun

CHECK_GO: Final = (0, 1)
"""Exit codes of `zk2kraft check` with which a migration may go on: nothing found, or warnings only. They count only
together with its document: a process can end with 1 for many reasons.
"""


def evidence(snapshot: Snapshot, now: float, wanted: Raise | None = None) -> Evidence:
    """What is known at `now`. wanted: the raise of a feature that is asked for."""
    known = Evidence(
        observation_age_s=None,
        engine=snapshot.engine,
        paused=snapshot.migration.paused,
        controllers=snapshot.inventory.node_ids,
        silent=dict.fromkeys(snapshot.inventory.node_ids, "not observed yet"),
        file_faults=file_faults_seen(snapshot),
        brokers=brokers_seen(snapshot),
        check=_check(snapshot, now),
        rehearsal=None if snapshot.rehearsal is None else _rehearsed(snapshot.rehearsal, now),
        confirmation=_confirmation(snapshot, now),
        copy_audit=_copy_audit(snapshot, now),
        audits=scheduled_audits(snapshot, now) if PHASES[snapshot.phase].audited and not is_begun(snapshot) else None,
        takeover_asked=_takeover_asked(snapshot),
        rival=None if snapshot.rival is None else snapshot.rival.found().text,
        road=fleet_evidence(snapshot, now, wanted),
    )
    look = snapshot.observation
    if look is None:
        return replace(known, silent={}) if snapshot.inventory.has_stock else known
    known = replace(
        known,
        observation_age_s=_age(now, look.at),
        later=later_seen(look, snapshot.phase),
        silent={node: why for node, why in look.silent().items() if node not in snapshot.replaced},
        unreached={node: why for node, why in look.unreached().items() if node not in snapshot.replaced},
        holder=look.zookeeper.holder,
        holder_id=look.zookeeper.holder_id,
        committed_migration=_committed(look),
        log_in_migration=look.log_in_migration,
    )
    if snapshot.inventory.has_stock:
        return _with_stock(known, look)
    status = None if look.active is None else look.active.status
    if status is None or status.driver is None:
        return known if look.answering is None else replace(known, driver_reason="no controller that answers leads")
    return _with_driver(known, status, status.driver)


def asked_by(known: Evidence, who: str) -> Evidence:
    """For the gate of an operation: an approval counts only when somebody else gave it."""
    return known if known.road is None else replace(known, road=replace(known.road, asker=who))


def _age(now: float, then: float) -> float:
    """Seconds since then. When the clock went back nobody knows: that is as old as can be, never fresh."""
    return now - then if now >= then else math.inf


def _with_driver(known: Evidence, status: ControllerStatus, driver: DriverStatus) -> Evidence:
    finding, gate = driver.finding, status.gate
    return replace(
        known,
        driver_state=driver.state,
        driver_state_s=driver.since_ms / 1000,
        driver_alarms=tuple(each["code"] for each in driver.alarms),
        driver_reason=driver.reason,
        driver_finding=None if finding is None else (finding["code"], finding["says"]),
        driver_gate=None if gate is None else Verdict(tuple(map(Condition.of_json, gate["conditions"]))),
        can_abort=driver.can_abort,
        can_roll_back=driver.can_roll_back,
        lagging=None if status.dual_write is None else _lagging(status.dual_write),
    )


def _with_stock(known: Evidence, look: Observation) -> Evidence:
    """What is seen of Kafka's own controllers stands in the place of what a driver of ours tells."""
    driver = stock_driver(look)
    return replace(
        known,
        driver_state=driver.state,
        driver_reason=driver.reason,
        can_roll_back=driver.state == State.DUAL_WRITE,
        log_in_migration=look.log.known and look.log.migration == MigrationState.MIGRATION.name,
    )


def _lagging(dual_write: DualWriteStatus) -> tuple[int, int, float] | None:
    """None: the mirror is made anew just now."""
    partitions = dual_write.lagging_partitions
    return None if partitions is None else (partitions, dual_write.lagging_operations or 0, dual_write.lagging_s or 0.0)


def file_faults_seen(snapshot: Snapshot) -> dict[int, tuple[str, str]]:
    """By node id: finding code and words, as the last check found them."""
    faults = {} if snapshot.check is None else snapshot.check["file_faults"]
    return {int(node): (fault["code"], fault["says"]) for node, fault in faults.items()}


def brokers_seen(snapshot: Snapshot) -> tuple[BrokerObservation, ...]:
    """Everybody who should be there: brokers of the inventory, of ZooKeeper, and of the controllers."""
    look = snapshot.observation
    if snapshot.inventory.has_stock and look is not None:
        return brokers_of_stock(look, tuple(each.id for each in snapshot.inventory.brokers))
    status = None if look is None or look.answering is None else look.answering.status
    registered = {} if status is None else {each.id: each for each in status.brokers}
    live = () if look is None else look.zookeeper.brokers
    wanted = {each.id for each in snapshot.inventory.brokers} | set(live) | set(registered)
    absent = None if status is None else False
    return tuple(_broker(broker, registered.get(broker), absent) for broker in sorted(wanted))


def _broker(broker: int, status: BrokerStatus | None, absent: bool | None) -> BrokerObservation:
    if status is None:
        return BrokerObservation(broker, registered=absent)
    why = status.not_updated
    return BrokerObservation(
        broker,
        mode=status.mode,
        fenced=status.fenced,
        heartbeat_age_ms=status.heartbeat_age_ms,
        not_updated=f"{why.reason} (for {why.since_ms / 1000:.0f} s)" if why else "",
    )


def _takeover_asked(snapshot: Snapshot) -> str:
    """By the rows, or because a driver keeps it."""
    advance = next((operation for operation in snapshot.operations if operation.name == Trigger.ADVANCE), None)
    if snapshot.phase is Phase.READY and advance is not None:
        return f"{advance.who} requested it"
    look = snapshot.observation
    kept = [
        each.node_id
        for each in (() if look is None else look.controllers)
        if DriverOperation.TAKE_OVER in (each.operations or ())
    ]
    return f"the driver of controller {kept[0]} keeps it" if kept else ""


def _committed(look: Observation) -> bool | None:
    """Whether `/migration` names a log that something was committed to; None when ZooKeeper did not say."""
    if look.zookeeper.holder is Holder.UNKNOWN:
        return None
    offset = look.zookeeper.migration_offset
    return offset is not None and offset >= 0


def _check(snapshot: Snapshot, now: float) -> Inspection | None:
    if snapshot.check is None or snapshot.checked_at is None:
        return None
    found = snapshot.check["findings"]
    blocking = [each for each in found if each.get("severity") == "blocks"]
    said = f"blocking findings: {len(blocking)}, warnings: {len(found) - len(blocking)}" if found else "nothing found"
    shown = "; ".join(str(each["says"]).removesuffix(".") for each in blocking[:2])
    if snapshot.check["problem"]:
        said, shown = "it gave no result", snapshot.check["problem"]
    return Inspection(
        passed=not snapshot.check["problem"] and snapshot.check["exit"] in CHECK_GO,
        age_s=_age(now, snapshot.checked_at),
        said=f"{said}; {shown}" if shown else said,
        codes=tuple(sorted({each["code"] for each in blocking})) or (INSPECTION_FAILED.code,),
    )


def _audited(run: AuditRun, now: float) -> Inspection:
    """A finished audit: what it compared, and whether it was passed."""
    age = _age(now, run.finished_at or run.asked_at)
    if run.state == "failed":
        return Inspection(passed=False, age_s=age, said=run.problem, codes=(AUDIT_CANNOT_READ.code,))
    compared, different, not_read = (sum(each[key] for each in run.families) for key in _COUNTS)
    said = f"{compared} keys compared by {run.engine}, {different} different, {not_read} not read"
    passed = run.same is True and not not_read
    codes = () if passed else (REHEARSAL_NOT_PASSED.code,)
    return Inspection(passed=passed, age_s=age, said=said, codes=codes, disagrees=different > 0)


def _confirmation(snapshot: Snapshot, now: float) -> Inspection | None:
    """Of rehearsals that the quick engine judged; one that Spark itself judged needs none."""
    run, rehearsal = snapshot.confirmation, snapshot.rehearsal
    if run is None or rehearsal is None or rehearsal.engine == run.engine:
        return None
    return _audited(run, now)


def _rehearsed(run: AuditRun, now: float) -> Inspection:
    """As old as what it read: its row was made just before the reading began."""
    found = _audited(run, now)
    return replace(found, age_s=_age(now, run.asked_at), ended_s=found.age_s)


_COUNTS: Final = ("compared", "different", "not_read")


def _copy_audit(snapshot: Snapshot, now: float) -> Inspection | None:
    """The driver's own audit before the commit; after a restart, one that was made since this phase began."""
    look = snapshot.observation
    status = None if look is None or look.active is None else look.active.status
    report = None if status is None else status.audit
    if report is not None:
        compared, different, not_read = (sum(each[key] for each in report["families"]) for key in _COUNTS)
        said = f"{compared} keys compared by the driver, {different} different, {not_read} not read"
        return Inspection(passed=bool(report["same"]), age_s=0.0, said=said)
    run = snapshot.copy_audit
    if run is None or run.finished_at is None or run.finished_at < snapshot.migration.since:
        return None
    return _audited(run, now)
