"""Clients that never stop: topics come, grow and go, ACLs come and go, producers ask for ids.

In:   the brokers' ports, a seed.
Out:  `Load`: ledgers of topics and ACLs, the book of producer ids, how often what was answered.
Elsewhere: what has to be so because of it (ledger.py), looks at the cluster (outside.py).
Runs on a thread with a loop of its own. Each lane does one thing at a time with names of its own; requests go to any
broker, which passes them on to whoever is controller. ACLs of several lanes share their resources.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

from migrator.lab.servers.ports import HOST
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.security import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from migrator.wire.schema import Message
from tests.adversarial.ledger import ABSENT, Entry, Ledger
from tests.adversarial.producer_ids import Handed, ProducerIdClient

TOPIC_LANES: Final = 3
ACL_LANES: Final = 2
BUSY_NAMES: Final = 3
STEADY_NAMES: Final = 4
"""Of each lane: names that change all the time, and names that mostly stay, so that a loss is not covered up."""
STEADY_SHARE: Final = 0.05
GRAVE_SHARE: Final = 0.3
"""Of deleted topics, how many never come back: their names have to stay free."""
PARTITIONS_MAX: Final = 5
PAUSE_S: Final = (0.1, 0.5)
STEP_S: Final = 0.05
GENTLY: Final = 4.0
"""So many times longer are the pauses while the gate waits for a moment without a pending deletion."""
REQUEST_TIMEOUT_MS: Final = 10_000
ANSWER_S: Final = 15.0
"""Brokers keep a request while nobody is controller; what is not answered by then is unknown."""
FORGOTTEN_S: Final = 75.0
"""Brokers pass a request on for 60 s at most; after that a topic with an unknown end may be cleared away."""
BURST: Final = 150
BURST_EVERY_S: Final = 0.1
TRANSACTIONAL_EVERY_S: Final = 0.1
QUIET_DEADLINE_S: Final = 60.0
ACL_RESOURCES: Final = ("adversary-a", "adversary-b", "adversary-c")

TOPIC, LITERAL, ANY_HOST, READ, ALLOW = 2, 3, "*", 3, 3
NOT_COORDINATOR: Final = 16

Acl = tuple[str, str]
"""The topic's name and the principal."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Snapshot:
    topics: dict[str, Entry]
    acls: dict[Acl, Entry]


class Asker:
    """Sends each request to one of the brokers. None: nobody knows how it ended."""

    def __init__(self, ports: Sequence[int], chance: Random, tally: Counter[str]) -> None:
        self._lanes = [BrokerConnection(HOST, port, "adversary") for port in ports]
        self._chance = chance
        self._tally = tally

    async def done(
        self, what: str, request: Message, version: int, response: type[Message], code: Callable[[Any], int]
    ) -> bool:
        """Whether it was acknowledged. code: where the answer's error stands."""
        try:
            answer = await self._chance.choice(self._lanes).ask(request, version, response, ANSWER_S)
            error = code(answer)
        except (OSError, EOFError):
            error = None
        self._tally[f"{what} {'unknown' if error is None else 'refused' if error else 'done'}"] += 1
        return error == 0

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


@dataclass
class TopicLane:
    """Names that only this lane changes. cleaner: what clears away has connections of its own."""

    label: str
    asker: Asker
    cleaner: Asker
    ledger: Ledger[str]
    chance: Random
    abandoned: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._busy = [self._new_name() for _ in range(BUSY_NAMES)]
        self._steady = [self._new_name() for _ in range(STEADY_NAMES)]

    def _new_name(self) -> str:
        return f"{self.label}-{next(self._numbers)}"

    async def turn(self) -> None:
        unmade = [name for name in self._steady if self.ledger.value(name) == ABSENT]
        names = self._steady if unmade or self.chance.random() < STEADY_SHARE else self._busy
        name = self.chance.choice(unmade or names)
        count = self.ledger.value(name)
        if count == ABSENT:
            target, change = self.chance.randint(1, 3), self._create
        elif count >= PARTITIONS_MAX or self.chance.random() < 0.4:
            target, change = ABSENT, self._delete
        else:
            target, change = count + self.chance.randint(1, 2), self._grow
        self.ledger.begin(name, target)
        if await change(name, target):
            self.ledger.acknowledge(name, target)
            if target == ABSENT and self.chance.random() < GRAVE_SHARE:
                self._replace(name)
        else:
            self.abandoned.append((asyncio.get_running_loop().time() + FORGOTTEN_S, name))
            self._replace(name)

    def _replace(self, name: str) -> None:
        names = self._steady if name in self._steady else self._busy
        names[names.index(name)] = self._new_name()

    async def _create(self, name: str, count: int) -> bool:
        topic = CreatableTopic(name, count, 2)
        request = CreateTopicsRequest((topic,), REQUEST_TIMEOUT_MS)
        return await self.asker.done("create", request, 7, CreateTopicsResponse, lambda a: a.topics[0].error_code)

    async def _grow(self, name: str, count: int) -> bool:
        topic = CreatePartitionsTopic(name, count, None)
        request = CreatePartitionsRequest((topic,), REQUEST_TIMEOUT_MS)
        return await self.asker.done("grow", request, 3, CreatePartitionsResponse, lambda a: a.results[0].error_code)

    async def _delete(self, name: str, count: int) -> bool:
        assert count == ABSENT, name
        return await delete(self.asker, "delete", name)

    async def clear_away(self) -> None:
        """Delete what was abandoned long ago, so that a long run does not drown in it, however that ends."""
        now = asyncio.get_running_loop().time()
        due = [name for when, name in self.abandoned if when < now]
        self.abandoned = [(when, name) for when, name in self.abandoned if when >= now]
        for name in due:
            self.ledger.begin(name, ABSENT)
            await delete(self.cleaner, "clear away", name)


async def delete(asker: Asker, what: str, name: str) -> bool:
    request = DeleteTopicsRequest((DeleteTopicState(name),), timeout_ms=REQUEST_TIMEOUT_MS)
    return await asker.done(what, request, 6, DeleteTopicsResponse, lambda a: a.responses[0].error_code)


@dataclass
class AclLane:
    """Principals that only this lane speaks of, on resources of all."""

    label: str
    asker: Asker
    ledger: Ledger[Acl]
    chance: Random

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._acls = [self._new_acl() for _ in range(8)]

    def _new_acl(self) -> Acl:
        return self.chance.choice(ACL_RESOURCES), f"User:{self.label}-{next(self._numbers)}"

    async def turn(self) -> None:
        acl = self.chance.choice(self._acls)
        target = int(self.ledger.value(acl) == ABSENT)
        self.ledger.begin(acl, target)
        if await (self._create(acl) if target else self._delete(acl)):
            self.ledger.acknowledge(acl, target)
        else:
            self._acls[self._acls.index(acl)] = self._new_acl()

    async def _create(self, acl: Acl) -> bool:
        resource, principal = acl
        creation = AclCreation(TOPIC, resource, LITERAL, principal, ANY_HOST, READ, ALLOW)
        request = CreateAclsRequest((creation,))
        return await self.asker.done("allow", request, 3, CreateAclsResponse, lambda a: a.results[0].error_code)

    async def _delete(self, acl: Acl) -> bool:
        resource, principal = acl
        which = DeleteAclsFilter(TOPIC, resource, LITERAL, principal, ANY_HOST, READ, ALLOW)
        request = DeleteAclsRequest((which,))
        return await self.asker.done(
            "disallow", request, 3, DeleteAclsResponse, lambda a: _deleted(a.filter_results[0])
        )


def _deleted(result: Any) -> int:
    """0 when exactly the one ACL was deleted; whoever deletes nothing did not do what was asked for."""
    matching = result.matching_acls
    if result.error_code or len(matching) != 1:
        return result.error_code or -1
    return int(matching[0].error_code)


class Load:
    """Everything at once, from `start` to `stop`."""

    def __init__(self, ports: Sequence[int], seed: int) -> None:
        self._ports = tuple(ports)
        self._seed = seed
        self.topics: Ledger[str] = Ledger()
        self.acls: Ledger[Acl] = Ledger()
        self.producers = Handed()
        self.tally: Counter[str] = Counter()
        self._closers: list[Callable[[], None]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="load", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self._may_begin = asyncio.Event()
        self.pace = 1.0
        """What pauses between changes are multiplied with; anybody may set it at any time."""
        self._under_way = 0

    # --- from other threads --------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        self._do(self._start())

    def stop(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing is under way inside."""
        self._do(self._quiet())
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._may_begin.set)

    def snapshot(self) -> Snapshot:
        async def take() -> Snapshot:
            return Snapshot(self.topics.snapshot(), self.acls.snapshot())

        return self._do(take())

    def faults(self) -> list[BaseException]:
        """Lanes that ended by an error of their own: there should be none."""
        ended = [task.exception() for task in self._tasks if task.done() and not task.cancelled()]
        return [each for each in ended if each is not None]

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(QUIET_DEADLINE_S)

    # --- on the loop ---------------------------------------------------------------------------------------

    async def _start(self) -> None:
        topics = [self._topic_lane(number) for number in range(TOPIC_LANES)]
        acls = [AclLane(f"acl{n}", self._asker(f"a{n}"), self.acls, self._chance(f"A{n}")) for n in range(ACL_LANES)]
        turns: list[Callable[[], Awaitable[None]]] = [each.turn for each in topics]
        turns += [each.turn for each in acls]
        turns += [each.clear_away for each in topics]
        self._tasks = [asyncio.create_task(self._lane(turn, self._chance(f"p{n}"))) for n, turn in enumerate(turns)]
        self._tasks += [asyncio.create_task(self._bursts(broker)) for broker in range(len(self._ports))]
        self._tasks.append(asyncio.create_task(self._transactional()))
        self._may_begin.set()

    def _topic_lane(self, number: int) -> TopicLane:
        asker, cleaner = self._asker(f"t{number}"), self._asker(f"c{number}")
        return TopicLane(f"storm{number}", asker, cleaner, self.topics, self._chance(f"T{number}"))

    def _chance(self, of: str) -> Random:
        return Random(f"{self._seed} {of}")

    def _asker(self, of: str) -> Asker:
        asker = Asker(self._ports, self._chance(of), self.tally)
        self._closers.append(asker.close)
        return asker

    async def _lane(self, turn: Callable[[], Awaitable[None]], chance: Random) -> None:
        while True:
            await self._may_begin.wait()
            self._under_way += 1
            try:
                await turn()
            finally:
                self._under_way -= 1
            await self._pause(chance.uniform(*PAUSE_S))

    async def _pause(self, pause_s: float) -> None:
        """In steps, because the pace may change meanwhile."""
        rested = 0.0
        while rested < pause_s * self.pace:
            await asyncio.sleep(STEP_S)
            rested += STEP_S

    async def _quiet(self) -> None:
        self._may_begin.clear()
        while self._under_way:
            await asyncio.sleep(0.01)

    async def _bursts(self, broker: int) -> None:
        """New idempotent producers, all of one broker."""
        client = ProducerIdClient(self._ports[broker])
        self._closers.append(client.close)
        while True:
            await self._may_begin.wait()
            await self._ids(client, broker, [None] * BURST)
            await asyncio.sleep(BURST_EVERY_S)

    async def _transactional(self) -> None:
        """New transactional producers, each under a name of its own, asked of one broker after the other."""
        clients = [ProducerIdClient(port) for port in self._ports]
        self._closers += [client.close for client in clients]
        for number in itertools.count():
            await self._may_begin.wait()
            for broker, client in enumerate(clients):
                if await self._ids(client, broker, [f"transfers-{self._seed}-{number}".encode()]) != NOT_COORDINATOR:
                    break
            await asyncio.sleep(TRANSACTIONAL_EVERY_S)

    async def _ids(self, client: ProducerIdClient, broker: int, names: list[bytes | None]) -> int | None:
        """Returns the last error, None without an answer."""
        kind = "producer" if names[0] is None else "transactional producer"
        try:
            answers = await client.ask(names, ANSWER_S)
        except (OSError, EOFError):
            self.tally[f"{kind} unknown"] += len(names)
            return None
        for error, producer_id in answers:
            if not error:
                self.producers.note(producer_id, broker)
            if error != NOT_COORDINATOR:
                self.tally[f"{kind} {'refused' if error else 'done'}"] += 1
        return answers[-1][0]

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for close in self._closers:
            close()
