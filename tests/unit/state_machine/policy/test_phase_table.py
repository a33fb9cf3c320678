"""The table of phases: which phases each column picks, and that it agrees with the steps that there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.control_api.operations import DriverOperation
from state_machine.policy.fleet_evidence import FleetEvidence, Roll
from state_machine.policy.gates import Evidence, nothing_is_claimed
from state_machine.policy.phase_table import PHASES, WAY_FORWARD, GoesBack, PhaseRow, PhaseStage, phases_where, row_of
from state_machine.policy.phases import (
    OPERATIONS,
    PEOPLE,
    TRANSITIONS,
    OperationName,
    Phase,
    Trigger,
    driver_may_roll_back,
    leads_to,
    next_edges,
)
from state_machine.policy.wanted import Voters
from state_machine.rows.audit_queries import CONFIRMATION
from state_machine.work.operations import sent_back_roll

BEFORE = "CREATED PREFLIGHT QUORUM BROKERS_JOINING READY"
LED = "ROLLING_BROKERS REPLACING_CONTROLLERS SOAK"

PICKED: dict[str, tuple[Callable[[PhaseRow], object], str]] = {
    "reading": (lambda row: row.stage is PhaseStage.READING, "CREATED PREFLIGHT"),
    "started": (lambda row: row.stage is PhaseStage.STARTED, "QUORUM BROKERS_JOINING READY"),
    "over": (lambda row: row.stage is PhaseStage.OVER, "COMPLETED ROLLED_BACK"),
    "on the ways back": (lambda row: not row.forward, "ABORTING ROLLING_BACK ROLLED_BACK"),
    "before the takeover": (lambda row: row.before_takeover, BEFORE),
    "without controller": (lambda row: row.without_controller, "TAKEOVER COPY AUDIT"),
    "moving": (lambda row: row.moving, "TAKEOVER COPY AUDIT ABORTING ROLLING_BACK"),
    "audited": (lambda row: row.audited, f"DUAL_WRITE {LED} FINALIZING"),
    "log read": (lambda row: row.reads_log, f"DUAL_WRITE {LED} FINALIZING COMPLETED"),
    "software watched": (
        lambda row: row.watches_software,
        f"QUORUM BROKERS_JOINING READY TAKEOVER COPY AUDIT DUAL_WRITE {LED} FINALIZING ABORTING ROLLING_BACK",
    ),
    "operated": (lambda row: row.operated, f"BROKERS_JOINING DUAL_WRITE {LED} FINALIZING COMPLETED"),
    "journal": (lambda row: row.has_journal, f"BROKERS_JOINING DUAL_WRITE {LED} FINALIZING COMPLETED ROLLING_BACK"),
    "approvals read": (
        lambda row: row.may_be_approved,
        f"BROKERS_JOINING AUDIT DUAL_WRITE {LED} FINALIZING COMPLETED ROLLING_BACK",
    ),
    "led back": (lambda row: row.led_back, LED),
    "consent": (lambda row: row.needs_consent, f"AUDIT DUAL_WRITE {LED}"),
    "previous files": (lambda row: row.keeps_previous_files, f"{LED} ROLLING_BACK"),
    "guarded": (lambda row: row.guarded, f"DUAL_WRITE {LED}"),
    "two inventories": (lambda row: row.compares_inventories, f"BROKERS_JOINING DUAL_WRITE {LED} ROLLING_BACK"),
    "stock": (lambda row: row.may_have_stock, "REPLACING_CONTROLLERS SOAK ROLLING_BACK"),
    "gone back": (lambda row: row.has_gone_back, "ROLLING_BACK ROLLED_BACK"),
    "brokers restart": (
        lambda row: row.restarts_brokers,
        "BROKERS_JOINING DUAL_WRITE ROLLING_BROKERS ROLLING_BACK",
    ),
    "backup": (lambda row: row.backup, "DUAL_WRITE ROLLING_BROKERS SOAK"),
    "canary": (lambda row: row.canary, f"{LED} FINALIZING ROLLING_BACK"),
    "soaked": (lambda row: row.soaked, "SOAK FINALIZING COMPLETED"),
    "approved": (lambda row: row.approval, "FINALIZING COMPLETED"),
    "no return": (lambda row: row.no_return, "FINALIZING COMPLETED"),
    "rests on audits": (lambda row: row.rests_on, "TAKEOVER DUAL_WRITE"),
    "contradicts": (lambda row: row.contradicted, f"DUAL_WRITE {LED} FINALIZING"),
    "ZooKeeper need not answer": (lambda row: not row.wanted.zookeeper, "COMPLETED"),
}


@pytest.mark.parametrize("column", PICKED)
def test_a_column_picks_these_phases(column: str) -> None:
    holds, named = PICKED[column]
    assert " ".join(phases_where(lambda row: bool(holds(row)))) == named


def test_every_phase_has_one_row_and_the_rows_follow_the_way() -> None:
    assert list(PHASES) == list(Phase), "in the order of the way forward, then the ways back"
    assert WAY_FORWARD[0] is Phase.CREATED
    assert WAY_FORWARD[-1] is Phase.COMPLETED


def test_a_phase_of_a_later_release_has_no_row() -> None:
    assert row_of("SOAK") is PHASES[Phase.SOAK]
    assert row_of("a later phase") is None


@pytest.mark.parametrize("phase", list(Phase))
def test_a_phase_goes_back_as_its_step_says(phase: Phase) -> None:
    edge = next_edges(phase).get(Trigger.ROLL_BACK)
    expected = None
    if edge is not None:
        by_driver = edge.asks is DriverOperation.ROLL_BACK
        expected = GoesBack.DRIVER if by_driver else GoesBack.LED
        expected = GoesBack.STOPS if edge.gate is nothing_is_claimed else expected
    assert PHASES[phase].goes_back is expected


@pytest.mark.parametrize("phase", phases_where(lambda row: row.moving))
def test_a_phase_that_moves_ends_where_its_steps_lead_without_a_person(phase: Phase) -> None:
    ends = PHASES[phase].ends
    assert ends is not None
    assert not PHASES[ends].moving
    by_itself = {trigger: edge.to for trigger, edge in next_edges(phase).items() if trigger not in OPERATIONS}
    while ends not in by_itself.values():
        onward = {to for to in by_itself.values() if PHASES[to].ends is ends}
        assert onward, f"nothing leads from {phase} to {ends}"
        by_itself = {trigger: edge.to for to in onward for trigger, edge in next_edges(to).items()}


def test_nothing_that_people_begin_ends_in_a_phase_that_moves_on() -> None:
    for row in OPERATIONS.values():
        assert row.ends is None or not PHASES[row.ends].moving
    takeover = TRANSITIONS[Phase.READY, Trigger.ADVANCE]
    window = phases_where(lambda row: row.without_controller)
    assert leads_to(takeover) == (*window, OPERATIONS[OperationName.ADVANCE].ends)
    assert {PHASES[phase].ends for phase in window} == {OPERATIONS[OperationName.ADVANCE].ends}
    assert PHASES[Phase.ABORTING].ends is OPERATIONS[OperationName.ABORT].ends
    assert PHASES[Phase.ROLLING_BACK].ends is OPERATIONS[OperationName.ROLL_BACK].ends


def test_what_cannot_be_undone_is_approved_and_nothing_else_is() -> None:
    assert all(bool(row.approval) == row.no_return for row in PHASES.values())
    assert all(row.goes_back is None for row in PHASES.values() if row.no_return)


@pytest.mark.parametrize("phase", phases_where(lambda row: bool(row.approval)))
def test_what_is_approved_has_the_words_of_the_condition_of_its_gate(phase: Phase) -> None:
    road = FleetEvidence(fleet_problem="", log_problem="")
    known = Evidence(observation_age_s=None, paused=None, controllers=(), silent={}, file_faults={}, road=road)
    forward = [edge for (_, trigger), edge in TRANSITIONS.items() if edge.to is phase and trigger in PEOPLE]
    conditions = {each.name for edge in forward for each in edge.gate(known).conditions}
    assert f"another person approved {PHASES[phase].approval}" in conditions


def test_every_roll_belongs_to_one_phase_and_is_contradicted_in_phases_before_its_end() -> None:
    rolls = [roll for row in PHASES.values() for roll in row.rolls]
    assert sorted(rolls) == sorted(set(Roll) - {Roll.BEGIN}), "each once, but for the first start of stock"
    for row in PHASES.values():
        assert row.contradicted is None or row.rolls in ((row.contradicted,), ())


def test_the_takeover_rests_on_a_rehearsal_with_its_confirmation() -> None:
    assert PHASES[Phase.TAKEOVER].rests_on == ("rehearsal", CONFIRMATION)


def test_every_step_that_is_advanced_to_by_name_is_explained() -> None:
    explained = {edge.to for (_, trigger), edge in TRANSITIONS.items() if trigger is Trigger.ADVANCE}
    assert {phase for phase, row in PHASES.items() if row.does} == explained


def test_voters_become_stock_on_the_way_forward_and_never_ours_again() -> None:
    voters = [PHASES[phase].wanted.voters for phase in WAY_FORWARD]
    assert voters == sorted(voters, key=list(Voters).index), "none, ours, some stock, stock"


def test_a_driver_may_begin_a_rollback_where_the_claim_is_ours_and_brokers_can_still_return_by_it() -> None:
    found = " ".join(phase for phase in Phase if driver_may_roll_back(phase))
    assert found == "AUDIT DUAL_WRITE ROLLING_BROKERS ROLLING_BACK"


def test_a_failed_node_may_return_alone_in_three_phases() -> None:
    found = {str(phase): str(sent_back_roll(row)) for phase, row in PHASES.items() if sent_back_roll(row) is not None}
    assert found == {"BROKERS_JOINING": "join", "ROLLING_BROKERS": "kraft", "ROLLING_BACK": "ours"}


def test_an_operation_has_the_name_of_the_steps_that_it_takes() -> None:
    assert set(OPERATIONS) == set(OperationName)
    for name, row in OPERATIONS.items():
        assert row.trigger is None or row.trigger.value == name
        assert row.trigger is not None or not (row.undoes or row.ends)
    words = [row.word for row in OPERATIONS.values()]
    assert len(set(words)) == len(words)


def test_operations_are_found_by_the_name_that_the_database_has() -> None:
    assert OPERATIONS["ROLL_BACK"].word == "rollback"
    assert OPERATIONS[Trigger.RAISE_VERSION].word == "finalize-version"
