"""The figures of one migration, for Prometheus.

In:   the store and the time.
Out:  `MigrationFigures`; asked for every few seconds, so nothing of a migration's history is read.
Elsewhere: their names and what they mean (rest/health.py), what people are shown (views.py).
Rules: what is not known has no figure. A zero in its place would be taken for good news.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from api.nodes import broker_views, failed_nodes, standing_of, without_controller_s
from api.views import dual_write_lag
from state_machine.evidence.of_gates import evidence
from state_machine.policy.audit_observations import DIVERGED, INCOMPLETE, PASSED, ScheduledAudits
from state_machine.policy.outcome import Blocked
from state_machine.rows.store import Store


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
    brokers = broker_views(store, snapshot, now)
    said_blocked = snapshot.migration.outcome == Blocked.kind
    values: dict[str, float | None] = {
        "blocked": float(said_blocked or not standing_of(snapshot, observed).holds),
        "roll_failed_nodes": float(len(failed_nodes(snapshot))),
        "without_controller_seconds": without_controller_s(snapshot, now),
        "last_window_seconds": None if look is None or look.window_ms is None else look.window_ms / 1000,
        "dual_write_lag_records": dual_write_lag(snapshot, observed, now),
        "brokers_not_ready": float(sum(bool(broker.problem) for broker in brokers)),
        "look_age_seconds": None if look is None else now - look.at,
        "epoch_gap": None if look is None else look.epoch_gap,
        **_of_audits(observed.audits),
    }
    known = {name: float(value) for name, value in values.items() if value is not None}
    return MigrationFigures(snapshot.migration.name, snapshot.phase, known)


def _of_brokers(observed: ScheduledAudits) -> dict[str, float]:
    """The third side. Of brokers that were being restarted nothing is known, and they count in neither figure."""
    known = {} if observed.brokers_passed is None else {"brokers_passed_age_seconds": observed.brokers_passed.age_s}
    if observed.brokers:
        said = Counter(each.result for each in observed.brokers[0].brokers)
        known |= {"brokers_diverged": float(said[DIVERGED]), "brokers_incomplete": float(said[INCOMPLETE])}
    return known


def _of_audits(observed: ScheduledAudits | None) -> dict[str, float | None]:
    """No figure stands for "no audit yet"."""
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
        **_of_brokers(observed),
    }
    return {f"audit_{name}": value for name, value in known.items()}
