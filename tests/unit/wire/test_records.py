"""Metadata records in their frame, against bytes put together by hand from the record schemas."""

from __future__ import annotations

import random

import pytest

from migrator.findings.finding import FindingError
from migrator.wire.codec import UnencodableError
from migrator.wire.messages.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.messages.raft import VoteRequest
from migrator.wire.primitives import encode_uvarint
from migrator.wire.records import RECORD_TYPES, decode_record, decode_versioned_record, encode_record
from migrator.wire.schema import Message
from tests.unit.wire.arbitrary_messages import arbitrary, every_version, named

ID = bytes(range(16))
OTHER_ID = bytes(range(16, 32))

BY_HAND = [
    (NoOpRecord(), 0, "01 14 00 00"),
    (ZkMigrationStateRecord(2), 0, "01 15 00 02 00"),
    (FeatureLevelRecord("metadata.version", 19), 0, "01 0c 00 11" + b"metadata.version".hex() + "0013 00"),
    (TopicRecord("foo", ID), 0, "01 02 00 04" + b"foo".hex() + ID.hex() + "00"),
    (ConfigRecord(2, "foo", "k", None), 0, "01 04 00 02 04" + b"foo".hex() + "02" + b"k".hex() + "00 00"),
    (
        PartitionRecord(7, ID, (1, 2), (2,), (), (), 2, 1, 5, 6, (OTHER_ID,)),
        1,
        "01 03 01 00000007" + ID.hex() + "03 00000001 00000002" + "02 00000002" + "01 01 00000002 00000005 00000006"
        "02" + OTHER_ID.hex() + "01 00 01 01",  # one tag: recovery state, one byte, recovering
    ),
    (
        PartitionChangeRecord(7, ID, isr=(1,), leader=1, directories=()),
        1,
        "01 05 01 00000007" + ID.hex() + "03" + "00 05 02 00000001" + "01 04 00000001" + "08 01 01",
    ),
    (
        RegisterBrokerRecord(
            broker_id=4, is_migrating_zk_broker=True, incarnation_id=ID, broker_epoch=9, rack=None, log_dirs=(ID,),
            end_points=(BrokerEndpoint("PLAINTEXT", "h", 9092, 0),), features=(BrokerFeature("f", 1, 2),),
        ),
        3,
        "01 00 03 00000004 01" + ID.hex() + "0000000000000009"
        "02 0a" + b"PLAINTEXT".hex() + "02 68 2384 0000 00" + "02 02 66 0001 0002 00" + "00 01 00"
        "01 00 11 02" + ID.hex(),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("record", "version", "text"), BY_HAND, ids=lambda value: type(value).__name__)
def test_a_record_has_the_bytes_that_its_schema_asks_for(record: Message, version: int, text: str) -> None:
    written = bytes.fromhex(text)
    assert encode_record(record, version) == written
    assert decode_versioned_record(written) == (record, version)


@pytest.mark.parametrize("pair", every_version(iter(RECORD_TYPES.values())), ids=named)
def test_every_record_comes_back_with_its_version(pair: tuple[type[Message], int]) -> None:
    record = arbitrary(random.Random(named(pair)), *pair)
    value = encode_record(record, pair[1])
    assert decode_versioned_record(value) == (record, pair[1])
    assert decode_record(value) == record


def test_a_frame_with_longer_numbers_is_read_as_the_same() -> None:
    assert decode_versioned_record(bytes.fromhex("81 00 94 00 80 00 00")) == (NoOpRecord(), 0)
    assert decode_versioned_record(bytes.fromhex("81 00 94 80 00 80 00 00")) == (NoOpRecord(), 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "the bytes end inside it"),
        ("01", "the bytes end inside it"),
        ("0114", "the bytes end inside it"),
        ("00140000", "frame version 0 is not known, only 1"),
        ("02140000", "frame version 2 is not known"),
        ("01060000", "record type 6 is not known"),
        ("011e0000", "record type 30 is not known"),
        ("01ffffffff0f0000", "record type 4294967295 is not known"),
        ("01140100", "version 1 of NoOpRecord is not known"),
        ("0103030000", "version 3 of PartitionRecord is not known"),
        ("0114000000", "1 bytes are left behind NoOpRecord"),
        ("011400", "NoOpRecord version 0.* the bytes end inside it"),
        ("01150002", "ZkMigrationStateRecord version 0"),
    ],
)
def test_what_would_stop_a_stock_controller_is_refused(value: str, reason: str) -> None:
    for _ in range(2):  # the second time the reader may already be kept
        with pytest.raises(FindingError, match=reason):
            decode_record(bytes.fromhex(value))


def test_only_metadata_records_get_the_frame() -> None:
    with pytest.raises(AssertionError, match="VoteRequest is no metadata record"):
        encode_record(VoteRequest(), 0)
    with pytest.raises(UnencodableError, match="NoOpRecord version 1 does not exist"):
        encode_record(NoOpRecord(), 1)
    with pytest.raises(UnencodableError, match="PartitionRecord version 0: leader = 4294967296 does not fit int32"):
        encode_record(PartitionRecord(leader=2**32), 0)
    with pytest.raises(FindingError, match="PartitionRecord version 0 has no field directories"):
        encode_record(PartitionRecord(directories=(ID,)), 0)


def test_type_ids_of_one_byte_are_all_there_are() -> None:
    assert all(len(encode_uvarint(type_id)) == 1 for type_id in RECORD_TYPES), "else the kept readers help nobody"
