"""Waivers: partitions that are not whole and may stay so, as the controllers' files accept them (zk2kraft.waive).

In:   `PATTERN` or `PATTERN:SHARE%`, one for each. A pattern is the name of a partition, `*` stands for any text:
      `orders-7`, `orders-*`, `orders-*:10%`. The share is of all partitions that the pattern matches.
Out:  which of the partitions that are not whole are lifted, and what is said of each waiver.
Elsewhere: what a whole partition is (gate.py), the file (node.config).
Rule: a waiver for more than its share lifts nothing at all: whoever accepted ten in a hundred did not accept fifty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import Occurrence
from migrator.findings.preflight import WAIVED, WAIVER_EXCEEDED

_FORM: Final = re.compile(r"([A-Za-z0-9._*-]+)(?::([0-9]{1,3}(?:\.[0-9]+)?)%)?")


@dataclass(frozen=True, slots=True)
class PartitionWaiver:
    """text: as it was written. share: percent, None: all of them."""

    text: str
    pattern: str
    share: float | None = None

    def matches(self, names: Iterable[str]) -> list[str]:
        if "*" not in self.pattern:
            return [name for name in names if name == self.pattern]
        form = re.compile(".*".join(map(re.escape, self.pattern.split("*"))))
        return [name for name in names if form.fullmatch(name)]


def parse_waiver(text: str) -> PartitionWaiver:
    """Raises ValueError, with what is wrong, for anything else."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not PARTITION or PATTERN:SHARE%, such as orders-7, orders-* or orders-*:10%")
    pattern, share = found[1], None if found[2] is None else float(found[2])
    if share is not None and not 0 < share <= 100:
        raise ValueError(f"the share of {text} is not above 0 and at most 100 percent")
    if not pattern.strip("*"):
        raise ValueError(f"{text} would waive every partition; name the topics")
    return PartitionWaiver(text, pattern, share)


def lifted(
    waivers: Collection[PartitionWaiver], broken: Sequence[str], names: Iterable[str]
) -> tuple[set[str], list[Occurrence]]:
    """broken: partitions that are not whole. names: of all partitions; they are gone through only for a share.

    Returns those of `broken` that are lifted, and a warning for each waiver that lifts any, or would have.
    """
    everyone: list[str] | None = None
    free: set[str] = set()
    found: list[Occurrence] = []
    for waiver in sorted(waivers, key=lambda each: each.text):
        hit = waiver.matches(broken)
        if not hit:
            continue
        if waiver.share is not None:
            everyone = list(names) if everyone is None else everyone
            total = len(waiver.matches(everyone))
            if 100 * len(hit) > waiver.share * total:
                found.append(WAIVER_EXCEEDED.found(waiver=waiver.text, count=len(hit), total=total))
                continue
        free.update(hit)
        found.append(WAIVED.found(waiver=waiver.text, count=len(hit), first=hit[0]))
    return free, found
