"""Brokers that follow the log of an earlier quorum: before the takeover they are told nothing that would end them.

That quorum had the same addresses, and the broker was not restarted since: it knows a leader, an epoch and what was
committed. Its next start in ZooKeeper mode deletes the old log (from Kafka 3.7.2 on), and it asks from offset 0.

In:   requests for the log, with what the quorum answers.
Out:  whether the answer is withheld, who is named for it (Z2K-1055), and who reads this log: a takeover waits for all.
Source: Kafka 3.9 `KafkaRaftClient`: it ends its process when a voter that does not lead names another leader of the
epoch that it knows, or when it has to cut or replace what it knows as committed.
"""

from __future__ import annotations

from typing import Final

import structlog

from migrator.controller.contacts import NAMED_MAX
from migrator.findings.preflight import EARLIER_LOG
from migrator.model.image import METADATA_VERSION
from migrator.model.values import MigrationState
from migrator.node.leader.active_controller import ActiveController
from migrator.node.quorum.quorum_apis import replica_of
from migrator.node.quorum.raft_node import RaftNode
from migrator.wire.errors import Error
from migrator.wire.messages.replication import (
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchSnapshotPartitionResult,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from migrator.wire.schema import Message

log = structlog.get_logger()

KEPT_MAX: Final = 10_000
"""Brokers of which it is remembered which log they read."""


class EarlierLogs:
    """Observes on one listener which brokers read this log. That a broker registered says nothing: one that an earlier
    quorum refused goes on trying, without a restart.
    """

    def __init__(self, raft: RaftNode, controller: ActiveController) -> None:
        self._raft = raft
        self._controller = controller
        self._from_start: set[int] = set()  # brokers that read this log from its first record on, here

    def refuses(self, request: FetchRequest | FetchSnapshotRequest, reply: Message) -> bool:
        """Whether this answer is withheld."""
        broker = replica_of(request) if isinstance(request, FetchRequest) else request.replica_id
        if broker < 0 or broker in self._raft.voter.voters:
            return False
        image = self._controller.image
        if image.migration is not MigrationState.PRE_MIGRATION and METADATA_VERSION in image.features:
            self._controller.contacts.earlier_logs.pop(broker, None)
            return False  # after the takeover, or where nothing migrates
        known = {each.current_leader_epoch for topic in request.topics for each in topic.partitions}
        if not known.isdisjoint(_named_by_others(reply)):
            return True  # one that has no leader yet hears of it from the leader itself
        if not isinstance(request, FetchRequest) or not isinstance(reply, FetchResponse):
            return False
        told = [each for topic in reply.responses for each in topic.partitions]
        if not told or any(each.error_code != Error.NONE for each in told):
            self._name_later_epochs(broker, told)
            return False
        from_start = all(each.fetch_offset == 0 for topic in request.topics for each in topic.partitions)
        if from_start and len(self._from_start) < KEPT_MAX:
            self._from_start.add(broker)
        if not from_start and broker not in self._from_start and self._has_another(broker, told):
            self._name(broker)
            return True
        self._reads(broker)
        return False

    def _has_another(self, broker: int, told: list[FetchPartitionResult]) -> bool:
        """Whether what this broker read before is of another log.

        A short log of an earlier quorum may fit this one by epoch and offset. The leader that began this one tells: who
        reads it began with this process. A later leader finds only those that part from it. Once found it stays so for
        the leadership, also when this log has become longer than that one.
        """
        voter = self._raft.voter
        began_it = voter.log.start == 0 and voter.log.epochs.epoch_at(0) == voter.epoch
        parts = any(each.diverging_epoch.end_offset >= 0 or each.snapshot_id.end_offset >= 0 for each in told)
        return parts or began_it or broker in self._controller.contacts.earlier_logs

    def _reads(self, broker: int) -> None:
        contacts = self._controller.contacts
        contacts.earlier_logs.pop(broker, None)
        if len(contacts.reading) < KEPT_MAX or broker in self._controller.image.brokers:
            contacts.reading.add(broker)

    def _name_later_epochs(self, broker: int, told: list[FetchPartitionResult]) -> None:
        """One that knows of a later epoch than the leader ignores its answers, and reads nothing."""
        unknown = any(each.error_code == Error.UNKNOWN_LEADER_EPOCH for each in told)
        if unknown and broker not in self._from_start and self._raft.leads(self._raft.voter.epoch):
            self._name(broker)

    def _name(self, broker: int) -> None:
        contacts = self._controller.contacts
        contacts.reading.discard(broker)
        if broker not in contacts.earlier_logs and len(contacts.earlier_logs) < KEPT_MAX:
            contacts.earlier_logs[broker] = EARLIER_LOG.found(broker=broker)
            if len(contacts.earlier_logs) <= NAMED_MAX:
                log.warning(
                    "fetch.refused", broker=broker, code=EARLIER_LOG.code, reason=contacts.earlier_logs[broker].text
                )


def _named_by_others(reply: Message) -> set[int]:
    """Epochs of leaders that a voter names which does not lead."""
    told: list[FetchPartitionResult | FetchSnapshotPartitionResult] = []
    if isinstance(reply, FetchResponse):
        told = [each for topic in reply.responses for each in topic.partitions]
    elif isinstance(reply, FetchSnapshotResponse):
        told = [each for topic in reply.topics for each in topic.partitions]
    return {each.current_leader.leader_epoch for each in told if each.error_code == Error.NOT_LEADER_OR_FOLLOWER}
