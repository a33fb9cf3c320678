"""What the change report is made from, read from the rows and from the inventory file on this machine.

In:   the store, the service's settings, a migration's number, the time. Out: `ChangeFacts`.
Elsewhere: making the report of it (report.py).
Rules: no host, cluster or process is asked. It blocks on the database and on one file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from migrator.findings.finding import FindingError
from migrator.findings.road import NO_FLEET
from migrator.fleet.inventory import Inventory, parse_inventory
from state_machine.audits.audit_rows import audits
from state_machine.evidence.of_gates import evidence
from state_machine.nodes.fleet import trouble_of
from state_machine.nodes.restart_evidence import RestartDocument, restart_documents
from state_machine.policy.gates import Evidence
from state_machine.rows.observations import findings
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import Approval, AuditRun, Backup, FindingRow, JournalRow, Operation, PhaseEvent
from state_machine.settings import ServiceSettings

_Row = TypeVar("_Row", JournalRow, Approval, Backup)

AUDITS_MAX: Final = 1_000
OPERATIONS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class ChangeLimits:
    """Times as the service is configured, and whether its backups are encrypted."""

    settle_s: float = 60.0
    soak_s: float = 86_400.0
    brokers_gone_s: float = 60.0
    single_operator: bool = False
    backups_encrypted: bool = False
    zookeeper_kept_days: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFacts:
    """journal: rows of every rolling restart, in any phase. kept: evidence of restarts, by roll and node id.

    inventory: the file that names hosts; None with `no_inventory`, which says why there is none.
    observed: what gates look at now. Lists are oldest first.
    """

    at: float
    snapshot: Snapshot
    observed: Evidence
    events: tuple[PhaseEvent, ...] = ()
    operations: tuple[Operation, ...] = ()
    journal: tuple[JournalRow, ...] = ()
    kept: Mapping[tuple[str, int], RestartDocument] = field(default_factory=dict)
    approvals: tuple[Approval, ...] = ()
    audits: tuple[AuditRun, ...] = ()
    backups: tuple[Backup, ...] = ()
    findings: tuple[FindingRow, ...] = ()
    inventory: Inventory | None = None
    inventory_digest: str = ""
    no_inventory: str = ""
    limits: ChangeLimits = ChangeLimits()


def read_facts(store: Store, settings: ServiceSettings, migration_id: int, now: float) -> ChangeFacts:
    """Raises Z2K-4004, and Z2K-4102 when the rows cannot be understood."""
    snapshot = store.snapshot(migration_id)
    inventory, digest, why = _inventory(settings, snapshot.migration.name)
    with store.reading() as session:
        journal = _all(session, JournalRow, migration_id)
        approvals = _all(session, Approval, migration_id)
        backups = _all(session, Backup, migration_id)
        kept = restart_documents(session, migration_id)
    return ChangeFacts(
        at=now,
        snapshot=snapshot,
        observed=evidence(snapshot, now),
        events=tuple(store.events(migration_id)),
        operations=tuple(reversed(store.operations(migration_id, OPERATIONS_MAX))),
        journal=journal,
        kept=kept,
        approvals=approvals,
        audits=tuple(reversed(audits(store, migration_id, limit=AUDITS_MAX))),
        backups=backups,
        findings=tuple(findings(store, migration_id, only_open=True)),
        inventory=inventory,
        inventory_digest=digest,
        no_inventory=why,
        limits=ChangeLimits(
            settle_s=settings.settle_s,
            soak_s=settings.soak_s,
            brokers_gone_s=settings.brokers_gone_s,
            single_operator=settings.single_operator,
            backups_encrypted=bool(settings.backup_key),
            zookeeper_kept_days=settings.zookeeper_kept_days,
        ),
    )


def _inventory(settings: ServiceSettings, name: str) -> tuple[Inventory | None, str, str]:
    """The inventory, its SHA-256, and why there is none."""
    if settings.fleets is None:
        missing = NO_FLEET.found(name=name, reason="`fleets` is not set in the service's configuration")
        return None, "", f"{missing.code} {missing.text}"
    file = settings.fleets / f"{name}.yaml"
    try:
        content = file.read_bytes()
        return parse_inventory(content, str(file)), hashlib.sha256(content).hexdigest(), ""
    except OSError as error:
        missing = NO_FLEET.found(name=name, reason=f"{file}: {error.strerror}")
        return None, "", f"{missing.code} {missing.text}"
    except FindingError as error:
        return None, "", trouble_of(error)


def _all(session: Session, table: type[_Row], migration_id: int) -> tuple[_Row, ...]:
    return tuple(session.scalars(select(table).where(table.migration_id == migration_id)))
