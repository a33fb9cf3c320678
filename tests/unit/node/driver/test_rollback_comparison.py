"""What a rollback compares ZooKeeper with: the log as it is on disk, however much of it is left."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from migrator.audit.normalise import PRODUCER_IDS
from migrator.controller.snapshot import records_of
from migrator.driver.copy import make_copy
from migrator.node.driver.driver_state import DriverState
from migrator.node.driver.rollback import RollbackActs
from migrator.node.log.log_replay import LogReplay
from migrator.node.log.log_store import LogStore
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.log.storage import LOG_NAME
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.raft.types import SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import NoOpRecord, PartitionChangeRecord
from migrator.wire.records import encode_record
from tests.support.driver_acts import only_parts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree

TOPICS = 3
"""Of two partitions each."""


def a_batch(*values: bytes) -> bytes:
    return build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=list(values))


def test_a_log_whose_beginning_was_trimmed_is_compared_from_its_snapshot_on(tmp_path: Path) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=TOPICS, partitions=2, producer_block_end=999).plant(ensemble)
    copied = LogReplay()
    copied.apply(a_batch(*make_copy(read_tree(ensemble.session())).values()))
    end = copied.end
    store = LogStore.open(tmp_path / LOG_NAME, 1 << 20)
    store.reset(end - 2)
    store.append(end - 2, 1, [a_batch(*[encode_record(NoOpRecord(), 0)] * 2)])
    values = [encode_record(record, version) for record, version in records_of(copied.image)]
    SnapshotFiles(store.directory).write(SnapshotId(end, 1), values, 0)
    store.append(end, 1, [a_batch(encode_record(NoOpRecord(), 0))])
    config = SimpleNamespace(metadata_log_dir=tmp_path, passwords=None)
    besides: dict[str, Any] = dict.fromkeys(each.name for each in fields(RollbackActs))
    parts = only_parts(config=config, session=ensemble.session(), now=DriverState())
    acts = RollbackActs(**besides | {"parts": parts})

    report, _ = acts._compare()
    assert report.kraft == {"offset": end, "epoch": 1}
    assert {each.family: each.compared for each in report.families}["partitions"] == TOPICS * 2
    assert {each.family for each in report.differences} == {PRODUCER_IDS}  # the copy's margin, which is no rule here

    topic = next(iter(copied.image.topics.values()))
    moved = PartitionChangeRecord(partition_id=1, topic_id=topic.id, leader=-1)
    store.append(end + 1, 1, [a_batch(encode_record(moved, 0))])
    report, _ = acts._compare()
    assert {each.key for each in report.differences if each.family == "partitions"} == {f"{topic.name}-1"}
    store.close()
