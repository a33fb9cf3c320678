"""A controller's control port, seen from the service.

In:   the metadata log directory, in which the controller writes where it listens and with which token.
Out:  its status as it says it; an operation handed over.
Elsewhere: the other side of this (node.control), what is asked when (reconcile.py).
Errors: Z2K-4021 when nobody answers, Z2K-6012 when the controller refuses.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import msgspec

from migrator.findings.finding import words_of
from migrator.findings.laboratory import CONTROL_REFUSED
from migrator.findings.service import CONTROLLER_SILENT
from state_machine.clusters.bounds import Bounds
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.private_files import read_regular
from state_machine.policy.phases import DriverOperation

CONTROL_FILE: Final = "zk2kraft-control.json"
CONTROL_FILE_MAX_BYTES: Final = 16_384
DETAIL_MAX: Final = 300
ANSWER_TIMEOUT_S: Final = 3.0
"""A controller answers within milliseconds; its loop is late by 500 ms at the worst."""


class ControlFile(msgspec.Struct, frozen=True):
    """Written by the controller at its start, readable by this user only."""

    url: str
    token: str
    pid: int


class Move(msgspec.Struct, frozen=True):
    """An entry of a driver's history. at: wall time in seconds."""

    number: int
    at: float
    to: str
    reason: str


class Driver(msgspec.Struct, frozen=True):
    state: str
    reason: str
    can_abort: bool
    can_roll_back: bool
    window_ms: int | None
    without_controller_ms: int | None
    finding: dict[str, Any] | None
    trouble: dict[str, Any] | None
    history: tuple[Move, ...]
    operations: tuple[str, ...] = ()


class Quorum(msgspec.Struct, frozen=True):
    leader: int | None
    epoch: int


class Log(msgspec.Struct, frozen=True):
    migration: str
    offset: int


class DualWrite(msgspec.Struct, frozen=True):
    divergence: str
    finding: dict[str, Any] | None


class Broker(msgspec.Struct, frozen=True):
    id: int
    mode: str
    fenced: bool
    heartbeat_age_ms: int | None


class ReportedFinding(msgspec.Struct, frozen=True):
    """What a status has to have for the service to go by it; it has more (migrator.node.process.status)."""

    node: int
    run: str
    quorum: Quorum
    loop_delay_ms: float
    driver: Driver | None = None
    log: Log | None = None
    dual_write: DualWrite | None = None
    brokers: tuple[Broker, ...] = ()

    def __post_init__(self) -> None:
        if self.driver is not None and (self.log is None or self.dual_write is None):
            raise ValueError("a driver without its log")


class Accepted(msgspec.Struct, frozen=True):
    accepted: str


class Cancelled(msgspec.Struct, frozen=True):
    """False: there was no operation for a takeover that had not begun."""

    cancelled: bool


class _Refusal(msgspec.Struct, frozen=True):
    detail: str


_Shape = TypeVar("_Shape", bound=msgspec.Struct)


def read_control_file(entry: ControllerEntry, bounds: Bounds) -> ControlFile:
    """Raises Z2K-4021 when there is none, none that can be read, or one that names an address beyond our bounds."""
    outside = bounds.outside_of(entry)
    if outside is not None:
        raise CONTROLLER_SILENT.error(node=entry.node_id, reason=outside.text)
    path = Path(entry.data) / CONTROL_FILE
    try:
        control = msgspec.json.decode(read_regular(path, CONTROL_FILE_MAX_BYTES), type=ControlFile)
    except FileNotFoundError as error:
        raise CONTROLLER_SILENT.error(node=entry.node_id, reason="it is not running (no control file)") from error
    except (OSError, msgspec.DecodeError) as error:
        raise CONTROLLER_SILENT.error(node=entry.node_id, reason=f"{path}: {error}") from error
    foreign = bounds.why_foreign(control.url)
    if foreign is not None:
        raise CONTROLLER_SILENT.error(node=entry.node_id, reason=f"{path} is not used: {foreign}")
    return control


class ControlPort:
    """Asks controllers. http: a client without proxies; tests put one in that reaches a fake."""

    def __init__(self, http: httpx.AsyncClient, bounds: Bounds | None = None) -> None:
        self._http = http
        self._bounds = bounds or Bounds()

    async def status(self, entry: ControllerEntry) -> tuple[int, dict[str, Any]]:
        """The process id and what it says of itself. The file may be left by a dead one: only an answer counts."""
        control = await asyncio.to_thread(read_control_file, entry, self._bounds)
        answer = await self._request(entry, control, "GET", "/v1/status")
        told = _decoded(entry, answer, ReportedFinding)
        if told.node != entry.node_id:
            raise CONTROLLER_SILENT.error(node=entry.node_id, reason=f"node {told.node} answers in its place")
        status: dict[str, Any] = msgspec.json.decode(answer.content)
        return control.pid, status

    async def ask(self, entry: ControllerEntry, operation: DriverOperation, reason: str) -> None:
        """Hand over an operation. The driver looks at it by itself; its history tells what became of it."""
        control = await asyncio.to_thread(read_control_file, entry, self._bounds)
        _decoded(entry, await self._request(entry, control, "POST", f"/v1/{operation}", {"reason": reason}), Accepted)

    async def cancel(self, entry: ControllerEntry, reason: str) -> bool:
        """Take a takeover back; False when the driver keeps no such operation: it has begun, or was given up before."""
        control = await asyncio.to_thread(read_control_file, entry, self._bounds)
        answer = await self._request(entry, control, "POST", "/v1/cancel", {"reason": reason})
        return _decoded(entry, answer, Cancelled).cancelled

    async def _request(
        self, entry: ControllerEntry, control: ControlFile, method: str, path: str, body: dict[str, str] | None = None
    ) -> httpx.Response:
        try:
            answer = await self._http.request(
                method,
                control.url + path,
                json=body,
                headers={"authorization": f"Bearer {control.token}"},
                timeout=ANSWER_TIMEOUT_S,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CONTROLLER_SILENT.error(node=entry.node_id, reason=_why_silent(error)) from error
        if answer.status_code in (400, 409, 422):
            raise CONTROL_REFUSED.error(operation=path, reason=_detail(answer))
        if answer.is_error:
            raise CONTROLLER_SILENT.error(node=entry.node_id, reason=f"{answer.status_code} {_detail(answer)}")
        return answer


def _decoded(entry: ControllerEntry, answer: httpx.Response, shape: type[_Shape]) -> _Shape:
    """Raises Z2K-4021: the control file was left by a dead controller, and somebody else has its port now."""
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"somebody else answers on its port, or another release ({error})"
        raise CONTROLLER_SILENT.error(node=entry.node_id, reason=reason) from error


def _why_silent(error: httpx.HTTPError | httpx.InvalidURL) -> str:
    match error:
        case httpx.TimeoutException():
            return f"no answer within {ANSWER_TIMEOUT_S:.0f} s"
        case httpx.ConnectError():
            return "nobody listens on its control port"
        case _:
            return words_of(error)


def _detail(answer: httpx.Response) -> str:
    """The words of a controller's refusal; nothing of what anybody else answers there."""
    try:
        detail = msgspec.json.decode(answer.content, type=_Refusal).detail
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "somebody else answers there, or another release"
    return detail[:DETAIL_MAX]


def loopback_client() -> httpx.AsyncClient:
    """Control ports are on this machine: never through a proxy."""
    return httpx.AsyncClient(trust_env=False)
