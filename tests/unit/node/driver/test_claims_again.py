"""The claim is changed in dual-write, or found changed by a new leader: what the driver does, on a tree in memory.

The same on real processes: tests/e2e/test_claim_in_kraft_mode.py. All cells as values: test_claim_table.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from migrator.control_api.states import State
from migrator.driver.claim import plan_rollback
from migrator.driver.claim_table import ClaimedBefore
from migrator.driver.machine import Happened
from migrator.driver.mirror import Shape, plan
from migrator.findings.driver import CLAIM_CHANGED, FENCED, LOG_RETIRED, MIRROR_STOPPED
from migrator.model.diff import diff
from migrator.model.image import EMPTY
from migrator.model.values import Mark
from migrator.node.driver.gatekeeper import DriverGatekeeper
from migrator.node.zookeeper.claims import read_claim
from migrator.zk import paths
from migrator.zk.znodes import controller_data
from tests.support.builders import a_broker, a_topic, an_image
from tests.support.driver_acts import as_act, claim_acts, done, with_parts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.driver.test_mirror import AT, a_cluster
from tests.unit.node.driver.test_driver_acts import CLUSTER_ID, story
from tests.unit.node.driver.test_leaderships import a_voters_driver, for_ever, settle

KRAFT: Final = (1, 2, 3)
HYBRID: Final = (1, 2)
ZOOKEEPER: Final = ()
IDENTITY: Final = b'{"version":"1","id":"%s"}' % CLUSTER_ID.encode()


def a_driver_in(state: State, kraft: Sequence[int], *, reports: bool = True) -> tuple[Any, FakeEnsemble]:
    """In dual-write, or about to resume it.

    kraft: which of three brokers are in KRaft mode. reports: one of them sends heartbeats.
    """
    ensemble, session, claim = a_cluster()
    ensemble.create(paths.CLUSTER_ID, IDENTITY)
    brokers = [a_broker(each, migrating=each not in kraft) for each in (1, 2, 3)]
    image = an_image(a_topic("orders", 2), brokers=brokers, epoch=AT.epoch, offset=AT.offset)
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    for multi in planned.multis:
        assert session.apply(multi).applied
    driver: Any = a_voters_driver(state, session=session)
    marks = image.marks.set(Mark.MIGRATION, str(read_claim(session).migration_born))
    marks = marks.set(Mark.CLAIM, ClaimedBefore(claim.zk_epoch, claim.epoch_version).text())
    driver.parts.controller.image = driver.parts.controller.newest = msgspec.structs.replace(image, marks=marks)
    driver.parts.config.takeover_max_ms = 15_000
    driver.parts.controller.contacts.clear((1, 2, 3), 0)
    if reports:
        driver.parts.controller.contacts.touch(1, 900, 1, fenced=False)
    driver.now.led_epoch = driver.parts.controller.epoch = 5 if state is State.DUAL_WRITE else 6

    async def mark(which: str, text: str) -> None:
        marks = driver.parts.controller.newest.marks.set(which, text)
        driver.parts.controller.image = driver.parts.controller.newest = msgspec.structs.replace(
            driver.parts.controller.newest, marks=marks
        )

    driver.parts.controller.mark = mark
    if state is State.DUAL_WRITE:
        driver.now.claim = planned.claim
    return driver, ensemble


def serves(driver: Any) -> bool:
    """Whether administrators are served."""
    keeper = DriverGatekeeper(driver.now, driver.parts.session, driver.divergence, None)
    return keeper.writes_allowed(driver.parts.controller.newest)


def delete(ensemble: FakeEnsemble, *gone: str) -> None:
    for path in gone:
        del ensemble.nodes[path]


def a_broker_rules(ensemble: FakeEnsemble) -> None:
    """As an election in ZooKeeper mode leaves it."""
    epoch = ensemble.nodes[paths.CONTROLLER_EPOCH]
    epoch.data = str(int(epoch.data or b"") + 1).encode()
    epoch.version += 1
    ensemble.nodes.pop(paths.CONTROLLER, None)
    ensemble.create(paths.CONTROLLER, controller_data(9, -1, 1))


def wiped(ensemble: FakeEnsemble) -> None:
    delete(ensemble, *[path for path in ensemble.nodes if path not in ("", "/")])


CHANGES: Final[dict[str, Any]] = {
    "no /controller": lambda ensemble: delete(ensemble, paths.CONTROLLER),
    "no /migration": lambda ensemble: delete(ensemble, paths.MIGRATION),
    "no /controller_epoch": lambda ensemble: delete(ensemble, paths.CONTROLLER_EPOCH),
    "a broker's claim": a_broker_rules,
    "a wiped tree": wiped,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize(
    ("kraft", "happened"),
    [(KRAFT, Happened.CLAIM_LOST), (HYBRID, Happened.CLAIM_TOUCHED), (ZOOKEEPER, Happened.CLAIM_TOUCHED)],
)
def test_a_change_fences_beside_brokers_in_zookeeper_mode_and_is_only_named_without(
    change: Any, kraft: Sequence[int], happened: Happened
) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.DUAL_WRITE, kraft)
        change(ensemble)
        assert driver.claim_watch.touched(read_claim(driver.parts.session)) is happened
        named = driver.now.alarms.get(CLAIM_CHANGED.code)
        assert (named is not None) == (kraft is KRAFT)
        assert (driver.now.finding is not None and driver.now.finding.code == FENCED.code) == (kraft is not KRAFT)

    story(told)


def test_the_driver_serves_while_it_claims_again_and_writes_nothing_under_the_old_claim() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.DUAL_WRITE, KRAFT)
        delete(ensemble, paths.CONTROLLER)
        running = asyncio.create_task(
            driver.run({State.DUAL_WRITE: as_act(for_ever), State.RESUMING: as_act(for_ever)})
        )
        driver.claim_watch.touched(read_claim(driver.parts.session))
        await settle(driver, lambda: driver.now.state is State.RESUMING)
        assert driver.now.claim is None
        assert serves(driver)
        running.cancel()

    story(told)


@pytest.mark.parametrize("gone", ["no /controller", "no /migration", "no /controller_epoch"])
def test_a_new_leader_claims_again_where_every_broker_is_in_kraft_mode(gone: str) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.RESUMING, KRAFT)
        before = read_claim(driver.parts.session).epoch
        CHANGES[gone](ensemble)
        assert serves(driver)
        assert await done(driver, claim_acts(driver).resume()) is Happened.CLAIM_RESUMED
        observed = read_claim(driver.parts.session)
        assert observed.controller is not None
        assert (observed.controller.brokerid, observed.controller.kraft_epoch) == (3000, 6)
        assert observed.epoch > before
        assert CLAIM_CHANGED.code in driver.now.alarms
        assert MIRROR_STOPPED.code not in driver.now.alarms
        assert driver.now.finding is None

    story(told)


async def waits(driver: Any, ensemble: FakeEnsemble) -> asyncio.Task[Any]:
    """The act of RESUMING, once it has named why it waits; nothing is written meanwhile."""
    before = ensemble.tree()
    running = asyncio.create_task(done(driver, claim_acts(driver).resume()))
    await settle(driver, lambda: MIRROR_STOPPED.code in driver.now.alarms)
    assert serves(driver)
    assert ensemble.tree() == before
    return running


def test_a_broker_that_holds_the_claim_is_not_fought_and_the_claim_is_made_again_when_it_is_gone() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.RESUMING, KRAFT)
        a_broker_rules(ensemble)
        running = await waits(driver, ensemble)
        assert "a broker in ZooKeeper mode holds the claim" in driver.now.alarms[MIRROR_STOPPED.code].text
        delete(ensemble, paths.CONTROLLER)
        assert await running is Happened.CLAIM_RESUMED
        assert MIRROR_STOPPED.code not in driver.now.alarms

    story(told)


def test_a_wiped_tree_is_filled_only_when_it_is_said_to_be_this_clusters() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.RESUMING, KRAFT)
        wiped(ensemble)
        running = await waits(driver, ensemble)
        ensemble.create(paths.CLUSTER_ID, b'{"version":"1","id":"another-cluster-no-1234"}')
        await asyncio.sleep(1.2)
        assert not running.done()
        ensemble.nodes[paths.CLUSTER_ID].data = IDENTITY
        assert await running is Happened.CLAIM_RESUMED
        assert paths.CONTROLLER_EPOCH in ensemble.nodes

    story(told)


def test_an_old_log_that_no_broker_follows_claims_nothing() -> None:
    """Of a cluster that went back by hand: its registrations say KRaft mode for ever."""

    async def told() -> None:
        driver, ensemble = a_driver_in(State.RESUMING, KRAFT, reports=False)
        delete(ensemble, paths.CONTROLLER)
        running = await waits(driver, ensemble)
        driver.parts.controller.contacts.touch(7, 900, 1, fenced=False)  # not registered here
        await asyncio.sleep(1.2)
        assert not running.done()
        driver.parts.controller.contacts.touch(2, 900, 1, fenced=False)
        assert await running is Happened.CLAIM_RESUMED

    story(told)


def test_beside_brokers_of_both_modes_a_new_leader_claims_again_only_if_nobody_was_elected() -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.RESUMING, HYBRID, reports=False)
        delete(ensemble, paths.CONTROLLER)
        assert not serves(driver)
        assert await done(driver, claim_acts(driver).resume()) is Happened.CLAIM_RESUMED

        driver, ensemble = a_driver_in(State.RESUMING, HYBRID)
        a_broker_rules(ensemble)
        delete(ensemble, paths.CONTROLLER)
        before = ensemble.tree()
        assert await done(driver, claim_acts(driver).resume()) is Happened.CLAIM_TOUCHED
        assert driver.now.finding.code == FENCED.code
        assert ensemble.tree() == before

    story(told)


@pytest.mark.parametrize(
    ("kraft", "happened", "code"),
    [
        (ZOOKEEPER, Happened.ROLLED_BACK, LOG_RETIRED.code),
        (HYBRID, Happened.CLAIM_TOUCHED, FENCED.code),
    ],
)
def test_a_broker_that_was_elected_proves_the_way_back_only_where_no_broker_is_in_kraft_mode(
    kraft: Sequence[int], happened: Happened, code: str
) -> None:
    async def told() -> None:
        driver, ensemble = a_driver_in(State.RESUMING, kraft)
        a_broker_rules(ensemble)
        retired: list[str] = []

        class Retirement:
            async def retire(self, text: str) -> None:
                retired.append(text)

        acts = claim_acts(driver)
        acts.retirement = Retirement()  # type: ignore[assignment]
        ended = await acts.resume()
        assert ended.happened is happened
        assert bool(retired) == (happened is Happened.ROLLED_BACK)
        driver._take(ended)
        assert driver.now.finding.code == code

    story(told)


@pytest.mark.parametrize("kraft", [ZOOKEEPER, HYBRID])
def test_a_rollback_without_controllers_before_the_election_is_not_undone(kraft: Sequence[int]) -> None:
    """Nobody is controller for a moment, and `/controller_epoch` may have the value that it had: its version moved."""

    async def told() -> None:
        holder, ensemble = a_driver_in(State.DUAL_WRITE, kraft)
        assert holder.parts.session.apply(plan_rollback(holder.now.claim, 0)).applied
        driver, _ = a_driver_in(State.RESUMING, kraft)
        driver.claim_watch._session = ensemble.session()
        with_parts(driver, session=driver.claim_watch._session)
        before = ensemble.tree()
        assert await done(driver, claim_acts(driver).resume()) is Happened.CLAIM_TOUCHED
        assert ensemble.tree() == before

    story(told)
