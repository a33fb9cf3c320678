"""Our controller in the place of a stock one: the same file, the same directory, the same answers of the brokers."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    ConfigResource,
    ResourceType,
)
from kazoo.client import KazooClient

from migrator.lab.admin import by_new_clients
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import dump_metadata_log
from tests.e2e.support import (
    HANGS_AFTER_S,
    SPOILED,
    assert_same,
    produce,
    ready_cluster,
    spoil,
    wait_for,
)

pytestmark = pytest.mark.lab

TOPICS = [f"topic-{number}" for number in range(3)]


def broker_says(cluster: LabCluster, broker: int) -> dict[str, Any]:
    """Topics, leaders and ISRs as one broker tells a client over its own socket."""
    admin = AdminClient({"bootstrap.servers": cluster.brokers[broker].address})
    topics = admin.list_topics(timeout=120).topics
    return {
        f"{name}-{partition}": {"leader": each.leader, "isr": sorted(each.isrs), "replicas": list(each.replicas)}
        for name, topic in topics.items()
        for partition, each in topic.partitions.items()
    }


def zookeeper_says(cluster: LabCluster) -> dict[str, Any]:
    """The same, read with nothing of ours."""
    client = KazooClient(cluster.zookeeper_connect)
    client.start(timeout=120)
    try:
        found = {}
        for topic in client.get_children("/brokers/topics"):
            assigned = json.loads(client.get(f"/brokers/topics/{topic}")[0])["partitions"]
            for partition, replicas in assigned.items():
                state = json.loads(client.get(f"/brokers/topics/{topic}/partitions/{partition}/state")[0])
                isr = sorted(state["isr"])
                found[f"{topic}-{partition}"] = {"leader": state["leader"], "isr": isr, "replicas": replicas}
        return found
    finally:
        client.stop()
        client.close()


def topic_config_of(cluster: LabCluster, broker: int, topic: str) -> dict[str, str]:
    """The topic's own configuration, as one broker describes it."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = by_new_clients(
        lambda: AdminClient({"bootstrap.servers": cluster.brokers[broker].address}),
        lambda admin: admin.describe_configs([resource])[resource].result(120),
        f"{topic} is described by broker {broker}",
        deadline_s=HANGS_AFTER_S,
    )
    return {name: each.value for name, each in found.items() if not each.is_default and each.source == 1}


def why_not_configured(cluster: LabCluster, broker: int) -> str | None:
    """Brokers in ZooKeeper mode describe what ZooKeeper has, and it has the configuration later than the topic."""
    found = topic_config_of(cluster, broker, "made-in-dual-write")
    return None if found == {"retention.ms": "12345678"} else str(found)


def log_says(kraft: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "api", "log", "dump", str(kraft), "--json"], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    for each in json.loads(done.stdout):
        data = each["data"]
        match each["type"]:
            case "TopicRecord":
                names[data["topic_id"]] = data["name"]
            case "PartitionRecord":
                found[f"{names[data['topic_id']]}-{data['partition_id']}"] = {
                    "leader": data["leader"],
                    "isr": sorted(data["isr"]),
                    "replicas": data["replicas"],
                }
            case "PartitionChangeRecord":
                state = found[f"{names[data['topic_id']]}-{data['partition_id']}"]
                if data["leader"] != -2:
                    state["leader"] = data["leader"]
                if data["isr"] is not None:
                    state["isr"] = sorted(data["isr"])
    return found


def test_the_file_and_directory_of_a_stock_controller_reach_dual_write_under_a_chroot(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, chroot="/kafka/one") as (cluster, ours):
        stock = StockController(laboratory, ours.spec, cluster.cluster_id)
        stock.format()
        as_stock_would_run = stock.properties_file.read_bytes()
        ours.start()
        assert ours.properties_file.read_bytes() == as_stock_would_run
        ours.wait_dual_write()
        cluster.create_topics(["made-in-dual-write"], config={"retention.ms": "12345678"})
        cluster.wait_isr_whole([*TOPICS, "made-in-dual-write"])
        produce(cluster, "made-in-dual-write", 100)

        wait_for(lambda: None if log_says(ours.data) == zookeeper_says(cluster) else "differ", "both say the same")
        for broker in range(3):
            wait_for(
                lambda broker=broker: None if broker_says(cluster, broker) == zookeeper_says(cluster) else "differs",  # type: ignore[misc]
                f"broker {broker} says the same",
            )
            wait_for(
                lambda broker=broker: why_not_configured(cluster, broker),  # type: ignore[misc]
                f"broker {broker} has the topic's configuration",
            )
        assert_same(cluster, ours.data)

        live = f"127.0.0.1:{ours.spec.port}"
        assert_same(cluster, live)
        ours.stop()
        kafka_reads(laboratory, ours.metadata_log)
        stock_takes_over_a_copy(laboratory, cluster, ours.data)


def kafka_reads(laboratory: Laboratory, directory: Path) -> None:
    """Kafka's own tool decodes every record, and finds nothing wrong with the indexes."""
    segment, index, times = (directory / f"{0:020d}.{kind}" for kind in ("log", "index", "timeindex"))
    dumped = dump_metadata_log(laboratory, segment)
    assert dumped.count('"type":"PARTITION_RECORD"') >= 16, dumped[-2000:]
    assert '"type":"ZK_MIGRATION_STATE_RECORD"' in dumped
    assert "Error" not in dumped
    text = laboratory.tool("kafka.tools.DumpLogSegments", "--files", f"{segment},{index},{times}")
    assert "Mismatches" not in text
    assert "corrupt" not in text.lower()
    assert struct.calcsize(">ii") == 8
    assert index.stat().st_size % 8 == 0


def stock_takes_over_a_copy(laboratory: Laboratory, cluster: LabCluster, data: Path) -> None:
    """A stock controller, started on a copy of the directory, leads and serves what ours wrote."""
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=cluster.zookeeper_connect, migrating=False)
    elsewhere = replace(spec, directory=laboratory.directory / f"controller-{spec.node_id}", migrating=False)
    copy = laboratory.directory / "copy"
    shutil.copytree(data, copy)
    for left in ("zk2kraft-control.json", ".lock"):
        (copy / left).unlink(missing_ok=True)
    stock = StockController(laboratory, replace(elsewhere, extra={"log.dirs": str(copy)}), cluster.cluster_id)
    stock.directory.mkdir(parents=True, exist_ok=True)
    stock.format = lambda: None  # type: ignore[method-assign]  # the directory is formatted: it is ours
    stock.start()
    stock.wait_ready()

    def leads() -> str | None:
        text = stock.process.log_text()
        if re.search(r"Becoming the active controller at epoch \d+", text):
            return None
        return "it is not the active controller yet"

    wait_for(leads, "the stock controller leads our log")
    wait_for(
        lambda: None if "made-in-dual-write" in stock.process.log_text() else "not replayed", "it knows our topics"
    )
    assert stock.process.alive
    stock.stop()


@pytest.mark.parametrize("seed", [0])
def test_no_broker_exits_on_any_error_of_our_fetch(laboratory: Laboratory, tmp_path: Path, seed: int) -> None:
    """Each error that a fetch of ours can end with: 6, 8, 74, 75, at the top 104 and 42, and divergence."""
    errors = [6, 8, 74, 75, 1104, 1042, -1]
    rounds = errors * 3
    mark = tmp_path / "fetches"
    with ready_cluster(laboratory, topics=1) as (cluster, ours):
        spoil(ours, mark, fetch_errors=rounds)
        assert ours.program == (SPOILED,)
        ours.start()

        def all_sent() -> str | None:
            sent = mark.read_text().split() if mark.exists() else []
            return None if len(sent) == len(rounds) else f"{len(sent)} of {len(rounds)} sent"

        wait_for(all_sent, "every error was sent")
        ours.wait_dual_write()
        assert all(broker.is_running for broker in cluster.brokers)
        cluster.create_topics(["after-the-errors"])
        for broker in cluster.brokers:
            log = broker.process.log_text()
            assert "Encountered raftManager fault" not in log
            assert "Encountered fatal fault" not in log
