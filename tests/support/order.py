"""In which order the workers take the files of tests, so that none has nothing to do.

In:   the collected tests.
Out:  the same tests, whole files: those that share the machine first, the longest before the others; then those with
      a test about time, during which the other workers can only stand still.
Elsewhere: who may run beside whom (turns.py). `make` switches off the order that xdist would make of it: by the number
of tests, so that a file of five minutes with two tests came last.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

SECONDS: Final[Mapping[str, int]] = {
    "tests/e2e/test_road.py": 640,
    "tests/e2e/test_admin_requests.py": 600,
    "tests/e2e/test_hand_made_cluster.py": 500,
    "tests/e2e/test_zookeeper_trouble.py": 280,
    "tests/e2e/test_quorum.py": 200,
    "tests/e2e/test_stock_equality.py": 200,
    "tests/e2e/test_killed_before_every_effect.py": 185,
    "tests/e2e/test_versions.py": 180,
    "tests/e2e/test_gate.py": 180,
    "tests/e2e/test_lagging_versions.py": 165,
    "tests/e2e/test_paused_leaders.py": 155,
    "tests/e2e/test_rollback.py": 150,
    "tests/e2e/test_crashes.py": 150,
    "tests/e2e/test_drop_in_stock.py": 150,
    "tests/e2e/test_busy_audits.py": 150,
    "tests/e2e/test_kraft_brokers.py": 150,
    "tests/e2e/test_families.py": 150,
    "tests/e2e/test_audit_engines.py": 145,
    "tests/e2e/test_better_than_stock.py": 140,
    "tests/e2e/test_local_faults.py": 140,
    "tests/e2e/test_broker_passwords.py": 135,
    "tests/e2e/test_mixed_quorum.py": 127,
    "tests/e2e/test_audit_schedule.py": 123,
    "tests/e2e/test_warm_audits.py": 120,
    "tests/e2e/test_controllers_on_other_hosts.py": 120,
    "tests/e2e/test_paused_leaders_after_the_commit.py": 113,
    "tests/e2e/test_secure_quorum.py": 110,
    "tests/e2e/test_lab_cluster.py": 110,
    "tests/e2e/test_service.py": 90,
    "tests/e2e/test_spark_cluster.py": 90,
    "tests/e2e/test_ended_takeovers.py": 90,
    "tests/e2e/test_spoiled_trees.py": 90,
    "tests/e2e/test_log_directories.py": 80,
    "tests/e2e/test_lab_reader.py": 75,
    "tests/e2e/test_restarts_in_dual_write.py": 70,
    "tests/e2e/test_without_zookeeper.py": 70,
    "tests/e2e/test_admin_differences.py": 65,
    "tests/model/test_model.py": 60,
}
"""Files that share the machine and take longer than a minute there. The end of a run names those that have changed."""

WORTH_NAMING_S: Final = 60.0
PROCESSOR_S: Final = "processor_s"
"""The property of a report that says what the test cost."""


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Files stay whole, and the tests of a file in their order."""
    about_time = {item.path for item in items if item.get_closest_marker("alone") is not None}
    tests = Counter(item.path for item in items)

    def place(item: pytest.Item) -> tuple[bool, int, int]:
        return item.path in about_time, -SECONDS.get(file_of(item.nodeid), 0), -tests[item.path]

    return sorted(items, key=place)


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@dataclass(frozen=True, slots=True)
class Took:
    """Seconds of one file of tests. processor_s: of the worker and of the processes that its tests started."""

    clock_s: float
    processor_s: float


def seconds_by_file(reports: Sequence[pytest.TestReport]) -> dict[str, Took]:
    """What each file took, longest first, those worth naming. The wait for a turn is not in it."""
    found: defaultdict[str, Took] = defaultdict(lambda: Took(0.0, 0.0))
    for report in reports:
        file, processor_s = file_of(report.nodeid), dict(report.user_properties).get(PROCESSOR_S, 0.0)
        assert isinstance(processor_s, float)
        found[file] = Took(found[file].clock_s + report.duration, found[file].processor_s + processor_s)
    longest_first = sorted(found.items(), key=lambda each: -each[1].clock_s)
    return {file: took for file, took in longest_first if took.clock_s >= WORTH_NAMING_S}
