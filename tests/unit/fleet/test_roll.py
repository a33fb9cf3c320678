"""One rolling restart, decided step by step: whatever is observed, there is one next act or one reason to wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.findings.road import NODE_ENDED, NODE_OVERDUE, NODE_STARTED_BY_OTHERS, STEP_FAILED
from migrator.fleet.actuator import ProcessState
from migrator.fleet.roll import (
    Complete,
    Fail,
    NodeAct,
    NodeNow,
    Perform,
    Reached,
    RollEntry,
    RollNow,
    RollStep,
    Wait,
    decide,
    failed,
    in_order,
)
from migrator.model.verdict import Condition, Verdict

WHOLE = Verdict((Condition("it is whole", True, "it is"),))
NOT_WHOLE = Verdict((Condition("it is unfenced", False, "it is fenced"),))
READY = Verdict((Condition("nothing is under-replicated", True, "nothing"),))
NOT_READY = Verdict((Condition("nothing is under-replicated", False, "3 are"),))


def broker(number: int, step: RollStep = RollStep.PENDING, **more: object) -> RollEntry:
    return replace(RollEntry(number, "broker", step), **more)  # type: ignore[arg-type]


def now(**more: object) -> RollNow:
    return replace(RollNow(cluster=READY, nodes={}), **more)  # type: ignore[arg-type]


def seen(process: ProcessState = ProcessState.RUNNING, whole: Verdict = NOT_WHOLE, **more: object) -> NodeNow:
    return replace(NodeNow(process, whole), **more)  # type: ignore[arg-type]


def test_a_node_is_read_before_it_is_stopped_and_stopped_before_its_file_is_written() -> None:
    steps = []
    entry = broker(1)
    observed = {RollStep.STOPPING: ProcessState.RUNNING, RollStep.STOPPED: ProcessState.STOPPED}
    for reached in (RollStep.PREPARED, RollStep.STOPPING, RollStep.STOPPED, RollStep.WRITTEN, RollStep.STARTED):
        process = observed.get(entry.step, ProcessState.STOPPED)
        decision = decide([entry], now(nodes={1: seen(process)}))
        assert isinstance(decision, Perform)
        steps.append(decision.act)
        entry = replace(entry, step=reached)
    assert steps == [NodeAct.PREPARE, NodeAct.STOP, NodeAct.STOP, NodeAct.WRITE, NodeAct.START]


def test_the_roll_ends_when_every_node_is_whole() -> None:
    assert decide([broker(1, RollStep.WHOLE), broker(2, RollStep.WHOLE)], now()) == Complete()


@pytest.mark.parametrize("begun", [RollStep.STOPPING, RollStep.STOPPED, RollStep.WRITTEN, RollStep.STARTED])
def test_no_second_node_is_touched_while_one_is_away_and_a_pause_does_not_leave_it_there(begun: RollStep) -> None:
    decision = decide([broker(1), broker(2, begun)], now(nodes={2: seen(ProcessState.STOPPED)}, paused="lunch"))
    assert not isinstance(decision, Complete | Wait)
    assert decision.node == 2


def test_a_pause_stops_between_nodes() -> None:
    decision = decide([broker(1, RollStep.WHOLE), broker(2)], now(paused="paused by ann: lunch"))
    assert decision == Wait("paused before broker 2: paused by ann: lunch")


def test_a_node_waits_for_the_cluster_and_says_for_what() -> None:
    decision = decide([broker(1, RollStep.PREPARED)], now(cluster=NOT_READY))
    assert decision == Wait("before broker 1: nothing is under-replicated: 3 are")


def test_the_order_is_rack_then_id_and_the_active_controllers_machine_last() -> None:
    entries = [broker(1, rack="b"), broker(2, rack="a"), broker(3, rack="a"), broker(4, rack="b")]
    order = []
    while not isinstance(decision := decide(entries, now(last=frozenset({2}))), Complete):
        assert isinstance(decision, Perform)
        order.append(decision.node)
        entries = [replace(each, step=RollStep.WHOLE) if each.id == decision.node else each for each in entries]
    assert order == [3, 1, 4, 2]


def test_a_prepared_node_keeps_its_turn_when_the_leader_moves() -> None:
    decision = decide([broker(1), broker(2, RollStep.PREPARED)], now(last=frozenset({2})))
    assert decision == Perform(2, NodeAct.STOP)


def test_a_node_that_something_else_started_before_its_file_was_written_stops_the_roll() -> None:
    decision = decide([broker(1, RollStep.STOPPED)], now(nodes={1: seen(ProcessState.RUNNING)}))
    assert isinstance(decision, Fail)
    assert decision.cause.code == NODE_STARTED_BY_OTHERS.code == "Z2K-4202"


def test_a_node_that_ends_after_its_start_stops_the_roll() -> None:
    decision = decide([broker(1, RollStep.STARTED)], now(nodes={1: seen(ProcessState.STOPPED)}))
    assert isinstance(decision, Fail)
    assert decision.cause.code == NODE_ENDED.code == "Z2K-4203"


def test_a_node_that_is_not_whole_in_time_stops_the_roll_and_says_what_is_missing() -> None:
    late = broker(1, RollStep.STARTED, began_s=61.0)
    decision = decide([late, broker(2)], now(nodes={1: seen()}, deadline_s=60.0))
    assert isinstance(decision, Fail)
    assert decision.cause.code == NODE_OVERDUE.code == "Z2K-4201"
    assert "it is unfenced: it is fenced" in decision.cause.text


def test_a_failed_node_keeps_the_roll_where_it_is_with_its_choices() -> None:
    stuck = broker(1, RollStep.FAILED, cause="Z2K-4203 it ended.")
    decision = decide([stuck, broker(2)], now())
    assert isinstance(decision, Wait)
    assert "Z2K-4203 it ended." in decision.reason
    assert "zk2kraft resume" in decision.reason


def test_an_act_that_the_host_refused_is_named() -> None:
    decision = failed(broker(1), NodeAct.STOP, "permission denied")
    assert decision.cause.code == STEP_FAILED.code == "Z2K-4204"
    assert decision.cause.text == "The act stop of broker 1 failed: permission denied."


def test_a_stop_by_a_person_is_reached_when_there_is_evidence_and_the_cluster_says_so_too() -> None:
    asked = Wait("a person has to act on broker 1: stop kafka on host1")
    told = broker(1, RollStep.STOPPING, instruction="stop kafka on host1")
    silent = seen(ProcessState.NOT_READ, answered=False)
    assert decide([replace(told, instruction="")], now(nodes={1: replace(silent, gone=True)})) == Perform(
        1, NodeAct.STOP
    ), "it crashed, and nobody was asked yet"
    assert decide([told], now(nodes={1: silent})) == asked
    assert decide([told], now(nodes={1: replace(silent, gone=True)})) == asked, "a crash is no stop"
    refused = replace(silent, answered=True)
    assert decide([told], now(nodes={1: refused})) == Perform(1, NodeAct.STOP), "which says why"
    said = seen(ProcessState.STOPPED, answered=True)
    assert "the cluster still counts it as present" in str(decide([told], now(nodes={1: said})))
    assert decide([told], now(nodes={1: replace(said, gone=True)})) == Reached(1, RollStep.STOPPED)


@pytest.mark.parametrize("rendered", [True, False, None])
def test_a_file_that_a_person_writes_is_looked_at_again_when_there_is_evidence_of_all(rendered: bool | None) -> None:
    """Whatever copies say meanwhile: an old one says nothing, and none says nothing either."""
    told = broker(1, RollStep.STOPPED, instruction="write this file")
    silent = seen(ProcessState.STOPPED, file_is_rendered=rendered, answered=False)
    assert decide([told], now(nodes={1: silent})) == Wait("a person has to act on broker 1: write this file")
    assert decide([told], now(nodes={1: replace(silent, answered=True)})) == Perform(1, NodeAct.WRITE)


def test_the_next_node_waits_until_the_last_one_is_whole() -> None:
    entries = [broker(1, RollStep.STARTED, began_s=4.0), broker(2)]
    assert decide(entries, now(nodes={1: seen()})) == Wait(
        "broker 1 is not whole yet (4 s): it is unfenced: it is fenced"
    )
    assert decide(entries, now(nodes={1: seen(whole=WHOLE)})) == Reached(1, RollStep.WHOLE)


def test_a_node_counts_as_whole_when_the_cluster_is_as_before_its_stop_too_and_does_not_fail_of_the_cluster() -> None:
    late, whole = broker(1, RollStep.STARTED, began_s=61.0), {1: seen(whole=WHOLE)}
    decision = decide([late, broker(2)], now(nodes=whole, around=NOT_READY, deadline_s=60.0))
    assert decision == Wait(
        "broker 1 is whole, and the cluster is not as before its stop: nothing is under-replicated: 3 are"
    )
    assert decide([late, broker(2)], now(nodes=whole, around=READY, deadline_s=60.0)) == Reached(1, RollStep.WHOLE)
    assert isinstance(decide([late], now(nodes={1: seen()}, around=NOT_READY, deadline_s=60.0)), Fail)


@pytest.mark.parametrize("alone", [False, True])
def test_a_node_on_its_way_back_does_not_wait_for_the_cluster(alone: bool) -> None:
    there = broker(1, RollStep.STARTED, back=True, alone=alone)
    found = decide([there], now(nodes={1: seen(whole=WHOLE)}, around=NOT_READY))
    assert found == Reached(1, RollStep.BACK if alone else RollStep.WHOLE)


def test_a_broker_on_its_way_back_waits_until_its_registration_of_before_is_fenced() -> None:
    """Kafka answers DUPLICATE_BROKER_REGISTRATION while the session before is valid."""
    entry = broker(1, RollStep.WRITTEN, back=True)
    assert isinstance(decide([entry], now(nodes={1: seen(ProcessState.STOPPED)})), Wait)
    assert decide([entry], now(nodes={1: seen(ProcessState.STOPPED, gone=True)})) == Perform(1, NodeAct.START)
    there = replace(entry, step=RollStep.STARTED)
    assert decide([there], now(nodes={1: seen(whole=WHOLE)})) == Reached(1, RollStep.WHOLE)
    assert decide([replace(there, alone=True)], now(nodes={1: seen(whole=WHOLE)})) == Reached(1, RollStep.BACK)


def test_a_broker_on_its_way_back_that_was_started_before_it_was_noted_is_not_waited_for() -> None:
    """The service was killed between the two. It runs and is registered, so it never goes away again."""
    entry = broker(1, RollStep.WRITTEN, back=True)
    assert decide([entry], now(nodes={1: seen()})) == Perform(1, NodeAct.START)
    not_read = seen(ProcessState.NOT_READ)
    assert isinstance(decide([entry], now(nodes={1: not_read})), Wait)
    by_a_person = replace(not_read, registered_anew=True)
    assert decide([entry], now(nodes={1: by_a_person})) == Perform(1, NodeAct.START)
    ended = replace(by_a_person, process=ProcessState.STOPPED)
    assert isinstance(decide([entry], now(nodes={1: ended})), Wait), "it will be fenced"


def test_brokers_are_begun_by_their_turn_before_rack_and_id() -> None:
    entries = [broker(1, turn=3), broker(2, turn=1), broker(3, turn=2)]
    assert [each.id for each in in_order(entries, frozenset())] == [2, 3, 1]


def test_a_broker_that_is_back_keeps_every_other_one_as_it_is() -> None:
    decision = decide([broker(1, RollStep.BACK, back=True), broker(2)], now())
    assert isinstance(decision, Wait)
    assert "`zk2kraft resume` rolls it again" in decision.reason
