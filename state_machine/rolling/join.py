"""JOIN: brokers get the migration settings, and what is special about this rolling restart.

In:   a snapshot, a broker, its present file. Out: conditions; columns of the journal.
Elsewhere: the rolling restart itself (kind.py), what has to hold before each broker (policy/gates_forward.py), the
partitions, which stand in ZooKeeper by then (clusters/zookeeper_partitions.py).
Rules: a broker that has joined already is whole and is not restarted. One that goes back gets exactly its previous
file, with which it does not register with our controllers at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction
from migrator.fleet.files import Present, predecessor_path, read_present, write_file
from migrator.fleet.render import FileKind
from migrator.fleet.roll import RollStep
from migrator.model.verdict import Condition
from state_machine.clusters.log_observer import LogBroker
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.policy.conditions import replicas_are_settled, replicas_are_whole
from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.kind import RollKind
from state_machine.rolling.node_conditions import broker_whole
from state_machine.rolling.round import NodeTask, Round
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


class JoinRoll(RollKind):
    roll = Roll.JOIN

    def nodes(self, round: Round) -> tuple[FleetNode, ...]:
        """With Kafka's own controllers all but one, until the takeover was requested."""
        every = super().nodes(round)
        held = held_broker(round.snapshot, [each.id for each in every])
        return tuple(each for each in every if each.id != held)

    def last(self, round: Round) -> frozenset[int]:
        """The active controller, which is one of the brokers before the takeover."""
        look = round.snapshot.observation
        holder = None if look is None else look.zookeeper.holder_id
        return frozenset() if holder is None else frozenset({holder})

    def whole_by_role(self, round: Round, row: JournalRow, *, beside: bool) -> tuple[Condition, ...]:
        """One that was sent back does not register with our controllers."""
        road = round.road
        live = (presence(road.zookeeper_ids, row.node_id),)
        if row.kind == FileKind.BACK:
            return (*live, *replicas_are_whole(road), replicas_are_settled(road))
        return broker_whole(round, row, "ZooKeeper", live, alone=beside)

    def is_gone(self, round: Round, node: FleetNode) -> bool:
        return is_gone(round.snapshot, node.id)

    def found(self, task: NodeTask, present: Present | None) -> dict[str, Any] | None:
        return found_whole(task.round.snapshot, task.round.fleet, task.node, present)

    def write(self, task: NodeTask) -> dict[str, Any]:
        return write_before(task.node, task.row) if task.row.kind == FileKind.BACK else super().write(task)


def held_broker(snapshot: Snapshot, brokers: Sequence[int]) -> int | None:
    """The last broker, whose registration lets stock copy: the active controller where it has not joined, else the one
    with the highest id. None: our controllers wait for a request, or the takeover was requested, or nobody is left.
    """
    if not snapshot.inventory.has_stock or not snapshot.phase_row.before_takeover:
        return None
    begun = {row.node_id for row in snapshot.nodes_of(Roll.JOIN)}
    left = [each for each in brokers if each not in begun and registered(snapshot, each) is None]
    holder = None if snapshot.observation is None else snapshot.observation.zookeeper.holder_id
    return holder if holder in left else max(left, default=None)


def registered(snapshot: Snapshot, broker: int) -> LogBroker | None:
    """Present in both worlds; None while it is not, or while the log is not known."""
    look = snapshot.observation
    if look is None or not look.log.known or broker not in look.zookeeper.brokers:
        return None
    found = look.log.broker(broker)
    return found if found is not None and found.mode == "ZooKeeper" and found.ready else None


def found_whole(snapshot: Snapshot, fleet: Fleet, node: FleetNode, present: Present | None) -> dict[str, Any] | None:
    """Columns of a broker that has joined already; None for the others. Raises what forbids to render its file."""
    broker = registered(snapshot, node.id)
    if broker is None:
        return None
    said = "its actuator cannot read its file"
    if present is not None:
        changes = fleet.render(node, present, FileKind.MIGRATION).changes
        keys = ", ".join(sorted({each.key for each in changes}))
        said = f"its file lacks what would be rendered: {keys}" if keys else "its file is as rendered"
    return {
        "step": RollStep.WHOLE,
        "kind": str(FileKind.MIGRATION),
        "rendered_from": "" if present is None else present.checksum,
        "checksum": "" if present is None else present.checksum,
        "incarnation": broker.incarnation,
        "detail": f"it had joined already and was not restarted; {said}",
    }


def write_before(node: FleetNode, row: JournalRow) -> dict[str, Any]:
    """The predecessor of its migration file, to the byte. Blocks on the host. Raises Z2K-4204."""
    present = read_present(node.actuator, node.path)
    if present is None:
        raise STEP_FAILED.error(act="write", node=node.name, reason=f"{node.path} cannot be read by its actuator")
    if present.checksum == row.rendered_from:
        return {"checksum": present.checksum, "detail": "back: its file was not changed"}
    kept = read_present(node.actuator, predecessor_path(node.path, row.rendered_from))
    if kept is None or kept.checksum != row.rendered_from:
        reason = f"{predecessor_path(node.path, row.rendered_from)} is not the file that was kept"
        raise STEP_FAILED.error(act="write", node=node.name, reason=reason)
    written = write_file(node.actuator, node.id, node.path, kept.content, present)
    columns = {"checksum": kept.checksum, "detail": "back: the file from before the migration"}
    return {**columns, "instruction": written.text} if isinstance(written, Instruction) else columns


def is_gone(snapshot: Snapshot, broker: int) -> bool:
    """ZooKeeper does not have it. Whether it is registered in the log says nothing: most are not yet."""
    look = snapshot.observation
    return look is not None and not look.zookeeper.problem and broker not in look.zookeeper.brokers


def presence(live: tuple[int, ...], broker: int) -> Condition:
    there = broker in live
    return Condition("it is in /brokers/ids", there, "it is" if there else f"/brokers/ids has {list(live)}")
