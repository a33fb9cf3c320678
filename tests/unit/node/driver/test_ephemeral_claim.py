"""A claim that ends with our session is let go in time, whoever is left to see to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.claim import ClaimObservation
from migrator.driver.copy import Copy
from migrator.driver.machine import Happened, TimeWithoutController, move
from migrator.driver.tree import Tree
from migrator.driver.way_back import Left, last_steps
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.model.values import MigrationState
from migrator.node.driver import ephemeral_claim
from migrator.node.driver.driver_state import DriverState, StateReporter
from migrator.node.driver.ephemeral_claim import EphemeralClaim
from migrator.zk import paths
from migrator.zk.multi import Delete, SetData
from tests.support.builders import a_claim, an_image
from tests.support.driver_acts import as_act, copy_acts, done, with_parts
from tests.support.voter_on_disk import comes_about
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_leaderships import a_voters_driver, for_ever, found, settle


class Session:
    def __init__(self, failures: int = 0) -> None:
        self.renewed = 0
        self._failures = failures

    def renew(self) -> None:
        if self._failures:
            self._failures -= 1
            raise ZOOKEEPER_LOST.error(path="/", reason="it hangs")
        self.renewed += 1


def watched(now: DriverState, clock: list[int], session: Session) -> EphemeralClaim:
    return EphemeralClaim(now, StateReporter(now), lambda: clock[0], session.renew, lambda task: None)


LOOK_S, AGAIN_S = 0.00013, 0.00017
"""Told from every other pause by their odd lengths."""


class Looks:
    """Counts the pauses between looks; the watcher has seen the state of now when it has looked twice more."""

    def __init__(self) -> None:
        self.count = 0

    async def two_more(self) -> None:
        wanted = self.count + 2
        await comes_about(lambda: self.count >= wanted)


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(ephemeral_claim, "LOOK_S", LOOK_S)
    monkeypatch.setattr(ephemeral_claim, "AGAIN_S", AGAIN_S)
    counted, sleep = Looks(), asyncio.sleep

    async def counting(seconds: float, *result: object) -> None:
        counted.count += seconds == LOOK_S
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", counting)
    return counted


@pytest.mark.parametrize("failures", [0, 3])
def test_without_leadership_the_session_ends_at_the_limit_and_not_before(looks: Looks, failures: int) -> None:
    """A successor may go on with the claim until then. A server that hangs is tried again."""

    async def told() -> None:
        now, clock, session = DriverState(state=State.COPYING), [0], Session(failures)
        watched(now, clock, session).begin(TimeWithoutController(0, 1000))
        clock[0] = 5000
        await looks.two_more()
        assert session.renewed == 0, "while this node leads, others see to it"
        clock[0] = 999
        now.state = State.IDLE
        await looks.two_more()
        assert session.renewed == 0
        clock[0] = 1000
        await comes_about(lambda: session.renewed == 1)
        assert "let go" in now.reason

    story(told)


def test_a_claim_that_was_settled_or_rolled_back_is_left_alone(looks: Looks) -> None:
    """Nobody looks any more, so nothing can come of the limit."""

    async def told() -> None:
        now, clock, session = DriverState(state=State.IDLE), [0], Session()
        watching = watched(now, clock, session)
        watching.begin(TimeWithoutController(0, 1000))
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "ephemeral-claim")
        await looks.two_more()
        watching.end()
        clock[0] = 2000
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert session.renewed == 0

    story(told)


def test_a_leader_that_loses_its_majority_in_the_window_lets_the_claim_go() -> None:
    async def told() -> None:
        session = Session()
        driver = a_voters_driver(State.COPYING, session=session)
        driver.now.claim = a_claim()
        driver.ephemeral.begin(TimeWithoutController(driver.parts.now_ms(), 20))
        running = asyncio.create_task(driver.run({State.COPYING: as_act(for_ever)}))
        driver.lost_leadership()
        await settle(driver, lambda: session.renewed == 1)
        running.cancel()
        assert (driver.now.state, session.renewed) == (State.IDLE, 1)

    story(told)


class Appending:
    """A driver in COMMITTING, what ZooKeeper says of its claim, and what was appended."""

    def __init__(self, says: Callable[[], ClaimObservation]) -> None:
        self.appended: list[object] = []
        driver = self.driver = a_voters_driver(State.COMMITTING)
        driver.now.claim = a_claim()
        driver.now.copy = Copy(Tree(), {}, (), {}, 5_000)
        base = an_image(migration=MigrationState.PRE_MIGRATION)

        @asynccontextmanager
        async def paused() -> Any:
            yield

        async def append_copy(batches: object, delta: object) -> Any:
            self.appended.append(delta)
            await asyncio.sleep(60)

        async def observed() -> ClaimObservation:
            return says()

        controller = SimpleNamespace(
            newest=base, image=base, paused=paused, next_offset=lambda: 10, append_copy=append_copy, epoch=5
        )
        with_parts(driver, controller=controller)
        driver.claim_watch.observed = observed  # type: ignore[method-assign]

    async def commit(self) -> Happened:
        return await done(self.driver, copy_acts(self.driver).commit())


OURS = found(3000, 5)
OF_A_BROKER = found(1, -1, None, zk_epoch=10)


def test_a_claim_that_ended_before_the_append_leads_to_an_abort_and_nothing_is_appended() -> None:
    """The log is not used up: nothing of the copy is in it."""

    async def told() -> None:
        stage = Appending(lambda: OF_A_BROKER)
        stage.driver.now.claim = a_claim(ephemeral=True)
        assert await stage.commit() is Happened.WINDOW_FAILED
        assert stage.appended == []
        assert stage.driver.now.finding is not None
        assert stage.driver.now.finding.code == "Z2K-2051"
        assert move(State.COMMITTING, Happened.WINDOW_FAILED) is State.ABORTING

    story(told)


def test_whatever_ends_the_window_before_the_append_is_the_last_word() -> None:
    """It comes while the claim is read for the last time; the act may run before the interrupt is taken."""

    async def told() -> None:
        def says() -> ClaimObservation:
            stage.driver.claim_watch.touched(OF_A_BROKER)  # as the watch does, beside the act
            return OURS  # which was read a moment earlier

        stage = Appending(says)
        assert await stage.commit() is Happened.WINDOW_FAILED
        assert stage.appended == []

    story(told)


def test_the_window_may_be_aborted_until_the_append_and_not_after_it() -> None:
    async def told() -> None:
        stage = Appending(lambda: OURS)
        driver = stage.driver
        assert driver.now.may_abort
        running = asyncio.create_task(driver.run({State.COMMITTING: as_act(stage.commit)}))
        await settle(driver, lambda: bool(stage.appended))
        assert driver.now.fresh_copy
        assert not driver.request_abort("a person")
        driver.parts.events.interrupt(Happened.WINDOW_FAILED)  # on its way since before the append
        await asyncio.sleep(0)
        assert driver.claim_watch.touched(OF_A_BROKER) is Happened.MUST_ROLL_BACK
        await settle(driver, lambda: driver.now.state is State.ROLLING_BACK_EARLY)
        running.cancel()
        assert driver.now.state is State.ROLLING_BACK_EARLY

    story(told)


def test_a_migration_znode_deleted_beside_our_claim_after_the_append_leads_back() -> None:
    async def told() -> None:
        claim = a_claim()
        alone = found(claim.node, claim.kraft_epoch, None, claim.zk_epoch)
        driver = a_voters_driver(State.COMMITTING)
        driver.now.claim, driver.now.fresh_copy = claim, True
        assert driver.claim_watch.touched(alone) is Happened.MUST_ROLL_BACK
        driver.now.fresh_copy = False
        assert driver.claim_watch.touched(alone) is Happened.WINDOW_FAILED

    story(told)


def test_the_last_step_takes_the_claim_away_also_where_the_migration_znode_was_deleted() -> None:
    left = Left(at=0.0, node=3000, kraft_epoch=5, zk_epoch=9, highest_state_epoch=11)
    (multi,) = last_steps(found(3000, 5, None), left)
    assert multi.operations == (SetData(paths.CONTROLLER_EPOCH, b"11", 9), Delete(paths.CONTROLLER, 0))
    assert not last_steps(found(3000, 6, None), left)
