"""The phases of a migration, what people may request, and the one table that says which step leads where.

In:   a phase and a signal.
Out:  the edge: where it leads, which gate guards it, what is asked of the driver; or a refusal that names both.
Elsewhere: what a phase is (phase_table.py), what the gates look at (gates.py), writing a step down (transition.py),
asking (reconcile.py).
Rules: documents, page and tests draw from this table; no phase is kept in a flag. An edge that `asks` something is
written down when the driver's history shows it, never when it was asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from migrator.control_api.operations import DriverOperation
from migrator.findings.service import NOT_POSSIBLE_HERE
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.finalize_gates import finalize_may_be_given_up
from state_machine.policy.gates import (
    Gate,
    abort_is_possible,
    always,
    brokers_have_joined,
    copy_is_proven,
    may_begin,
    nothing_is_claimed,
    preflight_is_clean,
    quorum_has_formed,
    takeover_is_asked,
    takeover_may_begin,
    zookeeper_is_controller,
)
from state_machine.policy.gates_back import (
    brokers_may_return,
    claim_is_gone,
    cluster_has_returned,
    cluster_may_return,
    controllers_may_return,
    rollback_may_be_cancelled,
    stock_is_in_place,
)
from state_machine.policy.gates_forward import (
    controllers_are_replaced,
    finalize_evidence,
    finalize_is_committed,
    may_join_brokers,
    may_raise_version,
    may_replace_controllers,
    may_roll_brokers,
)
from state_machine.policy.stock_gates import (
    all_but_the_last_have_joined,
    copy_of_stock_is_proven,
    last_broker_is_back,
    last_broker_may_restart,
    may_join_stock,
    may_soak_stock,
    stock_files_are_clean,
    stock_has_formed,
    stock_is_unclaimed,
    stock_may_return,
)


class Phase(StrEnum):
    CREATED = "CREATED"
    PREFLIGHT = "PREFLIGHT"
    QUORUM = "QUORUM"
    BROKERS_JOINING = "BROKERS_JOINING"
    READY = "READY"
    TAKEOVER = "TAKEOVER"
    COPY = "COPY"
    AUDIT = "AUDIT"
    DUAL_WRITE = "DUAL_WRITE"
    ROLLING_BROKERS = "ROLLING_BROKERS"
    REPLACING_CONTROLLERS = "REPLACING_CONTROLLERS"
    SOAK = "SOAK"
    FINALIZING = "FINALIZING"
    COMPLETED = "COMPLETED"
    ABORTING = "ABORTING"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"


class Trigger(StrEnum):
    """What can move a migration: orders of people, what the service saw, what the driver's history says."""

    ADVANCE = "ADVANCE"
    ABORT = "ABORT"
    ROLL_BACK = "ROLL_BACK"
    RAISE_VERSION = "RAISE_VERSION"

    ADOPTED = "ADOPTED"
    QUORUM_FORMED = "QUORUM_FORMED"
    BROKERS_JOINED = "BROKERS_JOINED"
    FOUND_ROLLED_BACK = "FOUND_ROLLED_BACK"

    TAKEOVER_BEGAN = "TAKEOVER_BEGAN"
    CLAIM_REFUSED = "CLAIM_REFUSED"
    EPOCH_CLAIMED = "EPOCH_CLAIMED"
    COPIED = "COPIED"
    BROKERS_UPDATED = "BROKERS_UPDATED"
    WINDOW_FAILED = "WINDOW_FAILED"
    ABORT_DONE = "ABORT_DONE"
    ROLLBACK_BEGAN = "ROLLBACK_BEGAN"
    ROLLBACK_REFUSED = "ROLLBACK_REFUSED"
    ROLLED_BACK = "ROLLED_BACK"

    CONTROLLERS_REPLACED = "CONTROLLERS_REPLACED"
    STOCK_IN_PLACE = "STOCK_IN_PLACE"
    FINALIZED = "FINALIZED"


class OperationName(StrEnum):
    """What a person requests, by the name in the database."""

    ADVANCE = "ADVANCE"
    ABORT = "ABORT"
    ROLL_BACK = "ROLL_BACK"
    RAISE_VERSION = "RAISE_VERSION"

    APPROVE = "APPROVE"
    BACK = "BACK"
    CHANGE = "CHANGE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow:
    """One kind of operation.

    word:    as the command line says it.
    trigger: of the steps that it takes; None: it changes no phase. Only one that takes steps is pending at a time.
    undoes:  it takes the place of a pending advance; a rollback also that of one whose driver does not begin it.
    ends:    where it ends when it leads through a phase that leads on by itself.
    does:    for people, where no phase changes what it does. has_form: the page has one for it.
    """

    word: str
    trigger: Trigger | None = None
    undoes: bool = False
    ends: Phase | None = None
    does: str = ""
    has_form: bool = True


OPERATIONS: Final[Mapping[str, OperationRow]] = {
    OperationName.ADVANCE: OperationRow(word="advance", trigger=Trigger.ADVANCE, ends=Phase.DUAL_WRITE),
    OperationName.ABORT: OperationRow(word="abort", trigger=Trigger.ABORT, undoes=True, ends=Phase.READY),
    OperationName.ROLL_BACK: OperationRow(
        word="rollback", trigger=Trigger.ROLL_BACK, undoes=True, ends=Phase.ROLLED_BACK
    ),
    OperationName.RAISE_VERSION: OperationRow(
        word="finalize-version",
        trigger=Trigger.RAISE_VERSION,
        does="This cannot be undone. metadata.version is raised to the highest level that every broker and voter "
        "supports.",
    ),
    # to the next step that cannot be undone, as plan and evidence are now
    OperationName.APPROVE: OperationRow(word="approve", has_form=False),
    # the failed node of a rolling restart, alone, gets its previous file
    OperationName.BACK: OperationRow(word="back"),
    # another inventory, written down when it is done
    OperationName.CHANGE: OperationRow(word="change", has_form=False),
    OperationName.PAUSE: OperationRow(
        word="pause",
        does="New steps forward do not begin. A takeover that has not begun is cancelled. A rolling restart stops "
        "between two nodes. Abort and rollback stay possible.",
    ),
    OperationName.RESUME: OperationRow(
        word="resume",
        does="Steps forward are possible again. A rolling restart goes on; a node that failed is tried again from its "
        "step.",
    ),
}

PEOPLE: Final = {row.trigger: row.word for row in OPERATIONS.values() if row.trigger is not None}
"""Steps that people request, in the words of the command line."""


@dataclass(frozen=True, slots=True)
class Edge:
    to: Phase
    gate: Gate
    asks: DriverOperation | None = None


TRANSITIONS: Final[Mapping[tuple[Phase, Trigger], Edge]] = {
    (Phase.CREATED, Trigger.ADVANCE): Edge(Phase.PREFLIGHT, gate=may_begin),
    (Phase.PREFLIGHT, Trigger.ADVANCE): Edge(Phase.QUORUM, gate=preflight_is_clean),
    (Phase.QUORUM, Trigger.QUORUM_FORMED): Edge(Phase.BROKERS_JOINING, gate=quorum_has_formed),
    # with an inventory file, the service restarts the brokers with their migration settings; the phase stays
    (Phase.BROKERS_JOINING, Trigger.ADVANCE): Edge(Phase.BROKERS_JOINING, gate=may_join_brokers),
    (Phase.BROKERS_JOINING, Trigger.BROKERS_JOINED): Edge(Phase.READY, gate=brokers_have_joined),
    (Phase.READY, Trigger.ADVANCE): Edge(Phase.TAKEOVER, gate=takeover_may_begin, asks=DriverOperation.TAKE_OVER),
    (Phase.READY, Trigger.TAKEOVER_BEGAN): Edge(Phase.TAKEOVER, gate=always),
    (Phase.TAKEOVER, Trigger.CLAIM_REFUSED): Edge(Phase.READY, gate=always),
    (Phase.TAKEOVER, Trigger.EPOCH_CLAIMED): Edge(Phase.COPY, gate=always),
    (Phase.COPY, Trigger.COPIED): Edge(Phase.AUDIT, gate=always),
    (Phase.AUDIT, Trigger.BROKERS_UPDATED): Edge(Phase.DUAL_WRITE, gate=copy_is_proven),
    # controllers of this inventory are already on their way: an earlier service led them, its rows are lost
    (Phase.CREATED, Trigger.ADOPTED): Edge(Phase.QUORUM, gate=always),
    (Phase.PREFLIGHT, Trigger.ADOPTED): Edge(Phase.QUORUM, gate=always),
    # a takeover that was asked for and has not begun is taken back; the phase stays
    (Phase.READY, Trigger.ABORT): Edge(Phase.READY, gate=takeover_is_asked),
    # from dual-write to the end
    (Phase.DUAL_WRITE, Trigger.ADVANCE): Edge(Phase.ROLLING_BROKERS, gate=may_roll_brokers),
    (Phase.ROLLING_BROKERS, Trigger.ADVANCE): Edge(Phase.REPLACING_CONTROLLERS, gate=may_replace_controllers),
    (Phase.REPLACING_CONTROLLERS, Trigger.CONTROLLERS_REPLACED): Edge(Phase.SOAK, gate=controllers_are_replaced),
    (Phase.SOAK, Trigger.ADVANCE): Edge(Phase.FINALIZING, gate=finalize_evidence),
    (Phase.FINALIZING, Trigger.FINALIZED): Edge(Phase.COMPLETED, gate=finalize_is_committed),
    # until the first controller is started without the migration flag
    (Phase.FINALIZING, Trigger.ABORT): Edge(Phase.SOAK, gate=finalize_may_be_given_up),
    # metadata.version is raised after every node runs a later Kafka; the phase stays
    (Phase.COMPLETED, Trigger.RAISE_VERSION): Edge(Phase.COMPLETED, gate=may_raise_version),
    # the way back inside the window
    (Phase.TAKEOVER, Trigger.ABORT): Edge(Phase.ABORTING, gate=abort_is_possible, asks=DriverOperation.ABORT),
    (Phase.COPY, Trigger.ABORT): Edge(Phase.ABORTING, gate=abort_is_possible, asks=DriverOperation.ABORT),
    (Phase.AUDIT, Trigger.ABORT): Edge(Phase.ABORTING, gate=abort_is_possible, asks=DriverOperation.ABORT),
    (Phase.TAKEOVER, Trigger.WINDOW_FAILED): Edge(Phase.ABORTING, gate=always),
    (Phase.COPY, Trigger.WINDOW_FAILED): Edge(Phase.ABORTING, gate=always),
    (Phase.AUDIT, Trigger.WINDOW_FAILED): Edge(Phase.ABORTING, gate=always),
    (Phase.ABORTING, Trigger.ABORT_DONE): Edge(Phase.READY, gate=always),
    # the way back before it: our controllers are stopped
    (Phase.CREATED, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=nothing_is_claimed),
    (Phase.PREFLIGHT, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=nothing_is_claimed),
    (Phase.QUORUM, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=nothing_is_claimed),
    (Phase.BROKERS_JOINING, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=nothing_is_claimed),
    (Phase.READY, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=nothing_is_claimed),
    # the way back after the commit: the rollback
    (Phase.AUDIT, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=cluster_may_return, asks=DriverOperation.ROLL_BACK),
    (Phase.DUAL_WRITE, Trigger.ROLL_BACK): Edge(
        Phase.ROLLING_BACK, gate=cluster_may_return, asks=DriverOperation.ROLL_BACK
    ),
    # the service leads it: ours in place of stock, brokers into ZooKeeper mode, then the rollback, then original files
    (Phase.ROLLING_BROKERS, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=brokers_may_return),
    (Phase.REPLACING_CONTROLLERS, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=controllers_may_return),
    (Phase.SOAK, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=controllers_may_return),
    (Phase.AUDIT, Trigger.ROLLBACK_BEGAN): Edge(Phase.ROLLING_BACK, gate=always),
    (Phase.ROLLING_BROKERS, Trigger.ROLLBACK_BEGAN): Edge(Phase.ROLLING_BACK, gate=always),
    (Phase.DUAL_WRITE, Trigger.ROLLBACK_BEGAN): Edge(Phase.ROLLING_BACK, gate=always),
    # a rollback that the service leads is cancelled while the claim stands: the road goes on from there by itself
    (Phase.ROLLING_BACK, Trigger.ADVANCE): Edge(Phase.ROLLING_BROKERS, gate=rollback_may_be_cancelled),
    (Phase.ROLLING_BROKERS, Trigger.STOCK_IN_PLACE): Edge(Phase.REPLACING_CONTROLLERS, gate=stock_is_in_place),
    (Phase.ROLLING_BACK, Trigger.ROLLBACK_REFUSED): Edge(Phase.DUAL_WRITE, gate=always),
    (Phase.ROLLING_BACK, Trigger.ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=always),
    # ZooKeeper has the controller again although none of our drivers said so: rolled back without controllers
    (Phase.AUDIT, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=zookeeper_is_controller),
    (Phase.DUAL_WRITE, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=zookeeper_is_controller),
    (Phase.ROLLING_BROKERS, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=zookeeper_is_controller),
    (Phase.REPLACING_CONTROLLERS, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=cluster_has_returned),
    (Phase.SOAK, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=cluster_has_returned),
    (Phase.ROLLING_BACK, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=zookeeper_is_controller),
}

_OF_STOCK: Final[Mapping[tuple[Phase, Trigger], Edge]] = {
    (Phase.CREATED, Trigger.ADVANCE): Edge(Phase.PREFLIGHT, gate=may_begin),
    (Phase.PREFLIGHT, Trigger.ADVANCE): Edge(Phase.QUORUM, gate=stock_files_are_clean),
    (Phase.QUORUM, Trigger.QUORUM_FORMED): Edge(Phase.BROKERS_JOINING, gate=stock_has_formed),
    (Phase.BROKERS_JOINING, Trigger.ADVANCE): Edge(Phase.BROKERS_JOINING, gate=may_join_stock),
    # Kafka copies by itself as soon as the last broker has registered: that one is held until somebody requests it
    (Phase.BROKERS_JOINING, Trigger.BROKERS_JOINED): Edge(Phase.READY, gate=all_but_the_last_have_joined),
    (Phase.READY, Trigger.ADVANCE): Edge(Phase.TAKEOVER, gate=last_broker_may_restart),
    (Phase.TAKEOVER, Trigger.ABORT): Edge(Phase.READY, gate=last_broker_is_back),
    # what the log and ZooKeeper show, whoever restarted the last broker
    (Phase.BROKERS_JOINING, Trigger.TAKEOVER_BEGAN): Edge(Phase.TAKEOVER, gate=always),
    (Phase.READY, Trigger.TAKEOVER_BEGAN): Edge(Phase.TAKEOVER, gate=always),
    (Phase.TAKEOVER, Trigger.EPOCH_CLAIMED): Edge(Phase.COPY, gate=always),
    (Phase.COPY, Trigger.COPIED): Edge(Phase.AUDIT, gate=always),
    (Phase.AUDIT, Trigger.BROKERS_UPDATED): Edge(Phase.DUAL_WRITE, gate=copy_of_stock_is_proven),
    (Phase.DUAL_WRITE, Trigger.ADVANCE): Edge(Phase.ROLLING_BROKERS, gate=may_roll_brokers),
    # no controller of ours is there to be replaced
    (Phase.ROLLING_BROKERS, Trigger.ADVANCE): Edge(Phase.SOAK, gate=may_soak_stock),
    (Phase.SOAK, Trigger.ADVANCE): Edge(Phase.FINALIZING, gate=finalize_evidence),
    (Phase.FINALIZING, Trigger.FINALIZED): Edge(Phase.COMPLETED, gate=finalize_is_committed),
    (Phase.FINALIZING, Trigger.ABORT): Edge(Phase.SOAK, gate=finalize_may_be_given_up),
    (Phase.COMPLETED, Trigger.RAISE_VERSION): Edge(Phase.COMPLETED, gate=may_raise_version),
    # the way back before the claim: stock is stopped
    **{
        (phase, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=stock_is_unclaimed)
        for phase in (Phase.CREATED, Phase.PREFLIGHT, Phase.QUORUM, Phase.BROKERS_JOINING, Phase.READY)
    },
    # and after it: brokers into ZooKeeper mode, stock is stopped, the claim is taken away
    **{
        (phase, Trigger.ROLL_BACK): Edge(Phase.ROLLING_BACK, gate=stock_may_return)
        for phase in (Phase.COPY, Phase.AUDIT, Phase.DUAL_WRITE, Phase.ROLLING_BROKERS, Phase.SOAK)
    },
    **{
        (phase, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=cluster_has_returned)
        for phase in (Phase.COPY, Phase.AUDIT, Phase.DUAL_WRITE, Phase.ROLLING_BROKERS, Phase.SOAK)
    },
    (Phase.ROLLING_BACK, Trigger.FOUND_ROLLED_BACK): Edge(Phase.ROLLED_BACK, gate=claim_is_gone),
}
"""The same way with Kafka's own controllers. Nothing here asks a driver: what stock does is seen, not requested."""

STEPS: Final[Mapping[ControllerEngine, Mapping[tuple[Phase, Trigger], Edge]]] = {
    ControllerEngine.OURS: TRANSITIONS,
    ControllerEngine.STOCK: _OF_STOCK,
}
"""By whose controllers take over."""


def word_of(trigger: Trigger) -> str:
    """As people read it: the command, or what happened."""
    return PEOPLE.get(trigger, trigger.value.lower().replace("_", " "))


APPROVED: Final = Phase.FINALIZING
"""What `approve` is about, unless a phase is named."""
NO_CHOICE: Final = tuple(map(word_of, (Trigger.ADOPTED, Trigger.FOUND_ROLLED_BACK, Trigger.STOCK_IN_PLACE)))
"""Steps that the cluster made by itself are no choice of a reader: page and command line leave them out."""


def driver_may_roll_back(phase: Phase) -> bool:
    """Whether a driver begins a rollback here that nobody requested from this service, or is at it."""
    return phase is Phase.ROLLING_BACK or (phase, Trigger.ROLLBACK_BEGAN) in TRANSITIONS


def next_edges(phase: Phase, engine: ControllerEngine = ControllerEngine.OURS) -> dict[Trigger, Edge]:
    """Every edge that leaves a phase, in the order of the table."""
    return {trigger: edge for (start, trigger), edge in STEPS[engine].items() if start is phase}


def possible(phase: Phase, engine: ControllerEngine = ControllerEngine.OURS) -> tuple[str, ...]:
    """What people may ask for here, in the words of the command line."""
    return tuple(PEOPLE[trigger] for trigger in next_edges(phase, engine) if trigger in PEOPLE)


def look_up(
    phase: Phase,
    trigger: Trigger,
    to: Phase | None = None,
    engine: ControllerEngine = ControllerEngine.OURS,
) -> Edge:
    """The edge, or a refusal by name.

    to: where the asker expects to arrive; READY's advance may name any phase that it leads through.

    Raises Z2K-4003 when the table has no such step.
    """
    edge = STEPS[engine].get((phase, trigger))
    operation = PEOPLE.get(trigger, trigger.value)
    here = ", ".join(possible(phase, engine)) or "nothing"
    if edge is None:
        raise NOT_POSSIBLE_HERE.error(operation=operation, phase=phase, possible=here)
    if to is not None and to not in leads_to(edge):
        raise NOT_POSSIBLE_HERE.error(operation=f"{operation} to {to}", phase=phase, possible=here)
    return edge


def by_name(phase: Phase, trigger: Trigger, to: Phase | None) -> None:
    """An `advance` that does not go on where one left off has to name its phase. Raises Z2K-4003."""
    if phase is Phase.ROLLING_BACK and trigger is Trigger.ADVANCE and to is None:
        possible_here = f"advance --to {Phase.ROLLING_BROKERS}, which cancels the rollback"
        raise NOT_POSSIBLE_HERE.error(operation="advance", phase=phase, possible=possible_here)


def require_named(phase: Phase, edge: Edge, to: Phase | None) -> None:
    """What cannot be undone is asked for by its name. Raises Z2K-4003."""
    if to is None and edge.to is Phase.FINALIZING:
        word = "advance without the name of a phase that cannot be undone"
        raise NOT_POSSIBLE_HERE.error(operation=word, phase=phase, possible=f"advance --to {edge.to}")


def leads_to(edge: Edge) -> tuple[Phase, ...]:
    """The phases that this step goes through by itself: the takeover goes on to dual-write."""
    phases = [edge.to]
    if edge.asks is DriverOperation.TAKE_OVER:
        for trigger in way(edge.to, Phase.DUAL_WRITE) or ():
            phases.append(TRANSITIONS[phases[-1], trigger].to)
    return tuple(phases)


def way(start: Phase, end: Phase, engine: ControllerEngine = ControllerEngine.OURS) -> tuple[Trigger, ...] | None:
    """The shortest way that needs no order of a person, () when already there, None when there is none.

    Taken when steps in between were not seen: the service was down, or a controller's history began anew.
    """
    waiting: deque[tuple[Phase, tuple[Trigger, ...]]] = deque([(start, ())])
    known = {start}
    while waiting:
        phase, triggers = waiting.popleft()
        if phase is end:
            return triggers
        for trigger, edge in next_edges(phase, engine).items():
            if trigger not in PEOPLE and edge.to not in known:
                known.add(edge.to)
                waiting.append((edge.to, (*triggers, trigger)))
    return None


def _leads_nowhere(phase: Phase) -> bool:
    return all(edge.to is phase for edge in next_edges(phase).values())


def draw(engine: ControllerEngine = ControllerEngine.OURS) -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", "    [*] --> CREATED"]
    for (start, trigger), edge in STEPS[engine].items():
        word = word_of(trigger)
        lines.append(f"    {start} --> {edge.to}: {word}" + (f" [{edge.gate.__name__}]" if edge.gate != always else ""))
    ends = sorted({edge.to for edge in STEPS[engine].values() if _leads_nowhere(edge.to)})
    return "\n".join([*lines, *(f"    {phase} --> [*]" for phase in ends)]) + "\n"
