"""A real cluster in the laboratory: it starts, serves, changes its modes, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.frames import LEADER_AND_ISR, Recorder
from migrator.lab.servers.broker import BrokerMode, BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.server import Server
from migrator.lab.servers.tools import describe_quorum, dump_metadata_log, random_cluster_id
from migrator.lab.servers.waiting import wait_until
from migrator.lab.servers.zookeeper import ZooKeeper
from tests.e2e.support import HANGS_AFTER_S

pytestmark = pytest.mark.lab

RECORDS = 50


def produce(bootstrap_servers: str, topic: str) -> None:
    """Write RECORDS records and wait for every acknowledgement."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(HANGS_AFTER_S) == 0
    assert failed == []


def consume(bootstrap_servers: str, topic: str, count: int) -> int:
    """Read `count` records with a new group; answers how many came in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": f"reader-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + HANGS_AFTER_S
    got = 0
    while got < count and time.monotonic() < deadline:
        got += sum(1 for message in consumer.consume(count, timeout=1) if message.error() is None)
    consumer.close()
    return got


def create_topic(cluster: LabCluster, topic: str) -> None:
    cluster.create_topics([topic], partitions=3)


def pids(*servers: Server) -> list[int]:
    return [server.process.pid for server in servers]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
def test_a_cluster_serves_goes_through_all_modes_and_leaves_nothing_behind(laboratory: Laboratory) -> None:
    cluster = LabCluster(laboratory, brokers=3, chroot="/kafka", recorder=Recorder())
    cluster.start()
    create_topic(cluster, "orders")
    produce(cluster.bootstrap_servers, "orders")
    assert consume(cluster.bootstrap_servers, "orders", RECORDS) == RECORDS
    assert cluster.zookeeper.client().children("/") == ["kafka", "zookeeper"]
    assert {frame.tap for frame in cluster.recorder.frames(api_key=LEADER_AND_ISR)} == {  # type: ignore[union-attr]
        broker.name for broker in cluster.brokers
    }

    quorum = cluster.quorum()
    first = cluster.brokers[0]
    first.restart_as(first.spec.as_migrating(quorum.voters))
    assert first.spec.mode is BrokerMode.MIGRATING
    assert "zookeeper.metadata.migration.enable=true" in first.properties_file.read_text()
    for broker in cluster.brokers[1:]:
        broker.restart_as(broker.spec.as_migrating(quorum.voters))
    cluster.wait_isr_whole(["orders"])

    quorum.start()
    quorum.wait_dual_write()
    assert "LeaderId:               3000" in describe_quorum(laboratory, quorum.addresses)
    assert '"zkMigrationState":1' in dump_metadata_log(laboratory, quorum.controllers[0].metadata_log)

    for broker in cluster.brokers:
        broker.restart_as(broker.spec.as_kraft(quorum.voters))
        cluster.wait_isr_whole(["orders"])
    produce(cluster.bootstrap_servers, "orders")
    quorum.finalize()
    assert consume(cluster.bootstrap_servers, "orders", 2 * RECORDS) == 2 * RECORDS

    everyone = pids(*cluster.zookeeper.servers, *cluster.brokers, *quorum.controllers)
    cluster.stop()
    quorum.stop()
    assert laboratory.processes.running == []
    assert not any(map(lives, everyone))


def test_a_broker_killed_and_started_again_does_not_wait_for_its_old_session(laboratory: Laboratory) -> None:
    """It is registered until then; with a session of two minutes nobody could wait for its end."""
    cluster = LabCluster(laboratory, brokers=1, extra={"zookeeper.session.timeout.ms": 120_000})
    cluster.start()
    broker = cluster.brokers[0]
    broker.kill()
    assert broker.is_registered()
    broker.start()
    broker.wait_ready()
    cluster.wait_whole()


def test_an_ensemble_of_three_serves_when_one_is_killed(laboratory: Laboratory) -> None:
    zookeeper = ZooKeeper(laboratory, servers=3)
    zookeeper.start()
    zookeeper.servers[0].kill()
    zookeeper.wait_led()  # a write whose connection ends is not made again
    client = zookeeper.client()
    client.create("/lab/hello", b"world")
    assert client.read("/lab/hello") == b"world"
    assert client.read("/lab/nothing") is None


def test_a_broker_that_cannot_start_is_reported_with_its_log(laboratory: Laboratory) -> None:
    cluster = LabCluster(laboratory, brokers=1, extra={"log.segment.bytes": "not a number"})
    with pytest.raises(FindingError, match="not a number") as caught:
        cluster.start()
    assert caught.value.code == "Z2K-6003"
    assert str(laboratory.directory / "broker-0" / "server.log") in str(caught.value)


def test_a_paused_broker_does_not_answer_until_it_is_resumed(laboratory: Laboratory) -> None:
    cluster = LabCluster(laboratory, brokers=1)
    cluster.start()
    broker = cluster.brokers[0]
    broker.pause()
    assert "timed out" in str(broker.why_not_ready())
    broker.resume()
    broker.wait_ready()


def test_a_tool_of_kafka_prints_its_answer_and_its_refusals_are_findings(laboratory: Laboratory) -> None:
    made = laboratory.tool("kafka.tools.StorageTool", "random-uuid").strip()
    assert len(made) == len(random_cluster_id()) == 22
    with pytest.raises(FindingError) as caught:
        laboratory.tool("kafka.tools.StorageTool", "format", "-t", "no id", "-c", "/nowhere")
    assert caught.value.code == "Z2K-6007"


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_make_lab_leaves_nothing_behind(tmp_path: Path, kafka_artifacts: object, signal_number: signal.Signals) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "migrator.lab", "--brokers", "1", "--dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored where the tests run behind a shell
    )
    assert run.stdout is not None
    told = [run.stdout.readline() for _ in range(5)]
    assert told[-1] == "Ctrl-C stops everything\n"
    children = [int(file.read_text().split()[0]) for file in tmp_path.glob("*/pid")]
    assert len(children) == 2
    assert all(map(lives, children))
    os.kill(run.pid, signal_number)
    run.communicate(timeout=HANGS_AFTER_S)
    wait_until(_why_alive(children), name="children", deadline_s=HANGS_AFTER_S)


def _why_alive(children: list[int]) -> Callable[[], str | None]:
    return lambda: f"{[pid for pid in children if lives(pid)]} live" if any(map(lives, children)) else None


def test_a_broker_keeps_its_identity_through_a_restart(laboratory: Laboratory) -> None:
    cluster = LabCluster(laboratory, brokers=1)
    broker: BrokerProcess = cluster.brokers[0]
    other = cluster.brokers[0].spec.__class__(broker_id=9, port=1, directory=broker.directory)
    with pytest.raises(AssertionError, match="broker_id"):
        broker.become(other)
