"""What a takeover appends: each record of the tree, its order, the batches, and the image that they make."""

from __future__ import annotations

from array import array

import msgspec
import pytest
from hypothesis import given, settings

from migrator.driver import copy as copying
from migrator.driver.copy import (
    BATCH_BYTES,
    RECORDS_PER_BATCH,
    Copy,
    copied,
    make_copy,
    producer_id_margin,
    topic_values,
    transaction_batches,
)
from migrator.driver.mirror import Shape, plan
from migrator.driver.tree import TopicReading, Tree, as_image
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import MigrationState
from migrator.node.log.log_replay import LogReplay
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.batch import read_batch
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.records import decode_record, decode_versioned_record
from migrator.zk import paths
from migrator.zk.multi import Create, Multi
from tests.support.arbitrary_images import images
from tests.support.builders import a_claim, a_partition, a_topic, an_id, an_image
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree

BASE = an_image(migration=MigrationState.PRE_MIGRATION)


def a_reading(name: str, partitions: int = 1, config: dict[str, str] | None = None) -> TopicReading:
    topic = a_topic(name, partitions)
    return TopicReading(topic, config or {}, 1, 1, array("q", [1] * partitions), 1)


def a_tree() -> Tree:
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    return read_tree(ensemble.session())


def records(copy: Copy) -> list[object]:
    return [decode_record(value) for value in copy.values()]


def replayed(copy: Copy, base: Image = BASE) -> LogReplay:
    loader = LogReplay(base)
    for _, batch in transaction_batches(copy, timestamp_ms=7):
        loader.apply(batch)
    return loader


def test_topics_come_by_name_each_with_its_configuration_and_partitions_then_brokers_then_producer_ids() -> None:
    found = records(make_copy(a_tree()))
    assert [type(each) for each in found] == [
        *[TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord] * 2,
        ConfigRecord,
        ConfigRecord,
        ProducerIdsRecord,
    ]
    assert [each.name for each in found if isinstance(each, TopicRecord)] == ["t000000", "t000001"]
    configs = [each for each in found if isinstance(each, ConfigRecord)]
    assert [(each.resource_type, each.resource_name, each.name, each.value) for each in configs] == [
        (2, "t000000", "retention.ms", "1000"),
        (2, "t000001", "retention.ms", "1001"),
        (4, "", "log.cleaner.threads", "2"),  # <default>
        (4, "1", "log.cleaner.threads", "3"),
    ]


def test_a_partition_is_copied_as_it_is_at_version_0_without_directories() -> None:
    moving = a_partition(
        3, (1, 2, 3), (1, 3), 3, leader_epoch=4, partition_epoch=9, removing=(2,), adding=(3,), recovery=1
    )
    reading = TopicReading(a_topic("orders", [moving]), {}, 1, -1, array("q", [1]), 1)
    record, version = decode_versioned_record(topic_values(reading)[-1])
    assert version == 0
    assert record == PartitionRecord(
        partition_id=3,
        topic_id=an_id("orders"),
        replicas=(1, 2, 3),
        isr=(1, 3),
        removing_replicas=(2,),
        adding_replicas=(3,),
        leader=3,
        leader_recovery_state=1,
        leader_epoch=4,
        partition_epoch=9,
    )


@pytest.mark.parametrize(("brokers", "margin"), [(0, 1_000), (1, 2_000), (3, 4_000)])
def test_the_next_producer_id_leaves_room_for_blocks_on_their_way(brokers: int, margin: int) -> None:
    """F-29: one allocation per broker and one of the old controller may be applied after the copy read the block."""
    ensemble = FakeEnsemble()
    SeededTree(topics=0, brokers=tuple(range(1, brokers + 1)), producer_block_end=5_999).plant(ensemble)
    found = records(make_copy(read_tree(ensemble.session())))[-1]
    assert found == ProducerIdsRecord(broker_id=1, broker_epoch=-1, next_producer_id=6_000 + margin)
    assert producer_id_margin(brokers) == margin


def test_a_cluster_that_never_handed_out_producer_ids_gets_the_margin_alone() -> None:
    assert records(make_copy(Tree())) == [ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=1_000)]


# --- as a transaction -------------------------------------------------------------------------------------


def test_the_copy_is_one_transaction_that_ends_in_migration() -> None:
    copy = make_copy(a_tree())
    batches = [read_batch(batch) for _, batch in transaction_batches(copy, timestamp_ms=7)]
    values = [decode_record(value) for batch in batches for value in batch.values]
    assert values[0] == BeginTransactionRecord(name="ZK Migration")
    assert values[-2:] == [ZkMigrationStateRecord(zk_migration_state=MigrationState.MIGRATION), EndTransactionRecord()]
    assert values[1:-2] == records(copy)
    assert [(batch.base_offset, batch.timestamp_ms) for batch in batches] == [(0, 7)] * len(batches)
    assert [count for count, _ in transaction_batches(copy, 7)] == [len(batch.values) for batch in batches]


@pytest.mark.parametrize("stop", range(3))
def test_a_log_that_ends_before_the_last_batch_says_nothing_of_the_copy(stop: int) -> None:
    """A crash in between leaves a transaction open, which the next leader aborts."""
    loader = LogReplay(BASE)
    for _, batch in list(transaction_batches(make_copy(a_tree()), 7))[:stop]:
        loader.apply(batch)
    assert loader.transaction_open is (stop > 0)
    assert msgspec.structs.replace(loader.image, position=BASE.position) == BASE


def test_no_batch_holds_more_than_its_records_or_much_more_than_its_bytes() -> None:
    tree = Tree(
        topics={
            "wide": a_reading("wide", 2_500),
            "wordy": a_reading("wordy", 1, {f"k{n}": "v" * 30_000 for n in range(80)}),
        }
    )
    copy = make_copy(tree)
    sizes = [(count, len(batch)) for count, batch in transaction_batches(copy, 7)]
    assert sum(count for count, _ in sizes) == copy.record_count() + 3
    assert max(count for count, _ in sizes) == RECORDS_PER_BATCH
    assert BATCH_BYTES < max(size for _, size in sizes) < BATCH_BYTES + 40_000
    assert replayed(copy).image == copied(copy, BASE, replayed(copy).image.position).after


# --- only what moved --------------------------------------------------------------------------------------


def test_a_topic_that_did_not_move_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(topics={"a": a_reading("a"), "b": a_reading("b"), "gone": a_reading("gone")})
    first = make_copy(tree)
    encoded: list[str] = []

    def noted(reading: TopicReading) -> tuple[bytes, ...]:
        encoded.append(reading.topic.name)
        return topic_values(reading)

    monkeypatch.setattr(copying, "topic_values", noted)
    later = Tree(topics={"a": tree.topics["a"], "b": a_reading("b", 2), "new": a_reading("new")})
    second = make_copy(later, first)
    assert encoded == ["b", "new"]
    assert list(second.values()) == list(make_copy(later).values())


def test_the_same_tree_gives_the_same_bytes() -> None:
    """R-866-02."""
    one, other = a_tree(), a_tree()
    one.topics["x"], other.topics["x"] = (
        a_reading("x", 1, {"a": "1", "b": "2"}),
        a_reading("x", 1, {"b": "2", "a": "1"}),
    )
    other.topics = dict(reversed(other.topics.items()))
    other.broker_configs = dict(reversed(other.broker_configs.items()))
    assert list(transaction_batches(make_copy(one), 7)) == list(transaction_batches(make_copy(other), 7))


# --- any tree at all --------------------------------------------------------------------------------------


def planted(image: Image) -> FakeEnsemble:
    """A ZooKeeper that says what the image says, written by dual-write's own planner."""
    ensemble = FakeEnsemble()
    SeededTree(topics=0, broker_configs={}).plant(ensemble)
    ensemble.create("/migration", b"{}")
    session = ensemble.session()
    claim = a_claim(epoch_version=0, migration_version=0)
    for multi in plan(diff(EMPTY, image), claim, Position(5, 1), Shape()).multis:
        operations = tuple(each for each in multi.operations if not (isinstance(each, Create) and each.sequence))
        assert session.apply(Multi(operations)).applied
    return ensemble


@settings(max_examples=100, deadline=None)
@given(image=images())
def test_the_copy_of_any_tree_read_back_from_the_log_is_the_tree(image: Image) -> None:
    tree = read_tree(planted(image).session())
    copy = make_copy(tree)
    loader = replayed(copy)
    assert not loader.transaction_open
    left = diff(as_image(tree, BASE), loader.image)
    assert msgspec.structs.replace(left, producer_ids=False).is_empty
    assert msgspec.structs.replace(diff(left.before, image), producer_ids=False).is_empty
    assert left.after.next_producer_id == tree.next_producer_id() + producer_id_margin(3)
    assert without_producer_ids(planted(loader.image)) == without_producer_ids(planted(image))  # znode, record, znode
    told = copied(copy, BASE, loader.image.position)
    assert told.after == loader.image
    assert told.after.migration is MigrationState.MIGRATION
    assert (told.after.brokers, told.after.features) == (BASE.brokers, BASE.features)
    assert told.topics == frozenset(image.topics)


def without_producer_ids(ensemble: FakeEnsemble) -> dict[str, bytes]:
    """Every znode with its bytes; the copy's margin and the offset in /migration are told elsewhere."""
    return {path: data for path, data in ensemble.tree().items() if path not in (paths.PRODUCER_IDS, paths.MIGRATION)}
