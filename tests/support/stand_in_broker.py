"""A broker in ZooKeeper mode, as far as a controller needs one: large trees without large brokers.

In:   which broker it is, and the tree that it pretends to hold (tests/support/seeded_tree.py).
Out:  `StandInBroker.told`: every request of a controller, with the moment at which its answer was handed to the socket.
Elsewhere: who starts it (benchmarks/takeovers.py, benchmarks/brokers.py, e2e/trouble_stage.py).
It registers in ZooKeeper and with the controller, sends heartbeats, says that it has every log and topic of the tree,
and takes every order without error. Requests are not decoded before they are answered: its time is not measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from migrator.driver.update_requests import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from migrator.lab.servers.ports import HOST
from migrator.node.observer.log_reader import METADATA_TOPIC_ID
from migrator.wire.frames import RequestHeader, decode_request_body, encode_response, read_request_header
from migrator.wire.messages.brokers import (
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    DescribeClusterResponse,
    RegistrationFeature,
    RegistrationListener,
)
from migrator.wire.messages.configs import (
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from migrator.wire.messages.control import LeaderAndIsrResponse, StopReplicaResponse, UpdateMetadataResponse
from migrator.wire.messages.replication import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from migrator.wire.messages.topics import MetadataResponse, MetadataResponseTopic
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.multi import Multi, SetData
from migrator.zk.session import ZkSession
from tests.support.kraft_load import Address, Connection
from tests.support.seeded_tree import SeededTree, an_id

METADATA: Final = 3
BROKER_RESOURCE: Final = 4
DESCRIBE_CONFIGS: Final = 32
DESCRIBE_CLUSTER: Final = 60
EVERYTHING: Final = 2**31 - 1
"""As a bit set of permitted operations."""
DESCRIBE_LOG_DIRS: Final = 35
ALLOCATE_PRODUCER_IDS: Final = 67
NOT_CONTROLLER: Final = 41
ORDERS: Final = {
    LEADER_AND_ISR: LeaderAndIsrResponse(),
    STOP_REPLICA: StopReplicaResponse(),
    UPDATE_METADATA: UpdateMetadataResponse(),
}
FULL_AS_TAG: Final = b"\x01\x00\x01\x02"
"""One tagged field, number 0, one byte: type 2."""

FETCH_VERSION: Final = 13
HEARTBEAT_S: Final = 1.0
RETRY_S: Final = 0.1
METADATA_VERSIONS: Final = (21, 21)
"""A broker in ZooKeeper mode supports its inter.broker.protocol.version alone; here 3.9-IV0."""


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request of a controller. answered: wall clock."""

    api_key: int
    answered: float
    frame: bytes = field(repr=False)

    def body(self) -> Any:
        return decode_request_body(read_request_header(self.frame), self.frame)

    @property
    def is_full_metadata(self) -> bool:
        """A full UpdateMetadata, told by its last bytes: decoding all of it would cost what is measured."""
        return self.api_key == UPDATE_METADATA and self.frame.endswith(FULL_AS_TAG)


class StandInBroker:
    """One broker. Use `serve` first, then `join`; both end with their task."""

    def __init__(self, broker: int, tree: SeededTree) -> None:
        self.broker = broker
        self.told: list[ReceivedRequest] = []
        self.fenced_again = 0
        """How often the controller fenced it after it was in service."""
        self.unfenced = asyncio.Event()
        self._answers: dict[int, bytes] = {
            DESCRIBE_LOG_DIRS: _encoded(_log_dirs(tree), 4),
            METADATA: _encoded(_metadata(tree), 12),
            DESCRIBE_CONFIGS: _encoded(_nothing_set(broker), 4),
            DESCRIBE_CLUSTER: _encoded(DescribeClusterResponse(cluster_authorized_operations=EVERYTHING), 0),
            ALLOCATE_PRODUCER_IDS: _encoded(AllocateProducerIdsResponse(error_code=NOT_CONTROLLER), 0),
        }
        self._epoch: int | None = None
        self._server: asyncio.Server | None = None

    async def serve(self, zookeeper: str) -> None:
        """Open the port and stand in `/brokers/ids`."""
        self._server = await asyncio.start_server(self._answer, HOST, 0, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]
        await asyncio.to_thread(self._register_in_zookeeper, zookeeper)

    def _register_in_zookeeper(self, zookeeper: str) -> None:
        """The seeded registration, with the port of this one; it outlives sessions, nobody is elected here."""
        with ZkSession(zookeeper) as session:
            path = paths.broker_id(self.broker)
            znode = session.get(path)
            assert znode is not None, f"{path} was not seeded"
            registration = json.loads(znode.data or b"{}") | {
                "endpoints": [f"PLAINTEXT://{HOST}:{self.port}"],
                "port": self.port,
            }
            session.apply(Multi((SetData(path, json.dumps(registration).encode()),)))

    async def join(self, voters: Sequence[Address], cluster_id: str) -> None:
        """Register with whoever is the active controller and report to it, until cancelled."""
        while True:
            for voter in itertools.cycle(voters):
                with contextlib.suppress(OSError, TimeoutError):
                    await self._report(voter, cluster_id)
                await asyncio.sleep(RETRY_S)

    async def _report(self, voter: Address, cluster_id: str) -> None:
        """Returns when this one is not, or no longer, the active controller."""
        connection = await Connection.open(voter)
        try:
            if self._epoch is None:
                registered = await connection.ask(self._registration(cluster_id), 4, BrokerRegistrationResponse)
                if registered.error_code:
                    return
                self._epoch = registered.broker_epoch
            await self._read_from_start(connection, cluster_id)
            while await self._is_welcome(connection, self._epoch):
                await asyncio.sleep(HEARTBEAT_S)
        finally:
            connection.close()

    async def _read_from_start(self, connection: Connection, cluster_id: str) -> None:
        """Once: a takeover wants brokers that read this log. The first answer tells the epoch."""
        epoch = 0
        for _ in range(2):
            partition = FetchPartition(current_leader_epoch=epoch, last_fetched_epoch=0)
            topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
            request = FetchRequest(cluster_id=cluster_id, replica_id=self.broker, topics=(topic,))
            answer = await connection.ask(request, FETCH_VERSION, FetchResponse)
            epoch = answer.responses[0].partitions[0].current_leader.leader_epoch if answer.responses else epoch

    async def _is_welcome(self, connection: Connection, epoch: int) -> bool:
        """One heartbeat."""
        report = BrokerHeartbeatRequest(
            broker_id=self.broker, broker_epoch=epoch, current_metadata_offset=epoch, want_fence=False
        )
        answer = await connection.ask(report, 1, BrokerHeartbeatResponse)
        if answer.error_code:
            return False
        if not answer.is_fenced:
            self.unfenced.set()
        elif self.unfenced.is_set():
            self.fenced_again += 1
        return True

    def _registration(self, cluster_id: str) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self.broker,
            cluster_id=cluster_id,
            incarnation_id=bytes(15) + bytes([100 + self.broker]),
            listeners=(RegistrationListener("PLAINTEXT", HOST, self.port, 0),),
            features=(RegistrationFeature("metadata.version", *METADATA_VERSIONS),),
            rack=None,
            is_migrating_zk_broker=True,
            log_dirs=(bytes([1]) + bytes(14) + bytes([self.broker]),),
        )

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header = read_request_header(frame)
                writer.write(self._answer_to(header))
                await writer.drain()
                if header.api_key in ORDERS:
                    self.told.append(ReceivedRequest(header.api_key, time.time(), frame))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the controller, or the benchmark, is done
        finally:
            writer.close()

    def _answer_to(self, header: RequestHeader) -> bytes:
        order = ORDERS.get(header.api_key)
        if order is not None:
            return encode_response(order, header.api_version, correlation_id=header.correlation_id)
        prepared = self._answers[header.api_key]
        return prepared[:4] + header.correlation_id.to_bytes(4, "big") + prepared[8:]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


async def until(condition: Callable[[], Awaitable[bool]], what: str, deadline_s: float, look_s: float = 0.002) -> float:
    """Poll; returns the wall-clock moment. Raises TimeoutError that names what did not happen."""
    deadline = time.monotonic() + deadline_s
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {deadline_s:.0f} s")
        await asyncio.sleep(look_s)
    return time.time()


def _encoded(response: Message, version: int) -> bytes:
    """Encoded once, it is large: length, correlation id, the rest."""
    return encode_response(response, version, correlation_id=0)


def _nothing_set(broker: int) -> DescribeConfigsResponse:
    """Of what a controller asks, everything is as Kafka's defaults make it."""
    return DescribeConfigsResponse(results=(DescribeConfigsResult(0, None, BROKER_RESOURCE, str(broker)),))


def _log_dirs(tree: SeededTree) -> DescribeLogDirsResponse:
    partitions = tuple(DescribeLogDirsPartition(each) for each in range(tree.partitions))
    topics = tuple(DescribeLogDirsTopic(tree.name(number), partitions) for number in range(tree.topics))
    return DescribeLogDirsResponse(results=(DescribeLogDirsResult(0, "/a/disk", topics),))


def _metadata(tree: SeededTree) -> MetadataResponse:
    """Topics with their ids; their partitions are not asked for."""
    names = map(tree.name, range(tree.topics))
    return MetadataResponse(topics=tuple(MetadataResponseTopic(0, name, an_id(name)) for name in names))
