"""A port of HTTP that nobody without a token can exhaust: how many connections, how much of a head, and how long.

In:   a bound socket, an ASGI application, the limits.
Out:  a uvicorn configuration and a listening socket for it. A connection that is too slow is closed without an answer;
      at the limit the one that has waited longest for its request makes room for the next.
Elsewhere: how much of a body is read (bounded_body.py), who may ask (node/process/control.py, api/rest/guard.py).
Why:  uvicorn has no time for a head or a body, and counts requests, not connections; a handshake is neither.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from migrator.http.said_once import SaidOnce

HEAD_BYTES_MAX: Final = 16_384
PART_OF_DESCRIPTORS: Final = 16
"""A port takes at most one in so many of the descriptors that the process may have, twice while it closes some."""
UNREAD_BYTES_MAX: Final = 65_536
"""What may still come of a body after its answer, before the connection is closed."""


@dataclass(frozen=True)
class PortLimits:
    """connections: at the same time. head_s, body_s: from its first moment to its end. drain_s: nothing is taken.

    code: of the finding whose page says what a line `http.closed` of this port means.
    """

    connections: int
    code: str
    head_s: float = 5.0
    body_s: float = 10.0
    drain_s: float = 30.0
    backlog: int = 16


class BoundedListener(socket.socket):
    """Accepts `most` connections. busy: descriptors of those whose whole request is being answered; they are not
    closed for another one."""

    def __init__(self, listening: socket.socket, most: int, closed: SaidOnce) -> None:
        """Takes over the descriptor of `listening`."""
        super().__init__(fileno=listening.detach())
        self.most = most
        self.busy: set[int] = set()
        self._closed = closed
        self._open: list[socket.socket] = []
        self._closing: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises BlockingIOError where there is none, or no place: asyncio asks again later."""
        accepted, address = super().accept()
        self._open = [each for each in self._open if each.fileno() != -1]
        self._closing = [each for each in self._closing if each.fileno() != -1]
        if len(self._open) >= self.most and not self._make_room():
            accepted.close()
            self.said(address, f"all {self.most} connections of this port are taken")
            raise BlockingIOError
        self._open.append(accepted)
        return accepted, address

    def said(self, peer: Any, reason: str) -> None:
        """A connection was closed, and why. peer: its address as the socket has it; None where that is not known."""
        address = "" if peer is None else str(peer[0])
        self._closed.say(address, peer=address, reason=reason)

    def _make_room(self) -> bool:
        """Close the oldest that waits for a request. Its transport closes the descriptor when it sees the end."""
        waiting = next((each for each in self._open if each.fileno() not in self.busy), None)
        if waiting is None or len(self._closing) >= self.most:
            return False
        try:
            self.said(waiting.getpeername(), f"all {self.most} connections of this port are taken")
            waiting.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended by itself
        self._open.remove(waiting)
        self._closing.append(waiting)
        return True


class BoundedProtocol(H11Protocol):
    """uvicorn's, with a clock over each part of a request."""

    def __init__(self, *arguments: Any, limits: PortLimits, listener: BoundedListener, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._listener = listener
        self._clock: asyncio.TimerHandle | None = None
        self._write_clock: asyncio.TimerHandle | None = None
        self._part = ""
        self._descriptor = -1
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._listener.busy.discard(self._descriptor)
        self._time("head", self._limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.busy.discard(self._descriptor)
        self._time("", None)
        self._time_writing(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._part == "":
            self._time("head", self._limits.head_s)
        if self._answered and self._part == "body":
            self._unread += len(data)
            if self._unread > UNREAD_BYTES_MAX:
                self._end("a body that nobody reads")
                return
        super().data_received(data)
        if not self.transport.is_closing():
            self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._listener.busy.discard(self._descriptor)  # it waits for its peer
        self._time_writing(self._limits.drain_s)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._time_writing(None)
        self._follow()

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _follow(self) -> None:
        """The clock of the part that the request is in. Between requests there is uvicorn's keep-alive."""
        answered = self._answered
        if answered or self.conn.their_state is h11.SEND_BODY or self._write_clock is not None:
            self._listener.busy.discard(self._descriptor)
        else:
            self._listener.busy.add(self._descriptor)
        if self.conn.their_state is h11.SEND_BODY:
            if self._part != "body":
                self._unread = 0
                self._time("body", self._limits.body_s)
        elif not answered:
            self._time("answer", None)
        elif self._part != "head":
            self._time("", None)

    def _time(self, part: str, seconds: float | None) -> None:
        if self._clock is not None:
            self._clock.cancel()
        self._part = part
        self._clock = None if seconds is None else self.loop.call_later(seconds, self._end, f"its {part} is too slow")

    def _time_writing(self, seconds: float | None) -> None:
        if self._write_clock is not None:
            self._write_clock.cancel()
        end = "it does not take its answer"
        self._write_clock = None if seconds is None else self.loop.call_later(seconds, self._end, end)

    def _end(self, reason: str) -> None:
        self._listener.said(self.client, reason)
        self.transport.abort()


def bounded(
    app: Any, listening: socket.socket, limits: PortLimits, **options: Any
) -> tuple[uvicorn.Config, BoundedListener]:
    """Serve the configuration on the listener that is returned: `Server(config).serve([listener])`.

    options: of uvicorn's configuration. The number of connections is smaller where the process has few descriptors.
    There are no web sockets: they would leave all of this behind.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = (
        limits.connections if soft == resource.RLIM_INFINITY else min(limits.connections, soft // PART_OF_DESCRIPTORS)
    )
    listener = BoundedListener(listening, max(1, most), SaidOnce("http.closed", code=limits.code))
    protocol: Any = partial(BoundedProtocol, limits=limits, listener=listener)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        backlog=limits.backlog,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        **options,
    )
    return config, listener
