"""The list of the migration's own znodes: read with the chroot before a rollback and after it, and never in its way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.model.connect_string import chroot_of
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi, Operation
from state_machine.finish.own_znodes import AGAIN_S, NOT_OVER_S, OwnZnodes, nothing_is_left, znodes_of
from state_machine.policy.phases import Phase
from state_machine.rows.documents import ZNODES, ZnodeList, ZnodeRow, ZnodesDocument, document
from state_machine.work.acts import Acts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.state_machine.world import NODE, World

CLAIMED = (
    Create(paths.CONTROLLER, b'{"brokerid":3000,"kraftControllerEpoch":4}'),
    Create(paths.CONTROLLER_EPOCH, b"8"),
    Create(paths.MIGRATION, b"{}"),
    Create(paths.CLUSTER, b""),
    Create(paths.CLUSTER_ID, b"{}"),
    Create(paths.presence(NODE), b'{"node":3000}', ephemeral=True),
    Create(paths.ROAD_LOCK, b"service\x1b[2J", ephemeral=True),
)


def apply(ensemble: FakeEnsemble, *operations: Operation) -> None:
    outcome = ensemble.session().apply(Multi(operations))
    assert outcome.applied, outcome


class WithZnodes(World):
    """Reads a fake ensemble below /kafka; `trouble` keeps it from that."""

    def __init__(self, directory: Path) -> None:
        self.ensemble = FakeEnsemble()
        self.trouble: Exception | None = None
        self.readings: list[str] = []
        super().__init__(directory)
        apply(self.ensemble, *CLAIMED)

    def start_service(self) -> None:
        super().start_service()
        self.znodes = OwnZnodes(self.store, self.read, self.clock, self.clock_steady)
        acts = self.reconciler._acts
        assert isinstance(acts, Acts)
        acts._znodes = self.znodes

    def read(self, connect: str, known: Iterable[str] = ()) -> tuple[ZnodeRow, ...]:
        self.readings.append(connect)
        if self.trouble is not None:
            raise self.trouble
        return znodes_of(self.ensemble.session(), chroot_of(connect), known)

    async def acts_end(self) -> None:
        await super().acts_end()
        await asyncio.gather(*(task for _, task in self.znodes._reading.values()))

    @property
    def kept(self) -> ZnodesDocument:
        return document(self.snapshot, ZNODES, ZnodesDocument) or ZnodesDocument()

    async def roll_back(self) -> None:
        self.controller.on_ask = lambda operation: self.rollback()
        await self.run_operation("ROLL_BACK")
        await self.rounds(2)
        assert self.phase is Phase.ROLLED_BACK

    def release(self) -> None:
        """As the driver and the broker that follows do it."""
        apply(self.ensemble, Delete(paths.MIGRATION), Delete(paths.CONTROLLER))
        apply(self.ensemble, Create(paths.CONTROLLER, b'{"brokerid":1,"kraftControllerEpoch":-1}', ephemeral=True))


@pytest.fixture
def world(tmp_path: Path) -> WithZnodes:
    return WithZnodes(tmp_path)


def says(found: ZnodeList | None) -> dict[str, str]:
    return {} if found is None else {each.path: each.says for each in found.znodes}


def test_before_and_after_a_rollback_each_znode_is_listed_with_its_chroot(world: WithZnodes) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await world.rounds(2)
        world.release()
        for path in (paths.presence(NODE), paths.ROAD_LOCK):
            apply(world.ensemble, Delete(path))
        await world.roll_back()
        await world.rounds(3)

    asyncio.run(story())
    before, after = world.kept.before, world.kept.after
    assert before is not None
    assert after is not None
    assert (before.phase, after.phase) == (Phase.DUAL_WRITE, Phase.ROLLED_BACK)
    assert before.at < world.snapshot.migration.since <= after.at
    assert says(before) == {
        "/kafka/controller": 'version 0: {"brokerid":3000,"kraftControllerEpoch":4}',
        "/kafka/controller_epoch": "version 0: 8",
        "/kafka/migration": "version 0: {}",
        "/kafka/cluster/zk2kraft_finalize": "absent",
        "/kafka/cluster/zk2kraft_road": "version 0, ephemeral: service\ufffd[2J",
        "/kafka/cluster/zk2kraft-3000": 'version 0, ephemeral: {"node":3000}',
    }
    assert says(after) == {
        "/kafka/controller": 'version 0, ephemeral: {"brokerid":1,"kraftControllerEpoch":-1}',
        "/kafka/controller_epoch": "version 0: 8",
        **dict.fromkeys(list(says(before))[2:], "absent"),
    }
    assert nothing_is_left(after, "/kafka")
    assert set(world.readings) == {"zk:2181/kafka"}


def test_it_is_read_once_a_minute_before_and_no_more_after_nothing_is_left(world: WithZnodes) -> None:
    async def story() -> None:
        await world.to_dual_write()
        begun = len(world.readings)
        await world.rounds(120, seconds=1.0)
        assert len(world.readings) - begun <= 2
        world.release()
        for path in (paths.presence(NODE), paths.ROAD_LOCK):
            apply(world.ensemble, Delete(path))
        await world.roll_back()
        await world.rounds(2)
        over = len(world.readings)
        await world.rounds(5, seconds=AGAIN_S)
        assert len(world.readings) == over

    asyncio.run(story())


def test_what_is_left_after_it_is_read_again_until_it_is_gone_or_an_hour_is_over(world: WithZnodes) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await world.rounds(2)
        world.release()
        await world.roll_back()
        await world.rounds(2)
        assert says(world.kept.after)["/kafka/cluster/zk2kraft-3000"].startswith("version 0, ephemeral")
        apply(world.ensemble, Delete(paths.presence(NODE)))
        await world.rounds(3, seconds=AGAIN_S)
        assert says(world.kept.after)["/kafka/cluster/zk2kraft-3000"] == "absent"
        world.clock.pass_by(NOT_OVER_S)
        await world.rounds(1)
        over = len(world.readings)
        await world.rounds(3, seconds=AGAIN_S)
        assert len(world.readings) == over

    asyncio.run(story())


def test_a_reading_that_fails_takes_the_place_of_none_and_holds_up_no_rollback(world: WithZnodes) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await world.rounds(2)
        world.trouble = ZOOKEEPER_UNREACHABLE.error(connect="zk:2181/kafka", reason="no answer in 5 s")
        await world.rounds(3, seconds=AGAIN_S)
        assert says(world.kept.before)["/kafka/migration"] == "version 0: {}"
        await world.roll_back()
        await world.rounds(2)
        assert world.kept.after is not None
        assert world.kept.after.problem.startswith("Z2K-2001")
        world.trouble = None
        world.release()
        await world.rounds(3, seconds=AGAIN_S)
        assert says(world.kept.after)["/kafka/migration"] == "absent"

    asyncio.run(story())


def test_a_rollback_before_anything_was_read_is_read_at_its_begin(world: WithZnodes) -> None:
    """With the time and the phase, so that nobody takes it for what was there before."""

    async def story() -> None:
        world.trouble = OSError("no route")
        await world.to_dual_write()
        await world.rounds(2)
        assert world.kept.before is not None
        assert world.kept.before.problem
        world.controller.on_ask = lambda operation: world.controller.move("ROLLING_BACK")
        await world.run_operation("ROLL_BACK")
        world.trouble = None
        await world.rounds(3, seconds=AGAIN_S)
        assert world.phase is Phase.ROLLING_BACK

    asyncio.run(story())
    before = world.kept.before
    assert before is not None
    assert (before.phase, before.problem) == (Phase.ROLLING_BACK, "")
