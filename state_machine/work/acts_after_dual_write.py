"""What the service does by itself in each phase from dual-write to the end.

In:   a fresh snapshot with its evidence. Out: why nothing more happens now, with the findings behind it.
Elsewhere: rolling restarts (rolling/), gates (policy/gates_forward.py), phases before (acts.py).
Rules: the act that cannot be undone, the first start without the migration flag, follows an intent that stands in
ZooKeeper and in the database. Controllers that were replaced are never started by the supervisor again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.road import (
    BACKUP_FAILED,
    CANARY_OVER_BUDGET,
    ZOOKEEPER_STILL_REACHABLE,
)
from migrator.fleet.inventory import Inventory
from migrator.fleet.roll import RollStep
from migrator.model.connect_string import chroot_of
from migrator.model.verdict import Verdict
from migrator.zk import paths
from state_machine.evidence.after_dual_write import fleet_evidence, next_phase, stuck_findings
from state_machine.evidence.file_watch import (
    NodeFiles,
    file_findings,
    read_changes,
    read_files,
    restart_occurrences,
)
from state_machine.facts.accepted import Limits
from state_machine.facts.canary import CanaryFact
from state_machine.finish import give_up
from state_machine.finish.backups import take_backup
from state_machine.finish.before_finalize import FreshFiles, is_waiting, never_asked, not_now
from state_machine.finish.canary import CanaryTraffic, client_of
from state_machine.finish.intent import FinalizeIntent, delete_intent, write_intent
from state_machine.finish.soak import SoakActs
from state_machine.finish.version_raise import VersionRaise
from state_machine.finish.zookeeper_end import end_text, observed_end
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.fleet import Fleet, Fleets, trouble_of
from state_machine.nodes.readings import NodeReadings
from state_machine.policy.conditions import canary_is_well, fleet_evidence_of
from state_machine.policy.finalize_gates import finalize_may_be_given_up
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.gates_forward import levels_text
from state_machine.policy.outcome import Finished, Outcome, Waiting
from state_machine.policy.phases import Phase
from state_machine.rollback.controllers_back import to_put_back
from state_machine.rollback.left_out import left_as_stock, left_out, nodes_left_out, words_of_left_out
from state_machine.rolling.journal import send_back
from state_machine.rolling.loop import Roller
from state_machine.rows.documents import (
    CANARY,
    FILES,
    INTENT,
    LEFT_OUT,
    LEVELS,
    LIMITS,
    RESTARTS,
    ZOOKEEPER_END,
    FilesDocument,
    IntentDocument,
    LeftOutDocument,
    LevelsDocument,
    RestartsDocument,
    ZooKeeperEndDocument,
    document,
)
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import JournalRow
from state_machine.settings import ServiceSettings

log = structlog.get_logger()

BACKUP_AGAIN_S: Final = 30.0
CANARY_EVERY_S: Final = 2.0


@dataclass(slots=True)
class _Work:
    """Of one migration, in this life of the service. troubles: by what it is about."""

    files_said: NodeReadings[NodeFiles]
    restarts_said: NodeReadings[bytes | None]
    files: asyncio.Task[FilesDocument] | None = None
    files_at: float = -1e9
    fresh: FreshFiles = field(default_factory=FreshFiles)
    restarts: asyncio.Task[RestartsDocument] | None = None
    restarts_at: float = -1e9
    backup: asyncio.Task[None] | None = None
    backup_at: float = -1e9
    canary: CanaryTraffic | None = None
    canary_at: float = -1e9
    canary_before: tuple[int, int] = (0, 0)
    troubles: dict[str, Occurrence] = field(default_factory=dict)


class ActsAfterDualWrite:
    """One method per phase; `tend` in all of them."""

    def __init__(
        self,
        store: Store,
        fleets: Fleets,
        roller: Roller,
        soak: SoakActs,
        settings: ServiceSettings,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        raises: VersionRaise | None = None,
        restarts: Callable[..., RestartsDocument] = read_changes,
        hosts: HostThreads | None = None,
    ) -> None:
        self._hosts = HostThreads(settings.hosts_at_once, settings.calls_per_host) if hosts is None else hosts
        self._raises = raises
        self._restarts = restarts
        self._store = store
        self._fleets = fleets
        self._roller = roller
        self._soak = soak
        self._settings = settings
        self._clock = clock
        self._steady = steady
        self._work: dict[int, _Work] = {}
        self.finalize_gate: Callable[[Snapshot, str], Verdict] = never_asked
        """The gate of FINALIZING, as it is now, for the person who requested it; who acts puts it here."""
        roller.before_stop[Roll.FINAL] = self._before_finalize

    async def tend(self, snapshot: Snapshot) -> tuple[Occurrence, ...]:
        """What goes on beside the phase's own act: files, backups, configured times. Returns what is amiss."""
        work = self._work.setdefault(snapshot.id, _Work(NodeReadings(self._clock), NodeReadings(self._clock)))
        await self._keep_limits(snapshot)
        await self._watch_files(snapshot, work)
        waits = await self._watch_restarts(snapshot, work)
        await self._keep_canary(snapshot, work)
        if snapshot.phase_row.backup:
            await self._keep_backup(snapshot, work)
        files = document(snapshot, FILES, FilesDocument)
        self._say_canary(snapshot, work)
        stuck = stuck_findings(snapshot.observation, snapshot.replaced)
        return (*file_findings(snapshot, files), *stuck, *waits, *work.troubles.values())

    def may_join(self, snapshot: Snapshot) -> bool:
        """Whether brokers may be restarted before the takeover: there are inventory files at all."""
        return snapshot.phase is Phase.BROKERS_JOINING and self._settings.fleets is not None

    async def rest(self, snapshot: Snapshot) -> tuple[Occurrence, ...]:
        """No road to go, as after a rollback without controllers: no traffic of ours, no lock."""
        work = self._work.pop(snapshot.id, None)
        if work is not None:
            if work.canary is not None:
                work.canary.stop()
            await self._roller.release(snapshot)
            await self._forget_canary(snapshot)
        return ()

    # --- phases --------------------------------------------------------------------------------------------

    async def joining_brokers(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """None: every broker has joined, or nobody requested that the service restarts them."""
        return await self._roller.step(snapshot, evidence, Roll.JOIN) if snapshot.joining else None

    async def roll(self, snapshot: Snapshot, evidence: Evidence, roll: Roll) -> Outcome | None:
        """One decision of a roll. None: every node of it is whole."""
        return await self._roller.step(snapshot, evidence, roll)

    async def rolling_brokers(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        rolled = await self._roller.step(snapshot, evidence, Roll.KRAFT)
        return rolled or Finished("every broker is in KRaft mode")

    async def controllers_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """Ours in the place of stock. None: every one is, or no stock controller came."""
        if not set(to_put_back(snapshot)) - left_out(snapshot, self._clock()).keys():
            return None
        return await self._roller.step(snapshot, evidence, Roll.OURS)

    async def brokers_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """Into ZooKeeper mode, while our controllers lead. None: every one is."""
        return await self._roller.step(snapshot, evidence, Roll.BACK)

    async def original_files(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """Leads ORIGINAL, after the claim is gone. None: every broker has the file with which it was found."""
        return await self._roller.step(snapshot, evidence, Roll.ORIGINAL)

    async def keep_left_out(self, snapshot: Snapshot) -> str:
        """Keeps who was left out by name or left as stock at the end of a way back; in words, for the status later."""
        nodes, stock = nodes_left_out(snapshot, self._clock()), left_as_stock(snapshot, self._clock())
        if nodes or stock:
            await self._keep(snapshot, LEFT_OUT, LeftOutDocument(self._clock(), nodes, stock))
        return words_of_left_out(snapshot, self._clock())

    async def replacing_controllers(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        replaced = await self._roller.step(snapshot, evidence, Roll.STOCK)
        return replaced or Finished("every controller is stock")

    async def soak(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Snapshots, restarts, elections, and the time itself."""
        left = await self._delete_intent(snapshot, evidence)
        await self._soak.note(snapshot)
        if left is not None:
            return left
        restarted = await self._roller.step(snapshot, evidence, Roll.SOAK)
        if restarted is not None:
            return restarted
        led = await self._soak.elect(snapshot, evidence)
        return led or Finished("every stock controller was restarted, and led once")

    async def finalizing(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Gate and intent come with the first stop (`_before_finalize`). One that is given up stops nothing more."""
        row = give_up.to_put_back(snapshot)
        if row is not None and not self._roller.is_acting(snapshot.id):
            await self._store.away(self._put_back, snapshot, row)
            return Waiting(f"controller {row.node_id} gets its kept file, with the migration flag")
        finalized = await self._roller.step(snapshot, evidence, Roll.FINAL)
        return finalized or Waiting("the end of the migration is committed on every voter")

    async def completed(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """What may be switched off, what is left in ZooKeeper, and the offer of the raise of metadata.version.

        It stops no ZooKeeper and deletes no znode, and there is no step that does.
        """
        await self._roller.release(snapshot)
        if self._raises is not None:
            await self._raises.look(snapshot)
        road = fleet_evidence_of(evidence)
        levels = document(snapshot, LEVELS, LevelsDocument)
        raise_ = "`zk2kraft finalize-version` raises metadata.version after every node runs a later Kafka"
        if road.levels is not None:
            raise_ += f" ({levels_text(road.levels)})"
        if levels is not None and levels.raised:
            done = "; ".join((levels.raised, *levels.raised_features.values()))
            raise_ = f"nothing: {done}; `zk2kraft finalize-version --release-version R` lists what else release R has"
        connect = snapshot.inventory.zookeeper
        chroot, end = chroot_of(connect), await self._keep_end(snapshot)
        left = [chroot + path for path in (paths.CONTROLLER, paths.MIGRATION, paths.FINALIZE_INTENT)]
        stands = f"{left[0]}, {left[1]} and {left[2]} stay in ZooKeeper"
        reachable = end is not None and end.reachable
        return Finished(
            f"{len(road.kraft)} brokers and {len(road.voters)} controllers of stock run without ZooKeeper. "
            f"{end_text(end, connect)}; {stands}, so that no stray broker becomes a second controller. zk2kraft itself "
            "may go after that: its service, its package, and the predecessors beside the files; keep the backups. "
            f"Next: {raise_}",
            (ZOOKEEPER_STILL_REACHABLE.found(connect=connect),) if reachable else (),
        )

    async def _keep_end(self, snapshot: Snapshot) -> ZooKeeperEndDocument | None:
        """Written down when ZooKeeper was observed again, once a minute."""
        before = document(snapshot, ZOOKEEPER_END, ZooKeeperEndDocument)
        if snapshot.observation is None:
            return before
        found = observed_end(before, snapshot.observation, self._settings.zookeeper_kept_days)
        if found != before:
            await self._keep(snapshot, ZOOKEEPER_END, found)
        return found

    # --- finalize ------------------------------------------------------------------------------------------

    async def _before_finalize(self, snapshot: Snapshot) -> Outcome | None:
        """Before the first controller is stopped: all of the gate as it is now, then the intent. None: both are there.

        Of the others the gate says nothing any more: the first one may have ended the migration.
        """
        snapshot = await self._store.away(self._store.snapshot, snapshot.id)  # with what this round has written down
        if give_up.is_requested(snapshot):
            return Waiting("the finalize is given up, and no controller is stopped for it any more")
        if not is_waiting(snapshot):
            return None
        events = await self._store.away(self._store.events, snapshot.id)
        who = next((each.who for each in reversed(events) if each.to_phase == Phase.FINALIZING), "unknown")
        verdict = self.finalize_gate(snapshot, who)
        work = self._work[snapshot.id]  # `tend` made it
        if not verdict.holds:
            work.fresh.forget()
            return not_now(verdict)
        if work.fresh.ask(self._steady()):
            work.files_at = -1e9
        if not work.fresh.are_known:
            return Waiting("before the first controller is stopped, every file is read once more")
        intended = document(snapshot, INTENT, IntentDocument)
        return await self._intend(snapshot, who) if intended is None or intended.withdrawn else None

    async def _intend(self, snapshot: Snapshot, who: str) -> Outcome | None:
        """Znode first: a row without it would let nobody else see what was begun."""
        approval = snapshot.approval
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
            return Waiting(f"the intent is written to ZooKeeper: {words_of(error)}", (error.occurrence,))
        await self._keep(
            snapshot, INTENT, IntentDocument(at=self._clock(), path=paths.FINALIZE_INTENT, text=text, who=who)
        )
        log.warning("finalize.intended", path=paths.FINALIZE_INTENT, text=text)
        return None

    def _put_back(self, snapshot: Snapshot, row: JournalRow) -> None:
        look = snapshot.observation
        found = None if look is None else look.log.controller(row.node_id)
        with self._store.writing() as session:
            written = session.get_one(JournalRow, (row.migration_id, row.roll, row.node_id))
            send_back(session, written, "" if found is None else found.incarnation, at=self._clock())

    async def _delete_intent(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """Of a finalize that was given up. A rollback stays closed for as long as it stands."""
        if not give_up.standing_intent(snapshot):
            return None
        said = "the intent of the finalize that was given up is deleted in ZooKeeper"
        verdict = finalize_may_be_given_up(evidence)
        if not verdict.holds:
            return Waiting(f"{said}: {verdict.reason()}")
        cluster = snapshot.migration.cluster_id or ""
        try:
            await asyncio.to_thread(delete_intent, snapshot.inventory.zookeeper, cluster)
        except FindingError as error:
            return Waiting(f"{said}: {words_of(error)}", (error.occurrence,))
        log.warning("finalize.intent_deleted", path=paths.FINALIZE_INTENT)
        return Waiting(f"{said}")

    # --- files, backups, times -----------------------------------------------------------------------------

    async def _keep_limits(self, snapshot: Snapshot) -> None:
        wanted = Limits(
            settle_s=self._settings.settle_s,
            soak_s=self._settings.soak_s,
            brokers_gone_s=self._settings.brokers_gone_s,
            single_operator=self._settings.single_operator,
        )
        if document(snapshot, LIMITS, Limits) != wanted:
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
                if all(at >= found.at for at in found.read_at.values()):  # no answer of a round before
                    work.fresh.are_read()
            return
        last = document(snapshot, FILES, FilesDocument)
        changed = last is not None and any(
            row.changed_at > last.at and row.step == RollStep.WHOLE for row in snapshot.road
        )
        since = self._steady() - work.files_at
        if since >= self._settings.drift_every_s or (changed and since >= 1.0):
            work.files_at = self._steady()
            work.fresh.are_begun(work.files_at)
            work.files = asyncio.create_task(self._hosts.away(snapshot.id, self._read_files, snapshot, work))

    def _read_files(self, snapshot: Snapshot, work: _Work) -> FilesDocument:
        now = self._clock()
        try:
            fleet = self._fleets.fleet(snapshot.migration.name)
            fleet = fleet.of_cluster(snapshot.migration.cluster_id, has_stock=snapshot.inventory.has_stock)
            calls = self._hosts.calls(snapshot.id)
            return read_files(snapshot, fleet, now, work.files_said, calls, self._settings.drift_every_s)
        except FindingError as error:
            before = document(snapshot, FILES, FilesDocument)
            baseline = {} if before is None else before.baseline
            return FilesDocument(now, problem=trouble_of(error), code=error.code, baseline=baseline)

    async def _watch_restarts(self, snapshot: Snapshot, work: _Work) -> tuple[Occurrence, ...]:
        """What the next restart of a broker would change, in phases that restart brokers; sooner after each of them."""
        if not snapshot.phase_row.restarts_brokers:
            return ()
        last = document(snapshot, RESTARTS, RestartsDocument)
        if work.restarts is not None:
            if not work.restarts.done():
                return restart_occurrences(last)
            task, work.restarts = work.restarts, None
            last = task.result()
            if any(row.changed_at >= last.at for row in snapshot.road):
                work.restarts_at = self._steady() - self._settings.drift_every_s + 1.0  # a broker moved meanwhile
            else:
                await self._keep(snapshot, RESTARTS, last)
            return restart_occurrences(last)
        changed = last is not None and any(
            row.changed_at > last.at and row.step == RollStep.WHOLE for row in snapshot.road
        )
        since = self._steady() - work.restarts_at
        if since >= self._settings.drift_every_s or (changed and since >= 1.0):
            work.restarts_at = self._steady()
            work.restarts = asyncio.create_task(self._hosts.away(snapshot.id, self._read_restarts, snapshot, work))
        return restart_occurrences(last)

    def _read_restarts(self, snapshot: Snapshot, work: _Work) -> RestartsDocument:
        now = self._clock()
        try:
            fleet = self._fleets.fleet(snapshot.migration.name)
            fleet = fleet.of_cluster(snapshot.migration.cluster_id, has_stock=snapshot.inventory.has_stock)
            calls = self._hosts.calls(snapshot.id)
            return self._restarts(snapshot, fleet, now, work.restarts_said, calls, self._settings.drift_every_s)
        except FindingError as error:
            return RestartsDocument(now, problem=trouble_of(error))
        except Exception as error:  # whatever kazoo makes of a server
            return RestartsDocument(now, problem=words_of(error))

    async def _keep_canary(self, snapshot: Snapshot, work: _Work) -> None:
        """Traffic of our own while nodes are restarted, where the inventory wants it."""
        if self._steady() - work.canary_at < CANARY_EVERY_S:
            return
        work.canary_at = self._steady()
        inventory = await asyncio.to_thread(self._inventory, snapshot)
        wanted = snapshot.joining or snapshot.phase_row.canary
        spec = inventory.canary if inventory is not None and wanted else None
        if work.canary is not None and work.canary.spec != spec:
            work.canary.stop()
            work.canary = None
        if spec is not None and work.canary is None:
            assert inventory is not None
            earlier = document(snapshot, CANARY, CanaryFact)
            work.canary_before = (0, 0) if earlier is None else (earlier.answered, earlier.failed)
            work.canary = CanaryTraffic(spec, len(inventory.brokers), partial(client_of, inventory), self._clock)
            work.canary.start()
        if work.canary is not None:
            spec, totals = work.canary.spec, work.canary.totals()
            answered, failed = (before + now for before, now in zip(work.canary_before, totals, strict=True))
            found = CanaryFact(
                True, work.canary.figures(), spec.errors_max, spec.stall_s, answered=answered, failed=failed
            )
            await self._keep(snapshot, CANARY, found)
        else:
            await self._forget_canary(snapshot)

    async def _forget_canary(self, snapshot: Snapshot) -> None:
        before = document(snapshot, CANARY, CanaryFact)
        if before is not None and before.wanted:
            await self._keep(snapshot, CANARY, msgspec.structs.replace(before, wanted=False))

    def _inventory(self, snapshot: Snapshot) -> Inventory | None:
        try:
            return self._fleets.fleet(snapshot.migration.name).inventory
        except FindingError:
            return None  # the files' problem says it

    def _say_canary(self, snapshot: Snapshot, work: _Work) -> None:
        work.troubles.pop("canary", None)
        road = fleet_evidence(snapshot, self._clock())
        for each in () if road is None else canary_is_well(road):
            if not each.holds:
                work.troubles["canary"] = CANARY_OVER_BUDGET.found(reason=each.message)

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
        phase = next_phase(snapshot.phase, snapshot.engine)
        taken = [each for each in snapshot.backups if each.kind == "gate" and each.phase == phase]
        if any(each.seen_at >= snapshot.migration.since for each in taken):
            return
        if not all(self._is_whole(snapshot, roll) for roll in snapshot.phase_row.rolls):
            return
        files = document(snapshot, FILES, FilesDocument)
        if files is None or files.problem or self._steady() - work.backup_at < BACKUP_AGAIN_S:
            return
        work.backup_at = self._steady()
        work.backup = asyncio.create_task(self._back_up(snapshot, phase))

    def _is_whole(self, snapshot: Snapshot, roll: Roll) -> bool:
        """A backup before a gate has what stands when its phase has done its work."""
        rows = snapshot.nodes_of(roll)
        return bool(rows) and all(row.step == RollStep.WHOLE for row in rows)

    async def _back_up(self, snapshot: Snapshot, phase: str) -> None:
        own = self._settings.directory.absolute() / "migrations" / str(snapshot.id) / "backups"
        elsewhere = self._settings.backup_directory
        home = own if elsewhere is None else elsewhere.absolute() / f"{snapshot.id}-{snapshot.migration.name}"
        fleet: Fleet = await asyncio.to_thread(self._fleets.fleet, snapshot.migration.name)
        calls = self._hosts.calls(snapshot.id)
        try:
            taken = await self._hosts.away(
                snapshot.id, take_backup, snapshot, fleet, home, phase, self._settings.backup_key, calls
            )
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
