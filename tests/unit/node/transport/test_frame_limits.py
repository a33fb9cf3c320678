"""Too large a request, or one that no controller serves, ends its own connection before its body is read."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.controller.authorizer import ANONYMOUS, Asker, AuthorizerRules
from migrator.controller.features import CONTROLLER_APIS
from migrator.controller.security.permissions import allowed_as_whole
from migrator.model.image import EMPTY
from migrator.node.config.properties import parse_config
from migrator.node.listener.controller_apis import ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.node.transport.frame_limits import PARTLY_ALLOWED_BYTES_MAX, SMALL_BYTES_MAX, refuse_size
from migrator.wire.frames import API_KEYS, FRAME_BYTES_MAX, decode_response, encode_request
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse

BROKER, EVE = Asker("User:broker", "10.0.0.1"), Asker("User:eve", "10.0.0.2")
RULES = AuthorizerRules(frozenset({BROKER.principal}))
HOST = "127.0.0.1"


def allows(request: Any, asker: Asker) -> bool:
    """With an authorizer and no ACL: the brokers, who are super users, and nobody else."""
    return allowed_as_whole(EMPTY, RULES, asker, request)


def limit_of(key: int, asker: Asker, request_bytes_max: int = FRAME_BYTES_MAX) -> int:
    """The largest frame that is read, found by halving."""
    low, high = 0, 1 << 31
    while high - low > 1:
        middle = (low + high) // 2
        if refuse_size(key, middle, asker, allows, request_bytes_max) is None:
            low = middle
        else:
            high = middle
    return low


@pytest.mark.parametrize("key", CONTROLLER_APIS, ids=lambda key: API_KEYS[key].name)
def test_who_may_ask_nothing_sends_little(key: int) -> None:
    parts = {19, 20, 32, 33, 37, 38, 39, 40, 44, 49, 57}
    assert limit_of(key, EVE) <= (PARTLY_ALLOWED_BYTES_MAX if key in parts else SMALL_BYTES_MAX)
    assert limit_of(key, EVE) >= SMALL_BYTES_MAX, "a question that may be refused properly is read"
    assert limit_of(key, EVE, 100) == 100, "the file's limit is everybody's"


@pytest.mark.parametrize("key", [19, 20, 30, 33, 44, 45, 49, 51, 56, 58, 62, 73], ids=lambda key: API_KEYS[key].name)
def test_brokers_send_as_much_as_the_file_says(key: int) -> None:
    assert limit_of(key, BROKER) == FRAME_BYTES_MAX
    assert limit_of(key, BROKER, 5_000_000) == 5_000_000


@pytest.mark.parametrize("key", [0, 2, 3, 4, 5, 6, 8, 35, 65, 9_999, -1])
def test_what_a_controller_does_not_serve_is_not_read_at_all(key: int) -> None:
    assert refuse_size(key, 10, BROKER, allows, FRAME_BYTES_MAX) is not None


def test_the_limit_of_the_file_is_kafkas_key() -> None:
    text = (
        "process.roles=controller\nnode.id=1\ncontroller.quorum.voters=1@a:1\ncontroller.listener.names=C\n"
        "listeners=C://a:1\nlistener.security.protocol.map=C:PLAINTEXT\nlog.dirs=/d\nsocket.request.max.bytes=777\n"
    )
    assert parse_config(text).request_bytes_max == 777


# --- on a socket ------------------------------------------------------------------------------------------


def frame(key: int, size: int, body: bytes = b"") -> bytes:
    """The beginning of a frame that says it has `size` bytes."""
    return struct.pack(">ihhih", size, key, 0, 7, -1) + body


def served(story: Callable[[int], Awaitable[None]]) -> None:
    async def run() -> None:
        raft: Any = SimpleNamespace(now_ms=lambda: 0, voter=SimpleNamespace(leader=1, epoch=1, voters=()))
        controller: Any = SimpleNamespace(image=EMPTY, settings=SimpleNamespace(migration_enabled=True), allows=allows)
        apis = ControllerApis(raft, controller, QuorumApis(raft, wall_ms=lambda: 0), listener="CONTROLLER")
        server = ControllerServer(apis)
        port = await server.start(HOST, 0)
        try:
            async with asyncio.timeout(120):
                await story(port)
        finally:
            await server.stop()

    asyncio.run(run())


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(encode_request(ApiVersionsRequest(), 3, correlation_id=5, client_id="a test"))
    size = int.from_bytes(await reader.readexactly(4), "big")
    correlation, _ = decode_response(ApiVersionsResponse, 3, await reader.readexactly(size))
    return correlation == 5


@pytest.mark.parametrize(
    ("key", "size"), [(3, 4_000_000), (18, 100_000), (30, 4_000_000), (58, 4_000_000), (19, 100_000_000), (4, 100)]
)
def test_such_a_connection_ends_before_the_body_came_and_others_go_on(
    key: int, size: int, capfd: pytest.CaptureFixture[str]
) -> None:
    async def story(port: int) -> None:
        other = await asyncio.open_connection(HOST, port)
        assert await answers(*other)
        reader, writer = await asyncio.open_connection(HOST, port)
        whole = size if size <= SMALL_BYTES_MAX else 0  # of a large one nothing but its beginning is ever sent
        writer.write(frame(key, size, bytes(max(0, whole - 10))))
        assert await reader.read() == b"", "closed, without an answer"
        writer.close()
        assert await answers(*other)
        other[1].close()

    served(story)
    assert "Traceback" not in "".join(capfd.readouterr())


def test_anonymous_is_who_did_not_log_in() -> None:
    assert limit_of(58, Asker(ANONYMOUS, HOST)) == SMALL_BYTES_MAX
