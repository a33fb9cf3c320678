"""ORIGINAL: after the claim is gone, brokers get their file from before the migration. No log says anything any more.

In:   a `Round`. Out: as the methods of `RollKind`.
Elsewhere: how whole the replicas are, as clients see it (nodes/replicas.py), which brokers (rollback/plan.py).
"""

from __future__ import annotations

from functools import partial

from migrator.model.verdict import Condition, Verdict
from state_machine.nodes.fleet import FleetNode
from state_machine.nodes.replicas import ReplicasWatch
from state_machine.policy.conditions import canary_is_well, nothing_waits_for_restart
from state_machine.policy.fleet_evidence import BROKERS, Roll
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.gates_back import claim_is_gone
from state_machine.rollback.plan import to_original_file
from state_machine.rollback.stops import takes_nothing
from state_machine.rolling.node_conditions import own_process
from state_machine.rolling.round import NodeSeen, Round
from state_machine.rolling.ways_back import WayBackKind
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


class OriginalRoll(WayBackKind):
    roll = Roll.ORIGINAL

    def needed(self, snapshot: Snapshot) -> tuple[int, ...]:
        return to_original_file(snapshot)

    def last(self, round: Round) -> frozenset[int]:
        """The active controller, which is one of the brokers again."""
        evidence = round.evidence
        holds = evidence.holder is Holder.ZOOKEEPER_BROKER and evidence.holder_id is not None
        return frozenset({evidence.holder_id or 0}) if holds else frozenset()

    def tend(self, round: Round) -> None:
        work, means = round.work, round.means
        if work.replicas is None:
            away = partial(means.hosts.away, round.snapshot.id)
            work.replicas = ReplicasWatch(means.replicas, means.steady, away, means.clock)
        work.replicas.tend(round.fleet.inventory, _wanted(round), round.out)

    def may_stop(self, evidence: Evidence) -> Verdict:
        return claim_is_gone(evidence)

    def ready(self, round: Round) -> Verdict:
        return Verdict(
            (
                *self.may_stop(round.evidence).conditions,
                *_whole_by_brokers(round),
                *canary_is_well(round.road),
                nothing_waits_for_restart(round.road),
            )
        )

    def may_stop_node(self, round: Round, node: int) -> tuple[Condition, ...]:
        at_stake = 0 if round.work.replicas is None else round.work.replicas.at_stake(node)
        return (takes_nothing(round.road, node, at_stake),)

    def takes(self, evidence: Evidence, *nodes: int) -> tuple[Condition, ...]:
        return ()

    def whole(self, round: Round, row: JournalRow, seen: NodeSeen, *, beside: bool) -> Verdict:
        """We start it only after ZooKeeper had lost its registration of before. One that somebody else started earlier
        ends when it finds that registration.
        """
        there = not self.is_gone(round, round.node(row)) and round.evidence.holder is not Holder.UNKNOWN
        registered = Condition(
            "it is registered in ZooKeeper", there, "it is" if there else "it is not in /brokers/ids"
        )
        disks = () if seen.disks is None else (seen.disks,)
        return Verdict((*own_process(seen.process, seen.rendered), registered, *_whole_by_brokers(round), *disks))

    def is_gone(self, round: Round, node: FleetNode) -> bool:
        look = round.snapshot.observation
        if look is None or look.zookeeper.holder is Holder.UNKNOWN:
            return False
        return node.id not in look.zookeeper.brokers

    def registered_anew(self, round: Round, row: JournalRow) -> bool:
        return False


def _wanted(round: Round) -> set[int]:
    return {each.id for each in round.fleet.of(BROKERS) if each.id not in round.out}


def _whole_by_brokers(round: Round) -> tuple[Condition, ...]:
    assert round.work.replicas is not None, "it is tended in each round of this roll"
    return round.work.replicas.conditions(_wanted(round), round.means.settings.settle_s)
