"""What the rolls of a way back share: only nodes that need it, each judged by itself, with a file that was kept.

In:   a `Round`, a `NodeTask`. Out: as the methods of `RollKind`.
Elsewhere: what the stop of one node takes away (rollback/stops.py), who is left out (rollback/left_out.py),
the files (rollback/previous_file.py), which nodes need it (rollback/plan.py).
Rules: what is broken already holds nobody. Two nodes are never away at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from migrator.fleet.render import FileKind
from migrator.model.verdict import Condition, Verdict
from state_machine.nodes.fleet import FleetNode
from state_machine.policy.conditions import canary_is_well, fleet_evidence_of, log_is_observed
from state_machine.policy.fleet_evidence import BROKERS
from state_machine.policy.gates import Evidence
from state_machine.policy.later import no_later_kafka
from state_machine.policy.outcome import Waiting
from state_machine.policy.step_conditions import zookeeper_answers
from state_machine.policy.taken import restarts_take
from state_machine.rollback.left_out import in_turn, without_answer
from state_machine.rollback.plan import kept_for, left_half_way
from state_machine.rollback.previous_file import prepare_before, write_before
from state_machine.rollback.stops import host_answers
from state_machine.rolling import registrations
from state_machine.rolling.kind import RollKind, disks_said
from state_machine.rolling.round import NodeTask, Round
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


class WayBackKind(RollKind, ABC):
    """with_ids: the log still says something of topic ids."""

    with_ids = False

    @abstractmethod
    def needed(self, snapshot: Snapshot) -> tuple[int, ...]:
        """Nodes that this way back has to restart, by id."""

    @abstractmethod
    def may_stop_node(self, round: Round, node: int) -> tuple[Condition, ...]:
        """What the stop of this node would make worse, and nothing else."""

    def nodes(self, round: Round) -> tuple[FleetNode, ...]:
        """Only those that need it, and that nobody left out by name."""
        needed = self.needed(round.snapshot)
        return tuple(each for each in super().nodes(round) if each.id in needed and each.id not in round.out)

    def half_way(self, round: Round) -> Waiting | tuple[int, ...]:
        """Leaves out those whose host gives no answer, and those that serve while another one does not."""
        found = left_half_way(round.snapshot, self.roll)
        later = {*without_answer(round.snapshot), *_serving(round, found)}
        return tuple(each for each in found if each not in later)

    def rows(self, round: Round) -> tuple[JournalRow, ...]:
        return tuple(in_turn(round.rows, round.out))

    def ready_of(self, round: Round, node: int, cluster: Verdict) -> Verdict:
        """What its stop would make worse, and nothing else (stops.py)."""
        answers = host_answers(f"{self.facts.role} {node}", without_answer(round.snapshot).get(node))
        return Verdict((answers, *cluster.conditions, *self.may_stop_node(round, node)))

    def takes(self, evidence: Evidence, *nodes: int) -> tuple[Condition, ...]:
        """It is only said."""
        return restarts_take(fleet_evidence_of(evidence), nodes) if self.facts.role == BROKERS else ()

    def around(self, evidence: Evidence) -> Verdict:
        """What is broken elsewhere holds nobody."""
        return Verdict(())

    def prepare(self, task: NodeTask) -> dict[str, Any]:
        round, node, kind = task.round, task.node, self.file
        kept = kept_for(round.snapshot, node.id, kind)
        columns = prepare_before(round.fleet, node, kind, kept, round.means.kafka_says)
        incarnation = registrations.incarnation(round.snapshot, node.role, node.id)
        columns = {**columns, "kind": str(kind), "incarnation": incarnation}
        if node.role != BROKERS:
            return columns
        return {**columns, "detail": f"{columns['detail']}; {disks_said(task, with_ids=self.with_ids)}"}

    def write(self, task: NodeTask) -> dict[str, Any]:
        kind = FileKind(task.row.kind)
        return write_before(task.round.fleet, task.node, kind, kept_for(task.round.snapshot, task.node.id, kind))

    def taken_over(self, task: NodeTask) -> dict[str, Any]:
        return {}

    @property
    def file(self) -> FileKind:
        kind = self.facts.file
        assert kind is not None, "a way back has a previous file"
        return kind


def in_any_case(evidence: Evidence) -> tuple[Condition, ...]:
    """What has to hold before any stop while our controllers, or stock, lead."""
    road = fleet_evidence_of(evidence)
    return (no_later_kafka(evidence.later), log_is_observed(road), *canary_is_well(road), zookeeper_answers(evidence))


def _serving(round: Round, half_way: tuple[int, ...]) -> tuple[int, ...]:
    """Of brokers that another roll left half-way, those that serve while another one does not: they wait for their turn
    like any broker. All others are stopped first.
    """
    road = round.road
    missing = set(road.not_ready) - set(half_way)
    if road.log_problem or not missing:
        return ()
    return tuple(each for each in half_way if each not in road.not_ready and each in (*road.kraft, *road.zookeeper))
