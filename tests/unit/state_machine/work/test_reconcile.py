"""The loop, round by round, against a faked cluster: what it does in each phase, and what it says while it waits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.driver import BROKERS_FORWARD_NOTHING
from migrator.findings.service import CONTROLLER_DOES_NOT_STAY
from migrator.model.verdict import Condition, Verdict
from state_machine.audits import audit_rows
from state_machine.children.commands import Result
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Outcome
from state_machine.policy.phases import TRANSITIONS, Phase, Trigger
from state_machine.rows.observations import findings
from state_machine.rows.store import Snapshot, find_migration
from tests.unit.state_machine.fakes import OPEN, PASSED_CHECK, red_audit
from tests.unit.state_machine.world import Clock, World, a_world, properties


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        yield made


WAY_TO_DUAL_WRITE = [
    "PREFLIGHT",
    "QUORUM",
    "BROKERS_JOINING",
    "READY",
    "TAKEOVER",
    "COPY",
    "AUDIT",
    "DUAL_WRITE",
]


def test_the_whole_way_there_and_back_has_one_row_per_transition(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.on_ask = lambda operation: world.rollback()
        await world.run_operation("ROLL_BACK")
        await world.rounds(3)

    asyncio.run(story())
    assert world.steps == [*WAY_TO_DUAL_WRITE, "ROLLING_BACK", "ROLLED_BACK"]
    assert world.controller.asked == ["takeover", "rollback"]
    assert world.launcher.launched == [3000]


def test_a_retired_controller_is_stopped_once_it_knows_that_every_broker_forwards_requests(world: World) -> None:
    finding = BROKERS_FORWARD_NOTHING.found(brokers=[2], count=1).as_json()

    async def story() -> None:
        await world.to_dual_write()
        world.controller.on_ask = lambda operation: world.rollback()
        await world.run_operation("ROLL_BACK")
        for since_s, alarms in ((1, []), (45, [finding]), (3_600, [finding])):
            world.controller.since_ms, world.controller.alarms = since_s * 1_000, alarms
            await world.rounds(2)
            assert world.controller.alive, since_s
            shown = {each.code for each in findings(world.store, world.id, only_open=True)}
            assert ("Z2K-2043" in shown) == bool(alarms)
        world.controller.alarms = []
        await world.rounds(2)

    asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK
    assert not world.controller.alive


def test_a_takeover_faster_than_any_look_keeps_the_drivers_own_times(world: World) -> None:
    asyncio.run(world.to_dual_write())
    window = world.events[4:]
    assert [event.to_phase for event in window] == ["TAKEOVER", "COPY", "AUDIT", "DUAL_WRITE"]
    assert [round(event.at - window[0].at, 2) for event in window] == [0.0, 0.01, 0.02, 0.06]
    assert window[0].who == "Ada"
    assert "it is time" in window[0].reason
    assert {event.source_run for event in window} == {"run-1"}


def test_the_verdict_that_allowed_the_takeover_is_kept_with_its_row(world: World) -> None:
    asyncio.run(world.to_dual_write())
    verdict = world.events[4].verdict
    assert verdict["holds"]
    assert "that rehearsal is under 10 minutes old" in [check["name"] for check in verdict["conditions"]]


def test_nothing_is_started_before_quorum(world: World) -> None:
    asyncio.run(world.to_preflight())
    assert world.phase is Phase.PREFLIGHT
    assert world.launcher.launched == []
    assert world.waiting == "ready: `zk2kraft advance` starts the controllers"


def test_preflight_waits_for_what_check_finds(world: World) -> None:
    found = {"code": "Z2K-1002", "severity": "blocks", "says": "/brokers/topics/a has no topic_id."}
    world.runner.results["check"] = Result(2, {**PASSED_CHECK, "exit": 2, "findings": [found]}, "")

    async def story() -> str:
        await world.to_preflight()
        return (await world.run_operation("ADVANCE")).state

    assert asyncio.run(story()) == "refused"
    assert "no topic_id" in world.waiting
    assert world.phase is Phase.PREFLIGHT


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [(-1, "it was stopped after 900 s"), (1, "OSError: [Errno 24] Too many open files"), (0, "exit code 0")],
)
def test_a_check_without_a_result_opens_no_gate(world: World, exit_code: int, words: str) -> None:
    world.runner.results["check"] = Result(exit_code, None, words)
    asyncio.run(world.to_preflight())
    assert words in world.waiting
    assert not world.waiting.startswith("ready")


@pytest.mark.parametrize(
    ("change", "code"),
    [({"gates": "auto"}, "Z2K-4011"), ({"zookeeper": "zk:2181/other"}, "Z2K-1014")],
    ids=["gates=auto", "another chroot"],
)
def test_a_controller_whose_file_does_not_fit_is_not_started(world: World, change: dict[str, Any], code: str) -> None:
    async def story() -> None:
        await world.to_preflight()
        entry = world.inventory.controllers[0]
        Path(entry.properties).write_text(properties(Path(entry.data), **change))
        await world.run_operation("ADVANCE")  # the check was made before the file was changed
        await world.rounds(2)

    asyncio.run(story())
    assert world.launcher.launched == []
    assert code in world.waiting


def test_a_running_controller_is_adopted_and_never_started_twice(world: World) -> None:
    async def story() -> None:
        await world.to_preflight()
        world.controller.start()
        world.controller.move("WAIT_QUORUM", "WAIT_BROKERS")
        await world.run_operation("ADVANCE")
        await world.rounds(3)

    asyncio.run(story())
    assert world.launcher.launched == []
    assert world.phase is Phase.BROKERS_JOINING


def test_waiting_for_brokers_gives_the_drivers_reason(world: World) -> None:
    async def story() -> None:
        await world.to_preflight()
        await world.run_operation("ADVANCE")
        world.controller.brokers = (0, 1)
        await world.rounds(2)
        world.controller.reason = "brokers [2] are not registered and unfenced yet (2/3)"
        await world.rounds(2)

    asyncio.run(story())
    assert world.phase is Phase.BROKERS_JOINING
    assert "brokers [2] are not registered and unfenced yet (2/3)" in world.waiting


def test_ready_keeps_a_rehearsal_fresh(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        first = world.runner.count("rehearse")
        await world.rounds(4, seconds=10)
        assert world.runner.count("rehearse") == first
        await world.rounds(2, seconds=300)
        assert world.runner.count("rehearse") == first + 1

    asyncio.run(story())
    assert world.waiting.startswith("ready:")


def test_a_rehearsal_that_ends_while_a_round_goes_on_is_not_made_twice(world: World) -> None:
    """That round read the rows before the rehearsal was in them."""

    async def story() -> None:
        await world.to_ready()
        before = world.runner.count("rehearse")
        world.clock.pass_by(300)
        await world.reconciler.step(world.id)  # it is old: another one begins
        act = world.reconciler._acts.act

        async def ends_first(snapshot: Snapshot, evidence: Evidence) -> Outcome:
            await asyncio.gather(*(task for task, _ in world.inspections._running.values()))
            world.clock.pass_by(20)
            return await act(snapshot, evidence)

        world.reconciler._acts.act = ends_first  # type: ignore[method-assign]
        await world.reconciler.step(world.id)
        world.reconciler._acts.act = act  # type: ignore[method-assign]
        await world.rounds(2)
        assert world.runner.count("rehearse") == before + 1

    asyncio.run(story())
    assert world.waiting.startswith("ready:")


def test_a_rehearsal_is_as_old_as_what_it_read(world: World) -> None:
    """Reading, copying and the audit may take minutes each; the cluster went on meanwhile."""

    async def story() -> None:
        ask, audit = world.runner.run, world.runner.count

        async def slow(*arguments: str, limit_s: float) -> Result:
            world.clock.pass_by(350 if arguments[0] != "check" else 0)
            return await ask(*arguments, limit_s=limit_s)

        await world.to_ready()
        world.runner.run = slow  # type: ignore[method-assign]
        await world.rounds(1, seconds=300)
        await world.rounds()
        assert audit("rehearse") == 2
        world.runner.run = ask  # type: ignore[method-assign]
        await world.rounds()
        assert "that rehearsal is under 10 minutes old: the last rehearsal began 70" in world.waiting
        await world.rounds(2, seconds=21)
        assert audit("rehearse") == 3, "repeated once it has rested a little"
        await world.rounds()

    asyncio.run(story())
    assert world.waiting == "ready: `zk2kraft advance` takes over"


def test_a_tree_that_still_changes_by_itself_is_not_rehearsed(world: World) -> None:
    async def story() -> tuple[int, int]:
        await world.to_ready()
        world.controller.gate = Verdict((Condition("every replica is in sync", False, "demo-0: in sync (0, 1)"),))
        await world.rounds(2, seconds=400)
        meanwhile = world.runner.count("rehearse")
        assert "every replica is in sync: demo-0: in sync (0, 1)" in world.waiting
        world.controller.gate = OPEN
        await world.rounds(2)
        return meanwhile, world.runner.count("rehearse")

    assert asyncio.run(story()) == (1, 2)


def test_a_rehearsal_whose_audit_is_not_green_closes_the_gate(world: World) -> None:
    world.runner.results["audit"] = Result(1, red_audit("orders-0"), "")

    async def story() -> str:
        await world.to_ready()
        return (await world.run_operation("ADVANCE")).answer

    assert "the audit of the last rehearsal passed" in asyncio.run(story())
    assert world.phase is Phase.READY
    assert world.controller.asked == []
    run = audit_rows.audits(world.store, world.id)[0]
    assert [each.key for each in audit_rows.differences(world.store, run.id, cursor=0, limit=10)] == ["orders-0"]


def test_a_hold_keeps_everybody_from_the_takeover_and_resume_allows_it(world: World) -> None:
    async def story() -> list[str]:
        await world.to_ready()
        await world.run_operation("PAUSE", reason="lunch")
        refused = await world.run_operation("ADVANCE")
        await world.run_operation("RESUME")
        allowed = await world.run_operation("ADVANCE")
        return [refused.state, allowed.state]

    assert asyncio.run(story()) == ["refused", "accepted"]


def test_an_advance_made_up_before_something_moved_is_refused(world: World) -> None:
    async def story() -> str:
        await world.to_preflight()
        world.operation("ADVANCE")
        with world.store.writing() as session:
            find_migration(session, world.id).version += 1
        await world.rounds()
        return world.store.operations(world.id)[0].answer

    assert "Z2K-4006" in asyncio.run(story())


def test_the_takeover_is_asked_once_however_often_the_loop_goes_round(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        await world.run_operation("ADVANCE")
        await world.rounds(5)

    asyncio.run(story())
    assert world.controller.asked == ["takeover"]
    assert "the takeover that Ada requested" in world.waiting


@pytest.mark.parametrize(("tells", "times"), [(True, 1), (False, 2)], ids=["the driver tells", "an older one"])
def test_a_service_restarted_after_asking_asks_the_same_run_again(world: World, tells: bool, times: int) -> None:
    """When nobody tells whether the first asking arrived; the driver takes the second for the same."""

    async def story() -> None:
        await world.to_ready()
        world.controller.tells_operations = tells
        await world.run_operation("ADVANCE")
        world.start_service()
        await world.rounds(3)

    asyncio.run(story())
    assert world.controller.asked == ["takeover"] * times


def test_an_operation_is_never_handed_to_a_later_run_of_the_controller(world: World) -> None:
    """It could be the one that was tried, aborted and latched."""

    async def story() -> str:
        await world.to_ready()
        operation = await world.run_operation("ADVANCE")
        world.controller.kill()
        world.controller.start("run-2")
        world.controller.move("ABORTING", "ABORTED", reason="an earlier takeover did not end well")
        world.start_service()
        await world.rounds(2)
        return world.store.operation(world.id, operation.id).answer

    assert "restarted after the request" in asyncio.run(story())
    assert world.controller.asked == ["takeover"]


def test_an_aborted_takeover_is_ready_again_with_its_finding(world: World) -> None:
    def fail(operation: str) -> None:
        world.take_over(until="COPYING")
        world.controller.move("ABORTING", "ABORTED", reason="The takeover was not finished after 15000 ms.")
        world.controller.finding = {"code": "Z2K-2015", "says": "The takeover was not finished after 15000 ms."}
        world.zookeeper.broker_rules()

    async def story() -> None:
        await world.to_ready()
        world.controller.on_ask = fail
        await world.run_operation("ADVANCE")
        await world.rounds(2)

    asyncio.run(story())
    assert world.steps[4:] == ["TAKEOVER", "COPY", "ABORTING", "READY"]
    assert "Z2K-2015" in world.waiting


def test_advance_after_an_abort_asks_the_driver_again(world: World) -> None:
    test_an_aborted_takeover_is_ready_again_with_its_finding(world)

    async def story() -> None:
        world.controller.on_ask = lambda operation: world.take_over()
        await world.run_operation("ADVANCE")
        await world.rounds()

    asyncio.run(story())
    assert world.steps[-4:] == ["TAKEOVER", "COPY", "AUDIT", "DUAL_WRITE"]


def test_abort_is_possible_in_every_phase_of_the_window(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        world.controller.on_ask = lambda operation: world.take_over(until="COPYING")
        await world.run_operation("ADVANCE")
        await world.rounds()
        assert world.phase is Phase.COPY
        world.controller.on_ask = lambda operation: world.controller.move(
            "ABORTING", "ABORTED", reason="abort was asked for"
        )
        await world.run_operation("ABORT")
        await world.rounds()

    asyncio.run(story())
    assert world.steps[-2:] == ["ABORTING", "READY"]
    assert world.events[-2].who == "Ada"


def test_an_abort_that_comes_too_late_is_refused_by_name(world: World) -> None:
    async def story() -> str:
        await world.to_ready()
        world.controller.on_ask = lambda operation: world.take_over(until="COPYING")
        await world.run_operation("ADVANCE")
        await world.rounds()
        operation = world.operation("ABORT")
        for state in ("AUDITING", "COMMITTING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE"):
            world.controller.move(state)
        world.controller.audit = {"same": True, "families": []}
        await world.rounds()
        return world.store.operation(world.id, operation.id).answer

    assert "abort is not possible in DUAL_WRITE; possible here: advance, rollback" in asyncio.run(story())


def test_a_controller_that_died_is_started_again_in_dual_write(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.kill()
        await world.rounds()
        assert world.launcher.launched == [3000, 3000]
        world.controller.move("RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")
        await world.rounds(2)

    asyncio.run(story())
    assert world.steps == WAY_TO_DUAL_WRITE, "the same phase, so no new row"


def test_a_controller_that_does_not_stay_is_left_alone_until_resume(world: World) -> None:
    async def story() -> None:
        await world.to_preflight()
        world.launcher.ends_at_once = True
        await world.run_operation("ADVANCE")
        await world.rounds(40, seconds=1)
        assert len(world.launcher.launched) == 5
        assert "5 times" in world.waiting
        assert [each.code for each in findings(world.store, world.id, only_open=True)] == [
            CONTROLLER_DOES_NOT_STAY.code
        ]
        assert "Z2K-3012" in world.waiting
        await world.run_operation("RESUME")
        await world.rounds(2)

    asyncio.run(story())
    assert len(world.launcher.launched) > 5


def test_a_restart_between_commit_and_dual_write_is_proved_by_a_new_audit(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        world.controller.on_ask = lambda operation: world.take_over(until="COMMITTING")
        await world.run_operation("ADVANCE")
        await world.rounds()
        world.controller.kill()
        await world.rounds()
        world.controller.move("RESUMING", "SYNCING", "UPDATING_BROKERS", "DUAL_WRITE")
        await world.rounds()
        assert world.phase is Phase.AUDIT, "its audit is lost with the process"
        assert "audited again" in world.waiting
        await world.rounds(3)

    asyncio.run(story())
    assert world.steps == WAY_TO_DUAL_WRITE
    assert world.events[-1].source_run == "run-2"
    purposes = {each.id: each.purpose for each in audit_rows.audits(world.store, world.id)}
    assert purposes[2] == "copy", purposes  # a later one may be of the schedule already


def test_rollback_is_possible_although_dual_write_could_not_be_proved(world: World) -> None:
    """Never a dead end: the audit says different, and the way back is open."""
    world.runner.results["audit"] = Result(0, red_audit("orders-0"), "")

    async def story() -> None:
        await world.to_preflight()
        await world.run_operation("ADVANCE")
        await world.rounds(2)
        world.take_over()
        world.controller.audit = None
        await world.rounds(3)
        assert world.phase is Phase.AUDIT
        world.controller.on_ask = lambda operation: world.rollback()
        await world.run_operation("ROLL_BACK")
        await world.rounds(2)

    asyncio.run(story())
    assert world.steps[-2:] == ["ROLLING_BACK", "ROLLED_BACK"]


def test_rollback_before_the_takeover_stops_our_controllers(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        await world.run_operation("ROLL_BACK")
        await world.rounds(3)

    asyncio.run(story())
    assert world.steps[-2:] == ["ROLLING_BACK", "ROLLED_BACK"]
    assert not world.controller.alive
    assert world.controller.asked == []


def test_rollback_from_ready_undoes_a_takeover_that_began_meanwhile(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        await world.run_operation("ROLL_BACK")
        world.controller.start("run-9")
        world.controller.move("WAIT_BROKERS", "TAKING_OVER", "COPYING")
        world.controller.on_ask = lambda operation: world.controller.move("ABORTING", "ABORTED")
        await world.rounds(4)

    asyncio.run(story())
    assert "abort" in world.controller.asked
    assert world.phase is Phase.ROLLED_BACK
    assert not world.controller.alive


def test_a_release_with_all_of_ours_dead_is_observed_in_zookeeper(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.kill()
        world.zookeeper.broker_rules()
        await world.rounds(2)

    asyncio.run(story())
    assert world.steps[-1] == "ROLLED_BACK"
    assert world.events[-1].trigger == "FOUND_ROLLED_BACK"
    assert world.launcher.launched == [3000], "it is not started again"


def test_a_refused_rollback_is_dual_write_again(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.on_ask = lambda operation: world.controller.move("ROLLING_BACK", "DUAL_WRITE")
        await world.run_operation("ROLL_BACK")
        await world.rounds()

    asyncio.run(story())
    assert world.steps[-2:] == ["ROLLING_BACK", "DUAL_WRITE"]


def test_a_fenced_driver_stays_in_its_phase_and_blocks_by_name(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        world.controller.finding = {"code": "Z2K-2003", "says": "/controller was changed by somebody else."}
        world.controller.move("FENCED")
        await world.rounds()

    asyncio.run(story())
    assert world.phase is Phase.DUAL_WRITE
    assert world.waiting.startswith("blocked: Z2K-2003")


def test_lost_rows_are_made_again_from_controllers_that_are_on_their_way(world: World) -> None:
    async def story() -> None:
        world.controller.start()
        world.controller.move("WAIT_QUORUM", "WAIT_BROKERS")
        world.brokers_join()
        world.take_over()
        await world.rounds(2)

    asyncio.run(story())
    assert world.steps == WAY_TO_DUAL_WRITE[1:]
    assert world.events[0].trigger == "ADOPTED"


def test_no_inspection_runs_inside_the_window(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        started = asyncio.Event()

        async def slow(*arguments: str, limit_s: float) -> Result:
            started.set()
            await asyncio.sleep(60)
            raise AssertionError

        world.runner.run = slow  # type: ignore[method-assign]
        audit_rows.ask_audit(world.store, world.id, purpose="demand", engine="quick", who="Ada", at=world.clock())
        await world.reconciler.step(world.id)
        await started.wait()
        world.operation("ADVANCE")
        await world.reconciler.step(world.id)

    asyncio.run(story())
    assert world.controller.asked == ["takeover"]
    run = audit_rows.audits(world.store, world.id)[0]
    assert (run.state, run.purpose) == ("stopped", "demand")
    assert "the takeover was about to begin" in run.problem


def test_an_audit_that_an_earlier_life_left_running_has_no_result(world: World) -> None:
    run, _ = audit_rows.ask_audit(
        world.store, world.id, purpose="demand", engine="quick", who="Ada", at=1.0, state="running"
    )
    audit_rows.stop_interrupted(world.store)
    assert audit_rows.audit(world.store, run.id).state == "stopped"


def test_a_rehearsal_that_was_cut_off_leaves_the_green_one_before_it_in_force(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        audit_rows.ask_audit(
            world.store, world.id, purpose="rehearsal", engine="quick", who="service", at=1.0, state="running"
        )
        audit_rows.stop_interrupted(world.store)
        await world.rounds()

    asyncio.run(story())
    assert world.waiting == "ready: `zk2kraft advance` takes over"


def test_wake_begins_a_round_at_once(world: World) -> None:
    world.reconciler._pause_s = 600.0

    async def story() -> None:
        loop = asyncio.create_task(world.reconciler.run())
        while world.snapshot.observation is None:
            await asyncio.sleep(0.01)
        world.operation("ADVANCE")
        world.reconciler.wake()
        async with asyncio.timeout(60):
            while world.phase is Phase.CREATED:
                await asyncio.sleep(0.005)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await world.inspections.stop()

    asyncio.run(story())


def test_a_clock_that_goes_back_keeps_no_controller_from_being_started_again(world: World) -> None:
    """By wall time it would seem to have been started in the future, and to be young, for an hour."""
    steady = Clock()
    world.clock_steady = steady
    world.start_service()

    async def story() -> None:
        await world.to_dual_write()
        steady.pass_by(3_600)
        await world.rounds()
        world.clock.pass_by(-3_600)
        world.controller.stop()
        await world.rounds(3)

    asyncio.run(story())
    assert world.launcher.launched == [3000, 3000]
    assert world.controller.alive


def test_what_is_older_than_a_clock_that_went_back_is_not_fresh(world: World) -> None:
    asyncio.run(world.to_ready())
    assert world.evidence.rehearsal is not None
    world.clock.pass_by(-3_600)
    observed = world.evidence
    assert observed.observation_age_s == observed.rehearsal.age_s == math.inf  # type: ignore[union-attr]
    assert not TRANSITIONS[Phase.READY, Trigger.ADVANCE].gate(observed).holds


def test_a_process_that_is_not_recognised_is_not_told_to_stop_and_that_is_said(world: World) -> None:
    world.launcher.ask_to_stop = lambda pid, entry: False  # type: ignore[method-assign]

    async def story() -> None:
        await world.to_ready()
        await world.run_operation("ROLL_BACK")
        await world.rounds(2)

    asyncio.run(story())
    assert world.controller.alive
    assert "Z2K-4113" in [each.code for each in findings(world.store, world.id, only_open=True)]
