"""Rows of audits: asked for, running, finished, with every difference that was reported.

In:   what a person or the loop wants audited; the report of `zk2kraft audit --json`.
Out:  `AuditRun` and `AuditDifference` rows.
Elsewhere: running them (inspections.py), comparing (migrator.audit).
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any, Final

import msgspec
from sqlalchemy import select

from migrator.audit.compare import BrokerDifference, BrokersSide, DifferenceKind
from migrator.audit.history.kept_runs import REPORT_FILE, KeptRun, kept_run
from migrator.findings.service import KEY_USED_AGAIN, NO_SUCH_THING
from state_machine.policy.audit_observations import DIVERGED, INCOMPLETE, PASSED
from state_machine.rows.store import Store, find_migration, fingerprint
from state_machine.rows.tables import AuditDifference, AuditRun

BROKER_LAGS: Final = "it lags: the log said so before what the broker has not read yet"
DUAL_WRITE_ENDED: Final = "DUAL_WRITE ended before it had a result"


def ask_audit(
    store: Store,
    migration_id: int,
    *,
    purpose: str,
    engine: str,
    who: str,
    at: float,
    state: str = "asked",
    kraft: str | None = None,
    key: str | None = None,
) -> tuple[AuditRun, bool]:
    """Write down that an audit is wanted. The second value is False when its key was seen before.

    Raises Z2K-4004, Z2K-4007.
    """
    print_ = fingerprint([purpose, engine])
    with store.writing() as session:
        find_migration(session, migration_id)
        if key is not None:
            query = select(AuditRun).where(AuditRun.migration_id == migration_id, AuditRun.idempotency_key == key)
            known = session.scalar(query)
            if known is not None and known.fingerprint != print_:
                raise KEY_USED_AGAIN.error(key=key)
            if known is not None:
                return known, False
        run = AuditRun(
            migration_id=migration_id,
            purpose=purpose,
            engine=engine,
            state=state,
            who=who,
            asked_at=at,
            kraft=kraft,
            families=[],
            seconds={},
            position={},
            problem="",
            idempotency_key=key,
            fingerprint=print_,
        )
        session.add(run)
        return run, True


def begin(store: Store, audit_id: int, *, kraft: str, directory: str) -> None:
    with store.writing() as session:
        run = session.get_one(AuditRun, audit_id)
        run.state, run.kraft, run.directory = "running", kraft, directory


def note_rehearsal(store: Store, audit_id: int, result: dict[str, Any], engine: str) -> AuditRun:
    """What was copied, and the engine that judges it."""
    with store.writing() as session:
        run = session.get_one(AuditRun, audit_id)
        run.rehearsal, run.engine = result, engine
        return run


def finish(store: Store, audit_id: int, report: dict[str, Any], *, at: float, away: Container[int] = ()) -> None:
    """report: the JSON of `zk2kraft audit`; its first differences are kept as rows, all of them are counted.

    away: brokers that the service is restarting by now; one that was silent was left out.
    """
    with store.writing() as session:
        run = session.get_one(AuditRun, audit_id)
        brokers = None if report.get("brokers") is None else _without(_read_side(report["brokers"]), away)
        run.state, run.finished_at, run.families, run.seconds = "done", at, report["families"], report["seconds"]
        run.same = report["same"] or (brokers is not None and _are_equal(run))
        run.position = {"zk": report["zk"], "kraft": report["kraft"], "left_off": report.get("left_off", {})}
        unread = (each for each in report["differences"] if each["kind"] == DifferenceKind.NOT_READ)
        run.problem = next((f"{each['key']} ({each['rule']})" for each in unread), "")
        if brokers is not None:
            run.brokers = msgspec.to_builtins(msgspec.structs.replace(brokers, differences=[]))
            run.brokers_passed = brokers.same and not brokers.not_asked
        told = [_difference(audit_id, each) for each in report["differences"]]
        told += [] if brokers is None else [_difference_of_broker(audit_id, each) for each in brokers.differences]
        told += [_difference(audit_id, each) for each in report.get("expected", [])]
        for number, row in enumerate(told):
            row.number = number
            session.add(row)


def _read_side(document: Any) -> BrokersSide:
    """What is of another form is no reason to lose what the two other sides said."""
    try:
        return msgspec.convert(document, BrokersSide)
    except msgspec.ValidationError as error:
        return BrokersSide(problem=f"what they said is of another release: {error}")


def _without(side: BrokersSide, away: Container[int]) -> BrokersSide:
    """away: brokers that the service was restarting at some moment of the audit."""
    gone = [each.broker for each in side.asked if each.problem and each.broker in away]
    if not gone:
        return side
    asked = [each for each in side.asked if each.broker not in gone]
    return msgspec.structs.replace(side, asked=asked, not_asked=sorted({*side.not_asked, *gone}))


def fail(store: Store, audit_id: int, problem: str, *, at: float) -> None:
    with store.writing() as session:
        run = session.get_one(AuditRun, audit_id)
        run.state, run.finished_at, run.problem = "failed", at, problem


def stop(store: Store, audit_id: int, problem: str) -> None:
    """It was cut off, so it says nothing: not finished, and the one before it still counts."""
    with store.writing() as session:
        run = session.get_one(AuditRun, audit_id)
        run.state, run.problem = "stopped", problem


def stop_interrupted(store: Store) -> None:
    """Mark audits that an earlier life of the service was running: they have no result."""
    with store.writing() as session:
        for run in session.scalars(select(AuditRun).where(AuditRun.state == "running")):
            run.state, run.problem = "stopped", "the service was restarted while it ran"


def result_of(run: AuditRun) -> str:
    """The result of a finished audit: passed, diverged or incomplete."""
    if run.state == "done" and count(run, "different"):
        return DIVERGED
    return PASSED if run.state == "done" and run.same is True and not count(run, "not_read") else INCOMPLETE


def _are_equal(run: AuditRun) -> bool:
    """ZooKeeper and the log, whatever brokers say: ways back rest on it, and they wait for no broker."""
    return not count(run, "different") and not count(run, "not_read")


def brokers_of(run: AuditRun) -> BrokersSide | None:
    """What the third side said, without its differences, which are rows; None where it was not asked."""
    return None if run.brokers is None else _read_side(run.brokers)


def kept_audit(run: AuditRun) -> KeptRun:
    """What the directory of a finished audit has, with brokers as its row has them: without those that were restarted.

    Raises Z2K-4004 while it has no report, and Z2K-5008.
    """
    file = None if run.directory is None or run.state != "done" else Path(run.directory) / REPORT_FILE
    if file is None or not file.is_file():
        raise NO_SUCH_THING.error(what=f"report of audit {run.id}")
    kept = kept_run(file)
    side, told = brokers_of(run), kept.report.brokers
    if side is None or told is None:
        return kept
    side = msgspec.structs.replace(side, differences=told.differences)
    report = msgspec.structs.replace(kept.report, brokers=side, same=_are_equal(run) and side.same)
    return msgspec.structs.replace(kept, report=report)


def count(run: AuditRun, key: str) -> int:
    """Over all families. key: compared, different or not_read."""
    return sum(each[key] for each in run.families)


def left_off_of(run: AuditRun) -> dict[str, int]:
    """How many differences, and expected ones, its report did not carry. Empty of a row of an earlier release."""
    return dict(run.position.get("left_off", {}))


def unfinished(store: Store, migration_id: int) -> bool:
    """Whether one was asked for, or runs."""
    query = select(AuditRun.id).where(AuditRun.migration_id == migration_id, AuditRun.state.in_(("asked", "running")))
    with store.reading() as session:
        return session.scalar(query.limit(1)) is not None


def audits(store: Store, migration_id: int, *, limit: int = 20) -> list[AuditRun]:
    """Newest first."""
    query = select(AuditRun).where(AuditRun.migration_id == migration_id).order_by(AuditRun.id.desc()).limit(limit)
    with store.reading() as session:
        find_migration(session, migration_id)
        return list(session.scalars(query))


def finished_audits(store: Store, migration_id: int, *, limit: int) -> list[AuditRun]:
    """The last ones that have counts, oldest first."""
    wanted = AuditRun.migration_id == migration_id, AuditRun.state == "done"
    with store.reading() as session:
        find_migration(session, migration_id)
        return list(session.scalars(select(AuditRun).where(*wanted).order_by(AuditRun.id.desc()).limit(limit)))[::-1]


def asked(store: Store, migration_id: int) -> list[AuditRun]:
    query = select(AuditRun).where(AuditRun.migration_id == migration_id, AuditRun.state == "asked")
    with store.reading() as session:
        return list(session.scalars(query.order_by(AuditRun.id)))


def audit(store: Store, audit_id: int) -> AuditRun:
    """Raises Z2K-4004."""
    with store.reading() as session:
        found = session.get(AuditRun, audit_id)
        if found is None:
            raise NO_SUCH_THING.error(what=f"audit {audit_id}")
        return found


def differences(store: Store, audit_id: int, *, cursor: int, limit: int) -> list[AuditDifference]:
    """The differences of an audit in the order of its report, from number `cursor` on."""
    audit(store, audit_id)
    query = select(AuditDifference).where(AuditDifference.audit_id == audit_id, AuditDifference.number >= cursor)
    with store.reading() as session:
        return list(session.scalars(query.order_by(AuditDifference.number).limit(limit)))


def _difference_of_broker(audit_id: int, found: BrokerDifference) -> AuditDifference:
    return AuditDifference(
        audit_id=audit_id,
        family=found.family,
        key=found.key,
        field=found.field_,
        kind=found.kind,
        zookeeper=None,
        log=found.log,
        rule=found.reason or (BROKER_LAGS if found.lags else ""),
        broker=found.broker,
        on_broker=found.on_broker,
        alone=found.alone,
    )


def _difference(audit_id: int, found: dict[str, Any]) -> AuditDifference:
    return AuditDifference(
        audit_id=audit_id,
        family=found["family"],
        key=found["key"],
        field=found["field"],
        kind=found["kind"],
        zookeeper=found["zookeeper"],
        log=found["log"],
        rule=found["rule"],
    )
