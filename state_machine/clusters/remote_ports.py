"""Control ports of controllers on other hosts: HTTPS by a certificate of the company's authority, and a token.

In:   `control_ca`, `control_certificate`, `control_key_password` and `control_token` of the service's settings.
Out:  a client for one request, and the token that goes with it. Raises FindingError when they cannot be used.
Elsewhere: what is asked (control.py), which hosts may be asked (bounds.py), the other side (node.process.control).
Rules: the token and the key's password are references, resolved when they are used. Certificates that were replaced on
disk hold from the next request on.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from migrator.findings.finding import words_of
from migrator.findings.service import SERVE_CONFIG
from migrator.fleet.secrets import resolve
from migrator.tls.contexts import TLS_VERSIONS, new_context, show, trust
from migrator.tls.renewal import RenewedContext, files_of
from migrator.tls.sources import PemSource


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
        self._access = access
        identity, trusted = PemSource("control_certificate", access.certificate), PemSource("control_ca", access.ca)
        self._identity, self._trusted = identity, trusted
        self._context = RenewedContext(self._make, files_of(identity, trusted))
        self._of = self._context.now()
        self._client = self._client_with(self._of)

    async def client(self) -> httpx.AsyncClient:
        context = await self._context.on_loop()
        if context is not self._of:
            before, self._of, self._client = self._client, context, self._client_with(context)
            await before.aclose()
        return self._client

    async def token(self) -> str:
        """Raises Z2K-7010."""
        return (await asyncio.to_thread(resolve, self._access.token)).reveal()

    async def close(self) -> None:
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
