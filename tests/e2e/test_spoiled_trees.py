"""ZooKeeper spoiled in dual-write by somebody's old script, then kill -9 of the leading controller: on real processes.

Each oddity by itself, in memory: tests/unit/node/driver/test_spoiled_trees.py and test_zookeeper_orders.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.takeover import wait_sessions_ended
from migrator.zk.multi import Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.quorums import PATIENT, TOPICS, start, three_controllers, wait_ruling
from tests.e2e.support import assert_same, produce, ready_cluster, wait_for, wait_zookeeper_rules

pytestmark = pytest.mark.lab

BAD = b"\xff{not JSON"
UNKNOWN_KEY = b'{"version":1,"config":{"no.such.key":"1"}}'
MARK = f"/admin/delete_topics/{TOPICS[0]}"
ODD_BROKER = "/brokers/ids/77"


def oddities(cluster: LabCluster) -> dict[str, bytes]:
    first, second, *_ = (f"/brokers/topics/{name}" for name in TOPICS)
    without_id = json.loads(cluster.zk.read(second) or b"")
    del without_id["topic_id"]
    return {
        second: json.dumps(without_id).encode(),
        f"{first}/partitions/1/state": BAD,
        "/brokers/topics/twin": cluster.zk.read(first) or b"",
        "/brokers/topics/twin/partitions/0/state": b"{}",
        "/brokers/topics/foreign": BAD,
        f"/config/topics/{TOPICS[2]}": BAD,
        "/config/topics/nobody": BAD,
        "/config/brokers/1": BAD,
        "/config/brokers/zero": b'{"version":1,"config":{}}',
        "/config/users/a b": UNKNOWN_KEY,
        "/config/users/bob": UNKNOWN_KEY,
        "/config/clients/c": b'{"version":1,"config":{"request_percentage":"Infinity"}}',
        "/kafka-acl/Topic/orders": BAD,
        "/delegation_token/tokens/t": BAD,
        "/latest_producer_id_block": BAD,
        "/admin/reassign_partitions": b'{"version":1,"partitions":7}',
        MARK: b"",
        ODD_BROKER: BAD,
    }


def plant(cluster: LabCluster, znodes: dict[str, bytes]) -> None:
    with ZkSession(cluster.zookeeper_connect) as session:
        for path, data in znodes.items():
            session.ensure_path(path)
            assert session.apply(Multi((SetData(path, data),))).applied


def driver(controller: OurController) -> dict[str, Any]:
    return dict(controller.status()["driver"])


def alarms(controller: OurController) -> set[str]:
    return {each["code"] for each in driver(controller)["alarms"]}


def served_and_mirrored(cluster: LabCluster, topic: str) -> None:
    """An admin change is in ZooKeeper within 5 s, and brokers were told: it takes records."""
    cluster.create_topics([topic], partitions=2)
    there = f"/brokers/topics/{topic}"
    wait_for(lambda: None if cluster.zk.exists(there) else "not there", f"{topic} is in ZooKeeper", deadline_s=5)
    for name in (topic, *TOPICS):
        produce(cluster, name, 20)


def test_a_spoiled_tree_and_a_fail_over_keep_nobody_waiting_and_nothing_is_deleted_on_the_way_back(
    laboratory: Laboratory,
) -> None:
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        start(ours)
        wait_ruling(ours)
        served_and_mirrored(cluster, "before")
        planted = oddities(cluster)
        plant(cluster, planted)
        first = wait_ruling(ours)
        first.kill()
        alive = [each for each in ours if each is not first]
        wait_ruling(alive)
        served_and_mirrored(cluster, "after")

        assert all(each.is_running for each in alive)
        assert all(each.is_running for each in cluster.brokers)

        def why_not() -> str | None:
            left = {path for path, data in planted.items() if cluster.zk.read(path) == data}
            return None if left == {ODD_BROKER} else f"{left} are left"

        wait_for(why_not, "all is put right but a broker's znode")
        assert set(cluster.zk.children("/brokers/topics")) >= {*TOPICS, "before", "after"}
        assert not {"twin", "foreign"} & set(cluster.zk.children("/brokers/topics"))
        assert not cluster.zk.exists("/config/brokers/zero")
        wait_for(
            lambda: None if (found := alarms(wait_ruling(alive))) == {"Z2K-2107"} else f"{found}", "it alone is named"
        )
        said = {event.get("code") for each in alive for event in each.events()}
        assert {"Z2K-2103", "Z2K-2106"} <= said
        assert_same(cluster, wait_ruling(alive).data)

        first.launch()
        first.wait_ready()
        cluster.zk.delete(ODD_BROKER)
        plant(cluster, {MARK: b""})
        second = wait_ruling(ours)
        wait_for(lambda: None if "Z2K-2101" in alarms(second) else "not named", "the order is named")
        second.ask("rollback")
        wait_for(lambda: None if "Z2K-2102" in alarms(second) else "not yet", "the rollback is refused")
        second.wait_state("DUAL_WRITE")
        served_and_mirrored(cluster, "still-here")
        cluster.zk.delete(MARK)
        second.ask("rollback")
        second.wait_state("RETIRED")
        wait_zookeeper_rules(cluster)
        for name in TOPICS:
            produce(cluster, name, 20)


def without_controllers(cluster: LabCluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "api",
        "rollback",
        "--without-controllers",
        "-z",
        cluster.zookeeper_connect,
        *words,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_a_release_with_nobody_alive_deletes_no_topic_that_an_old_script_named(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=len(TOPICS)) as (cluster, controller):
        controller.start()
        controller.wait_dual_write()
        for name in TOPICS:
            produce(cluster, name, 20)
        controller.kill()
        plant(cluster, {MARK: b"", "/admin/reassign_partitions": b'{"version":1,"partitions":[]}'})
        refused = without_controllers(cluster, "--execute")
        assert (refused.returncode, "Z2K-2102" in refused.stderr) == (2, True)
        assert cluster.zk.exists(MARK)
        wait_sessions_ended(cluster)
        done = without_controllers(cluster, "--drop-orders", "--execute")
        assert done.returncode == 0, done.stderr
        wait_zookeeper_rules(cluster)
        assert not cluster.zk.children("/admin/delete_topics")
        cluster.create_topics(["after-the-release"])
        for name in (*TOPICS, "after-the-release"):
            produce(cluster, name, 20)
