"""Statuses of controllers for tests: from parts of one, and of a driver that runs in the test."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from migrator.control_api.status import ControllerStatus, QuorumStatus
from migrator.node.driver.driver_node import DriverNode
from migrator.node.process.status import with_driver

BARE: Final = ControllerStatus(node=3000, run="run-1", quorum=QuorumStatus(leader=None, epoch=0), loop_delay_ms=0.0)

_OF_A_DRIVER: Final[dict[str, Any]] = {
    "state": "IDLE",
    "reason": "",
    "can_abort": False,
    "can_roll_back": False,
    "window_ms": None,
    "without_controller_ms": None,
    "finding": None,
    "trouble": None,
    "history": [],
}


def a_status(**parts: Any) -> ControllerStatus:
    """What is not given is as in a controller that has just started. driver: its keys, as JSON has them."""
    whole = msgspec.to_builtins(BARE) | parts
    if whole["driver"] is not None:
        whole["driver"] = _OF_A_DRIVER | whole["driver"]
        whole["log"] = {"migration": "PRE_MIGRATION", "offset": 0} | (whole["log"] or {})
        whole["dual_write"] = {"divergence": "WITHIN", "finding": None} | (whole["dual_write"] or {})
    whole["quorum"] = {"leader": None, "epoch": 0} | whole["quorum"]
    return msgspec.convert(whole, ControllerStatus)


def driver_status(driver: DriverNode) -> dict[str, Any]:
    """As JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(with_driver(BARE, driver))
    return found
