"""Gates of `engine: stock`: what closes each step that the other engine does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrator.control_api.states import State
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.fleet_evidence import Roll, RollbackPlan, RollObserved
from state_machine.policy.gates import BrokerObservation, Evidence, Holder, Inspection
from state_machine.policy.stock_gates import (
    all_but_the_last_have_joined,
    copy_of_stock_is_proven,
    last_broker_is_back,
    last_broker_may_restart,
    stock_is_unclaimed,
    stock_may_return,
)
from tests.unit.state_machine.policy.test_road_gates import BROKERS, NODES, closed, evidence, voters

JOINED = RollObserved(nodes=(0, 1), whole=(0, 1))


def waiting(road: dict[str, Any] | None = None, missing: tuple[int, ...] = (2,), **changes: Any) -> Evidence:
    """Every broker but the last has joined, and stock waits."""
    found = evidence({"zookeeper_ids": BROKERS, "rolls": {Roll.JOIN: JOINED}, **(road or {})})
    brokers = tuple(BrokerObservation(each, registered=each not in missing) for each in BROKERS)
    seen = {
        "engine": ControllerEngine.STOCK,
        "driver_state": State.WAIT_BROKERS,
        "holder": Holder.ZOOKEEPER_BROKER,
        "holder_id": 2,
        "committed_migration": False,
        "brokers": brokers,
        "controllers": NODES,
        "check": Inspection(True, 5.0, "nothing found"),
        "rehearsal": Inspection(True, 5.0, "1 key compared"),
    }
    return replace(found, **{**seen, **changes})


def test_with_everything_in_order_the_last_broker_may_restart() -> None:
    assert closed(last_broker_may_restart(waiting())) == []
    assert closed(all_but_the_last_have_joined(waiting())) == []
    assert closed(stock_is_unclaimed(waiting())) == []


@pytest.mark.parametrize(
    ("road", "changes", "names"),
    [
        ({}, {"rehearsal": None}, ["a rehearsal was audited and passed, under 10 minutes ago"]),
        ({}, {"rehearsal": Inspection(True, 700.0, "")}, ["a rehearsal was audited and passed, under 10 minutes ago"]),
        ({}, {"check": Inspection(False, 5.0, "1 finding")}, ["`check` finds nothing that blocks"]),
        ({}, {"missing": (1, 2)}, ["exactly one broker has not joined"]),
        ({}, {"committed_migration": True}, ["/migration names no committed log"]),
        ({}, {"driver_state": State.COPYING}, ["stock waits for brokers"]),
        ({"voters": voters(ready=False)}, {}, ["no voter runs without the migration flag"]),
        ({"guards": ()}, {}, ["the guard of every controller is proven"]),
        ({"backed_up": None}, {}, ["ZooKeeper, the metadata log and the files are backed up"]),
        ({"under_replicated": 1}, {}, ["no partition is under-replicated or without a leader"]),
    ],
)
def test_the_last_broker_is_held_until_everything_that_a_takeover_needs_holds(
    road: dict[str, Any], changes: dict[str, Any], names: list[str]
) -> None:
    assert closed(last_broker_may_restart(waiting(road, **changes))) == names


def test_a_broker_that_is_being_restarted_is_waited_for() -> None:
    away = {"rolls": {Roll.JOIN: RollObserved(nodes=(0, 1), whole=(0,), under_way=(1,), away=(1,))}}
    assert closed(all_but_the_last_have_joined(waiting(away))) == ["no broker is being restarted by the service"]
    assert closed(stock_is_unclaimed(waiting(away))) == ["no broker is being restarted by the service"]
    assert closed(last_broker_is_back(waiting(away))) == ["no broker is away"]


def test_from_its_claim_on_stock_is_not_simply_stopped() -> None:
    claimed: dict[str, Any] = {"driver_state": State.COPYING, "holder": Holder.OURS}
    assert closed(stock_is_unclaimed(waiting(**claimed))) == [
        "stock has claimed nothing",
        "no controller of this migration is known to hold /controller",
    ]
    assert "stock has claimed nothing" in closed(last_broker_is_back(waiting(**claimed)))


def test_dual_write_counts_once_the_copy_was_compared() -> None:
    both: dict[str, Any] = {"driver_state": State.DUAL_WRITE, "holder": Holder.OURS}
    assert closed(copy_of_stock_is_proven(waiting(**both))) == ["an audit of the copy found no difference"]
    differs = Inspection(False, 1.0, "1 different", disagrees=True)
    assert closed(copy_of_stock_is_proven(waiting(**both, copy_audit=differs))) == [
        "an audit of the copy found no difference"
    ]
    assert closed(copy_of_stock_is_proven(waiting(**both, copy_audit=Inspection(True, 1.0, "equal")))) == []


def test_a_copy_that_diverged_keeps_the_way_back_open() -> None:
    differs = Inspection(False, 1.0, "1 different", disagrees=True)
    back = {"back": RollbackPlan(), "rolls": {}}
    seen = waiting(back, driver_state=State.DUAL_WRITE, holder=Holder.OURS, copy_audit=differs)
    assert closed(stock_may_return(seen)) == []
    assert closed(stock_may_return(replace(seen, holder=Holder.NOBODY))) == ["/controller is held by this quorum"]


def test_a_dead_broker_is_told_while_stock_leads_and_its_replicas_can_be_moved() -> None:
    for road in ({"not_ready": (1,)}, {"orphans": 3}):
        seen = waiting({"back": RollbackPlan(), "rolls": {}, **road}, driver_state=State.DUAL_WRITE, holder=Holder.OURS)
        assert closed(stock_may_return(seen)) == ["every broker that holds replicas is there"]


def test_a_claim_before_anything_was_mirrored_does_not_keep_the_way_back_closed() -> None:
    """K-2: the copy is committed, and `/migration` says -1."""
    behind = {"back": RollbackPlan(), "rolls": {}, "dual_write_lag": 900}
    for offset, names in ((-1, []), (5, ["ZooKeeper has every committed change"])):
        seen = waiting({**behind, "migration_offset": offset}, driver_state=State.SYNCING, holder=Holder.OURS)
        assert closed(stock_may_return(seen)) == names
