"""The operations of one ZooKeeper transaction, and what became of them, as values.

In:   paths, bytes and expected versions. Out: nothing; `session.py` executes, the driver plans.
A multi is all or nothing: either every operation was applied, in order, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ANY_VERSION = -1

JUTE_MAXBUFFER = 0xFFFFF
"""ZooKeeper's default limit of one request, in bytes; brokers read with the same one."""

HEADROOM_BYTES = 48_575
"""Of one request beside a znode's path and data: its header, the two guards of a multi, the access list (below 1,000
bytes in all). The rest is spare for servers that count otherwise."""

JUTE_MAXBUFFER_MIN = 2 * HEADROOM_BYTES
"""The smallest limit that a controller may be configured for. Who does not know how the servers are set keeps to it."""

ZNODE_BYTES_MAX = JUTE_MAXBUFFER - HEADROOM_BYTES
"""The largest path and data together that are written: 1,000,000 bytes. Larger ones would break and be repeated for
ever, so nothing is committed that would need one (controller.znode_limits)."""


@dataclass(frozen=True, slots=True)
class Check:
    """Fail the whole multi unless `path` is at `version`."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """data: None for a znode without data, which Kafka tells from one with a text of no bytes."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequence: bool = False

    @property
    def znode_bytes(self) -> int:
        return len(self.path.encode()) + len(self.data or b"")


@dataclass(frozen=True, slots=True)
class SetData:
    """data: as in `Create`."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION

    @property
    def znode_bytes(self) -> int:
        return len(self.path.encode()) + len(self.data or b"")


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


Operation = Check | Create | SetData | Delete


@dataclass(frozen=True, slots=True)
class Multi:
    operations: tuple[Operation, ...]

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def bytes(self) -> int:
        """About what this multi weighs on the wire; the server refuses more than its `jute.maxbuffer`."""
        return sum(_weight(operation) for operation in self.operations)

    def describe(self) -> list[str]:
        """One line per operation, for `--dry-run` and logs."""
        return [describe(operation) for operation in self.operations]


@dataclass(frozen=True, slots=True)
class MultiOutcome:
    """What became of a multi. `versions` has the new data version after each SetData, 0 after a Create, else -1.

    failed_at: index of the operation that was refused, -1 when all were applied.
    error:     "bad_version", "no_node", "node_exists", "not_empty", "no_auth" or the server's own name.
    """

    versions: tuple[int, ...] = ()
    failed_at: int = -1
    error: str = ""

    @property
    def applied(self) -> bool:
        return self.failed_at < 0


ERROR_NAMES: Final = {
    "bad_version": "BadVersion",
    "no_node": "NoNode",
    "node_exists": "NodeExists",
    "not_empty": "NotEmpty",
    "no_auth": "NoAuth",
}
"""What ZooKeeper's own documentation calls the errors of a `MultiOutcome`."""

_FRAME = 60
"""Bytes of headers, versions and access list around one operation's path and data."""


def _weight(operation: Operation) -> int:
    data = (operation.data if isinstance(operation, (Create, SetData)) else None) or b""
    path = operation.path
    return _FRAME + (len(path) if path.isascii() else len(path.encode())) + len(data)


_SECRET_ROOTS = ("/config/users/", "/config/brokers/", "/delegation_token/")
"""Credentials, tokens, and passwords of listeners are kept below these; ZooKeeper's own access lists say so too."""


def _told(path: str, data: bytes | None) -> str:
    data = data or b""
    if path.startswith(_SECRET_ROOTS):
        return f"({len(data)} bytes that are not shown)"
    return data.decode(errors="replace")


def describe(operation: Operation) -> str:
    """What is secret in an operation is not in its line, which goes into logs and reports."""
    match operation:
        case Check():
            return f"check {operation.path} is at version {operation.version}"
        case Create():
            kind = "ephemeral " if operation.ephemeral else "sequential " if operation.sequence else ""
            return f"create {kind}{operation.path} {_told(operation.path, operation.data)}"
        case SetData():
            return f"set {operation.path} at version {operation.version} to {_told(operation.path, operation.data)}"
        case Delete():
            return f"delete {operation.path} at version {operation.version}"
