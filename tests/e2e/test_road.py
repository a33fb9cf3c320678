"""The road from dual-write to stock KRaft with real processes: whoever is killed on it, it comes to its end.

The points of the kill matrix are acts on nodes, at their begin and after their end, for each kind of roll; phases; the
finalize intent. Twelve are in CI, in one run; `make kill-matrix` has all of them (tests/adversarial/road.py).
"""

from __future__ import annotations

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.road_kills import INTENT, Kill, Victim
from tests.e2e.road_stage import run_to_the_end

pytestmark = pytest.mark.lab

IN_CI = (
    Kill("stop", 1),
    Kill("start", 1, "after"),
    Kill("stop", 3001),
    Kill("start", 3001),
    Kill("stop", 3002, "after", nth=3),
    Kill("start", 3000, nth=3),
    Kill("write", 0, "after", victim=Victim.LEADER),
    Kill("start", 3001, "after", nth=2, victim=Victim.LEADER),
    Kill("start", 2, victim=Victim.BROKER),
    Kill("stop", 3000, victim=Victim.BROKER),
    Kill("write", 3002, "after", victim=Victim.ZOOKEEPER),
    Kill(INTENT, when="after", victim=Victim.ZOOKEEPER),
)
"""Leaders: one of ours in the roll of the brokers, one of stock in the soak."""


@pytest.mark.timeout(2400)
def test_whoever_is_killed_on_the_road_the_cluster_comes_to_its_end(laboratory: Laboratory) -> None:
    run_to_the_end(laboratory, IN_CI)
