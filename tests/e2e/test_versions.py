"""Brokers of each release from 3.6 on, at the protocol versions where something changes: one story for all of them.

The level of metadata.version decides which records there are and how they look: metadata transactions (3.6-IV1), no
registration of controllers (below 3.7-IV0), directories (3.7-IV2). Brokers of a release read the log with their own
code, so the jars are theirs, not only the setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.errors import FindingError
from migrator.lab.classes import prepared
from migrator.lab.cluster import Cluster
from migrator.lab.controller import quorum_specs
from migrator.lab.laboratory import Laboratory
from migrator.lab.ours import OurController
from migrator.lab.tools import dump_metadata_log
from migrator.model.levels import CONTROLLER_REGISTRATION, DIRECTORIES
from migrator.node.formatting import level_of
from tests.e2e.quorums import start, wait_ruling
from tests.e2e.support import (
    assert_same,
    claims,
    controller_of,
    copies,
    produce,
    spoil,
    unspoil,
    wait_for,
    wait_zookeeper_rules,
)

pytestmark = pytest.mark.lab

TOPICS = ["topic-0", "topic-1"]
VERSIONS = [("3.6.2", "3.6-IV1"), ("3.7.2", "3.7-IV1"), ("3.7.2", "3.7-IV2"), ("3.8.1", "3.8"), ("3.9.2", "3.9")]


@pytest.fixture
def of_version(tmp_path: Path, kafka: str) -> Iterator[Laboratory]:
    """A laboratory in which this release runs."""
    try:
        artifacts = prepared(kafka)
    except FindingError as error:
        pytest.skip(f"Kafka {kafka} cannot be had here: {error}")
    with Laboratory(tmp_path / "lab", artifacts) as opened:
        yield opened
    assert opened.processes.running == []


def waiting_cluster(laboratory: Laboratory, ibp: str, voters: int) -> tuple[Cluster, list[OurController]]:
    """Brokers in migration mode from their first start on, and controllers that are formatted and not started."""
    cluster = Cluster(laboratory, brokers=2, ibp=ibp)
    connect = cluster.zookeeper_connect
    specs = quorum_specs(laboratory, count=voters, zookeeper_connect=connect, release=ibp)
    for broker in cluster.brokers:
        broker.spec = broker.spec.as_migrating(specs[0].voters)
    cluster.start()
    cluster.create_topics(TOPICS, partitions=2)
    ours = [OurController(laboratory, spec, cluster.cluster_id) for spec in specs]
    for each in ours:
        each.prepare()
    return cluster, ours


def abort_once(cluster: Cluster, ours: list[OurController], mark: Path) -> OurController:
    """A person ends the first takeover inside the window; ZooKeeper rules again, and nothing was copied."""
    for each in ours:
        spoil(each, mark, stall_before="audit", go=f"{mark}.go")
    start(ours)
    wait_for(lambda: None if mark.exists() else "not stalled yet", 60, "the leader stalls in the window")
    (leader,) = (each for each in ours if each.state() == "AUDITING")
    leader.ask("abort")
    wait_zookeeper_rules(cluster, deadline_s=10)
    leader.wait_state("HELD", deadline_s=10)
    assert copies(leader) == 0
    cluster.create_topics(["made-under-zookeeper"], partitions=1)
    mark.with_name(f"{mark.name}.go").touch()
    return leader


def fail_over(ours: list[OurController], leader: OurController) -> OurController:
    """The leader is killed: another voter goes on, or in a quorum of one its next incarnation."""
    before = claims(leader)
    leader.kill()
    if len(ours) == 1:
        unspoil(leader)
        start(ours)
    successor = wait_ruling([each for each in ours if each.is_running], 30)
    assert claims(successor)[-1] > before[-1]
    return successor


def change(cluster: Cluster, name: str) -> None:
    """A topic is made, written to, and one that was there is written to as well."""
    cluster.create_topics([name], partitions=2)
    for topic in (name, TOPICS[0]):
        produce(cluster, topic, 50)


def whole_after_a_restart(cluster: Cluster, topics: list[str]) -> None:
    """A broker leaves every ISR and comes back into it: who rules decides both."""
    broker = cluster.brokers[1]
    broker.stop()
    produce(cluster, TOPICS[0], 20)
    broker.start()
    broker.wait_ready()
    cluster.wait_isr_whole(topics)


def assert_records_fit(text: str, level: int) -> None:
    """text: the log as Kafka's own tool of that release prints it."""
    written = dict(re.findall(r'"type":"(\w+)","version":(\d+)', text))
    assert written["REGISTER_BROKER_RECORD"] == ("3" if level >= DIRECTORIES else "2")
    assert ("REGISTER_CONTROLLER_RECORD" in written) == (level >= CONTROLLER_REGISTRATION)
    made = re.findall(r'"type":"PARTITION_RECORD","version":(\d+)', text)
    assert made[0] == "0", "a copy tells no directories"
    assert made[-1] == ("1" if level >= DIRECTORIES else "0")
    assert ('"directories"' in text) == (level >= DIRECTORIES)


@pytest.mark.parametrize(("kafka", "ibp"), VERSIONS, ids=[f"{kafka}-at-{ibp}" for kafka, ibp in VERSIONS])
def test_abort_takeover_fail_over_and_hand_back_at_each_version(
    of_version: Laboratory, tmp_path: Path, kafka: str, ibp: str
) -> None:
    assert of_version.artifacts.version == kafka
    level = level_of(ibp)
    cluster, ours = waiting_cluster(of_version, ibp, voters=1 if level >= CONTROLLER_REGISTRATION else 3)
    produce(cluster, TOPICS[0], 100)
    leader = abort_once(cluster, ours, tmp_path / "mark")
    leader.ask("takeover")
    leader.wait_dual_write(30)
    assert leader.status()["log"]["metadata_version"] == level
    change(cluster, "made-in-dual-write")

    controller = fail_over(ours, leader)
    change(cluster, "made-after-the-fail-over")
    topics = [*TOPICS, "made-in-dual-write", "made-after-the-fail-over"]
    whole_after_a_restart(cluster, topics)
    assert_same(cluster, controller.data)

    pids = [broker.process.pid for broker in cluster.brokers]
    controller.ask("hand-back")
    controller.wait_state("RETIRED", deadline_s=30)
    wait_zookeeper_rules(cluster, deadline_s=10)
    assert [broker.process.pid for broker in cluster.brokers] == pids
    assert cluster.zk.read("/migration") is None
    change(cluster, "made-after-the-hand-back")
    assert (controller_of(cluster) or {})["brokerid"] in (0, 1)
    controller.stop()
    assert_records_fit(dump_metadata_log(of_version, controller.metadata_log), level)
