"""What a controller says of itself at its control port.

In:   one object per scrape (`GET /v1/status`), JSON. Times are milliseconds unless the name says otherwise.
Elsewhere: who fills it (node/process/status.py), who reads it (state_machine/clusters/observe.py).
"""

from __future__ import annotations

from typing import Any

import msgspec

FindingJson = dict[str, Any]
"""A finding with its values, as `Occurrence.as_json` gives it."""


class QuorumStatus(msgspec.Struct, frozen=True):
    """observers: log end offset by node id."""

    leader: int | None
    epoch: int
    role: str = ""
    voters: tuple[int, ...] = ()
    high_watermark: int = 0
    log_start: int = 0
    log_end: int = 0
    snapshot: int = 0
    fetches_waiting: int = 0
    flush_waiting_ms: int = 0
    observers: dict[str, int] = {}


class ConnectionsStatus(msgspec.Struct, frozen=True):
    open: int = 0
    most: int = 0
    without_place: int = 0


class Denial(msgspec.Struct, frozen=True):
    """Requests of one principal that the authorizer denied. since, last: seconds since 1970."""

    principal: str
    operation: str
    requests: tuple[str, ...]
    host: str
    count: int
    since: float
    last: float


class Move(msgspec.Struct, frozen=True):
    """An entry of a driver's history. at: wall time in seconds; from, to: states of the driver."""

    number: int
    at: float
    to: str
    reason: str
    left: str = msgspec.field(name="from", default="")


class DriverStatus(msgspec.Struct, frozen=True):
    """state: a `State`, or one that a later release adds.

    operations: accepted and not begun; None: this controller does not tell.
    replacing:  what speaks against replacing our controllers by stock ones now; None: not known, and never a yes.
    """

    state: str
    reason: str
    can_abort: bool
    can_roll_back: bool
    window_ms: int | None
    without_controller_ms: int | None
    finding: FindingJson | None
    trouble: FindingJson | None
    history: tuple[Move, ...]
    operations: tuple[str, ...] | None = None
    alarms: tuple[FindingJson, ...] = ()
    since_ms: int = 0
    aborted: bool = False
    replacing: tuple[FindingJson, ...] | None = None


class LogStatus(msgspec.Struct, frozen=True):
    """migration: name of a `MigrationState`; metadata_version: the level, None before there is one."""

    migration: str
    offset: int
    epoch: int = 0
    metadata_version: int | None = None
    topics: int = 0
    next_producer_id: int = 0


class PartitionsStatus(msgspec.Struct, frozen=True):
    """How whole the cluster's partitions are, as the log says at `offset`.

    partitions, reassignments, under_replicated, under_min_isr, leaderless: each counts partitions. A partition that
        nobody leads is under min ISR.
    behind_ms: for how long these figures have not been those of the log's newest offset; 0 when they are.
    """

    offset: int
    epoch: int = 0
    behind_ms: int = 0
    partitions: int = 0
    reassignments: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    leaderless: int = 0


class DualWriteStatus(msgspec.Struct, frozen=True):
    """lagging_*: partition states in ZooKeeper whose version is behind; None while the mirror is made anew.

    unmirrored, orders: the first ones in words, with how many there are.
    only_kraft: what a rollback loses, in words; None: this controller does not tell.
    """

    divergence: str
    finding: FindingJson | None
    offset: int = -1
    multis_waiting: int = 0
    lag_ms: float | None = None
    lag_records: int | None = None
    behind_ms: int = 0
    blocking_ms: int = 0
    reconciled_writes: int | None = None
    lagging_partitions: int | None = 0
    lagging_operations: int | None = 0
    lagging_s: float | None = 0.0
    unmirrored: tuple[str, ...] = ()
    unmirrored_count: int = 0
    orders: tuple[str, ...] = ()
    orders_count: int = 0
    only_kraft: tuple[str, ...] | None = None


class NotUpdated(msgspec.Struct, frozen=True):
    """Why a broker has not acknowledged its full update. code: the finding behind it, if there is one."""

    reason: str
    since_ms: float
    code: str | None = None


class BrokerStatus(msgspec.Struct, frozen=True):
    """metadata_version: lowest and highest level that the broker supports; log_dirs: how many it registered.

    incarnation:      of the broker's process, as Kafka writes ids: another one after each start.
    under_replicated: replicas of this broker that are not in the ISR.
    under_min_isr:    partitions with a replica here whose ISR is smaller than their minimum.
    offline_dirs:     directories that the broker reports as failed, or that replicas are assigned to and it does not
                      have.
    unassigned_dirs:  replicas whose directory on this broker is not committed (MIGRATING, UNASSIGNED or LOST).
    The last four are None before partitions were counted.
    """

    id: int
    mode: str
    fenced: bool
    heartbeat_age_ms: int | None
    epoch: int = -1
    in_controlled_shutdown: bool = False
    metadata_version: tuple[int, int] | None = None
    listeners: tuple[str, ...] = ()
    log_dirs: int = 0
    updated: bool = False
    not_updated: NotUpdated | None = None
    requests_waiting: int = 0
    problem: str | None = None
    incarnation: str = ""
    rack: str | None = None
    under_replicated: int | None = None
    under_min_isr: int | None = None
    offline_dirs: int | None = None
    unassigned_dirs: int | None = None


class ControllerStatus(msgspec.Struct, frozen=True):
    """run: the incarnation of the process, within which the driver's history is numbered.

    loop_work_ms: of the delay, without the time in which the loop waited for a processor; None of an older controller.
    driver, dual_write: None in a controller without migration.
    partitions: None before they were counted.
    """

    node: int
    run: str
    quorum: QuorumStatus
    loop_delay_ms: float
    loop_work_ms: float | None = None
    cluster_id: str = ""
    connections: ConnectionsStatus = ConnectionsStatus()
    denials: tuple[Denial, ...] = ()
    findings: tuple[FindingJson, ...] = ()
    driver: DriverStatus | None = None
    log: LogStatus | None = None
    claim: dict[str, Any] | None = None
    dual_write: DualWriteStatus | None = None
    gate: dict[str, Any] | None = None
    export: str | None = None
    audit: dict[str, Any] | None = None
    brokers: tuple[BrokerStatus, ...] = ()
    partitions: PartitionsStatus | None = None
    registrations_refused: tuple[FindingJson, ...] = ()

    def __post_init__(self) -> None:
        if self.driver is not None and (self.log is None or self.dual_write is None):
            raise ValueError("a driver without its log")
