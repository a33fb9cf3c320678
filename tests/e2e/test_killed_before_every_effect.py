"""kill -9 of a single controller right before each effect of its driver, with a broker restarting meanwhile.

Before the commit the cluster goes back to ZooKeeper, afterwards the next
life goes on, and a rollback that is marked is finished.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.node.quorum.hooks import EFFECTS
from tests.e2e.support import (
    HANGS_AFTER_S,
    assert_same,
    controller_of,
    copies,
    produce,
    ready_cluster,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = [pytest.mark.lab, pytest.mark.long]

BEFORE_THE_COMMIT = ("latch", "claim", "raise epoch", "read", "encode", "audit", "append")
AFTER_THE_COMMIT = ("persist", "reconcile", "update", "enter dual-write")
GIVING_BACK = ("abandon",)
GOING_BACK = ("mark rolled back", "close listener", "roll back")
SETTINGS: dict[str, Value] = {"zookeeper.session.timeout.ms": 6000, "zk2kraft.gates": "pause"}
TOPICS = [f"topic-{number}" for number in range(3)]


def test_every_effect_is_killed_here() -> None:
    assert {*BEFORE_THE_COMMIT, *AFTER_THE_COMMIT, *GIVING_BACK, *GOING_BACK} == set(EFFECTS)


class Victim:
    """A controller that dies right before an effect, and brokers of which one after the other restarts then."""

    def __init__(self, cluster: LabCluster, controller: OurController, mark: Path) -> None:
        self.cluster = cluster
        self.controller = controller
        self._mark = mark
        self._kills = 0

    def die_before(
        self, effect: str, operation: str | None = None, state: str | None = None, *, restart: bool = True
    ) -> None:
        """operation: what is asked for, once the driver is in `state` or holds.  restart: a broker."""
        self._mark.unlink(missing_ok=True)
        spoil(self.controller, self._mark, stall_before=effect)
        self.controller.launch()
        self.controller.wait_ready()
        if operation is not None:
            self.controller.wait_state(*([state] if state else ["WAIT_BROKERS", "ABORTED"]))
            self.controller.ask(operation)
        wait_for(lambda: None if self._mark.exists() else "not yet", f"it comes to {effect!r}")
        self.controller.kill()
        unspoil(self.controller)
        if restart:
            broker = self.cluster.brokers[self._kills % len(self.cluster.brokers)]
            self._kills += 1
            broker.kill()
            broker.start()

    def live(self) -> None:
        self.controller.start()

    def brokers_are_well(self, name: str) -> None:
        """A topic can be made and written to, and everything is in sync."""
        for broker in self.cluster.brokers:
            broker.wait_ready()
        self.cluster.wait_whole()
        self.cluster.create_topics([name], partitions=1)
        self.cluster.wait_isr_whole([*TOPICS, name])
        produce(self.cluster, name, 20)


def test_whoever_comes_after_a_kill_finishes_or_backs_out(laboratory: Laboratory, tmp_path: Path) -> None:
    with ready_cluster(laboratory, extra=SETTINGS) as (cluster, controller):
        victim = Victim(cluster, controller, tmp_path / "mark")
        for effect in BEFORE_THE_COMMIT:
            victim.die_before(effect, "takeover")
            wait_zookeeper_rules(cluster)
            victim.brokers_are_well(f"after-{effect}".replace(" ", "-"))
            assert copies(controller) == 0

        # The next life gives back what the last one may have claimed, and dies before it does.
        victim.die_before("abandon")
        wait_zookeeper_rules(cluster)
        assert copies(controller) == 0

        # The claim lives as long as the session until it is settled: long enough for the next life to come.
        controller.spec = replace(controller.spec, extra={**SETTINGS, "zookeeper.session.timeout.ms": 60_000})
        victim.die_before("persist", "takeover", restart=False)
        for effect in AFTER_THE_COMMIT[1:]:
            victim.die_before(effect)
            held = controller_of(cluster) or {}
            assert held["kraftControllerEpoch"] > 0, "the cluster stays with whom it was committed"
        victim.live()
        controller.wait_dual_write()
        victim.brokers_are_well("after-the-commit")
        assert copies(controller) == 1
        assert_same(cluster, controller.data)
        controller.kill()

        victim.die_before("mark rolled back", "rollback", "DUAL_WRITE")
        victim.live()
        controller.wait_dual_write()
        victim.brokers_are_well("not-handed-back-yet")
        assert_same(cluster, controller.data)
        controller.kill()

        # The mark is committed: the next life finishes the rollback and ends.
        victim.die_before("close listener", "rollback", "DUAL_WRITE")
        controller.launch()
        wait_zookeeper_rules(cluster)
        assert controller.process.wait_for_exit(HANGS_AFTER_S)
        assert controller.process.exit_code not in (0, None)
        victim.brokers_are_well("handed-back")
