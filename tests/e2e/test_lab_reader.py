"""The outside reader beside a cluster in ZooKeeper mode: nothing is lost, and what is planted is found, exactly that.

Elsewhere: traffic during a takeover, which is about time (test_lab_traffic.py).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.admin import ADMIN_TIMEOUT_S
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.ledger import Acknowledged, read_ledger
from migrator.lab.traffic.proof import prove
from tests.e2e.support import HANGS_AFTER_S
from tests.e2e.test_lab_traffic import RECORDS, TOPICS, assert_all_good, assert_nothing_lost

pytestmark = pytest.mark.lab

BROKER_AWAY_S = 10.0


def administer(change: Callable[[], object], done: int | None = None) -> None:
    """Do it again until the clients have found the new controller; an administrator would.

    done: what is answered to a change that was made before, by a request whose answer was lost.
    """
    deadline = time.monotonic() + HANGS_AFTER_S
    again = False
    while True:
        try:
            change()
            return
        except KafkaException as error:
            if again and error.args[0].code() == done:
                return
            if time.monotonic() > deadline:
                raise
            again = True
            time.sleep(0.5)


def grow(cluster: LabCluster, topic: str, partitions: int) -> None:
    change = NewPartitions(topic, partitions)
    administer(
        lambda: cluster.admin().create_partitions([change])[topic].result(ADMIN_TIMEOUT_S),
        done=KafkaError.INVALID_PARTITIONS,
    )


def delete(cluster: LabCluster, topic: str) -> None:
    administer(
        lambda: cluster.admin().delete_topics([topic])[topic].result(ADMIN_TIMEOUT_S),
        done=KafkaError.UNKNOWN_TOPIC_OR_PART,
    )
    cluster.laboratory.wait(
        lambda: f"{topic} is still there" if cluster.zk.exists(f"/brokers/topics/{topic}") else None,
        name="deletion",
        deadline_s=HANGS_AFTER_S,
    )


@pytest.mark.long
def test_nothing_is_lost_while_a_broker_is_away_and_topics_come_and_go(laboratory: Laboratory) -> None:
    cluster = LabCluster(laboratory)
    cluster.start()
    cluster.create_topics([*TOPICS, "gone"])
    traffic = Traffic(laboratory, cluster.bootstrap_servers)
    traffic.start([*TOPICS, "gone"])
    traffic.wait_flowing()

    traffic.mark("STOPPED")
    broker = cluster.brokers[1]
    broker.stop()
    time.sleep(BROKER_AWAY_S)
    broker.start()
    broker.wait_ready()
    cluster.wait_isr_whole(TOPICS)
    traffic.mark("BACK")

    grow(cluster, "grown", 6)
    for topic in ("gone", "orders"):
        traffic.drop(topic)
        delete(cluster, topic)
    administer(lambda: cluster.create_topics(["orders"]))
    traffic.mark("AGAIN")
    traffic.add("orders")
    traffic.wait_flowing()
    traffic.wait_acknowledged(RECORDS, deadline_s=HANGS_AFTER_S)
    status = traffic.stop()

    assert status.partitions == 4 + 4 + 6
    assert_nothing_lost(status)
    assert traffic.figures("STOPPED", "BACK").acknowledgement.count > BROKER_AWAY_S * traffic.rate / 2
    assert_all_good(prove(cluster, traffic.ledger, deleted=["gone"], recreated={"orders": "AGAIN"}))
    find_plants(cluster, traffic)


def find_plants(cluster: LabCluster, traffic: Traffic) -> None:
    """Three things that are wrong, and the reader names those three."""
    ledger = traffic.directory / "planted.jsonl"
    promised = [one for one in read_ledger(traffic.ledger) if isinstance(one, Acknowledged) and one.topic == "payments"]
    invented = ["ack", "payments", 2, 10_000_000, "plain-0", 99_999_999, -1, promised[-1].sent_us, promised[-1].sent_us]
    lines = traffic.ledger.read_text().splitlines()
    ledger.write_text("\n".join([*lines[:-1], json.dumps(invented), lines[-1]]) + "\n")
    stray = cluster.brokers[2].directory / "data-0" / "x-0-stray"
    stray.mkdir()
    report = prove(
        cluster,
        ledger,
        deleted=["gone"],
        recreated={"orders": "AGAIN"},
        data_dirs=with_a_short_copy(cluster),
        settle_s=20,
    )
    stray.rmdir()
    assert report.exit_code == 1
    assert report.bad == {
        "acknowledged records": ("payments-2 offset 10000000: expected key plain-0 sequence 99999999, absent",),
        "no leftover directories": ("broker 2: x-0-stray",),
        "log end offsets are equal": report.bad["log end offsets are equal"],
        "replicas hold the same batches": ("payments-3: batches differ between brokers [0, 1, 2]",),
    }
    (ends,) = report.bad["log end offsets are equal"]
    assert ends.startswith("payments-3: ")


def with_a_short_copy(cluster: LabCluster) -> list[Path]:
    """The brokers' data directories, with a copy in place of the first whose payments-3 lacks its last batch."""
    first, *others = [broker.directory / "data-0" for broker in cluster.brokers]
    copy = first.with_name("copy-of-data-0")
    passing = shutil.ignore_patterns("*.tmp", "*-delete", "*.deleted")  # may vanish while they are copied
    shutil.copytree(first, copy, ignore=passing)
    (segment,) = (copy / "payments-3").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    return [copy, *others]
