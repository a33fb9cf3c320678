"""What gates after dual-write look at, put together from rows.

In:   a `Snapshot` and the time. Out: `FleetEvidence`; the digest that an approval is bound to.
Elsewhere: the gates (policy/gates_forward.py), the observation of the log (clusters/log_observer.py).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Mapping
from typing import Any, Final

import msgspec

from migrator.findings.finding import Occurrence
from migrator.findings.fleet import CONTROLLER_FILES_DIFFER
from migrator.findings.road import NO_FLEET, STOCK_WRITES_NOTHING
from migrator.fleet.roll import UNDER_WAY, RollStep
from migrator.model.features.raises import Raise
from migrator.model.values import MigrationState
from state_machine.clusters.log_observer import LogObservation
from state_machine.clusters.observe import Observation
from state_machine.evidence.file_watch import restart_occurrences
from state_machine.evidence.raised import feature_raise, plan_of_raise
from state_machine.facts.accepted import Limits
from state_machine.facts.approvals import ApprovalNow
from state_machine.facts.canary import CanaryFact
from state_machine.facts.engines import ControllerEngine
from state_machine.finish import give_up
from state_machine.finish.before_finalize import gate_since, is_waiting
from state_machine.policy.fleet_evidence import (
    FilesObserved,
    FleetEvidence,
    LevelsObserved,
    RestartChange,
    RestartsObserved,
    Roll,
    RollObserved,
    SoakObserved,
    VoterObserved,
)
from state_machine.policy.gates import Holder
from state_machine.policy.phase_table import PHASES, phases_where
from state_machine.policy.phases import Phase
from state_machine.rollback.plan import way_back
from state_machine.rows.documents import (
    CANARY,
    FILES,
    INTENT,
    LEVELS,
    LIMITS,
    RESTARTS,
    SOAK,
    FilesDocument,
    IntentDocument,
    LevelsDocument,
    RestartsDocument,
    SoakDocument,
    document,
)
from state_machine.rows.store import Snapshot, reached

LOG_FRESH_S: Final = 10.0
STUCK_S: Final = 60.0


def fleet_evidence(snapshot: Snapshot, now: float, wanted: Raise | None = None) -> FleetEvidence | None:
    """None before dual-write, but for brokers that join and that an inventory file names, and in a rollback that the
    driver carries out alone. In AUDIT, what a rollback loses, and nothing else.

    wanted: the raise of a feature that is asked for, in COMPLETED.
    """
    if snapshot.phase is Phase.AUDIT and not snapshot.inventory.has_stock:
        not_read = "it is not read in AUDIT"
        return FleetEvidence(fleet_problem=not_read, log_problem=not_read, back=way_back(snapshot, now))
    if not (snapshot.phase_row.operated or snapshot.led_back) or _is_without_fleet(snapshot):
        return None
    look = snapshot.observation
    log = LogObservation() if look is None else look.log
    files = document(snapshot, FILES, FilesDocument)
    intent = document(snapshot, INTENT, IntentDocument)
    limits = document(snapshot, LIMITS, Limits) or Limits()
    digest = digest_of(snapshot, wanted)
    fresh = log.known and now - log.at <= LOG_FRESH_S
    return FleetEvidence(
        fleet_problem="the files of the nodes were not read yet" if files is None else files.problem,
        log_problem="" if fresh else log.problem or f"it was last read {now - log.at:.0f} s ago",
        migration=log.migration,
        leader=log.leader,
        no_leader=log.no_leader,
        unled_s=None if look is None or look.unled is None else look.unled.seconds,
        kraft=tuple(each.id for each in log.brokers if each.mode == "KRaft"),
        zookeeper=tuple(each.id for each in log.brokers if each.mode != "KRaft"),
        not_ready=tuple(each.id for each in log.brokers if not each.ready),
        zookeeper_ids=() if look is None else look.zookeeper.brokers,
        gone_s=None if look is None or look.brokers_gone is None else look.brokers_gone.seconds,
        gone_rests_on="" if look is None or look.brokers_gone is None else look.brokers_gone.text,
        under_replicated=log.under_replicated,
        under_min_isr=log.under_min_isr,
        reassignments=log.reassignments,
        leaderless=log.leaderless,
        single=log.single,
        at_minimum=log.at_minimum,
        min_isr=log.min_isr,
        orphans=log.orphans,
        scram_at_stake=log.scram_at_stake,
        unassigned=tuple(each.id for each in log.brokers if each.unassigned_dirs or each.offline_dirs),
        settled_s=0.0 if look is None or look.settled is None else look.settled.seconds,
        settled_rests_on="" if look is None or look.settled is None else look.settled.text,
        lacking_s=None if look is None or look.lacking is None else look.lacking.seconds,
        lacking_leader=log.under_replicated_leader,
        dual_write_lag=None if look is None else _lag(look),
        migration_offset=None if look is None else look.zookeeper.migration_offset,
        replacing=None if look is None else _replacing(look),
        rolls={roll: roll_observed(snapshot, roll) for roll in Roll},
        voters=_voters(snapshot, log),
        files=None if files is None else _files(files, now),
        soak=_soak(snapshot, now),
        approval=_approval(snapshot, digest, now),
        limits=limits,
        backed_up=_backed_up(snapshot, now),
        intent=_intent(look) if intent is None or intent.withdrawn else intent.text,
        digest=digest,
        offline=tuple(each.id for each in log.brokers if each.offline_dirs),
        features=log.features,
        canary=document(snapshot, CANARY, CanaryFact),
        back=way_back(snapshot, now),
        guards=() if files is None else files.guards,
        levels=_levels(snapshot, log, now),
        raising=None if wanted is None else feature_raise(snapshot, wanted, now),
        restarts=_restarts(snapshot, now),
        stopped_for_it=give_up.stopped(snapshot),
        started_without=give_up.started(snapshot),
        named=None if files is None else files.named,
        waivers=() if files is None else tuple(each for each in files.waivers if now < each.end),
        now=now,
    )


def _is_without_fleet(snapshot: Snapshot) -> bool:
    """Brokers join by the hand of their operator."""
    if snapshot.phase is not Phase.BROKERS_JOINING or snapshot.joining:
        return False
    files = document(snapshot, FILES, FilesDocument)
    return files is None or files.code == NO_FLEET.code


def roll_observed(snapshot: Snapshot, roll: Roll) -> RollObserved:
    rows = snapshot.nodes_of(roll)
    return RollObserved(
        nodes=tuple(each.node_id for each in rows),
        whole=tuple(each.node_id for each in rows if each.step == RollStep.WHOLE),
        failed=tuple(each.node_id for each in rows if each.step == RollStep.FAILED),
        under_way=tuple(each.node_id for each in rows if RollStep(each.step) in UNDER_WAY),
        away=tuple(each.node_id for each in rows if reached(each) in UNDER_WAY),
    )


def _intent(look: Observation | None) -> str:
    """As ZooKeeper has it: a database that was restored may know of none."""
    return "" if look is None else look.zookeeper.intent


def _lag(look: Observation) -> int | None:
    """Records that ZooKeeper lacks. A leader of ours counts them; of stock, `/migration` tells."""
    status = None if look.active is None else look.active.status
    if status is not None and status.dual_write is not None and status.dual_write.lag_records is not None:
        return status.dual_write.lag_records
    offset = look.zookeeper.migration_offset
    if look.zookeeper.holder is Holder.UNKNOWN or offset is None or not look.log.known:
        return None
    return max(look.log.data_end - 1 - offset, 0)


def stuck_findings(look: Observation | None, stock: Container[int]) -> tuple[Occurrence, ...]:
    """Stock tries again every minute at most; a session that ended takes it some seconds.

    stock: controllers that were replaced. One of ours that leads and whose control port is silent is none of them.
    """
    lags = None if look is None else look.stock_lags
    if look is None or lags is None or look.stuck is None or look.stuck.seconds < STUCK_S:
        return ()
    if look.log.leader is None or look.log.leader not in stock:
        return ()
    return (STOCK_WRITES_NOTHING.found(node=look.log.leader, records=lags[0], seconds=round(look.stuck.seconds)),)


def _replacing(look: Observation) -> tuple[tuple[str, str], ...] | None:
    driver = None if look.active is None else look.active.driver
    if driver is None or driver.replacing is None:
        return None
    return tuple((str(each["code"]), str(each["says"])) for each in driver.replacing)


def _voters(snapshot: Snapshot, log: LogObservation) -> tuple[VoterObserved, ...]:
    silent = {} if snapshot.observation is None else snapshot.observation.silent()
    whole = {each.node_id for each in snapshot.stock_rows if each.step == RollStep.WHOLE}
    replaced = whole & snapshot.replaced
    committed = log.high_watermark > log.migration_at
    found = []
    for each in log.voters:
        registered = log.controller(each.id)
        answered = next((one for one in log.software if one.id == each.id), None)
        said = registered if answered is None else answered
        found.append(
            VoterObserved(
                id=each.id,
                stock=each.id in replaced and each.id in silent,
                lag=each.lag,
                ready=None if said is None else said.zk_migration_ready,
                behind_record=committed and each.log_end > log.migration_at,
                caught_up_ms_ago=each.caught_up_ms_ago,
            )
        )
    return tuple(found)


def _age(at: float, now: float) -> float:
    return now - at if now >= at else math.inf


def _files(files: FilesDocument, now: float) -> FilesObserved:
    oldest = min(files.read_at, key=files.read_at.__getitem__, default="")
    age = _age(files.read_at.get(oldest, files.at), now)
    return FilesObserved(
        age,
        files.drifted,
        files.not_read,
        files.with_flag,
        files.without_flag,
        files.with_zookeeper,
        files.forbidden,
        files.forbidden_codes,
        oldest,
        files.limit_s,
        differing=tuple((each.node, CONTROLLER_FILES_DIFFER.found(**each.values).text) for each in files.differing),
        with_tiers=files.with_tiers,
        without_tiers=files.without_tiers,
        unjoined=files.unjoined,
    )


def _restarts(snapshot: Snapshot, now: float) -> RestartsObserved | None:
    found = document(snapshot, RESTARTS, RestartsDocument)
    if found is None:
        return None
    age = _age(found.at if found.oldest_at is None else found.oldest_at, now)
    later = [row.node_id for row in snapshot.road if row.step == RollStep.WHOLE and row.changed_at >= found.at]
    anew = f"brokers are compared anew, since node {later[-1]} was restarted" if later else ""
    changes = tuple(map(_change, restart_occurrences(found)))
    return RestartsObserved(age, found.problem or anew, changes, found.limit_s)


def _change(found: Occurrence) -> RestartChange:
    """Whose restart it is, as a waiver names it."""
    return RestartChange(found.code, found.values.get("broker"), found.text)


def _soak(snapshot: Snapshot, now: float) -> SoakObserved | None:
    soak = document(snapshot, SOAK, SoakDocument)
    if soak is None or not snapshot.phase_row.soaked:
        return None
    age = max(now - soak.began, 0.0) if soak.counted is None else soak.counted.seconds
    last = max((each.changed_at for each in snapshot.nodes_of(Roll.SOAK)), default=soak.began)
    given_up = document(snapshot, INTENT, IntentDocument)
    last = max(last, given_up.at) if given_up is not None and given_up.withdrawn else last
    return SoakObserved(
        age_s=age,
        rests_on="" if soak.counted is None else soak.counted.text,
        missed_s=max(now - soak.began - age, 0.0),
        leaders=soak.leaders,
        elections=soak.elections,
        snapshots=tuple(sorted(int(each) for each in soak.snapshots)),
        not_listed=soak.not_listed,
        quiet_s=max(now - max(last, soak.elected_at), 0.0),
    )


def _levels(snapshot: Snapshot, log: LogObservation, now: float) -> LevelsObserved | None:
    """Voters by their own answer, and every registration, which stock compares before it raises the level."""
    answers = document(snapshot, LEVELS, LevelsDocument)
    if answers is None or snapshot.phase is not Phase.COMPLETED:
        return None
    ranges = {f"voter {node}": found for node, found in answers.voters.items()}
    unknown = [f"voter {node}: {why}" for node, why in answers.silent.items()]
    for name, registered in (
        *((f"broker {each.id}", each.levels) for each in log.brokers),
        *((f"controller {each.id}", each.levels) for each in log.controllers),
    ):
        if registered is None:
            unknown.append(f"{name} registered no range")
        else:
            ranges[name] = registered
    age = now - answers.at if now >= answers.at else math.inf
    return LevelsObserved(answers.finalized, ranges, tuple(unknown), age)


def next_phase(phase: Phase, engine: ControllerEngine = ControllerEngine.OURS) -> Phase:
    """On the way forward; the last one stays."""
    forward = phases_where(lambda row: row.forward, engine)
    at = forward.index(phase) if PHASES[phase].forward else len(forward) - 1
    return forward[min(at + 1, len(forward) - 1)]


def _backed_up(snapshot: Snapshot, now: float) -> float | None:
    """The newest one for the next step, taken since this phase began."""
    wanted = Phase.FINALIZING if is_waiting(snapshot) else next_phase(snapshot.phase, snapshot.engine)
    taken = [each.seen_at for each in snapshot.backups if each.kind == "gate" and each.phase == wanted]
    newest = max(taken, default=None)
    return None if newest is None or newest < gate_since(snapshot) else max(now - newest, 0.0)


def _approval(snapshot: Snapshot, digest: str, now: float) -> ApprovalNow | None:
    approval = snapshot.approval
    if approval is None or approval.at < gate_since(snapshot):
        return None
    if approval.to_phase not in phases_where(lambda row: bool(row.approval)):
        return None
    return ApprovalNow(approval.fact, digest, now)


def plan_of(snapshot: Snapshot, wanted: Raise | None = None) -> dict[str, Any]:
    """What an approver agrees to: who is where, with which files and processes. wanted: in COMPLETED, the raise."""
    log = LogObservation() if snapshot.observation is None else snapshot.observation.log
    files = document(snapshot, FILES, FilesDocument)
    checksums: Mapping[str, str] = {} if files is None else files.checksums
    if snapshot.phase is Phase.COMPLETED:
        return _plan_of_version_raise(snapshot, log) if wanted is None else plan_of_raise(snapshot, wanted)
    return {
        "cluster": snapshot.migration.cluster_id,
        "state": log.migration,
        "fleet": "" if files is None else files.fleet,
        "files": dict(sorted(checksums.items())),
        "brokers": [[each.id, each.mode, each.incarnation] for each in log.brokers],
        "controllers": [[each.id, each.incarnation, each.zk_migration_ready] for each in log.controllers],
        "zookeeper_brokers": list(() if snapshot.observation is None else snapshot.observation.zookeeper.brokers),
        "steps": [
            f"controller {node}: stop, write the file without the flag, start" for node in snapshot.inventory.node_ids
        ],
    }


def _plan_of_version_raise(snapshot: Snapshot, log: LogObservation) -> dict[str, Any]:
    """Of metadata.version, in COMPLETED."""
    levels = _levels(snapshot, log, math.inf)
    return {
        "cluster": snapshot.migration.cluster_id,
        "state": log.migration,
        "metadata_version": None if levels is None else [levels.finalized, levels.target],
        "supported": {} if levels is None else dict(sorted(levels.ranges.items())),
        "brokers": [[each.id, each.incarnation] for each in log.brokers],
        "controllers": [[each.id, each.incarnation] for each in log.controllers],
        "steps": ["UpdateFeatures to the active controller, upgrade only; it cannot be undone"],
    }


def digest_of(snapshot: Snapshot, wanted: Raise | None = None) -> str:
    """SHA-256 of that, in hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode(plan_of(snapshot, wanted), order="deterministic")).hexdigest()


def is_final(log: LogObservation) -> bool:
    return log.known and log.migration == MigrationState.POST_MIGRATION.name
