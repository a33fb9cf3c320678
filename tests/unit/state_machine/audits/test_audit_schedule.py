"""Audits of dual-write by a schedule: when, what two results together mean, and what a restart keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED
from state_machine.audits import audit_rows
from state_machine.children.commands import Result
from state_machine.policy.audit_observations import schedule_checks
from state_machine.policy.gates import rollback_is_possible
from state_machine.policy.phases import Phase
from state_machine.rows.observations import findings
from state_machine.rows.tables import AuditRun
from tests.unit.state_machine.fakes import FAMILIES, PASSED_AUDIT, a_difference, red_audit
from tests.unit.state_machine.world import Clock, World, a_world

EVERY_S = 900.0
RED = Result(1, red_audit("orders-0", "orders-1"), "")
PASSED_AUDITS = Result(0, PASSED_AUDIT, "")
UNREAD = {**a_difference("The audit cannot read a log.", "Z2K-5001"), "kind": "not read"}
NOT_COMPARED = Result(
    2,
    {**PASSED_AUDIT, "same": False, "families": [{**FAMILIES[0], "not_read": 1}], "differences": [UNREAD]},
    "",
)
NO_RESULT = Result(2, None, "Z2K-5001 The audit cannot read the log.")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


def runs(world: World) -> list[AuditRun]:
    """Oldest first."""
    return [run for run in reversed(audit_rows.audits(world.store, world.id)) if run.purpose == "schedule"]


def results(world: World) -> list[str]:
    return [audit_rows.result_of(run) for run in runs(world)]


def codes(world: World) -> set[str]:
    return {each.code for each in findings(world.store, world.id, only_open=True)}


def failed(world: World) -> set[str]:
    return {code for check in schedule_checks(world.evidence.audits) if not check.holds for code in check.codes}


async def an_audit(world: World, result: Result = PASSED_AUDITS) -> None:
    """Time passes until one more has finished."""
    world.runner.results["audit"] = result
    before = len(runs(world))
    for _ in range(120):
        await world.rounds(seconds=10.0)
        if len(runs(world)) > before and runs(world)[-1].finished_at is not None:
            await world.rounds()
            return
    raise AssertionError("no audit was begun")


def test_dual_write_is_audited_soon_and_then_by_its_interval(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        entered = world.clock()
        await an_audit(world)
        assert runs(world)[0].asked_at - entered < 60
        await world.rounds(60, seconds=10.0)
        assert len(runs(world)) == 1, "600 s later none is due"
        await an_audit(world)

    asyncio.run(story())
    first, second = runs(world)
    assert 0.9 * EVERY_S - 20 <= second.asked_at - first.asked_at <= 1.1 * EVERY_S + 20
    assert failed(world) == set(), "the audits keep nobody from going forward"


def test_none_is_begun_beside_another(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        audit_rows.ask_audit(
            world.store, world.id, purpose="demand", engine="quick", who="Ada", at=world.clock(), state="running"
        )
        await world.rounds(200, seconds=10.0)

    asyncio.run(story())
    assert runs(world) == []


def test_one_difference_closes_nothing_two_in_a_row_close_the_way_forward_alone_and_a_pass_opens_it(
    world: World,
) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world)
        await an_audit(world, RED)
        assert AUDITS_DIVERGED.code not in codes(world) | failed(world)
        await an_audit(world, RED)
        assert AUDITS_DIVERGED.code in codes(world) & failed(world)
        back = rollback_is_possible(world.evidence)
        assert back.holds
        assert "2 different" in back.conditions[-1].message
        await an_audit(world, PASSED_AUDITS)

    asyncio.run(story())
    assert results(world) == ["passed", "diverged", "diverged", "passed"]
    first, second = runs(world)[1:3]
    assert second.asked_at - first.asked_at < 120, "a first difference is looked at again soon"
    assert AUDITS_DIVERGED.code not in codes(world) | failed(world)


def test_a_result_that_is_missing_between_two_differences_does_not_hide_them(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        for result in (RED, NO_RESULT, RED):
            await an_audit(world, result)

    asyncio.run(story())
    assert AUDITS_DIVERGED.code in codes(world) & failed(world)


def test_what_could_not_be_compared_is_said_and_looked_at_again_soon_each_time(world: World) -> None:
    """As of the directory of a controller that was killed: the next audit is of another one."""

    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world)
        for _ in range(3):
            await an_audit(world, NOT_COMPARED)

    asyncio.run(story())
    assert results(world) == ["passed", "incomplete", "incomplete", "incomplete"]
    asked = [run.asked_at for run in runs(world)]
    assert all(later - earlier < 120 for earlier, later in pairwise(asked[1:]))
    assert world.evidence.audits is not None
    assert world.evidence.audits.last is not None
    assert world.evidence.audits.last.said.endswith("1 not read: The audit cannot read a log. (Z2K-5001)")


def test_no_pass_for_two_intervals_is_a_finding_and_closes_the_way_forward(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world)
        passed_at = world.clock()
        while world.clock() - passed_at < 2 * EVERY_S + 60:
            await an_audit(world, NO_RESULT)
        assert AUDIT_OVERDUE.code in codes(world) & failed(world)
        assert rollback_is_possible(world.evidence).holds
        await an_audit(world)

    asyncio.run(story())
    assert AUDIT_OVERDUE.code not in codes(world) | failed(world)


def test_a_restart_goes_on_where_it_was(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world, RED)
        await an_audit(world, RED)
        count = len(runs(world))
        world.start_service()
        await world.rounds(3, seconds=10.0)
        assert len(runs(world)) == count, "none is due yet"
        assert AUDITS_DIVERGED.code in codes(world)
        world.clock.pass_by(EVERY_S)
        world.start_service()
        await world.rounds(15, seconds=10.0)
        assert len(runs(world)) == count + 1

    asyncio.run(story())


@pytest.mark.parametrize("jump_s", [-7_200.0, 7_200.0])
def test_a_wall_clock_that_jumps_neither_stops_nor_floods_the_audits(world: World, jump_s: float) -> None:
    steady = world.clock_steady = Clock(5.0)
    world.start_service()

    async def rounds(count: int) -> None:
        for _ in range(count):
            await world.rounds(seconds=10.0)
            steady.pass_by(10.0)

    async def story() -> None:
        await world.to_dual_write()
        await rounds(10)
        world.clock.pass_by(jump_s)
        await rounds(10)
        assert len(runs(world)) == 2, "the age of the last pass was not known, so one was made"
        assert AUDIT_OVERDUE.code not in codes(world)
        await rounds(200)

    asyncio.run(story())
    assert 3 <= len(runs(world)) <= 6


def test_off_is_said_in_the_gate_and_closes_it(world: World) -> None:
    world.settings = world.settings.model_copy(update={"audit_every_s": 0.0})
    world.start_service()

    async def story() -> None:
        await world.to_dual_write()
        await world.rounds(200, seconds=10.0)

    asyncio.run(story())
    assert runs(world) == []
    assert "off: `audit_every_s` is 0" in [check.message for check in schedule_checks(world.evidence.audits)]


def test_an_audit_that_ends_after_dual_write_says_nothing_about_it(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world)
        release = asyncio.Event()

        async def slow(*arguments: str, limit_s: float) -> Result:
            await release.wait()
            return RED

        world.runner.run = slow  # type: ignore[method-assign]
        while runs(world)[-1].state != "running":
            await world.reconciler.step(world.id)
            world.clock.pass_by(10.0)
            await asyncio.sleep(0)
        world.controller.on_ask = lambda operation: world.rollback()
        world.operation("ROLL_BACK")
        for _ in range(4):
            await world.reconciler.step(world.id)
        release.set()
        await world.inspections_end()

    asyncio.run(story())
    assert world.phase in (Phase.ROLLING_BACK, Phase.ROLLED_BACK)
    assert runs(world)[-1].state == "stopped"


def test_a_fault_of_ours_leaves_no_audit_that_runs_for_ever(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()

        async def broken(*arguments: str, limit_s: float) -> Result:
            raise AssertionError("a fault")

        world.runner.run = broken  # type: ignore[method-assign]
        await world.rounds(20, seconds=10.0)

    asyncio.run(story())
    assert {run.state for run in runs(world)} == {"failed"}
    assert "Z2K-4103" in codes(world)
