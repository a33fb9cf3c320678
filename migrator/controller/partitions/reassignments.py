"""Replicas move: a reassignment begins, is looked at, is taken back.

In:   AlterPartitionReassignments (replicas None: take it back), ListPartitionReassignments.
Out:  one PartitionChangeRecord per partition that changes; an answer per partition; what is under way; at a takeover
      the same records for moves that were ordered through ZooKeeper.
Elsewhere: its end (elections.py: with the record that brings the last new replica in sync, so mostly
alter_partition.py), what ZooKeeper and brokers hear of it (driver).
Rules: replicas wanted come first, those that will go behind them. Every replica that is neither wanted nor was there
before counts as being added, so that taking back leaves exactly who had the partition before the first move.
Source: Kafka 3.9 `ReplicationControlManager`, `PartitionReassignmentReplicas`, `PartitionReassignmentRevert`. We differ
while a move is under way already: stock keeps the earlier sets where the new ones are empty, and then removes replicas
that the newer request wants to keep, and takes back to replicas that were never there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, TOO_MANY, Decision, ItemRefused, Record, Situation
from migrator.controller.partitions.elections import (
    Assignment,
    Election,
    able_to_lead,
    active_brokers,
    change,
    unclean_enabled,
)
from migrator.controller.partitions.placement import default_directory, manual_problem
from migrator.controller.refusals import refuse
from migrator.controller.replay import changed
from migrator.controller.znode_limits import larger_than_zookeeper_takes
from migrator.model.image import Image
from migrator.model.values import Partition, Topic
from migrator.model.znode_sizes import partition_bytes, topic_bytes
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import PartitionChangeRecord
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def alter_reassignments(situation: Situation, request: AlterPartitionReassignmentsRequest) -> Decision:
    """All partitions of a request in one batch; those that are refused are answered one by one."""
    if not request.topics:
        return Decision(AlterPartitionReassignmentsResponse())
    moves = _Moves(situation)
    responses = tuple(
        ReassignableTopicResponse(topic.name, tuple(moves.answer(topic.name, each) for each in topic.partitions))
        for topic in request.topics
    )
    if len(moves.records) > RECORDS_PER_REQUEST_MAX:
        return Decision(refuse(request, Error.POLICY_VIOLATION, TOO_MANY))
    return Decision(AlterPartitionReassignmentsResponse(error_message=None, responses=responses), tuple(moves.records))


class _Moves:
    """The moves of one request; a partition that is named again is decided from what it became."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._active = active_brokers(situation.image)
        self._now: dict[tuple[bytes, int], Partition] = {}
        self._bytes: dict[bytes, int] = {}
        self.records: list[Record] = []

    def answer(self, topic: str, asked: ReassignablePartition) -> ReassignablePartitionResponse:
        try:
            self._move(topic, asked)
        except ItemRefused as refused:
            return ReassignablePartitionResponse(asked.partition_index, refused.error, refused.message)
        return ReassignablePartitionResponse(asked.partition_index, error_message=None)

    def _move(self, name: str, asked: ReassignablePartition) -> None:
        topic, partition = self._find(name, asked.partition_index)
        if asked.replicas is None:
            record = self._take_back(topic, partition)
        else:
            record = self._change(topic, partition, to=self._wanted(partition, tuple(asked.replicas)))
        if record is not None:
            message = record[0]
            assert isinstance(message, PartitionChangeRecord)
            after = changed(partition, message)
            self._check_size(topic, partition_bytes(after) - partition_bytes(partition))
            self.records.append(record)
            self._now[topic.id, partition.id] = after

    def _check_size(self, topic: Topic, more: int) -> None:
        """A topic that moves is larger in ZooKeeper until its moves end."""
        if topic.id not in self._bytes:
            self._bytes[topic.id] = topic_bytes(topic.name, topic.partitions)
        before = self._bytes[topic.id]
        words = larger_than_zookeeper_takes(self._situation, f"Topic {topic.name}", before + more, lambda: before)
        if words is not None:
            raise ItemRefused(Error.POLICY_VIOLATION, words)
        self._bytes[topic.id] = before + more

    def _find(self, name: str, number: int) -> tuple[Topic, Partition]:
        topic = self._situation.image.topic(name)
        if topic is None:
            raise ItemRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
        partition = self._now.get((topic.id, number)) or topic.partition(number)
        if partition is None:
            raise ItemRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
        return topic, partition

    def _wanted(self, partition: Partition, replicas: tuple[int, ...]) -> Assignment:
        image = self._situation.image
        problem = manual_problem(image.brokers, replicas)
        if problem is not None:
            raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, problem)
        return wanted_assignment(image, partition, replicas)

    def _take_back(self, topic: Topic, partition: Partition) -> Record | None:
        if not (partition.adding or partition.removing):
            raise ItemRefused(Error.NO_REASSIGNMENT_IN_PROGRESS, None)
        unclean = unclean_enabled(self._situation, topic.name)
        before = tuple(each for each in partition.replicas if each not in partition.adding)
        isr = tuple(each for each in partition.isr if each not in partition.adding)
        if not isr:
            if not before:
                words = "Invalid replica assignment: addingReplicas contains all replicas."
                raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, words)
            if not unclean:
                words = f"Unable to revert partition assignment for {topic.name}:{partition.id} because it would "
                raise ItemRefused(Error.INVALID_REPLICA_ASSIGNMENT, words + "require an unclean leader election.")
            isr = before[:1]
        election = Election.UNCLEAN if unclean else Election.ONLINE
        return self._change(topic, partition, to=Assignment(before), isr=isr, election=election)

    def _change(
        self,
        topic: Topic,
        partition: Partition,
        *,
        to: Assignment,
        isr: tuple[int, ...] | None = None,
        election: Election = Election.ONLINE,
    ) -> Record | None:
        return change(
            topic.id,
            partition,
            may_lead=able_to_lead(self._situation.image, partition, self._active),
            level=self._situation.image.metadata_version,
            migration_enabled=self._situation.settings.migration_enabled,
            isr=isr,
            election=election,
            to=to,
        )


def wanted_assignment(image: Image, partition: Partition, replicas: tuple[int, ...]) -> Assignment:
    """The way to `replicas`: who has to come, who may go at the end."""
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    before = set(partition.replicas) - set(partition.adding)
    adding = tuple(sorted((set(replicas) | set(partition.adding)) - before))
    new = set(replicas) - set(partition.replicas)
    return Assignment(
        replicas=(*replicas, *removing),
        removing=removing,
        adding=adding,
        directories={broker: default_directory(image.brokers[broker]) for broker in new},
    )


def begin_ordered(situation: Situation, ordered: Iterable[OrderedMove]) -> list[Record]:
    """Moves that were ordered through ZooKeeper and that nobody began there; what cannot be done is left out, as
    ZooKeeper's controller does.
    """
    moves = _Moves(situation)
    for each in ordered:
        topic = situation.image.topic(each.topic)
        partition = None if topic is None else topic.partition(each.partition)
        if partition is not None and not _is_begun(partition, each.replicas):
            moves.answer(each.topic, ReassignablePartition(each.partition, each.replicas))
    return moves.records


def _is_begun(partition: Partition, wanted: Sequence[int]) -> bool:
    stay = tuple(each for each in partition.replicas if each not in partition.removing)
    return stay == tuple(wanted)


class OrderedMove(Protocol):
    """New replicas for one partition."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def replicas(self) -> Sequence[int]: ...


# --- what is under way ------------------------------------------------------------------------------------


def list_reassignments(situation: Situation, request: ListPartitionReassignmentsRequest) -> Decision:
    """Unknown topics and partitions, and those that do not move, are left out."""
    image = situation.image
    if request.topics is None:
        moving = {topic.id: topic for topic, each in image.partitions() if each.adding or each.removing}
        listed = [_listed(topic, [each.id for each in topic.partitions]) for topic in moving.values()]
    else:
        named = [(image.topic(each.name), each.partition_indexes) for each in request.topics]
        listed = [_listed(topic, list(numbers)) for topic, numbers in named if topic is not None]
    topics = tuple(each for each in listed if each.partitions)
    return Decision(ListPartitionReassignmentsResponse(error_message=None, topics=topics))


def _listed(topic: Topic, numbers: list[int]) -> OngoingTopicReassignment:
    found = (topic.partition(number) for number in numbers)
    return OngoingTopicReassignment(
        topic.name,
        tuple(
            OngoingPartitionReassignment(each.id, each.replicas, each.adding, each.removing)
            for each in found
            if each is not None and (each.adding or each.removing)
        ),
    )
