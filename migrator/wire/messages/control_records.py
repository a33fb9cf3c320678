"""The records of control batches: what the quorum itself writes into the log and into snapshots.

In:   `schema`.
Out:  one class per control record; `api_key` is the control record's type, 2 to 6.
Elsewhere: key and batch around them (`batch`), when they are written (raft).
Source: Kafka 3.9 message schemas, KIP-595, KIP-630, KIP-853. Types 0 and 1 end transactions of clients and are never
in this log. Each record says its version twice, in its key's place and in its first field; stock writes 0 in both.
Checked by tests/contract/test_wire_kio.py and test_wire_dump_log.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import DirectoryId, KRaftVersionFeature, RaftEndpoint
from migrator.wire.primitives import ZERO_UUID
from migrator.wire.schema import ARRAY, INT16, INT32, INT64, UUID, Field, Message, Part

RecordVersion = Annotated[int, Field(INT16, "the version that this record is written in")]


class LeaderChangeVoter(Part):
    """A voter of the election."""

    voter_id: Annotated[int, Field(INT32, "the voter's node id")] = 0
    voter_directory_id: Annotated[bytes, Field(UUID, "its log directory; zero: none", since=1)] = ZERO_UUID


class LeaderChangeMessage(Message, api_key=2, versions=(0, 1), flexible_since=0):
    """A leader's first record: who leads this epoch and who voted for it. Stock 3.9 writes and reads version 0."""

    version: RecordVersion = 0
    leader_id: Annotated[int, Field(INT32, "the new leader's node id")] = 0
    voters: Annotated[Sequence[LeaderChangeVoter], Field(ARRAY(LeaderChangeVoter), "all voters")] = ()
    granting_voters: Annotated[
        Sequence[LeaderChangeVoter], Field(ARRAY(LeaderChangeVoter), "those who voted for it")
    ] = ()


class SnapshotHeaderRecord(Message, api_key=3, versions=(0, 0), flexible_since=0):
    """A snapshot's first record."""

    version: RecordVersion = 0
    last_contained_log_timestamp: Annotated[int, Field(INT64, "append time of the last record inside, in ms")] = 0


class SnapshotFooterRecord(Message, api_key=4, versions=(0, 0), flexible_since=0):
    """A snapshot's last record; without it the snapshot is not whole."""

    version: RecordVersion = 0


class KRaftVersionRecord(Message, api_key=5, versions=(0, 0), flexible_since=0):
    """The level of kraft.version from here on."""

    version: RecordVersion = 0
    kraft_version: Annotated[int, Field(INT16, "0: voters come from configuration, 1: from VotersRecord")] = 0


class VotersRecordVoter(Part):
    """A voter: identity, addresses, and what its software supports."""

    voter_id: Annotated[int, Field(INT32, "the voter's node id")] = 0
    voter_directory_id: DirectoryId = ZERO_UUID
    endpoints: Annotated[Sequence[RaftEndpoint], Field(ARRAY(RaftEndpoint), "where it listens")] = ()
    kraft_version_feature: Annotated[KRaftVersionFeature, Field(KRaftVersionFeature, "what its software supports")] = (
        KRaftVersionFeature()
    )


class VotersRecord(Message, api_key=6, versions=(0, 0), flexible_since=0):
    """The voters from here on, in force as soon as it is appended."""

    version: RecordVersion = 0
    voters: Annotated[Sequence[VotersRecordVoter], Field(ARRAY(VotersRecordVoter), "all voters")] = ()
