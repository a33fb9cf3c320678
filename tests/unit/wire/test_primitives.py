"""Variable-length numbers and the text form of ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.wire.primitives import (
    ZERO_UUID,
    decode_uvarint,
    decode_varint,
    decode_varlong,
    encode_uvarint,
    encode_varint,
    encode_varlong,
    uuid_bytes,
    uuid_text,
)
from tests.unit.wire.plain_codec import plain_uvarint


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_small_numbers_take_one_byte_and_the_largest_five(number: int, written: str) -> None:
    assert encode_uvarint(number).hex() == written
    assert decode_uvarint(bytes.fromhex(written), 0) == (number, len(written) // 2)


@pytest.mark.parametrize(
    ("number", "written"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(2**31), "ffffffff0f")]
)
def test_signed_numbers_are_folded_so_that_small_negatives_stay_short(number: int, written: str) -> None:
    assert encode_varint(number).hex() == written
    assert decode_varint(bytes.fromhex(written), 0) == (number, len(written) // 2)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=3))
def test_a_number_is_read_wherever_it_stands(number: int, before: bytes) -> None:
    written = encode_uvarint(number)
    assert written == plain_uvarint(number)
    assert decode_uvarint(before + written + b"\xff", len(before)) == (number, len(before) + len(written))


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_signed_numbers_come_back(small: int, large: int) -> None:
    assert decode_varint(encode_varint(small), 0)[0] == small
    assert decode_varlong(encode_varlong(large), 0)[0] == large


@pytest.mark.parametrize("written", ["", "80", "ffffffff", "ffffffff1f", "808080808000", "ffffffffffffffffffff7f"])
def test_a_number_that_has_no_end_or_no_room_is_refused(written: str) -> None:
    with pytest.raises(FindingError, match="Z2K-3001"):
        decode_uvarint(bytes.fromhex(written), 0)


@pytest.mark.parametrize("written", ["", "ff" * 9, "ff" * 9 + "02", "80" * 11])
def test_a_long_number_that_has_no_end_or_no_room_is_refused(written: str) -> None:
    with pytest.raises(FindingError, match="Z2K-3001"):
        decode_varlong(bytes.fromhex(written), 0)


def test_the_metadata_topic_id_reads_as_kafka_prints_it() -> None:
    assert uuid_text((1).to_bytes(16, "big")) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_bytes("AAAAAAAAAAAAAAAAAAAAAQ") == (1).to_bytes(16, "big")


@given(st.binary(min_size=16, max_size=16))
def test_an_id_survives_its_text_form(raw: bytes) -> None:
    assert uuid_bytes(uuid_text(raw)) == raw
    assert len(uuid_text(raw)) == 22


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "=", "A" * 21 + "é", "+/" + "A" * 20, "A" * 21 + "B"]
)
def test_what_is_no_id_is_refused_and_not_guessed(text: str) -> None:
    with pytest.raises(FindingError, match="Z2K-3001"):
        uuid_bytes(text)
