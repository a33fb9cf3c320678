"""One list of conditions per step: each closes the gate, stops no further node, and lets no node count as whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from migrator.control_api.states import State
from migrator.fleet.actuator import ProcessState
from migrator.fleet.roll import NodeNow, Reached, RollEntry, RollNow, RollStep, Wait, decide
from migrator.model.verdict import Condition, Verdict
from state_machine.facts.guards import GuardFact
from state_machine.policy.fleet_evidence import FilesObserved, RestartsObserved, Roll
from state_machine.policy.gates import BrokerObservation, Evidence, Holder, Inspection
from state_machine.policy.gates_forward import (
    controllers_are_replaced,
    finalize_evidence,
    may_join_brokers,
    may_replace_controllers,
    may_roll_brokers,
)
from state_machine.policy.rolls import WAYS_BACK
from state_machine.policy.step_conditions import LISTS, When, conditions_of
from state_machine.policy.stock_gates import stock_files_are_clean
from state_machine.rolling.table import around_of, cluster_ready
from tests.unit.state_machine.evidence.test_later_kafka import NAME, WAITING
from tests.unit.state_machine.policy.test_road_gates import BROKERS, NODES, a_canary, closed, evidence, voters

GATES: Final[dict[Roll, Callable[[Evidence], Verdict]]] = {
    Roll.BEGIN: stock_files_are_clean,
    Roll.JOIN: may_join_brokers,
    Roll.KRAFT: may_roll_brokers,
    Roll.STOCK: may_replace_controllers,
    Roll.SOAK: controllers_are_replaced,
    Roll.FINAL: finalize_evidence,
}
SPOILT: Final[dict[str, dict[str, Any]]] = {
    NAME: {"later": WAITING},
    "the metadata log is observed": {"road": {"log_problem": "nobody leads"}},
    "every registered broker is unfenced": {"road": {"not_ready": (2,)}},
    "no partition is under-replicated or without a leader": {"road": {"under_replicated": 1}},
    "no partition is under its minimum ISR": {"road": {"under_min_isr": 1}},
    "no partition is being reassigned": {"road": {"reassignments": 1}},
    "nothing was under-replicated for 60 s": {"road": {"settled_s": 59.0}},
    "canary traffic is within its error budget": {"road": {"canary": a_canary(sent=100, failed=90)}},
    "ZooKeeper has every committed change": {"road": {"dual_write_lag": 1}},
    "no change waits for a restart of a broker": {"road": {"restarts": RestartsObserved(5.0, "nobody asked")}},
    "ZooKeeper answers": {"holder": Holder.UNKNOWN},
    "/controller is held by this quorum": {"holder": Holder.ZOOKEEPER_BROKER},
    "every voter has what is committed": {"road": {"voters": voters(lag=3)}},
    "the guard of controller 3001 is proven": {
        "road": {"guards": tuple(GuardFact(each, "not proven" if each == 3001 else "proven", "") for each in NODES)}
    },
    "every registered broker is in KRaft mode": {"road": {"zookeeper": (2,), "kraft": (0, 1)}},
    "every broker is in /brokers/ids": {"road": {"zookeeper_ids": (0, 1)}},
    "a ZooKeeper-mode broker is controller": {"holder": Holder.NOBODY},
    "no broker's file has a setting that forbids the takeover": {
        "road": {"files": FilesObserved(5.0, forbidden=("broker 1: authorizer.class.name",))}
    },
    "every stock controller wrote a snapshot": {"road": {"soak": None}},
    "no SCRAM credential is at stake": {"road": {"scram_at_stake": ("ann",)}},
    "a broker is left that does not register by itself": {"road": {"files": FilesObserved(5.0, with_flag=NODES)}},
}
NOT_AT: Final = {
    (Roll.BEGIN, "a broker is left that does not register by itself"): When.WHOLE,
    (Roll.JOIN, "a ZooKeeper-mode broker is controller"): When.WHOLE,
    (Roll.JOIN, "no change waits for a restart of a broker"): When.WHOLE,
    (Roll.KRAFT, "no change waits for a restart of a broker"): When.WHOLE,
    (Roll.SOAK, "every stock controller wrote a snapshot"): When.GATE,
    **{
        (roll, "no SCRAM credential is at stake"): When.WHOLE
        for roll in (Roll.KRAFT, Roll.STOCK, Roll.SOAK, Roll.FINAL)
    },
}
"""Each has its reason in the list. Another one is a decision, and stands here too."""
WHOLE_BY_ITSELF: Final = NodeNow(ProcessState.RUNNING, Verdict((Condition("it is whole", True, "it is"),)))


def as_before(roll: Roll, *, road: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    """Everything of this step holds, but for the changes."""
    if roll is Roll.BEGIN:
        before = {"zookeeper_ids": BROKERS, "files": FilesObserved(5.0, with_flag=NODES, unjoined=(2,)), **(road or {})}
        return replace(evidence(before, **changes), check=Inspection(True, 5.0, "nothing found"))
    if roll is not Roll.JOIN:
        return evidence(road, **changes)
    found = evidence({"zookeeper_ids": BROKERS, "rolls": {}, **(road or {})})
    brokers = tuple(BrokerObservation(each) for each in BROKERS)
    joining = {"driver_state": State.WAIT_BROKERS, "holder": Holder.ZOOKEEPER_BROKER, "holder_id": 1}
    return replace(found, **{**joining, "brokers": brokers, **changes})


def of_list(roll: Roll) -> list[str]:
    spoilt = as_before(roll, road={"canary": a_canary(sent=1)})
    asked = [each.name for need in LISTS[roll] for each in need.asked(spoilt)]
    return [name for name in asked if "guard of controller" not in name or "3001" in name]


EVERY: Final = [(roll, name) for roll in LISTS for name in of_list(roll)]


def test_every_step_forward_has_a_list_and_no_way_back_has_one() -> None:
    assert set(LISTS) == set(Roll) - set(WAYS_BACK)
    assert all(around_of(evidence(), roll).conditions == () for roll in WAYS_BACK)


@pytest.mark.parametrize("roll", LISTS)
def test_with_everything_in_order_each_list_holds(roll: Roll) -> None:
    seen = as_before(roll)
    assert closed(Verdict(conditions_of(seen, roll, When.GATE))) == closed(cluster_ready(seen, roll)) == []
    assert closed(around_of(seen, roll)) == []
    assert closed(GATES[roll](seen)) == []


@pytest.mark.parametrize(("roll", "name"), EVERY, ids=lambda each: str(each))
def test_each_condition_of_a_list_closes_the_gate_stops_no_further_node_and_lets_none_count_as_whole(
    roll: Roll, name: str
) -> None:
    seen = as_before(roll, **SPOILT[name])
    left_out = NOT_AT.get((roll, name))
    assert (name in closed(GATES[roll](seen))) is (left_out is not When.GATE)
    assert name in closed(cluster_ready(seen, roll))
    started = [RollEntry(1, "broker", RollStep.STARTED), RollEntry(2, "broker", RollStep.PENDING)]
    ready, around = cluster_ready(seen, roll), around_of(seen, roll)
    decision = decide(started, RollNow(cluster=ready, nodes={1: WHOLE_BY_ITSELF}, around=around))
    if left_out is When.WHOLE:
        assert decision == Reached(1, RollStep.WHOLE)
    else:
        assert isinstance(decision, Wait)
        assert name in [each.name for each in around.failed]
