"""Every multi obeys the servers' `jute.maxbuffer`: what may be cut is cut, and what may not is named, unwritten.

Each of these was sent as one request that the server answered by closing the connection, at every try. The same on a
real server: tests/e2e/test_small_requests.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.machine import Happened
from migrator.driver.tree import as_image
from migrator.model.diff import diff
from migrator.node.tools.without_controllers import execute_without_controllers, plan_without_controllers
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.multi import HEADROOM_BYTES, Delete, Multi
from migrator.zk.znodes import topic_data
from tests.support.builders import a_topic, an_image
from tests.support.driver_acts import done
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_spoiled_trees import BAD, CONFIG, IMAGE, a_successor, reconciled, spoiled
from tests.unit.node.driver.test_ways_back import a_report, rolling_back
from tests.unit.node.tools.test_log_against_zookeeper import CHANGES, STATE, planned, worn
from tests.unit.node.tools.test_without_controllers import a_dead_dual_write
from tests.unit.node.zookeeper.test_zookeeper_orders import a_driver_in_migration

SMALLEST = 2 * HEADROOM_BYTES
"""The smallest `zk2kraft.zookeeper.jute.maxbuffer` that a controller starts with."""

MANY = 900
"""Fewer than any multi may have operations; with their names they are more than such a server takes at once."""
LONG = ["n" * 200 + f"{number:04}" for number in range(MANY)]

BELOW: dict[str, dict[str, bytes | None]] = {
    "a configuration that goes": {
        paths.broker_config("5"): CONFIG,
        **{f"{paths.broker_config('5')}/{name}": b"" for name in LONG},
    },
    "a foreign topic": {
        paths.topic("foreign"): BAD,
        **{f"{paths.topic('foreign')}/{name}": b"" for name in LONG},
    },
    "configurations of no broker": {paths.broker_config(name): BAD for name in LONG},
    "orders": {f"{paths.DELETE_TOPICS}/{name}": b"" for name in LONG},
}


def on_small_servers(driver: Any, ensemble: FakeEnsemble) -> None:
    driver.parts.config.jute_maxbuffer = ensemble.jute_maxbuffer = SMALLEST


@pytest.mark.parametrize("oddities", BELOW.values(), ids=BELOW.keys())
def test_what_the_reconcile_takes_away_goes_in_requests_that_the_servers_take(
    oddities: dict[str, bytes | None],
) -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        spoiled(ensemble, oddities)
        on_small_servers(driver, ensemble)
        assert await reconciled(driver) is Happened.RECONCILED
        assert not [path for path in ensemble.nodes if path.rpartition("/")[2] in LONG]
        tree = read_tree(driver.parts.session)
        assert tree.problems == []
        assert diff(as_image(tree, IMAGE), IMAGE).is_empty

    story(told)


def test_states_that_are_missing_are_created_in_requests_that_the_servers_take() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        wide = a_topic("wide", 1_000)
        image = an_image(*IMAGE.topics.values(), wide)
        driver.parts.controller.image = driver.parts.controller.newest = image
        ensemble.create(paths.topic("wide"), topic_data(wide))
        on_small_servers(driver, ensemble)
        assert await reconciled(driver) is Happened.RECONCILED
        assert paths.state("wide", 999) in ensemble.nodes
        assert read_tree(driver.parts.session).problems == []

    story(told)


def test_a_spoiled_znode_that_no_server_would_take_is_left_and_named_and_all_the_rest_is_put_right() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        wide = a_topic("wide", 9_000)
        image = an_image(*IMAGE.topics.values(), wide)
        driver.parts.controller.image = driver.parts.controller.newest = image
        ensemble.create(paths.topic("wide"), BAD)
        spoiled(ensemble, {paths.topic("orders"): BAD})
        on_small_servers(driver, ensemble)
        assert await reconciled(driver) is Happened.RECONCILED
        assert ensemble.nodes[paths.topic("wide")].data == BAD
        assert ensemble.nodes[paths.topic("orders")].data == topic_data(IMAGE.topics[IMAGE.topic_ids["orders"]])
        (left_out,) = driver.now.unmirrored
        assert ("wide" in left_out.key, "Z2K-2124" in left_out.reason) == (True, True)
        assert paths.topic("wide") in driver.now.alarms["Z2K-2107"].text

    story(told)


def test_orders_of_the_last_moment_go_before_the_claim_where_one_request_does_not_hold_them() -> None:
    """Left there, the next ZooKeeper controller would carry them out: topics are deleted, with their data."""

    async def told() -> None:
        driver, ensemble = a_driver_in_migration(State.ROLLING_BACK)
        on_small_servers(driver, ensemble)

        async def mark(*_: Any) -> None:
            for name in LONG:
                ensemble.create(f"{paths.DELETE_TOPICS}/{name}")

        driver.parts.controller.mark = mark
        acts = rolling_back(driver, a_report())
        before = len(ensemble.log)
        assert await done(driver, acts.rollback()) is Happened.ROLLED_BACK
        assert not [path for path in ensemble.nodes if path.startswith(f"{paths.DELETE_TOPICS}/")]
        assert paths.CONTROLLER not in ensemble.nodes
        *first, last = ensemble.log[before:]
        assert Delete(paths.CONTROLLER, 0) in last.operations
        assert len(first) > 1
        guards = {tuple(each.path for each in multi.operations[:2]) for multi in first}
        assert guards == {(paths.CONTROLLER_EPOCH, paths.CONTROLLER)}

    story(told)


def test_a_rollback_without_controllers_drops_orders_in_requests_that_every_server_takes() -> None:
    ensemble = a_dead_dual_write()
    for name in LONG:
        ensemble.create(f"{paths.DELETE_TOPICS}/{name}")
    ensemble.jute_maxbuffer = SMALLEST
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session, drop_orders=True))
    assert not [path for path in ensemble.nodes if path.startswith(f"{paths.DELETE_TOPICS}/")]
    assert paths.CONTROLLER not in ensemble.nodes


def test_orders_are_dropped_only_while_what_was_read_stands() -> None:
    ensemble = a_dead_dual_write()
    for name in LONG:
        ensemble.create(f"{paths.DELETE_TOPICS}/{name}")
    session = ensemble.session()
    plan = plan_without_controllers(session, drop_orders=True)
    assert session.apply(Multi((Delete(paths.CONTROLLER),))).applied
    before = ensemble.tree()
    with pytest.raises(Exception, match="Z2K-2019"):
        execute_without_controllers(session, plan)
    assert ensemble.tree() == before


def test_a_rollback_without_controllers_raises_versions_in_requests_that_every_server_takes(tmp_path: Path) -> None:
    ensemble, log = worn(tmp_path / "log")
    version = ensemble.nodes[STATE].version
    plan = planned(ensemble, log)
    ensemble.jute_maxbuffer = SMALLEST
    execute_without_controllers(ensemble.session(), plan)
    assert ensemble.nodes[STATE].version == version + CHANGES
    assert read_claim(ensemble.session()).controller is None


def test_a_path_weighs_its_bytes_and_not_its_letters() -> None:
    assert Multi((Delete("/config/users/äöü"),)).bytes == Multi((Delete("/config/users/aaoouu"),)).bytes
