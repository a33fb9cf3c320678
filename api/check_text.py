"""What `zk2kraft check` prints of its findings: one group for each code, its remedy once.

In:   occurrences in the order in which they were found.
Out:  lines. Of a code that was found often only the first few, unless all are wanted.
Elsewhere: what is looked for (node.tools.preflight); JSON, which always has every finding (cli.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from migrator.findings.finding import Occurrence
from migrator.model.printable import printable

SHOWN: Final = 3
"""Of one code; 200 partitions without a state are one problem, not 200."""


def finding_lines(found: Iterable[Occurrence], *, everything: bool = False) -> Iterator[str]:
    groups: dict[str, list[Occurrence]] = {}
    for each in found:
        groups.setdefault(each.code, []).append(each)
    for group in groups.values():
        shown = group if everything else group[:SHOWN]
        for each in shown:
            yield printable(f"{each.finding.severity.value:6} {each.code}  {each.text}")
        if len(shown) < len(group):
            yield f"       and {len(group) - len(shown):,} more of {group[0].code}; --all shows them"
        for remedy in dict.fromkeys(each.finding.remedy for each in group):
            yield f"       {remedy}"
