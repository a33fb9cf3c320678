"""Nodes that a way back leaves out because somebody said so by name, and nodes whose host gives no answer.

In:   a `Snapshot`: the waivers of the inventory and what the file watch read. Out: node ids, words, findings.
Elsewhere: what a stop takes away (stops.py), the restarts (rolling/), the form of a waiver (migrator.fleet.inventory).
Rules: only a waiver that names the node counts, never one for the cluster. What is unknown of one node closes the way
back for that node alone; it goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from migrator.findings.finding import Occurrence
from migrator.findings.road import NODE_HOLDS_WAY_BACK, NODE_LEFT_OUT
from migrator.fleet.roll import UNDER_WAY, RollStep
from state_machine.facts.accepted import WaiverFact
from state_machine.policy.fleet_evidence import RollbackPlan
from state_machine.rows.documents import (
    FILES,
    LEFT_OUT,
    FilesDocument,
    LeftOutDocument,
    LeftOutNode,
    document,
)
from state_machine.rows.store import Snapshot
from state_machine.rows.tables import JournalRow


def left_out(snapshot: Snapshot, now: float) -> dict[int, WaiverFact]:
    """By node id; of brokers and controllers, whose ids are different ones. now: seconds since 1970."""
    files = document(snapshot, FILES, FilesDocument)
    rows = () if files is None else files.waivers
    return {
        each.node: each
        for each in rows
        if each.what == NODE_HOLDS_WAY_BACK.code and each.node is not None and now < each.end
    }


def without_answer(snapshot: Snapshot) -> Mapping[int, str]:
    """Nodes whose host gave no answer at the last reading, with the reason."""
    files = document(snapshot, FILES, FilesDocument)
    return {} if files is None else {each.node: each.reason for each in files.no_answer}


def in_turn(rows: Iterable[JournalRow], left: Iterable[int]) -> list[JournalRow]:
    """The rows of a way back that count now. One that was left out while it was away, and is wanted again because its
    waiver ended, waits until the node that is under way is ended: two are never away at once.
    """
    out = set(left)
    found = [row for row in rows if row.node_id not in out]
    begun = [row for row in found if RollStep(row.step) in UNDER_WAY]
    if not begun:
        return found
    latest = max(begun, key=lambda row: (row.began_at or 0.0, row.node_id))
    away = (*UNDER_WAY, RollStep.FAILED)
    return [row for row in found if row is latest or RollStep(row.step) not in away]


def words_of_left_out(snapshot: Snapshot, now: float) -> str:
    """To be added to what is said of the others; empty when nobody is left out, and no controller is left as stock."""
    found = [f"{each.name}, by {each.owner} ({each.reason})" for each in nodes_left_out(snapshot, now)]
    said, stock = f"; left out by name: {'; '.join(found)}" if found else "", left_as_stock(snapshot, now)
    if stock:
        said += f"; controllers {list(stock)} have stock's file or are masked: started with it, they claim the cluster"
    return said


def left_as_stock(snapshot: Snapshot, now: float) -> tuple[int, ...]:
    """Controllers that the service stopped for stock and that are not ours again, in a cluster that went back by hand.
    Those that are left out by name are named as such.
    """
    kept = document(snapshot, LEFT_OUT, LeftOutDocument)
    return tuple(sorted(snapshot.replaced - left_out(snapshot, now).keys())) if kept is None else kept.stock


def nodes_left_out(snapshot: Snapshot, now: float) -> tuple[LeftOutNode, ...]:
    """What is kept when the way back is over; once it is kept, a waiver that ends later changes nothing."""
    kept = document(snapshot, LEFT_OUT, LeftOutDocument)
    if kept is not None:
        return kept.nodes
    controllers = snapshot.inventory.node_ids
    return tuple(
        LeftOutNode(f"{'controller' if node in controllers else 'broker'} {node}", each.owner, each.reason)
        for node, each in left_out(snapshot, now).items()
    )


def left_out_findings(snapshot: Snapshot, back: RollbackPlan | None, now: float) -> tuple[Occurrence, ...]:
    """While it is led, and after it. back: what is left of it."""
    found = []
    for node, reason in () if back is None else back.unknown:
        found.append(NODE_HOLDS_WAY_BACK.found(node=node, reason=reason.removesuffix(".")))
    nodes = nodes_left_out(snapshot, now)
    found += [NODE_LEFT_OUT.found(node=each.name, owner=each.owner, reason=each.reason) for each in nodes]
    return tuple(found)
