"""When a broker counts as told, and one that refuses is told again: answers and timers in any order."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.control_api.states import State
from migrator.controller.removals import Removals
from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.guard import Guarded, Survey, logs_by_topic
from migrator.driver.update_requests import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, BrokerUpdate, UpdateKind
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import Image, Position
from migrator.model.values import Broker
from migrator.node.brokers.broker_channels import UNKNOWN_SERVER_ERROR, refused_whole
from migrator.node.brokers.full_sends import HELD_BACK
from migrator.node.driver.driver_state import DriverState, StateReporter
from migrator.node.driver.event_queue import EventQueue
from migrator.node.driver.propagator import Propagator
from migrator.node.transport.client_security import PLAINTEXT
from tests.support.builders import a_broker, a_claim, a_partition, a_topic, an_image
from tests.support.updated_brokers import request_of

Accepted = tuple[dict[int, Survey], dict[int, str]]

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

    queues: dict[int, deque[tuple[int, BrokerUpdate]]] = field(default_factory=lambda: defaultdict(deque))
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

    def send(self, updates: Iterable[BrokerUpdate]) -> None:
        self.sends += 1
        full: dict[int, int] = defaultdict(int)
        for update in updates:
            self.queues[update.broker].append((self.sends, update))
            full[update.broker] += update.kind is UpdateKind.FULL
        for broker, count in full.items():
            if count:
                self.unanswered[broker] = count
                self.newest[broker] = self.sends


class Story:
    """One leader and the brokers that it tells. What a broker has is what the log says, and `extra` logs."""

    def __init__(self, image: Image | None = None) -> None:
        self.image = an_image(a_topic("orders")) if image is None else image
        self.extra: dict[int, dict[str, frozenset[int]]] = defaultdict(dict)
        self.silent: set[int] = set()
        controller: Any = SimpleNamespace(image=self.image, removals=Removals())
        self.controller = controller
        self.channels, self.timers = Channels(), Timers()
        self.now = DriverState(state=State.UPDATING_BROKERS)
        self.propagator = Propagator(
            CONFIG,
            self.controller,
            StateReporter(self.now),
            EventQueue(),
            security=PLAINTEXT,
            now_ms=lambda: 0,
            look_at_claim=lambda: None,
        )
        self.propagator.channels = self.channels  # type: ignore[assignment]
        self.propagator._loop = self.timers  # type: ignore[assignment]
        self.propagator._ask = self.propagator.full_sends._ask = self.ask  # type: ignore[method-assign]
        self.begin()

    def begin(self) -> None:
        broker_updates = BrokerUpdates(a_claim(), "PLAINTEXT", self.image)
        self.propagator.begin(broker_updates, Guarded(tuple(broker_updates.everything()), ()))

    async def ask(self, broker: int) -> Accepted:
        if broker in self.silent:
            return {}, {broker: "TimeoutError: "}
        mine = ((topic.name, [each.id]) for topic, each in self.image.partitions() if broker in each.replicas)
        return {broker: Survey(broker, {**logs_by_topic(mine), **self.extra[broker]})}, {}

    async def settle(self) -> None:
        """Until nobody is asked and nothing is encoded any more."""
        sends = self.propagator.full_sends
        for _ in range(2):  # a task that was just made, and what it wakes
            await asyncio.sleep(0)
        while sends._wake.is_set() or sends._kept or any(each.asking or each.survey for each in sends.waits().values()):
            await asyncio.sleep(0)

    async def ask_again(self) -> None:
        """As if the pauses of those that may not be told yet were over."""
        for wait in self.propagator.full_sends.waits().values():
            if wait.again is not None:
                wait.again.cancel()
                wait.again = None
        self.propagator.full_sends.look()
        await self.settle()

    def answer(self, broker: int, problem: str | None = None) -> BrokerUpdate:
        """To the oldest order without an answer."""
        send, update = self.channels.queues[broker].popleft()
        is_newest = send == self.channels.newest[broker] and update.kind is UpdateKind.FULL
        self.channels.unanswered[broker] -= is_newest and problem is None
        self.propagator._on_answer(update, problem)
        return update

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
        return [(update.broker_epoch, update.api_key) for _, update in self.channels.queues[broker]]

    def commit(self, image: Image) -> None:
        """A commit with these topics, and the brokers as they are."""
        position = Position(1, self.image.position.offset + 1)
        after = msgspec.structs.replace(image, brokers=self.image.brokers, position=position)
        before, self.image = self.image, after
        self.controller.image = after
        self.propagator.published(diff(before, after))

    def not_updated(self) -> list[int]:
        return self.propagator.not_updated()


def story(updated: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(updated(), 60))


# --- a broker that comes back under another epoch ---------------------------------------------------------


def test_a_broker_that_refuses_after_its_restart_too_is_told_again_though_it_had_refused_before() -> None:
    """The pause of its life before must not be taken for the one of this life, which nobody would have begun."""

    async def updated() -> None:
        now = Story()
        now.answer_all(1, REFUSAL)
        now.restart(1)
        await now.settle()
        now.answer_all(1, REFUSAL)
        now.timers.run()
        await now.settle()
        assert now.queued(1) == [(201, api_key) for api_key in FULL_SEND]
        now.answer_all(1)
        assert 1 not in now.not_updated()

    story(updated)


def test_what_a_broker_of_an_earlier_life_would_not_take_is_not_a_refusal_of_this_life() -> None:
    """A broker that restarts at its address answers STALE_BROKER_EPOCH to what was queued before."""

    async def updated() -> None:
        now = Story()
        now.restart(1)
        await now.settle()
        for _ in FULL_SEND:
            assert now.answer(1, refused_whole(77)).broker_epoch == 101
        assert now.timers.running() == []
        now.answer_all(1)
        assert 1 not in now.not_updated()

    story(updated)


def test_a_restarted_broker_is_told_again_after_the_shortest_pause() -> None:
    async def updated() -> None:
        now = Story()
        for pause_s in (1.0, 2.0, 4.0):
            now.answer_all(1, REFUSAL)
            assert [timer.pause_s for timer in now.timers.running()] == [pause_s]
            now.timers.run()
            await now.settle()
        now.restart(1)
        await now.settle()
        now.answer_all(1, REFUSAL)
        assert [timer.pause_s for timer in now.timers.running()] == [1.0]

    story(updated)


def test_a_broker_whose_code_fails_in_both_its_lives_is_healed_in_the_second() -> None:
    """The pause of the first one would use up the note that it has to be healed."""

    async def updated() -> None:
        now = Story()
        now.extra[1] = {"gone": frozenset({3})}
        now.controller.removals.topic_gone("gone", b"\x77" * 16)
        failed = refused_whole(UNKNOWN_SERVER_ERROR)
        for life in (1, 2):
            now.answer(1)
            assert now.answer(1, failed).api_key == LEADER_AND_ISR
            now.answer(1)
            if life == 1:
                now.restart(1)
                await now.settle()
        now.timers.run()
        await asyncio.gather(*now.timers.tasks)
        await now.settle()
        assert now.queued(1) == [(201, api_key) for api_key in (STOP_REPLICA, LEADER_AND_ISR, *FULL_SEND)]

    story(updated)


# --- a full send that would drop something ----------------------------------------------------------------


def test_a_broker_that_comes_back_with_a_log_that_nobody_explains_is_told_nothing_until_that_is_gone() -> None:
    """It would move the log aside (F-31). Before this, a broker that restarted in dual-write was not even asked."""

    async def updated() -> None:
        now = Story()
        for broker in (1, 2, 3):
            now.answer_all(broker)
        now.extra[1] = {"precious": frozenset({0})}
        now.restart(1)
        await now.settle()
        assert now.queued(1) == []
        assert now.not_updated() == [1]
        (wait,) = now.propagator.full_sends.waits().values()
        assert wait.finding is not None
        assert (wait.finding.code, "precious-0" in wait.reason) == ("Z2K-2010", True)
        now.extra[1] = {}
        await now.ask_again()
        assert now.queued(1) == [(201, api_key) for api_key in FULL_SEND]

    story(updated)


def test_a_broker_rolled_back_from_kraft_mode_is_told_of_the_topics_that_it_has_already() -> None:
    """There it had every committed topic at once; in ZooKeeper the topic is missing still."""

    async def updated() -> None:
        now = Story()
        now.answer_all(1)
        now.commit(an_image(a_topic("orders"), a_topic("new")))
        assert now.queued(1) == []  # ZooKeeper first
        now.restart(1)
        await now.settle()
        assert now.queued(1) == []
        assert now.propagator.full_sends.waits()[1].reason == HELD_BACK
        now.propagator.mirrored(now.image.position)
        await now.settle()
        assert now.queued(1) == [(201, api_key) for api_key in FULL_SEND]
        full = next(update for _, update in now.channels.queues[1] if update.api_key == LEADER_AND_ISR)
        assert {topic.topic_name for topic in request_of(full).topic_states} == {"orders", "new"}

    story(updated)


def test_a_broker_that_does_not_answer_is_named_and_holds_up_nobody_else() -> None:
    async def updated() -> None:
        now = Story()
        for broker in (1, 2, 3):
            now.answer_all(broker)
        now.silent.add(1)
        now.register(a_broker(1, epoch=201), a_broker(2, epoch=202))
        await now.settle()
        assert now.queued(2) == [(202, api_key) for api_key in FULL_SEND]
        assert now.queued(1) == []
        wait = now.propagator.full_sends.waits()[1]
        assert wait.finding is not None
        assert wait.finding.code == "Z2K-2141"
        now.silent.clear()
        await now.ask_again()
        assert now.queued(1) == [(201, api_key) for api_key in FULL_SEND]

    story(updated)


def test_a_full_update_that_cannot_be_built_is_named_and_ends_nothing_for_the_others() -> None:
    async def updated() -> None:
        now = Story()
        for broker in (1, 2, 3):
            now.answer_all(broker)
        sends = now.propagator.full_sends
        built = sends._guarded

        def spoiled(plan: Any, surveys: Mapping[int, Survey]) -> Any:
            if 1 in surveys:
                raise UnicodeError("label too long")
            return built(plan, surveys)

        sends._guarded = spoiled  # type: ignore[method-assign]
        now.register(a_broker(1, epoch=201), a_broker(2, epoch=202))
        await now.settle()
        assert now.queued(2) == [(202, api_key) for api_key in FULL_SEND]
        assert now.queued(1) == []
        finding = sends.waits()[1].finding
        assert finding is not None
        assert finding.code == "Z2K-2142"
        sends._guarded = built  # type: ignore[method-assign]
        await now.ask_again()
        assert now.queued(1) == [(201, api_key) for api_key in FULL_SEND]

    story(updated)


def test_a_refused_full_send_is_compared_once_more_before_it_is_repeated() -> None:
    async def updated() -> None:
        now = Story()
        now.answer_all(1, REFUSAL)
        now.extra[1] = {"precious": frozenset({0})}
        now.timers.run()
        await now.settle()
        assert now.queued(1) == []
        assert now.propagator.full_sends.waits()[1].finding is not None

    story(updated)


def test_what_is_committed_while_a_full_send_is_encoded_leaves_behind_it() -> None:
    async def updated() -> None:
        now = Story()
        for broker in (1, 2, 3):
            now.answer_all(broker)
        now.restart(1)
        while not now.propagator.full_sends._kept:
            await asyncio.sleep(0)
        leader = a_topic("orders", [a_partition(leader=2, leader_epoch=1)])
        now.commit(an_image(leader))
        await now.settle()
        assert now.queued(1) == [(201, api_key) for api_key in (*FULL_SEND, LEADER_AND_ISR, UPDATE_METADATA)]

    story(updated)


def test_a_broker_that_restarts_while_its_full_send_is_encoded_gets_only_that_of_its_new_life() -> None:
    async def updated() -> None:
        now = Story()
        for broker in (1, 2, 3):
            now.answer_all(broker)
        now.restart(1)
        while not now.propagator.full_sends._kept:
            await asyncio.sleep(0)
        now.restart(1)
        await now.settle()
        assert now.queued(1) == [(301, api_key) for api_key in FULL_SEND]

    story(updated)


def test_a_full_request_that_was_compared_with_nothing_cannot_be_sent() -> None:
    async def updated() -> None:
        now = Story()
        assert now.propagator.broker_updates is not None
        with pytest.raises(AssertionError, match="compared with nothing"):
            now.propagator._send(now.propagator.broker_updates.everything())

    story(updated)


# --- answers of an earlier full send ----------------------------------------------------------------------


def test_late_answers_of_an_earlier_full_send_do_not_make_a_broker_told() -> None:
    """The window would be reported closed though the LeaderAndIsr was refused both times."""

    async def updated() -> None:
        now = Story()
        now.answer_all(2)
        now.answer_all(3)
        now.answer(1)
        assert now.answer(1, REFUSAL).api_key == LEADER_AND_ISR
        now.timers.run()  # before the third of the first send is answered
        await now.settle()
        assert now.queued(1) == [(101, api_key) for api_key in FULL_SEND[2:] + FULL_SEND]
        now.answer(1)
        now.answer(1)
        assert now.answer(1, REFUSAL).api_key == LEADER_AND_ISR
        now.answer(1)
        assert now.not_updated() == [1]
        assert [timer.pause_s for timer in now.timers.running()] == [2.0]
        now.timers.run()
        await now.settle()
        now.answer_all(1)
        assert now.not_updated() == []

    story(updated)


def test_a_late_refusal_of_an_earlier_full_send_does_not_cause_a_third_one() -> None:
    async def updated() -> None:
        now = Story()
        now.answer(1, REFUSAL)
        now.timers.run()
        await now.settle()
        now.answer(1, REFUSAL)
        now.answer(1, REFUSAL)
        now.answer_all(1)
        assert 1 not in now.not_updated()
        assert now.timers.running() == []

    story(updated)


def test_a_broker_that_came_back_unchanged_is_told_once_and_not_again_for_what_it_refused_before() -> None:
    """Fenced for a moment: its epoch stays, and everything was sent once more already."""

    async def updated() -> None:
        now = Story()
        now.answer_all(1, REFUSAL)
        now.register(a_broker(1, fenced=True))
        await now.settle()
        now.register(a_broker(1))
        await now.settle()
        now.answer_all(1)
        now.timers.run()
        await now.settle()
        assert now.queued(1) == []
        assert 1 not in now.not_updated()

    story(updated)


def test_answers_to_what_was_told_under_an_earlier_claim_say_nothing_under_the_next() -> None:
    async def updated() -> None:
        now = Story()
        late = [update for _, update in now.channels.queues[1]]
        now.answer_all(2, REFUSAL)
        await now.propagator.stop()
        assert now.timers.running() == []
        now.begin()
        for update in late:
            now.propagator._on_answer(update, None)
        assert now.not_updated() == [1, 2, 3]
        now.propagator._on_answer(late[1], REFUSAL)
        assert now.timers.running() == []

    story(updated)


# --- whatever happens -------------------------------------------------------------------------------------

TAKE, REFUSE, RESTART, FENCE, WAIT = "take", "refuse", "restart", "fence or unfence", "wait"


@settings(max_examples=300, deadline=None)
@given(steps=st.lists(st.sampled_from([TAKE, TAKE, REFUSE, RESTART, FENCE, WAIT]), min_size=10, max_size=30))
def test_told_is_who_took_all_of_the_newest_full_send_and_in_the_end_everybody_is(steps: list[str]) -> None:
    """Late answers, refusals, restarts, fences and pauses of one broker in any order; another one stands by."""

    async def updated() -> None:
        now = Story(an_image(a_topic("orders"), brokers=(1, 2)))
        now.answer_all(2)
        for step in steps:
            await _take(now, step)
            is_updated = now.image.brokers[1].fenced or not now.channels.unanswered[1]
            assert now.not_updated() == ([] if is_updated else [1])
        now.register(msgspec.structs.replace(now.image.brokers[1], fenced=False))
        await now.settle()
        for _ in range(3):
            now.answer_all(1)
            now.timers.run()
            await now.settle()
        assert now.not_updated() == []
        assert now.timers.running() == []

    story(updated)


async def _take(now: Story, step: str) -> None:
    match step:
        case "take" | "refuse" if now.channels.queues[1]:
            now.answer(1, REFUSAL if step == REFUSE else None)
        case "restart":
            now.restart(1)
            await now.settle()
        case "fence or unfence":
            now.register(msgspec.structs.replace(now.image.brokers[1], fenced=not now.image.brokers[1].fenced))
            await now.settle()
        case "wait":
            now.timers.run()
            await now.settle()
