"""That brokers registered in KRaft mode since the takeover, in ZooKeeper: a persistent znode beside the claim.

In:   ids of brokers that the leading controller has in KRaft mode.
Out:  `/cluster/zk2kraft_kraft_brokers`, until the cluster is rolled back.
Elsewhere: who demands a log while it stands (tools/without_controllers.py), who shows that a controller leads
(presence.py), the intent of the finalize, which the service writes.
Why: such a broker has directories that are assigned in the log only, and runs without any trace in ZooKeeper. Whoever
rolls back with ZooKeeper alone cannot see either.
Limits: written a moment after the registration is committed. Where an access list forbids it, it is missing, and the
log of the controller says so.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import structlog

from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.session import ZkSession

log = structlog.get_logger()

AGAIN: Final = ("bad_version", "node_exists", "no_node")
"""Another leader wrote or deleted it meanwhile; the next look reads it again."""


class KraftBrokers(msgspec.Struct):
    """What the znode says: every broker that was in KRaft mode once, in the order of their ids."""

    brokers: tuple[int, ...] = ()


class KraftBrokersNoted:
    """Notes brokers in KRaft mode in ZooKeeper, for one driver."""

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._noted: frozenset[int] = frozenset()

    def note(self, brokers: Collection[int]) -> None:
        """Add them to what the znode says. On a thread.

        Raises Z2K-2002 when ZooKeeper does not answer.
        """
        if self._noted.issuperset(brokers):
            return
        found = self._session.get(paths.KRAFT_BROKERS)
        known = frozenset(brokers).union(() if found is None else _read(found.data))
        data = msgspec.json.encode(KraftBrokers(tuple(sorted(known))))
        write = (
            Create(paths.KRAFT_BROKERS, data) if found is None else SetData(paths.KRAFT_BROKERS, data, found.version)
        )
        outcome = self._session.apply(Multi((write,)))
        if outcome.applied or outcome.error not in AGAIN:  # what an access list forbids, it forbids at each look
            self._noted = known
        if not outcome.applied:
            log.warning("kraft_brokers.not_noted", path=paths.KRAFT_BROKERS, error=outcome.error)


def kraft_brokers(znode: Znode) -> tuple[int, ...]:
    """What it says; empty where it says something else."""
    return _read(znode.data)


def forget_kraft_brokers(session: ZkSession) -> None:
    """Delete the note once the claim is gone: the next migration of this cluster begins without it.

    Raises Z2K-2002 when ZooKeeper does not answer. Left alone it asks for a log once more than needed.
    """
    znode = session.get(paths.KRAFT_BROKERS)
    if znode is not None:
        session.apply(Multi((Delete(paths.KRAFT_BROKERS, znode.version),)))


def _read(data: bytes | None) -> tuple[int, ...]:
    try:
        return msgspec.json.decode(data or b"", type=KraftBrokers).brokers
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
