"""Kerberos logins: a ticket first, then the tokens of GSSAPI, by a process that speaks with the key server.

In:   a `KerberosLogin` (model.jaas), the host of a server. Out: tokens for the server; `TicketError`, in bounded time.
Elsewhere: what a JAAS file says (model.jaas), that process (program.py), who uses tokens (zk.kerberos,
node.transport.kerberos_side).
Rules: nothing of this process waits for a key server but who wants to log in, and that for `TICKET_S`. The environment
of this process stays as it is. A ticket that somebody gave is used once, so that none is ever too old.
Needs: the extra `kerberos` of this package, which is compiled against MIT's library.
Source: MIT krb5 1.20, `KRB5_CLIENT_KTNAME` (tickets are taken from that keytab where there are none).
"""

from __future__ import annotations

import asyncio
import base64
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from migrator.findings.finding import words_of
from migrator.model.jaas import KerberosLogin

TICKET_S: Final = 10.0
ANSWER_S: Final = 5.0
"""With a ticket nothing but arithmetic is left."""
END_S: Final = 5.0
PROGRAM: Final = Path(__file__).with_name("program.py")
IN_MEMORY: Final = "MEMORY:zk2kraft"
"""Tickets of a keytab live as long as the process of one login."""
GSSAPI: Final = "GSSAPI"
LINE_BYTES_MAX: Final = 1 << 20
"""A ticket that names many groups has tens of kilobytes."""


def why_unusable(login: KerberosLogin) -> tuple[str, str] | None:
    """What does not get better by itself: a file or principal, and the reason; None where nothing is wrong."""
    if find_spec("kerberos") is None:
        return f"principal {login.principal}", "the Python package kerberos is missing: install zk2kraft[kerberos]"
    for file in filter(None, (login.keytab, login.configuration)):
        try:
            Path(file).open("rb").close()
        except OSError as error:
            return file, error.strerror or words_of(error)
    return None


def _command(login: KerberosLogin, host: str) -> list[str]:
    isolated = "-I"  # the folder of the program is no place for libraries
    return [sys.executable, isolated, str(PROGRAM), login.service, host, login.principal]


def environment_for(login: KerberosLogin) -> Mapping[str, str]:
    """Where MIT's library finds its files."""
    found = {"KRB5_CONFIG": login.configuration} if login.configuration else {}
    if login.keytab:
        return {**found, "KRB5_CLIENT_KTNAME": f"FILE:{login.keytab}", "KRB5CCNAME": IN_MEMORY}
    if login.ticket_cache:
        return {**found, "KRB5CCNAME": login.ticket_cache}
    return found


class TicketError(OSError):
    """No ticket, or no way to go on with it. For whoever connects, trouble with the connection."""


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
        return _heard(self._line(within_s))

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
                raise TicketError(_late(within_s))
            part = os.read(file, 65_536)
            if not part:
                raise TicketError(f"its process ended with exit code {self._process.wait(END_S)}")
            self._read += part
        line, _, self._read = self._read.partition(b"\n")
        return line

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _heard(line: bytes) -> tuple[bytes, bool]:
    """A token, and whether it is the last one. Raises TicketError."""
    word, _, rest = line.decode(errors="replace").partition(" ")
    if word == "fault":
        raise TicketError(rest.strip())
    return base64.b64decode(rest), word == "done"


def _late(within_s: float) -> str:
    return f"no ticket within {within_s:.0f} s: the key server does not answer"


def _is_readable(descriptor: int, within_s: float) -> bool:
    """Also for a number of 1024 and more, which a controller with many connections has and `select` refuses;
    `poll` takes no descriptor of its own.
    """
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(within_s))


class Tickets:
    """The tickets of one session, for a thread: each is fetched before a connection and used up by its login."""

    def __init__(self, login: KerberosLogin) -> None:
        self._login = login
        self._words: _Words | None = None
        self._first = b""

    def ask(self, host: str) -> None:
        """A ticket for the server of this host. Raises TicketError."""
        self.end()
        self._words = _Words(_command(self._login, host), environment_for(self._login))
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


class LoopTicket:
    """One Kerberos login of a task: `first`, then `answer` until the last token, then `end`, whatever came of it."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._login = login
        self._host = host
        self._process: asyncio.subprocess.Process | None = None

    async def first(self) -> bytes:
        """Fetch a ticket for the server of this host, and give the first token. Raises TicketError."""
        self._process = await asyncio.create_subprocess_exec(
            *_command(self._login, self._host),
            env={**os.environ, **environment_for(self._login)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            limit=LINE_BYTES_MAX,
        )
        token, _ = await self._hear(self._process, TICKET_S)
        return token

    async def answer(self, challenge: bytes) -> tuple[bytes, bool]:
        """Give the next token, and whether it is the last one. Raises TicketError."""
        process = self._process
        assert process is not None, "no ticket was asked for"
        assert process.stdin is not None
        with suppress(OSError):  # of a process that has ended: the next line says so
            process.stdin.write(base64.b64encode(challenge) + b"\n")
            await process.stdin.drain()
        return await self._hear(process, ANSWER_S)

    async def _hear(self, process: asyncio.subprocess.Process, within_s: float) -> tuple[bytes, bool]:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(within_s):
                line = await process.stdout.readline()
                if not line:
                    raise TicketError(f"its process ended with exit code {await process.wait()}")
        except TimeoutError:
            raise TicketError(_late(within_s)) from None
        except ValueError:  # as a stream tells it
            raise TicketError(f"a ticket has more than {LINE_BYTES_MAX} bytes") from None
        return _heard(line)

    async def end(self) -> None:
        """End the process; it may have ended."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
