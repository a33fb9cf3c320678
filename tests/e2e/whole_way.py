"""A migration to dual-write and back in small steps, whatever the brokers are: what a story of it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import IBP
from migrator.lab.servers.controller import ControllerSpec, quorum_specs
from migrator.lab.servers.properties import Value
from tests.e2e.quorums import PATIENT, start, wait_ruling
from tests.e2e.support import (
    LONG_WINDOW,
    assert_same,
    claims,
    copies,
    produce,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
)

TOPICS = ["topic-0", "topic-1"]


def waiting_brokers(
    cluster: LabCluster, *, voters: int = 1, ibp: str = IBP, extra: Mapping[str, Value] | None = None
) -> list[ControllerSpec]:
    """Start these brokers, in migration mode at once, and make topics; for controllers of anybody.

    extra: further properties of the controllers.
    """
    laboratory, connect = cluster.laboratory, cluster.zookeeper_connect
    specs = quorum_specs(laboratory, count=voters, zookeeper_connect=connect, release=ibp, extra=extra)
    for broker in cluster.brokers:
        broker.spec = broker.spec.as_migrating(specs[0].voters)
    cluster.start()
    cluster.create_topics(TOPICS, partitions=2)
    return specs


def waiting(
    cluster: LabCluster, *, voters: int = 1, ibp: str = IBP, extra: Mapping[str, Value] | None = None
) -> list[OurController]:
    """Waiting brokers, and ours for them, formatted and not started."""
    patient = {**LONG_WINDOW, **PATIENT, **(extra or {})}
    specs = waiting_brokers(cluster, voters=voters, ibp=ibp, extra=patient)
    ours = [OurController(cluster.laboratory, spec, cluster.cluster_id) for spec in specs]
    for each in ours:
        each.prepare()
    return ours


def abort_once(cluster: LabCluster, ours: list[OurController], mark: Path) -> OurController:
    """A person ends the first takeover inside the window; ZooKeeper rules again, and nothing was copied."""
    for each in ours:
        spoil(each, mark, stall_before="audit", go=f"{mark}.go")
    start(ours)
    wait_for(lambda: None if mark.exists() else "not stalled yet", "the leader stalls in the window")
    leaders: list[OurController] = []

    def why_not() -> str | None:
        leaders[:] = [each for each in ours if each.state() == "AUDITING"]
        return None if len(leaders) == 1 else str([each.state() for each in ours])

    wait_for(why_not, "one of ours is AUDITING")
    (leader,) = leaders
    leader.ask("abort")
    wait_zookeeper_rules(cluster)
    leader.wait_state("ABORTED")
    assert copies(leader) == 0
    mark.with_name(f"{mark.name}.go").touch()
    return leader


def fail_over(ours: list[OurController], leader: OurController) -> OurController:
    """The leader is killed: another voter goes on, or in a quorum of one its next incarnation."""
    before = claims(leader)
    leader.kill()
    if len(ours) == 1:
        unspoil(leader)
        start(ours)
    successor = wait_ruling([each for each in ours if each.is_running])
    assert claims(successor)[-1] > before[-1]
    return successor


def topic_made(cluster: LabCluster, name: str) -> None:
    """A topic is made and written to, and one that was there is written to as well."""
    cluster.create_topics([name], partitions=2)
    for topic in (name, TOPICS[0]):
        produce(cluster, topic, 50)


def whole_after_a_restart(cluster: LabCluster, topics: list[str]) -> None:
    """A broker leaves every ISR and comes back into it: who rules decides both."""
    broker = cluster.brokers[1]
    broker.stop()
    produce(cluster, TOPICS[0], 20)
    broker.start()
    broker.wait_ready()
    cluster.wait_isr_whole(topics)


def rollback(cluster: LabCluster, leader: OurController) -> None:
    """ZooKeeper rules again, no broker was restarted for it, and changes go on."""
    pids = [broker.process.pid for broker in cluster.brokers]
    leader.ask("rollback")
    leader.wait_state("RETIRED")
    wait_zookeeper_rules(cluster)
    assert [broker.process.pid for broker in cluster.brokers] == pids
    assert cluster.zk.read("/migration") is None
    if cluster.restart_flawed():
        cluster.wait_isr_whole(TOPICS)


def there_and_back(
    cluster: LabCluster, ours: list[OurController], mark: Path, change: Callable[[str], None]
) -> OurController:
    """Abort, takeover, fail-over, rollback; whoever rolled back is returned and was not stopped.

    mark:   a file that does not exist yet.
    change: is called whenever somebody else rules, each time with the name of another topic, which it makes.
    """
    change("made-before")
    leader = abort_once(cluster, ours, mark)
    change("made-after-the-abort")
    leader.ask("takeover")
    leader.wait_dual_write()
    change("made-in-dual-write")
    leader = fail_over(ours, leader)
    change("made-after-the-fail-over")
    whole_after_a_restart(cluster, [*TOPICS, "made-in-dual-write", "made-after-the-fail-over"])
    assert_same(cluster, leader.data)
    rollback(cluster, leader)
    change("made-after-the-rollback")
    return leader
