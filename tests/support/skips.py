"""What a run did not verify: the reasons of its skips. A skip is not a pass.

In:   reports of tests. Out: lines for the end of the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest


def not_verified(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Each reason once, with how many tests of which file it is about, in order of the files."""
    counted = Counter((each.nodeid.partition("::")[0], _reason(each)) for each in reports if each.skipped)
    return [f"{file}: {count} tests: {reason}" for (file, reason), count in sorted(counted.items())]


def _reason(report: pytest.TestReport) -> str:
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
    return said.removeprefix("Skipped: ").partition("\n")[0]
