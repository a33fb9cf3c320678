"""How far brokers have read the metadata log, as the leader of the quorum says.

In:   addresses of controllers, and how to speak to them.
Out:  by broker id, what it has and by how much it is behind; nothing of a broker that does not fetch.
Elsewhere: what follows from it (audit/brokers/lagging.py).
Source: KIP-595 (DescribeQuorum), KIP-836. A leader forgets an observer that has not fetched for five minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from migrator.audit.brokers.lagging import ReadUpTo, lag_of
from migrator.audit.compare import BrokerLag
from migrator.node.config.properties import VoterAddress
from migrator.node.observer.log_reader import LogReader
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.raft.types import SnapshotId
from migrator.wire.messages.raft import DescribeQuorumPartitionResult, QuorumReplicaState

ANSWER_S: Final = 10.0
"""Of all controllers together."""


class _NothingIsKept:
    """Who only asks the leader reads no log."""

    blocks = False

    def begin(self) -> None: ...

    def snapshot(self, content: bytes, snapshot: SnapshotId) -> None: ...

    def batches(self, data: bytes) -> None: ...


def read_up_to(
    voters: Sequence[VoterAddress], cluster_id: str | None, security: ClientSecurity = PLAINTEXT
) -> dict[int, ReadUpTo]:
    """Ask once. Raises OSError where no controller is found to lead, where it is of another cluster, or where none
    answers in time. cluster_id: None: it is not known.
    """

    async def ask() -> DescribeQuorumPartitionResult:
        reader = LogReader(voters, cluster_id, _NothingIsKept(), security, "zk2kraft-audit")
        try:
            async with asyncio.timeout(ANSWER_S):
                quorum = await reader.describe()
                if cluster_id is not None:
                    await reader.refuse_other_cluster(quorum)
                return quorum
        finally:
            reader.close()

    return positions(asyncio.run(ask()))


def positions(quorum: DescribeQuorumPartitionResult) -> dict[int, ReadUpTo]:
    """The leader is a voter of its own list: what it has, and when it said so. By its clock alone, as ages are."""
    leader = next((each for each in quorum.current_voters if each.replica_id == quorum.leader_id), None)
    if leader is None:
        return {}
    return {
        each.replica_id: ReadUpTo(each.log_end_offset, _lag(each, leader))
        for each in (*quorum.observers, *quorum.current_voters)
        if each.replica_id >= 0 and each.log_end_offset >= 0
    }


def _lag(each: QuorumReplicaState, leader: QuorumReplicaState) -> BrokerLag:
    known = each.last_caught_up_timestamp >= 0 and leader.last_caught_up_timestamp >= 0
    ms = max(0, leader.last_caught_up_timestamp - each.last_caught_up_timestamp) if known else -1
    return lag_of(max(0, leader.log_end_offset - each.log_end_offset), ms)
