"""Control ports of controllers on other hosts: HTTPS by a certificate of the company's authority, and a token.

In:   `control_ca`, `control_certificate`, `control_key_password` and `control_token` of the service's settings.
Out:  a client for one request, and the token that goes with it. Raises FindingError when they cannot be used.
Elsewhere: what is asked (control.py), which hosts may be asked (bounds.py), the other side (node.process.control).
Rules: the token and the key's password are references, resolved when they are used. Certificates that were replaced on
disk hold from the next request on.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import structlog

from migrator.control_api.control_file import NO_TOKEN, TOKEN
from migrator.findings.finding import FindingError, words_of
from migrator.findings.fleet import SECRET_NOT_RESOLVED
from migrator.findings.service import SERVE_CONFIG
from migrator.fleet.secrets import is_reference, resolve
from migrator.tls.contexts import TLS_VERSIONS, new_context, show, trust
from migrator.tls.renewal import LOOK_EVERY_S, RenewedContext, files_of
from migrator.tls.sources import PemSource

log = structlog.get_logger()

CONNECT_S: Final = 2.0


def accepts(control: str) -> bool:
    """Whether anybody accepts connections at https://HOST:PORT. Blocks; nothing is sent.

    Raises OSError where nobody can tell: the host is down, or the network is, or the name is not known.
    """
    parts = urlsplit(control)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), CONNECT_S).close()
    except ConnectionRefusedError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """certificate: PEM with key and chain. key_password: a reference, empty for a key without one. token: a reference.

    file: the service's configuration, for messages.
    """

    ca: Path
    certificate: Path
    token: str
    key_password: str = ""
    file: str = "the configuration"


class RemotePorts:
    """One client at a time, made anew with the certificates."""

    def __init__(self, access: RemoteAccess) -> None:
        """Raises Z2K-4001 or Z2K-7010 when certificate, password or authority cannot be read."""
        if not is_reference(access.token):
            reason = "it is not file:/PATH, exec:/COMMAND or systemd:NAME"
            raise SERVE_CONFIG.error(file=access.file, key="control_token", reason=reason)
        self._access = access
        self._token: str | None = None
        self._token_read_at = 0.0
        self._reading = asyncio.Lock()
        self._ended: list[asyncio.Task[None]] = []
        identity, trusted = PemSource("control_certificate", access.certificate), PemSource("control_ca", access.ca)
        self._identity, self._trusted = identity, trusted
        self._context = RenewedContext(self._make, files_of(identity, trusted))
        self._of = self._context.now()
        self._client = self._client_with(self._of)

    async def client(self) -> httpx.AsyncClient:
        context = await self._context.on_loop()
        if context is not self._of:
            self._ended.append(asyncio.create_task(self._close_later(self._client)))
            self._of, self._client = context, self._client_with(context)
        return self._client

    async def _close_later(self, client: httpx.AsyncClient) -> None:
        """Requests that are under way get their answers."""
        try:
            await asyncio.sleep(LOOK_EVERY_S)
        finally:
            await client.aclose()

    async def token(self) -> str:
        """Kept for a moment, as a reference may be a program; and while it cannot be read again, until it is refused.

        Raises Z2K-7010.
        """
        async with self._reading:
            if self._token is None or time.monotonic() - self._token_read_at >= LOOK_EVERY_S:
                try:
                    self._token = await asyncio.to_thread(self._read_token)
                except FindingError as error:
                    if self._token is None:
                        raise
                    log.warning("control_token.not_read_again", code=error.code, says=error.occurrence.text)
                self._token_read_at = time.monotonic()
            return self._token

    def forget_token(self) -> None:
        """A controller did not take it: it may have been replaced."""
        self._token = None

    def _read_token(self) -> str:
        text = resolve(self._access.token).reveal()
        if TOKEN.fullmatch(text) is None:
            raise SECRET_NOT_RESOLVED.error(reference=self._access.token.split(" ", 1)[0], reason=NO_TOKEN)
        return text

    async def close(self) -> None:
        for each in self._ended:
            each.cancel()
        await asyncio.gather(*self._ended, return_exceptions=True)
        await self._client.aclose()

    def _client_with(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=context, trust_env=False)

    def _make(self) -> ssl.SSLContext:
        context = new_context(ssl.PROTOCOL_TLS_CLIENT, TLS_VERSIONS)
        password = resolve(self._access.key_password).reveal() if self._access.key_password else None
        with self._refused(self._identity.key):
            show(context, self._identity, password)
        with self._refused(self._trusted.key):
            trust(context, self._trusted)
        return context

    @contextmanager
    def _refused(self, key: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise SERVE_CONFIG.error(file=self._access.file, key=key, reason=words_of(error)) from None
