"""A ZooKeeper in memory: data versions, conditional multis, ephemerals, sequences, watches.

The tree is shared by all sessions made from one `FakeEnsemble`; `expire` ends a session as the server would. It passes
the contract of tests/contract/test_zookeeper.py, whose half for a real server has not been run yet. Unlike a server it
answers at once, fires watches before it answers, and never lags, so that `sync` has nothing to do. As a server does,
it breaks the connection at a request above its `jute.maxbuffer`, measured as kazoo would send it. Sessions may be used
by several threads at once: a write is whole, and a read of children beside it is of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any

from kazoo.protocol import serialization as wire
from kazoo.security import OPEN_ACL_UNSAFE

from migrator.findings.zookeeper import ZOOKEEPER_LOST, ZOOKEEPER_REFUSES
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import JUTE_MAXBUFFER, Check, Create, Delete, Multi, MultiOutcome, Operation, SetData
from migrator.zk.pipeline import UNLIMITED, ReadLimits
from migrator.zk.tls_sockets import ZkSockets

if TYPE_CHECKING:  # the type checker compares each signature with the real one; nothing of it is inherited
    from migrator.zk.session import PendingMulti as _Pending
    from migrator.zk.session import ZkSession as _ZkSession
else:
    _Pending = _ZkSession = object


Watch = Callable[[], object]


@dataclass
class _Node:
    data: Any
    """Bytes, or None where there is no data: which of them, a test knows."""
    version: int = 0
    czxid: int = 0
    mzxid: int = 0
    owner: int = 0
    sequence: int = 0
    acl_changes: int = 0


class _Refused(Exception):
    pass


@dataclass
class FakeEnsemble:
    nodes: dict[str, _Node] = field(default_factory=lambda: {"/": _Node(b"")})
    zxid: int = 0
    sessions: int = 0
    log: list[Multi] = field(default_factory=list)
    """Every multi that was applied."""
    guards: dict[str, str] = field(default_factory=dict)
    """Access lists as text, by path."""
    refused: set[str] = field(default_factory=set)
    """Paths whose access lists let nobody read them: neither data nor children."""
    watches: dict[tuple[str, str], set[tuple[int, Watch]]] = field(default_factory=dict)
    """By "znode" or "children" and path: of which session, and whom to call."""

    jute_maxbuffer: int = JUTE_MAXBUFFER
    writing: RLock = field(default_factory=RLock, repr=False, compare=False)

    def session(self) -> FakeSession:
        self.sessions += 1
        return FakeSession(self, self.sessions)

    def expire(self, session_id: int) -> None:
        for waiting in self.watches.values():
            waiting -= {each for each in waiting if each[0] == session_id}
        gone = [path for path, node in self.nodes.items() if node.owner == session_id]
        for path in gone:
            del self.nodes[path]
        self.zxid += 1
        self._fire(gone, came_or_went=gone)

    def create(self, path: str, data: bytes | None = None) -> None:
        """Set a node up, parents included, which have no data as Kafka's have none."""
        parent = path.rsplit("/", 1)[0]
        if parent and parent not in self.nodes:
            self.create(parent)
        self.zxid += 1
        self.nodes[path] = _Node(data, czxid=self.zxid, mzxid=self.zxid)

    def tree(self) -> dict[str, bytes]:
        return {path: node.data or b"" for path, node in sorted(self.nodes.items())}

    def apply(self, multi: Multi, session_id: int) -> MultiOutcome:
        if request_bytes(multi) > self.jute_maxbuffer:
            raise ZOOKEEPER_LOST.error(path="multi", reason="Connection has been closed")
        with self.writing:
            return self._apply(multi, session_id)

    def _apply(self, multi: Multi, session_id: int) -> MultiOutcome:
        before = {path: _Node(**vars(node)) for path, node in self.nodes.items()}
        self.zxid += 1
        versions = []
        for index, operation in enumerate(multi.operations):
            try:
                versions.append(self._one(operation, session_id))
            except _Refused as refused:
                self.nodes = before
                return MultiOutcome(failed_at=index, error=str(refused))
        self.log.append(multi)
        moved = [path for path in before.keys() | self.nodes.keys() if before.get(path) != self.nodes.get(path)]
        self._fire(moved, came_or_went=before.keys() ^ self.nodes.keys())
        return MultiOutcome(versions=tuple(versions))

    def _fire(self, moved: Iterable[str], came_or_went: Iterable[str]) -> None:
        """Call each watch once that waits for one of these."""
        keys = [("znode", path) for path in moved]
        keys += [("children", path.rsplit("/", 1)[0] or "/") for path in came_or_went]
        called = {each for key in keys for each in self.watches.pop(key, ())}
        for _, watch in called:
            watch()

    def refuse(self, path: str) -> None:
        """Raises Z2K-2004, as a session does, where a znode may not be read."""
        if path in self.refused and path in self.nodes:
            raise ZOOKEEPER_REFUSES.error(path=path, reason="NoAuthError")

    def watch(self, kind: str, path: str, session_id: int, watch: Watch | None) -> None:
        if watch is not None:
            self.watches.setdefault((kind, path), set()).add((session_id, watch))

    def _one(self, operation: Operation, session_id: int) -> int:
        match operation:
            case Check(path, version):
                self._at(path, version)
                return -1
            case Create(path, data, ephemeral, sequence):
                parent = path.rsplit("/", 1)[0] or "/"
                if parent not in self.nodes:
                    raise _Refused("no_node")
                if self.nodes[parent].owner:
                    raise _Refused("NoChildrenForEphemeralsError")
                if sequence:
                    path = f"{path}{self.nodes[parent].sequence:010d}"
                    self.nodes[parent].sequence += 1
                if path in self.nodes:
                    raise _Refused("node_exists")
                owner = session_id if ephemeral else 0
                self.nodes[path] = _Node(data, czxid=self.zxid, mzxid=self.zxid, owner=owner)
                return 0
            case SetData(path, data, version):
                node = self._at(path, version)
                node.data, node.version, node.mzxid = data, node.version + 1, self.zxid
                return node.version
            case Delete(path, version):
                self._at(path, version)
                if any(other.startswith(path + "/") for other in self.nodes):
                    raise _Refused("not_empty")
                del self.nodes[path]
                return -1

    def _at(self, path: str, version: int) -> _Node:
        node = self.nodes.get(path)
        if node is None:
            raise _Refused("no_node")
        if version not in (-1, node.version):
            raise _Refused("bad_version")
        return node


def request_bytes(multi: Multi) -> int:
    """Of the frame that a server would have to take."""
    header = 8
    return header + len(wire.Transaction([_as_sent(each) for each in multi.operations]).serialize())


def _as_sent(operation: Operation) -> object:
    match operation:
        case Check(path, version):
            return wire.CheckVersion(path, version)
        case Create(path, data, ephemeral, sequence):
            return wire.Create(path, data, OPEN_ACL_UNSAFE, ephemeral + 2 * sequence)
        case SetData(path, data, version):
            return wire.SetData(path, data, version)
        case Delete(path, version):
            return wire.Delete(path, version)


@dataclass
class FakePending(_Pending):
    result: MultiOutcome

    def outcome(self) -> MultiOutcome:
        return self.result

    def when_done(self, callback: Callable[[], None]) -> None:
        callback()


@dataclass
class FakeSession(_ZkSession):
    ensemble: FakeEnsemble
    session_id: int
    connect: str = "zk:2181"
    connected: bool = True
    sockets: ZkSockets = field(default_factory=ZkSockets)

    def get(self, path: str, watch: Callable[[], None] | None = None) -> Znode | None:
        self.ensemble.refuse(path)
        self.ensemble.watch("znode", path, self.session_id, watch)
        node = self.ensemble.nodes.get(path)
        if node is None:
            return None
        below = len(self._below(path)) if path.endswith("/partitions") else 0  # to count costs a look at every znode
        return Znode(node.data, node.version, node.mzxid, node.czxid, node.owner, node.acl_changes, below)

    def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str] | None:
        self.ensemble.refuse(path)
        if path not in self.ensemble.nodes:
            return None
        self.ensemble.watch("children", path, self.session_id, watch)
        return self._below(path)

    def _below(self, path: str) -> list[str]:
        prefix = "/" if path == "/" else path + "/"
        below = (other[len(prefix) :] for other in list(self.ensemble.nodes) if other.startswith(prefix))
        return sorted({name for name in below if name and "/" not in name})

    @property
    def lists_changed(self) -> list[str]:
        return [path for path, node in self.ensemble.nodes.items() if node.acl_changes]

    def guarded_by(self, path: str) -> str | None:
        return self.ensemble.guards.get(path) if path in self.ensemble.nodes else None

    def unwritable(self, path: str) -> str | None:
        return self.guarded_by(path)

    def get_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        return map(self.get, paths)

    def children_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[list[str] | None]:
        return map(self.children, paths)

    def apply(self, multi: Multi) -> MultiOutcome:
        return self.ensemble.apply(multi, self.session_id)

    def send(self, multi: Multi) -> FakePending:
        return FakePending(self.apply(multi))

    def sync(self, path: str = "/") -> None:
        return None

    def last_zxid(self) -> int:
        return self.ensemble.zxid

    def newest_zxid(self) -> int:
        return self.ensemble.zxid

    def close(self) -> None:
        self.ensemble.expire(self.session_id)
