"""Carry out what people asked for: look the step up, ask its gate, take it or ask the driver for it.

In:   a recorded operation, a fresh snapshot with its evidence.
Out:  a step taken, a driver asked, or a refusal with its verdict, written beside the operation.
Elsewhere: recording operations (api), what became of an operation that a driver was asked (accepted.py), the rows of
steps that a driver takes (driver_history.py).
Rules: a handler already asked the gate, but the cluster may have moved: the verdict here is the one that counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import structlog

from migrator.findings.finding import FindingError
from migrator.findings.road import BACK_REFUSED, FINALIZE_NOT_APPROVED
from migrator.findings.service import NOT_POSSIBLE_HERE, VERSION_MOVED
from migrator.fleet.roll import UNTOUCHED, RollStep
from migrator.model.verdict import Verdict
from state_machine.audits.inspections import Inspections
from state_machine.clusters.control import ControlClient
from state_machine.clusters.log_observer import LogObservation
from state_machine.evidence.of_gates import asked_by
from state_machine.evidence.of_gates import evidence as evidence_of
from state_machine.finish import give_up
from state_machine.finish.version_raise import VersionRaise
from state_machine.policy.conditions import fleet_evidence_of
from state_machine.policy.finalize_gates import is_begun_by
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll
from state_machine.policy.gates import Evidence
from state_machine.policy.gates_back import (
    broker_may_go_back,
    controller_may_be_stock_again,
    joined_broker_may_go_back,
)
from state_machine.policy.phase_table import PHASES, ROWS, PhaseRow, phases_where
from state_machine.policy.phases import (
    APPROVED,
    OPERATIONS,
    PEOPLE,
    STEPS,
    OperationName,
    Phase,
    Trigger,
    by_name,
    look_up,
    require_named,
)
from state_machine.policy.raises import raise_of
from state_machine.policy.rolls import ROLLS
from state_machine.rollback.cancelled import cancel
from state_machine.rollback.plan import loss_of
from state_machine.rollback.reconciled import may_go_on
from state_machine.rolling.journal import is_sent_back, send_back
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import JournalRow, Operation
from state_machine.rows.transition import SERVICE, GateClosed, PhaseStep, StepSource, ask_gate, take
from state_machine.work.accepted import AcceptedOperations
from state_machine.work.agreement import agreement, require_bound

log = structlog.get_logger()

WITH_BACK: Final[Mapping[Roll, Callable[[Evidence, int], Verdict]]] = {
    Roll.JOIN: joined_broker_may_go_back,
    Roll.KRAFT: broker_may_go_back,
    Roll.OURS: controller_may_be_stock_again,
}
"""Rolls of which a failed node may return, alone, to its previous file: a broker, or a controller that was stock."""


class Operations:
    """Settles one operation after the other."""

    def __init__(
        self,
        store: Store,
        control: ControlClient,
        inspections: Inspections,
        raises: VersionRaise,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._raises = raises
        self._store = store
        self._clock = clock
        self._accepted = AcceptedOperations(store, control, inspections, clock)

    async def settle(self, snapshot: Snapshot, operation: Operation, evidence: Evidence) -> None:
        """Do what is possible now; an operation that waits for the driver stays pending."""
        if operation.name in (OperationName.PAUSE, OperationName.RESUME):
            said = await self._what_goes_on(snapshot, operation) if operation.name == OperationName.PAUSE else ""
            stopped = may_go_on(snapshot)
            await self._store.away(self._store.pause, operation, at=self._clock(), said=said, stopped=stopped)
            return
        try:
            if operation.name == OperationName.APPROVE:
                await self._approve(snapshot, operation, evidence)
            elif operation.name == OperationName.BACK:
                await self._send_back(snapshot, operation, evidence)
            elif operation.state == "accepted":
                await self._accepted.follow(snapshot, operation, evidence)
            else:
                await self._begin(snapshot, operation, evidence)
        except GateClosed as closed:
            await self._refuse(operation, closed)
        except FindingError as error:
            await self._refuse(operation, error)

    async def _begin(self, snapshot: Snapshot, operation: Operation, evidence: Evidence) -> None:
        trigger = Trigger(operation.name)
        if (snapshot.phase, trigger) == (Phase.READY, Trigger.ABORT):
            await self._abort_before(snapshot, operation)
            return
        if (snapshot.phase, trigger) == (Phase.FINALIZING, Trigger.ABORT):
            await self._give_finalize_up(snapshot, operation, evidence)
            return
        if OPERATIONS[operation.name].undoes:
            await self._accepted.take_back_replaced(snapshot, f"{operation.who} requested {PEOPLE[trigger]}")
        version = snapshot.migration.version
        if trigger is not Trigger.ABORT and operation.expected_version != version:
            raise VERSION_MOVED.error(found=version, expected=operation.expected_version)
        to = None if operation.to_phase is None else Phase(operation.to_phase)
        wanted = raise_of(operation.feature)
        if wanted is not None:
            evidence = evidence_of(snapshot, self._clock(), wanted)
        by_name(snapshot.phase, trigger, to)
        edge = look_up(snapshot.phase, trigger, to, snapshot.engine)
        require_named(snapshot.phase, edge, to)
        if edge.asks is not None:
            await self._accepted.begin(snapshot, operation, edge, evidence)
            return
        ask_gate(edge, trigger, asked_by(evidence, operation.who))
        done = ""
        if trigger is Trigger.RAISE_VERSION:
            done = await self._raises.perform(snapshot, evidence, operation.who, wanted)
        step = PhaseStep(
            trigger=trigger,
            source=StepSource(SERVICE, version),
            at=self._clock(),
            who=operation.who,
            reason="; ".join(filter(None, (done, operation.reason))) or "no reason given",
            operation_id=operation.id,
        )
        await self._store.away(
            take,
            self._store,
            snapshot.id,
            step,
            expected_version=version,
            evidence=asked_by(evidence, operation.who),
            now=self._clock(),
            also=cancel if (snapshot.phase, trigger) == (Phase.ROLLING_BACK, Trigger.ADVANCE) else None,
        )

    async def _approve(self, snapshot: Snapshot, operation: Operation, evidence: Evidence) -> None:
        """Bound to what the approver read, which is what is there at this moment. Raises what refuses it."""
        if operation.to_phase == Phase.ROLLING_BACK:
            await self._consent(snapshot, operation)
            return
        to = APPROVED if operation.to_phase is None else Phase(operation.to_phase)
        wanted = raise_of(operation.feature)
        if wanted is not None:
            evidence = evidence_of(snapshot, self._clock(), wanted)
        verdict = approvable(snapshot.phase, evidence, to)
        if not verdict.holds:
            raise GateClosed("approve", verdict)
        found = agreement(snapshot, to, wanted)
        require_bound(operation, found)
        what = PHASES[to].approval if wanted is None else f"the raise of {wanted.words}"
        said = f"{operation.who} approved {what}; it counts for 4 h, and until anything in it changes"
        operation.to_phase = to
        plan = dict(found.document)
        await self._store.away(self._store.approve, operation, found.digest, plan, at=self._clock(), said=said)

    async def _consent(self, snapshot: Snapshot, operation: Operation) -> None:
        """To exactly what a rollback would lose now. Raises Z2K-4003."""
        lost = may_consent(snapshot)
        found = agreement(snapshot, Phase.ROLLING_BACK)
        require_bound(operation, found)
        said = f"{operation.who} consented to lose {'; '.join(lost) or 'nothing'}; it counts for 4 h, and for this list"
        plan = dict(found.document)
        await self._store.away(self._store.approve, operation, found.digest, plan, at=self._clock(), said=said)

    async def _send_back(self, snapshot: Snapshot, operation: Operation, evidence: Evidence) -> None:
        """The failed node alone; the rolling restart carries it out. Raises Z2K-4216."""
        row = may_send_back(snapshot, evidence)
        incarnation = _registered(snapshot, row)
        said = f"broker {row.node_id} is stopped, gets its previous file, and is started in ZooKeeper mode"
        if row.role == CONTROLLERS:
            said = f"controller {row.node_id} is stopped, gets its stock file, and is started as stock again"

        def write() -> None:
            with self._store.writing() as session:
                found = session.get_one(JournalRow, (row.migration_id, row.roll, row.node_id))
                send_back(session, found, incarnation, at=self._clock())
                written = session.get_one(Operation, operation.id)
                written.state, written.answer, written.ended_at = "succeeded", said, self._clock()

        await self._store.away(write)
        log.warning("roll.sent_back", node=row.node_id, who=operation.who)

    async def _abort_before(self, snapshot: Snapshot, operation: Operation) -> None:
        """In READY: take back the takeover that was asked for. One that has begun is aborted when the phase shows it.

        Raises Z2K-4021 when a controller that may keep it does not answer, Z2K-4003 when nobody asked for any.
        """
        why = f"{operation.who} requested abort"
        replaced = await self._store.away(self._store.replaced_by, operation)
        kept = await self._accepted.take_back_replaced(snapshot, why)
        if replaced is None and not kept:
            raise NOT_POSSIBLE_HERE.error(operation="abort", phase=snapshot.phase, possible="advance, rollback")
        asked = replaced is not None and replaced.controller_run is not None
        if asked and replaced is not None and not await self._accepted.take_back(snapshot, replaced, why):
            return
        answer = "the requested takeover is cancelled; nothing begins"
        await self._store.away(self._store.end_operation, operation.id, "succeeded", answer, at=self._clock())

    async def _give_finalize_up(self, snapshot: Snapshot, operation: Operation, evidence: Evidence) -> None:
        """Refused at once, or taken as soon as no controller is stopped: the rolling restart puts one back before that.

        Raises `GateClosed`, but not while one is put back: at its stop another controller may have to be elected.
        """
        edge = look_up(snapshot.phase, Trigger.ABORT, engine=snapshot.engine)
        going = any(map(give_up.is_put_back, snapshot.nodes_of(Roll.FINAL)))
        if (going or give_up.stopped(snapshot)) and not give_up.started(snapshot):
            if not going:
                ask_gate(edge, Trigger.ABORT, evidence)
            if give_up.stopped(snapshot) or not edge.gate(evidence).holds:
                return
        ask_gate(edge, Trigger.ABORT, evidence)
        version, at = snapshot.migration.version, self._clock()
        step = PhaseStep(
            trigger=Trigger.ABORT,
            source=StepSource(SERVICE, version),
            at=at,
            who=operation.who,
            reason="; ".join(filter(None, (give_up.what_was_done(snapshot), operation.reason))),
            operation_id=operation.id,
        )
        also = partial(give_up.forget, snapshot=snapshot, who=operation.who)
        taken = partial(take, expected_version=version, evidence=evidence, now=at, also=also)
        await self._store.away(taken, self._store, snapshot.id, step)

    async def _what_goes_on(self, snapshot: Snapshot, operation: Operation) -> str:
        """A pause keeps steps from beginning: one that a driver was asked for is cancelled, one that began goes on."""
        if snapshot.phase_row.without_controller:
            return BEGUN
        advance = next(
            (each for each in snapshot.operations if (each.name, each.state) == (Trigger.ADVANCE, "accepted")), None
        )
        if advance is None:
            return ""
        try:
            if await self._accepted.take_back(snapshot, advance, f"{operation.who} paused the migration"):
                return f"the takeover that {advance.who} requested is cancelled; nothing begins"
        except FindingError as error:
            return f"the takeover that {advance.who} requested may still begin; it was not cancelled: {error}"
        return BEGUN

    async def _refuse(self, operation: Operation, error: FindingError) -> None:
        verdict = error.verdict if isinstance(error, GateClosed) else None
        log.warning("operation.refused", operation=operation.name, who=operation.who, reason=str(error))
        await self._store.away(
            self._store.end_operation, operation.id, "refused", str(error), at=self._clock(), verdict=verdict
        )


def approvable(phase: Phase, evidence: Evidence, to: Phase) -> Verdict:
    """Everything of the gate but the approval itself. Raises Z2K-4003 where that does not have to be approved."""
    waits = phase is Phase.FINALIZING and not is_begun_by(fleet_evidence_of(evidence))
    here = Phase.SOAK if waits else phase  # the gate is asked again before the first stop, and an approval ends
    edges = [STEPS[evidence.engine].get((here, trigger)) for trigger in (Trigger.ADVANCE, Trigger.RAISE_VERSION)]
    edge = next((each for each in edges if each is not None and PHASES[each.to].approval), None)
    if edge is None or edge.to is not to:
        word, possible = "approve", "nothing needs an approval here"
        if edge is not None:
            word, possible = f"approve {to}", f"approve {edge.to}"
        raise NOT_POSSIBLE_HERE.error(operation=word, phase=phase, possible=possible)
    conditions = edge.gate(evidence).conditions
    return Verdict(tuple(each for each in conditions if FINALIZE_NOT_APPROVED.code not in each.codes))


def may_consent(snapshot: Snapshot) -> tuple[str, ...]:
    """What would be lost. Raises Z2K-4003 where a rollback loses nothing that has to be consented to."""
    if not (snapshot.phase_row.needs_consent or snapshot.led_back):
        needs = ", ".join(phases_where(lambda row: row.needs_consent))
        where = f"a rollback needs consent in {needs} only"
        raise NOT_POSSIBLE_HERE.error(operation="approve to ROLLING_BACK", phase=snapshot.phase, possible=where)
    return loss_of(snapshot)


def sent_back_roll(row: PhaseRow) -> Roll | None:
    """The roll of this phase whose failed node may return, alone, to its previous file; None where there is none."""
    return next((each for each in row.rolls if each in WITH_BACK), None)


def may_send_back(snapshot: Snapshot, evidence: Evidence) -> JournalRow:
    """The failed broker of BROKERS_JOINING or ROLLING_BROKERS, or the failed controller that ours could not replace in
    ROLLING_BACK. Raises Z2K-4216 where there is none, or it may not go back.
    """
    roll = sent_back_roll(snapshot.phase_row)
    if roll is None:
        possible = ", ".join(each for each, row in ROWS[snapshot.engine].items() if sent_back_roll(row) is not None)
        raise BACK_REFUSED.error(node="A node", reason=f"that is possible in {possible}, not in {snapshot.phase}")
    row = next((each for each in snapshot.nodes_of(roll) if each.step == RollStep.FAILED), None)
    if row is None:
        raise BACK_REFUSED.error(node=f"A {ROLLS[roll].role}", reason="none failed")
    if row.failed_in in UNTOUCHED and not is_sent_back(row):
        reason = "it was not stopped and has its previous file"
        raise BACK_REFUSED.error(node=f"{row.role} {row.node_id}", reason=reason)
    verdict = WITH_BACK[roll](evidence, row.node_id)
    if not verdict.holds:
        raise BACK_REFUSED.error(node=f"{row.role} {row.node_id}", reason=verdict.reason())
    return row


def _registered(snapshot: Snapshot, row: JournalRow) -> str:
    """The incarnation of its present registration; empty when there is none."""
    log = LogObservation() if snapshot.observation is None else snapshot.observation.log
    found = log.broker(row.node_id) if row.role == BROKERS else log.controller(row.node_id)
    return "" if found is None else found.incarnation


BEGUN = "the takeover has begun, and a pause does not stop it; `zk2kraft abort` ends it until the commit"
