"""One ordered channel per broker: what was queued first is answered first, whatever happens to the connection.

In:   updates (driver.update_requests), from the loop's thread.
Out:  `on_answer(order, problem)`: problem is None when the broker took it over, else what it said.
Elsewhere: what a broker that refuses gets next (propagator.py), which broker gets an update (driver.broker_updates).
Rules: one request in flight per broker; a lost connection repeats the request that has no answer; answers are read,
also those per partition (R-866-07, K-26).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from migrator.driver.update_requests import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    VERSIONS,
    BrokerUpdate,
    UpdateKind,
)
from migrator.findings.finding import words_of
from migrator.model.values import Broker
from migrator.node.background import Alarm, kept
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.control import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from migrator.wire.schema import Message

log = structlog.get_logger()

RETRY_S = 0.1
UNKNOWN_SERVER_ERROR = -1
"""The broker's own code failed at it."""
ORDERS_MAX = 100_000
BYTES_MAX = 64 << 20
"""Orders that one unreachable broker may collect, and their bytes without full updates, which come once and not each
time; beyond it they are dropped, and it gets everything once back."""

_RESPONSES: dict[int, type[Message]] = {
    LEADER_AND_ISR: LeaderAndIsrResponse,
    STOP_REPLICA: StopReplicaResponse,
    UPDATE_METADATA: UpdateMetadataResponse,
}


@dataclass(slots=True)
class ChannelState:
    """What the dashboard shows of one broker's channel."""

    broker: int
    address: str
    waiting: int = 0
    answered: int = 0
    last_answer_ms: int | None = None
    problem: str | None = None


@dataclass(slots=True)
class _Channel:
    state: ChannelState
    connection: BrokerConnection
    updates: deque[BrokerUpdate] = field(default_factory=deque)
    waiting_bytes: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class BrokerChannels:
    """All channels of the active controller."""

    def __init__(
        self,
        client_id: str,
        listener: str,
        *,
        security: ClientSecurity = PLAINTEXT,
        on_answer: Callable[[BrokerUpdate, str | None], None],
        alarm: Alarm,
        now_ms: Callable[[], int],
    ) -> None:
        """alarm: called for a channel that a fault of ours stopped; it begins again with the next update."""
        self._client_id = client_id
        self._listener = listener
        self._security = security
        self._on_answer = on_answer
        self._alarm = alarm
        self._now_ms = now_ms
        self._channels: dict[int, _Channel] = {}

    def follow(self, brokers: Iterable[Broker]) -> None:
        """Keep exactly these channels; a broker whose address changed gets a new one, without the old orders."""
        wanted = {broker.id: self._address(broker) for broker in brokers}
        for broker_id, channel in list(self._channels.items()):
            if wanted.get(broker_id) != channel.state.address:
                self._close(broker_id)
        for broker_id, address in wanted.items():
            if address is not None and broker_id not in self._channels:
                self._open(broker_id, address)

    def send(self, updates: Iterable[BrokerUpdate]) -> None:
        for update in updates:
            channel = self._channels.get(update.broker)
            if channel is None:
                log.warning("broker.not_updated", broker=update.broker, reason="no channel: fenced or without listener")
                continue
            if len(channel.updates) >= ORDERS_MAX or channel.waiting_bytes > BYTES_MAX:
                orders, size = len(channel.updates), channel.waiting_bytes
                channel.updates.clear()
                channel.waiting_bytes = 0
                self._on_answer(update, f"{orders} orders of {size} bytes waited: more are not kept")
                continue
            channel.updates.append(update)
            channel.waiting_bytes += _counted_bytes(update)
            channel.state.waiting = len(channel.updates)
            channel.wake.set()

    def waiting(self) -> int:
        """Orders without an answer, over all brokers."""
        return sum(len(channel.updates) for channel in self._channels.values())

    def states(self) -> list[ChannelState]:
        return [self._channels[broker].state for broker in sorted(self._channels)]

    async def close(self) -> None:
        tasks = [channel.task for channel in self._channels.values() if channel.task is not None]
        for broker in list(self._channels):
            self._close(broker)
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- one channel ---------------------------------------------------------------------------------------

    def _address(self, broker: Broker) -> str | None:
        endpoint = broker.listener(self._listener)
        return None if endpoint is None else f"{endpoint.host}:{endpoint.port}"

    def _open(self, broker: int, address: str) -> None:
        host, _, port = address.rpartition(":")
        connection = BrokerConnection(host, int(port), self._client_id, self._security)
        channel = _Channel(ChannelState(broker, address), connection)
        name = f"broker-{broker}"
        channel.task = asyncio.create_task(kept(name, lambda: self._run(channel), self._alarm), name=name)
        self._channels[broker] = channel

    def _close(self, broker: int) -> None:
        channel = self._channels.pop(broker)
        channel.updates.clear()
        channel.connection.close()
        if channel.task is not None:
            channel.task.cancel()

    async def _run(self, channel: _Channel) -> None:
        while True:
            while not channel.updates:
                channel.wake.clear()
                await channel.wake.wait()
            update = channel.updates[0]
            try:
                answer = await channel.connection.send(
                    update.api_key, VERSIONS[update.api_key], update.parts, _RESPONSES[update.api_key]
                )
            except Exception as error:
                channel.state.problem = words_of(error)
                await asyncio.sleep(RETRY_S)
                continue
            if channel.updates and channel.updates[0] is update:  # not cleared meanwhile
                channel.updates.popleft()
                channel.waiting_bytes -= _counted_bytes(update)
            problem = _problem_read(answer)
            channel.state.waiting = len(channel.updates)
            channel.state.answered += 1
            channel.state.last_answer_ms = self._now_ms()
            channel.state.problem = problem
            if problem is not None:
                log.warning("broker.refused", broker=update.broker, api_key=update.api_key, problem=problem)
            self._on_answer(update, problem)


def _counted_bytes(update: BrokerUpdate) -> int:
    return 0 if update.kind is UpdateKind.FULL else len(update.shared)


def _problem_read(answer: Message) -> str | None:
    """An answer that cannot be looked at counts as a refusal: the broker gets everything once more."""
    try:
        return problem_in(answer)
    except Exception as fault:
        log.exception("broker.answer_not_read", answer=type(answer).__name__)
        return f"its answer cannot be read: {words_of(fault)}"


def refused_whole(code: int) -> str:
    return f"error {code} for the whole request"


def problem_in(answer: Message) -> str | None:
    """The error of an answer, at its top or for a partition; None when there is none."""
    code = getattr(answer, "error_code", 0)
    if code:
        return refused_whole(code)
    failed = []
    if isinstance(answer, LeaderAndIsrResponse):
        failed = [
            f"{topic.topic_id.hex()}-{each.partition_index}: {each.error_code}"
            for topic in answer.topics
            for each in topic.partition_errors
            if each.error_code
        ]
    elif isinstance(answer, StopReplicaResponse):
        failed = [
            f"{each.topic_name}-{each.partition_index}: {each.error_code}"
            for each in answer.partition_errors
            if each.error_code
        ]
    if not failed:
        return None
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    return f"errors for partitions {', '.join(failed[:3])}{more}"
