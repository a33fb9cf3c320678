"""A random history of a real ZooKeeper, and what its clients see at the end.

In:   addresses, a seed, how many operations.
Out:  every kind of transaction that ZooKeeper 3.8 logs: creates of each kind, sets, deletes, changes of access lists,
      multis that are applied and multis that are refused, refused requests, sessions that are closed and that expire.
      Many requests are under way at once, so that snapshots are written while the tree changes.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Create, long_struct
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.zookeeper import ZooKeeper
from tests.support.jute_files import NOT_COMPARED

CONTAINER_FLAG, TTL_FLAG = 4, 5
TTL_MS: Final = 3_600_000
IN_FLIGHT: Final = 40
NEVER_MADE: Final = "never-made"
"""The name of a znode that only a refused multi makes."""

Seen = dict[str, list[Any]]


class CreateContainer(Create):  # type: ignore[misc]
    type = 19


class CreateTtl(Create):  # type: ignore[misc]
    type = 21

    def serialize(self) -> bytearray:
        packed: bytearray = super().serialize()
        packed += long_struct.pack(TTL_MS)
        return packed


@dataclass
class History:
    """Begin it with `with`; `go_on` makes operations below /h."""

    hosts: str
    seed: int
    random: random.Random = field(init=False)
    _clients: list[KazooClient] = field(default_factory=list)

    def __enter__(self) -> History:
        self.random = random.Random(self.seed)
        self._clients = [self._client() for _ in range(3)]
        self._first.add_auth("digest", "a:b")  # it alone may read and change all; others are refused some of it
        self._first.ensure_path("/h")
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._clients:
            self._end(each)

    def _client(self, hosts: str = "") -> KazooClient:
        client = KazooClient(hosts=hosts or self.hosts, timeout=30)
        client.start(timeout=20)
        return client

    @staticmethod
    def _end(client: KazooClient) -> None:
        client.stop()
        client.close()

    @property
    def _first(self) -> KazooClient:
        return self._clients[0]

    def go_on(self, operations: int) -> None:
        """Make so many operations, `IN_FLIGHT` at once, and wait for the answers of all. Some are refused."""
        waiting: deque[Any] = deque()
        for _ in range(operations):
            waiting.append(self._one())
            while len(waiting) > IN_FLIGHT:
                _answer(waiting.popleft())
        while waiting:
            _answer(waiting.popleft())

    def grow(self, znodes: int) -> None:
        """So many more, that nobody changes: a snapshot takes its time."""
        self._first.ensure_path("/big")
        for start in range(0, znodes, 500):
            multi = self._first.transaction()
            for each in range(start, start + 500):
                multi.create(f"/big/{each}", self.random.randbytes(40))
            multi.commit()

    def be_refused(self) -> None:
        """A multi whose first operations look, in the log, as if they had been applied."""
        multi = self._first.transaction()
        multi.create(f"/h/{NEVER_MADE}", b"x")
        multi.set_data("/h", b"never set")
        multi.delete("/h/absent")
        multi.commit()

    def end_a_session(self) -> None:
        """Its ephemeral znodes go with it."""
        place = self.random.randrange(1, len(self._clients))
        self._end(self._clients[place])
        self._clients[place] = self._client()

    def _path(self) -> str:
        depth = self.random.choice((1, 1, 2, 2, 3))
        return "/h/" + "/".join(f"n{self.random.randrange(9)}" for _ in range(depth))

    def _data(self) -> bytes | None:
        return self.random.choice((b"", b"same", self.random.randbytes(self.random.randrange(60)), "ü€".encode()))

    def _one(self) -> Any:
        client, path = self.random.choice(self._clients), self._path()
        makers: tuple[Callable[[], Any], ...] = (
            lambda: client.create_async(path, self._data()),
            lambda: client.create_async(path, self._data(), acl=[make_digest_acl("a", "b", all=True)]),
            lambda: client.create_async(path, self._data(), include_data=True),
            lambda: client.create_async(path, self._data(), ephemeral=True),
            lambda: client.create_async(path + "-", self._data(), sequence=True),
            lambda: _call(client, CreateContainer(path, b"c", OPEN_ACL_UNSAFE, CONTAINER_FLAG)),
            lambda: _call(client, CreateTtl(path, b"t", OPEN_ACL_UNSAFE, TTL_FLAG)),
            lambda: client.set_async(path, self._data()),
            lambda: client.set_async(path, self._data()),
            lambda: client.set_async(path, self._data(), version=self.random.randrange(3)),
            lambda: client.delete_async(path),
            lambda: client.delete_async(path),
            lambda: client.set_acls_async(path, [*OPEN_ACL_UNSAFE, *READ_ACL_UNSAFE]),
            lambda: self._multi(client),
            lambda: self._multi(client),
            lambda: self._whole_multi(client),
        )
        return self.random.choice(makers)()

    def _multi(self, client: KazooClient) -> Any:
        """Most are refused at some operation."""
        multi = client.transaction()
        for _ in range(self.random.randrange(2, 6)):
            path = self._path()
            self.random.choice(
                (
                    lambda path=path: multi.create(path, self._data()),
                    lambda path=path: multi.create(path, self._data(), ephemeral=True),
                    lambda path=path: multi.set_data(path, self._data()),
                    lambda path=path: multi.delete(path),
                    lambda path=path: multi.check(path, self.random.randrange(2)),
                )
            )()
        return multi.commit_async()

    def _whole_multi(self, client: KazooClient) -> Any:
        name = f"/h/m{self.random.randrange(10**9)}"
        multi = client.transaction()
        multi.create(name, b"1")
        multi.create(f"{name}/a", b"2")
        multi.set_data(name, b"3")
        multi.check(name, 1)
        if self.random.random() < 0.5:
            multi.delete(f"{name}/a")
        return multi.commit_async()

    def seen(self, hosts: str = "") -> Seen:
        """Every znode as a client sees it: its data and the eleven numbers of its stat.

        hosts: one server of the ensemble; empty: any.
        """
        client = self._client(hosts)
        try:
            client.add_auth("digest", "a:b")
            client.sync("/")
            below = self._below(client, "/")
            return {path: [data.hex(), *stat] for path, data, stat in below if not path.startswith(NOT_COMPARED)}
        finally:
            self._end(client)

    def _below(self, client: KazooClient, path: str) -> Iterator[tuple[str, bytes, Any]]:
        data, stat = client.get(path)
        yield path, data or b"", stat
        for name in client.get_children(path):
            yield from self._below(client, f"{path.rstrip('/')}/{name}")


def _call(client: KazooClient, request: Any) -> Any:
    result = client.handler.async_result()
    client._call(request, result)
    return result


def _answer(result: Any) -> None:
    with suppress(KazooException):
        result.get(timeout=20)


@contextmanager
def lived_through(zookeeper: ZooKeeper, seed: int, *, operations: int, big: int = 0) -> Iterator[Seen]:
    """A whole history; what a client sees at its end, while its last sessions live.

    big: znodes that make a snapshot take its time.
    """
    with History(zookeeper.hosts, seed) as history:
        history.grow(big)
        for _ in range(4):
            history.go_on(operations // 4)
            history.be_refused()
            history.end_a_session()
        yield history.seen()


def data_of(zookeeper: ZooKeeper, server: int = 0) -> Path:
    """The directory that holds `version-2` of a server."""
    return Path(zookeeper.servers[server].spec.data_directory)


SMALL: Final[Mapping[str, Value]] = {"preAllocSize": 16, "snapCount": 60, "extendedTypesEnabled": True}
"""Settings of a server: small files, many snapshots, and znodes with a time to live."""


def keep(directory: Path) -> None:
    """Write the files of a small history into a new directory, with `seen.json`."""
    with tempfile.TemporaryDirectory() as temporary, Laboratory(Path(temporary) / "lab", prepared()) as laboratory:
        zookeeper = ZooKeeper(laboratory, extra=SMALL)
        zookeeper.start()
        with lived_through(zookeeper, seed=1, operations=240) as seen:
            shutil.copytree(data_of(zookeeper) / "version-2", directory)
    (directory / "seen.json").write_text(json.dumps(seen, indent=0) + "\n")


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
