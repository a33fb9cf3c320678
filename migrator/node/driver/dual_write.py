"""The act of dual-write: ZooKeeper and the log are equal, and what could change that is observed.

In:   the mirror and the propagator at work.
Out:  how the act ended; alarms for what an operator has to look at meanwhile.
Elsewhere: writing commits to ZooKeeper (mirror_node.py), broker updates (propagator.py), the acts before
(reconciling.py, updating_brokers.py) and the rollback (rollback.py).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from migrator.driver.checks.replacing import against_stock
from migrator.driver.machine import Happened
from migrator.driver.not_following import NotFollowing
from migrator.driver.orders import standing
from migrator.findings.driver import CLAIM_CHANGED, ODD_ZNODES_LEFT, ORDERS_STAND, VERSIONS_LAG
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.zookeeper import ZOOKEEPER_LOST
from migrator.model.values import Mark
from migrator.node.background import attempted
from migrator.node.driver.act import (
    ActEnded,
    CopyShared,
    Found,
    HasParts,
    OrdersObserved,
    ReplacingObserved,
)
from migrator.node.driver.event_queue import LOOK_S
from migrator.node.driver.mirror_node import Mirroring, versions_lag
from migrator.node.driver.operations import DriverOperations
from migrator.node.driver.propagator import Propagator
from migrator.node.driver.updating_brokers import name_not_updated
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.tree_reader import missing_places, read_registrations
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths

NOT_FOLLOWING_EVERY_MS = 5_000
CHANGED_SHOWN_MS = 3_600_000
"""For how long in dual-write an alarm reminds of a claim that was made again."""
ODD_REGISTRATIONS = "odd registrations"
"""The name of the alarm in dual-write; the reconcile has one of its own, for all that it left."""


@dataclass(kw_only=True)
class DualWriteActs(HasParts):
    """The act of one driver. passwords: with which brokers' passwords are written; None without their secret."""

    mirroring: Mirroring
    propagator: Propagator
    operations: DriverOperations

    async def dual_write(self) -> ActEnded:
        """Stay until an operator requests a rollback or a write fails."""
        await self.parts.hooks.before("enter dual-write")
        if Mark.TAKEOVER in self.controller.newest.marks:
            await self.controller.mark(Mark.TAKEOVER, "")
        self.progress.changed(CopyShared(), Found(next(iter(self.now.unreadable.values()), None)))
        not_following, observed_ms, entered_ms = NotFollowing(), 0, self.now_ms()
        while True:
            if self.mirroring.mirror is None:  # it broke while its break led nowhere, as during a refused rollback
                return ActEnded(Happened.MIRROR_BROKEN)
            if self.operations.rollback:
                return ActEnded(Happened.ROLLBACK_REQUESTED)
            came_or_went = is_away(self.now.trouble) == self.session.connected
            if self.now_ms() - observed_ms >= NOT_FOLLOWING_EVERY_MS or came_or_went:
                observed_ms = self.now_ms()
                await self._observe(not_following)
            if self.now_ms() - entered_ms >= CHANGED_SHOWN_MS:
                self.progress.alarm(CLAIM_CHANGED.code, None)
            name_not_updated(self.propagator, self.progress)
            if self.mirroring.mirror is not None and self.session.connected:
                self.mirroring.mirror.raise_versions()
            silence = self.propagator.silence()
            self.progress.status(self._status(silence))
            await self.parts.events.changed(LOOK_S if is_away(self.now.trouble) or silence else 5.0)

    def _status(self, silence: str) -> str:
        mirror, trouble = self.mirroring.mirror, self.now.trouble
        behind = 0 if mirror is None else mirror.behind
        lagging = 0 if mirror is None else mirror.lagging.partitions
        return (
            f"ZooKeeper has everything up to offset {self.now.dual_write_at.offset}"
            + (f", {behind} writes on their way" if behind else "")
            + (f"; versions of {lagging} partition states are behind" if lagging else "")
            + (f"; {trouble.text}" if is_away(trouble) and trouble is not None else "")
            + (f"; {silence}" if silence else "")
        )

    async def _observe(self, not_following: NotFollowing) -> None:
        """What other programs did to ZooKeeper. An observation that fails unexpectedly keeps no other from its turn."""
        for name, look in (
            ("brokers that do not follow", partial(self._look_for, not_following)),
            ("persistent znodes", self._look_for_places),
            ("orders in ZooKeeper", self._look_for_orders),
            ("replacing controllers", self._look_at_replacing),
            ("registrations", self._look_for_odd_registrations),
        ):
            await attempted(f"the observation of {name}", look, self.progress.alarm)
        self.progress.alarm(VERSIONS_LAG.code, versions_lag(self.mirroring.mirror))

    async def _look_for(self, not_following: NotFollowing) -> None:
        """Brokers in ZooKeeper that do not follow this quorum, or that ZooKeeper does not answer."""
        try:
            names = await asyncio.to_thread(self.session.children, paths.BROKER_IDS)
        except FindingError as error:
            self.progress.trouble(error.occurrence)
            return
        live = {int(name) for name in names or () if name.isdecimal()}
        self.progress.trouble(not_following.look(live, self.controller.image, self.now_ms()))

    async def _look_for_places(self) -> None:
        """A persistent znode that was deleted breaks the mirror: the reconcile that follows creates it again."""
        try:
            missing = await asyncio.to_thread(missing_places, self.session)
        except FindingError:
            return  # `_look_for` names it
        if missing:
            self.mirroring.break_off(f"{', '.join(missing)} does not exist any more")

    async def _look_for_orders(self) -> None:
        """Orders given through ZooKeeper since the reconcile: none is carried out, and they bar the rollback."""
        try:
            orders = await asyncio.to_thread(read_orders, self.session)
        except FindingError:
            return  # `_look_for` names it
        self.progress.changed(OrdersObserved(orders))
        self.progress.alarm(ORDERS_STAND.code, standing(orders))

    async def _look_at_replacing(self) -> None:
        """Whether stock controllers could take the places of ours; unknown while ZooKeeper does not answer."""
        image, claim, orders = self.controller.image, self.now.claim, self.now.orders
        found = None
        try:
            observed = await asyncio.to_thread(read_claim, self.session)
            look = partial(against_stock, encodes=self.parts.passwords is not None)
            found = await asyncio.to_thread(look, image, observed, claim, orders)
        except FindingError:
            return  # `_look_for` names it
        finally:
            self.progress.changed(ReplacingObserved(found))

    async def _look_for_odd_registrations(self) -> None:
        """A broker that starts in ZooKeeper mode reads all registrations, and ends over one that it cannot read."""
        try:
            _, odd = await asyncio.to_thread(read_registrations, self.session)
        except FindingError:
            return
        found = ODD_ZNODES_LEFT.found(count=len(odd), first=odd[0].text) if odd else None
        self.progress.alarm(ODD_REGISTRATIONS, found)


def is_away(trouble: Occurrence | None) -> bool:
    """Whether it is that ZooKeeper does not answer."""
    return trouble is not None and trouble.code == ZOOKEEPER_LOST.code
