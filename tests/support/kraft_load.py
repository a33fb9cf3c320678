"""A load of metadata changes for any KRaft controller: the same client for stock's and for ours.

In:   the addresses of the voters, which change, how many in flight.
Out:  the latency of each change, from before its request is encoded until the last byte of the answer is read.
Elsewhere: the processes (systems.py), the load for ZooKeeper (zookeeper_load.py).
Rules: a controller answers one request of a connection before it reads the next, so there are as many connections as
changes in flight. Brokers are made up: this client registers three and lets each report once; the controllers run with
a session time-out longer than the benchmark. Answers are decoded after the measurement; one error fails the cell.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from migrator.wire.frames import decode_response, encode_request
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.raft import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from migrator.wire.schema import Message

Address = tuple[str, int]
Answer = TypeVar("Answer", bound=Message)

CLIENT_ID: Final = "benchmark"
BROKERS: Final = (0, 1, 2)
REPLICAS: Final = 3
PARTITIONS: Final = 4
CONFIGURED_TOPICS: Final = 100
DELETED_TOGETHER: Final = 200
ANSWER_TIMEOUT_S: Final = 60.0
LEADER_DEADLINE_S: Final = 60.0
POLL_S: Final = 0.2
NOT_CONTROLLER: Final = 41
TOPIC_RESOURCE: Final = 2
SET: Final = 0
REQUEST_TIMEOUT_MS: Final = 60_000


class Load(Protocol):
    """A kind of change: the frame of the n-th, and what its answer says."""

    def frame(self, number: int) -> bytes: ...
    def error(self, frame: bytes) -> int: ...


class Creations:
    """One topic each. tag: what makes the names of this cell its own."""

    def __init__(self, tag: str, partitions: int = PARTITIONS, replicas: int = REPLICAS) -> None:
        self._tag = tag
        self._partitions = partitions
        self._replicas = replicas
        self.names: list[str] = []

    def frame(self, number: int) -> bytes:
        name = f"{self._tag}-{number}"
        self.names.append(name)
        topic = CreatableTopic(name=name, num_partitions=self._partitions, replication_factor=self._replicas)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=REQUEST_TIMEOUT_MS)
        return encode_request(request, 7, correlation_id=number, client_id=CLIENT_ID)

    def error(self, frame: bytes) -> int:
        _, answer = decode_response(CreateTopicsResponse, 7, frame)
        return next((each.error_code for each in answer.topics if each.error_code), 0)


class ConfigChanges:
    """One key of one topic each, topic after topic."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def frame(self, number: int) -> bytes:
        change = IncrementalAlterableConfig("retention.ms", SET, str(86_400_000 + number))
        name = self._topics[number % len(self._topics)]
        resource = IncrementalAlterConfigsResource(TOPIC_RESOURCE, name, (change,))
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        return encode_request(request, 1, correlation_id=number, client_id=CLIENT_ID)

    def error(self, frame: bytes) -> int:
        _, answer = decode_response(IncrementalAlterConfigsResponse, 1, frame)
        return next((each.error_code for each in answer.responses if each.error_code), 0)


class Connection(asyncio.Protocol):
    """One request at a time, as bytes: as little work of the client's as can be."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, address: Address) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(cls, *address)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        size = int.from_bytes(self._received[:4], "big") + 4
        if len(self._received) >= max(size, 5) and self._waiting is not None:
            frame = bytes(self._received[4:size])
            del self._received[:size]
            if not self._waiting.done():
                self._waiting.set_result(frame)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionResetError("the controller closed the connection"))

    async def exchange(self, frame: bytes) -> bytes:
        """A whole request frame; the answer without its length."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._waiting

    async def ask(self, request: Message, version: int, response: type[Answer]) -> Answer:
        frame = encode_request(request, version, correlation_id=1, client_id=CLIENT_ID)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return decode_response(response, version, await self.exchange(frame))[1]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


# --- the cluster ------------------------------------------------------------------------------------------


async def find_leader(voters: dict[int, Address]) -> Address:
    """The active controller, as it says itself. Raises TimeoutError when none does."""
    async with asyncio.timeout(LEADER_DEADLINE_S):
        while True:
            for node, address in voters.items():
                if await _leader_as_told(address) == node:
                    return address
            await asyncio.sleep(POLL_S)


async def _leader_as_told(address: Address) -> int:
    """Who leads, as the leader itself says; -1 from everybody else, and while an election is under way."""
    topics = (DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),)),)
    try:
        connection = await Connection.open(address)
    except OSError:
        return -1
    try:
        answer = await connection.ask(DescribeQuorumRequest(topics=topics), 0, DescribeQuorumResponse)
    except OSError:  # a stock controller that is just starting closes the connection
        return -1
    finally:
        connection.close()
    found = answer.topics[0].partitions[0] if answer.topics else None
    return -1 if found is None or found.error_code else found.leader_id


async def prepare(leader: Address, cluster_id: str) -> list[str]:
    """Register the brokers, let each report, create the topics whose configuration changes; returns their names."""
    connection = await Connection.open(leader)
    try:
        for broker in BROKERS:
            await _register(connection, broker, cluster_id)
        topics = [f"configured-{number}" for number in range(CONFIGURED_TOPICS)]
        wanted = tuple(CreatableTopic(name=each, num_partitions=1, replication_factor=REPLICAS) for each in topics)
        created = await connection.ask(CreateTopicsRequest(topics=wanted), 7, CreateTopicsResponse)
        refused = {each.name: each.error_code for each in created.topics if each.error_code}
        assert not refused, f"no topics to configure: {refused}"
        return topics
    finally:
        connection.close()


async def _register(connection: Connection, broker: int, cluster_id: str) -> None:
    registration = BrokerRegistrationRequest(
        broker_id=broker,
        cluster_id=cluster_id,
        incarnation_id=bytes(15) + bytes([100 + broker]),
        listeners=(RegistrationListener("PLAINTEXT", "127.0.0.1", 10_000 + broker, 0),),
        features=(RegistrationFeature("metadata.version", 1, 21),),
        rack=None,
        log_dirs=(bytes([1]) + bytes(14) + bytes([broker]),),
    )
    registered = await connection.ask(registration, 4, BrokerRegistrationResponse)
    async with asyncio.timeout(LEADER_DEADLINE_S):
        while registered.error_code == NOT_CONTROLLER:  # it leads the quorum and reads its log before it acts
            await asyncio.sleep(POLL_S)
            registered = await connection.ask(registration, 4, BrokerRegistrationResponse)
    assert registered.error_code == 0, f"broker {broker} was refused: {registered}"
    epoch = registered.broker_epoch
    heartbeat = BrokerHeartbeatRequest(broker_id=broker, broker_epoch=epoch, current_metadata_offset=epoch)
    answer = await connection.ask(heartbeat, 1, BrokerHeartbeatResponse)
    assert answer.error_code == 0, f"broker {broker} may not report: {answer}"
    assert not answer.is_fenced, f"broker {broker} stays fenced: {answer}"


async def delete(leader: Address, names: Sequence[str]) -> None:
    """Delete topics again, so that every cell begins with the same cluster."""
    connection = await Connection.open(leader)
    try:
        for start in range(0, len(names), DELETED_TOGETHER):
            chosen = tuple(names[start : start + DELETED_TOGETHER])
            request = DeleteTopicsRequest(topic_names=chosen, timeout_ms=REQUEST_TIMEOUT_MS)
            answer = await connection.ask(request, 5, DeleteTopicsResponse)
            refused = [each for each in answer.responses if each.error_code]
            assert not refused, f"not deleted: {refused[:3]}"
    finally:
        connection.close()


# --- the load ---------------------------------------------------------------------------------------------


async def put_load(leader: Address, load: Load, in_flight: int, *, ramp_s: float, seconds: float) -> list[float]:
    """Keep so many changes in flight; the latencies in seconds of those that were answered after the ramp."""
    connections = [await Connection.open(leader) for _ in range(in_flight)]
    numbers = itertools.count()
    began = time.perf_counter()
    first, last = began + ramp_s, began + ramp_s + seconds
    latencies: list[float] = []
    answers: list[bytes] = []

    async def one_at_a_time(connection: Connection) -> None:
        while (sent := time.perf_counter()) < last:
            answers.append(await connection.exchange(load.frame(next(numbers))))
            now = time.perf_counter()
            if first <= now < last:
                latencies.append(now - sent)

    try:
        async with asyncio.timeout(ramp_s + seconds + ANSWER_TIMEOUT_S):
            await asyncio.gather(*map(one_at_a_time, connections))
    finally:
        for connection in connections:
            connection.close()
    refused = [error for answer in answers if (error := load.error(answer))]
    assert not refused, f"{len(refused)} of {len(answers)} changes were refused, the first with error {refused[0]}"
    return latencies
