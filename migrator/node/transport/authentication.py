"""Who is there? The first requests on a connection of a SASL listener, from both ends.

In:   for who listens: requests in their order. For who connects: an open connection.
Out:  for who listens: `ConnectionAuthentication`, the answers until the client is authenticated. Before that, only
      ApiVersions, SaslHandshake and SaslAuthenticate are answered. For who connects: the conversation, done.
Elsewhere: the mechanisms (sasl.py, kerberos_side.py, oauth.py), TLS below all of it (tls.py), the connection
(listener/server.py, broker_client.py).
Source: Kafka 3.9 `SaslServerAuthenticator`, `SaslClientAuthenticator`. Left out: handshakes of version 0, whose tokens
have no headers (clients before 1.0), and re-authentication; a session has no end here, and says so (lifetime 0).
Sessions elsewhere may end (client_security.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from migrator.findings.finding import words_of
from migrator.findings.quorum import LOGIN_NOT_USABLE
from migrator.kerberos.tickets import why_unusable
from migrator.node.transport.kerberos_side import KerberosSide
from migrator.node.transport.oauth import OauthSide, TokenSource
from migrator.node.transport.sasl import (
    PLAIN,
    AtOnce,
    FindCredential,
    PlainClient,
    PlainServer,
    SaslRefused,
    ScramClient,
    ScramServer,
    ServerSide,
    TokenSide,
)
from migrator.node.transport.security import SaslSettings
from migrator.wire.messages.handshake import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from migrator.wire.schema import Message

ILLEGAL_SASL_STATE = 34
UNSUPPORTED_SASL_MECHANISM = 33
UNSUPPORTED_VERSION = 35
SASL_AUTHENTICATION_FAILED = 58

NOT_AUTHENTICATED_BYTES_MAX = 524_288
"""As stock's sasl.server.max.receive.size: who is not known yet gets no more memory than this."""


@dataclass(frozen=True, slots=True)
class AuthenticationStep:
    """What to answer; `refused` when the connection then ends, with a reason for the log that holds no secret."""

    answer: Message
    refused: str | None = None


class ConnectionAuthentication:
    """One connection's way in."""

    def __init__(self, sasl: SaslSettings, find: FindCredential) -> None:
        self._sasl = sasl
        self._find = find
        self._conversation: ServerSide | None = None
        self._mechanism = ""

    @property
    def user(self) -> str | None:
        """Who it is; None until that is shown."""
        return None if self._conversation is None else self._conversation.user

    def handshake(self, request: SaslHandshakeRequest, version: int) -> AuthenticationStep:
        enabled = self._sasl.enabled
        if self._conversation is not None:
            return AuthenticationStep(SaslHandshakeResponse(ILLEGAL_SASL_STATE, enabled), "a second SaslHandshake")
        if version < 1:
            return AuthenticationStep(SaslHandshakeResponse(UNSUPPORTED_VERSION, enabled), "SaslHandshake version 0")
        if request.mechanism not in enabled:
            reason = f"a SASL mechanism that is not enabled here (enabled: {', '.join(enabled)})"
            return AuthenticationStep(SaslHandshakeResponse(UNSUPPORTED_SASL_MECHANISM, enabled), reason)
        self._mechanism = request.mechanism
        self._conversation = self._begin(request.mechanism)
        return AuthenticationStep(SaslHandshakeResponse(0, enabled))

    def _begin(self, mechanism: str) -> ServerSide:
        if mechanism == PLAIN:
            return PlainServer(self._sasl.logins[mechanism].users)
        return ScramServer(mechanism, self._find, new_nonce())

    def authenticate(self, request: SaslAuthenticateRequest) -> AuthenticationStep:
        if self._conversation is None or self.user is not None:
            words = "SaslAuthenticate request received out of its order"
            return AuthenticationStep(SaslAuthenticateResponse(ILLEGAL_SASL_STATE, words), words)
        try:
            return AuthenticationStep(SaslAuthenticateResponse(0, None, self._conversation.answer(request.auth_bytes)))
        except SaslRefused as refused:
            answer = SaslAuthenticateResponse(SASL_AUTHENTICATION_FAILED, str(refused))
            return AuthenticationStep(answer, f"{self._mechanism}: {refused}")


BeginLogin = Callable[[str], TokenSide]
"""By the host that is connected to."""


def client_side(file: str, sasl: SaslSettings) -> BeginLogin:
    """How this node shows who it is, begun anew for each connection. Raises Z2K-3018, file naming what was read."""
    mechanism = sasl.mechanism
    assert mechanism is not None, "this node was not meant to connect to that listener"
    if (kerberos := sasl.kerberos) is not None:
        if (trouble := why_unusable(kerberos)) is not None:
            raise LOGIN_NOT_USABLE.error(file=file, mechanism=mechanism, reason=f"{trouble[0]}: {trouble[1]}")
        return lambda host: KerberosSide(kerberos, host)
    if sasl.oauth is not None:
        source = TokenSource(sasl.oauth)
        if sasl.oauth.file is not None:
            try:
                source.token_now()
            except OSError as error:
                raise LOGIN_NOT_USABLE.error(file=file, mechanism=mechanism, reason=words_of(error)) from None
        return lambda _: OauthSide(source)
    login = sasl.logins[mechanism]
    assert login.user is not None, f"no user for {mechanism}"
    assert login.password is not None, f"no password for {mechanism}"
    user, password = login.user, login.password
    if mechanism == PLAIN:
        return lambda _: AtOnce(PlainClient(user, password))
    return lambda _: AtOnce(ScramClient(mechanism, user, password, new_nonce()))


def new_nonce() -> str:
    return secrets.token_urlsafe(24)
