"""Cycle collection with bounded pauses (issue A4's loop delay): what is frozen when, and what is thawed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from migrator.node.quorum.cycle_collection import BoundedPauses


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock() -> Iterator[Clock]:
    """With a collector that runs only when a test says so, and nothing frozen afterwards."""
    gc.disable()
    before = gc.callbacks[:]
    yield Clock()
    gc.callbacks[:] = before
    gc.unfreeze()
    gc.enable()


def collect(clock: Clock, pauses: BoundedPauses, took_s: float, generation: int = 2) -> None:
    """One real collection, which takes `took_s` by this clock."""

    def later(phase: str, info: object) -> None:
        if phase == "start":
            clock.now += took_s

    gc.callbacks[:] = [pauses, later]
    gc.collect(generation)
    gc.callbacks.clear()


def test_a_long_full_collection_freezes_what_survived_it_and_no_other_does(clock: Clock) -> None:
    pauses = BoundedPauses(long_s=0.02, thaw_after_s=1000, clock=clock)
    before = gc.get_freeze_count()
    collect(clock, pauses, 0.01)
    collect(clock, pauses, 0.5, generation=1)
    assert gc.get_freeze_count() == before

    kept = Cycle()
    collect(clock, pauses, 0.5)
    assert gc.get_freeze_count() > before
    assert not any(each is kept for each in gc.get_objects())


def test_what_is_frozen_is_freed_by_its_reference_count(clock: Clock) -> None:
    pauses = BoundedPauses(long_s=0.02, thaw_after_s=1000, clock=clock)
    kept = type("Value", (), {})()
    watched = ref(kept)
    collect(clock, pauses, 0.5)
    del kept
    assert watched() is None


def test_a_frozen_cycle_is_collected_after_the_thaw_and_not_before(clock: Clock) -> None:
    pauses = BoundedPauses(long_s=0.02, thaw_after_s=1000, clock=clock)
    kept = Cycle()
    watched = ref(kept)
    collect(clock, pauses, 0.5)
    del kept
    collect(clock, pauses, 0.5)
    assert watched() is not None

    clock.now += 1000
    collect(clock, pauses, 0.5)
    assert watched() is None
    assert gc.get_freeze_count() > 0, "what survived is frozen again"
