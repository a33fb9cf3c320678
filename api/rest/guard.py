"""Let in who has the service's token, keep foreign web pages out, and tell browsers what a page may do.

In:   every request before its handler, every answer after it.
Out:  403 for a host name or an origin that is not this service; 401 without the token; headers on every answer.
Why:  everybody on this machine reaches loopback, and a browser on it would carry requests of any page to it.
Elsewhere: which names beside loopback are this service (state_machine/origins.py).
A browser has the token in a link or types it once (`/login`); then a cookie stands for it.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.rest.problems import answer, problem
from migrator.findings.service import FOREIGN_REQUEST, TOKEN_NEEDED
from state_machine.access import page_key
from state_machine.clusters.bounds import is_loopback
from state_machine.origins import LOOPBACK_NAMES, Origins, split_host

OPEN: Final = frozenset({"/healthz", "/readyz", "/style.css", "/login"})
"""They tell nothing of any cluster. `/login` asks for the token by itself."""

COOKIE: Final = "zk2kraft-page"

NO_ORIGINS: Final = Origins()

POLICY: Final = "Content-Security-Policy"
HEADERS: Final = {
    POLICY: "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI layer around the application. login: answers a browser that has no token yet."""

    def __init__(self, app: ASGIApp, token: str, login: ASGIApp, origins: Origins = NO_ORIGINS) -> None:
        self._app = app
        self._token = token
        self._login = login
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                found = MutableHeaders(scope=message)
                own = found.get(POLICY)
                found.update(HEADERS)
                if own is not None:  # of a page that carries its style inside
                    found[POLICY] = own
            await send(message)

        headers = Headers(scope=scope)
        foreign_request = foreign(scope["method"], headers, peer_of(scope), self._origins)
        if foreign_request is not None:
            found = problem(FOREIGN_REQUEST.error(origin=foreign_request), scope["path"])
            await answer(found)(scope, receive, send_with_headers)
            return
        missing = None if scope["path"] in OPEN else why_closed(headers, self._token)
        if missing is None:
            await self._app(scope, receive, send_with_headers)
        elif wants_page(scope, headers):
            await self._login(scope, receive, send_with_headers)
        else:
            found = problem(TOKEN_NEEDED.error(token=missing), scope["path"])
            await answer(found, {"WWW-Authenticate": "Bearer"})(scope, receive, send_with_headers)


def why_closed(headers: Headers, token: str) -> str | None:
    """What is wrong with the credentials of a request; None for those of this service."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return None if is_same(given.strip(), token) else "a wrong token"
    key = cookie_of(headers)
    if key is None:
        return "no token"
    return None if is_same(key, page_key(token)) else "the cookie of another service, or of an earlier token"


def wants_page(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "GET" and "text/html" in headers.get("accept", "")


def is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def cookie_of(headers: Headers) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def foreign(method: str, headers: Headers, peer: str, origins: Origins) -> str | None:
    """Where a request comes from that this service does not answer; None for one that it does.

    peer: the address of the other end; names of loopback count only from there.
    Reading is refused under a foreign host name only (which a page could have bound to this address); browsers
    themselves keep the answer from pages of other origins.
    """
    host = headers.get("host", "")
    declared = {str(each) for each in origins.named(host)}
    if not declared and not (is_loopback_name(host) and is_loopback(peer)):
        return f"host {host!r}"
    if method in ("GET", "HEAD"):
        return None
    origin = headers.get("origin")
    if origin is not None and not (origin in declared if declared else urlsplit(origin).netloc == host):
        return origin
    site = headers.get("sec-fetch-site", "none")
    return f"another site ({site})" if site in ("cross-site", "same-site") else None


def is_loopback_name(host: str) -> bool:
    found = split_host(host)
    return found is not None and found[0] in LOOPBACK_NAMES


def peer_of(scope: Scope) -> str:
    """The address that the connection comes from; an IPv4 address also where the socket is one of IPv6."""
    client = scope.get("client")
    return "" if client is None else str(client[0]).removeprefix("::ffff:")
