"""What has to hold before each step of a migration that Kafka's own controllers make (`engine: stock`).

In:   `Evidence` with its `road`; `driver_state` is what log and ZooKeeper show of stock (evidence/stock_driver.py).
Out:  a `Verdict`.
Elsewhere: which gate guards which edge (phases.py), gates that both engines share (gates_forward.py, gates_back.py).
Rules: stock begins its copy by itself as soon as every broker of ZooKeeper has registered, so the restart of the last
broker is the takeover, and everything that a takeover needs is asked before it. Nothing can be compared before stock's
commit; the comparison right after it is the condition of DUAL_WRITE.
Source: Kafka 3.9 `KRaftMigrationDriver`, `WaitForBrokersEvent`; docs/stock-engine.md.
"""

from __future__ import annotations

from typing import Final

from migrator.control_api.states import State
from migrator.findings.road import NO_FLEET
from migrator.findings.service import REHEARSAL_NOT_PASSED
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.audit_observations import schedule_checks
from state_machine.policy.conditions import _roll_is_complete as roll_is_complete
from state_machine.policy.conditions import (
    a_broker_is_controller,
    backup_is_taken,
    brokers_agree,
    claim_is_ours,
    directories_are_assigned,
    every_registration_is_kraft,
    every_voter_is_stock,
    files_are_as_rendered,
    fleet_evidence_of,
    fleet_is_operable,
    guards_are_proven,
    log_is_observed,
    state_is,
    voters_follow,
    zookeeper_follows,
)
from state_machine.policy.fleet_evidence import FleetEvidence, Roll, RollbackPlan
from state_machine.policy.fleet_names import brokers_are_those_of_the_cluster
from state_machine.policy.gates import (
    NOTHING_CLAIMED,
    REHEARSAL_FRESH_S,
    Evidence,
    Holder,
    check_is_clean,
    cluster_is_free,
    driver_text,
    files_fit,
    not_paused,
    observed_at,
)
from state_machine.policy.gates_back import (
    UNLED_S,
    cost_of,
    every_voter_has_the_flag,
    files_are_kept,
    finalize_is_not_begun,
    loss_is_accepted,
    some_host_answers,
    zookeeper_mode_is_possible,
)
from state_machine.policy.later import no_later_kafka
from state_machine.policy.step_conditions import When, conditions_of
from state_machine.policy.taken import restarts_are_accepted, restarts_take

WITH_CLAIM: Final = frozenset({State.COPYING, State.SYNCING, State.DUAL_WRITE})
"""What stock shows of itself from its claim on."""


def stock_files_are_clean(evidence: Evidence) -> Verdict:
    """PREFLIGHT to QUORUM: what stock's files need is known, and the service can write and start them."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            not_paused(evidence),
            cluster_is_free(evidence),
            observed_at(evidence),
            *check_is_clean(evidence),
            files_fit(evidence),
            _is_operated(evidence),
            fleet_is_operable(road),
            *conditions_of(evidence, Roll.BEGIN, When.GATE),
        )
    )


def _is_operated(evidence: Evidence) -> Condition:
    said = "it does" if evidence.road is not None else "no inventory file names the controllers' hosts"
    return Condition("the service operates the hosts", evidence.road is not None, said, (NO_FLEET.code,))


def stock_has_formed(evidence: Evidence) -> Verdict:
    """QUORUM to BROKERS_JOINING, by itself."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            roll_is_complete(road, Roll.BEGIN, "every stock controller was started"),
            log_is_observed(road),
            voters_follow(road),
            *every_voter_has_the_flag(evidence),
            Condition(
                "the log waits for the migration",
                evidence.driver_state in (State.WAIT_BROKERS, *WITH_CLAIM),
                driver_text(evidence),
            ),
            no_later_kafka(evidence.later),
        )
    )


def may_join_stock(evidence: Evidence) -> Verdict:
    """BROKERS_JOINING by the service: every broker but the last."""
    road = fleet_evidence_of(evidence)
    begun = road.roll(Roll.JOIN)
    return Verdict(
        (
            not_paused(evidence),
            cluster_is_free(evidence),
            observed_at(evidence),
            fleet_is_operable(road),
            brokers_are_those_of_the_cluster(evidence),
            _waits(evidence),
            voters_follow(road),
            *every_voter_has_the_flag(evidence),
            *conditions_of(evidence, Roll.JOIN, When.GATE),
            *restarts_are_accepted(road),
            Condition(
                "the rolling restart is not begun yet", not begun.nodes, begun.text if begun.nodes else "it is not"
            ),
        )
    )


def _waits(evidence: Evidence) -> Condition:
    return Condition("stock waits for brokers", evidence.driver_state == State.WAIT_BROKERS, driver_text(evidence))


def all_but_the_last_have_joined(evidence: Evidence) -> Verdict:
    """BROKERS_JOINING to READY, by itself: one restart is left, and stock copies after it."""
    road = fleet_evidence_of(evidence)
    missing = [each.id for each in evidence.brokers if not each.registered]
    begun = road.roll(Roll.JOIN)
    said = f"not registered with stock: brokers {missing}"
    return Verdict(
        (
            Condition("exactly one broker has not joined", len(missing) == 1, said if missing else "every broker has"),
            Condition(
                "no broker is being restarted by the service",
                not begun.under_way and not begun.failed,
                begun.text if begun.nodes else "none is",
            ),
            no_later_kafka(evidence.later),
        )
    )


def last_broker_may_restart(evidence: Evidence) -> Verdict:
    """READY to TAKEOVER: the restart of the last broker, after which stock copies, commits and leads by itself."""
    road = fleet_evidence_of(evidence)
    unfit = [f"broker {each.id} {each.why_unfit}" for each in evidence.brokers if each.registered and each.why_unfit]
    missing = [each.id for each in evidence.brokers if not each.registered]
    return Verdict(
        (
            not_paused(evidence),
            cluster_is_free(evidence),
            observed_at(evidence),
            fleet_is_operable(road),
            *check_is_clean(evidence),
            _waits(evidence),
            Condition("exactly one broker has not joined", len(missing) == 1, f"not registered: brokers {missing}"),
            Condition(
                "every other broker is registered and unfenced", not unfit, "; ".join(unfit) or "every other broker is"
            ),
            a_broker_is_controller(evidence),
            Condition(
                "/migration names no committed log",
                evidence.committed_migration is False,
                {None: "unknown", True: "it names one", False: "it names no committed log"}[
                    evidence.committed_migration
                ],
            ),
            voters_follow(road),
            *every_voter_has_the_flag(evidence),
            *guards_are_proven(road),
            *conditions_of(evidence, Roll.JOIN, When.GATE),
            *restarts_are_accepted(road, missing),
            *_rehearsal_passed(evidence),
            backup_is_taken(road),
        )
    )


def _rehearsal_passed(evidence: Evidence) -> tuple[Condition, ...]:
    rehearsal, codes = evidence.rehearsal, (REHEARSAL_NOT_PASSED.code,)
    name = "a rehearsal was audited and passed, under 10 minutes ago"
    if rehearsal is None:
        return (Condition(name, False, "no rehearsal has finished yet", codes),)
    fresh = rehearsal.passed and rehearsal.age_s < REHEARSAL_FRESH_S
    return (Condition(name, fresh, f"{rehearsal.said}; it began {rehearsal.age_s:.0f} s ago", codes),)


def last_broker_is_back(evidence: Evidence) -> Verdict:
    """TAKEOVER to READY: stock has claimed nothing, and the last broker is not away."""
    road = fleet_evidence_of(evidence)
    away = road.roll(Roll.JOIN).away
    return Verdict(
        (
            observed_at(evidence),
            Condition("stock has claimed nothing", evidence.driver_state in NOTHING_CLAIMED, driver_text(evidence)),
            a_broker_is_controller(evidence),
            Condition("no broker is away", not away, f"brokers {list(away)} are" if away else "none is"),
        )
    )


def copy_of_stock_is_proven(evidence: Evidence) -> Verdict:
    """AUDIT to DUAL_WRITE, by itself: stock's copy was committed unseen; it counts once both sides were compared."""
    audit, road = evidence.copy_audit, fleet_evidence_of(evidence)
    return Verdict(
        (
            Condition("stock is in dual-write", evidence.driver_state == State.DUAL_WRITE, driver_text(evidence)),
            log_is_observed(road),
            Condition(
                "an audit of the copy found no difference",
                audit is not None and audit.passed,
                "the service runs it now" if audit is None else audit.said,
                () if audit is None else audit.codes,
            ),
            no_later_kafka(evidence.later),
        )
    )


def may_soak_stock(evidence: Evidence) -> Verdict:
    """ROLLING_BROKERS to SOAK: every broker is in KRaft mode; there is no controller of ours to replace."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            *schedule_checks(evidence.audits),
            *brokers_agree(evidence),
            fleet_is_operable(road),
            brokers_are_those_of_the_cluster(evidence),
            roll_is_complete(road, Roll.KRAFT, "every broker was restarted into KRaft mode"),
            every_registration_is_kraft(road),
            directories_are_assigned(road),
            every_voter_is_stock(road),
            *conditions_of(evidence, Roll.SOAK, When.GATE),
            state_is(road, MigrationState.MIGRATION),
            files_are_as_rendered(road),
            backup_is_taken(road),
        )
    )


def stock_is_unclaimed(evidence: Evidence) -> Verdict:
    """Before the claim a rollback stops stock; safe only while it has claimed nothing and no broker is away."""
    road = fleet_evidence_of(evidence)
    away, begun = road.roll(Roll.JOIN).under_way, bool(road.roll(Roll.BEGIN).nodes)
    known = evidence.holder is not Holder.UNKNOWN or not begun
    return Verdict(
        (
            observed_at(evidence),
            Condition("stock has claimed nothing", evidence.driver_state in NOTHING_CLAIMED, driver_text(evidence)),
            Condition(
                "no controller of this migration is known to hold /controller",
                known and evidence.holder is not Holder.OURS,
                f"/controller: {evidence.holder}",
            ),
            Condition(
                "no broker is being restarted by the service",
                not away,
                f"brokers {list(away)} are: `zk2kraft pause` begins no other one" if away else "none is",
            ),
        )
    )


def _followed(road: FleetEvidence) -> tuple[Condition, ...]:
    """Before `/migration` names an offset nothing was mirrored: ZooKeeper is what it was before the copy."""
    mirrors = road.migration_offset is not None and road.migration_offset >= 0
    return (zookeeper_follows(road),) if mirrors else ()


def _brokers_are_there(road: FleetEvidence) -> Condition:
    """The claim is not taken away while a broker that holds replicas is dead: nobody would lead them. It is asked here,
    while stock leads and its replicas can still be moved.
    """
    away, orphans = list(road.not_ready), road.orphans
    said = f"brokers {away} are fenced or shutting down; {orphans} replicas are on brokers that are not registered"
    ok = not away and not orphans
    name = "every broker that holds replicas is there"
    return Condition(name, ok, "every one is" if ok else f"{said}: start them, or move their replicas elsewhere")


def stock_may_end(evidence: Evidence) -> Verdict:
    """Right before stock is stopped on a way back: what it has committed is in ZooKeeper.

    Where nobody has led for a while nothing more is mirrored, and nothing can be waited for.
    """
    road = fleet_evidence_of(evidence)
    if road.log_problem and (road.unled_s or 0.0) >= UNLED_S:
        return Verdict(())
    return Verdict((*((log_is_observed(road),) if _followed(road) else ()), *_followed(road)))


def stock_may_return(evidence: Evidence) -> Verdict:
    """AUDIT to SOAK back to ZooKeeper mode: brokers first, then stock is stopped and the claim taken away.

    A copy that diverged closes every step forward and never this one.
    """
    road = fleet_evidence_of(evidence)
    back = road.back or RollbackPlan()
    needs_log = bool(back.restarts)
    return Verdict(
        (
            observed_at(evidence),
            finalize_is_not_begun(road),
            no_later_kafka(evidence.later),
            *((log_is_observed(road), *zookeeper_mode_is_possible(road)) if needs_log else ()),
            *(every_voter_has_the_flag(evidence) if needs_log else ()),
            claim_is_ours(evidence),
            *_followed(road),
            _brokers_are_there(road),
            fleet_is_operable(road),
            files_are_kept(back),
            *some_host_answers(back),
            loss_is_accepted(back),
            Condition("restarts, for information", True, cost_of(back)),
            *restarts_take(road, back.restarts),
        )
    )
