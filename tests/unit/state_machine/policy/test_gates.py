"""Gates: what each one looks at, and that what is not known never opens one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrator.model.verdict import Condition, Verdict
from state_machine.policy.fleet_evidence import FleetEvidence, RollbackPlan
from state_machine.policy.gates import (
    BrokerObservation,
    Evidence,
    Gate,
    Holder,
    Inspection,
    abort_is_possible,
    brokers_have_joined,
    copy_is_proven,
    nothing_is_claimed,
    preflight_is_clean,
    quorum_has_formed,
    rollback_is_possible,
    standing,
    takeover_may_begin,
    zookeeper_is_controller,
)
from state_machine.policy.gates_back import cluster_may_return
from tests.support.approvals import an_approval

NOTHING_KNOWN = Evidence(observation_age_s=None)
PASSED_AUDITS = Inspection(passed=True, age_s=10, said="16 keys compared")
OPEN = Verdict((Condition("every broker has one log directory", True, "all one"),))

READY = Evidence(
    observation_age_s=0.2,
    controllers=(3000,),
    driver_state="WAIT_BROKERS",
    driver_reason="the takeover is paused",
    driver_gate=OPEN,
    brokers=(BrokerObservation(0), BrokerObservation(1)),
    holder=Holder.ZOOKEEPER_BROKER,
    holder_id=0,
    committed_migration=False,
    check=PASSED_AUDITS,
    rehearsal=PASSED_AUDITS,
)
DUAL_WRITE = replace(
    READY,
    driver_state="DUAL_WRITE",
    can_roll_back=True,
    lagging=(0, 0, 0.0),
    holder=Holder.OURS,
    holder_id=3000,
    committed_migration=True,
    copy_audit=PASSED_AUDITS,
)


def failed(verdict: Verdict) -> str:
    return "; ".join(f"{check.name}: {check.message}" for check in verdict.failed)


@pytest.mark.parametrize(
    "gate",
    [
        preflight_is_clean,
        quorum_has_formed,
        brokers_have_joined,
        takeover_may_begin,
        abort_is_possible,
        copy_is_proven,
        rollback_is_possible,
        cluster_may_return,
        nothing_is_claimed,
        zookeeper_is_controller,
        standing,
    ],
)
def test_no_gate_takes_not_known_for_a_yes(gate: Gate) -> None:
    verdict = gate(NOTHING_KNOWN)
    assert not verdict.holds
    assert all(check.message for check in verdict.conditions), "a check always says what was seen"


def test_a_takeover_may_begin_when_every_line_holds() -> None:
    assert takeover_may_begin(READY).holds


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"paused": "paused by Ada: lunch"}, "paused by Ada: lunch"),
        ({"observation_age_s": 11.0}, "under 10 s ago: last observed 11.0 s ago"),
        ({"silent": {3000: "nothing listens"}}, "3000: nothing listens"),
        ({"driver_state": "UPDATING_BROKERS"}, "the driver is ready for a takeover"),
        ({"driver_gate": None}, "the controllers have evaluated the takeover gate"),
        ({"driver_gate": Verdict((Condition("no broker is fenced", False, "fenced: [2]"),))}, "fenced: [2]"),
        (
            {"brokers": (BrokerObservation(0), BrokerObservation(1, fenced=True))},
            "1 of 2 brokers are ready: broker 1 fenced",
        ),
        ({"brokers": (BrokerObservation(0, heartbeat_age_ms=3100),)}, "last heartbeat 3100 ms ago"),
        ({"brokers": (BrokerObservation(0, registered=None),)}, "no controller answers"),
        ({"brokers": (BrokerObservation(0, mode="KRaft"),)}, "in KRaft mode"),
        ({"brokers": ()}, "0 of 0 brokers are ready"),
        ({"rehearsal": None}, "no rehearsal has finished yet"),
        ({"rehearsal": replace(PASSED_AUDITS, passed=False, said="2 different")}, "2 different"),
        ({"rehearsal": replace(PASSED_AUDITS, age_s=601)}, "under 10 minutes old: the last rehearsal began 601 s ago"),
    ],
)
def test_a_takeover_waits_for(change: dict[str, Any], reason: str) -> None:
    assert reason in failed(takeover_may_begin(replace(READY, **change)))


def test_after_an_abort_the_drivers_old_verdict_is_not_looked_at() -> None:
    old = Verdict((Condition("no broker is fenced", False, "fenced: [2]"),))
    assert takeover_may_begin(replace(READY, driver_state="ABORTED", driver_gate=old)).holds


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"check": None}, "no check has run yet"),
        ({"check": replace(PASSED_AUDITS, passed=False, said="1 block", codes=("Z2K-1002",))}, "1 block"),
        ({"check": replace(PASSED_AUDITS, age_s=700)}, "700 s"),
        ({"file_faults": {3000: ("Z2K-4011", "zk2kraft.gates=auto")}}, "controller 3000: zk2kraft.gates=auto"),
    ],
)
def test_the_controllers_are_not_started_while(change: dict[str, Any], reason: str) -> None:
    assert reason in failed(preflight_is_clean(replace(READY, **change)))


def test_a_failed_check_names_the_findings_behind_it() -> None:
    blocked = replace(READY, check=Inspection(passed=False, age_s=1, said="1 block", codes=("Z2K-1002",)))
    assert preflight_is_clean(blocked).failed[0].codes == ("Z2K-1002",)


def test_joining_waits_for_brokers_of_the_inventory_that_zookeeper_does_not_know() -> None:
    missing = replace(READY, brokers=(BrokerObservation(0), BrokerObservation(7, registered=False)))
    assert "not registered: brokers [7]" in failed(brokers_have_joined(missing))


def test_dual_write_needs_proof() -> None:
    assert copy_is_proven(DUAL_WRITE).holds
    assert "the service runs another audit" in failed(copy_is_proven(replace(DUAL_WRITE, copy_audit=None)))
    red = replace(PASSED_AUDITS, passed=False, said="1 different")
    assert "1 different" in failed(copy_is_proven(replace(DUAL_WRITE, copy_audit=red)))


@pytest.mark.parametrize(
    "change",
    [
        {"can_roll_back": False},
        {"silent": {3000: "gone"}},
        {"brokers": (BrokerObservation(0), BrokerObservation(1, mode="KRaft"))},
        {"lagging": (7, 2_100, 0.6)},
        {"lagging": None},
    ],
)
def test_a_rollback_is_refused_when_it_could_not_end_well(change: dict[str, Any]) -> None:
    assert rollback_is_possible(DUAL_WRITE).holds
    assert not rollback_is_possible(replace(DUAL_WRITE, **change)).holds


@pytest.mark.parametrize(
    ("back", "opens"),
    [
        (RollbackPlan(), True),
        (RollbackPlan(lost=("m",)), False),
        (RollbackPlan(lost=("m",), consent=an_approval("Ada", 60.0)), True),
        (RollbackPlan(lost=("m",), consent=an_approval("Ada", 60.0, fits=False)), False),
        (RollbackPlan(lost=("m",), consent=an_approval("Ada", 4 * 3600.0 + 1)), False),
        (None, False),
    ],
)
def test_a_rollback_from_dual_write_asks_for_consent_to_what_is_lost(back: RollbackPlan | None, opens: bool) -> None:
    verdict = cluster_may_return(replace(DUAL_WRITE, road=FleetEvidence(fleet_problem="", log_problem="", back=back)))
    assert verdict.holds == opens, verdict.reason()
    assert opens or [each.codes for each in verdict.failed] == [("Z2K-4230",)]


def test_partition_states_behind_their_epochs_are_shown_with_what_is_left() -> None:
    verdict = rollback_is_possible(replace(DUAL_WRITE, lagging=(7, 2_100, 0.6)))
    (check,) = verdict.failed
    assert check.message == "7 partitions are behind; 2100 writes are left, about 1 s"
    assert check.codes == ("Z2K-2126",)


def test_a_hold_never_closes_the_way_back() -> None:
    paused = "paused by Ada"
    assert rollback_is_possible(replace(DUAL_WRITE, paused=paused)).holds
    assert nothing_is_claimed(replace(READY, paused=paused)).holds
    assert abort_is_possible(replace(READY, paused=paused, driver_state="COPYING", can_abort=True)).holds


@pytest.mark.parametrize("state", ["TAKING_OVER", "COMMITTING", "DUAL_WRITE", "ROLLING_BACK", "FENCED"])
def test_our_controllers_are_not_just_stopped_while_they_rule(state: str) -> None:
    assert not nothing_is_claimed(replace(READY, driver_state=state)).holds


@pytest.mark.parametrize(
    "change",
    [
        {"holder": Holder.NOBODY},
        {"holder": Holder.OURS},
        {"committed_migration": True},
        {"committed_migration": None},
        {"driver_state": "DUAL_WRITE"},
    ],
)
def test_zookeeper_rules_only_when_nothing_says_otherwise(change: dict[str, Any]) -> None:
    back = replace(READY, driver_state="RETIRED")
    assert zookeeper_is_controller(back).holds
    assert not zookeeper_is_controller(replace(back, **change)).holds


def test_a_claim_that_cannot_be_made_again_blocks_every_step_with_its_finding() -> None:
    found = ("Z2K-2022", "ZooKeeper is not written: a broker in ZooKeeper mode holds the claim")
    stopped = replace(DUAL_WRITE, driver_state="RESUMING", driver_finding=found, driver_alarms=("Z2K-2021", "Z2K-2022"))
    check = standing(stopped).failed[0]
    assert (check.message, check.codes) == (found[1], ("Z2K-2022",))
    assert standing(replace(stopped, driver_alarms=("Z2K-2021",))).holds


def test_a_fenced_driver_blocks_with_its_finding() -> None:
    fenced = replace(DUAL_WRITE, driver_state="FENCED", driver_finding=("Z2K-2003", "/controller was changed"))
    check = standing(fenced).failed[0]
    assert (check.message, check.codes) == ("/controller was changed", ("Z2K-2003",))
