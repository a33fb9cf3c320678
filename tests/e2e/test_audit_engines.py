"""Both engines on a real ZooKeeper: the same when nothing differs, and exactly what was planted when something does.

The log is a rehearsal's directory, changed where a test says so. A Spark session takes seconds to start, so
differences that do not touch each other are planted together; the quick engine gets each one alone as well.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from migrator.audit.cluster import CLUSTER, METADATA_VERSION
from migrator.audit.compare import MOVED_ON, AuditReport, DifferenceKind, ExpectedDifferences
from migrator.audit.log_plan import plan_log
from migrator.audit.normalise import BROKER_CONFIGS, ORDERS, PARTITIONS, PRODUCER_IDS, TOPIC_CONFIGS, TOPICS
from migrator.audit.run import run_audit
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.audit.spark import job as spark_job
from migrator.audit.spark.job import replay, spark_audit
from migrator.driver.families import acl_id
from migrator.findings.audit import AUDIT_ROWS_LOST
from migrator.findings.finding import FindingError
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.model.values import Acl, AclEntry, AclResource
from migrator.node.tools.log_of_quorum import log_of_quorum
from migrator.node.tools.rehearsal import rehearse
from migrator.node.zookeeper.tree_reader import descendants
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.schema import Message
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession
from tests.e2e.support import AUDIT_DEADLINE_S
from tests.e2e.test_cli import a_controller_file
from tests.support.fetch_stand_in import a_controller
from tests.support.kept_logs import as_snapshot, batches_of, with_records, with_snapshot_beside
from tests.support.passwords import an_encoder, encoded
from tests.support.seeded_tree import (
    EVERY_SECURITY_FAMILY,
    OTHER_SALT,
    SALT,
    SeededTree,
    acls_json,
    an_id,
    config_json,
    scram_text,
    state_json,
    token_json,
    topic_json,
)

pytestmark = pytest.mark.lab

SECRET, OTHER_SECRET = "correct-horse-battery", "staple-of-the-tests"
OF_A_TOKEN = ("owner-of-a-token", "renewer-of-a-token", "somebody-else")
IN_BASE64 = [
    base64.b64encode(text.encode()).decode().rstrip("=") for text in (OTHER_SECRET, "stored key", "server key")
]
ENCODER = an_encoder().settings
SECRETS = (ENCODER.secret, SECRET, OTHER_SECRET, SALT, OTHER_SALT, *OF_A_TOKEN, *IN_BASE64)
PASSWORD = "listener.name.external.ssl.key.password"
TREE = SeededTree(
    topics=12,
    partitions=3,
    broker_configs={
        "<default>": {"log.cleaner.threads": "2"},
        "1": {"log.cleaner.threads": "3", PASSWORD: encoded(SECRET)},
        "2": {PASSWORD: encoded(SECRET)},
    },
    security=EVERY_SECURITY_FAMILY,
)
SPLIT_BYTES = 600
"""Small enough that this small log has many splits, and a transaction begins and ends in different ones."""

Key = tuple[str, str]
Change = Callable[[ZkSession], None]


@dataclass(frozen=True)
class Cluster:
    """A seeded ZooKeeper, and the directory of its rehearsal."""

    connect: str
    log: Path
    directory: Path

    def audit(self, engine: str, log: Path | None = None, out: Path | None = None, **options: Any) -> AuditReport:
        options = {"passwords": ENCODER, **options}
        return run_audit(self.connect, str(log or self.log), engine=engine, master="local[2]", out=out, **options)

    def change(self, *changes: Change) -> None:
        with ZkSession(self.connect) as session:
            for each in changes:
                each(session)


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path) -> Cluster:
    return seeded(zookeeper, tmp_path, chroot=f"/{tmp_path.name}")


def seeded(zookeeper: ZooKeeper, directory: Path, chroot: str, hosts: str = "") -> Cluster:
    """hosts: as it is reached, where that is not its plain port."""
    if chroot:
        with ZkSession(zookeeper.hosts) as root:
            root.ensure_path(chroot)
    connect = (hosts or zookeeper.hosts) + chroot
    with ZkSession(connect) as session:
        TREE.seed(session)
        rehearse(session, directory / "log", UNLIMITED, ENCODER)
    return Cluster(connect, directory / "log", directory)


@pytest.fixture
def many_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_job, "plan_log", partial(plan_log, split_bytes=SPLIT_BYTES))


def keys(report: AuditReport) -> set[Key]:
    return {(each.family, each.key) for each in report.differences}


def named(plants: Sequence[tuple[Key, Any]]) -> list[str]:
    return [" ".join(key) for key, _ in plants]


# --- the same ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_the_command_says_same_of_a_rehearsal_below_a_chroot(engine: str, zookeeper: ZooKeeper, tmp_path: Path) -> None:
    cluster = seeded(zookeeper, tmp_path, chroot=f"/kafka/prod-{engine}")
    somewhere = tmp_path / "somewhere"
    somewhere.mkdir()
    file = a_controller_file(tmp_path, password__encoder__secret=ENCODER.secret)
    words = ("--kraft", str(cluster.log), "--engine", engine, "--controller", str(file))
    ran = command(somewhere, "-z", cluster.connect, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = json.loads(ran.stdout)
    assert said["same"] is True
    assert [each["compared"] for each in said["families"]] == [12, 36, 12, 3, 1, 5, 2, 3, 1, 0, 4]
    assert said["engine"] == engine
    assert said["zk"]["connect"].endswith(f"/kafka/prod-{engine}")
    assert said["kraft"]["offset"] > 50
    assert [each["rule"] for each in said["expected"]] == ["producer id margin of the copy"]
    assert list(somewhere.iterdir()) == []
    assert ran.stderr == ""


def command(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`zk2kraft audit --json`, run in `directory`."""
    program = Path(sys.executable).with_name("zk2kraft")
    return subprocess.run(
        [str(program), "audit", *words, "--json"],
        capture_output=True,
        check=False,
        cwd=directory,
        text=True,
        timeout=AUDIT_DEADLINE_S,
    )


def test_a_spark_that_does_not_start_is_not_read_and_says_why(cluster: Cluster, tmp_path: Path) -> None:
    ran = command(tmp_path, "-z", cluster.connect, "--kraft", str(cluster.log), "--master", "nowhere")
    assert ran.returncode == 2, ran.stdout + ran.stderr
    (told,) = json.loads(ran.stdout)["differences"]
    assert told["rule"] == "Z2K-5003"
    assert "nowhere" in told["key"]
    assert "Master must" in told["key"]


# --- plants in ZooKeeper ----------------------------------------------------------------------------------


def topic_path(number: int) -> str:
    return f"/brokers/topics/{TREE.name(number)}"


def state_path(number: int, partition: int) -> str:
    return f"{topic_path(number)}/partitions/{partition}/state"


def put(path: str, data: bytes) -> Change:
    return lambda session: applied(session, SetData(path, data))


def create(path: str, data: bytes) -> Change:
    return lambda session: applied(session, Create(path, data))


def delete(*paths: str) -> Change:
    return lambda session: applied(session, *map(Delete, paths))


def applied(session: ZkSession, *operations: Any) -> None:
    assert session.apply(Multi(operations)).applied


def block_json(first: int) -> bytes:
    return json.dumps({"version": 1, "broker": 2, "block_start": str(first), "block_end": str(first + 999)}).encode()


ENCODED_AGAIN = put("/config/brokers/2", config_json({PASSWORD: encoded(SECRET, seed=2)}))
"""The same value with another salt: no difference."""

ORDERED = create("/admin/reassign_partitions", b"{}")
"""Of a rehearsal it is expected: ZooKeeper's controller rules. In dual-write it differs: test_zookeeper_orders.py."""

B_AT_B, TOKEN = "/config/users/b%40b", "/delegation_token/tokens/abc"
ZOOKEEPER_PLANTS: list[tuple[Key, Change]] = [
    ((TOPICS, TREE.name(0)), put(topic_path(0), topic_json("another id", range(3)))),
    ((TOPICS, "extra"), create("/brokers/topics/extra", topic_json("extra", range(2)))),
    ((PARTITIONS, f"{TREE.name(1)}-2"), delete(state_path(1, 2))),
    ((TOPIC_CONFIGS, TREE.name(2)), delete(f"/config/topics/{TREE.name(2)}")),
    (
        (BROKER_CONFIGS, "1"),
        put("/config/brokers/1", config_json({"log.cleaner.threads": "3", PASSWORD: encoded(OTHER_SECRET)})),
    ),
    ((PRODUCER_IDS, "next"), put("/latest_producer_id_block", block_json(999_000))),
    ((QUOTAS, "/config/ips/<default>"), put("/config/ips/<default>", config_json({"connection_creation_rate": "6"}))),
    ((SCRAM, B_AT_B), put(B_AT_B, config_json({"SCRAM-SHA-256": scram_text(OTHER_SALT)}))),
    ((ACLS, "/kafka-acl/Topic/*"), put("/kafka-acl/Topic/*", acls_json("Read"))),
    ((TOKENS, TOKEN), put(TOKEN, token_json("abc", "User%3Asomebody-else"))),
    ((PARTITIONS, f"{TREE.name(9)}-1"), put(topic_path(9), topic_json(TREE.name(9), range(3), adding={"1": [3]}))),
    ((PARTITIONS, f"{TREE.name(10)}-0"), put(topic_path(10), topic_json(TREE.name(10), range(3), removing={"0": [2]}))),
    ((PARTITIONS, f"{TREE.name(11)}-2"), put(state_path(11, 2), state_json(recovery=1))),
]


OF_THE_CLUSTER: list[tuple[Key, Change]] = [
    ((CLUSTER, "/cluster/id"), delete("/cluster/id")),
    ((PARTITIONS, f"{TREE.name(8)}-0"), put(state_path(8, 0), state_json(controller_epoch=999))),
]
"""Of no use to any cluster, whenever somebody wrote it."""

EVERY_PLANT = [*ZOOKEEPER_PLANTS, *OF_THE_CLUSTER]


def test_plants_in_zookeeper_are_named_by_both_engines_and_can_be_replayed(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    own = ZooKeeper(laboratory)
    own.start()
    cluster = seeded(own, tmp_path, chroot="")
    cluster.change(ENCODED_AGAIN, ORDERED, *(change for _, change in EVERY_PLANT))
    out = tmp_path / "out"
    quick, spark = cluster.audit("quick"), cluster.audit("spark", out=out)
    for report in (quick, spark):
        assert report.exit_code == 1
        assert keys(report) == {key for key, _ in EVERY_PLANT}
        assert report.different == len(EVERY_PLANT)
        assert [each.key for each in report.expected if each.family == ORDERS] == ["/admin/reassign_partitions"]
    assert without_hashes(quick) == without_hashes(spark)
    assert_nothing_secret_in(out)
    own.stop()
    for each in (cluster.log / "__cluster_metadata-0").iterdir():
        each.unlink()
    again = replay(out, master="local[2]")
    assert (again.families, again.differences, again.expected) == (spark.families, spark.differences, spark.expected)
    assert (again.kraft, again.zk, again.same) == (spark.kraft, spark.zk, False)
    assert_a_lost_file_is_noticed(out)


def assert_a_lost_file_is_noticed(out: Path) -> None:
    """As when executors do not share the directory: what is missing of both sides would be equal."""
    sorted((out / "look-1" / "inputs").glob("part-*"))[0].unlink()
    with pytest.raises(FindingError) as refused:
        replay(out, master="local[2]")
    assert refused.value.code == AUDIT_ROWS_LOST.code


@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_a_rehearsal_of_a_living_cluster_is_not_blamed_for_what_was_written_after_it(
    engine: str, cluster: Cluster
) -> None:
    """Only on request. Of what was changed or deleted since, the copy has to say what the rehearsal read; a state that
    is gone while its partition is not, nobody changed on purpose.
    """
    cluster.change(*(change for _, change in EVERY_PLANT))
    report = cluster.audit(engine, allow_moved=True)
    assert keys(report) == {(PARTITIONS, f"{TREE.name(1)}-2"), *(key for key, _ in OF_THE_CLUSTER)}
    assert {(each.family, each.key) for each in report.expected} == {key for key, _ in ZOOKEEPER_PLANTS} - keys(report)
    assert {each.rule for each in report.expected} == {MOVED_ON}


@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_what_was_copied_wrongly_is_not_excused_by_znodes_that_were_written_again(
    engine: str, cluster: Cluster, tmp_path: Path
) -> None:
    """ "ZooKeeper changed it after the rehearsal was read" excused a topic that was copied wrongly as a whole."""
    log = with_records(cluster.log, tmp_path / "wrong", *done([each for _, each in LOG_PLANTS]))
    cluster.change(write_everything_again)
    assert not keys(cluster.audit(engine, allow_moved=True))
    report = cluster.audit(engine, log, allow_moved=True)
    assert (report.exit_code, keys(report)) == (1, {key for key, _ in LOG_PLANTS})
    assert {each.rule for each in report.expected} == {"producer id margin of the copy", MOVED_ON}


@pytest.mark.parametrize("engine", ["quick", "spark"])
@pytest.mark.parametrize(("first", "same"), [(6_000, True), (4_000, False), (6_001, False)])
def test_producer_ids_that_moved_after_a_rehearsal_are_judged_by_what_it_read(
    engine: str, first: int, same: bool, cluster: Cluster
) -> None:
    cluster.change(put("/latest_producer_id_block", block_json(first)))
    report = cluster.audit(engine, allow_moved=True)
    assert (report.same, keys(report)) == (same, set() if same else {(PRODUCER_IDS, "next")})


def write_everything_again(session: ZkSession) -> None:
    """Every znode below the families' roots, with the bytes that it has."""
    for root in ("/brokers/topics", "/config", "/kafka-acl", "/kafka-acl-extended", "/delegation_token"):
        for path in descendants(session, root):
            znode = session.get(path)
            assert znode is not None
            applied(session, SetData(path, znode.data or b"", znode.version))


def without_hashes(report: AuditReport) -> str:
    """Two audits have two keys, so their hashes differ; nothing else does."""
    told = msgspec.json.encode([report.families, report.differences, report.expected], order="sorted").decode()
    return re.sub(r"hmac-sha256:[0-9a-f]+", "(a hash)", told)


def assert_nothing_secret_in(out: Path) -> None:
    assert not (out / ".scratch").exists()
    for path in filter(Path.is_file, out.rglob("*")):
        text = (
            str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_bytes().decode("latin-1")
        )
        for secret in SECRETS:
            assert secret not in text, (secret, path)


@pytest.mark.parametrize(("key", "change"), EVERY_PLANT, ids=named(EVERY_PLANT))
def test_each_plant_in_zookeeper_alone_is_named_alone(key: Key, change: Change, cluster: Cluster) -> None:
    cluster.change(change)
    report = cluster.audit("quick")
    assert (report.exit_code, keys(report)) == (1, {key})


# --- plants in the log ------------------------------------------------------------------------------------


def topic_id(number: int) -> bytes:
    return an_id(TREE.name(number))


def config(resource: int, name: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value)


CLUSTER_ACL = Acl(AclResource(4, 3, "kafka-cluster"), AclEntry("User:alice", "*", 9, 3))
LOG_PLANTS: list[tuple[Key, Message]] = [
    ((TOPICS, "only-in-log"), TopicRecord(name="only-in-log", topic_id=an_id("only-in-log"))),
    ((TOPICS, TREE.name(3)), RemoveTopicRecord(topic_id=topic_id(3))),
    ((PARTITIONS, f"{TREE.name(4)}-1"), PartitionChangeRecord(topic_id=topic_id(4), partition_id=1, leader=2)),
    (
        (PARTITIONS, f"{TREE.name(5)}-3"),
        PartitionRecord(topic_id=topic_id(5), partition_id=3, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1),
    ),
    ((TOPIC_CONFIGS, TREE.name(6)), config(2, TREE.name(6), "retention.ms", "7")),
    ((BROKER_CONFIGS, "3"), config(4, "3", PASSWORD, OTHER_SECRET)),
    (
        (QUOTAS, "/config/users/alice/clients/<default>"),
        ClientQuotaRecord(
            (ClientQuotaEntity("client-id", None), ClientQuotaEntity("user", "alice")),
            "request_percentage",
            remove=True,
        ),
    ),
    ((CLUSTER, METADATA_VERSION), FeatureLevelRecord(METADATA_VERSION, 1)),
    ((SCRAM, B_AT_B), UserScramCredentialRecord("b@b", 1, OTHER_SECRET.encode(), b"stored", b"server", 4096)),
    ((ACLS, "/kafka-acl/Cluster/kafka-cluster"), RemoveAccessControlEntryRecord(acl_id(CLUSTER_ACL))),
    ((TOKENS, TOKEN), DelegationTokenRecord("User:" + OTHER_SECRET, "User:a", (), 1, 3, 2, "abc")),
    ((PARTITIONS, f"{TREE.name(9)}-0"), PartitionChangeRecord(0, topic_id(9), adding_replicas=(3,))),
    ((PARTITIONS, f"{TREE.name(10)}-1"), PartitionChangeRecord(1, topic_id(10), removing_replicas=(1, 2))),
    ((PARTITIONS, f"{TREE.name(11)}-0"), PartitionChangeRecord(0, topic_id(11), leader_recovery_state=1)),
]

MOVES: list[list[Message]] = [
    [PartitionChangeRecord(topic_id=topic_id(7), partition_id=each % 3, leader=3)] for each in range(40)
]
UNDONE: list[list[Message]] = [
    [BeginTransactionRecord(name="to be aborted"), TopicRecord(name="ghost", topic_id=an_id("ghost"))],
    *MOVES,
    [RemoveTopicRecord(topic_id=topic_id(8)), ProducerIdsRecord(next_producer_id=1 << 50)],
    [AbortTransactionRecord(reason="a test")],
]
OPEN: list[list[Message]] = [[BeginTransactionRecord()], [RemoveTopicRecord(topic_id=topic_id(9))]]


def done(records: Sequence[Message]) -> list[list[Message]]:
    """In a transaction that ends, over many batches."""
    return [[BeginTransactionRecord()], *([each] for each in records), [EndTransactionRecord()]]


def test_plants_in_the_log_are_named_by_both_engines_and_aborted_or_open_transactions_are_not(
    cluster: Cluster, tmp_path: Path, many_splits: None
) -> None:
    log = with_records(cluster.log, tmp_path / "changed", *UNDONE, *done([each for _, each in LOG_PLANTS]), *OPEN)
    assert len(plan_log(log, SPLIT_BYTES).splits) > 8
    out = tmp_path / "out"
    quick, spark = cluster.audit("quick", log), cluster.audit("spark", log, out)
    for report in (quick, spark):
        assert report.exit_code == 1
        assert keys(report) == {key for key, _ in LOG_PLANTS}
        assert report.different == len(LOG_PLANTS)
    assert without_hashes(quick) == without_hashes(spark)
    assert quick.kraft == spark.kraft
    assert_nothing_secret_in(out)


@pytest.mark.parametrize(("key", "record"), LOG_PLANTS, ids=named(LOG_PLANTS))
def test_each_plant_in_the_log_alone_is_named_alone(
    key: Key, record: Message, cluster: Cluster, tmp_path: Path
) -> None:
    report = cluster.audit("quick", with_records(cluster.log, tmp_path / "changed", [record]))
    assert (report.exit_code, keys(report)) == (1, {key})


GIVEN_TWICE: list[tuple[str, Message]] = [
    (
        "an ACL has this id",
        AccessControlEntryRecord(acl_id(CLUSTER_ACL), 2, "another-topic", 3, "User:bob", "*", 3, 3),
    ),
    ("this topic or its id exists", TopicRecord(name="twin", topic_id=topic_id(3))),
]


@pytest.mark.parametrize(("reason", "record"), GIVEN_TWICE, ids=["ACL", "topic"])
@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_an_id_that_is_given_to_two_is_a_log_that_no_controller_loads(
    engine: str, reason: str, record: Message, cluster: Cluster, tmp_path: Path, many_splits: None
) -> None:
    """Spark judges by subject, and passed it: Kafka keeps the last one alone, so the first ACL, or topic, is gone."""
    report = cluster.audit(engine, with_records(cluster.log, tmp_path / "twice", *UNDONE, [record]))
    assert report.exit_code == 2
    assert report.differences[0].rule == "Z2K-5002"
    assert reason in report.differences[0].key


# --- a cluster that lives ---------------------------------------------------------------------------------


def test_a_live_log_that_catches_up_between_two_looks_is_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """ZooKeeper is ahead in the first look; what the log lacked comes with the second."""
    cluster.change(put(state_path(1, 1), state_json(leader=2, leader_epoch=1)))
    change = PartitionChangeRecord(topic_id=topic_id(1), partition_id=1, leader=2)
    ahead = batches_of(with_records(cluster.log, tmp_path / "ahead", [change]))
    out = tmp_path / "out"
    out.mkdir()
    with a_controller(*ahead) as leader:
        behind = leader.high_watermark = leader.high_watermark - 1
        leader.before_answer = lambda: catch_up(leader, out / "look-1" / "judged" / "_SUCCESS", behind + 1)
        with log_of_quorum(leader.address, None) as log:
            report = spark_audit(
                cluster.connect,
                str(log.directory),
                master="local[2]",
                out=out,
                rules=ExpectedDifferences(producer_id_margin=4_000),
                passwords=ENCODER,
            )
    assert report.exit_code == 0, report.differences
    assert report.kraft["offset"] == behind
    assert "again" in report.seconds
    assert [each.compared for each in report.families] == [12, 36, 12, 3, 1, 5, 2, 3, 1, 0, 4]


def catch_up(leader: Any, first_look: Path, high_watermark: int) -> None:
    if first_look.exists():
        leader.high_watermark = high_watermark


# --- a snapshot beside the log ----------------------------------------------------------------------------


def test_a_snapshot_beside_a_whole_log_has_to_say_what_the_log_says(
    cluster: Cluster, tmp_path: Path, many_splits: None
) -> None:
    """A stock controller that was started on such a directory answered what the snapshot says; both engines passed."""
    good = with_snapshot_beside(cluster.log, tmp_path / "good")
    later = with_records(good, tmp_path / "later", [config(2, TREE.name(6), "retention.ms", "7")])
    for engine in ("quick", "spark"):
        assert cluster.audit(engine, good).exit_code == 0
        assert keys(cluster.audit(engine, later)) == {(TOPIC_CONFIGS, TREE.name(6))}, "the log went on behind it"

    other = with_snapshot_beside(
        cluster.log,
        tmp_path / "other",
        config(2, TREE.name(1), "retention.ms", "666"),
        config(4, "3", PASSWORD, OTHER_SECRET),
        PartitionChangeRecord(topic_id=topic_id(4), partition_id=1, leader=2),
        TopicRecord(name="only-in-snapshot", topic_id=an_id("only-in-snapshot")),
        RemoveAccessControlEntryRecord(acl_id(CLUSTER_ACL)),
    )
    out = tmp_path / "out"
    quick, spark = cluster.audit("quick", other), cluster.audit("spark", other, out)
    for report in (quick, spark):
        assert report.exit_code == 1
        assert {each.kind for each in report.differences} == {DifferenceKind.OTHER_IN_SNAPSHOT}
        assert keys(report) == {
            (TOPIC_CONFIGS, TREE.name(1)),
            (BROKER_CONFIGS, "3"),
            (PARTITIONS, f"{TREE.name(4)}-1"),
            (TOPICS, "only-in-snapshot"),
            (ACLS, "/kafka-acl/Cluster/kafka-cluster"),
        }
        (told,) = (each for each in report.differences if each.family == TOPIC_CONFIGS)
        assert '"666"' in told.rule
        assert OTHER_SECRET not in str(report)
    assert without_hashes(quick) == without_hashes(spark)
    assert_nothing_secret_in(out)
    assert without_hashes(spark_job.replay(out)) == without_hashes(spark)


@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_a_snapshot_that_is_damaged_or_behind_the_log_s_end_is_not_read(
    engine: str, cluster: Cluster, tmp_path: Path
) -> None:
    """A stock controller ends at once on the first, and deletes the log on the second."""
    damaged = with_snapshot_beside(cluster.log, tmp_path / "damaged")
    (file,) = (damaged / "__cluster_metadata-0").glob("*.checkpoint")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    report = cluster.audit(engine, damaged)
    assert report.exit_code == 2
    assert file.name in report.differences[0].key

    report = cluster.audit(engine, with_snapshot_beside(cluster.log, tmp_path / "ahead", ahead=1_000))
    assert report.exit_code == 2
    assert "deletes that log" in report.differences[0].key


# --- what cannot be read ----------------------------------------------------------------------------------


def test_a_malformed_znode_is_not_read_in_spark_and_a_snapshot_is_where_the_log_begins(
    cluster: Cluster, tmp_path: Path
) -> None:
    in_clear = put("/config/brokers/1", config_json({PASSWORD: SECRET}))
    cluster.change(put(topic_path(5), b"{"), put(state_path(6, 0), b"not json"), in_clear)
    log = as_snapshot(cluster.log, tmp_path / "cut")
    quick, spark = cluster.audit("quick", log), cluster.audit("spark", log)
    for report in (quick, spark):
        assert report.exit_code == 2
        unread = {(TOPICS, TREE.name(5)), (PARTITIONS, f"{TREE.name(6)}-0"), (BROKER_CONFIGS, "1")}
        assert keys(report) == unread
        assert PASSWORD in report.differences[2].rule
        assert SECRET not in str(report)
        assert topic_path(5) in report.differences[0].rule
        assert state_path(6, 0) in report.differences[1].rule
    assert quick.families == spark.families
    assert quick.kraft == spark.kraft


@pytest.fixture
def damaged_log(cluster: Cluster, tmp_path: Path) -> Path:
    """One bit in the middle is another one: the headers are whole, a checksum is not."""
    log = with_records(cluster.log, tmp_path / "damaged")
    (segment,) = (log / "__cluster_metadata-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    return segment


@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_a_damaged_log_is_not_read_and_its_file_is_named(engine: str, cluster: Cluster, damaged_log: Path) -> None:
    report = cluster.audit(engine, damaged_log.parent.parent)
    assert report.exit_code == 2
    assert all(each.not_read for each in report.families)
    assert damaged_log.name in report.differences[0].key
    assert "checksum" in report.differences[0].key


@pytest.mark.parametrize("engine", ["quick", "spark"])
def test_a_torn_segment_with_another_behind_it_is_not_read(engine: str, cluster: Cluster) -> None:
    (segment,) = (cluster.log / "__cluster_metadata-0").glob("*.log")
    size = segment.stat().st_size
    segment.write_bytes(segment.read_bytes()[: size - 5])
    (segment.parent / f"{10_000:020d}.log").write_bytes(b"")
    report = cluster.audit(engine)
    assert report.exit_code == 2
    assert segment.name in report.differences[0].key
