"""What a driver can be asked for over its control port, in which states it keeps that, and for how long.

A takeover is kept while its gate stays closed, for TAKEOVER_KEPT_S, unless it is cancelled before it begins. A rollback
is kept until the driver can begin it. An abort is never kept: it ends the act of the state at once, or it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from migrator.control_api.states import BEFORE_COMMIT, COMMITTED_NOT_ENTERED, UNCLAIMED, State


class DriverOperation(StrEnum):
    """The last word of the control port's address."""

    TAKE_OVER = "takeover"
    ABORT = "abort"
    ROLL_BACK = "rollback"


CANCEL: Final = "cancel"
"""The last word of the address that cancels a takeover which has not begun."""

TAKEOVER_KEPT_S: Final = 60.0
"""Later, whoever asked for it may not be there any more. A gate that opens later needs a new request."""

KEPT_IN: Final[Mapping[DriverOperation, frozenset[State]]] = {
    DriverOperation.TAKE_OVER: UNCLAIMED,
    DriverOperation.ABORT: BEFORE_COMMIT,
    DriverOperation.ROLL_BACK: frozenset({*COMMITTED_NOT_ENTERED, State.RESUMING, State.DUAL_WRITE}),
}
"""States in which a driver accepts an operation that is not under way yet."""

NOT_BEGUN_IN: Final[Mapping[DriverOperation, frozenset[State]]] = {
    DriverOperation.TAKE_OVER: UNCLAIMED,
    DriverOperation.ABORT: COMMITTED_NOT_ENTERED,
    DriverOperation.ROLL_BACK: frozenset({*COMMITTED_NOT_ENTERED, State.RESUMING, State.DUAL_WRITE, State.FENCED}),
}
"""States in which a driver that does not name the operation has not begun it and will not. Any other state is left for
the driver's history to tell."""


class OperationAccepted(msgspec.Struct, frozen=True):
    """The answer to an operation."""

    accepted: str


class Cancelled(msgspec.Struct, frozen=True):
    """False: no takeover was waiting; it has begun, or it ended before."""

    cancelled: bool


class OperationRefusal(msgspec.Struct, frozen=True):
    """The answer to an operation that the driver does not keep, with where the driver is."""

    detail: str
