"""Acts on nodes, carried out: the step in the journal, the act on a thread, what came of it.

In:   a round, the row of a node, which act. Out: an `Outcome`; rows of the journal.
Elsewhere: which act is next (migrator.fleet.roll), what an act does in a kind of roll (kind.py).
Rules: a step is in the journal before its act. After the death of the service the last act is repeated: each one may
be. No stop begins without the lock of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, assert_never

import structlog

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import STEP_FAILED
from migrator.fleet.roll import REACHED_BY, RECORDED_BEFORE, NodeAct, Reached, RollStep
from migrator.model.image import EMPTY, Image
from migrator.model.verdict import Verdict
from state_machine.clusters.observe import ClusterObserver
from state_machine.nodes.cluster_lock import ClusterLocks
from state_machine.nodes.identity import confirm
from state_machine.nodes.restart_evidence import ready_before, whole_since
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.outcome import Blocked, Outcome, Waiting
from state_machine.policy.rolls import ROLLS
from state_machine.rolling import journal
from state_machine.rolling.kind import RollKind
from state_machine.rolling.registrations import registered_now
from state_machine.rolling.round import Means, NodeTask, RollWork, Round, Running
from state_machine.rolling.table import KINDS
from state_machine.rolling.unsent_registrations import before_its_second_stop
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import JournalRow

log = structlog.get_logger()

LOCKED: Final = (NodeAct.PREPARE, NodeAct.STOP)
"""Acts that no service begins without the lock of the cluster."""
BeforeStop: TypeAlias = Callable[[Snapshot], Awaitable[Outcome | None]]
"""Asked between the lock and the journal of a stop. It answers why the node is not stopped."""


class NodeActs:
    """Acts of all migrations; what is under way lies in each one's work."""

    def __init__(self, store: Store, observer: ClusterObserver, means: Means, locks: ClusterLocks | None) -> None:
        self._store = store
        self._observer = observer
        self._means = means
        self._locks = locks
        self.before_stop: dict[Roll, BeforeStop] = {}

    def image(self, snapshot: Snapshot) -> Image:
        """The metadata log as it is now."""
        observer = self._observer.log_of(snapshot.id)
        return EMPTY if observer is None else observer.image

    async def release(self, snapshot: Snapshot) -> None:
        """Nothing is restarted any more."""
        if self._locks is not None:
            await asyncio.to_thread(self._locks.release, snapshot.id)

    async def locked(self, round: Round, row: JournalRow) -> Outcome | None:
        """Why this service may not begin with this node now; None: it has the lock of the cluster."""
        if self._locks is None:
            return None
        try:
            await asyncio.to_thread(self._locks.hold, round.snapshot.id, round.snapshot.inventory.zookeeper)
        except FindingError as error:
            return Waiting(f"before {row.role} {row.node_id}: {_in_words(error)}", (error.occurrence,))
        return None

    async def begin(self, round: Round, row: JournalRow, act: NodeAct, ready: Verdict) -> Outcome:
        """The step is written down, then the act begins. A node that is away is brought back whoever has the lock."""
        roll, kind = round.roll, KINDS[round.roll]
        if again := round.work.repeats.waits(roll, row.node_id, act):
            return Waiting(f"{row.role} {row.node_id}: {again}")
        closed = await self.locked(round, row) if act in LOCKED else None
        if closed is not None:
            return closed
        if act is NodeAct.STOP and roll in self.before_stop and kind.is_asked_before_stop(row):
            closed = await self.before_stop[roll](round.snapshot)
            if closed is not None:
                return closed
        before = RECORDED_BEFORE[act]
        if before is not None and (row.step != before or row.began_at is None):
            at = self._means.clock()
            columns = {"step": before, "instruction": "", **registered_now(round.snapshot, row)}
            if row.step == RollStep.STARTED:
                log.warning("roll.registration_not_sent", roll=roll, node=row.node_id)
                columns |= before_its_second_stop(row)
            else:
                columns |= {"began_at": at, "evidence": ready_before(ready, at)}
            await self.record(round.snapshot, roll, row.node_id, **columns)
        return self.start(round, row, act)

    def start(self, round: Round, row: JournalRow, act: NodeAct) -> Outcome:
        """Begins the act on a thread; `follow` takes what came of it."""
        roll, work, node = round.roll, round.work, round.node(row)
        log.info("roll.act", roll=roll, node=node.id, act=act)
        task = NodeTask(round, node, row, self.image(round.snapshot))
        coroutine = self._means.hosts.away(round.snapshot.id, perform, KINDS[roll], task, act)
        work.running[node.id] = Running(roll, node.id, act, asyncio.create_task(coroutine), self._means.steady())
        work.seen.pop((roll, node.id), None)
        work.looks.pop((str(roll), node.id), None)
        return Waiting(f"{node.name}: {act} begins")

    async def follow(self, snapshot: Snapshot, work: RollWork, running: Running) -> Outcome:
        """What is said of an act that is under way, or has just ended."""
        roll = running.roll
        if not running.task.done():
            seconds = self._means.steady() - running.since
            return Waiting(f"{ROLLS[roll].role} {running.node}: {running.act} ({seconds:.0f} s)")
        del work.running[running.node]
        work.moved = True
        row = next((each for each in snapshot.nodes_of(roll) if each.node_id == running.node), None)
        if row is None:  # a rollback or a finalize was given up while its file was read; no node was away
            running.task.exception()
            return Waiting(f"{ROLLS[roll].role} {running.node} is left as it is")
        try:
            columns = running.task.result()
        except FindingError as error:
            deadline_s = self._means.settings.node_deadline_s
            again = work.repeats.after(roll, running.node, running.act, error, deadline_s)
            if again is not None:
                return Waiting(f"{row.role} {running.node}: {again}", (error.occurrence,))
            cause = error.occurrence
            if running.act is not NodeAct.PREPARE:
                cause = STEP_FAILED.found(act=running.act, node=f"{row.role} {row.node_id}", reason=_in_words(error))
            await self.fail(snapshot, roll, row, cause)
            return Blocked(f"{cause.code} {cause.text}", (cause,))
        work.repeats.forget(roll, running.node)
        instruction = columns.get("instruction", "")
        if not instruction or running.act is NodeAct.START:
            columns.setdefault("step", REACHED_BY[running.act])
        await self.record(snapshot, roll, running.node, **{"instruction": "", **columns})
        log.info("roll.step", roll=roll, node=running.node, step=columns.get("step", row.step))
        shown = instruction or f"{running.act} is done"
        return Waiting(f"{row.role} {running.node}: {shown}")

    async def reached(self, round: Round, row: JournalRow, decision: Reached, whole: Verdict) -> Outcome:
        """An observation shows a step that no act of ours reported. whole: of the node."""
        step = decision.step
        found = whole_since(whole, self._means.clock()) if step in (RollStep.WHOLE, RollStep.BACK) else {}
        settled = {"step": step, "instruction": "", "cause": "", "code": ""}
        round.work.repeats.forget(round.roll, row.node_id)
        await self.record(round.snapshot, round.roll, row.node_id, **settled, evidence=found)
        log.info("roll.step", roll=round.roll, node=row.node_id, step=step)
        return Waiting(f"{row.role} {row.node_id} is {step}")

    async def record(self, snapshot: Snapshot, roll: Roll, node_id: int, **columns: Any) -> None:
        def write() -> None:
            journal.record(self._store, snapshot.id, roll, node_id, at=self._means.clock(), **columns)

        await self._store.away(write)

    async def fail(self, snapshot: Snapshot, roll: Roll, row: JournalRow, cause: Occurrence) -> None:
        log.error("roll.failed", roll=roll, node=row.node_id, code=cause.code, reason=cause.text)
        await self.record(
            snapshot, roll, row.node_id, step=RollStep.FAILED, failed_in=row.step, cause=cause.text, code=cause.code
        )


def perform(kind: RollKind, task: NodeTask, act: NodeAct) -> dict[str, Any]:
    """Runs on a thread. Returns columns of the journal; raises the finding that stopped it."""
    match act:
        case NodeAct.PREPARE:
            snapshot = task.round.snapshot
            said = confirm(task.node, snapshot.migration.cluster_id, snapshot.inventory.zookeeper)
            columns = kind.prepare(task)
            return {**columns, "detail": f"{columns['detail']}; {said}"}
        case NodeAct.STOP:
            return kind.stop(task)
        case NodeAct.WRITE:
            return kind.write(task)
        case NodeAct.START:
            return kind.start(task)
        case _:
            assert_never(act)


def _in_words(error: FindingError) -> str:
    return f"{error.code} {error.occurrence.text}"
