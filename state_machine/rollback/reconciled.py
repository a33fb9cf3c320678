"""Whether nodes are as the journal says: a database that was put back, or a copy that lagged, knows less than hosts.

In:   a `Snapshot`, a node of its fleet with its file. Out: contradictions, as the file watch keeps them; findings.
Elsewhere: the readings (file_watch.py), what `resume` makes of it (work/operations.py), the end (work/acts.py).
Rules: asked at each reading of the files, the first one right after a start of the service. A node that is under way
or failed contradicts nothing. Only nodes that the cluster misses are asked whether their process runs. Where stock took
the place of one of ours, only stock's process is meant: the supervisor starts ours again by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.road import NODE_NOT_AS_JOURNAL
from migrator.fleet.actuator import ProcessState
from migrator.fleet.render import FLAG
from migrator.fleet.roll import UNDER_WAY, UNTOUCHED, RollStep
from state_machine.nodes.fleet import FleetNode
from state_machine.policy.fleet_evidence import BROKERS, Roll
from state_machine.policy.rolls import ROLLS
from state_machine.rollback.left_out import left_out
from state_machine.rows.documents import FILES, FilesDocument, NotAsNoted, document
from state_machine.rows.store import Snapshot, reached

KRAFT_KEY: Final = "process.roles"
OUR_KEYS: Final = "zk2kraft."
"""The service starts none of its controllers without one of them (Z2K-4011), and stock's file has none."""
MISSED_MS: Final = 10_000
"""A voter that fetched nothing for so long is missed by the quorum."""


def contradiction_of(
    snapshot: Snapshot, node: FleetNode, keys: Mapping[str, str], *, stopped: bool
) -> NotAsNoted | None:
    """Of a node that the roll of this phase has not touched."""
    roll = _contradicted(snapshot, node.role)
    if roll is None:
        return None
    rows = [row for row in snapshot.road if (row.role, row.node_id) == (node.role, node.id)]
    if any(RollStep(row.step) in UNDER_WAY or row.step == RollStep.FAILED for row in rows):
        return None
    step = next((row.step for row in rows if row.roll == roll), "nothing")
    if step not in (*UNTOUCHED, "nothing"):
        return None
    written = _written(snapshot, node, roll, keys)
    found = [f"its file {node.path} is {written}"] if written else []
    found += ["its process is stopped"] if stopped else []
    return NotAsNoted(node.id, node.role, step, " and ".join(found), stopped) if found else None


def _contradicted(snapshot: Snapshot, role: str) -> Roll | None:
    """The roll in which nothing may have been done yet with a node of this role."""
    roll = snapshot.phase_row.contradicted
    return roll if roll is not None and ROLLS[roll].role == role else None


def _written(snapshot: Snapshot, node: FleetNode, roll: Roll, keys: Mapping[str, str]) -> str:
    """What its file is that the roll would only make of it; empty when it is the file from before."""
    match roll:
        case Roll.KRAFT if KRAFT_KEY in keys:
            return "one of KRaft mode"
        case Roll.STOCK if _is_silent(snapshot, node.id) and not any(key.startswith(OUR_KEYS) for key in keys):
            return "one of stock"
        case Roll.FINAL if keys.get(FLAG, "").strip().lower() != "true":
            return "one without the migration flag"
        case _:
            return ""


def contradiction_findings(files: FilesDocument) -> tuple[Occurrence, ...]:
    return tuple(
        NODE_NOT_AS_JOURNAL.found(node=f"{each.role} {each.node}", step=each.step, found=each.found)
        for each in files.contradicting
    )


def may_go_on(snapshot: Snapshot) -> tuple[tuple[Roll, int], ...]:
    """Nodes that the cluster misses now and that the journal has as PREPARED: it lost what came after, and `resume`
    goes on with their stop. One that is PENDING has to be started first: what its file was before is not known.

    In FINALIZING only where the intent stands in ZooKeeper. Else somebody else stopped it, and all of the gate counts.
    A controller that runs is stopped only while every other voter follows.
    """
    files = document(snapshot, FILES, FilesDocument)
    found = []
    for each in () if files is None else files.contradicting:
        roll = _contradicted(snapshot, each.role)
        rows = () if roll is None else snapshot.nodes_of(roll)
        prepared = any(row.node_id == each.node and row.step == RollStep.PREPARED for row in rows)
        if roll is not None and prepared and _is_of_the_service(snapshot, roll, each):
            found.append((roll, each.node))
    return tuple(sorted(found))


def _is_of_the_service(snapshot: Snapshot, roll: Roll, found: NotAsNoted) -> bool:
    """Whether its stop is what the service would have done next."""
    look = snapshot.observation
    match roll:
        case Roll.STOCK:
            return _is_silent(snapshot, found.node) and _may_stop(snapshot, found)
        case Roll.SOAK:
            return found.stopped and _misses_voter(snapshot, found.node)
        case Roll.FINAL:
            return look is not None and bool(look.zookeeper.intent) and _may_stop(snapshot, found)
        case _:
            return found.stopped and _misses_broker(snapshot, found.node)


def _may_stop(snapshot: Snapshot, found: NotAsNoted) -> bool:
    """It is stopped already, or every other voter follows: what runs is never stopped while another one is away."""
    others = set(snapshot.inventory.node_ids) - {found.node}
    return found.stopped or not any(_misses_voter(snapshot, each) for each in others)


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
    """Whether its process is worth asking for: the cluster does without it, in a phase in which it may be one that
    nothing was done with. The process of ours is not that of the unit, where the service starts it.
    """
    roll = _contradicted(snapshot, node.role)
    if roll is None:
        return False
    if node.role == BROKERS:
        return _misses_broker(snapshot, node.id)
    elsewhere = any(each.node_id == node.id and each.is_remote for each in snapshot.inventory.controllers)
    return (roll is not Roll.STOCK or elsewhere) and _misses_voter(snapshot, node.id)


def _misses_broker(snapshot: Snapshot, broker: int) -> bool:
    """By the log; while it is not observed, by ZooKeeper."""
    look = snapshot.observation
    if look is None:
        return False
    known = look.log.broker(broker) if look.log.known else None
    if known is not None:
        return not known.ready
    return broker not in look.zookeeper.brokers


def _misses_voter(snapshot: Snapshot, node: int) -> bool:
    """While the log is not observed, nobody knows better: it may be this voter that it lacks."""
    look = snapshot.observation
    if look is None or not look.log.known:
        return look is not None
    voter = look.log.voter(node)
    silent = voter is None or voter.fetched_ms_ago is None or voter.fetched_ms_ago > MISSED_MS
    return silent and look.log.leader != node


def _is_silent(snapshot: Snapshot, controller: int) -> bool:
    """Nobody answers at the control port of ours."""
    look = snapshot.observation
    return look is not None and controller in look.silent()


def is_stopped(node: FleetNode) -> bool:
    """Blocks on its host. One that gives no answer says nothing."""
    try:
        return node.actuator.status().state is ProcessState.STOPPED
    except FindingError:
        return False
