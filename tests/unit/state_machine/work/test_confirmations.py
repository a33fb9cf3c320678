"""A small rehearsal is judged by the quick engine at once; Spark confirms beside it and can close the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.findings.service import AUDIT_PROCESS_ENDED, CONFIRMATION_DISAGREES, SPARK_SAID_NOTHING
from state_machine.audits import audit_rows
from state_machine.children.commands import Result
from state_machine.policy.gates import takeover_may_begin
from state_machine.rows.observations import findings
from state_machine.rows.tables import AuditRun
from tests.unit.state_machine.fakes import PASSED_AUDIT, REHEARSED, FakeRunner, red_audit
from tests.unit.state_machine.world import World, a_world


class TwoEngines(FakeRunner):
    """spark: what the Spark engine answers; None: it is still at it."""

    spark: Result | None = Result(0, PASSED_AUDIT, "")
    at_it: asyncio.Task[Any] | None = None
    """The inspection that waits for Spark."""

    async def run(self, *arguments: str, limit_s: float) -> Result:
        answer = await super().run(*arguments, limit_s=limit_s)
        if "spark" not in arguments:
            return answer
        while self.spark is None:
            self.at_it = asyncio.current_task()
            await asyncio.sleep(3600)
        return self.spark


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with a_world(tmp_path) as made:
        made.runner = TwoEngines()
        made.start_service()
        row = made.store.snapshot(made.id)
        changed = msgspec.structs.replace(row.inventory, audit_engine="spark")
        made.store.change_inventory(made.id, changed, who="test", reason="", at=made.clock())
        made.inventory = changed
        yield made


def engines(world: World) -> list[tuple[str, str]]:
    """Oldest first."""
    return [(run.purpose, run.engine) for run in reversed(audit_rows.audits(world.store, world.id))]


def runner(world: World) -> Any:
    return world.runner


def confirmation(world: World) -> AuditRun:
    return next(run for run in audit_rows.audits(world.store, world.id) if run.purpose == "confirmation")


def codes(world: World) -> set[str]:
    return {each.code for each in findings(world.store, world.id, only_open=True)}


def test_the_gate_opens_on_the_quick_engines_word_while_spark_is_still_at_it(world: World) -> None:
    runner(world).spark = None

    async def all_but_spark_end() -> None:
        tasks = [task for task, _ in world.inspections._running.values()]
        async with asyncio.timeout(60):
            while not all(task.done() or task is runner(world).at_it for task in tasks):
                await asyncio.sleep(0.005)
        world.inspections.reap(world.id)

    world.inspections_end = all_but_spark_end  # type: ignore[method-assign]

    async def story() -> None:
        await world.to_ready()
        await world.rounds(3)
        assert takeover_may_begin(world.evidence).holds, world.waiting
        assert engines(world) == [("rehearsal", "quick"), ("confirmation", "spark")]
        await world.inspections.stop(world.id)

    asyncio.run(story())
    assert confirmation(world).state == "stopped", "it was cut off by the takeover, and says nothing"


def test_spark_reads_the_same_copy_with_what_moved_expected(world: World) -> None:
    async def story() -> None:
        await world.to_ready()
        await world.rounds(3)

    asyncio.run(story())
    quick, spark = [run for run in runner(world).runs if run[0] == "audit"]
    assert quick[quick.index("--kraft") + 1] == spark[spark.index("--kraft") + 1]
    assert "--allow-moved" in quick
    assert "--allow-moved" in spark
    assert confirmation(world).state == "done"


def test_spark_that_disagrees_closes_the_gate_until_it_agrees(world: World) -> None:
    runner(world).spark = Result(1, red_audit("orders-0"), "")

    async def story() -> None:
        await world.to_ready()
        await world.rounds(4)
        assert not takeover_may_begin(world.evidence).holds
        failed = {code for check in takeover_may_begin(world.evidence).failed for code in check.codes}
        assert CONFIRMATION_DISAGREES.code in failed & codes(world)
        runner(world).spark = Result(0, PASSED_AUDIT, "")
        await world.rounds(6, seconds=60.0)
        await world.rounds(3)

    asyncio.run(story())
    assert takeover_may_begin(world.evidence).holds, world.waiting
    assert CONFIRMATION_DISAGREES.code not in codes(world)


def test_spark_without_a_result_is_said_and_closes_nothing(world: World) -> None:
    runner(world).spark = Result(-9, None, "Z2K-5003 Spark gave up")

    async def story() -> None:
        await world.to_ready()
        await world.rounds(4)

    asyncio.run(story())
    verdict = takeover_may_begin(world.evidence)
    assert verdict.holds
    assert "Z2K-5003 Spark gave up" in str([check.message for check in verdict.conditions])
    assert SPARK_SAID_NOTHING.code in codes(world)


def test_an_audit_that_the_warm_process_did_not_answer_counts_and_is_said_until_the_next_one(world: World) -> None:
    note = AUDIT_PROCESS_ENDED.found(reason="it ended")
    runner(world).spark = Result(0, PASSED_AUDIT, "", note)

    async def story() -> None:
        await world.to_ready()
        await world.rounds(4)
        assert confirmation(world).state == "done"
        assert takeover_may_begin(world.evidence).holds, world.waiting
        assert AUDIT_PROCESS_ENDED.code in codes(world)
        runner(world).spark = Result(0, PASSED_AUDIT, "")
        await world.rounds(8, seconds=60.0)
        await world.rounds(3)

    asyncio.run(story())
    assert AUDIT_PROCESS_ENDED.code not in codes(world)


def test_a_large_rehearsal_is_judged_by_spark_alone(world: World) -> None:
    world.runner.results["rehearse"] = Result(0, {**REHEARSED, "znodes": 200_000}, "")

    async def story() -> None:
        await world.to_ready()
        await world.rounds(3)

    asyncio.run(story())
    assert engines(world)[0] == ("rehearsal", "spark")
    assert "confirmation" not in dict(engines(world))


def test_one_that_was_asked_for_before_the_takeover_is_not_begun_in_the_window(world: World) -> None:
    async def story() -> None:
        await world.to_dual_write()
        audit_rows.ask_audit(
            world.store, world.id, purpose="confirmation", engine="spark", who="service", at=world.clock()
        )
        await world.rounds(2)

    asyncio.run(story())
    assert confirmation(world).state == "stopped"
