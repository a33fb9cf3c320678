"""The service as a process: loop and listener side by side, until SIGTERM or SIGINT.

In:   a configuration file. Out: an exit code; the address on standard output and in files.
Elsewhere: what the service does (state_machine.service), what it answers (api.app).
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from api.commands.output import start_logging

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    import uvicorn
    from starlette.types import ASGIApp

    from migrator.http.bounded_port import BoundedListener
    from state_machine.settings import ServiceSettings


def run_service(config: Path | None) -> int:
    """Serve until SIGTERM or SIGINT; controllers go on. 1 when the loop ended by a fault of ours."""
    import asyncio

    from state_machine.settings import read_settings

    start_logging()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return asyncio.run(_serve(read_settings(config)))


async def _serve(settings: ServiceSettings) -> int:
    """The loop and the listener side by side; the end of one is the end of both."""
    import asyncio
    import signal
    from contextlib import contextmanager

    import uvicorn

    from api.app import guarded, make_app
    from api.rest.parts import Parts
    from migrator.model.prepared_types import prepare_types
    from migrator.zk.reach import reach
    from state_machine.access import service_token, tell_clients_no_more, url_here
    from state_machine.service import open_service

    class Server(uvicorn.Server):
        """Leaves signals to us: uvicorn would raise them again before anything is closed."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    prepare_types()
    service = open_service(settings)
    reconciler = service.reconciler
    parts = Parts(
        service.store,
        settings,
        service.clock,
        reconciler.wake,
        lambda: reconciler.last_round_at,
        reconciler.alone_with,
        reconciler.troubles,
        reach,
    )
    token = service_token(settings.directory.absolute())
    app = guarded(make_app(parts, token), token)
    listening = _listen(settings)
    url = url_here(settings.host, listening.getsockname()[1])
    config, bounded_listening = listener_of(app, listening)
    server = Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)
    _tell_where(settings.directory.absolute(), url, token)
    loop = asyncio.create_task(reconciler.run(), name="reconcile")
    loop.add_done_callback(lambda _: setattr(server, "should_exit", True))
    warming = asyncio.create_task(service.warm_up(), name="warm up")
    try:
        await server.serve(sockets=[bounded_listening])
    finally:
        failed = loop.done()
        loop.cancel()
        results = await asyncio.gather(loop, warming, return_exceptions=True)
        tell_clients_no_more(url)
        await service.close()
    if failed:
        structlog.get_logger().critical("service.failed", error=repr(results[0]), exc_info=results[0])
    return 1 if failed else 0


def listener_of(app: ASGIApp, listening: socket.socket) -> tuple[uvicorn.Config, BoundedListener]:
    """A proxy on this machine may say whom it speaks for, and nobody else, whatever the environment says.

    uvicorn's warnings are about what unknown peers send; `http.closed` says that once a minute.
    """
    from migrator.findings.service import CONNECTION_CLOSED
    from migrator.http.bounded_port import PortLimits, bounded

    limits = PortLimits(connections=128, code=CONNECTION_CLOSED.code, head_s=10.0, body_s=20.0)
    return bounded(
        app,
        listening,
        limits,
        log_level="error",
        lifespan="off",
        proxy_headers=True,
        forwarded_allow_ips="127.0.0.1",
    )


def _listen(settings: ServiceSettings) -> socket.socket:
    """Raises Z2K-4115."""
    import socket

    from migrator.findings.service import PORT_UNUSABLE

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise PORT_UNUSABLE.error(host=settings.host, port=settings.port, reason=reason) from error
    return listening


def _tell_where(directory: Path, url: str, token: str) -> None:
    """The address first: on standard output (with the token only for a person at a terminal), and in files."""
    from api.pages.login import url_with_token
    from state_machine.access import tell_clients

    shown = url_with_token(url, token) if sys.stdout.isatty() else url
    print(f"{shown}  (the page of this service; REST is below /api/v1)", flush=True)
    tell_clients(directory, url)
    structlog.get_logger().info("service.started", url=url)
