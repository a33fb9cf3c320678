"""Which audits and rehearsals are kept: their rows, and their directories.

In:   the rows of one migration, its transitions, the directories below its home.
Out:  what may go; then it is gone, directory first, so that no row names a directory that is half there.
Elsewhere: when (inspections.py: after each audit).
Rules: never what a transition rests on, what diverged on a schedule, what is not finished, or the last ones of each
purpose. Of scheduled audits that passed, the first one of each day stays.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import delete, select

from state_machine.audits.audit_rows import brokers_of, result_of
from state_machine.policy.audit_observations import DIVERGED, PASSED
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase
from state_machine.rows.audit_queries import CONFIRMATION, SCHEDULE
from state_machine.rows.store import Store
from state_machine.rows.tables import AuditDifference, AuditRun, PhaseEvent

log = structlog.get_logger()

KEPT: Final = {"rehearsal": 3, CONFIRMATION: 3}
"""Of each purpose the last so many; each directory of a rehearsal is as large as the metadata."""
KEPT_ELSE: Final = 20
UNFINISHED: Final = ("asked", "running")


@dataclass(frozen=True, slots=True)
class KeptAudit:
    """A run with its directory, and how many bytes that has."""

    run: AuditRun
    home: Path
    bytes: int


def prune(store: Store, migration_id: int, home: Path, *, bytes_max: int) -> list[int]:
    """Remove what need not stay; answers the numbers of the runs that are gone.

    home: the migration's directory, with `rehearsals/NUMBER` and `audits/NUMBER` below it.
    Raises OSError when a directory cannot be removed; its row stays then.
    """
    with store.reading() as session:
        of_it = AuditRun.migration_id == migration_id
        runs = list(session.scalars(select(AuditRun).where(of_it).order_by(AuditRun.id)))
        events = list(session.scalars(select(PhaseEvent).where(PhaseEvent.migration_id == migration_id)))
    kept = [KeptAudit(run, _home_of(home, run), _bytes(_home_of(home, run))) for run in runs]
    gone = removable(kept, needed(runs, events), bytes_max=bytes_max)
    for each in gone:
        if each.home.exists():
            shutil.rmtree(each.home)
        with store.writing() as session:
            session.execute(delete(AuditDifference).where(AuditDifference.audit_id == each.run.id))
            session.execute(delete(AuditRun).where(AuditRun.id == each.run.id))
    if gone:
        log.info("audits.pruned", migration=migration_id, runs=len(gone), bytes=sum(each.bytes for each in gone))
    return [each.run.id for each in gone]


def needed(runs: Sequence[AuditRun], events: Iterable[PhaseEvent]) -> set[int]:
    """Numbers of the runs that a transition rests on: the last one that had ended when it was written down."""
    found = set()
    for event in events:
        for purpose in PHASES[Phase(event.to_phase)].rests_on:
            before = [run for run in runs if run.purpose == purpose and (run.finished_at or event.at + 1) <= event.at]
            if before:
                found.add(max(before, key=lambda run: (run.finished_at or 0.0, run.id)).id)
    return found


def removable(kept: Sequence[KeptAudit], needed_: set[int], *, bytes_max: int) -> list[KeptAudit]:
    """Oldest first. kept: by number."""
    last = {each.run.id for purpose in {each.run.purpose for each in kept} for each in _last_of(kept, purpose)}
    days: set[str] = set()
    gone, maybe = [], []
    for each in kept:
        run = each.run
        if run.state in UNFINISHED or run.id in needed_ or _is_evidence(run):
            continue
        if run.purpose == SCHEDULE and result_of(run) == PASSED and (day := _day(run)) not in days:
            days.add(day)
            maybe.append(each)
        elif run.id in last:
            maybe.append(each)
        else:
            gone.append(each)
    total = sum(each.bytes for each in kept) - sum(each.bytes for each in gone)
    counts = _count_now([each.run for each in kept])
    for each in maybe:
        if total <= bytes_max:
            break
        if each.run.id not in counts:
            gone.append(each)
            total -= each.bytes
    return gone


def _count_now(runs: Sequence[AuditRun]) -> set[int]:
    """Of each purpose the last finished one and the last ones that passed, by both results: gates look at them now."""
    found: dict[tuple[str, str], int] = {}
    for run in runs:
        if run.finished_at is not None:
            found[run.purpose, "finished"] = run.id
            if result_of(run) == PASSED:
                found[run.purpose, "passed"] = run.id
            if run.brokers_passed:
                found[run.purpose, "brokers"] = run.id
    return set(found.values())


def _is_evidence(run: AuditRun) -> bool:
    """A rehearsal that diverged is made again until one passes, every 20 s: the last ones tell the same."""
    brokers = brokers_of(run)
    diverged = result_of(run) == DIVERGED or (brokers is not None and brokers.outcome == DIVERGED)
    return run.purpose != "rehearsal" and diverged


def _last_of(kept: Sequence[KeptAudit], purpose: str) -> list[KeptAudit]:
    return [each for each in kept if each.run.purpose == purpose][-KEPT.get(purpose, KEPT_ELSE) :]


def _day(run: AuditRun) -> str:
    return datetime.fromtimestamp(run.finished_at or run.asked_at, UTC).strftime("%Y-%m-%d")


def _home_of(home: Path, run: AuditRun) -> Path:
    return home / ("rehearsals" if run.purpose == "rehearsal" else "audits") / str(run.id)


def _bytes(directory: Path) -> int:
    """Of all its files; what vanishes meanwhile counts nothing."""
    total = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total
