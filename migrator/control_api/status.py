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


class LogStatus(msgspec.Struct, frozen=True):
    """migration: name of a `MigrationState`; metadata_version: the level, None before there is one."""

    migration: str
    offset: int
    epoch: int = 0
    metadata_version: int | None = None
    topics: int = 0
    next_producer_id: int = 0


class DualWriteStatus(msgspec.Struct, frozen=True):
    """lagging_*: partition states in ZooKeeper whose version is behind; None while the mirror is made anew.

    unmirrored, orders: the first ones in words, with how many there are.
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


class NotUpdated(msgspec.Struct, frozen=True):
    """Why a broker has not acknowledged its full update. code: the finding behind it, if there is one."""

    reason: str
    since_ms: float
    code: str | None = None


class BrokerStatus(msgspec.Struct, frozen=True):
    """metadata_version: lowest and highest level that the broker supports; log_dirs: how many it registered."""

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


class ControllerStatus(msgspec.Struct, frozen=True):
    """run: the incarnation of the process, within which the driver's history is numbered.

    driver, log, dual_write: None in a controller without migration.
    """

    node: int
    run: str
    quorum: QuorumStatus
    loop_delay_ms: float
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
    registrations_refused: tuple[FindingJson, ...] = ()

    def __post_init__(self) -> None:
        if self.driver is not None and (self.log is None or self.dual_write is None):
            raise ValueError("a driver without its log")
