"""What a subscription to clients' metrics may say (KIP-714).

In:   its configuration as text.
Out:  why it is refused, with Kafka's error code; None when it may be.
Elsewhere: who may change it and how it is stored (controller.configs). ZooKeeper has no form of it: brokers that run
in ZooKeeper mode do not serve it.
Source: Kafka 3.9 `ClientMetricsConfigs`. Patterns are Java's there; here they are tried as Python's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migrator.model.config_values import BadValue, ConfigRule, parse_value, trim

UNKNOWN_SERVER_ERROR: Final = -1
INVALID_CONFIG: Final = 40
INVALID_REQUEST: Final = 42

KEYS: Final = ("metrics", "interval.ms", "match")
PARAMETERS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
INTERVAL_MS: Final = range(100, 3_600_001)
_INT: Final = ConfigRule("int", "0")


@dataclass(frozen=True, slots=True)
class ClientMetricsRefusal:
    error: int
    words: str


def refuse_subscription(values: Mapping[str, str]) -> ClientMetricsRefusal | None:
    for key in values:
        if key not in KEYS:
            return ClientMetricsRefusal(INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    interval = values.get("interval.ms")
    if interval is not None:
        refusal = _refuse_interval(interval)
        if refusal is not None:
            return refusal
    match = values.get("match")
    for pattern in () if match is None else _split(match, ","):
        if not _is_pattern(pattern):
            return ClientMetricsRefusal(INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
    return None


def _refuse_interval(text: str) -> ClientMetricsRefusal | None:
    """Stock parses it without `trim`, and what is no number is a fault of its own there."""
    try:
        number = parse_value(text, _INT) if trim(text) == text else None
    except BadValue:
        number = None
    if number is None:
        return ClientMetricsRefusal(
            UNKNOWN_SERVER_ERROR, "The server experienced an unexpected error when processing the request."
        )
    if number not in INTERVAL_MS:
        words = f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        return ClientMetricsRefusal(INVALID_REQUEST, words)
    return None


def _is_pattern(text: str) -> bool:
    words = _split(text, "=")
    if len(words) != 2 or trim(words[0]) not in PARAMETERS:
        return False
    try:
        re.compile(trim(words[1]))
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _split(text: str, sign: str) -> list[str]:
    """As Java splits: without empty parts at the end; an empty text is one empty part."""
    words = text.split(sign)
    while text and words and not words[-1]:
        words.pop()
    return words
