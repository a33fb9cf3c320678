"""Headers: which of them a message has, and what a peer may send in their place."""

from __future__ import annotations

import random

import pytest

from migrator.findings.finding import FindingError
from migrator.wire.codec import UnencodableError, decode, encode
from migrator.wire.frames import (
    API_KEYS,
    FRAME_BYTES_MAX,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_frame_length,
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
)
from migrator.wire.messages.brokers import ControlledShutdownRequest, EnvelopeRequest, EnvelopeResponse
from migrator.wire.messages.configs import (
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.handshake import ApiVersion, ApiVersionsResponse, SaslHandshakeRequest
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.messages.raft import (
    VotePartition,
    VotePartitionResult,
    VoteRequest,
    VoteResponse,
    VoteTopic,
    VoteTopicResult,
)
from migrator.wire.schema import declaration_of
from tests.unit.wire.arbitrary_messages import arbitrary, refusal

EVERY_REQUEST = [
    (api.key, version) for api in API_KEYS.values() for version in range(api.declared.lowest, api.declared.highest + 1)
]


def body_of(frame: bytes) -> bytes:
    """The frame without its length, which is checked on the way."""
    assert read_frame_length(frame[:4]) == len(frame) - 4
    return frame[4:]


@pytest.mark.parametrize(("key", "version"), EVERY_REQUEST)
def test_a_request_and_its_response_come_back_with_their_headers(key: int, version: int) -> None:
    chance = random.Random(key * 100 + version)
    api = API_KEYS[key]
    request = arbitrary(chance, api.request, version)
    frame = body_of(encode_request(request, version, correlation_id=77, client_id="node-3"))
    header, found = decode_request(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (key, version, 77)
    assert header.client_id == (None if (key, version) == (7, 0) else "node-3")
    assert header.is_supported
    assert found == request

    response = arbitrary(chance, api.response, version)
    frame = body_of(encode_response(response, version, correlation_id=-5))
    assert decode_response(api.response, version, frame) == (-5, response)


def test_only_the_first_controlled_shutdown_has_no_client_id() -> None:
    assert {pair for pair in EVERY_REQUEST if request_header_version(*pair) == 0} == {(7, 0)}
    frame = encode_request(ControlledShutdownRequest(broker_id=2), 0, correlation_id=1, client_id="gone")
    assert frame.hex() == "0000000c" + "0007" + "0000" + "00000001" + "00000002"


def test_a_pre_vote_travels_as_kafka_4_lays_it_out() -> None:
    """Vote 2 by hand, after the schema in Kafka 4.0's client jar: version 1 and one byte behind the offset."""
    partition = VotePartition(0, 7, 3000, bytes(15) + b"\x01", bytes(15) + b"\x02", 6, 400, pre_vote=True)
    request = VoteRequest("c", 3001, (VoteTopic("__cluster_metadata", (partition,)),))
    body = (
        "02" + b"c".hex() + "00000bb9" + "02" + "13" + b"__cluster_metadata".hex() + "02"
        + "00000000" + "00000007" + "00000bb8" + "00" * 15 + "01" + "00" * 15 + "02" + "00000006" + f"{400:016x}"
        + "01" + "00" * 3
    )  # fmt: skip
    assert encode(request, 2).hex() == body
    assert decode(VoteRequest, 2, bytes.fromhex(body)) == request
    given = VoteResponse(0, (VoteTopicResult("t", (VotePartitionResult(0, 0, -1, 7, vote_granted=True),)),))
    assert encode(given, 2) == encode(given, 1)


def test_a_pre_vote_is_never_sent_as_a_vote() -> None:
    """An older version cannot say it; losing it in silence would ask for a vote that nobody wants."""
    request = VoteRequest(topics=(VoteTopic("t", (VotePartition(pre_vote=True),)),))
    for version in (0, 1):
        with pytest.raises(FindingError, match=r"Z2K-3002.*pre_vote"):
            encode(request, version)


def test_flexible_requests_have_header_two_and_their_responses_header_one() -> None:
    for key, version in EVERY_REQUEST:
        flexible = declaration_of(API_KEYS[key].request).is_flexible(version)
        assert (request_header_version(key, version) == 2) == flexible
        assert (response_header_version(key, version) == 1) == (flexible and key != 18)


def test_the_client_id_keeps_its_old_length_in_header_two() -> None:
    frame = encode_request(VoteRequest(), 1, correlation_id=258, client_id="n1")
    assert frame[4:].hex().startswith("0034" + "0001" + "00000102" + "0002" + b"n1".hex() + "00")


def test_a_client_without_a_name_stays_without_one() -> None:
    frame = encode_request(VoteRequest(), 1, correlation_id=1, client_id=None)
    assert read_request_header(frame[4:]).client_id is None


def test_unknown_tags_of_a_header_are_stepped_over() -> None:
    frame = encode_request(VoteRequest(), 1, correlation_id=1, client_id="n")[4:]
    at = read_request_header(frame).body_position
    with_tags = frame[: at - 1] + bytes([1, 4, 2]) + b"xy" + frame[at:]
    assert read_request_header(with_tags).body_position == at + 4
    assert decode_request(with_tags)[1] == VoteRequest()


def test_an_api_versions_answer_can_be_read_before_anything_is_known() -> None:
    frame = encode_response(ApiVersionsResponse(0, (ApiVersion(18, 0, 4),)), 4, correlation_id=9)
    assert read_response_header(frame[4:], 18, 4).body_position == 4


def test_an_api_versions_request_from_the_future_still_shows_whom_to_answer() -> None:
    frame = bytes.fromhex("0012" + "0063" + "0000002a" + "0002") + b"n1" + b"\x00" + b"what nobody knows"
    header = read_request_header(frame)
    assert header == RequestHeader(18, 99, 42, "n1", 13)
    assert not header.is_supported
    with pytest.raises(FindingError, match="versions 0 to 4 are known"):
        decode_request(frame)


def test_an_unreadable_rest_does_not_hide_whom_to_answer() -> None:
    frame = bytes.fromhex("0012" + "0063" + "0000002a" + "7fff")
    assert read_request_header(frame) == RequestHeader(18, 99, 42, None, len(frame))


def test_a_server_that_does_not_know_the_version_answers_at_version_zero() -> None:
    told = ApiVersionsResponse(35, (ApiVersion(18, 0, 3),))
    frame = encode_response(told, 0, correlation_id=6)[4:]
    assert decode_response(ApiVersionsResponse, 4, frame) == (6, told)


def test_an_answer_that_fits_no_version_is_refused_for_the_version_that_was_asked() -> None:
    with pytest.raises(FindingError, match="ApiVersionsResponse version 4"):
        decode_response(ApiVersionsResponse, 4, bytes(4) + b"\x00\x00\xff")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("", "the bytes end inside it"),
        ("0034000100", "the bytes end inside it"),
        ("03e7000000000001ffff", "requests with key 999 are not known"),
        ("ffff000000000001ffff", "requests with key -1 are not known"),
        ("0034000300000001ffff00", "Vote has versions 0 to 2, not 3"),
        ("0034ffff00000001ffff00", "Vote has versions 0 to 2, not -1"),
        ("003400010000000100", "the client id does not end within the frame"),
        ("00340001000000010005" + "6e31", "the client id does not end within the frame"),
        ("0034000100000001fffe00", "the client id does not end within the frame"),
        ("00340001000000010002" + "c328" + "00", "the client id is not UTF-8"),
        ("0034000100000001ffff", "the bytes end inside it"),
        ("0034000100000001ffff" + "0203000300", "tag 3 follows tag 3"),
        ("0034000100000001ffff" + "0103ff", "the bytes end inside it"),
    ],
)
def test_a_header_that_is_none_is_refused_with_its_reason(frame: str, reason: str) -> None:
    with pytest.raises(FindingError, match=reason):
        read_request_header(bytes.fromhex(frame))


@pytest.mark.parametrize("seed", range(30))
def test_random_frames_are_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        key, version = chance.choice(EVERY_REQUEST)
        frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + chance.randbytes(chance.randrange(40))
        for refused in (
            refusal(decode_request, frame),
            refusal(decode_response, API_KEYS[key].response, version, frame[4:]),
        ):
            assert refused is None or refused.code == "Z2K-3001"
            assert refused is None or 0 <= refused.occurrence.values["position"] <= len(frame)


@pytest.mark.parametrize("length", [-1, FRAME_BYTES_MAX + 1, 0x47455420])  # the last one is "GET " of a browser
def test_a_length_out_of_bounds_is_refused_before_anything_is_read(length: int) -> None:
    with pytest.raises(FindingError, match="The frame"):
        read_frame_length(length.to_bytes(4, "big", signed=True))


@pytest.mark.parametrize(
    ("start", "is_tls"), [(b"\x16\x03\x01\x02", True), (b"\x16\x03\x03\x00", True), (b"GET ", False)]
)
def test_a_peer_that_speaks_tls_to_a_port_without_it_is_named_as_such(start: bytes, is_tls: bool) -> None:
    with pytest.raises(FindingError) as raised:
        read_frame_length(start)
    assert raised.value.code == "Z2K-3001"
    assert ("the peer speaks TLS, and this port does not" in raised.value.occurrence.text) is is_tls


def test_a_frame_that_no_peer_would_accept_is_not_made() -> None:
    with pytest.raises(UnencodableError, match="peers accept 104857600"):
        encode_request(EnvelopeRequest(bytes(FRAME_BYTES_MAX)), 0, correlation_id=1, client_id="n")


def test_what_is_no_request_gets_no_frame() -> None:
    with pytest.raises(UnencodableError, match="NoOpRecord is neither"):
        encode_request(NoOpRecord(), 0, correlation_id=1, client_id="n")
    with pytest.raises(UnencodableError, match="at most 32767"):
        encode_request(VoteRequest(), 0, correlation_id=1, client_id="n" * 40000)


def test_an_envelope_carries_a_frame_without_its_length() -> None:
    inner = encode_request(SaslHandshakeRequest("PLAIN"), 1, correlation_id=3, client_id="c")[4:]
    outer = encode_request(EnvelopeRequest(inner, b"", bytes(4)), 0, correlation_id=4, client_id="broker")
    _header, envelope = decode_request(outer[4:])
    assert isinstance(envelope, EnvelopeRequest)
    assert decode_request(envelope.request_data)[1] == SaslHandshakeRequest("PLAIN")
    answer = encode_response(VoteResponse(), 1, correlation_id=3)[4:]
    frame = encode_response(EnvelopeResponse(answer), 0, correlation_id=4)[4:]
    assert decode_response(EnvelopeResponse, 0, frame) == (4, EnvelopeResponse(answer))


# --- words that are longer than a string may be -------------------------------------------------------------


def test_an_error_message_that_is_too_long_for_its_field_is_shortened_and_the_rest_is_as_it_was() -> None:
    """It ended the connection without an answer: a name of 32,760 bytes fits, the sentence that quotes it does not."""
    name = "é" * 16_380
    answers = (
        IncrementalAlterConfigsResourceResponse(40, f"Topic {name} has no such key.", 2, name),
        IncrementalAlterConfigsResourceResponse(0, None, 2, "short"),
    )
    for version in (0, 1):
        frame = encode_response(IncrementalAlterConfigsResponse(responses=answers), version, correlation_id=7)
        read = decode(IncrementalAlterConfigsResponse, version, body_of(frame)[4 + version :])
        assert [each.resource_name for each in read.responses] == [name, "short"]
        assert [each.error_code for each in read.responses] == [40, 0]
        words = read.responses[0].error_message
        assert words is not None
        assert words.startswith("Topic ééé")
        assert len(words.encode()) < 2_100
        assert words.endswith("... (32,783 bytes)")
        assert read.responses[1].error_message is None


def test_a_name_that_is_too_long_for_its_field_is_still_a_fault_of_the_program() -> None:
    response = IncrementalAlterConfigsResponse(
        responses=(IncrementalAlterConfigsResourceResponse(0, None, 2, "x" * 40_000),)
    )
    with pytest.raises(UnencodableError, match="resource_name has 40000 bytes"):
        encode_response(response, 1, correlation_id=7)
