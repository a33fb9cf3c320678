"""The quorum in bad weather: a short simulation for every condition; `make sim` runs the long one.

R-595-05, R-595-06, R-595-07, R-595-08, R-595-13, R-595-14. The seeds are always the same, so a check that was green
stays green until the code changes; `make sim FIRST=...` looks further.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from migrator.raft.roles import QuorumSettings
from tests.sim.mutants import MUTANTS
from tests.sim.plan import STORM_EVENTS, Action, PreVotes, from_text, plan_for, plan_with, pre_votes_of
from tests.sim.runner import FOUND, load, run_plan, run_seed, run_seeds, shrink, summarise
from tests.sim.world import World

SEEDS = range(150)


def test_nothing_promised_is_broken_in_any_weather() -> None:
    """And the weather was as bad as it claims: every kind of fault happened."""
    summary = summarise(run_seeds(SEEDS))
    assert not summary.failures, "\n".join(failure.report for failure in summary.failures)
    assert not summary.never_happened
    assert summary.steps_min >= STORM_EVENTS


@pytest.mark.parametrize("pre_votes", [PreVotes.ALL, PreVotes.SOME])
def test_nothing_is_broken_or_delayed_for_ever_whoever_asks_first(pre_votes: PreVotes) -> None:
    """KIP-996, and beside voters of 3.9, who cannot be asked: a healed majority elects and commits in every mixture."""
    summary = summarise(run_seeds(range(60), pre_votes=pre_votes))
    assert not summary.failures, "\n".join(failure.report for failure in summary.failures)
    assert summary.counts["pre-votes asked"] > 0
    assert (summary.counts["pre-votes asked of old voters"] > 0) == (pre_votes is PreVotes.SOME)


def test_a_seed_is_a_run() -> None:
    """The same steps, faults and times, so that a failure can be looked at as often as needed."""
    first, second = World(plan_for(11)), World(plan_for(11))
    first.run()
    second.run()
    assert (first.story, first.counts, first.now) == (second.story, second.counts, second.now)


@pytest.mark.parametrize("pre_votes", PreVotes)
def test_a_plan_survives_its_text_form(pre_votes: PreVotes) -> None:
    plan = plan_with(7, pre_votes)
    again = from_text(plan.text())
    assert again == plan
    assert plan_with(7, pre_votes_of(again)) == plan


def test_a_failure_says_how_to_see_it_again_and_can_be_made_smaller() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "a follower does not truncate")
    with mutant.at_work():
        failure = run_seed(mutant.first_seed)
        assert failure.report.startswith(f"SIMULATION FAILED  {failure.rule}\n  seed {mutant.first_seed} ")
        assert f"python -m tests.sim replay {mutant.first_seed}" in failure.report
        plan = plan_for(mutant.first_seed)
        smaller = shrink(plan, failure.rule, tries=60)
        assert len(smaller.actions) < len(plan.actions)
        assert run_plan(smaller).rule == failure.rule


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.txt")), ids=lambda path: path.stem)
def test_what_was_found_once_stays_repaired(path: Path) -> None:
    """Scenarios that broke something when they were found; the first line of each says what."""
    result = run_plan(load(path))
    assert not result.rule, result.report


def test_a_calm_quorum_elects_once_and_keeps_its_leader() -> None:
    """R-595-13: without faults nobody disturbs anybody."""
    for seed in range(10):
        plan = plan_for(seed)
        calm = replace(plan.weather, drop=0.0, duplicate=0.0, skew=0.0, delay_ms=(1, 4), disk_ms=(0, 1))
        world = World(replace(plan, weather=calm, actions=(), storm_events=1_000))
        world._storm()
        assert world.counts["elections"] <= 2, world.story


def a_calm_world(seed: int, *actions: Action, pre_vote: bool = True) -> World:
    """Three voters, a good network, and only what is named happens."""
    plan = plan_for(seed)
    calm = replace(plan.weather, drop=0.0, duplicate=0.0, skew=0.0, delay_ms=(1, 4), disk_ms=(0, 1))
    settings = QuorumSettings(election_timeout_ms=150, fetch_timeout_ms=300, fetch_wait_ms=75, pre_vote=pre_vote)
    chosen = replace(plan, voters=3, observers=0, weather=calm, settings=settings, clients=2, think_ms=20)
    return World(replace(chosen, actions=actions, storm_events=3_000))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["isolate", "from-leader", "to-leader", "from-all", "to-all"])
def test_a_follower_behind_a_bad_link_disturbs_nobody_then_or_later(seed: int, kind: str) -> None:
    """R-595-13, asymmetric partitions included: the leader of before is the leader of after, in the same epoch."""
    world = a_calm_world(seed)
    world.plan = replace(world.plan, storm_events=300)
    world._storm()
    leader = world.last_leader
    lame, other = (node for node in world.plan.voter_ids if node != leader)
    elections = world.counts["elections"]
    links = {
        "isolate": [(lame, leader), (leader, lame), (lame, other), (other, lame)],
        "from-leader": [(leader, lame)],
        "to-leader": [(lame, leader)],
        "from-all": [(leader, lame), (other, lame)],
        "to-all": [(lame, leader), (lame, other)],
    }[kind]
    world._cut_for(8_000, links, both=False)
    committed = world.ledger.committed.end
    world.plan = replace(world.plan, storm_events=10**9)
    world._run_until(world.now + 16_000)
    assert world.ledger.committed.end > committed + 20
    assert (world.last_leader, world.counts["elections"]) == (leader, elections), "\n".join(world.story)
    assert world.nodes[lame].machine.applied >= committed


@pytest.mark.parametrize("seed", range(20))
def test_a_follower_that_missed_its_leader_for_a_moment_comes_back_while_another_voter_is_down(seed: int) -> None:
    """The leader lives, and needs it: without its fetches there is no majority."""
    world = a_calm_world(seed)
    world.plan = replace(world.plan, storm_events=300)
    world._storm()
    leader = world.last_leader
    lame, other = (node for node in world.plan.voter_ids if node != leader)
    world.crash(world.nodes[other], power_cut=False, down_ms=20_000)
    world.plan = replace(world.plan, storm_events=10**9)
    world._run_until(world.now + 1_000)
    elections = world.counts["elections"]
    world._cut_for(290, [(leader, lame)], both=True)
    world._run_until(world.now + 300)
    committed = world.ledger.committed.end
    world._run_until(world.now + 4_000)
    assert world.ledger.committed.end > committed + 20
    assert (world.last_leader, world.counts["elections"]) == (leader, elections), "\n".join(world.story)


def test_without_asking_first_the_same_follower_deposes_its_leader() -> None:
    """What a quorum of 3.9 does, and why we ask first."""
    world = a_calm_world(0, pre_vote=False)
    world.plan = replace(world.plan, storm_events=300)
    world._storm()
    leader = world.last_leader
    lame = next(node for node in world.plan.voter_ids if node != leader)
    elections = world.counts["elections"]
    world._cut_for(8_000, [(leader, lame)], both=False)
    world.plan = replace(world.plan, storm_events=10**9)
    world._run_until(world.now + 8_000)
    assert world.counts["elections"] > elections
