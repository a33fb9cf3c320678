"""The web application: REST, health, and the page, on one set of parts.

In:   `Parts`.
Out:  an ASGI application; its OpenAPI document is at /api/v1/openapi.json.
Elsewhere: who serves it (api.commands.service), the addresses (this folder and `pages/`).
"""

from __future__ import annotations

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp

from api.change import routes
from api.pages import login, pages
from api.pages.login import login_page
from api.rest import actions, audits, health, migrations
from api.rest.guard import Guard
from api.rest.parts import Parts, no_unknown_parameters
from api.rest.problems import add_handlers, openapi_with_problems
from state_machine.settings import ServiceSettings

BASE = "/api/v1"


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
    for router in (migrations.router, actions.router, audits.router, routes.router):
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
    return Guard(app, token, login_page, settings.reached_as)
