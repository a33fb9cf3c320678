"""A leader that finds state znodes far behind the partition epochs: it serves first, raises later, bars the way back.

The plans by themselves: tests/unit/driver/test_lagging.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from migrator.control_api.states import State
from migrator.driver.guard import Survey
from migrator.driver.lagging import RAISES_MAX
from migrator.driver.machine import Happened
from migrator.driver.mirror import Shape, plan
from migrator.findings.driver import VERSIONS_LAG
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Image, Position
from migrator.zk import paths
from migrator.zk.multi import Multi, SetData
from tests.support.builders import a_partition, a_topic, an_image
from tests.support.driver_acts import done, dual_write_acts, reconcile_acts, rollback_acts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.statuses import driver_status
from tests.unit.driver.test_mirror import AT, a_cluster
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_leaderships import a_voters_driver
from tests.unit.node.driver.test_spoiled_trees import nobody_to_heal

PARTITIONS, EPOCH = 100, 300


def worn(epoch: int, *, offset: int = 1_000, isr: tuple[int, ...] = (1, 2, 3)) -> Image:
    states = [a_partition(each, isr=isr, partition_epoch=epoch) for each in range(PARTITIONS)]
    return an_image(a_topic("orders", states), offset=offset)


def a_successor() -> tuple[Any, FakeEnsemble]:
    """A leader in SYNCING; its log has epoch 300 of each partition, ZooKeeper a new znode with the right data."""
    ensemble, session, claim = a_cluster()
    planned = plan(diff(EMPTY, worn(0)), claim, AT, Shape())
    assert all(session.apply(multi).applied for multi in planned.multis)
    driver = a_voters_driver(State.SYNCING, session=session)
    controller: Any = driver.parts.controller
    controller.image = controller.newest = worn(EPOCH)
    controller.heal, controller.heartbeat_ages_ms = nobody_to_heal, dict
    driver.now.claim = planned.claim
    propagator: Any = driver.propagator
    propagator.channels = SimpleNamespace(send=len, follow=len, states=list, waiting=lambda: 0)
    propagator.silence = str
    driver.now.surveys = {broker: Survey(broker) for broker in controller.image.brokers}
    return driver, ensemble


def versions(ensemble: FakeEnsemble) -> list[int]:
    return [ensemble.nodes[paths.state("orders", each)].version for each in range(PARTITIONS)]


def writes_of(driver: Any) -> int:
    """Of the last reconcile."""
    return int(driver.now.reconciled_writes)


async def applied(driver: Any, condition: Callable[[], bool]) -> None:
    for _ in range(60_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError(driver.now.reason)


async def asked_to_go_back(driver: Any) -> Any:
    async def quiet() -> None: ...

    acts = rollback_acts(driver)
    acts._quiet = quiet  # type: ignore[method-assign]
    assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
    return driver.now.finding


def test_a_fail_over_writes_a_bounded_number_and_mirrors_the_next_change_at_once() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert writes_of(driver) == RAISES_MAX
        left = driver_status(driver)["dual_write"]
        assert left["lagging_operations"] == PARTITIONS * EPOCH - sum(versions(ensemble)) > 0
        before = versions(ensemble)
        delta = diff(worn(EPOCH), worn(EPOCH + 1, offset=1_001, isr=(1, 2)))
        driver.mirror.publish(delta)
        await applied(driver, lambda: driver.now.dual_write_at == Position(1, 1_001))
        assert [each + 1 for each in before] == versions(ensemble)
        assert driver_status(driver)["dual_write"]["lagging_operations"] == left["lagging_operations"]

    story(told)


def test_dual_write_raises_what_lags_in_rounds_and_then_the_way_back_is_free() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        await done(driver, reconcile_acts(driver).reconcile())
        driver.now.state = State.DUAL_WRITE
        found = await asked_to_go_back(driver)
        assert found.code == VERSIONS_LAG.code == driver.now.alarms["rollback"].code
        lagging = driver.mirror.lagging
        assert found.values["partitions"] == lagging.partitions
        assert found.values["operations"] == PARTITIONS * EPOCH - RAISES_MAX
        assert found.values["seconds"] >= 1

        acts = asyncio.create_task(done(driver, dual_write_acts(driver).dual_write()))
        await asyncio.sleep(0)
        await applied(driver, lambda: versions(ensemble) == [EPOCH] * PARTITIONS)
        acts.cancel()
        await applied(driver, lambda: driver.mirror.behind == 0)
        assert not driver.mirror.lagging
        shown = driver_status(driver)["dual_write"]
        assert (shown["lagging_partitions"], shown["lagging_operations"], shown["lagging_s"]) == (0, 0, 0.0)
        rollback_acts(driver)._refuse_with_lagging_versions()

    story(told)


def test_raising_waits_for_what_is_on_its_way_and_sends_one_round_at_a_time() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        await done(driver, reconcile_acts(driver).reconcile())
        driver.mirror.publish(diff(worn(EPOCH), worn(EPOCH + 1, offset=1_001, isr=(1, 2))))
        assert driver.mirror.behind
        assert not driver.mirror.raise_versions()
        await applied(driver, lambda: not driver.mirror.behind)
        lag_ms = driver.mirror.lag_ms
        assert driver.mirror.raise_versions()
        assert not driver.mirror.raise_versions()
        await applied(driver, lambda: not driver.mirror.behind)
        assert driver.mirror.lag_ms == lag_ms
        assert sum(versions(ensemble)) == 2 * RAISES_MAX + PARTITIONS
        assert driver.now.dual_write_at == Position(1, 1_001)

    story(told)


def test_a_commit_behind_a_round_of_raising_is_mirrored_with_the_right_versions() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        await done(driver, reconcile_acts(driver).reconcile())
        assert driver.mirror.raise_versions()
        driver.mirror.publish(diff(worn(EPOCH), worn(EPOCH + 1, offset=1_001, isr=(1, 2))))
        nothing_of_it = msgspec.structs.replace(worn(EPOCH + 1, isr=(1, 2)), position=Position(1, 1_002))
        driver.mirror.publish(diff(nothing_of_it, nothing_of_it))
        await applied(driver, lambda: driver.now.dual_write_at == Position(1, 1_002))
        assert sum(versions(ensemble)) == 2 * RAISES_MAX + PARTITIONS
        assert driver.mirror is not None

    story(told)


def test_a_state_that_somebody_writes_while_it_is_raised_breaks_the_mirror_and_is_put_right() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        await done(driver, reconcile_acts(driver).reconcile())
        topic_id, of_topic = next(iter(driver.mirror.lagging.topics.items()))
        first = next(iter(of_topic))
        state = ensemble.nodes[paths.state("orders", first)].data
        ensemble.apply(Multi((SetData(paths.state("orders", first), state),)), 0)
        assert driver.mirror.raise_versions()
        await applied(driver, lambda: driver.mirror is None)
        assert await done(driver, reconcile_acts(driver).reconcile()) is Happened.RECONCILED
        assert driver.mirror.lagging.left(topic_id, first) <= EPOCH - 1
        while driver.mirror.raise_versions():
            await applied(driver, lambda: not driver.mirror.behind)
        assert versions(ensemble) == [EPOCH] * PARTITIONS

    story(told)
