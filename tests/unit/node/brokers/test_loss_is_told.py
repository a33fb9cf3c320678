"""The active controller tells what a rollback loses; the service asks for consent to that (F-51)."""

from __future__ import annotations

import pytest

from migrator.control_api.states import State
from migrator.model.draft import Draft
from migrator.model.values import ConfigKey, ConfigType
from tests.support.statuses import driver_status
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.zookeeper.test_zookeeper_orders import a_driver_in_migration


@pytest.mark.parametrize(
    ("kind", "told_of"),
    [(ConfigType.CLIENT_METRICS, ["configuration of client-metrics 1"]), (ConfigType.BROKER, [])],
)
def test_a_status_in_dual_write_names_what_only_kraft_has(kind: ConfigType, told_of: list[str]) -> None:
    async def told() -> None:
        driver, _ = a_driver_in_migration(State.DUAL_WRITE)
        draft = Draft(driver.parts.controller.image)
        draft.set_config(ConfigKey(kind, "1"), "interval.ms", "1000")
        driver.parts.controller.image = draft.finish(driver.parts.controller.image.position).after
        driver.parts.controller.heartbeat_ages_ms = dict
        driver.propagator.channels.states = list
        assert list(driver_status(driver)["dual_write"]["only_kraft"]) == told_of
        driver.now.claim = None
        assert driver_status(driver)["dual_write"]["only_kraft"] is None

    story(told)
