"""Stand-ins for brokers in ZooKeeper mode (tests/support/stand_in_broker.py) on a thread of their own.

In:   the tree that they pretend to hold, where it lies, the cluster's id, the controller's port.
Out:  while the context lasts: registered, unfenced, and agreeing to whatever a controller tells them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from migrator.lab.servers.ports import HOST
from tests.support.seeded_tree import SeededTree
from tests.support.stand_in_broker import StandInBroker

DEADLINE_S: Final = 60.0


@contextmanager
def stand_in_brokers(tree: SeededTree, connect: str, cluster_id: str, controller_port: int) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def live() -> None:
        brokers = [StandInBroker(each, tree) for each in tree.brokers]
        for each in brokers:
            await each.serve(connect)
        async with asyncio.TaskGroup() as lives:
            for each in brokers:
                lives.create_task(each.join([(HOST, controller_port)], cluster_id))
            await over.wait()
            for each in brokers:
                each.close()
            ended = asyncio.all_tasks() - {asyncio.current_task()}  # answering tasks too: their loop ends with this
            for task in ended:
                task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(live()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
