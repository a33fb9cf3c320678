"""What the driver knows and shows: its state, why it waits, the claim, the window, the copy, findings.

In:   what the loop assigns, and the changes that acts report or return; the loop takes them, one at a time.
Out:  the same, for status and metrics; a `DriverView` for the acts.
Elsewhere: which states there are (driver.machine), which changes (act.py, with the table of fields), what is shown
(process/status.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import structlog

from migrator.audit.compare import AuditReport
from migrator.control_api.states import State
from migrator.control_api.status import Move
from migrator.driver.claim import Claim
from migrator.driver.copy import Copy
from migrator.driver.guard import Survey
from migrator.driver.machine import Happened, TimeWithoutController, in_window, may_abort
from migrator.driver.orders import NO_ORDERS, Orders
from migrator.driver.tree import Tree
from migrator.driver.unmirrored import Unmirrored
from migrator.findings.driver import NOT_MIRRORED
from migrator.findings.finding import Occurrence
from migrator.model.image import NOWHERE, Position
from migrator.model.verdict import Verdict
from migrator.node.driver.act import (
    Audited,
    BrokersSurveyed,
    Change,
    ClaimDropped,
    ClaimHeld,
    ClaimRefused,
    Concluded,
    ConfigsUnreadable,
    CopyAppended,
    CopyMade,
    CopyShared,
    Exported,
    Found,
    GateAsked,
    OrdersObserved,
    Reconciled,
    ReplacingObserved,
    TreeRead,
    WindowAbandoned,
    WindowOpened,
)

log = structlog.get_logger()


@dataclass(slots=True)
class DriverState:
    """The state of one driver, which its loop assigns.

    trouble: what holds up the act of this state, or wants attention meanwhile; `finding` is about how states ended.
    """

    state: State = State.IDLE
    reason: str = "this node does not lead"
    since_ms: int = 0
    led_epoch: int | None = None
    """Epoch of the newest leadership of this node."""
    claim: Claim | None = None
    window: TimeWithoutController | None = None
    window_ms: int | None = None
    tree: Tree | None = None
    copy: Copy | None = None
    surveys: dict[int, Survey] = field(default_factory=dict)
    verdict: Verdict | None = None
    exported: str | None = None
    audit: AuditReport | None = None
    finding: Occurrence | None = None
    trouble: Occurrence | None = None
    fresh_copy: bool = False
    """The copy is appended, or about to be in this very step, and no broker has an update from it."""
    abandoned: bool = False
    """This takeover may not append any more: its end was reported."""
    dual_write_at: Position = NOWHERE
    reconciled_writes: int | None = None
    unreadable: Mapping[str, Occurrence] = field(default_factory=dict)
    """Brokers with a password in ZooKeeper that cannot be decoded: their configuration is not written there."""
    unmirrored: tuple[Unmirrored, ...] = ()
    """What the log has and cannot be written to ZooKeeper, at the last plan."""
    broken: str = ""
    """Why the mirror broke last."""
    orders: Orders = NO_ORDERS
    """What others ordered through ZooKeeper, at the last observation."""
    replacing: tuple[Occurrence, ...] | None = None
    """What speaks against stock controllers in place of ours, at the last observation; None: unknown now."""
    alarms: dict[str, Occurrence] = field(default_factory=dict)
    """By code, or by another name: what wants attention, whatever the state."""
    moves: int = 0
    history: list[Move] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        assert self.led_epoch is not None, "the driver acts only while this node leads"
        return self.led_epoch

    @property
    def may_abort(self) -> bool:
        """Nothing is appended, so the takeover can be aborted."""
        return may_abort(self.state) or (self.state is State.COMMITTING and not self.fresh_copy)

    def enter(self, state: State, happened: Happened, now_ms: int) -> None:
        """Take the next state, with the reason for it, and note the move."""
        before = self.state
        self.state = state
        self.trouble = None
        self.replacing = None
        self.since_ms = now_ms
        keeps_reason = state in (State.ABORTING, State.ABORTED, State.FENCED, State.RETIRED)
        reason = self.reason if keeps_reason else happened.value
        self.reason = reason
        self.moves += 1
        self.history.append(Move(number=self.moves, at=time.time(), left=before.value, to=state.value, reason=reason))
        log.info("driver.state", **{"from": before.value, "to": state.value, "reason": reason})

    def wait_because(self, reason: str) -> None:
        """Name what is waited for; logged when it changes."""
        if reason != self.reason:
            self.reason = reason
            log.info("driver.waits", state=self.state.value, reason=reason)

    def alarm(self, name: str, found: Occurrence | None) -> None:
        """What wants attention under this name; None when it is over. Logged when it changes."""
        before = self.alarms.get(name)
        if found is None:
            self.alarms.pop(name, None)
        else:
            self.alarms[name] = found
        text = None if found is None else found.text
        if text != (None if before is None else before.text):
            code = name if found is None else found.code
            log.warning("driver.alarm", code=code, says=text or "it is over")

    def take(self, change: Change) -> None:
        """Assign what an act changed."""
        match change:
            case ClaimHeld(claim):
                self.claim = claim
            case ClaimDropped():
                self.claim = None
            case ClaimRefused(finding):
                self.window, self.finding = None, finding
            case WindowOpened(window):
                self.window = window
            case WindowAbandoned():
                self.abandoned = True
            case TreeRead(tree):
                self.tree = tree
            case CopyMade(copy):
                self.copy = copy
            case BrokersSurveyed(surveys):
                self.surveys = dict(surveys)
            case GateAsked(verdict):
                self.verdict = verdict
            case Exported(file):
                self.exported = file
            case Audited(report):
                self.audit = report
            case CopyAppended():
                self.fresh_copy = True
            case CopyShared():
                self.fresh_copy = False
            case Reconciled(writes):
                self.reconciled_writes = writes
            case ConfigsUnreadable(unreadable):
                self.unreadable = unreadable
            case OrdersObserved(orders):
                self.orders = orders
            case ReplacingObserved(against):
                self.replacing = against
            case Found(found):
                self.finding = found
            case Concluded(concluded):
                self.finding, self.reason = concluded, concluded.text
            case _:
                assert_never(change)

    def drop_claim(self) -> None:
        """It does not stand as it was held: nothing is written under it, and it is not known what ZooKeeper has."""
        self.claim = self.window = None
        self.dual_write_at = NOWHERE

    def forget_leadership(self) -> None:
        """What this node held or learned as a leader means nothing when it leads again."""
        self.drop_claim()
        self.fresh_copy = False
        self.unreadable = {}
        self.unmirrored = ()
        self.orders = NO_ORDERS
        self.alarms.clear()
        self.surveys.clear()

    def without_controller_ms(self, now_ms: int) -> int | None:
        """How long the cluster has had no controller; None outside the window."""
        if self.window is None or not self.is_without_controller:
            return None
        return now_ms - self.window.opened_ms

    @property
    def is_without_controller(self) -> bool:
        return self.window is not None and in_window(self.state)


class StateReporter:
    """What acts and parts of one driver report (`act.ActReporter`), assigned to its state. The loop makes it."""

    def __init__(self, now: DriverState) -> None:
        self._now = now

    def waiting(self, reason: str) -> None:
        self._now.wait_because(reason)

    def status(self, reason: str) -> None:
        self._now.reason = reason

    def trouble(self, found: Occurrence | None) -> None:
        self._now.trouble = found

    def alarm(self, name: str, found: Occurrence | None) -> None:
        self._now.alarm(name, found)

    def changed(self, *changes: Change) -> None:
        for each in changes:
            self._now.take(each)


def not_mirrored(found: Sequence[Unmirrored]) -> Occurrence | None:
    if not found:
        return None
    first = found[0]
    return NOT_MIRRORED.found(count=len(found), first=f"{first.family} {first.key}", reason=first.reason)
