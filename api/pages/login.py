"""How a browser shows that its person may read the service's token file.

In:   a link with the token (`/login?token=...`), or the token typed into a form.
Out:  a cookie that follows from the token, and the page.
Elsewhere: what is closed without it (rest/guard.py), making and keeping the token (state_machine.access).
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.pages.forms import form_of, render
from api.rest.guard import COOKIE, is_same
from api.rest.parts import parts_of
from state_machine.access import page_key

COOKIE_LIFE_S: Final = 12 * 3600


async def login_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Instead of any page, for a browser without the cookie."""
    await _asks(401)(scope, receive, send)


def router_for(token: str) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/login")
    def by_link(request: Request, given: Annotated[str, Query(alias="token", max_length=4_000)] = "") -> Response:
        return _let_in(request, given, token) if given else _asks(200)

    @router.post("/login")
    def by_form(request: Request, form: Annotated[dict[str, str], Depends(form_of)]) -> Response:
        return _let_in(request, form.get("token", "").strip(), token)

    return router


def _let_in(request: Request, given: str, token: str) -> Response:
    """Where people reach the service by https, the cookie never goes over anything else."""
    if not is_same(given, token):
        return _asks(401, wrong=True)
    answer = RedirectResponse("/", 303)
    named = parts_of(request).settings.reached_as.named(request.headers.get("host", ""))
    secure = bool(named) and all(each.scheme == "https" for each in named)
    answer.set_cookie(
        COOKIE, page_key(token), max_age=COOKIE_LIFE_S, httponly=True, samesite="strict", secure=secure, path="/"
    )
    return answer


def _asks(status: int, *, wrong: bool = False) -> HTMLResponse:
    return render("login.html", status, wrong=wrong)


def url_with_token(url: str, token: str) -> str:
    """The link that opens the page at once; it is as secret as the token."""
    return f"{url}/login?token={token}"
