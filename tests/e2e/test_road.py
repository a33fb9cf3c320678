"""The road from dual-write to stock KRaft with real processes: the service is killed on it, and it comes to its end.

The points of the kill matrix are acts on nodes: at their begin and after their end, for each kind of roll. A few are in
CI, in one run; `make kill-matrix` has all of them (tests/adversarial/road.py).
"""

from __future__ import annotations

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.road_stage import Kill, run_to_the_end

pytestmark = pytest.mark.lab

IN_CI = (
    Kill("stop", 1),
    Kill("start", 1, "after"),
    Kill("stop", 3001),
    Kill("start", 3001),
    Kill("stop", 3002, "after", nth=3),
    Kill("start", 3000, nth=3),
)
"""nth of a controller: 1 stock takes its place, 2 the soak, 3 without the flag."""


def test_a_service_that_is_killed_again_and_again_brings_the_cluster_to_its_end(laboratory: Laboratory) -> None:
    run_to_the_end(laboratory, IN_CI)
