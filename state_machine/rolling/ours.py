"""OURS: our controllers in the place of stock again, the first part of a rollback: when one of them is there.

In:   a `Round` with its evidence; a controller that is stopped. Out: conditions, columns of the journal.
Elsewhere: which controllers (rollback/controllers_back.py), the order of acts (migrator.fleet.roll), the file
(rollback/previous_file.py), who starts our processes (supervisor.py), when that is possible (policy/gates_back.py).
Rules: the actuator stops the stock controller and does not start it again; the supervisor starts ours, as before stock
came, once the journal has STARTED.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction, ProcessState
from migrator.fleet.files import read_present, write_file
from migrator.fleet.render import FileKind
from migrator.fleet.roll import RollStep
from migrator.fleet.ruins import is_ruin
from migrator.model.verdict import Condition, Verdict
from state_machine.children.supervisor import QUICK_ENDS_MAX
from state_machine.facts.voters import has_what_is_committed
from state_machine.nodes.fleet import Fleet, FleetNode
from state_machine.nodes.restart_evidence import file_change
from state_machine.policy.conditions import claim_is_ours, fleet_evidence_of, guards_are_proven, zookeeper_follows
from state_machine.policy.fleet_evidence import FleetEvidence, Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.outcome import Waiting
from state_machine.rollback import controllers_back
from state_machine.rollback.left_out import without_answer
from state_machine.rollback.plan import kept_for
from state_machine.rollback.repaired import kept_file
from state_machine.rollback.stops import controller_may_stop
from state_machine.rolling.journal import is_sent_back
from state_machine.rolling.our_processes import ours_runs, stop_with_ours
from state_machine.rolling.round import NodeSeen, NodeTask, Round
from state_machine.rolling.ways_back import WayBackKind, in_any_case
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


class OursRoll(WayBackKind):
    roll = Roll.OURS

    def needed(self, snapshot: Snapshot) -> tuple[int, ...]:
        return controllers_back.to_put_back(snapshot)

    def half_way(self, round: Round) -> Waiting | tuple[int, ...]:
        found = controllers_back.left_half_way(round.snapshot)
        others = others_away(round.evidence, found)
        if others is not None:
            return Waiting(others)
        silent = without_answer(round.snapshot)
        return tuple(each for each in found if each not in silent)

    def may_stop(self, evidence: Evidence) -> Verdict:
        road = fleet_evidence_of(evidence)
        follows = () if _ours_will_follow(road) else (zookeeper_follows(road),)
        guards = guards_are_proven(road, road.left_out)
        return Verdict((*in_any_case(evidence), claim_is_ours(evidence), *follows, *guards))

    def may_stop_node(self, round: Round, node: int) -> tuple[Condition, ...]:
        return controller_may_stop(round.road, node)

    def see(self, round: Round, row: JournalRow, seen: NodeSeen) -> None:
        """A controller of ours has its process elsewhere than the host's supervisor says."""
        answers = ours_runs(round.means.launcher, round.snapshot, row.node_id)
        if row.step == RollStep.STARTED and not is_sent_back(row):
            seen.process = process_of(round.snapshot, row, answers)
        elif answers:
            seen.process = ProcessState.RUNNING

    def whole_by_role(self, round: Round, row: JournalRow, *, beside: bool) -> tuple[Condition, ...]:
        found = super().whole_by_role(round, row, beside=beside)
        return found if is_sent_back(row) else (answers_in_its_place(round.evidence, row), *found)

    def stop(self, task: NodeTask) -> dict[str, Any]:
        return stop_with_ours(task)

    def write(self, task: NodeTask) -> dict[str, Any]:
        if not is_sent_back(task.row):
            return super().write(task)
        kept = (task.row.rendered_from, kept_for(task.round.snapshot, task.node.id, FileKind.BACK))
        return write_stock_again(task.round.fleet, task.node, kept)

    def order_start(self, task: NodeTask) -> dict[str, Any]:
        """The supervisor starts ours, once the journal has STARTED."""
        return super().order_start(task) if is_sent_back(task.row) else {}


def _ours_will_follow(road: FleetEvidence) -> bool:
    """Stock that finds configuration of clients' metrics in the log never comes to the end of its comparison with
    ZooKeeper. No broker reads ZooKeeper then; ours bring it up to date before one does (`ours_lead_again`).
    """
    return not road.zookeeper


def others_away(evidence: Evidence, half_way: tuple[int, ...]) -> str | None:
    """A controller that was left half-way is stopped first; not while it follows and another one does not."""
    out = fleet_evidence_of(evidence).left_out
    voters = [each for each in fleet_evidence_of(evidence).voters if each.id not in out]
    has_all = {each.id for each in voters if has_what_is_committed(each)}
    following = [each for each in half_way if each in has_all]
    behind = sorted(each.id for each in voters if each.id not in has_all and each.id not in half_way)
    if not following or not behind:
        return None
    return f"controllers {following} are not stopped while controllers {behind} do not have what is committed"


def process_of(snapshot: Snapshot, row: JournalRow, answers: bool) -> ProcessState:
    """The state of our process, once the supervisor may start it. It gives up on one that ends again and again."""
    if answers:
        return ProcessState.RUNNING
    process = snapshot.processes.get(row.node_id)
    gave_up = process is not None and process.quick_ends >= QUICK_ENDS_MAX
    return ProcessState.STOPPED if gave_up else ProcessState.NOT_READ


def answers_in_its_place(evidence: Evidence, row: JournalRow) -> Condition:
    """Whoever follows under this id could be stock; only ours has a control port."""
    silent = evidence.silent.get(row.node_id)
    said = "its control port answers" if silent is None else silent
    return Condition("a controller of ours answers in its place", silent is None, said)


def write_stock_again(fleet: Fleet, node: FleetNode, kept: Sequence[str]) -> dict[str, Any]:
    """Writes stock's file for a controller that a person sent back alone. Blocks on the host. Raises Z2K-4204, others.

    kept: checksums of its files that lie beside the present one, that of stock first. The first of them stands for a
    present file that was cut.
    """
    present = read_present(node.actuator, node.path)
    if present is None:
        raise STEP_FAILED.error(act="write", node=node.name, reason=f"{node.path} cannot be read by its actuator")
    files = [found for each in kept if (found := kept_file(node, each)) is not None]
    cut = bool(files) and is_ruin(present.content, *(each.content for each in files))
    rendered = fleet.render(node, files[0] if cut else present, FileKind.STOCK)
    written = write_file(node.actuator, node.id, node.path, rendered.content, present)
    columns = {"checksum": rendered.checksum, "detail": "stock again", "evidence": file_change(rendered)}
    return {**columns, "instruction": written.text} if isinstance(written, Instruction) else columns
