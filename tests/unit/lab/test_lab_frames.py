"""A recorder cuts streams into frames as Kafka does, whatever the pieces, and keeps only what is wanted."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.lab import frames
from migrator.lab.frames import ControlType, Direction, FrameSplitter, Recorder


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def a_request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """Header version 2 with client id "3000"."""
    return struct.pack(">hhih4sb", api_key, version, correlation_id, 4, b"3000", 0) + body


def a_leader_and_isr(kind: int, version: int = 7) -> bytes:
    flag = b"\x01" if version >= 7 else b""
    head = struct.pack(">i", 3000) + flag + struct.pack(">iq", 2, 17)
    return a_request(4, version, 1, head + bytes([kind]) + b"\x01\x01\x00")


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def obvious_split(stream: bytes) -> list[bytes]:
    """The slow twin of FrameSplitter: all bytes at once."""
    payloads = []
    while stream:
        (length,) = struct.unpack(">i", stream[:4])
        payloads.append(stream[4 : 4 + length])
        stream = stream[4 + length :]
    return payloads


@given(
    payloads=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    places=st.lists(st.integers(0, 10_000), max_size=12),
    keep_all=st.booleans(),
)
def test_frames_do_not_depend_on_the_cuts(payloads: list[bytes], places: list[int], keep_all: bool) -> None:
    stream = b"".join(map(framed, payloads))

    def wants(head: bytes) -> bool:
        return keep_all or head[0] % 2 == 0

    splitter = FrameSplitter(wants)
    got = [payload for chunk in cut(stream, places) for payload in splitter.feed(chunk)]
    assert got == [payload for payload in obvious_split(stream) if wants(payload[:8])]


def test_a_stream_that_is_not_kafka_is_given_up_without_harm() -> None:
    splitter = FrameSplitter(lambda head: True)
    assert list(splitter.feed(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")) == []
    assert splitter.is_readable is True  # a length that is still possible: it waits
    splitter = FrameSplitter(lambda head: True)
    assert list(splitter.feed(b"\xff\xff\xff\xff hello")) == []
    assert splitter.is_readable is False


def test_responses_are_joined_to_their_requests() -> None:
    recorder = Recorder(keep={4, 6})
    recorder.label = "takeover"
    talk = recorder.conversation("broker-1", 3)
    talk.request_bytes(framed(a_request(1, 17, 8)) + framed(a_request(4, 7, 9, b"\0" * 20)))
    talk.response_bytes(framed(struct.pack(">i", 8) + b"fetched") + framed(struct.pack(">i", 9) + b"\0\0\0"))
    request, response = recorder.frames()
    assert (request.direction, response.direction) == (Direction.REQUEST, Direction.RESPONSE)
    assert {
        (frame.api_key, frame.version, frame.correlation_id, frame.connection) for frame in (request, response)
    } == {(4, 7, 9, 3)}
    assert {frame.label for frame in (request, response)} == {"takeover"}


def test_without_a_filter_everything_is_kept() -> None:
    recorder = Recorder(keep=None)
    talk = recorder.conversation("broker-1", 1)
    talk.request_bytes(framed(a_request(18, 3, 1)) + framed(a_request(3, 12, 2)))
    talk.response_bytes(framed(struct.pack(">i", 1)))
    assert [(frame.api_key, frame.direction.value) for frame in recorder.frames()] == [
        (18, "request"),
        (3, "request"),
        (18, "response"),
    ]
    assert len(recorder.frames(api_key=3)) == 1
    assert len(recorder.frames(direction=Direction.RESPONSE)) == 1
    assert recorder.frames(tap="broker-2") == []


@pytest.mark.parametrize("kind", list(ControlType))
def test_the_type_of_a_leader_and_isr_is_read(kind: ControlType) -> None:
    for version in (5, 6, 7):
        recorder = Recorder()
        recorder.conversation("broker-1", 1).request_bytes(framed(a_leader_and_isr(kind, version)))
        assert recorder.frames()[0].control_type is kind


def test_the_type_of_an_update_metadata_is_its_last_tagged_field() -> None:
    recorder = Recorder()
    talk = recorder.conversation("broker-1", 1)
    talk.request_bytes(framed(a_request(6, 8, 1, b"body\x00")) + framed(a_request(6, 8, 2, b"body\x01\x00\x01\x02")))
    assert [frame.control_type for frame in recorder.frames()] == [ControlType.UNKNOWN, ControlType.FULL]


def test_a_stop_replica_has_no_type() -> None:
    recorder = Recorder()
    recorder.conversation("broker-1", 1).request_bytes(framed(a_request(5, 4, 1, b"\0" * 30)))
    assert recorder.frames()[0].control_type is None


def test_what_was_saved_can_be_loaded(tmp_path: Path) -> None:
    recorder = Recorder()
    talk = recorder.conversation("broker-1", 1)
    talk.request_bytes(framed(a_leader_and_isr(2)))
    talk.response_bytes(framed(struct.pack(">i", 1) + b"\0\0\0\0"))
    index = recorder.save(tmp_path / "frames", {"kafka": "3.9.2"})
    assert frames.load(tmp_path / "frames") == recorder.frames()
    assert '"kafka": "3.9.2"' in index.read_text()
    assert (tmp_path / "frames" / "1.bin").read_bytes() == a_leader_and_isr(2)


def test_a_wait_for_a_frame_that_never_comes_ends() -> None:
    recorder = Recorder()
    recorder.conversation("broker-1", 1).request_bytes(framed(a_leader_and_isr(1)))
    assert recorder.wait_for(lambda frame: frame.api_key == 4, what="a LeaderAndIsr", deadline_s=0).version == 7
    with pytest.raises(FindingError, match="none of 1 frames is a StopReplica"):
        recorder.wait_for(lambda frame: frame.api_key == 5, what="a StopReplica", deadline_s=0)
