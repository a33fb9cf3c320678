"""Orders in ZooKeeper for its controller: topics to delete, replicas to move, leaders to elect.

In:   which znodes of orders stand.
Out:  what is said of them, and the multis that take them away.
Elsewhere: reading them (node.zookeeper.zookeeper_orders), when they are taken away (node.driver.reconciling, and with
the last step of a way back) and when they stand in the way (node.driver.rollback, node.tools.without_controllers).
Rule: after the commit the log is the truth, and nobody reads these znodes but the ZooKeeper controller after a way
back. An order that waits for it there would delete a topic, with its data, days after it was given. So each reconcile
takes them away unheeded, and no way back leaves them behind.
Source: Kafka 3.9 `KRaftMigrationZkWriter.handleTopicsSnapshot`, which clears `/admin/delete_topics` in the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from migrator.driver.chained import guarded
from migrator.driver.claim import Claim
from migrator.findings.driver import ORDERS_IN_THE_WAY, ORDERS_STAND
from migrator.findings.finding import Finding, Occurrence
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER, Check, Delete, Multi, Operation

PLACES: Final = (paths.DELETE_TOPICS, paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION)


@dataclass(frozen=True, slots=True)
class Orders:
    """given: the path of each order. znodes: these and all below them, children before their parents."""

    given: tuple[str, ...] = ()
    znodes: tuple[str, ...] = ()

    @property
    def deletions(self) -> list[Delete]:
        return [Delete(path) for path in self.znodes]


NO_ORDERS: Final = Orders()


def orders_of(given: Iterable[str], below: Iterable[str]) -> Orders:
    """below: the znodes below the orders, in any order."""
    named = tuple(sorted(given))
    deepest_first = sorted({*named, *below}, key=lambda path: (-path.count("/"), path))
    return Orders(named, tuple(deepest_first))


def standing(orders: Orders) -> Occurrence | None:
    """The alarm of dual-write, None when there is none."""
    return _found(ORDERS_STAND, orders)


def in_the_way(orders: Orders) -> Occurrence | None:
    """Why there is no way back now, None when these do not stand in it."""
    return _found(ORDERS_IN_THE_WAY, orders)


def _found(finding: Finding, orders: Orders) -> Occurrence | None:
    return finding.found(count=len(orders.given), first=orders.given[0]) if orders.given else None


def plan_orders_removed(orders: Orders, claim: Claim, jute_maxbuffer: int = JUTE_MAXBUFFER) -> tuple[Multi, ...]:
    """Take them away while the claim stands."""
    return guarded([Check(paths.CONTROLLER_EPOCH, claim.epoch_version)], orders.deletions, jute_maxbuffer)


def with_orders(last: Multi, orders: Orders, guard: Sequence[Operation], jute_maxbuffer: int) -> tuple[Multi, ...]:
    """The multi that ends our claim, with the orders that stand; it comes last.

    What one request does not hold goes before it, while the claim stands: as long as `/controller` is ours, no
    controller carries out an order. guard: fails when the claim changed.
    """
    *before, rest = guarded(guard, orders.deletions, jute_maxbuffer - last.bytes) or (Multi(()),)
    return (*before, Multi((*last.operations, *rest.operations[len(guard) :])))
