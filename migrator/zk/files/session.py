"""A copy of a ZooKeeper server's files, read as a session is read. It never changes.

In:   the directories, and the chroot of Kafka in that ZooKeeper.
Out:  `Znode`s and names of children, by paths below the chroot.
Elsewhere: a session with an ensemble (migrator/zk/session.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from migrator.zk.bulk_read import Znode
from migrator.zk.files.server_files import FilesRead, read_server_files
from migrator.zk.files.znode_tree import TreeNode, ZnodeTree, as_read
from migrator.zk.pipeline import UNLIMITED, ReadLimits


class ZooKeeperFiles(msgspec.Struct, frozen=True):
    """Where the files of one server are. chroot: as Kafka's brokers name it behind their addresses; empty: none."""

    directories: tuple[Path, ...]
    chroot: str = ""

    def __str__(self) -> str:
        where = ",".join(map(str, self.directories))
        return f"{where} (chroot {self.chroot})" if self.chroot.strip("/") else where


class FilesSession:
    """Open it with `with`: that reads the files, and raises Z2K-5010 where they cannot be used."""

    def __init__(self, files: ZooKeeperFiles) -> None:
        self._files = files
        self._tree = ZnodeTree()
        self._read: FilesRead | None = None

    def __enter__(self) -> FilesSession:
        self._tree, self._read = read_server_files(self._files.directories)
        return self

    def __exit__(self, *_: object) -> None:
        self._tree = ZnodeTree()

    @property
    def files_read(self) -> FilesRead:
        assert self._read is not None, "the session is open"
        return self._read

    def _find(self, path: str) -> TreeNode | None:
        return self._tree.find(f"{self._files.chroot}/{path}")

    def get(self, path: str) -> Znode | None:
        node = self._find(path)
        return None if node is None else as_read(node)

    def children(self, path: str) -> list[str] | None:
        """The names below `path` in ascending order, or None when it does not exist."""
        node = self._find(path)
        return None if node is None else sorted(node.children or ())

    def get_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        """Znodes in the order of `paths`. limits: of an ensemble; a copy knows none."""
        return map(self.get, paths)

    def children_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[list[str] | None]:
        return map(self.children, paths)

    def sync(self, path: str = "/") -> None:
        """Nothing to wait for: a copy never has anything newer."""

    @property
    def lists_changed(self) -> list[str]:
        """Nobody's login can be tried on a copy, so that no access list is judged."""
        return []

    def unwritable(self, path: str) -> str | None:
        return None
