"""Every declared message in every version: written as the plain twin writes it, and read back as it was."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.wire.codec import decode, decode_each, encode, encode_part
from migrator.wire.decoders import decoder_source
from migrator.wire.encoders import encoder_source
from migrator.wire.schema import ARRAY, Encoded, Message, Part, Slot, slots_of
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


def with_parts() -> list[tuple[type[Message], int]]:
    """Messages and versions with an array of parts."""
    return [pair for pair in every_version() if arrays_of_parts(*pair)]


def arrays_of_parts(part: type[Part], version: int) -> list[Slot]:
    here = [slot for slot in slots_of(part) if slot.field.exists_in(version)]
    return [slot for slot in here if isinstance(slot.field.type, ARRAY) and isinstance(slot.field.type.element, type)]


def only(value: Any, wanted: str) -> Any:
    """The value with nothing but the field at this path."""
    name, _, rest = wanted.partition(".")
    if not name or value is None:
        return value
    if isinstance(value, tuple):
        return tuple(only(each, wanted) for each in value)
    return type(value)(**{name: only(getattr(value, name), rest)})


@pytest.mark.parametrize("pair", with_parts(), ids=named)
def test_elements_that_are_handed_on_have_the_field_asked_for_and_the_rest_is_stepped_over(
    pair: tuple[type[Message], int],
) -> None:
    message_class, version = pair
    chance = random.Random(named(pair))
    message = arbitrary(chance, message_class, version)
    written = encode(message, version)
    for array in arrays_of_parts(message_class, version):
        wanted, part = "", array.field.type.element  # type: ignore[union-attr]
        while True:
            slot = chance.choice([slot for slot in slots_of(part) if slot.field.exists_in(version)])
            wanted = f"{wanted}.{slot.name}".lstrip(".")
            inner = slot.field.type.element if isinstance(slot.field.type, ARRAY) else slot.field.type
            if not isinstance(inner, type) or chance.random() < 0.3:
                break
            part = inner
        taken: list[Part] = []
        decode_each(message_class, version, written, array.name, taken.append, frozenset({f"{array.name}.{wanted}"}))
        assert taken == [only(each, wanted) for each in getattr(message, array.name) or ()]


@pytest.mark.parametrize("pair", with_parts(), ids=named)
def test_elements_that_were_encoded_before_make_the_same_message(pair: tuple[type[Message], int]) -> None:
    message_class, version = pair
    chance = random.Random(named(pair))
    message = arbitrary(chance, message_class, version)
    parts = {
        slot.name: Encoded([encode_part(each, message_class, version) for each in getattr(message, slot.name)])
        for slot in arrays_of_parts(message_class, version)
        if getattr(message, slot.name) is not None
    }
    assert encode(msgspec.structs.replace(message, **parts), version) == encode(message, version)
