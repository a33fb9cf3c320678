"""SOAK: stock's snapshots, restarts and elections on our log, proven while there is a way back.

In:   a fresh snapshot with its evidence. Out: a `SoakDocument`, kept as a row; why an election waits.
Elsewhere: the restarts themselves (state_machine/rolling), what FINALIZING asks of all this (policy/gates_forward.py).
Rules: a restart of the leader elects the voter with the lowest id among those that have everything, so that others
would never lead. Such a voter is sent the very request that a leader sends when it stops, with that voter as successor
(KIP-595, EndQuorumEpoch). One election at a time, only while everything is whole, and never while steps are paused.
Source: Kafka 3.9 `LeaderState.nonLeaderVotersByDescendingFetchOffset`, `KafkaRaftClient.handleEndQuorumEpochRequest`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from migrator.findings.finding import FindingError, words_of
from migrator.model.verdict import Verdict
from state_machine.clusters.log_observer import LogObservation
from state_machine.clusters.observe import ClusterObserver, Observation
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.fleet import FleetNode, Fleets
from state_machine.policy.fleet_evidence import CONTROLLERS, Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Outcome, Waiting
from state_machine.policy.step_conditions import When, conditions_of
from state_machine.rows.documents import INTENT, SOAK, IntentDocument, SoakDocument, document
from state_machine.rows.store import Snapshot, Store
from state_machine.times.stretches import ObservedTime, passed

log = structlog.get_logger()

SNAPSHOTS_EVERY_S: Final = 5.0
ELECTION_EVERY_S: Final = 15.0
"""A new leader of stock synchronises ZooKeeper first."""
COUNTED_EVERY_S: Final = 1.0
"""What was not written down yet when the service ends does not count."""
SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
METADATA_LOG: Final = "__cluster_metadata-0"


@dataclass(slots=True)
class _Work:
    """Of one migration, in this life of the service."""

    snapshots: asyncio.Task[dict[str, Any]] | None = None
    snapshots_at: float = -1e9
    asked_at: float = -1e9
    asked: int = 0


def came_back(snapshot: Snapshot) -> bool:
    """From FINALIZING, which was given up: the soak goes on."""
    intent = document(snapshot, INTENT, IntentDocument)
    return intent is not None and intent.withdrawn


def counted(before: SoakDocument, look: Observation | None, now: float) -> SoakDocument:
    """With the time since the observation that counted last. A time without observations, or in which the log could
    not be read, does not count; nor does it begin the soak anew.
    """
    time = before.counted or ObservedTime(max(now - before.began, 0.0))  # begun by an earlier release
    moment = None if look is None or not look.log.known or look.log.leader is None else look.moment
    if moment is None:
        return msgspec.structs.replace(before, counted=time, moment=None)
    passed_s = passed(before.moment, moment)
    if passed_s is None:
        return msgspec.structs.replace(before, counted=time, moment=moment)
    if passed_s < COUNTED_EVERY_S:
        return before
    time = ObservedTime(time.seconds + passed_s, time.samples + 1, max(time.longest_s, passed_s))
    return msgspec.structs.replace(before, counted=time, moment=moment)


class SoakActs:
    def __init__(
        self,
        store: Store,
        fleets: Fleets,
        observer: ClusterObserver,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        hosts: HostThreads | None = None,
    ) -> None:
        self._hosts = hosts or HostThreads()
        self._store = store
        self._fleets = fleets
        self._observer = observer
        self._clock = clock
        self._steady = steady
        self._work: dict[int, _Work] = {}

    # --- elections -----------------------------------------------------------------------------------------

    async def elect(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """The next voter that did not lead yet stands for election. None: each one led."""
        observed = LogObservation() if snapshot.observation is None else snapshot.observation.log
        soak = document(snapshot, SOAK, SoakDocument)
        led = set() if soak is None else set(soak.leaders)
        left = [each.id for each in observed.voters if each.id not in led]
        if observed.known and not left:
            return None
        ready = Verdict(conditions_of(evidence, Roll.SOAK, When.STOP))
        if snapshot.migration.paused or not ready.holds or not left:
            reason = snapshot.migration.paused or ready.reason()
            return Waiting(f"before an election (controllers {left} did not lead yet): {reason}")
        work = self._work.setdefault(snapshot.id, _Work())
        if self._steady() - work.asked_at >= ELECTION_EVERY_S:
            work.asked_at, work.asked = self._steady(), work.asked + 1
            source = self._observer.log_of(snapshot.id)
            log.info("soak.election", node=left[0], leader=observed.leader, epoch=observed.epoch)
            try:
                if source is not None:
                    await source.ask_to_lead(left[0], observed)
            except OSError as error:
                return Waiting(f"controller {left[0]} did not take the request to lead: {words_of(error)}")
        return Waiting(f"controller {left[0]} is elected (asked {work.asked} times); then {left[1:]}")

    # --- what is noted -------------------------------------------------------------------------------------

    async def note(self, snapshot: Snapshot) -> None:
        """Who led, how often that changed, and which snapshots were written."""
        observed = LogObservation() if snapshot.observation is None else snapshot.observation.log
        before = document(snapshot, SOAK, SoakDocument)
        if before is None or (before.began < snapshot.migration.since and not came_back(snapshot)):
            before = SoakDocument(began=snapshot.migration.since, counted=ObservedTime())
        after = counted(before, snapshot.observation, self._clock())
        if observed.known and observed.leader is not None:
            moved = observed.epoch > before.epoch and before.epoch > 0
            after = msgspec.structs.replace(
                after,
                epoch=max(observed.epoch, before.epoch),
                leader=observed.leader,
                leaders=tuple(sorted({*before.leaders, observed.leader})),
                elections=before.elections + (1 if moved else 0),
                elected_at=self._clock() if moved else before.elected_at,
            )
        listed = await self._listed(snapshot)
        if listed is not None:
            after = msgspec.structs.replace(
                after, snapshots=listed["snapshots"], not_listed=tuple(listed["not_listed"])
            )
        if after != before or document(snapshot, SOAK, SoakDocument) is None:
            await self._keep(snapshot, SOAK, after)

    async def _listed(self, snapshot: Snapshot) -> dict[str, Any] | None:
        work = self._work.setdefault(snapshot.id, _Work())
        if work.snapshots is not None:
            if not work.snapshots.done():
                return None
            task, work.snapshots = work.snapshots, None
            try:
                return task.result()
            except FindingError as error:
                log.warning("soak.snapshots_not_listed", reason=str(error))
                return None
        if self._steady() - work.snapshots_at >= SNAPSHOTS_EVERY_S:
            work.snapshots_at = self._steady()
            work.snapshots = asyncio.create_task(self._hosts.away(snapshot.id, self._list_snapshots, snapshot))
        return None

    def _list_snapshots(self, snapshot: Snapshot) -> dict[str, Any]:
        """Those that end behind where the log was when stock started on it."""
        fleet = self._fleets.fleet(snapshot.migration.name)
        began = {row.node_id: row.log_end for row in snapshot.stock_rows}
        newest: dict[str, int] = {}
        not_listed = []
        calls = self._hosts.calls(snapshot.id)
        listed = [(node, calls.begin(node.node.host, partial(_listed, node))) for node in fleet.of(CONTROLLERS)]
        for node, call in listed:
            names = call.result.result()
            if names is None:
                not_listed.append(node.id)
                continue
            ends = [int(match[1]) for name in names if (match := SNAPSHOT_NAME.fullmatch(name))]
            later = [end for end in ends if end > began.get(node.id, 0)]
            if later:
                newest[str(node.id)] = max(later)
        return {"snapshots": newest, "not_listed": not_listed}

    async def _keep(self, snapshot: Snapshot, kind: str, value: msgspec.Struct) -> None:
        found: dict[str, Any] = msgspec.to_builtins(value)

        def write() -> None:
            self._store.record_document(snapshot.id, kind, found, at=self._clock())

        await self._store.away(write)


def _listed(node: FleetNode) -> tuple[str, ...] | None:
    """Blocks on its host."""
    try:
        return node.actuator.list(f"{node.node.metadata_directory}/{METADATA_LOG}")
    except FindingError:
        return None
