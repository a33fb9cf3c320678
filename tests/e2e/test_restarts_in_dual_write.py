"""Brokers that come back in dual-write: whatever they have, no log of theirs is moved aside."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.support import assert_same, once, ready_cluster, wait_for

pytestmark = pytest.mark.lab

MANY = 150
ID = "cHJlY2lvdXMtdG9waWMtaQ"
"""As Kafka writes a topic id."""


def data_of(broker: BrokerProcess) -> Path:
    return broker.spec.directory / "data-0"


def moved_aside(cluster: LabCluster) -> list[str]:
    return [str(each) for broker in cluster.brokers for each in data_of(broker).glob("*-stray")]


def create_many(cluster: LabCluster, prefix: str) -> list[str]:
    """Begun and acknowledged; brokers may still be opening the logs."""
    names = [f"{prefix}-{number}" for number in range(MANY)]
    new = [NewTopic(name, 2, 3) for name in names]

    def ask(admin: AdminClient) -> None:
        for each in admin.create_topics(new, request_timeout=120).values():
            each.result(180)

    once(cluster.new_admin, ask, f"the topics {prefix} are created")
    return names


def broker_in_status(ours: OurController, broker: int) -> dict[str, Any]:
    return next(dict(each) for each in ours.status()["brokers"] if each["id"] == broker)


def wait_told(ours: OurController, broker: int, epoch_before: int) -> None:
    def why_not() -> str | None:
        now = broker_in_status(ours, broker)
        return None if now["updated"] and now["epoch"] > epoch_before else str(now)

    wait_for(why_not, f"broker {broker} is told everything")


def plant_log(broker: BrokerProcess, like: str, name: str) -> Path:
    """A log that neither ZooKeeper nor the metadata log knows, as after a botched clean-up."""
    source, planted = data_of(broker) / like, data_of(broker) / name
    shutil.copytree(source, planted)
    (planted / "partition.metadata").write_text(f"version: 0\ntopic_id: {ID}")
    return planted


def test_a_broker_restarted_right_after_a_mass_creation_loses_no_log(laboratory: Laboratory) -> None:
    """Killed, and once in KRaft mode between: there it has a topic before ZooKeeper does."""
    with ready_cluster(laboratory) as (cluster, ours):
        ours.start()
        ours.wait_dual_write()
        broker = cluster.brokers[2]
        names = create_many(cluster, "first")
        broker.kill()
        epoch = broker_in_status(ours, 2)["epoch"]
        broker.start()
        wait_told(ours, 2, epoch)
        cluster.wait_isr_whole(names)
        assert moved_aside(cluster) == []

        migrating = broker.spec
        broker.restart_as(migrating.as_kraft(ours.voters))
        names += create_many(cluster, "second")
        epoch = broker_in_status(ours, 2)["epoch"]
        broker.restart_as(migrating)
        wait_told(ours, 2, epoch)
        cluster.wait_isr_whole(names)
        assert moved_aside(cluster) == []
        assert_same(cluster, ours.data)


@pytest.mark.long
def test_a_log_that_nobody_explains_is_named_and_stays_where_it_is(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, partitions=1) as (cluster, ours):
        ours.start()
        ours.wait_dual_write()
        broker = cluster.brokers[2]
        broker.stop()
        planted = plant_log(broker, "topic-0-0", "precious-0")
        broker.start()

        def why_not() -> str | None:
            now = broker_in_status(ours, 2)
            named = all(each in str(now["not_updated"]) for each in ("Z2K-2010", "precious-0"))
            return None if not now["fenced"] and named else str(now)

        wait_for(why_not, "the log is named")
        assert planted.exists()
        assert moved_aside(cluster) == []

        broker.stop()
        shutil.rmtree(planted)
        epoch = broker_in_status(ours, 2)["epoch"]
        broker.start()
        wait_told(ours, 2, epoch)
        cluster.wait_isr_whole(["topic-0", "topic-1", "topic-2"])
        assert moved_aside(cluster) == []
