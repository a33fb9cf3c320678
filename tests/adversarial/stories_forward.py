"""Stories of the end of the road that go forward.

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, start_ready_to_migrate
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import dump_metadata_log
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
from migrator.model.values import Mark
from migrator.node.log.log_replay import read_snapshot
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.wire.batch import read_batches
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.records import decode_record
from migrator.zk import paths
from tests.adversarial.stories_support import (
    MIGRATION,
    NOT_DONE_YET,
    POST_MIGRATION,
    REFUSED,
    ByCommandLine,
    create,
    wait_observed,
    wait_whole,
)
from tests.e2e.quorums import start, wait_ruling
from tests.e2e.road_kills import Kill, leader_of, wait_leader
from tests.e2e.road_stage import RoadStage
from tests.e2e.support import HANGS_AFTER_S, assert_same, wait_for

TOPICS: Final = ("orders", "payments")
ELECTIONS_MAX: Final = 6
SNAPSHOTS: Final[Mapping[str, Value]] = {"metadata.log.max.record.bytes.between.snapshots": 4_000}
SHORT_ZOOKEEPER: Final[Mapping[str, Value]] = {"zookeeper.connection.timeout.ms": 3_000}
"""A stock controller in migration ends when it cannot reach ZooKeeper for so long at its start."""
LOOKS_AT_DISKS: Final[Mapping[str, Value]] = {
    "log.flush.offset.checkpoint.interval.ms": 1_000,
    "replica.high.watermark.checkpoint.interval.ms": 1_000,
}
"""A broker notices within a second that a directory is gone."""


# --- what the stories share -------------------------------------------------------------------------------


@contextmanager
def in_dual_write(
    laboratory: Laboratory, voters: int, extra: Mapping[str, Value] | None = None
) -> Iterator[tuple[LabCluster, list[OurController], Traffic]]:
    """Three brokers under ours; at the end nothing that was acknowledged is lost and order is kept."""
    cluster = LabCluster(laboratory)
    ours = start_ready_to_migrate(cluster, voters, extra)
    cluster.create_topics(TOPICS, config={"min.insync.replicas": "2"})
    start(ours)
    wait_ruling(ours)
    traffic = Traffic(laboratory, cluster.bootstrap_servers, rate=100.0)
    traffic.start(TOPICS)
    traffic.wait_flowing()
    yield cluster, ours, traffic
    traffic.stop()
    assert traffic.status.lost == 0
    report = prove(cluster, traffic.ledger, without_zookeeper=True)
    assert report.bad == {}, report.bad


def into_kraft_mode(cluster: LabCluster, voters: str) -> None:
    for broker in cluster.brokers:
        broker.restart_as(broker.spec.as_kraft(voters))
        wait_whole(cluster)


def as_stock(ours: OurController, **extra: Value) -> StockController:
    """Not started. On the directory of one of ours, with its file and some more."""
    spec = replace(ours.spec, extra={**ours.spec.extra, **extra})
    return StockController(ours.laboratory, spec, ours.cluster_id)


def without_flag(stock: StockController) -> None:
    """From its next start on."""
    stock.spec = replace(stock.spec, migrating=False)


def with_flag(stock: StockController, connect: str) -> None:
    stock.spec = replace(stock.spec, migrating=True, zookeeper_connect=connect)


def replace_all(ours: Sequence[OurController], **extra: Value) -> list[StockController]:
    """Each of ours by stock in place, the leader last."""
    leader = wait_leader(ours[0].voters)
    made = {}
    for each in sorted(ours, key=lambda one: one.spec.node_id == leader):
        each.stop()
        made[each.spec.node_id] = as_stock(each, **extra)
        made[each.spec.node_id].start()
        made[each.spec.node_id].wait_ready()
        wait_leader(ours[0].voters)
    return [made[each.spec.node_id] for each in ours]


def says_final(stock: StockController) -> bool:
    """Whether its log, the tail that is not committed included, has the record that ends the migration."""
    state = '"zkMigrationState":3'
    return state in dump_metadata_log(stock.laboratory, stock.metadata_log).replace(" ", "")


def newest_snapshot(log: Path) -> int:
    return max((each.end_offset for each in SnapshotFiles(log).stored()), default=0)


def wait_newer_snapshot(cluster: LabCluster, log: Path, than: int, prefix: str) -> int:
    """Make topics until a snapshot ends behind `than`."""
    for number in range(20):
        create(cluster, f"{prefix}-{number}")
        if newest_snapshot(log) > than:
            return newest_snapshot(log)
    wait_for(lambda: None if newest_snapshot(log) > than else "none", "a snapshot")
    return newest_snapshot(log)


# --- the stories ------------------------------------------------------------------------------------------


class WaitingCommands(ByCommandLine):
    """Each command waits for its outcome, and what it ended with is kept."""

    waits = ("--wait", "600")

    def __init__(
        self, laboratory: Laboratory, name: str = "service", **settings: str | float | bool | list[str]
    ) -> None:
        super().__init__(laboratory, name, **settings)
        self.codes: dict[tuple[str, str | None], set[int]] = defaultdict(set)

    def ended(self, word: str, to: str | None, exit_code: int) -> None:
        super().ended(word, to, exit_code)
        self.codes[word, to].add(exit_code)


STEPS: Final = ("PREFLIGHT", "QUORUM", "TAKEOVER", "ROLLING_BROKERS", "REPLACING_CONTROLLERS", "FINALIZING")


def by_command_line(laboratory: Laboratory) -> None:
    """Every step from PREFLIGHT to FINALIZING, and the approval, by `zk2kraft` as a process of its own, which waits and
    ends with 0. A gate that closes again between a look and the step is 4, and the step is asked for again.
    """
    stage = RoadStage(laboratory, service=WaitingCommands)
    service = stage.service
    assert isinstance(service, WaitingCommands)
    stage.to_dual_write()
    service.wait_gate(stage.migration, "ROLLING_BROKERS")
    for words, expected in (
        (("status",), 0),
        (("gates",), 0),
        (("audits", "--request", "--engine", "quick"), 0),
        (("report",), 0),
        (("report", "--change"), 0),
        (("advance", "--to", "SOAK"), REFUSED),
        (("abort",), REFUSED),
        (("approve", "--to", "FINALIZING"), REFUSED),
        (("pause", "--reason", "lunch"), 0),
        (("gates",), REFUSED),
        (("advance", "--to", "ROLLING_BROKERS"), REFUSED),
        (("resume",), 0),
    ):
        done = service.command(stage.migration, *words)
        assert done.returncode == expected, (words, done.returncode, done.stdout, done.stderr)
    assert stage.to_the_end()["phase"] == "COMPLETED"
    assert service.command(stage.migration, "rollback").returncode == REFUSED, "nothing leads back"
    assert service.command(stage.migration, "finalize-version").returncode == REFUSED, "3.9 has no later level"
    assert service.command(stage.migration, "approve", "--to", "COMPLETED").returncode == NOT_DONE_YET
    for step in STEPS:
        assert 0 in service.codes["advance", step] <= {0, REFUSED}, service.codes
    assert service.codes["approve", "FINALIZING"] == {0}, service.codes
    stage.assert_proven()


def back_and_forth(laboratory: Laboratory) -> None:
    """Ours, stock, ours, stock, across snapshots of each; ours marks its migration again before it changes anything."""
    with in_dual_write(laboratory, 1, SNAPSHOTS) as (cluster, (ours,), _):
        log = ours.metadata_log
        stock = as_stock(ours)
        for turn in ("first", "second"):
            wait_newer_snapshot(cluster, log, newest_snapshot(log), f"{turn}-ours")
            assert_same(cluster, ours.data)
            ours.stop()
            end = newest_snapshot(log)  # ours may have written another one until it ended
            stock.start()
            stock.wait_ready()
            wait_for(
                lambda: None if stock.driver_state() == "DUAL_WRITE" else stock.driver_state(),
                "stock",
                deadline_s=HANGS_AFTER_S,
            )
            wait_newer_snapshot(cluster, log, end, f"{turn}-stock")
            if turn == "second":
                break
            stock.stop()
            newest = SnapshotFiles(log).stored()[-1]
            written = read_snapshot(SnapshotFiles(log).path(newest), newest).image
            assert written.migration.name == MIGRATION
            assert Mark.MIGRATION not in written.marks, "stock's snapshots know no mark of ours"
            ours.launch()
            ours.wait_ready()
            ours.wait_dual_write()
            epoch = int(ours.status()["quorum"]["epoch"])
            assert_same(cluster, ours.data)
            create(cluster, "changed-by-ours")
            ours.stop()
            assert_marked_first(log, epoch, str(cluster.zk.created(paths.MIGRATION)))
            ours.launch()
            ours.wait_ready()
            ours.wait_dual_write()
        wait_whole(cluster)


def assert_marked_first(log: Path, epoch: int, born: str) -> None:
    """The mark is in the log again, in front of every change that ours made in this leadership."""
    records = [
        decode_record(value)
        for segment in sorted(log.glob("*.log"))
        for batch in read_batches(segment.read_bytes())
        if batch.leader_epoch == epoch
        for value in batch.values
    ]
    marks = [n for n, each in enumerate(records) if isinstance(each, NoOpRecord) and each.mark == Mark.MIGRATION]
    assert marks, f"no mark among {len(records)} records of epoch {epoch}"
    marked = records[marks[0]]
    assert isinstance(marked, NoOpRecord)
    assert marked.mark_text == born
    before = {type(each).__name__ for each in records[: marks[0]]}
    assert before <= {"NoOpRecord", "RegisterControllerRecord", "BrokerRegistrationChangeRecord"}, before


def zookeeper_and_controllers_dead(laboratory: Laboratory) -> None:
    """Under stock no controller starts without ZooKeeper. Hosts start them again and again; they come back with it."""
    with in_dual_write(laboratory, 3) as (cluster, ours, traffic):
        into_kraft_mode(cluster, ours[0].voters)
        stock = replace_all(ours, **SHORT_ZOOKEEPER)
        voters = ours[0].voters
        before = wait_observed(voters, lambda log: log.migration == MIGRATION, "stock leads in MIGRATION")
        (server,) = cluster.zookeeper.servers
        server.kill()
        for each in stock:
            each.kill()
        ended = dict.fromkeys((each.name for each in stock), 0)

        def none_stays() -> str | None:  # their hosts start them
            for each in stock:
                if not each.is_running:
                    ended[each.name] += 1
                    each.start()
            return None if min(ended.values()) >= 2 else f"they ended {ended} times"

        wait_for(none_stays, "without ZooKeeper no controller stays")
        assert leader_of(voters) is None
        server.start_as_written()
        hosts = threading.Event()

        def keep() -> None:
            while not hosts.wait(0.5):
                for each in stock:
                    if not each.is_running:
                        each.start()

        host = threading.Thread(target=keep, name="hosts")
        host.start()
        try:
            after = wait_observed(voters, lambda log: log.migration == MIGRATION, "stock leads again")
            create(cluster, "made-afterwards")
        finally:
            hosts.set()
            host.join()
        assert after.epoch > before.epoch
        path = f"{paths.TOPICS}/made-afterwards/partitions/0/state"
        wait_for(lambda: None if cluster.zk.read(path) else f"no {path}", "ZooKeeper has the new topic")
        wait_whole(cluster)
        count = traffic.status.acknowledged
        traffic.wait_acknowledged(count + 300, HANGS_AFTER_S)


def _elect(wanted: StockController, stock: list[StockController], voters: str) -> None:
    """Kill leaders until this one leads: a vote is refused by who has one record more, and then another one wins."""
    for _ in range(ELECTIONS_MAX):
        leader = wait_leader(voters)
        if leader == wanted.spec.node_id:
            return
        for each in stock:
            if each is not wanted and each.spec.node_id != leader:  # it votes, and does not stand itself
                if each.is_running:
                    each.stop()
                each.spec = replace(each.spec, extra={**each.spec.extra, "controller.quorum.fetch.timeout.ms": 60_000})
                each.start()
                each.wait_ready()
        wait_observed(voters, lambda log: all(each.lag == 0 for each in log.voters), "all have the whole log")
        leader = wait_leader(voters)
        if leader == wanted.spec.node_id:
            return
        next(each for each in stock if each.spec.node_id == leader).kill()
        wait_for(lambda: None if leader_of(voters) is not None else "nobody", "another leads")
    assert leader_of(voters) == wanted.spec.node_id, f"it was not elected in {ELECTIONS_MAX} elections"


def flagless_voter(laboratory: Laboratory) -> None:
    """The first start without the flag: a minority, cut before the append; a follower; elected and cut after it."""
    with in_dual_write(laboratory, 3) as (cluster, ours, _):
        into_kraft_mode(cluster, ours[0].voters)
        stock = replace_all(ours)
        voters, connect = ours[0].voters, cluster.zookeeper_connect
        wait_observed(voters, lambda log: log.migration == MIGRATION, "stock leads in MIGRATION")

        # in a minority: it cannot be elected, and appends nothing
        odd = next(each for each in stock if each.spec.node_id != leader_of(voters))
        for each in stock:
            each.kill()
        without_flag(odd)
        odd.start()
        odd.wait_ready()
        time.sleep(5.0)
        assert leader_of(voters) is None
        odd.kill()  # power cut before the append
        assert not any(map(says_final, stock)), "started without the flag, and not committed"
        print("minority: nothing was appended", flush=True)

        # the flag restored: MIGRATION goes on; this was still a way back
        with_flag(odd, connect)
        _start_all(stock)
        wait_observed(voters, lambda log: log.migration == MIGRATION, "MIGRATION goes on")

        # a follower without the flag, and elections that one with the flag wins
        odd = next(each for each in stock if each.spec.node_id != leader_of(voters))
        odd.stop()
        without_flag(odd)
        odd.spec = replace(odd.spec, extra={**odd.spec.extra, "controller.quorum.fetch.timeout.ms": 60_000})
        odd.start()
        odd.wait_ready()
        leader = next(each for each in stock if each.spec.node_id == wait_leader(voters))
        assert leader is not odd
        leader.kill()
        wait_for(lambda: None if leader_of(voters) is not None else "nobody", "another leads")
        elected = leader_of(voters)
        leader.start()
        leader.wait_ready()
        if elected != odd.spec.node_id:  # it stands for election only after a minute; a vote for another may still fail
            wait_observed(voters, lambda log: log.migration == MIGRATION, "whoever has the flag leads: MIGRATION")
            assert not says_final(odd)
            print("elected with the flag: MIGRATION goes on", flush=True)

        # it is elected: the record is appended; every voter loses its power at once
        odd.spec = replace(odd.spec, extra={**odd.spec.extra, "controller.quorum.fetch.timeout.ms": 2_000})
        odd.stop()
        odd.start()
        odd.wait_ready()
        _elect(odd, stock, voters)
        for each in stock:
            each.kill()
        appended = {each.spec.node_id: says_final(each) for each in stock}
        print(f"elected without the flag, then the cut; the record is in the logs of {appended}", flush=True)

        # the flag back on every voter: a record that a majority has stays, one that nobody has was never there
        for each in stock:
            with_flag(each, connect)
            each.spec = replace(each.spec, extra=dict(ours[0].spec.extra))
        _start_all(stock)
        final = wait_observed(voters, lambda log: log.migration in (MIGRATION, POST_MIGRATION), "somebody leads")
        if sum(appended.values()) > len(stock) // 2:
            assert final.migration == POST_MIGRATION, "what a majority has is committed"
        if not any(appended.values()):
            assert final.migration == MIGRATION
        for each in stock:  # and forward, as FINALIZING does it
            each.stop()
            without_flag(each)
            each.start()
            each.wait_ready()
        wait_observed(voters, lambda log: log.migration == POST_MIGRATION, "the end is committed")
        create(cluster, "made-at-the-end")
        wait_whole(cluster)


def _start_all(stock: Sequence[StockController]) -> None:
    for each in stock:
        each.start()
    for each in stock:
        each.wait_ready()


def later_kafka_on_our_log(laboratory: Laboratory) -> None:
    """4.x reads segments that ours wrote and its record of the migration: stock 3.9 ended it and wrote no snapshot."""
    with in_dual_write(laboratory, 1) as (cluster, (ours,), _):
        into_kraft_mode(cluster, ours.voters)
        create(cluster, "made-by-ours")
        ours.stop()
        stock = as_stock(ours)
        before = SnapshotFiles(stock.metadata_log).stored()
        without_flag(stock)
        stock.start()
        stock.wait_ready()
        wait_observed(ours.voters, lambda log: log.migration == POST_MIGRATION, "stock ends the migration")
        stock.stop()
        assert SnapshotFiles(stock.metadata_log).stored() == before, "stock wrote a snapshot"
        assert not any(each.end_offset for each in before), "4.x would begin with a snapshot of ours"
        stock.kafka = prepared(LATER_KAFKA_VERSION)
        stock.start()
        stock.wait_ready()
        create(cluster, "made-by-a-later-kafka")
        for broker in cluster.brokers:
            broker.stop()
            broker.kafka = stock.kafka
            broker.start()
            broker.wait_ready()
            wait_whole(cluster)
        names = set(cluster.admin().list_topics(timeout=10).topics)
        assert {*TOPICS, "made-by-ours", "made-by-a-later-kafka"} <= names
        assert "fatal fault" not in stock.process.log_text()


def disk_that_dies(laboratory: Laboratory) -> None:
    """Brokers with two directories; one directory of a broker in KRaft mode dies while the next broker is rolled."""
    stage = RoadStage(laboratory, log_directories=2, broker_extra=LOOKS_AT_DISKS)
    stage.to_dual_write()
    broken = stage.cluster.brokers[0]
    died = threading.Event()

    def after_act(act: str, node: int) -> None:
        if (act, node) == ("start", 1) and not died.is_set():
            lose_directory(broken)
            died.set()

    stage.fleet.after_act = after_act
    stage.advance("ROLLING_BROKERS")
    wait_for(lambda: None if died.is_set() else "not yet", "a directory dies", deadline_s=180)
    voters = stage.fleet.ours[0].voters
    wait_observed(voters, lambda log: log.under_replicated > 0, "its replicas are out of sync")
    began = time.monotonic()
    said: set[str] = set()
    while time.monotonic() < began + 15.0 or not said:  # the roll stands before the next broker, in words
        view = stage.service.view(stage.migration)
        assert all(row["node_id"] != 2 or row["step"] in ("PENDING", "PREPARED") for row in view["road"]["nodes"])
        assert time.monotonic() < began + 180.0, view["waiting"]
        if "under-replicated" in view["waiting"] or "online" in view["waiting"]:
            said.add(view["waiting"])  # before that, broker 1 may not be back yet
        time.sleep(0.5)
    print(f"the roll stands: {said}", flush=True)
    assert view["phase"] == "ROLLING_BROKERS"
    assert broken.is_running, "a broker in KRaft mode without the flag goes on with its other directory"

    mend_directory(broken)
    stage.wait_view(
        lambda view: (
            None
            if [row["step"] for row in view["road"]["nodes"] if row["roll"] == "kraft"] == ["WHOLE"] * 3
            else view["waiting"]
        )
    )
    stage.assert_proven()


def disk_that_dies_after_finalizing(laboratory: Laboratory) -> None:
    """Stock alone leads on our log: it moves leaderships by the directories that brokers had told our controllers."""
    stage = RoadStage(laboratory, log_directories=2, broker_extra=LOOKS_AT_DISKS)
    stage.to_dual_write()
    view = stage.to_the_end()
    assert view["road"]["migration_state"] == POST_MIGRATION
    cluster, broken = stage.cluster, stage.cluster.brokers[0]
    lost = {each.parent.name for each in (broken.directory / "data-1").glob("*/partition.metadata")}
    before = in_sync(cluster)
    assert lost & set(before), "no partition is in the directory that dies"
    assert set(before) - lost, "every partition is in the directory that dies"
    lose_directory(broken)

    def why_not() -> str | None:
        seen = in_sync(cluster)
        bad = [
            f"{name}: led by {leader}, in sync {sorted(isr)}"
            for name, (leader, isr) in seen.items()
            if leader < 0 or (name in lost) == (broken.broker_id in isr)
        ]
        return f"{bad} after {len(lost)} logs died" if bad or not seen else None

    print(f"moved after {wait_for(why_not, 'others lead what died, the rest stays in sync'):.1f} s", flush=True)
    assert broken.is_running, "a broker in KRaft mode goes on with its other directory"
    stage.traffic.wait_acknowledged(stage.traffic.status.acknowledged + 300, HANGS_AFTER_S)
    create(cluster, "made-on-one-disk")
    wait_for(why_not, "its new logs are in the directory that is left")
    mend_directory(broken)
    wait_whole(cluster)
    stage.assert_proven()


def lose_directory(broker: BrokerProcess) -> None:
    """The second of two: a file is in its place."""
    directory = broker.directory / "data-1"
    directory.rename(broker.directory / "data-1-gone")
    directory.write_text("no directory")


def mend_directory(broker: BrokerProcess) -> None:
    """As its operator does: stop the broker, put the disk back, start it."""
    broker.stop()
    (broker.directory / "data-1").unlink()
    (broker.directory / "data-1-gone").rename(broker.directory / "data-1")
    broker.start_as_written()


def in_sync(cluster: LabCluster) -> dict[str, tuple[int, set[int]]]:
    """Leader and in-sync replicas of each partition, as a client is told now; empty while no broker answers it."""
    try:
        seen = cluster.admin().list_topics(timeout=10).topics
    except KafkaException:
        return {}
    return {
        f"{name}-{number}": (each.leader, set(each.isrs))
        for name, topic in seen.items()
        for number, each in topic.partitions.items()
    }


def brokers_join(laboratory: Laboratory) -> None:
    """Two brokers get their migration settings by the service, which is killed at both; the third one has them.

    The controller of the cluster is restarted last. No broker is stopped twice, and never two at one time.
    """
    kills = (Kill("stop", 1, "after"), Kill("start", 2))
    stage = RoadStage(laboratory, kills, joins=True)
    stage.to_dual_write()
    acts = [(each.act, each.node) for each in stage.fleet.done]
    print(f"acts on brokers: {acts}")
    stopped = [node for act, node in acts if act == "stop"]
    assert sorted(stopped) == [1, 2], "each once, and not the one that had joined"
    assert stopped[-1] == stage.controller_before
    assert {node for act, node in acts if act == "start"} == {1, 2}
    view = stage.wait_view(lambda view: None if view["road"]["nodes"] else "the journal is not read yet")
    nodes = {row["node_id"]: row for row in view["road"]["nodes"]}
    assert {row["step"] for row in nodes.values()} == {"WHOLE"}
    assert "it had joined already" in nodes[0]["detail"]
    for row in nodes.values():
        print(f"broker {row['node_id']}: {row['took_s']} s, {row['detail']}")
    stage.assert_proven()
