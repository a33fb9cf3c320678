"""FINALIZING until its first controller is stopped: the gate is asked again, and pause and windows hold it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from migrator.findings.road import FINALIZE_WAITS
from migrator.zk import paths
from state_machine.clusters.observe import ZooKeeperObservation
from state_machine.evidence.after_dual_write import digest_of
from state_machine.finish.intent import FinalizeIntent
from state_machine.nodes.fleet import Fleets
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rolling.journal import begin, record
from state_machine.rows.documents import INTENT, SOAK, SoakDocument
from state_machine.rows.tables import Approval, AuditRun, PhaseEvent
from state_machine.work import acts_after_dual_write
from tests.unit.state_machine.fakes import BROKERS_SAY_SO
from tests.unit.state_machine.rolling.test_rolling import codes
from tests.unit.state_machine.under_stock import NODES, UnderStock


class Finalizing(UnderStock):
    """As the gate before FINALIZING wants it. intents: what was written to ZooKeeper."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.settings = self.settings.model_copy(update={"soak_s": 0.0, "brokers_gone_s": 0.0, "audit_every_s": 0.0})
        self.intents: list[str] = []
        self.start_service()

    def write_intent(self, connect: str, intent: FinalizeIntent) -> str:
        self.intents.append(msgspec.json.encode(intent).decode())
        return self.intents[-1]

    def enter(self, phase: Phase, who: str = "ann") -> None:
        """As a step of that person leaves the rows."""
        self._enter(phase)
        row = self.snapshot.migration
        with self.store.writing() as session:
            session.add(
                PhaseEvent(
                    migration_id=self.id,
                    version=1000 + len(self.events),
                    from_phase="",
                    to_phase=phase,
                    trigger="ADVANCE",
                    who=who,
                    reason="",
                    at=row.since,
                    recorded_at=row.since,
                    source_run="service",
                    source_number=1000 + len(self.events),
                    operation_id=None,
                    verdict={},
                )
            )

    async def to_finalizing(self) -> None:
        await self.to_replacing(*NODES)
        self.enter(Phase.SOAK, "service")
        began = self.snapshot.migration.since
        await self.store.away(self.soaked)
        await self.turn(3)
        await self.with_files()
        self.keep_soak(began)
        self.agree()
        self.enter(Phase.FINALIZING)

    def soaked(self) -> None:
        nodes = Fleets(self.settings.fleets).fleet("orders").of("controller")
        begin(self.store, self.id, Roll.SOAK, nodes, at=self.clock())
        for node in nodes:
            record(self.store, self.id, Roll.SOAK, node.id, at=self.clock(), step="WHOLE", began_at=self.clock())

    def keep_soak(self, began: float) -> None:
        soak = SoakDocument(began, 5, NODES[0], NODES, 2, began, {str(node): 50 for node in NODES})
        self.store.record_document(self.id, SOAK, msgspec.to_builtins(soak), at=self.clock())

    def agree(self) -> None:
        """An audit that passed, a backup, and the approval of another person."""
        now = self.clock()
        self.store.record_backup(self.id, file="b", phase="FINALIZING", sha256="", size_bytes=1, at=now)
        snapshot = self.snapshot
        with self.store.writing() as session:
            session.add(
                Approval(
                    migration_id=self.id,
                    to_phase="FINALIZING",
                    who="bo",
                    reason="",
                    at=now,
                    digest=digest_of(snapshot),
                    document={},
                )
            )
            session.add(
                AuditRun(
                    migration_id=self.id,
                    purpose="schedule",
                    engine="quick",
                    state="done",
                    who="service",
                    asked_at=now,
                    finished_at=now,
                    same=True,
                    families=[],
                    seconds={},
                    position={},
                    problem="",
                    brokers=BROKERS_SAY_SO,
                    brokers_passed=True,
                )
            )

    @property
    def steps_of_final(self) -> set[str]:
        return {row.step for row in self.nodes_of(Roll.FINAL)}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finalizing:
    made = Finalizing(tmp_path)
    monkeypatch.setattr(acts_after_dual_write, "write_intent", made.write_intent)
    return made


WINDOW = {"days": ["mon"], "start": "00:00", "end": "00:01"}


def assert_nothing_began(world: Finalizing) -> None:
    assert world.intents == []
    assert INTENT not in world.snapshot.documents
    assert world.steps_of_final <= {"PENDING", "PREPARED"}
    for node in NODES:
        assert "migration.enable=true" in world.files[node].read_text()


def test_the_intent_is_written_with_the_first_stop_when_the_whole_gate_still_holds(world: Finalizing) -> None:
    async def story() -> list[str]:
        await world.to_finalizing()
        before = len(world.acts)
        await world.until(lambda: "STOPPING" in world.steps_of_final, 30)
        await world.turn(2)
        return world.acts[before:]

    acts = asyncio.run(story())
    assert acts[0].startswith("stop 300")
    (intent,) = (json.loads(each) for each in world.intents)
    assert (intent["who"], intent["approved_by"]) == ("ann", "bo")
    assert world.snapshot.documents[INTENT]["path"] == paths.FINALIZE_INTENT


def old_approval(world: Finalizing) -> None:
    with world.store.writing() as session:
        for each in session.query(Approval):
            each.at -= 10 * 3600.0
        for step in session.query(PhaseEvent):
            step.at -= 20 * 3600.0
    world.keep_soak(world.snapshot.migration.since - 20 * 3600.0)


def drifted(world: Finalizing) -> None:
    world.files[NODES[1]].write_text(world.files[NODES[1]].read_text() + "# by hand\n")


def gone(world: Finalizing) -> None:
    """ZooKeeper is away (E30)."""
    world.zookeeper.observed = ZooKeeperObservation(problem="Z2K-2001", code="Z2K-2001")


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (old_approval, "another person approved FINALIZING"),
        (drifted, "every file is as rendered"),
        (gone, "/controller is held by this quorum"),
    ],
)
def test_a_gate_that_closed_since_the_order_keeps_the_first_controller_running(
    world: Finalizing, happens: Callable[[Finalizing], None], said: str
) -> None:
    async def story() -> None:
        await world.to_finalizing()
        happens(world)
        await world.turn(15)

    asyncio.run(story())
    assert_nothing_began(world)
    assert said in world.waiting
    assert FINALIZE_WAITS.code == "Z2K-4235"
    assert "Z2K-4235" in codes(world)


def test_a_pause_between_order_and_first_stop_leaves_no_intent(world: Finalizing) -> None:
    async def story() -> None:
        await world.to_finalizing()
        world.store.pause(world.operation("PAUSE"), at=world.clock())
        await world.turn(15)

    asyncio.run(story())
    assert_nothing_began(world)
    assert "paused" in world.waiting


def test_outside_of_the_maintenance_windows_there_is_no_intent(world: Finalizing, tmp_path: Path) -> None:
    file = tmp_path / "fleets" / "orders.yaml"

    async def story() -> None:
        inventory = json.loads(file.read_text())
        inventory["maintenance_windows"] = [WINDOW]
        await world.to_finalizing()
        file.write_text(json.dumps(inventory))
        await world.turn(15)

    asyncio.run(story())
    assert_nothing_began(world)
    assert "maintenance windows" in world.waiting


def test_an_approval_that_ended_while_the_finalize_waits_can_be_given_again(world: Finalizing) -> None:
    """Before, FINALIZING waited for ever: nothing could be approved in it (found by a review)."""

    async def story() -> None:
        await world.to_finalizing()
        old_approval(world)
        await world.until(lambda: "is older than 4 h" in world.waiting, 20)
        digest = digest_of(world.snapshot)
        operation = await world.run_operation("APPROVE", who="bo", to=Phase.FINALIZING, digest=digest)
        assert operation.state == "succeeded", operation.answer
        await world.until(lambda: "STOPPING" in world.steps_of_final, 60)

    asyncio.run(story())
    assert len(world.intents) == 1
