"""The raise of metadata.version after COMPLETED: requested, approved by another person, refused while a node is old."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from migrator.findings.road import VERSION_NOT_RAISED
from migrator.fleet.roll import RollStep
from state_machine.clusters.log_observer import LogBroker, LogController, LogObservation, LogVoter, VoterLevels
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rows.tables import JournalRow, Migration, Operation
from tests.unit.state_machine.world import NODE, World

OLD, NEW = (1, 21), (7, 25)


class Completed(World):
    """A world in COMPLETED with one stock controller and three brokers, every one with software of level 25."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.log.observed = LogObservation(
            problem="",
            leader=NODE,
            epoch=9,
            high_watermark=100,
            migration="POST_MIGRATION",
            brokers=tuple(LogBroker(each, f"i{each}", "KRaft", fenced=False, levels=NEW) for each in range(3)),
            controllers=(LogController(NODE, "c", zk_migration_ready=False, levels=NEW),),
            voters=(LogVoter(NODE, 100, 0, 0),),
        )
        self.log.levels = {NODE: VoterLevels(*NEW, finalized=21)}

    async def to_completed(self) -> None:
        await self.to_dual_write()
        columns = dict.fromkeys(
            ("rack", "failed_in", "kind", "rendered_from", "checksum", "incarnation", "instruction", "cause", "code"),
            "",
        )
        with self.store.writing() as session:
            row = session.get_one(Migration, self.id)
            row.phase, row.since = Phase.COMPLETED, self.clock()
            session.add(
                JournalRow(
                    migration_id=self.id,
                    roll=Roll.STOCK,
                    node_id=NODE,
                    role="controller",
                    step=RollStep.WHOLE,
                    path="/c",
                    detail="",
                    log_end=0,
                    began_at=None,
                    changed_at=self.clock(),
                    **columns,
                )
            )
        self.controller.kill()
        await self.turn(5)

    async def turn(self, count: int = 1) -> None:
        await self.rounds(count, seconds=4.0)

    def broker_with(self, levels: tuple[int, int] | None) -> None:
        """The last broker restarts with other software."""
        first = self.log.observed.brokers[:-1]
        last = msgspec.structs.replace(self.log.observed.brokers[-1], levels=levels, incarnation="other")
        self.log.observed = msgspec.structs.replace(self.log.observed, brokers=(*first, last))

    async def approve(self, who: str = "Bo") -> Operation:
        return await self.run_operation("APPROVE", who=who, to=Phase.COMPLETED)

    async def raise_version(self) -> Operation:
        return await self.run_operation("RAISE_VERSION", who="Ada")


@pytest.fixture
def world(tmp_path: Path) -> Completed:
    return Completed(tmp_path)


def test_metadata_version_is_raised_once_every_node_is_new_and_another_person_agreed(world: Completed) -> None:
    async def story() -> None:
        await world.to_completed()
        assert "every node supports 4.0-IV3 (25)" in world.waiting
        unapproved = await world.raise_version()
        assert unapproved.state == "refused"
        assert "another person approved the raise of metadata.version" in unapproved.answer
        assert world.log.raised == []
        approved = await world.approve()
        assert approved.state == "succeeded", approved.answer
        raised = await world.raise_version()
        assert raised.state == "succeeded", raised.answer
        await world.turn(4)

    asyncio.run(story())
    assert world.log.raised == [25]
    event = world.events[-1]
    assert (event.from_phase, event.to_phase, event.who) == ("COMPLETED", "COMPLETED", "Ada")
    assert "raised metadata.version from 3.9-IV0 (21) to 4.0-IV3 (25)" in event.reason
    assert all(each["status"] == "True" for each in event.verdict["conditions"])
    assert "raised metadata.version" in world.waiting


def test_who_asks_for_the_raise_does_not_approve_it_and_an_approval_counts_once(world: Completed) -> None:
    async def story() -> None:
        await world.to_completed()
        await world.approve(who="Ada")
        own = await world.raise_version()
        assert "Ada requested it and approved it" in own.answer
        await world.approve()
        assert (await world.raise_version()).state == "succeeded"
        world.log.levels = {NODE: VoterLevels(7, 27, finalized=25)}
        world.log.observed = msgspec.structs.replace(
            world.log.observed,
            brokers=tuple(msgspec.structs.replace(each, levels=(7, 27)) for each in world.log.observed.brokers),
            controllers=(LogController(NODE, "c", zk_migration_ready=False, levels=(7, 27)),),
        )
        await world.turn(4)
        again = await world.raise_version()
        assert again.state == "refused"
        assert "there is no approval yet" in again.answer

    asyncio.run(story())
    assert world.log.raised == [25]


@pytest.mark.parametrize(
    "spoil", ["old broker", "broker without range", "voter is silent", "old voter", "finalize only"]
)
def test_the_raise_is_refused_while_a_node_is_old_or_does_not_say(world: Completed, spoil: str) -> None:
    expected = {
        "old broker": "broker 2 support no later one",
        "broker without range": "broker 2 registered no range",
        "voter is silent": "voter 3000: it is away",
        "old voter": "voter 3000 support no later one",
        "finalize only": "approve FINALIZING",
    }[spoil]

    async def story() -> str:
        await world.to_completed()
        match spoil:
            case "old broker":
                world.broker_with(OLD)
            case "broker without range":
                world.broker_with(None)
            case "voter is silent":
                world.log.levels = {NODE: "it is away"}
            case "old voter":
                world.log.levels = {NODE: VoterLevels(*OLD, finalized=21)}
        await world.turn(5)
        if spoil == "finalize only":
            return (await world.run_operation("APPROVE", who="Bo", to=Phase.FINALIZING)).answer
        refused = await world.approve()
        assert refused.state == "refused"
        return f"{refused.answer} {(await world.raise_version()).answer}"

    assert expected in asyncio.run(story())
    assert world.log.raised == []


def test_an_approval_ends_when_a_broker_restarts_with_other_software(world: Completed) -> None:
    async def story() -> str:
        await world.to_completed()
        assert (await world.approve()).state == "succeeded"
        world.broker_with((7, 26))
        await world.turn(2)
        return (await world.raise_version()).answer

    assert "the plan or the evidence changed after Bo approved" in asyncio.run(story())
    assert world.log.raised == []


def test_a_controller_that_refuses_the_raise_is_quoted_and_nothing_else_changes(
    world: Completed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_machine.finish.version_raise.SHOWN_S", 0.1)
    world.log.refuses = "controller 3000 answers error 95: broker 7 does not support it"

    async def story() -> str:
        await world.to_completed()
        await world.approve()
        refused = await world.raise_version()
        assert refused.state == "refused"
        return refused.answer

    said = asyncio.run(story())
    assert said.startswith(VERSION_NOT_RAISED.code)
    assert VERSION_NOT_RAISED.code == "Z2K-4229"
    assert "broker 7 does not support it" in said
    assert world.steps[-1] == "DUAL_WRITE"
