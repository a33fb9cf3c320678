"""The copy goes on only when nothing moved between two readings (Z2K-2012), and only of this cluster (Z2K-1013)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.machine import Happened
from migrator.findings.content import CLUSTER_ID_DIFFERS
from migrator.findings.driver import MOVED_WHILE_COPIED
from migrator.findings.finding import FindingError
from migrator.node.driver import copying
from migrator.node.driver.copying import SWEEPS_MAX
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from tests.support.driver_acts import copy_acts, done
from tests.unit.driver.test_mirror import a_cluster
from tests.unit.node.driver.test_driver_acts import CLUSTER_ID, a_driver


@pytest.mark.parametrize("changes", range(SWEEPS_MAX + 1))
def test_a_tree_that_does_not_rest_is_never_copied(monkeypatch: pytest.MonkeyPatch, changes: int) -> None:
    """Somebody writes a configuration after each of the first readings; the copy must have the last one, or none."""
    ensemble, _, _ = a_cluster()
    ensemble.create(paths.CLUSTER_ID, b'{"version":"1","id":"%s"}' % CLUSTER_ID.encode())
    config = paths.broker_config("1")
    ensemble.create(config, b'{"version":1,"config":{"log.cleaner.threads":"0"}}')
    left = list(range(1, changes + 1))

    def read_and_change(*asked: Any, **named: Any) -> Any:
        tree = read_tree(*asked, **named)
        if left:
            written = b'{"version":1,"config":{"log.cleaner.threads":"%d"}}' % left.pop(0)
            ensemble.create(config, written)
        return tree

    monkeypatch.setattr(copying, "read_tree", read_and_change)

    async def told() -> Happened:
        driver = a_driver(State.COPYING, session=ensemble.session())
        driver.parts.config.waived = ()
        happened = await done(driver, copy_acts(driver).copy())
        assert driver.now.copy is not None
        assert driver.now.copy.broker_configs == {"1": {"log.cleaner.threads": str(changes)}}
        return happened

    if changes < SWEEPS_MAX:
        assert asyncio.run(told()) is Happened.COPIED
        return
    with pytest.raises(FindingError) as moved:
        asyncio.run(told())
    assert moved.value.code == MOVED_WHILE_COPIED.code
    assert moved.value.occurrence.values["first"] == paths.BROKER_CONFIGS


@pytest.mark.parametrize("found", [None, "a" * 22])
def test_a_cluster_id_that_changed_behind_the_gate_ends_the_window(found: str | None) -> None:
    """The gate reads the cluster id first and `/migration` last: each may be right when it is read, and never both."""
    ensemble, _, _ = a_cluster()
    if found is not None:
        ensemble.create(paths.CLUSTER_ID, b'{"version":"1","id":"%s"}' % found.encode())

    async def told() -> None:
        driver = a_driver(State.COPYING, session=ensemble.session())
        driver.parts.config.waived = ()
        await done(driver, copy_acts(driver).copy())

    with pytest.raises(FindingError) as other:
        asyncio.run(told())
    assert other.value.code == CLUSTER_ID_DIFFERS.code
