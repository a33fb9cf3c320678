"""Which orders for a ZooKeeper controller stand in ZooKeeper.

In:   a session. Out: `Orders` (driver.orders), whatever their znodes hold: an order that cannot be read is one too.
"""

from __future__ import annotations

from migrator.driver.orders import PLACES, Orders, orders_of
from migrator.node.zookeeper.tree_reader import descendants
from migrator.zk import paths
from migrator.zk.session import ZkSession


def read_orders(session: ZkSession) -> Orders:
    """Raises Z2K-2002 and Z2K-2004."""
    given = [f"{paths.DELETE_TOPICS}/{name}" for name in session.children(paths.DELETE_TOPICS) or ()]
    given += [path for path in PLACES[1:] if session.get(path) is not None]
    return orders_of(given, [below for path in given for below in descendants(session, path)])
