"""The change report as values; JSON, page and text are three views of them.

In:   nothing. Out: frozen values. Times are seconds since 1970, durations are seconds.
Elsewhere: making them (report.py), showing them (api/change).
Rules: no secret is in any field: of files there are checksums, and lines in which secrets are hidden. A field is never
renamed or removed without a new `SCHEMA`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from state_machine.facts.accepted import WaiverFact
from state_machine.facts.approvals import ApprovalFact

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """About how long something takes. source: what was measured, or what is assumed and where that is from."""

    what: str
    restarts: int
    low_s: float
    high_s: float
    measured: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One part of the whole way, from the release that runs now to the last one.

    phase: in which the service does it; empty: nodes are restarted by the operator's own means. low_s, high_s: without
    waiting for people and windows. windows: at least and at most so many maintenance windows; None: there are none.
    decides: who. undo: what leads back. irreversible: from when on nothing leads back; empty: something does.
    state: of a migration; a plan has all of them ahead.
    """

    number: int
    what: str
    phase: str
    role: str
    restarts: int
    low_s: float
    high_s: float
    windows: tuple[int, int] | None
    decides: str
    undo: str
    irreversible: str
    because: str
    state: Literal["done", "now", "ahead"] = "ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A condition that was True, with what was observed."""

    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One restart of one node, planned or done. number: its place in the order of the whole change.

    roll: what the rolling restart does; phase: in which phase. step: PENDING means planned. file: which file it gets;
    empty: its own stays. checksum_before, checksum_after: SHA-256 of its file; empty: not known yet. diff: lines of
    that change, secrets hidden. ready: what held when the stop was ordered; whole: what held when it was there again.
    began_at: when its stop was ordered. trouble: why it failed, with its code.
    """

    number: int
    roll: str
    phase: str
    role: str
    node: int
    host: str
    rack: str
    path: str
    file: str
    step: str
    began_at: float | None
    ended_at: float | None
    seconds: float | None
    checksum_before: str
    checksum_after: str
    log_end: int
    detail: str
    trouble: str
    diff: tuple[str, ...]
    ready: tuple[Fact, ...]
    whole: tuple[Fact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One process. actuator: who acts on it. file_now: SHA-256 of its file when it was read last."""

    role: str
    node: int
    rack: str
    path: str
    log_dirs: tuple[str, ...]
    actuator: str
    unit: str
    guard: str
    file_now: str
    restarts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """Everything that happens on one host. restarts: numbers in the order of the whole change."""

    host: str
    nodes: tuple[NodePlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    key: str
    action: str
    reason: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """What changes in a file of this kind. rules: in the order in which they are applied; since: a Kafka version."""

    role: str
    file: str
    rules: tuple[KeyRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """limit: what keeps it small. source: where that is from. open: it is there now, and not only possible."""

    phase: str
    what: str
    limit: str
    source: str
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedWaiver(WaiverFact):
    """An accepted exception. holds: its end is not reached."""

    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseUndo:
    """What it costs to go back from a phase. command: empty when this release has none.

    possible: False where nothing can be undone any more. takes: how long, at any moment of the phase; None where
    nothing leads back, or no inventory names the nodes that restart.
    """

    phase: str
    command: str
    does: str
    restarts: str
    lost: str
    without_controller: str
    possible: bool
    takes: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBackNow:
    """The rollback as it would be now. ready: None where nothing evaluates it all the time.

    seconds: about how long, by restarts of this migration. takes: a range, by assumptions where nothing was measured.
    """

    ready: bool | None
    why_not: str
    command: str
    does: str
    restarts: str
    lost: str
    without_controller: str
    seconds: float | None
    consented_by: str
    takes: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingBack:
    """now: from the present phase. phases: from each phase of the way.

    last_by_command: the last phase in which a command goes back. last_moment: in words. irreversible: whether that
    moment is over; irreversible_since: when, where that is known.
    """

    now: WayBackNow
    phases: tuple[PhaseUndo, ...]
    last_by_command: str
    last_moment: str
    irreversible: bool
    irreversible_since: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """An operation of a person."""

    operation: str
    to: str
    who: str
    reason: str
    at: float
    state: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEntered:
    """seconds: spent in it, the present one up to now."""

    phase: str
    at: float
    who: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutController:
    """ended_at: when it was noticed. kind: measured by the driver at a takeover, or observed by the service."""

    kind: Literal["takeover", "observed"]
    ended_at: float
    seconds: float
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReport:
    """wanted: by the inventory. answered, failed: records since the first one. problem: why there is none now."""

    wanted: bool
    answered: int
    failed: int
    last_error: str
    problem: str
    errors_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedAudit:
    """result: passed, diverged, incomplete, or empty without one. not_read: keys that one side could not give."""

    id: int
    purpose: str
    engine: str
    who: str
    state: str
    result: str
    finished_at: float | None
    compared: int
    different: int
    not_read: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    before: str
    file: str
    sha256: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedZnode:
    """path: with the chroot. before, after: version and data, or `absent`; empty when it was not read."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnZnodesReport:
    """What the migration itself made or changed in ZooKeeper, as it was read there.

    before_at: the last reading before a rollback, in before_phase; after_at: the last one in ROLLED_BACK.
    before_problem, after_problem: why there is none.
    """

    before_at: float | None
    before_phase: str
    before_problem: str
    after_at: float | None
    after_problem: str
    znodes: tuple[ReportedZnode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperEnd:
    """What became of ZooKeeper after COMPLETED. says: the rest in words. unobserved_s: seconds that do not count."""

    says: str
    reachable: bool | None
    unreachable_since: float | None
    unobserved_s: float
    kept_days: float
    may_delete_from: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReport:
    """One change, for a board. state: planned, under way, rolled back or completed. at: when this was put together.

    no_plan: why there is no plan per host; empty when there is one. notices: what has to be read first.
    """

    schema: int
    migration: int
    name: str
    cluster_id: str
    phase: str
    state: Literal["planned", "under way", "completed", "rolled back"]
    at: float
    created_at: float
    created_by: str
    waiting: str
    paused: str
    zookeeper: str
    bootstrap_servers: str
    notices: tuple[str, ...]
    no_plan: str
    inventory_digest: str
    windows: tuple[str, ...]
    hosts: tuple[HostPlan, ...]
    restarts: tuple[Restart, ...]
    files: tuple[FilePlan, ...]
    durations: tuple[Span, ...]
    total: Span
    risks: tuple[Risk, ...]
    waivers: tuple[ReportedWaiver, ...]
    back: GoingBack
    approvals: tuple[ApprovalFact, ...]
    operations: tuple[Requested, ...]
    phases: tuple[PhaseEntered, ...]
    without_controller: tuple[WithoutController, ...]
    canary: CanaryReport
    audits: tuple[ReportedAudit, ...]
    backups: tuple[BackupReport, ...]
    not_verified: tuple[str, ...]
    zookeeper_end: ZooKeeperEnd | None = None
    own_znodes: OwnZnodesReport | None = None
    legs: tuple[Leg, ...] = ()
