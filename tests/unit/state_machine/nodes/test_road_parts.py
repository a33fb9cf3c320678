"""Parts of the road by themselves: files without their flag, controllers that do not leave, backups, stray logs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.findings.finding import FindingError
from migrator.findings.road import BACKUP_FAILED, CONTROLLER_NOT_LEFT, FLAG_REMOVED_EARLY, STRAY_DIRECTORIES
from migrator.fleet.actuator import Done, Performed, ProcessState, ProcessStatus
from migrator.fleet.files import Present, checksum_of
from migrator.fleet.guard import finalize_token
from migrator.fleet.inventory import Inventory, Node, Waiver, parse_inventory
from migrator.fleet.render import FileKind
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import ConfigKey, ConfigType
from state_machine.clusters.inventory import ControllerEntry
from state_machine.evidence.file_watch import file_findings, read_files
from state_machine.finish import backups
from state_machine.finish.backups import take_backup
from state_machine.nodes.disks import look_at_disks
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll
from state_machine.policy.phases import Phase
from state_machine.rolling import our_processes
from state_machine.rolling.round import Means, NodeTask, Round
from state_machine.rolling.table import KINDS
from state_machine.rows.documents import FilesDocument
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import Approval, JournalRow, Migration
from tests.unit.state_machine.world import World


@dataclass
class Host:
    """An actuator on nothing: what a test puts there."""

    files: dict[str, bytes] = field(default_factory=dict)
    names: tuple[str, ...] | None = ()
    kind: str = "exec"

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def list(self, directory: str) -> tuple[str, ...] | None:
        return self.names

    def write(self, path: str, content: bytes) -> Performed:
        self.files[path] = content
        return Done()

    def stop(self) -> Performed:
        return Done()

    def start(self) -> Performed:
        return Done()

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.STOPPED)


def a_node(host: Host, role: str = BROKERS, number: int = 1) -> FleetNode:
    node = Node(id=number, host="host1", properties="/etc/kafka.properties", log_dirs=("/data",))
    return FleetNode(role, node, host)


def a_task(
    world: World, snapshot: Snapshot, roll: Roll, fleet: Fleet, node: FleetNode, image: Image = EMPTY
) -> NodeTask:
    """An act on this node, whose row is not looked at."""
    nothing: Any = None
    means = Means(nothing, world.settings, nothing, nothing, world.clock, world.clock)
    about = Round(snapshot, nothing, roll, fleet, nothing, means, world.clock(), {})
    return NodeTask(about, node, a_row(roll=roll), image)


def a_row(**columns: Any) -> JournalRow:
    fields = {"migration_id": 1, "roll": "stock", "role": CONTROLLERS, "rack": "", "path": "/etc/c.properties"}
    return JournalRow(**{**fields, "node_id": 3000, "step": "WHOLE", "changed_at": 1.0, **columns})


def test_stray_directories_are_named_with_their_places() -> None:
    disks = look_at_disks(a_node(Host(names=("orders-0", "orders-1.abc-stray"))), EMPTY, with_ids=False)
    assert disks.trouble is not None
    assert disks.trouble.code == STRAY_DIRECTORIES.code == "Z2K-4205"
    assert "/data/orders-1.abc-stray" in disks.trouble.text


def test_disks_that_cannot_be_listed_are_no_proof_and_are_said() -> None:
    disks = look_at_disks(a_node(Host(names=None)), EMPTY, with_ids=True)
    assert disks.trouble is None
    assert "are not checked" in disks.said


def test_a_controller_without_its_flag_before_the_finalize_is_an_alarm_of_its_own(tmp_path: Path) -> None:
    snapshot = World(tmp_path).snapshot
    snapshot.migration.phase = Phase.SOAK
    snapshot = replace(snapshot, road=(a_row(),))
    (found,) = file_findings(snapshot, FilesDocument(1.0, without_flag=(3000,)))
    assert found.code == FLAG_REMOVED_EARLY.code == "Z2K-4212"
    assert "/etc/c.properties" in found.text
    snapshot.migration.phase = Phase.FINALIZING
    assert file_findings(snapshot, FilesDocument(1.0, without_flag=(3000,))) == ()


def test_controllers_that_stock_replaces_are_never_started_again(tmp_path: Path) -> None:
    snapshot = World(tmp_path).snapshot
    rows = (a_row(step="STOPPING"), a_row(node_id=3001, step="PREPARED"), a_row(node_id=3002, step="FAILED"))
    assert replace(snapshot, road=rows).replaced == {3000, 3002}


def test_a_controller_of_ours_that_does_not_end_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stubborn:
        def runs(self, pid: int, mark: str) -> bool:
            return True

        def ask_to_stop(self, pid: int, entry: ControllerEntry) -> bool:
            return True

    world = World(tmp_path)
    world.store.record_process(world.id, 3000, pid=7, process_mark="", started_at=1.0)
    monkeypatch.setattr(our_processes, "LEAVE_S", 0.2)
    stubborn: Any = Stubborn()
    with pytest.raises(FindingError) as caught:
        our_processes.stop_ours(stubborn, world.snapshot, 3000)
    assert caught.value.code == CONTROLLER_NOT_LEFT.code == "Z2K-4213"


def test_a_backup_that_cannot_be_taken_is_named(tmp_path: Path) -> None:
    snapshot = World(tmp_path).snapshot
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    fleet = Fleet(None, (), "")  # type: ignore[arg-type]
    with pytest.raises(FindingError) as caught:
        take_backup(snapshot, fleet, blocked, "FINALIZING")
    assert caught.value.code == BACKUP_FAILED.code == "Z2K-4214"


@pytest.mark.parametrize("fails_in", ["export", "copy of the files", "sums"])
def test_a_backup_that_fails_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_in: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    session: Any = type("S", (), {"__enter__": lambda self: self, "__exit__": lambda self, *_: None})
    monkeypatch.setattr(backups, "ZkSession", lambda connect: session())
    monkeypatch.setattr(backups, "export", lambda session, file, limits: file.write_text("tree"))
    broken = {"export": "export", "copy of the files": "_copy_files", "sums": "_summed_up"}[fails_in]
    snapshot = World(tmp_path).snapshot
    with monkeypatch.context() as patched:
        patched.setattr(backups, broken, fails)
        for _ in range(3):
            with pytest.raises(FindingError, match=r"Z2K-4214.*No space left"):
                take_backup(snapshot, Fleet(None, (), ""), tmp_path / "home", "SOAK")  # type: ignore[arg-type]
            assert list((tmp_path / "home").iterdir()) == []


def test_a_backup_that_was_killed_is_removed_by_the_next_and_whole_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = type("S", (), {"__enter__": lambda self: self, "__exit__": lambda self, *_: None})
    monkeypatch.setattr(backups, "ZkSession", lambda connect: session())
    monkeypatch.setattr(backups, "export", lambda session, file, limits: file.write_text("tree"))
    home = tmp_path / "home"
    for name, whole in (("SOAK-20260101T000000Z", False), ("SOAK-20260102T000000Z", True), ("by-hand", False)):
        (home / name).mkdir(parents=True)
        (home / name / ("SHA256SUMS" if whole else "zookeeper.json.gz")).write_text("x")
    taken = take_backup(World(tmp_path).snapshot, Fleet(None, (), ""), home, "SOAK")  # type: ignore[arg-type]
    assert sorted(each.name for each in home.iterdir()) == sorted(
        [Path(taken.directory).name, "SOAK-20260102T000000Z", "by-hand"]
    )


def test_a_look_at_the_files_proves_the_guard_of_each_controller_and_brings_the_waivers(tmp_path: Path) -> None:
    class Supervised(Host):
        def launch(self) -> str | None:
            return "/usr/bin/zk2kraft-guard /opt/kafka/bin/kafka-server-start.sh /etc/kafka.properties"

    guard = Path(__file__).resolve().parents[4] / "docker/guard/zk2kraft-guard"
    file = {"/etc/kafka.properties": b"node.id=3000\nzookeeper.metadata.migration.enable=true\n"}
    nodes = []
    for number, host in (
        (3000, Supervised({**file, "/usr/bin/zk2kraft-guard": guard.read_bytes()}, ("kafka_2.13-3.9.2.jar",))),
        (3001, Host(file)),
    ):
        node = a_node(host, CONTROLLERS, number)
        nodes.append(replace(node, node=msgspec.structs.replace(node.node, guard="/usr/bin/zk2kraft-guard")))
    end = datetime(2030, 1, 1, tzinfo=UTC)
    waiver = Waiver(what="Z2K-7040", node=3001, reason="tried by hand", owner="ops", end=end)
    inventory = msgspec.structs.replace(an_inventory_file(), waivers=(waiver,))
    world = World(tmp_path)
    with world.store.writing() as session:
        session.get_one(Migration, world.id).phase = Phase.ROLLING_BROKERS
    seen = read_files(world.snapshot, Fleet(inventory, tuple(nodes), ""), 5.0)
    assert [(each.node, each.state) for each in seen.guards] == [(3000, "proven"), (3001, "not read")]
    assert seen.waivers[0].end == end.timestamp()
    snapshot = world.snapshot
    snapshot.migration.phase = Phase.SOAK
    seen = msgspec.structs.replace(seen, differing=())  # the migration's own file of 3000 is another one here
    assert file_findings(snapshot, seen) == ()  # waived
    unwaived = msgspec.structs.replace(seen, waivers=())
    assert [each.code for each in file_findings(snapshot, unwaived)] == ["Z2K-7040"]


def an_inventory_file() -> Inventory:
    return parse_inventory(INVENTORY.encode(), "orders.yaml")


INVENTORY = """
version: 1
cluster: {name: orders, zookeeper: "zk:2181", bootstrap_servers: "k:9092", quorum: {voters: "3000@c:9093,3001@d:9093"}}
actuator: {kind: exec, template: t.yaml}
brokers: [{id: 1, host: b1, properties: /etc/kafka.properties, log_dirs: [/data]}]
controllers:
  - {id: 3000, host: c1, properties: /etc/kafka.properties, log_dirs: [/data]}
  - {id: 3001, host: c2, properties: /etc/kafka.properties, log_dirs: [/data]}
"""


def test_a_password_that_the_log_has_wants_the_secret_in_a_stock_file_whatever_the_inventory_says(
    tmp_path: Path,
) -> None:
    ours = b"process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@c:9093,3001@d:9093\n"
    ours += b"zookeeper.connect=zk:2181\nzk2kraft.gates=pause\n"
    node = a_node(Host({"/etc/kafka.properties": ours}), CONTROLLERS, 3000)
    fleet = Fleet(an_inventory_file(), (node,), "")
    world = World(tmp_path)
    stock = KINDS[Roll.STOCK]
    assert stock.prepare(a_task(world, world.snapshot, Roll.STOCK, fleet, node))["kind"] == "stock"
    draft = Draft(EMPTY)
    draft.set_config(ConfigKey(ConfigType.BROKER, "1"), "listener.name.x.ssl.keystore.password", "s3cret")
    with pytest.raises(FindingError, match=r"password\.encoder\.secret") as refused:
        stock.prepare(a_task(world, world.snapshot, Roll.STOCK, fleet, node, draft.finish(Position(1, 1001)).after))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("written_before", [False, True])
def test_the_guard_gets_its_token_before_a_file_without_the_flag_is_there(tmp_path: Path, written_before: bool) -> None:
    """A service that died between token and file writes both again."""
    world = World(tmp_path)
    plan = "ab" * 32
    with_flag = b"process.roles=controller\nnode.id=3000\ncontroller.quorum.voters=3000@c:9093,3001@d:9093\n"
    with_flag += b"zookeeper.connect=zk:2181\nzookeeper.metadata.migration.enable=true\n"
    host = Host({"/etc/kafka.properties": with_flag})
    node = a_node(host, CONTROLLERS, 3000)
    node = replace(node, node=msgspec.structs.replace(node.node, guard="/usr/bin/zk2kraft-guard"))
    fleet = Fleet(an_inventory_file(), (node,), "")
    rendered = fleet.render(node, Present(node.path, with_flag), FileKind.FINALIZED)
    if written_before:
        host.files[node.path] = rendered.content
    row = a_row(
        roll="final", step="STOPPED", rendered_from=checksum_of(with_flag), checksum=checksum_of(rendered.content)
    )
    approval = Approval(migration_id=1, to_phase="FINALIZING", who="bo", reason="", at=1.0, digest=plan, document={})
    task = a_task(world, replace(world.snapshot, approval=approval), Roll.FINAL, fleet, node)
    assert KINDS[Roll.FINAL].write(replace(task, row=row)) == {}
    assert list(host.files)[1] == f"/etc/finalize-{plan}"
    assert host.files[f"/etc/finalize-{plan}"] == finalize_token(plan, 3000, rendered.content, "/etc")[1]
    assert b"zookeeper" not in host.files[node.path]
