"""Telling the brokers: orders to their channels, and what a broker that refuses gets next.

In:   commits in their order, how far ZooKeeper is, the full send that TELLING_BROKERS had guarded; answers of brokers.
Out:  orders queued per broker; which brokers did not answer a full send yet.
Elsewhere: who is told what (driver.teller), the sockets (broker_channels.py), when the first full send may leave
(dual_write.py).
A broker whose own code failed at a LeaderAndIsr is healed first: it is asked what it has, and told to drop what it is
not to have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from migrator.driver.guard import left_over
from migrator.driver.tell import LEADER_AND_ISR, Kind, Order, reachable
from migrator.driver.teller import Teller
from migrator.model.draft import Delta
from migrator.model.image import Position
from migrator.node.active_controller import ActiveController
from migrator.node.broker_channels import UNKNOWN_SERVER_ERROR, BrokerChannels, refused_whole
from migrator.node.client_security import ClientSecurity
from migrator.node.config import NodeConfig
from migrator.node.driver_state import DriverState
from migrator.node.event_queue import EventQueue
from migrator.node.survey import survey_brokers

log = structlog.get_logger()

REFUSED_AGAIN_S: Final = 1.0
REFUSED_AGAIN_MAX_S: Final = 30.0
"""Pause before a broker that refused a request gets everything once more: doubled with each refusal in a row."""


class Propagator:
    """Of one driver, on its loop. teller: None until the first full send of this leadership left."""

    def __init__(
        self,
        config: NodeConfig,
        controller: ActiveController,
        now: DriverState,
        events: EventQueue,
        *,
        security: ClientSecurity,
        now_ms: Callable[[], int],
        look_at_claim: Callable[[], None],
    ) -> None:
        """look_at_claim: called at a refusal, which may come of somebody else's claim."""
        self.teller: Teller | None = None
        self.channels = BrokerChannels(
            str(config.node_id),
            config.inter_broker_listener,
            security=security,
            on_answer=self._on_answer,
            on_fault=events.watch_task,
            now_ms=now_ms,
        )
        self._config = config
        self._controller = controller
        self._now = now
        self._events = events
        self._security = security
        self._look_at_claim = look_at_claim
        self._untold: list[Delta] = []
        """Commits since the image of a full send that is being encoded."""
        self._unanswered_full: dict[int, int] = {}
        self._refusals: dict[int, int] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}
        self._ill: set[int] = set()
        """Brokers whose own code failed at a LeaderAndIsr: it does at a FULL one while a log has no topic id."""
        self._healing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    # --- what is told --------------------------------------------------------------------------------------

    def published(self, delta: Delta) -> None:
        """A commit became visible."""
        if self.teller is not None:
            self.channels.follow(reachable(delta.after))
            self.send(self.teller.published(delta))
        else:
            self._untold.append(delta)

    def mirrored(self, position: Position) -> None:
        """ZooKeeper has everything up to here."""
        if self.teller is not None:
            self.send(self.teller.mirrored(position))

    def forget_commits(self) -> None:
        """What is committed until now will be in the image that the next full send is made of."""
        self._untold.clear()

    def begin(self, teller: Teller, orders: list[Order]) -> None:
        """From here on commits go to the teller; those that came while the full send was encoded go first."""
        self.channels.follow(reachable(self._controller.image))
        self.teller = teller
        self.send(orders)
        untold, self._untold = self._untold, []
        for delta in untold:
            self.published(delta)

    def send(self, orders: list[Order]) -> None:
        """Queue orders; full ones are awaited by TELLING_BROKERS until each broker answered all three."""
        full = [order for order in orders if order.kind is Kind.FULL]
        for broker in {order.broker for order in full}:
            self._unanswered_full[broker] = sum(order.broker == broker for order in full)
        self.channels.send(orders)

    async def stop(self) -> None:
        """Nothing more is told, and what waits is dropped."""
        self.teller = None
        self._untold.clear()
        self._unanswered_full.clear()
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        self._refusals.clear()
        self._ill.clear()
        await self.channels.close()

    # --- who was told --------------------------------------------------------------------------------------

    def told(self) -> dict[int, bool]:
        """Each broker, and whether it was told everything and has answered."""
        audience = self._audience()
        return {
            broker.id: audience.get(broker.id) == broker.epoch and not self._unanswered_full.get(broker.id, 0)
            for broker in self._controller.image.brokers.values()
        }

    def not_told(self) -> list[int]:
        """Brokers that can be reached and were not told everything, or did not answer yet."""
        told = self.told()
        return [broker.id for broker in reachable(self._controller.image) if not told[broker.id]]

    def _audience(self) -> dict[int, int]:
        return {} if self.teller is None else self.teller.audience()

    # --- answers -------------------------------------------------------------------------------------------

    def _on_answer(self, order: Order, problem: str | None) -> None:
        if problem is None:
            if order.kind is Kind.FULL and self._is_current(order):
                self._unanswered_full[order.broker] -= 1
                if not self._unanswered_full[order.broker]:
                    self._refusals.pop(order.broker, None)
            self._events.wake()
            return
        self._now.wait_because(f"broker {order.broker} refused a request: {problem}")
        self._look_at_claim()
        if order.api_key == LEADER_AND_ISR and problem == refused_whole(UNKNOWN_SERVER_ERROR):
            self._ill.add(order.broker)
        if order.broker not in self._retries:  # one refused send has many refused orders
            times = self._refusals[order.broker] = self._refusals.get(order.broker, 0) + 1
            pause_s = min(REFUSED_AGAIN_S * 2.0 ** (times - 1), REFUSED_AGAIN_MAX_S)
            retry = self._loop.call_later(pause_s, self._tell_again, order.broker, order.broker_epoch)
            self._retries[order.broker] = retry

    def _is_current(self, order: Order) -> bool:
        """Whether this full send is the one that is waited for: not of an earlier epoch of the broker."""
        is_of_now = self._audience().get(order.broker) == order.broker_epoch
        return is_of_now and self._unanswered_full.get(order.broker, 0) > 0

    # --- a broker that refused -----------------------------------------------------------------------------

    def _tell_again(self, broker: int, broker_epoch: int) -> None:
        self._retries.pop(broker, None)
        if broker in self._ill:
            self._ill.discard(broker)
            self._healing = self._loop.create_task(self._heal(broker, broker_epoch), name=f"heal-{broker}")
            self._healing.add_done_callback(self._events.watch_task)
        else:
            self._tell_everything(broker, broker_epoch)

    def _tell_everything(self, broker: int, broker_epoch: int, leftovers: list[tuple[str, int]] | None = None) -> None:
        """leftovers: given, what it has to be healed of first."""
        if self.teller is None or self.teller.audience().get(broker) != broker_epoch:
            return
        first = [] if leftovers is None else self.teller.heal(broker, leftovers)
        self._unanswered_full.pop(broker, None)
        self.send([*first, *self.teller.refused(broker, broker_epoch)])

    async def _heal(self, broker: int, broker_epoch: int) -> None:
        """It refused the FULL LeaderAndIsr: what it has tells what it must be rid of before the next one."""
        image, gone = self._controller.image, self._controller.removals
        asked = [each for each in reachable(image) if each.id == broker]
        listener = self._config.inter_broker_listener
        surveys, _ = await survey_brokers(asked, listener, str(self._config.node_id), self._security)
        found = [left_over(each, self._controller.image, gone.topics, gone.replicas) for each in surveys.values()]
        log.info("broker.healed", broker=broker, leftovers=len(found[0]) if found else None)
        self._tell_everything(broker, broker_epoch, found[0] if found else [])
