"""Numbers in texts, as strictly as Java reads them: Python's own readers also take `1_000`, blanks and other scripts.

In:   a text of a znode.
Out:  the number that Kafka reads there. Raises ValueError where Kafka's reader throws.
Elsewhere: which key is read in which way (normalise.py, security_facts.py).
Source: Java 17 `Long.parseLong`, `Integer.parseInt`, `Double.parseDouble`. A double in hexadecimal is not taken here,
though Java takes it.
"""

from __future__ import annotations

import re
from typing import Final

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

_WHOLE: Final = re.compile(r"[+-]?\d+")
"""`\\d` takes the digits of every script, and so does `Character.digit`."""
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NAMED: Final = re.compile(r"[+-]?(NaN|Infinity)")
JAVA_BLANKS: Final = "".join(map(chr, range(33)))
"""What `String.trim` takes away."""


def java_long(text: str) -> int:
    """`Long.parseLong`: no blanks around it, a sign at most, and digits."""
    return _whole(text, LONG_MAX)


def java_int(text: str) -> int:
    """`Integer.parseInt`."""
    return _whole(text, INT_MAX)


def _whole(text: str, largest: int) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError("it is no whole number")
    found = int(text)
    if not -largest - 1 <= found <= largest:
        raise ValueError("it does not fit")
    return found


def java_double(text: str) -> float:
    """`Double.parseDouble`: blanks around it do not count, nor does a `d` or an `f` behind it."""
    trimmed = text.strip(JAVA_BLANKS)
    if _NAMED.fullmatch(trimmed):
        return float(trimmed)
    number = trimmed[:-1] if trimmed[-1:] in ("d", "D", "f", "F") else trimmed
    if not _DOUBLE.fullmatch(number):
        raise ValueError("it is no number")
    return float(number)
