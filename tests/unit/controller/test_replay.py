"""What each record does to the image; what cannot be is refused, not repaired."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from migrator.controller.replay import changed, replay
from migrator.controller.snapshot import records_of
from migrator.findings.finding import FindingError
from migrator.model.draft import Contradiction, Draft
from migrator.model.image import EMPTY, METADATA_VERSION, Image
from migrator.model.values import (
    ZERO_ID,
    AclEntry,
    AclResource,
    ConfigKey,
    ConfigType,
    DelegationToken,
    FeatureRange,
    Listener,
    Mark,
    MigrationState,
    Partition,
    QuotaEntity,
    Recovery,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.messages.raft import VoteRequest
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.records import RECORD_TYPES
from migrator.wire.schema import Message
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image

ORDERS = an_id("orders")


def replayed(image: Image, *records: Message) -> Image:
    draft = Draft(image)
    for record in records:
        replay(draft, record)
    return draft.finish(image.position).after


def test_a_whole_cluster_is_told_by_its_records() -> None:
    image = replayed(
        EMPTY,
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=21),
        ZkMigrationStateRecord(zk_migration_state=2),
        RegisterBrokerRecord(
            broker_id=1,
            is_migrating_zk_broker=True,
            incarnation_id=an_id("run-1"),
            broker_epoch=5,
            end_points=(BrokerEndpoint("PLAINTEXT", "h", 9092, 0),),
            features=(BrokerFeature(METADATA_VERSION, 21, 21),),
            rack=None,
            log_dirs=(an_id("dir"),),
        ),
        RegisterControllerRecord(controller_id=3000, zk_migration_ready=True),
        TopicRecord(name="orders", topic_id=ORDERS),
        PartitionRecord(
            partition_id=0, topic_id=ORDERS, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
        ),
        ConfigRecord(resource_type=ConfigType.TOPIC, resource_name="orders", name="a", value="b"),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
    )
    assert image.metadata_version == 21
    assert image.migration is MigrationState.PRE_MIGRATION
    assert image.brokers[1] == a_broker(
        1,
        epoch=5,
        fenced=True,
        listeners=(Listener("PLAINTEXT", "h", 9092),),
        features=(FeatureRange(METADATA_VERSION, 21, 21),),
        log_dirs=(an_id("dir"),),
    )
    assert image.controllers[3000].zk_migration_ready
    assert image.topics[ORDERS] == a_topic("orders", [a_partition(0, replicas=(1,))])
    assert dict(image.configs[ConfigKey(ConfigType.TOPIC, "orders")]) == {"a": "b"}
    assert image.next_producer_id == 1000


def test_a_scram_credential_comes_is_replaced_and_goes() -> None:
    record = UserScramCredentialRecord(
        "broker", ScramMechanism.SHA_512, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    other = UserScramCredentialRecord("broker", ScramMechanism.SHA_256, iterations=8192)
    key = ScramKey("broker", ScramMechanism.SHA_512)
    image = replayed(EMPTY, record, other)
    assert image.scram[key] == ScramCredential(b"s", b"k", b"v", 4096)
    assert repr(image.scram[key]) == "ScramCredential(iterations=4096)"
    gone = replayed(image, RemoveUserScramCredentialRecord("broker", ScramMechanism.SHA_512))
    assert list(gone.scram) == [ScramKey("broker", ScramMechanism.SHA_256)]
    assert replayed(gone, RemoveUserScramCredentialRecord("nobody", 1)) == gone


def test_a_quota_is_one_entity_whichever_part_is_named_first() -> None:
    user, client = ClientQuotaEntity("user", "alice"), ClientQuotaEntity("client-id", None)
    image = replayed(
        EMPTY,
        ClientQuotaRecord((client, user), "request_percentage", 5.0),
        ClientQuotaRecord((user, client), "producer_byte_rate", 9.0),
        ClientQuotaRecord((client, user), "request_percentage", remove=True),
    )
    entity = QuotaEntity((("user", "alice"), ("client-id", None)))
    assert {whom: dict(limits) for whom, limits in image.quotas.items()} == {entity: {"producer_byte_rate": 9.0}}
    gone = replayed(image, ClientQuotaRecord((user, client), "producer_byte_rate", remove=True))
    assert not gone.quotas


def test_acls_and_tokens_come_and_go_by_their_ids() -> None:
    acl = AccessControlEntryRecord(an_id("one"), 2, "orders", 3, "User:alice", "*", 3, 3)
    same = AccessControlEntryRecord(an_id("other"), 2, "orders", 3, "User:alice", "*", 3, 3)
    token = DelegationTokenRecord("User:a", "User:b", ("User:c",), 1, 2, 3, "id")
    image = replayed(EMPTY, acl, same, token)
    resource = AclResource(2, 3, "orders")
    assert image.acl_ids[resource] == {an_id("one"), an_id("other")}
    assert image.acl_entries(resource) == {AclEntry("User:alice", "*", 3, 3)}
    assert image.tokens["id"] == DelegationToken("id", "User:a", "User:b", ("User:c",), 1, 2, 3)
    gone = replayed(
        image,
        RemoveAccessControlEntryRecord(an_id("one")),
        RemoveAccessControlEntryRecord(an_id("other")),
        RemoveDelegationTokenRecord("id"),
    )
    assert not gone.acls
    assert not gone.acl_ids
    assert not gone.tokens
    with pytest.raises(Contradiction):
        replayed(gone, RemoveAccessControlEntryRecord(an_id("one")))


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (PartitionChangeRecord(), {}),
        (PartitionChangeRecord(isr=(1,)), {"isr": (1,)}),
        (PartitionChangeRecord(leader=2), {"leader": 2, "leader_epoch": 6}),
        (PartitionChangeRecord(leader=1), {"leader_epoch": 6}),  # the same leader, a new reign
        (PartitionChangeRecord(leader=-1), {"leader": -1, "leader_epoch": 6}),
        (
            PartitionChangeRecord(replicas=(1, 4), adding_replicas=(4,), removing_replicas=(2,)),
            {"replicas": (1, 4), "adding": (4,), "removing": (2,)},
        ),
        (PartitionChangeRecord(adding_replicas=(), removing_replicas=()), {"adding": (), "removing": ()}),
        (PartitionChangeRecord(leader_recovery_state=1), {"recovery": Recovery.RECOVERING}),
        (PartitionChangeRecord(directories=(an_id("d"),)), {"directories": (an_id("d"),)}),
        (PartitionChangeRecord(directories=(ZERO_ID, ZERO_ID)), {"directories": ()}),
    ],
)
def test_a_change_keeps_what_it_does_not_name_and_counts_itself(
    record: PartitionChangeRecord, fields: dict[str, Any]
) -> None:
    before: dict[str, Any] = {
        "id": 0, "replicas": (1, 2, 3), "isr": (1, 2), "leader": 1, "leader_epoch": 5, "partition_epoch": 9,
        "removing": (3,), "adding": (2,), "recovery": 0, "directories": (an_id("a"),),
    }  # fmt: skip
    assert changed(Partition(**before), record) == Partition(**{**before, "partition_epoch": 10, **fields})


def test_a_partition_without_known_directories_is_the_same_however_it_is_written() -> None:
    """A snapshot of stock names an empty id for each replica where a copy or an older record names none."""
    plain: dict[str, Any] = {"partition_id": 0, "topic_id": ORDERS, "replicas": (1, 2), "isr": (1, 2), "leader": 1}
    before = replayed(EMPTY, TopicRecord(name="orders", topic_id=ORDERS))
    none = replayed(before, PartitionRecord(**plain))
    assert replayed(before, PartitionRecord(**plain, directories=(ZERO_ID, ZERO_ID))) == none
    half_known = replayed(before, PartitionRecord(**plain, directories=(ZERO_ID, an_id("d"))))
    (partition,) = half_known.topics[ORDERS].partitions
    assert partition.directories == (ZERO_ID, an_id("d"))


@pytest.mark.parametrize(
    ("record", "fenced", "leaving"),
    [
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1), True, False),
        (FenceBrokerRecord(id=1, epoch=101), True, False),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, in_controlled_shutdown=1), False, True),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101), False, False),
    ],
)
def test_a_broker_is_fenced_or_let_go(record: Message, fenced: bool, leaving: bool) -> None:
    broker = replayed(an_image(), record).brokers[1]
    assert (broker.fenced, broker.in_controlled_shutdown) == (fenced, leaving)
    assert broker.log_dirs == (an_id("dir-1"),)


@pytest.mark.parametrize(
    "record",
    [
        BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=104, fenced=-1, log_dirs=(an_id("left"),)),
        UnfenceBrokerRecord(id=4, epoch=104),
    ],
)
def test_a_fenced_broker_is_let_in_again(record: Message) -> None:
    broker = replayed(an_image(brokers=(a_broker(4, fenced=True),)), record).brokers[4]
    assert broker.active
    if isinstance(record, BrokerRegistrationChangeRecord):
        assert broker.log_dirs == (an_id("left"),)


@pytest.mark.parametrize(
    "record",
    [
        TopicRecord(name="orders", topic_id=an_id("other")),
        TopicRecord(name="other", topic_id=ORDERS),
        RemoveTopicRecord(topic_id=an_id("other")),
        PartitionRecord(partition_id=0, topic_id=an_id("other")),
        PartitionChangeRecord(partition_id=7, topic_id=ORDERS, leader=1),
        PartitionChangeRecord(partition_id=0, topic_id=an_id("other"), leader=1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=1),
        BrokerRegistrationChangeRecord(broker_id=9, broker_epoch=109, fenced=1),
        FenceBrokerRecord(id=1, epoch=7),
        UnfenceBrokerRecord(id=9, epoch=109),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=7),
        ProducerIdsRecord(next_producer_id=5000),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_the_image_stops_the_replay(record: Message) -> None:
    with pytest.raises(Contradiction):
        replayed(an_image(a_topic("orders"), next_producer_id=5000), record)


def test_markers_and_noops_change_nothing() -> None:
    image = an_image(a_topic("orders"))
    markers = (
        NoOpRecord(),
        BeginTransactionRecord(),
        EndTransactionRecord(),
        AbortTransactionRecord(),
        ClearElrRecord(),
    )
    assert replayed(image, *markers) == image


def test_a_controller_of_kafka_4_4_is_unregistered() -> None:
    image = replayed(
        an_image(), RegisterControllerRecord(controller_id=3000), RegisterControllerRecord(controller_id=1)
    )
    left = replayed(image, UnregisterControllerRecord(controller_id=3000), UnregisterControllerRecord(controller_id=9))
    assert set(left.controllers) == {1}


def test_a_mark_of_ours_stands_until_it_is_taken_back() -> None:
    image = an_image(a_topic("orders"))
    marked = replayed(image, NoOpRecord(mark=Mark.TAKEOVER, mark_text="epoch 5"), NoOpRecord())
    assert dict(marked.marks) == {"takeover": "epoch 5"}
    assert replayed(marked, NoOpRecord(mark=Mark.TAKEOVER)) == image
    assert replayed(image, NoOpRecord(mark=Mark.RETIRED)) == image


def test_a_mark_of_a_later_release_is_kept_and_written_into_snapshots() -> None:
    """While a release is upgraded in dual-write, voters of both read one log, and each makes its own snapshots."""
    marked = replayed(an_image(), NoOpRecord(mark="of-a-later-release", mark_text="what it says"))
    written = [record for record, _ in records_of(marked) if isinstance(record, NoOpRecord)]
    assert [(each.mark, each.mark_text) for each in written] == [("of-a-later-release", "what it says")]


def test_every_record_is_replayed_and_what_is_not_known_is_refused() -> None:
    """R-866-02: every record type is either replayed or refused with its name."""
    refused = set()
    for kind in RECORD_TYPES.values():
        with suppress(Contradiction):
            try:
                replayed(an_image(), kind())
            except FindingError as error:
                refused.add((error.code, kind.__name__, kind.__name__ in str(error)))
    assert refused == set()
    with pytest.raises(FindingError, match="VoteRequest") as raised:
        replayed(an_image(), VoteRequest())
    assert raised.value.code == "Z2K-3003"
