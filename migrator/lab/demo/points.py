"""From where `zk2kraft demo --rollback-from` goes back."""

from __future__ import annotations

from enum import StrEnum


class Point(StrEnum):
    """A phase, or the middle of one: so many of its nodes were restarted, and the others were not touched."""

    DUAL_WRITE = "DUAL_WRITE"
    ROLLING_BROKERS_HALF = "ROLLING_BROKERS_HALF"
    ROLLING_BROKERS = "ROLLING_BROKERS"
    REPLACING_CONTROLLERS_HALF = "REPLACING_CONTROLLERS_HALF"
    SOAK = "SOAK"
