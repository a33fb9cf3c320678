"""Is the service alive, does it look at its clusters, and the figures for Prometheus.

In:   rows, and when the loop finished its last round.
Out:  text. The names of the figures are a contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.figures import MigrationFigures, figures_of
from api.rest.parts import ServiceParts
from api.rest.problems import described
from migrator.findings.finding import FindingError
from migrator.findings.service import NOT_OBSERVED

router = APIRouter(tags=["health"])

READY_WITHIN_S: Final = 15.0
"""A round takes seconds at worst, when ZooKeeper does not answer."""
GAUGES: Final = {
    "zk2kraft_phase": "1 for the phase that the migration is in",
    "zk2kraft_blocked": "1 while a condition of every phase is not True, or the reason begins with `blocked:`",
    "zk2kraft_roll_failed_nodes": "failed nodes of the rolling restarts of this phase; each waits for a person",
    "zk2kraft_without_controller_seconds": "time without a controller up to now; absent while it is not known",
    "zk2kraft_last_window_seconds": "the last time without a controller; absent before the first takeover",
    "zk2kraft_dual_write_lag_records": "records that ZooKeeper does not have yet; absent while it is not known",
    "zk2kraft_brokers_not_ready": "brokers that are not as the phase wants them",
    "zk2kraft_round_failed": "1 while the service cannot work for this migration; `zk2kraft migrations` says why",
    "zk2kraft_look_age_seconds": "age of the last observation",
    "zk2kraft_epoch_gap": "how far the KRaft epoch is ahead of /controller_epoch at most; every rollback repairs it",
    "zk2kraft_audit_differences": "what the last audit of dual-write found different",
    "zk2kraft_audit_passed": "1 when the last audit of dual-write passed",
    "zk2kraft_audit_passed_age_seconds": "time since an audit of dual-write passed",
    "zk2kraft_audit_next_seconds": "time until the next audit of dual-write; below 0: it is due",
    "zk2kraft_audit_diverged_twice": "1 while the last two audits of dual-write diverged (Z2K-4025)",
    "zk2kraft_audit_overdue": "1 while no audit passed for two intervals (Z2K-4026)",
    "zk2kraft_audit_brokers_diverged": "brokers that contradict the log, in the last audit that asked them",
    "zk2kraft_audit_brokers_incomplete": "brokers that gave no answer or did not tell all, in that audit",
    "zk2kraft_audit_brokers_passed_age_seconds": "time since every broker was asked and said what the log says",
}


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
        raise NOT_OBSERVED.error(seconds="many" if age is None else round(age))
    return f"ready: the last round ended {age:.1f} s ago"


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(parts: ServiceParts) -> str:
    """Figures of every migration, one after the other, so that looks have their turns in between."""
    store = parts.store
    figures = []
    rows = await store.away(store.migrations)
    for row in rows:
        with suppress(FindingError):  # one that cannot be read has trouble, and no figures
            figures.append(await store.away(figures_of, store, row.id, parts.clock))
    troubles = {row.name: row.id in parts.troubles for row in rows}
    registry = CollectorRegistry()
    registry.register(_Gauges(troubles, figures))
    return generate_latest(registry).decode()


class _Gauges(Collector):
    """Gauges of all migrations, labelled with their names. troubles: whether a migration has any, by name."""

    def __init__(self, troubles: Mapping[str, bool], figures: Iterable[MigrationFigures]) -> None:
        self._troubles = troubles
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        gauges = {name: GaugeMetricFamily(name, text, labels=["migration"]) for name, text in GAUGES.items()}
        gauges["zk2kraft_phase"] = GaugeMetricFamily(
            "zk2kraft_phase", GAUGES["zk2kraft_phase"], labels=["migration", "phase"]
        )
        for name, is_in_trouble in self._troubles.items():
            gauges["zk2kraft_round_failed"].add_metric([name], float(is_in_trouble))
        for found in self._figures:
            gauges["zk2kraft_phase"].add_metric([found.name, found.phase], 1)
            for figure, value in found.values.items():
                gauges[f"zk2kraft_{figure}"].add_metric([found.name], value)
        yield from gauges.values()
