"""`zk2kraft rollback --without-controllers --log`: what the disk holds and ZooKeeper lacks is found before it is
lost.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from migrator.control_api.control_file import CONTROL_FILE
from migrator.findings.driver import LOG_IS_FINAL
from migrator.findings.finding import FindingError
from migrator.model.image import Position
from migrator.model.values import MigrationState
from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import LOG_NAME, MetaProperties, write_meta_properties
from migrator.node.process.control import ASK_TIMEOUT_S
from migrator.node.tools.unmirrored import look_into
from migrator.node.tools.who_runs import ANSWERS_S, who_runs
from migrator.node.tools.without_controllers import WithoutControllersPlan, plan_without_controllers
from migrator.node.zookeeper.kraft_brokers import KraftBrokersNoted
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import (
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
)
from migrator.wire.messages.metadata import (
    ConfigRecord,
    ControllerEndpoint,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.builders import an_id
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.kept_logs import values_of
from tests.support.seeded_tree import SeededTree

CLUSTER = "AAAAAAAAQAqAAAAAAAAAAA"
ISR_SHRINKS = PartitionChangeRecord(partition_id=0, topic_id=an_id("t000000"), isr=(1, 2), leader=2)
IDS = ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=7_000)
ELSEWHERE = ConfigRecord(resource_type=16, resource_name="clients", name="interval.ms", value="1000")
"""Of client metrics, which ZooKeeper has no form of."""


def a_log(
    place: Path,
    *batches: Sequence[Message],
    node: int = 3000,
    voters: Sequence[int] = (3000,),
    epoch: int = 5,
    cluster: str = CLUSTER,
) -> Path:
    """A directory whose log has a leader's first record at offset 0 and then these, of one epoch."""
    place.mkdir()
    write_meta_properties(place, MetaProperties(cluster, node))
    store = LogStore.open(place / LOG_NAME, 1 << 20)
    change = LeaderChangeMessage(leader_id=node, voters=[LeaderChangeVoter(voter_id=each) for each in voters])
    where = {"base_offset": 0, "leader_epoch": epoch, "timestamp_ms": 0}
    store.append(0, epoch, [build_control_batch(records=[change], **where)])
    for records in batches:
        store.append(store.end, epoch, [build_batch(values=values_of(records), **where)])
    store.close()
    return place


def released(
    logs: Sequence[Path],
    *,
    mirrored: int,
    accept_loss: bool = False,
    kraft: bool = False,
    stopped: Sequence[str] = (),
) -> WithoutControllersPlan:
    """The plan for a cluster of which ZooKeeper has everything up to offset `mirrored` of epoch 5.

    kraft: a broker was in KRaft mode since the takeover.
    """
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    ensemble.create(paths.CONTROLLER, controller_data(3000, 5, 1))
    ensemble.create(paths.MIGRATION, migration_data(MigrationZnode(3000, 5, mirrored, 5)))
    if kraft:
        KraftBrokersNoted(ensemble.session()).note([1])
    return plan_without_controllers(ensemble.session(), logs, accept_loss=accept_loss, stopped=stopped)


def refusal(logs: Sequence[Path], *, mirrored: int) -> FindingError:
    with pytest.raises(FindingError) as raised:
        released(logs, mirrored=mirrored)
    return raised.value


def test_a_log_that_ends_with_what_zookeeper_has_no_form_of_is_not_ahead(tmp_path: Path) -> None:
    tail = [NoOpRecord(), FenceBrokerRecord(id=1, epoch=9), RegisterControllerRecord(), ELSEWHERE, NoOpRecord()]
    log = a_log(tmp_path / "log", [ISR_SHRINKS], tail)
    assert released([log], mirrored=1, accept_loss=True).mirrored == (
        "everything up to offset 1 of epoch 5; a rollback loses what was committed after it",
        f"{log} (node 3000) ends at offset 6 of epoch 5: ZooKeeper lacks nothing of it",
    )


@pytest.mark.parametrize("mirrored", [1, 4])
def test_client_metrics_of_the_log_are_lost_only_with_consent_and_are_named_in_the_plan(
    tmp_path: Path, mirrored: int
) -> None:
    """Wherever in the log they are: ZooKeeper has no form of them (F-51)."""
    other = msgspec.structs.replace(ELSEWHERE, resource_name="others")
    gone = msgspec.structs.replace(ELSEWHERE, resource_name="gone")
    removed = msgspec.structs.replace(gone, value=None)
    log = a_log(tmp_path / "log", [ISR_SHRINKS], [ELSEWHERE, gone, NoOpRecord()], [removed, other])
    error = refusal([log], mirrored=mirrored)
    assert error.code == "Z2K-2133"
    assert "configuration of client-metrics clients; configuration of client-metrics others" in str(error)
    assert "gone" not in str(error)
    assert "--accept-loss" in error.occurrence.finding.remedy
    look = released([log], mirrored=mirrored, accept_loss=True).look
    assert [each for each in look.lines if "lost" in each] == [
        "ZooKeeper has no form of it, so it is lost: configuration of client-metrics clients",
        "ZooKeeper has no form of it, so it is lost: configuration of client-metrics others",
    ]


@pytest.mark.parametrize(("first", "compared"), [(ISR_SHRINKS, False), (NoOpRecord(), True)])
def test_client_metrics_are_named_whether_or_not_the_rest_of_the_log_can_be_compared(
    tmp_path: Path, first: Message, compared: bool
) -> None:
    log = a_log(tmp_path / "log", [first], [ELSEWHERE])
    look = released([log], mirrored=1, accept_loss=True).look
    assert bool(look.not_compared) != compared
    assert look.only_kraft == ("configuration of client-metrics clients",)


def test_without_a_log_the_plan_says_that_a_loss_was_not_looked_for() -> None:
    look = released([], mirrored=1).look
    assert "something is lost for which ZooKeeper has no form" in look.not_compared


def test_a_loss_is_refused_with_how_many_records_and_the_remedy(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS], [NoOpRecord(), ISR_SHRINKS, IDS], [NoOpRecord()])
    error = refusal([log], mirrored=1)
    assert error.code == "Z2K-2070"
    assert f"lacks 2 records of the metadata log in {log}" in str(error)
    assert "up to offset 1," in str(error)
    assert "at offset 4" in str(error)
    assert "Start the controllers" in error.occurrence.finding.remedy


def test_a_batch_of_which_zookeeper_has_the_first_half_counts_from_there(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS, ISR_SHRINKS, ISR_SHRINKS])
    assert look_into(log, 3000, Position(5, 1)).lacking == 2
    assert look_into(log, 3000, Position(5, 3)).lacking == 0


def test_a_loss_that_is_accepted_is_named_in_the_plan(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS], [ISR_SHRINKS])
    plan = released([log], mirrored=1, accept_loss=True)
    assert "lacks 1 records, the last at offset 2; this loss was accepted" in plan.mirrored[1]
    assert [len(each) for each in plan.multis] == [4]


def test_the_log_that_is_ahead_decides_among_several(tmp_path: Path) -> None:
    voters = (3000, 3001, 3002)
    level = a_log(tmp_path / "a", [ISR_SHRINKS], voters=voters)
    ahead = a_log(tmp_path / "b", [ISR_SHRINKS], [IDS], node=3001, voters=voters)
    error = refusal([level, ahead], mirrored=1)
    assert (error.code, error.occurrence.values["directory"]) == ("Z2K-2070", str(ahead))


def test_a_minority_of_the_voters_says_what_it_cannot_know(tmp_path: Path) -> None:
    voters = (3000, 3001, 3002)
    one = a_log(tmp_path / "a", [ISR_SHRINKS], voters=voters)
    two = a_log(tmp_path / "b", node=3001, voters=voters)
    alone = released([one], mirrored=1).mirrored
    assert alone[-1].startswith("not verified: what the other voters may have committed")
    assert "logs of 1 of 3 voters" in alone[-1]
    assert released([one, two], mirrored=1).mirrored[1:] == (
        f"{one} (node 3000) ends at offset 1 of epoch 5: ZooKeeper lacks nothing of it",
        f"{two} (node 3001) ends at offset 0 of epoch 5: it is behind ZooKeeper",
    )


@pytest.mark.parametrize("epoch", [4, 6])
def test_a_log_with_another_epoch_at_that_offset_proves_nothing(tmp_path: Path, epoch: int) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS], [ISR_SHRINKS], epoch=epoch)
    error = refusal([log], mirrored=1)
    assert error.code == "Z2K-2019"
    assert "none of the logs given has offset 1 of epoch 5" in str(error)


def test_a_log_of_another_cluster_proves_nothing(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS], cluster="BBBBBBBBQAqBBBBBBBBBBB")
    assert "belongs to cluster BBBBBBBBQAqBBBBBBBBBBB" in str(refusal([log], mirrored=1))


def test_without_a_readable_migration_znode_a_log_tells_who_runs_and_nothing_is_compared(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS, registered(migrating=False), ELSEWHERE])
    ensemble = FakeEnsemble()
    SeededTree().plant(ensemble)
    ensemble.create(paths.CONTROLLER, controller_data(3000, 5, 1))
    with pytest.raises(FindingError, match=r"brokers \[9\] are registered in KRaft mode"):
        plan_without_controllers(ensemble.session(), [log])
    plan = plan_without_controllers(ensemble.session(), [log], accept_loss=True)
    assert plan.mirrored[0] == "not known: /migration is absent"
    assert plan.mirrored[1].startswith("not verified")
    assert "configuration of client-metrics clients" in " ".join(plan.look.lines)
    final = a_log(tmp_path / "final", [state(MigrationState.POST_MIGRATION)])
    with pytest.raises(FindingError) as raised:
        plan_without_controllers(ensemble.session(), [final], accept_loss=True)
    assert raised.value.code == LOG_IS_FINAL.code
    assert plan_without_controllers(ensemble.session()).mirrored[0] == "not known: /migration is absent"


def test_a_controller_that_runs_on_the_log_forbids_the_release(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS])
    hold = "import fcntl, sys; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(log / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        error = refusal([log], mirrored=1)
        holder.communicate(b"\n")
    assert error.code == "Z2K-1118"
    assert f"controller 3000, a process, which runs on {log}" in str(error)
    assert released([log], mirrored=1).mirrored[1].endswith("lacks nothing of it")


@pytest.mark.parametrize(("token", "is_ours"), [("right", True), ("of somebody else", False)])
def test_a_control_port_that_answers_to_its_token_forbids_the_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, is_ours: bool
) -> None:
    """A copy of the directory has no lock."""
    monkeypatch.setattr("migrator.node.tools.who_runs.ANSWERS_S", 60.0)  # how soon it answers is no subject here
    log = a_log(tmp_path / "log", [ISR_SHRINKS])

    class Port(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.headers["authorization"] == "Bearer right" else 401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Port) as port:
        thread = Thread(target=port.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{port.server_address[1]}"
        (log / CONTROL_FILE).write_text(json.dumps({"url": url, "token": token, "pid": 77}))
        runs = who_runs(None, [log])
        port.shutdown()
        thread.join()
    assert (runs is not None) == is_ours
    if runs is not None:
        assert "controller 3000, process 77, which runs on" in runs.text
        assert released([log], mirrored=1).runs is None


def test_a_controller_whose_loop_hangs_says_so_before_it_is_taken_for_nobody() -> None:
    """Its control port answers 503 after so long; a copy of its directory has no lock that would show it."""
    assert ANSWERS_S > ASK_TIMEOUT_S


# --- a finalize that was begun without the service, and what runs in KRaft mode ---------------------------


def state(of: MigrationState) -> ZkMigrationStateRecord:
    return ZkMigrationStateRecord(zk_migration_state=of.value)


def test_a_log_that_is_final_forbids_the_rollback_whatever_is_accepted(tmp_path: Path) -> None:
    """A controller was started without the flag by hand, so no intent stands. A minority's tail counts as well."""
    final, migrating = state(MigrationState.POST_MIGRATION), state(MigrationState.MIGRATION)
    whole = a_log(tmp_path / "whole", [migrating, ISR_SHRINKS])
    assert released([whole], mirrored=2).mirrored[1].endswith("lacks nothing of it")
    tail = a_log(tmp_path / "tail", [migrating, ISR_SHRINKS], [NoOpRecord(), final], node=3001)
    for logs in ([tail], [whole, tail]):
        with pytest.raises(FindingError) as raised:
            released(logs, mirrored=2, accept_loss=True)
        assert raised.value.code == LOG_IS_FINAL.code == "Z2K-2132"
        assert f"{tail} says that the migration is finalized (POST_MIGRATION, offset 4)" in str(raised.value)


def test_a_log_that_is_final_in_its_snapshot_forbids_the_rollback(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS])
    cut_to(log, 15, [NoOpRecord()])
    a_snapshot(log, 15, state(MigrationState.MIGRATION))
    assert look_into(log, 3000, Position(5, 14)).final_at == -1
    a_snapshot(log, 15, state(MigrationState.POST_MIGRATION))
    assert look_into(log, 3000, Position(5, 14)).final_at == 14


def registered(*, migrating: bool) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(broker_id=9, is_migrating_zk_broker=migrating)


def test_a_broker_in_kraft_mode_that_holds_no_replica_is_found_in_the_log(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [registered(migrating=True), registered(migrating=False)])
    error = refusal([log], mirrored=2)
    assert (error.code, "brokers [9] are registered in KRaft mode" in str(error)) == ("Z2K-2019", True)
    back_by_hand = [RegisterBrokerRecord(broker_id=each, is_migrating_zk_broker=False) for each in (1, 2, 3)]
    while_none_led = a_log(tmp_path / "none led", back_by_hand)
    assert refusal([while_none_led], mirrored=3).code == "Z2K-2127", "ZooKeeper has them, so it is another reason"
    for name, last in (("back", registered(migrating=True)), ("gone", UnregisterBrokerRecord(broker_id=9))):
        again = a_log(tmp_path / name, [registered(migrating=False), last])
        assert released([again], mirrored=2, accept_loss=True).look.registered.kraft_brokers == frozenset()


def test_a_controller_of_kafka_that_accepts_or_cannot_be_reached_forbids_the_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("migrator.node.tools.who_runs.CONNECTS_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        places = [("127.0.0.1", port), ("no-such-host.invalid", 9093), (f"{'x' * 70}.example", 9093)]
        records = [
            RegisterControllerRecord(controller_id=node, end_points=[ControllerEndpoint("CONTROLLER", host, at)])
            for node, (host, at) in zip((3001, 3002, 3003), places, strict=True)
        ]
        log = a_log(tmp_path / "log", records)
        runs = released([log], mirrored=1, accept_loss=True, kraft=True).runs
        assert runs is not None
        assert f"controller 3001, as which something accepts connections at 127.0.0.1:{port}" in runs.text
        assert "controller 3002 perhaps, as no-such-host.invalid:9093 cannot be reached" in runs.text
        assert "controller 3003 perhaps, as xxx" in runs.text
        seen = [f"{host}:{at}" for host, at in places]
        assert released([log], mirrored=1, accept_loss=True, kraft=True, stopped=seen).runs is None
        assert released([log], mirrored=1, accept_loss=True).runs is None, "no broker was ever in KRaft mode"
    runs = released([log], mirrored=1, accept_loss=True, kraft=True, stopped=seen[1:]).runs
    assert runs is None, "it refuses connections now"


# --- a log that was cut behind a snapshot -----------------------------------------------------------------


def a_snapshot(log: Path, end: int, *records: Message) -> None:
    where = {"leader_epoch": 5, "timestamp_ms": 0}
    data = build_control_batch(base_offset=0, records=[SnapshotHeaderRecord()], **where)
    if records:
        data += build_batch(base_offset=1, values=values_of(records), **where)
    data += build_control_batch(base_offset=1 + len(records), records=[SnapshotFooterRecord()], **where)
    (log / LOG_NAME / f"{end:020d}-0000000005.checkpoint").write_bytes(data)


def cut_to(log: Path, base: int, records: Sequence[Message]) -> None:
    for old in (log / LOG_NAME).glob("0*.*"):
        if old.suffix != ".checkpoint":
            old.unlink()
    data = build_batch(base_offset=base, leader_epoch=5, timestamp_ms=0, values=values_of(records))
    (log / LOG_NAME / f"{base:020d}.log").write_bytes(data)


def test_a_later_snapshot_does_not_hide_that_only_noops_came(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS])
    cut_to(log, 10, [ISR_SHRINKS, *[NoOpRecord()] * 9])
    a_snapshot(log, 10)
    a_snapshot(log, 15)
    look = look_into(log, 3000, Position(5, 10))
    assert (look.holds, look.lacking, look.unseen) == (True, 0, 0)
    assert look_into(log, 3000, Position(5, 9)).records == "1 records"


def test_what_only_a_snapshot_knows_counts_as_lacking(tmp_path: Path) -> None:
    log = a_log(tmp_path / "log", [ISR_SHRINKS])
    cut_to(log, 15, [NoOpRecord()])
    a_snapshot(log, 15)
    look = look_into(log, 3000, Position(5, 10))
    assert (look.is_ahead, look.records, look.last) == (True, "up to 4 records that are in a snapshot only", 14)


@pytest.mark.parametrize("end", [2, 900])
def test_a_whole_log_is_read_beside_a_snapshot_that_is_damaged_or_not_of_it(end: int, tmp_path: Path) -> None:
    """An audit does not pass there. The emergency exit needs the log alone."""
    log = a_log(tmp_path / "log", [ISR_SHRINKS, IDS])
    a_snapshot(log, end)
    (file,) = (log / LOG_NAME).glob("*.checkpoint")
    file.write_bytes(file.read_bytes()[:-7])
    look = look_into(log, 3000, Position(5, 1))
    assert (look.holds, look.lacking) == (True, 1)
