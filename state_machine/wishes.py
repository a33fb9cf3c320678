"""Carry out what people asked for: look the step up, ask its gate, take it or ask the driver for it.

In:   a recorded wish, a fresh snapshot with its evidence.
Out:  a step taken, a driver asked, or a refusal with its verdict, written beside the wish.
Elsewhere: recording wishes (api), what became of a wish that a driver was asked (asked.py), the rows of steps that a
driver takes (driver_history.py).
Rules: a handler already asked the gate, but the cluster may have moved: the verdict here is the one that counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from migrator.findings.finding import FindingError
from migrator.findings.service import NOT_POSSIBLE_HERE, VERSION_MOVED
from state_machine.asked import Asked
from state_machine.audits.inspections import Inspections
from state_machine.clusters.control import ControlPort
from state_machine.policy.gates import Evidence
from state_machine.policy.phases import HOLD, PEOPLE, RESUME, WINDOW, Phase, Signal, look_up
from state_machine.store import UNDOES, Snapshot, Store
from state_machine.tables import Wish
from state_machine.transition import SERVICE, GateClosed, Source, Step, ask_gate, take

log = structlog.get_logger()


class Wishes:
    """Settles one wish after the other."""

    def __init__(
        self, store: Store, control: ControlPort, inspections: Inspections, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._clock = clock
        self._asked = Asked(store, control, inspections, clock)

    async def settle(self, snapshot: Snapshot, wish: Wish, seen: Evidence) -> None:
        """Do what is possible now; a wish that waits for the driver stays pending."""
        if wish.name in (HOLD, RESUME):
            said = await self._what_goes_on(snapshot, wish) if wish.name == HOLD else ""
            await self._store.away(self._store.hold, wish, at=self._clock(), said=said)
            return
        try:
            if wish.state == "asked":
                await self._asked.follow(snapshot, wish, seen)
            else:
                await self._begin(snapshot, wish, seen)
        except GateClosed as closed:
            await self._refuse(wish, closed)
        except FindingError as error:
            await self._refuse(wish, error)

    async def _begin(self, snapshot: Snapshot, wish: Wish, seen: Evidence) -> None:
        signal = Signal(wish.name)
        if (snapshot.phase, signal) == (Phase.READY, Signal.ABORT):
            await self._abort_before(snapshot, wish)
            return
        if signal in UNDOES:
            await self._asked.take_back_replaced(snapshot, f"{wish.who} asked for {PEOPLE[signal]}")
        version = snapshot.migration.version
        if signal is not Signal.ABORT and wish.expected_version != version:
            raise VERSION_MOVED.error(found=version, expected=wish.expected_version)
        edge = look_up(snapshot.phase, signal, None if wish.to_phase is None else Phase(wish.to_phase))
        if edge.asks is not None:
            await self._asked.begin(snapshot, wish, edge, seen)
            return
        ask_gate(edge, signal, seen)
        step = Step(
            signal=signal,
            source=Source(SERVICE, version),
            at=self._clock(),
            who=wish.who,
            reason=wish.reason or "no reason given",
            wish_id=wish.id,
        )
        await self._store.away(
            take, self._store, snapshot.id, step, expected_version=version, evidence=seen, now=self._clock()
        )

    async def _abort_before(self, snapshot: Snapshot, wish: Wish) -> None:
        """In READY: take back the takeover that was asked for. One that has begun is aborted when the phase shows it.

        Raises Z2K-4021 when a controller that may keep it does not answer, Z2K-4003 when nobody asked for any.
        """
        why = f"{wish.who} asked for abort"
        replaced = await self._store.away(self._store.replaced_by, wish)
        kept = await self._asked.take_back_replaced(snapshot, why)
        if replaced is None and not kept:
            raise NOT_POSSIBLE_HERE.error(wish="abort", phase=snapshot.phase, possible="advance, rollback")
        asked = replaced is not None and replaced.asked_run is not None
        if asked and replaced is not None and not await self._asked.take_back(snapshot, replaced, why):
            return
        answer = "the takeover that was asked for is taken back: nothing will begin"
        await self._store.away(self._store.settle_wish, wish.id, "done", answer, at=self._clock())

    async def _what_goes_on(self, snapshot: Snapshot, wish: Wish) -> str:
        """A hold keeps steps from beginning: one that a driver was asked for is taken back, one that began goes on."""
        if snapshot.phase in WINDOW:
            return BEGUN
        advance = next((each for each in snapshot.wishes if (each.name, each.state) == (Signal.ADVANCE, "asked")), None)
        if advance is None:
            return ""
        try:
            if await self._asked.take_back(snapshot, advance, f"{wish.who} holds"):
                return f"the takeover that {advance.who} asked for is taken back: nothing will begin"
        except FindingError as error:
            return f"BUT the takeover that {advance.who} asked for may still begin, it could not be taken back: {error}"
        return BEGUN

    async def _refuse(self, wish: Wish, error: FindingError) -> None:
        verdict = error.verdict if isinstance(error, GateClosed) else None
        log.warning("wish.refused", wish=wish.name, who=wish.who, reason=str(error))
        await self._store.away(
            self._store.settle_wish, wish.id, "refused", str(error), at=self._clock(), verdict=verdict
        )


BEGUN = "BUT the takeover has begun, which a hold does not stop; `zk2kraft abort` takes it back until the commit"
