"""Looks at the hosts of nodes that are under way, and what is known of such a node now.

In:   a round, a row of the journal. Out: a `NodeNow`, or that its host has not answered yet.
Elsewhere: what is done because of it (loop.py), what counts in a kind of roll (kind.py).
Rules: a look that hangs holds no round. What was seen before its row changed counts for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import structlog

from migrator.findings.finding import FindingError
from migrator.fleet.actuator import ProcessState
from migrator.fleet.by_others import ByOthers
from migrator.fleet.connections.many import read_ahead
from migrator.fleet.files import checksum_of
from migrator.fleet.roll import UNDER_WAY, NodeNow, RollStep
from migrator.model.image import Image
from migrator.model.verdict import Condition
from state_machine.nodes.disks import look_at_disks
from state_machine.nodes.fleet import FleetNode
from state_machine.nodes.identity import not_ended
from state_machine.policy.fleet_evidence import BROKERS
from state_machine.policy.rolls import facts_of
from state_machine.rolling.kind import RollKind
from state_machine.rolling.round import Means, NodeLook, NodeSeen, Round
from state_machine.rows.tables import JournalRow

log = structlog.get_logger()

LOOK_AT_NODE_EVERY_S: Final = 1.0
LOOK_PATIENCE_S: Final = 0.5
"""A round waits so long for the look at a host; after that it goes on, and the look with it."""
LOOK_BESIDE_S: Final = 0.05
LOOK_COUNTS_S: Final = 5.0
"""What a look found long before the round that comes for it, as after a hanging observation, is looked at again."""


def are_together(rows: Iterable[JournalRow]) -> bool:
    """Several nodes are away, or one beside a failed one: of a rack that was stopped together."""
    steps = [RollStep(row.step) for row in rows]
    begun = sum(each in UNDER_WAY for each in steps)
    return begun > 1 or (begun == 1 and RollStep.FAILED in steps)


class HostLooks:
    """Keeps no state of its own: what was seen lies in the round's work."""

    def __init__(self, means: Means) -> None:
        self._means = means

    async def node_now(self, round: Round, kind: RollKind, row: JournalRow, image: Image) -> NodeNow | None:
        """None: its host has not answered yet."""
        node, work = round.node(row), round.work
        seen = work.seen.get((round.roll, node.id))
        if seen is None or self._means.steady() - seen.at >= LOOK_AT_NODE_EVERY_S:
            # while one that was started becomes whole, the look before counts until the next one has its answer
            stands = seen if row.step == RollStep.STARTED and seen is not None and self._is_young(seen) else None
            patience_s = LOOK_PATIENCE_S if stands is None else LOOK_BESIDE_S
            looked = await self._looked(round, row, image, patience_s)
            if looked is not None:
                kind.see(round, row, looked)
                work.seen[round.roll, node.id] = looked
            seen = looked or stands
            if seen is None:
                return None
        beside = are_together(round.rows) and round.row.by_rack
        whole = kind.whole(round, row, seen, beside=beside)
        gone = kind.is_gone(round, node)
        return NodeNow(
            seen.process,
            whole,
            gone=gone,
            file_is_rendered=seen.rendered,
            registered_anew=kind.registered_anew(round, row),
            trouble=work.repeats.trouble(round.roll, node.id),
            not_ended=not_ended(node, seen.process, gone=gone),
            answered=seen.answered,
            registers_never=kind.registers_never(round, row, seen),
        )

    async def _looked(self, round: Round, row: JournalRow, image: Image, patience_s: float) -> NodeSeen | None:
        """A look that began with this row. One that hangs holds no round: it goes on, and None is the answer."""
        work, key, now = round.work, (str(round.roll), row.node_id), (row.step, row.checksum)
        look = work.looks.get(key)
        if look is None or (look.task.done() and not self._counts(look, now)):
            node = round.node(row)
            coroutine = self._means.hosts.away(round.snapshot.id, self._look_at_node, node, row, image)
            work.looks[key] = look = NodeLook(key, now, asyncio.create_task(coroutine), self._means.steady())
        await asyncio.wait({look.task}, timeout=patience_s)
        if not look.task.done() or look.row != now:
            return None
        work.looks.pop(key, None)
        return look.task.result()

    def _counts(self, look: NodeLook, row: tuple[str, str]) -> bool:
        """Of one that is over: the node is where it was, and that is not long ago."""
        failed = look.task.exception() is not None
        return look.row == row and (failed or self._is_young(look.task.result()))

    def _is_young(self, seen: NodeSeen) -> bool:
        return self._means.steady() - seen.at < LOOK_COUNTS_S

    def waited_for(self, round: Round, row: JournalRow) -> str:
        look = round.work.looks.get((str(round.roll), row.node_id))
        seconds = 0.0 if look is None else self._means.steady() - look.since
        return f"{row.role} {row.node_id}: its host is looked at ({seconds:.0f} s)"

    def _look_at_node(self, node: FleetNode, row: JournalRow, image: Image) -> NodeSeen:
        """A host that does not answer is not known, and no reason to fail."""
        answered = False if isinstance(node.actuator, ByOthers) else None
        try:
            if isinstance(node.actuator, ByOthers):
                answered = node.actuator.answered()
            process = node.actuator.status().state
        except FindingError as error:
            log.warning("roll.status_not_read", node=node.id, reason=str(error))
            process = ProcessState.NOT_READ
        looks_at_disks = node.role == BROKERS and row.step == RollStep.STARTED and facts_of(row.roll).log_dirs
        directories = node.node.log_dirs if looks_at_disks else ()
        node = replace(node, actuator=read_ahead(node.actuator, [node.path, *directories]))
        try:
            content = node.actuator.read(node.path)
        except FindingError:
            content = None
        rendered = None if content is None else checksum_of(content) == row.checksum
        seen = NodeSeen(self._means.steady(), process, rendered)
        seen.answered = answered
        if looks_at_disks:
            disks = look_at_disks(node, image, with_ids=False)
            codes = () if disks.trouble is None else (disks.trouble.code,)
            said = disks.said if disks.trouble is None else disks.trouble.text
            seen.disks = Condition("no directory of the broker is stray", disks.trouble is None, said, codes)
        return seen
