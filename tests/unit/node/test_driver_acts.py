"""What the driver does when something breaks where nobody was listening: acts and the loop, without any network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.controller.removals import Removals
from migrator.driver.guard import Survey
from migrator.driver.machine import Happened, State, Window
from migrator.driver.tell import LEADER_AND_ISR, STOP_REPLICA, Kind, Order
from migrator.driver.teller import Teller
from migrator.node import driver_node
from migrator.node.broker_channels import UNKNOWN_SERVER_ERROR, refused_whole
from migrator.node.driver_node import DriverNode, DriverState
from migrator.node.dual_write import DualWriteActs
from migrator.node.hooks import Hooks
from tests.support.builders import a_claim, a_topic, an_image
from tests.support.told_brokers import request_of


def a_driver(state: State, **known: Any) -> Any:
    """A driver whose surroundings are only as far there as an act looks at them."""
    driver = DriverNode.__new__(DriverNode)
    driver.now = DriverState(state=state)
    driver.hooks = Hooks()
    driver.mirror = driver.teller = driver.passwords = None
    driver.unanswered_full = {}
    driver.backlog, driver.untold = [], []
    image = an_image(a_topic("orders"))
    driver.controller = SimpleNamespace(image=image, newest=image, removals=Removals())  # type: ignore[assignment]
    driver._changed = asyncio.Event()
    driver._interrupts = asyncio.Queue()
    driver._refusals, driver._retries, driver._ill = {}, {}, set()
    driver._loop = asyncio.get_running_loop()
    driver._calm = SimpleNamespace(begin=lambda: None, end=lambda: None)  # type: ignore[assignment]
    for name, value in known.items():
        setattr(driver, name, value)
    return driver


def story(told: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(told(), 10))  # type: ignore[arg-type]


def test_a_mirror_that_broke_during_a_refused_hand_back_is_made_again() -> None:
    """Its break meant nothing in HANDING_BACK; dual-write without a mirror would never write again."""

    async def told() -> None:
        driver = a_driver(State.DUAL_WRITE)
        assert await DualWriteActs(driver).dual_write() is Happened.MIRROR_BROKEN

    story(told)


def test_a_mirror_that_breaks_while_brokers_are_told_is_made_again_before_dual_write() -> None:
    async def told() -> None:
        driver = a_driver(State.TELLING_BROKERS)
        driver.teller = Teller(a_claim(), "PLAINTEXT", driver.controller.image)
        assert await DualWriteActs(driver).tell_brokers() is Happened.MIRROR_BROKEN

    story(told)


def test_brokers_that_have_not_answered_are_waited_for_also_after_zookeeper_was_compared_again() -> None:
    async def told() -> None:
        driver = a_driver(State.SYNCING)
        teller = Teller(a_claim(), "PLAINTEXT", driver.controller.image)
        acts = DualWriteActs(driver)
        assert acts._untold(teller) == [1, 2, 3]
        teller.everything(withheld=[3])
        driver.unanswered_full = {1: 0, 2: 2}
        assert acts._untold(teller) == [2, 3]

    story(told)


def test_a_broker_that_refuses_everything_gets_one_full_send_at_a_time_and_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each refused send has three refused orders; three sends for each of them would be 3, 9, 27, ..."""
    monkeypatch.setattr(driver_node, "REFUSED_AGAIN_S", 0.02)

    async def told() -> None:
        sends = []
        driver = a_driver(State.DUAL_WRITE, channels=SimpleNamespace(send=lambda orders: sends.append(orders)))
        driver.look_at_claim = lambda: None
        driver.teller = Teller(a_claim(), "PLAINTEXT", driver.controller.image)
        refused = [each for each in driver.teller.everything() if each.broker == 1]
        began = asyncio.get_running_loop().time()
        for turn in range(1, 5):
            for order in refused:
                driver._on_answer(order, "CLUSTER_AUTHORIZATION_FAILED")
            while len(sends) < turn:
                await asyncio.sleep(0.005)
            refused = list(sends[-1])
            assert len(refused) == 3
        assert asyncio.get_running_loop().time() - began >= 0.02 * (1 + 2 + 4 + 8)
        assert len(sends) == 4

    story(told)


def test_a_broker_whose_code_fails_at_a_full_request_is_healed_before_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log without topic id, of a topic that was deleted while it was away: it would refuse for ever."""
    monkeypatch.setattr(driver_node, "REFUSED_AGAIN_S", 0.01)

    async def survey(brokers: Any, *_: object) -> tuple[dict[int, Survey], dict[int, str]]:
        logs = {"orders": frozenset({0}), "gone": frozenset({3}), "unexplained": frozenset({1})}
        return {broker.id: Survey(broker.id, logs) for broker in brokers}, {}

    monkeypatch.setattr(driver_node, "survey_brokers", survey)

    async def told() -> None:
        sends: list[list[Order]] = []
        config = SimpleNamespace(inter_broker_listener="PLAINTEXT", node_id=3000)
        channels = SimpleNamespace(send=lambda orders: sends.append(orders))
        driver = a_driver(State.TELLING_BROKERS, channels=channels, config=config, to_brokers=None)
        driver.look_at_claim = lambda: None
        driver.controller.removals.topic_gone("gone")
        driver.teller = Teller(a_claim(), "PLAINTEXT", driver.controller.image)
        refused = [each for each in driver.teller.everything() if each.broker == 1]
        driver._on_answer(refused[1], refused_whole(UNKNOWN_SERVER_ERROR))
        while not sends:
            await asyncio.sleep(0.005)
        stop, add, *full = sends[0]
        assert [(each.api_key, each.kind) for each in (stop, add)] == [
            (STOP_REPLICA, Kind.INCREMENTAL),
            (LEADER_AND_ISR, Kind.INCREMENTAL),
        ]
        (dropped,) = request_of(stop).topic_states
        assert (dropped.topic_name, [each.partition_index for each in dropped.partition_states]) == ("gone", [3])
        assert full == refused
        assert driver.unanswered_full[1] == 3

    story(told)


@pytest.mark.parametrize(("state", "kept"), [(State.HELD, True), (State.COPYING, False), (State.DUAL_WRITE, False)])
def test_a_takeover_is_not_wished_for_later(state: State, *, kept: bool) -> None:
    """A wish kept in the window would undo the latch after the abort."""

    async def told() -> None:
        driver = a_driver(state)
        driver.ask_takeover()
        assert driver.now.wish_takeover is kept

    story(told)


@pytest.mark.parametrize(("state", "kept"), [(State.WAIT_BROKERS, False), (State.SYNCING, True)])
def test_a_hand_back_is_not_wished_for_before_there_is_anything_to_hand_back(state: State, *, kept: bool) -> None:
    async def told() -> None:
        driver = a_driver(state)
        driver.ask_hand_back()
        assert driver.now.wish_hand_back is kept

    story(told)


@pytest.mark.parametrize(
    ("fresh", "opened_ms", "goes_back"), [(True, 0, True), (True, 10**12, False), (False, 0, False)]
)
def test_the_window_ends_by_itself_after_the_commit_too(*, fresh: bool, opened_ms: int, goes_back: bool) -> None:
    """As long as no broker was told: then the cluster is given back and the log retired."""

    async def told() -> None:
        driver = a_driver(State.SYNCING)
        driver.now.fresh_copy = fresh
        driver.now.window = Window(opened_ms, 1)
        driver.now_ms = lambda: 10**12
        assert driver.must_go_back() is goes_back

    story(told)
