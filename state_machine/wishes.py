"""Carry out what people asked for: look the step up, ask its gate, take it or ask the driver for it.

In:   a recorded wish, a fresh snapshot with its evidence.
Out:  a step taken, a driver asked, or a refusal with its verdict, written beside the wish.
Elsewhere: recording wishes (api), the rows of steps that a driver takes (driver_history.py).
Rules: a handler already asked the gate, but the cluster may have moved: the verdict here is the one that counts. A
wish that was asked of one run of a controller is never asked of another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from migrator.errors import CONTROL_REFUSED, VERSION_MOVED, FindingError
from state_machine.control import ControlPort
from state_machine.gates import Evidence
from state_machine.inspections import Inspections
from state_machine.phases import HOLD, RESUME, Ask, Phase, Signal, look_up
from state_machine.store import Snapshot, Store
from state_machine.tables import Wish
from state_machine.transition import SERVICE, GateClosed, Source, Step, ask_gate, take

log = structlog.get_logger()


class Wishes:
    """Settles one wish after the other. What this life of the service handed to a driver is not handed over again."""

    def __init__(
        self, store: Store, control: ControlPort, inspections: Inspections, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._control = control
        self._inspections = inspections
        self._clock = clock
        self._delivered: set[int] = set()

    async def settle(self, snapshot: Snapshot, wish: Wish, seen: Evidence) -> None:
        """Do what is possible now; a wish that waits for the driver stays pending."""
        if wish.name in (HOLD, RESUME):
            await asyncio.to_thread(self._store.hold, wish, at=self._clock())
            return
        try:
            if wish.state == "asked":
                await self._hand_over_again(snapshot, wish)
            else:
                await self._begin(snapshot, wish, seen)
        except GateClosed as closed:
            await self._refuse(wish, closed)
        except FindingError as error:
            await self._refuse(wish, error)

    async def _begin(self, snapshot: Snapshot, wish: Wish, seen: Evidence) -> None:
        signal = Signal(wish.name)
        version = snapshot.migration.version
        if signal is not Signal.ABORT and wish.expected_version != version:
            raise VERSION_MOVED.error(found=version, expected=wish.expected_version)
        edge = look_up(snapshot.phase, signal, None if wish.to_phase is None else Phase(wish.to_phase))
        verdict = ask_gate(edge, signal, seen)
        if edge.asks is not None:
            await asyncio.to_thread(self._store.accept_wish, wish.id, verdict, _run(snapshot))
            await self._hand_over(snapshot, wish, edge.asks)
            return
        step = Step(
            signal=signal,
            source=Source(SERVICE, version),
            at=self._clock(),
            who=wish.who,
            reason=wish.reason or "no reason given",
            wish_id=wish.id,
        )
        await asyncio.to_thread(
            take, self._store, snapshot.id, step, expected_version=version, evidence=seen, now=self._clock()
        )

    async def _hand_over_again(self, snapshot: Snapshot, wish: Wish) -> None:
        """Asked before, not fulfilled yet: still possible, still the same run of the controller?"""
        edge = look_up(snapshot.phase, Signal(wish.name))
        assert edge.asks is not None, f"{wish.name} is not asked of a driver"
        active = None if snapshot.observation is None else snapshot.observation.active
        if active is None or wish.id in self._delivered:
            return
        if _run(snapshot) != wish.asked_run:
            raise CONTROL_REFUSED.error(wish=edge.asks, reason="the controller was restarted after it was asked")
        await self._hand_over(snapshot, wish, edge.asks)

    async def _hand_over(self, snapshot: Snapshot, wish: Wish, asks: Ask) -> None:
        """Nothing of ours reads ZooKeeper while the cluster has no controller. A silent controller is asked again."""
        assert snapshot.observation is not None
        active = snapshot.observation.active
        assert active is not None, "the gate held, so a controller answered"
        if asks is Ask.TAKE_OVER:
            await self._inspections.stop(snapshot.id)
        entry = next(each for each in snapshot.inventory.controllers if each.node_id == active.node_id)
        try:
            await self._control.ask(entry, asks, f"{wish.who}: {wish.reason}")
        except FindingError as error:
            if error.code == CONTROL_REFUSED.code:
                raise
            log.warning("wish.not_delivered", wish=wish.name, reason=str(error))
            return
        self._delivered.add(wish.id)
        log.info("wish.asked", wish=wish.name, asks=asks, who=wish.who)

    async def _refuse(self, wish: Wish, error: FindingError) -> None:
        verdict = error.verdict if isinstance(error, GateClosed) else None
        log.warning("wish.refused", wish=wish.name, who=wish.who, reason=str(error))
        await asyncio.to_thread(
            self._store.settle_wish, wish.id, "refused", str(error), at=self._clock(), verdict=verdict
        )


def _run(snapshot: Snapshot) -> str:
    """The incarnation of the controller that would be asked."""
    active = None if snapshot.observation is None else snapshot.observation.active
    return "" if active is None or active.status is None else str(active.status["run"])
