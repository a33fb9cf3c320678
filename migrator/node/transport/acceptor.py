"""Accepts connections, one at a time, as long as there is room for them.

In:   host and port; where there is room (connections.py).
Out:  a reader and a writer for each connection.
Elsewhere: what is said on it (listener/server.py).
asyncio's own server takes a hundred connections at once before anybody can refuse one, and with no descriptor left it
stops for a second: the log would have lacked its own by then.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

from migrator.node.transport.connections import Connections, keep_alive

BACKLOG: Final = 128
READ_BYTES: Final = 1 << 20
ACCEPT_AGAIN_S: Final = 0.1
"""With no descriptor left, those who wait to be accepted wait so long for the next try."""

Accepted = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


class Acceptor:
    """One listener. accepted: is called on the loop for each connection. on_ended: it ended without being told to."""

    def __init__(self, connections: Connections, accepted: Accepted, on_ended: Callable[[BaseException], None]) -> None:
        self._connections = connections
        self._accepted = accepted
        self._on_ended = on_ended
        self._tasks: list[asyncio.Task[None]] = []
        self._sockets: list[socket.socket] = []
        self._is_stopping = False

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises OSError."""
        self._sockets = await _bound(host, port)
        for listening in self._sockets:
            task = asyncio.create_task(self._accept_for_ever(listening), name="accept")
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listening in self._sockets:
            listening.close()
        self._sockets = []

    async def _accept_for_ever(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    self._connections.no_descriptor()
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            if self._connections.has_room():
                await self._take(loop, connection)
            else:
                connection.close()

    async def _take(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        reader = asyncio.StreamReader(limit=READ_BYTES, loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, self._accepted, loop=loop)
        try:
            keep_alive(connection)
            await loop.connect_accepted_socket(lambda: protocol, connection)
        except OSError:  # its peer is gone already
            connection.close()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._is_stopping:
            error = None if task.cancelled() else task.exception()
            self._on_ended(error or RuntimeError("a listener was ended"))


_NOT_OURS: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})
"""The connection failed before it was accepted, and not for want of anything here."""


async def _bound(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host; all addresses of this machine when it is empty."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    trouble: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            sockets.append(_listening(family, kind, protocol, address))
        except OSError as error:
            trouble = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # a machine without IPv6 names it too
                break
    if trouble is not None and (not sockets or trouble.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)):
        for each in sockets:
            each.close()
        raise OSError(trouble.errno, f"cannot listen on {host or '*'}:{port}: {trouble.strerror}") from trouble
    return sockets


def _listening(family: int, kind: int, protocol: int, address: object) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)  # type: ignore[arg-type]  # as getaddrinfo gave it
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
