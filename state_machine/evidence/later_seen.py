"""Which nodes run a Kafka without ZooKeeper, put together from an observation of the cluster.

In:   an `Observation`, the phase. Out: `LaterObserved`.
Elsewhere: what follows from it (policy/later.py), reading the log and asking voters (clusters/log_observer.py).
Rule: once the end of the migration is in the log, every release may come.
"""

from __future__ import annotations

from migrator.findings.driver import UNFIT_NODE
from migrator.model.values import MigrationState
from state_machine.clusters.observe import Observation
from state_machine.policy.later import NO_LATER, LaterObserved
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase


def later_seen(look: Observation | None, phase: Phase) -> LaterObserved:
    if look is None or not PHASES[phase].watches_software:
        return NO_LATER
    log = look.log
    if log.known and log.migration == MigrationState.POST_MIGRATION.name:
        return NO_LATER
    led = look.later_led
    return LaterObserved(
        nodes=log.later if log.known else (),
        leader=log.later_leader if log.known else None,
        forgotten=PHASES[phase].reads_log and log.known and log.migration == MigrationState.NONE.name,
        told=_told(look),
        led_since=None if led is None else led.since,
    )


def _told(look: Observation) -> tuple[str, ...]:
    said = (each["says"] for one in look.controllers for each in one.findings if each["code"] == UNFIT_NODE.code)
    return tuple(dict.fromkeys(map(str, said)))
