"""From the log to the image: what counts, what is left out, and what is not guessed at."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from migrator.controller.replay import replay
from migrator.findings.finding import FindingError
from migrator.model.draft import Contradiction, Draft
from migrator.model.image import EMPTY, Position
from migrator.node.config.formatting import bootstrap_checkpoint
from migrator.node.log import log_replay
from migrator.node.log.log_replay import LogReplay, read_ahead, read_bootstrap
from migrator.records.builders import broker_record
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import LeaderChangeMessage
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.builders import a_broker, an_id

BEGIN, END, ABORT = BeginTransactionRecord(name="x"), EndTransactionRecord(), AbortTransactionRecord(reason="x")


def topic(name: str) -> Message:
    return TopicRecord(name=name, topic_id=an_id(name))


def a_log(*batches: list[Message], epoch: int = 3) -> list[bytes]:
    """One piece per batch, offsets in a row."""
    found, offset = [], 0
    for records in batches:
        values = [encode_record(record, 0) for record in records]
        found.append(build_batch(base_offset=offset, leader_epoch=epoch, timestamp_ms=1, values=values))
        offset += len(records)
    return found


def replay_all(pieces: Iterable[bytes]) -> LogReplay:
    return read_ahead(pieces).replay


def topics(loader: LogReplay) -> list[str]:
    return sorted(loader.image.topic_ids)


def test_an_empty_log_is_the_empty_image() -> None:
    loader = replay_all([b""])
    assert (loader.image, loader.transaction_open, loader.data_records) == (EMPTY, False, 0)


def test_records_take_effect_in_order_and_the_position_is_the_last_offset() -> None:
    loader = replay_all(a_log([topic("a"), topic("b")], [RemoveTopicRecord(topic_id=an_id("a")), NoOpRecord()]))
    assert topics(loader) == ["b"]
    assert loader.image.position == Position(3, 3)
    assert loader.data_records == 4


def test_replicas_that_a_reassignment_took_away_are_remembered() -> None:
    """Their brokers may not have been told when the leader died."""
    partition = PartitionRecord(partition_id=4, topic_id=an_id("a"), replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
    changes: list[Message] = [
        PartitionChangeRecord(partition_id=4, topic_id=an_id("a"), replicas=replicas)
        for replicas in [(5, 1, 2, 3), (5, 1, 2), (1, 5)]
    ]
    assert replay_all(a_log([topic("a"), partition], changes[:1])).removals.replicas == {}
    gone = replay_all(a_log([topic("a"), partition], changes)).removals
    assert list(gone.replicas) == [(3, "a", 4), (2, "a", 4)]


def test_a_control_batch_moves_the_position_and_nothing_else() -> None:
    loader = LogReplay()
    change = LeaderChangeMessage(leader_id=1)
    loader.apply(build_control_batch(base_offset=0, leader_epoch=7, timestamp_ms=1, records=[change]))
    assert loader.image.position == Position(7, 0)
    assert loader.data_records == 0
    assert loader.image.topics == EMPTY.topics


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_transaction_takes_effect_at_its_end_wherever_batches_are_cut(cut: int) -> None:
    records = [BEGIN, topic("a"), topic("b"), END, topic("c")]
    loader = LogReplay()
    first, second = a_log(records[:cut], records[cut:])
    loader.apply(first)
    assert topics(loader) == (["a", "b"] if cut == 4 else [])
    assert loader.transaction_open is (cut < 4)
    assert loader.image.position.offset == cut - 1  # records of an open transaction are contained, and say nothing
    loader.apply(second)
    assert topics(loader) == ["a", "b", "c"]
    assert not loader.transaction_open


def test_an_aborted_transaction_never_happened() -> None:
    loader = replay_all(a_log([BEGIN, topic("a")], [ABORT], [BEGIN, topic("b"), END]))
    assert topics(loader) == ["b"]


def test_what_comes_behind_an_abort_counts_at_once() -> None:
    loader = replay_all(a_log([BEGIN, topic("a"), ABORT, topic("b")]))
    assert topics(loader) == ["b"]
    assert not loader.transaction_open


def test_a_transaction_costs_its_end_nothing_since_its_records_are_replayed_as_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once, the copy of 300,000 partitions kept a follower's loop for more than a second."""
    replayed: list[Message] = []

    def noted(draft: Draft, record: Message) -> None:
        replayed.append(record)
        replay(draft, record)

    monkeypatch.setattr(log_replay, "replay", noted)
    loader = LogReplay()
    *pieces, end = a_log([topic("before"), BEGIN], [topic("a")], [topic("b")], [END])
    for piece in pieces:
        loader.apply(piece)
    assert (topics(loader), len(replayed)) == (["before"], 3)
    loader.apply(end)
    assert (topics(loader), len(replayed)) == (["a", "b", "before"], 3)


def test_what_an_aborted_transaction_removed_is_still_there_and_not_remembered_as_gone() -> None:
    removal = RemoveTopicRecord(topic_id=an_id("a"))
    aborted = replay_all(a_log([topic("a")], [BEGIN, removal], [ABORT]))
    assert (topics(aborted), list(aborted.removals.topics)) == (["a"], [])
    ended = replay_all(a_log([topic("a")], [BEGIN, removal], [END]))
    assert (topics(ended), list(ended.removals.topics)) == ([], ["a"])


def test_a_contradiction_inside_a_transaction_counts_at_its_end_and_not_if_it_was_aborted() -> None:
    wrong = [BEGIN, RemoveTopicRecord(topic_id=an_id("unknown")), topic("a")]
    assert topics(replay_all(a_log(wrong, [ABORT], [topic("b")]))) == ["b"]
    with pytest.raises(Contradiction, match="is not known"):
        replay_all(a_log(wrong, [END]))


def test_one_piece_or_one_by_one_is_the_same() -> None:
    batches = a_log([topic("a"), BEGIN], [topic("b")], [END, topic("c")], [RemoveTopicRecord(topic_id=an_id("c"))])
    assert replay_all(batches).image == replay_all([b"".join(batches)]).image


def test_a_record_that_cannot_be_stops_the_replay() -> None:
    with pytest.raises(Contradiction, match="exists already"):
        replay_all(a_log([topic("a"), TopicRecord(name="a", topic_id=an_id("again"))]))


@pytest.mark.parametrize("place", [0, 20, 70])
def test_bytes_that_are_no_batch_stop_the_replay(place: int) -> None:
    (batch,) = a_log([topic("a"), topic("b")])
    spoiled = bytearray(batch)
    spoiled[place if place else 16] ^= 0xFF
    with pytest.raises(FindingError, match="Z2K-3001"):
        replay_all([bytes(spoiled)])


def test_the_records_of_a_format_tool_are_read_with_their_versions(tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.checkpoint"
    file.write_bytes(bootstrap_checkpoint(21))
    assert read_bootstrap(file) == [(FeatureLevelRecord(name="metadata.version", feature_level=21), 0)]


@pytest.mark.parametrize("content", [None, b"x" * 100, bootstrap_checkpoint(21)[:-1]])
def test_a_bootstrap_file_that_is_not_whole_is_refused_by_its_directory(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "bootstrap.checkpoint"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FindingError) as raised:
        read_bootstrap(file)
    assert raised.value.code == "Z2K-3012"
    assert raised.value.occurrence.values["directory"] == str(tmp_path)


def test_what_a_snapshot_holds_is_known_before_anything_of_the_log_is_committed() -> None:
    """A node whose log begins behind 0 could not replay from 0 when its tail turns out to be uncommitted."""
    pieces = a_log([topic("a")], [topic("b")])
    whole = replay_all(pieces)
    begin = LogReplay(replay_all(pieces[:1]).image, replay_all(pieces[:1]).end)
    ahead = read_ahead(pieces, begin)
    assert ahead.replay.image.topic_ids == whole.image.topic_ids
    assert (list(ahead.snapshot.topic_ids), ahead.begins_at, ahead.end) == (["a"], 1, whole.end)


# --- what no correct controller writes -----------------------------------------------------------------------


def a_registered_broker(broker: int, *, fenced: bool = False) -> Message:
    return broker_record(a_broker(broker, fenced=fenced, migrating=False, log_dirs=()))


def a_partition_of(*isr: int, leader: int) -> Message:
    return PartitionRecord(partition_id=0, topic_id=an_id("a"), replicas=(1, 2, 3), isr=isr, leader=leader)


THREE = [a_registered_broker(1), a_registered_broker(2), a_registered_broker(3, fenced=True)]
OUT_OF_SYNC = PartitionChangeRecord(partition_id=0, topic_id=an_id("a"), leader=1)


def test_a_log_that_elected_a_replica_out_of_sync_is_replayed_and_named() -> None:
    """Logs of Kafka and of earlier builds have to load; a voter that stopped at it would leave no quorum."""
    pieces = a_log(THREE, [topic("a"), a_partition_of(2, leader=2)], [OUT_OF_SYNC], [OUT_OF_SYNC])
    loader = replay_all(pieces)
    partition = loader.image.topics[an_id("a")].partitions[0]
    assert (partition.leader, partition.isr) == (1, (2,))
    found = loader.ineligible.finding
    assert found is not None
    assert found.code == "Z2K-2074"
    assert found.values == {"count": 1, "offset": 5, "partition": "a-0", "reason": "broker 1 leads and is not in sync"}


def test_a_log_that_replaced_a_partition_is_replayed_as_kafka_does_and_named() -> None:
    pieces = a_log(THREE, [topic("a"), a_partition_of(1, 2, leader=1)], [a_partition_of(2, leader=2)])
    loader = replay_all(pieces)
    assert loader.image.topics[an_id("a")].partitions[0].leader == 2
    found = loader.ineligible.finding
    assert found is not None
    assert found.values["reason"] == "the partition exists, and is replaced"


def test_a_copy_names_no_member_that_zookeeper_had() -> None:
    """A broker that is down stands in in-sync sets there: it is the last one that had the records."""
    copied = [BEGIN, topic("a"), a_partition_of(3, leader=3), END]
    assert replay_all(a_log(THREE, copied)).ineligible.finding is None


def test_a_sound_log_names_nothing() -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=an_id("a"), isr=(1,), leader=1)
    loader = replay_all(a_log(THREE, [topic("a"), a_partition_of(1, 2, leader=2)], [change]))
    assert loader.ineligible.finding is None
