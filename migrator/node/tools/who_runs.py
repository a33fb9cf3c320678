"""Which controllers of ours run, for a rollback without controllers.

In:   a ZooKeeper session; metadata log directories of controllers, where they can be had, and the listeners of those
      that are registered in them.
Out:  one finding that names them all, or None when none is known.
Elsewhere: what a controller shows of itself in ZooKeeper (presence.py), the rollback (without_controllers.py).
Limits: a controller that has no session with ZooKeeper, and of which no directory is given, is not seen. Kafka's own
are seen by their directories' locks and by the listeners in a log only.
"""

from __future__ import annotations

import errno
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from migrator.control_api.control_file import CONTROL_FILE
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.preflight import CONTROLLERS_RUN
from migrator.findings.quorum import DIRECTORY_LOCKED
from migrator.node.log.storage import DirectoryLock, read_meta_properties
from migrator.node.zookeeper.presence import Presence
from migrator.zk import paths
from migrator.zk.session import ZkSession

ANSWERS_S: Final = 10.0
"""A controller whose loop hangs says so after 5 s (process/control.py), and on a busy host any answer takes its time.
Before that it may not be taken for nobody: its claim would be deleted while it runs. One that accepts and does not
answer at all is of a process that hangs, which holds the lock.
"""


CONNECTS_S: Final = 3.0
"""A host that answers does so in milliseconds; one that is down costs this long."""
NO_SUCH_NETWORK: Final = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Of a name's address by IPv6, where this host has none."""


class _Control(msgspec.Struct):
    """What is read of `zk2kraft-control.json`."""

    url: str
    token: str
    pid: int


def who_runs(
    session: ZkSession | None,
    directories: Sequence[Path] = (),
    listeners: Mapping[int, Sequence[tuple[str, int]]] = MappingProxyType({}),
) -> Occurrence | None:
    """session: None where only directories are asked about. directories: with `meta.properties`; one that cannot be
    read says nothing here. listeners: of registered controllers, ours or Kafka's, (host, port) by id: Kafka's own show
    nothing in ZooKeeper. One that refuses connections does not run; one that cannot be reached may run.
    """
    found = [
        *(() if session is None else _sessions(session)),
        *filter(None, map(_process_on, directories)),
        *_processes_at(listeners),
    ]
    return CONTROLLERS_RUN.found(controllers="; ".join(found)) if found else None


def _sessions(session: ZkSession) -> Iterator[str]:
    names = session.children(paths.CLUSTER) or []
    shown = [f"{paths.CLUSTER}/{name}" for name in names if name.startswith(paths.PRESENCE_PREFIX)]
    for path, znode in zip(shown, session.get_many(shown), strict=True):
        if znode is not None and znode.owner:
            yield f"{_who(znode.data)}, whose session holds {path}"


def _who(data: bytes | None) -> str:
    try:
        found = msgspec.json.decode(data or b"", type=Presence)
    except msgspec.DecodeError:
        return "a controller"
    return f"controller {found.node}, process {found.pid} on host {found.host}"


def _process_on(directory: Path) -> str | None:
    """The process that holds the directory's lock, or whose control port answers."""
    control = _control(directory)
    if not _is_locked(directory) and (control is None or not _answers(control)):
        return None
    process = "a process" if control is None else f"process {control.pid}"
    return f"controller {_node(directory)}, {process}, which runs on {directory}"


def _processes_at(listeners: Mapping[int, Sequence[tuple[str, int]]]) -> list[str]:
    """All at once: a host that is down costs its time only once."""
    places = [(node, host, port) for node, each in listeners.items() for host, port in each]
    if not places:
        return []
    with ThreadPoolExecutor(len(places), thread_name_prefix="controllers") as threads:
        return [*filter(None, threads.map(lambda place: _process_at(*place), places))]


def _process_at(node: int, host: str, port: int) -> str | None:
    """Whatever accepts there: another program that got the port counts too, and is named by its place."""
    try:
        with socket.create_connection((host, port), timeout=CONNECTS_S, all_errors=True):
            return f"controller {node}, as which something accepts connections at {host}:{port}"
    except ExceptionGroup as failed:  # one of each address of this name
        errors = list(failed.exceptions)
    except (OSError, ValueError) as error:  # ValueError: a name that no resolver is asked for
        errors = [error]
    others = [each for each in errors if not isinstance(each, ConnectionRefusedError)]
    if len(others) < len(errors) and all(getattr(each, "errno", None) in NO_SUCH_NETWORK for each in others):
        return None
    return f"controller {node} perhaps, as {host}:{port} cannot be reached ({words_of(others[0])})"


def _control(directory: Path) -> _Control | None:
    try:
        return msgspec.json.decode((directory / CONTROL_FILE).read_bytes(), type=_Control)
    except (OSError, msgspec.DecodeError):
        return None


def _node(directory: Path) -> str:
    try:
        return str(read_meta_properties(directory).node_id)
    except FindingError:
        return "of an unknown id"


def _is_locked(directory: Path) -> bool:
    """False too where this user may not open it: who reads the log meets that again."""
    if not (directory / ".lock").exists():  # made here, it could belong to a user whom the controller does not run as
        return False
    lock = DirectoryLock(directory)
    try:
        lock.acquire()
    except FindingError as error:
        return error.code == DIRECTORY_LOCKED.code
    except OSError:
        return False
    lock.release()
    return False


def _answers(control: _Control) -> bool:
    """To its own token; 503 says that its loop hangs. Another process may have got the port of one that is gone."""
    if not control.url.startswith("http"):
        return False
    request = urllib.request.Request(f"{control.url}/v1/status", headers={"authorization": f"Bearer {control.token}"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=ANSWERS_S):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 503
    except (OSError, ValueError):
        return False
