"""Look at a cluster: what every controller says of itself, and what ZooKeeper says of who rules.

In:   an inventory, and the observation before (for what only time can tell: since when nobody rules).
Out:  an `Observation`, plain enough to be kept as JSON.
Elsewhere: what it means for a migration (evidence.py, driver_history.py).
Rules: looking changes nothing. ZooKeeper is read on a thread; one that hangs is waited for once, not piled up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

import msgspec

from migrator.control_api.states import State
from migrator.control_api.status import ControllerStatus, DriverStatus, FindingJson
from migrator.driver.claim import ClaimObservation
from migrator.findings.finding import FindingError, words_of
from migrator.findings.service import CONTROLLER_NOT_REACHED
from migrator.findings.zookeeper import ZOOKEEPER_LOST, ZOOKEEPER_REFUSES, ZOOKEEPER_UNREACHABLE
from migrator.model.image import Image
from migrator.model.values import MigrationState
from migrator.node.config.properties import NodeConfig, read_config
from migrator.node.observer.log_reader import LogReader, LogSink
from migrator.node.transport.client_security import client_security
from migrator.node.zookeeper.claims import read_claim
from migrator.zk import paths
from migrator.zk.session import ZkSession
from migrator.zk.znodes import ClusterIdZnode, parse
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import ClusterInventory, ControllerEntry
from state_machine.clusters.log_observer import NOT_KNOWN, LogObservation, LogObserver, VoterLevels
from state_machine.clusters.zookeeper_partitions import PartitionSource, ZooKeeperPartitions
from state_machine.policy.gates import Holder
from state_machine.times.stretches import Moment, ObservedTime, gone_on, passed

ZOOKEEPER_WAIT_S: Final = 2.0
"""Longer than a healthy ensemble needs by far; after it the look goes on without ZooKeeper."""
CONNECT_S: Final = 5.0
INTENT_SHOWN: Final = 500
NO_ANSWER: Final = ("", ZOOKEEPER_UNREACHABLE.code, ZOOKEEPER_LOST.code, ZOOKEEPER_REFUSES.code)
"""How an observation fails when the ensemble, or its access lists, let this login read nothing; empty: in time.

Another code does not tell whether the ensemble would answer, as that of a login or a certificate of this side.
"""
NO_CONTROL_PORT: Final = "a stock controller, which has no control port"
GAPS_KEPT: Final = 50
"""A migration has a handful; a cluster in trouble must not make its rows grow."""


class ControllerObservation(msgspec.Struct, frozen=True):
    """status: as its control port said it; None with the reason when it does not answer.

    unreached: it is on another host and could not be asked, so that it may run.
    """

    node_id: int
    pid: int | None = None
    status: ControllerStatus | None = None
    problem: str = ""
    unreached: bool = False

    @property
    def driver(self) -> DriverStatus | None:
        return None if self.status is None else self.status.driver

    @property
    def findings(self) -> list[FindingJson]:
        """What troubles the node, how a state of its driver ended, what holds one up, how far ZooKeeper is behind."""
        if self.status is None:
            return []
        if self.driver is None or self.status.dual_write is None:
            return list(self.status.findings)
        driver = self.driver
        said = (driver.finding, driver.trouble, self.status.dual_write.finding, *driver.alarms)
        return [*self.status.findings, *(each for each in said if each is not None)]

    @property
    def leads(self) -> bool:
        return self.status is not None and self.status.quorum.leader == self.node_id

    @property
    def epoch(self) -> int:
        return 0 if self.status is None else self.status.quorum.epoch

    @property
    def run(self) -> str:
        return "" if self.status is None else self.status.run

    @property
    def operations(self) -> tuple[str, ...] | None:
        """What its driver was asked for and has not begun; None when it does not say (an older controller)."""
        return None if self.driver is None else self.driver.operations

    @property
    def retired(self) -> bool:
        return self.driver is not None and self.driver.state == State.RETIRED


class ZooKeeperObservation(msgspec.Struct, frozen=True):
    """holder_since_ms: wall time that the holder itself wrote into `/controller`."""

    holder: Holder = Holder.UNKNOWN
    holder_id: int | None = None
    holder_since_ms: int | None = None
    kraft_epoch: int | None = None
    controller_epoch: int | None = None
    migration_offset: int | None = None
    """What `/migration` says is mirrored; -1 before any commit, None when it does not exist."""
    brokers: tuple[int, ...] = ()
    cluster_id: str | None = None
    intent: str = ""
    """What stands in the znode of the finalize intent, while a KRaft controller of this migration has the claim."""
    problem: str = ""
    code: str = ""
    """Of the finding behind `problem`; empty when it did not answer in time."""

    @property
    def reachable(self) -> bool | None:
        """Whether the ensemble lets this service read. None: it was not observed, or the reason is on this side."""
        if self.holder is not Holder.UNKNOWN:
            return not self.is_empty
        return False if self.problem and self.code in NO_ANSWER else None

    @property
    def is_empty(self) -> bool:
        """It answers, and has nothing of the cluster any more: the chroot was deleted."""
        return self.holder is Holder.NOBODY and self.cluster_id is None and self.controller_epoch in (None, -1)


class Gap(msgspec.Struct, frozen=True):
    """A time without controller, as looks found it: ended at this wall time, this many seconds at most."""

    ended_at: float
    seconds: float


class LaterLed(msgspec.Struct, frozen=True):
    """A controller without ZooKeeper led before the end of the migration: which, first and last found, wall times."""

    node: int
    since: float
    until: float


class Observation(msgspec.Struct, frozen=True):
    """One observation. Times are wall times in seconds.

    controlled_at: when an observation last found an active controller.
    window_ms: the last time without controller that a driver measured.
    gap_s:     the last stretch in which observations found no controller, from the last one that did to the next one.
    gaps:      every such stretch, the newest `GAPS_KEPT` of them, oldest first. windows: the same of `window_ms`.
    log:       the metadata log, from dual-write on.
    settled: for how long looks have found no partition under-replicated or without a leader, and the same
             registrations of brokers.
    lacking: for how long looks have found under-replicated partitions while no broker was missing.
    brokers_gone: for how long looks have found `/brokers/ids` empty.
    unled: for how long looks at the log have found nobody who leads it, or could not read it.
    stuck: for how long looks have found a stock controller that leads, and a ZooKeeper that answers and lacks the same
             records of its log.
    settled_since, lacking_since, brokers_gone_since, unled_since: the same as times, for readers of earlier releases.
    moment: of this look, by clocks that a step of the wall clock does not confuse.
    zookeeper_at: when `zookeeper` was read; before `at` where it is read less often.
    later_led: the last controller without ZooKeeper that was found to lead before the end of the migration.
    """

    at: float
    controllers: tuple[ControllerObservation, ...] = ()
    zookeeper: ZooKeeperObservation = ZooKeeperObservation()
    controlled_at: float | None = None
    window_ms: int | None = None
    gap_s: float | None = None
    gaps: tuple[Gap, ...] = ()
    windows: tuple[Gap, ...] = ()
    log: LogObservation = LogObservation()
    settled_since: float | None = None
    lacking_since: float | None = None
    brokers_gone_since: float | None = None
    unled_since: float | None = None
    zookeeper_at: float | None = None
    moment: Moment | None = None
    settled: ObservedTime | None = None
    lacking: ObservedTime | None = None
    brokers_gone: ObservedTime | None = None
    unled: ObservedTime | None = None
    stuck: ObservedTime | None = None
    later_led: LaterLed | None = None

    @property
    def active(self) -> ControllerObservation | None:
        """The controller whose driver counts: the leader, of two the later one; else one that rolled back for ever.

        The driver of a follower is IDLE whatever the cluster is in: nothing follows from it.
        """
        leading = [each for each in self.controllers if each.driver is not None and each.leads]
        if leading:
            return max(leading, key=lambda each: each.epoch)
        return next((each for each in self.controllers if each.retired), None)

    @property
    def answering(self) -> ControllerObservation | None:
        """The active one, or any that can tell of brokers and log."""
        return self.active or next((each for each in self.controllers if each.driver is not None), None)

    @property
    def newest_log(self) -> int | None:
        """Whose directory has all that is committed: the leader's, ours or stock; else of one that answers."""
        if self.log.known and self.log.leader is not None:
            return self.log.leader
        return None if self.answering is None else self.answering.node_id

    @property
    def stock_lags(self) -> tuple[int, int] | None:
        """While a stock controller leads: how many records ZooKeeper lacks, and the offset up to which it has the log.

        None: it lacks nothing, or nobody knows.
        """
        offset = self.zookeeper.migration_offset
        leads = self.log.known and self.log.leader is not None and self.active is None
        if (
            not leads
            or self.log.migration != MigrationState.MIGRATION.name
            or offset is None
            or self.zookeeper.holder is Holder.UNKNOWN
        ):
            return None
        lag = self.log.data_end - 1 - offset
        return (lag, offset) if lag > 0 else None

    @property
    def epoch_gap(self) -> int | None:
        """How far the KRaft epoch is ahead of `/controller_epoch` at most, at least 0. None: not known, or no KRaft
        controller has the claim.

        Stock writes the KRaft epoch into partition states. No state needs to have the newest one, so this is an upper
        bound of what a rollback repairs. Source: Kafka 3.9 `ZkTopicMigrationClient`; failure case F-40.
        """
        claimed, kraft = self.zookeeper.controller_epoch, self.zookeeper.kraft_epoch
        if claimed is None or kraft is None:
            return None
        newest = max(kraft, self.log.epoch) if self.log.known else kraft
        return max(0, newest - claimed)

    @property
    def log_in_migration(self) -> bool:
        """Whether some controller has the migration committed, whatever its driver is about."""
        logs = [each.status.log for each in self.controllers if each.status is not None]
        return any(log is not None and log.migration == MigrationState.MIGRATION.name for log in logs)

    def silent(self) -> dict[int, str]:
        return {each.node_id: each.problem for each in self.controllers if each.status is None}

    def unreached(self) -> dict[int, str]:
        """Those of the silent ones on other hosts of which nobody knows whether they run."""
        return {each.node_id: each.problem for each in self.controllers if each.unreached}


class Ensemble(Protocol):
    """ZooKeeper, as far as a look needs it. ours: node ids of the migration's controllers."""

    async def look(self, ours: tuple[int, ...]) -> ZooKeeperObservation: ...
    async def close(self) -> None: ...


class LogSource(Protocol):
    """The metadata log of one quorum, as far as a look needs it."""

    @property
    def image(self) -> Image: ...
    async def look(self, now: float, min_isr: Mapping[int, int] = NOT_KNOWN) -> LogObservation: ...
    async def ask_to_lead(self, node: int, observed: LogObservation) -> None: ...
    async def levels_of(self, node: int) -> VoterLevels: ...
    async def raise_feature(self, feature: str, level: int, observed: LogObservation) -> None: ...
    def close(self) -> None: ...


def log_of_inventory(inventory: ClusterInventory) -> LogObserver:
    """Voters and how to speak to them are as in the controllers' files. Blocks; raises what is wrong with the files."""
    config = first_config(inventory)
    return LogObserver(config.voters, None, client_security(config.security.get(config.controller_listener)))


def reader_of_inventory(inventory: ClusterInventory, sink: LogSink) -> LogReader:
    """The same, for who wants the log and not what it says."""
    config = first_config(inventory)
    return LogReader(config.voters, None, sink, client_security(config.security.get(config.controller_listener)))


class ClusterObserver:
    """Control ports by HTTP, ZooKeeper by one session per migration. ensembles: what makes such a session.

    logs: what makes the reader of a migration's metadata log. partitions: the same of ZooKeeper's partitions.

    Two migrations never share a session: a look that hangs, or one that ends, is then no other migration's.
    """

    def __init__(
        self,
        control: ControlClient,
        clock: Callable[[], float] = time.time,
        ensembles: Callable[[str], Ensemble] | None = None,
        logs: Callable[[ClusterInventory], LogSource] = log_of_inventory,
        partitions: Callable[[str], PartitionSource] = ZooKeeperPartitions,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steady = steady
        self._life = uuid4().hex
        self._make_log = logs
        self._make_partitions = partitions
        self._partitions: dict[int, PartitionSource] = {}
        self._control = control
        self._clock = clock
        self._make = ensembles or ZooKeeperEnsemble
        self._ensembles: dict[int, tuple[str, Ensemble]] = {}
        self._logs: dict[int, tuple[tuple[ControllerEntry, ...], LogSource]] = {}
        self.min_isr: dict[int, Mapping[int, int]] = {}
        """By migration: `min.insync.replicas` in the files of its brokers, as far as they were read."""

    async def look(
        self,
        inventory: ClusterInventory,
        before: Observation | None,
        migration_id: int,
        *,
        with_log: bool = False,
        joining: bool = False,
        zookeeper_every_s: float = 0.0,
    ) -> Observation:
        """with_log: the metadata log as well, which is there from dual-write on. joining: before it, with the
        registrations that are in the log by then, and ZooKeeper's partitions. zookeeper_every_s: an earlier
        observation of ZooKeeper that is younger counts.
        """
        earlier = _young(before, self._clock(), zookeeper_every_s)
        ensemble = await self._ensemble(migration_id, inventory.zookeeper)
        zookeeper, controllers, log = await asyncio.gather(
            _given(earlier.zookeeper) if earlier is not None else ensemble.look(inventory.node_ids),
            asyncio.gather(*(self._look_at(entry, inventory) for entry in inventory.controllers)),
            self._look_at_log(inventory, migration_id) if with_log or joining else _nothing(),
        )
        if joining and log is not None:
            source = self._partitions.get(migration_id)
            if source is None:
                source = self._partitions[migration_id] = self._make_partitions(inventory.zookeeper)
            log = source.joined(log, zookeeper.brokers, self._clock(), self.min_isr.get(migration_id, NOT_KNOWN))
        elif migration_id in self._partitions:
            await self._partitions.pop(migration_id).close()
        moment = Moment(self._clock(), self._steady(), self._life)
        observed = summed_up(moment.wall, tuple(controllers), zookeeper, before, log, moment)
        return observed if earlier is None else msgspec.structs.replace(observed, zookeeper_at=earlier.zookeeper_at)

    async def _look_at_log(self, inventory: ClusterInventory, migration_id: int) -> LogObservation:
        try:
            observer = await self._log(inventory, migration_id)
        except FindingError as error:
            return LogObservation(self._clock(), str(error))
        return await observer.look(self._clock(), self.min_isr.get(migration_id, NOT_KNOWN))

    async def _log(self, inventory: ClusterInventory, migration_id: int) -> LogSource:
        """Kept from the first time on: later the files change."""
        known = self._logs.get(migration_id)
        if known is None or known[0] != inventory.controllers:
            if known is not None:
                known[1].close()
            known = (inventory.controllers, await asyncio.to_thread(self._make_log, inventory))
            self._logs[migration_id] = known
        return known[1]

    def log_of(self, migration_id: int) -> LogSource | None:
        """Where the last look stands in the log; None before the first one."""
        known = self._logs.get(migration_id)
        return None if known is None else known[1]

    async def forget(self, migration_id: int) -> None:
        """It was removed, or its ZooKeeper is another one now."""
        self.min_isr.pop(migration_id, None)
        log = self._logs.pop(migration_id, None)
        if log is not None:
            log[1].close()
        partitions = self._partitions.pop(migration_id, None)
        if partitions is not None:
            await partitions.close()
        known = self._ensembles.pop(migration_id, None)
        if known is not None:
            await known[1].close()

    async def close(self) -> None:
        await asyncio.gather(*(self.forget(migration_id) for migration_id in list(self._ensembles)))

    async def _ensemble(self, migration_id: int, connect: str) -> Ensemble:
        known = self._ensembles.get(migration_id)
        if known is not None and known[0] == connect:
            return known[1]
        await self.forget(migration_id)
        made = self._make(connect)
        self._ensembles[migration_id] = (connect, made)
        return made

    async def _look_at(self, entry: ControllerEntry, inventory: ClusterInventory) -> ControllerObservation:
        if inventory.has_stock:
            return ControllerObservation(entry.node_id, problem=NO_CONTROL_PORT)
        try:
            pid, status = await self._control.status(entry)
        except FindingError as error:
            unreached = error.code == CONTROLLER_NOT_REACHED.code
            return ControllerObservation(
                entry.node_id, problem=str(error.occurrence.values["reason"]), unreached=unreached
            )
        return ControllerObservation(entry.node_id, pid, status)


def summed_up(
    now: float,
    controllers: tuple[ControllerObservation, ...],
    zookeeper: ZooKeeperObservation,
    before: Observation | None,
    log: LogObservation | None = None,
    moment: Moment | None = None,
) -> Observation:
    """Put one look together, with what only the look before can tell.

    moment: of this look; None: how much time passed since the look before is not known, and none counts.
    log: None where it was not looked at, because stock cannot lead yet.

    A look that cannot tell whether there is a controller begins no time without controller and ends none. So `gaps` has
    what was observed; a time that lies wholly between two such looks is not in it.
    """
    seen_log = LogObservation() if log is None else log
    observed = Observation(now, controllers, zookeeper, log=seen_log, zookeeper_at=now, moment=moment)
    earlier = before or Observation(now)
    passed_s = None if moment is None else passed(earlier.moment, moment)
    settled = seen_log.known and not seen_log.under_replicated and not seen_log.leaderless
    present = bool(seen_log.brokers) and all(each.ready for each in seen_log.brokers)
    lacking = seen_log.known and bool(seen_log.under_replicated) and present
    gone = zookeeper.holder is not Holder.UNKNOWN and not zookeeper.brokers
    driver = None if observed.active is None else observed.active.driver
    window = None if driver is None else driver.window_ms
    had_controller = earlier.controlled_at is not None and earlier.controlled_at == earlier.at
    found = _has_controller(observed, with_log=log is not None)
    has_controller = had_controller if found is None else found
    ended = has_controller and earlier.controlled_at is not None and earlier.controlled_at < earlier.at
    gap = round(now - earlier.controlled_at, 1) if ended and earlier.controlled_at is not None else None
    measured = window if window is not None and window != earlier.window_ms else None
    settled_for = gone_on(earlier.settled if _same_runs(earlier.log, seen_log) else None, passed_s, holds=settled)
    lacking_for = gone_on(earlier.lacking, passed_s, holds=lacking)
    unled_for = gone_on(earlier.unled, passed_s, holds=log is not None and not seen_log.known)
    gone_for = gone_on(earlier.brokers_gone, passed_s, holds=gone)
    lags = observed.stock_lags
    as_before = lags is not None and earlier.stock_lags is not None and earlier.stock_lags[1] == lags[1]
    stuck_for = gone_on(earlier.stuck if as_before else None, passed_s, holds=lags is not None)
    return msgspec.structs.replace(
        observed,
        controlled_at=now if has_controller else earlier.controlled_at,
        window_ms=earlier.window_ms if window is None else window,
        gap_s=earlier.gap_s if gap is None else gap,
        gaps=_with_gap(earlier.gaps, now, gap),
        windows=_with_gap(earlier.windows, now, None if measured is None else measured / 1000),
        settled=settled_for,
        lacking=lacking_for,
        unled=unled_for,
        brokers_gone=gone_for,
        stuck=stuck_for,
        settled_since=_since(settled_for, now),
        lacking_since=_since(lacking_for, now),
        unled_since=_since(unled_for, now),
        brokers_gone_since=_since(gone_for, now),
        later_led=_later_led(earlier.later_led, seen_log, now),
    )


def _later_led(before: LaterLed | None, log: LogObservation, now: float) -> LaterLed | None:
    leader = log.later_leader if log.known and log.migration != MigrationState.POST_MIGRATION.name else None
    if leader is None:
        return before
    return LaterLed(leader.id, now if before is None or before.node != leader.id else before.since, now)


def _with_gap(before: tuple[Gap, ...], now: float, seconds: float | None) -> tuple[Gap, ...]:
    return before if seconds is None else (*before, Gap(now, seconds))[-GAPS_KEPT:]


def _since(stretch: ObservedTime | None, now: float) -> float | None:
    return None if stretch is None else now - stretch.seconds


def _same_runs(before: LogObservation, now: LogObservation) -> bool:
    """No broker that is in both restarted in between."""
    runs = {each.id: each.incarnation for each in before.brokers}
    return all(runs.get(each.id, each.incarnation) == each.incarnation for each in now.brokers)


async def _nothing() -> None:
    return None


async def _given(observed: ZooKeeperObservation) -> ZooKeeperObservation:
    return observed


def _young(before: Observation | None, now: float, every_s: float) -> Observation | None:
    """The observation before, if ZooKeeper's part of it is younger than this; a clock that went back makes it old."""
    if before is None or before.zookeeper_at is None:
        return None
    return before if 0 <= now - before.zookeeper_at < every_s else None


def first_config(inventory: ClusterInventory) -> NodeConfig:
    """Of any controller; raises the finding of the last one when none can be read."""
    trouble: FindingError | None = None
    for entry in inventory.controllers:
        try:
            return read_config(Path(entry.properties), stock=inventory.has_stock)
        except FindingError as error:
            trouble = error
    assert trouble is not None, "an inventory names at least one controller"
    raise trouble


def _has_controller(observed: Observation, *, with_log: bool) -> bool | None:
    """Whether the holder of `/controller` lives and every broker knows of it. None: this look cannot tell.

    Voters keep their ids when stock takes their place, so that `/controller` names one of ours while stock leads. A
    driver of ours that leads says it itself. Without one, the log says it (`_is_led`). with_log: it was looked at.
    Once the migration is finalized, ZooKeeper says nothing of who leads.
    """
    if observed.log.known and observed.log.migration == MigrationState.POST_MIGRATION.name:
        return _is_led(observed.log)
    match observed.zookeeper.holder:
        case Holder.ZOOKEEPER_BROKER | Holder.ANOTHER:
            return True
        case Holder.NOBODY:
            return False
        case Holder.UNKNOWN:
            return None
        case Holder.OURS:
            driver = observed.active.driver if observed.active is not None and observed.active.leads else None
            if driver is not None:
                return driver.without_controller_ms is None
            return _is_led(observed.log) if with_log else _none_leads(observed)


def _is_led(log: LogObservation) -> bool | None:
    """By ours or by stock. A voter that could not be asked may lead: then it is not known."""
    if log.known and log.leader is not None:
        return True
    return False if log.no_leader else None


def _none_leads(observed: Observation) -> bool | None:
    """Before dual-write every voter is ours: of those that answer, none leads. Where none answers, it is not known."""
    return False if observed.answering is not None else None


class ZooKeeperEnsemble:
    """One ZooKeeper session that looks at the claim; a session that never came up is made anew.

    It has one thread of its own, so that ensembles that do not answer keep no other look waiting.
    """

    def __init__(self, connect: str) -> None:
        self._connect = connect
        self._session: ZkSession | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="zookeeper-look")
        self._pending: asyncio.Future[ZooKeeperObservation] | None = None

    async def look(self, ours: tuple[int, ...]) -> ZooKeeperObservation:
        if self._pending is None:
            self._pending = asyncio.get_running_loop().run_in_executor(self._thread, self._read, ours)
        pending = self._pending
        done, _ = await asyncio.wait({pending}, timeout=ZOOKEEPER_WAIT_S)
        if not done:
            return ZooKeeperObservation(problem=f"{self._connect} has not answered for {ZOOKEEPER_WAIT_S:.0f} s")
        self._pending = None
        try:
            return pending.result()
        except FindingError as error:
            return ZooKeeperObservation(problem=str(error), code=error.code)
        except Exception as error:  # whatever kazoo makes of an address or of what stands in a znode
            return ZooKeeperObservation(problem=f"{self._connect}: {words_of(error)}", code="unexpected")

    async def close(self) -> None:
        """Ending the session ends a read that hangs."""
        if self._session is not None:
            await asyncio.to_thread(self._session.close)
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._pending is not None:
            ended, _ = await asyncio.wait({self._pending}, timeout=CONNECT_S)
            for each in ended:
                if not each.cancelled():
                    each.exception()  # read, so that asyncio does not report it: its observation is not needed any more

    def _read(self, ours: tuple[int, ...]) -> ZooKeeperObservation:
        """On its thread, one at a time."""
        if self._session is None:
            self._session = _begun(self._connect)
        claim = read_claim(self._session)
        names = self._session.children(paths.BROKER_IDS) or []
        brokers = tuple(sorted(int(name) for name in names if name.isdigit()))
        cluster = read_cluster_id(self._session)
        observed = observed_in_zookeeper(claim, ours, brokers)
        intent = read_intent(self._session) if observed.holder is Holder.OURS else ""
        return msgspec.structs.replace(observed, cluster_id=cluster, intent=intent)


def read_intent(session: ZkSession) -> str:
    """The text of the finalize intent; empty when there is none."""
    znode = session.get(paths.FINALIZE_INTENT)
    return "" if znode is None else (znode.data or b"").decode(errors="replace")[:INTENT_SHOWN] or "unreadable"


def read_cluster_id(session: ZkSession) -> str | None:
    """What `/cluster/id` says; None when it does not exist or says something else."""
    znode = session.get(paths.CLUSTER_ID)
    try:
        return None if znode is None else parse(ClusterIdZnode, paths.CLUSTER_ID, znode.data).id
    except FindingError:
        return None  # `zk2kraft check` names it


def _begun(connect: str) -> ZkSession:
    """Raises Z2K-2001; the session is then over, and the next look begins another."""
    return ZkSession(connect).start(CONNECT_S)


def observed_in_zookeeper(
    claim: ClaimObservation, ours: tuple[int, ...], brokers: tuple[int, ...]
) -> ZooKeeperObservation:
    """Who rules, of which kind, since when."""
    held = claim.controller
    migration = claim.migration
    offset = None if claim.migration_version < 0 else (-1 if migration is None else migration.kraft_metadata_offset)
    if held is None:
        return ZooKeeperObservation(
            Holder.NOBODY, controller_epoch=claim.epoch, migration_offset=offset, brokers=brokers
        )
    kind = Holder.ZOOKEEPER_BROKER
    if held.kraft_epoch > 0:
        kind = Holder.OURS if held.brokerid in ours else Holder.ANOTHER
    return ZooKeeperObservation(
        kind,
        holder_id=held.brokerid,
        holder_since_ms=int(held.timestamp) if held.timestamp.isdigit() else None,
        kraft_epoch=held.kraft_epoch if held.kraft_epoch > 0 else None,
        controller_epoch=claim.epoch,
        migration_offset=offset,
        brokers=brokers,
    )
