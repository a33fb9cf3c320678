"""Is the service alive, does it look at its clusters, and the figures for Prometheus.

In:   rows, and when the loop finished its last round.
Out:  text. The names of the figures are a contract.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.models import MigrationView
from api.rest.parts import Parts, ServiceParts
from api.rest.problems import described
from api.views import migration_view
from migrator.errors import NOT_LOOKED_AT, FindingError

router = APIRouter(tags=["health"])

READY_WITHIN_S: Final = 15.0
"""A round takes seconds at worst, when ZooKeeper does not answer."""


@router.get("/healthz", response_class=PlainTextResponse)
def healthz() -> str:
    """The process answers."""
    return "ok"


@router.get("/readyz", response_class=PlainTextResponse, responses=described(503))
def readyz(parts: ServiceParts) -> str:
    """The loop goes round."""
    last = parts.last_round_at()
    age = None if last is None else parts.clock() - last
    if age is None or age > READY_WITHIN_S:
        raise NOT_LOOKED_AT.error(seconds="many" if age is None else round(age))
    return f"ready: the last round ended {age:.1f} s ago"


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(parts: ServiceParts) -> str:
    """Figures of every migration."""
    registry = CollectorRegistry()
    registry.register(_Migrations(parts))
    return generate_latest(registry).decode()


class _Migrations(Collector):
    """Gauges of all migrations, labelled with their names."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        names = {
            "zk2kraft_phase": "1 for the phase that the migration is in",
            "zk2kraft_blocked": "1 when something that has to hold in every phase does not",
            "zk2kraft_without_controller_seconds": "time without a controller up to now",
            "zk2kraft_last_window_seconds": "the last time without a controller",
            "zk2kraft_dual_write_lag_records": "records that ZooKeeper does not have yet",
            "zk2kraft_brokers_not_ready": "brokers with a problem",
            "zk2kraft_round_failed": "1 while the service cannot look after this migration; its list says why",
            "zk2kraft_look_age_seconds": "how old the last look is",
            "zk2kraft_audit_differences": "what the last audit of dual-write found different",
            "zk2kraft_audit_passed": "1 when the last audit of dual-write passed",
            "zk2kraft_audit_passed_age_seconds": "time since an audit of dual-write passed",
            "zk2kraft_audit_next_seconds": "time until the next audit of dual-write; below 0: it is due",
            "zk2kraft_audit_diverged_twice": "1 while the last two audits of dual-write diverged (Z2K-4025)",
            "zk2kraft_audit_overdue": "1 while no audit passed for two intervals (Z2K-4026)",
        }
        gauges = {name: GaugeMetricFamily(name, text, labels=["migration"]) for name, text in names.items()}
        gauges["zk2kraft_phase"] = GaugeMetricFamily(
            "zk2kraft_phase", names["zk2kraft_phase"], labels=["migration", "phase"]
        )
        for row in self._parts.store.migrations():
            trouble = self._parts.troubles.get(row.id)
            gauges["zk2kraft_round_failed"].add_metric([row.name], float(trouble is not None))
            with suppress(FindingError):  # one that cannot be read has trouble, and no figures
                self._add(gauges, row.id)
        yield from gauges.values()

    def _add(self, gauges: dict[str, GaugeMetricFamily], migration_id: int) -> None:
        view = migration_view(self._parts.store, migration_id, self._parts.clock())
        gauges["zk2kraft_phase"].add_metric([view.name, view.phase], 1)
        values = {
            "zk2kraft_blocked": float(not view.standing.holds),
            "zk2kraft_without_controller_seconds": view.without_controller_s,
            "zk2kraft_last_window_seconds": (view.last_window_ms or 0) / 1000,
            "zk2kraft_dual_write_lag_records": float(view.dual_write.lag_records or 0) if view.dual_write else 0.0,
            "zk2kraft_brokers_not_ready": float(sum(bool(broker.problem) for broker in view.brokers)),
            "zk2kraft_look_age_seconds": 0.0 if view.looked_at is None else view.now - view.looked_at,
        }
        for name, value in {**values, **_of_audits(view)}.items():
            gauges[name].add_metric([view.name], value)


def _of_audits(view: MigrationView) -> dict[str, float]:
    """Only what is known: no figure stands for "no audit yet"."""
    seen = view.audit_schedule
    if seen is None or not seen.every_s:
        return {}
    known: dict[str, float | None] = {
        "zk2kraft_audit_differences": seen.differences,
        "zk2kraft_audit_passed": None if seen.result is None else float(seen.result == "passed"),
        "zk2kraft_audit_passed_age_seconds": None if seen.passed_at is None else view.now - seen.passed_at,
        "zk2kraft_audit_next_seconds": None if seen.next_at is None else seen.next_at - view.now,
        "zk2kraft_audit_diverged_twice": float(seen.diverged_twice),
        "zk2kraft_audit_overdue": float(seen.overdue),
    }
    return {name: value for name, value in known.items() if value is not None}
