"""The web application: REST, health, and the page, on one set of parts.

In:   `Parts`.
Out:  an ASGI application; its OpenAPI document is at /api/v1/openapi.json.
Elsewhere: who serves it (api.commands.service), the addresses (this folder and `pages/`).
"""

from __future__ import annotations

from typing import Final

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp, Scope

from api.audit_report import routes as audit_report
from api.change import routes as change_report
from api.pages import login, pages
from api.pages.login import login_page
from api.rest import actions, audits, health, migrations
from api.rest.guard import OPEN, Guard
from api.rest.parts import Parts, no_unknown_parameters
from api.rest.problems import add_handlers, answer, openapi_with_problems, problem
from migrator.findings.service import BODY_TOO_LARGE
from migrator.http.addresses import BASE
from migrator.http.bounded_body import BoundedBody
from state_machine.settings import ServiceSettings

BODY_BYTES_MAX: Final = 1_048_576
OPEN_BYTES_MAX: Final = 8_192
"""Without a token: a form with the token."""


def make_app(parts: Parts, token: str) -> FastAPI:
    """The application without its guard; `guarded` puts it around."""
    app = FastAPI(
        title="zk2kraft",
        version="1",
        summary="Moves Kafka clusters from ZooKeeper to KRaft, and back.",
        description="Addresses show the last observation, or record an operation. The service then evaluates its gate "
        "and acts.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{BASE}/openapi.json",
    )
    app.state.parts = parts
    for router in (migrations.router, actions.router, audits.router, audit_report.router, change_report.router):
        app.include_router(router, prefix=BASE, dependencies=[Depends(no_unknown_parameters)])
    app.include_router(health.router)
    app.include_router(pages.router)
    app.include_router(login.router_for(token))
    add_handlers(app)
    app.openapi = lambda: openapi_with_problems(app)  # type: ignore[method-assign]
    return app


def guarded(app: FastAPI, token: str) -> ASGIApp:
    """token: what every request has to have, a browser's as a cookie."""
    settings: ServiceSettings = app.state.parts.settings
    return Guard(BoundedBody(app, body_bytes_max, body_too_large), token, login_page, settings.reached_as)


def body_bytes_max(scope: Scope) -> int:
    return OPEN_BYTES_MAX if scope["path"] in OPEN else BODY_BYTES_MAX


def body_too_large(scope: Scope, most: int) -> ASGIApp:
    return answer(problem(BODY_TOO_LARGE.error(most=most), scope["path"]))
