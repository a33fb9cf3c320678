"""Audits of a cluster in dual-write that never rests: a topic's configuration changes all the time, on real processes.

Every kind of log and every interleaving in memory: tests/unit/audit/test_busy_clusters.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.audit.compare import LAG
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk.multi import Delete, Multi
from migrator.zk.paths import CONFIG_CHANGES
from migrator.zk.session import ZkSession
from tests.e2e.support import audit, ready_cluster, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.long]

PAUSE_S = 0.1
"""Between two changes: an audit of seconds meets dozens, and has a processor too."""

NOTIFICATIONS_MAX = 20
"""For each change of a configuration a broker in ZooKeeper mode reads every notification of the last 15 minutes, to
find those that are old (Kafka's ZkNodeChangeNotificationListener). After a minute of this test brokers and ZooKeeper
would do nothing else, so what the brokers do after 15 minutes is done as soon as there are so many.
"""

BUSY, PLANTED = "topic-0", "/config/users/nobody"


@contextmanager
def changes_without_end(cluster: LabCluster) -> Iterator[list[int]]:
    """Another value of one topic's `retention.ms`, again and again. Yields their numbers."""
    done, made, failed = threading.Event(), [0], list[Exception]()

    def change() -> None:
        while not done.wait(PAUSE_S) and not failed:
            value = str(1_000_000 + made[-1])
            try:
                cluster.alter_configs(ResourceType.TOPIC, BUSY, {"retention.ms": value})
                if len(made) % NOTIFICATIONS_MAX == 0:
                    remove_notifications(cluster)
            except Exception as error:
                failed.append(error)
            made.append(made[-1] + 1)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        yield made
    finally:
        done.set()
        writer.join()
    assert not failed, failed


def remove_notifications(cluster: LabCluster) -> None:
    """Those of before the latest few, which a broker may still have to read."""
    old = cluster.zk.children(CONFIG_CHANGES)[: -NOTIFICATIONS_MAX // 2]
    if not old:
        return
    with ZkSession(cluster.zookeeper_connect) as session:  # in one transaction: every one that goes wakes every broker
        assert session.apply(Multi(tuple(Delete(f"{CONFIG_CHANGES}/{each}") for each in old))).applied


def test_five_audits_of_a_cluster_that_never_rests_pass_and_a_difference_is_found_beside_the_changes(
    laboratory: Laboratory,
) -> None:
    with ready_cluster(laboratory) as (cluster, ours):
        ours.start()
        ours.wait_dual_write()
        _, _, address = ours.voters.partition("@")
        with changes_without_end(cluster) as made:
            wait_for(lambda: None if len(made) > 5 else "not yet", "changes are made")
            for engine, log in (("quick", ours.data), ("spark", address), *[("quick", address)] * 3):
                assert_passes(audited(cluster, log, engine, made))

            cluster.zk.create(PLANTED, json.dumps({"version": 1, "config": {"producer_byte_rate": "4711"}}).encode())
            for engine in ("quick", "spark"):
                report = audited(cluster, address, engine, made)
                assert [(each["family"], each["key"]) for each in report["differences"]] == [("client quotas", PLANTED)]


def audited(cluster: LabCluster, log: Any, engine: str, made: list[int]) -> dict[str, Any]:
    """An audit that met a change. One that met none, because the broker that makes them was late, shows nothing."""
    for _ in range(5):
        before = len(made)
        report = audit(cluster, log, engine)
        if len(made) > before:
            break
    told = [each["rule"] for each in report["expected"] if each["rule"].startswith(LAG)]
    print(f"{engine}: {len(made) - before} changes meanwhile, {report['seconds']}, {told}")
    assert len(made) > before, "the cluster rested"
    return report


def assert_passes(report: dict[str, Any]) -> None:
    """Without a second look: what it costs is in `again`, or in the time of a Spark job."""
    assert report["same"], report["differences"]
    assert {each["key"] for each in report["expected"]} <= {BUSY}, report["expected"]
    assert "again" not in report["seconds"] or report["engine"] == "quick"
