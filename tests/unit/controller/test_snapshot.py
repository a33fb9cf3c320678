"""An image as records, and back: nothing is forgotten and nothing added."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from migrator.controller.replay import replay
from migrator.controller.snapshot import records_of
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, Image
from migrator.model.values import Mark
from migrator.wire.records import decode_record, encode_record
from tests.support.arbitrary_images import images


def again(image: Image) -> Image:
    draft = Draft(EMPTY)
    for record, version in records_of(image):
        replay(draft, decode_record(encode_record(record, version)))
    return draft.finish(image.position).after


@given(images(), st.dictionaries(st.sampled_from(Mark), st.text(min_size=1)))
def test_a_snapshot_of_any_image_gives_it_again(image: Image, marks: dict[str, str]) -> None:
    """R-595-15: what a voter loads is what the other one saved; our marks are kept as well."""
    marked = replace(image, marks=Map(marks))
    assert again(marked) == marked


def test_an_empty_image_has_no_records() -> None:
    assert list(records_of(EMPTY)) == []
