"""Orders that others left in ZooKeeper are removed by a reconcile, and that is said by name (Z2K-2103)."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from migrator.driver.machine import State
from migrator.errors import ORDERS_REMOVED
from migrator.node.dual_write import DualWriteActs
from migrator.node.zookeeper_orders import read_orders
from migrator.zk import paths
from tests.support.builders import a_claim
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.node.test_driver_acts import a_driver, story

DELETION = f"{paths.DELETE_TOPICS}/orders"


@pytest.mark.parametrize("begun", [True, False], ids=["the move was begun", "nobody heeds it"])
def test_what_is_removed_and_was_not_carried_out_is_told(begun: bool) -> None:
    async def told() -> None:
        ensemble = FakeEnsemble()
        ensemble.create(paths.CONTROLLER_EPOCH, b"7")
        ensemble.create(DELETION)
        ensemble.create(paths.REASSIGN_PARTITIONS, b'{"version":1,"partitions":[]}')
        driver = a_driver(State.SYNCING, session=ensemble.session())
        orders = read_orders(driver.session)
        assert set(orders.given) == {DELETION, paths.REASSIGN_PARTITIONS}
        with capture_logs() as events:
            await DualWriteActs(driver)._take_orders_away(orders, a_claim(epoch_version=0), begun)
        assert DELETION not in ensemble.nodes
        assert paths.REASSIGN_PARTITIONS not in ensemble.nodes
        (event,) = [each for each in events if each["event"] == "orders.removed"]
        assert event["code"] == ORDERS_REMOVED.code
        assert event["orders"] == ([DELETION] if begun else [DELETION, paths.REASSIGN_PARTITIONS])

    story(told)
