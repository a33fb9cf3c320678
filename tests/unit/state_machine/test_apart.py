"""One migration's trouble stops neither the loop nor the others; one cluster is one migration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from migrator.findings.finding import FindingError
from migrator.findings.quorum import DIRECTORY_UNUSABLE
from state_machine.clusters import observe
from state_machine.clusters.observe import ClusterObserver, Observation, ZooKeeperEnsemble, ZooKeeperObservation
from state_machine.policy.phases import Phase
from state_machine.policy.rivals import Rival, rival_of
from state_machine.rows import removal
from state_machine.rows.database import open_database
from state_machine.rows.observations import ReportedFinding, RoundObservation, findings, record_observation
from state_machine.rows.store import NewOperation, Snapshot
from state_machine.rows.tables import Base
from state_machine.trouble import TroubleLog, named
from tests.unit.state_machine.world import World, a_world

LOCKED = OperationalError("SELECT secret", {}, Exception("database is locked"))
FULL = OSError(28, "No space left on device")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


def a_second(world: World, name: str = "payments", zookeeper: str = "zk:2181/kafka") -> int:
    inventory = msgspec.structs.replace(world.inventory, name=name, zookeeper=zookeeper)
    return world.store.create(inventory, who="test", at=world.clock())[0].id


def spoil(world: World, statement: str) -> None:
    with world.store.writing() as session:
        session.execute(text(statement))


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.005)


async def with_the_loop(world: World, holds: Callable[[], bool]) -> None:
    """Let the loop run until something holds."""
    loop = asyncio.create_task(world.reconciler.run())
    await until(lambda: loop.done() or holds())
    assert not loop.done(), loop.exception()
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


# --- a round that fails -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [(LOCKED, "Z2K-4101"), (FULL, "Z2K-4105"), (KeyError("brokers"), "Z2K-4103")],
    ids=["database locked", "disk full", "not foreseen"],
)
def test_one_migrations_error_is_named_and_the_others_go_on(world: World, error: Exception, code: str) -> None:
    second = a_second(world)
    whole = world.store.snapshot

    def broken(migration_id: int) -> Snapshot:
        if migration_id == world.id:
            raise error
        return whole(migration_id)

    world.store.snapshot = broken  # type: ignore[method-assign]

    def both_are_known() -> bool:
        [line] = [each for each in world.store.migrations() if each.id == world.id]
        return whole(second).observation is not None and code in line.waiting

    asyncio.run(with_the_loop(world, both_are_known))
    found = world.reconciler.troubles[world.id]
    assert found.code == code
    assert "SELECT" not in found.text
    assert second not in world.reconciler.troubles
    [line] = [each for each in world.store.migrations() if each.id == world.id]
    assert line.waiting == f"waiting: {code} {found.text}"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE migration SET inventory = '{\"name\": 1}' WHERE id = 1",
        "UPDATE migration SET inventory = 'torn {' WHERE id = 1",
        "UPDATE migration SET phase = 'LATER_RELEASE' WHERE id = 1",
    ],
    ids=["another shape", "no JSON", "unknown phase"],
)
def test_a_damaged_row_is_set_aside_with_a_finding(world: World, statement: str) -> None:
    second = a_second(world)
    spoil(world, statement)
    whole = world.store.snapshot
    asyncio.run(with_the_loop(world, lambda: whole(second).observation is not None and bool(world.reconciler.troubles)))
    assert world.reconciler.troubles[world.id].code == "Z2K-4102"
    assert [each.id for each in world.store.migrations()] == [world.id, second]
    with pytest.raises(FindingError, match="Z2K-4102"):
        world.store.snapshot(world.id)


def test_a_database_that_answers_nobody_ends_no_loop(world: World) -> None:
    numbers = world.store.numbers
    failures = [LOCKED, LOCKED]

    def sometimes() -> list[int]:
        if failures:
            world.reconciler.wake()
            raise failures.pop()
        return numbers()

    world.store.numbers = sometimes  # type: ignore[method-assign]
    asyncio.run(with_the_loop(world, lambda: world.snapshot.observation is not None))
    assert world.reconciler.troubles == {}


def test_trouble_is_over_when_a_round_succeeds(world: World) -> None:
    whole = world.store.snapshot

    def locked(migration_id: int) -> Snapshot:
        raise LOCKED

    async def story() -> None:
        world.store.snapshot = locked  # type: ignore[method-assign]
        await world.reconciler.step(world.id)
        assert world.id in world.reconciler.troubles
        world.store.snapshot = whole  # type: ignore[method-assign]
        await world.rounds()

    asyncio.run(story())
    assert world.reconciler.troubles == {}


def test_the_same_trouble_is_logged_once_a_minute() -> None:
    now = [0.0]
    trouble = TroubleLog(lambda: now[0])
    with capture_logs() as logs:
        for now[0] in range(0, 130, 2):
            trouble.say(1, named(LOCKED, 1), LOCKED)
        trouble.say(1, named(FULL, 1), FULL)
    assert [each["code"] for each in logs] == ["Z2K-4101", "Z2K-4101", "Z2K-4101", "Z2K-4105"]


def test_a_finding_that_is_told_twice_is_one_row(world: World) -> None:
    """A faulty controller file is told by `check` and by the service's own look at the files."""
    told = ReportedFinding.of(DIRECTORY_UNUSABLE.found(directory="/d", reason="gone"))
    record_observation(
        world.store, world.id, RoundObservation(Observation(1.0), {"check": [told, told], "driver": [told, told]})
    )
    record_observation(
        world.store, world.id, RoundObservation(Observation(2.0), {"check": [told, told], "driver": [told]})
    )
    assert [(each.source, each.code) for each in findings(world.store, world.id)] == [
        ("check", DIRECTORY_UNUSABLE.code),
        ("driver", DIRECTORY_UNUSABLE.code),
    ]


def test_an_inspection_that_fails_by_a_fault_of_ours_is_a_finding(world: World) -> None:
    async def no_process(*arguments: str, limit_s: float) -> object:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    world.runner.run = no_process  # type: ignore[method-assign,assignment]

    async def story() -> None:
        await world.to_preflight()
        await world.rounds()

    asyncio.run(story())
    assert world.phase is Phase.PREFLIGHT
    assert "Z2K-4105" in [each.code for each in findings(world.store, world.id, only_open=True)]


# --- looks ------------------------------------------------------------------------------------------------


def test_migrations_with_the_same_zookeeper_have_a_session_each(world: World) -> None:
    made: list[str] = []

    class Slow:
        async def look(self, ours: tuple[int, ...]) -> ZooKeeperObservation:
            await asyncio.sleep(0)
            return ZooKeeperObservation(problem="looked")

        async def close(self) -> None:
            made.append("closed")

    def make(connect: str) -> Slow:
        made.append(connect)
        return Slow()

    async def story() -> None:
        observer = ClusterObserver(world.reconciler._observer._control, world.clock, make)
        await asyncio.gather(*(observer.look(world.inventory, None, number) for number in (1, 2)))
        await observer.look(msgspec.structs.replace(world.inventory, zookeeper="other:2181"), None, 2)
        await observer.close()

    asyncio.run(story())
    assert made == ["zk:2181/kafka", "zk:2181/kafka", "closed", "other:2181", "closed", "closed"]


def test_what_zookeeper_makes_of_an_address_is_the_reason_and_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(ensemble: ZooKeeperEnsemble, ours: tuple[int, ...]) -> ZooKeeperObservation:
        raise UnicodeError("label empty or too long")

    monkeypatch.setattr(ZooKeeperEnsemble, "_read", read)
    monkeypatch.setattr(observe, "ZOOKEEPER_WAIT_S", 60.0)

    async def story() -> ZooKeeperObservation:
        ensemble = ZooKeeperEnsemble("a..b:2181")
        observed, also = await ensemble.look(()), await ensemble.look(())
        await ensemble.close()
        assert observed == also
        return observed

    assert asyncio.run(story()).problem == "a..b:2181: label empty or too long"


# --- one cluster, one migration ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "other", "taken"),
    [
        ("CREATED", "CREATED", True),
        ("CREATED", "ROLLED_BACK", False),
        ("READY", "PREFLIGHT", False),
        ("READY", "DUAL_WRITE", True),
        ("DUAL_WRITE", "READY", False),
        ("PREFLIGHT", "LATER_RELEASE", True),
    ],
)
def test_who_is_further_has_the_cluster_and_of_two_the_older(mine: str, other: str, taken: bool) -> None:
    assert (rival_of(7, mine, [Rival(3, "older", other, "c")]) is not None) is taken


def test_the_second_migration_of_a_cluster_starts_nothing(world: World) -> None:
    observed = msgspec.structs.replace(world.zookeeper.observed, cluster_id="one-and-the-same")
    world.zookeeper.observed = observed
    second = a_second(world)

    async def story() -> None:
        await world.to_preflight()
        for _ in range(3):
            await world.reconciler.step(second)
            await world.inspections_end()

    asyncio.run(story())
    rival = world.store.snapshot(second).rival
    assert rival is not None
    assert rival.found().code == "Z2K-4104"
    assert rival.found().text.startswith(f"Cluster one-and-the-same belongs to migration {world.id} (orders)")
    assert world.snapshot.rival is None
    removal.remove(world.store, world.id, who="Ada", at=world.clock())
    assert world.store.snapshot(second).rival is None


def test_the_second_migration_of_a_cluster_takes_no_part_in_what_the_controllers_of_the_first_do(world: World) -> None:
    async def story() -> int:
        await world.to_dual_write()
        world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, cluster_id="one-and-the-same")
        await world.rounds()
        second = a_second(world)
        for _ in range(3):
            await world.reconciler.step(second)
        return second

    second = asyncio.run(story())
    assert world.store.phase(second) == Phase.CREATED
    assert world.phase is Phase.DUAL_WRITE
    removal.remove(world.store, second, who="Ada", at=world.clock())


def test_the_second_migration_of_a_cluster_adopts_nothing_while_zookeeper_is_away(world: World) -> None:
    async def story() -> int:
        await world.to_dual_write()
        said = str(world.controller.status()["cluster_id"])
        world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, cluster_id=said)
        await world.rounds()
        second = a_second(world)
        world.zookeeper.observed = ZooKeeperObservation(problem="zk:2181 has not answered for 2 s")
        await world.reconciler.step(second)
        return second

    assert world.store.phase(asyncio.run(story())) == Phase.CREATED


def test_going_back_with_the_second_migration_of_a_cluster_stops_no_controller_of_the_first(world: World) -> None:
    async def story() -> int:
        await world.to_ready()
        world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, cluster_id="one-and-the-same")
        await world.rounds()
        second = a_second(world)
        await world.reconciler.step(second)
        world.store.record_operation(
            second, NewOperation(name="ROLL_BACK", who="Ada", reason="a mistake"), at=world.clock()
        )
        for _ in range(4):
            await world.reconciler.step(second)
            assert world.controller.alive
        await world.rounds()
        return second

    second = asyncio.run(story())
    assert world.store.phase(second) == Phase.ROLLED_BACK
    assert world.phase is Phase.READY


# --- changed and removed ----------------------------------------------------------------------------------


def test_a_mistyped_address_is_changed_and_what_was_seen_with_it_is_forgotten(world: World) -> None:
    async def story() -> None:
        await world.to_preflight()

    asyncio.run(story())
    removal.change(world.store, world.id, {"zookeeper": "zk1:2181"}, who="Ada", reason="typo", at=world.clock())
    assert world.snapshot.inventory.zookeeper == "zk1:2181"
    assert (world.snapshot.observation, world.snapshot.check) == (None, None)
    operation = world.store.operations(world.id)[0]
    assert (operation.name, operation.who, operation.answer) == (
        "CHANGE",
        "Ada",
        "zookeeper: zk:2181/kafka is now zk1:2181",
    )


def test_a_removed_migration_is_gone_and_its_name_and_number_are_not_mixed_up(world: World) -> None:
    removal.remove(world.store, world.id, who="Ada", at=world.clock())
    assert world.store.numbers() == []
    with pytest.raises(FindingError, match="Z2K-4004"):
        world.store.snapshot(world.id)
    again = world.store.create(world.inventory, who="test", at=world.clock())[0]
    assert again.id > world.id


def test_a_damaged_migration_that_claimed_nothing_can_be_removed(world: World) -> None:
    spoil(world, "UPDATE migration SET inventory = 'torn {'")
    removal.remove(world.store, world.id, who="Ada", at=world.clock())
    assert world.store.numbers() == []


@pytest.mark.parametrize("phase", ["READY", "DUAL_WRITE"])
def test_what_claims_or_runs_is_neither_changed_nor_removed(world: World, phase: str) -> None:
    asyncio.run(world.to_ready() if phase == "READY" else world.to_dual_write())
    with pytest.raises(FindingError, match="Z2K-4106"):
        removal.remove(world.store, world.id, who="Ada", at=world.clock())
    with pytest.raises(FindingError, match="Z2K-4106"):
        removal.change(world.store, world.id, {}, who="Ada", reason="", at=world.clock())
    assert world.store.numbers() == [world.id]


def test_the_loop_lets_go_of_a_removed_migration(world: World) -> None:
    second = a_second(world)

    async def story() -> None:
        loop = asyncio.create_task(world.reconciler.run())
        await until(lambda: world.store.snapshot(second).observation is not None)
        work = lambda: removal.remove(world.store, second, who="Ada", at=world.clock())  # noqa: E731
        await asyncio.to_thread(world.reconciler.alone_with, second, work)
        world.reconciler.wake()
        await until(lambda: second not in world.reconciler._tasks)
        assert not loop.done()
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)

    asyncio.run(story())


def test_the_steps_of_the_database_make_the_tables_of_the_code(tmp_path: Path) -> None:
    engine = open_database(f"sqlite:///{tmp_path / 'made.db'}")
    with engine.connect() as connection:
        columns = {row[1] for row in connection.execute(text("PRAGMA table_info(migration)"))}
    engine.dispose()
    assert columns == set(Base.metadata.tables["migration"].columns.keys())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://service:s3cret@127.0.0.1:1/zk2kraft",
        "postgresql+psycopg://service@127.0.0.1:1/zk2kraft?sslpassword=s3cret",
        "postgresql+psycopg2://service:s3cret@127.0.0.1:1/zk2kraft",
        "nosuchdialect://service:s3cret@host/db",
        "mysql://service:s3cret@host:badport/db",
        "s3cret",
    ],
)
def test_a_database_that_cannot_be_used_is_a_finding_without_its_password(url: str) -> None:
    with pytest.raises(FindingError, match="Z2K-4016") as raised:
        open_database(url)
    assert "s3cret" not in str(raised.value)
    assert raised.value.__suppress_context__, "a trace must not show it either"
