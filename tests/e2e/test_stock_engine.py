"""`engine: stock`: the service drives Kafka's own controllers through the same road, to its end and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migrator.findings.road import STOCK_CANNOT_COMPARE
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.road_kills import wait_leader
from tests.e2e.road_stage import why_not_at_the_end
from tests.e2e.stock_stage import StockStage, go_back
from tests.e2e.test_service import subscribe

pytestmark = pytest.mark.lab


def test_a_cluster_goes_to_dual_write_by_kafkas_own_controllers_and_back(laboratory: Laboratory) -> None:
    """The last broker is held until the takeover is requested; nothing is claimed before, nothing is left after."""
    stage = StockStage(laboratory, joins=True)
    stage.to_dual_write()
    joins = [each.node for each in stage.fleet.done if each.act == "start" and each.node < 3000]
    view = stage.service.view(stage.migration)
    entered = {each["to_phase"]: each for each in view["events"]}
    assert stage.held == joins[-1], "the active controller of ZooKeeper mode was restarted last"
    assert view["engine"] == "stock"
    assert {"TAKEOVER", "COPY", "AUDIT", "DUAL_WRITE"} <= entered.keys()
    _meets_k11(stage)
    go_back(stage)


@pytest.mark.long
def test_kafkas_own_controllers_come_to_the_end(laboratory: Laboratory) -> None:
    stage = StockStage(laboratory, joins=True)
    stage.to_dual_write()
    stage.to_soak()
    stage.to_completed()
    stage.wait_view(why_not_at_the_end)
    stage.assert_proven()


@pytest.mark.long
@pytest.mark.parametrize("to", [StockStage.to_hybrid, StockStage.to_soak])
def test_kafkas_own_controllers_lead_the_way_back(laboratory: Laboratory, to: Callable[[StockStage], None]) -> None:
    """Brokers go into ZooKeeper mode while stock leads; then it is stopped, and its claim taken away."""
    stage = StockStage(laboratory, joins=True)
    stage.to_dual_write()
    to(stage)
    go_back(stage)


def _meets_k11(stage: StockStage) -> None:
    """K-11: what stock's comparison would never get over is named, before an election makes it stand."""
    leader = next(each for each in stage.fleet.ours if each.spec.node_id == wait_leader(each.voters))
    subscribe(leader)
    stage.wait_view(lambda view: None if STOCK_CANNOT_COMPARE.code in _codes(view) else "it is not named")
    subscribe(leader, removes=True)
    stage.wait_view(lambda view: "it is still named" if STOCK_CANNOT_COMPARE.code in _codes(view) else None)


def _codes(view: dict[str, Any]) -> set[str]:
    return {each["code"] for each in view["findings"]}
