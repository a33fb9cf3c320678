"""Stand-ins for brokers in ZooKeeper mode with the migration on: as many as a large tree names, without a process each.

In:   their ids, the cluster's id, the controller's port.
Out:  while they live: registered, unfenced, and agreeing to whatever a controller tells them.
They have no logs and know no topic, so a full send cannot be destructive to them. What they were told is not looked
at here (tests/support/told_brokers.py, tests/e2e/test_stock_equality.py).
Source: Kafka 3.9 `BrokerLifecycleManager`; facts raft-and-controller 2.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Final

from migrator.node.broker_client import BrokerConnection
from migrator.wire.frames import decode_request, encode_response, read_frame_length
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from migrator.wire.messages.configs import DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult
from migrator.wire.messages.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from migrator.wire.messages.topics import MetadataRequest, MetadataResponse
from migrator.wire.schema import Message

HOST: Final = "127.0.0.1"
AGAIN_S: Final = 0.2
HEARTBEAT_S: Final = 0.5
READ_EVERYTHING: Final = 2**40
LEVEL: Final = 21
ANSWERS: Final[dict[type[Message], Message]] = {
    LeaderAndIsrRequest: LeaderAndIsrResponse(),
    StopReplicaRequest: StopReplicaResponse(),
    UpdateMetadataRequest: UpdateMetadataResponse(),
    DescribeLogDirsRequest: DescribeLogDirsResponse(results=(DescribeLogDirsResult(log_dir="/nowhere"),)),
    MetadataRequest: MetadataResponse(),
}


class BrokerStandIns:
    """All of one cluster, on a thread of their own: `with BrokerStandIns((1, 2), cluster_id, port):`."""

    def __init__(self, brokers: Iterable[int], cluster_id: str, controller_port: int) -> None:
        self._brokers = tuple(brokers)
        self._cluster_id = cluster_id
        self._controller_port = controller_port
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._live()), daemon=True)

    def __enter__(self) -> BrokerStandIns:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _live(self) -> None:
        lives = [asyncio.create_task(self._one(broker)) for broker in self._brokers]
        await self._stop.wait()
        for each in lives:
            each.cancel()
        await asyncio.gather(*lives, return_exceptions=True)

    async def _one(self, broker: int) -> None:
        server = await asyncio.start_server(self._serve, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        connection = BrokerConnection(HOST, self._controller_port, f"stand-in {broker}")
        try:
            while True:
                try:
                    await self._report(connection, broker, port)
                except (OSError, TimeoutError, asyncio.IncompleteReadError):
                    await asyncio.sleep(AGAIN_S)
        finally:
            connection.close()
            server.close()

    async def _report(self, connection: BrokerConnection, broker: int, port: int) -> None:
        """Register, then say that we live until that is refused."""
        registration = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=self._cluster_id,
            incarnation_id=bytes(15) + bytes([100 + broker]),
            listeners=(RegistrationListener("PLAINTEXT", HOST, port, 0),),
            features=(RegistrationFeature("metadata.version", LEVEL, LEVEL),),
            rack=None,
            is_migrating_zk_broker=True,
            log_dirs=(bytes([1]) + bytes(14) + bytes([broker]),),
        )
        registered = await connection.ask(registration, 4, BrokerRegistrationResponse)
        refused = registered.error_code
        while not refused:
            lives = BrokerHeartbeatRequest(broker, registered.broker_epoch, READ_EVERYTHING)
            refused = (await connection.ask(lives, 1, BrokerHeartbeatResponse)).error_code
            await asyncio.sleep(HEARTBEAT_S)
        await asyncio.sleep(AGAIN_S)

    @staticmethod
    async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(read_frame_length(await reader.readexactly(4)))
                header, request = decode_request(frame)
                answer = ANSWERS[type(request)]
                writer.write(encode_response(answer, header.api_version, correlation_id=header.correlation_id))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
