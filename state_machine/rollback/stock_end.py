"""The end of Kafka's own controllers on a way back: they are stopped, and their claim is taken away.

In:   a snapshot whose brokers are all in ZooKeeper mode. Out: why it goes on, or None: nothing of stock is left.
Elsewhere: the multi that takes the claim away (migrator/node/tools/without_controllers.py), brokers that go back before
(rolling/back.py), when it is possible (policy/stock_gates.py).
Rules: whatever would refuse to take the claim away is asked before the first stop. The active controller is stopped
last, so that nothing is committed that ZooKeeper lacks. Every act can be repeated.
Source: Kafka 3.9 operations page, "Reverting to ZooKeeper mode"; failure cases F-40 and F-42.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

import structlog

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction, ProcessState
from migrator.fleet.roll import UNTOUCHED
from migrator.node.tools.without_controllers import execute_without_controllers, plan_without_controllers
from migrator.node.zookeeper.claims import read_claim
from migrator.zk import paths
from migrator.zk.multi import Delete, Multi
from migrator.zk.session import ZkSession
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.fleet import Fleet, Fleets
from state_machine.policy.fleet_evidence import CONTROLLERS, Roll
from state_machine.policy.outcome import Blocked, Outcome, Waiting
from state_machine.rollback.left_out import left_out
from state_machine.rows.store import Snapshot, reached

log = structlog.get_logger()

MIRRORS_S: Final = 2.0
"""What the leader committed before its followers went is mirrored meanwhile; without a majority nothing more is."""
AGAIN_S: Final = 5.0
"""From one attempt that failed to the next."""


class StockEnd:
    """One attempt at a time for each migration."""

    def __init__(
        self,
        fleets: Fleets,
        hosts: HostThreads,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """clock: of rows, by which waivers end."""
        self._clock = clock
        self._fleets = fleets
        self._hosts = hosts
        self._steady = steady
        self._running: dict[int, asyncio.Task[str]] = {}
        self._failed: dict[int, tuple[Occurrence, float]] = {}
        self._done: set[int] = set()

    def is_at_it(self, migration_id: int) -> bool:
        """It was begun in this life of the service."""
        return migration_id in self._running or migration_id in self._failed

    async def step(self, snapshot: Snapshot, *, gone: bool) -> Outcome | None:
        """None: every stock controller is stopped, and nothing of its claim stands. gone: ZooKeeper shows no claim."""
        if not gone:
            self._done.discard(snapshot.id)
        task = self._running.get(snapshot.id)
        if task is None:
            return await self._begin(snapshot)
        if not task.done():
            return Waiting("stock controllers are stopped, the active one last; then their claim is taken away")
        del self._running[snapshot.id]
        try:
            waits = task.result()
        except FindingError as error:
            self._failed[snapshot.id] = error.occurrence, self._steady()
            return Blocked(f"{error.occurrence.text}", (error.occurrence,))
        if waits:
            return Waiting(waits)
        self._failed.pop(snapshot.id, None)
        self._done.add(snapshot.id)
        return None

    async def _begin(self, snapshot: Snapshot) -> Outcome | None:
        if snapshot.id in self._done:
            return None
        failed = self._failed.get(snapshot.id)
        if failed is not None and self._steady() - failed[1] < AGAIN_S:
            return Blocked(f"{failed[0].text}", (failed[0],))
        work = self._hosts.away(snapshot.id, self._end, snapshot)
        self._running[snapshot.id] = asyncio.create_task(work, name=f"end of stock in migration {snapshot.id}")
        return Waiting("stock controllers are stopped, the active one last; then their claim is taken away")

    def _end(self, snapshot: Snapshot) -> str:
        """Blocks on hosts and ZooKeeper. Returns what a person has to do first; empty: it is done."""
        fleet = self._fleets.fleet(snapshot.migration.name).of_cluster(snapshot.migration.cluster_id)
        out = frozenset(left_out(snapshot, self._clock()))
        leader = None if snapshot.observation is None else snapshot.observation.log.leader
        try:
            with ZkSession(snapshot.inventory.zookeeper) as session:
                if is_claimed(session):  # while stock leads: what refuses it leaves the cluster with its controller
                    plan_without_controllers(session, accept_loss=True)
                waits = stop_controllers(fleet, leader, out) if _began(snapshot) else ""
                if not waits:
                    take_claim_away(session)
        except OSError as error:
            raise STEP_FAILED.error(act="release", node="the claim", reason=words_of(error)) from error
        return waits


def _began(snapshot: Snapshot) -> bool:
    """Whether this migration started a stock controller, or found one that ran."""
    return any(reached(row) not in UNTOUCHED for row in snapshot.nodes_of(Roll.BEGIN))


def stop_controllers(fleet: Fleet, leader: int | None, out: Collection[int] = ()) -> str:
    """What a person has to do; empty: each of them has ended. Raises what a host refuses.

    out: left out of the way back by name, since their hosts are dead. They are a minority, or nothing is ended: whoever
    runs there could lead.
    """
    every = fleet.of(CONTROLLERS)
    left = [each for each in every if each.id in out]
    if left and 2 * len(left) >= len(every):
        reason = f"{len(left)} of {len(every)} controllers are left out, and those that run could lead"
        raise STEP_FAILED.error(act="stop", node=f"the controllers {[each.id for each in left]}", reason=reason)
    for node in sorted(every, key=lambda each: (each.id == leader, each.id)):
        if node in left:
            continue
        if node.id == leader:
            time.sleep(MIRRORS_S)
        answer = node.actuator.stop()  # also of one that is down: only the act keeps its supervisor from starting it
        if isinstance(answer, Instruction) and node.actuator.status().state is not ProcessState.STOPPED:
            return f"a person has to act on {node.name}: {answer.text}"
        if node.actuator.status().state is not ProcessState.STOPPED:
            raise STEP_FAILED.error(act="stop", node=node.name, reason="its host does not say that it has ended")
        log.warning("stock.stopped", node=node.id)
    return ""


def is_claimed(session: ZkSession) -> bool:
    """Whether a KRaft controller has the claim."""
    held = read_claim(session).controller
    return held is not None and held.kraft_epoch > 0


def take_claim_away(session: ZkSession) -> None:
    """Raises what refuses it."""
    observed = read_claim(session)
    held = observed.controller
    if held is not None and held.kraft_epoch <= 0:
        # a broker is controller: before a claim stock left at most a /migration that names nothing
        if observed.migration_version >= 0 and _names_nothing(observed.migration):
            session.apply(Multi((Delete(paths.MIGRATION, observed.migration_version),)))
        return
    if held is None and observed.migration_version < 0:
        return  # taken away, and no broker is elected yet
    done = execute_without_controllers(session, plan_without_controllers(session, accept_loss=True))
    log.warning("stock.claim_taken_away", after=done)


def _names_nothing(migration: object) -> bool:
    return getattr(migration, "kraft_metadata_offset", -1) < 0
