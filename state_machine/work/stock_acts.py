"""What the service does by itself in each phase of a migration by Kafka's own controllers (`engine: stock`).

In:   a fresh snapshot with its evidence. Out: as acts.py.
Elsewhere: what is shared by both engines (acts.py, acts_after_dual_write.py), what is seen of stock
(evidence/stock_driver.py), its gates (policy/stock_gates.py), its end on a way back (rollback/stock_end.py).
Rules: what stock does is seen and written down, never requested. The one request that begins its copy is the restart of
the last broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from migrator.control_api.states import State
from state_machine.evidence.stock_driver import phase_shown, stock_driver
from state_machine.evidence.stock_flaws import flaw_findings
from state_machine.facts.engines import ControllerEngine
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence, Holder
from state_machine.policy.gates_back import claim_is_gone
from state_machine.policy.outcome import Blocked, Finished, Moving, Outcome, Waiting
from state_machine.policy.phases import Phase, Trigger, way
from state_machine.policy.stock_gates import stock_may_end
from state_machine.rollback.stock_end import StockEnd
from state_machine.rows.store import Snapshot, has_failed, is_under_way
from state_machine.work.acts import Acts


class ActsByEngine:
    """Each migration by the acts of its own engine."""

    def __init__(self, ours: Acts, stock: Acts) -> None:
        self._acts = {ControllerEngine.OURS: ours, ControllerEngine.STOCK: stock}

    async def act(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Raises nothing of its own."""
        return await self._acts[snapshot.engine].act(snapshot, evidence)


class StockActs(Acts):
    """One method per phase."""

    def __init__(self, end: StockEnd, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._end = end
        table: dict[Phase, Callable[[Snapshot, Evidence], Awaitable[Outcome]]] = {
            Phase.CREATED: self._created,
            Phase.PREFLIGHT: self._preflight,
            Phase.QUORUM: self._begin_quorum,
            Phase.BROKERS_JOINING: self._all_but_the_last,
            Phase.READY: self._held,
            Phase.TAKEOVER: self._last_broker,
            Phase.COPY: self._last_broker,
            Phase.AUDIT: self._audit_of_stock,
            Phase.DUAL_WRITE: self._stock_writes_both,
            Phase.ROLLING_BROKERS: self._rolling_to_kraft,
            Phase.SOAK: self._soak,
            Phase.FINALIZING: self._finalizing,
            Phase.COMPLETED: self._road.completed,
            Phase.ROLLING_BACK: self._back_from_stock,
            Phase.ROLLED_BACK: self._is_rolled_back,
        }
        self._table = table

    async def act(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """What stock has done since the last round is written down first."""
        seen = await self._as_seen(snapshot, evidence)
        outcome = seen or await super().act(snapshot, evidence)
        flaws = flaw_findings(snapshot, self._clock())
        return replace(outcome, problems=(*outcome.problems, *flaws)) if flaws else outcome

    async def _as_seen(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """The next step that log and ZooKeeper show, whoever brought it about. One step a round."""
        look = snapshot.observation
        if look is None:
            return None
        shown = phase_shown(snapshot.phase, stock_driver(look))
        triggers = way(snapshot.phase, shown, snapshot.engine)
        if not triggers or shown is snapshot.phase:
            return None
        proven = snapshot.phase is Phase.AUDIT and triggers[0] is Trigger.BROKERS_UPDATED
        formed = triggers[0] in (Trigger.QUORUM_FORMED, Trigger.BROKERS_JOINED)
        if proven or formed:  # these have gates of their own, and acts that lead there
            return None
        return await self._step_when_open(snapshot, evidence, triggers[0])

    # --- to the takeover -----------------------------------------------------------------------------------

    async def _begin_quorum(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        begun = await self._road.roll(snapshot, evidence, Roll.BEGIN)
        return begun or await self._step_when_open(
            snapshot, evidence, Trigger.QUORUM_FORMED, "every stock controller follows"
        )

    async def _all_but_the_last(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        if snapshot.joining:
            going = await self._road.roll(snapshot, evidence, Roll.JOIN)
            if going is not None:
                return going
        stepped = await self._step_when_open(
            snapshot, evidence, Trigger.BROKERS_JOINED, "one broker is left; its restart is the takeover"
        )
        if snapshot.joining or not isinstance(stepped, Waiting):
            return stepped
        return self._next_step(evidence, snapshot, "`zk2kraft advance` restarts every broker but the last, one by one")

    async def _held(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """A rehearsal and a check are kept fresh, so that a person can decide at any moment."""
        if self._is_due(evidence.rehearsal):
            self._inspections.rehearse(snapshot)
        check = evidence.check
        if check is None or check.age_s > self._settings.rehearsal_every_s:
            self._inspections.check(snapshot)
        running = self._inspections.running_s(snapshot.id, "rehearsal")
        if running is not None and (evidence.rehearsal is None or not evidence.rehearsal.passed):
            return Waiting(f"a rehearsal is made and audited ({running:.0f} s)")
        said = "`zk2kraft advance` restarts the last broker; stock copies and commits as soon as it has registered"
        return self._next_step(evidence, snapshot, said)

    async def _last_broker(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        released = await self._released_by_hand(snapshot, evidence)
        if released is not None:
            return released
        going = await self._joining(snapshot, evidence)
        return going or Moving(f"the takeover by stock: {evidence.driver_reason}")

    async def _released_by_hand(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """From the claim on: `zk2kraft rollback --without-controllers`, after stock was stopped."""
        return await self._returned(snapshot, evidence) if snapshot.phase_row.led_back else None

    async def _joining(self, snapshot: Snapshot, evidence: Evidence) -> Outcome | None:
        """From the claim on only a broker that is under way is led on: no other one needs a restart to join."""
        begun = any(is_under_way(row) or has_failed(row) for row in snapshot.nodes_of(Roll.JOIN))
        if snapshot.phase_row.led_back and not begun:
            return None
        return await self._road.roll(snapshot, evidence, Roll.JOIN)

    async def _audit_of_stock(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """A copy that diverged goes nowhere forward; the way back is open. No broker holds up the audit."""
        released = await self._released_by_hand(snapshot, evidence)
        if released is not None:
            return released
        audit = evidence.copy_audit
        proven = audit is not None and audit.passed
        if evidence.driver_state == State.DUAL_WRITE and not proven:
            await self._prove_copy(snapshot, evidence)
        going = await self._joining(snapshot, evidence)
        if going is not None:
            return going
        if evidence.driver_state == State.DUAL_WRITE and not proven:
            if audit is not None and audit.disagrees:
                return Blocked(f"stock's copy differs from ZooKeeper: {audit.said}; `zk2kraft rollback` leads back")
            said = "it has no result yet" if audit is None else audit.said
            return Waiting(f"the copy of stock is audited before dual-write counts ({said})")
        return await self._step_when_open(snapshot, evidence, Trigger.BROKERS_UPDATED, "stock writes both sides")

    # --- from dual-write to the end ------------------------------------------------------------------------

    async def _stock_writes_both(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        released = await self._returned(snapshot, evidence)
        if released is not None:
            return released
        if evidence.driver_state == State.FENCED:
            return Blocked(evidence.driver_reason)
        return Moving(f"dual-write by stock: {evidence.driver_reason}")

    async def _rolling_to_kraft(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        released = await self._returned(snapshot, evidence)
        if released is not None:
            return released
        return self._then(snapshot, evidence, await self._road.rolling_brokers(snapshot, evidence))

    # --- back ----------------------------------------------------------------------------------------------

    async def _back_from_stock(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        """Brokers into ZooKeeper mode while stock leads; then stock ends; then original files."""
        if snapshot.led_back and evidence.holder is not Holder.ZOOKEEPER_BROKER:
            back = await self._road.brokers_back(snapshot, evidence)
            if back is not None:
                return back
        if snapshot.migration.paused is not None and evidence.holder is Holder.OURS:
            return Waiting(f"paused before stock is stopped: {snapshot.migration.paused}")
        waits = evidence.holder is Holder.OURS and snapshot.led_back and not self._end.is_at_it(snapshot.id)
        if waits and not stock_may_end(evidence).holds:
            return Waiting(f"before stock is stopped: {stock_may_end(evidence).reason()}")
        ending = await self._end.step(snapshot, gone=claim_is_gone(evidence).holds)
        if ending is not None:
            return ending
        if not claim_is_gone(evidence).holds:
            return Waiting(claim_is_gone(evidence).reason())
        if snapshot.led_back:
            original = await self._road.original_files(snapshot, evidence)
            if original is not None:
                return original
        left = await self._road.keep_left_out(snapshot)
        why = f"stock is stopped, and a broker is controller{left}"
        return await self._step_when_open(snapshot, evidence, Trigger.FOUND_ROLLED_BACK, why)

    async def _is_rolled_back(self, snapshot: Snapshot, evidence: Evidence) -> Outcome:
        return Finished("a broker is the active controller, as it was before; the stock controllers are stopped")
