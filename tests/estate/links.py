"""The service's way to each host: every byte is seen, and cut where a fault says so.

In:   hosts, and for the next connection at most one `Cut`. Out: an address per host for ssh; what went over it.
Elsewhere: which calls are cut (faults.py), the hosts themselves (hosts.py).
Rules: a link is TCP in both directions, on a thread of its own. A cut is a reset on both sides, as a firewall's restart
or a dead bastion leaves it. Data centres are unequally far away: each chunk of bytes is delayed here, since not every
kernel has netem.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.estate.hosts import Host

DELAY_S: Final = (0.0, 0.002)
"""One way, by data centre."""
CONNECT_S: Final = 0.5
CHUNK: Final = 65_536
RESET: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Cut:
    """What happens to a connection once `after_bytes` went in one direction.

    to_host: the direction that counts. then: what happens at that moment, on the links' thread. resets: the connection
    is reset. hangs: nothing more is carried, and nobody is told. refuses: it is closed before its first byte.
    """

    to_host: bool
    after_bytes: int
    then: Callable[[], None] = lambda: None
    resets: bool = True
    hangs: bool = False
    refuses: bool = False
    happened: bool = False


@dataclass(slots=True)
class Link:
    host: Host
    cut: Cut | None = None
    bytes_to_host: int = 0
    bytes_from_host: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def address(self) -> str:
        """Where the service believes the host to be."""
        return f"10.98.{self.host.data_centre}.{self.host.number}"

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut, self.cut = self.cut, None
        writers = [writer]
        self._open.add(writer)
        self.bytes_to_host = self.bytes_from_host = 0
        try:
            if cut is not None and cut.refuses:
                cut.happened = True
                cut.then()
                return
            if not self.host.linked or not self.host.on:
                return
            way = asyncio.open_connection(self.host.address, 22)
            from_host, to_host = await asyncio.wait_for(way, CONNECT_S)
            self._open.add(to_host)
            writers.append(to_host)
            there = asyncio.create_task(self._pump(reader, to_host, cut, to_host=True))
            back = asyncio.create_task(self._pump(from_host, writer, cut, to_host=False))
            await asyncio.gather(there, back)
            for each in writers:
                each.close()
            await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        finally:
            for each in writers:
                if not each.is_closing():
                    _reset(each)
                self._open.discard(each)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: Cut | None, *, to_host: bool
    ) -> None:
        delay, carried = DELAY_S[self.host.data_centre], 0
        while chunk := await reader.read(CHUNK):
            left = None if cut is None or cut.to_host is not to_host else cut.after_bytes - carried
            if cut is not None and left is not None and len(chunk) >= left and not cut.happened:
                writer.write(chunk[:left])
                with suppress(OSError):
                    await writer.drain()
                cut.happened = True
                cut.then()
                if cut.hangs:
                    await asyncio.Event().wait()
                if cut.resets:
                    raise ConnectionResetError
                chunk = chunk[left:]
            carried += len(chunk)
            if to_host:
                self.bytes_to_host = carried
            else:
                self.bytes_from_host = carried
            if delay:
                await asyncio.sleep(delay)
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()

    def drop_all(self) -> None:
        """What is under way ends, as when a host dies. On the links' thread."""
        for each in list(self._open):
            _reset(each)


class Links:
    """All of them, on one thread."""

    def __init__(self, hosts: tuple[Host, ...]) -> None:
        self.by_name = {each.name: Link(each) for each in hosts}
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._thread.start()
        for each in self.by_name.values():
            self._servers.append(asyncio.run_coroutine_threadsafe(_listen(each), self._loop).result())

    def drop(self, host: Host) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self.by_name[host.name].drop_all)


async def _listen(link: Link) -> asyncio.Server:
    return await asyncio.start_server(link.carry, link.address, 22)


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
