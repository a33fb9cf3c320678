"""Raises of features on Kafka 4.4.0, by the service's own gates and requests; the table of features, by its classes.

The cluster is real: its log began at 3.9, and brokers' files alone have min.insync.replicas. The migration is a row in
COMPLETED; ZooKeeper and the controllers' control ports are those of unit tests, and the log says that it was migrated.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.admin import ADMIN_TIMEOUT_S
from migrator.lab.classes import prepared
from migrator.lab.kraft import KraftCluster, Whose
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION, kafka_artifacts
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import read, write
from migrator.lab.servers.server import Server
from migrator.lab.servers.tools import config_command
from migrator.model.features.raises import ELIGIBLE, FEATURES, GROUP, KRAFT, TRANSACTION, moved_by
from migrator.model.image import METADATA_VERSION
from migrator.model.levels import LATER_LEVELS
from migrator.node.config.properties import VoterAddress
from state_machine.clusters.log_observer import LogObservation, LogObserver
from state_machine.policy.phases import Phase
from state_machine.policy.raises import raise_of
from state_machine.rows.documents import FILES, FilesDocument
from state_machine.rows.tables import Operation
from state_machine.work.agreement import agreement
from tests.e2e.support import wait_for
from tests.unit.state_machine.finish.test_version_raise import Completed

pytestmark = pytest.mark.lab

LISTER: Final = Path(__file__).parent.parent / "support" / "FeatureLister.java"
OTHERS: Final = ("4.0.2", "4.1.2", "4.2.2", "4.3.1")
MIN_ISR: Final = "min.insync.replicas"
ROUNDS_MAX: Final = 60


class MigratedLog(LogObserver):
    """The log of a cluster that never knew ZooKeeper, as if it did."""

    async def look(self, *given: Any) -> LogObservation:
        return msgspec.structs.replace(await super().look(*given), migration="POST_MIGRATION")


class OnRealKafka(Completed):
    """A migration in COMPLETED whose log is read from, and whose features are raised on, a real quorum."""

    def __init__(self, directory: Path, cluster: KraftCluster) -> None:
        super().__init__(directory)
        self.cluster = cluster
        self.voters = [VoterAddress(each.spec.node_id, "127.0.0.1", each.spec.port) for each in cluster.controllers]

    async def to_completed(self) -> None:
        await super().to_completed()
        self.log: Any = MigratedLog(self.voters, None)
        self.start_service()  # with another source of the log
        self.read_files()
        await self.turn(5)

    def read_files(self) -> None:
        """As the service reads them on hosts."""
        brokers = [(each.broker_id, read(each.properties_file)) for each in self.cluster.brokers]
        controllers = [(each.spec.node_id, read(each.properties_file)) for each in self.cluster.controllers]
        named = [*(("broker", *each) for each in brokers), *(("controller", *each) for each in controllers)]
        document = FilesDocument(
            self.clock(),
            min_isr=tuple((node, int(keys.get(MIN_ISR, 1))) for node, keys in brokers),
            min_isr_of_controllers=tuple((node, int(keys.get(MIN_ISR, 1))) for node, keys in controllers),
            with_voters=tuple(f"{role} {node}" for role, node, keys in named if "controller.quorum.voters" in keys),
        )
        self.store.record_document(self.id, FILES, msgspec.to_builtins(document), at=self.clock())

    async def settled(self, name: str, **fields: Any) -> Operation:
        """Asked again while the cluster is not whole yet, as after a change of its brokers."""
        for _ in range(ROUNDS_MAX):
            self.read_files()
            await self.turn(4)
            if name == "APPROVE":
                wanted = raise_of(fields.get("feature"))
                fields["digest"] = agreement(self.snapshot, Phase.COMPLETED, wanted).digest
                fields["to"] = Phase.COMPLETED
            done = await self.run_operation(name, **fields)
            if done.state == "succeeded" or "is refused by its gate" not in done.answer:
                return done
            assert done.verdict is not None
            closed = [each for each in done.verdict["conditions"] if each["status"] != "True"]
            if all("min.insync" in each["name"] or "approved" in each["name"] for each in closed):
                return done
            await asyncio.sleep(0.5)
        return done

    async def approve_and_raise(self, feature: str | None) -> Operation:
        await self.settled("APPROVE", who="Bo", feature=feature)
        return await self.settled("RAISE_VERSION", who="Ada", feature=feature)


def servers_of(cluster: KraftCluster) -> list[Server]:
    """Controllers first."""
    controllers = [each for each in cluster.controllers if isinstance(each, StockController)]
    return [*controllers, *cluster.brokers]


def produced(cluster: KraftCluster, topic: str, count: int = 20) -> None:
    """Acknowledged by all in sync, or the test fails."""
    failed: list[str] = []
    producer = Producer({**cluster.client, "acks": "all"})
    for number in range(count):
        producer.produce(topic, f"{number}", on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    assert producer.flush(ADMIN_TIMEOUT_S) == 0
    assert not failed, failed[:3]


@pytest.fixture
def cluster(laboratory: Laboratory) -> KraftCluster:
    """Formatted by 3.9, as a migrated one is; the software is the later one."""
    made = KraftCluster(laboratory, Whose.STOCK, controllers=1, extra={MIN_ISR: 2})
    for controller in made.controllers:
        controller.format()
    for broker in made.brokers:
        write(broker.properties_file, broker.properties())
        broker.before_start()
    for server in servers_of(made):
        server.kafka = prepared(LATER_KAFKA_VERSION)
    made.start()
    return made


def effective_min_isr(cluster: KraftCluster, topic: str) -> str | None:
    return cluster.describe_configs(ResourceType.TOPIC, topic)[MIN_ISR].value


def why_group_protocol_fails(cluster: KraftCluster, topic: str) -> str | None:
    """Reads one record as a member of a group of the new protocol."""
    settings = {"group.id": "new", "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer({**cluster.client, **settings})
    try:
        consumer.subscribe([topic])
        record = consumer.poll(10.0)
        return "no record came" if record is None else None if record.error() is None else str(record.error())
    except KafkaException as error:
        return str(error)
    finally:
        consumer.close()


def in_a_transaction(cluster: KraftCluster, topic: str) -> None:
    producer = Producer({**cluster.client, "transactional.id": "t"})
    producer.init_transactions(ADMIN_TIMEOUT_S)
    for number in range(2):
        producer.begin_transaction()
        producer.produce(topic, f"{number}")
        producer.commit_transaction(ADMIN_TIMEOUT_S)


def test_each_feature_of_kafka_4_4_is_a_decision_and_no_topic_loses_its_minimum(
    cluster: KraftCluster, tmp_path: Path
) -> None:
    """R-778-08; discovery of what --release-version does at once, one raise after the other."""
    cluster.create_topics(["orders"])
    produced(cluster, "orders")
    assert effective_min_isr(cluster, "orders") == "2"
    assert why_group_protocol_fails(cluster, "orders") is not None
    world = OnRealKafka(tmp_path, cluster)

    async def story() -> None:
        await world.to_completed()
        raised = await world.approve_and_raise(None)
        assert raised.state == "succeeded", raised.answer

        refused = await world.approve_and_raise(f"{ELIGIBLE}=1")
        assert refused.state == "refused"
        assert "brokers [0, 1, 2] have 2, and 1 would count (controllers' files)" in refused.answer
        assert refused.verdict is not None
        assert "Z2K-1068" in {code for each in refused.verdict["conditions"] for code in each["codes"]}
        for_all = ("--entity-type", "brokers", "--entity-default", "--alter", "--add-config", f"{MIN_ISR}=2")
        later = prepared(LATER_KAFKA_VERSION)
        tool = (config_command(later), "--bootstrap-server", cluster.bootstrap_servers, *for_all)
        await asyncio.to_thread(cluster.laboratory.tool, *tool, kafka=later)
        raised = await world.approve_and_raise(f"{ELIGIBLE}=1")
        assert raised.state == "succeeded", raised.answer
        assert await asyncio.to_thread(effective_min_isr, cluster, "orders") == "2"

        for feature in (f"{GROUP}=1", f"{TRANSACTION}=2", f"{KRAFT}=1"):
            raised = await world.approve_and_raise(feature)
            assert raised.state == "succeeded", raised.answer
        await world.turn(4)
        seen = world.snapshot.observation
        assert seen is not None
        assert seen.log.feature_levels == {ELIGIBLE: 1, GROUP: 1, TRANSACTION: 2}
        world.log.close()

    asyncio.run(story())
    wait_for(lambda: why_group_protocol_fails(cluster, "orders"), "a member of the new protocol reads a record")
    in_a_transaction(cluster, "orders")
    for server in servers_of(cluster):  # the voters are records, and files name them as before
        server.stop()
    for server in servers_of(cluster):
        server.start_as_written()
    for server in servers_of(cluster):
        server.wait_ready()
    cluster.wait_isr_whole(["orders"])
    assert effective_min_isr(cluster, "orders") == "2"
    produced(cluster, "orders")


@pytest.mark.parametrize(
    "version", [LATER_KAFKA_VERSION, *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_the_table_of_features_says_what_the_classes_of_that_release_say(laboratory: Laboratory, version: str) -> None:
    found = [
        (name, int(level), int(first), int(needs))
        for name, level, first, needs in (
            line.split("\t") for line in laboratory.tool(str(LISTER), kafka=kafka_artifacts(version)).splitlines()
        )
    ]
    for name, level, first, needs in found:
        assert (FEATURES[name].levels[level], FEATURES[name].needs) == (first, needs), name
    release = version.rpartition(".")[0]
    latest = max(level for level, name in LATER_LEVELS.items() if name.startswith(f"{release}-"))
    theirs = {name: level for name, level, first, _ in sorted(found) if first <= latest}
    assert {each.feature: each.level for each in moved_by(release)} == {METADATA_VERSION: latest, **theirs}
