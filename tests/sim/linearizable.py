"""Was there an order of all operations, each within its own time, in which every read saw the last write?

In:   the history of one register: operations with begin and end.
Out:  whether such an order exists.
Source: Wing and Gong, "Testing and verifying concurrent objects" (1993), with the memory of visited states that Lowe
added: a set of finished operations and a value is tried only once.

An operation whose outcome is not known may have happened at any time after its begin, or never. Every write has its own
value; an unknown write that nobody read is left out, for it can stand at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

FOREVER = 1 << 62


@dataclass(frozen=True)
class Operation:
    """`value` is what was written, or what a read returned (0: nothing was ever written)."""

    is_write: bool
    value: int
    begin: int
    end: int = FOREVER


def is_linearizable(history: list[Operation], first: int = 0) -> bool:
    """`first` is the value before the history."""
    read = {each.value for each in history if not each.is_write}
    kept = [each for each in history if each.end < FOREVER or (each.is_write and each.value in read)]
    kept.sort(key=lambda each: each.begin)
    return _search(kept, first)


def _search(kept: list[Operation], first: int) -> bool:
    """Depth first; `done` is a bit for each operation. The next one must have begun before any open one ended."""
    whole = (1 << len(kept)) - 1
    must = sum(1 << index for index, each in enumerate(kept) if each.end < FOREVER)
    seen: set[tuple[int, int]] = set()
    stack = [(0, first)]
    while stack:
        done, value = stack.pop()
        if done & must == must or done == whole:
            return True
        if (done, value) in seen:
            continue
        seen.add((done, value))
        soonest = _soonest_end(kept, done)
        for index in range(_first_open(done), len(kept)):
            each = kept[index]
            if each.begin > soonest:
                break
            if done >> index & 1:
                continue
            if each.is_write:
                stack.append((done | 1 << index, each.value))
            elif each.value == value:
                stack.append((done | 1 << index, value))
    return False


def _first_open(done: int) -> int:
    return (~done & (done + 1)).bit_length() - 1


def _soonest_end(kept: list[Operation], done: int) -> int:
    soonest = FOREVER
    for index in range(_first_open(done), len(kept)):
        each = kept[index]
        if each.begin > soonest:
            break
        if not done >> index & 1:
            soonest = min(soonest, each.end)
    return soonest
