"""Connections take what is theirs and no more: the log keeps its descriptors, and who has something to say gets in."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.findings.quorum import CONNECTIONS_FULL
from migrator.node.listener.controller_apis import ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.node.transport import acceptor, broker_client, connections
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.connections import Connections
from migrator.wire.frames import encode_response
from migrator.wire.messages.control import UpdateMetadataResponse
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from tests.support.builders import an_image
from tests.support.voter_on_disk import comes_about

LIMIT_S = 60.0
"""Of an answer and of a connection, which are no subject here."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_client, "CONNECT_TIMEOUT_S", LIMIT_S)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Listener:
    """A controller's, in this process."""

    def __init__(self, **limits: Any) -> None:
        self.clock = Clock()
        self.connections = Connections(clock=self.clock, **limits)
        self.ended: list[BaseException] = []
        settings = SimpleNamespace(cluster_id="c", migration_enabled=True)
        controller: Any = SimpleNamespace(image=an_image(), settings=settings, allows=lambda *_: True)
        raft: Any = SimpleNamespace(voter=SimpleNamespace(leader=-1))
        apis = ControllerApis(raft, controller, QuorumApis(raft, wall_ms=lambda: 0), listener="CONTROLLER")
        self.server = ControllerServer(apis, None, self.connections, self.ended.append)
        self.port = 0

    async def idle(self, number: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Connections on which nothing is asked."""
        before = self.connections.open
        opened = [await asyncio.open_connection("127.0.0.1", self.port) for _ in range(number)]
        await comes_about(lambda: self.connections.open == min(before + number, self.connections.most))
        return opened

    async def answers(self) -> bool:
        connection = BrokerConnection("127.0.0.1", self.port, "a test")
        try:
            answer = await connection.ask(ApiVersionsRequest(), 3, ApiVersionsResponse, LIMIT_S)
        except (OSError, EOFError):
            return False
        finally:
            connection.close()
        return len(answer.api_keys) > 0


@asynccontextmanager
async def listening(**limits: Any) -> AsyncIterator[Listener]:
    listener = Listener(**limits)
    listener.port = await listener.server.start("127.0.0.1", 0)
    try:
        yield listener
    finally:
        await listener.server.stop()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 120))


async def closed(reader: asyncio.StreamReader) -> bool:
    return await asyncio.wait_for(reader.read(1), LIMIT_S) == b""


def test_however_many_connections_are_idle_whoever_asks_gets_in() -> None:
    async def story() -> None:
        async with listening(most=5) as listener:
            idle = await listener.idle(1)
            listener.clock.now += 1
            idle += await listener.idle(4)
            listener.clock.now += 30
            assert await listener.answers()
            assert await closed(idle[0][0])
            finding = listener.connections.finding
            assert finding is not None
            assert finding.code == CONNECTIONS_FULL.code
            assert finding.values == {"most": 5, "refused": 0, "closed": 1}
            listener.clock.now += connections.STANDS_S + 1
            assert listener.connections.finding is None
            for _, writer in idle:
                writer.close()

    run(story)


def test_connections_that_were_used_just_now_are_not_closed_for_another() -> None:
    async def story() -> None:
        async with listening(most=3) as listener:
            used = [BrokerConnection("127.0.0.1", listener.port, "a test") for _ in range(3)]
            for each in used:
                await each.ask(ApiVersionsRequest(), 3, ApiVersionsResponse, LIMIT_S)
            listener.clock.now += connections.SILENT_AT_LEAST_S / 2
            assert not await listener.answers()
            assert listener.connections.refused == 1
            assert listener.connections.open == 3
            for each in used:
                each.close()

    run(story)


def test_who_has_asked_nothing_makes_room_before_who_has() -> None:
    """However long a broker is silent between two requests: newcomers take no place of one."""

    async def story() -> None:
        async with listening(most=2) as listener:
            broker = BrokerConnection("127.0.0.1", listener.port, "a test")
            await broker.ask(ApiVersionsRequest(), 3, ApiVersionsResponse, LIMIT_S)
            listener.clock.now += 30
            for _ in range(3):
                ((reader, writer),) = await listener.idle(1)
                listener.clock.now += 2
                assert await listener.answers()
                assert await closed(reader)
                writer.close()
            listener.clock.now += 30
            answer = await broker.ask(ApiVersionsRequest(), 3, ApiVersionsResponse, LIMIT_S)
            assert len(answer.api_keys) > 0
            broker.close()

    run(story)


def test_newcomers_are_few_however_many_places_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have sent half a request, which is memory."""
    monkeypatch.setattr(connections, "NEWCOMERS_MAX", 3)

    async def story() -> None:
        async with listening(most=100) as listener:
            idle = await listener.idle(3)
            for _ in range(3):
                listener.clock.now += 0.1
                idle.append(await asyncio.open_connection("127.0.0.1", listener.port))
                await comes_about(lambda: listener.connections.closed_for_others == len(idle) - 3)
            for reader, _ in idle[:3]:
                assert await closed(reader)
            assert listener.connections.open == 3
            assert await listener.answers()
            for _, writer in idle:
                writer.close()

    run(story)


def test_a_connection_whose_request_is_being_answered_is_not_closed_for_another() -> None:
    limit = Connections(most=1, clock=(clock := Clock()))
    ended: list[bool] = []
    with limit.place(lambda: ended.append(True)) as place:
        with limit.silent(place):
            pass  # its request has come
        clock.now += 60
        assert not limit.has_room()
        with limit.silent(place):
            clock.now += 60
            assert limit.has_room()
    assert ended == [True]


def test_a_connection_that_is_silent_for_too_long_is_closed() -> None:
    async def story() -> None:
        async with listening(idle_s=0.05) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            assert await closed(reader)
            await comes_about(lambda: listener.connections.open == 0)
            writer.close()

    run(story)


@pytest.mark.parametrize(("limit", "most"), [(120, 60), (1_024, 768), (1_048_576, 1_048_320)])
def test_a_part_of_the_descriptors_is_kept_from_connections(limit: int, most: int) -> None:
    assert Connections(descriptor_limit=limit).most == most


def test_a_limit_in_the_file_that_is_lower_counts() -> None:
    assert Connections(most=7, descriptor_limit=1_024).most == 7


def test_without_a_descriptor_the_listener_goes_on_when_there_is_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with listening() as listener:
            idle = await listener.idle(2)
            listener.clock.now += 30
            loop = asyncio.get_running_loop()
            accept, failures = loop.sock_accept, [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED]

            async def failing(listens: socket.socket) -> Any:
                if failures:
                    raise OSError(failures.pop(), "no descriptor")
                return await accept(listens)

            monkeypatch.setattr(acceptor, "ACCEPT_AGAIN_S", 0.0)
            monkeypatch.setattr(loop, "sock_accept", failing)
            assert await listener.answers()  # this one was waited for already
            assert await listener.answers()
            assert failures == []
            assert listener.connections.closed_for_others == 2
            assert listener.ended == []
            for _, writer in idle:
                writer.close()

    run(story)


def test_a_listener_that_ends_unasked_is_told_of() -> None:
    async def story() -> None:
        async with listening() as listener:
            (accepting,) = (task for task in asyncio.all_tasks() if task.get_name() == "accept")
            accepting.cancel()
            await comes_about(lambda: bool(listener.ended))

    run(story)


def test_a_listener_that_stops_is_not() -> None:
    async def story() -> None:
        async with listening() as listener:
            pass
        assert listener.ended == []

    run(story)


def test_a_peer_that_vanished_is_probed() -> None:
    async def story() -> None:
        async with listening() as listener:
            found: list[socket.socket] = []
            accepted = listener.server._accept

            def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                found.append(writer.get_extra_info("socket"))
                accepted(reader, writer)

            listener.server._acceptor._accepted = noted
            ((_, writer),) = await listener.idle(1)
            assert found[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert found[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
            writer.close()

    run(story)


def test_the_process_takes_as_many_descriptors_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1_024, 20_000))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    assert connections.raise_descriptor_limit() == 20_000
    assert asked == [(20_000, 20_000)]


def test_a_port_that_is_taken_is_said(tmp_path: object) -> None:
    async def story() -> None:
        async with listening() as listener:
            again = Listener()
            with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{listener.port}"):
                await again.server.start("127.0.0.1", listener.port)

    run(story)


@pytest.mark.parametrize("size", [0, 100, broker_client.SLICE_BYTES, 3 * broker_client.SLICE_BYTES + 7])
def test_a_body_in_parts_arrives_whole_and_a_large_one_is_never_copied_whole(size: int) -> None:
    large = bytes(range(256)) * (size // 256 + 1)
    body = (b"head", memoryview(large)[: size - 4 if size else 0])
    slices = list(broker_client.frame_of(6, 8, 77, "a test", body))
    assert max(map(len, slices)) <= broker_client.SLICE_BYTES + 100
    frame = b"".join(slices)
    assert frame == b"".join(broker_client.frame_of(6, 8, 77, "a test", (b"".join(body),)))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert frame.endswith(b"".join(body))


def test_a_large_body_leaves_in_slices_and_its_answer_is_read() -> None:
    async def story() -> None:
        heard = bytearray()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            size = int.from_bytes(await reader.readexactly(4), "big")
            heard.extend(await reader.readexactly(size))
            writer.write(encode_response(UpdateMetadataResponse(), 8, correlation_id=1))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        connection = BrokerConnection("127.0.0.1", server.sockets[0].getsockname()[1], "a test")
        large = bytes(5 * broker_client.SLICE_BYTES) + b"end"
        body = (b"head", memoryview(large))
        assert await connection.send(6, 8, body, UpdateMetadataResponse, LIMIT_S) == UpdateMetadataResponse()
        assert heard.endswith(b"head" + large)
        connection.close()
        server.close()
        await server.wait_closed()

    run(story)
