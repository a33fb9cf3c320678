"""What each node's host said last, each answer with its own age: one that hangs makes no other answer older.

In:   nodes of a fleet, and what to ask of one. Out: by a node's name, a `NodeReading`.
Elsewhere: threads (calls.py), how old an answer may be (policy/freshness.py).
Rules: an answer is as old as the moment in which it was asked for; that nothing was answered is known when it is known.
A round waits for a call until it lasted `PATIENCE_S`; then the answer before stands, with its age. A host with such a
call is not asked again before that ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Generic, TypeVar

from migrator.findings.finding import FindingError
from state_machine.nodes.calls import Call, HostCalls
from state_machine.nodes.fleet import FleetNode
from state_machine.rows.store import Snapshot

PATIENCE_S: Final = 10.0
LOOK_AGAIN_S: Final = 0.5

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class NodeReading(Generic[Answer]):
    """answer: None while there is none, and `error` says why where that is known.

    at, ended_at: wall time when it was asked for, as of which it holds, and when that ended.
    unanswered_s: for how long the next answer is waited for, past all patience.
    """

    at: float
    ended_at: float
    answer: Answer | None = None
    error: FindingError | None = None
    unanswered_s: float = 0.0
    rows: object = None


@dataclass(slots=True)
class NodeReadings(Generic[Answer]):
    """What the nodes of one migration answered to one kind of question. It has one round at a time."""

    clock: Callable[[], float] = time.time
    patience_s: float = PATIENCE_S
    _under_way: dict[str, Call] = field(default_factory=dict)
    _last: dict[str, NodeReading[Answer]] = field(default_factory=dict)

    def round(
        self, calls: HostCalls, snapshot: Snapshot, nodes: Sequence[FleetNode], ask: Callable[[FleetNode], Answer]
    ) -> dict[str, NodeReading[Answer]]:
        """Blocks until each node answered or lost its patience. Raises what `ask` raises, but for a finding.

        An answer of before the last step of its node is none.
        """
        rows = {node.name: rows_of(snapshot, node) for node in nodes}
        for node in nodes:
            self._keep(node.name)
            if node.name not in self._under_way:
                asked = partial(self._asked, node, ask, rows[node.name])
                self._under_way[node.name] = calls.begin(node.node.host, asked)
        began = [self._under_way[name] for name in rows]
        while pending := [each.result for each in began if not self._is_over(each)]:
            wait(pending, LOOK_AGAIN_S, FIRST_COMPLETED)
        return {name: self._now(name, wanted) for name, wanted in rows.items()}

    def _asked(self, node: FleetNode, ask: Callable[[FleetNode], Answer], rows: object) -> NodeReading[Answer]:
        at = self.clock()
        try:
            answer = ask(node)
        except FindingError as error:
            return NodeReading(at, self.clock(), error=error, rows=rows)
        return NodeReading(at, self.clock(), answer, rows=rows)

    def _is_over(self, call: Call) -> bool:
        return call.result.done() or call.lasts_s >= self.patience_s

    def _keep(self, name: str) -> None:
        call = self._under_way.get(name)
        if call is not None and call.result.done():
            del self._under_way[name]
            self._last[name] = call.result.result()

    def _now(self, name: str, rows: object) -> NodeReading[Answer]:
        self._keep(name)
        call, last = self._under_way.get(name), self._last.get(name)
        unanswered_s = 0.0 if call is None else call.lasts_s
        if last is None or last.rows != rows:
            return NodeReading(self.clock(), self.clock(), unanswered_s=unanswered_s)
        return replace(last, unanswered_s=unanswered_s)


def rows_of(snapshot: Snapshot, node: FleetNode) -> object:
    """Equal as long as nothing was done with the node; no order of wall times is asked."""
    rows = (row for row in snapshot.road if (row.role, row.node_id) == (node.role, node.id))
    return [(row.roll, row.step, row.checksum, row.changed_at) for row in rows]
