"""How this node opens connections to one kind of peer: plainly, or with TLS, with SASL, with both.

In:   a `ListenerSecurity`, read once at the start; its keys and certificates are followed on disk.
Out:  `ClientSecurity.open`: a connection on which the next bytes are requests. Raises OSError or TimeoutError.
Elsewhere: what is then asked (broker_client.py); the other end of it (listener/server.py).
Source: Kafka 3.9 `SaslClientAuthenticator`; SaslHandshake 1 and SaslAuthenticate 2, which every Kafka that can be
migrated has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import FindingError
from migrator.node.transport.authentication import client_side
from migrator.node.transport.connections import keep_alive
from migrator.node.transport.sasl import ClientSide, SaslRefused
from migrator.node.transport.security import ListenerSecurity
from migrator.node.transport.tls import client_context
from migrator.tls.renewal import RenewedContext
from migrator.wire.frames import decode_response, encode_request, read_frame_length
from migrator.wire.generate import SomeMessage
from migrator.wire.messages.handshake import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from migrator.wire.schema import Message

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
TOKENS_MAX: Final = 4
"""SCRAM takes two; a server that wants more of them speaks something else."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """context: None without TLS. mechanism, begin: None without SASL."""

    context: RenewedContext | None = None
    mechanism: str | None = None
    begin: Callable[[], ClientSide] | None = None

    async def open(self, host: str, port: int, client_id: str) -> Connection:
        """Raises OSError also for a host that is no name: to whoever asks, it is one that cannot be reached."""
        context = None if self.context is None else await self.context.on_loop()
        try:
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except (ValueError, OverflowError) as error:
            raise OSError(f"{host!r}:{port} is no address: {error}") from error
        connection = writer.get_extra_info("socket")
        if connection is not None:
            keep_alive(connection)
        try:
            if self.begin is not None:
                await self._authenticate(reader, writer, self.begin(), client_id)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: ClientSide, client_id: str
    ) -> None:
        assert self.mechanism is not None

        async def ask(request: Message, version: int, response: type[SomeMessage], number: int) -> SomeMessage:
            writer.write(encode_request(request, version, correlation_id=number, client_id=client_id))
            await writer.drain()
            frame = await reader.readexactly(read_frame_length(await reader.readexactly(4)))
            return decode_response(response, version, frame)[1]

        try:
            hello = SaslHandshakeRequest(self.mechanism)
            offered = await ask(hello, HANDSHAKE_VERSION, SaslHandshakeResponse, 0)
            if offered.error_code:
                names = ", ".join(offered.mechanisms)
                raise OSError(f"it does not take {self.mechanism} (error {offered.error_code}; it takes {names})")
            token: bytes | None = side.first()
            for number in range(1, TOKENS_MAX + 1):
                if token is None:
                    return
                request = SaslAuthenticateRequest(token)
                answer = await ask(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse, number)
                if answer.error_code:
                    raise OSError(f"it refused our login (error {answer.error_code}: {answer.error_message})")
                token = side.answer(answer.auth_bytes)
        except (FindingError, SaslRefused) as error:
            raise OSError(f"SASL {self.mechanism}: {error}") from error
        if token is not None:
            raise OSError(f"SASL {self.mechanism} did not come to an end after {TOKENS_MAX} tokens")


PLAINTEXT: Final = ClientSecurity()


def client_security(security: ListenerSecurity | None) -> ClientSecurity:
    """None: a listener that is PLAINTEXT. Raises Z2K-3021 when a key or certificate cannot be read."""
    if security is None:
        return PLAINTEXT
    sasl = security.sasl
    return ClientSecurity(
        client_context(security),
        None if sasl is None else sasl.mechanism,
        None if sasl is None else client_side(sasl),
    )
