"""What would make a znode larger than ZooKeeper takes is refused, while ZooKeeper is written as well.

In:   the size that a znode has and the one that it would get.
Out:  why the request is refused; None for what fits, and for everything that does not make the znode larger.
Elsewhere: sizes (model.znode_sizes), the limit (zk.multi, and what the file says of `jute.maxbuffer`).
Rules: stock has no such limit and would break and repeat the write for ever; here nothing that could not follow into
ZooKeeper is committed. What shrinks a znode is never refused: it is the way out.
"""

from __future__ import annotations

from collections.abc import Callable

from migrator.controller.decision import Situation
from migrator.findings.zookeeper import ZNODE_TOO_LARGE
from migrator.model.values import MigrationState


def larger_than_zookeeper_takes(situation: Situation, what: str, after: int, before: Callable[[], int]) -> str | None:
    """what: whose znode it is, in words. before: asked only when `after` is over the limit."""
    limit = situation.settings.znode_bytes_max
    if limit is None or situation.image.migration is not MigrationState.MIGRATION:
        return None
    if after <= limit or after <= before():
        return None
    return ZNODE_TOO_LARGE.found(what=what, bytes=after, limit=limit).in_full
