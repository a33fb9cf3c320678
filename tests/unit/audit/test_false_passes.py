"""Ways in which two different sides once looked the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.audit.compare import AuditReport, Comparison, ExpectedDifferences, KeyOutcome, judge, report
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.identity import refuse_foreign_log, refuse_nothing_compared
from migrator.audit.log_fold import Fold, held_records, packed_records, record_rows
from migrator.audit.log_plan import plan_log
from migrator.audit.normalise import PARTITIONS, LogFacts, zk_state
from migrator.audit.quick import facts_of
from migrator.audit.rows import SideRow, facts_text
from migrator.audit.security_facts import ACLS, QUOTAS, TOKENS, zk_facts
from migrator.audit.verified_cache import VerifiedCache
from migrator.driver.copy import make_copy, producer_id_margin
from migrator.findings.finding import FindingError
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree, acls_json, an_id, config_json, state_json, token_json
from tests.unit.audit.test_quick import Cluster, keys


def spark_rows(record: Message, fingerprints: SecretFingerprints | None = None) -> list[SideRow]:
    """What a task of the Spark engine makes of one record."""
    batch = read_batch(build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=[encode_record(record, 0)]))
    fold = Fold()
    for row in record_rows([batch], fingerprints or SecretFingerprints()):
        for held in held_records(packed_records([row.data or b""])):
            fold.take(held.offset, held.decoded(), row.subject or "")
    return list(fold.rows())


# --- F1: records that take something away ----------------------------------------------------------------

TOMBSTONE = ConfigRecord(resource_type=2, resource_name="t000001", name="retention.ms", value=None)


@pytest.mark.parametrize("place", ["in another topic's records", "in the rest"])
@pytest.mark.parametrize("record", [TOMBSTONE, RemoveTopicRecord(topic_id=an_id("t000001"))])
def test_what_removes_a_fact_of_another_topic_is_seen(place: str, record: Message) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=3, partitions=2).plant(ensemble)
    if not ensemble.nodes.get("/config/topics/t000001"):
        ensemble.create("/config/topics/t000001")
    ensemble.nodes["/config/topics/t000001"].data = config_json({"retention.ms": "1"})
    copy = make_copy(read_tree(ensemble.session()))
    by_topic, rest, margin = dict(copy.by_topic()), copy.rest, producer_id_margin(brokers=3)
    verified = VerifiedCache()
    assert verified.audit(ensemble.session(), by_topic, rest, margin).same
    if place == "in the rest":
        rest = (*rest, encode_record(record, 0))
    else:
        by_topic["t000002"] = (*by_topic["t000002"], encode_record(record, 0))
    assert not verified.audit(ensemble.session(), by_topic, rest, margin).same


# --- F3, F9: what is compared belongs together -----------------------------------------------------------


def a_report(cluster_id: str | None) -> AuditReport:
    return report(Comparison(), seconds={}, zk={"cluster_id": cluster_id}, kraft={}, engine="quick")


def log_of_cluster(directory: Path, cluster_id: str) -> str:
    log = directory / "__cluster_metadata-0"
    log.mkdir()
    (directory / "meta.properties").write_text(f"version=1\nnode.id=3000\ncluster.id={cluster_id}\n")
    return str(log)


def test_two_empty_sides_are_equal_only_when_they_are_one_cluster(tmp_path: Path) -> None:
    kraft = log_of_cluster(tmp_path, "one")
    assert refuse_nothing_compared(a_report("one"), kraft).exit_code == 0
    for cluster_id in (None, "another"):
        refused = refuse_nothing_compared(a_report(cluster_id), kraft)
        assert refused.exit_code == 2
        assert "both empty" in refused.differences[0].key


def test_the_log_of_another_cluster_is_refused(tmp_path: Path) -> None:
    kraft = log_of_cluster(tmp_path, "one")
    refuse_foreign_log({"cluster_id": "one"}, kraft)
    with pytest.raises(FindingError, match=r"Z2K-5001.*belongs to cluster one, and ZooKeeper holds cluster another"):
        refuse_foreign_log({"cluster_id": "another"}, str(tmp_path))


# --- F4: numbers that JSON does not have -----------------------------------------------------------------

IP = (ClientQuotaEntity("ip", "::1"),)


@pytest.mark.parametrize("in_zookeeper", ["NaN", "Infinity", "-Infinity", "1.5"])
@pytest.mark.parametrize("in_log", [float("nan"), float("inf"), float("-inf"), 1.5])
def test_a_number_equals_only_itself(in_zookeeper: str, in_log: float) -> None:
    record = ClientQuotaRecord(IP, "request_percentage", in_log)
    zookeeper = zk_facts("/config/ips/%3A%3A1", config_json({"request_percentage": in_zookeeper}))[QUOTAS]
    (log,) = facts_of([record]).security.facts(QUOTAS).values()
    (row,) = spark_rows(record)
    same = str(float(in_zookeeper)) == str(in_log)
    assert (zookeeper == log) is same
    assert (facts_text(zookeeper) == facts_text(row.facts)) is same


# --- F5: a spoiled length --------------------------------------------------------------------------------


def a_segment(directory: Path) -> tuple[Path, list[int]]:
    """Three batches, and where each begins."""
    segment, places = directory / f"{0:020d}.log", []
    data = b""
    for number, name in enumerate("abc"):
        places.append(len(data))
        value = encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0)
        data += build_batch(base_offset=number, leader_epoch=1, timestamp_ms=0, values=[value])
    segment.write_bytes(data)
    return segment, places


@pytest.mark.parametrize("spoiled", [0, 1])
def test_a_spoiled_length_is_no_writer_at_work(spoiled: int, tmp_path: Path) -> None:
    segment, places = a_segment(tmp_path)
    data = bytearray(segment.read_bytes())
    data[places[spoiled] + 9] ^= 0x10
    segment.write_bytes(data)
    with pytest.raises(FindingError, match=f"Z2K-5001.*{segment.name}.*end inside"):
        plan_log(tmp_path)


@pytest.mark.parametrize("cut", [1, 40, 70])
def test_a_batch_that_is_being_written_ends_the_log(cut: int, tmp_path: Path) -> None:
    segment, places = a_segment(tmp_path)
    segment.write_bytes(segment.read_bytes()[: places[2] + cut])
    assert plan_log(tmp_path).offset == 1


@pytest.mark.parametrize("zeros", [1, 60, 61, 512, 3_000_000])
def test_zeros_behind_the_last_batch_are_the_end_of_a_log_that_lost_power(zeros: int, tmp_path: Path) -> None:
    """E19: Kafka cuts them off at its next start, and so do ours."""
    segment, _ = a_segment(tmp_path)
    segment.write_bytes(segment.read_bytes() + bytes(zeros))
    assert plan_log(tmp_path).offset == 2


def test_zeros_with_anything_behind_them_are_damage(tmp_path: Path) -> None:
    segment, places = a_segment(tmp_path)
    data = segment.read_bytes()
    segment.write_bytes(data[: places[2]] + bytes(512) + data[places[2] :])
    with pytest.raises(FindingError, match=f"Z2K-5001.*{segment.name}"):
        plan_log(tmp_path)


def test_zeros_at_the_end_of_an_older_segment_are_damage(tmp_path: Path) -> None:
    segment, places = a_segment(tmp_path)
    data = segment.read_bytes()
    segment.write_bytes(data[: places[2]] + bytes(512))
    (tmp_path / f"{2:020d}.log").write_bytes(data[places[2] :])
    with pytest.raises(FindingError, match=f"Z2K-5001.*{segment.name}"):
        plan_log(tmp_path)


# --- H07: the order of an ISR ----------------------------------------------------------------------------


def test_an_isr_is_a_set_for_brokers() -> None:
    state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [3, 1, 2]}
    topic = an_id("a")
    log = LogFacts()
    for record in (
        TopicRecord("a", topic),
        PartitionRecord(0, topic, (1, 2, 3), (2, 1, 3), leader=1, leader_epoch=0, partition_epoch=0),
    ):
        log.apply(record)

    def outcome() -> KeyOutcome:
        assigned = {"replicas": [1, 2, 3], "adding": [], "removing": []}
        zookeeper = {**assigned, **zk_state("/s", json.dumps(state).encode(), 0)}
        return judge(PARTITIONS, "a-0", zookeeper, log.partitions("a")[0], ExpectedDifferences())[0]

    assert outcome() is KeyOutcome.EQUAL
    log.apply(PartitionChangeRecord(0, topic, isr=(3, 2)))
    assert outcome() is KeyOutcome.DIFFERENT


# --- F6: a partition that no assignment has --------------------------------------------------------------


def test_a_partition_s_znode_without_an_assignment_is_a_difference() -> None:
    cluster = Cluster()
    cluster.ensemble.create("/brokers/topics/t000001/partitions/7/state", state_json())
    found = cluster.audit()
    assert found.exit_code == 1
    assert keys(found) == {("partitions", "t000001-7")}


# --- F8: one ACL under two ids ---------------------------------------------------------------------------


def test_an_acl_that_the_log_has_twice_is_a_difference() -> None:
    first = AccessControlEntryRecord(an_id("x"), 2, "*", 3, "User:a", "*", 3, 3)
    second = AccessControlEntryRecord(an_id("y"), 2, "*", 3, "User:a", "*", 3, 3)
    zookeeper = zk_facts("/kafka-acl/Topic/*", acls_json("Read", principal="User:a"))[ACLS]
    (once,) = facts_of([first]).security.facts(ACLS).values()
    (twice,) = facts_of([first, second]).security.facts(ACLS).values()
    assert zookeeper == once
    assert zookeeper != twice


# --- F9: identities inside znodes ------------------------------------------------------------------------


def test_a_token_under_another_name_is_a_difference() -> None:
    record = DelegationTokenRecord("User:b", "User:b", (), 1, 2, 3, "abc")
    (log,) = facts_of([record]).security.facts(TOKENS).values()
    zookeeper = {name: zk_facts("/delegation_token/tokens/abc", token_json(name, "User%3Ab"))[TOKENS] for name in
                 ("abc", "other")}  # fmt: skip
    assert zookeeper["abc"]["token id"] == log["token id"]
    assert zookeeper["other"]["token id"] != log["token id"]


@pytest.mark.parametrize("epoch", [0, -1, None])
def test_a_state_of_no_controller_is_not_read(epoch: int | None) -> None:
    state = json.loads(state_json())
    state["controller_epoch"] = epoch
    with pytest.raises(FindingError, match=r"Z2K-1001.*controller_epoch"):
        zk_state("/brokers/topics/t/partitions/0/state", json.dumps(state).encode(), 0)
