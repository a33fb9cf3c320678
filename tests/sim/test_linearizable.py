"""The checker itself: it accepts what has an order and refuses what has none."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.linearizable import FOREVER, Operation, is_linearizable


def write(value: int, begin: int, end: int = FOREVER) -> Operation:
    return Operation(True, value, begin, end)


def read(value: int, begin: int, end: int) -> Operation:
    return Operation(False, value, begin, end)


def test_a_read_sees_the_last_write_or_one_that_overlaps_it() -> None:
    assert is_linearizable([write(1, 0, 1), read(1, 2, 3)])
    assert is_linearizable([write(1, 0, 5), read(0, 1, 2), read(1, 3, 4)])
    assert not is_linearizable([write(1, 0, 1), read(0, 2, 3)])
    assert not is_linearizable([write(1, 0, 5), read(1, 1, 2), read(0, 3, 4)])


def test_an_unknown_write_may_have_happened_late_or_never() -> None:
    assert is_linearizable([write(1, 0), read(0, 1, 2), read(1, 3, 4)])
    assert is_linearizable([write(1, 0), read(0, 1, 2)])
    assert not is_linearizable([write(1, 5), read(1, 1, 2)])
    assert not is_linearizable([write(1, 0), read(1, 1, 2), read(0, 3, 4)])


def by_trying_all_orders(history: list[Operation]) -> bool:
    """The slow and obvious twin."""
    for order in permutations(history):
        value, ok = 0, True
        for index, each in enumerate(order):
            ok = ok and not any(later.end < each.begin for later in order[index + 1 :])
            if each.is_write:
                value = each.value
            else:
                ok = ok and each.value == value
        if ok:
            return True
    return False


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    operations = []
    for value in range(1, draw(st.integers(1, 5)) + 1):
        begin = draw(st.integers(0, 8))
        end = begin + draw(st.integers(1, 6))
        is_write = draw(st.booleans())
        operations.append(Operation(is_write, value if is_write else draw(st.integers(0, 3)), begin, end))
    return operations


@settings(max_examples=300, deadline=None)
@given(histories())
def test_it_agrees_with_trying_all_orders(history: list[Operation]) -> None:
    assert is_linearizable(history) == by_trying_all_orders(history)
