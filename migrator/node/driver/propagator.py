"""Broker updates: requests for their channels, and what a broker that refuses one gets next.

In:   commits in their order, how far ZooKeeper is, the compared full send of UPDATING_BROKERS; answers of brokers.
Out:  updates queued per broker; which brokers did not answer a full send yet.
Elsewhere: which broker gets which update (driver.broker_updates), the sockets (brokers.broker_channels), when the first
full send may leave (updating_brokers.py), all later ones (brokers.full_sends). Every full send comes here as `Guarded`.
An answer counts only while no newer full send is queued behind its update, since that one repeats everything. A broker
whose own code failed at a LeaderAndIsr is healed first: it is asked what it has, and drops what it should not have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

import structlog

from migrator.driver.broker_updates import BrokerUpdates
from migrator.driver.guard import Guarded, Survey, TopicsShared, left_over
from migrator.driver.update_requests import LEADER_AND_ISR, BrokerUpdate, FullSend, UpdateKind, reachable
from migrator.model.draft import Delta
from migrator.model.image import Position
from migrator.node.background import kept
from migrator.node.brokers.broker_channels import UNKNOWN_SERVER_ERROR, BrokerChannels, refused_whole
from migrator.node.brokers.full_sends import FullSends
from migrator.node.brokers.survey import survey_brokers
from migrator.node.config.properties import NodeConfig
from migrator.node.driver.act import ActReporter
from migrator.node.driver.event_queue import EventQueue
from migrator.node.leader.active_controller import ActiveController
from migrator.node.on_thread import on_thread
from migrator.node.transport.client_security import ClientSecurity

log = structlog.get_logger()

REFUSED_AGAIN_S: Final = 1.0
REFUSED_AGAIN_MAX_S: Final = 30.0
"""Pause before a broker that refused a request gets everything once more: doubled with each refusal in a row."""


@dataclass(slots=True)
class _Updating:
    """How far a broker is with the newest full send to it."""

    full_send: FullSend
    unanswered: int
    """Of its requests those that were not answered without an error yet."""
    refusals: int
    """In a row, in this life of the broker."""
    since_ms: int = 0
    is_ill: bool = False
    """Its own code failed at a LeaderAndIsr: it does at a FULL one while a log has no topic id."""
    retry: asyncio.TimerHandle | None = None
    """From the first refusal on; what comes of it is another full send, unless the broker went away."""


class Propagator:
    """Sends the broker updates of one driver, on its loop.

    broker_updates: None until the first full send of this leadership leaves.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: ActiveController,
        progress: ActReporter,
        events: EventQueue,
        *,
        security: ClientSecurity,
        now_ms: Callable[[], int],
        look_at_claim: Callable[[], None],
        full_updates: Callable[[list[BrokerUpdate]], list[BrokerUpdate]] = lambda updates: updates,
    ) -> None:
        """look_at_claim: called at a refusal, which may come of another process's claim.

        full_updates: what becomes of a full send before it is compared; only tests change it.
        """
        self.broker_updates: BrokerUpdates | None = None
        self.channels = BrokerChannels(
            str(config.node_id),
            config.inter_broker_listener,
            security=security,
            on_answer=self._on_answer,
            alarm=progress.alarm,
            now_ms=now_ms,
        )
        self.full_sends = FullSends(
            self._ask,
            lambda: controller.removals,
            queue=self._queue,
            full_updates=full_updates,
            alarm=progress.alarm,
            on_change=events.wake,
            now_ms=now_ms,
        )
        self._config = config
        self._controller = controller
        self._progress = progress
        self._events = events
        self._security = security
        self._look_at_claim = look_at_claim
        self._now_ms = now_ms
        self._topics_shared = TopicsShared()
        self._unsent: list[Delta] = []
        """Commits since the image of a full send that is being encoded."""
        self._updates_of: dict[int, _Updating] = {}
        self._generations = count(1)
        self._healing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    # --- what is sent --------------------------------------------------------------------------------------

    def published(self, delta: Delta) -> None:
        """A commit became visible."""
        if self.broker_updates is not None:
            self.channels.follow(reachable(delta.after))
            self._send(self.broker_updates.published(delta))
        else:
            self._unsent.append(delta)

    def mirrored(self, position: Position) -> None:
        """ZooKeeper has everything up to here."""
        if self.broker_updates is not None:
            self._send(self.broker_updates.mirrored(position))

    def forget_commits(self) -> None:
        """What is committed until now will be in the image that the next full send is made of."""
        self._unsent.clear()

    def begin(self, broker_updates: BrokerUpdates, first: Guarded) -> None:
        """Turn commits into broker updates from here on; those that came while the full send was encoded go first."""
        self.channels.follow(reachable(self._controller.image))
        self.broker_updates = broker_updates
        self._queue(first.leaving())
        self.full_sends.begin(broker_updates)
        unsent, self._unsent = self._unsent, []
        for delta in unsent:
            self.published(delta)

    def _send(self, updates: list[BrokerUpdate]) -> None:
        """What changed. For a broker whose full send is being encoded it waits behind that."""
        full = [update.broker for update in updates if update.kind is UpdateKind.FULL]
        assert not full, f"full requests to {full} that were compared with nothing"
        self._queue(update for update in updates if not self.full_sends.keep(update))
        self.full_sends.look()

    def _queue(self, updates: Iterable[BrokerUpdate]) -> None:
        """Full ones are awaited until each broker answered all three."""
        updates = list(updates)
        full = Counter((update.broker, update.broker_epoch) for update in updates if update.kind is UpdateKind.FULL)
        for (broker, broker_epoch), updates_of_it in full.items():
            self._begin_full_send(FullSend(broker, broker_epoch, next(self._generations)), updates_of_it)
        self.channels.send([replace(update, full_send=self._newest(update.broker)) for update in updates])

    def _begin_full_send(self, full_send: FullSend, updates: int) -> None:
        """It takes the place of the one before, with the retry of that. updates: how many it has."""
        before = self._updates_of.get(full_send.broker)
        refusals = 0
        if before is not None:
            if before.retry is not None:
                before.retry.cancel()
            if before.full_send.broker_epoch == full_send.broker_epoch:
                refusals = before.refusals
        self._updates_of[full_send.broker] = _Updating(full_send, updates, refusals, self._now_ms())

    def _newest(self, broker: int) -> FullSend | None:
        updating = self._updates_of.get(broker)
        return None if updating is None else updating.full_send

    async def stop(self) -> None:
        """Nothing more is sent, and what waits is dropped."""
        self.broker_updates = None
        self._unsent.clear()
        for updating in self._updates_of.values():
            if updating.retry is not None:
                updating.retry.cancel()
        self._updates_of.clear()
        await self.full_sends.stop()
        await self.channels.close()

    # --- who is updated ------------------------------------------------------------------------------------

    def updated(self) -> dict[int, bool]:
        """Each broker, and whether it has acknowledged everything."""
        audience = self._audience()
        return {
            broker.id: audience.get(broker.id) == broker.epoch and self._has_answered(broker.id)
            for broker in self._controller.image.brokers.values()
        }

    def _has_answered(self, broker: int) -> bool:
        updating = self._updates_of.get(broker)
        return updating is not None and not updating.unanswered and broker not in self.full_sends.waits()

    def not_updated(self) -> list[int]:
        """Brokers that can be reached and have not acknowledged everything."""
        updated = self.updated()
        return [broker.id for broker in reachable(self._controller.image) if not updated[broker.id]]

    def not_sent(self) -> list[int]:
        """Brokers to which the full send is about to leave."""
        return [] if self.broker_updates is None else self.full_sends.underway(self.broker_updates)

    def why_not_updated(self) -> dict[int, dict[str, Any]]:
        """The reason, and since when, for each broker that can be reached and has not acknowledged everything."""
        return (
            {}
            if self.broker_updates is None
            else {broker: self._why_not_updated(broker) for broker in self.not_updated()}
        )

    def silence(self) -> str:
        """The same in one line; empty when every broker has acknowledged everything."""
        return "; ".join(
            f"broker {broker} is not updated for {why['since_ms'] / 1000:.0f} s: {why['reason']}"
            for broker, why in self.why_not_updated().items()
        )

    def _why_not_updated(self, broker: int) -> dict[str, Any]:
        wait, updating = self.full_sends.waits().get(broker), self._updates_of.get(broker)
        if wait is not None:
            code = None if wait.finding is None else wait.finding.code
            return {"code": code, "reason": wait.reason, "since_ms": self._now_ms() - wait.since_ms}
        if updating is None:
            return {"code": None, "reason": "the full update has not begun", "since_ms": 0}
        reason = f"the broker has not acknowledged {updating.unanswered} full requests"
        return {"code": None, "reason": reason, "since_ms": self._now_ms() - updating.since_ms}

    def _audience(self) -> dict[int, int]:
        return {} if self.broker_updates is None else self.broker_updates.audience()

    # --- answers -------------------------------------------------------------------------------------------

    def _on_answer(self, update: BrokerUpdate, problem: str | None) -> None:
        updating = self._updating(update.full_send)
        if problem is None:
            if updating is not None and update.kind is UpdateKind.FULL:
                updating.unanswered -= 1
                if not updating.unanswered:
                    updating.refusals = 0
            self._events.wake()
            return
        self._progress.waiting(f"broker {update.broker} refused a request: {problem}")
        self._look_at_claim()
        if updating is not None:
            self._refused(updating, update, problem)

    def _updating(self, full_send: FullSend | None) -> _Updating | None:
        """None when a newer full send took its place, or updates stopped."""
        updating = None if full_send is None else self._updates_of.get(full_send.broker)
        return updating if updating is not None and updating.full_send == full_send else None

    # --- a broker that refused -----------------------------------------------------------------------------

    def _refused(self, updating: _Updating, update: BrokerUpdate, problem: str) -> None:
        if update.api_key == LEADER_AND_ISR and problem == refused_whole(UNKNOWN_SERVER_ERROR):
            updating.is_ill = True
        if updating.retry is None:  # one refused send has many refused requests
            updating.refusals += 1
            pause_s = min(REFUSED_AGAIN_S * 2.0 ** (updating.refusals - 1), REFUSED_AGAIN_MAX_S)
            updating.retry = self._loop.call_later(pause_s, self._update_again, updating)

    def _update_again(self, updating: _Updating) -> None:
        if updating.is_ill:
            name = f"heal-{updating.full_send.broker}"
            healing = kept(name, lambda: self._heal(updating.full_send), self._progress.alarm)
            self._healing = self._loop.create_task(healing, name=name)
        else:
            self._update_in_full(updating.full_send)

    def _update_in_full(self, refused: FullSend) -> None:
        """Another full send in the place of the one that was refused."""
        if self._is_current(refused):
            assert self.broker_updates is not None
            self.broker_updates.withhold(refused.broker, refused.broker_epoch)
            self.full_sends.look()

    def _is_current(self, refused: FullSend) -> bool:
        """Whether the broker lives the same life, and no newer full send left for it."""
        is_newest = self._updating(refused) is not None
        return is_newest and self._audience().get(refused.broker) == refused.broker_epoch

    async def _heal(self, refused: FullSend) -> None:
        """It refused the FULL LeaderAndIsr: what it has shows what it must drop before the next one."""
        surveys, _ = await self._ask(refused.broker)
        gone = self._controller.removals
        image = self._controller.image
        found = [await on_thread(left_over, each, image, gone.topics, gone.replicas) for each in surveys.values()]
        log.info("broker.healed", broker=refused.broker, leftovers=len(found[0]) if found else None)
        if found and self.broker_updates is not None and self._is_current(refused):
            self._send(self.broker_updates.heal(refused.broker, found[0]))
        self._update_in_full(refused)

    async def _ask(self, broker: int) -> tuple[dict[int, Survey], dict[int, str]]:
        """What the broker has; or nothing, and why."""
        asked = [each for each in reachable(self._controller.image) if each.id == broker]
        listener = self._config.inter_broker_listener
        return await survey_brokers(asked, listener, str(self._config.node_id), self._security, self._topics_shared)
