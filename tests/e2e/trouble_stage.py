"""Ten controllers in ten phases of a migration, each of a cluster of its own, on one real ensemble.

In:   an ensemble, what is set for the controllers.
Out:  `Stage`: every controller stands where its phase says; `go` lets them on; looks at each of them.
Elsewhere: the trouble, and what should come of it (test_zookeeper_trouble.py, tests/support/zookeeper_trouble.py).
A cluster is a tree below a chroot, with a stand-in for a broker (tests/support/stand_in_broker.py): what counts
here is between the controller and ZooKeeper. With real brokers: the last test of test_zookeeper_trouble.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl, make_digest_acl

from migrator.audit.compare import ExpectedDifferences, report
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.audit.normalise import LogFacts
from migrator.audit.quick import compare_sides
from migrator.findings.finding import FindingError
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import ControllerSpec, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.node.config.formatting import format_node
from migrator.node.config.properties import read_config
from migrator.node.zookeeper.tree_reader import descendants
from migrator.zk.multi import Create, Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.support import copies, spoil, wait_for
from tests.support.broker_stand_in import stand_in_brokers
from tests.support.kraft_load import ConfigChanges, Connection, Creations
from tests.support.seeded_tree import SeededTree
from tests.support.zookeeper_trouble import EFFECTS, Phase

CLUSTER_ID: Final = "AAAAAAAAQAqAAAAAAAAAAA"
TREE: Final = SeededTree(brokers=(1,), broker_configs={})
BROKER: Final = 1
CLOSED: Final = "t000001"
"""The topic of which somebody takes the right away."""
CLOSED_PATHS: Final = (
    f"/config/topics/{CLOSED}",
    f"/brokers/topics/{CLOSED}",
    f"/brokers/topics/{CLOSED}/partitions",
    *(f"/brokers/topics/{CLOSED}/partitions/{partition}" for partition in range(TREE.partitions)),
    *(f"/brokers/topics/{CLOSED}/partitions/{partition}/state" for partition in range(TREE.partitions)),
)
SOMEBODY: Final = ("digest", "somebody:else")
SETTINGS: Final[dict[str, Value]] = {
    "zk2kraft.gates": "pause",
    "broker.heartbeat.interval.ms": 20_000,
    "broker.session.timeout.ms": 60_000,
}
"""No broker may seem dead because a busy machine, or a stopped process, is late."""
IN_DUAL_WRITE_FIRST: Final = (Phase.DUAL_WRITE, Phase.ROLLING_BACK, Phase.LEAVING)


@dataclass(slots=True)
class Cell:
    """One cluster, its controller, and the phase in which that stands."""

    phase: Phase
    controller: OurController
    connect: str
    mark: Path
    """Exists once the controller stands before its effect."""

    def driver(self) -> dict[str, Any]:
        return dict(self.controller.status()["driver"])

    def names(self, code: str) -> str | None:
        """None when its status names the finding, as what holds it up, as how a state ended, or in the gate."""
        try:
            status = self.controller.status()
        except (OSError, ValueError, FindingError) as error:
            return f"{self.phase}: {error}"
        driver = status["driver"]
        told = [driver["trouble"], driver["finding"], status["gate"], driver["reason"]]
        return None if code in json.dumps(told) else f"{self.phase}: {driver['state']}, {driver['reason']}"

    def wait_named(self, code: str) -> None:
        wait_for(lambda: self.names(code), f"the controller names {code}")

    def held_at_gate(self) -> str | None:
        driver = self.driver()
        waits = driver["state"] == "WAIT_BROKERS" and "zk2kraft advance" in driver["reason"]
        return None if waits else f"{self.phase}: {driver['state']}, {driver['reason']}"

    def wait_gate(self) -> None:
        wait_for(self.held_at_gate, "the gate waits for nothing but a person")

    def read(self, path: str) -> Any:
        """The JSON of a znode, None when it does not exist."""
        with ZkSession(self.connect) as session:
            session.sync()
            znode = session.get(path)
        return None if znode is None else json.loads(znode.data or b"null")

    def holds_claim(self) -> bool:
        found = self.read("/controller")
        return found is not None and found["kraftControllerEpoch"] > 0

    def ask(self, load: Creations | ConfigChanges) -> None:
        """One change, of the controller itself; fails unless it is done."""

        async def asked() -> int:
            connection = await Connection.open((HOST, self.controller.spec.port))
            try:
                return load.error(await connection.exchange(load.frame(0)))
            finally:
                connection.close()

        assert asyncio.run(asked()) == 0

    def create(self, name: str) -> None:
        self.ask(Creations(name, partitions=2, replicas=1))

    def wait_mirrored(self, name: str) -> None:
        """A topic that `create` made."""
        path = f"/brokers/topics/{name}-0"
        wait_for(lambda: None if self.read(path) else "not yet", f"ZooKeeper has {path}")

    def differences(self) -> list[Any]:
        """Of the log on disk and ZooKeeper."""
        records, facts = CommittedRecords(), LogFacts()
        for record in read_directory(self.controller.metadata_log.parent, records):
            facts.apply(record)
        with ZkSession(self.connect) as session:
            comparison = compare_sides(session, facts, ExpectedDifferences())
        return list(report(comparison, seconds={}, zk={}, kraft={}, engine="quick").differences)

    def versions(self) -> dict[str, int]:
        """The transaction that last wrote each znode of the tree; `/migration`, which is given back, left out."""
        with ZkSession(self.connect) as session:
            session.sync()
            found = ["/controller", "/controller_epoch", *descendants(session, "/brokers")]
            found += descendants(session, "/config")
            return {path: each.mzxid for path, each in zip(found, session.get_many(found), strict=True) if each}

    def close_topic(self, *, readable: bool) -> None:
        """Take everybody the right to change it, or also to read it, as somebody with an identity can."""
        own = make_digest_acl(*SOMEBODY[1].split(":"), all=True)
        self._set_acls([own, *([make_acl("world", "anyone", read=True)] if readable else [])])

    def open_topic(self) -> None:
        self._set_acls([make_acl("world", "anyone", all=True)])

    def _set_acls(self, acls: list[ACL]) -> None:
        client = KazooClient(hosts=self.connect, auth_data=[SOMEBODY])
        client.start(timeout=60)
        try:
            for path in CLOSED_PATHS:
                client.set_acls(path, acls)
        finally:
            client.stop()
            client.close()

    # --- what should be at the end -------------------------------------------------------------------------

    def check(self, state: str) -> None:
        checks: dict[str, Callable[[], None]] = {
            "WAIT_BROKERS": self._can_still_migrate,
            "DUAL_WRITE": self._is_in_dual_write,
            "ABORTED": lambda: self._is_aborted(committed=0),
            "RETIRED": lambda: self._is_aborted(committed=1),
        }
        checks[state]()

    def _can_still_migrate(self) -> None:
        self.wait_gate()
        assert not self.holds_claim()
        self.controller.ask("takeover")
        self.controller.wait_dual_write()
        self._is_in_dual_write()

    def _is_in_dual_write(self) -> None:
        name = "made-afterwards"
        self.create(name)
        self.wait_mirrored(name)
        assert copies(self.controller) == 1
        with ZkSession(self.connect) as session:
            session.sync()
            claim = session.get("/controller")
        assert claim is not None
        assert claim.owner == 0
        assert json.loads(claim.data or b"{}")["brokerid"] == self.controller.spec.node_id
        assert self.differences() == []
        driver = self.driver()
        assert (driver["trouble"], driver["finding"]) == (None, None)

    def _is_aborted(self, committed: int) -> None:
        assert copies(self.controller) == committed
        assert not self.holds_claim()
        migration = self.read("/migration")
        if not committed:
            assert migration is None or migration["kraft_metadata_offset"] < 0, migration


class Stage:
    """All cells of one trouble."""

    def __init__(self, cells: Mapping[Phase, Cell], go: Path) -> None:
        self.cells = cells
        self._go = go

    def all(self) -> list[Cell]:
        return list(self.cells.values())

    def go(self) -> None:
        """Every controller does next what it stood before."""
        self._go.touch()

    def arrange(self) -> None:
        """Each controller stands in its phase; the windows were opened last, and at the same time."""
        for cell in self.all():
            cell.wait_gate()
        self._ask("takeover", IN_DUAL_WRITE_FIRST)
        for phase in IN_DUAL_WRITE_FIRST:
            self.cells[phase].controller.wait_dual_write()
        self._ask("rollback", (Phase.ROLLING_BACK, Phase.LEAVING))
        self._wait_standing((Phase.ROLLING_BACK, Phase.LEAVING))
        in_window = [phase for phase in EFFECTS if phase not in IN_DUAL_WRITE_FIRST]
        self._ask("takeover", in_window)
        self._wait_standing(in_window)

    def _ask(self, operation: str, phases: Sequence[Phase]) -> None:
        for phase in phases:
            self.cells[phase].controller.ask(operation)

    def _wait_standing(self, phases: Sequence[Phase]) -> None:
        def why_not() -> str | None:
            late = [cell for cell in self.all() if cell.phase in phases and not cell.mark.exists()]
            return f"{late[0].phase}: {late[0].driver()}" if late else None

        wait_for(why_not, "every controller stands before its effect")

    def pause(self) -> None:
        """Every process stands still, as in a long pause of its machine."""
        for cell in self.all():
            cell.controller.process.pause()

    def resume(self) -> None:
        for cell in self.all():
            cell.controller.process.resume()


@contextmanager
def a_stage(laboratory: Laboratory, zookeeper: ZooKeeper, name: str, extra: Mapping[str, Value]) -> Iterator[Stage]:
    """name: of the chroot below which the clusters are planted."""
    go = laboratory.directory / "go"
    specs = quorum_specs(laboratory, count=len(Phase), zookeeper_connect="", extra={**SETTINGS, **extra})
    with ExitStack() as brokers:
        cells = {}
        for phase, spec in zip(Phase, specs, strict=True):
            connect = _planted(zookeeper, f"/{name}/{phase.name.lower().replace('_', '-')}")
            cells[phase] = cell = _cell(laboratory, phase, _alone(spec, connect), go)
            brokers.enter_context(stand_in_brokers(TREE, connect, CLUSTER_ID, spec.port))
            cell.controller.launch()
        for cell in cells.values():
            cell.controller.wait_ready()
        yield Stage(cells, go)
        for cell in cells.values():
            cell.controller.kill()


def _alone(spec: ControllerSpec, connect: str) -> ControllerSpec:
    """A quorum of its own."""
    return replace(spec, voters=f"{spec.node_id}@{HOST}:{spec.port}", zookeeper_connect=connect)


def _cell(laboratory: Laboratory, phase: Phase, spec: ControllerSpec, go: Path) -> Cell:
    controller = OurController(laboratory, spec, CLUSTER_ID)
    write(controller.properties_file, spec.properties())
    format_node(read_config(controller.properties_file), CLUSTER_ID, spec.release, ignore_formatted=False)
    mark = controller.directory / "mark"
    if phase in EFFECTS:
        spoil(controller, mark, stall_before=EFFECTS[phase], go=str(go))
    return Cell(phase, controller, spec.zookeeper_connect, mark)


def _planted(zookeeper: ZooKeeper, chroot: str) -> str:
    with ZkSession(zookeeper.hosts) as root:
        root.ensure_path(chroot)
    connect = zookeeper.hosts + chroot
    with ZkSession(connect) as session:
        TREE.seed(session)
        assert session.apply(Multi((Create("/controller", _of_zookeeper()),))).applied
    return connect


def elect_broker(connect: str) -> None:
    """What a ZooKeeper-mode broker does as soon as nobody is controller."""
    with ZkSession(connect) as session:
        epoch = session.get("/controller_epoch")
        assert epoch is not None
        claim = SetData("/controller_epoch", str(int(epoch.data or b"0") + 1).encode(), epoch.version)
        assert session.apply(Multi((claim, Create("/controller", _of_zookeeper())))).applied


def _of_zookeeper() -> bytes:
    return json.dumps({"version": 2, "brokerid": BROKER, "timestamp": "1", "kraftControllerEpoch": -1}).encode()
