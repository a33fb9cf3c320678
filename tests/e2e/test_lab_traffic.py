"""Traffic and the outside reader on real brokers: nothing is lost, and what is planted is found, exactly that."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions

from migrator.lab.cluster import ADMIN_TIMEOUT_S, LabCluster
from migrator.lab.ours import OurController, ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.figures import figures_between
from migrator.lab.traffic.ledger import Acknowledged, read_ledger
from migrator.lab.traffic.proof import ReaderReport, prove
from migrator.lab.traffic.status import TrafficStatus
from migrator.lab.watcher import ClaimHolder, longest_absence_s, read_observations, reigns, start_watcher, unseen_s
from tests.e2e.support import HANGS_AFTER_S

pytestmark = [pytest.mark.lab, pytest.mark.alone]

TOPICS = ["orders", "payments", "grown"]
RECORDS = 5_000
BROKER_AWAY_S = 10.0
WARM_UP_S = 5.0
"""A broker's first seconds are those of its compiler; figures about a takeover should not be about that."""


def administer(change: Callable[[], object]) -> None:
    """Do it again until the clients have found the new controller; an administrator would."""
    deadline = time.monotonic() + ADMIN_TIMEOUT_S
    while True:
        try:
            change()
            return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def grow(cluster: LabCluster, topic: str, partitions: int) -> None:
    change = NewPartitions(topic, partitions)
    administer(lambda: cluster.admin().create_partitions([change])[topic].result(ADMIN_TIMEOUT_S))


def delete(cluster: LabCluster, topic: str) -> None:
    administer(lambda: cluster.admin().delete_topics([topic])[topic].result(ADMIN_TIMEOUT_S))
    cluster.laboratory.wait(
        lambda: f"{topic} is still there" if cluster.zk.exists(f"/brokers/topics/{topic}") else None,
        name="deletion",
        deadline_s=ADMIN_TIMEOUT_S,
    )


def assert_nothing_lost(status: TrafficStatus) -> None:
    assert (status.state, status.outstanding, status.silent_partitions) == ("stopped", 0, 0)
    assert (status.lost, status.refused, status.to_deleted, status.transactions.unknown) == (0, 0, 0, 0)
    assert status.transactions.committed > 0
    assert status.transactions.aborted_on_purpose > 0
    for group in status.groups.values():
        assert (group.lag, group.order_violations, group.duplicates) == (0, 0, 0)


def assert_all_good(report: ReaderReport) -> None:
    assert report.bad == {}
    assert report.exit_code == 0
    assert report.ended_in_order
    assert (report.unpromised, report.foreign) == (0, 0)
    empty = {check.name for check in report.checks if not check.compared}
    assert empty <= {"transactions of unknown end are whole or absent"}


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
        cluster, ledger, deleted=["gone"], recreated={"orders": "AGAIN"}, data_dirs=with_a_short_copy(cluster)
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
    shutil.copytree(first, copy)
    (segment,) = (copy / "payments-3").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    return [copy, *others]


def test_nothing_is_lost_when_our_controller_takes_over_and_rolls_back(
    laboratory: Laboratory, record_property: Callable[[str, object], None]
) -> None:
    cluster = LabCluster(laboratory, chroot="/kafka")
    cluster.start()
    cluster.create_topics(TOPICS)
    controller = ready_to_migrate(cluster, TOPICS)
    watcher, observations = start_watcher(laboratory, cluster.zookeeper_connect)
    traffic = Traffic(laboratory, cluster.bootstrap_servers)
    traffic.start(TOPICS)
    traffic.wait_flowing()
    time.sleep(WARM_UP_S)

    controller.start()
    controller.wait_dual_write()
    time.sleep(2)
    controller.ask("rollback")
    controller.wait_state("RETIRED")
    cluster.wait_whole()
    traffic.wait_acknowledged(RECORDS, deadline_s=HANGS_AFTER_S)
    status = traffic.stop()
    watcher.stop()

    assert_nothing_lost(status)
    assert_all_good(prove(cluster, traffic.ledger))
    assert watcher.exit_code == 0
    seen = reigns(read_observations(observations))
    assert unseen_s(seen) == 0
    kinds = [reign.kind for reign in seen if reign.kind is not ClaimHolder.ABSENT]
    assert [kind for index, kind in enumerate(kinds) if kinds[:index][-1:] != [kind]] == [
        ClaimHolder.ZOOKEEPER,
        ClaimHolder.KRAFT,
        ClaimHolder.ZOOKEEPER,
    ]
    assert longest_absence_s(seen) < 5.0
    report_figures(controller, traffic, longest_absence_s(seen), record_property)


def report_figures(
    controller: OurController, traffic: Traffic, absence_s: float, record_property: Callable[[str, object], None]
) -> None:
    """What clients felt from TAKING_OVER to DUAL_WRITE, printed and kept; a bound on a busy machine proves little."""
    moments = {
        event["to"]: datetime.fromisoformat(event["timestamp"]).timestamp()
        for event in controller.events()
        if event.get("event") == "driver.state"
    }
    start_us, end_us = (int(moments[state] * 1e6) for state in ("TAKING_OVER", "DUAL_WRITE"))
    figures = figures_between(read_ledger(traffic.ledger), start_us, end_us)
    told = {
        "window_ms": round((end_us - start_us) / 1000, 1),
        "acknowledgement_p100_ms": figures.acknowledgement.max_ms,
        "acknowledgement_p100_of_records_sent_inside_ms": figures.sent_inside.max_ms,
        "longest_stall_ms": figures.longest_stall_ms,
        "longest_absence_ms": round(absence_s * 1000, 1),
    }
    for name, value in told.items():
        record_property(name, value)
    print("from TAKING_OVER to DUAL_WRITE:", told)
    assert figures.failed == 0
    assert figures.acknowledgement.count > 0
    assert figures.longest_stall_ms < 5_000
