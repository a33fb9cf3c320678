"""What becomes of the logins of one session: each that fails is one more lost connection.

In:   kazoo's client. Out: the fault of the latest login, empty after one that was taken; who ZooKeeper takes it for.
Elsewhere: who logs in (login.py), Kerberos (kerberos.py, kerberos.tickets).
kazoo alone takes a server that goes away in the middle of a login for one that refuses it, forgets its session and
never connects again. ZooKeeper also closes a connection as its way to refuse, so both are tried again, as by brokers.
Source: kazoo 2.11 `ConnectionHandler._authenticate_with_sasl`; Kafka 3.9 `ZooKeeperClient` (after AuthFailed it begins
again after a second); ZooKeeper's client protocol, operation 107, servers from 3.7 on.
"""

from __future__ import annotations

import struct
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped

from migrator.findings.finding import words_of
from migrator.kerberos.tickets import Tickets

BROKEN_OFF = "ZooKeeper closed the connection at the login: it refuses it, or went away"
REFUSED = "ZooKeeper refuses the login"


class Logins:
    """fault: of the latest one, for a person."""

    def __init__(self, tickets: Tickets | None) -> None:
        self.fault = ""
        self._tickets = tickets

    def attach(self, client: KazooClient) -> None:
        """Take part in each login and each connection of this client from now on."""
        log_in, connect = client._connection._authenticate_with_sasl, client.handler.create_connection

        def authenticate(host: str, timeout: float) -> None:
            try:
                log_in(host, timeout)
            except Exception as error:
                self.fault = _fault_of(error)
                raise ConnectionDropped(self.fault) from error
            self.fault = ""

        def create_connection(*places: Any, hostname: str | None = None, **options: Any) -> Any:
            if self._tickets is not None:
                try:
                    self._tickets.ask(hostname or options["address"][0])
                except Exception as error:  # whatever it is, the next attempt begins anew
                    self.fault = f"no Kerberos ticket: {words_of(error)}"
                    raise ConnectionDropped(self.fault) from error
            try:
                return connect(*places, hostname=hostname, **options)
            except OSError:
                self.fault = ""  # of an earlier login: the trouble of now is another one
                raise

        client._connection._authenticate_with_sasl = authenticate
        client.handler.create_connection = create_connection


class WhoAmI:
    """The request; its answer is pairs of scheme and name, one for each way in which this session is known."""

    type = 107

    def serialize(self) -> bytes:
        return b""

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> frozenset[tuple[str, str]]:
        def number() -> int:
            nonlocal offset
            offset += 4
            return int(_INT.unpack_from(buffer, offset - 4)[0])

        def text() -> str:
            nonlocal offset
            length = max(0, number())
            offset += length
            return buffer[offset - length : offset].decode(errors="replace")

        return frozenset((text(), text()) for _ in range(number()))


_INT = struct.Struct(">i")


def _fault_of(error: Exception) -> str:
    if not isinstance(error, AuthFailedError):
        return f"the login failed: {words_of(error)}"
    if isinstance(error.__cause__, ConnectionDropped):
        return BROKEN_OFF
    return REFUSED if error.__cause__ is None else f"the login failed: {words_of(error.__cause__)}"
