"""A leader that is stopped for ten seconds in any state of its driver: what it does afterwards changes nothing.

Where a state has effects, before each of them.

(A broker whose forwarded request the paused one holds waits for its own time-out of 30 s, with stock too.)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.paused_stage import Quorum, ready_for_takeover
from tests.e2e.quorums import start, three_controllers
from tests.e2e.support import assert_same, copies

pytestmark = [pytest.mark.lab, pytest.mark.long]

IN_THE_WINDOW = ("latch", "claim", "raise epoch", "read", "encode", "audit", "append")


def test_a_leader_paused_in_the_window_or_while_aborting_changes_nothing_afterwards(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """K-01, F-41: before the commit the cluster goes back to ZooKeeper, whoever wakes up later."""
    with three_controllers(laboratory, {"zk2kraft.gates": "pause"}) as (cluster, ours):
        quorum = Quorum(cluster, ours, tmp_path / "plan")
        start(ours[:2])  # the leader waits for the third
        paused = quorum.pause_in("WAIT_QUORUM")
        start(ours[2:])
        quorum.nothing_of_it_is_accepted(paused, quorum.leader)
        ready_for_takeover(quorum)
        paused = quorum.pause_in("WAIT_BROKERS")
        quorum.nothing_of_it_is_accepted(paused, quorum.leader)
        ready_for_takeover(quorum)
        for effect in IN_THE_WINDOW:
            paused = quorum.pause_before(effect, quorum.ask_for_takeover)
            quorum.nothing_of_it_is_accepted(paused, quorum.leader if effect == "latch" else quorum.wait_held)
            ready_for_takeover(quorum)
            assert sum(map(copies, ours)) == 0

        paused = quorum.pause_in("ABORTED")
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_held)
        ready_for_takeover(quorum)

        # The successor of one that died in COPYING is paused while it gives back.
        first = quorum.stall_before("encode", quorum.ask_for_takeover)
        paused = quorum.pause_before("abandon", first.kill)
        first.start()
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_held)

        # After the commit, before the claim is made to last.
        paused = quorum.pause_before("persist", quorum.ask_for_takeover)
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)
        assert sum(map(copies, ours)) == 1
        assert_same(cluster, quorum.leader().data)

        # Somebody deletes the claim, and a ZooKeeper broker rules.
        cluster.zk.delete("/controller")
        paused = quorum.pause_in("FENCED")
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_others_retired)
