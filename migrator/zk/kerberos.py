"""Kerberos logins to ZooKeeper: GSSAPI as kazoo wants it.

In:   a `KerberosLogin`. Out: the SASL options of a session. Raises Z2K-1092.
Elsewhere: what a JAAS file says (login.py, model.jaas), tickets and tokens (kerberos.tickets), what becomes of a login
(logins.py).
Rule: a ticket is fetched by the thread that connects, before a connection is open.
"""

from __future__ import annotations

from typing import Any

from puresasl import mechanisms as sasl

from migrator.findings.preflight import ZOOKEEPER_LOGIN_UNUSABLE
from migrator.kerberos.tickets import GSSAPI, Tickets, why_unusable
from migrator.model.jaas import KerberosLogin


def refuse_unusable(login: KerberosLogin) -> None:
    """Raises Z2K-1092 for what does not get better by itself."""
    found = why_unusable(login)
    if found is not None:
        file, reason = found
        raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=file, reason=reason)


def sasl_options(login: KerberosLogin, tickets: Tickets) -> dict[str, Any]:
    """The SASL options for kazoo; its mechanism for Kerberos is replaced by ours."""
    sasl.mechanisms[GSSAPI] = _Gssapi
    return {"mechanism": GSSAPI, "service": login.service, "tickets": tickets}


class _Gssapi(sasl.Mechanism):  # type: ignore[misc]  # it has no types
    name = GSSAPI

    def __init__(self, client: Any, tickets: Tickets, **options: Any) -> None:
        super().__init__(client, **options)
        self._tickets = tickets

    def process(self, challenge: bytes | None = None) -> bytes:
        token, self.complete = self._tickets.answer(challenge)
        return token

    def dispose(self) -> None:
        self._tickets.end()
