"""A body is read no further than its limit, whoever sends it.

In:   an ASGI application, how many bytes a body of this request may have, what answers 413.
Out:  the application. Where it reads a body that is too large, it meets the end of the connection; whatever it answers
      then is dropped, and `refusal` answers.
Elsewhere: how long a body may take, and what still comes of it after the answer (bounded_port.py). A request whose
body is not read is answered as any other: who may ask is looked at before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Refusal: TypeAlias = Callable[[Scope, int], ASGIApp]
"""Answers 413, from the request and the limit in bytes."""

DIGITS_MAX: Final = 18
"""Of a declared length; Python refuses to read a number of thousands of them."""

DISCONNECTED: Final = {"type": "http.disconnect"}


class BoundedBody:
    """An ASGI layer: a declared length is believed where it is too large, and what comes is counted."""

    def __init__(self, app: ASGIApp, bytes_max: Callable[[Scope], int], refusal: Refusal) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._bytes_max(scope)
        is_declared_over = declared_length(scope) > limit
        is_over = has_begun = False
        came = 0

        async def receive_some() -> Message:
            nonlocal came, is_over
            if is_declared_over or is_over:
                is_over = True
                return DISCONNECTED
            message = await receive()
            came += len(message.get("body", b""))
            is_over = came > limit
            return DISCONNECTED if is_over else message

        async def send_unless_over(message: Message) -> None:
            nonlocal has_begun
            if not is_over:
                has_begun = True
                await send(message)

        try:
            await self._app(scope, receive_some, send_unless_over)
        except ClientDisconnect:
            if not is_over:
                raise
        if is_over and not has_begun:
            await self._refusal(scope, limit)(scope, receive, send)


def declared_length(scope: Scope) -> int:
    """Bytes; 0 where nothing is declared, as with chunks."""
    declared: bytes = dict(scope["headers"]).get(b"content-length", b"0")
    if not declared.isdigit():
        return 0
    return int(declared) if len(declared) <= DIGITS_MAX else 10**DIGITS_MAX
