"""What a version writes, refuses and reads, rule by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import pytest

from migrator.findings.finding import FindingError
from migrator.wire.codec import UnencodableError, decode, decode_each, decode_from, encode, encode_into
from migrator.wire.generate import decoder_for
from migrator.wire.messages.control import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from migrator.wire.messages.handshake import ApiVersionsRequest, SaslHandshakeRequest, SaslHandshakeResponse
from migrator.wire.messages.metadata import PartitionChangeRecord, PartitionRecord
from migrator.wire.messages.raft import VotePartition, VoteRequest, VoteTopic
from migrator.wire.messages.topics import DeleteTopicsRequest, MetadataRequest, MetadataRequestTopic
from migrator.wire.schema import (
    ARRAY,
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Field,
    Message,
    Part,
)
from tests.unit.wire.plain_codec import plain_encode

AN_ID = bytes(range(16))


class Inner(Part):
    """A struct inside."""

    number: Annotated[int, Field(INT32, "any")] = 0
    words: Annotated[Sequence[str], Field(ARRAY(STRING), "any")] = ()


class Everything(Message, api_key=999, versions=(0, 3), flexible_since=2):
    """One field for each rule."""

    flag: Annotated[bool, Field(BOOL, "any")] = False
    port: Annotated[int, Field(UINT16, "any")] = 0
    wide: Annotated[int, Field(UINT32, "any")] = 0
    ratio: Annotated[float, Field(FLOAT64, "any")] = 0.0
    id: Annotated[bytes, Field(UUID, "any")] = bytes(16)
    name: Annotated[str, Field(STRING, "any")] = ""
    note: Annotated[str | None, Field(STRING, "null from version 1 on", nullable=1)] = ""
    raw: Annotated[bytes | None, Field(BYTES, "any", nullable=True)] = b""
    numbers: Annotated[Sequence[int], Field(ARRAY(INT32), "any")] = ()
    ids: Annotated[Sequence[bytes], Field(ARRAY(UUID), "any")] = ()
    maybe: Annotated[Sequence[int] | None, Field(ARRAY(INT16), "any", nullable=True)] = None
    inner: Annotated[Inner, Field(Inner, "any")] = Inner()
    inners: Annotated[Sequence[Inner] | None, Field(ARRAY(Inner), "any", nullable=True)] = ()
    old: Annotated[int, Field(INT8, "must not be lost", until=0)] = -1
    old_list: Annotated[Sequence[int], Field(ARRAY(INT32), "must not be lost", until=0)] = ()
    old_hint: Annotated[int, Field(INT8, "may be lost", until=0, droppable=True)] = -1
    tagged_number: Annotated[int, Field(INT32, "any", since=2, tag=1)] = 7
    tagged_list: Annotated[Sequence[int], Field(ARRAY(INT32), "any", since=2, tag=0)] = ()
    tagged_name: Annotated[str | None, Field(STRING, "any", since=3, nullable=True, tag=2)] = "x"
    tagged_inner: Annotated[Inner, Field(Inner, "any", since=2, tag=3, droppable=True)] = Inner()


FULL = Everything(
    flag=True,
    port=65535,
    wide=2**32 - 1,
    ratio=-1.5,
    id=AN_ID,
    name="é",
    note="",
    raw=b"\x00\xff",
    numbers=(1, -1),
    ids=(AN_ID, bytes(16)),
    maybe=(3,),
    inner=Inner(1, ("a", "b")),
    inners=(Inner(2, ()), Inner(3, ("c",))),
)


# --- one field after the other ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_full_message_comes_back_and_its_bytes_are_those_of_the_plain_twin(version: int) -> None:
    written = encode(FULL, version)
    assert written == plain_encode(FULL, version)
    assert decode(Everything, version, written) == FULL


def test_a_version_before_the_flexible_ones_has_wide_lengths_and_no_tags() -> None:
    assert encode(SaslHandshakeRequest("PLAIN"), 1).hex() == "0005" + b"PLAIN".hex()
    assert encode(SaslHandshakeResponse(33, ("A", "B")), 0).hex() == "0021" + "00000002" + "000141" + "000142"


def test_a_flexible_version_has_short_lengths_and_ends_each_struct_with_its_tags() -> None:
    vote = VoteRequest(None, 3, (VoteTopic("t", (VotePartition(0, 8, 2, AN_ID, bytes(16), 6, 400),)),))
    assert encode(vote, 1).hex() == (
        "00" + "00000003" + "02" + "0274" + "02"  # no cluster id, voter 3, one topic "t" with one partition
        "00000000" + "00000008" + "00000002" + AN_ID.hex() + "00" * 16 + "00000006" + "0000000000000190"
        "00" + "00" + "00"  # no tags of the partition, the topic, the request
    )  # fmt: skip


def test_any_byte_but_zero_is_true() -> None:
    written = bytearray(encode(FULL, 3))
    written[0] = 0x7F
    assert decode(Everything, 3, written).flag is True


def test_a_message_is_read_from_the_middle_of_a_buffer() -> None:
    written = encode(FULL, 3)
    assert decode_from(Everything, 3, b"ab" + written + b"cd", 2) == (FULL, 2 + len(written))


# --- defaults, tags -----------------------------------------------------------------------------------------


def test_a_tagged_field_at_its_default_is_not_written() -> None:
    plain = encode(Everything(), 3)
    assert plain[-1:] == b"\x00"
    assert len(encode(Everything(tagged_number=8), 3)) == len(plain) + 6  # tag, size, four bytes


def test_an_empty_tagged_list_is_its_default_whatever_its_type() -> None:
    assert encode(Everything(tagged_list=[]), 3) == encode(Everything(), 3)


def test_a_tagged_null_is_written_where_the_default_is_something_else() -> None:
    written = encode(Everything(tagged_name=None), 3)
    assert written.endswith(bytes([1, 2, 1, 0]))  # one tag: number 2, size 1, null
    assert decode(Everything, 3, written).tagged_name is None


def test_several_tags_are_written_in_ascending_order() -> None:
    message = Everything(tagged_list=(5,), tagged_number=1, tagged_name="", tagged_inner=Inner(9, ("w",)))
    written = encode(message, 3)
    assert written == plain_encode(message, 3)
    assert decode(Everything, 3, written) == message


def test_a_change_record_says_only_what_changed() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=AN_ID, leader=-1)
    assert encode(change, 1).hex() == "00000001" + AN_ID.hex() + "01" + "0104" + "ffffffff"
    assert decode(PartitionChangeRecord, 1, encode(change, 1)) == change


def test_unknown_tags_are_stepped_over_and_not_kept() -> None:
    plain = encode(VoteRequest(), 1)
    assert plain.endswith(b"\x00")
    with_tags = plain[:-1] + bytes([2, 5, 3]) + b"abc" + bytes([9, 0])
    assert decode(VoteRequest, 1, with_tags) == VoteRequest()
    assert encode(decode(VoteRequest, 1, with_tags), 1) == plain


def test_unknown_tags_are_stepped_over_beside_known_ones() -> None:
    plain = encode(Everything(), 3)
    with_tags = plain[:-1] + bytes([3]) + bytes([0, 5, 2, 0, 0, 0, 6]) + bytes([1, 4, 0, 0, 0, 1]) + bytes([77, 1, 0])
    assert decode(Everything, 3, with_tags) == Everything(tagged_list=(6,), tagged_number=1)


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (bytes([2, 1, 4, 0, 0, 0, 1, 0, 1, 1]), "tag 0 follows tag 1"),
        (bytes([2, 1, 4, 0, 0, 0, 1, 1, 4, 0, 0, 0, 1]), "tag 1 follows tag 1"),
        (bytes([1, 1, 3, 0, 0, 0, 1]), "its size does not fit its value"),
        (bytes([1, 1, 5, 0, 0, 0, 1, 0]), "its size does not fit its value"),
        (bytes([1, 9, 5, 0]), "tag 9 has 5 bytes, but 1 are left"),
        (bytes([200, 1]), "the bytes end inside it"),
    ],
)
def test_a_tagged_section_out_of_order_or_measure_is_refused(tags: bytes, reason: str) -> None:
    with pytest.raises(FindingError, match=reason):
        decode(Everything, 3, encode(Everything(), 3)[:-1] + tags)


# --- versions -----------------------------------------------------------------------------------------------


def test_a_value_that_the_version_would_lose_is_refused() -> None:
    with pytest.raises(FindingError) as refused:
        encode(Everything(old=1), 3)
    assert refused.value.code == "Z2K-3002"
    assert refused.value.occurrence.text == "Everything version 3 has no field old, but it holds 1."


def test_a_list_that_the_version_would_lose_is_refused_wherever_it_stands() -> None:
    with pytest.raises(FindingError, match="Z2K-3002"):
        encode(Everything(old_list=[4]), 1)
    assert encode(Everything(old_list=[]), 1) == encode(Everything(), 1)
    with pytest.raises(FindingError, match="eligible_leader_replicas"):
        encode(PartitionRecord(eligible_leader_replicas=()), 1)


def test_a_field_that_may_be_dropped_is_dropped() -> None:
    assert encode(Everything(old_hint=5), 1) == encode(Everything(), 1)
    assert encode(Everything(tagged_inner=Inner(1)), 1) == encode(Everything(), 1)
    assert encode(VoteRequest(voter_id=3), 0) == encode(VoteRequest(), 0)
    assert encode(ApiVersionsRequest("name", "1"), 0) == b""


def test_what_a_version_does_not_have_reads_as_its_default() -> None:
    assert decode(VoteRequest, 0, encode(VoteRequest(voter_id=3), 0)).voter_id == -1
    assert decode(ApiVersionsRequest, 0, b"") == ApiVersionsRequest()


def test_a_stop_replica_of_each_age_finds_its_own_fields() -> None:
    with pytest.raises(FindingError, match="is_kraft_controller"):
        encode(StopReplicaRequest(is_kraft_controller=True), 3)
    with pytest.raises(FindingError, match="delete_partitions"):
        encode(StopReplicaRequest(delete_partitions=True), 4)
    assert decode(StopReplicaRequest, 4, encode(StopReplicaRequest(1, True), 4)) == StopReplicaRequest(1, True)


@pytest.mark.parametrize("version", [-1, 4, 100])
def test_a_version_that_does_not_exist_is_named(version: int) -> None:
    with pytest.raises(UnencodableError, match=f"Everything version {version} does not exist"):
        encode(Everything(), version)
    with pytest.raises(FindingError, match="versions 0 to 3 are known"):
        decode(Everything, version, b"")


# --- nulls --------------------------------------------------------------------------------------------------


def test_null_is_legal_only_from_the_version_that_allows_it() -> None:
    assert decode(Everything, 1, encode(Everything(note=None), 1)).note is None
    with pytest.raises(UnencodableError, match="Everything version 0: note is None, but must have a value"):
        encode(Everything(note=None), 0)
    assert decode(MetadataRequest, 1, encode(MetadataRequest(None), 1)).topics is None
    with pytest.raises(UnencodableError, match="topics is None"):
        encode(MetadataRequest(None), 0)


@pytest.mark.parametrize(
    ("message", "version", "field", "null"),
    [
        (MetadataRequest, 0, "topics", "ffffffff"),
        (MetadataRequest, 0, "topics", "fffffffe"),
        (DeleteTopicsRequest, 4, "topic_names", "00"),
        (SaslHandshakeRequest, 0, "mechanism", "ffff"),
    ],
)
def test_a_null_where_none_is_allowed_is_refused(message: type[Message], version: int, field: str, null: str) -> None:
    with pytest.raises(FindingError, match=rf"{message.__name__} version {version}, {field} .*null is not allowed"):
        decode(message, version, bytes.fromhex(null) + bytes(8))


def test_a_length_below_minus_one_is_no_null() -> None:
    with pytest.raises(FindingError, match="the length is below -1"):
        decode(MetadataRequest, 1, bytes.fromhex("fffffffe"))


# --- long things --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [125, 126, 127, 128, 129, 300, 16383, 16384])
@pytest.mark.parametrize("version", [0, 2])
def test_arrays_around_the_one_byte_limit_are_written_like_any_other(length: int, version: int) -> None:
    message = Everything(numbers=tuple(range(length)), ids=(AN_ID,) * (length % 500), maybe=(1,) * length)
    written = encode(message, version)
    assert written == plain_encode(message, version)
    assert decode(Everything, version, written) == message


@pytest.mark.parametrize("lengths", [(126, 127), (127, 126), (127, 127), (0, 128), (128, 0)])
def test_long_and_short_arrays_stand_side_by_side(lengths: tuple[int, int]) -> None:
    state = UpdateMetadataPartitionState(isr=tuple(range(lengths[0])), replicas=tuple(range(lengths[1])))
    message = UpdateMetadataRequest(topic_states=(UpdateMetadataTopicState("t", AN_ID, (state,)),))
    for version in (5, 8):
        written = encode(message, version)
        assert written == plain_encode(message, version)
    assert decode(UpdateMetadataRequest, 8, encode(message, 8)) == message


def test_more_shapes_than_are_kept_are_still_written() -> None:
    for length in range(70):
        for other in range(70):
            message = Everything(numbers=(1,) * length, ids=(AN_ID,) * other)
            assert len(encode(message, 0)) == len(encode(Everything(), 0)) + 4 * length + 16 * other


@pytest.mark.parametrize("length", [126, 127, 128, 32767])
@pytest.mark.parametrize("version", [0, 3])
def test_strings_up_to_the_limit_come_back(length: int, version: int) -> None:
    message = Everything(name="x" * length, raw=bytes(length))
    assert decode(Everything, version, encode(message, version)) == message


@pytest.mark.parametrize("version", [0, 3])
def test_a_string_above_the_limit_is_refused_both_ways(version: int) -> None:
    with pytest.raises(UnencodableError, match="name has 32768 bytes, but at most 32767 are possible"):
        encode(Everything(name="x" * 32768), version)
    too_long = encode(SaslHandshakeRequest("x"), 1)[2:] * 32768
    with pytest.raises(FindingError):
        decode(SaslHandshakeRequest, 1, b"\x80\x00" + too_long)


def test_a_compact_string_above_the_limit_is_refused_although_its_length_has_room() -> None:
    with pytest.raises(FindingError, match="a string has at most 32767 bytes"):
        decode(VoteRequest, 1, bytes.fromhex("818002") + b"x" * 40000)


def test_bytes_may_be_given_as_a_view() -> None:
    message = Everything(raw=memoryview(b"abc"))  # type: ignore[arg-type]
    assert decode(Everything, 3, encode(message, 3)).raw == b"abc"


# --- values that no field can hold --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"port": 65536}, "port = 65536 does not fit uint16"),
        ({"port": -1}, "port = -1 does not fit uint16"),
        ({"wide": 2**32}, "wide = 4294967296 does not fit uint32"),
        ({"wide": 1.5}, "wide = 1.5 does not fit uint32"),
        ({"ratio": "1"}, "ratio = '1' does not fit float64"),
        ({"id": bytes(15)}, "id = .* is no id of 16 bytes"),
        ({"id": None}, "id is None, but must have a value"),
        ({"ids": (bytes(16), bytes(17))}, r"ids\[1\] = .* is no id of 16 bytes"),
        ({"name": None}, "name is None, but must have a value"),
        ({"name": b"raw"}, "name = b'raw' is no string"),
        ({"name": "\ud800"}, "name = .* cannot be written as UTF-8"),
        ({"raw": "text"}, "raw = 'text' are no bytes"),
        ({"numbers": (1, 2**31)}, r"numbers\[1\] = 2147483648 does not fit int32"),
        ({"numbers": 5}, "numbers = 5 is no list"),
        ({"maybe": (40000,)}, r"maybe\[0\] = 40000 does not fit int16"),
        ({"inner": None}, "inner is None"),
        ({"inner": Everything()}, "inner = .* is no Inner"),
        ({"inners": (Inner(), Inner(2**40))}, r"inners\[1\].number = 1099511627776 does not fit int32"),
        ({"inners": (Inner(0, ["a", 5]),)}, r"inners\[0\].words\[1\] = 5 is no string"),  # type: ignore[list-item]
        ({"inner": Inner(0, "word")}, "inner.words = 'word' is no list"),
        ({"tagged_number": 2**31}, "tagged_number = 2147483648 does not fit int32"),
        ({"tagged_list": None}, "tagged_list is None"),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_a_value_that_does_not_fit_is_named_with_its_field(values: dict[str, Any], problem: str, version: int) -> None:
    out = bytearray(b"before")
    with pytest.raises(UnencodableError, match=rf"Everything version {version}: {problem}"):
        encode_into(Everything(**values), version, out)
    assert out == b"before", "what was written until then is taken back"


def test_a_refused_loss_leaves_nothing_behind() -> None:
    out = bytearray()
    with pytest.raises(FindingError, match="Z2K-3002"):
        encode_into(MetadataRequest((MetadataRequestTopic(),), include_topic_authorized_operations=True), 3, out)
    assert out == b""


# --- bytes that no message has ------------------------------------------------------------------------------


def test_bytes_behind_the_message_are_refused() -> None:
    with pytest.raises(FindingError, match=r"SaslHandshakeRequest version 1 is .* at byte 3: 2 bytes are left behind"):
        decode(SaslHandshakeRequest, 1, b"\x00\x01A..")


def test_an_error_names_message_field_and_place() -> None:
    with pytest.raises(FindingError) as refused:
        decode(SaslHandshakeResponse, 1, bytes.fromhex("0000" + "00000002" + "000141" + "0005"))
    assert refused.value.occurrence.values == {
        "what": "SaslHandshakeResponse version 1, mechanisms",
        "position": 11,
        "reason": "it should have 5 bytes, but the bytes end before that",
    }


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FindingError, match=r"SaslHandshakeRequest version 1, mechanism .* the text is not UTF-8"):
        decode(SaslHandshakeRequest, 1, b"\x00\x02\xc3\x28")


def test_nothing_is_read_beyond_the_end_that_was_given() -> None:
    written = encode(FULL, 3)
    decoder = decoder_for(Everything, 3)
    assert decoder(written + bytes(50), 0, len(written)) == (FULL, len(written))
    for end in range(len(written)):
        with pytest.raises(FindingError):
            decode(Everything, 3, memoryview(written)[:end])
        with pytest.raises(FindingError):
            decoder(written + bytes(50), 0, end)


def test_elements_that_are_handed_on_one_by_one_are_those_of_the_whole_message() -> None:
    topics = tuple(
        LeaderAndIsrTopicState(
            f"topic-{number}", bytes([number]) * 16, (LeaderAndIsrPartitionState(partition_index=1),)
        )
        for number in range(3)
    )
    data = encode(LeaderAndIsrRequest(topic_states=topics), 7)
    taken: list[LeaderAndIsrTopicState] = []
    decode_each(LeaderAndIsrRequest, 7, data, "topic_states", taken.append)
    assert tuple(taken) == topics == tuple(decode(LeaderAndIsrRequest, 7, data).topic_states)
    with pytest.raises(FindingError, match="left behind its end"):
        decode_each(LeaderAndIsrRequest, 7, data + b"\0", "topic_states", taken.append)
    with pytest.raises(FindingError, match="LeaderAndIsrRequest version 7, topic_states"):
        decode_each(LeaderAndIsrRequest, 7, data[:60], "topic_states", taken.append)


def test_of_elements_that_are_handed_on_only_the_fields_asked_for_are_kept() -> None:
    """The others are stepped over: text, arrays, tags that nobody knows, and what comes behind is read as ever."""
    state = LeaderAndIsrPartitionState(
        partition_index=1, leader=2, isr=tuple(range(200)), replicas=(1, 2), adding_replicas=(3,), is_new=True
    )
    topics = tuple(LeaderAndIsrTopicState("t" * (100 * each), bytes([each]) * 16, (state,) * each) for each in range(3))
    data = encode(LeaderAndIsrRequest(topic_states=topics, live_leaders=(LeaderAndIsrLiveLeader(1, "h", 2),)), 7)
    indexes = frozenset({"topic_states.topic_id", "topic_states.partition_states.partition_index"})
    taken: list[LeaderAndIsrTopicState] = []
    decode_each(LeaderAndIsrRequest, 7, data, "topic_states", taken.append, indexes)
    short = LeaderAndIsrPartitionState(partition_index=1)
    assert taken == [LeaderAndIsrTopicState("", bytes([each]) * 16, (short,) * each) for each in range(3)]
    taken.clear()
    decode_each(LeaderAndIsrRequest, 7, data, "topic_states", taken.append, frozenset({"topic_states.topic_name"}))
    assert taken == [LeaderAndIsrTopicState("t" * (100 * each)) for each in range(3)]
    for end in range(len(data)):
        with pytest.raises(FindingError):
            decode_each(LeaderAndIsrRequest, 7, data[:end], "topic_states", taken.append, indexes)
