"""Each restart of each node in its order, as planned and as it was; the same by host; what changes in which file.

In:   `ChangeFacts`. Out: values of document.py.
Elsewhere: how long it takes (durations.py), carrying it out (state_machine/rolling).
Rules: what the journal has stands first, in the order in which it began; what is left follows in the order in which the
service begins it: by rack and id, the active controller and its machine last, as it is now. Ways back are shown as
far as the journal has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from migrator.fleet.inventory import Inventory, Node
from migrator.fleet.render import RULES, FileKind
from migrator.fleet.roll import RollEntry, RollStep, in_order
from state_machine.change.document import Fact, FilePlan, HostPlan, KeyRule, NodePlan, Restart
from state_machine.change.facts import ChangeFacts
from state_machine.nodes.restart_evidence import Held, RestartDocument
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll
from state_machine.policy.phase_table import PHASE_OF, PHASES, WAY_FORWARD, PhaseStage
from state_machine.policy.phases import Phase
from state_machine.policy.rolls import FORWARD, ROLLS, WAYS_BACK
from state_machine.rows.documents import FILES, FilesDocument, document
from state_machine.rows.tables import JournalRow

DONE: Final = (RollStep.WHOLE, RollStep.BACK)
NOTHING_KEPT: Final = RestartDocument()


def restarts_of(facts: ChangeFacts) -> tuple[Restart, ...]:
    """Numbered from 1. After the way back began, nothing more is planned forward."""
    nodes = _nodes(facts.inventory)
    rows = [*_journal(facts)]
    planned = [] if _ended(facts) else [*_planned(facts, rows)]
    found = [_restart(facts, row, nodes) for row in rows] + [_pending(roll, role, node) for roll, role, node in planned]
    order = {roll: at for at, roll in enumerate(ROLLS)}
    found.sort(key=lambda each: order[Roll(each.roll)])  # stable: inside a roll the order above stays
    return tuple(replace(each, number=number) for number, each in enumerate(found, 1))


def _ended(facts: ChangeFacts) -> bool:
    return PHASES[facts.snapshot.phase].stage in (PhaseStage.ROLLBACK, PhaseStage.OVER)


def _journal(facts: ChangeFacts) -> list[JournalRow]:
    """Begun ones in the order of their beginning, then the others as the roll would take them."""
    begun = sorted(
        (row for row in facts.journal if row.began_at is not None or row.step in DONE),
        key=lambda row: (row.began_at if row.began_at is not None else row.changed_at, row.node_id),
    )
    left = [row for row in facts.journal if row.began_at is None and row.step not in DONE]
    if _ended(facts):  # they were prepared, and never begun
        left = [row for row in left if row.roll in WAYS_BACK] if facts.snapshot.phase is Phase.ROLLING_BACK else []
    entries = [
        RollEntry(id=at, role=row.role, step=RollStep(row.step), rack=row.rack, turn=row.node_id)
        for at, row in enumerate(left)
    ]
    last = _last_of(facts)
    ordered = sorted(
        entries, key=lambda each: (each.step is not RollStep.PREPARED, each.turn in last, each.rack, each.turn)
    )
    return begun + [left[each.id] for each in ordered]


def _planned(facts: ChangeFacts, rows: Sequence[JournalRow]) -> Iterable[tuple[Roll, str, Node]]:
    """Restarts of which the journal has nothing yet."""
    if facts.inventory is None:
        return
    known = {(row.roll, row.node_id) for row in rows}
    for roll in FORWARD:
        if _is_over(facts, roll):
            continue
        role = ROLLS[roll].role
        nodes = {each.id: each for each in _of(facts.inventory, role)}
        entries = [RollEntry(each.id, role, RollStep.PENDING, rack=each.rack) for each in nodes.values()]
        last = _last_of(facts) if role == CONTROLLERS else _on_its_machine(facts)
        for entry in in_order(entries, last):
            if (str(roll), entry.id) not in known:
                yield roll, role, nodes[entry.id]


def _is_over(facts: ChangeFacts, roll: Roll) -> bool:
    """Its phase is behind, so that what the journal lacks was not done by this service."""
    return place(facts.snapshot.phase) > place(PHASE_OF[roll])


def place(phase: Phase) -> int:
    """On the way forward. An aborted takeover leads to READY; a rollback is behind everything."""
    if phase is Phase.ABORTING:
        return WAY_FORWARD.index(Phase.TAKEOVER)
    return WAY_FORWARD.index(phase) if PHASES[phase].forward else len(WAY_FORWARD)


def _last_of(facts: ChangeFacts) -> frozenset[int]:
    """The active controller, as it is now."""
    look = facts.snapshot.observation
    if look is None:
        return frozenset()
    leader = look.log.leader if look.log.known and look.log.leader is not None else look.zookeeper.holder_id
    return frozenset() if leader is None else frozenset({leader})


def _on_its_machine(facts: ChangeFacts) -> frozenset[int]:
    assert facts.inventory is not None
    last = _last_of(facts)
    hosts = {each.host for each in facts.inventory.nodes if each.id in last}
    return frozenset(each.id for each in facts.inventory.brokers if each.host in hosts)


# --- one restart ------------------------------------------------------------------------------------------


def _restart(facts: ChangeFacts, row: JournalRow, nodes: Mapping[tuple[str, int], Node]) -> Restart:
    node = nodes.get((row.role, row.node_id))
    kept = facts.kept.get((row.roll, row.node_id), NOTHING_KEPT)
    done = row.step in DONE and row.began_at is not None
    trouble = f"{row.code} {row.cause}".strip()
    return Restart(
        number=0,
        roll=row.roll,
        phase=PHASE_OF[Roll(row.roll)],
        role=row.role,
        node=row.node_id,
        host="" if node is None else node.host,
        rack=row.rack,
        path=row.path,
        file=row.kind or _file_of(Roll(row.roll)),
        step=row.step,
        began_at=row.began_at,
        ended_at=row.changed_at if done else None,
        seconds=round(max(row.changed_at - row.began_at, 0.0), 1) if done and row.began_at is not None else None,
        checksum_before=row.rendered_from,
        checksum_after=row.checksum,
        log_end=row.log_end,
        detail=row.detail,
        trouble=f"in {row.failed_in}: {trouble}" if row.step == RollStep.FAILED else trouble,
        diff=kept.diff,
        ready=_facts(kept.before),
        whole=_facts(kept.after),
    )


def _pending(roll: Roll, role: str, node: Node) -> Restart:
    return Restart(
        number=0,
        roll=roll,
        phase=PHASE_OF[roll],
        role=role,
        node=node.id,
        host=node.host,
        rack=node.rack,
        path=node.properties,
        file=_file_of(roll),
        step=RollStep.PENDING,
        began_at=None,
        ended_at=None,
        seconds=None,
        checksum_before="",
        checksum_after="",
        log_end=0,
        detail="",
        trouble="",
        diff=(),
        ready=(),
        whole=(),
    )


def _file_of(roll: Roll) -> str:
    kind = ROLLS[roll].file
    return "" if kind is None else str(kind)


def _facts(held: Iterable[Held]) -> tuple[Fact, ...]:
    return tuple(Fact(name=each.name, message=each.message) for each in held)


# --- hosts and files --------------------------------------------------------------------------------------


def hosts_of(facts: ChangeFacts, restarts: Iterable[Restart]) -> tuple[HostPlan, ...]:
    """By name of host; on a host brokers first."""
    if facts.inventory is None:
        return ()
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for each in restarts:
        numbers[each.role, each.node].append(each.number)
    files = document(facts.snapshot, FILES, FilesDocument) or FilesDocument(0.0)
    hosts: dict[str, list[NodePlan]] = defaultdict(list)
    for role, node in _nodes(facts.inventory).items():
        checksum = files.checksums.get(f"{role[0]} {node.id}", "")
        hosts[node.host].append(_node(facts.inventory, role[0], node, checksum, tuple(numbers[role])))
    return tuple(HostPlan(host=host, nodes=tuple(those)) for host, those in sorted(hosts.items()))


def _node(inventory: Inventory, role: str, node: Node, checksum: str, restarts: tuple[int, ...]) -> NodePlan:
    spec = node.actuator or inventory.actuator
    kind = "" if spec is None else str(type(spec).__struct_config__.tag)
    template = getattr(spec, "template", "")
    return NodePlan(
        role=role,
        node=node.id,
        rack=node.rack,
        path=node.properties,
        log_dirs=node.log_dirs,
        actuator=f"{kind} {template}".strip(),
        unit=node.unit or node.container or "",
        guard=node.guard or "",
        file_now=checksum,
        restarts=restarts,
    )


def files_of(restarts: Iterable[Restart]) -> tuple[FilePlan, ...]:
    """Once for each kind of file that some restart writes."""
    kinds = dict.fromkeys((each.role, each.file) for each in restarts if each.file)
    return tuple(
        FilePlan(
            role=role,
            file=file,
            rules=tuple(
                KeyRule(key=rule.key, action=str(rule.action), reason=rule.reason, since=rule.since)
                for rule in RULES.get((role, FileKind(file)), ())
            ),
        )
        for role, file in kinds
    )


def _of(inventory: Inventory, role: str) -> tuple[Node, ...]:
    return inventory.brokers if role == BROKERS else inventory.controllers


def _nodes(inventory: Inventory | None) -> dict[tuple[str, int], Node]:
    if inventory is None:
        return {}
    return {(role, each.id): each for role in (BROKERS, CONTROLLERS) for each in _of(inventory, role)}
