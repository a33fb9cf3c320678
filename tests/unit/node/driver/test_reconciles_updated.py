"""What a reconcile says by name: orders of others that it removed (Z2K-2103), a write that failed (Z2K-2123)."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from migrator.control_api.states import State
from migrator.findings.driver import ORDERS_REMOVED
from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import MIRROR_BROKE, ZOOKEEPER_LOST
from migrator.model.diff import diff
from migrator.node.driver import reconciling
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from tests.support.builders import a_claim, a_topic, an_image
from tests.support.driver_acts import done, reconcile_acts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.node.driver.test_driver_acts import a_driver, story
from tests.unit.node.zookeeper.test_zookeeper_orders import a_driver_in_migration

DELETION = f"{paths.DELETE_TOPICS}/orders"


@pytest.mark.parametrize("begun", [True, False], ids=["the move was begun", "nobody heeds it"])
def test_what_is_removed_and_was_not_carried_out_is_told(begun: bool) -> None:
    async def told() -> None:
        ensemble = FakeEnsemble()
        ensemble.create(paths.CONTROLLER_EPOCH, b"7")
        ensemble.create(DELETION)
        ensemble.create(paths.REASSIGN_PARTITIONS, b'{"version":1,"partitions":[]}')
        driver = a_driver(State.SYNCING, session=ensemble.session())
        orders = read_orders(driver.parts.session)
        assert set(orders.given) == {DELETION, paths.REASSIGN_PARTITIONS}
        with capture_logs() as events:
            await reconcile_acts(driver)._take_orders_away(orders, a_claim(epoch_version=0), begun)
        assert DELETION not in ensemble.nodes
        assert paths.REASSIGN_PARTITIONS not in ensemble.nodes
        (event,) = [each for each in events if each["event"] == "orders.removed"]
        assert event["code"] == ORDERS_REMOVED.code
        assert event["orders"] == ([DELETION] if begun else [DELETION, paths.REASSIGN_PARTITIONS])

    story(told)


def test_a_commit_that_comes_meanwhile_and_cannot_be_sent_begins_the_reconcile_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is neither forgotten nor taken for mirrored."""

    async def told() -> None:
        driver, _ = a_driver_in_migration(State.SYNCING)
        before = driver.parts.controller.image

        def lost(*_: Any) -> Any:
            raise ZOOKEEPER_LOST.error(path="multi", reason="the session ended")

        def read_and_lose(*asked: Any, **named: Any) -> Any:
            tree = read_tree(*asked, **named)
            driver.mirroring.backlog.append(diff(before, an_image(a_topic("orders"), a_topic("new"))))
            driver.parts.session.send = lost
            return tree

        monkeypatch.setattr(reconciling, "read_tree", read_and_lose)
        with pytest.raises(FindingError) as broke:
            await done(driver, reconcile_acts(driver).reconcile())
        assert broke.value.code == MIRROR_BROKE.code
        assert "the session ended" in broke.value.occurrence.text
        assert driver.mirror is None

    story(told)


@pytest.mark.parametrize(("fresh", "first"), [(True, True), (False, False)], ids=["fresh copy", "after a fail-over"])
def test_only_the_first_reconcile_of_a_fresh_copy_may_leave_topics_unread(
    monkeypatch: pytest.MonkeyPatch, fresh: bool, first: bool
) -> None:
    """One that failed may have written more than its claim, with numbers that stand on `/migration`."""

    async def told() -> None:
        driver, _ = a_driver_in_migration(State.SYNCING)
        driver.now.fresh_copy = fresh
        noted: list[int | None] = []

        def lost(*_: Any, claimed_by: int | None = None) -> Any:
            noted.append(claimed_by)
            raise ZOOKEEPER_LOST.error(path="/brokers/topics", reason="the session ended")

        monkeypatch.setattr(reconciling, "read_tree", lost)
        acts = reconcile_acts(driver)
        acts.updates.update_first = no_update  # type: ignore[method-assign]
        for _ in range(3):
            with pytest.raises(FindingError):
                await done(driver, acts.reconcile())
        assert noted == [driver.parts.config.node_id if first else None, None, None]

    async def no_update(why: Exception) -> None:
        return None

    story(told)
