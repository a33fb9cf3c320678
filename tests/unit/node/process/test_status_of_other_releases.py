"""The status of a controller as another release reads it: unknown keys are passed over, missing ones have a value."""

from __future__ import annotations

import msgspec

from migrator.control_api.control_file import ControlFile
from migrator.control_api.status import ControllerStatus
from tests.support.statuses import a_status

SINCE: tuple[str, ...] = ("loop_work_ms", "partitions")
"""Keys that a controller of schema 0002 does not have (tests/adversarial/earlier.py)."""


def test_keys_of_a_later_release_are_passed_over() -> None:
    status = a_status(driver={"state": "DUAL_WRITE"})
    told = msgspec.to_builtins(status)
    told["of_a_later_release"] = {"a": 1}
    told["driver"]["of_a_later_release"] = 2
    assert msgspec.convert(told, ControllerStatus) == status


def test_a_state_of_a_later_release_is_shown_as_it_is() -> None:
    driver = a_status(driver={"state": "OF_A_LATER_RELEASE"}).driver
    assert driver is not None
    assert driver.state == "OF_A_LATER_RELEASE"


def test_keys_that_an_earlier_release_lacks_are_not_known() -> None:
    told = {key: value for key, value in msgspec.to_builtins(a_status()).items() if key not in SINCE}
    read = msgspec.convert(told, ControllerStatus)
    assert [getattr(read, key) for key in SINCE] == [None, None]


def test_a_control_file_of_a_later_release_is_read() -> None:
    file = ControlFile(pid=7, url="http://127.0.0.1:1", token="t")
    told = {**msgspec.to_builtins(file), "of_a_later_release": True}
    assert msgspec.convert(told, ControlFile) == file
