"""A leader that is stopped for ten seconds after the commit: nothing of it is accepted afterwards (paused_stage.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.paused_stage import Quorum, pause
from tests.e2e.quorums import TOPICS, start, three_controllers, wait_ruling
from tests.e2e.support import assert_same, wait_zookeeper_rules

pytestmark = [pytest.mark.lab, pytest.mark.long]

AFTER_A_FAIL_OVER = ("claim", "reconcile", "update", "enter dual-write")


def test_a_leader_paused_after_the_commit_changes_nothing_afterwards(laboratory: Laboratory, tmp_path: Path) -> None:
    """Fail-over, dual-write, rollback."""
    with three_controllers(laboratory) as (cluster, ours):
        quorum = Quorum(cluster, ours, tmp_path / "plan")
        start(ours)
        wait_ruling(ours)
        for effect in AFTER_A_FAIL_OVER:
            wait_ruling(ours)
            paused = quorum.pause_before(effect, quorum.kill_leader)
            quorum.start_killed()
            quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)

        paused = wait_ruling(ours)
        pause(paused)
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)
        cluster.create_topics(["made-afterwards"])
        cluster.wait_isr_whole([*TOPICS, "made-afterwards"])
        assert_same(cluster, quorum.leader().data)

        wait_ruling(ours)
        paused = quorum.pause_before("mark rolled back", quorum.ask_for_rollback)
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)

        # The mark is committed: the others finish what the paused one began.
        wait_ruling(ours)
        paused = quorum.pause_before("close listener", quorum.ask_for_rollback)
        quorum.nothing_of_it_is_accepted(paused, lambda: wait_zookeeper_rules(cluster))
        for each in ours:
            each.wait_state("RETIRED")
        cluster.create_topics(["made-by-zookeeper"])
