"""Every declared message in every version: written as the plain twin writes it, and read back as it was."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.wire.codec import decode, encode
from migrator.wire.decoders import decoder_source
from migrator.wire.encoders import encoder_source
from migrator.wire.schema import Message
from tests.unit.wire.arbitrary_messages import arbitrary, every_version, named
from tests.unit.wire.plain_codec import plain_encode


@pytest.mark.parametrize("pair", every_version(), ids=named)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(chance=st.randoms(use_true_random=False))
def test_a_message_comes_back_as_it_was(pair: tuple[type[Message], int], chance: random.Random) -> None:
    message_class, version = pair
    message = arbitrary(chance, message_class, version)
    written = encode(message, version)
    assert written == plain_encode(message, version)
    assert decode(message_class, version, written) == message


@pytest.mark.parametrize("pair", every_version(), ids=named)
def test_an_empty_message_comes_back_as_its_defaults(pair: tuple[type[Message], int]) -> None:
    message_class, version = pair
    assert decode(message_class, version, encode(message_class(), version)) == message_class()


def test_the_generated_source_can_be_read() -> None:
    message_class, version = every_version()[0]
    assert encoder_source(message_class, version).text.startswith("def encode(message, out):\n")
    assert decoder_source(message_class, version).text.startswith("def decode(buffer, position, end):\n")
