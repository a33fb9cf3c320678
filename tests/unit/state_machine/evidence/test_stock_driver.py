"""What is seen of Kafka's own controllers: a state for each pair of what the log and ZooKeeper say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.findings.road import STOCK_STANDS_STILL
from state_machine.clusters.log_observer import LogBroker, LogObservation
from state_machine.clusters.observe import Observation, ZooKeeperObservation
from state_machine.evidence.stock_driver import StockDriver, brokers_of_stock, phase_shown, stock_driver
from state_machine.evidence.stock_flaws import flaw_findings
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.gates import Holder
from state_machine.policy.phase_table import ROWS
from state_machine.policy.phases import STEPS, Phase, way

STOCK = ControllerEngine.STOCK
OPEN = "a metadata transaction is open"
NOW = 1_000.0


def a_look(
    migration: str = "PRE_MIGRATION",
    holder: Holder = Holder.ZOOKEEPER_BROKER,
    offset: int | None = None,
    problem: str = "",
    joined: tuple[int, ...] = (0, 1),
) -> Observation:
    brokers = tuple(LogBroker(each, f"run-{each}", "ZooKeeper", fenced=False) for each in joined)
    log = LogObservation(
        1.0, problem, leader=3000, migration=migration, brokers=brokers, in_transaction=problem == OPEN
    )
    zookeeper = ZooKeeperObservation(holder, holder_id=3000, migration_offset=offset, brokers=(0, 1, 2))
    return Observation(1.0, log=log, zookeeper=zookeeper)


@pytest.mark.parametrize(
    ("look", "state", "says"),
    [
        (a_look(holder=Holder.UNKNOWN), None, "ZooKeeper cannot be read"),
        (a_look(problem="nobody leads"), State.WAIT_QUORUM, "nobody leads"),
        (a_look(), State.WAIT_BROKERS, "brokers [2]"),
        (a_look(migration="NONE"), State.WAIT_QUORUM, "not begun with zookeeper.metadata.migration.enable"),
        (a_look(holder=Holder.OURS), State.COPYING, "copies"),
        (a_look(holder=Holder.OURS, problem=OPEN), State.COPYING, OPEN),
        (a_look(holder=Holder.OURS, problem="no answer"), None, "no answer"),
        (a_look("MIGRATION", Holder.OURS, -1), State.SYNCING, "names no offset"),
        (a_look("MIGRATION", Holder.OURS, 812), State.DUAL_WRITE, "offset 812"),
        (a_look("MIGRATION", Holder.ZOOKEEPER_BROKER, 812), State.FENCED, "does not hold the claim"),
        (a_look("POST_MIGRATION", Holder.OURS, 812), State.DONE, "finalized"),
    ],
)
def test_log_and_zookeeper_tell_the_state(look: Observation, state: State | None, says: str) -> None:
    found = stock_driver(look)
    assert found.state == state
    assert says in found.reason


@pytest.mark.parametrize(
    ("phase", "state", "shown"),
    [
        (Phase.READY, State.WAIT_BROKERS, Phase.READY),
        (Phase.READY, State.COPYING, Phase.COPY),
        (Phase.TAKEOVER, State.SYNCING, Phase.AUDIT),
        (Phase.BROKERS_JOINING, State.DUAL_WRITE, Phase.DUAL_WRITE),
        (Phase.TAKEOVER, None, Phase.TAKEOVER),
        (Phase.ROLLING_BROKERS, State.COPYING, Phase.ROLLING_BROKERS),
        (Phase.ROLLING_BACK, State.DUAL_WRITE, Phase.ROLLING_BACK),
        (Phase.SOAK, State.FENCED, Phase.SOAK),
    ],
)
def test_a_phase_follows_what_is_seen_and_never_goes_back_by_it(phase: Phase, state: State, shown: Phase) -> None:
    found = phase_shown(phase, StockDriver(state, ""))
    assert found is shown
    assert way(phase, found, STOCK) is not None


def test_brokers_are_those_of_inventory_zookeeper_and_log() -> None:
    found = {each.id: each for each in brokers_of_stock(a_look(), (7,))}
    assert sorted(found) == [0, 1, 2, 7]
    assert [found[each].registered for each in (0, 2, 7)] == [True, False, False]
    unread = brokers_of_stock(replace_log(a_look(joined=())), ())
    assert {each.registered for each in unread} == {None}, "a log that is not read says nothing of anybody"


def replace_log(look: Observation) -> Observation:
    return Observation(look.at, log=LogObservation(1.0, "no answer"), zookeeper=look.zookeeper)


def test_with_stock_every_phase_has_a_row_for_its_steps() -> None:
    phases = {phase for phase, _ in STEPS[STOCK]} | {edge.to for edge in STEPS[STOCK].values()}
    assert phases == set(ROWS[STOCK])
    assert set(ROWS[ControllerEngine.OURS]) - phases == {Phase.REPLACING_CONTROLLERS, Phase.ABORTING}


@pytest.mark.parametrize(
    ("look", "seconds", "codes"),
    [
        (a_look(holder=Holder.OURS), 59.0, []),
        (a_look(holder=Holder.OURS), 61.0, [STOCK_STANDS_STILL.code]),
        (a_look("MIGRATION", Holder.OURS, -1), 61.0, [STOCK_STANDS_STILL.code]),
        (a_look("MIGRATION", Holder.OURS, 812), 61.0, []),
        (a_look(holder=Holder.OURS, problem=OPEN), 61.0, []),
    ],
)
def test_k01_and_k02_stock_that_stands_still_is_named(look: Observation, seconds: float, codes: list[str]) -> None:
    """A large copy shows itself as an open transaction, and is no flaw."""
    snapshot: Any = SimpleNamespace(
        observation=look,
        inventory=SimpleNamespace(has_stock=True),
        migration=SimpleNamespace(since=NOW - seconds),
    )
    assert [each.code for each in flaw_findings(snapshot, NOW)] == codes
