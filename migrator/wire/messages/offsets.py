"""Offsets of partitions: where a log begins and ends, on the broker's disks and in remote storage; where an epoch ends.

In:   `schema`.
Out:  ListOffsets (2), OffsetForLeaderEpoch (23).
Elsewhere: who asks, and what is made of the answers (node.brokers, driver.checks.restarts, audit.brokers).
Source: Kafka 3.9 message schemas, KIP-101, KIP-320, KIP-405, KIP-1005; checked by tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import ErrorCode, PartitionIndex, TopicName
from migrator.wire.schema import ARRAY, INT8, INT32, INT64, Field, Message, Part


class ListOffsetsPartition(Part):
    """One partition, and which of its offsets."""

    partition_index: PartitionIndex = 0
    current_leader_epoch: Annotated[
        int, Field(INT32, "fenced if it is another one; -1: not compared", since=4, droppable=True)
    ] = -1
    timestamp: Annotated[
        int, Field(INT64, "in ms; -1 latest, -2 earliest, -3 largest time, -4 earliest local, -5 latest tiered")
    ] = 0
    max_num_offsets: Annotated[int, Field(INT32, "how many offsets at most", until=0)] = 1


class ListOffsetsTopic(Part):
    """Partitions of one topic."""

    name: TopicName = ""
    partitions: Annotated[Sequence[ListOffsetsPartition], Field(ARRAY(ListOffsetsPartition), "each at most once")] = ()


class ListOffsetsRequest(Message, api_key=2, versions=(0, 9), flexible_since=6):
    """Ask a broker for offsets of its replicas. -4 needs version 8, -5 version 9."""

    replica_id: Annotated[int, Field(INT32, "-1: a client, which only leaders answer; -2: any replica may answer")] = 0
    isolation_level: Annotated[int, Field(INT8, "1: the end is that of committed transactions", since=2)] = 0
    topics: Annotated[Sequence[ListOffsetsTopic], Field(ARRAY(ListOffsetsTopic), "by topic")] = ()


class ListOffsetsPartitionResult(Part):
    """The offset of one partition, or why there is none."""

    partition_index: PartitionIndex = 0
    error_code: ErrorCode = 0
    old_style_offsets: Annotated[Sequence[int], Field(ARRAY(INT64), "the offsets", until=0)] = ()
    timestamp: Annotated[int, Field(INT64, "of the record there; -1: not said", since=1)] = -1
    offset: Annotated[int, Field(INT64, "the offset; -1: there is none", since=1)] = -1
    leader_epoch: Annotated[int, Field(INT32, "of the record there; -1: not known", since=4)] = -1


class ListOffsetsTopicResult(Part):
    """Offsets of one topic."""

    name: TopicName = ""
    partitions: Annotated[
        Sequence[ListOffsetsPartitionResult], Field(ARRAY(ListOffsetsPartitionResult), "by partition")
    ] = ()


class ListOffsetsResponse(Message, api_key=2, versions=(0, 9), flexible_since=6):
    """An answer for each partition."""

    throttle_time_ms: Annotated[
        int, Field(INT32, "how long a quota held this request back; 0: not at all", since=2, droppable=True)
    ] = 0
    topics: Annotated[Sequence[ListOffsetsTopicResult], Field(ARRAY(ListOffsetsTopicResult), "by topic")] = ()


# --- OffsetForLeaderEpoch -----------------------------------------------------------------------------------


class EpochPartition(Part):
    """One partition, and of which leader epoch the end is asked for."""

    partition: PartitionIndex = 0
    current_leader_epoch: Annotated[
        int, Field(INT32, "refused if the broker knows another one; -1: not compared", since=2, droppable=True)
    ] = -1
    leader_epoch: Annotated[int, Field(INT32, "the epoch whose end is asked for")] = 0


class EpochTopic(Part):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: Annotated[Sequence[EpochPartition], Field(ARRAY(EpochPartition), "each at most once")] = ()


class OffsetForLeaderEpochRequest(Message, api_key=23, versions=(0, 4), flexible_since=4):
    """Ask a leader where a leader epoch ends. With a current epoch it is also asked whether it leads at that one."""

    replica_id: Annotated[int, Field(INT32, "the follower; -1: a client; -2: a debugger", since=3, droppable=True)] = -2
    topics: Annotated[Sequence[EpochTopic], Field(ARRAY(EpochTopic), "by topic")] = ()


class LeaderEpochEnd(Part):
    """Where the epoch ends, or why that is not said."""

    error_code: ErrorCode = 0
    partition: PartitionIndex = 0
    leader_epoch: Annotated[
        int, Field(INT32, "the highest epoch that is not above the one asked for", since=1, droppable=True)
    ] = -1
    end_offset: Annotated[int, Field(INT64, "behind the last record of that epoch; -1: not known")] = -1


class EpochTopicResult(Part):
    """Answers of one topic."""

    topic: TopicName = ""
    partitions: Annotated[Sequence[LeaderEpochEnd], Field(ARRAY(LeaderEpochEnd), "by partition")] = ()


class OffsetForLeaderEpochResponse(Message, api_key=23, versions=(0, 4), flexible_since=4):
    """An answer for each partition."""

    throttle_time_ms: Annotated[
        int, Field(INT32, "how long a quota held this request back; 0: not at all", since=2, droppable=True)
    ] = 0
    topics: Annotated[Sequence[EpochTopicResult], Field(ARRAY(EpochTopicResult), "by topic")] = ()
