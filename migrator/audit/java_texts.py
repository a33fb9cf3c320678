"""Texts in znodes, as strictly as Java reads them: Python's own readers also take `1_000`, blanks and other scripts.

In:   a text of a znode.
Out:  the number, the bytes or the name that Kafka reads there. Raises ValueError where Kafka's reader throws.
Elsewhere: which key is read in which way (normalise.py, security_facts.py); Kafka's own classes are asked the same by
tests/e2e/test_kafkas_own_readers.py.
Source: Java 17 `Long.parseLong`, `Integer.parseInt`, `Double.parseDouble`, `Base64.Decoder`, `URLDecoder`; Kafka 3.9
`Uuid.fromString`, `SecurityUtils.parseKafkaPrincipal`.
"""

from __future__ import annotations

import base64
import re
from typing import Final
from urllib.parse import unquote_plus

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

_WHOLE: Final = re.compile(r"[+-]?\d+")
"""`\\d` takes the digits of every script, and so does `Character.digit`, but only of 16 bits."""
_DOUBLE: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NAMED: Final = re.compile(r"[+-]?(NaN|Infinity)")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+(\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9}")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
"""Without its padding too, and whatever the last bits are."""
_ESCAPED: Final = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*", re.DOTALL)
ID_SIGNS_MAX, ID_BYTES = 24, 16
JAVA_BLANKS: Final = "".join(map(chr, range(33)))
"""What `String.trim` takes away."""


def java_long(text: str) -> int:
    """`Long.parseLong`: no blanks around it, a sign at most, and digits."""
    return _whole(text, LONG_MAX)


def java_int(text: str) -> int:
    """`Integer.parseInt`."""
    return _whole(text, INT_MAX)


def _whole(text: str, largest: int) -> int:
    if not _WHOLE.fullmatch(text) or max(text) > "\uffff":
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
    if _HEXADECIMAL.fullmatch(number):
        return _hexadecimal(number)
    if not _DOUBLE.fullmatch(number):
        raise ValueError("it is no number")
    return float(number)


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def java_base64(text: str) -> bytes:
    """`Base64.getDecoder`: padding may be missing, and has to be right where it is not."""
    if not _BASE64.fullmatch(text):
        raise ValueError("it is not base64")
    return base64.b64decode(text.rstrip("=") + "==")


def java_uuid(text: str) -> str:
    """`Uuid.fromString`, written as Kafka writes it."""
    if len(text) > ID_SIGNS_MAX or "+" in text or "/" in text:
        raise ValueError("it is no id")
    found = java_base64(text.replace("-", "+").replace("_", "/"))
    if len(found) != ID_BYTES:
        raise ValueError("it is no id")
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()


def java_principal(text: str) -> str:
    """`SecurityUtils.parseKafkaPrincipal`: a type, a colon, a name."""
    if ":" not in text:
        raise ValueError("it is no principal")
    return text


def java_unescaped(text: str) -> str:
    """`Sanitizer.desanitize`. Bytes that are no UTF-8 are not read, though Java reads U+FFFD there: two names would
    become one.
    """
    if not _ESCAPED.fullmatch(text):
        raise ValueError("it is not escaped as Kafka does")
    return unquote_plus(text, errors="strict")
