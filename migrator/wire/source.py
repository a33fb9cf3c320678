"""A sheet of generated Python: lines, the values they refer to, and the field that each line is about.

In:   lines from `encoders` and `decoders`.
Out:  the compiled function, and `field_at(line)` so that an error can name the field it happened in.
Elsewhere: what the lines say (`encoders`, `decoders`), keeping the functions (`generate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class GeneratedSource:
    """Collects one function. Blocks nest by one space each, since nobody but the compiler indents by them."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.namespace: dict[str, Any] = {}
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._depth = 0
        self._count = 0

    def line(self, text: str, field: str = "") -> None:
        self._lines.append(" " * self._depth + text)
        self._fields.append(field)

    @contextmanager
    def block(self, opening: str, field: str = "") -> Iterator[None]:
        self.line(opening, field)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name that no other line uses."""
        self._count += 1
        return f"{stem}_{self._count}"

    def bind(self, stem: str, value: Any) -> str:
        """Make `value` known to the function, and return the name that it has there."""
        name = self.fresh(stem)
        self.namespace[name] = value
        return name

    def literal(self, value: Any) -> str:
        """`value` as an expression: spelled out where it can be, otherwise bound."""
        if value is None or isinstance(value, (bool, int, float, str, bytes)) or value == ():
            return repr(value)
        return self.bind("DEFAULT", value)

    def field_at(self, line: int) -> str:
        return self._fields[line - 1]

    def compiled(self, name: str) -> Callable[..., Any]:
        exec(compile(self.text, f"<generated: {self.title}>", "exec"), self.namespace)
        function: Callable[..., Any] = self.namespace[name]
        return function

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
