"""The control port of a controller: what it says, and what a person may ask of it.

In:   HTTP on loopback, with the token that stands beside the port in `zk2kraft-control.json`; where the file names an
      address for other hosts, HTTPS there, with a certificate of the trusted authority and the token of its file.
Out:  status as JSON, metrics for Prometheus; operations that the driver looks at. Nothing here acts by itself.
Elsewhere: the driver (driver_node), the service that calls this (state_machine), the keys (config/properties.py).
Runs on a thread with a loop of its own: nothing of it is on the loop of the quorum.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from migrator.control_api.control_file import CONTROL_FILE, ControlFile
from migrator.control_api.operations import CANCEL, Cancelled, DriverOperation, OperationAccepted
from migrator.control_api.status import ControllerStatus
from migrator.findings.finding import FindingError
from migrator.findings.quorum import CONFIG_NOT_HONOURED
from migrator.fleet.secrets import resolve
from migrator.node.config.properties import RemoteControl
from migrator.node.driver.driver_node import DriverNode
from migrator.node.quorum.metrics import Metrics
from migrator.node.transport.security import CONTROL_PREFIX
from migrator.node.transport.tls import server_context
from migrator.tls.renewal import RenewedContext

ASK_TIMEOUT_S = 5.0
BACKLOG: Final = 16


class Body(BaseModel):
    """Of every operation."""

    reason: str = ""


class ControlServer:
    """One HTTP server per controller process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        directory: Path,
        *,
        status: Callable[[], ControllerStatus],
        metrics: Metrics,
        driver: DriverNode | None,
        remote: RemoteControl | None = None,
    ) -> None:
        """driver: None where no migration is enabled; then every operation is refused. remote: None: loopback only.

        Raises Z2K-3021 when certificates of the remote port cannot be used.
        """
        self._loop = loop
        self._file = directory / CONTROL_FILE
        self._token = secrets.token_urlsafe(24)
        self._status = status
        self._metrics = metrics
        self._driver = driver
        self._remote = remote
        self.certificates = None if remote is None else server_context(remote.security)
        self._servers: list[uvicorn.Server] = []
        self._threads: list[threading.Thread] = []
        self.url = ""
        self.remote_port: int | None = None

    def start(self, address: str) -> None:
        """Listen, and write port and token where only this user reads them. Raises OSError."""
        host, _, port = address.rpartition(":")
        bound = self._serve(self._app(), host.strip("[]"), int(port))
        self.url = f"http://{host}:{bound}"
        if self._remote is not None:
            remote = self._remote
            app = self._app(lambda: read_token(remote))
            self.remote_port = self._serve(app, remote.host, remote.port, self.certificates)
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(msgspec.json.encode(ControlFile(self.url, self._token, os.getpid())).decode())

    def stop(self) -> None:
        self._file.unlink(missing_ok=True)
        for server in self._servers:
            server.should_exit = True
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _serve(self, app: FastAPI, host: str, port: int, certificates: RenewedContext | None = None) -> int:
        """Listen on a thread of its own; returns the port."""
        config = uvicorn.Config(app, log_level="error", lifespan="off")
        config.load()
        config.ssl = None if certificates is None else certificates.for_a_server()
        server = uvicorn.Server(config)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # who reads the control file may connect at once
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        thread = threading.Thread(target=server.run, args=([listening],), name="control", daemon=True)
        thread.start()
        self._servers.append(server)
        self._threads.append(thread)
        bound: int = listening.getsockname()[1]
        return bound

    def _on_loop(self, function: Callable[[], Any]) -> Any:
        """Run on the quorum's loop and wait for the result."""

        async def call() -> Any:
            return function()

        try:
            return asyncio.run_coroutine_threadsafe(call(), self._loop).result(ASK_TIMEOUT_S)
        except TimeoutError as error:
            raise HTTPException(503, "the controller's loop does not answer") from error

    def _ask(self, refusal: str, operation: Callable[[DriverNode], bool]) -> None:
        """Hand an operation to the driver; one that it does not keep is refused, with where the driver is."""
        if self._on_loop(lambda: self._driver is not None and operation(self._driver)):
            return
        now = None if self._driver is None else self._driver.now
        raise HTTPException(409, refusal if now is None else f"{refusal}: {now.state}, {now.reason}")

    def _app(self, token: Callable[[], str] | None = None) -> FastAPI:
        """token: read for each request, so that one that was replaced holds at once. None: that of the control file."""
        app = FastAPI(title="zk2kraft controller", docs_url=None, redoc_url=None, openapi_url=None)

        def authorized(request: Request) -> None:
            given = request.headers.get("authorization", "")
            try:
                wanted = f"Bearer {self._token if token is None else token()}"
            except FindingError as error:
                raise HTTPException(503, error.occurrence.text) from error
            if not secrets.compare_digest(given.encode(), wanted.encode()):
                raise HTTPException(401, "the token of this controller is needed")

        @app.get("/healthz", response_class=PlainTextResponse)
        def healthz() -> str:
            self._on_loop(lambda: None)
            return "ok"

        @app.get("/metrics", response_class=PlainTextResponse)
        def metrics() -> str:
            return self._metrics.text(msgspec.to_builtins(self._on_loop(self._status)))

        @app.get("/v1/status", dependencies=[Depends(authorized)])
        def status() -> Response:
            return _json(self._on_loop(self._status))

        @app.post(f"/v1/{DriverOperation.TAKE_OVER}", dependencies=[Depends(authorized)])
        def take_over(body: Body) -> Response:
            self._ask("a takeover cannot be asked for now", DriverNode.request_takeover)
            return _json(OperationAccepted(DriverOperation.TAKE_OVER), 202)

        @app.post(f"/v1/{CANCEL}", dependencies=[Depends(authorized)])
        def cancel(body: Body) -> Response:
            """Take the operation for a takeover back. Not withdrawn: there is none, or it has begun."""
            return _json(Cancelled(self._on_loop(lambda: self._driver is not None and self._driver.cancel_takeover())))

        @app.post(f"/v1/{DriverOperation.ABORT}", dependencies=[Depends(authorized)])
        def abort(body: Body) -> Response:
            self._ask("there is no takeover to abort now", lambda driver: driver.request_abort(body.reason))
            return _json(OperationAccepted(DriverOperation.ABORT), 202)

        @app.post(f"/v1/{DriverOperation.ROLL_BACK}", dependencies=[Depends(authorized)])
        def rollback(body: Body) -> Response:
            self._ask("a rollback cannot be asked for now", DriverNode.request_rollback)
            return _json(OperationAccepted(DriverOperation.ROLL_BACK), 202)

        return app


def read_token(remote: RemoteControl) -> str:
    """What who asks from another host shows. Raises Z2K-3010; the token is in no message."""
    try:
        return resolve(f"file:{remote.token_file.absolute()}").reveal()
    except FindingError as error:
        key, reason = f"{CONTROL_PREFIX}token.file", str(error.occurrence.values["reason"])
        value = str(remote.token_file)
        raise CONFIG_NOT_HONOURED.error(file=remote.security.file, key=key, value=value, reason=reason) from error


def _json(document: msgspec.Struct, code: int = 200) -> Response:
    return Response(msgspec.json.encode(document), code, media_type="application/json")
