"""The contract between the acts and the loop: what an act works with, reads, reports and returns.

In:   nothing; types only.
Out:  `DriverParts` (work with), `DriverView` (read), `ActReporter` (report while an act runs), `ActEnded` (return), and
      the changes that the last two carry.
Elsewhere: who assigns (driver_state.py, called by the loop in driver_node.py), the acts and what each of them has
besides its parts (driver_acts.py).
Rules: an act never assigns the driver's state. `DriverView` has properties only, so mypy refuses it, and
tests/unit/test_arrows.py looks for it in the source.

| field of `DriverState` | kind | who says so |
| --- | --- | --- |
| `state`, `since_ms`, `moves`, `history` | the loop's own | no act |
| `led_epoch` | input | the quorum, to the loop |
| `claim` | input and result | `ClaimHeld`, `ClaimDropped`; the mirror, with each write |
| `window`, `window_ms` | input; opened by an act | `WindowOpened`, `ClaimRefused`; the loop measures and closes it |
| `tree`, `copy`, `surveys` | result, input of the next act | `TreeRead`, `CopyMade`, `BrokersSurveyed` |
| `verdict`, `exported`, `audit` | result | `GateAsked`, `Exported`, `Audited` |
| `fresh_copy` | input and result, in one step with its effect | `CopyAppended`, `CopyShared` |
| `abandoned` | input of the commit | `WindowAbandoned`; the loop when a window fails |
| `dual_write_at`, `unmirrored`, `broken` | the mirror's | the loop, as the mirror's listener |
| `reconciled_writes`, `unreadable` | result | `Reconciled`, `ConfigsUnreadable` |
| `orders`, `replacing` | result | `OrdersObserved`, `ReplacingObserved` |
| `finding` | result: why a state ended, or what dual-write found | `Found`, `Concluded`, `ClaimRefused` |
| `reason`, `trouble`, `alarms` | live status | `ActReporter.waiting`, `.status`, `.trouble`, `.alarm`; the loop |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from migrator.audit.compare import AuditReport
from migrator.control_api.states import State
from migrator.driver.claim import Claim
from migrator.driver.copy import Copy
from migrator.driver.guard import Survey
from migrator.driver.machine import Happened, TimeWithoutController
from migrator.driver.orders import Orders
from migrator.driver.tree import Tree
from migrator.driver.unmirrored import Unmirrored
from migrator.findings.finding import Occurrence
from migrator.model.image import Position
from migrator.model.verdict import Verdict
from migrator.node.config.properties import NodeConfig
from migrator.node.driver.event_queue import EventQueue
from migrator.node.leader.active_controller import ActiveController
from migrator.node.leader.voter_observations import QuorumView
from migrator.node.quorum.hooks import Hooks
from migrator.node.transport.client_security import ClientSecurity
from migrator.zk.passwords import PasswordEncoder
from migrator.zk.session import ZkSession


class DriverView(Protocol):
    """What an act may read of the driver's state. It is what holds now, not what held when the act began."""

    @property
    def state(self) -> State: ...
    @property
    def reason(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def claim(self) -> Claim | None: ...
    @property
    def window(self) -> TimeWithoutController | None: ...
    @property
    def tree(self) -> Tree | None: ...
    @property
    def copy(self) -> Copy | None: ...
    @property
    def surveys(self) -> Mapping[int, Survey]: ...
    @property
    def exported(self) -> str | None: ...
    @property
    def finding(self) -> Occurrence | None: ...
    @property
    def trouble(self) -> Occurrence | None: ...
    @property
    def alarms(self) -> Mapping[str, Occurrence]: ...
    @property
    def fresh_copy(self) -> bool: ...
    @property
    def abandoned(self) -> bool: ...
    @property
    def may_abort(self) -> bool: ...
    @property
    def dual_write_at(self) -> Position: ...
    @property
    def unreadable(self) -> Mapping[str, Occurrence]: ...
    @property
    def unmirrored(self) -> tuple[Unmirrored, ...]: ...
    @property
    def broken(self) -> str: ...
    @property
    def orders(self) -> Orders: ...


@dataclass(frozen=True, slots=True)
class ClaimHeld:
    """The claim stands in ZooKeeper."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class ClaimDropped:
    """This quorum deletes its claim itself: a change of it means nothing from here on."""


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Nothing of this takeover stands in ZooKeeper: its window is over, and was none."""

    finding: Occurrence | None


@dataclass(frozen=True, slots=True)
class WindowOpened:
    window: TimeWithoutController


@dataclass(frozen=True, slots=True)
class WindowAbandoned:
    """This takeover may not append any more."""


@dataclass(frozen=True, slots=True)
class TreeRead:
    tree: Tree


@dataclass(frozen=True, slots=True)
class CopyMade:
    copy: Copy


@dataclass(frozen=True, slots=True)
class BrokersSurveyed:
    """surveys: all that is known now, by broker."""

    surveys: Mapping[int, Survey]


@dataclass(frozen=True, slots=True)
class GateAsked:
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Exported:
    """file: None when the export is too old to count."""

    file: str | None


@dataclass(frozen=True, slots=True)
class Audited:
    report: AuditReport


@dataclass(frozen=True, slots=True)
class CopyAppended:
    """The append begins in the same step; no broker has an update that was made from the copy."""


@dataclass(frozen=True, slots=True)
class CopyShared:
    """A broker may act on the copy from now on."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    writes: int


@dataclass(frozen=True, slots=True)
class ConfigsUnreadable:
    """A password in ZooKeeper cannot be decoded; found: by broker."""

    found: Mapping[str, Occurrence]


@dataclass(frozen=True, slots=True)
class OrdersObserved:
    orders: Orders


@dataclass(frozen=True, slots=True)
class ReplacingObserved:
    """What speaks against stock controllers in place of ours; None: unknown now."""

    found: tuple[Occurrence, ...] | None


@dataclass(frozen=True, slots=True)
class Found:
    """The finding of this state; None: there is none any more."""

    finding: Occurrence | None


@dataclass(frozen=True, slots=True)
class Concluded:
    """The finding that a state ends with; its text is the reason that is shown."""

    finding: Occurrence


Change = (
    ClaimHeld
    | ClaimDropped
    | ClaimRefused
    | WindowOpened
    | WindowAbandoned
    | TreeRead
    | CopyMade
    | BrokersSurveyed
    | GateAsked
    | Exported
    | Audited
    | CopyAppended
    | CopyShared
    | Reconciled
    | ConfigsUnreadable
    | OrdersObserved
    | ReplacingObserved
    | Found
    | Concluded
)


@dataclass(frozen=True, slots=True)
class ActEnded:
    """How an act ended, and what it changed. The loop assigns `changed`, in this order, in the same step."""

    happened: Happened
    changed: tuple[Change, ...] = ()


Act = Callable[[], Awaitable[ActEnded]]


class ActReporter(Protocol):
    """What an act reports while it runs. The loop's `StateReporter` implements it."""

    def waiting(self, reason: str) -> None:
        """Name what is not true yet; logged when it changes."""

    def status(self, reason: str) -> None:
        """The same for a text that changes all the time; not logged."""

    def trouble(self, found: Occurrence | None) -> None:
        """What holds up the act; None when that is over."""

    def alarm(self, name: str, found: Occurrence | None) -> None:
        """What wants attention under this name, whatever the state; None when it is over."""

    def changed(self, *changes: Change) -> None:
        """A change that others have to see before the act ends. Safe from an act's thread."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverParts:
    """What one driver and its acts work with; made before them, and never replaced.

    passwords: encodes those of brokers' configurations; None without their secret. to_brokers: how brokers are reached.
    now_ms: a clock that never goes back; wall_ms: milliseconds since 1970.
    """

    now: DriverView
    progress: ActReporter
    config: NodeConfig
    controller: ActiveController
    session: ZkSession
    passwords: PasswordEncoder | None
    quorum: QuorumView
    events: EventQueue
    hooks: Hooks
    to_brokers: ClientSecurity
    now_ms: Callable[[], int]
    wall_ms: Callable[[], int]


@dataclass(kw_only=True)
class HasParts:
    """Acts of one driver, with short names for the parts that nearly all of them use."""

    parts: DriverParts

    @property
    def now(self) -> DriverView:
        return self.parts.now

    @property
    def progress(self) -> ActReporter:
        return self.parts.progress

    @property
    def config(self) -> NodeConfig:
        return self.parts.config

    @property
    def controller(self) -> ActiveController:
        return self.parts.controller

    @property
    def session(self) -> ZkSession:
        return self.parts.session

    def now_ms(self) -> int:
        return self.parts.now_ms()
