"""Every broker runs in KRaft mode: our controllers start, lead and serve administrators without ZooKeeper."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.quorums import PATIENT, TOPICS, start, three_controllers, wait_ruling
from tests.e2e.support import once, produce, wait_for

pytestmark = pytest.mark.lab


def leader_resuming(ours: list[OurController]) -> OurController:
    found: list[OurController] = []

    def why_not() -> str | None:
        for each in ours:
            try:
                status = each.status()
            except (OSError, ValueError, FindingError):
                continue
            if status["quorum"]["role"] == "leader" and status["driver"]["state"] == "RESUMING":
                found.append(each)
                return None
        return "nobody leads"

    wait_for(why_not, "one of ours leads without ZooKeeper")
    return found[-1]


def into_kraft_mode(cluster: LabCluster, ours: list[OurController]) -> None:
    for broker in cluster.brokers:
        broker.restart_as(broker.spec.as_kraft(ours[0].voters))
        cluster.wait_isr_whole(TOPICS)


def test_all_controllers_restart_without_zookeeper_and_serve_and_mirror_when_it_is_back(
    laboratory: Laboratory,
) -> None:
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        wait_ruling(ours)
        into_kraft_mode(cluster, ours)
        produce(cluster, TOPICS[0], 50)
        cluster.zookeeper.stop()
        for each in ours:
            each.stop()
        start(ours)
        leader_resuming(ours)
        new = NewTopic("made-without-zookeeper", 4, 3)
        once(  # the cluster's own way looks at ZooKeeper
            cluster.new_admin,
            lambda admin: admin.create_topics([new], operation_timeout=30)[new.topic].result(120),
            "a topic is created",
        )
        produce(cluster, "made-without-zookeeper", 50)

        def why_not() -> str | None:
            status = leader_resuming(ours).status()
            brokers, state = status["brokers"], status["driver"]["state"]
            in_sync = status["partitions"]["under_replicated"] == 0 and state == "RESUMING"
            known = [(each["mode"], each["unassigned_dirs"]) for each in brokers] == [("KRaft", 0)] * 3
            return None if in_sync and known else f"{state}, {status['partitions']}, {brokers}"

        wait_for(why_not, "every replica is in sync and its directory is known, without ZooKeeper")

        cluster.zookeeper.start()
        wait_ruling(ours)
        path = "/brokers/topics/made-without-zookeeper/partitions/0/state"
        wait_for(lambda: None if cluster.zk.read(path) else f"no {path}", "ZooKeeper has the new topic")

        def why_not_replaced() -> str | None:
            found = wait_ruling(ours).status()["driver"]["replacing"]
            return None if found == [] else str(found)

        wait_for(why_not_replaced, "nothing speaks against stock controllers")
        assert all(each.is_running for each in ours)
