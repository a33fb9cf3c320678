"""Keep foreign web pages out of a service that has no passwords yet, and tell browsers what a page may do.

In:   every request before its handler, every answer after it.
Out:  403 for a host name or an origin that is not this service; headers on every answer.
Why:  the service listens on loopback only, but a browser on the same machine would carry requests of any page to it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.rest.problems import answer, problem
from migrator.errors import FOREIGN_REQUEST

LOOPBACK_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        stranger = foreign(scope["method"], Headers(scope=scope))
        if stranger is None:
            await self._app(scope, receive, send_with_headers)
            return
        found = problem(FOREIGN_REQUEST.error(origin=stranger), scope["path"])
        await answer(found)(scope, receive, send_with_headers)


def foreign(method: str, headers: Headers) -> str | None:
    """Where a request comes from that this service does not answer; None for one that it does.

    Reading is refused under a foreign host name only (which a page could have bound to this address); browsers
    themselves keep the answer from pages of other origins.
    """
    host = headers.get("host", "")
    if (_hostname(host) or "") not in LOOPBACK_NAMES:
        return f"host {host!r}"
    if method in ("GET", "HEAD"):
        return None
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return origin
    site = headers.get("sec-fetch-site", "none")
    return f"another site ({site})" if site in ("cross-site", "same-site") else None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
