"""The parts of this package, put together for one process of the service.

In:   `ServiceSettings`.
Out:  `Service`: the store, the loop, and how to close them in order.
Elsewhere: who serves HTTP beside it (api.commands.service), every part (this package).
Rule: one service per directory and per database; the locks are the kernel's and the database server's, so they are free
again after any kind of end.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import httpx

from migrator.findings.service import DATABASE_UNUSABLE, SERVICE_RUNS_ALREADY
from state_machine.audits.inspections import Inspections
from state_machine.audits.warm_audits import WarmAudits
from state_machine.children.processes import ControllerProcesses
from state_machine.children.supervisor import Supervisor
from state_machine.clusters.control import ControlClient, loopback_client
from state_machine.clusters.observe import ClusterObserver
from state_machine.clusters.private_files import close_to_others
from state_machine.clusters.remote_ports import RemotePorts
from state_machine.finish.own_znodes import OwnZnodes
from state_machine.finish.soak import SoakActs
from state_machine.finish.version_raise import VersionRaise
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.cluster_lock import ClusterLocks
from state_machine.nodes.fleet import Fleets
from state_machine.nodes.service_identity import FILE as IDENTITY_FILE
from state_machine.nodes.service_identity import identity_of
from state_machine.rollback.stock_end import StockEnd
from state_machine.rolling.loop import Roller
from state_machine.rows.database import sqlite_file
from state_machine.rows.store import Store
from state_machine.settings import ServiceSettings
from state_machine.times.row_clock import RowClock
from state_machine.work.acts import Acts
from state_machine.work.acts_after_dual_write import ActsAfterDualWrite
from state_machine.work.operations import Operations
from state_machine.work.reconcile import Reconciler
from state_machine.work.stock_acts import ActsByEngine, StockActs

LOCK_FILE: Final = "serve.lock"
OURS: Final = (
    "zk2kraft.db",
    "zk2kraft.db-wal",
    "zk2kraft.db-shm",
    "zk2kraft.db.lock",
    "serve.json",
    IDENTITY_FILE,
    LOCK_FILE,
)
"""Closed to others at every start, whatever an earlier one, an umask or a restored backup left."""


@dataclass(frozen=True, slots=True)
class Service:
    """Open it with `open_service`; run `reconciler.run()`; close it on the same loop."""

    settings: ServiceSettings
    store: Store
    reconciler: Reconciler
    _observer: ClusterObserver
    _inspections: Inspections
    _audits: WarmAudits
    _http: httpx.AsyncClient
    _remote: RemotePorts | None
    _held: ExitStack
    _locks: ClusterLocks
    _hosts: HostThreads
    clock: RowClock

    async def warm_up(self) -> None:
        """Start Spark in a service that stays, so that the first audit does not wait for it."""
        if self.settings.audit_engine == "spark":
            await self._audits.warm_up()

    async def close(self) -> None:
        """End children and sessions; controllers go on."""
        await self._inspections.stop()
        await self._audits.close()
        await self._observer.close()
        self._hosts.close()
        await asyncio.to_thread(self._locks.close)
        await self._http.aclose()
        if self._remote is not None:
            await self._remote.close()
        self.store.close()
        self._held.close()


def open_service(settings: ServiceSettings) -> Service:
    """Raises Z2K-4013 when another service has this directory or database, Z2K-4016 when it cannot be used."""
    directory = settings.directory.absolute()
    close_to_others(directory, *OURS)
    with ExitStack() as opening:
        opening.enter_context(_lock(directory / LOCK_FILE, directory))
        file = sqlite_file(settings.database_url)
        if file is not None:
            opening.enter_context(_lock_of_database(file))
        store = Store.open(settings.database_url)
        clock = RowClock(store.newest_time())
        held = opening.pop_all()
    close_to_others(directory, *OURS)
    http = loopback_client()
    access = settings.remote_access
    remote = None if access is None else RemotePorts(access)
    control = ControlClient(http, settings.bounds, remote)
    observer = ClusterObserver(control, clock)
    audits = WarmAudits(directory, master=settings.spark_master, idle_s=settings.audit_process_idle_s)
    inspections = Inspections(store, audits, settings, clock)
    processes = ControllerProcesses(directory / "controllers")
    supervisor = Supervisor(store, processes, settings.bounds, clock, starts=settings.start_controllers)
    fleets = Fleets(settings.fleets)
    locks = ClusterLocks(str(directory), identity_of(directory))
    hosts = HostThreads(settings.hosts_at_once, settings.calls_per_host)
    roller = Roller(store, fleets, observer, processes, settings, clock, locks=locks, hosts=hosts, wall=time.time)
    raises = VersionRaise(store, observer, clock)
    soak = SoakActs(store, fleets, observer, clock, hosts=hosts)
    road = ActsAfterDualWrite(store, fleets, roller, soak, settings, clock, raises=raises, hosts=hosts)
    znodes, ahead = OwnZnodes(store, clock=clock), clock.ahead_s
    given = (store, control, supervisor, inspections, settings, road, clock)
    ours = Acts(*given, znodes=znodes, ahead_s=ahead)
    stock = StockActs(StockEnd(fleets, hosts, clock), *given, znodes=znodes, ahead_s=ahead)
    acts = ActsByEngine(ours, stock)
    operations = Operations(store, control, inspections, raises, clock)
    pause_s, operates = settings.observe_every_s, settings.fleets is not None
    reconciler = Reconciler(
        store, observer, operations, acts, inspections, pause_s=pause_s, clock=clock, operates=operates
    )
    return Service(settings, store, reconciler, observer, inspections, audits, http, remote, held, locks, hosts, clock)


def _lock(path: Path, what: Path) -> IO[str]:
    """Hold it for as long as the file is open. what: the lock is of this, for people. Raises Z2K-4013."""
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read().strip() or "unknown process"
        file.close()
        raise SERVICE_RUNS_ALREADY.error(directory=str(what), holder=holder) from error
    file.truncate(0)
    file.write(f"process {os.getpid()}\n")
    file.flush()
    return file


def _lock_of_database(file: Path) -> IO[str]:
    """Of an SQLite file, which a service with another directory could name too. Raises Z2K-4013, Z2K-4016."""
    try:
        return _lock(file.with_name(file.name + ".lock"), file)
    except OSError as error:
        raise DATABASE_UNUSABLE.error(database=str(file), reason=f"its lock cannot be written: {error}") from error
