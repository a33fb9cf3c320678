"""GSSAPI towards brokers and stock controllers: a Kerberos login as a `TokenSide`.

In:   a `KerberosLogin` and the host that is connected to. Out: tokens; OSError that says what the key server says.
Elsewhere: tickets, and the process that fetches them (kerberos.tickets), what a JAAS line says (security.py,
model.jaas).
Rules: each login fetches its tickets, so that none is too old however long this process runs. A ticket cache is kept
fresh by somebody else. At most `AT_ONCE` tickets of one event loop are fetched at the same time; who waits for a server
that is silent keeps nobody else from one.
Source: RFC 4752; Kafka 3.9 `SaslClientAuthenticator` (the authorization id is the own principal, no security layer),
`KerberosLogin` (the name of the service).
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

from migrator.findings.finding import words_of
from migrator.kerberos.tickets import LoopTicket, TicketError
from migrator.model.jaas import KerberosLogin

AT_ONCE: Final = 8

_PLACES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()
"""By event loop, to which a semaphore belongs; tools of this process run several loops, one after the other."""


class KerberosSide:
    """One login to the server of a host."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._ticket = LoopTicket(login, host)
        self._has_said_all = False

    async def first(self) -> bytes:
        places = _PLACES.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
        async with places:
            try:
                return await self._ticket.first()
            except TicketError as error:
                raise OSError(f"no Kerberos ticket: {words_of(error)}") from error

    async def answer(self, token: bytes) -> bytes | None:
        if self._has_said_all:
            return None
        said, self._has_said_all = await self._ticket.answer(token)
        return said

    async def end(self) -> None:
        await self._ticket.end()
