"""What has to hold before a step: each gate looks at the evidence and answers with every check and what was seen.

In:   `Evidence`: what the service knows at the moment of the question, ages in seconds.
Out:  a `Verdict`; the same one is stored with the transition, printed by the command line and shown on the page.
Elsewhere: which gate guards which edge (phases.py), how evidence is gathered (evidence.py), the takeover gate's own
checks (driver.gate, asked by the controllers and handed through here line by line).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from migrator.findings.driver import FOREIGN_MIGRATION, VERSIONS_LAG
from migrator.findings.service import (
    CLUSTER_DISAGREES,
    CLUSTER_TAKEN,
    CONFIRMATION_DISAGREES,
    CONTROLLER_SILENT,
    INSPECTION_FAILED,
    NOT_IN_THIS_RELEASE,
    NOT_LOOKED_AT,
    REHEARSAL_NOT_GREEN,
)
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.model.verdict import Check, Verdict
from state_machine.policy.audits_seen import ScheduledAudits, last_audit, schedule_checks

LOOK_FRESH_S: Final = 10.0
"""The loop looks twice a second; ten seconds without a look is a service that does not look any more."""
CHECK_FRESH_S: Final = 600.0
REHEARSAL_FRESH_S: Final = 600.0
HEARTBEAT_FRESH_MS: Final = 3_000
"""As in the driver's own gate: a broker sends one every two seconds."""

WAITS: Final = frozenset({"WAIT_BROKERS", "HELD"})
"""States in which the driver can be asked for a takeover."""
UNCLAIMED: Final = frozenset({"WAIT_QUORUM", *WAITS})
"""States of a leader's driver whose log is in no migration and that has begun no takeover."""
NOTHING_CLAIMED: Final = frozenset({None, "IDLE", "WAIT_QUORUM", "WAIT_BROKERS", "HELD"})
BEFORE_BROKERS: Final = frozenset({None, "IDLE", "WAIT_QUORUM"})


class Holder(StrEnum):
    """Who holds `/controller` in ZooKeeper."""

    ZOOKEEPER_BROKER = "a ZooKeeper-mode broker"
    OURS = "a controller of this migration"
    ANOTHER = "a KRaft controller of another quorum"
    NOBODY = "nobody"
    UNKNOWN = "not known: ZooKeeper does not answer"


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A broker as the active controller knows it.

    registered: False when only ZooKeeper or the inventory has it; None while no controller answers.
    not_told:   why it has not acknowledged everything that it has to hear; empty when it has, or has nothing to hear.
    """

    id: int
    registered: bool | None = True
    mode: str = "ZooKeeper"
    fenced: bool = False
    heartbeat_age_ms: int | None = 0
    not_told: str = ""

    @property
    def why_unfit(self) -> str:
        """Empty when it is ready for a takeover."""
        if self.registered is None:
            return "not known: no controller answers"
        if not self.registered:
            return "not registered"
        if self.fenced:
            return "fenced"
        if self.mode != "ZooKeeper":
            return f"in {self.mode} mode"
        if self.heartbeat_age_ms is None or self.heartbeat_age_ms >= HEARTBEAT_FRESH_MS:
            return f"last heartbeat {self.heartbeat_age_ms} ms ago"
        return f"not updated: {self.not_told}" if self.not_told else ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The last result of `check`, of a rehearsal's audit, or of the audit of the copy.

    green:   nothing blocks, or both sides say the same. said: what it found, in one line.
    age_s:   of what it says; a rehearsal's counts from before its reading began, since that is what it knows.
    disagrees: it compared everything and found a difference; not green alone may be no result.
    ended_s: since a rehearsal ended.
    """

    green: bool
    age_s: float
    said: str
    codes: tuple[str, ...] = ()
    disagrees: bool = False
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the service knows. `None` is "not known", which no gate takes for a yes.

    looked_s:    seconds since the cluster was last looked at.
    held:        who holds steps forward, and why.
    silent:      controllers of the inventory that do not answer, with the reason.
    file_faults: controllers' files that do not fit the service, with finding code and words.
    driver_state: of the controller that leads, or of one that handed back; a follower's says nothing.
    lagging:     partition states whose version is behind the partition epoch, writes that are left, and about how many
                 seconds they will take.
    takeover_asked: who asked for a takeover that has not begun; empty when nobody did.
    rival:       the other migration to which this cluster belongs.
    log_in_migration: some controller that answers has the migration in its log, whatever ZooKeeper says.
    """

    looked_s: float | None
    held: str | None = None
    controllers: tuple[int, ...] = ()
    silent: Mapping[int, str] = field(default_factory=dict)
    file_faults: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    driver_state: str | None = None
    driver_reason: str = "no controller has said anything yet"
    driver_finding: tuple[str, str] | None = None
    driver_gate: Verdict | None = None
    can_abort: bool = False
    takeover_asked: str = ""
    can_hand_back: bool = False
    lagging: tuple[int, int, float] | None = None
    brokers: tuple[BrokerSeen, ...] = ()
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


Gate: TypeAlias = Callable[[Evidence], Verdict]

# --- checks that several gates share ----------------------------------------------------------------------


def looked_at(seen: Evidence) -> Check:
    age = "never" if seen.looked_s is None else f"{seen.looked_s:.1f} s ago"
    fresh = seen.looked_s is not None and seen.looked_s < LOOK_FRESH_S
    return Check("the cluster was looked at under 10 s ago", fresh, age, (NOT_LOOKED_AT.code,))


def not_held(seen: Evidence) -> Check:
    return Check("steps forward are not held", seen.held is None, seen.held or "not held")


def cluster_is_free(seen: Evidence) -> Check:
    shown = seen.rival or "none"
    return Check("No other migration is about this cluster", seen.rival is None, shown, (CLUSTER_TAKEN.code,))


def controllers_answer(seen: Evidence) -> Check:
    silent = "; ".join(f"{node}: {why}" for node, why in sorted(seen.silent.items()))
    answering = len(seen.controllers) - len(seen.silent)
    seen_text = silent or f"{answering}/{len(seen.controllers)}"
    return Check("every controller answers", not seen.silent, seen_text, (CONTROLLER_SILENT.code,))


def brokers_are_fit(seen: Evidence) -> Check:
    unfit = [f"broker {broker.id} {broker.why_unfit}" for broker in seen.brokers if broker.why_unfit]
    fit = len(seen.brokers) - len(unfit)
    return Check(
        "every broker is registered, unfenced and heard of in the last 3 s",
        bool(seen.brokers) and not unfit,
        f"{fit}/{len(seen.brokers)}" + (f": {', '.join(unfit)}" if unfit else ""),
    )


# --- gates ------------------------------------------------------------------------------------------------


def always(seen: Evidence) -> Verdict:
    """The cluster did it already; there is nothing left to refuse."""
    return Verdict((Check("the cluster shows it", True, seen.driver_reason),))


def may_begin(seen: Evidence) -> Verdict:
    """PREFLIGHT only reads."""
    return Verdict((not_held(seen),))


def preflight_is_clean(seen: Evidence) -> Verdict:
    """QUORUM starts processes, so the cluster and the controllers' files must have been looked at."""
    check = seen.check
    faults = "; ".join(f"controller {node}: {text}" for node, (_, text) in sorted(seen.file_faults.items()))
    fault_codes = tuple(sorted({code for code, _ in seen.file_faults.values()}))
    return Verdict(
        (
            not_held(seen),
            cluster_is_free(seen),
            looked_at(seen),
            Check(
                "`check` finds nothing that blocks",
                check is not None and check.green,
                "it has not been run yet" if check is None else check.said,
                (INSPECTION_FAILED.code,) if check is None else check.codes,
            ),
            Check(
                "that check is under 10 minutes old",
                check is not None and check.age_s < CHECK_FRESH_S,
                "none" if check is None else f"{check.age_s:.0f} s",
            ),
            Check(
                "every controller's file fits the service",
                check is not None and not faults,
                faults or ("not looked at yet" if check is None else "all do"),
                fault_codes,
            ),
        )
    )


def quorum_has_formed(seen: Evidence) -> Verdict:
    return Verdict(
        (
            controllers_answer(seen),
            Check(
                "one controller leads, and every voter is registered",
                seen.driver_state not in BEFORE_BROKERS,
                seen.driver_reason,
            ),
        )
    )


def brokers_have_joined(seen: Evidence) -> Verdict:
    """Nothing but their presence; whether the cluster is healthy is asked before the takeover."""
    waiting = seen.driver_state == "WAIT_BROKERS" and seen.driver_gate is None
    early = seen.driver_state in BEFORE_BROKERS
    missing = [broker.id for broker in seen.brokers if not broker.registered]
    return Verdict(
        (
            Check("every broker in ZooKeeper is registered and unfenced", not (waiting or early), seen.driver_reason),
            Check(
                "every broker of the inventory is registered",
                not missing,
                f"missing: {missing}" if missing else f"{len(seen.brokers)} registered",
            ),
        )
    )


def takeover_may_begin(seen: Evidence) -> Verdict:
    """The window without a controller begins with this step; inside it nothing waits for a person."""
    return Verdict(
        (
            not_held(seen),
            cluster_is_free(seen),
            *worth_rehearsing(seen).checks,
            *_rehearsal_checks(seen.rehearsal),
            *_confirmation_checks(seen.confirmation),
        )
    )


def worth_rehearsing(seen: Evidence) -> Verdict:
    """A tree that still changes by itself, as after a broker's restart, would only differ from its own copy."""
    return Verdict(
        (
            looked_at(seen),
            controllers_answer(seen),
            Check("the driver waits for this step", seen.driver_state in WAITS, driver_text(seen)),
            brokers_are_fit(seen),
            *_drivers_own_checks(seen),
        )
    )


def _drivers_own_checks(seen: Evidence) -> tuple[Check, ...]:
    """Line by line what the controllers judged; after an abort they judge again before they claim anything."""
    if seen.driver_state == "HELD":
        return (Check("the controllers judge the cluster again before the claim", True, seen.driver_reason),)
    if seen.driver_gate is None:
        return (Check("the controllers have judged the cluster", False, seen.driver_reason),)
    return seen.driver_gate.checks


def _rehearsal_checks(rehearsal: Inspection | None) -> tuple[Check, ...]:
    codes = (REHEARSAL_NOT_GREEN.code,)
    if rehearsal is None:
        return (Check("a rehearsal was audited, and both sides say the same", False, "none was finished yet", codes),)
    fresh = rehearsal.age_s < REHEARSAL_FRESH_S
    return (
        Check("a rehearsal was audited, and both sides say the same", rehearsal.green, rehearsal.said, codes),
        Check("that rehearsal is under 10 minutes old", fresh, f"{rehearsal.age_s:.0f} s", codes),
    )


def _confirmation_checks(confirmation: Inspection | None) -> tuple[Check, ...]:
    """Nothing waits for Spark, but what it found counts until it finds otherwise."""
    if confirmation is None:
        return ()
    said = confirmation.said if confirmation.green or confirmation.disagrees else f"not confirmed: {confirmation.said}"
    codes = (CONFIRMATION_DISAGREES.code,)
    return (Check("Spark does not disagree with the rehearsal's audit", not confirmation.disagrees, said, codes),)


def abort_is_possible(seen: Evidence) -> Verdict:
    """Before the commit nothing was appended; afterwards the way back is the hand-back."""
    return Verdict((Check("the copy is not committed yet", seen.can_abort, driver_text(seen)),))


def takeover_is_asked(seen: Evidence) -> Verdict:
    """Before it begins there is nothing to undo, but a wish to take back."""
    said = seen.takeover_asked or "nobody asked for one"
    return Verdict((Check("a takeover was asked for and can be taken back", bool(seen.takeover_asked), said),))


def copy_is_proven(seen: Evidence) -> Verdict:
    """Dual-write is entered with proof: the audit before the commit, or one made since (after a restart)."""
    audit = seen.copy_audit
    return Verdict(
        (
            Check("the driver is in dual-write", seen.driver_state == "DUAL_WRITE", driver_text(seen)),
            Check(
                "an audit of the copy found no difference",
                audit is not None and audit.green,
                "the audit's result is not known; another one is made" if audit is None else audit.said,
                () if audit is None else audit.codes,
            ),
        )
    )


def dual_write_is_proven(seen: Evidence) -> Verdict:
    """Every step forward from dual-write rests on its audits; the first such step comes with a later release."""
    return Verdict(
        (
            not_held(seen),
            looked_at(seen),
            *schedule_checks(seen.audits),
            Check("HAND_OVER is in this release", False, "a later release has it", (NOT_IN_THIS_RELEASE.code,)),
        )
    )


def hand_back_is_possible(seen: Evidence) -> Verdict:
    """Without restarting a broker: all of them in ZooKeeper mode, our controller alive and in dual-write."""
    kraft = [broker.id for broker in seen.brokers if broker.registered and broker.mode != "ZooKeeper"]
    silent = "; ".join(f"broker {broker.id}: {broker.not_told}" for broker in seen.brokers if broker.not_told)
    return Verdict(
        (
            looked_at(seen),
            controllers_answer(seen),
            Check("the driver can hand back", seen.can_hand_back, driver_text(seen)),
            Check("every broker has acknowledged its updates", not silent, silent or "all have"),
            versions_follow(seen),
            Check("every broker is in ZooKeeper mode", not kraft, f"KRaft: {kraft}" if kraft else "all are"),
            Check(
                "the last audit is for your information; the rollback compares by itself",
                True,
                last_audit(seen.audits),
            ),
        )
    )


def versions_follow(seen: Evidence) -> Check:
    """A ZooKeeper controller refuses ISR changes of a partition whose state znode is behind its partition epoch."""
    match seen.lagging:
        case None:
            shown = "not known"
        case (0, _, _):
            shown = "all are"
        case (partitions, operations, seconds):
            shown = f"{partitions} partitions are behind: {operations} writes are left, about {seconds:.0f} s"
    ok = seen.lagging is not None and not seen.lagging[0]
    return Check("every partition state is at its partition epoch", ok, shown, (VERSIONS_LAG.code,))


def nothing_is_claimed(seen: Evidence) -> Verdict:
    """Going back before the takeover only stops our controllers; that is safe only while they rule nothing."""
    return Verdict(
        (
            looked_at(seen),
            Check("the driver holds no claim", seen.driver_state in NOTHING_CLAIMED, driver_text(seen)),
            Check("/controller is not known to be ours", seen.holder is not Holder.OURS, _holder_text(seen)),
        )
    )


def leads_without_claim(seen: Evidence) -> bool:
    """Whether a leader of ours says that it has claimed nothing, and neither `/controller` nor a log says otherwise.

    `/migration` may be there all the same: somebody else's.
    """
    claimed = seen.log_in_migration if seen.holder is Holder.UNKNOWN else seen.holder is Holder.OURS
    return seen.driver_state in UNCLAIMED and not claimed


def ours_may_rule(seen: Evidence) -> bool:
    """Whether brokers may depend on a controller of ours, so that none may be stopped: only a hand-back ends that."""
    match seen.holder:
        case Holder.OURS:
            return True
        case Holder.UNKNOWN:
            return seen.log_in_migration
        case Holder.NOBODY:
            return seen.committed_migration is True
        case Holder.ZOOKEEPER_BROKER | Holder.ANOTHER:
            return seen.committed_migration is True and seen.log_in_migration


def zookeeper_rules(seen: Evidence) -> Verdict:
    """The cluster is back where it came from, and nothing of ours says otherwise."""
    talking = [node for node in seen.controllers if node not in seen.silent]
    quiet = not talking or seen.driver_state == "RETIRED"
    return Verdict(
        (
            Check("a ZooKeeper-mode broker is controller", seen.holder is Holder.ZOOKEEPER_BROKER, _holder_text(seen)),
            Check(
                "/migration names no committed log",
                seen.committed_migration is False,
                {None: "not known", True: f"it does ({FOREIGN_MIGRATION.code})", False: "it does not"}[
                    seen.committed_migration
                ],
                (FOREIGN_MIGRATION.code,),
            ),
            Check("no controller of ours runs", quiet, f"running: {talking}" if talking else "none runs"),
        )
    )


def standing(seen: Evidence) -> Verdict:
    """What has to hold in every phase; when it does not, the migration is blocked, with the cause named."""
    finding = seen.driver_finding
    fenced = seen.driver_state == "FENCED"
    return Verdict(
        (
            looked_at(seen),
            Check(
                "ZooKeeper answers",
                seen.holder is not Holder.UNKNOWN,
                _holder_text(seen),
                (ZOOKEEPER_UNREACHABLE.code,),
            ),
            controllers_answer(seen),
            Check(
                "nobody else touched the claim",
                not fenced,
                finding[1] if fenced and finding is not None else "untouched",
                (finding[0],) if finding is not None else (CLUSTER_DISAGREES.code,),
            ),
        )
    )


def driver_text(seen: Evidence) -> str:
    return f"{seen.driver_state or 'no driver'}: {seen.driver_reason}"


def _holder_text(seen: Evidence) -> str:
    return str(seen.holder) if seen.holder_id is None else f"node {seen.holder_id}, {seen.holder}"
