"""The preconditions of steps: a gate reads the evidence and answers with every condition and its message.

In:   `Evidence`: what the service knows at the moment of the question, ages in seconds.
Out:  a `Verdict`; the same one is stored with the transition, printed by the command line and shown on the page.
Elsewhere: which gate guards which edge (phases.py), how evidence is gathered (evidence.py), the takeover gate's own
checks (driver.gate, asked by the controllers and handed through here line by line).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from migrator.control_api.states import UNCLAIMED, WAITS, State
from migrator.findings.driver import FOREIGN_MIGRATION, MIRROR_STOPPED, VERSIONS_LAG
from migrator.findings.service import (
    CLUSTER_DISAGREES,
    CLUSTER_TAKEN,
    CONFIRMATION_DISAGREES,
    CONTROLLER_NOT_REACHED,
    CONTROLLER_SILENT,
    INSPECTION_FAILED,
    NOT_OBSERVED,
    REHEARSAL_NOT_PASSED,
)
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.model.verdict import Condition, Verdict
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.audit_observations import ScheduledAudits, last_audit
from state_machine.policy.fleet_evidence import FleetEvidence, Roll
from state_machine.policy.later import NO_LATER, LaterObserved, dual_write_goes_on, no_later_kafka

OBSERVATION_FRESH_S: Final = 10.0
"""The loop observes twice a second; after ten seconds without an observation the service is stuck."""
CHECK_FRESH_S: Final = 600.0
REHEARSAL_FRESH_S: Final = 600.0
HEARTBEAT_FRESH_MS: Final = 3_000
"""As in the driver's own gate: a broker sends one every two seconds."""

NOTHING_CLAIMED: Final = frozenset({None, State.IDLE, *UNCLAIMED})
BEFORE_BROKERS: Final = frozenset({None, State.IDLE, State.WAIT_QUORUM})


class Holder(StrEnum):
    """Who holds `/controller` in ZooKeeper."""

    ZOOKEEPER_BROKER = "a ZooKeeper-mode broker"
    OURS = "a controller of this migration"
    ANOTHER = "a KRaft controller of another quorum"
    NOBODY = "no controller"
    UNKNOWN = "unknown: ZooKeeper does not answer"


@dataclass(frozen=True, slots=True)
class BrokerObservation:
    """A broker as the active controller knows it.

    registered: False when only ZooKeeper or the inventory has it; None while no controller answers.
    not_updated:   why it has not acknowledged everything it has to hear; empty when it has, or there is nothing.
    """

    id: int
    registered: bool | None = True
    mode: str = "ZooKeeper"
    fenced: bool = False
    heartbeat_age_ms: int | None = 0
    not_updated: str = ""

    @property
    def why_unfit(self) -> str:
        """Empty when it is ready for a takeover."""
        return self.why_not_ready(frozenset({"ZooKeeper"}))

    def why_not_ready(self, modes: frozenset[str]) -> str:
        """Empty when it is ready, in one of these modes."""
        if self.registered is None:
            return "unknown: no controller answers"
        if not self.registered:
            return "not registered"
        if self.fenced:
            return "fenced"
        if self.mode not in modes:
            return f"in {self.mode} mode"
        if self.heartbeat_age_ms is None or self.heartbeat_age_ms >= HEARTBEAT_FRESH_MS:
            return f"last heartbeat {self.heartbeat_age_ms} ms ago"
        return f"not updated: {self.not_updated}" if self.not_updated else ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The last result of `check`, of a rehearsal's audit, or of the audit of the copy.

    passed:   nothing blocks, or both sides are equal. said: what it found, in one line.
    age_s:   of what it read; a rehearsal's counts from the moment before its reading began.
    disagrees: it compared everything and found a difference; not passed alone may be no result.
    ended_s: since a rehearsal ended.
    """

    passed: bool
    age_s: float
    said: str
    codes: tuple[str, ...] = ()
    disagrees: bool = False
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the service knows. `None` is "unknown"; a gate never takes it for True.

    observation_age_s:    seconds since the last observation of the cluster.
    paused:      who paused steps forward, and why.
    silent:      controllers of the inventory that do not answer, with the reason. unreached: those of them on other
                 hosts that may run.
    file_faults: controllers' files that do not fit the service, with finding code and words.
    driver_state: of the controller that leads, or of one that rolled back; a follower's says nothing.
    driver_state_s: how long it has been in that state.   driver_alarms: codes of what it warns of now.
    lagging:     partition states whose version is behind the partition epoch, writes that are left, and about how many
                 seconds they will take.
    takeover_asked: who requested a takeover that has not begun; empty when there is none.
    rival:       the other migration to which this cluster belongs.
    log_in_migration: some controller that answers has the migration in its log, whatever ZooKeeper says.
    road: what is known of the way from dual-write on; None before it.
    later: nodes that run a Kafka without ZooKeeper.
    engine: whose controllers take over; of stock, `driver_state` is what log and ZooKeeper show.
    """

    observation_age_s: float | None
    engine: ControllerEngine = ControllerEngine.OURS
    paused: str | None = None
    controllers: tuple[int, ...] = ()
    silent: Mapping[int, str] = field(default_factory=dict)
    unreached: Mapping[int, str] = field(default_factory=dict)
    file_faults: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    driver_state: str | None = None
    driver_state_s: float = 0.0
    driver_alarms: tuple[str, ...] = ()
    driver_reason: str = "no controller has reported yet"
    driver_finding: tuple[str, str] | None = None
    driver_gate: Verdict | None = None
    can_abort: bool = False
    takeover_asked: str = ""
    can_roll_back: bool = False
    lagging: tuple[int, int, float] | None = None
    brokers: tuple[BrokerObservation, ...] = ()
    holder: Holder = Holder.UNKNOWN
    holder_id: int | None = None
    committed_migration: bool | None = None
    log_in_migration: bool = False
    check: Inspection | None = None
    rehearsal: Inspection | None = None
    confirmation: Inspection | None = None
    copy_audit: Inspection | None = None
    audits: ScheduledAudits | None = None
    rival: str | None = None
    road: FleetEvidence | None = None
    later: LaterObserved = NO_LATER


Gate: TypeAlias = Callable[[Evidence], Verdict]

# --- checks that several gates share ----------------------------------------------------------------------


def observed_at(evidence: Evidence) -> Condition:
    age = (
        "never observed"
        if evidence.observation_age_s is None
        else f"last observed {evidence.observation_age_s:.1f} s ago"
    )
    fresh = evidence.observation_age_s is not None and evidence.observation_age_s < OBSERVATION_FRESH_S
    return Condition("the cluster was observed under 10 s ago", fresh, age, (NOT_OBSERVED.code,))


def not_paused(evidence: Evidence) -> Condition:
    return Condition("the migration is not paused", evidence.paused is None, evidence.paused or "not paused")


def cluster_is_free(evidence: Evidence) -> Condition:
    shown = evidence.rival or "none"
    return Condition("no other migration belongs to this cluster", evidence.rival is None, shown, (CLUSTER_TAKEN.code,))


def controllers_answer(evidence: Evidence, without: Container[int] = ()) -> Condition:
    """without: controllers that a way back leaves out by name."""
    missing = {node: why for node, why in evidence.silent.items() if node not in without}
    silent = "; ".join(f"{node}: {why}" for node, why in sorted(missing.items()))
    answering = len(evidence.controllers) - len(evidence.silent)
    seen_text = silent or f"{answering} of {len(evidence.controllers)} controllers answer"
    return Condition("every controller answers", not missing, seen_text, (CONTROLLER_SILENT.code,))


def brokers_are_fit(evidence: Evidence) -> Condition:
    unfit = [f"broker {broker.id} {broker.why_unfit}" for broker in evidence.brokers if broker.why_unfit]
    fit = len(evidence.brokers) - len(unfit)
    return Condition(
        "every broker is registered, unfenced and sent a heartbeat in the last 3 s",
        bool(evidence.brokers) and not unfit,
        f"{fit} of {len(evidence.brokers)} brokers are ready" + (f": {', '.join(unfit)}" if unfit else ""),
    )


def check_is_clean(evidence: Evidence) -> tuple[Condition, ...]:
    check = evidence.check
    return (
        Condition(
            "`check` finds nothing that blocks",
            check is not None and check.passed,
            "no check has run yet" if check is None else check.said,
            (INSPECTION_FAILED.code,) if check is None else check.codes,
        ),
        Condition(
            "that check is under 10 minutes old",
            check is not None and check.age_s < CHECK_FRESH_S,
            "no check has run yet" if check is None else f"the last check ran {check.age_s:.0f} s ago",
        ),
    )


def files_fit(evidence: Evidence) -> Condition:
    check = evidence.check
    faults = "; ".join(f"controller {node}: {text}" for node, (_, text) in sorted(evidence.file_faults.items()))
    return Condition(
        "every controller's file fits the service",
        check is not None and not faults,
        faults or ("the service has not read the files yet" if check is None else "all files fit"),
        tuple(sorted({code for code, _ in evidence.file_faults.values()})),
    )


# --- gates ------------------------------------------------------------------------------------------------


def always(evidence: Evidence) -> Verdict:
    """The cluster did it already; there is nothing left to refuse."""
    return Verdict((Condition("the cluster has already made this step", True, evidence.driver_reason),))


def may_begin(evidence: Evidence) -> Verdict:
    """PREFLIGHT only reads."""
    return Verdict((not_paused(evidence),))


def preflight_is_clean(evidence: Evidence) -> Verdict:
    """QUORUM starts processes, so the cluster and the controllers' files must be checked before."""
    return Verdict(
        (
            not_paused(evidence),
            cluster_is_free(evidence),
            observed_at(evidence),
            *check_is_clean(evidence),
            files_fit(evidence),
        )
    )


def quorum_has_formed(evidence: Evidence) -> Verdict:
    return Verdict(
        (
            controllers_answer(evidence),
            Condition(
                "one controller leads, and every voter is registered",
                evidence.driver_state not in BEFORE_BROKERS,
                evidence.driver_reason,
            ),
            no_later_kafka(evidence.later),
        )
    )


def brokers_have_joined(evidence: Evidence) -> Verdict:
    """Every broker is registered. That the cluster is healthy is for the gate of the takeover."""
    waiting = evidence.driver_state == State.WAIT_BROKERS and evidence.driver_gate is None
    early = evidence.driver_state in BEFORE_BROKERS
    missing = [broker.id for broker in evidence.brokers if not broker.registered]
    return Verdict(
        (
            Condition(
                "every broker in ZooKeeper is registered and unfenced", not (waiting or early), evidence.driver_reason
            ),
            Condition(
                "every broker of the inventory is registered",
                not missing,
                f"not registered: brokers {missing}" if missing else f"{len(evidence.brokers)} brokers are registered",
            ),
            no_later_kafka(evidence.later),
        )
    )


def takeover_may_begin(evidence: Evidence) -> Verdict:
    """The time without controller begins with this step; during it nothing waits for a person."""
    return Verdict(
        (
            not_paused(evidence),
            cluster_is_free(evidence),
            no_later_kafka(evidence.later),
            *worth_rehearsing(evidence).conditions,
            *_rehearsal_checks(evidence.rehearsal),
            *_confirmation_checks(evidence.confirmation),
        )
    )


def worth_rehearsing(evidence: Evidence) -> Verdict:
    """A tree that still changes by itself, as after a broker's restart, would only differ from its own copy."""
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence),
            Condition("the driver is ready for a takeover", evidence.driver_state in WAITS, driver_text(evidence)),
            brokers_are_fit(evidence),
            *_drivers_own_checks(evidence),
        )
    )


def _drivers_own_checks(evidence: Evidence) -> tuple[Condition, ...]:
    """The conditions of the controllers' own gate; after an abort they evaluate it again before a claim."""
    if evidence.driver_state == State.ABORTED:
        return (
            Condition(
                "the controllers evaluate the takeover gate again before the claim", True, evidence.driver_reason
            ),
        )
    if evidence.driver_gate is None:
        return (Condition("the controllers have evaluated the takeover gate", False, evidence.driver_reason),)
    return evidence.driver_gate.conditions


def _rehearsal_checks(rehearsal: Inspection | None) -> tuple[Condition, ...]:
    codes = (REHEARSAL_NOT_PASSED.code,)
    if rehearsal is None:
        return (Condition("the audit of the last rehearsal passed", False, "no rehearsal has finished yet", codes),)
    fresh = rehearsal.age_s < REHEARSAL_FRESH_S
    return (
        Condition("the audit of the last rehearsal passed", rehearsal.passed, rehearsal.said, codes),
        Condition(
            "that rehearsal is under 10 minutes old",
            fresh,
            f"the last rehearsal began {rehearsal.age_s:.0f} s ago",
            codes,
        ),
    )


def _confirmation_checks(confirmation: Inspection | None) -> tuple[Condition, ...]:
    """Nothing waits for Spark, but what it found counts until it finds otherwise."""
    if confirmation is None:
        return ()
    said = confirmation.said if confirmation.passed or confirmation.disagrees else f"not confirmed: {confirmation.said}"
    codes = (CONFIRMATION_DISAGREES.code,)
    return (Condition("Spark found no difference in the rehearsal", not confirmation.disagrees, said, codes),)


def abort_is_possible(evidence: Evidence) -> Verdict:
    """An abort is possible before the commit: nothing was appended yet. Afterwards the rollback is."""
    return Verdict((Condition("the copy is not committed yet", evidence.can_abort, driver_text(evidence)),))


def takeover_is_asked(evidence: Evidence) -> Verdict:
    """A takeover was requested and has not begun: there is nothing to undo, but an operation to cancel."""
    said = evidence.takeover_asked or "no takeover was requested"
    return Verdict((Condition("a takeover was requested and can be cancelled", bool(evidence.takeover_asked), said),))


def copy_is_proven(evidence: Evidence) -> Verdict:
    """Dual-write is entered with proof: the audit before the commit, or one made since (after a restart)."""
    audit = evidence.copy_audit
    return Verdict(
        (
            Condition("the driver is in dual-write", evidence.driver_state == State.DUAL_WRITE, driver_text(evidence)),
            Condition(
                "an audit of the copy found no difference",
                audit is not None and audit.passed,
                "the result of the audit is unknown; the service runs another audit" if audit is None else audit.said,
                () if audit is None else audit.codes,
            ),
            no_later_kafka(evidence.later),
        )
    )


def rollback_is_possible(evidence: Evidence) -> Verdict:
    """A rollback without a restart is possible: all brokers in ZooKeeper mode, our controller in dual-write."""
    kraft = [broker.id for broker in evidence.brokers if broker.registered and broker.mode != "ZooKeeper"]
    silent = "; ".join(f"broker {broker.id}: {broker.not_updated}" for broker in evidence.brokers if broker.not_updated)
    return Verdict(
        (
            observed_at(evidence),
            controllers_answer(evidence),
            dual_write_goes_on(evidence.later),
            Condition("the driver can roll back", evidence.can_roll_back, driver_text(evidence)),
            Condition("every broker has acknowledged its updates", not silent, silent or "all brokers have"),
            versions_follow(evidence),
            Condition(
                "every broker is in ZooKeeper mode",
                not kraft,
                f"in KRaft mode: brokers {kraft}" if kraft else "all brokers are",
            ),
            Condition(
                "the last audit is for information; the rollback makes its own comparison",
                True,
                last_audit(evidence.audits),
            ),
        )
    )


def versions_follow(evidence: Evidence) -> Condition:
    """A ZooKeeper controller refuses ISR changes of a partition whose state znode is behind its partition epoch."""
    match evidence.lagging:
        case None:
            shown = "unknown: the driver has not reported it"
        case (0, _, _):
            shown = "all partition states are"
        case (partitions, operations, seconds):
            shown = f"{partitions} partitions are behind; {operations} writes are left, about {seconds:.0f} s"
    ok = evidence.lagging is not None and not evidence.lagging[0]
    return Condition("every partition state is at its partition epoch", ok, shown, (VERSIONS_LAG.code,))


def nothing_is_claimed(evidence: Evidence) -> Verdict:
    """A rollback before the takeover only stops our controllers; that is safe only while none of them is active."""
    return Verdict(
        (
            observed_at(evidence),
            Condition("the driver holds no claim", evidence.driver_state in NOTHING_CLAIMED, driver_text(evidence)),
            Condition(
                "no controller of this migration is known to hold /controller",
                evidence.holder is not Holder.OURS,
                _holder_text(evidence),
            ),
            *_no_broker_is_away(evidence),
        )
    )


def _no_broker_is_away(evidence: Evidence) -> tuple[Condition, ...]:
    """A broker that the service has stopped is started before anything else; one that failed is its operator's."""
    if evidence.road is None:
        return ()
    away = evidence.road.roll(Roll.JOIN).under_way
    said = f"brokers {list(away)} are: `zk2kraft pause` begins no other one" if away else "none is"
    return (Condition("no broker is being restarted by the service", not away, said),)


def leads_without_claim(evidence: Evidence) -> bool:
    """Whether a leader of ours says that it has claimed nothing, and neither `/controller` nor a log says otherwise.

    `/migration` may be there all the same: somebody else's.
    """
    claimed = evidence.log_in_migration if evidence.holder is Holder.UNKNOWN else evidence.holder is Holder.OURS
    return evidence.driver_state in UNCLAIMED and not claimed


def ours_may_rule(evidence: Evidence) -> bool:
    """Whether brokers may depend on a controller of ours, so that none may be stopped: only a rollback ends that."""
    match evidence.holder:
        case Holder.OURS:
            return True
        case Holder.UNKNOWN:
            return evidence.log_in_migration
        case Holder.NOBODY:
            return evidence.committed_migration is True
        case Holder.ZOOKEEPER_BROKER | Holder.ANOTHER:
            return evidence.committed_migration is True and evidence.log_in_migration


def zookeeper_is_controller(evidence: Evidence) -> Verdict:
    """A ZooKeeper-mode broker is controller again, and neither a log nor a controller of ours contradicts that."""
    talking = [node for node in evidence.controllers if node not in evidence.silent]
    unknown = "; ".join(f"{node} cannot be asked: {why}" for node, why in evidence.unreached.items())
    quiet = not (talking or unknown) or evidence.driver_state == State.RETIRED
    runs = [f"controllers {talking} run"] if talking else []
    runs += [unknown] if unknown else []
    return Verdict(
        (
            Condition(
                "a ZooKeeper-mode broker is controller",
                evidence.holder is Holder.ZOOKEEPER_BROKER,
                _holder_text(evidence),
            ),
            Condition(
                "/migration names no committed log",
                evidence.committed_migration is False,
                {None: "unknown", True: f"it names one ({FOREIGN_MIGRATION.code})", False: "it names no committed log"}[
                    evidence.committed_migration
                ],
                (FOREIGN_MIGRATION.code,),
            ),
            Condition(
                "none of our controllers runs",
                quiet,
                "; ".join(runs) or "none of them runs",
                (CONTROLLER_NOT_REACHED.code,) if unknown else (),
            ),
        )
    )


def standing(evidence: Evidence) -> Verdict:
    """The conditions of every phase; while one of them is not True, the migration is blocked and the cause is named."""
    finding = evidence.driver_finding
    changed = evidence.driver_state == State.FENCED or MIRROR_STOPPED.code in evidence.driver_alarms
    return Verdict(
        (
            observed_at(evidence),
            Condition(
                "ZooKeeper answers",
                evidence.holder is not Holder.UNKNOWN,
                _holder_text(evidence).removeprefix("unknown: "),
                (ZOOKEEPER_UNREACHABLE.code,),
            ),
            controllers_answer(evidence),
            Condition(
                "the claim is unchanged",
                not changed,
                finding[1] if changed and finding is not None else "it is unchanged",
                (finding[0],) if finding is not None else (CLUSTER_DISAGREES.code,),
            ),
            no_later_kafka(evidence.later),
        )
    )


def driver_text(evidence: Evidence) -> str:
    return f"{evidence.driver_state or 'no driver'}: {evidence.driver_reason}"


def _holder_text(evidence: Evidence) -> str:
    return str(evidence.holder) if evidence.holder_id is None else f"node {evidence.holder_id}, {evidence.holder}"
