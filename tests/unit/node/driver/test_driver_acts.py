"""What the driver does when something breaks where nobody was listening: acts and the loop, without any network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest

from migrator.control_api.states import State
from migrator.controller.contacts import Contacts
from migrator.controller.removals import Removals
from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.divergence import DivergenceLimits, Level
from migrator.driver.guard import Guarded, Survey
from migrator.driver.lagging import NOTHING_LAGS
from migrator.driver.machine import Happened, TimeWithoutController, writes_allowed
from migrator.driver.update_requests import LEADER_AND_ISR, STOP_REPLICA, BrokerUpdate, UpdateKind
from migrator.driver.window import too_late
from migrator.findings.finding import FindingError
from migrator.model.draft import Draft
from migrator.model.image import Position
from migrator.model.values import Mark, MigrationState
from migrator.node.brokers.broker_channels import UNKNOWN_SERVER_ERROR, refused_whole
from migrator.node.brokers.full_sends import ASKED, SILENT_AFTER_MS
from migrator.node.driver import propagator
from migrator.node.driver.act import DriverParts
from migrator.node.driver.divergence_watch import DivergenceWatch
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.driver_state import DriverState, StateReporter
from migrator.node.driver.event_queue import EventQueue
from migrator.node.process.controller import now_ms, wall_ms
from migrator.node.quorum.hooks import Hooks
from migrator.node.transport.client_security import client_security
from migrator.zk.multi import JUTE_MAXBUFFER
from tests.support.builders import a_claim, a_topic, an_image
from tests.support.driver_acts import acts_of, done, dual_write_acts, rollback_acts, update_acts
from tests.support.updated_brokers import request_of

NODE: Any = {
    "voter_ids": (),
    "node_id": 3000,
    "inter_broker_listener": "PLAINTEXT",
    "divergence": DivergenceLimits(),
    "jute_maxbuffer": JUTE_MAXBUFFER,
    "passwords": None,
    "security": {},
}


CLUSTER_ID: Final = "b" * 22


def a_driver(
    state: State,
    *,
    config: Any = None,
    session: Any = None,
    channels: Any = None,
    epoch: int | None = None,
    now_ms: Callable[[], int] = now_ms,
    **known: Any,
) -> Any:
    """A driver whose surroundings are only as far there as an act looks at them. known: other parts."""
    config = SimpleNamespace(**NODE | vars(config or SimpleNamespace()))
    session = session or SimpleNamespace(connected=False)
    image = an_image(a_topic("orders"))
    controller: Any = SimpleNamespace(
        image=image,
        newest=image,
        removals=Removals(),
        contacts=Contacts(),
        settings=SimpleNamespace(cluster_id=CLUSTER_ID),
    )
    now = DriverState(state=state, led_epoch=epoch)
    divergence = DivergenceWatch(
        config.divergence, now_ms=now_ms, wall_ms=wall_ms, may_mark=lambda image: writes_allowed(now.state)
    )
    parts: dict[str, Any] = {
        "progress": StateReporter(now),
        "passwords": None,
        "quorum": SimpleNamespace(stock_voters=list, foreign_voters=tuple, known_to_all=known_to_all),
        "events": EventQueue(),
        "hooks": Hooks(),
        "to_brokers": client_security(None),
        "wall_ms": wall_ms,
    }
    driver = DriverNode(
        DriverParts(now=now, config=config, controller=controller, session=session, now_ms=now_ms, **parts | known),
        now,
        divergence,
        calm=SimpleNamespace(begin=lambda: None, end=lambda: None),  # type: ignore[arg-type]
        on_retired=lambda finding: None,
    )
    driver.propagator.channels = channels or driver.propagator.channels
    return driver


async def known_to_all(*_: Any) -> None:
    """The other voters have the mark at once."""


def a_resting_mirror(**known: Any) -> Any:
    """Nothing is on its way, and no version lags."""
    return SimpleNamespace(behind=0, lagging=NOTHING_LAGS, raise_versions=lambda: False, **known)


def story(told: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(told(), 120))


def test_every_state_has_an_act_but_those_that_wait_to_be_told() -> None:
    async def told() -> None:
        acts = acts_of(a_driver(State.IDLE))
        assert set(State) - set(acts.table) == {State.IDLE, State.FENCED, State.DONE}
        await acts.close()

    story(told)


def test_a_mirror_that_broke_during_a_refused_rollback_is_made_again() -> None:
    """Its break meant nothing in ROLLING_BACK; dual-write without a mirror would never write again."""

    async def told() -> None:
        driver = a_driver(State.DUAL_WRITE)
        assert await done(driver, dual_write_acts(driver).dual_write()) is Happened.MIRROR_BROKEN

    story(told)


def test_a_mirror_that_breaks_while_brokers_are_told_is_made_again_before_dual_write() -> None:
    async def told() -> None:
        driver = a_driver(State.UPDATING_BROKERS)
        driver.propagator.broker_updates = BrokerUpdates(a_claim(), "PLAINTEXT", driver.parts.controller.image)
        assert await done(driver, update_acts(driver).update_brokers()) is Happened.MIRROR_BROKEN

    story(told)


def test_brokers_that_have_not_answered_are_waited_for_also_after_zookeeper_was_compared_again() -> None:
    async def told() -> None:
        sent: list[BrokerUpdate] = []
        driver = a_driver(State.SYNCING, channels=SimpleNamespace(send=sent.extend))
        broker_updates = driver.propagator.broker_updates = BrokerUpdates(
            a_claim(), "PLAINTEXT", driver.parts.controller.image
        )
        assert driver.propagator.not_updated() == [1, 2, 3]
        driver.propagator._queue(broker_updates.everything(withheld=[3]))
        for order in sent[:4]:  # all three of the first broker, one of the second
            driver.propagator._on_answer(order, None)
        assert driver.propagator.not_updated() == [2, 3]

    story(told)


def ask_about(driver: Any, logs: dict[str, frozenset[int]]) -> None:
    """Every broker has these logs."""

    async def ask(broker: int) -> tuple[dict[int, Survey], dict[int, str]]:
        return {broker: Survey(broker, logs)}, {}

    driver.propagator._ask = driver.propagator.full_sends._ask = ask


def an_updating_driver(state: State) -> tuple[Any, list[BrokerUpdate]]:
    """Everybody was sent everything; the orders that were queued, and those that will be."""
    sent: list[BrokerUpdate] = []
    channels = SimpleNamespace(send=sent.extend, follow=lambda _: None)
    driver = a_driver(state, channels=channels)
    broker_updates = BrokerUpdates(a_claim(), "PLAINTEXT", driver.parts.controller.image)
    driver.propagator.begin(broker_updates, Guarded(tuple(broker_updates.everything()), ()))
    return driver, sent


async def resumed(
    silent: int, *, before_dual_write: bool = False
) -> tuple[Any, asyncio.Task[Happened], list[BrokerUpdate], list[int]]:
    """The leader after one that died tells the brokers; one of them does not answer. Last: the clock."""
    clock, sent = [0], list[BrokerUpdate]()
    channels = SimpleNamespace(send=sent.extend, follow=lambda _: None, waiting=lambda: 0)
    driver = a_driver(State.UPDATING_BROKERS, channels=channels, now_ms=lambda: clock[0])
    if before_dual_write:
        driver.parts.controller.newest = SimpleNamespace(marks={Mark.TAKEOVER: "begun"})
    driver.now.claim, driver.mirroring.mirror = a_claim(), a_resting_mirror()

    async def ask(broker: int) -> tuple[dict[int, Survey], dict[int, str]]:
        if broker == silent:
            await asyncio.Event().wait()
        return {broker: Survey(broker, {"orders": frozenset({0})})}, {}

    driver.propagator._ask = driver.propagator.full_sends._ask = ask
    act = asyncio.create_task(done(driver, update_acts(driver).update_brokers()))
    while len(sent) < 6:
        await asyncio.sleep(0)
    assert {order.broker for order in sent} == {1, 2, 3} - {silent}
    return driver, act, sent, clock


def test_after_a_fail_over_a_silent_broker_is_named_and_dual_write_does_not_wait_for_it() -> None:
    """Ten seconds were measured during which no other broker had a controller."""

    async def told() -> None:
        driver, act, _, clock = await resumed(silent=3)
        assert driver.propagator.not_sent() == [3]
        clock[0] = SILENT_AFTER_MS
        driver.parts.events.wake()
        assert await act is Happened.BROKERS_UPDATED
        why = driver.propagator.why_not_updated()
        assert why[3] == {"code": None, "reason": ASKED, "since_ms": SILENT_AFTER_MS}
        assert "broker 3 is not updated" in driver.propagator.silence()
        await driver.propagator.full_sends.stop()

    story(told)


def test_the_first_takeover_waits_for_every_broker_also_under_the_next_leader() -> None:
    async def told() -> None:
        driver, act, sent, clock = await resumed(silent=3, before_dual_write=True)
        for order in sent:
            driver.propagator._on_answer(order, None)
        clock[0] = 100 * SILENT_AFTER_MS
        driver.parts.events.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert driver.propagator.not_sent() == []
        assert not act.done()
        act.cancel()
        await driver.propagator.full_sends.stop()

    story(told)


def test_a_rollback_is_refused_by_the_name_of_the_broker_that_is_not_updated() -> None:
    async def told() -> None:
        driver, act, sent, clock = await resumed(silent=3)
        clock[0] = SILENT_AFTER_MS
        driver.parts.events.wake()
        await act
        for order in sent:
            driver.propagator._on_answer(order, None)

        async def settled() -> None:
            return None

        driver.parts.controller.settled, driver.parts.controller.lag = settled, lambda: 0
        quiet = asyncio.create_task(rollback_acts(driver)._quiet())
        await asyncio.sleep(0)
        clock[0] += 40_000
        driver.parts.events.wake()
        with pytest.raises(FindingError, match="broker 3 is not updated for 41 s"):
            await quiet
        await driver.propagator.full_sends.stop()

    story(told)


def test_a_broker_that_refuses_everything_gets_one_full_send_at_a_time_and_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refused send has three refused orders; three sends for each of them would be 3, 9, 27, ..."""
    monkeypatch.setattr(propagator, "REFUSED_AGAIN_S", 0.02)

    async def told() -> None:
        driver, sent = an_updating_driver(State.DUAL_WRITE)
        ask_about(driver, {"orders": frozenset({0})})
        refused = [each for each in sent if each.broker == 1]
        began = asyncio.get_running_loop().time()
        for _ in range(4):
            sent.clear()
            for order in refused:
                driver.propagator._on_answer(order, "CLUSTER_AUTHORIZATION_FAILED")
            while len(sent) < 3:
                await asyncio.sleep(0.005)
            refused = list(sent)
        assert len(sent) == 3
        assert asyncio.get_running_loop().time() - began >= 0.02 * (1 + 2 + 4 + 8)

    story(told)


def test_a_broker_whose_code_fails_at_a_full_request_is_healed_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log without topic id, of a topic that was deleted while it was away: it would refuse for ever."""
    monkeypatch.setattr(propagator, "REFUSED_AGAIN_S", 0.01)

    async def told() -> None:
        driver, sent = an_updating_driver(State.UPDATING_BROKERS)
        ask_about(driver, {"orders": frozenset({0}), "gone": frozenset({3})})
        driver.parts.controller.removals.topic_gone("gone", b"\x77" * 16)
        refused = [each for each in sent if each.broker == 1]
        sent.clear()
        driver.propagator._on_answer(refused[1], refused_whole(UNKNOWN_SERVER_ERROR))
        while len(sent) < 5:
            await asyncio.sleep(0.005)
        stop, add, *full = sent
        assert [(each.api_key, each.kind) for each in (stop, add)] == [
            (STOP_REPLICA, UpdateKind.INCREMENTAL),
            (LEADER_AND_ISR, UpdateKind.INCREMENTAL),
        ]
        (dropped,) = request_of(stop).topic_states
        assert (dropped.topic_name, [each.partition_index for each in dropped.partition_states]) == ("gone", [3])
        assert [replace(each, full_send=None) for each in full] == [replace(each, full_send=None) for each in refused]
        assert 1 in driver.propagator.not_updated()
        for order in sent:
            driver.propagator._on_answer(order, None)
        assert 1 not in driver.propagator.not_updated()

    story(told)


@pytest.mark.parametrize(("state", "kept"), [(State.ABORTED, True), (State.COPYING, False), (State.DUAL_WRITE, False)])
def test_no_operation_for_a_takeover_is_kept_for_later(state: State, *, kept: bool) -> None:
    """An operation kept in the window would undo the latch after the abort."""

    async def told() -> None:
        driver = a_driver(state)
        driver.request_takeover()
        assert driver.operations.takeover is kept

    story(told)


@pytest.mark.parametrize(("state", "kept"), [(State.WAIT_BROKERS, False), (State.SYNCING, True)])
def test_no_operation_for_a_rollback_is_kept_before_there_is_anything_to_roll_back(state: State, *, kept: bool) -> None:
    async def told() -> None:
        driver = a_driver(state)
        assert driver.request_rollback() is driver.operations.rollback is kept

    story(told)


@pytest.mark.parametrize(
    ("fresh", "opened_ms", "goes_back"), [(True, 0, True), (True, 10**12, False), (False, 0, False)]
)
def test_the_window_ends_by_itself_after_the_commit_too(*, fresh: bool, opened_ms: int, goes_back: bool) -> None:
    """As long as no broker was told: then the cluster is rolled back and the log retired."""

    async def told() -> None:
        window = TimeWithoutController(opened_ms, 1)
        assert (too_late(window, 10**12, None, fresh_copy=fresh) is not None) is goes_back

    story(told)


@pytest.mark.parametrize(
    ("state", "fresh_copy", "records"),
    [
        (State.SYNCING, False, 3),
        (State.DUAL_WRITE, False, 3),
        (State.ROLLING_BACK, False, 3),
        (State.SYNCING, True, 0),  # the copy itself came from ZooKeeper
        (State.FENCED, False, 0),  # somebody else writes there now
    ],
)
def test_what_is_committed_is_behind_until_zookeeper_has_it(state: State, fresh_copy: bool, records: int) -> None:
    async def told() -> None:
        driver = a_driver(state)
        driver.now.claim, driver.now.fresh_copy = a_claim(), fresh_copy
        delta = Draft(an_image(a_topic("orders"), migration=MigrationState.MIGRATION)).finish(Position(5, 112))
        driver.parts.controller.image = delta.after
        driver.on_started(Position(5, 109))
        driver.published(delta)
        assert driver.divergence.look().records == records
        driver.on_applied(Position(5, 112))
        assert driver.divergence.look().records == 0

    story(told)


def test_what_zookeeper_lacked_under_the_leader_before_is_known_as_soon_as_the_next_one_resumes() -> None:
    async def told() -> None:
        driver = a_driver(State.IDLE)
        driver.parts.controller.image = SimpleNamespace(marks={Mark.BEHIND: '{"offset": 40, "since_ms": 0}'})
        driver.divergence = DivergenceWatch(
            DivergenceLimits(60), now_ms=lambda: 5_000, wall_ms=lambda: 60_000, may_mark=lambda image: False
        )
        await driver._enter(State.RESUMING, Happened.LED_IN_MIGRATION)
        assert driver.divergence.look().level is Level.OVER
        assert driver.divergence.refusal() is not None

    story(told)
