"""The table of transitions: what it allows, how it refuses, and that nothing ever leaves it."""

from __future__ import annotations

import pytest

from migrator.findings.finding import FindingError
from state_machine.policy.phase_table import PHASES, WAY_FORWARD, phases_where
from state_machine.policy.phases import (
    PEOPLE,
    TRANSITIONS,
    Phase,
    Trigger,
    draw,
    look_up,
    next_edges,
    possible,
    way,
)

REACHABLE = list(Phase)


def refusal(phase: Phase, trigger: Trigger, to: Phase | None = None) -> str:
    with pytest.raises(FindingError) as caught:
        look_up(phase, trigger, to)
    return str(caught.value)


def test_an_absent_step_is_refused_by_name_with_what_is_possible() -> None:
    assert refusal(Phase.COPY, Trigger.ROLL_BACK) == (
        "Z2K-4003 rollback is not possible in COPY; possible here: abort."
    )


def test_the_end_of_the_road_allows_nothing() -> None:
    assert "possible here: nothing" in refusal(Phase.ROLLED_BACK, Trigger.ADVANCE)


@pytest.mark.parametrize("phase", [Phase.FINALIZING, Phase.COMPLETED])
def test_nothing_leads_back_once_the_finalize_was_begun(phase: Phase) -> None:
    assert "rollback" not in possible(phase)
    assert refusal(phase, Trigger.ROLL_BACK).startswith("Z2K-4003")


def test_dual_write_leads_to_the_end_in_the_order_of_the_road() -> None:
    phase, entered = Phase.DUAL_WRITE, []
    while phase is not Phase.COMPLETED:
        here = WAY_FORWARD.index(phase)
        (phase,) = {edge.to for edge in next_edges(phase).values() if edge.to in WAY_FORWARD[here + 1 :]}
        entered.append(phase)
    assert entered == list(WAY_FORWARD[WAY_FORWARD.index(Phase.DUAL_WRITE) + 1 :])


def test_only_an_abort_leads_back_from_finalizing_and_only_to_the_soak() -> None:
    edges = next_edges(Phase.FINALIZING)
    assert {trigger: edge.to for trigger, edge in edges.items() if edge.to is not Phase.COMPLETED} == {
        Trigger.ABORT: Phase.SOAK
    }
    assert possible(Phase.FINALIZING) == ("abort",)
    assert possible(Phase.COMPLETED) == ("finalize-version",)


@pytest.mark.parametrize("to", [*phases_where(lambda row: row.without_controller), Phase.DUAL_WRITE])
def test_advance_from_ready_may_name_any_phase_that_it_leads_through(to: Phase) -> None:
    assert look_up(Phase.READY, Trigger.ADVANCE, to).to is Phase.TAKEOVER


def test_a_step_that_leads_elsewhere_than_expected_is_refused() -> None:
    assert "advance to DUAL_WRITE is not possible in PREFLIGHT" in refusal(
        Phase.PREFLIGHT, Trigger.ADVANCE, Phase.DUAL_WRITE
    )


@pytest.mark.parametrize("phase", [*phases_where(lambda row: row.before_takeover or row.led_back), Phase.DUAL_WRITE])
def test_rollback_is_possible_wherever_a_migration_can_rest(phase: Phase) -> None:
    assert "rollback" in possible(phase)


@pytest.mark.parametrize("phase", REACHABLE)
def test_every_phase_can_be_reached_and_is_no_dead_end(phase: Phase) -> None:
    reached = {Phase.CREATED}
    for _ in Phase:
        reached |= {edge.to for start in reached for edge in next_edges(start).values()}
    assert phase in reached
    assert next_edges(phase) or phase in (Phase.ROLLED_BACK, Phase.COMPLETED)


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_says_how_it_is_undone(phase: Phase) -> None:
    undo = PHASES[phase].undo
    words = undo.command.removeprefix("zk2kraft ")
    assert undo.command == "" or words in possible(phase)
    assert undo.does
    assert undo.lost


def test_the_drawing_has_every_edge_of_the_table() -> None:
    drawing = draw()
    assert drawing.startswith("stateDiagram-v2")
    arrows = [line for line in drawing.splitlines() if "-->" in line]
    assert len(arrows) == len(TRANSITIONS) + 3, "and the beginning, and the two ends"
    for (start, _), edge in TRANSITIONS.items():
        assert f"    {start} --> {edge.to}: " in drawing


@pytest.mark.parametrize("start", REACHABLE)
@pytest.mark.parametrize("end", REACHABLE)
def test_a_way_is_made_of_edges_and_needs_no_person(start: Phase, end: Phase) -> None:
    triggers = way(start, end)
    if triggers is None:
        return
    phase = start
    for trigger in triggers:
        assert trigger not in PEOPLE
        phase = TRANSITIONS[phase, trigger].to
    assert phase is end


def test_a_takeover_that_nobody_saw_has_one_way() -> None:
    assert way(Phase.READY, Phase.DUAL_WRITE) == (
        Trigger.TAKEOVER_BEGAN,
        Trigger.EPOCH_CLAIMED,
        Trigger.COPIED,
        Trigger.BROKERS_UPDATED,
    )


def test_the_road_is_in_the_order_of_the_table() -> None:
    for (start, trigger), edge in TRANSITIONS.items():
        if (start, edge.to) == (Phase.BROKERS_JOINING, Phase.BROKERS_JOINING):
            continue  # it begins the rolling restart of that phase, which goes on by itself
        if start is Phase.ROLLING_BACK:
            continue  # it cancels a rollback, and is never taken without its name
        if trigger is Trigger.ADVANCE:
            assert WAY_FORWARD.index(edge.to) == WAY_FORWARD.index(start) + 1
