"""What has to hold before each step from dual-write to the end.

In:   `Evidence` with its `road`. Out: a `Verdict`.
Elsewhere: gates before dual-write (gates.py), which gate guards which edge (phases.py), what is looked at
(road_observations.py).
Source: Kafka 3.9 `ActivationRecordsGenerator.recordsForNonEmptyLog` finalizes by the flag of the one node that becomes
active, so that the first start without it decides for the whole cluster.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from migrator.control_api.states import State
from migrator.findings.fleet import GUARD_NOT_PROVEN
from migrator.findings.road import (
    BACKUP_FAILED,
    CANARY_OVER_BUDGET,
    FILE_DRIFTED,
    FILE_OF_BEFORE_LOST,
    FILES_NOT_READ,
    FINALIZE_NOT_APPROVED,
    LOG_NOT_OBSERVED,
    LOSS_NOT_ACCEPTED,
    NO_FLEET,
    SOAK_WITHOUT_DISK,
)
from migrator.findings.service import AUDIT_OVERDUE, NOT_OBSERVED
from migrator.model.levels import level_name
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.audit_observations import schedule_checks
from state_machine.policy.gates import (
    Evidence,
    Holder,
    cluster_is_free,
    controllers_answer,
    driver_text,
    not_paused,
    observed_at,
)
from state_machine.policy.road_observations import LevelsObserved, RoadEvidence, Roll, WayBack

APPROVAL_S: Final = 4 * 3600.0
AUDIT_FRESH_S: Final = 600.0
FILES_FRESH_S: Final = 120.0
LAG_MAX: Final = 0
CANARY_FRESH_S: Final = 30.0
LEVELS_FRESH_S: Final = 60.0
_CANARY: Final = (CANARY_OVER_BUDGET.code,)
PROVEN: Final = "proven"

UNKNOWN: Final = RoadEvidence(
    fleet_problem="the service has not looked yet", log_problem="the service has not looked yet"
)


def road_of(evidence: Evidence) -> RoadEvidence:
    return evidence.road or UNKNOWN


# --- conditions that several gates share ------------------------------------------------------------------


def _read(road: RoadEvidence, said: str) -> str:
    """What was read in the log; while the log cannot be read, that it is unknown."""
    return f"unknown: {road.log_problem}" if road.log_problem else said


def _all_voters(road: RoadEvidence, words: str) -> str:
    number = len(road.voters)
    return f"{number} of {number} voters {words}" if number else "no voter is known"


def log_is_observed(road: RoadEvidence) -> Condition:
    said = road.log_problem or "the service has read every committed record"
    return Condition("the metadata log is observed", not road.log_problem, said, (LOG_NOT_OBSERVED.code,))


def fleet_is_operable(road: RoadEvidence) -> Condition:
    said = road.fleet_problem or "the inventory names every broker and controller"
    return Condition("brokers and controllers can be operated", not road.fleet_problem, said, (NO_FLEET.code,))


def replicas_are_whole(road: RoadEvidence) -> tuple[Condition, ...]:
    """Before any restart."""
    known = not road.log_problem
    moving = road.reassignments
    return (
        Condition(
            "no partition is under-replicated or without a leader",
            known and not road.under_replicated and not road.leaderless,
            _read(
                road,
                f"under-replicated partitions: {road.under_replicated}; partitions without a leader: {road.leaderless}",
            ),
        ),
        Condition(
            "no partition is under its minimum ISR",
            known and not road.under_min_isr,
            _read(road, f"partitions under their minimum ISR: {road.under_min_isr}"),
        ),
        Condition(
            "no partition is being reassigned",
            known and not moving,
            _read(road, f"partitions being reassigned: {moving}"),
        ),
    )


def replicas_are_settled(road: RoadEvidence) -> Condition:
    """settle_s is configured; the message prints it."""
    least = road.limits.settle_s
    return Condition(
        f"nothing was under-replicated for {least:g} s",
        not road.log_problem and road.settled_s >= least,
        _read(road, f"every partition has been fully replicated for {road.settled_s:.0f} s"),
    )


def _brokers(count: int) -> str:
    return "1 broker is" if count == 1 else f"{count} brokers are"


def every_broker_is_ready(road: RoadEvidence) -> Condition:
    registered = len(road.kraft) + len(road.zookeeper)
    said = (
        f"brokers {list(road.not_ready)} are fenced or shutting down"
        if road.not_ready
        else f"{_brokers(registered)} registered, none is fenced"
    )
    known = not road.log_problem and registered > 0
    return Condition("every registered broker is unfenced", known and not road.not_ready, _read(road, said))


def zookeeper_follows(road: RoadEvidence) -> Condition:
    lag = road.dual_write_lag
    said = "the lag of dual-write is not known" if lag is None else f"ZooKeeper is {lag} records behind the log"
    return Condition("ZooKeeper has every committed change", lag is not None and lag <= LAG_MAX, said)


def _leads(road: RoadEvidence) -> str:
    if road.leader is None:
        return "no controller leads"
    return f"controller {road.leader} leads, and every voter has its log"


def voters_follow(road: RoadEvidence) -> Condition:
    """Before a controller is stopped, a majority must hold without it."""
    behind = [
        f"voter {each.id} {'has never fetched' if each.lag is None else f'is {each.lag} records behind'}"
        for each in road.voters
        if each.lag != 0
    ]
    known = not road.log_problem and road.leader is not None and bool(road.voters)
    said = "; ".join(behind) if behind else _leads(road)
    return Condition("every voter has what is committed", known and not behind, _read(road, said))


def every_registration_is_kraft(road: RoadEvidence) -> Condition:
    """Fenced ones too: a registration may come back as it was."""
    left = list(road.zookeeper)
    said = f"brokers {left} are in ZooKeeper mode" if left else f"{_brokers(len(road.kraft))} in KRaft mode"
    known = not road.log_problem and bool(road.kraft)
    return Condition("every registered broker is in KRaft mode", known and not left, _read(road, said))


def directories_are_assigned(road: RoadEvidence) -> Condition:
    """Kafka finds the partitions of a failed directory by the assigned directory only (`handleDirectoriesOffline`)."""
    said = (
        f"brokers {list(road.unassigned)} have replicas without an assigned directory"
        if road.unassigned
        else "no registered broker has a replica without an assigned directory"
    )
    if road.orphans:
        said += f"; {road.orphans} replicas are on brokers that are not registered"
    known = not road.log_problem
    return Condition(
        "every replica has a directory of a registered broker",
        known and not road.unassigned and not road.orphans,
        _read(road, said),
    )


def files_are_as_rendered(road: RoadEvidence) -> Condition:
    files = road.files
    if files is None:
        return Condition("every file is as rendered", False, "the service has read no file yet", (FILE_DRIFTED.code,))
    unread, waived = not_read(road)
    wrong = [*files.drifted, *(f"the file of {each} could not be read" for each in unread)]
    fresh = files.age_s < FILES_FRESH_S
    said = "; ".join(wrong) if wrong else f"every file was as rendered {files.age_s:.0f} s ago"
    codes = (FILE_DRIFTED.code, *((FILES_NOT_READ.code,) if unread else ()))
    return Condition("every file is as rendered", fresh and not wrong, "; ".join((said, *waived)), codes)


def not_read(road: RoadEvidence) -> tuple[list[str], list[str]]:
    """Files that are not read and not waived; the waivers of the others, in words."""
    left, waived = [], []
    for each in () if road.files is None else road.files.not_read:
        number = each.partition(":")[0].rpartition(" ")[2]  # `broker 1: /etc/...: why`
        waiver = road.waiver(FILES_NOT_READ.code, int(number)) if number.isdecimal() else None
        if waiver is None:
            left.append(each)
        else:
            waived.append(f"{each.partition(':')[0]} is not read: waived by {waiver.owner} ({waiver.reason})")
    return left, waived


def guards_are_proven(road: RoadEvidence) -> tuple[Condition, ...]:
    """One condition per host: a stock controller that starts without the flag could end the migration."""
    fresh = road.files is not None and road.files.age_s < FILES_FRESH_S
    if not road.guards or not fresh:
        said = "the service read no host in the last 2 minutes"
        return (Condition("the guard of every controller is proven", False, said, (GUARD_NOT_PROVEN.code,)),)
    return tuple(
        or_waived(
            road,
            Condition(
                f"the guard of controller {each.node} is proven",
                each.state == PROVEN,
                f"{each.state}: {each.reason}",
                (GUARD_NOT_PROVEN.code,),
            ),
            each.node,
        )
        for each in road.guards
    )


def or_waived(road: RoadEvidence, condition: Condition, node: int | None = None) -> Condition:
    """The condition, or that somebody accepted until when and why that it is not True."""
    if condition.holds:
        return condition
    for what in (*condition.codes, condition.name):
        waiver = road.waiver(what, node)
        if waiver is not None:
            end = datetime.fromtimestamp(waiver.end, UTC).isoformat().replace("+00:00", "Z")
            said = f"waived by {waiver.owner} until {end} ({waiver.reason}); {condition.message}"
            return Condition(condition.name, True, said, condition.codes)
    return condition


def canary_is_well(road: RoadEvidence) -> tuple[Condition, ...]:
    """Nothing where the inventory wants no canary traffic."""
    canary = road.canary
    if canary is None:
        return ()
    share = canary.failed / canary.sent if canary.sent else 0.0
    reasons = [
        canary.problem,
        f"its figures are {canary.age_s:.0f} s old" if canary.age_s > CANARY_FRESH_S else "",
        f"partitions {list(canary.silent)} never answered" if canary.silent else "",
        f"{canary.failed} of {canary.sent} records failed" if share > canary.errors_max else "",
        f"a record has waited for {canary.waiting_s:.0f} s" if canary.waiting_s > canary.stall_s else "",
    ]
    against = "; ".join(filter(None, reasons))
    said = f"{canary.failed} of {canary.sent} records failed in ten minutes, the slowest took {canary.longest_s:.1f} s"
    condition = Condition("canary traffic is within its error budget", not against, against or said, _CANARY)
    return (or_waived(road, condition),)


def audit_is_fresh(evidence: Evidence) -> Condition:
    last = None if evidence.audits is None else evidence.audits.last
    if last is None:
        return Condition(
            "the last audit passed, under 10 minutes ago", False, "no audit has finished yet", (AUDIT_OVERDUE.code,)
        )
    fresh = last.result == "passed" and last.age_s < AUDIT_FRESH_S
    said = f"{last.said} ({last.age_s:.0f} s ago)"
    return Condition("the last audit passed, under 10 minutes ago", fresh, said, (AUDIT_OVERDUE.code,))


def backup_is_taken(road: RoadEvidence) -> Condition:
    said = (
        "there is no backup yet" if road.backed_up is None else f"the last backup was made {road.backed_up:.0f} s ago"
    )
    return Condition(
        "ZooKeeper, the metadata log and the files are backed up",
        road.backed_up is not None,
        said,
        (BACKUP_FAILED.code,),
    )


def claim_is_ours(evidence: Evidence) -> Condition:
    """Stock controllers have the node ids of ours, so that the claim of either counts."""
    said = f"the holder is {evidence.holder}" + ("" if evidence.holder_id is None else f" (node {evidence.holder_id})")
    return Condition("/controller is held by this quorum", evidence.holder is Holder.OURS, said)


def is_approved(road: RoadEvidence, phase: str) -> Condition:
    """By another person than the one who asks, as things are now, within four hours."""
    name = f"another person approved {phase}"
    codes = (FINALIZE_NOT_APPROVED.code,)
    approval, hours = road.approval, APPROVAL_S / 3600
    if approval is None:
        return Condition(name, False, "there is no approval yet; approve with `zk2kraft approve`", codes)
    if approval.age_s > APPROVAL_S:
        return Condition(name, False, f"the approval by {approval.who} is older than {hours:g} h", codes)
    if not approval.fits:
        return Condition(name, False, f"the plan or the evidence changed after {approval.who} approved", codes)
    if road.asker == approval.who and not road.limits.single_operator:
        return Condition(name, False, f"{approval.who} requested it and approved it", codes)
    alone = " (single_operator is on)" if road.limits.single_operator else ""
    return Condition(name, True, f"{approval.who} approved it {approval.age_s / 60:.0f} min ago{alone}", codes)


def _roll_is_complete(road: RoadEvidence, roll: Roll, name: str) -> Condition:
    observed = road.roll(roll)
    return Condition(name, observed.complete, observed.text)


def every_broker_is_present(evidence: Evidence) -> Condition:
    """Before the takeover a broker lives in ZooKeeper. A fenced registration in the log harms nobody by then."""
    live, wanted = set(road_of(evidence).zookeeper_ids), {each.id for each in evidence.brokers}
    missing = sorted(wanted - live)
    known = evidence.holder is not Holder.UNKNOWN and bool(wanted)
    said = f"brokers {missing} are not" if missing else f"{_brokers(len(live))} there"
    return Condition("every broker is in /brokers/ids", known and not missing, said if known else "no broker is known")


def a_broker_is_controller(evidence: Evidence) -> Condition:
    said = f"the holder is {evidence.holder}" + ("" if evidence.holder_id is None else f" (node {evidence.holder_id})")
    return Condition("a ZooKeeper-mode broker is controller", evidence.holder is Holder.ZOOKEEPER_BROKER, said)


def may_go_on_joining(evidence: Evidence) -> tuple[Condition, ...]:
    """Before a broker is restarted with the migration settings; its partitions are those that ZooKeeper has."""
    road = road_of(evidence)
    return (
        log_is_observed(road),
        every_broker_is_present(evidence),
        a_broker_is_controller(evidence),
        *replicas_are_whole(road),
    )


# --- gates ------------------------------------------------------------------------------------------------


def may_join_brokers(evidence: Evidence) -> Verdict:
    """BROKERS_JOINING by the service: with actuators, and nothing amiss before the first restart."""
    if evidence.road is None:
        said = "no inventory file names them: restart them yourself, and the phase ends by itself"
        return Verdict((Condition("brokers and controllers can be operated", False, said, (NO_FLEET.code,)),))
    road = evidence.road
    begun = road.roll(Roll.JOIN)
    return Verdict(
        (
            not_paused(evidence),
            cluster_is_free(evidence),
            observed_at(evidence),
            controllers_answer(evidence),
            fleet_is_operable(road),
            Condition(
                "the driver waits for brokers", evidence.driver_state == State.WAIT_BROKERS, driver_text(evidence)
            ),
            *may_go_on_joining(evidence),
            Condition(
                "the rolling restart is not begun yet", not begun.nodes, begun.text if begun.nodes else "it is not"
            ),
        )
    )


def may_roll_brokers(evidence: Evidence) -> Verdict:
    """DUAL_WRITE to ROLLING_BROKERS: proven by audits, and nothing is amiss before the first restart."""
    road = road_of(evidence)
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            *schedule_checks(evidence.audits),
            Condition("the driver is in dual-write", evidence.driver_state == State.DUAL_WRITE, driver_text(evidence)),
            fleet_is_operable(road),
            log_is_observed(road),
            every_broker_is_ready(road),
            *replicas_are_whole(road),
            zookeeper_follows(road),
            backup_is_taken(road),
        )
    )


def may_replace_controllers(evidence: Evidence) -> Verdict:
    """ROLLING_BROKERS to REPLACING_CONTROLLERS: no ZooKeeper-mode broker is left for stock's dual-write to hurt."""
    road = road_of(evidence)
    against = None if road.replacing is None else "; ".join(f"{code} {says}" for code, says in road.replacing)
    offset = road.migration_offset
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            *schedule_checks(evidence.audits),
            log_is_observed(road),
            fleet_is_operable(road),
            _roll_is_complete(road, Roll.KRAFT, "every broker was restarted into KRaft mode"),
            every_registration_is_kraft(road),
            directories_are_assigned(road),
            every_broker_is_ready(road),
            *replicas_are_whole(road),
            zookeeper_follows(road),
            Condition(
                "/migration has an offset above 0 (at -1 stock stays inactive)",
                offset is not None and offset > 0,
                "/migration has no offset" if offset is None else f"the offset is {offset}",
            ),
            claim_is_ours(evidence),
            voters_follow(road),
            Condition(
                "nothing in the log or in ZooKeeper stops a stock controller",
                against == "",
                "not known: no migrating controller reports it"
                if against is None
                else against or "no obstacle was found",
                tuple(sorted({code for code, _ in road.replacing or ()})),
            ),
            files_are_as_rendered(road),
            *guards_are_proven(road),
            backup_is_taken(road),
        )
    )


def may_raise_version(evidence: Evidence) -> Verdict:
    """metadata.version in COMPLETED. Irreversible: stock refuses every downgrade that would lose something.

    Stock looks at every registration, fenced ones too (`ClusterControlManager`, `QuorumFeatures.reasonNotSupported`).
    """
    road = road_of(evidence)
    levels = road.levels
    fresh = levels is not None and levels.age_s < LEVELS_FRESH_S
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.POST_MIGRATION),
            every_voter_is_stock(road),
            voters_follow(road),
            every_broker_is_ready(road),
            *replicas_are_whole(road),
            Condition(
                "every broker and voter runs software with a later metadata.version",
                fresh and levels is not None and levels.target is not None and levels.target > levels.finalized,
                "the voters were not asked in the last minute" if levels is None or not fresh else levels_text(levels),
            ),
            is_approved(road, "the raise of metadata.version"),
        )
    )


def levels_text(levels: LevelsObserved) -> str:
    now = f"metadata.version is {level_name(levels.finalized)}"
    if levels.unknown:
        return f"{now}; not known: {'; '.join(levels.unknown)}"
    if levels.target is None:
        return f"{now}; no level is supported by every node"
    if levels.target <= levels.finalized:
        return f"{now}; {', '.join(levels.in_the_way)} support no later one"
    return f"{now}; every node supports {level_name(levels.target)}"


def broker_may_go_back(evidence: Evidence, broker: int) -> Verdict:
    """A failed broker of ROLLING_BROKERS into ZooKeeper mode again, alone."""
    road = road_of(evidence)
    features = ", ".join(road.features)
    return Verdict(
        (
            observed_at(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.MIGRATION),
            claim_is_ours(evidence),
            Condition(
                "no feature beside metadata.version is finalized",
                not features,
                f"ZooKeeper mode does not have {features}" if features else "no other feature is",
            ),
            Condition(
                "every directory of the broker is online",
                broker not in road.offline,
                "one is offline, and a broker with the flag halts then"
                if broker in road.offline
                else "every directory is online",
            ),
        )
    )


def zookeeper_mode_is_possible(road: RoadEvidence) -> tuple[Condition, ...]:
    """Of every broker: what a broker with the migration flag cannot live with."""
    features, offline = ", ".join(road.features), list(road.offline)
    return (
        state_is(road, MigrationState.MIGRATION),
        Condition(
            "no feature beside metadata.version is finalized",
            not features,
            f"ZooKeeper mode does not have {features}" if features else "no other feature is",
        ),
        Condition(
            "every directory of every broker is online",
            not offline,
            f"brokers {offline} have one that is offline, and a broker with the flag halts then"
            if offline
            else "every directory is online",
        ),
    )


def brokers_may_return(evidence: Evidence) -> Verdict:
    """ROLLING_BROKERS to ROLLING_BACK, led by the service: brokers into ZooKeeper mode, rollback, original files."""
    road = road_of(evidence)
    back = road.back or WayBack()
    not_kept = "; ".join(back.not_kept)
    orders = "the driver has not reported it" if back.orders is None else f"{back.orders} orders stand below /admin"
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence),
            Condition("the driver can roll back", evidence.can_roll_back, driver_text(evidence)),
            claim_is_ours(evidence),
            *((log_is_observed(road), fleet_is_operable(road)) if back.restarts else ()),
            *(zookeeper_mode_is_possible(road) if back.restarts else ()),
            Condition(
                "the previous file of every broker in KRaft mode is kept",
                not not_kept,
                not_kept or f"brokers {list(back.restarts)}: it lies beside their file",
                (FILE_OF_BEFORE_LOST.code,),
            ),
            Condition("no order waits for a ZooKeeper controller", back.orders == 0, orders),
            loss_is_accepted(back),
            Condition("restarts, for information", True, cost_of(back)),
        )
    )


def loss_is_accepted(back: WayBack) -> Condition:
    """F-51. Directory assignments are no loss: a broker in ZooKeeper mode finds its logs on its disks."""
    name, codes = "somebody consented to what is lost", (LOSS_NOT_ACCEPTED.code,)
    if not back.lost:
        return Condition(name, True, "nothing is lost but directory assignments, which ZooKeeper mode does not use")
    said = f"only KRaft has: {'; '.join(back.lost)}"
    consent = back.consent
    if consent is None:
        return Condition(name, False, f"{said}. Consent with `zk2kraft approve --to ROLLING_BACK`", codes)
    if not consent.fits or consent.age_s > APPROVAL_S:
        return Condition(name, False, f"{said}. The consent by {consent.who} is for another list, or too old", codes)
    return Condition(name, True, f"{said}. {consent.who} consented {consent.age_s / 60:.0f} min ago")


def cost_of(back: WayBack) -> str:
    first, again = len(back.restarts), len(back.again)
    said = f"brokers {list(back.restarts)} restart into ZooKeeper mode" if first else "no broker restarts"
    said += f"; afterwards brokers {list(back.again)} restart with their original file" if again else ""
    took = back.seconds
    return said + (f"; about {took * (first + again):.0f} s, by what restarts took before" if took and first else "")


def claim_is_gone(evidence: Evidence) -> Verdict:
    """Before a broker gets its file from before the migration, without the flag."""
    return Verdict(
        (
            observed_at(evidence),
            Condition(
                "a ZooKeeper-mode broker is controller",
                evidence.holder is Holder.ZOOKEEPER_BROKER,
                f"the holder is {evidence.holder}",
            ),
            Condition(
                "/migration names no committed log",
                evidence.committed_migration is False,
                {None: "unknown", True: "it names one", False: "it names no committed log"}[
                    evidence.committed_migration
                ],
            ),
        )
    )


def joined_broker_may_go_back(evidence: Evidence, broker: int) -> Verdict:
    """A failed broker of BROKERS_JOINING gets its previous file; nothing was taken over."""
    return Verdict((observed_at(evidence), a_broker_is_controller(evidence)))


def controllers_are_replaced(evidence: Evidence) -> Verdict:
    """REPLACING_CONTROLLERS to SOAK, by itself."""
    road = road_of(evidence)
    return Verdict(
        (
            observed_at(evidence),
            log_is_observed(road),
            _roll_is_complete(road, Roll.STOCK, "every controller was replaced by stock"),
            every_voter_is_stock(road),
            voters_follow(road),
            state_is(road, MigrationState.MIGRATION),
        )
    )


def every_voter_is_stock(road: RoadEvidence) -> Condition:
    ours = [each.id for each in road.voters if not each.stock]
    said = f"voters {ours} are migrating controllers" if ours else _all_voters(road, "are stock controllers")
    return Condition("every voter is a stock controller", bool(road.voters) and not ours, said)


def state_is(road: RoadEvidence, state: MigrationState) -> Condition:
    return Condition(
        f"the log says {state.name}",
        not road.log_problem and road.migration == state.name,
        _read(road, f"the log says {road.migration}"),
    )


def finalize_evidence(evidence: Evidence) -> Verdict:
    """SOAK to FINALIZING. Irreversible: every line has to hold at the same moment."""
    road = road_of(evidence)
    gone, least = road.gone_s, road.limits.brokers_gone_s
    unready = [each.id for each in road.voters if each.ready is not True]
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            log_is_observed(road),
            every_registration_is_kraft(road),
            Condition(
                f"/brokers/ids is empty, and was for {least:g} s",
                gone is not None and gone >= least,
                f"/brokers/ids names {list(road.zookeeper_ids)}"
                if road.zookeeper_ids
                else f"/brokers/ids has been empty for {gone or 0:.0f} s",
            ),
            directories_are_assigned(road),
            *replicas_are_whole(road),
            every_voter_is_stock(road),
            Condition(
                "every voter runs with the migration flag",
                bool(road.voters) and not unready,
                f"voters {unready} are not registered as ready for the migration"
                if unready
                else _all_voters(road, "registered as ready"),
            ),
            voters_follow(road),
            state_is(road, MigrationState.MIGRATION),
            claim_is_ours(evidence),
            zookeeper_follows(road),
            files_are_as_rendered(road),
            audit_is_fresh(evidence),
            *soak_is_over(road),
            audit_follows_soak(evidence),
            backup_is_taken(road),
            is_approved(road, "FINALIZING"),
        )
    )


def soak_is_over(road: RoadEvidence) -> tuple[Condition, ...]:
    """Stock's elections, snapshots and restarts on our log are proven while there is a way back."""
    soak, voters = road.soak, {each.id for each in road.voters}
    least = road.limits.soak_s
    age = None if soak is None else soak.age_s
    idle = sorted(voters - set(soak.leaders if soak else ()))
    return (
        Condition(
            f"the soak lasted {least:g} s",
            age is not None and age >= least,
            "the soak has not begun" if age is None else f"the soak has lasted {age:.0f} s",
        ),
        _roll_is_complete(road, Roll.SOAK, "every stock controller was restarted in the soak"),
        Condition(
            "an election was held in the soak",
            soak is not None and soak.elections > 0,
            "the soak has not begun"
            if soak is None
            else f"elections: {soak.elections}; controllers {list(soak.leaders)} of {sorted(voters)} have led",
        ),
        or_waived(
            road,
            Condition(
                "every stock controller led in the soak",
                bool(voters) and not idle,
                f"controllers {idle} did not lead yet" if idle else "every controller led",
            ),
        ),
        snapshots_are_written(road),
    )


def snapshots_are_written(road: RoadEvidence) -> Condition:
    """By each stock controller since it took the place of ours; one that cannot be listed needs a waiver."""
    soak, voters = road.soak, {each.id for each in road.voters}
    missing = sorted(voters - set(soak.snapshots if soak else ()))
    unlisted = set(() if soak is None else soak.not_listed)
    waivers = {node: found for node in unlisted if (found := road.waiver(SOAK_WITHOUT_DISK.code, node)) is not None}
    left = [node for node in missing if node not in waivers]
    blind = sorted(unlisted - waivers.keys())
    said = f"controllers {left} wrote no snapshot in the soak" if left else "every controller wrote one in the soak"
    said += f" (the directories of {blind} cannot be listed)" if blind else ""
    said += "".join(f"; {node} is waived by {each.owner}: {each.reason}" for node, each in sorted(waivers.items()))
    codes = (SOAK_WITHOUT_DISK.code,) if unlisted else ()
    return Condition("every stock controller wrote a snapshot", bool(voters) and not left, said, codes)


def audit_follows_soak(evidence: Evidence) -> Condition:
    """Both sides were compared after stock did everything that it will do to them."""
    soak = road_of(evidence).soak
    passed = None if evidence.audits is None else evidence.audits.passed_s
    quiet = None if soak is None else soak.quiet_s
    said = "no audit has passed yet" if passed is None else f"the last one passed {passed:.0f} s ago"
    said += "" if quiet is None or math.isinf(quiet) else f", the last restart or election was {quiet:.0f} s ago"
    follows = passed is not None and quiet is not None and passed < quiet
    return Condition("an audit passed after the last restart and election", follows, said, (AUDIT_OVERDUE.code,))


def finalize_is_committed(evidence: Evidence) -> Verdict:
    """FINALIZING to COMPLETED, by itself."""
    road = road_of(evidence)
    behind = [each.id for each in road.voters if not each.behind_record]
    files = road.files
    left = () if files is None else files.with_zookeeper
    return Verdict(
        (
            Condition(
                "the cluster was observed under 10 s ago",
                evidence.observation_age_s is not None and evidence.observation_age_s < 10.0,
                "never observed"
                if evidence.observation_age_s is None
                else f"last observed {evidence.observation_age_s:.1f} s ago",
                (NOT_OBSERVED.code,),
            ),
            log_is_observed(road),
            _roll_is_complete(road, Roll.FINAL, "every controller runs without the migration flag"),
            state_is(road, MigrationState.POST_MIGRATION),
            Condition(
                "that record is on every voter",
                bool(road.voters) and not behind,
                f"voters {behind} do not have it" if behind else _all_voters(road, "have it"),
            ),
            voters_follow(road),
            every_voter_is_stock(road),
            Condition(
                "no file has a ZooKeeper key",
                files is not None and not left and not not_read(road)[0],
                "; ".join(left)
                or ("the service has read no file yet" if files is None else "no file has a ZooKeeper key"),
            ),
        )
    )
