"""FINALIZING given up: back to SOAK until the first start of a controller without the migration flag."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from migrator.fleet.guard import finalize_token
from state_machine.clusters.log_observer import VoterSoftware
from state_machine.clusters.observe import ZooKeeperObservation
from state_machine.finish import give_up
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.policy.undo import is_irreversible, undo_of
from state_machine.rows.documents import INTENT
from state_machine.rows.tables import JournalRow, Migration, PhaseEvent
from state_machine.work import acts_after_dual_write
from tests.unit.state_machine.finish.test_before_finalize import Finalizing, drifted, gone
from tests.unit.state_machine.under_stock import NODES

FLAG = "migration.enable=true"


class GivenUp(Finalizing):
    """With an intent that stands in a ZooKeeper that is faked."""

    def write_intent(self, connect: str, intent: object) -> str:
        text = super().write_intent(connect, intent)  # type: ignore[arg-type]
        self.zookeeper.observed = msgspec.structs.replace(self.zookeeper.observed, intent=text)
        return text

    def delete_intent(self, connect: str, cluster: str) -> None:
        self.deleted.append(cluster)
        self.zookeeper.observed = msgspec.structs.replace(self.zookeeper.observed, intent="")

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.deleted: list[str] = []

    @property
    def flags(self) -> list[bool]:
        return [FLAG in self.files[node].read_text() for node in NODES]

    @property
    def given_up(self) -> PhaseEvent:
        return next(each for each in self.events if (each.trigger, each.to_phase) == ("ABORT", "SOAK"))

    async def give_up(self) -> str:
        operation = self.operation("ABORT", who="Ada")
        await self.until(lambda: self.store.operation(self.id, operation.id).state != "recorded", 60)
        return self.store.operation(self.id, operation.id).answer


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GivenUp:
    made = GivenUp(tmp_path)
    monkeypatch.setattr(acts_after_dual_write, "write_intent", made.write_intent)
    monkeypatch.setattr(acts_after_dual_write, "delete_intent", made.delete_intent)
    return made


@pytest.mark.parametrize("happens", [drifted, gone])
def test_a_finalize_that_waits_is_given_up_and_the_soak_goes_on(
    world: GivenUp, happens: Callable[[Finalizing], None]
) -> None:
    """Also without ZooKeeper: it may be why somebody goes back (E30)."""

    async def story() -> None:
        await world.to_finalizing()
        began = world.snapshot.documents["soak"]["began"]
        happens(world)
        await world.turn(5)
        assert not is_irreversible(Phase.FINALIZING, road=world.evidence.road)
        assert undo_of(Phase.FINALIZING, None, road=world.evidence.road).command == "zk2kraft abort"
        assert await world.give_up() == "FINALIZING to SOAK"
        await world.turn(3)
        assert world.snapshot.documents["soak"]["began"] == began

    asyncio.run(story())
    assert world.phase is Phase.SOAK
    assert world.intents == []
    assert world.flags == [True] * 3
    assert "no controller was stopped" in world.given_up.reason
    assert not [each for each in world.acts if each.startswith("stop 300")][len(NODES) :]


@pytest.mark.parametrize("step", ["STOPPING", "STOPPED"])
def test_a_controller_that_was_stopped_is_put_back_first_and_the_intent_is_deleted(world: GivenUp, step: str) -> None:
    async def story() -> None:
        await world.to_finalizing()
        await world.until(lambda: step in world.steps_of_final, 60)
        assert world.evidence.road is not None
        assert await world.give_up() == "FINALIZING to SOAK"
        assert world.nodes_of(Roll.FINAL) == ()
        await world.turn(3)

    asyncio.run(story())
    assert world.phase is Phase.SOAK
    assert world.flags == [True] * 3
    assert all(world.hosts.runs(node) for node in NODES)
    assert "run again with their kept file" in world.given_up.reason
    assert len(world.deleted) == 1
    assert world.snapshot.documents[INTENT]["withdrawn"] is True
    assert world.evidence.road is not None
    assert world.evidence.road.intent == ""


def test_a_write_that_failed_leaves_no_token_that_allows_a_file_without_the_flag(world: GivenUp) -> None:
    async def story() -> None:
        await world.to_finalizing()
        await world.until(lambda: "STOPPED" in world.steps_of_final, 60)
        row = next(each for each in world.nodes_of(Roll.FINAL) if each.step == "STOPPED")
        approval = world.snapshot.approval
        assert approval is not None
        path, token = finalize_token(approval.digest, row.node_id, b"", str(world.files[row.node_id].parent))
        Path(path).write_bytes(token)
        assert await world.give_up() == "FINALIZING to SOAK"
        assert Path(path).read_text().startswith("withdrawn")

    asyncio.run(story())


def test_a_service_that_dies_while_a_controller_is_put_back_ends_it(world: GivenUp) -> None:
    async def first() -> None:
        await world.to_finalizing()
        await world.until(lambda: "STOPPED" in world.steps_of_final, 60)
        world.operation("ABORT", who="Ada")
        await world.turn(2)

    async def second() -> None:
        await world.until(lambda: world.phase is Phase.SOAK, 60)

    asyncio.run(first())
    world.start_service()
    asyncio.run(second())
    assert world.flags == [True] * 3


def test_after_the_first_start_without_the_flag_nothing_leads_back(world: GivenUp) -> None:
    async def story() -> str:
        await world.to_finalizing()
        await world.until(lambda: "WHOLE" in world.steps_of_final, 60)
        return await world.give_up()

    assert "may have been started with it" in asyncio.run(story())
    assert world.phase is Phase.FINALIZING
    assert is_irreversible(Phase.FINALIZING, road=world.evidence.road)


def restored_database(world: GivenUp) -> None:
    """The journal knows of nothing; a voter answers that it runs without the flag."""
    answers = tuple(VoterSoftware(node, 1, 21, zk_migration_ready=node != NODES[0]) for node in NODES)
    before = world.register

    def register() -> None:
        before()
        world.log.observed = msgspec.structs.replace(world.log.observed, software=answers)

    world.register = register  # type: ignore[method-assign]


def file_without(world: GivenUp) -> None:
    """Journal and voters say nothing; the next start of that host would be without the flag."""
    file = world.files[NODES[1]]
    file.write_text(file.read_text().replace(FLAG, "migration.enable=false"))


@pytest.mark.parametrize(
    ("happens", "said"),
    [(restored_database, "no voter runs without the migration flag"), (file_without, "every controller's file has")],
)
def test_the_journal_alone_is_no_proof_that_nothing_was_started(
    world: GivenUp, happens: Callable[[GivenUp], None], said: str
) -> None:
    async def story() -> str:
        await world.to_finalizing()
        drifted(world)  # so that it waits
        happens(world)
        await world.turn(3)
        await world.with_files()
        return await world.give_up()

    assert said in asyncio.run(story())
    assert world.phase is Phase.FINALIZING


def test_while_it_is_given_up_no_controller_is_stopped(world: GivenUp) -> None:
    """The request cannot be taken at once: the log is not read for a while."""

    async def story() -> None:
        await world.to_finalizing()
        await world.until(lambda: "STOPPED" in world.steps_of_final, 60)
        world.operation("ABORT", who="Ada")
        await world.until(lambda: any(each.step == "BACK" for each in world.nodes_of(Roll.FINAL)), 60)
        stops = [each for each in world.acts if each.startswith("stop 300")]
        with world.store.writing() as session:
            session.get_one(Migration, world.id).paused = None
        await world.turn(2)
        assert [each for each in world.acts if each.startswith("stop 300")] == stops

    asyncio.run(story())


def test_an_intent_that_zookeeper_still_has_is_deleted_as_soon_as_it_answers(world: GivenUp) -> None:
    async def story() -> None:
        await world.to_finalizing()
        await world.until(lambda: "STOPPED" in world.steps_of_final, 60)
        assert await world.give_up() == "FINALIZING to SOAK"
        there = msgspec.structs.replace(world.zookeeper.observed, intent=world.intents[0])
        world.deleted.clear()
        world.zookeeper.observed = ZooKeeperObservation(problem="Z2K-2001", code="Z2K-2001")
        await world.turn(3)
        assert world.deleted == []
        world.zookeeper.observed = there
        await world.turn(1)
        assert world.evidence.road is not None
        await world.turn(2)
        assert len(world.deleted) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("step", "failed_in", "kind", "is_stopped", "is_started"),
    [
        ("PREPARED", "", "final", False, False),
        ("STOPPED", "", "final", True, False),
        ("FAILED", "STOPPED", "final", True, False),
        ("WRITTEN", "", "final", False, True),  # its start may have been ordered
        ("FAILED", "WRITTEN", "final", False, True),
        ("WRITTEN", "", "back", True, False),
        ("BACK", "", "back", False, False),
    ],
)
def test_what_the_journal_says_of_a_first_start_without_the_flag(
    step: str, failed_in: str, kind: str, is_stopped: bool, is_started: bool
) -> None:
    began = None if step == "PREPARED" else 1.0
    row = JournalRow(roll=Roll.FINAL, node_id=7, step=step, failed_in=failed_in, kind=kind, began_at=began)
    snapshot: Any = SimpleNamespace(nodes_of=lambda roll: (row,))
    assert give_up.stopped(snapshot) == ((7,) if is_stopped else ())
    assert give_up.started(snapshot) == ((7,) if is_started else ())
