"""BACK: brokers go back into ZooKeeper mode, while our controllers lead.

In:   a `Round`. Out: as the methods of `RollKind`.
Elsewhere: which brokers (rollback/plan.py), their files (rollback/previous_file.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from migrator.model.verdict import Condition, Verdict
from state_machine.policy.conditions import claim_is_ours, fleet_evidence_of, zookeeper_follows
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.gates_back import zookeeper_mode_is_possible
from state_machine.rollback.left_out import without_answer
from state_machine.rollback.plan import into_zookeeper_mode
from state_machine.rollback.stops import broker_may_stop
from state_machine.rolling.node_conditions import broker_whole
from state_machine.rolling.round import Round
from state_machine.rolling.ways_back import WayBackKind, in_any_case
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


class BackRoll(WayBackKind):
    roll = Roll.BACK
    with_ids = True

    def needed(self, snapshot: Snapshot) -> tuple[int, ...]:
        return into_zookeeper_mode(snapshot)

    def turns(self, snapshot: Snapshot) -> Mapping[int, int]:
        """Back in the reverse order of the way there."""
        rows = [row for roll in self.facts.undoes for row in snapshot.nodes_of(roll)]
        there = sorted(rows, key=lambda row: (-(row.began_at or 0.0), -row.node_id))
        return {row.node_id: turn for turn, row in enumerate(there, 1)}

    def last(self, round: Round) -> frozenset[int]:
        """The way back is the way there in reverse; who gives no answer holds nobody else."""
        return frozenset(without_answer(round.snapshot))

    def may_stop(self, evidence: Evidence) -> Verdict:
        road = fleet_evidence_of(evidence)
        # a flag that is on lets the broker halt when a directory is offline
        way = (claim_is_ours(evidence), zookeeper_follows(road), *zookeeper_mode_is_possible(road, every=False))
        return Verdict((*in_any_case(evidence), *way))

    def may_stop_node(self, round: Round, node: int) -> tuple[Condition, ...]:
        return broker_may_stop(round.road, node, round.log.broker(node), round.work.quiet)

    def whole_by_role(self, round: Round, row: JournalRow, *, beside: bool) -> tuple[Condition, ...]:
        """What other brokers lack holds nobody."""
        return broker_whole(round, row, "ZooKeeper", alone=True)
