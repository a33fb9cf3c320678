"""SOAK: each stock controller leads once, one election at a time, and only while everything is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from state_machine.clusters.log_observer import LogBroker, LogController, LogObservation, LogVoter
from state_machine.finish.soak import SoakActs
from state_machine.policy.gates import Evidence
from state_machine.policy.phases import Phase
from state_machine.rows.tables import Migration
from tests.unit.state_machine.policy.test_road_gates import NODES, evidence
from tests.unit.state_machine.world import World


class Soaking(World):
    """A world in SOAK, with three stock voters of which the first leads; every condition holds unless told."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.log.observed = LogObservation(
            problem="",
            leader=NODES[0],
            epoch=7,
            high_watermark=100,
            migration="MIGRATION",
            brokers=tuple(LogBroker(each, "i", "KRaft", fenced=False) for each in range(3)),
            controllers=tuple(LogController(each, "i", zk_migration_ready=True) for each in NODES),
            voters=tuple(LogVoter(each, 100, 0, 0) for each in NODES),
        )
        self.ready = evidence()
        acts: Any = self.reconciler._acts
        fleets = acts._road._fleets
        self.soak = SoakActs(self.store, fleets, self.reconciler._observer, self.clock, self.clock)

    async def to_soak(self) -> None:
        await self.to_dual_write()
        with self.store.writing() as session:
            row = session.get_one(Migration, self.id)
            row.phase, row.since = Phase.SOAK, self.clock()

    async def turn(self, ready: Evidence | None = None) -> str:
        """A look, and what the soak does then. Returns why it waits; empty when each one led."""
        observed = await self.reconciler._observer.look(self.inventory, None, self.id, with_log=True)
        snapshot, _ = self.reconciler._keep(self.store.before(self.id), observed)
        await self.soak.note(snapshot)
        outcome = await self.soak.elect(self.snapshot, ready or self.ready)
        self.clock.pass_by(1.0)
        return "" if outcome is None else outcome.words


@pytest.fixture
def world(tmp_path: Path) -> Soaking:
    return Soaking(tmp_path)


def test_each_stock_controller_leads_once_and_one_election_waits_for_the_other(world: Soaking) -> None:
    async def story() -> list[str]:
        await world.to_soak()
        return [await world.turn() for _ in range(40)]

    said = asyncio.run(story())
    assert world.log.asked_to_lead == [3001, 3002]
    assert said[-1] == ""
    assert said[0].startswith("waiting: controller 3001 is elected")
    assert said.count("") > 10  # once each one led, nobody is asked again
    first, second = (next(n for n, each in enumerate(said) if f"controller {node} is" in each) for node in (3001, 3002))
    assert second > first


def test_no_election_is_caused_while_something_is_not_whole_or_steps_are_paused(world: Soaking) -> None:
    async def story() -> tuple[str, str]:
        await world.to_soak()
        not_whole = await world.turn(evidence({"under_replicated": 3}))
        world.store.pause(world.operation("PAUSE"), at=world.clock())
        return not_whole, await world.turn()

    not_whole, paused = asyncio.run(story())
    assert world.log.asked_to_lead == []
    assert "under-replicated partitions: 3" in not_whole
    assert "paused by Ada" in paused
