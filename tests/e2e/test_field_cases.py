"""Cases from the field that show only while a real cluster runs (docs/cases.md)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.servers.laboratory import Laboratory
from migrator.zk.multi import Delete, Multi
from migrator.zk.session import ZkSession
from tests.e2e.support import controller_of, ready_cluster

pytestmark = pytest.mark.lab


def test_a_cluster_that_kafka_alone_wrote_holds_nothing_against_a_migration(laboratory: Laboratory) -> None:
    """Brokers took each of these settings, so nothing of it may be called wrong (F-39)."""
    settings = {"cleanup.policy": "", "min.cleanable.dirty.ratio": ".5", "retention.ms": "-1"}
    with ready_cluster(laboratory, topics=2) as (cluster, controller):
        cluster.alter_configs(ResourceType.TOPIC, "topic-0", settings)
        cluster.alter_configs(ResourceType.BROKER, "1", {"log.cleaner.threads": "2", "max.connections": "500"})
        controller.prepare()
        words = ["check", "-z", cluster.zookeeper_connect, "--controllers", str(controller.properties_file)]
        command = [sys.executable, "-m", "api", *words, "--clients", "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert (ran.returncode, [each["says"] for each in json.loads(ran.stdout)["findings"]]) == (0, [])


def test_a_migration_znode_that_somebody_deletes_stops_dual_write_loudly(laboratory: Laboratory) -> None:
    """F-43: stock goes on in memory and mirrors nothing any more; here the driver stops and everybody says why."""
    with ready_cluster(laboratory, topics=1) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        with ZkSession(cluster.zookeeper_connect) as session:
            assert session.apply(Multi((Delete("/migration"),))).applied
        controller.wait_state("FENCED")
        assert controller.status()["driver"]["finding"]["code"] == "Z2K-2003"
        assert (controller_of(cluster) or {})["brokerid"] == 3000

        command = [sys.executable, "-m", "api", "check", "-z", cluster.zookeeper_connect, "--json"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert ran.returncode == 2, ran.stderr
        (found,) = (each for each in json.loads(ran.stdout)["findings"] if each["code"] == "Z2K-1037")
        assert found["says"].endswith("and /migration does not exist.")
