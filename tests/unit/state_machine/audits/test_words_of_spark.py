"""What the service tells an audit about the Spark master that it is to use."""

from __future__ import annotations

import pytest

from state_machine.audits.inspections import words_of_spark


@pytest.mark.parametrize("master", ["local[*]", "local[2]", "local"])
def test_an_audit_on_this_machine_keeps_what_it_read(master: str) -> None:
    assert words_of_spark(master) == ("--master", master)


@pytest.mark.parametrize("master", ["spark://one:7077", "spark://one:7077,two:7077", "yarn", "k8s://https://one:443"])
def test_an_audit_on_a_network_keeps_its_report_alone(master: str) -> None:
    """Executors would write their rows to directories of the same name on their own disks."""
    assert words_of_spark(master) == ("--master", master, "--report-only")
