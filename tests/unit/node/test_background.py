"""Work in the background that meets a fault nobody thought of: it alone ends, is named, and begins again."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.update_requests import UPDATE_METADATA, BrokerUpdate, UpdateKind
from migrator.findings.finding import Occurrence
from migrator.model.values import Listener, Mark
from migrator.node import background
from migrator.node.background import alarm_name, kept
from migrator.node.brokers import broker_channels, full_sends
from migrator.node.brokers.broker_channels import BrokerChannels
from migrator.node.config.properties import parse_config
from migrator.node.driver import claim_watch, window_guard
from migrator.node.leader import periodic_tasks
from migrator.node.leader.periodic_tasks import Duty, run_periodic_tasks
from migrator.node.leader.registration import _ask
from migrator.node.quorum.peers import Peers
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT
from migrator.raft.types import RequestFailed
from migrator.wire.messages.control import UpdateMetadataResponse
from tests.support.builders import a_broker, a_claim
from tests.support.driver_acts import window_guard as guard_of
from tests.support.voter_on_disk import comes_about
from tests.unit.node.brokers.test_propagator import Story
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_leaderships import a_voters_driver
from tests.unit.node.driver.test_window_guard import ALL, Looks, guarded
from tests.unit.node.leader.test_periodic_tasks import FILE, Clock, Over

THE_LOOK = alarm_name("the look at the claim")


class Alarms:
    """What stands, and every code that was ever named."""

    def __init__(self) -> None:
        self.standing: dict[str, Occurrence] = {}
        self.named: list[str] = []

    def __call__(self, name: str, found: Occurrence | None) -> None:
        if found is None:
            self.standing.pop(name, None)
        else:
            self.standing[name] = found
            self.named.append(found.code)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "AGAIN_S", 0.01)
    monkeypatch.setattr(claim_watch, "AGAIN_S", 0.01)
    monkeypatch.setattr(claim_watch, "CLAIM_LOOK_S", 0.0)


# --- the boundary itself ----------------------------------------------------------------------------------


def test_work_that_fails_begins_again_with_longer_pauses_and_is_named_until_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    alarms = Alarms()
    tries: list[int] = []

    async def sleep(seconds: float) -> None:
        assert alarm_name("work") in alarms.standing
        pauses.append(seconds)

    async def work() -> None:
        tries.append(1)
        if len(tries) <= 7:
            raise KeyError("an input that nobody thought of")

    monkeypatch.setattr(asyncio, "sleep", sleep)
    asyncio.run(kept("work", work, alarms))
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert (alarms.named, alarms.standing) == (["Z2K-2105"] * 7, {})


def test_work_that_was_cancelled_does_not_begin_again() -> None:
    async def cancelled() -> None:
        async def work() -> None:
            await asyncio.sleep(60)

        task = asyncio.create_task(kept("work", work, Alarms()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    story(cancelled)


# --- channels, full updates -------------------------------------------------------------------------------


def an_order(broker: int, body: bytes = b"") -> BrokerUpdate:
    return BrokerUpdate(broker, 101, UPDATE_METADATA, UpdateKind.INCREMENTAL, 0, body)


def open_channels(channels: BrokerChannels, *brokers: int) -> None:
    async def send(*_: object) -> Any:
        return UpdateMetadataResponse()

    channels.follow([a_broker(each, listeners=(Listener("PLAINTEXT", "b", 1),)) for each in brokers])
    for channel in channels._channels.values():
        channel.connection.send = send  # type: ignore[assignment,method-assign]


def test_orders_that_nobody_takes_are_dropped_by_their_bytes_and_full_updates_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that cannot be reached would keep 680 MB; it gets everything once it answers."""
    monkeypatch.setattr(broker_channels, "BYTES_MAX", 1_000)

    async def sent() -> None:
        heard: list[str | None] = []
        channels = BrokerChannels(
            "test", "PLAINTEXT", on_answer=lambda _, problem: heard.append(problem), alarm=Alarms(), now_ms=lambda: 0
        )
        channels.follow([a_broker(1, listeners=(Listener("PLAINTEXT", "b", 1),))])
        full = BrokerUpdate(1, 101, UPDATE_METADATA, UpdateKind.FULL, 0, bytes(5_000))
        channels.send([full, full, *(an_order(1, bytes(300)) for _ in range(4))])
        assert (channels.waiting(), heard) == (6, [])
        channels.send([an_order(1)])
        assert (channels.waiting(), heard) == (0, ["6 orders of 1200 bytes waited: more are not kept"])
        channels.send([an_order(1, bytes(300))])
        assert channels.waiting() == 1
        await channels.close()

    story(sent)


@pytest.mark.usefixtures("quick")
def test_a_channel_that_fails_at_one_answer_goes_on_with_the_next_and_so_do_the_others() -> None:
    async def answers() -> None:
        alarms = Alarms()
        taken: list[tuple[int, str | None]] = []

        def on_answer(order: BrokerUpdate, problem: str | None) -> None:
            if order.shared == b"odd":
                raise KeyError("an answer that nobody thought of")
            taken.append((order.broker, problem))

        channels = BrokerChannels("test", "PLAINTEXT", on_answer=on_answer, alarm=alarms, now_ms=lambda: 0)
        open_channels(channels, 1, 2)
        channels.send([an_order(1, b"odd"), an_order(1), an_order(2)])
        await comes_about(lambda: len(taken) == 2)
        assert sorted(taken, key=str) == [(1, None), (2, None)]
        assert alarms.named == ["Z2K-2105"]
        assert "broker-1" in alarms.standing[alarm_name("broker-1")].text
        await channels.close()

    story(answers)


def test_an_answer_that_cannot_be_looked_at_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers() -> None:
        heard: list[str | None] = []

        def on_answer(order: BrokerUpdate, problem: str | None) -> None:
            heard.append(problem)

        channels = BrokerChannels("test", "PLAINTEXT", on_answer=on_answer, alarm=Alarms(), now_ms=lambda: 0)
        monkeypatch.setattr(broker_channels, "problem_in", lambda answer: 1 / 0)
        open_channels(channels, 1)
        channels.send([an_order(1)])
        await comes_about(lambda: heard != [])
        assert "cannot be read: ZeroDivisionError" in str(heard[0])
        await channels.close()

    story(answers)


def test_a_fault_while_a_full_update_leaves_concerns_its_broker_and_is_made_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(full_sends, "AGAIN_S", 0.01)

    async def leaves() -> None:
        leader = Story()
        for broker in leader.image.brokers:
            leader.answer_all(broker)
        sends, broker_updates = leader.propagator.full_sends, leader.propagator.broker_updates
        queue, faults, is_odd = sends._queue, 0, True

        def fails(orders: Any) -> None:
            nonlocal faults
            if is_odd:
                faults += 1
                raise KeyError("orders that nobody thought of")
            queue(orders)

        sends._queue = fails
        assert broker_updates is not None
        broker_updates.withhold(1, leader.image.brokers[1].epoch)
        sends.look()
        await comes_about(lambda: sends.waits() != {})
        await comes_about(lambda: any(each.finding for each in sends.waits().values()))
        assert [each.finding.code for each in sends.waits().values() if each.finding] == ["Z2K-2142"]
        await comes_about(lambda: faults >= 2)
        is_odd = False
        await comes_about(lambda: len(leader.channels.queues[1]) >= 3)
        assert sends._task is not None
        assert not sends._task.done()
        await leader.propagator.stop()

    story(leaves)


@pytest.mark.usefixtures("quick")
def test_a_broker_that_cannot_be_healed_is_named_and_healed_when_it_can() -> None:
    async def healed() -> None:
        leader = Story()
        propagator, now = leader.propagator, leader.now
        ask, faults = propagator._ask, [1, 1]

        async def fails(broker: int) -> Any:
            if faults:
                faults.pop()
                raise KeyError("an answer that nobody thought of")
            return await ask(broker)

        propagator._ask = fails  # type: ignore[method-assign]
        leader.answer(1)
        leader.answer(1, broker_channels.refused_whole(broker_channels.UNKNOWN_SERVER_ERROR))
        before = leader.channels.newest[1]
        leader.timers.run()
        await comes_about(lambda: alarm_name("heal-1") in now.alarms)
        await comes_about(lambda: leader.channels.newest[1] > before)
        assert alarm_name("heal-1") not in now.alarms
        assert propagator._events._interrupts.empty()
        await propagator.stop()

    story(healed)


# --- the claim --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_a_look_at_the_claim_that_fails_is_named_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def looked() -> None:
        driver = a_voters_driver(State.DUAL_WRITE)
        driver.now.claim = a_claim(kraft_epoch=5)
        faults: list[int] = [1, 1]
        touched: list[Any] = []

        def read(session: object, watch: object = None) -> Any:
            if faults:
                faults.pop()
                raise KeyError("a znode that nobody thought of")
            return SimpleNamespace(migration_born=1)

        monkeypatch.setattr(claim_watch, "read_claim", read)
        monkeypatch.setattr(claim_watch, "still_ours", lambda observed, claim: False)  # it was lost meanwhile
        driver.claim_watch.touched = touched.append  # type: ignore[method-assign,assignment]
        driver.claim_watch.look()
        await comes_about(lambda: THE_LOOK in driver.now.alarms)
        await comes_about(lambda: touched != [])
        await comes_about(lambda: driver.now.alarms == {})
        assert driver.parts.events._interrupts.empty()

    story(looked)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("state", "fresh_copy"), [(State.COPYING, False), (State.SYNCING, True)])
def test_a_look_that_fails_before_brokers_know_of_the_claim_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, state: State, fresh_copy: bool
) -> None:
    async def looked() -> None:
        driver = a_voters_driver(state)
        driver.now.claim, driver.now.fresh_copy = a_claim(), fresh_copy
        monkeypatch.setattr(claim_watch, "read_claim", lambda *_: 1 / 0)
        driver.claim_watch.look()
        assert isinstance(await driver.parts.events.get(), ZeroDivisionError)

    story(looked)


def test_a_window_whose_guard_fails_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def watched() -> None:
        driver, failed = guarded(Looks(ALL))
        monkeypatch.setattr(window_guard.WindowGuard, "_trouble", lambda self: 1 / 0)
        guard_of(driver).watch()
        await comes_about(lambda: failed != [])
        assert failed[0].startswith("Z2K-2105")

    story(watched)


# --- by the clock -----------------------------------------------------------------------------------------


class Controller:
    """Fails at one duty."""

    def __init__(self, clock: Clock, faulty: Any) -> None:
        self.clock, self.faulty = clock, faulty
        self.asked: dict[str, list[int]] = {}
        self.noops = 0

    def append_noop_when_idle(self, idle_ms: int) -> None:
        self.noops += 1

    async def append_unasked(self, duty: Any, is_due: Any = None) -> bool:
        self.asked.setdefault(duty.__name__, []).append(round(self.clock.now_s))
        if duty is self.faulty:
            raise KeyError("a partition that nobody thought of")
        return False


@pytest.mark.parametrize("duty", ["_fenced", "_balanced_leaders", "_unclean_leaders", "_swept_tokens"])
def test_a_duty_that_fails_is_named_and_the_others_are_done(monkeypatch: pytest.MonkeyPatch, duty: str) -> None:
    clock, alarms = Clock(end_s=400), Alarms()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    file = FILE + "delegation.token.expiry.check.interval.ms=60000\nleader.imbalance.check.interval.seconds=60\n"
    controller = Controller(clock, getattr(periodic_tasks, duty))
    with pytest.raises(Over):
        asyncio.run(run_periodic_tasks(controller, parse_config(file), alarms))  # type: ignore[arg-type]
    others = {"_fenced", "_balanced_leaders", "_unclean_leaders", "_swept_tokens"} - {duty}
    assert all(len(controller.asked[each]) >= 6 for each in others)
    assert controller.noops > 3_000
    assert 6 <= len(controller.asked[duty]) <= 20, "tried again, with pauses"
    assert (set(alarms.named), len(alarms.standing)) == ({"Z2K-2105"}, 1)


def test_a_duty_that_is_done_again_is_named_no_more() -> None:
    async def done() -> None:
        alarms, faults = Alarms(), [1]

        async def act() -> bool:
            if faults:
                raise KeyError(faults.pop())
            return False

        duty = Duty("a duty", 0.1, act, 0.0)
        await duty.look(0.0, alarms)
        assert list(alarms.standing) == [alarm_name("a duty")]
        await duty.look(0.5, alarms)  # not yet
        assert alarms.standing
        await duty.look(1.0, alarms)
        assert (alarms.standing, duty.due_s) == ({}, 1.1)

    story(done)


def test_a_mark_that_cannot_be_read_counts_from_now_on() -> None:
    async def resumed() -> None:
        driver = a_voters_driver(State.RESUMING)
        position = driver.parts.controller.image.position
        for text in ("{", "[]", "{}", '{"offset": "x", "since_ms": 1}', "null"):
            image: Any = SimpleNamespace(marks={Mark.BEHIND: text}, position=position)
            driver.divergence.forget()
            driver.divergence.resume(image)
            assert driver.divergence.look().first_lacking == position.offset

    story(resumed)


# --- other voters -----------------------------------------------------------------------------------------


def test_an_answer_of_another_voter_that_nobody_thought_of_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> None:
        received: list[Any] = []
        peers = Peers((), 3000, "cluster", 1.0, received.append, PLAINTEXT)

        async def fails(*_: object) -> Any:
            raise KeyError("a field that nobody thought of")

        peers._peers = {3001: SimpleNamespace(ask=fails, close=lambda: None)}  # type: ignore[dict-item]
        peers.send(SimpleNamespace(to=3001, request=17))  # type: ignore[arg-type]
        await comes_about(lambda: received != [])
        assert received == [RequestFailed(17)]
        monkeypatch.setattr(BrokerConnection, "ask", fails)
        leader: Any = SimpleNamespace(id=3001, host="localhost", port=1)
        request: Any = SimpleNamespace(controller_id=3000)
        assert "nobody thought of" in await _ask(leader, request, PLAINTEXT)

    story(asked)
