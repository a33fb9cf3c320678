"""The control port of a controller: what it says, and what a person may ask of it.

In:   HTTP on loopback, with the token that stands beside the port in `zk2kraft-control.json`; where the file names an
      address for other hosts, HTTPS there, with a certificate of the trusted authority and the token of its file.
Out:  status as JSON, metrics for Prometheus; operations that the driver looks at. Nothing here acts by itself.
Elsewhere: the driver (driver_node), the service that calls this (state_machine), the keys (config/properties.py).
Runs on a thread with a loop of its own: nothing of it is on the loop of the quorum. Starlette, not FastAPI: to import
that took nearly half of the processor time of all that a controller imports.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import stat
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from migrator.control_api.control_file import CONTROL_FILE, NO_TOKEN, TOKEN, ControlFile
from migrator.control_api.operations import CANCEL, Cancelled, DriverOperation, OperationAccepted
from migrator.control_api.status import ControllerStatus
from migrator.findings.finding import FindingError, words_of
from migrator.findings.quorum import CONFIG_NOT_HONOURED, CONTROL_CONNECTION_CLOSED
from migrator.http.bounded_body import BoundedBody
from migrator.http.bounded_port import PortLimits, bounded
from migrator.node.config.properties import RemoteControl
from migrator.node.driver.driver_node import DriverNode
from migrator.node.quorum.metrics import Metrics
from migrator.node.transport.security import CONTROL_PREFIX
from migrator.node.transport.tls import server_context
from migrator.tls.renewal import RenewedContext

ASK_TIMEOUT_S = 5.0
BACKLOG: Final = 16
HANDSHAKE_S: Final = 5.0
BODY_BYTES_MAX: Final = 4096
LIMITS: Final = PortLimits(connections=32, code=CONTROL_CONNECTION_CLOSED.code, backlog=BACKLOG)
"""Of each port: the descriptors belong to the log, and anybody on this machine reaches loopback."""
METRICS_EVERY_S: Final = 0.5
"""Metrics need no token: however often somebody asks, the quorum's loop is asked twice a second."""
TOKENS_MAX: Final = 2
TOKEN_FILE_BYTES_MAX: Final = 4096

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

log = structlog.get_logger()


class Body(msgspec.Struct, frozen=True):
    """The body of every operation."""

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
        self._last_status: tuple[float, ControllerStatus] | None = None
        self._status_lock = threading.Lock()
        self.url = ""
        self.remote_port: int | None = None

    def start(self, address: str) -> None:
        """Listen, and write port and token where only this user reads them. Raises OSError."""
        host, _, port = address.rpartition(":")
        bound = self._serve(self._app(), host.strip("[]"), int(port))
        self.url = f"http://{host}:{bound}"
        if self._remote is not None:
            remote = self._remote
            app = TokenCheck(self._app(guarded=True), lambda: read_tokens(remote))
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

    def _serve(self, app: Asgi, host: str, port: int, certificates: RenewedContext | None = None) -> int:
        """Listen on a thread of its own; returns the port."""
        both = host == "::" and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET  # a name is that of its IPv4 address
        # who reads the control file may connect at once
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
        config, listening = bounded(app, bound, LIMITS, log_level="error", lifespan="off")
        config.load()
        config.ssl = None if certificates is None else certificates.for_a_server()
        server = uvicorn.Server(config)
        thread = threading.Thread(target=_run, args=(server, listening), name="control", daemon=True)
        thread.start()
        self._servers.append(server)
        self._threads.append(thread)
        number: int = listening.getsockname()[1]
        return number

    def _on_loop(self, function: Callable[[], Any]) -> Any:
        """Run on the quorum's loop and wait for the result."""

        async def call() -> Any:
            return function()

        try:
            return asyncio.run_coroutine_threadsafe(call(), self._loop).result(ASK_TIMEOUT_S)
        except TimeoutError as error:
            raise HTTPException(503, "the controller's loop does not answer") from error

    def _recent_status(self) -> ControllerStatus:
        with self._status_lock:
            now = time.monotonic()
            if self._last_status is None or now - self._last_status[0] >= METRICS_EVERY_S:
                self._last_status = (now, self._on_loop(self._status))
            return self._last_status[1]

    def _ask(self, refusal: str, operation: Callable[[DriverNode], bool]) -> None:
        """Hand an operation to the driver; one that it does not keep is refused, with where the driver is."""
        if self._on_loop(lambda: self._driver is not None and operation(self._driver)):
            return
        now = None if self._driver is None else self._driver.now
        raise HTTPException(409, refusal if now is None else f"{refusal}: {now.state}, {now.reason}")

    def _app(self, *, guarded: bool = False) -> Asgi:
        """guarded: somebody has looked at the token already. What asks the quorum's loop does so on a thread."""

        def has_token(request: Request) -> bool:
            given = request.headers.get("authorization", "")
            return guarded or secrets.compare_digest(given.encode(), f"Bearer {self._token}".encode())

        def authorized(request: Request) -> None:
            if not has_token(request):
                raise HTTPException(401, "the token of this controller's control file is needed")

        def healthz(request: Request) -> Response:
            self._on_loop(lambda: None)
            return PlainTextResponse("ok")

        def metrics(request: Request) -> Response:
            status = self._on_loop(self._status) if has_token(request) else self._recent_status()
            return PlainTextResponse(self._metrics.text(msgspec.to_builtins(status)))

        def status(request: Request) -> Response:
            authorized(request)
            return _json(self._on_loop(self._status))

        def operation(name: str, carry_out: Callable[[Body], Response]) -> Route:
            async def endpoint(request: Request) -> Response:
                authorized(request)
                try:
                    given = await request.body()
                except ClientDisconnect as error:
                    raise HTTPException(400, "the body is incomplete") from error
                body = _body(given)
                return await run_in_threadpool(carry_out, body)

            return Route(f"/v1/{name}", endpoint, methods=["POST"])

        def take_over(body: Body) -> Response:
            self._ask("a takeover cannot be asked for now", DriverNode.request_takeover)
            return _json(OperationAccepted(DriverOperation.TAKE_OVER), 202)

        def cancel(body: Body) -> Response:
            """Take the operation for a takeover back. Not withdrawn: there is none, or it has begun."""
            return _json(Cancelled(self._on_loop(lambda: self._driver is not None and self._driver.cancel_takeover())))

        def abort(body: Body) -> Response:
            self._ask("there is no takeover to abort now", lambda driver: driver.request_abort(body.reason))
            return _json(OperationAccepted(DriverOperation.ABORT), 202)

        def rollback(body: Body) -> Response:
            self._ask("a rollback cannot be asked for now", DriverNode.request_rollback)
            return _json(OperationAccepted(DriverOperation.ROLL_BACK), 202)

        routes = [
            Route("/healthz", healthz),
            Route("/metrics", metrics),
            Route("/v1/status", status),
            operation(DriverOperation.TAKE_OVER, take_over),
            operation(CANCEL, cancel),
            operation(DriverOperation.ABORT, abort),
            operation(DriverOperation.ROLL_BACK, rollback),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _say_refusal})
        return BoundedBody(app, lambda _: BODY_BYTES_MAX, _body_too_large)


def _body(given: bytes) -> Body:
    """Raises HTTPException."""
    try:
        return msgspec.json.decode(given, type=Body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(422, f"the body is a JSON object with a reason: {error}") from error


async def _say_refusal(request: Request, error: Exception) -> Response:
    """On the loop: threads that wait for the quorum's loop hold up no refusal."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


def _run(server: uvicorn.Server, listening: socket.socket) -> None:
    async def serve() -> None:
        if server.config.ssl is not None:  # uvicorn hands no limit through: who says nothing keeps a place for a minute
            loop = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HANDSHAKE_S)  # type: ignore[method-assign]
        await server.serve([listening])

    asyncio.run(serve())


class TokenCheck:
    """Guards the port for other hosts: without a token nothing is read, and nothing is asked of the quorum."""

    def __init__(self, app: Asgi, tokens: Callable[[], tuple[str, ...]]) -> None:
        """tokens: read for each request, so that one that was replaced holds at once. Raises FindingError."""
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        try:
            wanted = [f"Bearer {each}".encode() for each in self._tokens()]
        except FindingError as error:
            log.warning("control.no_token", code=error.code, says=error.occurrence.text)
            await _refuse(503, "this controller cannot read its token; its log says why")(scope, receive, send)
            return
        given = headers.get(b"authorization", b"")
        if not any(secrets.compare_digest(given, each) for each in wanted):
            await _refuse(401, "the token of this controller is needed")(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _body_too_large(_: Scope, most: int) -> JSONResponse:
    return _refuse(413, f"a body has {most} bytes at most")


def _refuse(code: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, code)


def read_tokens(remote: RemoteControl) -> tuple[str, ...]:
    """What who asks from another host shows: one or two lines, so that one can take the place of the other.

    Raises Z2K-3010; no token is in a message.
    """
    try:
        lines = tuple(each for each in _private_text(remote.token_file).splitlines() if each)
        if not 1 <= len(lines) <= TOKENS_MAX or not all(map(TOKEN.fullmatch, lines)):
            raise ValueError(NO_TOKEN)
    except (OSError, ValueError) as error:
        reason = "it is no text" if isinstance(error, UnicodeDecodeError) else words_of(error)
        key, value = f"{CONTROL_PREFIX}token.file", str(remote.token_file)
        raise CONFIG_NOT_HONOURED.error(file=remote.security.file, key=key, value=value, reason=reason) from None
    return lines


def _private_text(path: Path) -> str:
    """A small regular file that not everybody may read."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would be waited for
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        if found.st_mode & stat.S_IROTH:
            raise ValueError("every user may read it (chmod o-r)")
        return file.read(TOKEN_FILE_BYTES_MAX).decode("ascii")


def _json(document: msgspec.Struct, code: int = 200) -> Response:
    return Response(msgspec.json.encode(document), code, media_type="application/json")
