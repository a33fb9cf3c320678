"""The figures of one migration, for Prometheus.

In:   the store and the time.
Out:  `MigrationFigures`; asked for every few seconds, so nothing of a migration's history is read.
Elsewhere: their names and what they mean (rest/health.py), what people are shown (views.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from api.views import broker_views, dual_write_view, standing_of, without_controller_s
from state_machine.evidence import evidence
from state_machine.policy.audit_observations import PASSED, ScheduledAudits
from state_machine.store import Store


@dataclass(frozen=True, slots=True)
class MigrationFigures:
    """What can be measured of a migration at any time. values: by the name of its gauge."""

    name: str
    phase: str
    values: Mapping[str, float]


def figures_of(store: Store, migration_id: int, clock: Callable[[], float]) -> MigrationFigures:
    """Ages count from the moment of reading. Without its history, which grows. Raises Z2K-4004, Z2K-4102."""
    snapshot = store.snapshot(migration_id)
    now = clock()
    observed = evidence(snapshot, now)
    look = snapshot.observation
    dual_write = dual_write_view(look)
    brokers = broker_views(store, snapshot, now)
    values = {
        "blocked": float(not standing_of(snapshot, observed).holds),
        "without_controller_seconds": without_controller_s(look, now),
        "last_window_seconds": 0.0 if look is None else (look.window_ms or 0) / 1000,
        "dual_write_lag_records": 0.0 if dual_write is None else float(dual_write.lag_records or 0),
        "brokers_not_ready": float(sum(bool(broker.problem) for broker in brokers)),
        "look_age_seconds": 0.0 if look is None else now - look.at,
    }
    gap = None if look is None else look.epoch_gap
    values |= {} if gap is None else {"epoch_gap": float(gap)}
    return MigrationFigures(snapshot.migration.name, snapshot.phase, {**values, **_of_audits(observed.audits)})


def _of_audits(observed: ScheduledAudits | None) -> dict[str, float]:
    """Only what is known: no figure stands for "no audit yet"."""
    if observed is None or not observed.every_s:
        return {}
    last = (
        {}
        if observed.last is None
        else {"passed": float(observed.last.result == PASSED), "differences": observed.last.different}
    )
    known: dict[str, float | None] = {
        **last,
        "passed_age_seconds": observed.passed_s,
        "next_seconds": observed.next_s,
        "diverged_twice": float(bool(observed.diverged)),
        "overdue": float(observed.overdue_since is not None),
    }
    return {f"audit_{name}": value for name, value in known.items() if value is not None}
