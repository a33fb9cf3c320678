"""A leader that is stopped for ten seconds in any state of its driver: what it does afterwards changes nothing.

Where a state has effects, before each of them.

(A broker whose forwarded request the paused one holds waits for its own time-out of 30 s, with stock too.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrator.lab.cluster import Cluster
from migrator.lab.laboratory import Laboratory
from migrator.lab.ours import OurController
from tests.e2e.quorums import TOPICS, leading, start, three_controllers, wait_ruling
from tests.e2e.support import assert_same, copies, spoil, wait_for, wait_zookeeper_rules

pytestmark = [pytest.mark.lab, pytest.mark.alone]

PAUSE_S = 10.0
"""Longer than any election, shorter than a session of ZooKeeper: the paused one's writes would still arrive."""

IN_THE_WINDOW = ("latch", "claim", "raise epoch", "read", "encode", "audit", "append")
AFTER_A_FAIL_OVER = ("claim", "reconcile", "tell", "enter dual-write")
DEEDS = {"zk.takeover", "copy.committed", "brokers.told", "dual_write.entered", "zk.given_back", "zk.handed_back"}
"""What a driver logs after something of it was accepted."""


class Quorum:
    """Three voters, of which one is paused before a given effect."""

    def __init__(self, cluster: Cluster, ours: list[OurController], plan: Path) -> None:
        self.cluster = cluster
        self.ours = ours
        self._plan = plan
        for each in ours:
            spoil(each, plan, plan=str(plan))

    def awake(self) -> list[OurController]:
        return [each for each in self.ours if each.is_running and not stopped(each)]

    def leader(self) -> OurController:
        """Who leads, as those see it who are not paused; never the paused one."""
        awake = self.awake()
        ids = {each.spec.node_id for each in awake}
        wait_for(lambda: None if leading(awake) in ids else "nobody leads", 30, "somebody leads")
        return next(each for each in awake if each.spec.node_id == leading(awake))

    def claim(self) -> list[bytes | None]:
        return [self.cluster.zk.read(path) for path in ("/controller", "/controller_epoch")]

    def pause_in(self, state: str) -> OurController:
        """Pause the leader while its driver rests in this state."""
        leader = self.leader()
        leader.wait_state(state)
        pause(leader)
        return leader

    def pause_before(self, effect: str, cause: Callable[[], None]) -> OurController:
        """Whoever comes to the effect stands still before it, as a process, and goes right on when it is resumed."""
        taken, go = self._plan.with_suffix(".taken"), self._plan.with_suffix(".go")
        go.unlink(missing_ok=True)
        self._plan.write_text(effect)
        cause()
        wait_for(lambda: None if taken.exists() else "nobody yet", 60, f"somebody comes to {effect!r}")
        name = taken.read_text()
        paused = next(each for each in self.ours if str(each.properties_file) == name)
        pause(paused)
        taken.unlink()
        go.touch()
        return paused

    def nothing_of_it_is_accepted(self, paused: OurController, others: Callable[[], object]) -> None:
        """others: waits until the other two have come to rest."""
        stopped = time.monotonic()
        others()
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - stopped)))
        before, done = self.claim(), len(deeds(paused))
        paused.process.resume()
        rest = {"IDLE", "RETIRED", "ended"}
        wait_for(lambda: None if state_of(paused) in rest else state_of(paused), 20, "the paused one stands back")
        assert deeds(paused)[done:] == []
        assert self.claim() == before

    def wait_held(self) -> None:
        def why_not() -> str | None:
            states = [each.state() for each in self.awake()]
            return None if "HELD" in states else str(states)

        wait_for(why_not, 30, "another one holds")
        wait_zookeeper_rules(self.cluster)

    def wait_ruling(self) -> None:
        wait_ruling(self.awake(), 30)

    def wait_others_retired(self) -> None:
        """The next leader finds a ZooKeeper broker in charge, and the log is retired."""

        def why_not() -> str | None:
            states = [state_of(each) for each in self.ours if not each.is_running or not stopped(each)]
            return None if set(states) <= {"RETIRED", "ended"} else str(states)

        wait_for(why_not, 60, "the others are retired")
        wait_zookeeper_rules(self.cluster)


def pause(controller: OurController) -> None:
    controller.process.pause()
    wait_for(lambda: None if stopped(controller) else "it still runs", 10, "the process stands still")


def stopped(controller: OurController) -> bool:
    """Whether the process is stopped by a signal, as the kernel tells."""
    stat = Path(f"/proc/{controller.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def state_of(controller: OurController) -> str:
    try:
        return controller.state()
    except OSError:
        return "starting" if controller.is_running else "ended"


def deeds(controller: OurController) -> list[dict[str, Any]]:
    return [event for event in controller.events() if event.get("event") in DEEDS]


def test_a_leader_paused_in_the_window_or_while_aborting_changes_nothing_afterwards(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """K-01, F-41: before the commit the cluster goes back to ZooKeeper, whoever wakes up later."""
    with three_controllers(laboratory, {"zk2kraft.gates": "hold"}) as (cluster, ours):
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
            leader = quorum.leader()
            paused = quorum.pause_before(effect, lambda leader=leader: leader.ask("takeover"))  # type: ignore[misc]
            quorum.nothing_of_it_is_accepted(paused, quorum.leader if effect == "latch" else quorum.wait_held)
            ready_for_takeover(quorum)
            assert sum(map(copies, ours)) == 0

        paused = quorum.pause_in("HELD")
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_held)
        ready_for_takeover(quorum)

        # The successor of one that died in COPYING is paused while it gives back.
        leader = quorum.leader()
        first = quorum.pause_before("encode", lambda: leader.ask("takeover"))

        def die() -> None:
            first.kill()

        paused = quorum.pause_before("give back", die)
        first.start()
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_held)

        # After the commit, before the claim is made to last.
        leader = quorum.leader()
        paused = quorum.pause_before("settle", lambda: leader.ask("takeover"))
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)
        assert sum(map(copies, ours)) == 1
        assert_same(cluster, quorum.leader().data)

        # Somebody deletes the claim, and a ZooKeeper broker rules.
        cluster.zk.delete("/controller")
        paused = quorum.pause_in("FENCED")
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_others_retired)


def test_a_leader_paused_after_the_commit_changes_nothing_afterwards(laboratory: Laboratory, tmp_path: Path) -> None:
    """Fail-over, dual-write, hand-back."""
    with three_controllers(laboratory) as (cluster, ours):
        quorum = Quorum(cluster, ours, tmp_path / "plan")
        start(ours)
        wait_ruling(ours, 60)
        for effect in AFTER_A_FAIL_OVER:
            leader = wait_ruling(ours)
            paused = quorum.pause_before(effect, leader.kill)
            leader.start()
            quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)

        paused = wait_ruling(ours)
        pause(paused)
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)
        cluster.create_topics(["made-afterwards"])
        cluster.wait_isr_whole([*TOPICS, "made-afterwards"])
        assert_same(cluster, quorum.leader().data)

        leader = wait_ruling(ours)
        paused = quorum.pause_before("mark handed back", lambda: leader.ask("hand-back"))
        quorum.nothing_of_it_is_accepted(paused, quorum.wait_ruling)

        # The mark is committed: the others finish what the paused one began.
        leader = wait_ruling(ours)
        paused = quorum.pause_before("close listener", lambda: leader.ask("hand-back"))
        quorum.nothing_of_it_is_accepted(paused, lambda: wait_zookeeper_rules(cluster))
        for each in ours:
            each.wait_state("RETIRED")
        cluster.create_topics(["made-by-zookeeper"])


def ready_for_takeover(quorum: Quorum) -> None:
    """Somebody leads, and the gate would open."""

    def why_not() -> str | None:
        reasons = {each.state(): str(each.status()["driver"]["reason"]) for each in quorum.awake()}
        if "HELD" in reasons:
            return None
        return None if "zk2kraft advance" in reasons.get("WAIT_BROKERS", "") else str(reasons)

    wait_for(why_not, 60, "the takeover is held by nothing but the gate")
