"""Our controllers in the place of stock again, the first part of a rollback: which ones, and when one of them is there.

In:   a `Snapshot` with its evidence; a controller that is stopped. Out: node ids, conditions, columns of the journal.
Elsewhere: the order of acts (migrator.fleet.roll), the acts (roller.py), the file (broker_back.py), who starts our
processes (supervisor.py), when that is possible (policy/way_back_gates.py).
Rules: the actuator stops the stock controller and does not start it again; the supervisor starts ours, as before stock
came, once the journal has STARTED. Only controllers that were stopped for stock go back. Everything follows from the
journal, so that a service that dies goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from migrator.findings.road import STEP_FAILED
from migrator.fleet.actuator import Instruction, ProcessState
from migrator.fleet.files import read_present, write_file
from migrator.fleet.render import FileKind
from migrator.fleet.roll import UNDER_WAY, UNTOUCHED, RollStep
from migrator.fleet.ruins import is_ruin
from migrator.model.verdict import Condition
from state_machine.policy.gates import Evidence
from state_machine.policy.road_conditions import road_of
from state_machine.policy.road_observations import Roll
from state_machine.road.emergency.repaired import kept_file
from state_machine.road.fleet import Fleet, FleetNode
from state_machine.road.restart_evidence import file_change
from state_machine.store import Snapshot, reached
from state_machine.supervisor import QUICK_ENDS_MAX
from state_machine.tables import RoadNode

STOCK_ROLLS: Final = (Roll.STOCK, Roll.SOAK)
"""In the order in which a stock controller goes through them."""


def to_put_back(snapshot: Snapshot) -> tuple[int, ...]:
    """Controllers that were stopped for stock, and in whose place ours is not whole again."""
    back = {row.node_id for row in snapshot.nodes_of(Roll.OURS) if row.step == RollStep.WHOLE}
    stopped = {row.node_id for row in snapshot.nodes_of(Roll.STOCK) if reached(row) not in UNTOUCHED}
    return tuple(sorted(stopped - back))


def left_half_way(snapshot: Snapshot) -> tuple[int, ...]:
    """Controllers that a roll of stock has stopped and not brought to its end."""
    found = []
    for node in to_put_back(snapshot):
        rows = [row for roll in STOCK_ROLLS for row in snapshot.nodes_of(roll) if row.node_id == node]
        begun = [row for row in rows if reached(row) not in UNTOUCHED]
        if reached(begun[-1]) in UNDER_WAY:
            found.append(node)
    return tuple(found)


def others_away(evidence: Evidence, half_way: tuple[int, ...]) -> str | None:
    """A controller that was left half-way is stopped first; not while it follows and another one does not."""
    out = road_of(evidence).left_out
    lag = {each.id: each.lag for each in road_of(evidence).voters if each.id not in out}
    following = [each for each in half_way if lag.get(each) == 0]
    behind = sorted(each for each, records in lag.items() if records != 0 and each not in half_way)
    if not following or not behind:
        return None
    return f"controllers {following} are not stopped while controllers {behind} do not have what is committed"


def process_of(snapshot: Snapshot, row: RoadNode, answers: bool) -> ProcessState:
    """Of our process, once the supervisor may start it. It gives up on one that ends again and again."""
    if answers:
        return ProcessState.RUNNING
    process = snapshot.processes.get(row.node_id)
    gave_up = process is not None and process.quick_ends >= QUICK_ENDS_MAX
    return ProcessState.STOPPED if gave_up else ProcessState.NOT_READ


def answers_in_its_place(evidence: Evidence, row: RoadNode) -> Condition:
    """Whoever follows under this id could be stock; only ours has a control port."""
    silent = evidence.silent.get(row.node_id)
    said = "its control port answers" if silent is None else silent
    return Condition("a controller of ours answers in its place", silent is None, said)


def write_stock_again(fleet: Fleet, node: FleetNode, kept: Sequence[str]) -> dict[str, Any]:
    """Of a controller that a person sent back to stock alone. Blocks on the host. Raises Z2K-4204 and others.

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
