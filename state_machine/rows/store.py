"""Reading and writing the service's rows: migrations and the operations of people.

In:   values of this package.
Out:  rows (detached, to be read only) and `Snapshot`: everything that is known of one migration at one moment.
Elsewhere: changing the phase (transition.py alone does), looks (observations.py), audits (audit_rows.py).
Rule: every method is one transaction. All of them block; the loop calls them by `away`.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import msgspec
from sqlalchemy import Engine, Integer, String, Table, bindparam, delete, func, select, update
from sqlalchemy.orm import Session, defer, sessionmaker

from migrator.findings.road import NODE_ENDED, NODE_STARTED_BY_OTHERS
from migrator.findings.service import (
    KEY_USED_AGAIN,
    MIGRATION_UNREADABLE,
    NAME_TAKEN,
    NO_SUCH_THING,
    OPERATION_PENDING,
    VERSION_MOVED,
)
from migrator.fleet.render import FileKind
from migrator.fleet.roll import UNDER_WAY, UNTOUCHED, RollStep
from migrator.http.addresses import OPERATION
from migrator.model.verdict import Verdict
from state_machine.clusters.inventory import ClusterInventory
from state_machine.clusters.observe import Observation
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phase_table import ROWS, PhaseRow, phases_where
from state_machine.policy.phases import OPERATIONS, OperationName, Phase, Trigger
from state_machine.policy.rivals import Rival, rival_of
from state_machine.rows.audit_queries import (
    CONFIRMATION,
    BrokersPassed,
    audit_passed_at,
    brokers_passed,
    dual_write_audits,
    last_finished,
)
from state_machine.rows.database import WRITES, is_postgresql, open_database
from state_machine.rows.database_claim import DatabaseClaim, claim_database
from state_machine.rows.tables import (
    Approval,
    AuditRun,
    Backup,
    DriverCursor,
    JournalRow,
    Migration,
    ObservationRow,
    ObservedNode,
    Operation,
    PhaseEvent,
)

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

DATABASE_THREADS: Final = 2
"""Only one can write, and Python computes on one: more of them wait for each other longer than for the database."""
OBSERVATION: Final = "observation"
CHECK: Final = "check"
PLAN: Final = "audit plan"
SOAK: Final = "soak"
FILES: Final = "files"
RESTARTS: Final = "restarts"
INTENT: Final = "finalize intent"
LIMITS: Final = "limits"
CANARY: Final = "canary"
LEVELS: Final = "levels"
ZOOKEEPER_END: Final = "zookeeper end"
ZNODES: Final = "znodes"
LEFT_OUT: Final = "left out"
"""Kinds of documents about a migration, one row each. A snapshot has all that there are but those of restarts."""
OF_A_RESTART: Final = "restart "
"""How the kinds of evidence of one restart begin: many, and large. nodes/restart_evidence.py reads them."""
PENDING: Final = ("recorded", "accepted")


# What every round asks is written once: to build a statement takes SQLAlchemy as long as to run it.
_MIGRATION: Final = bindparam("migration", type_=Integer)
_THE_MIGRATION: Final = select(Migration).where(Migration.id == _MIGRATION)
_CONTROLLERS: Final = select(ObservedNode).where(
    ObservedNode.migration_id == _MIGRATION, ObservedNode.kind == "controller"
)
_LAST_OBSERVATION_AND_CHECK: Final = select(ObservationRow).where(
    ObservationRow.migration_id == _MIGRATION, ObservationRow.kind.in_((OBSERVATION, CHECK))
)
_OTHER_DOCUMENTS: Final = select(ObservationRow).where(
    ObservationRow.migration_id == _MIGRATION,
    ObservationRow.kind.not_in((OBSERVATION, CHECK)),
    ~ObservationRow.kind.startswith(OF_A_RESTART),
)
_CURSORS: Final = select(DriverCursor.run, DriverCursor.number).where(DriverCursor.migration_id == _MIGRATION)
_PENDING_OPERATIONS: Final = (
    select(Operation).where(Operation.migration_id == _MIGRATION, Operation.state.in_(PENDING)).order_by(Operation.id)
)
_JOURNAL: Final = select(JournalRow).where(JournalRow.migration_id == _MIGRATION).order_by(JournalRow.node_id)
_LAST_APPROVAL: Final = (
    select(Approval).where(Approval.migration_id == _MIGRATION).order_by(Approval.id.desc()).limit(1)
)
_BACKUPS: Final = select(Backup).where(Backup.migration_id == _MIGRATION).order_by(Backup.id)
_THE_CURSOR: Final = select(DriverCursor.run).where(
    DriverCursor.migration_id == _MIGRATION, DriverCursor.run == bindparam("run", type_=String)
)
_THE_NODE: Final = select(ObservedNode).where(
    ObservedNode.migration_id == _MIGRATION,
    ObservedNode.kind == bindparam("kind", type_=String),
    ObservedNode.node_id == bindparam("node", type_=Integer),
)
_LED_BACK_FROM: Final = {engine: phases_where(lambda row: row.led_back, engine) for engine in ControllerEngine}
_PHASE: Final = select(Migration.phase).where(Migration.id == _MIGRATION, Migration.removed_at.is_(None))


class AuditPlan(msgspec.Struct, frozen=True):
    """How often dual-write is audited, and when next. every_s: 0 means not at all. next_at: by the wall clock."""

    every_s: float
    next_at: float | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One migration as the rows say. check: the last document of `zk2kraft check`, with the time it was made.

    joining: somebody requested that the service restarts the brokers of BROKERS_JOINING.
    dual_write_audits: the last finished ones since dual-write began, newest first; audit_passed_at: of the last pass.
    led_back: the service leads this rollback, with restarts of brokers; the driver is asked in its turn.
    """

    migration: Migration
    inventory: ClusterInventory
    observation: Observation | None
    check: dict[str, Any] | None
    checked_at: float | None
    rehearsal: AuditRun | None
    copy_audit: AuditRun | None
    operations: tuple[Operation, ...]
    processes: Mapping[int, ObservedNode]
    cursors: Mapping[str, int]
    rival: Rival | None = None
    confirmation: AuditRun | None = None
    dual_write_audits: tuple[AuditRun, ...] = ()
    audit_passed_at: float | None = None
    brokers_passed: BrokersPassed | None = None
    audit_plan: AuditPlan | None = None
    road: tuple[JournalRow, ...] = ()
    approval: Approval | None = None
    backups: tuple[Backup, ...] = ()
    documents: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    led_back: bool = False
    joining: bool = False

    def nodes_of(self, roll: str) -> tuple[JournalRow, ...]:
        """The journal of one rolling restart, by node id."""
        return tuple(each for each in self.road if each.roll == roll)

    @property
    def replaced(self) -> frozenset[int]:
        """Controllers of ours that were stopped so that stock takes their place, and were not put back since. The
        supervisor starts none of them. With `engine: stock` none of ours ever ran.
        """
        if self.inventory.has_stock:
            return frozenset(self.inventory.node_ids)
        stock = {each.node_id for each in self.nodes_of(Roll.STOCK) if reached(each) not in UNTOUCHED}
        return frozenset(stock - {each.node_id for each in self.nodes_of(Roll.OURS) if is_put_back(each)})

    @property
    def engine(self) -> ControllerEngine:
        """Whose controllers take over."""
        return self.inventory.engine

    @property
    def phase_row(self) -> PhaseRow:
        """What its phase is, with these controllers."""
        return ROWS[self.engine][self.phase]

    @property
    def stock_rows(self) -> tuple[JournalRow, ...]:
        """The roll in which stock controllers came: in the place of ours, or from the beginning."""
        return self.nodes_of(Roll.BEGIN if self.inventory.has_stock else Roll.STOCK)

    @property
    def id(self) -> int:
        return self.migration.id

    @property
    def phase(self) -> Phase:
        return Phase(self.migration.phase)


def reached(row: JournalRow) -> RollStep:
    """The step of a node of a rolling restart; of a failed one, the step in which it failed."""
    return RollStep(row.failed_in or row.step if row.step == RollStep.FAILED else row.step)


def has_failed(row: JournalRow) -> bool:
    """The rolling restart stands at it until a person decides."""
    return row.step == RollStep.FAILED


def is_under_way(row: JournalRow) -> bool:
    """The service restarts it just now."""
    return RollStep(row.step) in UNDER_WAY


def is_put_back(row: JournalRow) -> bool:
    """Whether the roll OURS put our controller back on this node, and nobody sent it back to stock alone."""
    return reached(row) in (RollStep.STARTED, RollStep.WHOLE) and row.kind != FileKind.STOCK


@dataclass(frozen=True, slots=True)
class Before:
    """What a look has to know of the one before it; the rest of a snapshot is read after it."""

    id: int
    phase: Phase
    inventory: ClusterInventory
    observation: Observation | None
    check: dict[str, Any] | None
    cursors: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperation:
    """What a person asks for, as a handler received it. digest: of what an approval is about, as its sender read it.

    feature: the raise that is requested or approved, such as `group.version=1`; None: of metadata.version.
    """

    name: str
    who: str
    reason: str
    to: Phase | None = None
    expected_version: int | None = None
    key: str | None = None
    digest: str | None = None
    feature: str | None = None

    @property
    def word(self) -> str:
        """The word of the command line for it."""
        return OPERATIONS[self.name].word

    @property
    def fingerprint(self) -> str:
        what: list[Any] = [self.name, self.reason, self.to, self.expected_version]
        if self.digest is not None or self.feature is not None:
            what.append(self.digest)
        return fingerprint(what if self.feature is None else [*what, self.feature])


class Store:
    """The database, as the rest of the service knows it."""

    def __init__(self, engine: Engine, claim: DatabaseClaim | None = None) -> None:
        self._engine, self._claim = engine, claim
        self._reading = sessionmaker(engine, expire_on_commit=False)
        self._writing = sessionmaker(engine.execution_options(**{WRITES: True}), expire_on_commit=False)
        self._turn = threading.Lock()
        self._threads = ThreadPoolExecutor(DATABASE_THREADS, thread_name_prefix="database")

    @classmethod
    def open(cls, url: str) -> Store:
        """Raises Z2K-4016; Z2K-4013 when another service has this PostgreSQL database."""
        claim = claim_database(url) if is_postgresql(url) else None
        try:
            return cls(open_database(url), claim)
        except BaseException:
            if claim is not None:
                claim.close()
            raise

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._engine.dispose()
        if self._claim is not None:
            self._claim.close()

    async def away(self, work: Callable[_Given, _Result], *given: _Given.args, **named: _Given.kwargs) -> _Result:
        """Do work with the database off the loop, on threads that do nothing else.

        A file system or a name server that hangs has the loop's other threads, and keeps no migration from its rows.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *given, **named))

    @contextmanager
    def reading(self) -> Iterator[Session]:
        with self._reading() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One transaction that holds the write lock from its begin; committed at the end, rolled back on an error.

        Writers of this process take turns here: SQLite's own waiting is a sleep of up to 100 ms, in no order. A service
        that no longer has its PostgreSQL database writes nothing (ClaimLost).
        """
        with self._turn, self._writing() as session, session.begin():
            if self._claim is not None:
                self._claim.assert_held(session)
            yield session

    # --- migrations ----------------------------------------------------------------------------------------

    def create(
        self, inventory: ClusterInventory, *, who: str, at: float, key: str | None = None
    ) -> tuple[Migration, bool]:
        """The new migration, and True; the one that this key made before, and False.

        Raises Z2K-4015 when the name is taken, Z2K-4007 when the key stood for something else.
        """
        document = msgspec.to_builtins(inventory)
        print_ = fingerprint(document)
        with self.writing() as session:
            made = None if key is None else session.scalar(select(Migration).where(Migration.idempotency_key == key))
            if made is not None:
                if made.fingerprint != print_:
                    raise KEY_USED_AGAIN.error(key=key)
                return made, False
            taken = session.scalar(select(Migration).where(Migration.name == inventory.name))
            if taken is not None:
                raise NAME_TAKEN.error(name=inventory.name, number=taken.id, phase=taken.phase)
            row = Migration(
                name=inventory.name,
                inventory=document,
                created_at=at,
                created_by=who,
                phase=Phase.CREATED,
                since=at,
                version=1,
                paused=None,
                waiting="",
                idempotency_key=key,
                fingerprint=print_,
            )
            session.add(row)
            return row, True

    def migrations(self) -> list[Migration]:
        """The migrations without their inventories: a damaged one must not hide the others."""
        query = select(Migration).where(Migration.removed_at.is_(None)).order_by(Migration.id)
        with self.reading() as session:
            return list(session.scalars(query.options(defer(Migration.inventory))))

    def newest_time(self) -> float:
        """The newest time in any row that a service wrote, of any migration; 0.0 without any."""
        columns = (
            *(Migration.created_at, Migration.since, Operation.at, Operation.ended_at, PhaseEvent.recorded_at),
            *(ObservationRow.at, AuditRun.asked_at, AuditRun.finished_at, Backup.seen_at, JournalRow.changed_at),
            Approval.at,
        )
        with self.reading() as session:
            return max((session.scalar(select(func.max(each))) or 0.0 for each in columns), default=0.0)

    def numbers(self) -> list[int]:
        with self.reading() as session:
            return list(session.scalars(select(Migration.id).where(Migration.removed_at.is_(None))))

    def remove(self, migration_id: int, *, who: str, at: float) -> None:
        """Its rows stay, for the history; its name is free again. Also of one that cannot be read."""
        table = Migration.__table__
        assert isinstance(table, Table)
        name = table.c.name + f" (removed {migration_id})"
        gone = update(table).where(table.c.id == migration_id, table.c.removed_at.is_(None))
        with self.writing() as session:
            session.execute(gone.values(name=name, removed_at=at, removed_by=who, idempotency_key=None))

    def phase(self, migration_id: int) -> str:
        """Read the phase, and nothing else of the row. Raises Z2K-4004."""
        with self.reading() as session:
            return _phase(session, migration_id)

    def change_inventory(
        self,
        migration_id: int,
        inventory: ClusterInventory,
        *,
        who: str,
        reason: str,
        at: float,
        expected_version: int | None = None,
    ) -> None:
        """Another inventory, and the next version; what was seen with the old one is forgotten.

        Raises Z2K-4004, Z2K-4015, and Z2K-4006 when the migration has another version.
        """
        with self.writing() as session:
            row = find_migration(session, migration_id)
            if expected_version not in (None, row.version):
                raise VERSION_MOVED.error(found=row.version, expected=expected_version)
            taken = session.scalar(select(Migration).where(Migration.name == inventory.name, Migration.id != row.id))
            if taken is not None:
                raise NAME_TAKEN.error(name=inventory.name, number=taken.id, phase=taken.phase)
            answer = _changes(msgspec.convert(row.inventory, ClusterInventory), inventory)
            session.add(_done_operation(row, OperationName.CHANGE, who, reason, answer, at))
            row.name, row.inventory, row.cluster_id = inventory.name, msgspec.to_builtins(inventory), None
            row.version += 1
            session.execute(delete(ObservationRow).where(ObservationRow.migration_id == migration_id))

    def snapshot(self, migration_id: int) -> Snapshot:
        """Raises Z2K-4004, and Z2K-4102 when its rows cannot be understood."""
        with understood(migration_id):
            return self._snapshot(migration_id)

    def before(self, migration_id: int) -> Before:
        """Raises the same."""
        with understood(migration_id), self.reading() as session:
            row = find_migration(session, migration_id)
            look, check = _rows(session, migration_id)
            return Before(
                migration_id,
                Phase(row.phase),
                msgspec.convert(row.inventory, ClusterInventory),
                None if look is None else msgspec.convert(look.document, Observation),
                None if check is None else check.document,
                _cursors(session, migration_id),
            )

    def rival(self, migration_id: int, cluster_id: str | None) -> Rival | None:
        """Which other migration has the cluster. cluster_id: as read now; None: as it was read before."""
        with self.reading() as session:
            row = find_migration(session, migration_id)
            return _rival(session, row, cluster_id or row.cluster_id)

    def _snapshot(self, migration_id: int) -> Snapshot:
        with self.reading() as session:
            row = find_migration(session, migration_id)
            Phase(row.phase)
            look, check = _rows(session, migration_id)
            documents = _documents(session, migration_id)
            plan = documents.pop(PLAN, None)
            nodes = session.scalars(_CONTROLLERS, {"migration": migration_id})
            return Snapshot(
                migration=row,
                inventory=msgspec.convert(row.inventory, ClusterInventory),
                observation=None if look is None else msgspec.convert(look.document, Observation),
                check=None if check is None else check.document,
                checked_at=None if check is None else check.at,
                rehearsal=last_finished(session, migration_id, "rehearsal"),
                copy_audit=last_finished(session, migration_id, "copy", "demand"),
                operations=_pending(session, migration_id),
                processes={node.node_id: node for node in nodes},
                cursors=_cursors(session, migration_id),
                rival=_rival(session, row, row.cluster_id),
                confirmation=last_finished(session, migration_id, CONFIRMATION),
                dual_write_audits=dual_write_audits(session, row),
                audit_passed_at=audit_passed_at(session, row),
                brokers_passed=brokers_passed(session, row),
                audit_plan=None if plan is None else msgspec.convert(plan, AuditPlan),
                road=_road(session, row),
                approval=_approval(session, row),
                backups=_backups(session, row),
                documents=documents,
                led_back=_led_back(session, row),
                joining=_joining(session, row),
            )

    def events(self, migration_id: int, *, operation_id: int | None = None) -> list[PhaseEvent]:
        """Oldest first."""
        query = select(PhaseEvent).where(PhaseEvent.migration_id == migration_id).order_by(PhaseEvent.version)
        with self.reading() as session:
            _phase(session, migration_id)
            return list(
                session.scalars(query if operation_id is None else query.where(PhaseEvent.operation_id == operation_id))
            )

    # --- operations --------------------------------------------------------------------------------------------

    def record_operation(self, migration_id: int, order: NewOperation, *, at: float) -> tuple[Operation, bool]:
        """Write an operation down; the loop looks at it. The second value is False when its key was seen before.

        Raises Z2K-4004, Z2K-4006 (version), Z2K-4007 (key), Z2K-4009 (another operation is not settled yet).
        """
        with self.writing() as session:
            row = find_migration(session, migration_id)
            known = _known(session, migration_id, order)
            if known is not None:
                return known, False
            if order.expected_version not in (None, row.version):
                raise VERSION_MOVED.error(found=row.version, expected=order.expected_version)
            _make_way(session, migration_id, order, at)
            operation = Operation(
                migration_id=migration_id,
                name=order.name,
                to_phase=order.to,
                who=order.who,
                reason=order.reason,
                at=at,
                expected_version=row.version,
                idempotency_key=order.key,
                fingerprint=order.fingerprint,
                state="recorded",
                controller_run=None,
                ended_at=None,
                answer="",
                verdict=None,
                feature=order.feature,
            )
            session.add(operation)
            return operation, True

    def known_operation(self, migration_id: int, order: NewOperation) -> Operation | None:
        """The operation that this key made before. Raises Z2K-4007 when it was another one."""
        with self.reading() as session:
            return _known(session, migration_id, order)

    def operation(self, migration_id: int, operation_id: int) -> Operation:
        with self.reading() as session:
            found = session.get(Operation, operation_id)
            if found is None or found.migration_id != migration_id:
                raise NO_SUCH_THING.error(what=f"operation {operation_id} of migration {migration_id}")
            return found

    def operations(self, migration_id: int, limit: int = 20) -> list[Operation]:
        """Newest first."""
        query = (
            select(Operation).where(Operation.migration_id == migration_id).order_by(Operation.id.desc()).limit(limit)
        )
        with self.reading() as session:
            return list(session.scalars(query))

    def replaced_by(self, undo: Operation) -> Operation | None:
        """The advance that this operation withdrew when it was recorded."""
        query = select(Operation).where(
            Operation.migration_id == undo.migration_id,
            Operation.name == Trigger.ADVANCE,
            Operation.state == "cancelled",
            Operation.ended_at == undo.at,
            Operation.id < undo.id,
        )
        with self.reading() as session:
            return session.scalar(query.order_by(Operation.id.desc()).limit(1))

    def accept_operation(self, operation_id: int, verdict: Verdict, run: str) -> bool:
        """The gate held; from now on the driver of this run may be asked. False: it was withdrawn meanwhile."""
        with self.writing() as session:
            operation = session.get_one(Operation, operation_id)
            if operation.state not in PENDING:
                return False
            operation.state, operation.verdict, operation.controller_run = "accepted", verdict.as_json(), run
            return True

    def end_operation(
        self, operation_id: int, state: str, answer: str, *, at: float, verdict: Verdict | None = None
    ) -> None:
        """state: done, refused or withdrawn."""
        with self.writing() as session:
            operation = session.get_one(Operation, operation_id)
            operation.state, operation.answer, operation.ended_at = state, answer, at
            if verdict is not None:
                operation.verdict = verdict.as_json()

    def pause(
        self, operation: Operation, *, at: float, said: str = "", stopped: Iterable[tuple[str, int]] = ()
    ) -> None:
        """Carry out PAUSE or RESUME. RESUME also lets controllers be started again that would not stay.

        said: what became of a takeover that was under way. stopped: rolls with nodes that were stopped, which the
        journal does not know (Z2K-4239); RESUME goes on with their stop.
        """
        with self.writing() as session:
            row = find_migration(session, operation.migration_id)
            row.paused = (
                f"paused by {operation.who}: {operation.reason or 'no reason given'}"
                if operation.name == OperationName.PAUSE
                else None
            )
            if operation.name == OperationName.RESUME:
                for node in session.scalars(select(ObservedNode).where(ObservedNode.migration_id == row.id)):
                    node.quick_ends = 0
                _try_failed_again(session, row.id, at)
                for each in (session.get(JournalRow, (row.id, roll, node_id)) for roll, node_id in stopped):
                    if each is not None and each.step == RollStep.PREPARED:
                        each.step, each.began_at, each.changed_at = RollStep.STOPPING, at, at
            written = session.get_one(Operation, operation.id)
            answer = "; ".join(filter(None, (row.paused or "steps forward may begin", said)))
            written.state, written.answer, written.ended_at = "succeeded", answer, at

    # --- what was seen -------------------------------------------------------------------------------------

    def set_cursor(self, migration_id: int, run: str, number: int) -> None:
        with self.writing() as session:
            move_cursor(session, migration_id, run, number)

    def record_check(self, migration_id: int, document: dict[str, Any], *, at: float) -> None:
        with self.writing() as session:
            session.merge(ObservationRow(migration_id=migration_id, kind=CHECK, at=at, document=document))

    def record_audit_plan(self, migration_id: int, plan: AuditPlan, *, at: float) -> None:
        with self.writing() as session:
            session.merge(
                ObservationRow(migration_id=migration_id, kind=PLAN, at=at, document=msgspec.to_builtins(plan))
            )

    def record_document(self, migration_id: int, kind: str, document: dict[str, Any], *, at: float) -> None:
        with self.writing() as session:
            session.merge(ObservationRow(migration_id=migration_id, kind=kind, at=at, document=document))

    def record_backup(
        self, migration_id: int, *, file: str, phase: str, sha256: str, size_bytes: int, at: float
    ) -> None:
        with self.writing() as session:
            session.add(
                Backup(
                    migration_id=migration_id,
                    file=file,
                    seen_at=at,
                    kind="gate",
                    phase=phase,
                    sha256=sha256,
                    size_bytes=size_bytes,
                )
            )

    def approve(self, operation: Operation, digest: str, document: dict[str, Any], *, at: float, said: str) -> None:
        """The operation and what was agreed to, in one transaction."""
        with self.writing() as session:
            session.add(
                Approval(
                    migration_id=operation.migration_id,
                    to_phase=operation.to_phase or "",
                    who=operation.who,
                    reason=operation.reason,
                    at=at,
                    digest=digest,
                    document=document,
                )
            )
            written = session.get_one(Operation, operation.id)
            written.state, written.answer, written.ended_at = "succeeded", said, at

    def record_process(self, migration_id: int, node_id: int, **columns: Any) -> None:
        """What is known of a controller's process: pid, process_mark, started_at, quick_ends, log."""
        with self.writing() as session:
            node = a_node(session, migration_id, "controller", node_id)
            for name, value in columns.items():
                setattr(node, name, value)


def fingerprint(document: Any) -> str:
    """The same request has the same one."""
    return hashlib.sha256(msgspec.json.encode(document, order="deterministic")).hexdigest()


def find_migration(session: Session, migration_id: int) -> Migration:
    """Raises Z2K-4004."""
    row = session.scalar(_THE_MIGRATION, {"migration": migration_id})
    if row is None or row.removed_at is not None:
        raise NO_SUCH_THING.error(what=f"migration {migration_id}")
    return row


@contextmanager
def understood(migration_id: int) -> Iterator[None]:
    """Whatever its rows turn out to be is a finding."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        words = f"{type(error).__name__} {error}".splitlines()[0]
        raise MIGRATION_UNREADABLE.error(migration=migration_id, reason=words) from error


def _try_failed_again(session: Session, migration_id: int, at: float) -> None:
    """A failed node of a rolling restart goes on from the step in which it failed, with its whole time again. One that
    ended after its start is started again, one that something else started is stopped again, and one that was sent back
    begins anew.
    """
    failed = (JournalRow.migration_id == migration_id, JournalRow.step == RollStep.FAILED)
    sent_back = (JournalRow.migration_id == migration_id, JournalRow.step == RollStep.BACK)
    for node in session.scalars(select(JournalRow).where(*sent_back)):
        node.step, node.kind, node.began_at, node.changed_at = RollStep.PENDING, "", None, at
    for node in session.scalars(select(JournalRow).where(*failed)):
        ended = node.failed_in == RollStep.STARTED and node.code == NODE_ENDED.code
        started = node.failed_in == RollStep.STOPPED and node.code == NODE_STARTED_BY_OTHERS.code
        node.step = RollStep.WRITTEN if ended else RollStep.STOPPING if started else node.failed_in
        node.failed_in, node.cause, node.code, node.changed_at = "", "", "", at
        node.began_at = at if node.began_at is not None and not started else None


def _phase_row(row: Migration) -> PhaseRow:
    return ROWS[row.engine][Phase(row.phase)]


def _road(session: Session, row: Migration) -> tuple[JournalRow, ...]:
    """The journal of rolling restarts."""
    if not _phase_row(row).has_journal:
        return ()
    return tuple(session.scalars(_JOURNAL, {"migration": row.id}))


def _led_back(session: Session, row: Migration) -> bool:
    """By the step that led here: where it was requested."""
    if row.phase != Phase.ROLLING_BACK:
        return False
    step = (PhaseEvent.from_phase.in_(_LED_BACK_FROM[row.engine]), PhaseEvent.trigger == Trigger.ROLL_BACK)
    query = select(PhaseEvent.id).where(PhaseEvent.migration_id == row.id, PhaseEvent.version == row.version, *step)
    return session.scalar(query.limit(1)) is not None


def _joining(session: Session, row: Migration) -> bool:
    if row.phase != Phase.BROKERS_JOINING:
        return False
    here = PhaseEvent.from_phase == Phase.BROKERS_JOINING, PhaseEvent.to_phase == Phase.BROKERS_JOINING
    query = select(PhaseEvent.id).where(PhaseEvent.migration_id == row.id, *here).limit(1)
    return session.scalar(query) is not None


def _approval(session: Session, row: Migration) -> Approval | None:
    if not _phase_row(row).may_be_approved:
        return None
    return session.scalar(_LAST_APPROVAL, {"migration": row.id})


def _backups(session: Session, row: Migration) -> tuple[Backup, ...]:
    if not _phase_row(row).operated:
        return ()
    return tuple(session.scalars(_BACKUPS, {"migration": row.id}))


def _documents(session: Session, migration_id: int) -> dict[str, dict[str, Any]]:
    """By kind; the observation and the check are read apart."""
    return {row.kind: row.document for row in session.scalars(_OTHER_DOCUMENTS, {"migration": migration_id})}


def _rows(session: Session, migration_id: int) -> tuple[ObservationRow | None, ObservationRow | None]:
    """The last look and the last check."""
    found = session.scalars(_LAST_OBSERVATION_AND_CHECK, {"migration": migration_id})
    by_kind = {row.kind: row for row in found}
    return by_kind.get(OBSERVATION), by_kind.get(CHECK)


def _cursors(session: Session, migration_id: int) -> dict[str, int]:
    """By run."""
    return {row.run: row.number for row in session.execute(_CURSORS, {"migration": migration_id})}


def _phase(session: Session, migration_id: int) -> str:
    """Without the rest of the row, which may be damaged. Raises Z2K-4004."""
    found = session.scalar(_PHASE, {"migration": migration_id})
    if found is None:
        raise NO_SUCH_THING.error(what=f"migration {migration_id}")
    return found


def move_cursor(session: Session, migration_id: int, run: str, number: int) -> None:
    session.merge(DriverCursor(migration_id=migration_id, run=run, number=number))


def a_cursor(session: Session, migration_id: int, run: str) -> None:
    """This run belongs to this migration, whether its driver ever moves or not."""
    with session.no_autoflush:
        known = session.scalar(_THE_CURSOR, {"migration": migration_id, "run": run})
    if known is None:
        move_cursor(session, migration_id, run, 0)


def a_node(session: Session, migration_id: int, kind: str, node_id: int) -> ObservedNode:
    """The row of a broker or controller, made when there is none; once for each node in a session.

    kind: "broker" or "controller".
    """
    with session.no_autoflush:  # the nodes of one round are written together
        node = session.scalar(_THE_NODE, {"migration": migration_id, "kind": kind, "node": node_id})
    if node is None:
        node = ObservedNode(migration_id=migration_id, kind=kind, node_id=node_id, document={}, quick_ends=0)
        session.add(node)
    return node


def note_cluster(session: Session, migration_id: int, cluster_id: str | None) -> None:
    """What a look read; a look that could not read it changes nothing."""
    if cluster_id is None:
        return
    table = Migration.__table__
    assert isinstance(table, Table)
    moved = table.c.cluster_id.is_distinct_from(cluster_id)
    session.execute(update(table).where(table.c.id == migration_id, moved).values(cluster_id=cluster_id))


def _rival(session: Session, row: Migration, cluster_id: str | None) -> Rival | None:
    if cluster_id is None:
        return None
    query = select(Migration.id, Migration.name, Migration.phase).where(
        Migration.cluster_id == cluster_id, Migration.id != row.id, Migration.removed_at.is_(None)
    )
    return rival_of(row.id, row.phase, [Rival(*each, cluster_id) for each in session.execute(query)])


def _changes(before: ClusterInventory, after: ClusterInventory) -> str:
    old, new = msgspec.to_builtins(before), msgspec.to_builtins(after)
    return "; ".join(f"{key}: {old[key]} is now {new[key]}" for key in new if old[key] != new[key]) or "nothing changed"


def _done_operation(row: Migration, name: str, who: str, reason: str, answer: str, at: float) -> Operation:
    """Something a person did that needed no loop, for the history."""
    return Operation(
        migration_id=row.id,
        name=name,
        to_phase=None,
        who=who,
        reason=reason,
        at=at,
        expected_version=row.version,
        idempotency_key=None,
        fingerprint=fingerprint([name, answer, at]),
        state="succeeded",
        controller_run=None,
        ended_at=at,
        answer=answer,
        verdict=None,
    )


def _known(session: Session, migration_id: int, order: NewOperation) -> Operation | None:
    if order.key is None:
        return None
    query = select(Operation).where(Operation.migration_id == migration_id, Operation.idempotency_key == order.key)
    found = session.scalar(query)
    if found is not None and found.fingerprint != order.fingerprint:
        raise KEY_USED_AGAIN.error(key=order.key)
    return found


def _pending(session: Session, migration_id: int) -> tuple[Operation, ...]:
    return tuple(session.scalars(_PENDING_OPERATIONS, {"migration": migration_id}))


def _make_way(session: Session, migration_id: int, order: NewOperation, at: float) -> None:
    """One operation that changes the phase at a time; an undo withdraws one that waits."""
    mine = OPERATIONS[order.name]
    if mine.trigger is None:
        return
    for operation in _pending(session, migration_id):
        pending = OPERATIONS.get(operation.name)
        if pending is None or pending.trigger is None:
            continue
        again = order.name == Trigger.ROLL_BACK == operation.name and operation.state == "accepted"
        if again or (operation.name == Trigger.ADVANCE and mine.undoes):
            operation.state, operation.ended_at = "cancelled", at
            operation.answer = f"{order.who} requested {mine.word} {'again' if again else 'instead'}"
        else:
            link = OPERATION(number=migration_id, operation=operation.id)
            raise OPERATION_PENDING.error(operation=pending.word, who=operation.who, link=link)
