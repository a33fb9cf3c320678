"""The controller listener: frames in, frames out, in the order of each connection.

In:   connections of brokers, other voters and tools.
Out:  one answer per request. Bytes that are no request of Kafka 3.9 close their connection and nothing else.
Elsewhere: how many there may be (connections.py, acceptor.py), TLS and who is there (tls.py, authentication.py), what
is answered (controller_apis.py).
Source: Kafka 3.9 `SocketServer`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from migrator.controller.authorizer import ANONYMOUS, Asker
from migrator.controller.features import unknown_api_versions
from migrator.controller.requests import host_text
from migrator.findings.finding import FindingError
from migrator.http.said_once import SaidOnce
from migrator.node.listener.controller_apis import Caller, ControllerApis
from migrator.node.on_thread import on_thread
from migrator.node.transport.acceptor import Acceptor
from migrator.node.transport.authentication import (
    NOT_AUTHENTICATED_BYTES_MAX,
    AuthenticationStep,
    ConnectionAuthentication,
)
from migrator.node.transport.connections import ConnectionPlace, Connections
from migrator.node.transport.frame_limits import ON_THREAD_BYTES, SMALL_BYTES_MAX, refuse_key, refuse_size
from migrator.node.transport.security import ListenerSecurity
from migrator.node.transport.tls import server_context
from migrator.tls.renewal import RenewedContext
from migrator.wire.frames import (
    API_KEYS,
    API_VERSIONS,
    FRAME_BYTES_MAX,
    RequestHeader,
    decode_request_body,
    encode_response,
    read_frame_length,
    read_request_header,
)
from migrator.wire.messages.handshake import SaslAuthenticateRequest, SaslHandshakeRequest

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36

ENTER_WITHIN_S: Final = 30.0
"""A connection on which nobody has shown who they are ends after this time."""


class _NotEntered(Exception):
    """Somebody did not show who they are, or asks what is not read at all; the reason holds no secret."""


class _SilentForTooLong(Exception):
    """Nothing was asked on a connection for Kafka's connections.max.idle.ms."""


class ControllerServer:
    """Serves one listener."""

    def __init__(
        self,
        apis: ControllerApis,
        security: ListenerSecurity | None = None,
        connections: Connections | None = None,
        on_ended: Callable[[BaseException], None] = lambda error: None,
        *,
        request_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        """security: None for PLAINTEXT. Raises Z2K-3021 when its keys or certificates cannot be read.

        request_bytes_max: the largest request of anybody. on_ended: nothing is accepted any more, and nobody said so.
        """
        self._apis = apis
        self._security = security
        self._request_bytes_max = request_bytes_max
        self._tls = None if security is None else server_context(security)
        self._places = connections or Connections()
        self._acceptor = Acceptor(self._places, self._accept, on_ended)
        self._connections: set[asyncio.Task[None]] = set()
        self._refusals = SaidOnce("connection.refused")

    @property
    def certificates(self) -> RenewedContext | None:
        """What this listener shows and trusts; None without TLS."""
        return self._tls

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        return await self._acceptor.start(host, port)

    async def stop(self) -> None:
        """Close the listener and every connection."""
        await self._acceptor.stop()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # --- one connection ------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._tls is not None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # nothing is read before TLS reads it
        task = asyncio.create_task(self._serve_in_a_place(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve_in_a_place(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.current_task()
        assert serving is not None
        with self._places.place(serving.cancel) as place:
            await self._serve(reader, writer, place)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: ConnectionPlace) -> None:
        peer = writer.get_extra_info("peername")
        caller = Caller(asker=Asker(ANONYMOUS, host_text(peer[0]) if peer else ""))
        try:
            async with asyncio.timeout(ENTER_WITHIN_S):
                await self._enter(reader, writer, caller)
            while True:
                frame = await self._next_frame(reader, place, caller)
                self._places.has_asked(place)
                writer.write(await self._answer(frame, caller))
                await writer.drain()
        except ssl.SSLError as error:
            self._refused(peer, error, f"TLS: {error.reason or error}")
        except _NotEntered as error:
            self._refused(peer, error, str(error))
        except (asyncio.IncompleteReadError, ConnectionError, _SilentForTooLong):
            pass  # the peer is gone, or as good as gone
        except TimeoutError as error:
            self._refused(peer, error, f"not authenticated in {ENTER_WITHIN_S:.0f} s")
        except FindingError as error:
            self._refused(peer, error, str(error))
        finally:
            writer.close()

    def _refused(self, peer: Any, error: Exception, reason: str) -> None:
        """One line a minute of each host and kind of trouble."""
        host = str(peer[0]) if peer else ""
        self._refusals.say(f"{host} {type(error).__name__}", peer=str(peer), reason=reason)

    async def _next_frame(self, reader: asyncio.StreamReader, place: ConnectionPlace, caller: Caller) -> bytes:
        try:
            with self._places.silent(place):
                async with asyncio.timeout(self._places.idle_s):
                    return await self._read_request(reader, caller)
        except TimeoutError as error:
            raise _SilentForTooLong from error

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: Caller) -> None:
        """Return when this connection may ask anything."""
        if self._tls is not None:
            await writer.start_tls(await self._tls.on_loop(), ssl_handshake_timeout=ENTER_WITHIN_S)
        if self._security is None or self._security.sasl is None:
            return
        entry = ConnectionAuthentication(self._security.sasl, self._apis.find_credential)
        while entry.user is None:
            frame = await _read_frame(reader, NOT_AUTHENTICATED_BYTES_MAX)
            header = read_request_header(frame)
            if header.api_key == API_VERSIONS:
                writer.write(await self._answer(frame, caller))
                await writer.drain()
                continue
            step = _step(entry, header, frame)
            if step.refused is not None:
                await asyncio.sleep(self._security.failure_delay_ms / 1000)
            writer.write(encode_response(step.answer, header.api_version, correlation_id=header.correlation_id))
            await writer.drain()
            if step.refused is not None:
                raise _NotEntered(step.refused)
        caller.asker = Asker(f"User:{entry.user}", caller.asker.host)

    async def _read_request(self, reader: asyncio.StreamReader, caller: Caller) -> bytes:
        """A whole frame. What is too large for what it asks, or for who asks, is not read."""
        size = read_frame_length(await reader.readexactly(4), self._request_bytes_max)
        if size <= SMALL_BYTES_MAX:
            return await reader.readexactly(size)
        key = await reader.readexactly(2)
        number = int.from_bytes(key, "big", signed=True)
        refusal = refuse_size(number, size, caller.asker, self._apis.allows, self._request_bytes_max)
        if refusal is not None:
            raise _NotEntered(refusal)
        return key + await reader.readexactly(size - len(key))

    async def _answer(self, frame: bytes, caller: Caller) -> bytes:
        header = read_request_header(frame)
        refusal = refuse_key(header.api_key)
        if refusal is not None:
            raise _NotEntered(refusal)
        if not header.is_supported:
            return encode_response(unknown_api_versions(), 0, correlation_id=header.correlation_id)
        if len(frame) > ON_THREAD_BYTES:
            request = await on_thread(decode_request_body, header, frame)
        else:
            request = decode_request_body(header, frame)
        reply = await self._apis.answer(header, request, caller)
        return encode_response(reply, header.api_version, correlation_id=header.correlation_id)


async def _read_frame(reader: asyncio.StreamReader, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    size = read_frame_length(await reader.readexactly(4))
    if size > bytes_max:
        raise _NotEntered(f"a request of {size} bytes before it authenticated")
    return await reader.readexactly(size)


def _step(entry: ConnectionAuthentication, header: RequestHeader, frame: bytes) -> AuthenticationStep:
    """Anything but the two requests of SASL ends the connection without an answer, and is not even read."""
    if header.api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
        raise _NotEntered(f"{API_KEYS[header.api_key].name} before it authenticated")
    request = decode_request_body(header, frame)
    if isinstance(request, SaslHandshakeRequest):
        return entry.handshake(request, header.api_version)
    assert isinstance(request, SaslAuthenticateRequest), request
    return entry.authenticate(request)
