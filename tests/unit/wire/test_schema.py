"""The declarations keep their own rules, whatever Kafka's schemas say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from migrator.wire.explain import unencodable
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.records import RECORD_TYPES
from migrator.wire.schema import ARRAY, Message, Part, Slot, declaration_of, slots_of
from tests.unit.wire.arbitrary_messages import every_message


def parts_of(part: type[Part]) -> Iterator[type[Part]]:
    yield part
    for slot in slots_of(part):
        inner = slot.field.type.element if isinstance(slot.field.type, ARRAY) else slot.field.type
        if isinstance(inner, type):
            yield from parts_of(inner)


EVERY_PART = sorted({part for message in every_message() for part in parts_of(message)}, key=lambda part: part.__name__)


def tags_of(part: type[Part]) -> list[Slot]:
    return [slot for slot in slots_of(part) if slot.field.tag is not None]


@pytest.mark.parametrize("part", EVERY_PART, ids=lambda part: part.__name__)
def test_every_field_says_what_it_means(part: type[Part]) -> None:
    assert part.__doc__, f"{part.__name__} has no sentence"
    for slot in slots_of(part):
        assert slot.field.about.strip(), slot.name
        assert slot.field.until is None or slot.field.since <= slot.field.until, slot.name


@pytest.mark.parametrize("part", EVERY_PART, ids=lambda part: part.__name__)
def test_tags_are_counted_from_zero_without_gaps(part: type[Part]) -> None:
    """Kafka's are; ours are so high that no tag of Kafka's will meet them."""
    if part is NoOpRecord:
        assert min(slot.field.tag or 0 for slot in tags_of(part)) > 10_000
        return
    assert sorted(slot.field.tag or 0 for slot in tags_of(part)) == list(range(len(tags_of(part))))


@pytest.mark.parametrize("message", list(every_message()), ids=lambda message: message.__name__)
def test_a_tag_exists_only_where_the_message_is_flexible(message: type[Message]) -> None:
    declared = declaration_of(message)
    for slot in tags_of(message):
        assert declared.flexible_since is not None, slot.name
        assert slot.field.since >= declared.flexible_since, slot.name


@pytest.mark.parametrize("message", list(every_message()), ids=lambda message: message.__name__)
def test_an_empty_message_can_be_written_in_its_latest_version(message: type[Message]) -> None:
    problem = unencodable(message(), declaration_of(message).highest, ValueError("none"))
    assert "cannot be written: none" in str(problem), "every default fits its own field"


def test_no_nested_struct_is_nullable_since_no_declared_message_needs_it() -> None:
    for part in EVERY_PART:
        for slot in slots_of(part):
            assert not (isinstance(slot.field.type, type) and slot.field.nullable), f"{part.__name__}.{slot.name}"


def test_every_name_is_given_once() -> None:
    names = [part.__name__ for part in EVERY_PART]
    assert len(names) == len(set(names))


def test_requests_and_responses_come_in_pairs_of_one_key_and_range() -> None:
    assert len(API_KEYS) == 50
    for key, api in API_KEYS.items():
        request, response = declaration_of(api.request), declaration_of(api.response)
        assert request.api_key == response.api_key == key
        assert (request.lowest, request.highest) == (response.lowest, response.highest)
        assert request.flexible_since == response.flexible_since
        assert response.name == f"{api.name}Response"


def test_all_record_types_are_there_but_those_never_given() -> None:
    assert sorted(RECORD_TYPES) == [number for number in range(30) if number not in (6, 13, 16)]


def test_a_message_cannot_be_changed_after_it_was_made() -> None:
    message = next(every_message())()
    with pytest.raises(AttributeError):
        message.max_wait_ms = 5  # type: ignore[attr-defined]
