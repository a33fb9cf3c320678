"""A server of ours in a process of its own with few descriptors, and what its own business says meanwhile.

In:   `python -m tests.unit.flooded service|control|listener DIRECTORY`; the end of standard input ends it.
Out:  the port; at the end one line of JSON: how often its business failed, the longest gap of its loop, the memory that
      it took.
Its business is that of a metadata log: a file is opened, written and closed, again and again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from api.commands.service import listener_of
from migrator.node.listener.controller_apis import ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.process.control import ControlServer
from migrator.node.quorum.metrics import Metrics
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.node.transport.connections import Connections
from tests.support.builders import an_image
from tests.support.statuses import a_status

DESCRIPTORS = 300
EVERY_S = 0.01


@asynccontextmanager
async def service(directory: Path) -> AsyncIterator[int]:
    """The service's own listener and application, on a faked world, and on the loop whose gaps are measured."""
    from api.app import guarded
    from tests.unit.api.service import TOKEN, Served

    listening = _bound()
    config, bounded = listener_of(guarded(Served(directory).app, TOKEN), listening)
    port = bounded.getsockname()[1]
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([bounded]))
    try:
        yield port
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def control(directory: Path) -> AsyncIterator[int]:
    server = ControlServer(asyncio.get_running_loop(), directory, status=a_status, metrics=Metrics(), driver=None)
    server.start("127.0.0.1:0")
    try:
        yield int(urlsplit(server.url).port or 0)
    finally:
        server.stop()


@asynccontextmanager
async def listener(directory: Path) -> AsyncIterator[int]:
    settings = SimpleNamespace(cluster_id="c", migration_enabled=True)
    controller: Any = SimpleNamespace(image=an_image(), settings=settings, allows=lambda *_: True)
    raft: Any = SimpleNamespace(voter=SimpleNamespace(leader=-1))
    apis = ControllerApis(raft, controller, QuorumApis(raft, wall_ms=lambda: 0), listener="CONTROLLER")
    server = ControllerServer(apis, None, Connections())
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        await server.stop()


KINDS: dict[str, Callable[[Path], AbstractAsyncContextManager[int]]] = {
    "service": service,
    "control": control,
    "listener": listener,
}


def _bound() -> Any:
    import socket

    return socket.create_server(("127.0.0.1", 0))


async def run(kind: str, directory: Path) -> None:
    async with KINDS[kind](directory) as port:
        before = _memory_mb()
        print(port, flush=True)
        loop = asyncio.get_running_loop()
        ended = loop.run_in_executor(None, sys.stdin.read)
        failed, gap_s = 0, 0.0
        while not ended.done():
            began = time.monotonic()
            try:
                with (directory / "log").open("ab") as file:
                    file.write(b"x")
            except OSError:
                failed += 1
            await asyncio.sleep(EVERY_S)
            gap_s = max(gap_s, time.monotonic() - began)
    print(json.dumps({"failed": failed, "gap_s": gap_s, "grown_mb": _memory_mb() - before}), flush=True)


def _memory_mb() -> float:
    """The most that it ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
