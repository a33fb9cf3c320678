"""Wishes that only a driver can carry out: hand them over, see what becomes of them, take them back.

In:   a wish with a fresh snapshot; a controller's status, which names what its driver keeps and has not begun.
Out:  the driver asked; a wish that ends as withdrawn; or the finding that ends it as refused.
Elsewhere: which wish asks what (phases.py), that one has begun (driver_history.py, from the driver's history).
Rules: a wish is meant for the run of the controller that was asked, and never handed on to another. A takeover is
handed over within TAKEOVER_KEPT_S of being asked for, on a gate that holds at that moment; its driver waits at its own
gate for as long again, unless the wish is taken back before. An undo is handed over to
its run for as long as that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import structlog

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import CONTROL_REFUSED
from migrator.findings.service import CONTROLLER_SILENT, WISH_FORGOTTEN, WISH_TOO_OLD
from state_machine.audits.inspections import Inspections
from state_machine.clusters.control import ControlPort
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.observe import ControllerSeen
from state_machine.policy.gates import BEFORE_BROKERS, UNCLAIMED, WAITS, Evidence
from state_machine.policy.phases import TRANSITIONS, Ask, Edge, Signal, look_up
from state_machine.store import Snapshot, Store
from state_machine.tables import Wish
from state_machine.transition import ask_gate

log = structlog.get_logger()

TAKEOVER_KEPT_S: Final = 60.0
"""Later, whoever asked may not be there any more. A driver keeps the wish as long, from when it received it."""
LOOKS_WITHOUT_MAX: Final = 3
"""A driver lets go of a wish a moment before its history shows that it began."""

ASKS: Final[Mapping[Signal, Ask]] = {
    signal: edge.asks for (_, signal), edge in TRANSITIONS.items() if edge.asks is not None
}
NOT_BEGUN: Final[Mapping[Ask, frozenset[str]]] = {
    Ask.TAKE_OVER: UNCLAIMED,
    Ask.ABORT: frozenset({"COMMITTING", "SYNCING", "TELLING_BROKERS"}),
    Ask.HAND_BACK: frozenset({"COMMITTING", "RESUMING", "SYNCING", "TELLING_BROKERS", "DUAL_WRITE", "FENCED"}),
}
"""States in which a driver without the wish has not begun the step and will not; an abort is never kept, it comes in
time or too late. Any other state is left for the history to tell.
"""


class Asked:
    """What this life of the service knows to have been delivered is not handed over again."""

    def __init__(
        self, store: Store, control: ControlPort, inspections: Inspections, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._control = control
        self._inspections = inspections
        self._clock = clock
        self._delivered: set[int] = set()
        self._looks_without: dict[int, int] = {}

    async def begin(self, snapshot: Snapshot, wish: Wish, edge: Edge, seen: Evidence) -> None:
        """Ask the gate, then the driver. Raises `GateClosed`, Z2K-4061, Z2K-6012."""
        assert edge.asks is not None
        if edge.asks is Ask.TAKE_OVER:
            self._refuse_old(wish)
        verdict = ask_gate(edge, Signal(wish.name), seen)
        active = _active(snapshot)
        assert active is not None, "the gate held, so a controller answered"
        if await self._store.away(self._store.accept_wish, wish.id, verdict, active.run):
            await self._hand_over(snapshot, active, wish, edge.asks)

    async def follow(self, snapshot: Snapshot, wish: Wish, seen: Evidence) -> None:
        """Asked before, not fulfilled yet. Raises what refuses it: `GateClosed`, Z2K-4060, 4061, 6012."""
        asks = ASKS[Signal(wish.name)]
        edge = look_up(snapshot.phase, Signal(wish.name))
        if edge.asks is not asks:
            raise WISH_FORGOTTEN.error(wish=asks, reason=f"the migration is in {snapshot.phase} now")
        active = _active(snapshot)
        if active is None or seen.driver_state == "IDLE":
            return  # who leads next will tell
        if active.run != wish.asked_run:
            reason = "the controller was restarted after it was asked, or another one leads now"
            raise WISH_FORGOTTEN.error(wish=asks, reason=reason)
        if active.wishes is not None and asks in active.wishes:
            await self._kept(snapshot, wish, asks)
        elif wish.id not in self._delivered:
            await self.begin(snapshot, wish, edge, seen)
        elif active.wishes is not None and seen.driver_state in NOT_BEGUN[asks]:
            self._count_without(wish, asks, seen)

    async def take_back(self, snapshot: Snapshot, wish: Wish, why: str, outcome: str = "withdrawn") -> bool:
        """Take an asked takeover back: True when it is certain that nothing comes of it, False when it has begun.

        outcome: what becomes of the wish then.
        Raises Z2K-4021 when the controller that was asked cannot be asked for that.
        """
        asked = self._whom(snapshot, wish)
        if asked is not None and not await self._control.withdraw(asked, why):
            _, status = await self._control.status(asked)
            driver = status["driver"]
            gone = driver["state"] in BEFORE_BROKERS | WAITS and Ask.TAKE_OVER not in driver.get("wishes", ())
            if not gone:
                return False
        await self._store.away(
            self._store.settle_wish, wish.id, outcome, f"taken back before it began: {why}", at=self._clock()
        )
        return True

    async def take_back_replaced(self, snapshot: Snapshot, why: str) -> bool:
        """Take back what drivers keep of a takeover whose row an undo replaced; True when one did. One that cannot be
        asked goes on to be undone like one that has begun.
        """
        look = snapshot.observation
        taken = False
        for each in () if look is None else look.controllers:
            if Ask.TAKE_OVER not in (each.wishes or ()):
                continue
            try:
                taken = await self._control.withdraw(_entry(snapshot, each), why) or taken
            except FindingError as error:
                log.warning("wish.not_taken_back", wish=Signal.ADVANCE, reason=str(error))
        return taken

    # --- parts ---------------------------------------------------------------------------------------------

    async def _kept(self, snapshot: Snapshot, wish: Wish, asks: Ask) -> None:
        """The driver will do it when it can; nobody waits for ever for a takeover, nor for one that is held."""
        self._delivered.add(wish.id)
        self._looks_without.pop(wish.id, None)
        if asks is not Ask.TAKE_OVER:
            return
        late = self._clock() - wish.at > TAKEOVER_KEPT_S
        if not late and snapshot.migration.held is None:
            return
        why, outcome = str(snapshot.migration.held), "withdrawn"
        if late:
            why, outcome = str(WISH_TOO_OLD.error(age=round(self._clock() - wish.at))), "refused"
        try:
            await self.take_back(snapshot, wish, why, outcome)
        except FindingError as error:
            log.warning("wish.not_taken_back", wish=wish.name, reason=str(error))  # the next look tries again

    def _count_without(self, wish: Wish, asks: Ask, seen: Evidence) -> None:
        looks = self._looks_without[wish.id] = self._looks_without.get(wish.id, 0) + 1
        if looks > LOOKS_WITHOUT_MAX:
            reason = f"{seen.driver_state}: {seen.driver_reason}"
            raise WISH_FORGOTTEN.error(wish=asks, reason=f"the driver let go of it ({reason})")

    def _refuse_old(self, wish: Wish) -> None:
        """Raises Z2K-4061."""
        age = self._clock() - wish.at
        if age > TAKEOVER_KEPT_S:
            raise WISH_TOO_OLD.error(age=round(age))

    def _whom(self, snapshot: Snapshot, wish: Wish) -> ControllerEntry | None:
        """The controller whose run was asked; None when that is over. Raises Z2K-4021: one that is silent may be it."""
        look = snapshot.observation
        assert look is not None, "somebody was asked, so somebody was seen"
        for each in look.controllers:
            if each.status is not None and each.run == wish.asked_run:
                return _entry(snapshot, each)
        for node, reason in look.silent().items():
            raise CONTROLLER_SILENT.error(node=node, reason=reason)
        return None

    async def _hand_over(self, snapshot: Snapshot, active: ControllerSeen, wish: Wish, asks: Ask) -> None:
        """Nothing of ours reads ZooKeeper while the cluster has no controller. A silent controller is asked again."""
        if asks is Ask.TAKE_OVER:
            await self._inspections.stop(snapshot.id)
        try:
            await self._control.ask(_entry(snapshot, active), asks, f"{wish.who}: {wish.reason}")
        except FindingError as error:
            if error.code == CONTROL_REFUSED.code:
                raise
            log.warning("wish.not_delivered", wish=wish.name, reason=str(error))
            return
        self._delivered.add(wish.id)
        log.info("wish.asked", wish=wish.name, asks=asks, who=wish.who)


def _active(snapshot: Snapshot) -> ControllerSeen | None:
    return None if snapshot.observation is None else snapshot.observation.active


def _entry(snapshot: Snapshot, seen: ControllerSeen) -> ControllerEntry:
    return next(each for each in snapshot.inventory.controllers if each.node_id == seen.node_id)
