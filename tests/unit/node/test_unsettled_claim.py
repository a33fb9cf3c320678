"""A claim that ends with our session is let go in time, whoever is left to see to it."""

from __future__ import annotations

import asyncio

import pytest

from migrator.driver.machine import Happened, State, Window
from migrator.errors import ZOOKEEPER_LOST
from migrator.node import unsettled_claim
from migrator.node.driver_state import DriverState
from migrator.node.hand_back import Left, last_step
from migrator.node.unsettled_claim import UnsettledClaim
from migrator.zk import paths
from migrator.zk.multi import Delete, SetData
from tests.support.builders import a_claim
from tests.unit.node.test_driver_acts import story
from tests.unit.node.test_leaderships import a_voters_driver, for_ever, found, settle


class Session:
    def __init__(self, failures: int = 0) -> None:
        self.renewed = 0
        self._failures = failures

    def renew(self) -> None:
        if self._failures:
            self._failures -= 1
            raise ZOOKEEPER_LOST.error(path="/", reason="it hangs")
        self.renewed += 1


def watched(now: DriverState, clock: list[int], session: Session) -> UnsettledClaim:
    return UnsettledClaim(now, lambda: clock[0], session.renew, lambda task: None)


async def soon() -> None:
    await asyncio.sleep(0.03)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsettled_claim, "LOOK_S", 0.001)
    monkeypatch.setattr(unsettled_claim, "AGAIN_S", 0.001)


@pytest.mark.parametrize("failures", [0, 3])
def test_without_leadership_the_session_ends_at_the_limit_and_not_before(failures: int) -> None:
    """A successor may go on with the claim until then. A server that hangs is tried again."""

    async def told() -> None:
        now, clock, session = DriverState(state=State.COPYING), [0], Session(failures)
        watched(now, clock, session).begin(Window(0, 1000))
        clock[0] = 5000
        await soon()
        assert session.renewed == 0, "while this node leads, others see to it"
        now.state = State.IDLE
        clock[0] = 999
        await soon()
        assert session.renewed == 0
        clock[0] = 1000
        await soon()
        assert session.renewed == 1
        assert "let go" in now.reason

    story(told)


def test_a_claim_that_was_settled_or_given_back_is_left_alone() -> None:
    async def told() -> None:
        now, clock, session = DriverState(state=State.IDLE), [0], Session()
        watching = watched(now, clock, session)
        watching.begin(Window(0, 1000))
        watching.end()
        clock[0] = 2000
        await soon()
        assert session.renewed == 0

    story(told)


def test_a_leader_that_loses_its_majority_in_the_window_lets_the_claim_go() -> None:
    async def told() -> None:
        session = Session()
        driver = a_voters_driver(State.COPYING, session=session)
        driver.now.claim = a_claim()
        driver.unsettled.begin(Window(driver.now_ms(), 20))
        running = asyncio.create_task(driver.run({State.COPYING: for_ever}))
        driver.lost_leadership()
        await settle(driver, lambda: session.renewed == 1)
        running.cancel()
        assert (driver.now.state, session.renewed) == (State.IDLE, 1)

    story(told)


def test_from_the_first_moment_of_committing_the_way_back_retires_the_log() -> None:
    """It may be appended already: a touched claim must not end in FENCED, where nobody gives anything back."""

    async def told() -> None:
        driver = a_voters_driver(State.AUDITING)
        driver.now.claim = a_claim()

        async def passed() -> Happened:
            return Happened.AUDIT_PASSED

        running = asyncio.create_task(driver.run({State.AUDITING: passed, State.COMMITTING: for_ever}))
        await settle(driver, lambda: driver.now.state is State.COMMITTING)
        running.cancel()
        assert driver.now.fresh_copy

    story(told)


def test_a_migration_znode_deleted_beside_our_claim_after_the_append_leads_back() -> None:
    async def told() -> None:
        claim = a_claim()
        alone = found(claim.node, claim.kraft_epoch, None, claim.zk_epoch)
        driver = a_voters_driver(State.COMMITTING)
        driver.now.claim, driver.now.fresh_copy = claim, True
        assert driver.claim_watch.touched(alone) is Happened.MUST_GO_BACK
        driver.now.fresh_copy = False
        assert driver.claim_watch.touched(alone) is Happened.CLAIM_TOUCHED

    story(told)


def test_the_last_step_takes_the_claim_away_also_where_the_migration_znode_was_deleted() -> None:
    left = Left(at=0.0, node=3000, kraft_epoch=5, zk_epoch=9, highest_state_epoch=11)
    multi = last_step(found(3000, 5, None), left)
    assert multi is not None
    assert multi.operations == (SetData(paths.CONTROLLER_EPOCH, b"11", 9), Delete(paths.CONTROLLER, 0))
    assert last_step(found(3000, 6, None), left) is None
