"""A Kafka without ZooKeeper before COMPLETED: it is named before it leads, steps forward wait; what is said after."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from immutables import Map

from migrator.control_api.status import ControllerStatus, QuorumStatus
from migrator.fleet.guard import Proof
from migrator.model.at_a_stop import MinIsr
from migrator.model.later_kafka import LaterNode
from migrator.model.values import ConfigKey, ConfigType
from state_machine.change.report import led_by_later_kafka
from state_machine.clusters.log_observer import (
    LaterProblem,
    LogBroker,
    LogController,
    LogObservation,
    VoterSoftware,
    problems_later,
)
from state_machine.clusters.observe import ControllerObservation, LaterLed, Observation, ZooKeeperObservation, summed_up
from state_machine.evidence.later_seen import before_later, later_seen
from state_machine.facts.accepted import WaiverFact
from state_machine.facts.guards import GuardFact
from state_machine.policy.conditions import guards_are_proven
from state_machine.policy.fleet_evidence import FilesObserved, FleetEvidence, Roll, VoterObserved
from state_machine.policy.gates import Evidence, standing
from state_machine.policy.gates_back import controllers_may_return
from state_machine.policy.later import LaterObserved, dual_write_goes_on, later_findings, no_later_kafka
from state_machine.policy.phase_table import WAY_FORWARD
from state_machine.policy.phases import TRANSITIONS, Edge, Phase, Trigger
from state_machine.policy.undo import is_irreversible, undo_of
from state_machine.rolling.table import cluster_ready

OF_3_9: Final = (1, 21)
OF_4_0: Final = (7, 25)
WAITING: Final = LaterObserved((LaterNode(3001, True, *OF_4_0),))
LEADING: Final = replace(WAITING, leader=WAITING.nodes[0], led_since=100.0)
NAME: Final = "no node runs a Kafka without ZooKeeper"
ROAD_EVIDENCE: Final = FleetEvidence(fleet_problem="", log_problem="")


def a_log(
    *,
    leader: int = 3000,
    migration: str = "MIGRATION",
    levels: dict[int, tuple[int, int]] | None = None,
    software: tuple[VoterSoftware, ...] = (),
    brokers: tuple[LogBroker, ...] = (),
) -> LogObservation:
    ranges = {3000: OF_3_9, 3001: OF_3_9, 3002: OF_3_9, **(levels or {})}
    controllers = tuple(LogController(node, "x", found == OF_3_9, found) for node, found in ranges.items())
    return LogObservation(
        100.0,
        "",
        leader=leader,
        migration=migration,
        controllers=controllers,
        brokers=brokers,
        software=software,
    )


def seen(log: LogObservation, phase: Phase = Phase.SOAK) -> LaterObserved:
    return later_seen(Observation(100.0, log=log), phase)


# --- what is seen -----------------------------------------------------------------------------------------


def test_a_registration_of_4_x_names_its_controller_before_it_leads() -> None:
    found = seen(a_log(levels={3001: OF_4_0}))
    assert found.nodes == (LaterNode(3001, True, *OF_4_0),)
    assert found.leader is None
    assert not found.has_ended_dual_write


def test_the_controller_that_leads_is_told_apart() -> None:
    found = seen(a_log(leader=3001, levels={3001: OF_4_0}))
    assert found.leader == LaterNode(3001, True, *OF_4_0)
    assert found.has_ended_dual_write


def test_the_answer_of_a_voter_counts_where_none_registers_and_against_an_old_registration() -> None:
    """Below metadata.version 3.7-IV0 no controller registers; 3.9 that was put back may not have registered yet."""
    silent = msgspec.structs.replace(a_log(), controllers=())
    of_4 = VoterSoftware(3001, *OF_4_0, zk_migration_ready=False)
    assert [each.id for each in seen(msgspec.structs.replace(silent, software=(of_4,))).nodes] == [3001]
    put_back = VoterSoftware(3001, *OF_3_9, zk_migration_ready=True)
    assert seen(a_log(levels={3001: OF_4_0}, software=(put_back,))).nodes == ()


def test_a_broker_in_kraft_mode_counts_and_one_in_zookeeper_mode_registers_no_range() -> None:
    kraft = LogBroker(1, "x", "KRaft", False, levels=OF_4_0)
    zookeeper = LogBroker(2, "x", "ZooKeeper", False, levels=(21, 21))
    assert seen(a_log(brokers=(kraft, zookeeper))).nodes == (LaterNode(1, False, *OF_4_0),)


@pytest.mark.parametrize("phase", list(Phase))
def test_it_is_looked_for_from_quorum_to_finalizing_and_on_the_way_back(phase: Phase) -> None:
    asked = seen(a_log(levels={3001: OF_4_0}), phase).nodes != ()
    assert asked is (phase not in (Phase.CREATED, Phase.PREFLIGHT, Phase.COMPLETED, Phase.ROLLED_BACK))


def test_once_the_end_is_in_the_log_every_release_may_come() -> None:
    assert seen(a_log(migration="POST_MIGRATION", levels={3001: OF_4_0}), Phase.FINALIZING).nodes == ()


def test_a_log_that_was_in_migration_and_is_not_any_more_is_forgotten() -> None:
    assert seen(a_log(migration="NONE")).forgotten
    assert not seen(a_log(migration="NONE"), Phase.BROKERS_JOINING).forgotten


def test_before_the_service_reads_the_log_our_controllers_tell() -> None:
    finding = {"code": "Z2K-2024", "says": "Controller 3001 does not fit", "values": {}}
    status = ControllerStatus(3000, "run", QuorumStatus(3000, 1), 0.0, findings=(finding,))
    look = Observation(100.0, (ControllerObservation(3000, 1, status),))
    condition = no_later_kafka(later_seen(look, Phase.READY))
    assert not condition.holds
    assert condition.codes == ("Z2K-2024",)
    assert "Controller 3001" in condition.message
    assert "the runbook of Z2K-2024" in condition.message


def test_who_led_is_kept_after_3_9_is_back() -> None:
    leads = summed_up(100.0, (), ZooKeeperObservation(), None, a_log(leader=3001, levels={3001: OF_4_0}))
    still = summed_up(103.0, (), ZooKeeperObservation(), leads, a_log(leader=3001, levels={3001: OF_4_0}))
    after = summed_up(109.0, (), ZooKeeperObservation(), still, a_log())
    assert after.later_led is not None
    assert (after.later_led.node, after.later_led.since, after.later_led.until) == (3001, 100.0, 103.0)
    assert not later_seen(after, Phase.SOAK).has_ended_dual_write


# --- steps forward ----------------------------------------------------------------------------------------

BY_ITSELF: Final = (Trigger.ADVANCE, Trigger.QUORUM_FORMED, Trigger.BROKERS_JOINED, Trigger.BROKERS_UPDATED)
FORWARD: Final = [
    (start, trigger, edge)
    for (start, trigger), edge in TRANSITIONS.items()
    if start in WAY_FORWARD[WAY_FORWARD.index(Phase.QUORUM) :]
    and start is not Phase.COMPLETED
    and (trigger in BY_ITSELF or trigger in (Trigger.CONTROLLERS_REPLACED, Trigger.FINALIZED))
]


def of(later: LaterObserved) -> Evidence:
    return Evidence(observation_age_s=1.0, later=later, road=ROAD_EVIDENCE)


@pytest.mark.parametrize(("start", "trigger", "edge"), FORWARD, ids=[f"{a}-{b}" for a, b, _ in FORWARD])
def test_every_step_forward_from_quorum_on_waits_for_3_9(start: Phase, trigger: Trigger, edge: Edge) -> None:
    (closed,) = (each for each in edge.gate(of(WAITING)).conditions if each.name == NAME)
    assert not closed.holds
    assert "controller 3001 runs a Kafka without ZooKeeper (metadata.version 7 to 25)" in closed.message
    assert "put Kafka 3.9 back" in closed.message
    (opened,) = (each for each in edge.gate(of(LaterObserved())).conditions if each.name == NAME)
    assert opened.holds


@pytest.mark.parametrize("roll", [each for each in Roll if each is not Roll.ORIGINAL])
def test_no_node_is_restarted_beside_it_since_an_election_could_make_it_the_leader(roll: Roll) -> None:
    assert NAME in [each.name for each in cluster_ready(of(WAITING), roll).conditions if not each.holds]


def test_the_status_is_blocked_by_it_in_every_phase() -> None:
    assert NAME in [each.name for each in standing(of(WAITING)).conditions if not each.holds]


def test_the_finding_names_the_node_and_its_range_and_another_one_that_it_leads() -> None:
    (waits,) = later_findings(WAITING)
    assert (waits.code, waits.values["node"], waits.values["lowest"]) == ("Z2K-4232", "Controller 3001", 7)
    assert [each.code for each in later_findings(LEADING)] == ["Z2K-4232", "Z2K-4233"]
    assert [each.code for each in later_findings(LaterObserved(forgotten=True))] == ["Z2K-4233"]


# --- the way back -----------------------------------------------------------------------------------------


def test_a_follower_does_not_stand_in_the_way_of_a_rollback_that_ours_carries_out() -> None:
    assert dual_write_goes_on(WAITING).holds
    assert not dual_write_goes_on(LEADING).holds


def test_the_way_back_names_the_true_cause_and_not_a_flag_that_every_file_has() -> None:
    voters = tuple(VoterObserved(node, True, 0, node != 3001) for node in (3000, 3001, 3002))
    evidence = Evidence(
        observation_age_s=1.0,
        controllers=(3000, 3001, 3002),
        later=LEADING,
        road=replace(ROAD_EVIDENCE, voters=voters, migration="MIGRATION"),
    )
    closed = {each.name: each for each in controllers_may_return(evidence).conditions if not each.holds}
    assert closed[NAME].codes == ("Z2K-4232", "Z2K-4233")
    assert "and it leads" in closed[NAME].message
    flag = closed["no voter runs without the migration flag"].message
    assert flag == "voters [3001] know no such flag: their Kafka is without ZooKeeper"


def test_undo_is_irreversible_while_it_leads_and_says_how_it_opens_again() -> None:
    assert not is_irreversible(Phase.SOAK, WAITING)
    assert undo_of(Phase.SOAK, None, WAITING).command == "zk2kraft rollback"
    for ended in (LEADING, LaterObserved(forgotten=True)):
        assert is_irreversible(Phase.SOAK, ended)
        undo = undo_of(Phase.SOAK, None, ended)
        assert undo.command == ""
        assert "Z2K-4233" in undo.does
    assert "controller 3001 runs a Kafka without ZooKeeper" in undo_of(Phase.DUAL_WRITE, None, LEADING).does
    assert undo_of(Phase.FINALIZING, None, LEADING) == undo_of(Phase.FINALIZING, None), "the flag was removed before"


def test_the_change_report_says_who_led_and_when_also_after_it_is_over() -> None:
    look = Observation(200.0, log=a_log(), later_led=LaterLed(3001, 100.0, 103.0))
    facts: Any = SimpleNamespace(snapshot=SimpleNamespace(observation=look))
    (said,) = led_by_later_kafka(facts)
    assert said.startswith("controller 3001 led with a Kafka without ZooKeeper, from 1970-01-01T00:01:40Z to ")
    assert "Z2K-4233" in said
    facts.snapshot.observation = Observation(200.0, log=a_log())
    assert led_by_later_kafka(facts) == []


# --- the guard of stock controllers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "reason", "holds", "named"),
    [
        (Proof.PROVEN, "with kafka_2.13-3.9.2.jar", True, ""),
        (Proof.KAFKA_NOT_SEEN, "no jar of Kafka is seen", True, ""),
        (Proof.NOT_PROVEN, "the supervisor starts another command", True, ""),  # waived below
        (Proof.NOT_PROVEN, "Z2K-7042 The guard does not start it", False, "Z2K-7042"),
    ],
)
def test_no_waiver_lifts_the_jars_of_a_kafka_without_zookeeper(
    state: Proof, reason: str, holds: bool, named: str
) -> None:
    waiver = WaiverFact("Z2K-7040", 3000, "no supervisor", "somebody", 1e10)
    guard = GuardFact(3000, state, reason, code=named)
    road = replace(ROAD_EVIDENCE, files=FilesObserved(1.0), guards=(guard,), waivers=(waiver,))
    (condition,) = guards_are_proven(road)
    assert (condition.holds, condition.codes) == (holds, (named or "Z2K-7040",))
    assert reason in condition.message


# --- what the next software would not take ----------------------------------------------------------------

SMALL: Final = LaterProblem("topic orders", "segment.bytes", "1000000", 1 << 20, "4.1")


def codes_before_later(phase: Phase, **said: Any) -> list[str]:
    look = Observation(100.0, log=msgspec.structs.replace(a_log(), **said))
    return [each.code for each in before_later(look, phase)]


@pytest.mark.parametrize("phase", list(Phase))
def test_what_a_later_kafka_refuses_is_named_from_the_soak_on(phase: Phase) -> None:
    named = phase in (Phase.SOAK, Phase.FINALIZING, Phase.COMPLETED)
    assert codes_before_later(phase, refused_later=(SMALL,)) == ["Z2K-1067"] * named


@pytest.mark.parametrize(
    ("min_isr", "named"),
    [
        (MinIsr(2, ((0, 2), (1, 2)), rests=True), True),
        (MinIsr(2, ((0, 2), (1, 2)), rests=False), False),
        (MinIsr(2, ((0, 2), (1, 2)), of_all=2, rests=True), False),
        (MinIsr(1, ((0, 1), (1, 1)), rests=True), False),
    ],
)
def test_a_minimum_isr_that_only_files_have_is_named_since_a_later_feature_lowers_it(
    min_isr: MinIsr, named: bool
) -> None:
    """On 4.4.0 eligible.leader.replicas.version set 1 for all brokers, and acks=all was taken with one of three."""
    assert codes_before_later(Phase.COMPLETED, min_isr=min_isr) == ["Z2K-1068"] * named


def test_a_log_that_could_not_be_read_says_nothing_of_it() -> None:
    assert codes_before_later(Phase.COMPLETED, refused_later=(SMALL,), problem="no leader") == []


def test_the_observer_names_topics_brokers_and_all_brokers() -> None:
    configs = {
        ConfigKey(ConfigType.TOPIC, "orders"): {"segment.bytes": "1000000", "retention.ms": "1"},
        ConfigKey(ConfigType.TOPIC, "fine"): {"segment.bytes": "1048576"},
        ConfigKey(ConfigType.BROKER, ""): {"log.segment.bytes": "20"},
        ConfigKey(ConfigType.BROKER, "1"): {"num.replica.fetchers": "0"},
        ConfigKey(ConfigType.CLIENT_METRICS, "m"): {"segment.bytes": "1"},
    }
    found = list(problems_later(Map({key: Map(value) for key, value in configs.items()})))
    assert [(each.where, each.value, each.since) for each in found] == [
        ("topic orders", "1000000", "4.1"),
        ("configuration of all brokers", "20", "4.0"),
        ("configuration of broker 1", "0", "4.2"),
    ]
