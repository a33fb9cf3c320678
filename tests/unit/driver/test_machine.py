"""The whole table of the driver: every state with everything that can happen in it."""

from __future__ import annotations

from itertools import product

import pytest

from migrator.control_api.states import State
from migrator.driver.machine import (
    TRANSITIONS,
    Happened,
    TimeWithoutController,
    entry,
    in_window,
    may_abort,
    move,
    writes_allowed,
)
from migrator.model.values import MigrationState

TABLE = """
IDLE             LED_BEFORE_MIGRATION -> WAIT_QUORUM   LED_AFTER_ABORT -> ABORTING
                 LED_IN_MIGRATION -> RESUMING          LED_AFTER_MIGRATION -> DONE
                 ROLLED_BACK -> RETIRED
WAIT_QUORUM      QUORUM_READY -> WAIT_BROKERS          LEADERSHIP_LOST -> IDLE
WAIT_BROKERS     GATE_OPENED -> TAKING_OVER            CLAIM_LEFT -> ABORTING        LEADERSHIP_LOST -> IDLE
TAKING_OVER      CLAIMED -> COPYING                    CLAIM_REFUSED -> WAIT_BROKERS
                 WINDOW_FAILED -> ABORTING             CLAIM_TOUCHED -> ABORTING      LEADERSHIP_LOST -> IDLE
COPYING          COPIED -> AUDITING
                 WINDOW_FAILED -> ABORTING             CLAIM_TOUCHED -> ABORTING      LEADERSHIP_LOST -> IDLE
AUDITING         AUDIT_PASSED -> COMMITTING
                 WINDOW_FAILED -> ABORTING             CLAIM_TOUCHED -> ABORTING      LEADERSHIP_LOST -> IDLE
COMMITTING       COMMITTED -> SYNCING
COMMITTING       WINDOW_FAILED -> ABORTING
                 MUST_ROLL_BACK -> ROLLING_BACK_EARLY             CLAIM_TOUCHED -> FENCED        LEADERSHIP_LOST -> IDLE
SYNCING          RECONCILED -> UPDATING_BROKERS         RECONCILED_AGAIN -> DUAL_WRITE    CLAIM_LOST -> RESUMING
                 MUST_ROLL_BACK -> ROLLING_BACK_EARLY             CLAIM_TOUCHED -> FENCED        LEADERSHIP_LOST -> IDLE
UPDATING_BROKERS  BROKERS_UPDATED -> DUAL_WRITE            MIRROR_BROKEN -> SYNCING       CLAIM_LOST -> RESUMING
                 MUST_ROLL_BACK -> ROLLING_BACK_EARLY             CLAIM_TOUCHED -> FENCED        LEADERSHIP_LOST -> IDLE
DUAL_WRITE       MIRROR_BROKEN -> SYNCING              ROLLBACK_REQUESTED -> ROLLING_BACK  CLAIM_LOST -> RESUMING
                 CLAIM_TOUCHED -> FENCED               LEADERSHIP_LOST -> IDLE
ROLLING_BACK     ROLLED_BACK -> RETIRED                ROLLBACK_REFUSED -> DUAL_WRITE     CLAIM_LOST -> RESUMING
                 CLAIM_TOUCHED -> FENCED               LEADERSHIP_LOST -> IDLE
ABORTING         ABORT_DONE -> ABORTED                 LEADERSHIP_LOST -> IDLE
ABORTED          UNLATCHED -> WAIT_QUORUM              LEADERSHIP_LOST -> IDLE
RESUMING         CLAIM_RESUMED -> SYNCING              ROLLED_BACK -> RETIRED
                 CLAIM_TOUCHED -> FENCED               LEADERSHIP_LOST -> IDLE
ROLLING_BACK_EARLY        ROLLED_BACK -> RETIRED                LEADERSHIP_LOST -> IDLE
DONE             LEADERSHIP_LOST -> IDLE
RETIRED
FENCED           ROLLED_BACK -> RETIRED                LEADERSHIP_LOST -> IDLE
"""
"""Written a second time, by state, so that an edge that comes or goes is seen here."""


def the_table() -> dict[tuple[State, Happened], State]:
    table = {}
    state = State.IDLE
    words = TABLE.split()
    for index, word in enumerate(words):
        if word == "->":
            table[state, Happened[words[index - 1]]] = State(words[index + 1])
        elif word in State.__members__ and words[index - 1] != "->":
            state = State(word)
    return table


@pytest.mark.parametrize("state", State)
def test_a_state_leads_where_the_table_says_and_nowhere_else(state: State) -> None:
    table = the_table()
    assert {each: move(state, each) for each in Happened} == {each: table.get((state, each)) for each in Happened}


def reachable_from(state: State, without: set[tuple[State, Happened]] | None = None) -> set[State]:
    found, todo = {state}, [state]
    while todo:
        here = todo.pop()
        for happened in Happened:
            there = move(here, happened)
            if there is not None and there not in found and (here, happened) not in (without or set()):
                found.add(there)
                todo.append(there)
    return found


LEADERSHIP = {(state, Happened.LEADERSHIP_LOST) for state in State}


def test_every_state_can_be_reached_and_every_event_means_something() -> None:
    assert reachable_from(State.IDLE) == set(State)
    assert {happened for _, happened in TRANSITIONS} == set(Happened)


def test_an_abort_is_possible_before_the_commit_and_never_after() -> None:
    before = {State.TAKING_OVER, State.COPYING, State.AUDITING}
    assert {state for state in State if may_abort(state)} == before
    before_append = {*before, State.COMMITTING}  # in which an append is the last step, and nothing fails after it
    assert {state for state in State if move(state, Happened.WINDOW_FAILED) is not None} == before_append
    assert {state for state in State if State.ABORTING in (move(state, each) for each in Happened)} == {
        *before_append,
        State.IDLE,
        State.WAIT_BROKERS,  # what an earlier leader of this quorum left is given back
    }
    # Under the leadership that committed there is no way to an abort, nor to a second copy.
    after = move(State.COMMITTING, Happened.COMMITTED)
    assert after is not None
    assert reachable_from(after, LEADERSHIP).isdisjoint({State.ABORTING, State.ABORTED, State.COPYING})


def test_a_takeover_begins_only_at_an_open_gate() -> None:
    ways = [key for key, state in TRANSITIONS.items() if state is State.TAKING_OVER]
    assert ways == [(State.WAIT_BROKERS, Happened.GATE_OPENED)]


def test_after_an_abort_only_a_person_lets_the_next_takeover_begin() -> None:
    person = {(State.ABORTED, Happened.UNLATCHED)}
    # A new leadership starts at IDLE; with the latch set it is told LED_AFTER_ABORT, not LED_BEFORE_MIGRATION.
    assert entry(MigrationState.PRE_MIGRATION, latched=True) is Happened.LED_AFTER_ABORT
    fresh = {(State.IDLE, Happened.LED_BEFORE_MIGRATION)}
    others = {(State.IDLE, Happened.LED_IN_MIGRATION), (State.IDLE, Happened.LED_AFTER_MIGRATION)}
    assert State.TAKING_OVER not in reachable_from(State.ABORTING, person | fresh | others)
    assert State.TAKING_OVER in reachable_from(State.ABORTING, fresh | others)


def test_a_touched_claim_fences_whoever_committed_and_aborts_whoever_did_not() -> None:
    answers = {state: move(state, Happened.CLAIM_TOUCHED) for state in State}
    assert {state for state, answer in answers.items() if answer is State.FENCED} == {
        State.COMMITTING, State.SYNCING, State.UPDATING_BROKERS, State.DUAL_WRITE, State.ROLLING_BACK, State.RESUMING,
    }  # fmt: skip
    assert {state for state, answer in answers.items() if answer is State.ABORTING} == {
        State.TAKING_OVER, State.COPYING, State.AUDITING,
    }  # fmt: skip


def test_nothing_leads_out_of_the_end() -> None:
    assert [move(State.RETIRED, happened) for happened in Happened] == [None] * len(Happened)


def test_a_fenced_driver_looks_anew_only_when_it_is_elected_anew() -> None:
    out = {happened: state for happened in Happened if (state := move(State.FENCED, happened)) is not None}
    assert out == {Happened.LEADERSHIP_LOST: State.IDLE, Happened.ROLLED_BACK: State.RETIRED}


@pytest.mark.parametrize(
    ("log", "latched", "happened"),
    [
        (MigrationState.PRE_MIGRATION, False, Happened.LED_BEFORE_MIGRATION),
        (MigrationState.PRE_MIGRATION, True, Happened.LED_AFTER_ABORT),
        (MigrationState.MIGRATION, False, Happened.LED_IN_MIGRATION),
        (MigrationState.MIGRATION, True, Happened.LED_IN_MIGRATION),  # it was committed: the latch is history
        (MigrationState.POST_MIGRATION, False, Happened.LED_AFTER_MIGRATION),
        (MigrationState.POST_MIGRATION, True, Happened.LED_AFTER_MIGRATION),
        (MigrationState.NONE, False, Happened.LED_AFTER_MIGRATION),
        (MigrationState.NONE, True, Happened.LED_AFTER_MIGRATION),
    ],
)
def test_what_it_means_to_lead_is_read_from_the_log_and_the_latch(
    log: MigrationState, latched: bool, happened: Happened
) -> None:
    assert entry(log, latched=latched) is happened
    assert move(State.IDLE, happened) is not None


def test_metadata_may_change_only_where_the_log_is_the_truth_and_stays_it() -> None:
    allowed = {state for state in State if writes_allowed(state)}
    assert allowed == {State.COMMITTING, State.SYNCING, State.UPDATING_BROKERS, State.DUAL_WRITE, State.DONE}
    assert not any(may_abort(state) for state in allowed)


def test_the_window_is_open_from_the_claim_until_the_brokers_were_told() -> None:
    assert [state for state in State if in_window(state)] == [
        State.TAKING_OVER, State.COPYING, State.AUDITING, State.COMMITTING, State.SYNCING, State.UPDATING_BROKERS,
    ]  # fmt: skip


@pytest.mark.parametrize(("opened_ms", "limit_ms"), list(product((0, 5_000), (1, 15_000))))
def test_a_window_is_overdue_at_its_limit_and_not_before(opened_ms: int, limit_ms: int) -> None:
    window = TimeWithoutController(opened_ms, limit_ms)
    assert not window.overdue(opened_ms + limit_ms - 1)
    assert window.overdue(opened_ms + limit_ms)
