"""How this node opens connections to one kind of peer: plainly, or with TLS, with SASL, with both.

In:   a `ListenerSecurity`, read once at the start; its keys and certificates are followed on disk.
Out:  `ClientSecurity.open`: a connection on which the next bytes are requests. Raises OSError or TimeoutError.
Rule: a session that the server ends (`connections.max.reauth.ms`, or the end of a token) is not gone on with after
`SESSION_SHARE` of it: who uses the connection opens another one, which logs in anew (broker_client.py).
Elsewhere: what is then asked (broker_client.py); the other end of it (listener/server.py).
Source: Kafka 3.9 `SaslClientAuthenticator`; SaslHandshake 1 and SaslAuthenticate 2, which every Kafka that can be
migrated has.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple

from migrator.findings.finding import FindingError
from migrator.kerberos.tickets import TICKET_S
from migrator.node.transport.authentication import BeginLogin, client_side
from migrator.node.transport.connections import keep_alive
from migrator.node.transport.oauth import ENDPOINT_S
from migrator.node.transport.sasl import GSSAPI, OAUTHBEARER, SaslRefused, TokenSide
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

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2
TOKENS_MAX: Final = 4
"""SCRAM takes two, GSSAPI three; a server that wants more of them speaks something else."""
SESSION_SHARE: Final = 0.85
"""As Kafka's clients, which authenticate again after 85 to 95 % of a session."""
WAITS_S: Final = {GSSAPI: TICKET_S, OAUTHBEARER: ENDPOINT_S}
"""How long somebody else may take for what a login needs."""


class OpenedConnection(NamedTuple):
    """ends_at: by `time.monotonic`, when it has to be opened anew; None: never."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ends_at: float | None


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """context: None without TLS. mechanism, begin: None without SASL."""

    context: RenewedContext | None = None
    mechanism: str | None = None
    begin: BeginLogin | None = None

    @property
    def waits_s(self) -> float:
        """How much longer than for the server alone an opening may take."""
        return WAITS_S.get(self.mechanism or "", 0.0)

    async def open(self, host: str, port: int, client_id: str) -> OpenedConnection:
        """Raises OSError also for a host that is no name: to whoever asks, it is one that cannot be reached."""
        context = None if self.context is None else await self.context.on_loop()
        try:
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
        except (ValueError, OverflowError) as error:
            raise OSError(f"{host!r}:{port} is no address: {error}") from error
        connection = writer.get_extra_info("socket")
        if connection is not None:
            keep_alive(connection)
        ends_at = None
        try:
            if self.begin is not None:
                side = self.begin(host)
                try:
                    lifetime_ms = await self._authenticate(reader, writer, side, client_id)
                finally:
                    await side.end()
                if lifetime_ms > 0:
                    ends_at = monotonic() + lifetime_ms / 1000 * SESSION_SHARE
        except BaseException:
            writer.close()
            raise
        return OpenedConnection(reader, writer, ends_at)

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: TokenSide, client_id: str
    ) -> int:
        """Returns how long the session lasts, in milliseconds; 0: for ever."""
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
            token: bytes | None = await side.first()
            lifetime_ms = 0
            for number in range(1, TOKENS_MAX + 1):
                if token is None:
                    break
                request = SaslAuthenticateRequest(token)
                answer = await ask(request, AUTHENTICATE_VERSION, SaslAuthenticateResponse, number)
                if answer.error_code:
                    raise OSError(f"it refused our login (error {answer.error_code}: {answer.error_message})")
                lifetime_ms = answer.session_lifetime_ms
                token = await side.answer(answer.auth_bytes)
        except (FindingError, SaslRefused) as error:
            raise OSError(f"SASL {self.mechanism}: {error}") from error
        if token is not None:
            raise OSError(f"SASL {self.mechanism} did not come to an end after {TOKENS_MAX} tokens")
        return lifetime_ms


PLAINTEXT: Final = ClientSecurity()


def client_security(security: ListenerSecurity | None) -> ClientSecurity:
    """None: a listener that is PLAINTEXT.

    Raises Z2K-3021 when a key or certificate cannot be read, Z2K-3018 when a keytab or token cannot, or when the extra
    for GSSAPI is not installed.
    """
    if security is None:
        return PLAINTEXT
    sasl = security.sasl
    return ClientSecurity(
        client_context(security),
        None if sasl is None else sasl.mechanism,
        None if sasl is None else client_side(security.file, sasl),
    )
