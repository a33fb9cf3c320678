"""When a broker counts as told, and one that refuses is told again: answers and timers in any order."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.removals import Removals
from migrator.driver.guard import Survey
from migrator.driver.machine import State
from migrator.driver.tell import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, Kind, Order
from migrator.driver.teller import Teller
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.model.values import Broker
from migrator.node import propagator as propagator_module
from migrator.node.broker_channels import UNKNOWN_SERVER_ERROR, refused_whole
from migrator.node.client_security import PLAINTEXT
from migrator.node.driver_state import DriverState
from migrator.node.event_queue import EventQueue
from migrator.node.propagator import Propagator
from tests.support.builders import a_broker, a_claim, a_topic, an_image

CONFIG: Any = SimpleNamespace(node_id=3000, inter_broker_listener="PLAINTEXT")
REFUSAL = "CLUSTER_AUTHORIZATION_FAILED"
FULL_SEND = [UPDATE_METADATA, LEADER_AND_ISR, UPDATE_METADATA]


@dataclass
class Timer:
    pause_s: float
    fire: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class Timers:
    """In the place of the loop: time passes when the test says so."""

    def __init__(self) -> None:
        self.set: list[Timer] = []
        self.tasks: list[asyncio.Task[None]] = []

    def call_later(self, pause_s: float, call: Callable[..., None], *args: object) -> Timer:
        self.set.append(Timer(pause_s, lambda: call(*args)))
        return self.set[-1]

    def create_task(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]

    def running(self) -> list[Timer]:
        return [each for each in self.set if not each.cancelled]

    def run(self) -> None:
        due, self.set = self.running(), []
        for timer in sorted(due, key=lambda each: each.pause_s):
            if not timer.cancelled:
                timer.fire()


@dataclass
class Channels:
    """Queues as those of BrokerChannels, each order with the number of its sending."""

    queues: dict[int, deque[tuple[int, Order]]] = field(default_factory=lambda: defaultdict(deque))
    newest: dict[int, int] = field(default_factory=dict)
    """By broker, the sending that had the newest full send."""
    unanswered: dict[int, int] = field(default_factory=dict)
    """By broker, how many orders of that were not taken yet."""
    sends: int = 0

    async def close(self) -> None:
        self.queues.clear()

    def follow(self, brokers: Iterable[Broker]) -> None:
        """One that is fenced has no channel, and no old orders when it comes back; a restart alone drops nothing."""
        reached = {broker.id for broker in brokers}
        for broker in self.queues.keys() - reached:
            del self.queues[broker]

    def send(self, orders: Iterable[Order]) -> None:
        self.sends += 1
        full: dict[int, int] = defaultdict(int)
        for order in orders:
            self.queues[order.broker].append((self.sends, order))
            full[order.broker] += order.kind is Kind.FULL
        for broker, count in full.items():
            if count:
                self.unanswered[broker] = count
                self.newest[broker] = self.sends


class Story:
    """One leader and the brokers that it tells."""

    def __init__(self, image: Image | None = None) -> None:
        self.image = an_image(a_topic("orders")) if image is None else image
        self.controller: Any = SimpleNamespace(image=self.image, removals=Removals())
        self.channels, self.timers = Channels(), Timers()
        self.propagator = Propagator(
            CONFIG,
            self.controller,
            DriverState(state=State.TELLING_BROKERS),
            EventQueue(),
            security=PLAINTEXT,
            now_ms=lambda: 0,
            look_at_claim=lambda: None,
        )
        self.propagator.channels = self.channels  # type: ignore[assignment]
        self.propagator._loop = self.timers  # type: ignore[assignment]
        self.begin()

    def begin(self) -> None:
        teller = Teller(a_claim(), "PLAINTEXT", self.image)
        self.propagator.begin(teller, teller.everything())

    def answer(self, broker: int, problem: str | None = None) -> Order:
        """To the oldest order without an answer."""
        send, order = self.channels.queues[broker].popleft()
        is_newest = send == self.channels.newest[broker] and order.kind is Kind.FULL
        self.channels.unanswered[broker] -= is_newest and problem is None
        self.propagator._on_answer(order, problem)
        return order

    def answer_all(self, broker: int, problem: str | None = None) -> None:
        for _ in range(len(self.channels.queues[broker])):
            self.answer(broker, problem)

    def register(self, *brokers: Broker) -> None:
        """A commit with these registrations changed."""
        before = self.image
        everybody = before.brokers.update({broker.id: broker for broker in brokers})
        position = Position(1, before.position.offset + 1)
        self.image = self.controller.image = msgspec.structs.replace(before, brokers=everybody, position=position)
        self.propagator.published(Delta(before, self.image, brokers=frozenset(broker.id for broker in brokers)))

    def restart(self, broker: int) -> None:
        self.register(a_broker(broker, epoch=self.image.brokers[broker].epoch + 100))

    def queued(self, broker: int) -> list[tuple[int, int]]:
        return [(order.broker_epoch, order.api_key) for _, order in self.channels.queues[broker]]

    def not_told(self) -> list[int]:
        return self.propagator.not_told()


def story(told: Callable[[], Any]) -> None:
    async def run() -> None:
        result = told()
        if asyncio.iscoroutine(result):
            await result

    asyncio.run(asyncio.wait_for(run(), 10))


# --- a broker that comes back under another epoch ---------------------------------------------------------


def test_a_broker_that_refuses_after_its_restart_too_is_told_again_though_it_had_refused_before() -> None:
    """The pause of its life before must not be taken for the one of this life, which nobody would have begun."""

    def told() -> None:
        now = Story()
        now.answer_all(1, REFUSAL)
        now.restart(1)
        now.answer_all(1, REFUSAL)
        now.timers.run()
        assert now.queued(1) == [(201, api_key) for api_key in FULL_SEND]
        now.answer_all(1)
        assert 1 not in now.not_told()

    story(told)


def test_what_a_broker_of_an_earlier_life_would_not_take_is_not_a_refusal_of_this_life() -> None:
    """A broker that restarts at its address answers STALE_BROKER_EPOCH to what was queued before."""

    def told() -> None:
        now = Story()
        now.restart(1)
        for _ in FULL_SEND:
            assert now.answer(1, refused_whole(77)).broker_epoch == 101
        assert now.timers.running() == []
        now.answer_all(1)
        assert 1 not in now.not_told()

    story(told)


def test_a_restarted_broker_is_told_again_after_the_shortest_pause() -> None:
    def told() -> None:
        now = Story()
        for pause_s in (1.0, 2.0, 4.0):
            now.answer_all(1, REFUSAL)
            assert [timer.pause_s for timer in now.timers.running()] == [pause_s]
            now.timers.run()
        now.restart(1)
        now.answer_all(1, REFUSAL)
        assert [timer.pause_s for timer in now.timers.running()] == [1.0]

    story(told)


def test_a_broker_whose_code_fails_in_both_its_lives_is_healed_in_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause of the first one would use up the note that it has to be healed."""

    async def survey(brokers: Any, *_: object) -> tuple[dict[int, Survey], dict[int, str]]:
        logs = {"orders": frozenset({0}), "gone": frozenset({3})}
        return {broker.id: Survey(broker.id, logs) for broker in brokers}, {}

    monkeypatch.setattr(propagator_module, "survey_brokers", survey)

    async def told() -> None:
        now = Story()
        now.controller.removals.topic_gone("gone")
        failed = refused_whole(UNKNOWN_SERVER_ERROR)
        for life in (1, 2):
            now.answer(1)
            assert now.answer(1, failed).api_key == LEADER_AND_ISR
            now.answer(1)
            if life == 1:
                now.restart(1)
        now.timers.run()
        await asyncio.gather(*now.timers.tasks)
        assert now.queued(1) == [(201, api_key) for api_key in (STOP_REPLICA, LEADER_AND_ISR, *FULL_SEND)]

    story(told)


# --- answers of an earlier full send ----------------------------------------------------------------------


def test_late_answers_of_an_earlier_full_send_do_not_make_a_broker_told() -> None:
    """The window would be reported closed though the LeaderAndIsr was refused both times."""

    def told() -> None:
        now = Story()
        now.answer_all(2)
        now.answer_all(3)
        now.answer(1)
        assert now.answer(1, REFUSAL).api_key == LEADER_AND_ISR
        now.timers.run()  # before the third of the first send is answered
        assert now.queued(1) == [(101, api_key) for api_key in FULL_SEND[2:] + FULL_SEND]
        now.answer(1)
        now.answer(1)
        assert now.answer(1, REFUSAL).api_key == LEADER_AND_ISR
        now.answer(1)
        assert now.not_told() == [1]
        assert [timer.pause_s for timer in now.timers.running()] == [2.0]
        now.timers.run()
        now.answer_all(1)
        assert now.not_told() == []

    story(told)


def test_a_late_refusal_of_an_earlier_full_send_does_not_cause_a_third_one() -> None:
    def told() -> None:
        now = Story()
        now.answer(1, REFUSAL)
        now.timers.run()
        now.answer(1, REFUSAL)
        now.answer(1, REFUSAL)
        now.answer_all(1)
        assert 1 not in now.not_told()
        assert now.timers.running() == []

    story(told)


def test_a_broker_that_came_back_unchanged_is_told_once_and_not_again_for_what_it_refused_before() -> None:
    """Fenced for a moment: its epoch stays, and everything was sent once more already."""

    def told() -> None:
        now = Story()
        now.answer_all(1, REFUSAL)
        now.register(a_broker(1, fenced=True))
        now.register(a_broker(1))
        now.answer_all(1)
        now.timers.run()
        assert now.queued(1) == []
        assert 1 not in now.not_told()

    story(told)


def test_answers_to_what_was_told_under_an_earlier_claim_say_nothing_under_the_next() -> None:
    async def told() -> None:
        now = Story()
        late = [order for _, order in now.channels.queues[1]]
        now.answer_all(2, REFUSAL)
        await now.propagator.stop()
        assert now.timers.running() == []
        now.begin()
        for order in late:
            now.propagator._on_answer(order, None)
        assert now.not_told() == [1, 2, 3]
        now.propagator._on_answer(late[1], REFUSAL)
        assert now.timers.running() == []

    story(told)


# --- whatever happens -------------------------------------------------------------------------------------

TAKE, REFUSE, RESTART, FENCE, WAIT = "take", "refuse", "restart", "fence or unfence", "wait"


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(st.sampled_from([TAKE, TAKE, REFUSE, RESTART, FENCE, WAIT]), min_size=10, max_size=30))
def test_told_is_who_took_all_of_the_newest_full_send_and_in_the_end_everybody_is(steps: list[str]) -> None:
    """Late answers, refusals, restarts, fences and pauses of one broker in any order; another one stands by."""

    def told() -> None:
        now = Story(an_image(a_topic("orders"), brokers=(1, 2)))
        now.answer_all(2)
        for step in steps:
            _take(now, step)
            is_told = now.image.brokers[1].fenced or not now.channels.unanswered[1]
            assert now.not_told() == ([] if is_told else [1])
        now.register(msgspec.structs.replace(now.image.brokers[1], fenced=False))
        for _ in range(3):
            now.answer_all(1)
            now.timers.run()
        assert now.not_told() == []
        assert now.timers.running() == []

    story(told)


def _take(now: Story, step: str) -> None:
    match step:
        case "take" | "refuse" if now.channels.queues[1]:
            now.answer(1, REFUSAL if step == REFUSE else None)
        case "restart":
            now.restart(1)
        case "fence or unfence":
            now.register(msgspec.structs.replace(now.image.brokers[1], fenced=not now.image.brokers[1].fenced))
        case "wait":
            now.timers.run()
