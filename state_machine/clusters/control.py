"""A controller's control port, seen from the service.

In:   the metadata log directory, in which the controller writes where it listens and with which token; of one on
      another host the address in the inventory.
Out:  its status as it says it; an operation delivered.
Elsewhere: the other side of this (node.process.control), certificates for other hosts (remote_ports.py), what is asked
when (reconcile.py).
Errors: Z2K-4021 when nobody answers, Z2K-4119 when one on another host cannot be asked and may run, Z2K-6012 when the
controller refuses.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, TypeVar

import httpx
import msgspec

from migrator.control_api.control_file import CONTROL_FILE, CONTROL_FILE_MAX_BYTES, ControlFile
from migrator.control_api.operations import CANCEL, Cancelled, DriverOperation, OperationAccepted, OperationRefusal
from migrator.control_api.status import ControllerStatus
from migrator.findings.finding import FindingError, words_of
from migrator.findings.laboratory import CONTROL_REFUSED
from migrator.findings.service import CONTROLLER_NOT_REACHED, CONTROLLER_SILENT
from state_machine.clusters.bounds import Bounds
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.private_files import read_regular
from state_machine.clusters.remote_ports import RemotePorts

DETAIL_MAX: Final = 300
ANSWER_TIMEOUT_S: Final = 3.0
"""A controller answers within milliseconds; its loop is late by 500 ms at the worst."""


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


class ControlClient:
    """Asks controllers. http: a client without proxies; tests put one in that reaches a fake."""

    def __init__(
        self, http: httpx.AsyncClient, bounds: Bounds | None = None, remote: RemotePorts | None = None
    ) -> None:
        """remote: None where no certificate for controllers on other hosts is configured."""
        self._http = http
        self._bounds = bounds or Bounds()
        self._remote = remote

    async def status(self, entry: ControllerEntry) -> tuple[int | None, ControllerStatus]:
        """The process id, None on another host, and what it says of itself.

        The file may be left by a dead one: only an answer counts.
        """
        control = await self._control_of(entry)
        answer = await self._request(entry, control, "GET", "/v1/status")
        status = _decoded(entry, answer, ControllerStatus)
        if status.node != entry.node_id:
            raise _silent(entry, f"node {status.node} answers in its place")
        return None if entry.is_remote else control.pid, status

    async def ask(self, entry: ControllerEntry, operation: DriverOperation, reason: str) -> None:
        """Deliver an operation. The driver looks at it by itself; its history tells what became of it."""
        control = await self._control_of(entry)
        _decoded(
            entry,
            await self._request(entry, control, "POST", f"/v1/{operation}", {"reason": reason}),
            OperationAccepted,
        )

    async def cancel(self, entry: ControllerEntry, reason: str) -> bool:
        """Take a takeover back; False when the driver keeps no such operation: it has begun, or was given up before."""
        control = await self._control_of(entry)
        answer = await self._request(entry, control, "POST", f"/v1/{CANCEL}", {"reason": reason})
        return _decoded(entry, answer, Cancelled).cancelled

    async def _control_of(self, entry: ControllerEntry) -> ControlFile:
        if not entry.is_remote:
            return await asyncio.to_thread(read_control_file, entry, self._bounds)
        foreign = self._bounds.why_foreign(entry.control, "https")
        if foreign is not None:
            raise _silent(entry, f"{entry.control} is not used: {foreign}")
        if self._remote is None:
            raise _silent(entry, "control_ca, control_certificate and control_token of the service are not set")
        try:
            return ControlFile(entry.control, await self._remote.token(), 0)
        except FindingError as error:
            raise _silent(entry, error.occurrence.text) from error

    async def _request(
        self, entry: ControllerEntry, control: ControlFile, method: str, path: str, body: dict[str, str] | None = None
    ) -> httpx.Response:
        http = await self._remote.client() if entry.is_remote and self._remote is not None else self._http
        try:
            answer = await http.request(
                method,
                control.url + path,
                json=body,
                headers={"authorization": f"Bearer {control.token}"},
                timeout=ANSWER_TIMEOUT_S,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = _why_silent(error, is_remote=entry.is_remote)
            raise _silent(entry, said, refused=_is_refused(error)) from error
        if answer.status_code == 401 and entry.is_remote and self._remote is not None:
            self._remote.forget_token()
        if answer.status_code in (400, 409, 422):
            raise CONTROL_REFUSED.error(operation=path, reason=_detail(answer))
        if answer.is_error:
            raise _silent(entry, f"{answer.status_code} {_detail(answer)}")
        return answer


def _decoded(entry: ControllerEntry, answer: httpx.Response, shape: type[_Shape]) -> _Shape:
    """Raises Z2K-4021: the control file was left by a dead controller, and somebody else has its port now."""
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = f"another program, or another release, answers on its port ({error})"
        raise _silent(entry, reason) from error


def _silent(entry: ControllerEntry, reason: str, *, refused: bool = False) -> FindingError:
    """refused: by its host, where nothing listens. On this host the control file tells the rest."""
    finding = CONTROLLER_NOT_REACHED if entry.is_remote and not refused else CONTROLLER_SILENT
    return finding.error(node=entry.node_id, reason=reason)


def _is_refused(error: BaseException) -> bool:
    """Whether a connection was refused: the libraries put errors of their own around that of the socket."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionRefusedError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _why_silent(error: httpx.HTTPError | httpx.InvalidURL, *, is_remote: bool) -> str:
    """In words that hold nothing of the request: its token may be in those of the library."""
    match error:
        case httpx.TimeoutException():
            return f"no answer within {ANSWER_TIMEOUT_S:.0f} s"
        case httpx.ConnectError() if "CERTIFICATE" in str(error).upper() or "SSL" in str(error).upper():
            return f"TLS: {words_of(error)}"
        case httpx.ConnectError() if _is_refused(error) or not is_remote:
            return "nothing listens on its control port"
        case httpx.LocalProtocolError():
            return "the request could not be made"
        case httpx.ReadError() | httpx.RemoteProtocolError() if is_remote:
            return "it closed the connection: it may not trust the certificate of the service"
        case _:
            return words_of(error)


def _detail(answer: httpx.Response) -> str:
    """The words of a controller's refusal; nothing of what anybody else answers there."""
    try:
        detail = msgspec.json.decode(answer.content, type=OperationRefusal).detail
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "another program, or another release, answers there"
    return detail[:DETAIL_MAX]


def loopback_client() -> httpx.AsyncClient:
    """Control ports are on this machine: never through a proxy."""
    return httpx.AsyncClient(trust_env=False)
