"""A skip is not a pass: the end of the report says what was not verified."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.support.skips import not_verified


def report(nodeid: str, outcome: Literal["passed", "skipped"], longrepr: Any = None) -> pytest.TestReport:
    return pytest.TestReport(nodeid, ("f", 1, "t"), {}, outcome, longrepr, "setup")


def test_each_reason_stands_once_with_its_tests_and_what_passed_does_not() -> None:
    reports = [
        report("tests/docker/test_a.py::one", "skipped", ("f", 1, "Skipped: no engine")),
        report("tests/docker/test_a.py::two", "skipped", ("f", 1, "Skipped: no engine")),
        report("tests/model/test_b.py::three", "skipped", "no spin\nin two lines"),
        report("tests/unit/test_c.py::four", "passed"),
    ]
    assert not_verified(reports) == [
        "tests/docker/test_a.py: 2 tests: no engine",
        "tests/model/test_b.py: 1 tests: no spin",
    ]
