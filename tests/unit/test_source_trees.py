"""A test that reads code does not fail for what the garbage collector finds in the middle of it."""

from __future__ import annotations

import ast
import gc

from tests.support.source_trees import tree_of


class Parses:
    """Ends only by the garbage collector, and parses something then, as the traceback of a lost error does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        deeper(15)


def deeper(levels: int) -> None:
    if levels:
        deeper(levels - 1)
    else:
        ast.parse("a + b")


def test_a_collection_that_parses_something_itself_spoils_no_tree() -> None:
    source = "\n".join(f"x{number} = (a + {number}) * [f({number}, j=2)]" for number in range(300))
    before = gc.get_threshold()
    gc.set_threshold(50)
    try:
        for _ in range(20):
            for _ in range(20):
                Parses()
            assert len(tree_of(source).body) == 300
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()
