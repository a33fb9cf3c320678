"""One controller process: its parts put together, started and stopped in order.

In:   a `NodeConfig`. Out: a running voter with its listener, driver and control port, until a signal stops it.
Elsewhere: the parts (the packages of `migrator/node`), what they begin with (startup.py), the command line (api).
Rules: a directory that was rolled back is never used again; a configuration that does not fit the log stops the
process with a finding, before anything is written.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import time
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import structlog

from migrator.control_api.states import State
from migrator.controller.incarnations import our_incarnation
from migrator.driver.machine import Happened
from migrator.findings.driver import LOG_RETIRED
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.quorum import CONFIG_NOT_HONOURED
from migrator.model.prepared_types import prepare_types
from migrator.node.background import Alarm, kept, unexpected
from migrator.node.brokers.denials import Denials
from migrator.node.config.encoder_config import encoder_of
from migrator.node.config.properties import NodeConfig
from migrator.node.config.voter_addresses import VoterAddresses
from migrator.node.driver.act import DriverParts
from migrator.node.driver.divergence_watch import DivergenceWatch
from migrator.node.driver.driver_acts import DriverActs
from migrator.node.driver.driver_node import DriverNode
from migrator.node.driver.driver_state import DriverState, StateReporter
from migrator.node.driver.event_queue import EventQueue
from migrator.node.driver.gatekeeper import DriverGatekeeper, may_write
from migrator.node.driver.rollback import finish as finish_rollback
from migrator.node.leader.active_controller import ActiveController, CommitListeners
from migrator.node.leader.gatekeeper import NoDriver
from migrator.node.leader.periodic_tasks import run_periodic_tasks
from migrator.node.leader.registration import registration_of, stay_registered
from migrator.node.leader.unfit_watch import UnfitWatch
from migrator.node.leader.voter_observations import QuorumView, VoterObservations
from migrator.node.listener.controller_apis import ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.log.dynamic_voters import refuse_dynamic_voters
from migrator.node.log.log_replay import read_bootstrap
from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import (
    BOOTSTRAP,
    LOG_NAME,
    DirectoryLock,
    MetaProperties,
    RetiredMark,
    identify,
)
from migrator.node.process.control import ControlServer, read_tokens
from migrator.node.process.loop_delay import LoopDelay
from migrator.node.process.partition_count import PartitionCount, min_isr_default
from migrator.node.process.retirement import retire
from migrator.node.process.startup import make_voter, replay_stored, settings_of, zookeeper_needed
from migrator.node.process.status import status
from migrator.node.quorum.cycle_collection import bound_pauses
from migrator.node.quorum.hooks import Hooks
from migrator.node.quorum.peers import Peers
from migrator.node.quorum.quiet_time import QuietTime
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.node.quorum.raft_node import RaftNode
from migrator.node.transport.client_security import client_security
from migrator.node.transport.connections import Connections, raise_descriptor_limit
from migrator.node.transport.tls import check_stores
from migrator.tls.renewal import RenewedContext
from migrator.zk.passwords import PasswordEncoder
from migrator.zk.session import ZkSession, process_login
from migrator.zk.tls_sockets import sockets_of

log = structlog.get_logger()

LABORATORY = "ZK2KRAFT_LAB"
"""This variable lifts one rule and nothing else: that a takeover needs at least three voters."""


FATAL_WITHIN_S: Final = 10
STOP_WITHIN_S: Final = 30
"""A stop that waits for a disk that hangs is not waited for any longer."""


def end_within(seconds: int) -> None:
    """The system ends this process when it has not ended by itself: that needs no thread, no descriptor, no loop.

    An earlier end that was set stays.
    """
    left = signal.alarm(seconds)
    if 0 < left < seconds:
        signal.alarm(left)


def now_ms() -> int:
    return int(time.monotonic() * 1000)


def wall_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True)
class _BeforeDriver:
    """What the driver of a migration and the gatekeeper of the active controller both have; made before either."""

    now: DriverState
    session: ZkSession
    divergence: DivergenceWatch
    passwords: PasswordEncoder | None

    def gatekeeper(self) -> DriverGatekeeper:
        return DriverGatekeeper(self.now, self.session, self.divergence, self.passwords)


@dataclass(slots=True)
class _Parts:
    store: LogStore
    raft: RaftNode
    controller: ActiveController
    observed: VoterObservations
    session: ZkSession | None
    driver: DriverNode | None
    acts: DriverActs | None
    servers: list[ControllerServer]
    unfit: UnfitWatch | None = None


class ControllerProcess:
    """Start, serve, stop."""

    def __init__(self, config: NodeConfig, hooks: Hooks | None = None) -> None:
        self._config = config
        asks = len(config.voters) > 1  # otherwise nothing in the file has to say how
        self._hooks = hooks or Hooks()
        self._quiet_time = QuietTime()
        idle_ms = config.connections_idle_ms
        self._connections = Connections(most=config.connections_max, idle_s=None if idle_ms is None else idle_ms / 1000)
        self._denials = Denials(time.monotonic)
        self._retired_mark = RetiredMark(config.metadata_log_dir)
        self._retirement: asyncio.Task[None] | None = None
        self._lock = DirectoryLock(config.metadata_log_dir)
        self._incarnation = our_incarnation(secrets.token_bytes(8))
        self._ended: asyncio.Future[int] | None = None
        self._running: _Parts | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop_delay = LoopDelay()
        self._control: ControlServer | None = None
        for security in config.security.values():
            check_stores(security)  # before anything is written
        if config.remote_control is not None:
            check_stores(config.remote_control.security)
            read_tokens(config.remote_control)
        if config.migration_enabled:
            sockets_of(config.zookeeper_tls)
        known = process_login() is not None or (config.zookeeper_tls is not None and config.zookeeper_tls.identity)
        if config.zookeeper_set_acl and config.migration_enabled and not known:
            reason = (
                "it needs a login for ZooKeeper: KAFKA_OPTS names none (-Djava.security.auth.login.config), and no "
                "certificate is shown to ZooKeeper (zookeeper.ssl.keystore.location)"
            )
            raise CONFIG_NOT_HONOURED.error(file=config.file, key="zookeeper.set.acl", value="true", reason=reason)
        self._to_voters = client_security(config.security.get(config.controller_listener) if asks else None)
        told = config.security.get(config.inter_broker_listener) if config.migration_enabled else None
        self._to_brokers = client_security(told)

    async def run(self) -> int:
        """Serve until SIGTERM, SIGINT or a reason to stop; returns the exit code."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end, 0)
        meta = self._check_directories()
        parts = await self._start(meta)
        try:
            return await self._ended
        finally:
            await self._stop(parts)

    @property
    def _parts(self) -> _Parts:
        """For what the parts call back: none of them does before all are put together."""
        assert self._running is not None, "a part of this process called before the process was put together"
        return self._running

    def _end(self, code: int) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)

    def _fatal(self, error: BaseException) -> None:
        end_within(FATAL_WITHIN_S)
        if isinstance(error, FindingError):
            self._tell(error.occurrence)
        log.critical("controller.failed", error=f"{type(error).__name__}: {error}")
        self._end(1)

    def _refused(self, error: FindingError) -> None:
        self._tell(error.occurrence)
        self._end(1)

    def _retired(self, occurrence: Occurrence | None) -> None:
        """The log may not be used; only a process that finds this at its start ends by it."""
        if occurrence is not None and occurrence.code == LOG_RETIRED.code:
            self._tell(occurrence)
            self._end(1)
            return
        task = asyncio.get_running_loop().create_task(self._parts.raft.leave(), name="leave")
        task.add_done_callback(self._watch_task)
        self._tasks.append(task)

    # --- a log that another voter rolled back --------------------------------------------------------------

    def _log_retired(self, text: str) -> None:
        """This node learned from the log that the cluster went back: it takes no more part, and ends up RETIRED."""
        driver = self._parts.driver
        if driver is not None and driver.now.state is State.RETIRED:
            return
        if self._retirement is None:
            log.warning("log.retired", mark=text)
            self._retirement = asyncio.get_running_loop().create_task(self._retire(text), name="retire")
            self._retirement.add_done_callback(self._watch_task)
            self._tasks.append(self._retirement)

    async def _retire(self, text: str) -> None:
        await retire(self._config, self._retired_mark, text, self._parts.raft, self._close_listeners)
        if self._parts.driver is not None:
            self._parts.driver.parts.events.interrupt(Happened.ROLLED_BACK)

    def _tell(self, occurrence: Occurrence) -> None:
        log.critical("controller.stopped", code=occurrence.code, says=occurrence.text)
        print(f"{occurrence.code} {occurrence.text}\n{occurrence.finding.remedy}", file=sys.stderr)

    # --- start ---------------------------------------------------------------------------------------------

    def _check_directories(self) -> MetaProperties:
        config = self._config
        directories = sorted({config.metadata_log_dir, *config.log_dirs})
        meta = identify(directories, config.node_id)
        refuse_dynamic_voters(config.metadata_log_dir)
        self._lock.acquire()
        mark = self._retired_mark.read()
        if mark is not None:
            finish_rollback(config, mark)
            raise LOG_RETIRED.error(controller=f"a ZooKeeper-mode broker, since {mark}")
        return meta

    async def _start(self, meta: MetaProperties) -> _Parts:
        config = self._config
        loop = asyncio.get_running_loop()
        directory = config.metadata_log_dir / LOG_NAME
        store = await asyncio.to_thread(LogStore.open, directory, config.segment_bytes, config.segment_ms)
        ahead = await asyncio.to_thread(replay_stored, store)
        log_is_empty = ahead.replay.data_records == 0
        bootstrap = read_bootstrap(config.metadata_log_dir / BOOTSTRAP, log_is_empty=log_is_empty)
        raft = self._raft_node(meta, store)
        before = self._before_driver()
        commit_listeners = CommitListeners()
        controller = ActiveController(
            raft,
            settings_of(config, meta.cluster_id),
            ahead,
            bootstrap,
            chance=Random(),  # seeded by the system; ids and placements need no secrecy, and its calls are many
            gatekeeper=NoDriver(config.migration_enabled) if before is None else before.gatekeeper(),
            commit_listeners=commit_listeners,
            on_lead=self._led,
            on_refused=self._refused,
            on_retired=self._log_retired,
        )
        raft.state_machine = controller
        self._running = parts = _Parts(store, raft, controller, VoterObservations(), None, None, None, [])
        if before is not None:
            await self._connect(before.session, zookeeper_needed=zookeeper_needed(ahead.replay.image))
            parts.session = before.session
            parts.driver, parts.acts = self._start_driver(parts, before)
            commit_listeners.join(parts.driver)
            parts.unfit = UnfitWatch(raft, controller, parts.observed)
        await self._listen(parts)
        self._start_control(loop, parts, meta)
        raft.start()
        self._run_tasks(parts)
        log.info("controller.started", node=config.node_id, cluster=meta.cluster_id, log_end=store.end)
        for key in config.unknown:
            log.warning("config.unknown_key", file=config.file, key=key)
        return parts

    def _run_tasks(self, parts: _Parts) -> None:
        registration = registration_of(self._config, self._incarnation)
        voters = self._config.voters
        registering = stay_registered(parts.raft, parts.controller, registration, voters, self._to_voters)
        self._tasks += [
            asyncio.create_task(
                run_periodic_tasks(parts.controller, self._config, _alarm_of(parts.driver)), name="tick"
            ),
            asyncio.create_task(self._loop_delay.measure(), name="loop-delay"),
            asyncio.create_task(registering, name="registration"),
        ]
        if parts.unfit is not None:
            watching = kept("looking for unfit nodes", parts.unfit.run, _alarm_of(parts.driver))
            self._tasks.append(asyncio.create_task(watching, name="unfit-nodes"))
        for task in self._tasks:
            task.add_done_callback(self._watch_task)

    async def _listen(self, parts: _Parts) -> None:
        raft = parts.raft
        config, controller = self._config, parts.controller
        addresses = VoterAddresses(config.voters, config.controller_listener, lambda: controller.image)
        answer_fetch = self._hooks.answer_fetch
        quorum = QuorumApis(raft, wall_ms=raft.wall_ms, addresses=addresses, answer_fetch=answer_fetch)
        for listener in self._config.listeners:
            apis = ControllerApis(
                raft, parts.controller, quorum, listener=listener.name, observed=parts.observed, denials=self._denials
            )
            security, limit = self._config.security.get(listener.name), self._config.request_bytes_max
            server = ControllerServer(apis, security, self._connections, request_bytes_max=limit, on_ended=self._fatal)
            await server.start(listener.host, listener.port)
            parts.servers.append(server)

    def _raft_node(self, meta: MetaProperties, store: LogStore) -> RaftNode:
        config = self._config
        raft = RaftNode(make_voter(config, meta.cluster_id, store), store, on_fatal=self._fatal, calm=self._quiet_time)
        if len(config.voters) > 1:
            timeout_s = config.quorum.request_timeout_ms / 1000
            raft.peers = Peers(config.voters, config.node_id, meta.cluster_id, timeout_s, raft.receive, self._to_voters)
        return raft

    async def _connect(self, session: ZkSession, *, zookeeper_needed: bool) -> None:
        """zookeeper_needed: otherwise the session connects in the background, as soon as ZooKeeper answers."""
        if zookeeper_needed:
            await asyncio.to_thread(session.start, self._config.zookeeper_connection_timeout_ms / 1000)
        else:
            session.start_in_background()

    def _before_driver(self) -> _BeforeDriver | None:
        """None where no migration is enabled."""
        config = self._config
        if not config.migration_enabled:
            return None
        assert config.zookeeper_connect is not None
        now = DriverState()
        session = ZkSession(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            set_acl=config.zookeeper_set_acl,
            tls=config.zookeeper_tls,
            on_change=self._session_changed,
        )
        divergence = DivergenceWatch(
            config.divergence, now_ms=now_ms, wall_ms=wall_ms, may_mark=partial(may_write, now)
        )
        return _BeforeDriver(now, session, divergence, encoder_of(config.passwords))

    def _start_driver(self, parts: _Parts, before: _BeforeDriver) -> tuple[DriverNode, DriverActs]:
        config = self._config
        controller = parts.controller
        driver_parts = DriverParts(
            now=before.now,
            progress=StateReporter(before.now),
            config=config,
            controller=controller,
            session=before.session,
            passwords=before.passwords,
            quorum=QuorumView(
                parts.raft, parts.observed, config.voters, self._to_voters, lambda: controller.image.controllers
            ),
            events=EventQueue(),
            hooks=self._hooks,
            to_brokers=self._to_brokers,
            now_ms=now_ms,
            wall_ms=wall_ms,
        )
        driver = DriverNode(
            driver_parts, before.now, before.divergence, calm=self._quiet_time, on_retired=self._retired
        )
        acts = DriverActs(
            driver,
            retired_mark=self._retired_mark,
            close_listener=self._close_listeners,
            laboratory=os.environ.get(LABORATORY) == "1",
        )
        diverging = kept("divergence", lambda: before.divergence.run(parts.controller), driver.now.alarm)
        for name, running in (("driver", driver.run(acts.table)), ("divergence", diverging)):
            task = asyncio.create_task(running, name=name)
            task.add_done_callback(self._watch_task)
            self._tasks.append(task)
        return driver, acts

    def _watch_task(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fatal(task.exception() or RuntimeError("a task ended"))

    def _start_control(self, loop: asyncio.AbstractEventLoop, parts: _Parts, meta: MetaProperties) -> None:
        counting = PartitionCount(min_isr_default(self._config.given))
        self._control = ControlServer(
            loop,
            self._config.metadata_log_dir,
            status=lambda: status(
                parts.raft,
                parts.controller,
                parts.driver,
                counting=counting,
                run=self._incarnation.hex(),
                cluster_id=meta.cluster_id,
                loop=self._loop_delay,
                connections=self._connections,
                denials=self._denials,
                certificates=self._certificates(parts),
                unfit=() if parts.unfit is None else parts.unfit.findings,
            ),
            metrics=parts.raft.metrics,
            driver=parts.driver,
            remote=self._config.remote_control,
        )
        self._control.start(self._config.control_address)

    def _certificates(self, parts: _Parts) -> list[RenewedContext]:
        zookeeper = None if parts.session is None else parts.session.sockets.context
        brokers = None if parts.driver is None else parts.driver.parts.to_brokers.context
        remote = None if self._control is None else self._control.certificates
        listeners = [each.certificates for each in parts.servers]
        return [each for each in (*listeners, remote, self._to_voters.context, brokers, zookeeper) if each is not None]

    # --- what the parts call back --------------------------------------------------------------------------

    def _session_changed(self, what: str) -> None:
        """Called from the session's thread; it connects before there is a driver, and nothing depends on that."""
        driver = None if self._running is None else self._running.driver
        if driver is not None:
            driver.session_changed(what)

    def _led(self, epoch: int) -> None:
        """Make ourselves known in the log (a stock controller does the same), then let the driver look."""
        task = asyncio.get_running_loop().create_task(self._register_and_lead(epoch))
        task.add_done_callback(self._watch_task)
        self._tasks.append(task)

    async def _register_and_lead(self, epoch: int) -> None:
        driver, controller = self._parts.driver, self._parts.controller
        try:
            await controller.submit(registration_of(self._config, self._incarnation), 0)
        except Exception as fault:  # of the image, which the next leader has too; the gate waits for its registration
            log.exception("controller.not_registered")
            _alarm_of(driver)("registration", unexpected("the registration of this controller", fault))
        if driver is not None and controller.epoch == epoch:
            driver.led(epoch)

    # --- stop ----------------------------------------------------------------------------------------------

    async def _close_listeners(self) -> None:
        for server in self._parts.servers:
            await server.stop()

    async def _stop(self, parts: _Parts) -> None:
        end_within(STOP_WITHIN_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close_listeners()
        if parts.driver is not None:
            await parts.driver.propagator.stop()
        if parts.acts is not None:
            await parts.acts.close()
        if parts.session is not None:
            await asyncio.to_thread(parts.session.close)
        await parts.raft.stop()
        if self._control is not None:
            await asyncio.to_thread(self._control.stop)
        self._lock.release()


def _alarm_of(driver: DriverNode | None) -> Alarm:
    """Where a fault is named; without a driver only in the log."""
    return (lambda name, found: None) if driver is None else driver.now.alarm


def run_controller(config: NodeConfig, hooks: Hooks | None = None) -> int:
    """Run one controller until it ends; the exit code of the process."""
    raise_descriptor_limit()
    bound_pauses()
    prepare_types()
    try:
        return asyncio.run(ControllerProcess(config, hooks).run())
    finally:
        signal.alarm(0)
