"""Which nodes run a Kafka without ZooKeeper, put together from an observation of the cluster.

In:   an `Observation`, the phase. Out: `LaterObserved`; occurrences of findings.
Elsewhere: what follows from it (policy/later.py), reading the log and asking voters (clusters/log_observer.py).
Rule: once the end of the migration is in the log, every release may come.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from migrator.findings.content import MIN_ISR_IN_FILES_ALONE, REFUSED_BY_LATER_KAFKA
from migrator.findings.driver import UNFIT_NODE
from migrator.findings.finding import Occurrence
from migrator.model.at_a_stop import KAFKA_MIN_ISR
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


def before_later(look: Observation, phase: Phase) -> Iterator[Occurrence]:
    """What a later Kafka would not take or would turn round, once the end is near: the next software may be that."""
    log = look.log
    if not PHASES[phase].has_stock_alone or not log.known:
        return
    for each in log.refused_later:
        yield REFUSED_BY_LATER_KAFKA.found(**msgspec.structs.asdict(each))
    if log.min_isr.rests and log.min_isr.of_all is None and log.min_isr.value > KAFKA_MIN_ISR:
        yield MIN_ISR_IN_FILES_ALONE.found(value=log.min_isr.value)


def _told(look: Observation) -> tuple[str, ...]:
    said = (each["says"] for one in look.controllers for each in one.findings if each["code"] == UNFIT_NODE.code)
    return tuple(dict.fromkeys(map(str, said)))
