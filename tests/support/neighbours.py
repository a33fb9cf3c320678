"""Other applications beside Kafka in one ZooKeeper root: one protects its znodes, one changes its own all the time.

In:   the address of a real ZooKeeper, without a chroot. Out: how many changes were made until now.
Bounded: a change each `EVERY_S`, among `ZNODES` znodes, until the block is left.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

PROTECTED: Final = "/other/tokens/keys"
BUSY: Final = "/busy"
ZNODES: Final = 20
EVERY_S: Final = 0.05


@dataclass
class Neighbours:
    changes: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def change(self, client: KazooClient) -> None:
        """Until the block is left: each round one znode is changed, and one is deleted or made again."""
        while not self.ended.wait(EVERY_S):
            number = self.changes % ZNODES
            client.set(BUSY, str(self.changes).encode())
            if client.exists(f"{BUSY}/{number}"):
                client.delete(f"{BUSY}/{number}")
            else:
                client.create(f"{BUSY}/{number}", str(self.changes).encode() * 100)
            self.changes += 1


@contextmanager
def neighbours(address: str) -> Iterator[Neighbours]:
    client = KazooClient(hosts=address)
    client.start(timeout=30)
    found = Neighbours()
    writer = threading.Thread(target=found.change, args=(client,), daemon=True)
    try:
        client.add_auth("digest", "other:secret")
        client.ensure_path("/other/tokens")
        client.create(PROTECTED, b"k", acl=[make_digest_acl("other", "secret", all=True)])
        client.ensure_path(BUSY)
        writer.start()
        yield found
    finally:
        found.ended.set()
        if writer.ident is not None:
            writer.join(30)
        client.stop()
        client.close()
