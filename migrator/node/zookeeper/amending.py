"""Put right what somebody spoiled in ZooKeeper, so that the difference to the log can be written.

In:   a session, a tree as read, what the log says, the claim.
Out:  the tree as it is afterwards; what was done, and what is left, as findings.
Elsewhere: which oddity is put right how (driver.amends), the difference itself (driver/reconciling.py).
On a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import structlog

from migrator.driver.amends import Amends, amends
from migrator.driver.chained import guarded
from migrator.driver.claim import Claim
from migrator.driver.tree import Tree
from migrator.findings.driver import ODD_ZNODES_AMENDED, ODD_ZNODES_LEFT
from migrator.findings.finding import Occurrence
from migrator.model.image import Image
from migrator.node.zookeeper.tree_reader import descendants_of, read_tree
from migrator.wire.primitives import ZERO_UUID
from migrator.zk import paths
from migrator.zk.multi import HEADROOM_BYTES, Check, Delete, Multi, Operation, SetData
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession

log = structlog.get_logger()

ROUNDS: Final = 3
"""Behind one oddity another may stand: a topic that can be read again has states."""

NAMED: Final = 100


class Amended(NamedTuple):
    """left: the alarm for what is not mirrored, and stays; None when there is nothing of the kind."""

    tree: Tree
    left: Occurrence | None


def amended(
    session: ZkSession,
    tree: Tree,
    target: Image,
    claim: Claim,
    *,
    write: Callable[[tuple[Multi, ...]], None],
    refuse: Callable[[Mapping[str, bytes]], None],
    jute_maxbuffer: int,
) -> Amended:
    """refuse: raises for topics that may not be removed, by name with their ids. write: raises for a multi that was not
    applied.
    """
    znode_bytes_max = jute_maxbuffer - HEADROOM_BYTES
    for _ in range(ROUNDS):
        made = amends(tree, target, claim.zk_epoch, znode_bytes_max)
        if not made.places:
            break
        refuse(_topics_removed(made, tree))
        write(plan_amends(session, made, claim, jute_maxbuffer))
        done = ODD_ZNODES_AMENDED.found(count=len(made.places), first=made.places[0])
        log.warning("zk.amended", code=done.code, says=done.text, znodes=made.places[:NAMED])
        tree = read_tree(session, UNLIMITED, tree)
    left = amends(tree, target, claim.zk_epoch, znode_bytes_max).left
    return Amended(tree, ODD_ZNODES_LEFT.found(count=len(left), first=left[0].text) if left else None)


def _topics_removed(made: Amends, tree: Tree) -> dict[str, bytes]:
    """Names of topics that go as a whole, with their ids in ZooKeeper; ZERO_UUID where that cannot be read."""
    root = paths.topic("")
    names = [path.removeprefix(root) for path in made.remove if path.startswith(root)]
    return {name: tree.topics[name].topic.id if name in tree.topics else ZERO_UUID for name in names}


def plan_amends(session: ZkSession, made: Amends, claim: Claim, jute_maxbuffer: int) -> tuple[Multi, ...]:
    """Plan the multis, which hold only while the claim stands. A subtree goes from its leaves up."""
    operations: list[Operation] = []
    places = sorted(made.remove)
    there = [path for path, znode in zip(places, session.get_many(places), strict=True) if znode is not None]
    for path, below in descendants_of(session, there).items():
        operations += [Delete(each) for each in [*reversed(below), path]]
    operations += [SetData(path, data) for path, data in sorted(made.rewrite.items())]
    return guarded([Check(paths.CONTROLLER_EPOCH, claim.epoch_version)], operations, jute_maxbuffer)
