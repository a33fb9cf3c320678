"""The list of hand-made faults follows the code; a run of them (`make mutants`) is too long for a check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.catalogue import FAULTS
from tests.mutants.fault import DoesNotApplyError, Fault
from tests.mutants.page import page, rates
from tests.mutants.runner import Result, Verdict, first_failed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}-{fault.why[:40]}".replace(" ", "_"))
def test_every_fault_can_be_put_into_its_file(fault: Fault) -> None:
    """Where this fails the code moved: the entry in tests/mutants has to follow it."""
    source = (ROOT / fault.file).read_text()
    assert fault.apply(source) != source
    assert all((ROOT / test.split("::")[0]).exists() for test in fault.tests)


def test_safety_critical_packages_have_their_faults() -> None:
    count = {name: number for name, _, number in rates([_result(fault, Verdict.KILLED) for fault in FAULTS])}
    assert count["all"] >= 60
    assert (count["raft"], count["node"], count["driver"]) >= (15, 16, 12)


@pytest.mark.parametrize("source", ["a = 1\n", "b = 1\nb = 1\n"], ids=["gone", "twice"])
def test_a_text_that_does_not_stand_exactly_once_is_an_error(source: str) -> None:
    with pytest.raises(DoesNotApplyError):
        Fault("x.py", "b = 1", "b = 2", "", ()).apply(source)


def test_a_fault_that_is_no_python_is_an_error_and_no_kill() -> None:
    with pytest.raises(SyntaxError):
        Fault("x.py", "b = 1", "b = ", "", ()).apply("b = 1\n")


def test_the_page_counts_only_what_was_killed() -> None:
    fault = Fault("migrator/raft/x.py", "", "", "two leaders", (), survives="nobody can tell")
    results = [_result(fault, verdict) for verdict in Verdict]
    assert rates(results) == [("raft", 1, 4), ("all", 1, 4)]
    assert "| raft/x.py:7 | two leaders | survived | nobody can tell |" in page(results, 60.0)


def test_the_first_test_that_failed_is_named() -> None:
    output = "F\n=== short test summary info ===\nFAILED tests/a.py::test_b - assert 1 == 2\n1 failed in 0.1s\n"
    assert first_failed(output) == "tests/a.py::test_b"


def _result(fault: Fault, verdict: Verdict) -> Result:
    return Result(fault, verdict, "", 7, 1.0)
