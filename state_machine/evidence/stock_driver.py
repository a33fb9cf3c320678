"""What Kafka's own controllers are about, as log and ZooKeeper show it: they tell nobody.

In:   an observation. Out: the state that a driver of ours would be in, with the reason; a phase that follows from it.
Elsewhere: how log and ZooKeeper are read (clusters/observe.py), the gates (policy/stock_gates.py).
Rules: a state is what stands, never what was requested. What cannot be read is no state: then nothing follows.
Source: Kafka 3.9 `KRaftMigrationDriver`: it claims `/controller`, writes `/migration`, copies in one metadata
transaction, commits the state MIGRATION with it, and is in dual-write once `/migration` names an offset of that log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.control_api.states import State
from migrator.model.values import MigrationState
from state_machine.clusters.observe import Observation
from state_machine.policy.gates import BrokerObservation, Holder
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase

HEARTBEATS: Final = 0
"""Nobody outside sees heartbeats; stock fences a broker whose heartbeats stay away, and that stands in the log."""


@dataclass(frozen=True, slots=True)
class StockDriver:
    """state: None while log or ZooKeeper cannot be read, or nothing follows from them. reason: for people."""

    state: State | None
    reason: str


def stock_driver(look: Observation) -> StockDriver:
    """The rows of this function are the states of `KRaftMigrationDriver`, as far as they can be seen."""
    log, zookeeper = look.log, look.zookeeper
    if zookeeper.holder is Holder.UNKNOWN:
        return StockDriver(None, f"ZooKeeper cannot be read: {zookeeper.problem}")
    claimed = zookeeper.holder is Holder.OURS
    if not log.known:
        if claimed:
            said = f"stock has the claim (controller {zookeeper.holder_id}); {log.problem}"
            return StockDriver(State.COPYING if log.in_transaction else None, said)
        return StockDriver(State.WAIT_QUORUM, f"the quorum of stock is not read: {log.problem}")
    state, offset = log.migration, zookeeper.migration_offset
    if state == MigrationState.POST_MIGRATION.name:
        return StockDriver(State.DONE, "stock has finalized the migration")
    if state == MigrationState.MIGRATION.name:
        if not claimed:
            held = f"/controller: {zookeeper.holder}"
            return StockDriver(State.FENCED, f"the log is in MIGRATION, and stock does not hold the claim ({held})")
        if offset is None or offset < 0:
            return StockDriver(State.SYNCING, "stock has committed its copy, and /migration names no offset of it yet")
        return StockDriver(State.DUAL_WRITE, f"controller {log.leader} leads; /migration names offset {offset}")
    if claimed:
        return StockDriver(State.COPYING, f"stock has the claim (controller {zookeeper.holder_id}) and copies")
    if state != MigrationState.PRE_MIGRATION.name:
        return StockDriver(
            State.WAIT_QUORUM, f"the log says {state}: it was not begun with zookeeper.metadata.migration.enable"
        )
    joined = {each.id for each in log.brokers if each.mode == "ZooKeeper"}
    missing = [each for each in zookeeper.brokers if each not in joined]
    said = f"not registered with stock: brokers {missing}" if missing else "every broker of ZooKeeper is registered"
    return StockDriver(State.WAIT_BROKERS, f"controller {log.leader} leads and waits; {said}")


def phase_shown(phase: Phase, driver: StockDriver) -> Phase:
    """Where a migration in `phase` is by now; the same one where nothing follows."""
    row = PHASES[phase]
    if driver.state is None or row.audited or not row.forward:
        return phase
    match driver.state:
        case State.COPYING:
            return Phase.COPY
        case State.SYNCING:
            return Phase.AUDIT
        case State.DUAL_WRITE:
            return Phase.DUAL_WRITE
        case _:
            return phase


def brokers_of_stock(look: Observation, wanted: tuple[int, ...]) -> tuple[BrokerObservation, ...]:
    """Brokers of the inventory, of ZooKeeper and of the log, as the log has them; what it does not say is unknown."""
    log = look.log
    registered = {each.id: each for each in log.brokers}
    found = []
    for broker in sorted({*wanted, *look.zookeeper.brokers, *registered}):
        each = registered.get(broker)
        if each is None:
            found.append(BrokerObservation(broker, registered=False if log.known else None))
            continue
        found.append(BrokerObservation(broker, mode=each.mode, fenced=each.fenced, heartbeat_age_ms=HEARTBEATS))
    return tuple(found)
