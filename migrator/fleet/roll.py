"""A rolling restart: what to do next with which node, or why to wait.

In:   the journal (one entry per node, with the step it reached) and what is observed now.
Out:  one decision. `decide` is asked again after each act and each observation.
Elsewhere: carrying out acts and keeping the journal (state_machine/rolling), reaching a host (actuator.py).
Rules: one node at a time, or one rack that was judged as a whole. What was begun is ended before anything else,
whatever pauses or fails. A step is in the journal before its act begins, and every act may be repeated, so that the
roll goes on after a power cut at any point. The order is stop, write, start: a file that is written while the node runs
would convert it at its next crash.
Source: Kafka 3.9 operations page, "Migrating from ZooKeeper to KRaft".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from migrator.findings.finding import Occurrence
from migrator.findings.road import NODE_ENDED, NODE_OVERDUE, NODE_STARTED_BY_OTHERS, STEP_FAILED
from migrator.fleet.actuator import ProcessState
from migrator.model.verdict import Verdict


class RollStep(StrEnum):
    """How far a node is.

    PENDING: nothing was done. PREPARED: its file is rendered and its disks were read; it runs as before.
    STOPPING: the stop was ordered. STOPPED: its process has ended; its file may be in writing.
    WRITTEN: its file is the rendered one; its start may be under way. STARTED: it was started and is not whole yet.
    WHOLE: it is there again. FAILED: the roll stands until a person decides.
    BACK: a person sent it back; it runs with its previous file, and the roll stands until a person resumes.
    """

    PENDING = "PENDING"
    PREPARED = "PREPARED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    WRITTEN = "WRITTEN"
    STARTED = "STARTED"
    WHOLE = "WHOLE"
    FAILED = "FAILED"
    BACK = "BACK"


UNDER_WAY: Final = frozenset({RollStep.STOPPING, RollStep.STOPPED, RollStep.WRITTEN, RollStep.STARTED})
"""The node is away, or not yet whole: no other one may be touched."""
UNTOUCHED: Final = frozenset({RollStep.PENDING, RollStep.PREPARED})


class NodeAct(StrEnum):
    """What is done with a node. PREPARE only reads."""

    PREPARE = "prepare"
    STOP = "stop"
    WRITE = "write"
    START = "start"


RECORDED_BEFORE: Final[Mapping[NodeAct, RollStep | None]] = {
    NodeAct.PREPARE: None,
    NodeAct.STOP: RollStep.STOPPING,
    NodeAct.WRITE: None,
    NodeAct.START: None,
}
"""The step that is in the journal before the act begins; the others leave a node as the step before them says."""
REACHED_BY: Final[Mapping[NodeAct, RollStep]] = {
    NodeAct.PREPARE: RollStep.PREPARED,
    NodeAct.STOP: RollStep.STOPPED,
    NodeAct.WRITE: RollStep.WRITTEN,
    NodeAct.START: RollStep.STARTED,
}


@dataclass(frozen=True, slots=True)
class RollEntry:
    """One node of a roll, as the journal has it.

    began_s:     seconds since its stop was ordered; 0 before, and when it has to be stopped once more.
    instruction: what a person was told to do for the present step; empty when nobody has to do anything.
    cause:       why it failed.
    back:        it is on its way back to a previous file.
    alone:       a person sent it back alone; the roll stands when it is there.
    turn:        nodes with a smaller one are begun before; equal ones by rack and id.
    """

    id: int
    role: str
    step: RollStep
    rack: str = ""
    began_s: float = 0.0
    instruction: str = ""
    cause: str = ""
    back: bool = False
    alone: bool = False
    turn: int = 0

    @property
    def name(self) -> str:
        return f"{self.role} {self.id}"


@dataclass(frozen=True, slots=True)
class NodeNow:
    """Of the node that is under way.

    whole: what has to hold before the next node. gone: the cluster does not count it as present.
    file_is_rendered: None where its file cannot be read.
    registered_anew:  the log has another registration of it than before its stop.
    registers_never:  only another restart makes it register.
    trouble:          why its act is being repeated; empty when it is not.
    not_ended:        why it may not have ended, by its host or by the cluster; empty when both say that it has.
    answered:         a person left evidence for all that is asked; None where no person acts on this node.
    """

    process: ProcessState
    whole: Verdict
    gone: bool = False
    file_is_rendered: bool | None = None
    registered_anew: bool = False
    registers_never: bool = False
    trouble: str = ""
    not_ended: str = ""
    answered: bool | None = None


NOTHING_ELSE: Final = Verdict(())


@dataclass(frozen=True, slots=True)
class RollNow:
    """What is observed at this moment.

    cluster: what has to hold before any node is stopped. last: ids that are restarted after all others.
    paused:  why no further node is begun. deadline_s: from the order to stop until the node is whole.
    around:  what has to hold of the cluster until a node that was started counts as whole. It is no fault of the node,
             so the node does not fail of it. One that goes back is not asked for it.
    of_node: on a way back, what has to hold of a node before it is begun, in the place of `cluster`: the first node of
             which it holds is next, so that one that cannot go back now holds nobody else.
    """

    cluster: Verdict
    nodes: Mapping[int, NodeNow]
    last: frozenset[int] = frozenset()
    paused: str | None = None
    deadline_s: float = 3600.0
    around: Verdict = NOTHING_ELSE
    of_node: Mapping[int, Verdict] = field(default_factory=dict)

    def ready(self, node: int) -> Verdict:
        return self.of_node.get(node, self.cluster)


@dataclass(frozen=True, slots=True)
class Perform:
    node: int
    act: NodeAct


@dataclass(frozen=True, slots=True)
class Reached:
    """An observation shows a step that no act of ours reported."""

    node: int
    step: RollStep


@dataclass(frozen=True, slots=True)
class Fail:
    node: int
    cause: Occurrence


@dataclass(frozen=True, slots=True)
class Wait:
    reason: str


@dataclass(frozen=True, slots=True)
class Complete:
    """Every node is whole."""


Decision: TypeAlias = Perform | Reached | Fail | Wait | Complete


def decide(entries: Sequence[RollEntry], now: RollNow) -> Decision:
    """The next act, or the reason to wait."""
    for entry in entries:
        if entry.step is RollStep.FAILED:
            return Wait(f"{entry.name} failed: {entry.cause} {_choices(entry)}")
    begun = [entry for entry in entries if entry.step in UNDER_WAY]
    if begun:
        assert len(begun) == 1, f"two nodes are under way: {begun}"
        return _go_on(begun[0], now)
    for entry in entries:
        if entry.step is RollStep.BACK:
            return Wait(f"{entry.name} runs with its previous file; `zk2kraft resume` rolls it again")
    left = in_order((entry for entry in entries if entry.step in UNTOUCHED), now.last)
    if not left:
        return Complete()
    following = next((each for each in left if each.id in now.of_node and now.ready(each.id).holds), left[0])
    if now.paused is not None:
        return Wait(f"paused before {following.name}: {now.paused}")
    ready = now.ready(following.id)
    if following.step is RollStep.PENDING and (following.id not in now.of_node or ready.holds):
        return Perform(following.id, NodeAct.PREPARE)
    if not ready.holds:
        return Wait(f"before {following.name}: {ready.reason()}")
    return Perform(following.id, NodeAct.STOP)


def decide_each(entries: Sequence[RollEntry], now: RollNow) -> dict[int, Decision]:
    """Of a rack that is under way together, by node; of those that were looked at. None of them waits for another, nor
    for one of them that failed: the last one alone waits until the cluster is as before their stop.
    """
    away = [each for each in entries if each.step in UNDER_WAY or each.step is RollStep.FAILED]
    apart = now if len(away) == 1 else replace(now, around=NOTHING_ELSE)
    return {each.id: _go_on(each, apart) for each in away if each.step in UNDER_WAY and each.id in now.nodes}


def of_one_rack(entries: Sequence[RollEntry], first: int, last: frozenset[int]) -> list[RollEntry]:
    """Which nodes would be restarted together with `first`, itself among them: what is left of its rack.

    Those that have to be last are so together. Without a rack a node is alone.
    """
    left = in_order((entry for entry in entries if entry.step in UNTOUCHED), last)
    own = next(each for each in left if each.id == first)
    if not own.rack:
        return [own]
    return [each for each in left if each.rack == own.rack and (each.id in last) == (first in last)]


def _choices(entry: RollEntry) -> str:
    back = ""
    if entry.role == "broker" and (entry.alone or not entry.back):
        back = "`zk2kraft back` returns this broker alone to its previous file; "
    if entry.role == "controller" and entry.back:
        back = "`zk2kraft back` starts this controller alone as stock again; "
    return f"`zk2kraft resume` tries it again; {back}`pause` leaves it as it is"


def in_order(entries: Iterable[RollEntry], last: frozenset[int]) -> list[RollEntry]:
    """By turn, rack, then id; the active controller and its machine last, so that it moves once.

    A node that was prepared keeps its turn.
    """

    def place(each: RollEntry) -> tuple[bool, bool, int, str, int]:
        return each.step is not RollStep.PREPARED, each.id in last, each.turn, each.rack, each.id

    return sorted(entries, key=place)


def _go_on(entry: RollEntry, now: RollNow) -> Decision:
    seen = now.nodes[entry.id]
    if entry.began_s > now.deadline_s and not (entry.step is RollStep.STARTED and seen.whole.holds):
        cause = NODE_OVERDUE.found(
            node=entry.name, step=entry.step, seconds=f"{now.deadline_s:g}", reason=_what_is_missing(entry, seen)
        )
        return Fail(entry.id, cause)
    match entry.step:
        case RollStep.STOPPING:
            return _stopping(entry, seen, now.cluster)
        case RollStep.STOPPED:
            return _stopped(entry, seen)
        case RollStep.WRITTEN:
            # a start of ours that was not noted, or of somebody who did not wait: what is registered is the new one
            may_run = seen.process is not ProcessState.STOPPED
            started = seen.process is ProcessState.RUNNING or (may_run and seen.registered_anew)
            if entry.back and entry.role == "broker" and not seen.gone and not started:
                # the controller answers DUPLICATE_BROKER_REGISTRATION while the session before is valid
                return Wait(f"{entry.name} is started when its registration of before is fenced")
            return Perform(entry.id, NodeAct.START)
        case RollStep.STARTED:
            return _started(entry, seen, now)
        case RollStep.PENDING | RollStep.PREPARED | RollStep.WHOLE | RollStep.FAILED | RollStep.BACK:
            raise AssertionError(f"{entry.name} is not under way: {entry.step}")
        case _:
            assert_never(entry.step)


def _stopping(entry: RollEntry, seen: NodeNow, cluster: Verdict) -> Decision:
    """One on its way back may have ended by itself: only the act of stopping keeps its supervisor from starting it. One
    that something else started serves again: it is stopped as every other one, when nothing else is away.
    """
    if entry.began_s == 0.0 and seen.process is ProcessState.RUNNING and not seen.gone and not cluster.holds:
        return Wait(f"before {entry.name} is stopped again: {cluster.reason()}")
    if (entry.back or seen.answered is not None) and not entry.instruction:
        return Perform(entry.id, NodeAct.STOP)
    if entry.instruction:
        return _stopping_by_hand(entry, seen)
    if seen.process is ProcessState.STOPPED or (seen.process is ProcessState.NOT_READ and seen.gone):
        return Reached(entry.id, RollStep.STOPPED)
    return Perform(entry.id, NodeAct.STOP)


def _stopping_by_hand(entry: RollEntry, seen: NodeNow) -> Decision:
    """Both have to say it: who stopped it, and the cluster. A node that only crashed is not kept from starting."""
    if seen.process is ProcessState.STOPPED and seen.gone:
        return Reached(entry.id, RollStep.STOPPED)
    if seen.process is ProcessState.STOPPED:
        return Wait(f"there is evidence that {entry.name} is stopped, and the cluster still counts it as present")
    return Perform(entry.id, NodeAct.STOP) if seen.answered else Wait(_instructed(entry))


def _stopped(entry: RollEntry, seen: NodeNow) -> Decision:
    """What a person writes is done when the act finds evidence of all of it."""
    if seen.process is ProcessState.RUNNING:
        return Fail(entry.id, NODE_STARTED_BY_OTHERS.found(node=entry.name))
    if not entry.instruction:
        if seen.not_ended:
            return Wait(f"{entry.name} is stopped, and its file is not written yet: {seen.not_ended}")
        return Perform(entry.id, NodeAct.WRITE)
    return Perform(entry.id, NodeAct.WRITE) if seen.answered else Wait(_instructed(entry))


def _started(entry: RollEntry, seen: NodeNow, now: RollNow) -> Decision:
    if seen.process is ProcessState.STOPPED:
        return Fail(entry.id, NODE_ENDED.found(node=entry.name))
    if seen.whole.holds:
        if not entry.back and not now.around.holds:
            return Wait(f"{entry.name} is whole, and the cluster is not as before its stop: {now.around.reason()}")
        return Reached(entry.id, RollStep.BACK if entry.alone else RollStep.WHOLE)
    if seen.registers_never:
        if not now.cluster.holds:
            return Wait(f"{entry.name} never registers; before it is started again: {now.cluster.reason()}")
        return Perform(entry.id, NodeAct.STOP)
    if entry.instruction and seen.process is not ProcessState.RUNNING:
        return Wait(_instructed(entry))
    return Wait(f"{entry.name} is not whole yet ({entry.began_s:.0f} s): {seen.whole.reason()}")


def _instructed(entry: RollEntry) -> str:
    return f"a person has to act on {entry.name}: {entry.instruction}"


def _what_is_missing(entry: RollEntry, seen: NodeNow) -> str:
    if entry.instruction:
        return _instructed(entry)
    missing = seen.whole.reason() if entry.step is RollStep.STARTED else f"its process is {seen.process}"
    if entry.step is RollStep.STOPPED and seen.not_ended:
        missing = seen.not_ended
    return f"{missing}; {seen.trouble}" if seen.trouble else missing


def failed(entry: RollEntry, act: NodeAct, reason: str) -> Fail:
    """An act that the host refused."""
    return Fail(entry.id, STEP_FAILED.found(act=act, node=entry.name, reason=reason))
