"""The states of a driver, as status, history and logs name them.

Elsewhere: what leads from one to another (driver.machine), what they mean for an operator's phase
(state_machine.work.driver_history), the picture of them (docs/architecture.md).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """The state of one driver; a follower's driver is IDLE whatever the cluster is in."""

    IDLE = "IDLE"
    WAIT_QUORUM = "WAIT_QUORUM"
    WAIT_BROKERS = "WAIT_BROKERS"
    TAKING_OVER = "TAKING_OVER"
    COPYING = "COPYING"
    AUDITING = "AUDITING"
    COMMITTING = "COMMITTING"
    SYNCING = "SYNCING"
    UPDATING_BROKERS = "UPDATING_BROKERS"
    DUAL_WRITE = "DUAL_WRITE"
    ABORTING = "ABORTING"
    ABORTED = "ABORTED"
    RESUMING = "RESUMING"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLING_BACK_EARLY = "ROLLING_BACK_EARLY"
    RETIRED = "RETIRED"
    FENCED = "FENCED"
    DONE = "DONE"


WAITS: Final = frozenset({State.WAIT_BROKERS, State.ABORTED})
"""The driver waits for its gate or for an operator."""
UNCLAIMED: Final = frozenset({State.WAIT_QUORUM, *WAITS})
BEFORE_COMMIT: Final = frozenset({State.TAKING_OVER, State.COPYING, State.AUDITING})
COMMITTED_NOT_ENTERED: Final = frozenset({State.COMMITTING, State.SYNCING, State.UPDATING_BROKERS})
"""From the append on, until dual-write is entered."""
