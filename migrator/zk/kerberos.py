"""Kerberos logins to ZooKeeper: a ticket first, then a connection.

In:   a `KerberosLogin` (login.py). Out: GSSAPI as kazoo wants it, by a process that speaks with the key server.
Elsewhere: what a JAAS file says (login.py), that process (kerberos_login.py), what becomes of a login (logins.py).
Rules: nothing of this process waits for a key server but the thread that connects, and that for `TICKET_S`, while no
connection is open. The environment of this process stays as it is.
Needs: the extra `kerberos` of this package, which is compiled against MIT's library.
Source: MIT krb5 1.20, `KRB5_CLIENT_KTNAME` (tickets are taken from that keytab where there are none).
"""

from __future__ import annotations

import base64
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from puresasl import mechanisms as sasl

from migrator.findings.finding import words_of
from migrator.findings.preflight import ZOOKEEPER_LOGIN_UNUSABLE
from migrator.zk.login import KerberosLogin

TICKET_S: Final = 10.0
ANSWER_S: Final = 5.0
"""With a ticket nothing but arithmetic is left."""
END_S: Final = 5.0
PROGRAM: Final = Path(__file__).with_name("kerberos_login.py")
IN_MEMORY: Final = "MEMORY:zk2kraft"
"""Tickets of a keytab live as long as the process of one login."""
MECHANISM: Final = "GSSAPI"


def refuse_unusable(login: KerberosLogin) -> None:
    """Raises Z2K-1092 for what does not get better by itself."""
    if find_spec("kerberos") is None:
        reason = "the Python package kerberos is missing: install zk2kraft[kerberos]"
        raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=f"principal {login.principal}", reason=reason)
    for file in filter(None, (login.keytab, login.configuration)):
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise ZOOKEEPER_LOGIN_UNUSABLE.error(file=file, reason=error.strerror or error) from error


def environment_for(login: KerberosLogin) -> Mapping[str, str]:
    """Where MIT's library finds its files."""
    found = {"KRB5_CONFIG": login.configuration} if login.configuration else {}
    if login.keytab:
        return {**found, "KRB5_CLIENT_KTNAME": f"FILE:{login.keytab}", "KRB5CCNAME": IN_MEMORY}
    if login.ticket_cache:
        return {**found, "KRB5CCNAME": login.ticket_cache}
    return found


class TicketError(OSError):
    """No ticket, or no way to go on with it. For kazoo, trouble with the connection."""


class _Words:
    """What one process says, word by word. It is ended when it is late, and at the end."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._read = b""

    def hear(self, within_s: float) -> tuple[bytes, bool]:
        """The next token, and whether it is the last one. Raises TicketError."""
        word, _, rest = self._line(within_s).decode(errors="replace").partition(" ")
        if word == "fault":
            raise TicketError(rest.strip())
        return base64.b64decode(rest), word == "done"

    def say(self, challenge: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(base64.b64encode(challenge) + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise TicketError(f"the login has ended: {words_of(error)}") from error

    def _line(self, within_s: float) -> bytes:
        assert self._process.stdout is not None
        file, ends = self._process.stdout.fileno(), time.monotonic() + within_s
        while b"\n" not in self._read:
            left = ends - time.monotonic()
            if left <= 0 or not _is_readable(file, left):
                raise TicketError(f"no ticket within {within_s:.0f} s: the key server does not answer")
            part = os.read(file, 65_536)
            if not part:
                raise TicketError(f"its process ended with exit code {self._process.wait(END_S)}")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _is_readable(descriptor: int, within_s: float) -> bool:
    """Also for a number of 1024 and more, which a controller with many connections has and `select` refuses;
    `poll` takes no descriptor of its own.
    """
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(within_s))


class Tickets:
    """The Kerberos tickets of one session: each is fetched before a connection and used up by its login."""

    def __init__(self, login: KerberosLogin) -> None:
        self._login = login
        self._words: _Words | None = None
        self._first = b""

    def options(self) -> dict[str, Any]:
        """The SASL options for kazoo; its mechanism for Kerberos is replaced by ours."""
        sasl.mechanisms[MECHANISM] = _Gssapi
        return {"mechanism": MECHANISM, "service": self._login.service, "tickets": self}

    def ask(self, host: str) -> None:
        """A ticket for the server of this host. Raises TicketError."""
        self.end()
        isolated = "-I"  # modules of this folder have names of libraries
        command = [sys.executable, isolated, str(PROGRAM), self._login.service, host, self._login.principal]
        self._words = _Words(command, environment_for(self._login))
        try:
            self._first, _ = self._words.hear(TICKET_S)
        except BaseException:
            self.end()
            raise

    def answer(self, challenge: bytes | None) -> tuple[bytes, bool]:
        """The next token of the login, and whether it is the last one. challenge: None at its begin."""
        if self._words is None:
            raise TicketError("no ticket was asked for")
        if challenge is None:
            return self._first, False
        self._words.say(challenge)
        return self._words.hear(ANSWER_S)

    def end(self) -> None:
        words, self._words = self._words, None
        if words is not None:
            words.end()


class _Gssapi(sasl.Mechanism):  # type: ignore[misc]  # it has no types
    name = MECHANISM

    def __init__(self, client: Any, tickets: Tickets, **options: Any) -> None:
        super().__init__(client, **options)
        self._tickets = tickets

    def process(self, challenge: bytes | None = None) -> bytes:
        token, self.complete = self._tickets.answer(challenge)
        return token

    def dispose(self) -> None:
        self._tickets.end()
