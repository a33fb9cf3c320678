"""A rollback once brokers are in KRaft mode: the service leads it, one broker after the other, and survives its death.

Hosts are those of test_rolling.py: real commands on files in a directory.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.findings.fleet import KAFKA_REFUSES_FILE
from migrator.fleet.inventory import Inventory
from migrator.fleet.render import FileKind, Rendered
from state_machine.nodes.fleet import Fleets
from state_machine.nodes.replicas import ReplicasSeen, ReplicasWatch
from state_machine.policy.fleet_evidence import Roll, RollbackPlan
from state_machine.policy.gates import Holder
from state_machine.policy.gates_back import brokers_may_return, loss_is_accepted
from state_machine.policy.phases import Phase
from state_machine.rolling import round
from state_machine.rolling.journal import begin, record
from tests.support.approvals import an_approval
from tests.unit.state_machine.rolling.test_rolling import BROKERS, FILE, Rolling, codes

BEFORE = """# kept by hand
broker.id={id}
zookeeper.connect=zk:2181/kafka
inter.broker.protocol.version=3.9
listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={logs}
"""
"""A file without any setting of the migration."""


class RollingBack(Rolling):
    """Brokers of which some are in KRaft mode. joined: this migration wrote the brokers' migration files too."""

    joined = False

    def register(self) -> None:
        super().register()
        text = {each: self.hosts.file(each).read_text() for each in BROKERS}
        brokers = tuple(
            msgspec.structs.replace(each, mode="KRaft" if "process.roles" in text[each.id] else "ZooKeeper")
            for each in self.log.observed.brokers
        )
        self.log.observed = msgspec.structs.replace(self.log.observed, brokers=brokers)
        running = tuple(each for each in BROKERS if self.hosts.runs(each) and "process.roles" not in text[each])
        self.zookeeper.observed = msgspec.structs.replace(self.zookeeper.observed, brokers=running)

    def replicas(self, inventory: Inventory) -> ReplicasSeen:
        return ReplicasSeen(tuple(each for each in BROKERS if self.hosts.runs(each)))

    async def to_rolling(self) -> None:
        """With `joined`, an earlier phase wrote the migration files; each predecessor lies beside its file."""
        await super().to_rolling()
        self.controller.on_ask = lambda operation: self.rollback() if operation == "rollback" else None
        if self.joined:
            fleet = Fleets(self.settings.fleets).fleet("orders")
            await self.store.away(begin, self.store, self.id, Roll.JOIN, fleet.of("broker"), at=self.clock())
            for node in fleet.of("broker"):
                path = self.hosts.file(node.id)
                place = self.hosts.home / str(node.id) / "logs"
                original = BEFORE.format(id=node.id, port=9100 + node.id, logs=place)
                kept = checksum(original)
                path.with_name(f"{path.name}.zk2kraft-{kept[:16]}").write_text(original)
                written: dict[str, Any] = {
                    "step": "WHOLE",
                    "rendered_from": kept,
                    "checksum": checksum(path.read_text()),
                }
                record(self.store, self.id, Roll.JOIN, node.id, at=self.clock(), began_at=self.clock(), **written)
        await self.run_operation("PAUSE", who="Ada")
        await self.until(lambda: "files" in self.snapshot.documents)  # real reads of files, whatever the machine does
        await self.run_operation("RESUME", who="Ada")

    async def rolled_until(self, whole: tuple[int, ...]) -> None:
        await self.until(lambda: all(self.step(each) == "WHOLE" for each in whole))

    async def ask_back(self) -> None:
        await self.turn(3)
        operation = await self.run_operation("ROLL_BACK", who="Ada", reason="not today")
        assert operation.state == "succeeded", operation.answer
        assert self.phase is Phase.ROLLING_BACK

    async def to_the_start(self) -> None:
        await self.until(lambda: self.phase is Phase.ROLLED_BACK, 600)

    def file_of(self, number: int, form: str = FILE) -> str:
        return form.format(id=number, port=9100 + number, logs=self.hosts.home / str(number) / "logs")

    def step_back(self, number: int, roll: Roll = Roll.BACK) -> str:
        return next((row.step for row in self.nodes_of(roll) if row.node_id == number), "")


class JoinedRollingBack(RollingBack):
    joined = True


def checksum(text: str) -> str:
    from migrator.fleet.files import checksum_of

    return checksum_of(text.encode())


@pytest.fixture
def world(tmp_path: Path) -> RollingBack:
    return RollingBack(tmp_path)


@pytest.fixture
def joined(tmp_path: Path) -> RollingBack:
    return JoinedRollingBack(tmp_path)


def test_two_of_three_brokers_go_back_in_reverse_order_and_the_third_is_not_touched(world: RollingBack) -> None:
    metas = {each: world.hosts.home / f"{each}/logs/meta.properties" for each in (0, 1)}
    for each, meta in metas.items():
        meta.write_text(f"version=1\nnode.id={each}\ncluster.id=abc\ndirectory.id=d0\n")

    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.run_operation("PAUSE", who="Ada")
        await world.run_operation("RESUME", who="Ada")
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(story())
    assert world.acts[:4] == ["stop 0", "start 0", "stop 1", "start 1"]
    assert [each for each in world.acts if each.endswith(("0", "1"))][4:] == ["stop 1", "start 1", "stop 0", "start 0"]
    assert world.controller.asked.count("rollback") == 1
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number)
    for each, meta in metas.items():
        assert meta.read_text() == f"version=0\nbroker.id={each}\ncluster.id=abc\ndirectory.id=d0\n"
    assert world.steps[-2:] == ["ROLLING_BACK", "ROLLED_BACK"]


def test_after_the_claim_is_gone_brokers_get_the_file_from_before_the_migration(joined: RollingBack) -> None:
    """The broker that is controller is restarted last; nobody is stopped while our controllers have the claim."""
    held: list[tuple[str, Holder]] = []

    async def story() -> None:
        await joined.to_rolling()
        await joined.rolled_until((0,))
        await joined.ask_back()
        known = len(joined.acts)
        while joined.phase is not Phase.ROLLED_BACK:
            await joined.turn()
            new, known = joined.acts[known:], len(joined.acts)
            held.extend((act, joined.zookeeper.observed.holder) for act in new)
            assert len(held) < 20

    asyncio.run(story())
    second = [act for act, holder in held if holder is Holder.ZOOKEEPER_BROKER]
    assert [act for act in second if act.startswith("stop")] == ["stop 1", "stop 2", "stop 0"]
    for number in BROKERS:
        assert joined.hosts.file(number).read_text() == joined.file_of(number, BEFORE)
    assert not joined.controller.alive


STEPS = ("PREPARED", "STOPPING", "STOPPED", "WRITTEN", "STARTED", "WHOLE")


def test_a_service_that_dies_at_every_step_of_both_rolls_back_goes_on_each_time(joined: RollingBack) -> None:
    """Each life has the rows only; whatever act was under way is repeated, and one broker is away at a time."""

    async def first() -> None:
        await joined.to_rolling()
        await joined.rolled_until((0, 1))
        await joined.ask_back()

    async def life(roll: Roll, step: str) -> None:
        """Until the step, or one behind it: the life before may have left an act that was done."""
        behind = STEPS[STEPS.index(step) :]
        await joined.until(lambda: joined.step_back(1, roll) in behind)

    asyncio.run(first())
    for roll in (Roll.BACK, Roll.ORIGINAL):
        for step in STEPS:
            joined.start_service()
            asyncio.run(life(roll, step))
    joined.start_service()
    asyncio.run(joined.to_the_start())
    for number in BROKERS:
        assert joined.hosts.file(number).read_text() == joined.file_of(number, BEFORE)
    away: set[str] = set()
    for act in joined.acts:
        word, of = act.split()
        (away.add if word == "stop" else away.discard)(of)
        assert len(away) <= 1, joined.acts


def test_a_broker_whose_start_was_not_noted_before_the_service_died_is_not_waited_for(world: RollingBack) -> None:
    """It runs and is registered, so no registration of before will be fenced any more."""

    async def first() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.until(lambda: world.step_back(1) == "WRITTEN")

    asyncio.run(first())
    world.hosts.state(1, "running")
    world.start_service()
    asyncio.run(world.to_the_start())
    assert world.hosts.runs(1)


@pytest.mark.parametrize("step", ["STOPPING", "STOPPED", "WRITTEN", "STARTED"])
def test_a_roll_that_is_half_done_is_left_with_the_broker_that_is_away_first(world: RollingBack, step: str) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        await world.until(lambda: world.step(1) == step)
        world.register()
        operation = await world.run_operation("ROLL_BACK", who="Ada", reason="enough")
        assert operation.state == "succeeded", operation.answer
        await world.to_the_start()

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK
    order = [each for each in world.acts if each.startswith("start")]
    assert order.index("start 1") < len(order) - 1
    assert order[-1] == "start 0"
    assert not [act for act in world.acts if act.endswith(" 2")]
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number)


def test_a_roll_whose_broker_failed_is_left_by_the_same_operation(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(story())
    assert world.acts == ["stop 0", "start 0", "stop 0", "start 0"]
    assert world.hosts.file(0).read_text() == world.file_of(0)


def test_a_pause_holds_the_way_back_between_two_brokers_and_before_the_claim_is_deleted(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0, 1))
        await world.ask_back()
        await world.until(lambda: world.step_back(1) == "STOPPED")
        await world.run_operation("PAUSE", who="Ada", reason="lunch")
        await world.until(lambda: world.step_back(1) == "WHOLE")
        await world.turn(5)
        assert "paused before broker 0" in world.waiting
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.step_back(0) == "STARTED")
        await world.run_operation("PAUSE", who="Ada", reason="lunch")
        await world.until(lambda: world.step_back(0) == "WHOLE")
        await world.turn(5)
        assert "paused before the rollback of the cluster" in world.waiting
        assert "rollback" not in world.controller.asked
        await world.run_operation("RESUME", who="Ada")
        await world.to_the_start()

    asyncio.run(story())


def test_a_rollback_that_the_driver_refuses_is_asked_for_again_and_the_phase_stays(world: RollingBack) -> None:
    refusals: list[str] = []

    def refuse_once(operation: str) -> None:
        if operation == "rollback" and not refusals:
            refusals.append(operation)
            world.controller.move("ROLLING_BACK", "DUAL_WRITE")
        elif operation == "rollback":
            world.rollback()

    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        world.controller.on_ask = refuse_once
        await world.ask_back()
        await world.to_the_start()

    asyncio.run(story())
    assert refusals == ["rollback"]
    assert world.steps[-2:] == ["ROLLING_BACK", "ROLLED_BACK"]


def test_before_any_broker_was_stopped_the_rollback_restarts_nobody(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.run_operation("PAUSE", who="Ada")
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.to_the_start()

    asyncio.run(story())
    assert world.acts == []


def test_what_only_kraft_has_is_listed_and_needs_consent_to_exactly_that(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        lost: tuple[str, ...] = ("configuration of client-metrics m1",)
        look = world.log.look

        async def with_loss(now: float, *given: Any) -> object:
            return msgspec.structs.replace(await look(now, *given), only_kraft=lost)

        world.log.look = with_loss  # type: ignore[method-assign, assignment]
        await world.turn(2)
        refused = await world.run_operation("ROLL_BACK", who="Ada")
        assert refused.state == "refused"
        assert "configuration of client-metrics m1" in refused.answer
        verdict = brokers_may_return(world.evidence)
        assert "Z2K-4230" in {code for each in verdict.conditions if not each.holds for code in each.codes}
        consented = await world.run_operation("APPROVE", who="Ada", to=Phase.ROLLING_BACK)
        assert consented.state == "succeeded", consented.answer
        lost = (*lost, "configuration of group g1")
        await world.turn(2)
        assert (await world.run_operation("ROLL_BACK", who="Ada")).state == "refused"
        await world.run_operation("APPROVE", who="Ada", to=Phase.ROLLING_BACK)
        await world.ask_back()

    asyncio.run(story())


def test_readiness_names_a_file_of_before_that_is_gone_and_what_else_is_in_the_way(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        (kept,) = world.hosts.file(0).parent.glob("server.properties.zk2kraft-*")
        kept.rename(kept.with_name("elsewhere"))
        await world.turn(40)

    asyncio.run(story())
    good = world.evidence
    assert good.road is not None
    verdict = brokers_may_return(good)
    assert "Z2K-4231" in {code for each in verdict.conditions if not each.holds for code in each.codes}
    assert "is not the previous file" in verdict.reason()
    for spoiled in ({"features": ("kraft.version",)}, {"offline": (1,)}, {"log_problem": "nobody leads"}):
        road = replace(good.road, back=RollbackPlan(restarts=(0,), orders=0), **spoiled)
        assert not brokers_may_return(replace(good, road=road)).holds
    nobody_restarts = replace(good.road, back=RollbackPlan(orders=0), fleet_problem="the inventory cannot be read")
    assert brokers_may_return(replace(good, road=nobody_restarts)).holds, "nothing of the inventory is needed"
    fine = replace(good, road=replace(good.road, back=RollbackPlan(orders=0)))
    assert brokers_may_return(fine).holds, brokers_may_return(fine).reason()
    waiting = replace(fine, road=replace(good.road, back=RollbackPlan(orders=2)))
    assert "2 orders stand below /admin" in brokers_may_return(waiting).reason()


def test_a_consent_ends_after_four_hours() -> None:
    def accepted(age_s: float) -> bool:
        return loss_is_accepted(RollbackPlan(lost=("x",), consent=an_approval("Ada", age_s))).holds

    assert accepted(60.0)
    assert not accepted(5 * 3600.0)


def test_no_original_file_is_written_while_a_replica_is_missing(joined: RollingBack) -> None:
    async def story() -> None:
        await joined.to_rolling()
        await joined.rolled_until((0,))
        await joined.ask_back()
        await joined.until(lambda: joined.step_back(1, Roll.ORIGINAL) == "PENDING")
        joined.missing = 3  # type: ignore[attr-defined]
        await joined.turn(10)

    joined.missing = 0  # type: ignore[attr-defined]
    whole = joined.replicas
    joined.replicas = lambda inventory: replace(  # type: ignore[method-assign]
        whole(inventory),
        under_replicated=joined.missing,  # type: ignore[attr-defined]
    )
    joined.start_service()
    asyncio.run(story())
    assert "under-replicated partitions: 3" in joined.waiting
    assert joined.acts[-1] == "start 0"


def test_a_reading_without_every_broker_proves_nothing() -> None:
    at = [100.0]
    everybody = {0, 1, 2}
    seen = [ReplicasSeen((0, 1))]

    async def reading(watch: ReplicasWatch) -> bool:
        """Begun now, taken two seconds later."""
        watch.tend(inventory, everybody)
        assert watch._task is not None
        await watch._task
        at[0] += 2.0
        watch.tend(inventory, everybody)
        return all(each.holds for each in watch.conditions(everybody, 3.0))

    async def story() -> None:
        watch = ReplicasWatch(lambda _: seen[0], lambda: at[0], clock=lambda: at[0])
        assert not await reading(watch)
        seen[0] = ReplicasSeen((0, 1, 2))
        for _ in range(4):
            await reading(watch)
        assert await reading(watch)
        seen[0] = ReplicasSeen(problem="nobody answers")
        await reading(watch)
        assert not await reading(watch)
        seen[0] = ReplicasSeen((0, 1, 2), under_replicated=8)
        await reading(watch)
        assert "Z2K-2043" not in said(watch)
        for _ in range(40):
            await reading(watch)
        assert "Z2K-2043)" in said(watch)
        seen[0] = ReplicasSeen((0, 1, 2), under_replicated=8, under_replicated_leader=2)
        await reading(watch)
        assert await reading(watch) is False
        assert "Z2K-2043 in broker 2, which leads all of them)" in said(watch)
        seen[0] = ReplicasSeen((0, 1), under_replicated=8)
        await reading(watch)
        assert "Z2K-2043" not in said(watch)

    def said(watch: ReplicasWatch) -> str:
        return "; ".join(each.message for each in watch.conditions(everybody, 3.0))

    inventory: Any = None
    asyncio.run(story())


def test_codes_are_named_while_a_broker_that_goes_back_fails(world: RollingBack) -> None:
    async def story() -> None:
        await world.to_rolling()
        await world.rolled_until((0,))
        await world.ask_back()
        await world.until(lambda: world.step_back(0) == "STARTED")
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step_back(0) == "FAILED")
        await world.turn(3)
        assert "Z2K-4204" in codes(world)
        assert "`zk2kraft back`" not in world.waiting
        world.hosts.state(0, "running")
        await world.run_operation("RESUME", who="Ada")
        await world.to_the_start()

    asyncio.run(story())


def test_a_way_back_asks_kafka_for_its_file_before_it_stops_a_broker(
    joined: RollingBack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused, the broker runs on as it is; forward and back alike."""
    asked: list[tuple[FileKind, str]] = []
    refuses = True

    def says(rendered: Rendered, kafka: Path | None) -> str:
        asked.append((rendered.kind, rendered.document.value("broker.id") or ""))
        if refuses and asked[-1] == (FileKind.BACK, "0"):
            raise KAFKA_REFUSES_FILE.error(file=rendered.document.name, reason="it is too old")
        return "Kafka's own parser accepts it"

    async def story() -> None:
        nonlocal refuses
        await joined.to_rolling()
        await joined.rolled_until((0, 1))
        monkeypatch.setattr(round, "kafka_says", says)
        await joined.ask_back()
        before = len(joined.acts)
        await joined.until(lambda: joined.step_back(0) == "FAILED")
        await joined.turn(3)
        assert not [each for each in joined.acts[before:] if each.endswith(" 0")]
        row = next(each for each in joined.nodes_of(Roll.BACK) if each.node_id == 0)
        assert (row.code, "it is too old" in row.cause) == ("Z2K-7035", True)
        refuses = False
        await joined.run_operation("RESUME", who="Ada", reason="its file is corrected")
        await joined.to_the_start()

    asyncio.run(story())
    assert {(FileKind.BACK, "0"), (FileKind.BACK, "1"), (FileKind.ORIGINAL, "0")} <= set(asked)
