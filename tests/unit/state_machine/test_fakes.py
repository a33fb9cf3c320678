"""What the fake controller says has the keys of what a real driver says; of a whole process: e2e/test_service.py."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.driver.lagging import NOTHING_LAGS
from migrator.node.process import status
from state_machine.clusters.inventory import ControllerEntry
from tests.support.statuses import driver_status
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.zookeeper.test_zookeeper_orders import a_driver_in_migration
from tests.unit.state_machine.fakes import OPEN, FakeController

OF_THE_PROCESS = {
    "node",
    "run",
    "cluster_id",
    "quorum",
    "loop_delay_ms",
    "loop_work_ms",
    "connections",
    "denials",
    "findings",
}


def keys(document: Any, at: str = "") -> set[str]:
    if isinstance(document, dict):
        below = (keys(value, f"{at}.{key}") for key, value in document.items())
        return {f"{at}.{key}" for key in document}.union(*below)
    return set()


def test_the_fake_says_what_a_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_brokers", lambda controller, figures: ())
    monkeypatch.setattr(status, "_updated", lambda brokers, driver: ())
    fake = FakeController(ControllerEntry(3000, "", ""), time.time, gate=OPEN)
    fake.move("DUAL_WRITE")
    faked = {key: value for key, value in fake.status().items() if key not in OF_THE_PROCESS}
    said: list[dict[str, Any]] = []

    async def told() -> None:
        driver, _ = a_driver_in_migration(State.DUAL_WRITE)
        driver.mirroring.mirror = SimpleNamespace(behind=0, lag_ms=0.0, lagging=NOTHING_LAGS, lagging_s=0.0)
        said.append({key: value for key, value in driver_status(driver).items() if key not in OF_THE_PROCESS})

    story(told)
    (real,) = said
    for document in (real, faked):
        document["claim"] = document["audit"] = document["gate"] = document["brokers"] = document["partitions"] = None
    assert keys(faked) == keys(real)
