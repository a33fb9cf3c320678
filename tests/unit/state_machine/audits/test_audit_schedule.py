"""Audits of dual-write by a schedule: when, what two results together mean, and what a restart keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from migrator.findings.service import AUDIT_OVERDUE, AUDITS_DIVERGED, BROKERS_DIVERGED, BROKERS_NOT_COMPARED
from migrator.fleet.roll import RollStep
from state_machine.audits import audit_rows
from state_machine.audits.audit_schedule import schedule_findings
from state_machine.children.commands import Result
from state_machine.facts.accepted import WaiverFact
from state_machine.policy.audit_observations import schedule_checks
from state_machine.policy.conditions import accepted_brokers, brokers_agree
from state_machine.policy.fleet_evidence import BROKERS, Roll
from state_machine.policy.gates import rollback_is_possible
from state_machine.policy.phases import Phase
from state_machine.rows.observations import findings
from state_machine.rows.tables import AuditRun, JournalRow
from tests.unit.state_machine.fakes import (
    BROKERS_SAY_SO,
    FAMILIES,
    PASSED_AUDIT,
    a_difference,
    brokers_differ,
    red_audit,
)
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


# --- the third side ---------------------------------------------------------------------------------------


def broker_checks(world: World) -> set[str]:
    return {code for check in brokers_agree(world.evidence) if not check.holds for code in check.codes}


def asked_brokers(world: World) -> list[tuple[str, ...]]:
    """What each audit so far said of brokers in its words, oldest first."""
    found = [run for run in world.runner.runs if run[0] == "audit"]
    return [tuple(word for word in run if word in ("--brokers", "registered", "--without")) for run in found]


def test_audits_ask_brokers_from_dual_write_on_and_one_pass_opens_the_way(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        assert asked_brokers(world) == [()], "before the takeover no broker has what the log says"
        assert broker_checks(world) == {BROKERS_NOT_COMPARED.code}
        await an_audit(world)

    asyncio.run(story())
    assert asked_brokers(world)[-1] == ("--brokers", "registered")
    assert broker_checks(world) == set()
    assert schedule_findings(world.evidence.audits, world.clock()) == ()


def test_two_audits_in_a_row_with_a_broker_that_contradicts_the_log_close_the_way_forward_alone(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world)
        await an_audit(world, Result(1, brokers_differ(2), ""))
        assert BROKERS_DIVERGED.code not in codes(world) | broker_checks(world)
        await an_audit(world, Result(1, brokers_differ(2), ""))
        assert BROKERS_DIVERGED.code in codes(world) & broker_checks(world)
        assert rollback_is_possible(world.evidence).holds
        await an_audit(world)

    asyncio.run(story())
    assert results(world) == ["passed"] * 4, "ZooKeeper and the log were equal in all of them"
    first, second = runs(world)[1:3]
    assert second.asked_at - first.asked_at < 120, "a first difference is looked at again soon"
    assert BROKERS_DIVERGED.code not in codes(world) | broker_checks(world)
    told = audit_rows.differences(world.store, first.id, cursor=0, limit=10)
    assert [(each.broker, each.key, each.on_broker, each.log, each.alone, each.rule) for each in told] == [
        (2, "orders-0", 3, 4, "broker", "")
    ]


def test_what_a_broker_lags_with_is_kept_with_that_word(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        report = brokers_differ(2)
        report["brokers"]["differences"] = [{**each, "lags": True} for each in report["brokers"]["differences"]]
        await an_audit(world, Result(1, report, ""))

    asyncio.run(story())
    told = audit_rows.differences(world.store, runs(world)[-1].id, cursor=0, limit=10)
    assert [(each.broker, each.rule) for each in told] == [(2, audit_rows.BROKER_LAGS)]


def test_a_broker_that_never_answers_closes_the_way_until_somebody_accepts_it(world: World) -> None:
    silent = Result(2, brokers_differ(-1, 1), "")

    async def story() -> None:
        await world.to_dual_write()
        for _ in range(4):
            await an_audit(world, silent)

    asyncio.run(story())
    assert results(world)[0] == "passed", "ways back do not ask it"
    assert BROKERS_NOT_COMPARED.code in codes(world) & broker_checks(world)
    known = world.evidence
    assert known.road is not None
    waived = WaiverFact(BROKERS_NOT_COMPARED.code, 1, "its host is gone", "Ada", world.clock() + 3600)
    accepted = replace(known, road=replace(known.road, waivers=(waived,)))
    assert all(check.holds for check in brokers_agree(accepted))
    assert "waived by Ada" in brokers_agree(accepted)[1].message
    assert schedule_findings(accepted.audits, world.clock(), accepted_brokers(accepted)) == ()


def test_a_roll_of_hours_is_nothing_to_call_somebody_for(world: World) -> None:
    """Each audit leaves out the broker that is restarted just then: no finding, and no step forward either."""
    left_out = Result(0, {**PASSED_AUDIT, "brokers": {**BROKERS_SAY_SO, "not_asked": [1]}}, "")

    async def story() -> None:
        await world.to_dual_write()
        for _ in range(4):
            await an_audit(world, left_out)

    asyncio.run(story())
    assert BROKERS_NOT_COMPARED.code not in codes(world)
    assert broker_checks(world) == {BROKERS_NOT_COMPARED.code}


def test_a_pass_of_before_the_last_restart_does_not_count_and_the_next_audit_comes_soon(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world)
        assert broker_checks(world) == set()
        await world.rounds(6, seconds=10.0)
        with world.store.writing() as session:
            session.add(restarted(world, RollStep.STARTED))
        assert broker_checks(world) == {BROKERS_NOT_COMPARED.code}
        await world.rounds(12, seconds=10.0)
        assert len(runs(world)) == 1, "a roll goes on"
        with world.store.writing() as session:
            row = session.get_one(JournalRow, (world.id, Roll.KRAFT, 1))
            row.step, row.changed_at = RollStep.WHOLE, world.clock()
        await world.rounds(3, seconds=2.0)

    asyncio.run(story())
    assert len(runs(world)) == 2
    assert broker_checks(world) == set()


def restarted(world: World, step: RollStep) -> JournalRow:
    return JournalRow(
        migration_id=world.id,
        roll=Roll.KRAFT,
        node_id=1,
        role=BROKERS,
        rack="",
        step=step,
        path="/etc/kafka/server.properties",
        changed_at=world.clock(),
    )


def test_a_broker_that_is_being_restarted_is_left_out(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        with world.store.writing() as session:
            session.add(restarted(world, RollStep.STOPPED))
        await an_audit(world)

    asyncio.run(story())
    said = next(run for run in reversed(world.runner.runs) if run[0] == "audit")
    assert said[said.index("--without") + 1] == "1"


def test_a_broker_that_is_stopped_during_the_audit_was_left_out_and_one_that_failed_is_silent(world: World) -> None:
    silent = Result(2, brokers_differ(-1, 1, 2), "")

    async def story() -> None:
        await world.to_dual_write()
        with world.store.writing() as session:
            session.add(restarted(world, RollStep.STOPPED))
            failed = restarted(world, RollStep.FAILED)
            failed.node_id, failed.failed_in = 2, RollStep.STOPPED
            session.add(failed)
        await an_audit(world, silent)

    asyncio.run(story())
    side = audit_rows.brokers_of(runs(world)[-1])
    assert side is not None
    assert (side.not_asked, [each.broker for each in side.asked if each.problem]) == ([1], [2])


def test_what_another_release_says_of_brokers_loses_nothing_of_the_two_sides(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        await an_audit(world, Result(1, {**PASSED_AUDIT, "same": False, "brokers": {"asked": 7}}, ""))

    asyncio.run(story())
    assert results(world) == ["passed"]
    side = audit_rows.brokers_of(runs(world)[-1])
    assert side is not None
    assert "of another release" in side.problem
    assert broker_checks(world) == {BROKERS_NOT_COMPARED.code}
