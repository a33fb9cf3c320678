"""Conditions of the road from dual-write to the end that several gates share.

In:   `FleetEvidence`, or `Evidence` with its `road`. Out: a `Condition` each.
Elsewhere: gates forward (gates_forward.py) and back (gates_back.py), what is looked at (fleet_evidence.py).
"""

from __future__ import annotations

import math
from collections.abc import Container
from datetime import UTC, datetime
from typing import Final

from migrator.findings.fleet import GUARD_NOT_PROVEN, HOSTS_TOO_SLOW, KAFKA_WITHOUT_ZOOKEEPER
from migrator.findings.preflight import APPLIED_UNKNOWN, BROKER_SETTING_FORBIDS
from migrator.findings.road import (
    BACKUP_FAILED,
    CANARY_OVER_BUDGET,
    FILE_DRIFTED,
    FILES_NOT_READ,
    FINALIZE_NOT_APPROVED,
    LOG_NOT_OBSERVED,
    NO_FLEET,
    SCRAM_AT_STAKE,
    SOAK_WITHOUT_DISK,
)
from migrator.findings.service import AUDIT_OVERDUE, BROKERS_DIVERGED, BROKERS_NOT_COMPARED
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition
from state_machine.facts.accepted import WaiverFact
from state_machine.facts.nodes import AboutNode
from state_machine.facts.voters import has_what_is_committed
from state_machine.policy.audit_observations import BrokersAudit
from state_machine.policy.fleet_evidence import UNNAMED, FleetEvidence, Roll
from state_machine.policy.gates import (
    Evidence,
    Holder,
)

APPROVAL_S: Final = 4 * 3600.0
AUDIT_FRESH_S: Final = 600.0
CHANGES_SHOWN: Final = 5
"""In one line of a gate; the findings have them all."""
LAG_MAX: Final = 0
CANARY_FRESH_S: Final = 30.0
LACKING_WORTH_NAMING_S: Final = 60.0
"""A restarted broker is back in the ISRs of a small cluster in seconds; the flaw of docs/undo.md never passes."""
LEVELS_FRESH_S: Final = 60.0
_TOO_OLD: Final = (HOSTS_TOO_SLOW.code,)
_CANARY: Final = (CANARY_OVER_BUDGET.code,)
USERS_SHOWN: Final = 5
LATER_JAR: Final = KAFKA_WITHOUT_ZOOKEEPER.code
PROVEN: Final = frozenset({"proven", "proven, but its Kafka is not seen"})
"""States of a guard. Where its Kafka is not seen from here, the guard itself looks at each start."""

UNKNOWN: Final = FleetEvidence(
    fleet_problem="the service has not looked yet", log_problem="the service has not looked yet"
)


def fleet_evidence_of(evidence: Evidence) -> FleetEvidence:
    return evidence.road or UNKNOWN


# --- conditions that several gates share ------------------------------------------------------------------


def _read(road: FleetEvidence, said: str) -> str:
    """What was read in the log; while the log cannot be read, that it is unknown."""
    return f"unknown: {road.log_problem}" if road.log_problem else said


def _all_voters(road: FleetEvidence, words: str) -> str:
    number = len(road.voters)
    return f"{number} of {number} voters {words}" if number else "no voter is known"


def log_is_observed(road: FleetEvidence) -> Condition:
    said = road.log_problem or "the service has read every committed record"
    return Condition("the metadata log is observed", not road.log_problem, said, (LOG_NOT_OBSERVED.code,))


def fleet_is_operable(road: FleetEvidence) -> Condition:
    said = road.fleet_problem or "every node of the inventory has an actuator"
    return Condition("brokers and controllers can be operated", not road.fleet_problem, said, (NO_FLEET.code,))


def why_lacking(lacking_s: float | None, leader: int | None) -> str:
    """What to add once partitions are under-replicated for a while.

    lacking_s: for how long, with no broker missing. leader: of all of them.

    Nothing outside a broker shows that the thread that reports its ISR changes has ended (docs/undo.md). It is the
    leader of the partitions that does not report.
    """
    if lacking_s is None or lacking_s < LACKING_WORTH_NAMING_S:
        return ""
    suspect = "" if leader is None else f" in broker {leader}, which leads all of them"
    return (
        f" (for {lacking_s:.0f} s with no broker missing: they catch up, or it is the broker flaw of Z2K-2043{suspect})"
    )


def replicas_are_whole(road: FleetEvidence) -> tuple[Condition, ...]:
    """Before any restart."""
    known = not road.log_problem
    moving = road.reassignments
    return (
        Condition(
            "no partition is under-replicated or without a leader",
            known and not road.under_replicated and not road.leaderless,
            _read(
                road,
                f"under-replicated partitions: {road.under_replicated}; partitions without a leader: {road.leaderless}"
                + why_lacking(road.lacking_s, road.lacking_leader),
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


def rests_on(observations: str) -> str:
    """For what is stored with a step: on which observations a time rests."""
    return f" ({observations})" if observations else ""


def replicas_are_settled(road: FleetEvidence) -> Condition:
    """settle_s is configured; the message prints it."""
    least = road.limits.settle_s
    return Condition(
        f"nothing was under-replicated for {least:g} s",
        not road.log_problem and road.settled_s >= least,
        _read(
            road,
            f"every partition has been fully replicated for {road.settled_s:.0f} s{rests_on(road.settled_rests_on)}",
        ),
    )


def _brokers(count: int) -> str:
    return "1 broker is" if count == 1 else f"{count} brokers are"


def every_broker_is_ready(road: FleetEvidence) -> Condition:
    registered = len(road.kraft) + len(road.zookeeper)
    said = (
        f"brokers {list(road.not_ready)} are fenced or shutting down"
        if road.not_ready
        else f"{_brokers(registered)} registered, none is fenced"
    )
    known = not road.log_problem and registered > 0
    return Condition("every registered broker is unfenced", known and not road.not_ready, _read(road, said))


def zookeeper_follows(road: FleetEvidence) -> Condition:
    lag = road.dual_write_lag
    said = "the lag of dual-write is not known" if lag is None else f"ZooKeeper is {lag} records behind the log"
    return Condition("ZooKeeper has every committed change", lag is not None and lag <= LAG_MAX, said)


def _leads(road: FleetEvidence) -> str:
    if road.leader is None:
        return "no controller leads"
    return f"controller {road.leader} leads, and every voter has its log"


def voters_follow(road: FleetEvidence) -> Condition:
    """Before a controller is stopped, a majority must hold without it.

    A voter whose fetch is under way lacks what was committed a moment ago, and follows all the same; else the gate
    would close for a moment whenever something changes.
    """
    behind = [
        f"voter {each.id} {'has never fetched' if each.lag is None else f'is {each.lag} records behind'}"
        for each in road.voters
        if not has_what_is_committed(each)
    ]
    known = not road.log_problem and road.leader is not None and bool(road.voters)
    said = "; ".join(behind) if behind else _leads(road)
    return Condition("every voter has what is committed", known and not behind, _read(road, said))


def every_registration_is_kraft(road: FleetEvidence) -> Condition:
    """Fenced ones too: a registration may come back as it was."""
    left = list(road.zookeeper)
    said = f"brokers {left} are in ZooKeeper mode" if left else f"{_brokers(len(road.kraft))} in KRaft mode"
    known = not road.log_problem and bool(road.kraft)
    return Condition("every registered broker is in KRaft mode", known and not left, _read(road, said))


def directories_are_assigned(road: FleetEvidence) -> Condition:
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


def files_are_as_rendered(road: FleetEvidence) -> Condition:
    files = road.files
    if files is None:
        return Condition("every file is as rendered", False, "the service has read no file yet", (FILE_DRIFTED.code,))
    unread, waived = not_read(road)
    wrong = [each.words for each in files.drifted]
    wrong += [f"the file of {each.words} could not be read" for each in unread]
    fresh = files.age_s < files.limit_s
    wrong += [] if fresh else [_too_old(f"the file of {files.oldest or 'a node'}", files.age_s, files.limit_s)]
    said = "; ".join(wrong) if wrong else f"every file was as rendered {files.age_s:.0f} s ago"
    codes = (FILE_DRIFTED.code, *((FILES_NOT_READ.code,) if unread else ()), *(() if fresh else _TOO_OLD))
    return Condition("every file is as rendered", fresh and not wrong, "; ".join((said, *waived)), codes)


def _too_old(what: str, age_s: float, limit_s: float) -> str:
    return f"{what} was last read {age_s:.0f} s ago, and an answer counts for {limit_s:.0f} s"


def nothing_waits_for_restart(road: FleetEvidence) -> Condition:
    """Before a broker is restarted. What is not known is no yes: some of it makes records unreadable for good."""
    name, seen = "no change waits for a restart of a broker", road.restarts
    if seen is None or seen.problem or seen.age_s >= seen.limit_s:
        said = "the service has not compared them yet" if seen is None else seen.problem
        said = said or f"the last comparison is {seen.age_s if seen else 0:.0f} s old"
        return or_waived(road, Condition(name, False, f"not known: {said}", (APPLIED_UNKNOWN.code,)))
    left, waived = [], []
    for each in seen.changes:
        accepted = (each.code, FILES_NOT_READ.code) if each.code == APPLIED_UNKNOWN.code else (each.code, name)
        waiver = next(filter(None, (road.waiver(what, each.node) for what in accepted)), None)
        if waiver is None:
            left.append(each)
        else:
            waived.append(f"{each.code} is waived by {waiver.owner} ({waiver.reason}): {each.said}")
    shown = [f"{each.code} {each.said.removesuffix('.')}" for each in left[:CHANGES_SHOWN]]
    shown += [f"and {len(left) - CHANGES_SHOWN} more"] if len(left) > CHANGES_SHOWN else []
    said = "; ".join(shown) or "brokers run with what their files and ZooKeeper say"
    return Condition(name, not left, "; ".join((said, *waived)), tuple(sorted({each.code for each in left})))


def not_read(road: FleetEvidence) -> tuple[list[AboutNode], list[str]]:
    """Files that are not read and not waived; the waivers of the others, in words."""
    left, waived = [], []
    for each in () if road.files is None else road.files.not_read:
        waiver = road.waiver(FILES_NOT_READ.code, each.node)
        if waiver is None:
            left.append(each)
        else:
            waived.append(f"{each.name} is not read: waived by {waiver.owner} ({waiver.reason})")
    return left, waived


def guards_are_proven(road: FleetEvidence, without: Container[int] = ()) -> tuple[Condition, ...]:
    """One condition per host: a stock controller that starts without the flag could end the migration.

    without: controllers that a way back leaves out by name.
    No waiver lifts that jars of a Kafka without ZooKeeper would be started.
    """
    if road.files is None or not road.guards:
        said = "the service has read the guard of no host yet"
        return (Condition("the guard of every controller is proven", False, said, (GUARD_NOT_PROVEN.code,)),)
    found = []
    for each in road.guards:
        if each.node in without:
            continue
        later = each.code == LATER_JAR
        code = LATER_JAR if later else GUARD_NOT_PROVEN.code
        name = f"the guard of controller {each.node} is proven"
        age_s = road.now - each.read_at if road.now >= each.read_at else math.inf
        fresh = age_s < road.files.limit_s
        said = f"{each.state}: {each.reason}" if fresh else _too_old("it", age_s, road.files.limit_s)
        codes = (code, *(() if fresh else _TOO_OLD))
        condition = Condition(name, fresh and each.state in PROVEN, said, codes)
        found.append(condition if later else or_waived(road, condition, each.node))
    return tuple(found)


def or_waived(road: FleetEvidence, condition: Condition, node: int | None = None) -> Condition:
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


def no_credential_is_at_stake(road: FleetEvidence) -> Condition:
    """A node of Kafka that starts on this log knows every user (K-28). What a newer snapshot mends cannot be seen from
    here: then a waiver says that somebody looked.
    """
    users = road.scram_at_stake
    shown, more = ", ".join(users[:USERS_SHOWN]), len(users[USERS_SHOWN:])
    shown += f" and {more} more" if more else ""
    said = f"a restart may lose the SCRAM credentials of {shown}" if users else "no restart loses any"
    holds, codes = not users and not road.log_problem, (SCRAM_AT_STAKE.code,) if users else ()
    return or_waived(road, Condition("no SCRAM credential is at stake", holds, _read(road, said), codes))


def snapshots_are_written(road: FleetEvidence) -> Condition:
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


def canary_is_well(road: FleetEvidence) -> tuple[Condition, ...]:
    """Nothing where the inventory wants no canary traffic."""
    canary = road.canary
    if canary is None or not canary.wanted:
        return ()
    seen = canary.figures
    share = seen.failed / seen.sent if seen.sent else 0.0
    age_s = road.now - seen.at if road.now >= seen.at else math.inf
    reasons = [
        seen.problem,
        f"its figures are {age_s:.0f} s old" if age_s > CANARY_FRESH_S else "",
        f"partitions {list(seen.silent)} never answered" if seen.silent else "",
        f"{seen.failed} of {seen.sent} records failed" if share > canary.errors_max else "",
        f"a record has waited for {seen.waiting_s:.0f} s" if seen.waiting_s > canary.stall_s else "",
    ]
    against = "; ".join(filter(None, reasons))
    said = f"{seen.failed} of {seen.sent} records failed in ten minutes, the slowest took {seen.longest_s:.1f} s"
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


def accepted_brokers(evidence: Evidence) -> dict[tuple[str, int], WaiverFact]:
    """Waivers of what single brokers said in the last audits. One without a node accepts nothing here: it would open
    the gate where no broker was ever asked.
    """
    if evidence.audits is None or evidence.road is None:
        return {}
    said = {(each.code, each.broker) for audit in evidence.audits.brokers for each in audit.against()}
    waivers = {(each.what, each.node): each for each in evidence.road.waivers if each.node is not None}
    return {what: waivers[what] for what in said & waivers.keys()}


def brokers_agree(evidence: Evidence, *, quiet_s: float | None = None) -> tuple[Condition, ...]:
    """The third side: every broker says what the log says, lately and since the last restart.

    quiet_s: since the last restart or election, before what cannot be undone: then the last audit of all has to say so.
    """
    audits = evidence.audits
    name = "brokers said what the log says, lately and since the last restart"
    if audits is None:
        return (Condition(name, False, "no audit asks them in this phase", (BROKERS_NOT_COMPARED.code,)),)
    last = audits.brokers[0] if audits.brokers else None
    said = "no audit has asked brokers yet" if last is None else f"{last.said} ({last.age_s:.0f} s ago)"
    accepted = accepted_brokers(evidence)
    well = audits.brokers_well(accepted) if quiet_s is None else last if last and last.is_well(accepted) else None
    quiet = [each for each in (audits.restarted_s, quiet_s) if each is not None]
    why = _why_not_well(well, audits.limit_s or AUDIT_FRESH_S, min(quiet, default=math.inf))
    used = [] if well is None else [accepted[each.code, each.broker] for each in well.against()]
    told = [f"broker {each.node} is waived by {each.owner} ({each.reason})" for each in used]
    diverged = audits.brokers_diverged(accepted)
    return (
        Condition(
            "no two audits in a row found brokers that contradict the log", not diverged, said, (BROKERS_DIVERGED.code,)
        ),
        Condition(name, not why, "; ".join(filter(None, (why, said, *told))), (BROKERS_NOT_COMPARED.code,)),
    )


def _why_not_well(well: BrokersAudit | None, limit_s: float, quiet_s: float) -> str:
    """Empty: it counts. quiet_s: since something that such an audit has to follow."""
    if well is None:
        return "no audit found every broker equal to the log"
    if well.age_s > limit_s:
        return f"audit {well.id}, the last one that did, ended {well.age_s:.0f} s ago; it counts for {limit_s:g} s"
    if well.asked_s > quiet_s:
        return f"the last restart or election was {quiet_s:.0f} s ago, audit {well.id} {well.asked_s:.0f} s ago"
    return ""


def backup_is_taken(road: FleetEvidence) -> Condition:
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


def is_approved(road: FleetEvidence, phase: str) -> Condition:
    """By another person than the one who asks, as things are now, within four hours."""
    name = f"another person approved {phase}"
    codes = (FINALIZE_NOT_APPROVED.code,)
    approval, hours = road.approval, APPROVAL_S / 3600
    if approval is None:
        return Condition(name, False, "there is no approval yet; approve with `zk2kraft approve`", codes)
    if approval.age_s > APPROVAL_S:
        return Condition(name, False, f"the approval by {approval.who} is older than {hours:g} h", codes)
    wanted = "" if road.raising is None else road.raising.wanted.text
    if approval.given.raises != wanted:
        said = approval.given.raises or "metadata.version at its highest level"
        return Condition(name, False, f"{approval.who} approved {said}, and not this", codes)
    if not approval.fits:
        return Condition(name, False, f"the plan or the evidence changed after {approval.who} approved", codes)
    if not road.limits.single_operator:
        if UNNAMED in (approval.who, road.asker):
            said = f"a request that names nobody ({UNNAMED!r}) requested it or approved it; send `who`"
            return Condition(name, False, said, codes)
        if road.asker is not None and same_person(road.asker, approval.who):
            return Condition(name, False, f"{approval.who} requested it and approved it", codes)
    alone = " (single_operator is on)" if road.limits.single_operator else ""
    return Condition(name, True, f"{approval.who} approved it {approval.age_s / 60:.0f} min ago{alone}", codes)


def same_person(one: str, other: str) -> bool:
    """Names are typed by people, and not verified."""
    return one.strip().casefold() == other.strip().casefold()


def _roll_is_complete(road: FleetEvidence, roll: Roll, name: str) -> Condition:
    observed = road.roll(roll)
    return Condition(name, observed.complete, observed.text)


def every_broker_is_present(evidence: Evidence) -> Condition:
    """Before the takeover a broker lives in ZooKeeper. A fenced registration in the log harms nobody by then."""
    live, wanted = set(fleet_evidence_of(evidence).zookeeper_ids), {each.id for each in evidence.brokers}
    missing = sorted(wanted - live)
    known = evidence.holder is not Holder.UNKNOWN and bool(wanted)
    said = f"brokers {missing} are not" if missing else f"{_brokers(len(live))} there"
    return Condition("every broker is in /brokers/ids", known and not missing, said if known else "no broker is known")


def a_broker_is_controller(evidence: Evidence) -> Condition:
    said = f"the holder is {evidence.holder}" + ("" if evidence.holder_id is None else f" (node {evidence.holder_id})")
    return Condition("a ZooKeeper-mode broker is controller", evidence.holder is Holder.ZOOKEEPER_BROKER, said)


def no_file_forbids_the_takeover(road: FleetEvidence) -> Condition:
    """What the takeover gate would refuse once every broker was restarted, and what a later broker's own restart would
    fail by. A file that is not read is left to them.
    """
    files = road.files
    found = () if files is None else files.forbidden
    unread = () if files is None else files.not_read
    said = "; ".join(found) if found else "no file has one"
    return Condition(
        "no broker's file has a setting that forbids the takeover",
        files is not None and not found,
        "the service has read no file yet" if files is None else "; ".join((said, *(each.words for each in unread))),
        (BROKER_SETTING_FORBIDS.code,) if files is None or not found else files.forbidden_codes,
    )


def every_voter_is_stock(road: FleetEvidence) -> Condition:
    ours = [each.id for each in road.voters if not each.stock]
    said = f"voters {ours} are migrating controllers" if ours else _all_voters(road, "are stock controllers")
    return Condition("every voter is a stock controller", bool(road.voters) and not ours, said)


def state_is(road: FleetEvidence, state: MigrationState) -> Condition:
    return Condition(
        f"the log says {state.name}",
        not road.log_problem and road.migration == state.name,
        _read(road, f"the log says {road.migration}"),
    )
