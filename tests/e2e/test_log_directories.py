"""Brokers with two log directories: there and back, and what the log says of directories is what stock writes."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.controller import StockController, StockQuorum
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import dump_metadata_log
from tests.e2e.whole_way import there_and_back, topic_made, waiting, waiting_brokers, whole_after_a_restart

pytestmark = pytest.mark.lab

MADE = "made-in-dual-write"


def two_directories(laboratory: Laboratory) -> LabCluster:
    return LabCluster(laboratory, brokers=2, log_directories=2)


def said_of_directories(text: str) -> dict[str, Any]:
    """How brokers register, and partitions of the topic that was made in dual-write; ids that are drawn are left out.

    text: a log as Kafka's own tool prints it.
    """
    records = [json.loads(each) for each in re.findall(r"payload: (\{.*\})", text)]
    ids = {each["data"]["topicId"]: each["data"]["name"] for each in records if each["type"] == "TOPIC_RECORD"}
    registered: dict[int, list[str]] = {}
    for record in (each for each in records if each["type"] == "REGISTER_BROKER_RECORD"):
        directories = record["data"]["logDirs"]
        assert directories == registered.setdefault(record["data"]["brokerId"], directories), "they outlive a restart"
    partitions = [each for each in records if each["type"] == "PARTITION_RECORD"]
    changes = [each for each in records if each["type"] == "PARTITION_CHANGE_RECORD"]
    return {
        "directories": {broker: len(directories) for broker, directories in registered.items()},
        "versions": {(each["type"], each["version"]) for each in records if "BROKER" in each["type"]},
        "copied": {
            (each["version"], ids[each["data"]["topicId"]], str(each["data"].get("directories")))
            for each in partitions
            if not ids[each["data"]["topicId"]].startswith(("made", "_"))
        },
        "made": {
            (each["version"], each["data"]["partitionId"], str(each["data"].get("directories")))
            for each in partitions
            if ids[each["data"]["topicId"]] == MADE
        },
        "changed": {(each["version"], str(each["data"].get("directories"))) for each in changes},
    }


def under_stock(laboratory: Laboratory) -> dict[str, Any]:
    cluster = two_directories(laboratory)
    specs = waiting_brokers(cluster)
    stock = StockQuorum(StockController(laboratory, spec, cluster.cluster_id) for spec in specs)
    stock.start()
    stock.wait_dual_write()
    topic_made(cluster, MADE)
    whole_after_a_restart(cluster, [MADE])
    stock.stop()
    return said_of_directories(dump_metadata_log(laboratory, stock.controllers[0].metadata_log))


def under_ours(laboratory: Laboratory, mark: Path) -> dict[str, Any]:
    cluster = two_directories(laboratory)
    ours = waiting(cluster)
    leader = there_and_back(cluster, ours, mark, partial(topic_made, cluster))
    assert [broker["log_dirs"] for broker in leader.status()["brokers"]] == [2, 2]
    leader.stop()
    return said_of_directories(dump_metadata_log(laboratory, leader.metadata_log))


def test_there_and_back_with_two_log_directories_as_stock_writes_them(
    tmp_path: Path, kafka_artifacts: Artifacts
) -> None:
    with Laboratory(tmp_path / "ours", kafka_artifacts) as opened:
        ours = under_ours(opened, tmp_path / "mark")
    with Laboratory(tmp_path / "stock", kafka_artifacts) as opened:
        stock = under_stock(opened)
    assert ours == stock
    assert ours["directories"] == {0: 2, 1: 2}
