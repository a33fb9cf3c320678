"""Single faults that a review planted in a tree or a log, and harmless changes: all engines say the same word.

Each stands alone before the quick engine. Spark gets them together, with one task and through its shuffle, and has to
name each one and nothing else. Names as in that review: A texts, B what only ZooKeeper has, C znodes, D and S both
sides, E the log, H harmless, X poison.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from migrator.audit.cluster import CLUSTER, METADATA_VERSION, MIGRATION_STATE
from migrator.audit.compare import AuditReport, DifferenceKind
from migrator.audit.log_plan import plan_log
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, PRODUCER_IDS, TOPIC_CONFIGS, TOPICS
from migrator.audit.run import run_audit
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.audit.spark import job as spark_job
from migrator.audit.spark.kept_session import KeptSession
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.node.tools.rehearsal import rehearse
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.schema import Message
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession
from tests.support.kept_logs import with_records
from tests.support.seeded_tree import (
    EVERY_SECURITY_FAMILY,
    SeededTree,
    acls_json,
    an_id,
    config_json,
    id_text,
    scram_text,
    state_json,
    token_json,
    topic_json,
)

pytestmark = pytest.mark.lab

MASTER: Final = "local[2]"
SPLIT_BYTES: Final = 600
"""Small enough that this small log has many splits."""

USERS: Final = tuple(f"u{each:02d}" for each in range(12))
TREE: Final = SeededTree(
    topics=40,
    partitions=2,
    broker_configs={"<default>": {"log.cleaner.threads": "2"}, "1": {"log.cleaner.threads": "3"}},
    security={
        **EVERY_SECURITY_FAMILY,
        **{f"/config/users/{each}": config_json({"producer_byte_rate": "1024"}) for each in USERS},
        **{f"/kafka-acl/Topic/{each}": acls_json("Read") for each in USERS},
        **{f"/delegation_token/tokens/{each}": token_json(each) for each in USERS},
    },
)
Key = tuple[str, str]
Operation = Create | Delete | SetData


@dataclass(frozen=True)
class Plant:
    """One change of both sides. kind: of the difference that names the key; None: nothing is told.

    guarded: znodes that everybody may read and nobody may write.
    """

    name: str
    family: str
    key: str
    kind: DifferenceKind | None
    tree: tuple[Operation, ...] = ()
    log: tuple[Message, ...] = ()
    guarded: tuple[str, ...] = ()

    @property
    def places(self) -> set[Key]:
        """A user that cannot be read has neither quotas nor credentials."""
        of_a_user = self.kind is NOT_READ and self.key.startswith("/config/users/")
        return {(each, self.key) for each in ((QUOTAS, SCRAM) if of_a_user else (self.family,))}


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def topic_path(number: int) -> str:
    return f"/brokers/topics/{TREE.name(number)}"


def state_path(number: int, partition: int = 0) -> str:
    return f"{topic_path(number)}/partitions/{partition}/state"


def config_path(number: int) -> str:
    return f"/config/topics/{TREE.name(number)}"


def of_partition(number: int, partition: int = 0) -> str:
    return f"{TREE.name(number)}-{partition}"


def put(path: str, data: bytes) -> tuple[Operation, ...]:
    return (SetData(path, data),)


def in_place_of(path: str, data: bytes) -> tuple[Operation, ...]:
    """The same znode again, with a session's life."""
    return Delete(path), Create(path, data, ephemeral=True)


def quota(user: str, name: str, value: str) -> tuple[Operation, ...]:
    return put(f"/config/users/{user}", config_json({name: value}))


def acl(user: str, version: int = 1, **change: str) -> tuple[Operation, ...]:
    entry = {"principal": "User:alice", "permissionType": "Allow", "host": "*", "operation": "Read", **change}
    return put(f"/kafka-acl/Topic/{user}", text({"version": version, "acls": [entry]}))


def token(user: str, **change: Any) -> tuple[Operation, ...]:
    return put(f"/delegation_token/tokens/{user}", text({**json.loads(token_json(user)), **change}))


def block(start: Any, end: Any) -> tuple[Operation, ...]:
    return put("/latest_producer_id_block", text({"version": 1, "broker": 1, "block_start": start, "block_end": end}))


def both_sides(number: int, replicas: Sequence[int], isr: Sequence[int], leader: int) -> dict[str, Any]:
    """Partition 0 of the topic says this in the tree and in the log, with the same epochs."""
    assigned = {"0": list(replicas), "1": [1, 2, 3]}
    name = TREE.name(number)
    topic = {"version": 3, "topic_id": id_text(an_id(name)), "partitions": assigned}
    record = PartitionRecord(
        partition_id=0, topic_id=an_id(name), replicas=tuple(replicas), isr=tuple(isr), leader=leader, leader_epoch=0,
        partition_epoch=1,
    )  # fmt: skip
    return {
        "tree": (
            SetData(topic_path(number), text({**topic, "adding_replicas": {}, "removing_replicas": {}})),
            SetData(state_path(number), state_json(isr=tuple(isr), leader=leader)),
        ),
        "log": (record,),
    }


NOT_READ, CHANGED, UNUSABLE = DifferenceKind.NOT_READ, DifferenceKind.CHANGED, DifferenceKind.UNUSABLE
GONE_IN_TREE, GONE_IN_LOG = DifferenceKind.MISSING_IN_ZOOKEEPER, DifferenceKind.MISSING_IN_LOG
DEEP: Final = b'{"unknown":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
SCRAM_PATH: Final = "/config/users/b%40b"

NAMED: Final[tuple[Plant, ...]] = (
    # what Kafka's own readers refuse
    Plant("A01 ends of the block as numbers", PRODUCER_IDS, "next", NOT_READ, block(5_000, 5_999)),
    Plant("A04 an ACL of version 2", ACLS, "/kafka-acl/Topic/u00", NOT_READ, acl("u00", version=2)),
    Plant("an operation of nobody", ACLS, "/kafka-acl/Topic/u01", GONE_IN_LOG, acl("u01", operation="Reed")),
    Plant("A06 a token of version 4", TOKENS, "/delegation_token/tokens/u00", NOT_READ, token("u00", version=4)),
    Plant("A06 a token without an end", TOKENS, "/delegation_token/tokens/u01", NOT_READ,
          token("u01", expiryTimestamp="2")),
    Plant("A08 a rate with an underscore", QUOTAS, "/config/users/u00", NOT_READ,
          quota("u00", "producer_byte_rate", "1_024")),
    Plant("A09 a rate with an exponent", QUOTAS, "/config/users/u01", NOT_READ,
          quota("u01", "producer_byte_rate", "1.024E3")),
    Plant("S04 digits that no double has", QUOTAS, "/config/users/u02", NOT_READ,
          quota("u02", "request_percentage", "\u0661\u0660")),
    Plant("S05 a rate of connections with a point", QUOTAS, "/config/ips/<default>", NOT_READ,
          put("/config/ips/<default>", config_json({"connection_creation_rate": "5.0"}))),
    Plant("S06 a rate beyond 64 bits", QUOTAS, "/config/users/u03", NOT_READ,
          quota("u03", "producer_byte_rate", "1e30")),
    Plant("S09 a recovery state of nobody", PARTITIONS, of_partition(0), NOT_READ,
          put(state_path(0), state_json(recovery=2)),
          (PartitionChangeRecord(0, an_id(TREE.name(0)), leader_recovery_state=2),)),
    Plant("SCRAM without a stored key", SCRAM, SCRAM_PATH, NOT_READ,
          put(SCRAM_PATH, config_json({"SCRAM-SHA-256": "salt=YQ==,server_key=YQ==,iterations=4096"}))),
    Plant("X01 a configuration nested too deeply", TOPIC_CONFIGS, TREE.name(1), NOT_READ, put(config_path(1), DEEP)),
    Plant("X05 ACLs nested too deeply", ACLS, "/kafka-acl/Topic/u02", NOT_READ, put("/kafka-acl/Topic/u02", DEEP)),
    Plant("a state of zeros", PARTITIONS, of_partition(2), NOT_READ, put(state_path(2), b"\0" * 200_000)),
    # only ZooKeeper has it
    Plant("B01 a controller epoch of nobody", PARTITIONS, of_partition(3), CHANGED,
          put(state_path(3), state_json(controller_epoch=999))),
    Plant("B05 no cluster id", CLUSTER, "/cluster/id", GONE_IN_TREE, (Delete("/cluster/id"),)),
    # what goes with a session
    Plant("C01 a configuration that is ephemeral", TOPIC_CONFIGS, TREE.name(4), NOT_READ,
          in_place_of(config_path(4), config_json({"retention.ms": "1004"}))),
    Plant("S30 a user that is ephemeral", QUOTAS, "/config/users/u04", NOT_READ,
          in_place_of("/config/users/u04", config_json({"producer_byte_rate": "1024"}))),
    Plant("a state that is ephemeral", PARTITIONS, of_partition(5, 1), NOT_READ,
          in_place_of(state_path(5, 1), state_json())),
    Plant("ACLs that are ephemeral", ACLS, "/kafka-acl/Topic/u03", NOT_READ,
          in_place_of("/kafka-acl/Topic/u03", acls_json("Read"))),
    # what nobody could write after a rollback
    Plant("C03 a state that can only be read", CLUSTER, state_path(15), CHANGED, guarded=(state_path(15),)),
    Plant("a topic that can only be read", CLUSTER, topic_path(16), CHANGED, guarded=(topic_path(16),)),
    Plant("a configuration that can only be read", CLUSTER, config_path(17), CHANGED, guarded=(config_path(17),)),
    Plant("ACLs that can only be read", CLUSTER, "/kafka-acl/Topic/u07", CHANGED, guarded=("/kafka-acl/Topic/u07",)),
    # equal, and no broker can lead it
    Plant("E10 a leader that is no replica", PARTITIONS, of_partition(6), UNUSABLE,
          **both_sides(6, [1, 2, 3], [1, 2, 3], 7)),
    Plant("E11 twice in the ISR", PARTITIONS, of_partition(7), UNUSABLE, **both_sides(7, [1, 2, 3], [1, 1, 2], 1)),
    Plant("an ISR beyond the replicas", PARTITIONS, of_partition(8), UNUSABLE, **both_sides(8, [1], [1, 2], 1)),
    Plant("S11 no replicas", PARTITIONS, of_partition(9), UNUSABLE, **both_sides(9, [], [], -1)),
    Plant("a replica twice", PARTITIONS, of_partition(10), UNUSABLE, **both_sides(10, [1, 1, 2], [1, 2], 1)),
    # one side
    Plant("a version that nobody wrote", PARTITIONS, of_partition(11), CHANGED,
          tuple(SetData(state_path(11), state_json()) for _ in range(3))),
    Plant("a topic of another id", TOPICS, TREE.name(12), CHANGED,
          put(topic_path(12), topic_json("another", range(2)))),
    Plant("a partition that no assignment has", PARTITIONS, f"{TREE.name(13)}-7", GONE_IN_LOG,
          (Create(f"{topic_path(13)}/partitions/7", b""),)),
    Plant("a broker id with a zero in front", BROKER_CONFIGS, "01", GONE_IN_LOG,
          (Create("/config/brokers/01", config_json({"log.cleaner.threads": "3"})),)),
    Plant("another principal", ACLS, "/kafka-acl/Topic/u04", GONE_IN_LOG, acl("u04", principal="User:mallory")),
    Plant("another owner", TOKENS, "/delegation_token/tokens/u02", CHANGED, token("u02", owner="User%3Amallory")),
    Plant("another salt", SCRAM, "/config/users/alice", CHANGED,
          put("/config/users/alice", config_json({
              "producer_byte_rate": "1024", "SCRAM-SHA-512": scram_text("b3RoZXIgc2FsdCBvZiBhIHRlc3Q=")}))),
    Plant("a topic made in the log alone", TOPICS, "in-log", GONE_IN_TREE,
          log=(TopicRecord(name="in-log", topic_id=an_id("in-log")),)),
    Plant("another value in the log", TOPIC_CONFIGS, TREE.name(14), CHANGED,
          log=(ConfigRecord(resource_type=2, resource_name=TREE.name(14), name="retention.ms", value="7"),)),
    # what the log says of itself
    Plant("E06 a level before the migration's", CLUSTER, METADATA_VERSION, CHANGED,
          log=(FeatureLevelRecord(METADATA_VERSION, 1),)),
    Plant("E07 the way back is over", CLUSTER, MIGRATION_STATE, CHANGED, log=(ZkMigrationStateRecord(3),)),
)  # fmt: skip

HARMLESS: Final[tuple[Plant, ...]] = (
    Plant("H06 renewers in another order", TOKENS, "", None, token("u05", renewers=["User%3Arenewer-of-a-token"])),
    Plant("H07 an ISR in another order", PARTITIONS, "", None,
          put(state_path(20), state_json(isr=(3, 1, 2))),
          (PartitionChangeRecord(0, an_id(TREE.name(20)), isr=(1, 2, 3)),)),
    Plant("H13 a configuration of {}", TOPIC_CONFIGS, "", None,
          (Create("/config/topics/nobody", b"{}"),)),
    Plant("keys in another order", TOPIC_CONFIGS, "", None,
          put(config_path(21), b'{ "config" : {"retention.ms":"1021"}, "version": 1, "later": [1] }')),
    Plant("a version 1 of a token", TOKENS, "", None, token("u06", version=1)),
    Plant("B10 no znode of changes", TOPIC_CONFIGS, "", None, (Delete("/config/changes"),)),
    Plant("a child below a configuration", TOPIC_CONFIGS, "", None, (Create(f"{config_path(22)}/child", b"x"),)),
    Plant("an unknown znode", TOPICS, "", None, (Create("/somebody", b"x"),)),
    Plant("a state with a later field", PARTITIONS, "", None,
          put(state_path(23), text({**json.loads(state_json()), "later": 1})),
          (PartitionChangeRecord(0, an_id(TREE.name(23)), isr=(1, 2, 3)),)),
    Plant("the log says a value again", TOPIC_CONFIGS, "", None,
          log=(ConfigRecord(resource_type=2, resource_name=TREE.name(24), name="retention.ms", value="1024"),)),
    Plant("without a leader", PARTITIONS, "", None, **both_sides(25, [1, 2, 3], [2], -1)),
)  # fmt: skip

SIBLINGS: Final[tuple[Plant, ...]] = (
    Plant("A03 an end with blanks", PRODUCER_IDS, "next", NOT_READ, block("5000", " 5_999 ")),
    Plant("another block", PRODUCER_IDS, "next", CHANGED, block("905000", "905999")),
    Plant("B02 no controller ever", CLUSTER, "/controller_epoch", CHANGED, put("/controller_epoch", b"0")),
    Plant("B03 an epoch of letters", CLUSTER, "/controller_epoch", NOT_READ, put("/controller_epoch", b"seven")),
    Plant("B04 no epoch", CLUSTER, "/controller_epoch", GONE_IN_TREE, (Delete("/controller_epoch"),)),
    Plant("B06 an id that is no JSON", CLUSTER, "/cluster/id", NOT_READ, put("/cluster/id", b"abc")),
    Plant("S19 no level any more", CLUSTER, METADATA_VERSION, GONE_IN_LOG,
          log=(FeatureLevelRecord(METADATA_VERSION, 0),)),
)  # fmt: skip
"""Of keys that others have above: alone only."""

NO_LOG: Final[tuple[tuple[str, str, tuple[Message, ...]], ...]] = (
    ("E08 two directories for three replicas", "2 directories for 3 replicas", (
        PartitionRecord(
            partition_id=0, topic_id=an_id(TREE.name(0)), replicas=(1, 2, 3), isr=(1, 2, 3), leader=1,
            directories=(an_id("a"), an_id("b")),
        ),
    )),
    ("E12 one id for two ACLs", "an ACL has this id", (
        AccessControlEntryRecord(an_id("twice"), 2, "one", 3, "User:a", "*", 3, 3),
        AccessControlEntryRecord(an_id("twice"), 2, "two", 3, "User:a", "*", 3, 3),
    )),
    ("S14 one id for two topics", "this topic or its id exists", (
        TopicRecord(name="twin", topic_id=an_id(TREE.name(3))),
    )),
    ("a partition of no topic", "it is about what was not created", (
        PartitionChangeRecord(0, an_id("never"), leader=1),
    )),
)  # fmt: skip
"""Logs that no controller loads: name, reason, records."""


# --- trees, logs, audits ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audited:
    """A tree, and the directory of its rehearsal."""

    connect: str
    log: Path

    @contextmanager
    def planted(self, plants: Iterable[Plant], directory: Path) -> Iterator[Path]:
        """Plant them on both sides, for as long as a session lives; the directory of the changed log."""
        plants = list(plants)
        with ZkSession(self.connect) as session:
            for operation in (each for plant in plants for each in plant.tree):
                assert session.apply(Multi((operation,))).applied, operation
            guard(self.connect, [path for plant in plants for path in plant.guarded])
            yield with_records(self.log, directory / "planted", *([each] for plant in plants for each in plant.log))

    def quick(self, log: Path) -> AuditReport:
        return run_audit(self.connect, str(log), engine="quick", master="", out=None)


def guard(connect: str, paths: Sequence[str]) -> None:
    if not paths:
        return
    client = KazooClient(connect)
    client.start(30)
    for path in paths:
        client.set_acls(path, [make_acl("world", "anyone", read=True)])
    client.stop()
    client.close()


@dataclass(frozen=True)
class Engines:
    """Every way to audit: quick, Spark with one task, and Spark through its shuffle."""

    sessions: KeptSession
    patch: pytest.MonkeyPatch

    def reports(self, audited: Audited, log: Path) -> Iterator[tuple[str, AuditReport]]:
        yield "quick", audited.quick(log)
        yield "one task", self._spark(audited, log)
        with self.patch.context() as patch:
            patch.setattr(spark_job, "SMALL", 0)
            patch.setattr(spark_job, "plan_log", partial(plan_log, split_bytes=SPLIT_BYTES))
            yield "shuffle", self._spark(audited, log)

    def _spark(self, audited: Audited, log: Path) -> AuditReport:
        return run_audit(audited.connect, str(log), engine="spark", master=MASTER, out=None, sessions=self.sessions)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptSession]:
    """One session of Spark for all audits here."""
    kept = KeptSession(tmp_path_factory.mktemp("spark"), MASTER)
    yield kept
    kept.stop()


@pytest.fixture
def engines(sessions: KeptSession, monkeypatch: pytest.MonkeyPatch) -> Engines:
    return Engines(sessions, monkeypatch)


@pytest.fixture
def audited(zookeeper: ZooKeeper, tmp_path: Path) -> Audited:
    with ZkSession(zookeeper.hosts) as root:
        root.ensure_path(f"/{tmp_path.name}")
    connect = f"{zookeeper.hosts}/{tmp_path.name}"
    with ZkSession(connect) as session:
        TREE.seed(session)
        rehearse(session, tmp_path / "log", UNLIMITED)
    return Audited(connect, tmp_path / "log")


def assert_told(report: AuditReport, plants: Sequence[Plant], engine: str = "quick") -> None:
    """Each of them is named, as it should be, and nothing else."""
    told = {(each.family, each.key, each.kind) for each in report.differences}
    assert {(family, key) for family, key, _ in told} == set().union(*(each.places for each in plants)), engine
    for plant in plants:
        assert all((*place, plant.kind) in told for place in plant.places), (engine, plant.name)


# --- the plants -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", [*NAMED, *SIBLINGS], ids=lambda each: each.name)
def test_a_plant_is_named_and_nothing_else(plant: Plant, audited: Audited, tmp_path: Path) -> None:
    with audited.planted([plant], tmp_path) as log:
        report = audited.quick(log)
    assert_told(report, [plant])
    assert report.exit_code == (2 if plant.kind is NOT_READ else 1)


@pytest.mark.parametrize("plant", HARMLESS, ids=lambda each: each.name)
def test_a_harmless_change_is_equal(plant: Plant, audited: Audited, tmp_path: Path) -> None:
    with audited.planted([plant], tmp_path) as log:
        report = audited.quick(log)
    assert (report.exit_code, report.differences) == (0, [])


def test_every_engine_says_the_same_word_of_every_plant_and_of_no_harmless_change(
    engines: Engines, audited: Audited, tmp_path: Path
) -> None:
    with audited.planted([*NAMED, *HARMLESS], tmp_path) as log:
        for engine, report in engines.reports(audited, log):
            assert_told(report, NAMED, engine)
            assert report.exit_code == 2, engine


@pytest.mark.parametrize(("name", "reason", "records"), NO_LOG, ids=[name for name, _, _ in NO_LOG])
def test_no_engine_judges_a_log_that_no_controller_loads(
    name: str, reason: str, records: tuple[Message, ...], engines: Engines, audited: Audited, tmp_path: Path
) -> None:
    plant = Plant(name, TOPICS, "", NOT_READ, log=records)
    with audited.planted([plant], tmp_path) as log:
        for engine, report in engines.reports(audited, log):
            assert report.exit_code == 2, engine
            assert reason in report.differences[0].key, engine
