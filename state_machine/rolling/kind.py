"""A kind of roll: which nodes, when, how each is acted on and when it is whole. What is written here is a way forward.

In:   a `Round`, or on a host a `NodeTask`. Out: nodes, conditions, columns of the journal.
Elsewhere: what differs (join.py to original.py), ways back (ways_back.py), facts without code (policy/rolls.py), who
asks (loop.py, looks.py), which kind a roll is (table.py).
Rules: a kind decides nothing: it says what holds, and does what it is told. Methods that get a `NodeTask` block on the
host, on a thread, and may be repeated. What one of them raises stopped the act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import structlog

from migrator.driver.checks.replacing import brokers_with_passwords
from migrator.findings.finding import FindingError
from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction, Performed
from migrator.fleet.files import Present, read_present, write_file
from migrator.fleet.render import FileKind
from migrator.model.verdict import Condition, Verdict
from state_machine.nodes.disks import look_at_disks
from state_machine.nodes.fleet import FleetNode
from state_machine.nodes.restart_evidence import file_change
from state_machine.policy.conditions import claim_is_ours, fleet_evidence_of, log_is_observed
from state_machine.policy.fleet_evidence import BROKERS, Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Waiting
from state_machine.policy.rolls import ROLLS, RollRow
from state_machine.policy.step_conditions import When, conditions_of
from state_machine.policy.taken import restarts_are_accepted
from state_machine.rollback.previous_file import write_back
from state_machine.rollback.repaired import whole_file
from state_machine.rolling import registrations
from state_machine.rolling.node_conditions import broker_whole, controller_whole, own_process
from state_machine.rolling.round import NodeSeen, NodeTask, Round
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow

log = structlog.get_logger()


class RollKind:
    """One object per kind, without state."""

    roll: ClassVar[Roll]

    @property
    def facts(self) -> RollRow:
        return ROLLS[self.roll]

    # --- which nodes, and in which order -------------------------------------------------------------------

    def nodes(self, round: Round) -> tuple[FleetNode, ...]:
        return round.fleet.of(self.facts.role)

    def half_way(self, round: Round) -> Waiting | tuple[int, ...]:
        """Nodes that another roll stopped and did not bring to their end: they go on with their stop, before any other
        one. Or why the roll does not begin yet.
        """
        return ()

    def rows(self, round: Round) -> tuple[JournalRow, ...]:
        """The rows of its journal that count now."""
        return round.rows

    def turns(self, snapshot: Snapshot) -> Mapping[int, int]:
        """Nodes with a smaller one are begun before; by node id, 0 for those that are not named."""
        return {}

    def last(self, round: Round) -> frozenset[int]:
        """The active controller; of brokers those on its machine."""
        leader = round.log.leader
        if leader is None:
            return frozenset()
        if self.facts.role != BROKERS:
            return frozenset({leader})
        hosts = {each.node.host for each in round.fleet.of("controller") if each.id == leader}
        return frozenset(each.id for each in round.fleet.of(BROKERS) if each.node.host in hosts)

    # --- what has to hold ----------------------------------------------------------------------------------

    def tend(self, round: Round) -> None:
        """What a round needs to be told, beside the cluster's own observation; it begins here."""

    def may_stop(self, evidence: Evidence) -> Verdict:
        """What has to hold of the cluster before any node of this roll is stopped."""
        return Verdict(conditions_of(evidence, self.roll, When.STOP))

    def ready(self, round: Round) -> Verdict:
        """`may_stop`, with what was tended."""
        return self.may_stop(round.evidence)

    def ready_of(self, round: Round, node: int, cluster: Verdict) -> Verdict:
        """What has to hold before this node is stopped. cluster: `ready`."""
        return cluster

    def takes(self, evidence: Evidence, *nodes: int) -> tuple[Condition, ...]:
        """What the stop of these nodes together takes from partitions that are whole."""
        return restarts_are_accepted(fleet_evidence_of(evidence), nodes) if self.facts.role == BROKERS else ()

    def around(self, evidence: Evidence) -> Verdict:
        """What has to hold of the cluster until a node that was started counts as whole."""
        return Verdict(conditions_of(evidence, self.roll, When.WHOLE))

    def is_asked_before_stop(self, row: JournalRow) -> bool:
        """Whether what the service asks before each stop of this roll is about this node."""
        return True

    # --- what is observed of a node ------------------------------------------------------------------------

    def see(self, round: Round, row: JournalRow, seen: NodeSeen) -> None:
        """Corrects what its host's supervisor says of the process, where that is not all."""

    def whole(self, round: Round, row: JournalRow, seen: NodeSeen, *, beside: bool) -> Verdict:
        """What has to hold of the node that was started, before the next one. beside: others are restarted with it."""
        own = (*own_process(seen.process, seen.rendered), log_is_observed(round.road))
        disks = () if seen.disks is None or row.role != BROKERS else (seen.disks,)
        return Verdict((*own, *self.whole_by_role(round, row, beside=beside), *disks))

    def whole_by_role(self, round: Round, row: JournalRow, *, beside: bool) -> tuple[Condition, ...]:
        if row.role == BROKERS:
            return broker_whole(round, row, "ZooKeeper" if row.kind == FileKind.BACK else "KRaft", alone=beside)
        return (*controller_whole(round, row, flag=True), claim_is_ours(round.evidence))

    def is_gone(self, round: Round, node: FleetNode) -> bool:
        """The cluster does not count it as present."""
        return registrations.is_gone(round.snapshot, node)

    def registered_anew(self, round: Round, row: JournalRow) -> bool:
        return registrations.registered_anew(round.snapshot, row)

    def registers_never(self, round: Round, row: JournalRow, seen: NodeSeen) -> bool:
        """Only another restart makes it register."""
        return False

    # --- acts on its host ----------------------------------------------------------------------------------

    def prepare(self, task: NodeTask) -> dict[str, Any]:
        """Reads, while it runs, what its next file is and what stands against it."""
        node, kind = task.node, self.facts.file
        present = read_present(node.actuator, node.path)
        found = self.found(task, present)
        if found is not None:
            return found
        if present is None:
            raise STEP_FAILED.error(act="prepare", node=node.name, reason=f"{node.path} cannot be read by its actuator")
        checksum, detail, shown = present.checksum, "its file stays", {}
        if kind is not None:
            encoded = bool(brokers_with_passwords(task.image))
            rendered = task.round.fleet.render(node, present, kind, passwords_encoded=encoded)
            checksum, shown = rendered.checksum, file_change(rendered)
            changed = ", ".join(sorted({each.key for each in rendered.changes}))
            detail = f"{kind} file: {changed or 'nothing'} changes; {task.round.means.kafka_says(rendered)}"
        if node.role == BROKERS and self.facts.log_dirs:
            detail = f"{detail}; {disks_said(task, with_ids=True)}"
        return {
            "kind": "" if kind is None else str(kind),
            "rendered_from": present.checksum,
            "checksum": checksum,
            "incarnation": registrations.incarnation(task.round.snapshot, node.role, node.id),
            "detail": detail,
            "evidence": shown,
        }

    def found(self, task: NodeTask, present: Present | None) -> dict[str, Any] | None:
        """Columns of a node that needs no restart; None for the others. Raises where it is not as the journal says."""
        return None

    def stop(self, task: NodeTask) -> dict[str, Any]:
        return performed(task.node.actuator.stop())

    def write(self, task: NodeTask) -> dict[str, Any]:
        if task.row.kind == FileKind.BACK:
            return write_back(task.round.fleet, task.node, task.row)
        return performed(self.write_rendered(task))

    def write_rendered(self, task: NodeTask) -> Performed | None:
        """Rendered anew from what stands there, so that a cut between stop and start loses nothing."""
        fleet, node, row, kind = task.round.fleet, task.node, task.row, self.facts.file
        if kind is None:
            return None
        present = read_present(node.actuator, node.path)
        if present is None:
            raise STEP_FAILED.error(act="write", node=node.name, reason=f"{node.path} cannot be read by its actuator")
        if present.checksum == row.checksum:
            return self.allow(task, present.content)
        base = whole_file(
            node, present, row.rendered_from, row.checksum, lambda kept: fleet.render(node, kept, kind).content
        )
        rendered = fleet.render(node, base, kind)
        if rendered.checksum != row.checksum:
            reason = f"{node.path}: the inventory means another file by now than before the stop"
            raise STEP_FAILED.error(act="write", node=node.name, reason=reason)
        allowed = self.allow(task, rendered.content)
        written = write_file(node.actuator, node.id, node.path, rendered.content, Present(node.path, present.content))
        if not isinstance(written, Instruction):
            return allowed
        return written if allowed is None else Instruction(f"{allowed.text} Then: {written.text}", written.bundle)

    def allow(self, task: NodeTask, content: bytes) -> Instruction | None:
        """What its host has to be told before this file stands there."""
        return None

    def start(self, task: NodeTask) -> dict[str, Any]:
        taken_over = self.taken_over(task)
        look = task.round.snapshot.observation
        return {**self.order_start(task), **taken_over, "log_end": 0 if look is None else look.log.high_watermark}

    def order_start(self, task: NodeTask) -> dict[str, Any]:
        return performed(task.node.actuator.start())

    def taken_over(self, task: NodeTask) -> dict[str, Any]:
        """A file that somebody corrected after a start with it failed is the one that is meant, if it is still what a
        node of this kind has.
        """
        node, row, kind = task.node, task.row, self.facts.file
        if kind is None or row.kind != kind:
            return {}
        present = read_present(node.actuator, node.path)
        if present is None or present.checksum == row.checksum:
            return {}
        rendered = task.round.fleet.render(node, present, kind)
        if rendered.checksum != present.checksum:
            keys = ", ".join(sorted({each.key for each in rendered.changes}))
            reason = f"{node.path} was changed since it was written, and it is no {kind} file any more ({keys})"
            raise STEP_FAILED.error(act="start", node=node.name, reason=reason)
        log.info("roll.file_taken_over", roll=self.roll, node=node.id)
        said = "its file was changed after it was written, and is taken over"
        return {"checksum": present.checksum, "detail": f"{row.detail}; {said}"}


def performed(answer: Performed | None) -> dict[str, Any]:
    return {"instruction": answer.text} if isinstance(answer, Instruction) else {}


def disks_said(task: NodeTask, *, with_ids: bool) -> str:
    """What stands in the log directories of a broker, in words. with_ids: with the topic ids of the log."""
    disks = look_at_disks(task.node, task.image, with_ids=with_ids)
    if disks.trouble is not None:
        raise FindingError(disks.trouble)
    return disks.said
