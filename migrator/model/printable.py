"""Text of others for a terminal: what people and clusters wrote may move the cursor, or forge a line.

In:   any text. Out: the same, with every character that a terminal obeys as the number of it.
Source: ECMA-48 (control functions C0 and C1), Unicode TR36 (line separators and directional formatting).
"""

from __future__ import annotations

from typing import Final

OBEYED: Final = "\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069"
"""As a class of regular expressions: control characters, line separators, changes of the direction."""

_RANGES: Final = ((0x00, 0x1F), (0x7F, 0x9F), (0x2028, 0x2029), (0x202A, 0x202E), (0x2066, 0x2069))
_SHOWN: Final = {
    number: f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
    for first, last in _RANGES
    for number in range(first, last + 1)
}


def printable(text: str) -> str:
    """One line that a terminal only shows."""
    return text.translate(_SHOWN)


def printable_lines(text: str) -> str:
    """The same of a text whose own line ends and tabs are meant."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
