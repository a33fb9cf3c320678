"""Directories go from our controller to a stock one and back, and say the same to both.

What a directory says is dumped with Kafka's own tool and folded without any code of ours (support/kafka_image.py);
what a controller understood is seen in the snapshot that it writes of it.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    NewPartitions,
    NewTopic,
    ResourceType,
)

from migrator.audit.compare import STOCK_RUNS_AHEAD
from migrator.audit.log_check import check_logs
from migrator.controller.snapshot import records_of
from migrator.lab.admin import never_connected
from migrator.lab.classes import prepared
from migrator.lab.cluster import DID_NOTHING, LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION, Artifacts
from migrator.lab.servers.controller import StockController, StockQuorum, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import READY_DEADLINE_S
from migrator.lab.servers.tools import config_command, dump_metadata_log, random_cluster_id
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.levels import LATER_LEVELS
from migrator.model.values import MigrationState
from migrator.node.config.properties import VoterAddress
from migrator.node.log.log_replay import LogReplay, read_snapshot
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.raft.types import SnapshotId
from migrator.wire.batch import peek
from migrator.wire.records import encode_record
from state_machine.clusters.log_observer import LogObserver, VoterLevels
from tests.e2e.support import assert_same, audit, controller_of, once, produce, wait_for, wait_zookeeper_rules
from tests.support.kafka_image import NO_DIRECTORY, Data, Dump, Facts, differences, facts_of, parse_dump

pytestmark = pytest.mark.lab

SMALL_LOG: Final[Mapping[str, Value]] = {
    "metadata.log.max.record.bytes.between.snapshots": 4_000,
    "metadata.max.retention.bytes": 20_000,
    "metadata.log.segment.bytes": 8_192,
    "metadata.log.segment.min.bytes": 1_024,
}
"""So that snapshots are made and the log is trimmed within a test."""

SMALL_LATER_LOG: Final[Mapping[str, Value]] = {
    "metadata.log.max.record.bytes.between.snapshots": 4_000,
    "metadata.max.retention.bytes": 80_000,
    "internal.metadata.log.segment.bytes": 8_192,
}
"""From 4.1 on the public key takes no less than 8 MiB."""

KEPT: Final[Mapping[str, Value]] = {**SMALL_LOG, "metadata.max.retention.bytes": 80_000}
"""So that stock, which trims once a minute, keeps more than one snapshot: each is made again from the one before it."""

EVERY_FAMILY: Final = {
    f"{name}_RECORD"
    for name in (
        "FEATURE_LEVEL", "REGISTER_BROKER", "REGISTER_CONTROLLER", "TOPIC", "PARTITION", "CONFIG", "PRODUCER_IDS",
    )
}  # fmt: skip
"""What a snapshot of these clusters has at least."""

LATEST_LATER: Final = max(LATER_LEVELS)
SMALL_SEGMENTS: Final = "small-segments"
REFUSED_SEGMENT: Final = "Invalid value 1000000 for configuration segment.bytes"
TOPICS: Final = [f"topic-{number}" for number in range(3)]
ACTIVE: Final = re.compile(r"Becoming the active controller at epoch \d+")
LOUD: Final = re.compile(r"^(?=(\[[^]]+\] (?:ERROR|FATAL) .*\n.*$))", re.MULTILINE)
"""Each such line, and the next one, where the exception stands; that may be such a line itself."""
FATAL: Final = re.compile(r"^.*(?: FATAL |Encountered .*fault).*$", re.MULTILINE)
HARMLESS: Final = (
    re.compile(
        r"Overriding (internal.metadata.log.segment|metadata.log.segment.min).bytes is only supported for testing"
    ),  # which is what we do
    # brokers and its own registration ask as soon as its port is open, and that can be before it leads; and what a
    # broker sent before it was restarted may be read when it has another epoch
    re.compile(r"Unexpected error handling request .*\n.*(NotController|StaleBrokerEpoch)Exception"),
    re.compile(r"RegistrationResponseHandler: channel manager timed out before sending the request"),  # it asks again
    re.compile(r"processExpiredBrokerHeartbeat: controller event queue overloaded"),  # it stood still for a while
)
STOPPING: Final = "shutting down (kafka.server.ControllerServer)"
"""From here on it refuses whatever is still asked or due, and says each as an error."""


@pytest.fixture(scope="session")
def later_kafka() -> Artifacts:
    """About 43 MB, brought by the first run."""
    return prepared(LATER_KAFKA_VERSION)


# --- what a directory says --------------------------------------------------------------------------------


def kafka_says(laboratory: Laboratory, directory: Path, kafka: Artifacts | None = None) -> Dump:
    return parse_dump(dump_metadata_log(laboratory, directory, kafka=kafka))


def our_image(directory: Path, end: int) -> Image:
    """What we read from a directory, up to an offset: the newest snapshot before it, then the log."""
    files = SnapshotFiles(directory)
    stored = [each for each in files.stored() if each.end_offset <= end]
    loader = read_snapshot(files.path(stored[-1]), stored[-1]) if stored else LogReplay()
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position < len(data) and (header := peek(data, position)).base_offset < end:
            position += header.size
        loader.apply(data[:position])
    assert loader.settled_end == loader.end == end
    return loader.image


def our_facts(directory: Path, end: int) -> Facts:
    return facts_of(our_image(directory, end))


def assert_equal(left: Facts, right: Facts) -> None:
    assert not (found := differences(left, right)), "\n".join(found)


def log_end(dump: Dump) -> int:
    """A log that was just trimmed may hold nothing behind its newest snapshot."""
    return dump.log[-1][0] + 1 if dump.log else max(end for end, _ in dump.snapshots)


def assert_read_alike(laboratory: Laboratory, directory: Path, kafka: Artifacts | None = None) -> Dump:
    """At the end of the log, and at each snapshot, Kafka's tool and we see the same; so do two snapshots in a row."""
    dump = kafka_says(laboratory, directory, kafka)
    assert_equal(dump.facts(), our_facts(directory, log_end(dump)))
    for end, epoch in dump.snapshots:
        written = our_facts(directory, end)
        assert_equal(dump.facts(end), written)
        older = [each for each in dump.snapshots if each[0] < end and each[0] >= min(dump.starts)]
        if older:
            without = Dump({older[-1]: dump.snapshots[older[-1]]}, dump.log, dump.starts).facts(end)
            if kafka is not None:
                forget_migration(without, written)
            assert_equal(without, written)
        assert SnapshotId(end, epoch) in SnapshotFiles(directory).stored()
    return dump


def forget_migration(*sides: Facts) -> None:
    """A Kafka without ZooKeeper leaves the state of the migration out of its snapshots."""
    for facts in sides:
        facts.pop(("migration",), None)


def assert_snapshots_match(
    laboratory: Laboratory, directory: Path, newer_than: int, kafka: Artifacts | None = None
) -> int:
    """Each snapshot that stock wrote has the records that ours would have written there; returns how many there are.

    What stock writes was replayed by stock, from a snapshot or log of ours; ours is made from the log up to there.
    Where stock has trimmed the log up to its oldest snapshot, nothing is left to make that one from.
    """
    dump = kafka_says(laboratory, directory, kafka)
    first = 0 if min(dump.starts) == 0 else min(end for end, _ in dump.snapshots) + 1
    theirs = {
        SnapshotId(*each): records
        for each, records in dump.snapshots.items()
        if each[0] > newer_than and each[0] >= first
    }
    if theirs:
        assert {record["type"] for record in theirs[max(theirs)]} >= EVERY_FAMILY
    elsewhere = laboratory.directory / "snapshots-of-ours"
    elsewhere.mkdir(exist_ok=True)
    for at, records in theirs.items():
        shutil.rmtree(elsewhere)
        elsewhere.mkdir()
        base = directory_without_snapshots_from(directory, elsewhere / "log", at)
        image = our_image(base, at.end_offset)
        files = SnapshotFiles(elsewhere)
        files.write(at, [encode_record(record, version) for record, version in records_of(image)], 0)
        (ours,) = kafka_says(laboratory, files.path(at), kafka).snapshots.values()
        later = kafka is not None
        assert canonical(ours, without_migration=later) == canonical(records, without_migration=later), at
    return len(theirs)


def directory_without_snapshots_from(directory: Path, copy: Path, at: SnapshotId) -> Path:
    """The same log, in which a snapshot at this place or later was never written."""
    shutil.copytree(directory, copy)
    for each in SnapshotFiles(copy).stored():
        if each.end_offset >= at.end_offset:
            SnapshotFiles(copy).path(each).unlink()
    return copy


def canonical(records: list[Data], *, without_migration: bool) -> list[str]:
    """Records without what two correct snapshots may differ in: their order, and how "no directory" is written.

    without_migration: leave the state of the migration out, as a Kafka without ZooKeeper does.
    """
    found = []
    for record in records:
        data = dict(record["data"])
        version = record["version"]
        if record["type"] == "NO_OP_RECORD" or (record["type"] == "ZK_MIGRATION_STATE_RECORD" and without_migration):
            continue
        if record["type"] == "PARTITION_RECORD" and set(data.get("directories", ())) <= {NO_DIRECTORY}:
            data.pop("directories", None)
            version = 0
        for name in ("endPoints", "features"):
            if name in data:
                data[name] = sorted(data[name], key=str)
        found.append(str((record["type"], version, sorted(data.items()))))
    return sorted(found)


# --- what an administrator does ---------------------------------------------------------------------------


def change_much(cluster: LabCluster, prefix: str) -> None:
    """Topics come, grow, change and go; a broker leaves and returns; producers get ids."""
    names = [f"{prefix}-{number}" for number in range(6)]
    cluster.create_topics(names, config={"retention.ms": "3600000", "segment.bytes": "1048576"})
    cluster.alter_configs(ResourceType.TOPIC, names[0], {"retention.ms": None, "max.message.bytes": "99999"})
    cluster.alter_configs(ResourceType.BROKER, "0", {"log.cleaner.io.buffer.size": "600000"})
    more = [NewPartitions(names[1], 7)]
    once(cluster.new_admin, lambda admin: admin.create_partitions(more)[names[1]].result(120), "a topic has grown")
    once(cluster.new_admin, lambda admin: admin.delete_topics([names[2]])[names[2]].result(120), "a topic is deleted")
    produce(cluster, names[1], 50)
    broker = cluster.brokers[2]
    broker.stop()
    broker.start()
    broker.wait_ready()
    cluster.wait_isr_whole([*TOPICS, names[0], names[1], *names[3:]])


def assert_stock_mirrored(cluster: LabCluster, log: Path) -> None:
    """Stock writes a state znode again when it only differs in directories, which no znode has: its version runs ahead
    of the partition epoch, which is expected. Nothing else may differ, but for a moment: ZooKeeper follows the log.
    (Ours puts that right when it leads again.)
    """

    def why_not() -> str | None:
        found = audit(cluster, log)
        assert found["same"] is True, found
        rules = {(each["family"], each["field"], each["rule"]) for each in found["differences"]}
        return None if rules <= {("partitions", "partition_epoch", STOCK_RUNS_AHEAD)} else f"{found}"

    wait_for(why_not, "both sides say the same")


def partitions_seen(cluster: LabCluster) -> dict[str, Any]:
    """Leaders and ISRs as the brokers tell their clients."""
    return {
        f"{name}-{number}": (each.leader, sorted(each.isrs), list(each.replicas))
        for name, topic in cluster.admin().list_topics(timeout=60).topics.items()
        for number, each in topic.partitions.items()
    }


# --- stock controllers ------------------------------------------------------------------------------------


def start_stock(stock: StockController) -> None:
    """Start it on whatever its directory holds, and wait until it leads."""
    stock.start()
    stock.wait_ready()
    wait_for(
        lambda: None if ACTIVE.search(stock.process.log_text()) else stock.process.log_tail(), f"{stock.name} leads"
    )


def stop_calmly(stock: StockController) -> None:
    stock.stop()
    assert_calm(stock)


def assert_calm(stock: StockController) -> None:
    """Nothing that it said while it ran was an error, and nothing at all a fatal one."""
    running, _, stopping = stock.process.log_text().partition(STOPPING)
    loud = LOUD.findall(running) + FATAL.findall(stopping)
    assert not (alarming := [each for each in loud if not any(known.search(each) for known in HARMLESS)]), alarming


def assert_no_broker_broke(cluster: LabCluster) -> None:
    for broker in cluster.brokers:
        assert broker.is_running, broker.name
        assert "Encountered fatal fault" not in (log := broker.process.log_text())
        assert "Encountered raftManager fault" not in log
        assert "Encountered metadata loading fault" not in log


def wait_snapshot(directory: Path, newer_than: int) -> int:
    """Wait until a controller wrote a snapshot that ends behind this offset; returns its end."""

    def newest() -> int:
        return max((each.end_offset for each in SnapshotFiles(directory).stored()), default=0)

    wait_for(lambda: None if newest() > newer_than else f"the newest is {newest()}", "a snapshot")
    return newest()


# --- the stories ------------------------------------------------------------------------------------------


def test_a_directory_of_ours_is_led_by_stock_then_finalized_by_it_and_led_by_a_later_kafka(
    laboratory: Laboratory, later_kafka: Artifacts
) -> None:
    cluster = LabCluster(laboratory)
    cluster.start()
    cluster.create_topics(TOPICS, config={"min.insync.replicas": "2"})
    cluster.create_topics([SMALL_SEGMENTS], partitions=1, config={"segment.bytes": "1000000"})
    produce(cluster, TOPICS[0], 20)
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=cluster.zookeeper_connect, extra=SMALL_LOG)
    ours = OurController(laboratory, spec, cluster.cluster_id)
    cluster.restart_as(lambda broker: broker.as_migrating(ours.voters))
    cluster.wait_isr_whole(TOPICS)

    # dual-write by ours, until it has a snapshot of its own and nothing older
    ours.start()
    ours.wait_dual_write()
    change_much(cluster, "ours")
    log = ours.metadata_log

    def trimmed() -> str | None:
        first = min(int(each.stem) for each in log.glob("*.log"))
        return None if first > 0 and SnapshotFiles(log).stored() else f"the log begins at {first}"

    wait_for(trimmed, "the log of ours is trimmed")
    ours.stop()
    as_ours_left_it = assert_read_alike(laboratory, log)
    assert as_ours_left_it.facts()["migration",] == MigrationState.MIGRATION
    assert min(as_ours_left_it.starts) > 0
    end = log_end(as_ours_left_it)
    held = controller_of(cluster)
    assert held is not None

    # stock leads it, with the same file, but that it keeps more of the log
    stock = StockController(laboratory, replace(spec, extra=KEPT), cluster.cluster_id)
    start_stock(stock)
    StockQuorum([stock]).wait_dual_write()
    claimed = controller_of(cluster)
    assert claimed is not None
    assert claimed["kraftControllerEpoch"] > held["kraftControllerEpoch"]
    change_much(cluster, "stock")
    assert_stock_mirrored(cluster, log)
    wait_snapshot(log, end)
    stop_calmly(stock)
    assert assert_snapshots_match(laboratory, log, newer_than=end) >= 1
    end = log_end(assert_read_alike(laboratory, log))

    # the brokers go over, and stock ends the migration
    start_stock(stock)
    StockQuorum([stock]).wait_dual_write()
    for broker in cluster.brokers:
        broker.restart_as(broker.spec.as_kraft(stock.spec.voters))
        cluster.wait_isr_whole([*TOPICS, "ours-0", "stock-0"])
    StockQuorum([stock]).finalize()
    wait_for(lambda: None if ACTIVE.search(stock.process.log_text()) else "not yet", "stock leads again")
    create_as_kraft(cluster, "after-the-migration")
    wait_snapshot(log, end)
    stop_calmly(stock)
    assert assert_snapshots_match(laboratory, log, newer_than=end) >= 1
    finalized = assert_read_alike(laboratory, log)
    assert finalized.facts()["migration",] == MigrationState.POST_MIGRATION

    # a Kafka that knows no ZooKeeper any more leads what ours began
    end = log_end(finalized)
    stock.kafka, stock.spec = later_kafka, replace(stock.spec, extra=SMALL_LATER_LOG)
    start_stock(stock)
    create_as_kraft(cluster, "made-by-a-later-kafka", "and-another", "and-one-more")
    wait_snapshot(log, end)
    stop_calmly(stock)
    assert assert_snapshots_match(laboratory, log, end, later_kafka) >= 1
    assert "made-by-a-later-kafka" in assert_read_alike(laboratory, log, later_kafka).facts().values()
    (whole,) = check_logs([log]).directories
    assert (whole.problems, whole.snapshot >= 0) == ([], True), "of ours, of 3.9 and of the later Kafka"
    assert_no_broker_broke(cluster)

    start_stock(stock)
    assert_a_later_broker_starts_once_small_segments_are_mended(cluster, stock, later_kafka)


def assert_a_later_broker_starts_once_small_segments_are_mended(
    cluster: LabCluster, stock: StockController, later_kafka: Artifacts
) -> None:
    """Z2K-1067: 3.9 took the configuration, and controllers of the later release mend it without a broker."""
    broker = cluster.brokers[0]
    broker.stop()
    broker.kafka = later_kafka
    broker.start_as_written()
    wait_for(
        lambda: None if REFUSED_SEGMENT in broker.process.log_text() else broker.process.log_tail(), "the broker ends"
    )
    broker.kill()
    words = ("--entity-type", "topics", "--entity-name", SMALL_SEGMENTS, "--alter", "--add-config")
    controller = ("--bootstrap-controller", f"127.0.0.1:{stock.spec.port}")
    tool = config_command(later_kafka)
    cluster.laboratory.tool(tool, *controller, *words, f"segment.bytes={1 << 20}", kafka=later_kafka)
    broker.start_as_written()
    broker.wait_ready()
    cluster.wait_isr_whole([*TOPICS, SMALL_SEGMENTS])


@pytest.mark.long
def test_a_directory_of_stock_in_dual_write_is_led_by_ours_and_the_way_back_stays_open(
    laboratory: Laboratory,
) -> None:
    cluster = LabCluster(laboratory)
    cluster.start()
    cluster.create_topics(TOPICS, config={"min.insync.replicas": "2"})
    produce(cluster, TOPICS[0], 20)
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=cluster.zookeeper_connect, extra=KEPT)
    stock = StockController(laboratory, spec, cluster.cluster_id)
    log = stock.metadata_log
    cluster.restart_as(lambda broker: broker.as_migrating(spec.voters))
    cluster.wait_isr_whole(TOPICS)
    start_stock(stock)
    StockQuorum([stock]).wait_dual_write()
    change_much(cluster, "stock")
    wait_snapshot(log, 0)
    as_run_by_stock = stock.properties_file.read_bytes()
    stop_calmly(stock)
    assert assert_snapshots_match(laboratory, log, newer_than=0) >= 1
    end = log_end(assert_read_alike(laboratory, log))
    held, epoch = controller_of(cluster), cluster.zk.read("/controller_epoch")
    assert held is not None
    assert epoch is not None

    ours = OurController(laboratory, spec, cluster.cluster_id)
    ours.start()
    assert ours.properties_file.read_bytes() == as_run_by_stock
    ours.wait_dual_write()
    claimed = controller_of(cluster)
    assert claimed is not None
    assert claimed["kraftControllerEpoch"] == held["kraftControllerEpoch"] + 1
    assert cluster.zk.read("/controller_epoch") == b"%d" % (int(epoch) + 1)
    assert_same(cluster, ours.data)
    change_much(cluster, "ours")
    assert_same(cluster, ours.data)
    wait_snapshot(log, end)

    # once more there and back, by kill -9: neither minds what the other left beside the log
    ours.kill()
    assert_read_alike(laboratory, log)
    start_stock(stock)
    StockQuorum([stock]).wait_dual_write()
    assert_stock_mirrored(cluster, log)
    stock.kill()
    assert_calm(stock)
    ours.start()
    ours.wait_dual_write()
    assert_same(cluster, ours.data)
    assert_no_broker_broke(cluster)

    ours.ask("rollback")
    wait_zookeeper_rules(cluster)
    ours.stop()
    assert_read_alike(laboratory, log)
    produce(cluster, TOPICS[0], 50)


def test_a_directory_that_was_never_in_migration_is_served_without_the_flag_and_refused_with_it(
    laboratory: Laboratory,
) -> None:
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start(READY_DEADLINE_S)
    (with_flag,) = quorum_specs(laboratory, count=1, zookeeper_connect=zookeeper.hosts)
    without_flag = replace(with_flag, migrating=False)
    stock = StockController(laboratory, without_flag, "never-in-migration")
    start_stock(stock)
    stop_calmly(stock)
    before = kafka_says(laboratory, stock.metadata_log)

    refused = OurController(laboratory, with_flag, stock.cluster_id)
    refused.launch()
    assert refused.process.wait_for_exit(READY_DEADLINE_S)
    assert refused.process.exit_code == 1
    said = refused.process.log_text()
    assert "Z2K-3004" in said
    assert "can never be migrated to" in said
    assert kafka_says(laboratory, stock.metadata_log).log == before.log

    ours = OurController(laboratory, without_flag, stock.cluster_id)
    ours.start()
    wait_for(lambda: None if ours.status()["quorum"]["role"] == "leader" else "nobody leads", "ours leads")
    ours.stop()
    start_stock(stock)
    stop_calmly(stock)


NOT_ANSWERED: Final = (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
"""The topic may exist or not, which the next request tells."""


def why_not_created(cluster: LabCluster, names: tuple[str, ...]) -> str | None:
    """Until the only controller leads again, nobody creates anything; a broker is fenced for a moment after that, and
    then there are too few for three replicas."""
    admin = cluster.new_admin()  # held until the answers are there: a client that is gone gives none
    asked = admin.create_topics([NewTopic(name, 4, 3) for name in names])
    refused = []
    for future in asked.values():
        try:
            future.result(120)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if error.args[0].code() not in (*DID_NOTHING, *NOT_ANSWERED) and not never_connected(error):
                raise
            refused.append(str(error))
    return "; ".join(refused) or None


def create_as_kraft(cluster: LabCluster, *names: str) -> None:
    """Create topics where ZooKeeper shows nothing any more."""
    wait_for(lambda: why_not_created(cluster, names), f"{names} are created")

    def whole() -> str | None:
        seen = partitions_seen(cluster)
        mine = {key: value for key, value in seen.items() if key.rpartition("-")[0] in names}
        bad = {key: value for key, value in mine.items() if value[0] < 0 or len(value[1]) < 3}
        return None if len(mine) == 4 * len(names) and not bad else f"{len(mine)} partitions, {bad}"

    wait_for(whole, f"{names} are led")
    produce(cluster, names[0], 50)


# --- metadata.version, as the service raises it ----------------------------------------------------------


def test_a_later_controller_says_its_levels_and_raises_metadata_version_once(
    laboratory: Laboratory, later_kafka: Artifacts
) -> None:
    """The requests of `zk2kraft finalize-version` to a real controller of a later Kafka whose log began at 3.9."""
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect="", migrating=False)
    controller = StockController(laboratory, spec, random_cluster_id())
    controller.format()
    controller.kafka = later_kafka
    controller.start()
    controller.wait_ready()

    async def story() -> None:
        observer = LogObserver([VoterAddress(spec.node_id, "127.0.0.1", spec.port)], None)
        async with asyncio.timeout(READY_DEADLINE_S):
            while not (observed := await observer.look(time.time())).controllers:  # it registers once it leads
                await asyncio.sleep(0.2)
        assert [each.levels for each in observed.controllers] == [(7, LATEST_LATER)]
        assert await observer.levels_of(spec.node_id) == VoterLevels(7, LATEST_LATER, finalized=21)
        with pytest.raises(OSError, match="answers error"):
            await observer.raise_feature(METADATA_VERSION, 99, observed)
        await observer.raise_feature(METADATA_VERSION, LATEST_LATER, observed)
        async with asyncio.timeout(READY_DEADLINE_S):  # its publishers hear of it after it has answered
            while await observer.levels_of(spec.node_id) != VoterLevels(7, LATEST_LATER, finalized=LATEST_LATER):
                await asyncio.sleep(0.2)
            while (await observer.look(time.time())).metadata_version != LATEST_LATER:
                await asyncio.sleep(0.2)
        observer.close()

    asyncio.run(story())
