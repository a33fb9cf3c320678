"""What a broker has on its disks beside the log: each fault by name, and what a change since the listing explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.audit.brokers.both_sides import ReadSides
from migrator.audit.brokers.disks_side import with_disks
from migrator.audit.compare import (
    MOVED_ON,
    AskedBroker,
    BrokersSide,
    Difference,
    DifferenceKind,
    FamilyCount,
)
from migrator.audit.normalise import PARTITIONS, TOPICS, id_text
from migrator.audit.run import read_log, read_since
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import (
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from migrator.wire.schema import Message
from tests.support.broker_disks import CLUSTER_ID, a_listing, a_log_directory, a_replica
from tests.support.builders import an_id
from tests.support.kept_logs import values_of

ORDERS, ID = an_id("orders"), id_text(an_id("orders"))
COPIED_S: Final = 1_000
LISTED_S: Final = 2_000
COPY: Final[tuple[Message, ...]] = (
    TopicRecord(name="orders", topic_id=ORDERS),
    *(
        PartitionRecord(each, ORDERS, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=4)
        for each in (0, 1)
    ),
    PartitionRecord(2, ORDERS, replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=4, partition_epoch=4),
)

Batch = tuple[int, Sequence[Message]]
Fault = tuple[str, str, str]


def a_log(directory: Path, *batches: Batch) -> Path:
    """Each batch with its time in seconds; the first one is an empty log's, before anything was copied."""
    directory.mkdir()
    data, offset = b"", 0
    for at_s, records in ((COPIED_S - 100, [NoOpRecord()]), (COPIED_S, COPY), *batches):
        values = values_of(records)
        data += build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=at_s * 1000, values=values)
        offset += len(values)
    (directory / f"{0:020d}.log").write_bytes(data)
    return directory


def whole(tmp_path: Path, alive_ms: int = -1) -> Path:
    """What broker 1 should have: two replicas, the second in a segment that its leader's epoch has not reached."""
    directory = a_log_directory(tmp_path / "d", alive_ms=alive_ms)
    a_replica(directory, "orders-0", ID, [(0, 0), (4, 50)])
    a_replica(directory, "orders-1", ID, [(1, 0)])
    return directory


def compared(
    tmp_path: Path,
    log: Path,
    directories: Sequence[Path],
    two_sides: Sequence[Difference] = (),
    *,
    side: BrokersSide | None = None,
    cluster_id: str | None = CLUSTER_ID,
) -> BrokersSide:
    file = a_listing(tmp_path / "listing", directories, LISTED_S * 1000)
    sides = ReadSides(
        lambda: read_log(str(log))[0].facts,
        lambda offset: read_log(str(log), offset)[0],
        lambda times: read_since(str(log), times),
        two_sides,
        cluster_id,
    )
    return with_disks(side or BrokersSide(), [file], sides)


def told(side: BrokersSide) -> list[Fault]:
    return [(each.key, each.field_, each.kind) for each in side.differences]


def counted(side: BrokersSide) -> FamilyCount:
    return next(each for each in side.families if each.family == "disks")


def test_disks_that_have_what_the_log_gives_them_differ_in_nothing(tmp_path: Path) -> None:
    """An earlier epoch, an empty replica without partition.metadata, and what Kafka set aside are as they may be."""
    directory = whole(tmp_path)
    (directory / "orders-1" / "partition.metadata").unlink()
    (directory / "orders-1" / f"{0:020d}.log").write_bytes(b"")
    a_replica(directory, "gone-0.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-delete", "x")
    a_replica(directory, "orders-2.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-stray", ID)
    a_replica(directory, "orders-0.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-future", ID)
    a_replica(directory, "__cluster_metadata-0", None)
    side = compared(tmp_path, a_log(tmp_path / "log", (3_000, [NoOpRecord()])), [directory])
    assert told(side) == []
    assert counted(side) == FamilyCount("disks", compared=3, equal=3), "a log directory and two replicas"
    assert side.asked == [AskedBroker(1, "", compared=3, listed_at_ms=LISTED_S * 1000)]
    assert side.same


def other_id(directory: Path) -> None:
    (directory / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEQ\n")


def no_id(directory: Path) -> None:
    (directory / "orders-0" / "partition.metadata").unlink()


def later_epoch(directory: Path) -> None:
    (directory / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")


def lost(directory: Path) -> None:
    (directory / "orders-0").rename(directory.parent / "orders-0")


def set_aside(directory: Path) -> None:
    (directory / "orders-0").rename(directory / "orders-0.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-stray")


def of_others(directory: Path) -> None:
    a_replica(directory, "orders-2", ID)


def of_no_topic(directory: Path) -> None:
    a_replica(directory, "gone-0", "BBBBBBBBBBBBBBBBBBBBEQ")


FAULTS: Final[list[tuple[Callable[[Path], None], Fault, Any, Any]]] = [
    (other_id, ("orders-0", "topic_id", "changed"), "AAAAAAAAAAAAAAAAAAAAEQ", ID),
    (no_id, ("orders-0", "topic_id", "missing on broker"), None, ID),
    (later_epoch, ("orders-0", "leader_epoch", "changed"), 5, 4),
    (lost, ("orders-0", "", "missing on broker"), None, {"replicas": [1, 2], "topic_id": ID}),
    (set_aside, ("orders-0", "", "missing on broker"), {"stray": "d"}, {"replicas": [1, 2], "topic_id": ID}),
    (of_others, ("orders-2", "", "missing in log"), {"path": "d", "topic_id": ID, "bytes": 100},
     {"replicas": [2, 3]}),
    (of_no_topic, ("gone-0", "", "missing in log"),
     {"path": "d", "topic_id": "BBBBBBBBBBBBBBBBBBBBEQ", "bytes": 100}, None),
]  # fmt: skip


@pytest.mark.parametrize(("plant", "fault", "on_broker", "log"), FAULTS, ids=[each[0].__name__ for each in FAULTS])
def test_each_fault_is_told_by_name_and_the_broker_stands_alone(
    plant: Callable[[Path], None], fault: Fault, on_broker: Any, log: Any, tmp_path: Path
) -> None:
    directory = whole(tmp_path)
    plant(directory)
    side = compared(tmp_path, a_log(tmp_path / "log", (3_000, [NoOpRecord()])), [directory])
    assert told(side) == [fault]
    (found,) = side.differences
    if isinstance(on_broker, dict):
        on_broker = {name: str(directory) if value == "d" else value for name, value in on_broker.items()}
    assert (found.broker, found.family, found.on_broker, found.log, found.alone) == (
        1,
        "disks",
        on_broker,
        log,
        "broker",
    )
    assert (side.outcome, side.complete, counted(side).different) == ("diverged", True, 1)


def test_a_replica_in_two_directories_is_told_with_both(tmp_path: Path) -> None:
    one, two = whole(tmp_path), a_log_directory(tmp_path / "d2")
    a_replica(two, "orders-0", ID)
    side = compared(tmp_path, a_log(tmp_path / "log"), [one, two])
    assert told(side) == [("orders-0", "directories", "in two directories")]
    assert side.differences[0].on_broker == [str(one), str(two)]


@pytest.mark.parametrize(
    ("given", "field", "on_broker", "log"),
    [({"cluster_id": "another"}, "cluster.id", "another", CLUSTER_ID), ({"broker": 2}, "node.id", 2, 1)],
)
def test_a_log_directory_of_another_cluster_or_broker_is_told_and_nothing_below_it(
    given: dict[str, Any], field: str, on_broker: Any, log: Any, tmp_path: Path
) -> None:
    """What is not in the other directory may be in this one: it is not read."""
    one = a_log_directory(tmp_path / "d")
    a_replica(one, "orders-0", ID)
    two = a_log_directory(tmp_path / "d2", **given)
    a_replica(two, "orders-1", "another")
    a_replica(two, "orders-2", ID)
    side = compared(tmp_path, a_log(tmp_path / "log"), [one, two])
    assert told(side) == [(str(two), field, "changed"), ("orders-1", "", "not read")]
    assert (side.differences[0].on_broker, side.differences[0].log) == (on_broker, log)
    assert (side.outcome, side.complete) == ("diverged", False)


def test_a_directory_that_the_broker_registered_and_nobody_listed_lets_no_replica_be_missing(tmp_path: Path) -> None:
    directory = a_log_directory(tmp_path / "d", directory_id=id_text(an_id("d1")))
    a_replica(directory, "orders-0", ID)
    registered = RegisterBrokerRecord(broker_id=1, log_dirs=(an_id("d1"), an_id("d2")))
    side = compared(tmp_path, a_log(tmp_path / "log", (1_500, [registered])), [directory])
    assert told(side) == [(f"directory {id_text(an_id('d2'))}", "", "not read"), ("orders-1", "", "not read")]
    assert side.outcome == "incomplete"
    assert side.asked[0].refused == "disks: the broker registered it, and it is not in the listing"


def moved(*replicas: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, ORDERS, replicas=replicas, isr=replicas, leader=replicas[0])


NEW, NEW_ID = an_id("new"), id_text(an_id("new"))
MADE: Final = [TopicRecord(name="new", topic_id=NEW), PartitionRecord(0, NEW, replicas=(1,), isr=(1,), leader=1)]
AGAIN: Final = [
    RemoveTopicRecord(topic_id=ORDERS),
    TopicRecord(name="orders", topic_id=NEW),
    *(PartitionRecord(each, NEW, replicas=(1, 2), isr=(1, 2), leader=1) for each in (0, 1)),
]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (MADE, 1),
        ([RemoveTopicRecord(topic_id=ORDERS)], 2),
        ([moved(2, 3)], 1),
        ([moved(2, 3), moved(2, 1)], 0),
        (AGAIN, 2),
    ],
    ids=["a topic was made", "it was deleted", "a replica left", "and came back", "a topic was deleted and made again"],
)
@pytest.mark.parametrize("at_s", [LISTED_S - 5, LISTED_S, LISTED_S + 500])
def test_what_changed_since_the_listing_is_expected(
    records: list[Message], expected: int, at_s: int, tmp_path: Path
) -> None:
    side = compared(tmp_path, a_log(tmp_path / "log", (at_s, records)), [whole(tmp_path)])
    assert told(side) == []
    assert counted(side).expected == expected
    assert side.same


@pytest.mark.parametrize(
    ("records", "faults"),
    [
        (MADE, [("new-0", "", "missing on broker")]),
        ([moved(2, 3)], [("orders-0", "", "missing in log")]),
        (AGAIN, [("orders-0", "topic_id", "changed"), ("orders-1", "topic_id", "changed")]),
    ],
    ids=["a topic was made", "a replica left", "a topic was deleted and made again"],
)
def test_what_changed_long_before_the_listing_is_a_fault_unless_the_broker_was_down_then(
    records: list[Message], faults: list[Fault], tmp_path: Path
) -> None:
    log = a_log(tmp_path / "log", (1_500, records), (3_000, [NoOpRecord()]))
    assert told(compared(tmp_path, log, [whole(tmp_path, alive_ms=1_995_000)])) == faults
    stopped = a_log_directory(tmp_path / "d", alive_ms=1_400_000)
    side = compared(tmp_path, log, [stopped])
    assert told(side) == []
    assert side.same


def test_a_reassignment_that_is_not_over_is_no_fault(tmp_path: Path) -> None:
    adding = PartitionChangeRecord(0, ORDERS, replicas=(1, 2, 3), adding_replicas=(1,), removing_replicas=(2,))
    directory = a_log_directory(tmp_path / "d")
    a_replica(directory, "orders-1", ID)
    assert told(compared(tmp_path, a_log(tmp_path / "log", (1_500, [adding])), [directory])) == []


def a_log_that_was_copied_after_the_listing(directory: Path) -> Path:
    """Its quorum ran before, and had nothing of the cluster."""
    directory.mkdir()
    data, offset = b"", 0
    batches: list[Batch] = [(LISTED_S - 900, [NoOpRecord()]), (LISTED_S + 100, COPY)]
    for at_s, records in batches:
        values = values_of(records)
        data += build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=at_s * 1000, values=values)
        offset += len(values)
    (directory / f"{0:020d}.log").write_bytes(data)
    return directory


@pytest.mark.parametrize("plant", [other_id, lost, of_others, of_no_topic], ids=lambda plant: plant.__name__)
def test_where_the_log_does_not_reach_back_to_the_listing_what_differs_is_not_read(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    directory = whole(tmp_path)
    log = a_log_that_was_copied_after_the_listing(tmp_path / "log")
    assert compared(tmp_path, log, [directory]).same, "what agrees now needs no earlier log"
    plant(directory)
    side = compared(tmp_path, log, [directory])
    assert told(side) == [("", "", "not read")]
    assert "1 of its replicas differs" in side.differences[0].reason
    assert "(1970-01-01T00:33:20Z): make a new listing" in side.differences[0].reason
    assert (side.outcome, counted(side).not_read) == ("incomplete", 1)


@pytest.mark.parametrize("plant", [no_id, later_epoch], ids=lambda plant: plant.__name__)
def test_what_no_change_explains_is_told_however_old_the_listing_is(
    plant: Callable[[Path], None], tmp_path: Path
) -> None:
    directory = whole(tmp_path)
    plant(directory)
    side = compared(tmp_path, a_log_that_was_copied_after_the_listing(tmp_path / "log"), [directory])
    assert [each[0] for each in told(side)] == ["orders-0"]
    assert side.outcome == "diverged"


def of_partition(zookeeper: Any, log: Any, field: str = "", rule: str = "") -> Difference:
    kind = DifferenceKind.CHANGED if field else DifferenceKind.MISSING_IN_LOG
    return Difference(PARTITIONS, "orders-0" if field else "gone-0", field, kind, zookeeper, log, rule)


@pytest.mark.parametrize(
    ("plant", "two_sides", "alone"),
    [
        (later_epoch, [of_partition(5, 4, "leader_epoch")], "log"),
        (later_epoch, [of_partition(3, 4, "leader_epoch")], "each"),
        (later_epoch, [of_partition([3], [1, 2], "isr")], "broker"),
        (later_epoch, [of_partition(5, 4, "leader_epoch", MOVED_ON)], None),
        (later_epoch, [of_partition(3, 4, "leader_epoch", "ZooKeeper follows")], "broker"),
        (lost, [of_partition([2, 3], [1, 2], "replicas")], "log"),
        (other_id, [Difference(TOPICS, "orders", "id", DifferenceKind.CHANGED, "AAAAAAAAAAAAAAAAAAAAEQ", ID)], "log"),
        (of_no_topic, [of_partition({"replicas": [1]}, None),
                       Difference(TOPICS, "gone", "", DifferenceKind.MISSING_IN_LOG,
                                  {"id": "BBBBBBBBBBBBBBBBBBBBEQ"}, None)], "log"),
        (of_no_topic, [of_partition({"replicas": [1]}, None, rule=MOVED_ON),
                       Difference(TOPICS, "gone", "", DifferenceKind.MISSING_IN_LOG,
                                  {"id": "BBBBBBBBBBBBBBBBBBBBEQ"}, None, MOVED_ON)], None),
    ],
)  # fmt: skip
def test_who_stands_alone(
    plant: Callable[[Path], None], two_sides: list[Difference], alone: str | None, tmp_path: Path
) -> None:
    directory = whole(tmp_path)
    plant(directory)
    side = compared(tmp_path, a_log(tmp_path / "log", (3_000, [NoOpRecord()])), [directory], two_sides)
    assert [each.alone for each in side.differences] == ([] if alone is None else [alone])
    assert side.same is (alone is None)


def test_where_the_broker_answered_too_both_count(tmp_path: Path) -> None:
    """A silent broker whose disks differ has diverged, and one that passed does so with its disks."""
    directory = whole(tmp_path)
    answered = BrokersSide(asked=[AskedBroker(1, "KRaft", compared=7), AskedBroker(2, "ZooKeeper", compared=7)])
    log = a_log(tmp_path / "log")
    side = compared(tmp_path, log, [directory], side=answered)
    assert side.asked[0] == AskedBroker(1, "KRaft", compared=10, listed_at_ms=LISTED_S * 1000)
    assert side.asked[1] == answered.asked[1]
    lost(directory)
    silent = BrokersSide(asked=[AskedBroker(1, "", "no answer in time")])
    side = compared(tmp_path, log, [directory], side=silent)
    assert (side.outcome, side.complete) == ("diverged", False)
    assert side.words.endswith("; broker 1: no answer in time; 1 key differs")


def test_what_could_not_be_listed_is_not_read(tmp_path: Path) -> None:
    directory = whole(tmp_path)
    (directory / "orders-0" / "leader-epoch-checkpoint").write_text("odd")
    side = compared(tmp_path, a_log(tmp_path / "log"), [directory])
    assert told(side) == [("orders-0", "", "not read")]
    assert side.outcome == "incomplete"


def test_without_a_known_cluster_id_none_is_wrong(tmp_path: Path) -> None:
    assert compared(tmp_path, a_log(tmp_path / "log"), [whole(tmp_path)], cluster_id=None).same


def test_a_file_that_is_no_listing_is_named(tmp_path: Path) -> None:
    (tmp_path / "l").write_text("{}")
    sides = ReadSides(lambda: read_log("")[0].facts, lambda _: read_log("")[0], lambda times: [])
    with pytest.raises(FindingError, match=r"Z2K-5013 .*/l is no listing"):
        with_disks(BrokersSide(), [tmp_path / "l"], sides)
