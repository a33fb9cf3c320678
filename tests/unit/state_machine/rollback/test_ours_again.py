"""A rollback under stock controllers: ours take their place again, one by one, then the brokers go back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.lines import back_lines
from api.views import migration_view, way_back_view
from migrator.findings.finding import FindingError
from state_machine.audits import audit_rows
from state_machine.change.facts import read_facts
from state_machine.change.report import change_report
from state_machine.facts.guards import GuardFact
from state_machine.policy.fleet_evidence import FleetEvidence, Roll, RollbackPlan, VoterObserved
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.gates_back import controllers_may_return, cost_of, ours_lead_again
from state_machine.policy.phases import Phase, Trigger, look_up
from state_machine.policy.undo import undo_of
from state_machine.rolling import ours
from state_machine.rolling.table import cluster_ready
from state_machine.work.operations import may_send_back
from tests.unit.state_machine.fakes import PASSED_AUDIT, red_audit
from tests.unit.state_machine.policy.test_road_gates import closed, codes, evidence, voters
from tests.unit.state_machine.rolling.test_rolling import BROKERS
from tests.unit.state_machine.rolling.test_rolling import codes as open_codes
from tests.unit.state_machine.under_stock import NODES, UnderStock


@pytest.fixture
def world(tmp_path: Path) -> UnderStock:
    return UnderStock(tmp_path)


def assert_ours_again(world: UnderStock) -> None:
    for each in world.controllers:
        node = each.entry.node_id
        assert world.files[node].read_text() == world.ours[node], f"controller {node} has another file"
        assert each.alive
        assert not world.hosts.runs(node), "stock runs beside ours"


def assert_as_before_stock(world: UnderStock) -> None:
    assert_ours_again(world)
    for number in BROKERS:
        assert world.hosts.file(number).read_text() == world.file_of(number)
    away: set[str] = set()
    for act in world.acts:  # a controller of ours is started by no host
        word, of = act.split()
        assert word == "start" or not away - {of} - {str(node) for node in NODES}, world.acts
        (away.add if word == "stop" else away.discard)(of)


def test_from_the_soak_ours_take_the_place_of_stock_the_leader_last_then_the_brokers_go_back(
    world: UnderStock,
) -> None:
    followed: list[tuple[int, ...]] = []

    async def story() -> tuple[int, int]:
        await world.to_soak()
        known, launched = len(world.acts), len(world.launcher.launched)
        world.leader = 3001
        await world.ask_back()
        while world.phase is not Phase.ROLLED_BACK:
            await world.turn()
            log = world.log.observed
            followed.append(tuple(each.id for each in log.voters if each.lag == 0))
            assert len(followed) < 600, world.waiting
        return known, launched

    known, launched = asyncio.run(story())
    acts = world.acts[known:]
    assert acts[:3] == ["stop 3000", "stop 3002", "stop 3001"], "no host starts stock there again"
    assert world.launcher.launched[launched:] == [3000, 3002, 3001]
    assert acts[3:] == [f"{act} {number}" for number in (2, 1, 0) for act in ("stop", "start")]
    assert min(map(len, followed)) >= 2, "a majority followed all the time"
    assert world.asked.count("rollback") == len(NODES), "each one is asked once, and the leader does it"
    assert world.steps[-2:] == ["ROLLING_BACK", "ROLLED_BACK"]
    assert_as_before_stock(world)
    report = change_report(read_facts(world.store, world.settings, world.id, world.clock()))
    told = [(each.roll, each.node) for each in report.restarts if each.phase == Phase.ROLLING_BACK]
    assert told == [("ours", 3000), ("ours", 3002), ("ours", 3001), ("back", 2), ("back", 1), ("back", 0)]
    assert all(each.whole and each.diff for each in report.restarts if each.phase == Phase.ROLLING_BACK)


@pytest.mark.parametrize(
    ("roll", "zookeeper", "waits"), [(Roll.OURS, (), False), (Roll.OURS, (2,), True), (Roll.STOCK, (), True)]
)
def test_ours_come_back_where_stock_never_ends_its_comparison(
    roll: Roll, zookeeper: tuple[int, ...], waits: bool
) -> None:
    """With configuration of clients' metrics in the log it begins anew each minute, and writes nothing (F-51)."""
    lags = cluster_ready(evidence({"dual_write_lag": 12, "zookeeper": zookeeper}), roll)
    names = [each.name for each in lags.conditions if not each.holds]
    assert ("ZooKeeper has every committed change" in names) == waits


def test_a_cluster_that_went_back_without_ours_is_found_in_zookeeper_also_while_paused(world: UnderStock) -> None:
    """docs/undo.md, "Without zk2kraft controllers": stock is stopped, and `--without-controllers` was run."""

    async def story() -> int:
        await world.to_soak()
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)
        known = len(world.acts)
        phase = world.phase
        assert phase is Phase.SOAK
        began = world.clock()
        for node in NODES:
            (world.hosts.home / str(node) / "state").write_text("stopped")
        world.zookeeper.broker_rules()
        await world.turn(3)
        phase = world.phase
        assert phase is Phase.SOAK, "a look at the log that fails is none that finds no leader"
        while world.phase is Phase.SOAK:
            world.register()
            world.log.observed = msgspec.structs.replace(world.log.observed, problem="nobody answers", leader=None)
            await world.rounds(1, seconds=10.0)
            assert world.clock() - began < 120.0, world.waiting
        return known

    known = asyncio.run(story())
    assert world.phase is Phase.ROLLED_BACK, world.waiting
    assert world.events[-1].trigger == "FOUND_ROLLED_BACK"
    assert world.acts[known:] == [], "nothing is started or stopped"


@pytest.mark.parametrize("replaced", [0, 1])
def test_of_a_replacement_that_is_half_done_only_stock_ones_go_back(world: UnderStock, replaced: int) -> None:
    async def story() -> int:
        await world.to_replacing(*(3001, 3002)[:replaced])
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)
        await world.with_files()
        known = len(world.acts)
        assert world.phase is Phase.REPLACING_CONTROLLERS
        await world.ask_back()
        await world.run_operation("RESUME", who="Ada")
        await world.until_brokers()
        return known

    known = asyncio.run(story())
    assert world.acts_on(NODES, known) == ["stop 3001", "stop 3002"][:replaced]
    assert_ours_again(world)


@pytest.mark.parametrize("step", ["STOPPING", "WRITTEN", "STARTED"])
def test_a_controller_that_is_between_ours_and_stock_goes_back_first(world: UnderStock, step: str) -> None:
    async def story() -> int:
        await world.to_replacing(3001)
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)
        await world.with_files()
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.stock_step(3002) == step)
        world.register()
        known = len(world.acts)
        operation = await world.run_operation("ROLL_BACK", who="Ada", reason="enough")
        assert operation.state == "succeeded", operation.answer
        await world.until_brokers()
        return known

    known = asyncio.run(story())
    stops = [act for act in world.acts_on(NODES, known) if act.startswith("stop")]
    assert stops[-2:] == ["stop 3002", "stop 3001"]
    assert not [act for act in world.acts if act.endswith("3000")]
    assert_ours_again(world)


def test_a_controller_that_did_not_start_as_stock_goes_back_first_without_a_decision_before(world: UnderStock) -> None:
    async def story() -> int:
        await world.to_replacing(3001)
        await world.run_operation("PAUSE", who="Ada")
        await world.turn(3)
        await world.with_files()
        await world.run_operation("RESUME", who="Ada")
        await world.until(lambda: world.stock_step(3002) == "STARTED")
        world.hosts.state(3002, "stopped")
        await world.until(lambda: world.stock_step(3002) == "FAILED")
        known = len(world.acts)
        await world.ask_back()
        await world.until_brokers()
        return known

    known = asyncio.run(story())
    assert world.acts_on(NODES, known)[:2] == ["stop 3002", "stop 3001"]
    assert_ours_again(world)


STEPS = ("PREPARED", "STOPPING", "STOPPED", "WRITTEN", "STARTED", "WHOLE")


def test_a_service_that_dies_at_every_step_puts_ours_back_all_the_same(world: UnderStock) -> None:
    async def first() -> None:
        await world.to_soak()
        await world.ask_back()

    async def life(node: int, step: str) -> None:
        await world.until(lambda: world.ours_step(node) in STEPS[STEPS.index(step) :])

    asyncio.run(first())
    for node in (3000, 3002):
        for step in STEPS:
            world.start_service()
            asyncio.run(life(node, step))
    world.start_service()
    asyncio.run(world.to_the_start())
    assert_as_before_stock(world)
    assert world.asked.count("rollback") == len(NODES), "each one is asked once, and the leader does it"


def test_a_controller_whose_kept_file_is_another_one_is_not_stopped(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_soak()
        await world.ask_back()
        known = len(world.acts)
        file = world.files[3001]
        (kept,) = (each for each in file.parent.glob(f"{file.name}.zk2kraft-*") if each.read_text() == world.ours[3001])
        kept.write_text(world.ours[3001] + "num.io.threads=9\n")
        await world.until(lambda: "FAILED" in {world.ours_step(each) for each in NODES})
        assert world.ours_step(3001) == "FAILED"
        await world.turn(3)
        assert "is not the file that was kept" in world.waiting
        assert "stop 3001" not in world.acts[known:]
        kept.write_text(world.ours[3001])
        await world.run_operation("RESUME", who="Ada")
        await world.until_brokers()

    asyncio.run(story())
    assert_ours_again(world)


def test_before_the_rollback_a_kept_file_that_is_gone_closes_its_gate(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_soak()
        for file in world.files.values():
            for kept in file.parent.glob(f"{file.name}.zk2kraft-*"):
                kept.unlink()
        await world.with_files()
        await world.with_files()
        refused = await world.run_operation("ROLL_BACK", who="Ada")
        assert refused.state == "refused"
        assert "is not the previous file" in refused.answer

    asyncio.run(story())
    assert "Z2K-4231" in codes(controllers_may_return(world.evidence))


def test_one_of_ours_that_does_not_stay_stops_the_roll_and_a_person_has_three_choices(world: UnderStock) -> None:
    """Try it again, stock again in its place, or leave it; the other controllers are not touched meanwhile."""

    async def story() -> None:
        await world.to_soak()
        await world.ask_back()
        world.launcher.ends_at_once = True
        await world.until(lambda: world.ours_step(3001) == "FAILED")
        await world.turn(3)
        assert "Z2K-4204" in open_codes(world)
        for choice in ("`zk2kraft resume`", "`zk2kraft back` starts this controller alone as stock", "`pause`"):
            assert choice in world.waiting, world.waiting
        known = len(world.acts)
        operation = await world.run_operation("BACK", who="Ada", reason="its host lacks memory")
        assert operation.state == "succeeded", operation.answer
        await world.until(lambda: world.ours_step(3001) == "BACK")
        assert world.acts[known:] == ["stop 3001", "start 3001"]
        assert "zk2kraft." not in world.files[3001].read_text()
        assert 3001 in world.snapshot.replaced
        await world.turn(5)
        assert "runs with its previous file" in world.waiting
        assert not world.acts_on((3000, 3002), known)
        world.launcher.ends_at_once = False
        await world.run_operation("RESUME", who="Ada")
        await world.until_brokers()

    asyncio.run(story())
    assert_ours_again(world)


def test_no_controller_is_sent_back_to_stock_that_did_not_fail(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_soak()
        await world.ask_back()
        await world.until(lambda: world.ours_step(3000) == "STOPPED")

    asyncio.run(story())
    with pytest.raises(FindingError, match="A controller cannot go back alone: none failed"):
        may_send_back(world.snapshot, world.evidence)


def test_no_broker_is_stopped_before_an_audit_found_both_sides_equal(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_soak()
        world.runner.results["audit"] = replace(world.runner.results["audit"], document=red_audit("orders-0"))
        await world.ask_back()
        await world.until(lambda: all(world.ours_step(each) == "WHOLE" for each in NODES))
        asked = world.runner.count("audit")
        await world.turn(60)
        assert "before the brokers go back: an audit found both sides equal since then" in world.waiting
        assert 2 <= world.runner.count("audit") - asked <= 5, "it is repeated, and not at once"
        assert not world.nodes_of(Roll.BACK)
        world.runner.results["audit"] = replace(world.runner.results["audit"], document=PASSED_AUDIT)
        await world.until_brokers()

    asyncio.run(story())
    assert_ours_again(world)


def test_the_way_back_does_not_wait_for_an_audit_that_somebody_else_requested(world: UnderStock) -> None:
    """It may ask brokers that hang."""

    async def story() -> None:
        await world.to_soak()
        audit_rows.ask_audit(
            world.store, world.id, purpose="demand", engine="quick", who="Ada", at=world.clock(), state="running"
        )
        await world.ask_back()
        await world.until_brokers()

    asyncio.run(story())
    assert_ours_again(world)


def test_a_loss_that_only_ours_reports_needs_consent_before_the_brokers_go_back(world: UnderStock) -> None:
    lost = ("configuration of client-metrics m1",)
    look = world.log.look
    known: list[tuple[str, ...]] = [()]

    async def with_loss(now: float, *given: Any) -> object:
        return msgspec.structs.replace(await look(now, *given), only_kraft=known[0])

    world.log.look = with_loss  # type: ignore[method-assign, assignment]

    async def story() -> None:
        await world.to_soak()
        await world.ask_back()
        known[0] = lost
        await world.until(lambda: all(world.ours_step(each) == "WHOLE" for each in NODES))
        await world.turn(10)
        assert "only KRaft has, too: configuration of client-metrics m1" in world.waiting
        assert not world.nodes_of(Roll.BACK)
        await world.run_operation("APPROVE", who="Ada", to=Phase.ROLLING_BACK)
        await world.until_brokers()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("claimed", "said"),
    [(4, "; epoch gap 7: the rollback repairs it"), (20, "; epoch gap 0"), (None, "lost: directory assignments only")],
)
def test_the_epoch_gap_is_told_while_stock_leads(world: UnderStock, claimed: int | None, said: str) -> None:
    def line() -> str:
        road = migration_view(world.store, world.id, world.clock()).road
        assert road is not None
        return back_lines(road.back)[0]

    async def story() -> None:
        await world.to_replacing()
        zookeeper = world.zookeeper
        zookeeper.observed = msgspec.structs.replace(zookeeper.observed, kraft_epoch=11, controller_epoch=claimed)
        await world.turn(2)
        assert "epoch gap" not in line(), "ours leads"

    asyncio.run(story())
    world.was_rolled(Roll.STOCK, NODES)
    assert line().endswith(said)


def test_an_intent_in_zookeeper_that_a_restored_database_does_not_know_closes_the_gate(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_soak()
        world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, intent='{"who": "Bo"}')
        await world.turn(2)
        refused = await world.run_operation("ROLL_BACK", who="Ada")
        assert refused.state == "refused"
        assert "the intent stands in ZooKeeper" in refused.answer

    asyncio.run(story())
    assert codes(controllers_may_return(world.evidence)) == {"Z2K-4211"}


def test_cost_and_readiness_are_told_before(world: UnderStock) -> None:
    async def story() -> None:
        await world.to_soak()
        await world.with_files()

    asyncio.run(story())
    view = migration_view(world.store, world.id, world.clock())
    assert view.road is not None
    assert view.road.back is not None
    assert (view.road.back.possible, view.road.back.controllers) == (True, list(NODES))
    assert view.without_controller_s == 0.0, "stock leads, which has no driver that says so"
    (line,) = back_lines(view.road.back)
    said = (
        "rollback  possible; controllers [3000, 3001, 3002] are ours again, restarts [0, 1, 2], with original files []"
    )
    assert line.startswith(said)
    road = world.evidence.road
    assert road is not None
    assert road.back is not None
    assert (road.back.controllers, road.back.restarts) == (NODES, BROKERS)
    assert road.back.total_s is not None
    undo = undo_of(Phase.SOAK, road.back)
    assert undo.command == "zk2kraft rollback"
    assert undo.restarts == "controllers [3000, 3001, 3002] are ours again, then brokers [0, 1, 2] into ZooKeeper mode"
    assert controllers_may_return(world.evidence).holds, controllers_may_return(world.evidence).reason()


# --- gates ------------------------------------------------------------------------------------------------


def ready(road: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    """A rollback from SOAK is possible."""
    back = RollbackPlan(restarts=BROKERS, controllers=NODES)
    return evidence({"back": back, **(road or {})}, controllers=NODES, driver_state=None, **changes)


def test_what_was_not_measured_is_named_as_an_assumption() -> None:
    """Brokers took 30 s each; no controller was restarted yet."""
    back = RollbackPlan(restarts=BROKERS, controllers=NODES, seconds=30.0, settle_s=10.0)
    assert (back.total_s, back.least_s) == (None, 3 * 30 + 3 * (6 + 10))
    assert cost_of(back).endswith("; at least 138 s, by assumption: none was measured")
    view = way_back_view(Phase.SOAK, back, ready({"back": back}))
    assert view is not None
    (line,) = back_lines(view)
    assert ", at least 138 s by assumption, because none was measured; lost: " in line
    measured = replace(back, controller_seconds=8.0)
    assert (measured.total_s, measured.least_s) == (114.0, None)
    assert cost_of(measured).endswith("; about 114 s, by what restarts took before")
    nothing_left = RollbackPlan()
    assert (nothing_left.total_s, nothing_left.least_s) == (None, None)


def test_the_gate_of_the_rollback_under_stock_opens_when_every_condition_is_true() -> None:
    assert closed(controllers_may_return(ready())) == []


@pytest.mark.parametrize(
    ("road", "name"),
    [
        ({"intent": "{at: 1}"}, "the finalize was not begun"),
        ({"migration": "POST_MIGRATION"}, "the log says MIGRATION"),
        ({"voters": voters(ready=False)}, "no voter runs without the migration flag"),
        ({"voters": voters(ready=None)}, "no voter runs without the migration flag"),
        ({"voters": voters()[:2]}, "every voter is known"),
        ({"fleet_problem": "no inventory"}, "brokers and controllers can be operated"),
        ({"offline": (1,)}, "every directory of every broker is online"),
        ({"features": ("kraft.version",)}, "no feature beside metadata.version is finalized"),
        (
            {"back": RollbackPlan(not_kept=("controller 3001: x",))},
            "the previous file of every node that goes back is kept",
        ),
        ({"back": RollbackPlan(lost=("group g1",))}, "somebody consented to what is lost"),
        ({"guards": (GuardFact(3001, "not read", "?"),)}, "the guard of controller 3001 is proven"),
        ({"guards": (GuardFact(3001, "proven", "it is", 500.0),)}, "the guard of controller 3001 is proven"),
        ({"files": None}, "the guard of every controller is proven"),
    ],
)  # fmt: skip
def test_each_condition_closes_the_gate_of_the_rollback_under_stock(road: dict[str, Any], name: str) -> None:
    if "guards" not in road and "files" not in road and "back" in road:
        road = {**road, "back": replace(road["back"], controllers=NODES)}
    assert name in closed(controllers_may_return(ready(road)))


@pytest.mark.parametrize("changes", [{"holder": Holder.NOBODY}, {"silent": {3000: "it is not running"}}])
def test_neither_a_claim_that_is_gone_nor_a_silent_controller_of_ours_is_overlooked(changes: dict[str, Any]) -> None:
    assert not controllers_may_return(ready(**changes)).holds


def test_no_guard_is_asked_for_where_no_controller_was_replaced() -> None:
    untouched = {"back": RollbackPlan(restarts=BROKERS), "guards": ()}
    assert closed(controllers_may_return(ready(untouched))) == []


def test_before_the_brokers_go_back_ours_lead_in_dual_write_and_nothing_is_behind() -> None:
    good = evidence({"back": RollbackPlan(restarts=BROKERS, orders=0, equal=True, said="7")}, controllers=NODES)
    assert closed(ours_lead_again(good)) == []
    for spoiled in ({"dual_write_lag": 1}, {"dual_write_lag": None}, {"log_problem": "nobody leads"}):
        assert not ours_lead_again(replace(good, road=replace(good.road or _none(), **spoiled))).holds
    for back in (
        RollbackPlan(orders=0),
        RollbackPlan(orders=0, equal=False),
        RollbackPlan(equal=True),
        RollbackPlan(orders=1, equal=True),
    ):
        assert not ours_lead_again(replace(good, road=replace(good.road or _none(), back=back))).holds
    assert not ours_lead_again(replace(good, driver_state="SYNCING")).holds


def _none() -> FleetEvidence:
    raise AssertionError("there is a road")


def test_a_controller_that_follows_is_not_stopped_first_while_another_one_does_not() -> None:
    away = (
        VoterObserved(3000, False, 9, True),
        VoterObserved(3001, True, 0, True),
        VoterObserved(3002, False, 0, True),
    )
    said = ours.others_away(evidence({"voters": away}), (3001,))
    assert said == "controllers [3001] are not stopped while controllers [3000] do not have what is committed"
    assert ours.others_away(evidence(), (3001,)) is None
    assert ours.others_away(evidence({"voters": away}), (3000,)) is None


@pytest.mark.parametrize("phase", [Phase.REPLACING_CONTROLLERS, Phase.SOAK])
def test_rollback_is_a_step_from_each_phase_under_stock(phase: Phase) -> None:
    assert look_up(phase, Trigger.ROLL_BACK).to is Phase.ROLLING_BACK
