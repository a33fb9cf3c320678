"""A world in which stock controllers took the place of ours, on hosts that are directories.

What earlier rolls did is written down as they leave it, with files that the service renders; the rest is real. A stock
controller runs when the word in its host's directory says so; ours run as fakes behind the launcher. Of those that run,
one leads until it ends; then the one with the lowest id.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from migrator.fleet.files import Present, checksum_of, predecessor_path
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.log_observer import LogController, LogVoter
from state_machine.nodes.fleet import Fleets
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.policy.rolls import ROLLS
from state_machine.rolling.journal import begin, record
from state_machine.rows.tables import Migration
from tests.unit.state_machine.rollback.test_rolling_back import RollingBack
from tests.unit.state_machine.rolling.test_rolling import BROKERS, FILE, Hosts
from tests.unit.state_machine.world import World

NODES = (3000, 3001, 3002)
GUARD = Path(__file__).resolve().parents[3] / "docker" / "guard" / "zk2kraft-guard"


class StockHosts(Hosts):
    """Hosts of controllers beside those of brokers; a guard starts stock there."""

    def write_all(self, directory: Path, controllers: Sequence[ControllerEntry]) -> None:
        self.write_fleet(directory, controllers[0].properties, controllers[0].data)
        template = json.loads((directory / "templates/local.yaml").read_text())
        said = 'echo "$1/guard kafka-server-start.sh $(cat "$1/$2/path")"'
        template["acts"]["launch"] = {"argv": ["/bin/sh", "-c", said, "sh", str(self.home), "{id}"]}
        inventory = json.loads((directory / "orders.yaml").read_text())
        inventory["cluster"]["quorum"]["voters"] = ",".join(f"{each.node_id}@127.0.0.1:9093" for each in controllers)
        inventory["controllers"] = [
            {
                "id": each.node_id,
                "host": f"host{each.node_id}",
                "properties": each.properties,
                "log_dirs": [each.data],
                "guard": str(self.home / "guard"),
            }
            for each in controllers
        ]
        for path, document in (("templates/local.yaml", template), ("orders.yaml", inventory)):
            (directory / path).write_text(json.dumps(document))
        (self.home / "guard").write_bytes(GUARD.read_bytes())
        for each in controllers:
            (self.home / str(each.node_id)).mkdir()
            (self.home / str(each.node_id) / "path").write_text(each.properties)
            self.state(each.node_id, "stopped")


class UnderStock(RollingBack):
    """Three voters. leader: who leads now."""

    def __init__(self, directory: Path) -> None:
        World.__init__(self, directory, voters=len(NODES))
        self.hosts = StockHosts(directory / "hosts")
        self.hosts.write_all(directory / "fleets", self.inventory.controllers)
        for number in BROKERS:
            self.hosts.file(number).write_text(self.file_of(number))
        self.files = {each.node_id: Path(each.properties) for each in self.inventory.controllers}
        self.ours = {node: file.read_text() for node, file in self.files.items()}
        self.settings = self.settings.model_copy(
            update={"fleets": directory / "fleets", "settle_s": 2.0, "node_deadline_s": 300.0}
        )
        self.crashes = dict.fromkeys(BROKERS, 0)
        self.stale = False
        self.unfenced: set[int] = set()
        self.leader: int | None = NODES[0]
        self.final = False
        self.unsent: dict[int, int] = {}
        """By node: the start of it, counted from 1, whose registration is never sent (KAFKA-20247)."""
        self.start_service()

    def file_of(self, number: int, form: str = FILE) -> str:
        voters = ",".join(f"{node}@127.0.0.1:9093" for node in NODES)
        return super().file_of(number, form.replace("3000@127.0.0.1:9093", voters))

    # --- who runs and leads --------------------------------------------------------------------------------

    def register(self) -> None:
        super().register()
        ours = {each.entry.node_id: each for each in self.controllers}
        runs = {node: ours[node].alive or self.hosts.runs(node) for node in NODES}
        if self.leader is None or not runs[self.leader]:
            self.leader = next((node for node in NODES if runs[node]), None)
        for node, each in ours.items():
            if not each.alive:
                continue
            each.migration = "MIGRATION"
            if node != self.leader:
                each.follow(self.leader)
            elif each.state not in ("DUAL_WRITE", "ROLLING_BACK", "RETIRED"):
                each.move("RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")
            each.on_ask = lambda operation: self.rollback() if operation == "rollback" else None
        acts = self.hosts.acts.read_text()
        started = {node: acts.count(f"start {node}\n") for node in NODES}
        sent = {node: count - (self.unsent.get(node) == count) for node, count in started.items()}
        self.log.observed = msgspec.structs.replace(
            self.log.observed,
            leader=self.leader,
            migration="POST_MIGRATION" if self.final else "MIGRATION",
            voters=tuple(LogVoter(node, 100, 0 if runs[node] else 7, 0 if runs[node] else 60_000) for node in NODES),
            controllers=tuple(
                LogController(
                    node,
                    f"stock-{sent[node]}" if self.hosts.runs(node) and sent[node] else f"ours-{ours[node].pid}",
                    "migration.enable=true" in self.files[node].read_text(),
                )
                for node in NODES
            ),
        )

    def rollback(self) -> None:
        leader = next(each for each in self.controllers if each.entry.node_id == self.leader)
        leader.move("ROLLING_BACK", "RETIRED")
        self.zookeeper.broker_rules()

    @property
    def asked(self) -> list[str]:
        """Of all controllers of ours."""
        return [operation for each in self.controllers for operation in each.asked]

    # --- ways to a phase -----------------------------------------------------------------------------------

    async def to_replacing(self, *stock: int) -> None:
        """Every broker is in KRaft mode. stock: controllers that were replaced."""
        await self.to_dual_write()
        self.was_rolled(Roll.KRAFT, BROKERS)
        self.was_rolled(Roll.STOCK, stock)
        self._enter(Phase.REPLACING_CONTROLLERS)

    async def to_soak(self) -> None:
        await self.to_replacing(*NODES)
        self._enter(Phase.SOAK)
        await self.turn(3)
        await self.with_files()

    def _enter(self, phase: Phase) -> None:
        with self.store.writing() as session:
            row = session.get_one(Migration, self.id)
            row.phase, row.since = phase, self.clock()

    def was_rolled(self, roll: Roll, ids: Sequence[int]) -> None:
        """As the roll leaves its nodes, files and journal."""
        nodes = [each for each in Fleets(self.settings.fleets).fleet("orders").of(ROLLS[roll].role) if each.id in ids]
        begin(self.store, self.id, roll, nodes, at=self.clock())
        fleet, kind = Fleets(self.settings.fleets).fleet("orders"), ROLLS[roll].file
        assert kind is not None
        for node in nodes:
            file = Path(node.path)
            before = file.read_bytes()
            after = fleet.render(node, Present(node.path, before), kind).content
            kept = checksum_of(before)
            Path(predecessor_path(node.path, kept)).write_bytes(before)
            file.write_bytes(after)
            for each in self.controllers:
                if each.entry.node_id == node.id:
                    each.stop()
            with self.hosts.acts.open("a") as acts:
                acts.write(f"stop {node.id}\nstart {node.id}\n")
            self.hosts.state(node.id, "running")
            columns: dict[str, Any] = {
                "step": "WHOLE",
                "rendered_from": kept,
                "checksum": checksum_of(after),
                "kind": str(kind),
            }
            began = self.clock()
            self.clock.pass_by(20.0)
            record(self.store, self.id, roll, node.id, at=self.clock(), began_at=began, **columns)

    async def with_files(self) -> None:
        """The service has looked at every file since the last restart."""
        at = self.clock()
        await self.until(lambda: self.snapshot.documents.get("files", {}).get("at", 0.0) > at)

    async def until_brokers(self) -> None:
        """The first part of the rollback is over."""
        await self.until(lambda: bool(self.nodes_of(Roll.BACK)))

    def stock_step(self, node: int) -> str:
        return next((row.step for row in self.nodes_of(Roll.STOCK) if row.node_id == node), "")

    def ours_step(self, node: int) -> str:
        return next((row.step for row in self.nodes_of(Roll.OURS) if row.node_id == node), "")

    def acts_on(self, nodes: Sequence[int], since: int = 0) -> list[str]:
        return [each for each in self.acts[since:] if int(each.split()[1]) in nodes]
