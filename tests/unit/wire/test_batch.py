"""Batches of the metadata log: as stock writes them, and as stock would refuse them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.wire.batch import (
    BATCH_BYTES_MAX,
    CONTROL_TYPES,
    TornBatchError,
    build_batch,
    build_control_batch,
    control_key,
    patch_batch,
    peek,
    read_batch,
    read_batches,
    verify_crc,
)
from migrator.wire.batch_header import HEADER_BYTES
from migrator.wire.codec import UnencodableError, encode
from migrator.wire.loose_batch import LooseRecord, read_loose_batch
from migrator.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from migrator.wire.messages.shared import KRaftVersionFeature, RaftEndpoint
from migrator.wire.primitives import encode_varint
from migrator.wire.schema import declaration_of
from tests.unit.wire.arbitrary_messages import refusal

NOW_MS = 1_700_000_000_123
LEADER_CHANGE = LeaderChangeMessage(0, 3, (LeaderChangeVoter(1), LeaderChangeVoter(3)), (LeaderChangeVoter(3),))
VOTERS = VotersRecord(
    0, (VotersRecordVoter(3, bytes(range(16)), (RaftEndpoint("CONTROLLER", "h", 9093),), KRaftVersionFeature(0, 1)),)
)
SNAPSHOT_START = (SnapshotHeaderRecord(0, NOW_MS), KRaftVersionRecord(0, 1), VOTERS)


def a_batch(*values: bytes, base_offset: int = 1000) -> bytes:
    return build_batch(base_offset=base_offset, leader_epoch=5, timestamp_ms=NOW_MS, values=values or (b"v",))


def a_batch_by_hand(records: bytes, *, count: int = 1, attributes: int = 0, last_delta: int | None = None) -> bytes:
    """A batch with the right checksum around any bytes, field by field as the format lists them."""
    checked = struct.pack(">h", attributes) + struct.pack(">i", count - 1 if last_delta is None else last_delta)
    checked += struct.pack(">qq", NOW_MS, NOW_MS) + struct.pack(">qhi", -1, -1, -1) + struct.pack(">i", count) + records
    after_length = struct.pack(">i", 5) + b"\x02" + struct.pack(">I", crc32c(checked)) + checked
    return struct.pack(">qi", 1000, len(after_length)) + after_length


def a_record(
    *, attributes: int = 0, time: int = 0, delta: int = 0, key: bytes | None = None, value: bytes | None = b"v",
    headers: bytes = b"\x00",
) -> bytes:  # fmt: skip
    def sized(raw: bytes | None) -> bytes:
        return encode_varint(-1) if raw is None else encode_varint(len(raw)) + raw

    body = bytes([attributes]) + encode_varint(time) + encode_varint(delta) + sized(key) + sized(value) + headers
    return encode_varint(len(body)) + body


def a_control_batch(*, time: int = 0, key: bytes | None = None, value: bytes = b"v") -> bytes:
    return a_batch_by_hand(a_record(time=time, key=key, value=value), attributes=0x20)


FOOTER_KEY = control_key(SnapshotFooterRecord)

# --- as stock writes them -----------------------------------------------------------------------------------


def test_a_batch_has_the_bytes_that_the_format_asks_for() -> None:
    values = (b"v", bytes(200))
    assert a_batch(*values) == a_batch_by_hand(a_record(value=b"v") + a_record(delta=1, value=bytes(200)), count=2)
    header = peek(a_batch(*values))
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (1000, 1001, 5)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW_MS, NOW_MS)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.size, header.record_count) == (len(a_batch(*values)), 2)
    assert not header.is_control
    assert header.compression is None


def test_a_control_batch_has_a_key_that_says_the_type() -> None:
    batch = build_control_batch(base_offset=1000, leader_epoch=5, timestamp_ms=NOW_MS, records=[LEADER_CHANGE])
    value = bytes.fromhex("000000000003030000000100000000030002000000030000")  # fmt: skip
    assert batch == a_batch_by_hand(a_record(key=b"\x00\x00\x00\x02", value=value), attributes=0x20)
    assert peek(batch).is_control


@given(
    st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=40),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
)
@settings(max_examples=100, deadline=None)
def test_a_data_batch_comes_back(values: list[bytes], base_offset: int, leader_epoch: int) -> None:
    raw = build_batch(base_offset=base_offset, leader_epoch=leader_epoch, timestamp_ms=NOW_MS, values=values)
    batch = read_batch(b"before" + raw + b"behind", 6)
    assert batch.values == tuple(values)
    assert (batch.base_offset, batch.leader_epoch, batch.timestamp_ms) == (base_offset, leader_epoch, NOW_MS)
    assert (batch.size, batch.last_offset) == (len(raw), base_offset + len(values) - 1)
    assert not batch.is_control
    assert batch.control_records == ()
    _header, records = read_loose_batch(raw)
    assert records == tuple(LooseRecord(index, 0, None, value, ()) for index, value in enumerate(values))


def test_a_batch_of_many_records_and_long_values_comes_back() -> None:
    values = (*(bytes([index % 255 + 1]) * (index % 70 + 1) for index in range(9000)), b"x" * 70_000)
    assert read_batch(a_batch(*values)).values == values


@pytest.mark.parametrize("records", [(LEADER_CHANGE,), SNAPSHOT_START, (SnapshotFooterRecord(),)])
def test_control_records_come_back(records: tuple[LeaderChangeMessage, ...]) -> None:
    raw = build_control_batch(base_offset=7, leader_epoch=5, timestamp_ms=0, records=records)
    batch = read_batch(raw)
    assert batch.is_control
    assert batch.control_records == records
    assert (batch.values, batch.last_offset) == ((), 7 + len(records) - 1)


def test_a_leader_change_of_the_next_release_is_read_by_its_own_version() -> None:
    change = LeaderChangeMessage(1, 3, (LeaderChangeVoter(3, bytes(range(16))),), ())
    raw = build_control_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, records=[change])
    assert read_batch(raw).control_records == (change,)


def test_offset_and_epoch_can_be_given_later_under_the_same_checksum() -> None:
    raw = bytearray(a_batch(b"one", b"two"))
    patch_batch(raw, base_offset=99, leader_epoch=8)
    assert verify_crc(raw)
    assert read_batch(raw) == read_batch(
        build_batch(base_offset=99, leader_epoch=8, timestamp_ms=NOW_MS, values=(b"one", b"two"))
    )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_batches_are_read_from_any_kind_of_buffer(kind: Callable[[bytes], bytes]) -> None:
    raw = a_batch(b"a") + build_control_batch(base_offset=1001, leader_epoch=5, timestamp_ms=1, records=[LEADER_CHANGE])
    first, second = read_batches(kind(raw))
    assert (first.values, second.control_records) == ((b"a",), (LEADER_CHANGE,))
    assert type(first.values[0]) is bytes


def test_a_batch_above_the_limit_is_not_made() -> None:
    with pytest.raises(UnencodableError, match="the metadata log accepts 8388608"):
        a_batch(bytes(1) * BATCH_BYTES_MAX)
    assert len(a_batch(b"x" * (BATCH_BYTES_MAX - 100))) <= BATCH_BYTES_MAX


@pytest.mark.parametrize("values", [(), (b"a", b"")])
def test_a_batch_that_stock_would_refuse_is_not_made(values: tuple[bytes, ...]) -> None:
    with pytest.raises(AssertionError):
        build_batch(base_offset=0, leader_epoch=0, timestamp_ms=0, values=values)


def test_control_types_are_those_the_records_declare() -> None:
    for type_id, record in CONTROL_TYPES.items():
        assert declaration_of(record).api_key == type_id
        assert control_key(record) == struct.pack(">hh", 0, type_id)


# --- torn and damaged ---------------------------------------------------------------------------------------


def test_a_batch_that_was_cut_off_is_torn_wherever_the_cut_is() -> None:
    whole = a_batch(b"first")
    last = a_batch(b"second", b"third", base_offset=1001)
    for cut in range(1, len(last)):
        batches = read_batches(whole + last[:cut])
        assert next(batches).values == (b"first",)
        with pytest.raises(TornBatchError) as torn:
            next(batches)
        assert torn.value.position == len(whole)
        assert torn.value.code == "Z2K-3001"
        with pytest.raises(TornBatchError):
            verify_crc(whole + last[:cut], len(whole))


def test_a_header_can_be_looked_at_before_its_records_are_there() -> None:
    raw = a_batch(b"value")
    assert peek(raw[:HEADER_BYTES]).size == len(raw)


def test_damage_is_not_torn() -> None:
    raw = a_batch(b"one", b"two")
    for place in range(len(raw)):
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[place] ^= 1 << bit
            if place < 8 or 12 <= place < 16:  # offset and epoch are outside the checksum
                assert verify_crc(damaged)
                continue
            with pytest.raises(FindingError) as refused:
                read_batch(damaged)
            is_length = 8 <= place < 12
            assert is_length or not isinstance(refused.value, TornBatchError)
            assert is_length or place == 16 or not verify_crc(damaged)


def test_a_checksum_that_is_wrong_is_said_to_be() -> None:
    damaged = bytearray(a_batch(b"one"))
    damaged[-2] ^= 1
    with pytest.raises(FindingError, match="The record batch is not well formed at byte 3: its checksum is wrong"):
        read_batch(b"abc" + damaged, 3)


@pytest.mark.parametrize("tail", [bytes(61), bytes(500), b"\xff" * 200])
def test_a_tail_of_nothing_but_zeros_or_ones_is_damage(tail: bytes) -> None:
    with pytest.raises(FindingError, match="format") as refused:
        read_batch(tail)
    assert not isinstance(refused.value, TornBatchError)


# --- as stock would refuse them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (a_batch_by_hand(a_record(time=1)), "another time than its batch"),
        (a_batch_by_hand(a_record(time=-300)), "another time than its batch"),
        (a_batch_by_hand(a_record(delta=1)), "record 0 has offset delta 1"),
        (a_batch_by_hand(a_record(key=b"")), "a data record has a key"),
        (a_batch_by_hand(a_record(key=b"key")), "a data record has a key"),
        (a_batch_by_hand(a_record(value=None)), "a data record has no value"),
        (a_batch_by_hand(a_record(value=b"")), "a data record has no value"),
        (a_batch_by_hand(a_record(headers=b"\x02\x02h\x01")), "a record has headers"),
        (a_batch_by_hand(a_record(headers=b"\x02")), "a record has headers"),
        (a_batch_by_hand(a_record() + b"\x00"), "1 bytes are left behind its records"),
        (a_batch_by_hand(a_record() + a_record(delta=1)), "bytes are left behind its records"),
        (a_batch_by_hand(a_record(), count=2), "2 records cannot be in"),
        (a_batch_by_hand(a_record() + a_record(), count=2), "record 1 has offset delta 0"),
        (a_batch_by_hand(a_record(), count=0), "0 records cannot be in"),
        (a_batch_by_hand(a_record(), count=-1), "-1 records cannot be in"),
        (a_batch_by_hand(a_record(), count=2**31 - 1), "2147483647 records cannot be in"),
        (a_batch_by_hand(b""), "1 records cannot be in 0 bytes"),
        (a_batch_by_hand(a_record(), last_delta=5), "1 records cannot end at delta 5"),
        (a_batch_by_hand(a_record(), attributes=1), r"it is compressed \(gzip\)"),
        (a_batch_by_hand(a_record(), attributes=4), r"it is compressed \(zstd\)"),
        (a_batch_by_hand(a_record(), attributes=7), r"it is compressed \(codec 7\)"),
        (a_control_batch(), "a control record needs a key"),
        (a_control_batch(key=b"\x00\x00\x00"), "a control record needs a key"),
        (a_control_batch(key=b"\x00\x00\x00\x02", value=b""), "a control record needs a key"),
        (a_control_batch(key=b"\x00\x00\x00\x01"), "control record type 1 "),
        (a_control_batch(key=b"\x00\x00\x00\x07"), "control record type 7 "),
        (a_control_batch(key=b"\xff\xff\x00\x02"), "key version -1"),
        (a_control_batch(key=FOOTER_KEY, value=b"\x00\x01\x00"), "versions 0 to 0"),
        (a_control_batch(key=FOOTER_KEY, value=b"\x00\x00"), "SnapshotFooterRecord"),
        (a_control_batch(key=FOOTER_KEY, value=b"\x00\x00\x00\x00"), "left behind"),
        (a_control_batch(key=FOOTER_KEY, value=b"\x00\x00\x00", time=5), "another time"),
    ],
)  # fmt: skip
def test_what_would_stop_every_stock_controller_is_refused(batch: bytes, reason: str) -> None:
    assert verify_crc(batch)
    with pytest.raises(FindingError, match=reason):
        read_batch(batch)


def test_an_older_format_is_named() -> None:
    old = bytearray(a_batch())
    old[16] = 1
    with pytest.raises(FindingError, match="format 1 is not known, only 2"):
        peek(old)


def test_the_bytes_that_a_compressed_batch_would_have_do_not_matter() -> None:
    with pytest.raises(FindingError, match="compressed"):
        read_loose_batch(a_batch_by_hand(b"\x1f\x8b" + bytes(20), attributes=1))


@pytest.mark.parametrize("attributes", [0, 0x20])
@pytest.mark.parametrize("seed", range(15))
def test_damaged_records_under_a_right_checksum_are_read_or_refused(seed: int, attributes: int) -> None:
    chance = random.Random(seed)
    key = bytes([0, 0, 0, chance.randrange(8)]) if attributes else None
    record = a_record(key=key, value=encode(VOTERS, 0)) + a_record(key=key, delta=1, value=bytes(chance.randrange(200)))
    for _ in range(300):
        damaged = bytearray(record)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        batch = a_batch_by_hand(bytes(damaged[: chance.randrange(len(damaged)) + 1]), count=2, attributes=attributes)
        for reader in (read_batch, read_loose_batch):
            refused = refusal(reader, batch)
            assert refused is None or refused.code == "Z2K-3001"
            assert not isinstance(refused, TornBatchError)


# --- other topics -------------------------------------------------------------------------------------------


def test_a_loose_batch_keeps_keys_times_gaps_and_headers() -> None:
    headers = encode_varint(2) + b"\x02h\x04ab" + b"\x02i\x01"
    records = a_record(key=b"k", value=None, time=-5) + a_record(delta=9, value=b"", headers=headers)
    header, found = read_loose_batch(a_batch_by_hand(records, count=2, last_delta=9))
    assert header.last_offset == 1009
    assert found == (
        LooseRecord(0, -5, b"k", None, ()),
        LooseRecord(9, 0, None, b"", (("h", b"ab"), ("i", None))),
    )


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (encode_varint(20) + a_record()[1:] + bytes(20), "a record's length does not fit what is in it"),
        (encode_varint(-1) + a_record()[1:], "a record of -1 bytes does not end within the batch"),
        (encode_varint(99) + a_record()[1:], "a record of 99 bytes does not end within the batch"),
        (a_record(headers=encode_varint(-1)), "-1 headers cannot be in the bytes left"),
        (a_record(headers=encode_varint(2**30)), "1073741824 headers cannot be in the bytes left"),
        (a_record(headers=encode_varint(1) + b"\x02\xff\x01"), "a header's name is not UTF-8"),
        (a_record()[:-3] + b"\x7e\x76\x00", "63 bytes of a record do not end within the batch"),
        (a_record() + b"\x00", "1 bytes are left behind its records"),
    ],
)
def test_a_loose_batch_is_still_a_batch(records: bytes, reason: str) -> None:
    with pytest.raises(FindingError, match=reason):
        read_loose_batch(a_batch_by_hand(records))
