"""What the restart of a broker takes away from a cluster that is whole: named, counted, and accepted by somebody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.model.at_a_stop import MIN_ISR, MinIsr, TakenAtStop
from migrator.model.partition_figures import PartitionCounter, PartitionFigures
from migrator.model.values import Topic
from state_machine.facts.accepted import WaiverFact
from state_machine.policy.fleet_evidence import RollbackPlan
from state_machine.policy.gates_back import brokers_may_return
from state_machine.policy.gates_forward import may_join_brokers, may_roll_brokers
from state_machine.policy.taken import KNOWN, OFFLINE, REFUSED, restarts_are_accepted, restarts_take
from state_machine.rows.documents import FILES, FilesDocument, document
from tests.support.builders import a_broker, a_partition, a_topic, an_image
from tests.unit.state_machine.policy.test_road_gates import closed, codes, evidence
from tests.unit.state_machine.rolling.test_rolling import Rolling

ONE = TakenAtStop(3, ("audit-0", "audit-1", "audit-2"), ((1, 2), (2, 1)))
ALL = TakenAtStop(1, ("orders-0",), ((0, 1), (1, 1)))


def a_waiver(what: str, node: int | None = None) -> WaiverFact:
    return WaiverFact(what, node, "batch jobs wait", "Ada", 4e9)


def counted(
    *topics: Topic,
    files: dict[int, int] | None = None,
    of_brokers: dict[str, dict[str, str]] | None = None,
    of_topics: dict[str, dict[str, str]] | None = None,
) -> PartitionFigures:
    counter = PartitionCounter()
    counter.min_isr_of_files = files or {}
    brokers = [a_broker(each) for each in (1, 2, 3)]
    image = an_image(*topics, brokers=brokers, topic_configs=of_topics or {}, broker_configs=of_brokers or {})
    return counter.count(image)


# --- counting ---------------------------------------------------------------------------------------------


def test_partitions_with_one_replica_are_counted_named_and_told_apart_by_broker() -> None:
    lonely = a_topic("audit", [a_partition(each, replicas=(1 + each % 2,)) for each in range(5)])
    found = counted(lonely, a_topic("orders", [a_partition(0)]))
    assert found.single == TakenAtStop(5, ("audit-0", "audit-1", "audit-2"), ((1, 3), (2, 2)))
    assert found.at_minimum == TakenAtStop()


@pytest.mark.parametrize(
    ("replicas", "minimum", "needs_all"),
    [((1, 2), 1, False), ((1, 2), 2, True), ((1, 2), 3, True), ((1, 2, 3), 2, False), ((1, 2, 3), 3, True)],
)
def test_a_partition_whose_minimum_is_all_of_its_replicas_is_counted(
    replicas: tuple[int, ...], minimum: int, needs_all: bool
) -> None:
    """Kafka never wants more in sync than there are."""
    topic = a_topic("orders", [a_partition(0, replicas=replicas)])
    found = counted(topic, of_topics={"orders": {MIN_ISR: str(minimum)}})
    assert found.at_minimum.brokers == (tuple((each, 1) for each in replicas) if needs_all else ())


@pytest.mark.parametrize(
    ("files", "dynamic", "minimum"),
    [
        ({1: 2, 2: 2, 3: 2}, {}, 2),
        ({1: 1, 2: 3, 3: 1}, {}, 3),
        ({1: 2, 2: 2, 3: 2}, {"": {MIN_ISR: "1"}}, 1),
        ({1: 1, 2: 1, 3: 1}, {"2": {MIN_ISR: "3"}}, 3),
        ({}, {"": {MIN_ISR: "3"}}, 3),
        ({}, {}, 1),
    ],
)
def test_the_minimum_is_the_topics_else_the_dynamic_one_else_that_of_the_files_and_the_largest_counts(
    files: dict[int, int], dynamic: dict[str, dict[str, str]], minimum: int
) -> None:
    topic = a_topic("orders", [a_partition(0)])
    found = counted(topic, files=files, of_brokers=dynamic)
    assert found.min_isr.value == minimum
    assert found.at_minimum.count == (1 if minimum == 3 else 0)
    own = counted(topic, files=files, of_brokers=dynamic, of_topics={"orders": {MIN_ISR: "2"}})
    assert own.at_minimum.count == 0


def test_a_file_that_is_read_later_counts_without_a_change_of_the_topic() -> None:
    image = an_image(a_topic("orders", [a_partition(0)]))
    counter = PartitionCounter()
    assert counter.count(image).at_minimum.count == 0
    counter.min_isr_of_files = {1: 3}
    assert counter.count(image).at_minimum.count == 1
    counter.min_isr_of_files = {1: 2}
    assert counter.count(image).at_minimum == TakenAtStop()


# --- gates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", [may_roll_brokers, may_join_brokers])
@pytest.mark.parametrize(
    ("taken", "name", "code"), [({"single": ONE}, OFFLINE, "Z2K-1061"), ({"at_minimum": ALL}, REFUSED, "Z2K-4242")]
)
def test_no_broker_is_stopped_before_somebody_accepted_what_that_takes_once_for_all_of_it(
    gate: Any, taken: dict[str, TakenAtStop], name: str, code: str
) -> None:
    found = gate(evidence(taken))
    assert name in closed(found)
    assert code in codes(found)
    said = next(each.message for each in found.conditions if each.name == name)
    assert "1 has " in said, "per broker"
    assert next(iter(taken.values())).first[0] in said
    accepted = gate(evidence({**taken, "waivers": (a_waiver(code),)}))
    assert name not in closed(accepted)
    assert "accepted by Ada (batch jobs wait)" in next(e.message for e in accepted.conditions if e.name == name)


def test_a_waiver_of_one_broker_accepts_the_stop_of_that_one() -> None:
    road = evidence({"single": ONE, "waivers": (a_waiver("Z2K-1061", 1),)}).road
    assert road is not None
    assert [each.holds for each in restarts_are_accepted(road)] == [False, True]
    assert [each.holds for each in restarts_are_accepted(road, (1,))] == [True, True]
    assert [each.holds for each in restarts_are_accepted(road, (2,))] == [False, True]
    assert [each.holds for each in restarts_are_accepted(road, (0,))] == [True, True]


def test_a_minimum_that_nobody_can_say_holds_a_roll_and_is_said() -> None:
    unknown = {"min_isr": MinIsr(1, ((0, 1),), rests=True)}
    assert KNOWN in closed(may_roll_brokers(evidence(unknown)))
    assert "Z2K-4242" in codes(may_roll_brokers(evidence(unknown)))
    for code in ("Z2K-4242", "Z2K-4218"):
        assert KNOWN not in closed(may_roll_brokers(evidence({**unknown, "waivers": (a_waiver(code),)})))
    for known in (MinIsr(1, ((0, 1),)), MinIsr(2, of_all=2, rests=True)):
        assert KNOWN not in closed(may_roll_brokers(evidence({"min_isr": known})))


def test_brokers_that_differ_are_named() -> None:
    road = evidence({"at_minimum": ALL, "min_isr": MinIsr(2, ((0, 2), (1, 1), (2, 1)), rests=True)}).road
    assert road is not None
    (said,) = (each.message for each in restarts_are_accepted(road) if each.name == REFUSED)
    assert "the largest counts: 1 on brokers [1, 2]; 2 on brokers [0]" in said


def test_on_a_way_back_it_is_named_and_holds_nobody() -> None:
    back = RollbackPlan(restarts=(1, 2))
    found = brokers_may_return(evidence({"single": ONE, "at_minimum": ALL, "back": back}))
    (said,) = (each for each in found.conditions if each.name == "what restarts take away, for information")
    assert said.holds
    assert "Z2K-1061 3 partitions" in said.message
    assert "Z2K-4242 1 partitions" in said.message
    road = evidence({"single": ONE}).road
    assert road is not None
    assert restarts_take(road, (0,)) == ()


# --- before each stop -------------------------------------------------------------------------------------


class WithOneReplica(Rolling):
    taken = TakenAtStop(1, ("late-0",), ((1, 1),))

    def register(self) -> None:
        super().register()
        self.log.observed = msgspec.structs.replace(self.log.observed, single=self.taken)


def test_a_topic_that_comes_during_the_roll_holds_the_stop_of_its_broker_only(tmp_path: Path) -> None:
    async def story() -> None:
        world = WithOneReplica(tmp_path)
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "WHOLE")
        await world.until(lambda: world.step(1) == "PREPARED")
        await world.turn(20)
        assert world.step(1) == "PREPARED"
        assert "Z2K-1061" in world.waiting
        assert world.acts == ["stop 0", "start 0"]
        world.taken = TakenAtStop()
        await world.until(lambda: world.rolled)

    asyncio.run(story())


def test_the_files_of_brokers_tell_their_minimum_to_the_look_at_the_log(tmp_path: Path) -> None:
    async def story() -> None:
        world = Rolling(tmp_path)
        file = world.hosts.file(2)
        file.write_text(file.read_text() + f"{MIN_ISR}=2\n")
        file = world.hosts.file(1)
        file.write_text(file.read_text() + f"{MIN_ISR}=${{env:MIN}}\n")
        await world.to_dual_write()
        for _ in range(100):
            await world.turn()
            files = document(world.snapshot, FILES, FilesDocument)
            if files is not None and files.min_isr:
                break
        assert files is not None
        assert files.min_isr == ((0, 1), (2, 2))
        await world.turn()
        assert world.log.min_isr == {0: 1, 2: 2}

    asyncio.run(story())
