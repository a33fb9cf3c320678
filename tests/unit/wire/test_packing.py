"""What generated code keeps while it runs stays small, whatever the messages look like."""

from __future__ import annotations

import tracemalloc

from migrator.wire.packing import KEPT_ELEMENTS_MAX, SHAPES_MAX, ArrayUnpackers, ShapePackers
from migrator.wire.schema import ARRAY, INT32, UUID


def test_packers_of_usual_shapes_are_kept_and_others_are_not() -> None:
    shapes = ShapePackers([INT32, ARRAY(INT32), ARRAY(INT32)], flexible=True, closed=True)
    assert shapes[2, 1](7, 3, 1, 2, 2, 9).hex() == "00000007" + "03" + "0000000100000002" + "02" + "00000009" + "00"
    assert list(shapes) == [(2, 1)]
    shapes[KEPT_ELEMENTS_MAX, 0]
    assert list(shapes) == [(2, 1)]
    for length in range(KEPT_ELEMENTS_MAX):
        for other in range(KEPT_ELEMENTS_MAX):
            shapes[length, other]
    assert len(shapes) == SHAPES_MAX


def test_readers_of_usual_lengths_are_kept_and_others_are_not() -> None:
    unpackers = ArrayUnpackers(ARRAY(INT32))
    for length in range(1000):
        assert unpackers[length](bytes(4 * length), 0) == (0,) * length
    assert len(unpackers) == KEPT_ELEMENTS_MAX


def test_a_long_array_of_ids_takes_no_more_memory_than_its_ids() -> None:
    buffer = bytes(16 * 100_000)
    tracemalloc.start()
    ids = ArrayUnpackers(ARRAY(UUID))[100_000](buffer, 0)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(ids) == 100_000
    assert peak < 100_000 * 70  # 49 bytes for each id of 16, and its places in a list and in a tuple
