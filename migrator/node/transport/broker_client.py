"""Requests from this controller to one broker, over one connection, one at a time.

In:   an address, encoded bodies or messages.
Out:  decoded answers. Raises OSError or TimeoutError when the broker cannot be reached or does not answer.
Elsewhere: TLS and SASL before the first request (client_security.py); what is sent and again sent
(broker_channels.py), what a broker is asked before a takeover (survey.py).
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Final

from migrator.findings.finding import FindingError
from migrator.node.on_thread import on_thread
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.codec import encode
from migrator.wire.frames import decode_response, read_frame_length
from migrator.wire.generate import SomeMessage
from migrator.wire.schema import Message, declaration_of

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0
"""As stock's controller.socket.timeout.ms: a broker may take long to create many logs."""

LARGE_BYTES: Final = 1 << 18
"""What is larger is decoded on a thread: a broker of a million logs names them all, and the loop has heartbeats."""

SLICE_BYTES: Final = 1 << 18
"""A larger body goes to the socket in such slices: what the socket does not take yet is copied, and many brokers are
sent the same one."""

Body = Sequence[bytes | memoryview]
"""The parts of a body that is encoded already, in their order."""

_START = struct.Struct(">hhi")


def frame_of(api_key: int, version: int, correlation_id: int, client_id: str, body: Body) -> Iterator[bytes]:
    """A request frame of a flexible version, in slices of at most `SLICE_BYTES` and a header."""
    name = client_id.encode()
    header = _START.pack(api_key, version, correlation_id) + len(name).to_bytes(2, "big") + name + b"\x00"
    size = sum(map(len, body))
    start = (len(header) + size).to_bytes(4, "big") + header
    if size <= SLICE_BYTES:
        yield b"".join((start, *body))
        return
    yield start
    for part in body:
        for at in range(0, len(part), SLICE_BYTES):
            yield bytes(part[at : at + SLICE_BYTES])


class BrokerConnection:
    """One connection; broken by any failure, then opened anew by the next request."""

    def __init__(self, host: str, port: int, client_id: str, security: ClientSecurity = PLAINTEXT) -> None:
        self._host = host
        self._port = port
        self._client_id = client_id
        self._security = security
        self._correlations = itertools.count(1)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ends_at: float | None = None

    async def ask(
        self, request: Message, version: int, response: type[SomeMessage], timeout_s: float = ANSWER_TIMEOUT_S
    ) -> SomeMessage:
        key = declaration_of(type(request)).api_key
        assert key is not None
        return await self.send(key, version, (encode(request, version),), response, timeout_s)

    async def send(
        self, api_key: int, version: int, body: Body, response: type[SomeMessage], timeout_s: float = ANSWER_TIMEOUT_S
    ) -> SomeMessage:
        correlation = next(self._correlations)
        try:
            reader, writer = await self._connected()
            async with asyncio.timeout(timeout_s):
                for part in frame_of(api_key, version, correlation, self._client_id, body):
                    writer.write(part)
                    await writer.drain()
                size = read_frame_length(await reader.readexactly(4))
                frame = await reader.readexactly(size)
            if size > LARGE_BYTES:
                found, answer = await on_thread(decode_response, response, version, frame)
            else:
                found, answer = decode_response(response, version, frame)
        except FindingError as error:
            self.close()
            raise OSError(f"the broker's answer cannot be read: {error}") from error
        except asyncio.IncompleteReadError as error:
            self.close()
            raise OSError("the connection was closed before the answer came") from error
        except BaseException:
            self.close()
            raise
        if found != correlation:
            self.close()
            raise OSError(f"answer {found} to request {correlation}")
        return answer

    async def open(self) -> None:
        """Now, so that a time-out of the next request is not one of connecting."""
        await self._connected()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._ends_at is not None and monotonic() >= self._ends_at:
            self.close()  # the server would close it at the next request, and that one would be lost
        if self._reader is None or self._writer is None:
            async with asyncio.timeout(CONNECT_TIMEOUT_S + self._security.waits_s):
                opened = await self._security.open(self._host, self._port, self._client_id)
            self._reader, self._writer, self._ends_at = opened
        return self._reader, self._writer

    @property
    def is_open(self) -> bool:
        return self._writer is not None and not self._writer.is_closing()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = self._ends_at = None
