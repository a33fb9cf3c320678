"""What kinds of trouble brokers' logs hold, so that two runs of the same story can be compared.

In:   logs of Kafka as the laboratory writes them: "[time] LEVEL message (logger)".
Out:  how often each kind of WARN, ERROR and FATAL occurs. What differs between two runs by nature (numbers, names, ids,
      addresses, paths) is taken out of a message first, and a list of such things counts as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

LINE: Final = re.compile(r"^\[[^\]]+\] (WARN|ERROR|FATAL) (.*) \(([\w.$]+)\)$")
WORDS_MAX: Final = 160

_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"/tmp/\S+"), "PATH"),
    (re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])"), "ID"),
    (re.compile(r"\b(?:story|load)-\d+(?:-\d+)?|__consumer_offsets(?:-\d+)?|__transaction_state(?:-\d+)?"), "TOPIC"),
    (re.compile(r"0x[0-9a-f]+|@[0-9a-f]{5,}"), "HEX"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+(?::\d+)?"), "HOST"),
    (re.compile(r"-?\b\d+(?:\.\d+)?\b"), "N"),
    (re.compile(r"(TOPIC|N|ID)(?:(?:, ?| )\1)+"), r"\1"),
)


class Kind(NamedTuple):
    """One kind of line: its level, its logger, its message without what differs by nature."""

    level: str
    logger: str
    words: str

    def __str__(self) -> str:
        return f"{self.level} {self.logger}: {self.words}"


def kinds(log: str) -> Counter[Kind]:
    """The kinds in one log; stack traces belong to the line above them and are left out."""
    found: Counter[Kind] = Counter()
    for line in log.splitlines():
        match = LINE.match(line)
        if match is not None:
            found[Kind(match[1], match[3].rpartition(".")[2], plain(match[2]))] += 1
    return found


def plain(words: str) -> str:
    for pattern, name in _RULES:
        words = pattern.sub(name, words)
    return words[:WORDS_MAX]


def only_in(one: Counter[Kind], other: Iterable[Kind]) -> Counter[Kind]:
    """The kinds of `one` that `other` has not, with their numbers."""
    known = set(other)
    return Counter({kind: count for kind, count in one.items() if kind not in known})
