"""Syntax trees of our own modules, for the tests that read code.

`ast.parse` of CPython 3.11.7 counts its depth in one place for the whole process. Where the garbage collector runs in
the middle of it, and what it ends parses something itself (the error of a task that nobody awaited is logged with its
traceback, and a traceback parses the line that it marks), the outer call ends in "AST constructor recursion depth
mismatch".
"""

from __future__ import annotations

import ast
import gc


def tree_of(source: str | bytes) -> ast.Module:
    """The tree of a module's text, built without a garbage collection in between. SyntaxError as `ast.parse`."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()
