"""The web application on a faked world, with the loop run by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx

from api.app import guarded, make_app
from api.models import MigrationView
from api.rest.parts import Parts
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from tests.unit.state_machine.world import World

BASE = "http://127.0.0.1:8085"
TOKEN = "the-token-of-this-test-service"


class InProcess:
    """Asks an application in this process; one request, one event loop."""

    def __init__(self, app: Any, token: str = TOKEN, peer: str = "127.0.0.1") -> None:
        """peer: the address that the connection comes from."""
        self._app = app
        self._peer = peer
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False, client=(self._peer, 40_000))
            async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=self._headers) as http:
                return await http.request(method, path, **arguments)

        return asyncio.run(ask())

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("GET", path, **arguments)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("POST", path, **arguments)

    def put(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("PUT", path, **arguments)


class Served:
    """world: what the service sees. http: asks the application in this process, guard included."""

    def __init__(self, directory: Path, origins: tuple[str, ...] = (), world: World | None = None) -> None:
        self.world = world or World(directory)
        self.last_round_at: float | None = None
        self.woken = 0
        self.unreachable: dict[str, str] = {}
        parts = Parts(
            self.world.store,
            self.world.settings.model_copy(update={"origins": origins}),
            self.world.clock,
            self._wake,
            lambda: self.last_round_at,
            reach=self._reach,
        )
        self.app = make_app(parts, TOKEN)
        self.http = InProcess(guarded(self.app, TOKEN))
        self.foreign_request = InProcess(guarded(self.app, TOKEN), token="")

    def _reach(self, connect: str) -> None:
        """unreachable: by connect string, why nobody listens there."""
        if connect in self.unreachable:
            raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason=self.unreachable[connect])

    def _wake(self) -> None:
        self.woken += 1

    def run(self, story: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(story)

    def rounds(self, count: int = 1) -> None:
        asyncio.run(self.world.rounds(count))

    def get(self, path: str) -> Any:
        answer = self.http.get("/api/v1" + path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def view(self) -> MigrationView:
        """Migration 1, as a client reads it."""
        return MigrationView.model_validate(self.get("/migrations/1"))

    def post(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> Any:
        return self.http.post("/api/v1" + path, json=body or {}, headers=headers)
