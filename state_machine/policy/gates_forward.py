"""What has to hold before each step from dual-write to the end.

In:   `Evidence` with its `road`. Out: a `Verdict`.
Elsewhere: gates before dual-write (gates.py), what a gate shares with the stops and starts behind it
(step_conditions.py), conditions that several gates share (conditions.py), gates of the
way back (gates_back.py), which gate guards which edge (phases.py), what is looked at (fleet_evidence.py).
Source: Kafka 3.9 `ActivationRecordsGenerator.recordsForNonEmptyLog` finalizes by the flag of the one node that becomes
active, so that the first start without it decides for the whole cluster.
"""

from __future__ import annotations

import math
from typing import Final

from migrator.control_api.states import State
from migrator.findings.road import (
    NO_FLEET,
)
from migrator.findings.service import AUDIT_OVERDUE, NOT_OBSERVED
from migrator.model.levels import level_name
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.audit_observations import schedule_checks
from state_machine.policy.conditions import (
    LEVELS_FRESH_S,
    _all_voters,
    _roll_is_complete,
    audit_is_fresh,
    backup_is_taken,
    brokers_agree,
    claim_is_ours,
    directories_are_assigned,
    every_broker_is_ready,
    every_registration_is_kraft,
    every_voter_is_stock,
    files_are_as_rendered,
    fleet_evidence_of,
    fleet_is_operable,
    is_approved,
    log_is_observed,
    not_read,
    or_waived,
    replicas_are_whole,
    rests_on,
    snapshots_are_written,
    state_is,
    voters_follow,
    zookeeper_follows,
)
from state_machine.policy.fleet_evidence import FleetEvidence, LevelsObserved, Roll, SoakObserved
from state_machine.policy.fleet_names import brokers_are_those_of_the_cluster, controllers_have_one_file
from state_machine.policy.gates import (
    Evidence,
    cluster_is_free,
    controllers_answer,
    driver_text,
    not_paused,
    observed_at,
)
from state_machine.policy.later import no_later_kafka
from state_machine.policy.raises import raise_conditions
from state_machine.policy.step_conditions import When, conditions_of
from state_machine.policy.taken import restarts_are_accepted

MISSED_WORTH_NAMING_S: Final = 60.0


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
            brokers_are_those_of_the_cluster(evidence),
            Condition(
                "the driver waits for brokers", evidence.driver_state == State.WAIT_BROKERS, driver_text(evidence)
            ),
            *conditions_of(evidence, Roll.JOIN, When.GATE),
            *restarts_are_accepted(road),
            Condition(
                "the rolling restart is not begun yet", not begun.nodes, begun.text if begun.nodes else "it is not"
            ),
        )
    )


def may_roll_brokers(evidence: Evidence) -> Verdict:
    """DUAL_WRITE to ROLLING_BROKERS: proven by audits, and nothing is amiss before the first restart."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            *schedule_checks(evidence.audits),
            *brokers_agree(evidence),
            Condition("the driver is in dual-write", evidence.driver_state == State.DUAL_WRITE, driver_text(evidence)),
            fleet_is_operable(road),
            brokers_are_those_of_the_cluster(evidence),
            *conditions_of(evidence, Roll.KRAFT, When.GATE),
            *restarts_are_accepted(road),
            backup_is_taken(road),
        )
    )


def may_replace_controllers(evidence: Evidence) -> Verdict:
    """ROLLING_BROKERS to REPLACING_CONTROLLERS: no ZooKeeper-mode broker is left for stock's dual-write to hurt."""
    road = fleet_evidence_of(evidence)
    against = None if road.replacing is None else "; ".join(f"{code} {says}" for code, says in road.replacing)
    offset = road.migration_offset
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            *schedule_checks(evidence.audits),
            *brokers_agree(evidence),
            fleet_is_operable(road),
            brokers_are_those_of_the_cluster(evidence),
            _roll_is_complete(road, Roll.KRAFT, "every broker was restarted into KRaft mode"),
            every_registration_is_kraft(road),
            directories_are_assigned(road),
            *conditions_of(evidence, Roll.STOCK, When.GATE),
            Condition(
                "/migration has an offset above 0 (at -1 stock stays inactive)",
                offset is not None and offset > 0,
                "/migration has no offset" if offset is None else f"the offset is {offset}",
            ),
            Condition(
                "nothing in the log or in ZooKeeper stops a stock controller",
                against == "",
                "not known: no migrating controller reports it"
                if against is None
                else against or "no obstacle was found",
                tuple(sorted({code for code, _ in road.replacing or ()})),
            ),
            files_are_as_rendered(road),
            *controllers_have_one_file(road),
            backup_is_taken(road),
        )
    )


def may_raise_version(evidence: Evidence) -> Verdict:
    """A feature in COMPLETED; metadata.version where none is named. Irreversible: stock refuses every downgrade of it
    that would lose something.

    Stock looks at every registration, fenced ones too (`ClusterControlManager`, `QuorumFeatures.reasonNotSupported`).
    """
    road = fleet_evidence_of(evidence)
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
            *(raise_conditions(road.raising) if road.raising is not None else (_later_version(levels, fresh=fresh),)),
            is_approved(road, "the raise of metadata.version" if road.raising is None else road.raising.words),
        )
    )


def _later_version(levels: LevelsObserved | None, *, fresh: bool) -> Condition:
    return Condition(
        "every broker and voter runs software with a later metadata.version",
        fresh and levels is not None and levels.target is not None and levels.target > levels.finalized,
        "the voters were not asked in the last minute" if levels is None or not fresh else levels_text(levels),
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


def controllers_are_replaced(evidence: Evidence) -> Verdict:
    """REPLACING_CONTROLLERS to SOAK, by itself."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            observed_at(evidence),
            _roll_is_complete(road, Roll.STOCK, "every controller was replaced by stock"),
            every_voter_is_stock(road),
            *conditions_of(evidence, Roll.SOAK, When.GATE),
            state_is(road, MigrationState.MIGRATION),
        )
    )


def finalize_evidence(evidence: Evidence) -> Verdict:
    """SOAK to FINALIZING. Irreversible: every line has to hold at the same moment."""
    road = fleet_evidence_of(evidence)
    gone, least = road.gone_s, road.limits.brokers_gone_s
    unready = [each.id for each in road.voters if each.ready is not True]
    return Verdict(
        (
            not_paused(evidence),
            observed_at(evidence),
            *conditions_of(evidence, Roll.FINAL, When.GATE),
            Condition(
                f"/brokers/ids is empty, and was for {least:g} s",
                gone is not None and gone >= least,
                f"/brokers/ids names {list(road.zookeeper_ids)}"
                if road.zookeeper_ids
                else f"/brokers/ids has been empty for {gone or 0:.0f} s{rests_on(road.gone_rests_on)}",
            ),
            directories_are_assigned(road),
            every_voter_is_stock(road),
            Condition(
                "every voter runs with the migration flag",
                bool(road.voters) and not unready,
                f"voters {unready} are not registered as ready for the migration"
                if unready
                else _all_voters(road, "registered as ready"),
            ),
            state_is(road, MigrationState.MIGRATION),
            claim_is_ours(evidence),
            zookeeper_follows(road),
            files_are_as_rendered(road),
            audit_is_fresh(evidence),
            *soak_is_over(road),
            audit_follows_soak(evidence),
            *brokers_agree(evidence, quiet_s=math.inf if road.soak is None else road.soak.quiet_s),
            backup_is_taken(road),
            is_approved(road, "FINALIZING"),
        )
    )


def soak_is_over(road: FleetEvidence) -> tuple[Condition, ...]:
    """Stock's elections, snapshots and restarts on our log are proven while there is a way back."""
    soak, voters = road.soak, {each.id for each in road.voters}
    least = road.limits.soak_s
    age = None if soak is None else soak.age_s
    idle = sorted(voters - set(soak.leaders if soak else ()))
    return (
        Condition(
            f"the soak lasted {least:g} s",
            age is not None and age >= least,
            "the soak has not begun" if soak is None else _lasted(soak),
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


def _lasted(soak: SoakObserved) -> str:
    """What was not observed is named once it is no accident of rounding."""
    said = f"the soak has lasted {soak.age_s:.0f} s{rests_on(soak.rests_on)}"
    missed = soak.missed_s > MISSED_WORTH_NAMING_S
    return said + (f"; {soak.missed_s:.0f} s more were not observed, and do not count" if missed else "")


def audit_follows_soak(evidence: Evidence) -> Condition:
    """Both sides were compared after stock did everything that it will do to them."""
    soak = fleet_evidence_of(evidence).soak
    passed = None if evidence.audits is None else evidence.audits.passed_s
    quiet = None if soak is None else soak.quiet_s
    said = "no audit has passed yet" if passed is None else f"the last one passed {passed:.0f} s ago"
    said += "" if quiet is None or math.isinf(quiet) else f", the last restart or election was {quiet:.0f} s ago"
    follows = passed is not None and quiet is not None and passed < quiet
    return Condition("an audit passed after the last restart and election", follows, said, (AUDIT_OVERDUE.code,))


def finalize_is_committed(evidence: Evidence) -> Verdict:
    """FINALIZING to COMPLETED, by itself."""
    road = fleet_evidence_of(evidence)
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
            no_later_kafka(evidence.later),
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
                "; ".join(each.words for each in left)
                or ("the service has read no file yet" if files is None else "no file has a ZooKeeper key"),
            ),
        )
    )
