"""Which audits stay: what a transition rests on, what diverged, one pass a day, and the last ones."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from state_machine.audits import audit_rows
from state_machine.audits.audit_pruning import KeptAudit, needed, prune, removable
from state_machine.policy.phases import Phase
from state_machine.rows.tables import AuditRun, PhaseEvent
from tests.unit.state_machine.fakes import FAMILIES, red_audit
from tests.unit.state_machine.world import a_world

DAY_S = 86_400.0
MIB = 2**20


def a_run(number: int, purpose: str = "schedule", *, red: bool = False, **fields: Any) -> AuditRun:
    """One each quarter of an hour."""
    families = red_audit("orders-0")["families"] if red else FAMILIES
    at = 900.0 * number
    known: dict[str, Any] = {"state": "done", "asked_at": at, "finished_at": at + 5, "same": not red}
    return AuditRun(id=number, purpose=purpose, families=families, **{**known, **fields})


def gone(runs: list[AuditRun], needed_: set[int] | None = None, bytes_max: int = 10**12) -> set[int]:
    kept = [KeptAudit(run, Path("/nowhere"), MIB) for run in runs]
    return {each.run.id for each in removable(kept, needed_ or set(), bytes_max=bytes_max)}


def test_of_those_that_passed_the_first_of_each_day_and_the_last_twenty_stay() -> None:
    runs = [a_run(number) for number in range(1, 301)]
    stay = {run.id for run in runs} - gone(runs)
    assert stay == {1, 96, 192, 288} | set(range(281, 301))


def test_every_one_that_diverged_stays_and_nothing_that_is_not_finished_goes() -> None:
    runs = [a_run(number, red=number == 50) for number in range(1, 101)]
    runs[60] = a_run(61, state="running", finished_at=None)
    assert not {50, 61} & gone(runs, bytes_max=0)


def test_of_rehearsals_the_last_three_stay_however_they_ended_and_what_a_transition_rests_on() -> None:
    runs = [a_run(number, "rehearsal", red=number % 2 == 0) for number in range(1, 11)]
    assert gone(runs, {4}) == {1, 2, 3, 5, 6, 7}


def test_above_the_bytes_the_oldest_go_but_never_what_a_gate_looks_at_now() -> None:
    runs = [a_run(number) for number in range(1, 11)]
    runs[9] = a_run(10, state="failed", same=None)
    assert gone(runs, bytes_max=4 * MIB) == {1, 2, 3, 4, 5, 6}
    assert {run.id for run in runs} - gone(runs, bytes_max=0) == {9, 10}, "the last pass, and the last result"


def test_a_takeover_rests_on_the_last_rehearsal_that_had_ended() -> None:
    runs = [a_run(number, "rehearsal") for number in range(1, 5)]
    events = [PhaseEvent(to_phase=Phase.TAKEOVER, at=900.0 * 3 + 1)]
    assert needed(runs, events) == {2}, "the third one had begun and not ended"


def test_rows_differences_and_directories_go_together(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:
        asyncio.run(world.to_dual_write())
        taken = [run.id for run in audit_rows.audits(world.store, world.id)]
        home = tmp_path / "home"
        numbers = []
        for _ in range(30):
            run, _ = audit_rows.ask_audit(
                world.store, world.id, purpose="demand", engine="quick", who="Ada", at=world.clock()
            )
            (home / "audits" / str(run.id)).mkdir(parents=True)
            (home / "audits" / str(run.id) / "inputs.parquet").write_bytes(b"x" * 100)
            audit_rows.fail(world.store, run.id, "no result", at=world.clock())
            numbers.append(run.id)
        assert prune(world.store, world.id, home, bytes_max=MIB) == numbers[:10]
        stay = [run.id for run in audit_rows.audits(world.store, world.id, limit=99)]
        assert sorted(stay) == sorted([*taken, *numbers[10:]])
        assert sorted(int(each.name) for each in (home / "audits").iterdir()) == numbers[10:]


def test_the_rehearsals_of_a_long_wait_are_bounded_in_rows_and_on_disk(tmp_path: Path) -> None:
    with a_world(tmp_path) as world:

        async def story() -> None:
            await world.to_ready()
            for _ in range(12):
                await world.rounds(2, seconds=150.0)

        asyncio.run(story())
        assert world.runner.count("rehearse") > 8
        assert len(audit_rows.audits(world.store, world.id, limit=99)) <= 4
