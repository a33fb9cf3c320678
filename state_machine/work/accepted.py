"""Operations that only a driver can carry out: deliver them, see what becomes of them, take them back.

In:   an operation with a fresh snapshot; a controller's status, which names what its driver keeps and has not begun.
Out:  the driver asked; an operation that ends as withdrawn; or the finding that ends it as refused.
Elsewhere: which operation asks what (phases.py), that one has begun (driver_history.py, from the driver's history).
Rules: an operation is meant for the run of the controller that was asked, and never delivered to another. A takeover is
delivered within TAKEOVER_KEPT_S of being asked for, on a gate that holds at that moment; its driver waits at its own
gate for as long again, unless the operation is taken back before. An undo is delivered to
its run for as long as that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from migrator.control_api.operations import NOT_BEGUN_IN, TAKEOVER_KEPT_S, DriverOperation
from migrator.control_api.states import WAITS, State
from migrator.findings.finding import FindingError
from migrator.findings.laboratory import CONTROL_REFUSED
from migrator.findings.service import CONTROLLER_SILENT, OPERATION_EXPIRED, OPERATION_FORGOTTEN
from state_machine.audits.inspections import Inspections
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.observe import ControllerObservation
from state_machine.policy.gates import BEFORE_BROKERS, Evidence
from state_machine.policy.phases import TRANSITIONS, Edge, Trigger, look_up
from state_machine.rows.store import Snapshot, Store
from state_machine.rows.tables import Operation
from state_machine.rows.transition import ask_gate

log = structlog.get_logger()

LOOKS_WITHOUT_MAX: Final = 3
"""A driver lets go of an operation a moment before its history shows that it began."""

DRIVER_OPERATIONS: Final[Mapping[Trigger, DriverOperation]] = {
    trigger: edge.asks for (_, trigger), edge in TRANSITIONS.items() if edge.asks is not None
}


class AcceptedOperations:
    """Delivers operations to drivers; each only once in this life of the service."""

    def __init__(
        self, store: Store, control: ControlClient, inspections: Inspections, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._control = control
        self._inspections = inspections
        self._clock = clock
        self._delivered: set[int] = set()
        self._looks_without: dict[int, int] = {}

    async def begin(self, snapshot: Snapshot, operation: Operation, edge: Edge, evidence: Evidence) -> None:
        """Ask the gate, then the driver. Raises `GateClosed`, Z2K-4061, Z2K-6012."""
        assert edge.asks is not None
        if edge.asks is DriverOperation.TAKE_OVER:
            self._refuse_old(operation)
        verdict = ask_gate(edge, Trigger(operation.name), evidence)
        active = _active(snapshot)
        assert active is not None, "the gate held, so a controller answered"
        if await self._store.away(self._store.accept_operation, operation.id, verdict, active.run):
            await self._deliver(snapshot, active, operation, edge.asks)

    async def follow(self, snapshot: Snapshot, operation: Operation, evidence: Evidence) -> None:
        """Asked before, not fulfilled yet. Raises what refuses it: `GateClosed`, Z2K-4060, 4061, 6012."""
        asks = DRIVER_OPERATIONS[Trigger(operation.name)]
        edge = look_up(snapshot.phase, Trigger(operation.name), engine=snapshot.engine)
        if edge.asks is not asks:
            raise OPERATION_FORGOTTEN.error(operation=asks, reason=f"the migration is in {snapshot.phase} now")
        active = _active(snapshot)
        if active is None or evidence.driver_state == State.IDLE:
            return  # who leads next will tell
        if active.run != operation.controller_run:
            reason = "the controller was restarted after the request, or another one is active now"
            raise OPERATION_FORGOTTEN.error(operation=asks, reason=reason)
        if active.operations is not None and asks in active.operations:
            await self._kept(snapshot, operation, asks)
        elif operation.id not in self._delivered:
            await self.begin(snapshot, operation, edge, evidence)
        elif active.operations is not None and evidence.driver_state in NOT_BEGUN_IN[asks]:
            self._count_without(operation, asks, evidence)

    async def take_back(self, snapshot: Snapshot, operation: Operation, why: str, outcome: str = "cancelled") -> bool:
        """Take an asked takeover back: True when it is certain that nothing comes of it, False when it has begun.

        outcome: what becomes of the operation then.
        Raises Z2K-4021 when the controller that was asked cannot be asked for that.
        """
        asked = self._whom(snapshot, operation)
        if asked is not None and not await self._control.cancel(asked, why):
            _, status = await self._control.status(asked)
            driver = status.driver
            gone = (
                driver is not None
                and driver.state in BEFORE_BROKERS | WAITS
                and DriverOperation.TAKE_OVER not in (driver.operations or ())
            )
            if not gone:
                return False
        await self._store.away(
            self._store.end_operation, operation.id, outcome, f"taken back before it began: {why}", at=self._clock()
        )
        return True

    async def take_back_replaced(self, snapshot: Snapshot, why: str) -> bool:
        """Take back what drivers keep of a takeover whose row an undo replaced; True when one did. One that cannot be
        asked goes on to be undone like one that has begun.
        """
        look = snapshot.observation
        taken = False
        for each in () if look is None else look.controllers:
            if DriverOperation.TAKE_OVER not in (each.operations or ()):
                continue
            try:
                taken = await self._control.cancel(_entry(snapshot, each), why) or taken
            except FindingError as error:
                log.warning("operation.not_taken_back", operation=Trigger.ADVANCE, reason=str(error))
        return taken

    # --- parts ---------------------------------------------------------------------------------------------

    async def _kept(self, snapshot: Snapshot, operation: Operation, asks: DriverOperation) -> None:
        """The driver will do it when it can; nobody waits for ever for a takeover, nor for one that is held."""
        self._delivered.add(operation.id)
        self._looks_without.pop(operation.id, None)
        if asks is not DriverOperation.TAKE_OVER:
            return
        late = self._clock() - operation.at > TAKEOVER_KEPT_S
        if not late and snapshot.migration.paused is None:
            return
        why, outcome = str(snapshot.migration.paused), "cancelled"
        if late:
            why, outcome = str(OPERATION_EXPIRED.error(age=round(self._clock() - operation.at))), "expired"
        try:
            await self.take_back(snapshot, operation, why, outcome)
        except FindingError as error:
            log.warning(
                "operation.not_taken_back", operation=operation.name, reason=str(error)
            )  # the next look tries again

    def _count_without(self, operation: Operation, asks: DriverOperation, evidence: Evidence) -> None:
        looks = self._looks_without[operation.id] = self._looks_without.get(operation.id, 0) + 1
        if looks > LOOKS_WITHOUT_MAX:
            reason = f"{evidence.driver_state}: {evidence.driver_reason}"
            raise OPERATION_FORGOTTEN.error(operation=asks, reason=f"the driver let go of it ({reason})")

    def _refuse_old(self, operation: Operation) -> None:
        """Raises Z2K-4061."""
        age = self._clock() - operation.at
        if age > TAKEOVER_KEPT_S:
            raise OPERATION_EXPIRED.error(age=round(age))

    def _whom(self, snapshot: Snapshot, operation: Operation) -> ControllerEntry | None:
        """The controller whose run was asked; None when that is over. Raises Z2K-4021: one that is silent may be it."""
        look = snapshot.observation
        assert look is not None, "somebody was asked, so somebody was seen"
        for each in look.controllers:
            if each.status is not None and each.run == operation.controller_run:
                return _entry(snapshot, each)
        for node, reason in look.silent().items():
            raise CONTROLLER_SILENT.error(node=node, reason=reason)
        return None

    async def _deliver(
        self, snapshot: Snapshot, active: ControllerObservation, operation: Operation, asks: DriverOperation
    ) -> None:
        """Nothing of ours reads ZooKeeper while the cluster has no controller. A silent controller is asked again."""
        if asks is DriverOperation.TAKE_OVER:
            await self._inspections.stop(snapshot.id)
        try:
            await self._control.ask(_entry(snapshot, active), asks, f"{operation.who}: {operation.reason}")
        except FindingError as error:
            if error.code == CONTROL_REFUSED.code:
                raise
            log.warning("operation.not_delivered", operation=operation.name, reason=str(error))
            return
        self._delivered.add(operation.id)
        log.info("operation.asked", operation=operation.name, asks=asks, who=operation.who)


def _active(snapshot: Snapshot) -> ControllerObservation | None:
    return None if snapshot.observation is None else snapshot.observation.active


def _entry(snapshot: Snapshot, evidence: ControllerObservation) -> ControllerEntry:
    return next(each for each in snapshot.inventory.controllers if each.node_id == evidence.node_id)
