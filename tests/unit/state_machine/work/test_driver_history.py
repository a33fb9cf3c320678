"""Rows from a driver's history: the same ones, whatever was missed, repeated, cut off, or lost in a crash.

The driver is driven by its own table (`migrator.driver.machine`), so that no history occurs here that it could not
make. The slow and obvious twin of catching up is a service that looks after every single move.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import event
from sqlalchemy.orm import Session

from migrator.control_api.states import State
from migrator.driver.machine import TRANSITIONS as DRIVER_MOVES
from migrator.driver.machine import Happened
from state_machine.clusters.observe import ControllerObservation, Observation
from state_machine.evidence.of_gates import evidence
from state_machine.policy.gates import Holder, Inspection
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import TRANSITIONS, Phase, Trigger
from state_machine.rows.store import find_migration
from state_machine.rows.tables import PhaseEvent
from state_machine.work.driver_history import catch_up, meaning, unread
from tests.support.statuses import a_status
from tests.support.stores import a_store
from tests.unit.state_machine.world import an_inventory

PASSED_AUDITS = Inspection(passed=True, age_s=0, said="16 keys compared")
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40, stateful_step_count=30)


class Driver:
    """A controller's driver through all its lives: moves by the real table, one history per run."""

    def __init__(self) -> None:
        self.runs = 0
        self.at = 100.0
        self.committed = False
        self.latched = False
        self.begin()

    def begin(self) -> None:
        """A new process: the log decides where it goes on."""
        self.runs += 1
        self.state = State.IDLE
        self.history: list[dict[str, Any]] = []

    @property
    def run(self) -> str:
        return f"run-{self.runs}"

    def possible(self) -> list[Happened]:
        happened = [each for (state, each) in DRIVER_MOVES if state is self.state]
        if self.state is State.IDLE:
            after_restart = Happened.LED_AFTER_ABORT if self.latched else Happened.LED_BEFORE_MIGRATION
            happened = [Happened.LED_IN_MIGRATION if self.committed else after_restart]
        return [each for each in happened if each is not Happened.LEADERSHIP_LOST]

    def move(self, happened: Happened) -> None:
        before, self.state = self.state, DRIVER_MOVES[self.state, happened]
        self.at += 0.01
        self.history.append(
            {
                "number": len(self.history) + 1,
                "at": self.at,
                "from": before.value,
                "to": self.state.value,
                "reason": happened.value,
            }
        )
        self.committed |= happened is Happened.COMMITTED
        self.latched = (self.latched or self.state is State.TAKING_OVER) and self.state is not State.DUAL_WRITE
        if happened in (Happened.UNLATCHED, Happened.CLAIM_REFUSED):
            self.latched = False

    def observed(self, keep: int = 50) -> Observation:
        status = a_status(
            run=self.run,
            quorum={"leader": 3000, "epoch": 1},
            log={"migration": "MIGRATION" if self.committed else "PRE_MIGRATION", "offset": 1},
            driver={
                "state": self.state.value,
                "reason": "as it is",
                "can_roll_back": self.state is State.DUAL_WRITE,
                "history": self.history[-keep:],
            },
        )
        return Observation(self.at, (ControllerObservation(3000, 1, status),))


class Rows:
    """A service that only turns histories into rows, from READY on."""

    def __init__(self, directory: Path, phase: Phase = Phase.READY) -> None:
        self.store = a_store(directory)
        self.store.create(an_inventory(directory), who="test", at=1.0)
        with self.store.writing() as session:
            find_migration(session, 1).phase = phase

    def look(self, driver: Driver, keep: int = 50, proven: bool = True) -> None:
        snapshot = replace(self.store.snapshot(1), observation=driver.observed(keep))
        known = replace(evidence(snapshot, driver.at), copy_audit=PASSED_AUDITS if proven else None)
        if driver.state is State.RETIRED:
            known = replace(known, holder=Holder.ZOOKEEPER_BROKER, committed_migration=False)
        catch_up(self.store, snapshot, known, now=driver.at)

    @property
    def phase(self) -> Phase:
        return self.store.snapshot(1).phase

    @property
    def events(self) -> list[PhaseEvent]:
        return self.store.events(1)

    def steps(self) -> list[tuple[str, str, float]]:
        return [(event.from_phase, event.to_phase, event.at) for event in self.events]


def assert_sound(events: list[PhaseEvent], start: Phase = Phase.READY) -> None:
    """One chain, every link an edge of the table, no step twice, versions without a gap."""
    phase = start
    for number, row in enumerate(events):
        assert row.from_phase == phase
        assert TRANSITIONS[Phase(row.from_phase), Trigger(row.trigger)].to == row.to_phase
        assert row.version == number + 2
        phase = Phase(row.to_phase)
    sources = [(row.source_run, row.source_number, row.to_phase) for row in events]
    assert len(sources) == len(set(sources)), "two rows for one transition"
    assert [row.at for row in events] == sorted(row.at for row in events)


class Life(RuleBasedStateMachine):
    """A driver that lives and dies, a service that looks, misses, repeats and is killed in between."""

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.rows = Rows(Path(self.directory.name))
        self.driver = Driver()

    def teardown(self) -> None:
        if hasattr(self, "rows"):
            self.rows.store.close()
            self.directory.cleanup()

    @rule(choice=st.integers(0, 10), count=st.integers(1, 8))
    def the_driver_moves(self, choice: int, count: int) -> None:
        for _ in range(count):
            happened = self.driver.possible()
            if happened:
                self.driver.move(happened[choice % len(happened)])

    @precondition(lambda self: self.driver.state not in (State.RETIRED, State.FENCED))
    @rule()
    def the_controller_is_killed_and_started_again(self) -> None:
        self.driver.begin()

    @rule(keep=st.sampled_from([3, 50]), proven=st.booleans())
    def the_service_looks(self, keep: int, proven: bool) -> None:
        self.rows.look(self.driver, keep, proven)

    @rule(at_commit=st.integers(1, 4))
    def the_service_is_killed_while_it_writes(self, at_commit: int) -> None:
        commits = iter(range(1, 100))

        def crash(*_: object) -> None:
            if next(commits) == at_commit:
                raise KeyboardInterrupt

        event.listen(Session, "before_commit", crash)
        try:
            self.rows.look(self.driver)
        except KeyboardInterrupt:
            pass
        finally:
            event.remove(Session, "before_commit", crash)

    @invariant()
    def the_rows_are_sound(self) -> None:
        if hasattr(self, "rows"):
            assert_sound(self.rows.events)

    @invariant()
    def looking_twice_writes_nothing_new(self) -> None:
        if hasattr(self, "rows"):
            self.rows.look(self.driver)
            before = self.rows.steps()
            self.rows.look(self.driver)
            assert self.rows.steps() == before
            state = self.driver.state
            means = meaning(self.rows.phase, state.value)
            # a takeover that begins meanwhile
            is_undone = self.rows.phase is Phase.ROLLING_BACK and PHASES[means].without_controller
            if state.value not in ("IDLE", "FENCED") and not is_undone:
                assert self.rows.phase is means, "the phase is what the driver says"


Life.TestCase.settings = QUICK
test_no_life_of_driver_and_service_makes_two_rows_for_one_transition = Life.TestCase


@given(choices=st.lists(st.integers(0, 10), max_size=30), looks=st.sets(st.integers(0, 30)))
@settings(QUICK, max_examples=60)
def test_looking_rarely_writes_the_same_rows_as_looking_after_every_move(choices: list[int], looks: set[int]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        rarely, always = Rows(Path(one)), Rows(Path(other))
        driver = Driver()
        for number, choice in enumerate(choices):
            happened = driver.possible()
            if not happened:
                break
            driver.move(happened[choice % len(happened)])
            always.look(driver)
            if number in looks:
                rarely.look(driver)
        rarely.look(driver)
        assert rarely.steps() == always.steps()
        rarely.store.close()
        always.store.close()


def a_takeover(driver: Driver, *happened: Happened) -> Driver:
    for each in (Happened.LED_BEFORE_MIGRATION, Happened.QUORUM_READY, *happened):
        driver.move(each)
    return driver


TO_COMMIT = (Happened.GATE_OPENED, Happened.CLAIMED, Happened.COPIED, Happened.AUDIT_PASSED, Happened.COMMITTED)
TO_DUAL_WRITE = (*TO_COMMIT, Happened.RECONCILED, Happened.BROKERS_UPDATED)


def test_a_history_that_was_cut_off_is_walked_along_the_table(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path), a_takeover(Driver(), *TO_DUAL_WRITE)
    rows.look(driver, keep=1)
    assert [event.to_phase for event in rows.events] == ["TAKEOVER", "COPY", "AUDIT", "DUAL_WRITE"]
    assert rows.events[0].reason.startswith("not seen at its time; later:")
    assert_sound(rows.events)


def test_a_broken_mirror_inside_dual_write_is_no_transition(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path), a_takeover(Driver(), *TO_DUAL_WRITE)
    rows.look(driver)
    driver.move(Happened.MIRROR_BROKEN)
    driver.move(Happened.RECONCILED_AGAIN)
    rows.look(driver)
    assert rows.phase is Phase.DUAL_WRITE
    assert len(rows.events) == 4


def test_a_claim_that_was_refused_is_ready_again(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path), a_takeover(Driver(), Happened.GATE_OPENED, Happened.CLAIM_REFUSED)
    rows.look(driver)
    assert [event.to_phase for event in rows.events] == ["TAKEOVER", "READY"]


def test_rolling_back_early_after_the_commit_is_a_way_back(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path), a_takeover(Driver(), *TO_COMMIT, Happened.MUST_ROLL_BACK, Happened.ROLLED_BACK)
    rows.look(driver)
    assert [event.to_phase for event in rows.events][-2:] == ["ROLLING_BACK", "ROLLED_BACK"]


def test_a_log_that_is_found_released_at_a_restart_is_a_way_back(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path), a_takeover(Driver(), *TO_COMMIT)
    rows.look(driver)
    driver.begin()
    driver.move(Happened.LED_IN_MIGRATION)
    driver.move(Happened.ROLLED_BACK)
    rows.look(driver)
    assert rows.phase is Phase.ROLLED_BACK


def test_dual_write_is_not_written_before_its_proof_and_then_with_the_drivers_time(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path), a_takeover(Driver(), *TO_DUAL_WRITE)
    entered = driver.at
    rows.look(driver, proven=False)
    unproven = rows.phase
    assert unproven is Phase.AUDIT
    driver.at += 60
    rows.look(driver)
    assert rows.phase is Phase.DUAL_WRITE
    assert rows.events[-1].at == pytest.approx(entered)


def test_a_rollback_is_written_although_dual_write_was_never_proved(tmp_path: Path) -> None:
    rows, driver = (
        Rows(tmp_path),
        a_takeover(Driver(), *TO_DUAL_WRITE, Happened.ROLLBACK_REQUESTED, Happened.ROLLED_BACK),
    )
    rows.look(driver, proven=False)
    assert [event.to_phase for event in rows.events][-3:] == ["AUDIT", "ROLLING_BACK", "ROLLED_BACK"]


def test_what_cannot_follow_is_not_written_and_named(tmp_path: Path) -> None:
    rows, driver = Rows(tmp_path, Phase.ROLLED_BACK), a_takeover(Driver(), *TO_DUAL_WRITE)
    snapshot = replace(rows.store.snapshot(1), observation=driver.observed())
    written, disagrees = catch_up(rows.store, snapshot, evidence(snapshot, 1.0), now=1.0)
    assert written == []
    assert disagrees is not None
    assert disagrees.code == "Z2K-4022"


def test_entries_of_two_controllers_are_read_in_the_order_of_their_clocks() -> None:
    first, second = a_takeover(Driver()), Driver()
    second.runs = 7
    second.at = first.at + 1
    second.move(Happened.LED_BEFORE_MIGRATION)
    first.at += 5
    first.move(Happened.GATE_OPENED)
    both = Observation(0, (*first.observed().controllers, *second.observed().controllers))
    assert [(each.run, each.number) for each in unread(both, {"run-1": 1})] == [
        ("run-1", 2),
        ("run-7", 1),
        ("run-1", 3),
    ]


@pytest.mark.parametrize("state", [*State, "SOMETHING_NEW"])
@pytest.mark.parametrize("phase", list(Phase))
def test_every_state_of_the_driver_means_some_phase(phase: Phase, state: str) -> None:
    assert isinstance(meaning(phase, str(state)), Phase)
