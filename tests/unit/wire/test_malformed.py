"""Bytes from strangers: whatever they are, there is a message or Z2K-3001, soon and without much memory."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest

from migrator.findings.finding import FindingError
from migrator.wire.codec import decode, encode
from migrator.wire.messages.control import UpdateMetadataRequest
from migrator.wire.messages.replication import FetchResponse
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from tests.unit.wire.arbitrary_messages import arbitrary, every_version, named, refusal

HUGE_COUNTS = tuple(bytes.fromhex(text) for text in ("ffffffff0f", "ffffff7f", "7fffffff", "80000000", "ffffffff"))
SECONDS_MAX = 5.0  # of the processor, for some hundred attempts at one message (0.05), with a collection of all garbage
MEMORY_BYTES_MAX = 2_000_000  # for messages of a few kilobytes


def attempt(message: type[Message], version: int, data: bytes) -> None:
    """Read `data`: what comes out must be a message, which can be written again, or the one finding."""
    refused = refusal(decode, message, version, data)
    if refused is None:
        encode(decode(message, version, data), version)
    else:
        assert refused.code == "Z2K-3001"
        assert set(refused.occurrence.values) == {"what", "position", "reason"}
        assert 0 <= refused.occurrence.values["position"] <= len(data)


@pytest.mark.parametrize("pair", every_version(), ids=named)
def test_damaged_messages_are_read_or_refused(pair: tuple[type[Message], int]) -> None:
    chance = random.Random(named(pair))
    began = time.process_time()
    for _ in range(3):
        whole = encode(arbitrary(chance, *pair), pair[1])
        for _ in range(20):
            attempt(*pair, whole[: chance.randrange(len(whole) + 1)])
            attempt(*pair, flipped(chance, whole))
            attempt(*pair, chance.randbytes(chance.randrange(60)))
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize("pair", every_version(), ids=named)
def test_a_huge_count_costs_neither_time_nor_memory(pair: tuple[type[Message], int]) -> None:
    chance = random.Random(named(pair))
    whole = encode(arbitrary(chance, *pair), pair[1])[:2000]
    attempt(*pair, whole)  # builds the codec before the memory is counted
    began = time.process_time()
    tracemalloc.start()
    for _ in range(40):
        place = chance.randrange(len(whole) + 1)
        attempt(*pair, whole[:place] + chance.choice(HUGE_COUNTS) + whole[place + 4 :])
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MEMORY_BYTES_MAX
    assert time.process_time() - began < SECONDS_MAX


def flipped(chance: random.Random, whole: bytes) -> bytes:
    damaged = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if damaged:
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def test_a_count_that_the_bytes_could_just_hold_is_believed_no_further_than_they_go() -> None:
    header = encode(UpdateMetadataRequest(), 8)[:17]
    many = bytes.fromhex("c0843d")  # one million topics
    with pytest.raises(FindingError, match="topic_states"):
        decode(UpdateMetadataRequest, 8, header + many + b"\x01" * 100_000)


def test_a_million_unknown_tags_are_stepped_over_or_refused_quickly() -> None:
    began = time.process_time()
    with pytest.raises(FindingError, match="tagged fields"):
        decode(FetchResponse, 12, bytes(10) + b"\x01" + b"\xc0\x84\x3d" + b"\x05\x00" * 500_000)
    assert time.process_time() - began < SECONDS_MAX


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_no_metadata_record(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(200):
        data = bytes([1]) * chance.randrange(2) + chance.randbytes(chance.randrange(40))
        refused = refusal(decode_record, data)
        assert refused is None or refused.code == "Z2K-3001"
