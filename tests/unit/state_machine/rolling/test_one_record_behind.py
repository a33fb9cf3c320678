"""A log that never rests: whoever looks right after a commit sees the slowest voter one record behind, in every look.

Seen on a real quorum: a stock controller was "1 records behind" for 360 s beside a busy machine, and failed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from state_machine.clusters.log_observer import LogVoter
from state_machine.facts.voters import CAUGHT_UP_MS, has_what_is_committed
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from tests.unit.state_machine.under_stock import NODES, UnderStock


class Behind(UnderStock):
    """caught_up_ms_ago: of every voter that runs and does not lead; each is one record behind."""

    caught_up_ms_ago: int | None = 300

    def register(self) -> None:
        super().register()
        observed = self.log.observed
        voters = tuple(
            each
            if each.id == observed.leader or each.lag
            else msgspec.structs.replace(each, lag=1, caught_up_ms_ago=self.caught_up_ms_ago)
            for each in observed.voters
        )
        self.log.observed = msgspec.structs.replace(observed, voters=voters)


def test_controllers_are_replaced_while_the_log_never_rests(tmp_path: Path) -> None:
    world = Behind(tmp_path)

    async def story() -> None:
        await world.to_replacing()
        await world.until(lambda: world.phase is Phase.SOAK, 900)

    asyncio.run(story())
    assert {row.step for row in world.nodes_of(Roll.STOCK)} == {"WHOLE"}


def test_one_that_does_not_catch_up_is_not_whole(tmp_path: Path) -> None:
    world = Behind(tmp_path)

    async def story() -> None:
        await world.to_replacing()
        await world.until(lambda: any(world.stock_step(node) == "STARTED" for node in NODES), 300)
        world.caught_up_ms_ago = CAUGHT_UP_MS + 1
        await world.turn(20)
        assert "it has what is committed: it is 1 records behind" in world.waiting

    asyncio.run(story())
    assert "WHOLE" not in {row.step for row in world.nodes_of(Roll.STOCK)}


@pytest.mark.parametrize(
    ("lag", "caught_up_ms_ago", "has"),
    [
        *((0, None, True), (0, 60_000, True), (1, 0, True), (7, CAUGHT_UP_MS, True)),
        *((1, CAUGHT_UP_MS + 1, False), (1, None, False), (None, None, False), (None, 5, False)),
    ],
)
def test_what_a_voter_has(lag: int | None, caught_up_ms_ago: int | None, has: bool) -> None:
    assert has_what_is_committed(LogVoter(3000, 100, lag, 0, caught_up_ms_ago)) is has
