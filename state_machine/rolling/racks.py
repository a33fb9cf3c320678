"""Brokers of one rack that are restarted together, where the inventory wants that and the log shows that it may be.

In:   a round, rows of one rack. Out: an `Outcome`; None: one node after the other.
Elsewhere: which brokers are one rack (migrator.fleet.roll), counting (migrator.model.at_a_stop).
Rules: all are prepared before the first one is stopped, and all are in the journal, in one transaction, before the
first stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from migrator.findings.road import RACK_ONE_BY_ONE
from migrator.fleet.roll import NodeAct, RollEntry, RollStep, of_one_rack
from migrator.model.at_a_stop import lost_without
from migrator.model.verdict import Condition, Verdict
from state_machine.nodes.restart_evidence import ready_before
from state_machine.policy.outcome import Outcome, Waiting, said_of_several
from state_machine.rolling import journal
from state_machine.rolling.acts import NodeActs
from state_machine.rolling.registrations import registered_now
from state_machine.rolling.round import Means, RollWork, Round
from state_machine.rolling.table import KINDS
from state_machine.rows.store import Store
from state_machine.rows.tables import JournalRow

log = structlog.get_logger()


class Racks:
    def __init__(self, store: Store, acts: NodeActs, means: Means) -> None:
        self._store = store
        self._acts = acts
        self._means = means

    async def together(
        self,
        round: Round,
        act: NodeAct,
        rows: Mapping[int, JournalRow],
        entries: Sequence[RollEntry],
        ready: Verdict,
        *,
        first: int,
        last: frozenset[int],
    ) -> Outcome | None:
        """None: one node after the other, as without the option. first: whose turn it is. last: who goes last."""
        if round.fleet.inventory.at_once != "rack" or not round.row.by_rack:
            return None
        group = of_one_rack(_with_racks(round, entries), first, last)
        rack, ids = group[0].rack, [each.id for each in group]
        if len(group) < 2 or (round.roll, rack) in round.work.one_by_one:
            return None
        waiting = [each.id for each in group if each.step is RollStep.PENDING]
        if act is NodeAct.PREPARE or waiting:
            return said_of_several(
                [await self._acts.begin(round, rows[each], NodeAct.PREPARE, ready) for each in waiting]
            )
        closed = await self._acts.locked(round, rows[ids[0]])  # it may take its time: what is judged is judged after it
        if closed is not None:
            return closed
        against = await self._against(round, ids)
        if against:
            found = RACK_ONE_BY_ONE.found(rack=rack, reason=against)
            round.work.one_by_one[round.roll, rack] = ids, found
            log.warning("roll.rack_one_by_one", roll=round.roll, rack=rack, reason=against)
            return Waiting(f"{found.code} {found.text}", (found,))
        return await self._stop(round, [rows[each] for each in ids], ready)

    async def _against(self, round: Round, ids: Collection[int]) -> str:
        """Why these brokers are not stopped together, by the log as it is now; empty: nothing is against it."""
        road, image = round.road, self._acts.image(round.snapshot)
        unknown = [each for each in ids if each not in image.brokers]
        if road.log_problem or unknown:
            return road.log_problem or f"brokers {unknown} are not registered in the log"
        lost = await asyncio.to_thread(lost_without, image, road.min_isr.value, ids)
        if lost.count:
            return f"{lost.count} partitions would be below their minimum ISR, such as {', '.join(lost.first)}"
        taken = Verdict(KINDS[round.roll].takes(round.evidence, *ids))
        return "" if taken.holds else taken.reason()

    async def _stop(self, round: Round, rows: Sequence[JournalRow], ready: Verdict) -> Outcome:
        """All of them are in the journal, in one transaction, before the first stop."""
        at, ids = self._means.clock(), [row.node_id for row in rows]
        said = f"brokers {ids} of rack {rows[0].rack}: every partition keeps its minimum ISR without them"
        verdict = Verdict((*ready.conditions, Condition("its rack is restarted together", True, said)))
        columns = {
            row.node_id: {
                "step": RollStep.STOPPING,
                "instruction": "",
                **registered_now(round.snapshot, row),
                "began_at": at,
            }
            for row in rows
        }

        def write() -> None:
            journal.record_together(self._store, round.snapshot.id, round.roll, columns, ready_before(verdict, at), at)

        await self._store.away(write)
        log.info("roll.rack_together", roll=round.roll, nodes=ids)
        for row in rows:
            self._acts.start(round, row, NodeAct.STOP)
        return Waiting(f"brokers {ids} are stopped together")


def _with_racks(round: Round, entries: Sequence[RollEntry]) -> list[RollEntry]:
    """With the racks that brokers have registered; of the inventory where one registered none."""
    racks = {each.id: each.rack for each in round.log.brokers if each.rack}
    return [replace(each, rack=racks.get(each.id, each.rack)) for each in entries]


def naming_racks(found: Outcome | None, work: RollWork, rows: Iterable[JournalRow]) -> Outcome | None:
    """Adds the racks that are restarted one broker after the other although a rack at a time is asked for."""
    left = {(row.roll, row.node_id) for row in rows if row.step != RollStep.WHOLE}
    named = [why for (roll, _), (ids, why) in work.one_by_one.items() if any((roll, each) in left for each in ids)]
    if found is None or not named:
        return found
    return replace(found, problems=(*found.problems, *(each for each in named if each not in found.problems)))
