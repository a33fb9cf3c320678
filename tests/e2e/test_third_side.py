"""The third side of an audit, on real brokers: each plant is told by name with the side that stands alone, and nothing
else is, by the quick engine, by one task of Spark and by two (issue of the audit's three sides; R-866).
"""

from __future__ import annotations

import asyncio
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import structs

from api.cli import app
from migrator.audit.normalise import TOPIC_RESOURCE, LogFacts
from migrator.audit.spark.kept_session import LEFT_BEHIND, KeptSession
from migrator.audit.spark.kept_tasks import SparkTasks
from migrator.lab.cluster import LabCluster
from migrator.lab.frames import Recorder
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.tap import Tap
from migrator.node.brokers import what_they_say
from migrator.node.brokers.what_they_say import WhomToAsk
from migrator.node.tools import asking_by_tasks
from migrator.node.tools.log_of_quorum import voters_at
from migrator.node.tools.quorum_lag import read_up_to
from migrator.node.tools.third_side import BrokersAsked, third_side
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.metadata import PartitionRecord, TopicRecord
from migrator.zk.multi import Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.support import AUDIT_DEADLINE_S, ready_cluster, wait_for
from tests.support.seeded_tree import acls_json

pytestmark = [pytest.mark.lab]

ACLS_IN_ZOOKEEPER: Final[dict[str, Value]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "auto.leader.rebalance.enable": "false",
}
"""A new controller, as after a restart of the broker that was it, moves leaders five seconds later, and writes their
states; the default goes on every five minutes."""
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
OTHER_ID: Final = "AAAAAAAAAAAAAAAAAAAAEQ"
STATE: Final = "/brokers/topics/topic-1/partitions/0/state"
NOBODY: Final = 1
"""A port where nobody listens."""
PLANTED: Final = "/kafka-acl/Topic/told-to-nobody"


MASTER: Final = "local[2]"


def words_of_audit(cluster: LabCluster, kraft: Path | str, *words: str) -> list[str]:
    """With every broker asked."""
    asked = ["-z", cluster.zookeeper_connect, "--kraft", str(kraft), "--brokers", cluster.bootstrap_servers]
    return ["audit", *asked, "--json", *words]


def audit(cluster: LabCluster, kraft: Path | str, *words: str, exits: Collection[int] = (0, 1)) -> dict[str, Any]:
    """As anybody would run it."""
    command = [sys.executable, "-m", "api", *words_of_audit(cluster, kraft, "--engine", "quick", *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_DEADLINE_S, check=False)
    assert done.returncode in exits, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


class AuditsInTasks:
    """Audits by Spark, in one session for all of them, as the service has it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.session = KeptSession(directory, MASTER)

    def audit(self, tasks: int, cluster: LabCluster, kraft: Path | str, *words: str) -> dict[str, Any]:
        """tasks: so many ask brokers."""
        given = words_of_audit(cluster, kraft, "--engine", "spark", "--master", MASTER, *words)
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(io.StringIO()) as printed,
        ):
            patch.setattr(asking_by_tasks, "TASKS_AT_ONCE", tasks)
            assert app(given, obj=self.session, standalone_mode=False) in (0, 1), printed.getvalue()
        return dict(json.loads(printed.getvalue()))

    def with_quick(
        self, cluster: LabCluster, kraft: Path | str, *words: str, exits: Collection[int] = (0, 1)
    ) -> dict[str, Any]:
        """By the quick engine; one task of Spark and two of them say the same of brokers, word for word."""
        quick = audit(cluster, kraft, *words, exits=exits)
        for tasks in (1, 2):
            assert of_brokers(self.audit(tasks, cluster, kraft, *words)) == of_brokers(quick), f"{tasks} tasks"
        return quick

    def why_not_alike(self, cluster: LabCluster, log: Path) -> str | None:
        """Of a cluster that still moves: a broker that hears nothing is fenced after nine seconds."""
        quick = of_brokers(audit(cluster, log, exits=(1,)))
        others = [of_brokers(self.audit(tasks, cluster, log)) for tasks in (1, 2)]
        return None if all(each == quick for each in others) else json.dumps([quick, *others])


@pytest.fixture
def in_tasks(tmp_path: Path) -> Iterator[AuditsInTasks]:
    found = AuditsInTasks(tmp_path / "spark")
    yield found
    found.session.stop()


def of_brokers(report: Mapping[str, Any]) -> dict[str, Any]:
    """All of it but for the time that it took."""
    return {**report["brokers"], "seconds": None}


def disks_of(directory: Path, *brokers: BrokerProcess) -> list[str]:
    """Words of an audit: what these have on their disks now, listed as on their hosts."""
    words = []
    for broker in brokers:
        file = directory / f"broker-{broker.spec.broker_id}.disks"
        command = [sys.executable, "-m", "api", "log", "disks", *map(str, broker.directory.glob("data-*"))]
        with open(file, "wb") as opened:
            subprocess.run(command, stdout=opened, check=True, timeout=AUDIT_DEADLINE_S)
        words += ["--disks", str(file)]
    return words


def told(report: Mapping[str, Any]) -> set[tuple[int, str, str, str, str]]:
    return {
        (each["broker"], each["family"], each["key"], each["field"], each["alone"])
        for each in report["brokers"]["differences"]
    }


def modes(report: Mapping[str, Any]) -> dict[int, str]:
    return {each["broker"]: each["mode"] for each in report["brokers"]["asked"]}


def with_later_epoch(cluster: LabCluster, path: str) -> tuple[int, bytes]:
    """A state that no controller told brokers. Returns who leads, and the state as it was."""
    before = cluster.zk.read(path)
    assert before is not None
    found = json.loads(before)
    write(cluster, path, json.dumps({**found, "leader_epoch": found["leader_epoch"] + 7}).encode())
    return int(found["leader"]), before


def write(cluster: LabCluster, path: str, data: bytes) -> None:
    with ZkSession(cluster.zookeeper_connect) as session:
        assert session.apply(Multi((SetData(path, data),))).applied


def set_retention(broker: BrokerProcess, topic: str, value: str) -> None:
    """By this broker and no other: librdkafka may take the one that is cut off for the controller."""
    change = IncrementalAlterConfigsResource(
        TOPIC_RESOURCE, topic, (IncrementalAlterableConfig("retention.ms", 0, value),)
    )

    async def ask() -> None:
        connection = BrokerConnection(HOST, broker.spec.port, "test")
        request = IncrementalAlterConfigsRequest((change,))
        answer = await connection.ask(request, 1, IncrementalAlterConfigsResponse, AUDIT_DEADLINE_S)
        connection.close()
        assert [each.error_code for each in answer.responses] == [0], answer

    asyncio.run(ask())


@contextmanager
def a_way_to(controller: OurController) -> Iterator[Tap]:
    """A port that leads to this controller until it is cut."""
    laboratory = controller.laboratory
    port = int(controller.spec.voters.rpartition(":")[2])
    with Tap("way", port=laboratory.ports.reserve(), target_port=port, recorder=Recorder()) as tap:
        yield tap


def why_not_same(cluster: LabCluster, log: Path) -> str | None:
    report = audit(cluster, log, exits=(0, 1, 2))
    return None if report["same"] else json.dumps([report["differences"], report["brokers"]])


def with_topic_id(broker: BrokerProcess, partition: str, topic_id: str) -> str:
    """The broker is down: its log of this partition is of another topic. Returns the id that it was of."""
    (file,) = broker.directory.glob(f"data-*/{partition}/partition.metadata")
    before = file.read_text().rpartition(": ")[2].strip()
    file.write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return before


def test_what_brokers_say_is_a_side_of_its_own_before_the_takeover_in_dual_write_and_in_hybrid(
    laboratory: Laboratory, tmp_path: Path, in_tasks: AuditsInTasks
) -> None:
    """An ACL that nobody told brokers, an epoch that only ZooKeeper has, a log of another topic; then nothing; then a
    broker in KRaft mode that hears nothing any more, of which the quorum says that it lags. The log is a rehearsal's
    first, and that of dual-write later. Disks are listed in both.
    """
    of_ours = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
    with ready_cluster(laboratory, 2, extra=of_ours, broker_extra=ACLS_IN_ZOOKEEPER) as (cluster, controller):
        brokers, topics = cluster.brokers, ("topic-0", "topic-1")
        cluster.wait_isr_whole(topics)
        brokers[2].stop()
        right = with_topic_id(brokers[2], "topic-0-1", OTHER_ID)
        brokers[2].start_as_written()
        brokers[2].wait_ready()  # it registers before it has read all ACLs
        cluster.wait_isr_whole(("topic-1",))  # whose state nobody changes any more
        cluster.zk.create(PLANTED, acls_json("Read"))  # without the notification that brokers read
        leader, state = with_later_epoch(cluster, STATE)
        rehearsal = tmp_path / "rehearsal"
        words = ["rehearse", "-z", cluster.zookeeper_connect, "--out", str(rehearsal)]
        subprocess.run([sys.executable, "-m", "api", *words], check=True, timeout=AUDIT_DEADLINE_S)

        disks = disks_of(tmp_path, brokers[0], brokers[2])
        report = in_tasks.with_quick(cluster, rehearsal, "--allow-moved", *disks, exits=(1,))
        assert report["differences"] == []
        assert modes(report) == dict.fromkeys((0, 1, 2), "ZooKeeper")
        assert told(report) == {
            *((each, "ACLs", PLANTED, "", "broker") for each in (0, 1, 2)),
            *((each, "partitions", "topic-1-0", "leader_epoch", "broker") for each in (0, 1, 2)),
            (leader, "logs", "topic-1-0", "leads at", "broker"),
            (2, "logs", "topic-0-1", "topic_id", "broker"),
            (2, "disks", "topic-0-1", "topic_id", "broker"),
        }, report["brokers"]

        cluster.zk.delete(PLANTED)
        write(cluster, STATE, state)
        brokers[2].stop()
        with_topic_id(brokers[2], "topic-0-1", right)
        brokers[2].start_as_written()
        brokers[2].wait_ready()
        brokers[leader].stop()  # it knows the state by another version, and could never change it
        brokers[leader].start_as_written()
        cluster.wait_isr_whole(topics)
        controller.start()
        controller.wait_dual_write()
        log = controller.metadata_log
        wait_for(lambda: why_not_same(cluster, log), "all three sides are equal in dual-write")

        with a_way_to(controller) as way:
            hybrid = brokers[1].spec.as_kraft(f"{controller.spec.node_id}@{HOST}:{way.port}")
            acls = {**ACLS_IN_ZOOKEEPER, "authorizer.class.name": STANDARD}
            brokers[1].restart_as(replace(hybrid, extra={**hybrid.extra, **acls}))
            cluster.wait_isr_whole(topics)
            wait_for(lambda: why_not_same(cluster, log), "all three sides are equal with one broker in KRaft mode")
            report = in_tasks.with_quick(cluster, log, *disks_of(tmp_path, *brokers), exits=(0,))
            assert modes(report) == {0: "ZooKeeper", 1: "KRaft", 2: "ZooKeeper"}
            (listed,) = (each for each in report["brokers"]["families"] if each["family"] == "disks")
            assert listed["equal"] == listed["compared"] > len(brokers), "log directories, and replicas in them"
            way.cut()
            set_retention(brokers[0], "topic-0", "77777")
            report = audit(cluster, log, exits=(1,))
            assert (1, "topic configs", "topic-0", "", "broker") in told(report), report["brokers"]
            assert {each[0] for each in told(report)} == {1}, report["brokers"]
            assert report["differences"] == []
            quorum = f"{HOST}:{way.target_port}"
            for report in (audit(cluster, quorum), in_tasks.audit(2, cluster, quorum)):
                (cut_off,) = (each for each in report["brokers"]["asked"] if each["broker"] == 1)
                assert cut_off["lag"]["offsets"] > 0, cut_off
                assert cut_off["lagging"] > 0, cut_off
                assert all(each["lags"] for each in report["brokers"]["differences"]), report["brokers"]
                assert report["brokers"]["differences"] or not cut_off["lag"]["beyond"], (
                    "whether it is, is a matter of time"
                )
            wait_for(lambda: in_tasks.why_not_alike(cluster, log), "it is fenced, and all engines say the same of it")
            with pytest.raises(OSError, match="belongs to another cluster than"):
                read_up_to(voters_at(f"{HOST}:{way.target_port}"), "a-cluster-of-others")
            way.heal()
            wait_for(lambda: why_not_same(cluster, log), "the broker has caught up")


def test_brokers_that_cannot_be_reached_are_the_same_finding_in_tasks_which_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's facts are larger than what PySpark keeps in memory. No server runs here."""

    async def named(*given: Any, only: object, without: object) -> WhomToAsk:
        return WhomToAsk(dict.fromkeys((1, 2, 3), (HOST, NOBODY)), {4: "no broker names it as alive"})

    facts = LogFacts()
    for number in range(2_000):
        topic_id = number.to_bytes(16, "big")
        facts.apply(TopicRecord(name=f"topic-{number}", topic_id=topic_id))
        for each in range(10):
            facts.apply(PartitionRecord(partition_id=each, topic_id=topic_id, replicas=(1, 2), isr=(1,), leader=1))
    assert len(pickle.dumps(facts)) > 1 << 20
    for module in (what_they_say, asking_by_tasks):
        monkeypatch.setattr(module, "whom_to_ask", named)
    asked = BrokersAsked(f"{HOST}:{NOBODY}")
    quick = third_side(asked, lambda: facts)
    assert [each.problem for each in quick.asked] == [*["Connection refused"] * 3, "no broker names it as alive"]
    session = KeptSession(tmp_path, MASTER)
    with session(MASTER, tmp_path) as spark:
        told = third_side(asked, lambda: facts, tasks=SparkTasks(spark))
        assert structs.replace(told, seconds=0.0) == structs.replace(quick, seconds=0.0)
    assert any(list(tmp_path.glob(pattern)) for pattern in LEFT_BEHIND)
    session.tidy()
    assert not any(list(tmp_path.glob(pattern)) for pattern in LEFT_BEHIND)
    session.stop()
