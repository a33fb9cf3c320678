"""State znodes made anew under high partition epochs, then kill -9 of the leading controller: on real processes.

Bounded plans and rounds, in memory: tests/unit/driver/test_lagging.py,
tests/unit/node/driver/test_lagging_versions.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from migrator.audit.compare import VERSION_LAGS
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.takeover import wait_sessions_ended
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.quorums import PATIENT, TOPICS, start, three_controllers, wait_ruling
from tests.e2e.support import audit, produce, ready_cluster, spoil, wait_for, wait_zookeeper_rules

pytestmark = [pytest.mark.lab, pytest.mark.long]

WORN, PARTITIONS, EPOCH = "worn", 40, 5_000
STATES = [paths.state(WORN, each) for each in range(PARTITIONS)]


def wear(cluster: LabCluster) -> None:
    """Thousands of changes of each partition, as years leave them: the version of its state znode counts them."""
    with ZkSession(cluster.zookeeper_connect) as session:
        for path, znode in zip(STATES, session.get_many(STATES), strict=True):
            assert znode is not None
            writes = [SetData(path, znode.data, each) for each in range(znode.version, EPOCH)]
            sent = [session.send(Multi(tuple(writes[at : at + 1_000]))) for at in range(0, len(writes), 1_000)]
            assert all(each.outcome().applied for each in sent)


def make_anew(cluster: LabCluster) -> None:
    """The same data in new znodes, each at version 0."""
    with ZkSession(cluster.zookeeper_connect) as session:
        for path, znode in zip(STATES, session.get_many(STATES), strict=True):
            assert znode is not None
            assert session.apply(Multi((Delete(path), Create(path, znode.data)))).applied


def versions(cluster: LabCluster) -> list[int]:
    with ZkSession(cluster.zookeeper_connect) as session:
        return [-1 if znode is None else znode.version for znode in session.get_many(STATES)]


def left(controller: OurController) -> dict[str, Any]:
    return dict(controller.status()["dual_write"])


def mirrored(cluster: LabCluster, topic: str) -> float:
    """Seconds until an admin change is in ZooKeeper, at most 5."""
    began = time.monotonic()
    cluster.create_topics([topic], partitions=2)
    wait_for(
        lambda: None if cluster.zk.exists(paths.topic(topic)) else "not there", f"{topic} is in ZooKeeper", deadline_s=5
    )
    return time.monotonic() - began


def test_state_znodes_made_anew_keep_nobody_waiting_and_bar_the_way_back_until_they_are_raised(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Nothing is raised before a rollback was refused: 200,000 writes are seconds, and an audit may take longer."""
    held = tmp_path / "held"
    held.touch()
    with three_controllers(laboratory, PATIENT) as (cluster, ours):
        for each in ours:
            spoil(each, tmp_path / "mark", hold_versions=str(held))
        cluster.create_topics([WORN], partitions=PARTITIONS)
        cluster.wait_isr_whole([WORN])
        wear(cluster)
        start(ours)
        first = wait_ruling(ours)
        produce(cluster, WORN, 200)
        assert left(first)["lagging_partitions"] == 0
        assert min(versions(cluster)) >= EPOCH

        make_anew(cluster)
        first.kill()
        alive = [each for each in ours if each is not first]
        second = wait_ruling(alive)
        at_first = left(second)["lagging_operations"]
        assert at_first > EPOCH * PARTITIONS / 2
        report = audit(cluster, second.data)
        assert report["same"], report["differences"]
        assert {(each["field"], each["rule"]) for each in report["expected"]} == {("partition_epoch", VERSION_LAGS)}
        second.ask("rollback")
        wait_for(lambda: None if refusals(second) == 2 else "not yet", "the rollback is refused")
        second.wait_state("DUAL_WRITE")
        assert left(second)["lagging_operations"] > 0
        held.unlink()
        began = time.monotonic()
        took = mirrored(cluster, "while-they-lag")
        produce(cluster, WORN, 200)

        first.launch()
        first.wait_ready()
        wait_for(lambda: f"{left(second)['lagging_operations']} left" if lags(second) else None, "nothing lags")
        seconds = time.monotonic() - began
        print(
            f"{at_first} writes in {seconds:.1f} s: {at_first / seconds:.0f}/s; a change was mirrored in {took:.2f} s"
        )
        wait_for(lambda: None if refusals(second) == 1 else "named still", "only the last refusal is named")
        assert min(versions(cluster)) >= EPOCH
        report = audit(cluster, second.data)
        assert (report["same"], report["expected"]) == (True, []), report

        second.ask("rollback")
        second.wait_state("RETIRED")
        wait_zookeeper_rules(cluster)
        for broker in cluster.brokers[:2]:
            broker.stop()
            produce(cluster, TOPICS[0], 20)
            broker.start()
            broker.wait_ready()
            cluster.wait_isr_whole([WORN, *TOPICS])
        produce(cluster, WORN, 200)
        assert min(versions(cluster)) > EPOCH


def test_a_rollback_without_controllers_raises_the_versions_that_its_log_names(laboratory: Laboratory) -> None:
    with ready_cluster(laboratory, topics=1) as (cluster, controller):
        cluster.create_topics([WORN], partitions=PARTITIONS)
        cluster.wait_isr_whole([WORN])
        wear(cluster)
        controller.start()
        controller.wait_dual_write()
        controller.kill()
        make_anew(cluster)
        wait_sessions_ended(cluster)
        command = [
            sys.executable,
            "-m",
            "api",
            "rollback",
            "--without-controllers",
            "-z",
            cluster.zookeeper_connect,
            "--log",
            str(controller.data),
        ]
        done = subprocess.run([*command, "--execute"], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        assert f"{PARTITIONS} partition states are behind" in done.stdout
        wait_zookeeper_rules(cluster)
        assert min(versions(cluster)) >= EPOCH
        broker = cluster.brokers[0]
        broker.stop()
        broker.start()
        broker.wait_ready()
        cluster.wait_isr_whole([WORN])
        assert min(versions(cluster)) > EPOCH


def lags(controller: OurController) -> bool:
    """Unknown while the mirror is made anew."""
    return bool(left(controller)["lagging_operations"] != 0)


def refusals(controller: OurController) -> int:
    """Under how many names it stands: as what lags, and as why the last rollback was refused."""
    return [each["code"] for each in controller.status()["driver"]["alarms"]].count("Z2K-2126")
