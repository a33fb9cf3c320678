"""Look closely: `check`, rehearsals with their audit, audits on demand. Each runs beside the loop, as a child process.

In:   a snapshot of the migration, and what is wanted.
Out:  rows: the check's document, an audit with its counts and differences, or why there is no result.
Elsewhere: when (work/acts.py), what the results open (gates.py), the commands themselves (migrator.node,
migrator.audit).
Rule: they only read the cluster, within the limits of the commands; nothing of them runs inside the window.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from migrator.audit.engines import is_local
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.service import INSPECTION_FAILED
from migrator.node.observer.log_copy import LogFiles, followed_log
from migrator.node.tools.third_side import REGISTERED
from state_machine.audits import audit_rows
from state_machine.audits.audit_pruning import prune
from state_machine.children.commands import Runner
from state_machine.clusters.inventory import ClusterInventory, ControllerEntry, file_faults
from state_machine.clusters.observe import Observation, reader_of_inventory
from state_machine.policy.audit_observations import PASSED
from state_machine.policy.fleet_evidence import BROKERS
from state_machine.policy.phase_table import PHASES, phases_where
from state_machine.rows.audit_queries import CONFIRMATION, SCHEDULE
from state_machine.rows.store import Snapshot, Store, is_under_way
from state_machine.rows.tables import AuditRun
from state_machine.settings import ServiceSettings
from state_machine.trouble import named

log = structlog.get_logger()

LOG_COPY: Final = "log-of-quorum-"
FAULT_PAUSE_S: Final = 20.0
"""Before an inspection that could not even run is begun again."""
CHILDREN_MAX: Final = 4
"""Commands that run at once, of all migrations together; the others wait for a place."""


QUICK_KEYS_MAX: Final = 200_000
"""Below this the quick engine needs a few seconds and less than 300 MB; READY does not wait for Spark then."""


def first_engine(wanted: str, rehearsed: dict[str, Any]) -> str:
    """Which engine judges a rehearsal first. rehearsed: the JSON of `zk2kraft rehearse`."""
    return "quick" if rehearsed.get("znodes", QUICK_KEYS_MAX) < QUICK_KEYS_MAX else wanted


def move_aside(directory: Path) -> None:
    """What stands where a new run will write: of a run with the same number, in a database that an earlier copy has
    replaced. The row of it is gone, and its files stay readable under another name.
    """
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    number = 1
    while (target := directory.with_name(f"{directory.name}.unknown-{number}")).exists():
        number += 1
    directory.rename(target)
    log.warning("inspection.moved_aside", directory=str(directory), now=str(target))


def to_audit(inventory: ClusterInventory, look: Observation | None) -> ControllerEntry:
    """The controller with the newest log."""
    node = None if look is None else look.newest_log
    return next((each for each in inventory.controllers if each.node_id == node), inventory.controllers[0])


def words_of_spark(master: str) -> tuple[str, ...]:
    """Tell an audit where Spark is. Executors on a network do not see the directory: it keeps a report alone then."""
    return ("--master", master) if is_local(master) else ("--master", master, "--report-only")


def being_restarted(snapshot: Snapshot) -> set[int]:
    """Brokers that the service has stopped just now. One that failed is none of them: it is as silent as it is."""
    return {each.node_id for each in snapshot.road if each.role == BROKERS and is_under_way(each)}


def third_side(snapshot: Snapshot) -> tuple[str, ...]:
    """Words of the command: every broker is asked, while log and ZooKeeper both have the cluster."""
    if not PHASES[snapshot.phase].audited:
        return ()
    away = ",".join(map(str, sorted(being_restarted(snapshot))))
    return ("--brokers", REGISTERED, *(("--without", away) if away else ()))


class Inspections:
    """The running ones, by migration and kind: "check", "rehearsal", or "audit 7"."""

    def __init__(
        self, store: Store, runner: Runner, settings: ServiceSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._runner = runner
        self._settings = settings
        self._clock = clock
        self._running: dict[tuple[int, str], tuple[asyncio.Task[None], float]] = {}
        self._faults: dict[tuple[int, str], tuple[Occurrence, float]] = {}
        self._notes: dict[int, Occurrence] = {}
        self._places = asyncio.Semaphore(CHILDREN_MAX)
        self._copies: set[Path] = set()

    def running_s(self, migration_id: int, kind: str) -> float | None:
        """Seconds since it began; None when it does not run."""
        known = self._running.get((migration_id, kind))
        return None if known is None else self._clock() - known[1]

    def check(self, snapshot: Snapshot) -> None:
        self._begin(snapshot.id, "check", lambda: self._check(snapshot))

    def rehearse(self, snapshot: Snapshot) -> None:
        self._begin(snapshot.id, "rehearsal", lambda: self._rehearse(snapshot))

    def audit(self, snapshot: Snapshot, run: AuditRun) -> None:
        """An audit of the leader's log that was asked for."""
        self._begin(snapshot.id, f"audit {run.id}", lambda: self._audit(snapshot, run))

    def faults(self, migration_id: int) -> list[Occurrence]:
        """Why the last inspection of each kind has no result, where its own row could not say so; and what the last
        Spark audit took that is worth knowing.
        """
        self.reap(migration_id)
        notes = [note for number, note in self._notes.items() if number == migration_id]
        return [*(fault for (number, _), (fault, _) in sorted(self._faults.items()) if number == migration_id), *notes]

    def reap(self, migration_id: int) -> None:
        """Forget those of a migration that ended; what ended one unexpectedly is kept as a finding of its migration.

        Call it at the end of a round: an inspection that ends while a round goes on counts as running until then, since
        that round decides by what it read before, and would begin the same inspection once more.
        """
        for key, (task, _) in list(self._running.items()):
            if key[0] != migration_id or not task.done():
                continue
            del self._running[key]
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                found = named(error, key[0])
                self._faults[key] = (found, self._clock())
                log.error("inspection.failed", migration=key[0], kind=key[1], reason=found.text, exc_info=error)

    async def stop(self, migration_id: int | None = None) -> None:
        """End those of one migration, or all; an audit that was cut off is marked as such."""
        wanted = [key for key in self._running if migration_id in (None, key[0])]
        self._notes = {number: note for number, note in self._notes.items() if migration_id not in (None, number)}
        self._faults = {key: fault for key, fault in self._faults.items() if migration_id not in (None, key[0])}
        tasks = [self._running.pop(key)[0] for key in wanted]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, migration_id: int, kind: str, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if (migration_id, kind) not in self._running:
            _, failed_at = self._faults.get((migration_id, kind), (None, -FAULT_PAUSE_S))
            if 0 <= self._clock() - failed_at < FAULT_PAUSE_S:
                return
            self._faults.pop((migration_id, kind), None)
            task = asyncio.create_task(job(), name=f"{kind} of migration {migration_id}")
            self._running[migration_id, kind] = (task, self._clock())

    # --- check ---------------------------------------------------------------------------------------------

    async def _check(self, snapshot: Snapshot) -> None:
        inventory = snapshot.inventory
        outside = self._settings.bounds.outside(inventory)
        inside = [each for each in inventory.controllers if each.node_id not in outside]
        files = [word for each in inside for word in ("--controllers", each.properties)]
        result = await self._run("check", "-z", inventory.zookeeper, *files, "--engine", inventory.engine)
        faults = await asyncio.to_thread(file_faults, inventory, outside)
        found = result.document if isinstance(result.document, dict) else {}
        document = {
            "exit": result.exit_code,
            "problem": "" if found else result.words,
            "findings": found.get("findings", []),
            "seen": {key: found[key] for key in ("topics", "partitions", "brokers") if key in found},
            "file_faults": {str(node): fault.as_json() for node, fault in faults.items()},
        }
        await self._store.away(self._store.record_check, snapshot.id, document, at=self._clock())

    # --- rehearsals and audits -----------------------------------------------------------------------------

    async def _rehearse(self, snapshot: Snapshot) -> None:
        """Copy ZooKeeper into a directory of ours, then audit that copy."""
        run, _ = await self._store.away(
            audit_rows.ask_audit,
            self._store,
            snapshot.id,
            purpose="rehearsal",
            engine=snapshot.inventory.audit_engine,
            who="service",
            at=self._clock(),
            state="running",
        )
        async with _Recorded(self._store, run, self._clock):
            home = self._home(snapshot) / "rehearsals"
            copy = home / str(run.id) / "log"
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            await self._prune(snapshot)
            await asyncio.to_thread(move_aside, home / str(run.id))
            words = ("rehearse", "-z", snapshot.inventory.zookeeper, "--out", str(copy))
            result = await self._run(*words, *_secrets_of(snapshot.inventory))
            if result.exit_code != 0 or not isinstance(result.document, dict):
                raise INSPECTION_FAILED.error(command="rehearse", reason=result.words)
            engine = first_engine(snapshot.inventory.audit_engine, result.document)
            run = await self._store.away(audit_rows.note_rehearsal, self._store, run.id, result.document, engine)
            await self._compare(snapshot.inventory, run, copy, home / str(run.id) / "audit")
            if engine != snapshot.inventory.audit_engine:
                await self._ask_to_confirm(snapshot, run, copy)

    async def _ask_to_confirm(self, snapshot: Snapshot, run: AuditRun, copy: Path) -> None:
        """The quick engine's word was given; the engine that was wanted confirms it, and nobody waits for it."""
        judged = await self._store.away(audit_rows.audit, self._store, run.id)
        if audit_rows.result_of(judged) != PASSED or await self._store.away(
            audit_rows.unfinished, self._store, snapshot.id
        ):
            return
        await self._store.away(
            audit_rows.ask_audit,
            self._store,
            snapshot.id,
            purpose=CONFIRMATION,
            engine=snapshot.inventory.audit_engine,
            who="service",
            at=self._clock(),
            kraft=str(copy),
        )

    async def _audit(self, snapshot: Snapshot, run: AuditRun) -> None:
        async with _Recorded(self._store, run, self._clock):
            await self._prune(snapshot)
            now = await self._store.away(self._store.snapshot, snapshot.id)  # it may have waited
            entry = to_audit(snapshot.inventory, now.observation)
            out = self._home(snapshot) / "audits" / str(run.id)
            await asyncio.to_thread(move_aside, out)
            if run.purpose == CONFIRMATION and run.kraft:
                await self._compare(snapshot.inventory, run, Path(run.kraft), out)
            elif entry.is_remote:
                await self._compare_with_quorum(snapshot, run, out, third_side(now))
            else:
                await self._compare(snapshot.inventory, run, Path(entry.data), out, brokers=third_side(now))

    async def _compare_with_quorum(self, snapshot: Snapshot, run: AuditRun, out: Path, brokers: Sequence[str]) -> None:
        """The controllers' directories are on other hosts: the log is read from the quorum, for this audit alone."""
        home = self._home(snapshot)
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in home.glob(f"{LOG_COPY}*"):  # by a service that was killed in an audit
            if left not in self._copies:
                await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
        copy = home / f"{LOG_COPY}{run.id}"
        self._copies.add(copy)
        try:
            files = await asyncio.to_thread(LogFiles, copy)
            reader = await asyncio.to_thread(reader_of_inventory, snapshot.inventory, files)
            async with followed_log(reader) as followed:
                await self._compare(snapshot.inventory, run, copy, out, followed.confirm, brokers)
        finally:
            await asyncio.to_thread(shutil.rmtree, copy, ignore_errors=True)
            self._copies.discard(copy)

    async def _compare(
        self,
        inventory: ClusterInventory,
        run: AuditRun,
        kraft: Path,
        out: Path,
        confirm: Callable[[], Awaitable[None]] | None = None,
        brokers: Sequence[str] = (),
    ) -> None:
        """confirm: raises when `kraft` was not what it should be for as long as the audit ran. brokers: words of the
        command that have them asked.
        """
        await self._store.away(audit_rows.begin, self._store, run.id, kraft=str(kraft), directory=str(out))
        out.mkdir(parents=True, exist_ok=True, mode=0o700)
        master = words_of_spark(self._settings.spark_master) if run.engine == "spark" else ()
        moved = ("--allow-moved",) if run.purpose in ("rehearsal", CONFIRMATION) else ()
        words = ("audit", "-z", inventory.zookeeper, "--kraft", str(kraft), "--engine", run.engine, "--out", str(out))
        result = await self._run(*words, *master, *moved, *brokers, *_secrets_of(inventory))
        if run.engine == "spark":
            self._note(run.migration_id, result.note)
        if not isinstance(result.document, dict):
            raise INSPECTION_FAILED.error(command="audit", reason=result.words)
        if confirm is not None:
            await confirm()
        now = await self._store.away(self._store.snapshot, run.migration_id)
        phase, away = now.phase, being_restarted(now)
        if run.purpose == SCHEDULE and phase not in phases_where(lambda row: row.audited):
            await self._store.away(audit_rows.stop, self._store, run.id, audit_rows.DUAL_WRITE_ENDED)
            return
        await self._store.away(audit_rows.finish, self._store, run.id, result.document, at=self._clock(), away=away)

    def _note(self, migration_id: int, note: Occurrence | None) -> None:
        self._notes.pop(migration_id, None)
        if note is not None:
            self._notes[migration_id] = note

    async def _run(self, *arguments: str) -> Any:
        async with self._places:
            return await self._runner.run(*arguments, limit_s=self._settings.command_limit_s)

    async def _prune(self, snapshot: Snapshot) -> None:
        """Make room for one more."""
        limit = self._settings.audits_max_bytes
        await asyncio.to_thread(prune, self._store, snapshot.id, self._home(snapshot), bytes_max=limit)

    def _home(self, snapshot: Snapshot) -> Path:
        return self._settings.directory.absolute() / "migrations" / str(snapshot.id)


class _Recorded:
    """Whatever ends an audit early is written into its row: no result, a disk that is full, a service that stops."""

    def __init__(self, store: Store, run: AuditRun, clock: Callable[[], float]) -> None:
        self._store = store
        self._run = run
        self._clock = clock

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        match error:
            case FindingError() | OSError():
                audit_rows.fail(self._store, self._run.id, str(error), at=self._clock())
                log.warning("audit.no_result", audit=self._run.id, purpose=self._run.purpose, reason=str(error))
                return True
            case asyncio.CancelledError():
                why = "it was stopped: the takeover was about to begin, or the service was stopping"
                audit_rows.stop(self._store, self._run.id, why)
                return False
            case Exception():  # a fault of ours; it is named as one, and the row does not run for ever
                why = f"it ended unexpectedly: {type(error).__name__}"
                audit_rows.fail(self._store, self._run.id, why, at=self._clock())
                return False
            case _:
                return False


def _secrets_of(inventory: ClusterInventory) -> tuple[str, ...]:
    """Where a command finds the brokers' secret; `check` makes sure that all controllers have the same."""
    return "--controller", inventory.controllers[0].properties
