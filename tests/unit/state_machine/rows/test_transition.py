"""One transaction per step: a crash at any moment leaves the row and the phase together, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm import Session
from sqlalchemy.orm.exc import StaleDataError

from migrator.findings.finding import FindingError
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Waiting
from state_machine.policy.phases import Phase, Trigger
from state_machine.rows.observations import record_outcome
from state_machine.rows.store import NewOperation, Store, find_migration, move_cursor
from state_machine.rows.tables import DriverCursor, Migration, PhaseEvent
from state_machine.rows.transition import SERVICE, GateClosed, PhaseStep, StepSource, take
from tests.support.stores import a_store
from tests.unit.state_machine.world import an_inventory

SEEN = Evidence(observation_age_s=0.1)
NOW = 1_000.0


class Crashed(BaseException):
    """As a power cut: nothing catches it."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = a_store(tmp_path)
    made.create(an_inventory(tmp_path), who="test", at=1.0)
    yield made
    made.close()


def a_step(trigger: Trigger = Trigger.ADVANCE, source: StepSource | None = None, **changes: Any) -> PhaseStep:
    fields = {
        "trigger": trigger,
        "source": source or StepSource(SERVICE, 1),
        "at": 5.0,
        "who": "Ada",
        "reason": "why not",
    }
    return PhaseStep(**{**fields, **changes})


def step(store: Store, made: PhaseStep, version: int = 1) -> PhaseEvent:
    return take(store, 1, made, expected_version=version, evidence=SEEN, now=NOW)


def in_phase(store: Store, phase: Phase) -> None:
    """As if the rows before had been written."""
    with store.writing() as session:
        find_migration(session, 1).phase = phase


def crash_at(moment: str) -> Callable[[], None]:
    """Crash once, at a moment of the session's life; returns what lets the world live on."""

    def crash(*_: object) -> None:
        raise Crashed

    event.listen(Session, moment, crash)
    return lambda: event.remove(Session, moment, crash)


@pytest.mark.parametrize("moment", ["before_flush", "after_flush", "before_commit", "after_commit"])
def test_a_crash_at_any_moment_leaves_exactly_one_row_when_the_step_is_repeated(store: Store, moment: str) -> None:
    source = StepSource("run-1", 7, ends_entry=True)
    in_phase(store, Phase.READY)
    made = a_step(Trigger.TAKEOVER_BEGAN, source)
    live_on = crash_at(moment)
    with pytest.raises(Crashed):
        step(store, made)
    live_on()
    written = [event.to_phase for event in store.events(1)]
    snapshot = store.snapshot(1)
    assert written == ([] if snapshot.phase is Phase.READY else ["TAKEOVER"]), "row and phase are together"
    assert (snapshot.cursors == {"run-1": 7}) is bool(written), "and so is the cursor"
    if not written:
        step(store, made)
    with pytest.raises(FindingError):
        step(store, made)
    assert [event.to_phase for event in store.events(1)] == ["TAKEOVER"]


def test_a_step_settles_its_operation_in_the_same_transaction(store: Store) -> None:
    operation, _ = store.record_operation(1, NewOperation(name="ADVANCE", who="Ada", reason=""), at=4.0)
    live_on = crash_at("before_commit")
    with pytest.raises(Crashed):
        step(store, a_step(operation_id=operation.id))
    live_on()
    assert store.operation(1, operation.id).state == "recorded"
    step(store, a_step(operation_id=operation.id))
    assert store.operation(1, operation.id).state == "succeeded"
    assert [event.version for event in store.events(1, operation_id=operation.id)] == [2]


def test_a_version_that_moved_is_refused(store: Store) -> None:
    step(store, a_step())
    with pytest.raises(FindingError, match="Z2K-4006"):
        step(store, a_step(source=StepSource(SERVICE, 2)), version=1)


def test_a_writer_that_read_an_older_version_cannot_win(store: Store) -> None:
    """The update names the version that was read, whatever was written in between."""
    with store.reading() as session:
        early = find_migration(session, 1)
    step(store, a_step())
    with pytest.raises(StaleDataError):
        change_waiting(store, early)


def change_waiting(store: Store, row: Migration) -> None:
    with store.writing() as session:
        session.merge(row, load=False).waiting = "an old reason"


def test_one_entry_of_a_history_is_written_once_even_without_the_version(store: Store) -> None:
    """The second unique of the table; the first (the version) would be passed by a confused caller."""
    in_phase(store, Phase.READY)
    source = StepSource("run-1", 7)
    step(store, a_step(Trigger.TAKEOVER_BEGAN, source))
    in_phase(store, Phase.READY)
    with pytest.raises(FindingError, match="Z2K-4006"):
        step(store, a_step(Trigger.TAKEOVER_BEGAN, source), version=2)
    assert len(store.events(1)) == 1


def test_a_closed_gate_writes_nothing_and_says_every_failed_check(store: Store) -> None:
    in_phase(store, Phase.PREFLIGHT)
    with pytest.raises(GateClosed) as refused:
        step(store, a_step())
    assert len(refused.value.verdict.failed) == 3
    assert store.events(1) == []
    assert store.snapshot(1).phase is Phase.PREFLIGHT


def test_a_step_outside_the_table_is_refused_by_name(store: Store) -> None:
    with pytest.raises(FindingError, match="possible here: advance, rollback"):
        step(store, a_step(Trigger.ABORT))


def test_a_step_that_asks_the_driver_is_never_written_when_it_is_asked(store: Store) -> None:
    in_phase(store, Phase.READY)
    with pytest.raises(AssertionError, match="its history will show"):
        step(store, a_step())


def test_the_row_says_when_it_happened_and_when_it_was_written(store: Store) -> None:
    event = step(store, a_step())
    assert (event.at, event.recorded_at) == (5.0, NOW)
    assert event.verdict["holds"]


def test_a_reason_to_wait_is_no_new_version(store: Store) -> None:
    record_outcome(store, 1, Waiting("brokers [2]"), at=NOW)
    assert store.snapshot(1).migration.version == 1
    row = store.snapshot(1).migration
    assert (row.waiting, row.outcome) == ("waiting: brokers [2]", "waiting")


def test_the_cursor_of_a_run_only_knows_the_last_entry(store: Store) -> None:
    for number in (3, 4):
        with store.writing() as session:
            move_cursor(session, 1, "run-1", number)
    with store.reading() as session:
        assert [row.number for row in session.scalars(select(DriverCursor))] == [4]
