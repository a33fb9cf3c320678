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


def waiting_cluster(laboratory: Laboratory, ibp: str) -> tuple[Cluster, OurController]:
    """Brokers in migration mode from their first start on, and a controller that was formatted and not started."""
    cluster = Cluster(laboratory, brokers=2, ibp=ibp)
    connect = cluster.zookeeper_connect
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=connect, release=ibp)
    for broker in cluster.brokers:
        broker.spec = broker.spec.as_migrating(spec.voters)
    cluster.start()
    cluster.create_topics(TOPICS, partitions=2)
    controller = OurController(laboratory, spec, cluster.cluster_id)
    controller.prepare()
    return cluster, controller


def abort_once(cluster: Cluster, controller: OurController, mark: Path) -> None:
    """A person ends the first takeover inside the window; ZooKeeper rules again, and nothing was copied."""
    spoil(controller, mark, stall_before="audit", go=f"{mark}.go")
    controller.launch()
    wait_for(lambda: None if mark.exists() else "not stalled yet", 60, "the controller stalls in the window")
    controller.ask("abort")
    wait_zookeeper_rules(cluster, deadline_s=10)
    controller.wait_state("HELD", deadline_s=10)
    assert copies(controller) == 0
    cluster.create_topics(["made-under-zookeeper"], partitions=1)
    mark.with_name(f"{mark.name}.go").touch()


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
    cluster, controller = waiting_cluster(of_version, ibp)
    produce(cluster, TOPICS[0], 100)
    abort_once(cluster, controller, tmp_path / "mark")
    controller.ask("takeover")
    controller.wait_dual_write(30)
    assert controller.status()["log"]["metadata_version"] == level_of(ibp)
    change(cluster, "made-in-dual-write")

    controller.kill()
    unspoil(controller)
    controller.launch()
    controller.wait_ready()
    controller.wait_dual_write(30)
    epochs = claims(controller)
    assert epochs == sorted(set(epochs))
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
    assert_records_fit(dump_metadata_log(of_version, controller.metadata_log), level_of(ibp))
