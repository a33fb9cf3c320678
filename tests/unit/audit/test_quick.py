"""The quick engine on a ZooKeeper in memory: what it names, what it looks at twice, what it could not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import pytest

from migrator.audit.compare import LOOKS_MAX, AuditReport, ExpectedDifferences
from migrator.audit.log_states import NO_OFFSET, LogStates
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, PRODUCER_IDS, TOPIC_CONFIGS, TOPICS
from migrator.audit.passwords import PasswordReader
from migrator.audit.quick import quick_audit
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.audit.zk_source import TOPICS_AT_ONCE, describe_tree, topic_reads
from migrator.driver.copy import make_copy
from migrator.findings.finding import FindingError
from migrator.model.image import Position
from migrator.model.levels import LATEST
from migrator.node.zookeeper.presence import Shown
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from migrator.zk import paths
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.passwords import CLEAR, KEY, an_encoder, encoded
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

B_AT_B = "/config/users/b%40b"
POSITION = Position(epoch=1, offset=41)
Change = Callable[[FakeEnsemble], None]


def states_of(records: Iterable[Message], low: int = NO_OFFSET) -> LogStates:
    """Of a log whose first record has the offset 0, behind the level that every log begins with."""
    states = LogStates(low)
    states.take(-1, FeatureLevelRecord("metadata.version", LATEST))
    for offset, record in enumerate(records):
        states.take(offset, record)
    return states


class Cluster:
    """Three topics of two partitions, and the log that is their copy (its producer ids are at ZooKeeper's)."""

    def __init__(self) -> None:
        self.ensemble = FakeEnsemble()
        SeededTree(topics=3, partitions=2, producer_block_end=999, security=EVERY_SECURITY_FAMILY).plant(self.ensemble)
        self.values = list(make_copy(read_tree(self.ensemble.session())).values())
        self.later: list[Message] = []
        self.looks = 0
        self.meanwhile: Callable[[int], None] = lambda look: None

    def read_log(self, low: int, wanted: Position) -> tuple[LogStates, Position]:
        self.looks += 1
        self.meanwhile(self.looks)
        return states_of([*map(decode_record, self.values), *self.later], low), POSITION

    def audit(self) -> AuditReport:
        return quick_audit(
            self.ensemble.session(), self.read_log, rules=ExpectedDifferences(producer_id_margin=4_000), settle_s=0
        )

    def change(self, path: str, data: bytes) -> None:
        self.ensemble.nodes[path].data = data


def test_passwords_are_compared_decoded_and_told_as_hashes() -> None:
    """Another salt is no difference; another value is one; one that cannot be decoded was not read."""
    ensemble = FakeEnsemble()
    SeededTree(topics=1, partitions=1).plant(ensemble)
    copied = map(decode_record, make_copy(read_tree(ensemble.session())).values())
    log = states_of([*copied, ConfigRecord(resource_type=4, resource_name="7", name=KEY, value=CLEAR)])

    def audited(text: str, passwords: PasswordReader | None) -> tuple[bool, set[str], str]:
        ensemble.create("/config/brokers/7", config_json({KEY: text}))
        rules = ExpectedDifferences(producer_id_margin=4_000)
        report = quick_audit(
            ensemble.session(), lambda low, wanted: (log, POSITION), rules=rules, settle_s=0, passwords=passwords
        )
        told = msgspec.json.encode(report).decode()
        assert not [each for each in (CLEAR, "another value", text) if each in told]
        return report.same, {each.kind for each in report.differences}, told

    reader = PasswordReader.of(an_encoder().settings)
    assert audited(encoded(), reader)[:2] == (True, set())
    same, kinds, told = audited(encoded("another value"), reader)
    assert (same, kinds) == (False, {"changed"})
    assert told.count("hmac-sha256:") == 2
    for text, passwords, code in ((encoded(), None, "password.encoder.secret"), (CLEAR, reader, "decoded")):
        same, kinds, told = audited(text, passwords)
        assert (same, kinds) == (False, {"not read"})
        assert code in told


def keys(report: AuditReport) -> set[tuple[str, str]]:
    return {(each.family, each.key) for each in report.differences}


def removed(path: str) -> Change:
    def remove(ensemble: FakeEnsemble) -> None:
        for each in [each for each in ensemble.nodes if each == path or each.startswith(path + "/")]:
            del ensemble.nodes[each]

    return remove


def written(path: str, data: bytes) -> Change:
    def write(ensemble: FakeEnsemble) -> None:
        ensemble.create(path, data)

    return write


TOPIC, STATE = "/brokers/topics/t000001", "/brokers/topics/t000001/partitions/1/state"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (written(TOPIC, topic_json("another", range(2))), (TOPICS, "t000001")),
        (removed(TOPIC), (TOPICS, "t000001")),
        (written("/brokers/topics/extra", topic_json("extra", range(2))), (TOPICS, "extra")),
        (written(STATE, state_json(isr=(1, 2))), (PARTITIONS, "t000001-1")),
        (removed(STATE), (PARTITIONS, "t000001-1")),
        (written(TOPIC, topic_json("t000001", range(3))), (PARTITIONS, "t000001-2")),
        (written("/config/topics/t000001", config_json({"retention.ms": "7"})), (TOPIC_CONFIGS, "t000001")),
        (removed("/config/topics/t000001"), (TOPIC_CONFIGS, "t000001")),
        (written("/config/brokers/1", config_json({})), (BROKER_CONFIGS, "1")),
        (written("/config/brokers/2", config_json({"log.cleaner.threads": "4"})), (BROKER_CONFIGS, "2")),
        (written("/config/brokers/<default>", config_json({"log.cleaner.threads": "4"})), (BROKER_CONFIGS, "")),
        (
            written("/latest_producer_id_block", b'{"broker":1,"block_start":"99000","block_end":"99999"}'),
            (PRODUCER_IDS, "next"),
        ),
        (
            written("/config/ips/<default>", config_json({"connection_creation_rate": "6"})),
            (QUOTAS, "/config/ips/<default>"),
        ),
        (removed("/config/users/alice/clients"), (QUOTAS, "/config/users/alice/clients/<default>")),
        (written("/config/clients/new", config_json({"request_percentage": "1"})), (QUOTAS, "/config/clients/new")),
        (written("/config/users/b%40b", config_json({"SCRAM-SHA-256": scram_text(OTHER_SALT)})), (SCRAM, B_AT_B)),
        (written("/config/users/b%40b", config_json({})), (SCRAM, B_AT_B)),
        (written("/kafka-acl/Topic/*", acls_json("Read")), (ACLS, "/kafka-acl/Topic/*")),
        (
            written("/kafka-acl/Topic/*", acls_json("Read", "DescribeConfigs", principal="User:b")),
            (ACLS, "/kafka-acl/Topic/*"),
        ),
        (removed("/kafka-acl-extended/prefixed/Group"), (ACLS, "/kafka-acl-extended/prefixed/Group/app-")),
        (written("/kafka-acl/User/u", acls_json("CreateTokens")), (ACLS, "/kafka-acl/User/u")),
        (
            written("/delegation_token/tokens/abc", token_json("abc", "User%3Ab")),
            (TOKENS, "/delegation_token/tokens/abc"),
        ),
        (removed("/delegation_token"), (TOKENS, "/delegation_token/tokens/abc")),
    ],
)
def test_one_change_in_zookeeper_is_named_and_nothing_else(change: Change, told: tuple[str, str]) -> None:
    cluster = Cluster()
    change(cluster.ensemble)
    report = cluster.audit()
    assert report.exit_code == 1
    assert keys(report) == {told}
    assert report.different == 1


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ([TopicRecord(name="extra", topic_id=an_id("extra"))], (TOPICS, "extra")),
        ([RemoveTopicRecord(topic_id=an_id("t000001"))], (TOPICS, "t000001")),
        ([PartitionChangeRecord(topic_id=an_id("t000001"), partition_id=0, leader=2)], (PARTITIONS, "t000001-0")),
        (
            [ConfigRecord(resource_type=4, resource_name="1", name="log.cleaner.threads", value=None)],
            (BROKER_CONFIGS, "1"),
        ),
        (
            [ClientQuotaRecord((ClientQuotaEntity("ip", "::1"),), "connection_creation_rate", 1.0)],
            (QUOTAS, "/config/ips/%3A%3A1"),
        ),
        ([RemoveUserScramCredentialRecord("b@b", 1)], (SCRAM, B_AT_B)),
        ([AccessControlEntryRecord(an_id("x"), 2, "*", 3, "User:alice", "*", 4, 3)], (ACLS, "/kafka-acl/Topic/*")),
        ([RemoveDelegationTokenRecord("abc")], (TOKENS, "/delegation_token/tokens/abc")),
    ],
)
def test_one_change_in_the_log_is_named(records: Iterable[Message], told: tuple[str, str]) -> None:
    cluster = Cluster()
    cluster.later = list(records)
    report = cluster.audit()
    assert report.exit_code == 1
    assert keys(report) == {told}


def test_a_new_topic_with_partitions_and_configuration_is_one_difference() -> None:
    cluster = Cluster()
    cluster.ensemble.create("/brokers/topics/extra", topic_json("extra", range(2)))
    cluster.ensemble.create("/brokers/topics/extra/partitions/0/state", state_json())
    cluster.ensemble.create("/config/topics/extra", config_json({"retention.ms": "1"}))
    report = cluster.audit()
    assert keys(report) == {(TOPICS, "extra")}
    assert report.different == 1


def test_an_untouched_copy_is_the_same_and_is_looked_at_once() -> None:
    cluster = Cluster()
    report = cluster.audit()
    assert report.exit_code == 0
    assert [each.compared for each in report.families] == [3, 6, 3, 2, 1, 5, 2, 3, 1, 0, 4]
    assert report.kraft == {"offset": 41, "epoch": 1}
    assert cluster.looks == 1


def test_a_change_on_its_way_is_not_a_difference() -> None:
    """Mirrored between the first look and the second."""
    cluster = Cluster()
    cluster.later = [PartitionChangeRecord(topic_id=an_id("t000001"), partition_id=0, leader=2)]
    path = "/brokers/topics/t000001/partitions/0/state"

    def mirror(look: int) -> None:
        if look == 2:
            cluster.change(path, state_json(leader=2, leader_epoch=1))
            cluster.ensemble.nodes[path].version = 1

    cluster.meanwhile = mirror
    assert cluster.audit().same
    assert cluster.looks == 2


def test_what_differs_for_the_first_time_in_the_second_look_gets_a_third() -> None:
    """A busy cluster: at each look something else is on its way."""
    cluster = Cluster()
    path = "/brokers/topics/t000000/partitions/{}/state"

    def busy(look: int) -> None:
        for partition in range(2):
            cluster.change(path.format(partition), state_json())
        if look < 3:
            cluster.change(path.format(look - 1), state_json(isr=(1,)))

    cluster.meanwhile = busy
    assert cluster.audit().same
    assert cluster.looks == 3


def test_what_never_rests_is_a_difference_after_the_last_look() -> None:
    cluster = Cluster()
    path = "/brokers/topics/t000000/partitions/0/state"
    cluster.meanwhile = lambda look: cluster.change(path, state_json(leader_epoch=look))
    assert keys(cluster.audit()) == {(PARTITIONS, "t000000-0")}
    assert cluster.looks == LOOKS_MAX


@pytest.mark.parametrize(
    ("path", "data", "told"),
    [
        (TOPIC, b"{", (TOPICS, "t000001")),
        (TOPIC, b'{"partitions":{"x":[1]}}', (TOPICS, "t000001")),
        (TOPIC, b"", (TOPICS, "t000001")),
        (STATE, b'{"leader":"1","leader_epoch":0,"isr":[1]}', (PARTITIONS, "t000001-1")),
        (STATE, b"\xff", (PARTITIONS, "t000001-1")),
        ("/config/topics/t000001", b'{"config":["a"]}', (TOPIC_CONFIGS, "t000001")),
        ("/config/brokers/<default>", b'{"config":1}', (BROKER_CONFIGS, "")),
        ("/latest_producer_id_block", b'{"block_end":"many"}', (PRODUCER_IDS, "next")),
    ],
)
def test_a_malformed_znode_is_not_read_and_its_path_is_named(path: str, data: bytes, told: tuple[str, str]) -> None:
    cluster = Cluster()
    cluster.change(path, data)
    report = cluster.audit()
    assert report.exit_code == 2
    assert [(each.family, each.key) for each in report.differences] == [told]
    assert path in report.differences[0].rule
    assert sum(each.not_read for each in report.families) == 1
    assert report.different == 0


def test_configuration_of_a_topic_that_does_not_exist_is_expected_in_zookeeper_only() -> None:
    cluster = Cluster()
    cluster.ensemble.create("/config/topics/gone", config_json({"retention.ms": "1"}))
    report = cluster.audit()
    assert report.same
    assert ("gone", "configuration without a topic") in [(each.key, each.rule) for each in report.expected]


def test_an_empty_chroot_is_not_a_cluster_that_equals_an_empty_log() -> None:
    with pytest.raises(FindingError, match="Z2K-5001"):
        describe_tree(FakeEnsemble().session(), "host:2181/wrong")


def test_the_report_says_which_tree_was_read() -> None:
    session = Cluster().ensemble.session()
    assert describe_tree(session, "host:2181") == {
        "connect": "host:2181",
        "cluster_id": "AAAAAAAAQAqAAAAAAAAAAA",
        "controller": None,
        "controller_epoch": 1,
        "dual_write": False,
        "ours_leads": False,
    }


@pytest.mark.parametrize(("kraft_epoch", "offset", "is_one"), [(5, 70, True), (5, -1, False), (-1, 70, False)])
def test_the_report_says_whether_the_tree_is_one_of_dual_write(kraft_epoch: int, offset: int, is_one: bool) -> None:
    ensemble = Cluster().ensemble
    ensemble.create(
        paths.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":%d}' % kraft_epoch
    )
    ensemble.create(paths.MIGRATION, b'{"version":0,"kraft_metadata_offset":%d}' % offset)
    assert describe_tree(ensemble.session(), "host:2181")["dual_write"] is is_one


@pytest.mark.parametrize(("shown_epoch", "ours"), [(5, True), (4, False), (None, False)])
def test_ours_leads_only_where_it_shows_the_epoch_of_the_claim(shown_epoch: int | None, ours: bool) -> None:
    """A stock controller by the id of one of ours that was killed meets the session of that one (drop-in stock)."""
    ensemble = Cluster().ensemble
    ensemble.create(paths.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}')
    if shown_epoch is not None:
        Shown(ensemble.session(), 3000).show(shown_epoch)
    assert describe_tree(ensemble.session(), "host:2181")["ours_leads"] is ours


def test_topics_are_read_in_chunks_and_none_is_lost() -> None:
    ensemble = FakeEnsemble()
    tree = SeededTree(topics=TOPICS_AT_ONCE + 2, partitions=1)
    tree.plant(ensemble)
    names = [tree.name(number) for number in range(tree.topics)]
    reads = list(topic_reads(ensemble.session(), [*names, "vanished"]))
    assert [each.topic.key for each in reads] == names
    assert all(len(each.states) == 1 for each in reads)


def test_what_differs_of_a_credential_or_a_token_is_told_without_it() -> None:
    cluster = Cluster()
    cluster.change(B_AT_B, config_json({"SCRAM-SHA-256": scram_text(OTHER_SALT)}))
    cluster.change("/delegation_token/tokens/abc", token_json("abc", "User%3Asomebody-else"))
    report = cluster.audit()
    assert [(each.family, each.field_) for each in report.differences] == [
        (SCRAM, "SCRAM-SHA-256 salt"), (TOKENS, "token owner"), (TOKENS, "token requester"),
    ]  # fmt: skip
    text = msgspec.json.encode(report).decode()
    assert text.count("hmac-sha256:") == 6
    assert not [secret for secret in (SALT, OTHER_SALT, "somebody-else", "owner-of-a-token") if secret in text]


@pytest.mark.parametrize(
    ("path", "data", "families"),
    [
        (B_AT_B, b"{", {QUOTAS, SCRAM}),
        (B_AT_B, config_json({"SCRAM-SHA-256": f"salt={SALT}"}), {QUOTAS, SCRAM}),
        ("/config/clients/app", config_json({"producer_byte_rate": "many"}), {QUOTAS}),
        ("/kafka-acl/Topic/*", b'{"version":1}', {ACLS}),
        ("/delegation_token/tokens/abc", b"", {TOKENS}),
    ],
)
def test_a_znode_of_security_that_is_malformed_is_not_read(path: str, data: bytes, families: set[str]) -> None:
    cluster = Cluster()
    cluster.change(path, data)
    report = cluster.audit()
    assert report.exit_code == 2
    assert {each.family for each in report.families if each.not_read} == families
    assert SALT not in msgspec.json.encode(report).decode()
