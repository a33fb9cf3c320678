"""What still holds a stop on the way back: that it makes something worse, and nothing that is broken already."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from migrator.model.partition_figures import PartitionCounter
from migrator.model.verdict import Condition, Verdict
from state_machine.clusters.log_observer import LogBroker, LogObservation
from state_machine.facts.accepted import Limits, WaiverFact
from state_machine.policy.fleet_evidence import FleetEvidence, RollbackPlan, VoterObserved
from state_machine.policy.gates_back import some_host_answers
from state_machine.policy.phase_table import phases_where
from state_machine.policy.phases import Phase
from state_machine.policy.undo import readiness
from state_machine.rollback.left_out import in_turn
from state_machine.rollback.stops import (
    AT_STAKE,
    MAJORITY,
    Quiet,
    broker_is_in_sync,
    broker_may_stop,
    controller_may_stop,
    host_answers,
)
from state_machine.rows.tables import JournalRow
from state_machine.times.stretches import UNOBSERVED_S
from tests.support.builders import a_partition, a_topic, an_image
from tests.unit.state_machine.policy.test_road_gates import evidence


def road(**changes: Any) -> FleetEvidence:
    fields = {"fleet_problem": "", "log_problem": "", "leader": 3000, "limits": Limits(settle_s=5.0), **changes}
    return FleetEvidence(**fields)


def a_waiver(what: str, node: int | None) -> WaiverFact:
    return WaiverFact(what, node, "we accept it", "Ada", 4e9)


def a_look(**changes: Any) -> LogObservation:
    return LogObservation(problem="", brokers=(LogBroker(1, "run", "KRaft", fenced=False, **changes),))


def closed(*conditions: Condition) -> list[str]:
    return [each.name for each in Verdict(conditions).conditions if not each.holds]


@pytest.mark.parametrize(
    ("isr", "minimum", "at_stake"),
    [((1, 2, 3), 3, ()), ((1, 2), 2, (1, 2)), ((1, 2), 1, ()), ((1,), 1, (1,)), ((1,), 3, (1,)), ((1, 2), 3, ())],
)
def test_a_partition_that_lacks_replicas_is_at_stake_where_a_stop_takes_its_last_one_or_its_minimum(
    isr: tuple[int, ...], minimum: int, at_stake: tuple[int, ...]
) -> None:
    """A whole one is none: every restart takes one replica. What is below its minimum already gets no worse."""
    topic = a_topic("orders", [a_partition(0, isr=isr)])
    image = an_image(topic, topic_configs={"orders": {"min.insync.replicas": str(minimum)}})
    figures = PartitionCounter().count(image)
    assert tuple(broker for broker, each in sorted(figures.brokers.items()) if each.at_stake) == at_stake


def test_a_broker_is_stopped_when_nothing_was_at_stake_for_the_settle_time() -> None:
    at = [100.0]
    quiet = Quiet(lambda: at[0])

    def conditions(**changes: Any) -> list[str]:
        look = a_look(**changes)
        quiet.note(look)
        return closed(*broker_may_stop(road(under_replicated=9, not_ready=(2,)), 1, look.broker(1), quiet))

    assert conditions() == ["so it was for 5 s"]
    at[0] += 6
    assert conditions() == [], "what other brokers lack holds nobody"
    assert conditions(at_stake=3) == [AT_STAKE]
    at[0] += 6
    assert conditions() == ["so it was for 5 s"]
    at[0] += UNOBSERVED_S + 1
    assert conditions() == ["so it was for 5 s"], "nobody looked meanwhile"
    at[0] += 6
    assert conditions() == []


def test_a_waiver_of_that_broker_accepts_that_producers_wait_and_no_other_one_does() -> None:
    look, quiet = a_look(at_stake=3), Quiet(lambda: 100.0)
    quiet.note(look)
    accepted, another = road(waivers=(a_waiver(AT_STAKE, 1),)), road(waivers=(a_waiver(AT_STAKE, 2),))
    assert closed(*broker_may_stop(accepted, 1, look.broker(1), quiet)) == []
    assert closed(*broker_may_stop(another, 1, look.broker(1), quiet)) == [AT_STAKE]


@pytest.mark.parametrize("observed", [None, LogBroker(1, "run", "KRaft", fenced=True, at_stake=3)])
def test_a_broker_that_is_away_takes_nothing_with_it(observed: LogBroker | None) -> None:
    assert closed(*broker_may_stop(road(), 1, observed, Quiet(lambda: 0.0))) == []


def test_after_its_start_a_broker_has_to_be_in_sync_itself() -> None:
    at = [100.0]
    quiet = Quiet(lambda: at[0])
    for lacking in (2, 0):
        quiet.note(a_look(under_replicated=lacking))
        at[0] += 6
    look = a_look()
    broker = look.brokers[0]
    assert closed(*broker_is_in_sync(road(under_replicated=9), 1, broker, quiet)) == []
    flawed = road(under_replicated=9, lacking_s=100.0, lacking_leader=1)
    assert closed(*broker_is_in_sync(flawed, 1, broker, quiet)) == ["not all under-replicated partitions are led by it"]
    late = a_look(under_replicated=1).brokers[0]
    assert "it is in the ISR of each of its partitions" in closed(*broker_is_in_sync(road(), 1, late, quiet))


def voters(*lags: int | None) -> tuple[VoterObserved, ...]:
    return tuple(VoterObserved(3000 + number, True, lag, True) for number, lag in enumerate(lags))


@pytest.mark.parametrize(
    ("lags", "node", "holds"),
    [
        ((0, 0, 0), 3000, True),
        ((0, 0, 9), 3000, False),
        ((0, 0, 9), 3002, True),
        ((0, 0, 0, 0, None), 3000, True),
        ((0, 0, 0, 9, None), 3000, False),
    ],
)
def test_a_controller_is_stopped_when_a_majority_follows_without_it(
    lags: tuple[int | None, ...], node: int, holds: bool
) -> None:
    """Where every voter follows, as on the way there. One that does not follow is missed by nobody."""
    assert (closed(*controller_may_stop(road(voters=voters(*lags)), node)) == []) is holds
    accepted = road(voters=voters(*lags), waivers=(a_waiver(MAJORITY, node),))
    assert closed(*controller_may_stop(accepted, node)) == []
    assert not controller_may_stop(road(voters=voters(*lags), leader=None), node)[0].holds


def test_a_host_without_answer_holds_its_own_nodes_and_all_of_them_hold_the_gate() -> None:
    assert not host_answers("broker 1", "connection refused").holds
    assert host_answers("broker 1", None).holds
    (one,) = some_host_answers(RollbackPlan(restarts=(0, 1), unknown=(("broker 1", "timed out"),)))
    assert one.holds
    (every,) = some_host_answers(RollbackPlan(restarts=(1,), unknown=(("broker 1", "timed out"),)))
    assert not every.holds
    assert every.codes == ("Z2K-4237",)


ROWS = [
    line.split(" | ")
    for line in (Path(__file__).resolve().parents[4] / "docs/undo.md").read_text().splitlines()
    if line.startswith("| ") and "`zk2kraft rollback`" in line
]
LED = [
    (phase, row[0].removeprefix("| "))
    for row in ROWS
    for phase in phases_where(lambda row: row.led_back)
    if phase in row[0] and not row[0].startswith("| DUAL_WRITE or later")
]


def test_the_page_has_a_row_for_every_phase_that_the_service_leads_back_from() -> None:
    assert {phase for phase, _ in LED} == set(phases_where(lambda row: row.led_back))


@pytest.mark.parametrize(("phase", "row"), LED)
@pytest.mark.parametrize(
    "dead",
    [
        {"not_ready": (2,), "under_replicated": 9, "settled_s": 0.0},
        {"back": RollbackPlan(restarts=(0, 1), orders=0, unknown=(("broker 1", "timed out"),))},
        {"back": RollbackPlan(restarts=(0,), orders=0, left_out=("broker 1 by Ada (lost)",)), "offline": (1,)},
    ],
)
def test_in_each_row_of_the_page_one_dead_host_or_broker_does_not_close_the_rollback(
    phase: Phase, row: str, dead: dict[str, Any]
) -> None:
    left_out = {"waivers": (a_waiver("Z2K-4237", 1),)} if "offline" in dead else {}
    seen = {"back": RollbackPlan(restarts=(0, 1), orders=0), **dead, **left_out}
    good = evidence(seen, controllers=(3000, 3001, 3002), driver_state="DUAL_WRITE", can_roll_back=True)
    verdict = readiness(phase, good)
    assert verdict.holds, f"{row}: {verdict.reason()}"


def a_row(node: int, step: str, began_at: float | None = None) -> JournalRow:
    return cast("JournalRow", SimpleNamespace(node_id=node, step=step, began_at=began_at))


def test_a_node_that_is_wanted_again_waits_for_the_one_that_is_under_way() -> None:
    rows = [a_row(0, "STOPPED", 20.0), a_row(1, "FAILED", 10.0), a_row(2, "STARTED", 5.0), a_row(3, "PENDING")]
    assert [each.node_id for each in in_turn(rows, ())] == [0, 3]
    assert [each.node_id for each in in_turn(rows, (0,))] == [2, 3]
    assert [each.node_id for each in in_turn(rows, (0, 2))] == [1, 3]
    assert [each.node_id for each in in_turn(rows, (0, 1, 2))] == [3]
