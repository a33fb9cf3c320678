"""Values of configuration, read from text as Kafka's `ConfigDef` reads them.

In:   a text, and the rule of its key.
Out:  a typed value; `BadValue` with the reason where Kafka refuses it. Nothing is more lenient or stricter than Kafka:
      what is accepted here goes to brokers that cannot start with anything else.
Elsewhere: the keys of topics (topic_configs.py) and brokers (broker_configs.py).
Source: Kafka 3.9 `ConfigDef.parseType`, `Range`, `ValidString`, `ValidList`, `ThrottledReplicaListValidator`,
`MetadataVersionValidator`; Java's `String.trim`, `Integer.parseInt`, `Double.parseDouble`. Compared with a stock
controller by tests/e2e/test_config_values.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from migrator.model.levels import LEVELS

LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1
_DIGITS_MAX: Final = 20
"""No number of 64 bits has more digits, leading zeros aside."""

Value = bool | int | float | str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigRule:
    """One key. kind: "int", "long", "double", "boolean", "string" or "list". synonyms: (broker key, factor to ms).

    also: a number outside the range that is allowed too. check: why a parsed value is refused for another reason.
    """

    kind: str
    default: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, int], ...] = ()
    also: int | None = None
    check: Callable[[Value], str | None] | None = None


class BadValue(Exception):
    """Why Kafka does not take a value."""


def trim(text: str) -> str:
    """Trim as `String.trim` does: whatever is not above U+0020, at both ends. Other spaces stay; no number has one."""
    return text.strip(_TRIMMED)


_TRIMMED: Final = "".join(map(chr, range(0x21)))
_PATTERN_SPACES: Final = " \t\n\x0b\f\r"


def parse_value(text: str, rule: ConfigRule) -> Value:
    """Raises `BadValue`."""
    value = _PARSERS[rule.kind](trim(text))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_range(value, rule)
    for each in value if isinstance(value, tuple) else (value,):
        if rule.choices and each not in rule.choices:
            raise BadValue(f"String must be one of: {', '.join(rule.choices)}")
    reason = None if rule.check is None else rule.check(value)
    if reason is not None:
        raise BadValue(reason)
    return value


def _check_range(number: float, rule: ConfigRule) -> None:
    """NaN lies in every range, as Java compares it."""
    if rule.also is not None and number == rule.also:
        return
    if rule.low is not None and number < rule.low:
        raise BadValue(f"Value must be at least {rule.low:g}")
    if rule.high is not None and number > rule.high:
        raise BadValue(f"Value must be no more than {rule.high:g}")


# --- types ------------------------------------------------------------------------------------------------


def _boolean(text: str) -> bool:
    for word in ("true", "false"):
        if len(text) == len(word) and all(a == b or a.upper() == b.upper() for a, b in zip(text, word, strict=True)):
            return word == "true"
    raise BadValue("Expected value to be either true or false")


def _whole(type_: str, largest: int) -> Callable[[str], int]:
    """Any script's decimal digits, as in Java, but for those beyond U+FFFF."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text) or max(text) > "\uffff":
            raise BadValue(f"Not a number of type {type_}")
        digits = text.lstrip("+-")
        digits = (digits if digits.isascii() else "".join(str(int(each)) for each in digits)).lstrip("0")
        number = int(digits[: _DIGITS_MAX + 1] or "0") * (-1 if text[0] == "-" else 1)
        if not -largest - 1 <= number <= largest:
            raise BadValue(f"Not a number of type {type_}")
        return number

    return parse


_DECIMAL: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?))[fFdD]?")
_HEXADECIMAL: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)


def _double(text: str) -> float:
    found = _DECIMAL.fullmatch(text)
    if found is not None and not (text[-1] in "fFdD" and found[1][-1] in "Ny"):  # "NaNd" is nothing
        return float(found[1])
    found = _HEXADECIMAL.fullmatch(text)
    if found is None:
        raise BadValue("Not a number of type DOUBLE")
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return float("-inf" if found[1][0] == "-" else "inf")


def _list(text: str) -> tuple[str, ...]:
    """Parts without the spaces around commas; an empty text has no parts at all."""
    return tuple(part.strip(_PATTERN_SPACES) for part in text.split(",")) if text else ()


_PARSERS: Final[dict[str, Callable[[str], Value]]] = {
    "boolean": _boolean,
    "int": _whole("INT", INT_MAX),
    "long": _whole("LONG", LONG_MAX),
    "double": _double,
    "list": _list,
    "string": lambda text: text,
}


# --- what some keys want beside ---------------------------------------------------------------------------


def refuse_throttled_replicas(value: Value) -> str | None:
    """Partition and broker per part, or nothing; or one star, whatever empty parts there are."""
    assert isinstance(value, tuple), value
    parts = [trim(part) for part in value]
    if "".join(parts) == "*" or all(re.fullmatch(r"([0-9]++:[0-9]++)?", part) for part in parts):
        return None
    return "must be the literal '*' or a list of replicas: [partitionId]:[brokerId],[partitionId]:[brokerId],..."


_OLD: Final = (
    "0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2",
    "0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1", "2.1-IV0",
    "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0",
    "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0", "2.8-IV1", "3.0-IV0",
)  # fmt: skip
_UNSTABLE: Final = ("4.0-IV0", "4.0-IV1")
"""A 3.9 broker knows them by their whole names only."""
_VERSIONS: Final = frozenset({*_OLD, *LEVELS.values()} | {each.partition("-")[0] for each in (*_OLD, *LEVELS.values())})


def refuse_version(value: Value) -> str | None:
    """Two numbers of a release count, three of one that begins with "0."; what follows them is not looked at."""
    assert isinstance(value, str), value
    words = value.split(".")
    while words and not words[-1]:  # as Java splits
        words.pop()
    count = 3 if value.startswith("0.") else 2
    name = value if count >= len(words) else ".".join(words[:count])
    return None if name in _VERSIONS or name in _UNSTABLE else f"Version {value} is not a valid version"
