"""One hand-made fault: which text of which file is replaced, why that matters, and which tests must notice.

In:   an entry of a list (`raft.py`, `node.py`, `driver.py`, `others.py`).
Out:  the source with the fault in it.
Elsewhere: running the tests against it (runner.py), the table (page.py).
"""

from __future__ import annotations

from dataclasses import dataclass


class DoesNotApplyError(Exception):
    """The text of an entry does not stand in its file exactly once: the code moved, and the entry has to follow it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """old: stands exactly once in `file`. why: what the fault would cost. tests: paths for pytest, one must fail.

    survives: why no test finds it and that is accepted; empty for a fault that must be found.
    """

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    survives: str = ""

    @property
    def package(self) -> str:
        """`raft`, `node`, ... of `migrator`, else the name of the top directory."""
        parts = self.file.split("/")
        return parts[1] if parts[0] == "migrator" else parts[0]

    def line(self, source: str) -> int:
        """Where the text begins, counted from 1. Raises DoesNotApplyError."""
        count = source.count(self.old)
        if count != 1:
            raise DoesNotApplyError(f"{self.file}: the text stands there {count} times: {self.old!r}")
        return source[: source.index(self.old)].count("\n") + 1

    def apply(self, source: str) -> str:
        """The source with the fault. Raises DoesNotApplyError, SyntaxError."""
        self.line(source)
        changed = source.replace(self.old, self.new)
        compile(changed, self.file, "exec")
        return changed
