"""Whether nodes are as the journal says: a database that was put back, or a copy that lagged, knows less than hosts.

In:   a `Snapshot`, a node of its fleet with its file. Out: contradictions, as the file watch keeps them; findings.
Elsewhere: the readings (file_watch.py), what `resume` makes of it (operations.py), the end (acts.py).
Rules: asked at each reading of the files, the first one right after a start of the service. A node that is under way
or failed contradicts nothing. Only nodes that the cluster misses are asked whether their process runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import NODE_NOT_AS_JOURNAL
from migrator.fleet.actuator import ProcessState
from migrator.fleet.roll import UNDER_WAY, UNTOUCHED, RollStep
from state_machine.policy.phases import Phase
from state_machine.policy.road_observations import BROKERS, Roll
from state_machine.road.documents import FILES, FilesDocument, NotAsNoted, document
from state_machine.road.emergency.left_out import left_out
from state_machine.road.fleet import FleetNode
from state_machine.store import Snapshot, reached

KRAFT_KEY: Final = "process.roles"
WATCHED: Final = (Phase.DUAL_WRITE, Phase.ROLLING_BROKERS)
"""Phases in which a broker may be one that nothing was done with yet."""


def contradiction_of(
    snapshot: Snapshot, node: FleetNode, keys: Mapping[str, str], *, stopped: bool
) -> NotAsNoted | None:
    """Of a broker that the roll into KRaft mode has not touched."""
    if node.role != BROKERS or snapshot.phase not in WATCHED:
        return None
    rows = [row for row in snapshot.road if (row.role, row.node_id) == (node.role, node.id)]
    if any(RollStep(row.step) in UNDER_WAY or row.step == RollStep.FAILED for row in rows):
        return None
    step = next((row.step for row in rows if row.roll == Roll.KRAFT), "nothing")
    if step not in (*UNTOUCHED, "nothing"):
        return None
    found = [f"its file {node.path} is one of KRaft mode"] if KRAFT_KEY in keys else []
    found += ["its process is stopped"] if stopped else []
    return NotAsNoted(node.id, node.role, step, " and ".join(found), stopped) if found else None


def contradiction_findings(files: FilesDocument) -> tuple[Occurrence, ...]:
    return tuple(
        NODE_NOT_AS_JOURNAL.found(node=f"{each.role} {each.node}", step=each.step, found=each.found)
        for each in files.contradicting
    )


def may_go_on(snapshot: Snapshot) -> tuple[int, ...]:
    """Brokers that are stopped, that the cluster misses now, and that the journal has as PREPARED: it lost what came
    after, and `resume` goes on with their stop. One that is PENDING has to be started first: what its file was before
    is not known.
    """
    files = document(snapshot, FILES, FilesDocument)
    stopped = {each.node for each in (() if files is None else files.contradicting) if each.stopped}
    prepared = {row.node_id for row in snapshot.nodes_of(Roll.KRAFT) if row.step == RollStep.PREPARED}
    return tuple(sorted(each for each in stopped & prepared if _is_missed(snapshot, each)))


def stopped_by_us(snapshot: Snapshot, half_way: Iterable[int], now: float) -> tuple[Occurrence, ...]:
    """Brokers that ZooKeeper does not have, of those that the service stopped and did not bring to an end (`half_way`).
    While there is one, nobody says that the cluster is back as it was. One that is left out by name is named elsewhere.
    """
    look = snapshot.observation
    live = () if look is None else look.zookeeper.brokers
    out = left_out(snapshot, now)
    found = []
    for node in half_way:
        if node in live or node in out:
            continue
        steps = [each for each in snapshot.road if (each.role, each.node_id) == (BROKERS, node)]
        row = max(steps, key=lambda each: each.changed_at)
        what = "the service stopped it, and it is not in /brokers/ids"
        found.append(NODE_NOT_AS_JOURNAL.found(node=f"broker {node}", step=f"{row.roll} {reached(row)}", found=what))
    return tuple(found)


def is_missed(snapshot: Snapshot, node: FleetNode) -> bool:
    """A broker, in phases in which it may be one that nothing was done with."""
    return node.role == BROKERS and snapshot.phase in WATCHED and _is_missed(snapshot, node.id)


def _is_missed(snapshot: Snapshot, broker: int) -> bool:
    """By the log; while it is not observed, by ZooKeeper."""
    look = snapshot.observation
    if look is None:
        return False
    known = look.log.broker(broker) if look.log.known else None
    if known is not None:
        return not known.ready
    return broker not in look.zookeeper.brokers


def is_stopped(node: FleetNode) -> bool:
    """Blocks on its host. One that gives no answer says nothing."""
    try:
        return node.actuator.status().state is ProcessState.STOPPED
    except FindingError:
        return False
