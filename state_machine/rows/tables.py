"""The rows that the service keeps: operations, what happened, what was observed.

In:   nothing. Out: one class per table; times are wall times in seconds, documents are JSON.
Elsewhere: reading and writing them (store.py, transition.py), the steps that make them (`versions/`).
Rules: one row per transition is made certain here, by two uniques on `phase_event`: a migration has one event per
version, and one event per step of a driver's history. `phase` and `version` change only together with such a row.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sqlalchemy import JSON, BigInteger, Boolean, Float, ForeignKey, Integer, MetaData, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from state_machine.facts.approvals import ApprovalFact
from state_machine.facts.engines import ControllerEngine

LARGE: Final = BigInteger().with_variant(Integer, "sqlite")
"""Of 64 bits. SQLite's integers all are."""


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dict[str, Any]: JSON,
        list[Any]: JSON,
        float: Float,
        int: Integer,
        bool: Boolean,
        str: String,
    }


class Migration(Base):
    """One cluster on its way. waiting: why nothing happens now, in words; paused: who paused steps forward, and why.

    outcome: the kind of `waiting` (policy/outcome.py); empty before the first round.

    cluster_id: `/cluster/id` as a look read it.
    removed_at: a migration that was removed keeps its rows; its number is never given again.
    """

    __tablename__ = "migration"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    inventory: Mapped[dict[str, Any]]
    created_at: Mapped[float]
    created_by: Mapped[str]
    phase: Mapped[str]
    since: Mapped[float]
    version: Mapped[int] = mapped_column()
    paused: Mapped[str | None] = mapped_column(Text)
    waiting: Mapped[str] = mapped_column(Text)
    outcome: Mapped[str] = mapped_column(default="", server_default="")
    idempotency_key: Mapped[str | None] = mapped_column(unique=True)
    fingerprint: Mapped[str | None]
    cluster_id: Mapped[str | None] = mapped_column(default=None)
    removed_at: Mapped[float | None] = mapped_column(default=None)
    removed_by: Mapped[str | None] = mapped_column(default=None)

    @property
    def engine(self) -> ControllerEngine:
        """Whose controllers take over; rows of earlier releases do not say it, and mean ours."""
        return ControllerEngine(self.inventory.get("engine", ControllerEngine.OURS))

    # The generator is off: a version is given by transition.py, so that a new reason to wait is no new version.
    # Every update still names the version that was read, and is refused when it moved.
    __mapper_args__ = {"version_id_col": version, "version_id_generator": False}  # noqa: RUF012


class Operation(Base):
    """What an operator asked for. state: recorded, accepted (by the driver), succeeded, refused, expired, cancelled.

    controller_run: the run of the controller that accepted it; it is never handed to a later run.
    feature: the raise that it is about, such as `group.version=1`; None: of metadata.version, or it raises nothing.
    """

    __tablename__ = "operation"
    __table_args__ = (UniqueConstraint("migration_id", "idempotency_key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), index=True)
    name: Mapped[str]
    to_phase: Mapped[str | None]
    who: Mapped[str]
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[float]
    expected_version: Mapped[int]
    idempotency_key: Mapped[str | None]
    fingerprint: Mapped[str]
    state: Mapped[str]
    controller_run: Mapped[str | None]
    ended_at: Mapped[float | None]
    answer: Mapped[str] = mapped_column(Text)
    verdict: Mapped[dict[str, Any] | None]
    feature: Mapped[str | None] = mapped_column(default=None)


class PhaseEvent(Base):
    """One transition. at: when it happened (the driver's own time); recorded_at: when it was written down here.

    source_run, source_number: the entry of a driver's history, or "service" and the version before.
    """

    __tablename__ = "phase_event"
    __table_args__ = (
        UniqueConstraint("migration_id", "version"),
        UniqueConstraint("migration_id", "source_run", "source_number", "to_phase"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), index=True)
    version: Mapped[int]
    from_phase: Mapped[str]
    to_phase: Mapped[str]
    trigger: Mapped[str]
    who: Mapped[str]
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[float]
    recorded_at: Mapped[float]
    source_run: Mapped[str]
    source_number: Mapped[int]
    operation_id: Mapped[int | None] = mapped_column(ForeignKey("operation.id"))
    verdict: Mapped[dict[str, Any]]


class DriverCursor(Base):
    """How far a driver's history was turned into events, per run. Every run that this migration saw has a row."""

    __tablename__ = "driver_cursor"

    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), primary_key=True)
    run: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int]


class ObservationRow(Base):
    """The latest document of one kind about a migration: "observation" or "check"."""

    __tablename__ = "observation"

    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[float]
    document: Mapped[dict[str, Any]]


class ObservedNode(Base):
    """A broker or controller with its last observation; for a controller also the process that was started for it.

    process_mark: the start time of process `pid` as the kernel tells it, so that a number used again is noticed.
    quick_ends:   how often in a row it ended soon after its start.
    """

    __tablename__ = "node"

    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seen_at: Mapped[float | None]
    document: Mapped[dict[str, Any]]
    pid: Mapped[int | None]
    process_mark: Mapped[str | None]
    started_at: Mapped[float | None]
    quick_ends: Mapped[int]
    log: Mapped[str | None] = mapped_column(Text)


class AuditRun(Base):
    """One audit. purpose: rehearsal, copy or demand. state: asked, running, done, failed (no result), or stopped
    (cut off: it says nothing, so `finished_at` stays empty and the audit before it still counts).
    same: ZooKeeper and the log. brokers: what the third side said, without its differences; None: it was not asked.
    brokers_passed: every broker was asked, and said what the log says.
    """

    __tablename__ = "audit_run"
    __table_args__ = (UniqueConstraint("migration_id", "idempotency_key"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), index=True)
    purpose: Mapped[str]
    engine: Mapped[str]
    state: Mapped[str]
    who: Mapped[str]
    asked_at: Mapped[float]
    finished_at: Mapped[float | None]
    kraft: Mapped[str | None] = mapped_column(Text)
    directory: Mapped[str | None] = mapped_column(Text)
    same: Mapped[bool | None]
    families: Mapped[list[Any]]
    seconds: Mapped[dict[str, Any]]
    position: Mapped[dict[str, Any]]
    rehearsal: Mapped[dict[str, Any] | None]
    problem: Mapped[str] = mapped_column(Text)
    idempotency_key: Mapped[str | None]
    fingerprint: Mapped[str | None]
    brokers: Mapped[dict[str, Any] | None] = mapped_column(default=None)
    brokers_passed: Mapped[bool | None] = mapped_column(default=None)


class AuditDifference(Base):
    """One field of one key that differs; `rule` names why an expected one is meant.

    broker: whose word it is that differs from the log; None: ZooKeeper's. on_broker, alone: of such a one.
    """

    __tablename__ = "audit_difference"

    audit_id: Mapped[int] = mapped_column(ForeignKey("audit_run.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    family: Mapped[str]
    key: Mapped[str] = mapped_column(Text)
    field: Mapped[str] = mapped_column(Text)
    kind: Mapped[str]
    zookeeper: Mapped[Any] = mapped_column(JSON)
    log: Mapped[Any] = mapped_column(JSON)
    rule: Mapped[str] = mapped_column(Text)
    broker: Mapped[int | None] = mapped_column(default=None)
    on_broker: Mapped[Any] = mapped_column(JSON, nullable=True, default=None)
    alone: Mapped[str] = mapped_column(default="")


class FindingRow(Base):
    """A finding, open as long as it is still seen. source: check, driver or service."""

    __tablename__ = "finding"
    # PostgreSQL indexes no words as long as these may be; there, one writer at a time is what keeps them apart.
    __table_args__ = (UniqueConstraint("migration_id", "source", "code", "says").ddl_if(dialect="sqlite"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), index=True)
    source: Mapped[str]
    code: Mapped[str]
    severity: Mapped[str]
    says: Mapped[str] = mapped_column(Text)
    means: Mapped[str] = mapped_column(Text)
    remedy: Mapped[str] = mapped_column(Text)
    first_seen: Mapped[float]
    last_seen: Mapped[float]
    open: Mapped[bool]


class Backup(Base):
    """Something that was kept before a gate. kind: `export` (of ZooKeeper, by a controller), or `gate` (a directory).

    phase: the step it was taken for. sha256: of the file, or of the list of checksums in the directory.
    """

    __tablename__ = "backup"
    __table_args__ = (UniqueConstraint("migration_id", "file"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), index=True)
    file: Mapped[str] = mapped_column(Text)
    seen_at: Mapped[float]
    kind: Mapped[str] = mapped_column(default="export")
    phase: Mapped[str | None] = mapped_column(default=None)
    sha256: Mapped[str | None] = mapped_column(default=None)
    size_bytes: Mapped[int | None] = mapped_column(LARGE, default=None)


class JournalRow(Base):
    """The journal of a rolling restart: how far one node is. A step is here before its act begins.

    incarnation: of its registration before it was stopped. checksum: of the file that is rendered for it;
    rendered_from: of the file that this was made of. began_at: when its stop was ordered.
    log_end: the end of the metadata log when it was started.
    """

    __tablename__ = "road_node"

    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), primary_key=True)
    roll: Mapped[str] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    role: Mapped[str]
    rack: Mapped[str]
    step: Mapped[str]
    failed_in: Mapped[str] = mapped_column(default="")
    path: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(default="")
    rendered_from: Mapped[str] = mapped_column(default="")
    checksum: Mapped[str] = mapped_column(default="")
    incarnation: Mapped[str] = mapped_column(default="")
    instruction: Mapped[str] = mapped_column(Text, default="")
    cause: Mapped[str] = mapped_column(Text, default="")
    code: Mapped[str] = mapped_column(default="")
    detail: Mapped[str] = mapped_column(Text, default="")
    log_end: Mapped[int] = mapped_column(LARGE, default=0)
    began_at: Mapped[float | None] = mapped_column(default=None)
    changed_at: Mapped[float]


class Approval(Base):
    """Somebody agreed to a step. digest: of the plan and the evidence as they were then."""

    __tablename__ = "approval"

    id: Mapped[int] = mapped_column(primary_key=True)
    migration_id: Mapped[int] = mapped_column(ForeignKey("migration.id"), index=True)
    to_phase: Mapped[str]
    who: Mapped[str]
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[float]
    digest: Mapped[str]
    document: Mapped[dict[str, Any]]

    @property
    def fact(self) -> ApprovalFact:
        return ApprovalFact(
            to=self.to_phase,
            who=self.who,
            reason=self.reason,
            at=self.at,
            digest=self.digest,
            raises=str(self.document.get("raises", "")),
        )
