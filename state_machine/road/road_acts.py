"""What the service does by itself in each phase from dual-write to the end.

In:   a fresh snapshot with its evidence. Out: why nothing more happens now, with the findings behind it.
Elsewhere: rolling restarts (roller.py), gates (policy/road_gates.py), phases before (acts.py).
Rules: the act that cannot be undone, the first start without the migration flag, follows an intent that stands in
ZooKeeper and in the database. Controllers that were replaced are never started by the supervisor again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.road import BACKUP_FAILED, FINALIZE_INTENT_STANDS
from migrator.fleet.roll import RollStep
from migrator.zk import paths
from state_machine.clusters.log_observer import LogObservation
from state_machine.observations import WaitingReason
from state_machine.policy.gates import Evidence
from state_machine.policy.phases import Phase
from state_machine.policy.road_gates import road_of
from state_machine.policy.road_observations import CONTROLLERS, Roll
from state_machine.road.backups import take_backup
from state_machine.road.documents import (
    FILES,
    INTENT,
    LIMITS,
    SOAK,
    FilesDocument,
    IntentDocument,
    LimitsDocument,
    SoakDocument,
    document,
)
from state_machine.road.file_watch import file_findings, read_files
from state_machine.road.fleet import Fleet, Fleets, trouble_of
from state_machine.road.intent import FinalizeIntent, write_intent
from state_machine.road.road_evidence import next_phase
from state_machine.road.roller import Roller
from state_machine.settings import ServiceSettings
from state_machine.store import Snapshot, Store

log = structlog.get_logger()

SNAPSHOTS_EVERY_S: Final = 5.0
BACKUP_AGAIN_S: Final = 30.0
SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint")
METADATA_LOG: Final = "__cluster_metadata-0"
BACKED_UP_IN: Final = (Phase.DUAL_WRITE, Phase.ROLLING_BROKERS, Phase.SOAK)
"""Phases whose next step wants a backup."""


@dataclass(slots=True)
class _Work:
    """Of one migration, in this life of the service. troubles: by what it is about."""

    files: asyncio.Task[FilesDocument] | None = None
    files_at: float = -1e9
    backup: asyncio.Task[None] | None = None
    backup_at: float = -1e9
    snapshots: asyncio.Task[dict[str, Any]] | None = None
    snapshots_at: float = -1e9
    troubles: dict[str, Occurrence] = field(default_factory=dict)


class RoadActs:
    """One method per phase; `tend` in all of them."""

    def __init__(
        self,
        store: Store,
        fleets: Fleets,
        roller: Roller,
        settings: ServiceSettings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._fleets = fleets
        self._roller = roller
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._work: dict[int, _Work] = {}

    async def tend(self, snapshot: Snapshot) -> tuple[Occurrence, ...]:
        """What goes on beside the phase's own act: files, backups, configured times. Returns what is amiss."""
        work = self._work.setdefault(snapshot.id, _Work())
        await self._keep_limits(snapshot)
        await self._watch_files(snapshot, work)
        if snapshot.phase in BACKED_UP_IN:
            await self._keep_backup(snapshot, work)
        files = document(snapshot, FILES, FilesDocument)
        return (*file_findings(snapshot, files), *work.troubles.values())

    # --- phases --------------------------------------------------------------------------------------------

    async def rolling_brokers(self, snapshot: Snapshot, evidence: Evidence) -> WaitingReason:
        rolled = await self._roller.step(snapshot, evidence, Roll.KRAFT)
        return rolled or WaitingReason("done: every broker is in KRaft mode")

    async def replacing_controllers(self, snapshot: Snapshot, evidence: Evidence) -> WaitingReason:
        replaced = await self._roller.step(snapshot, evidence, Roll.STOCK)
        return replaced or WaitingReason("done: every controller is stock")

    async def soak(self, snapshot: Snapshot, evidence: Evidence) -> WaitingReason:
        """Elections, snapshots, restarts, and the time itself."""
        await self._note_soak(snapshot)
        restarted = await self._roller.step(snapshot, evidence, Roll.SOAK)
        return restarted or WaitingReason("done: every stock controller was restarted")

    async def finalizing(self, snapshot: Snapshot, evidence: Evidence) -> WaitingReason:
        """The intent stands before the first node is touched."""
        if document(snapshot, INTENT, IntentDocument) is None:
            return await self._intend(snapshot)
        finalized = await self._roller.step(snapshot, evidence, Roll.FINAL)
        return finalized or WaitingReason("waiting: the end of the migration is committed on every voter")

    async def completed(self, snapshot: Snapshot, evidence: Evidence) -> WaitingReason:
        road = road_of(evidence)
        raise_ = "raise metadata.version after every node runs a later Kafka"
        stands = f"{paths.CONTROLLER}, {paths.MIGRATION} and {paths.FINALIZE_INTENT} stay in ZooKeeper"
        return WaitingReason(
            f"done: {len(road.kraft)} brokers and {len(road.voters)} controllers of stock run without ZooKeeper. Stop "
            f"ZooKeeper and keep its data; {stands}, so that no stray broker becomes a second controller. "
            f"Next: {raise_}"
        )

    # --- soak ----------------------------------------------------------------------------------------------

    async def _note_soak(self, snapshot: Snapshot) -> None:
        """Who led, how often that changed, and which snapshots were written."""
        observed = LogObservation() if snapshot.observation is None else snapshot.observation.log
        before = document(snapshot, SOAK, SoakDocument)
        if before is None or before.began < snapshot.migration.since:
            before = SoakDocument(began=snapshot.migration.since)
        after = before
        if observed.known and observed.leader is not None:
            moved = observed.epoch > before.epoch and before.epoch > 0
            after = msgspec.structs.replace(
                after,
                epoch=max(observed.epoch, before.epoch),
                leader=observed.leader,
                leaders=tuple(sorted({*before.leaders, observed.leader})),
                elections=before.elections + (1 if moved else 0),
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
            work.snapshots = asyncio.create_task(asyncio.to_thread(self._list_snapshots, snapshot))
        return None

    def _list_snapshots(self, snapshot: Snapshot) -> dict[str, Any]:
        """Those that end behind where the log was when stock started on it."""
        fleet = self._fleets.fleet(snapshot.migration.name)
        began = {row.node_id: row.log_end for row in snapshot.nodes_of(Roll.STOCK)}
        newest: dict[str, int] = {}
        not_listed = []
        for node in fleet.of(CONTROLLERS):
            directory = f"{node.node.metadata_directory}/{METADATA_LOG}"
            try:
                names = node.actuator.list(directory)
            except FindingError:
                names = None
            if names is None:
                not_listed.append(node.id)
                continue
            ends = [int(match[1]) for name in names if (match := SNAPSHOT_NAME.fullmatch(name))]
            later = [end for end in ends if end > began.get(node.id, 0)]
            if later:
                newest[str(node.id)] = max(later)
        return {"snapshots": newest, "not_listed": not_listed}

    # --- finalize ------------------------------------------------------------------------------------------

    async def _intend(self, snapshot: Snapshot) -> WaitingReason:
        """Znode first: a row without it would let nobody else see what was begun."""
        approval = snapshot.approval
        events = await self._store.away(self._store.events, snapshot.id)
        who = next((each.who for each in reversed(events) if each.to_phase == Phase.FINALIZING), "unknown")
        intent = FinalizeIntent(
            migration=snapshot.migration.name,
            cluster=snapshot.migration.cluster_id or "",
            at=self._clock(),
            who=who,
            approved_by="" if approval is None else approval.who,
            digest="" if approval is None else approval.digest,
        )
        try:
            text = await asyncio.to_thread(write_intent, snapshot.inventory.zookeeper, intent)
        except FindingError as error:
            return WaitingReason(f"waiting: the intent is written to ZooKeeper: {words_of(error)}", (error.occurrence,))
        await self._keep(
            snapshot, INTENT, IntentDocument(at=self._clock(), path=paths.FINALIZE_INTENT, text=text, who=who)
        )
        log.warning("finalize.intended", path=paths.FINALIZE_INTENT, text=text)
        return WaitingReason(f"waiting: {FINALIZE_INTENT_STANDS.found(path=paths.FINALIZE_INTENT, text=text).text}")

    # --- files, backups, times -----------------------------------------------------------------------------

    async def _keep_limits(self, snapshot: Snapshot) -> None:
        wanted = LimitsDocument(
            settle_s=self._settings.settle_s,
            soak_s=self._settings.soak_s,
            brokers_gone_s=self._settings.brokers_gone_s,
            single_operator=self._settings.single_operator,
        )
        if document(snapshot, LIMITS, LimitsDocument) != wanted:
            await self._keep(snapshot, LIMITS, wanted)

    async def _watch_files(self, snapshot: Snapshot, work: _Work) -> None:
        """More often while something rests on it: after each node, the files of before say nothing."""
        if work.files is not None:
            if not work.files.done():
                return
            task, work.files = work.files, None
            found = task.result()
            if any(row.changed_at >= found.at for row in snapshot.road):
                work.files_at = self._steady() - self._settings.drift_every_s + 1.0  # a file moved while it was read
            else:
                await self._keep(snapshot, FILES, found)
            return
        last = document(snapshot, FILES, FilesDocument)
        changed = last is not None and any(
            row.changed_at > last.at and row.step == RollStep.WHOLE for row in snapshot.road
        )
        since = self._steady() - work.files_at
        if since >= self._settings.drift_every_s or (changed and since >= 1.0):
            work.files_at = self._steady()
            work.files = asyncio.create_task(asyncio.to_thread(self._read_files, snapshot))

    def _read_files(self, snapshot: Snapshot) -> FilesDocument:
        now = self._clock()
        try:
            return read_files(snapshot, self._fleets.fleet(snapshot.migration.name), now)
        except FindingError as error:
            before = document(snapshot, FILES, FilesDocument)
            baseline = {} if before is None else before.baseline
            return FilesDocument(now, problem=trouble_of(error), baseline=baseline)

    async def _keep_backup(self, snapshot: Snapshot, work: _Work) -> None:
        if work.backup is not None:
            if not work.backup.done():
                return
            task, work.backup = work.backup, None
            try:
                task.result()
                work.troubles.pop("backup", None)
            except FindingError as error:
                work.troubles["backup"] = error.occurrence
            return
        phase = next_phase(snapshot.phase)
        taken = [each for each in snapshot.backups if each.kind == "gate" and each.phase == phase]
        if any(each.seen_at >= snapshot.migration.since for each in taken):
            return
        if snapshot.phase is not Phase.DUAL_WRITE and not self._is_worth_it(snapshot):
            return
        files = document(snapshot, FILES, FilesDocument)
        if files is None or files.problem or self._steady() - work.backup_at < BACKUP_AGAIN_S:
            return
        work.backup_at = self._steady()
        work.backup = asyncio.create_task(self._back_up(snapshot, phase))

    def _is_worth_it(self, snapshot: Snapshot) -> bool:
        """A backup before a gate has what stands when its phase has done its work."""
        roll = {Phase.ROLLING_BROKERS: Roll.KRAFT, Phase.SOAK: Roll.SOAK}[snapshot.phase]
        rows = snapshot.nodes_of(roll)
        return bool(rows) and all(row.step == RollStep.WHOLE for row in rows)

    async def _back_up(self, snapshot: Snapshot, phase: str) -> None:
        home = self._settings.directory.absolute() / "migrations" / str(snapshot.id) / "backups"
        fleet: Fleet = await asyncio.to_thread(self._fleets.fleet, snapshot.migration.name)
        try:
            taken = await asyncio.to_thread(take_backup, snapshot, fleet, home, phase)
        except OSError as error:
            raise BACKUP_FAILED.error(phase=phase, reason=words_of(error)) from error

        def write() -> None:
            self._store.record_backup(
                snapshot.id,
                file=taken.directory,
                phase=phase,
                sha256=taken.sha256,
                size_bytes=taken.size_bytes,
                at=self._clock(),
            )

        await self._store.away(write)
        log.info("backup.taken", phase=phase, directory=taken.directory, sha256=taken.sha256, bytes=taken.size_bytes)

    async def _keep(self, snapshot: Snapshot, kind: str, value: msgspec.Struct) -> None:
        found: dict[str, Any] = msgspec.to_builtins(value)

        def write() -> None:
            self._store.record_document(snapshot.id, kind, found, at=self._clock())

        await self._store.away(write)
