"""What the driver does next: its states, what can happen in them, and where that leads.

In:   a state and what happened. Out: the next state, or None when nothing changes.
Elsewhere: the names of the states (control_api.states), what is done in a state (node.driver.driver_node runs one act
per state and reports how it ended), the gate before TAKING_OVER (gate.py), the operator's phases (state_machine).
Source: KIP-866; design of the driver in `docs/architecture.md`.

What can happen. An act of a state ends well, ends badly, or is interrupted. A ZooKeeper session expires. A broker dies.
An operator asks for an abort or a rollback. Another process changes the claim. This node loses the leadership. Each of
these is one `Happened`, and each pair of state and `Happened` has at most one edge in `TRANSITIONS`. A report that
arrives after its state was left has no edge there and changes nothing.

Why it is safe. One moment divides the table: the append of the copy, inside COMMITTING.

* Before the append, every trouble leads to ABORTING. Nothing of the copy is in the log, and no broker has heard of this
  quorum. Deleting the claim is the whole undo, and the ZooKeeper session does the same when this process dies, because
  the claim is ephemeral until then. A takeover that began and did not end is remembered by a mark in the log. Whichever
  voter leads next finds the mark, finishes the abort, and waits in ABORTED until an operator asks again.
* From the append on, the log is the truth. A transaction that lacks its end counts as never appended. A leader that
  dies in the middle leaves the log before the migration. Once it is committed, only a rollback ends it.
* Between the commit and the first broker update there is a third way. The driver can still leave without any broker
  noticing. ROLLING_BACK_EARLY is that way; it retires the log, and it is closed as soon as one broker is updated.
* FENCED is reached when another process changed the claim while brokers in ZooKeeper mode are registered. No edge leads
  from FENCED to a state that writes. Where every broker runs in KRaft mode nobody follows ZooKeeper: the driver goes to
  RESUMING, in which brokers and administrators are served, and claims again or waits there (claim_table.py).
* RETIRED has no way out. A quorum that rolled back never leads this cluster again, because brokers and ZooKeeper have
  moved on without its log.

A state is not a phase: after a fail-over the next leader's driver goes IDLE, RESUMING, SYNCING, DUAL_WRITE while the
operator's phase stays DUAL_WRITE.

Where it differs from Kafka. Stock's `KRaftMigrationDriver` copies straight into the log and has no state for a copy
that was proven and not committed, so it cannot abort. It has no way back while brokers run. It goes from ZooKeeper to
dual-write without a gate, and waits for the brokers in one state for both the first takeover and a fail-over. Here a
fail-over enters DUAL_WRITE as soon as the update has left for every broker that answers; the first
takeover waits for all of them. Stock leaves the claim persistent from its first moment, so that a
controller that dies during the copy leaves the cluster without any controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from migrator.control_api.states import State
from migrator.model.image import Image
from migrator.model.values import MigrationState

LOG_IS_TRUTH = frozenset({State.RESUMING, State.SYNCING, State.UPDATING_BROKERS, State.DUAL_WRITE})
"""The copy is committed, and this node goes on with it."""


class Happened(Enum):
    """What an act, the quorum or a person reported."""

    LED_BEFORE_MIGRATION = "this node leads; the log is before the migration"
    LED_AFTER_ABORT = "this node leads; an earlier takeover did not end well"
    LED_IN_MIGRATION = "this node leads; the log is in migration"
    LED_AFTER_MIGRATION = "this node leads; the migration is over"
    LEADERSHIP_LOST = "this node does not lead any more"
    QUORUM_READY = "every voter is ready"
    GATE_OPENED = "every condition of the takeover gate is True"
    CLAIM_LEFT = "an earlier leader of this quorum left its claim without a record of it"
    CLAIMED = "the controllership is claimed"
    CLAIM_REFUSED = "the claim was refused"
    CLAIM_RESUMED = "the controllership is claimed again"
    COPIED = "the tree is copied"
    AUDIT_PASSED = "the audit passed: ZooKeeper and the copy are equal"
    COMMITTED = "the copy is committed"
    RECONCILED = "ZooKeeper is equal to the log"
    RECONCILED_AGAIN = "ZooKeeper is equal to the log, and the brokers were updated before"
    BROKERS_UPDATED = "the full update was sent to every broker that answers"
    MIRROR_BROKEN = "a write to ZooKeeper failed or its answer was lost"
    WINDOW_FAILED = "the takeover could not be finished"
    ABORT_DONE = "ZooKeeper has the controllership again; nothing was committed"
    UNLATCHED = "an operator allowed another takeover"
    ROLLBACK_REQUESTED = "an operator requested a rollback"
    ROLLBACK_REFUSED = "a rollback is not possible now"
    MUST_ROLL_BACK = "the copy is committed, but no broker may be updated from it"
    ROLLED_BACK = "the cluster was rolled back to ZooKeeper"
    CLAIM_TOUCHED = "another controller or program changed the claim"
    CLAIM_LOST = "the claim is not as it was left, and every broker runs in KRaft mode"


_BEFORE_COMMIT: Final = (State.TAKING_OVER, State.COPYING, State.AUDITING)
_CLAIM_STANDS: Final = (
    State.COMMITTING,
    State.SYNCING,
    State.UPDATING_BROKERS,
    State.DUAL_WRITE,
    State.ROLLING_BACK,
)

TRANSITIONS: Final[dict[tuple[State, Happened], State]] = {
    (State.IDLE, Happened.LED_BEFORE_MIGRATION): State.WAIT_QUORUM,
    (State.IDLE, Happened.LED_AFTER_ABORT): State.ABORTING,
    (State.IDLE, Happened.LED_IN_MIGRATION): State.RESUMING,
    (State.IDLE, Happened.LED_AFTER_MIGRATION): State.DONE,
    (State.IDLE, Happened.ROLLED_BACK): State.RETIRED,
    (State.WAIT_QUORUM, Happened.QUORUM_READY): State.WAIT_BROKERS,
    (State.WAIT_BROKERS, Happened.GATE_OPENED): State.TAKING_OVER,
    (State.WAIT_BROKERS, Happened.CLAIM_LEFT): State.ABORTING,
    (State.TAKING_OVER, Happened.CLAIMED): State.COPYING,
    (State.TAKING_OVER, Happened.CLAIM_REFUSED): State.WAIT_BROKERS,
    (State.COPYING, Happened.COPIED): State.AUDITING,
    (State.AUDITING, Happened.AUDIT_PASSED): State.COMMITTING,
    **{(state, Happened.WINDOW_FAILED): State.ABORTING for state in _BEFORE_COMMIT},
    **{(state, Happened.CLAIM_TOUCHED): State.ABORTING for state in _BEFORE_COMMIT},
    (State.ABORTING, Happened.ABORT_DONE): State.ABORTED,
    (State.ABORTED, Happened.UNLATCHED): State.WAIT_QUORUM,
    (State.COMMITTING, Happened.COMMITTED): State.SYNCING,
    (State.COMMITTING, Happened.WINDOW_FAILED): State.ABORTING,  # reported only while nothing is appended
    (State.COMMITTING, Happened.MUST_ROLL_BACK): State.ROLLING_BACK_EARLY,
    (State.RESUMING, Happened.CLAIM_RESUMED): State.SYNCING,
    (State.RESUMING, Happened.CLAIM_TOUCHED): State.FENCED,
    (State.RESUMING, Happened.ROLLED_BACK): State.RETIRED,
    (State.SYNCING, Happened.RECONCILED): State.UPDATING_BROKERS,
    (State.SYNCING, Happened.RECONCILED_AGAIN): State.DUAL_WRITE,
    (State.UPDATING_BROKERS, Happened.BROKERS_UPDATED): State.DUAL_WRITE,
    (State.UPDATING_BROKERS, Happened.MIRROR_BROKEN): State.SYNCING,
    (State.SYNCING, Happened.MUST_ROLL_BACK): State.ROLLING_BACK_EARLY,
    (State.UPDATING_BROKERS, Happened.MUST_ROLL_BACK): State.ROLLING_BACK_EARLY,
    (State.ROLLING_BACK_EARLY, Happened.ROLLED_BACK): State.RETIRED,
    (State.DUAL_WRITE, Happened.MIRROR_BROKEN): State.SYNCING,
    (State.DUAL_WRITE, Happened.ROLLBACK_REQUESTED): State.ROLLING_BACK,
    (State.ROLLING_BACK, Happened.ROLLBACK_REFUSED): State.DUAL_WRITE,
    (State.ROLLING_BACK, Happened.ROLLED_BACK): State.RETIRED,
    **{(state, Happened.CLAIM_TOUCHED): State.FENCED for state in _CLAIM_STANDS},
    **{(state, Happened.CLAIM_LOST): State.RESUMING for state in _CLAIM_STANDS if state is not State.COMMITTING},
    (State.FENCED, Happened.ROLLED_BACK): State.RETIRED,
    **{(state, Happened.LEADERSHIP_LOST): State.IDLE for state in State if state not in (State.IDLE, State.RETIRED)},
}


@dataclass(frozen=True, slots=True)
class TimeWithoutController:
    """The time without a controller: from the takeover until every unfenced broker answered. Milliseconds."""

    opened_ms: int
    limit_ms: int

    def overdue(self, now_ms: int) -> bool:
        return now_ms - self.opened_ms >= self.limit_ms


def move(state: State, happened: Happened) -> State | None:
    """The next state; None when this means nothing here (a late report of a state that was left)."""
    return TRANSITIONS.get((state, happened))


def entry(log: MigrationState, *, latched: bool) -> Happened:
    """What it means to lead with a log in this state.

    latched: an earlier takeover of this log was begun and not committed; only a person allows the next one.
    """
    match log:
        case MigrationState.MIGRATION:
            return Happened.LED_IN_MIGRATION
        case MigrationState.PRE_MIGRATION:
            return Happened.LED_AFTER_ABORT if latched else Happened.LED_BEFORE_MIGRATION
        case MigrationState.NONE | MigrationState.POST_MIGRATION:
            return Happened.LED_AFTER_MIGRATION


def may_abort(state: State) -> bool:
    """Abort is for the window before the commit; afterwards the way back is the rollback."""
    return state in _BEFORE_COMMIT


def in_copy(state: State) -> bool:
    """The claim is ours, and all that is done is reading, which can be done again."""
    return state in (State.COPYING, State.AUDITING)


def writes_allowed(state: State) -> bool:
    """Whether requests of clients and brokers may change metadata: not in pre-migration, not while rolling back.

    (Between the commit and DUAL_WRITE they may: an ISR has to shrink when a broker dies there.)
    """
    return state in (State.COMMITTING, State.SYNCING, State.UPDATING_BROKERS, State.DUAL_WRITE, State.DONE)


def serves_brokers(state: State, *, zookeeper_answers: bool) -> bool:
    """Whether brokers are fenced and get their leaders and ISRs though the claim could not be taken again yet.

    A fail-over while ZooKeeper is away: whether the cluster was rolled back meanwhile is not known, so administrators
    wait. Brokers that still ask this quorum have no other controller: without ZooKeeper none was elected. What is
    decided reaches ZooKeeper with the comparison that follows the claim. (Stock's quorum serves everything then.)
    """
    return state is State.RESUMING and not zookeeper_answers


def all_in_kraft_mode(image: Image) -> bool:
    """Every registered broker, fenced ones too; False where none is registered."""
    return bool(image.brokers) and not any(broker.migrating for broker in image.brokers.values())


def writes_without_claim(state: State, image: Image) -> bool:
    """Whether administrators are served as well, though the claim could not be taken again yet.

    Only where every registered broker runs in KRaft mode. Then nobody follows ZooKeeper, whether it is away or holds
    something else than our claim: a broker in ZooKeeper mode registers here before it takes part, and that ends this.
    What was written meanwhile reaches ZooKeeper with the comparison that follows the claim.
    """
    return state is State.RESUMING and all_in_kraft_mode(image)


def in_window(state: State) -> bool:
    """The cluster has no controller that every broker knows of."""
    return state in (*_BEFORE_COMMIT, State.COMMITTING, State.SYNCING, State.UPDATING_BROKERS)
