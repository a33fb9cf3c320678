"""Who was told what: decides for each commit which broker gets everything, and which gets what changed.

In:   commits in their order, how far ZooKeeper is, which broker refused a request.
Out:  orders (tell.py) in the order in which they must be queued.
Elsewhere: the queues and the sockets (node.broker_channels).
Rules: a replica that comes or goes, and a new configuration's topic, wait until ZooKeeper has them, since brokers read
it there; leaders and ISRs of other topics do not wait. Later changes of a topic that waits wait behind it.
Source: R-866-06, R-866-07.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from migrator.driver.claim import Claim
from migrator.driver.mirror import needs_zookeeper_first
from migrator.driver.tell import Order, delta_orders, full_orders, healing_orders, reachable
from migrator.model.draft import Delta
from migrator.model.image import Image, Position


@dataclass(frozen=True, slots=True)
class _Held:
    """Topics of one commit of which brokers may hear once ZooKeeper is at `until`."""

    delta: Delta
    topics: frozenset[bytes]
    until: Position


class Teller:
    """One per claim. `image` is the newest commit it was shown."""

    def __init__(self, claim: Claim, listener: str, image: Image) -> None:
        self._claim = claim
        self._listener = listener
        self._image = image
        self._told: dict[int, int] = {}
        self._withheld: dict[int, int] = {}
        self._newcomers: set[int] = set()
        self._held: deque[_Held] = deque()

    def everything(self, withheld: Collection[int] = ()) -> list[Order]:
        """The full send to every broker that can be reached, but for those that did not say what they have yet.

        withheld: they get nothing until `admit`, or until they come back under another epoch.
        """
        brokers = {broker.id: broker.epoch for broker in reachable(self._image)}
        self._withheld = {broker: epoch for broker, epoch in brokers.items() if broker in withheld}
        self._told = {broker: epoch for broker, epoch in brokers.items() if broker not in withheld}
        self._newcomers.clear()
        self._held.clear()  # the full send contains them, and ZooKeeper was reconciled before it
        return full_orders(self._image, self._claim, self._told, self._listener)

    def preview(self, broker: int) -> list[Order]:
        """The full send that a withheld broker would get, for the guard to look at."""
        return full_orders(self._image, self._claim, {broker}, self._listener)

    def admit(self, broker: int) -> list[Order]:
        """A withheld broker may be told like any other."""
        self._withheld.pop(broker, None)
        self._update_audience()
        return self._welcome()

    @property
    def withheld(self) -> frozenset[int]:
        return frozenset(self._withheld)

    def published(self, delta: Delta) -> list[Order]:
        """A commit: orders that may leave at once. What waits for ZooKeeper is kept."""
        self._image = delta.after
        self._update_audience()
        waiting = needs_zookeeper_first(delta) | self._topics_behind_held(delta)
        orders = delta_orders(
            delta,
            self._claim,
            self._told,
            self._listener,
            delta.topics - waiting,
            refresh=bool(delta.brokers),
        )
        if waiting:
            self._held.append(_Held(delta, waiting, delta.after.position))
        return orders + self._welcome()

    def mirrored(self, position: Position) -> list[Order]:
        """ZooKeeper has everything up to `position`: what waited for that may leave."""
        orders: list[Order] = []
        while self._held and self._held[0].until <= position:
            held = self._held.popleft()
            delta = self._with_brokers_of_now(held.delta)
            orders += delta_orders(delta, self._claim, self._told, self._listener, held.topics, refresh=False)
        return orders + self._welcome()

    def refused(self, broker: int, broker_epoch: int) -> list[Order]:
        """A broker answered with an error: it gets everything once more."""
        if self._told.get(broker) == broker_epoch:
            del self._told[broker]
        self._update_audience()
        return self._welcome()

    def heal(self, broker: int, leftovers: Iterable[tuple[str, int]]) -> list[Order]:
        """What has to come before the next FULL LeaderAndIsr of a broker that refused one.

        leftovers: what it does not host by the log. Where brokers were not told yet that it does not, because ZooKeeper
        has to know first, it keeps its log: the others still follow it.
        """
        image = self._image_of_zookeeper()
        hosted = {(topic.name, each.id) for topic, each in image.partitions() if broker in each.replicas}
        unused = [each for each in leftovers if each not in hosted]
        return healing_orders(image, self._claim, image.brokers[broker], self._listener, unused)

    def audience(self) -> dict[int, int]:
        """Brokers that were told everything, with the epoch under which they were."""
        return dict(self._told)

    def _update_audience(self) -> None:
        """Forget who is fenced, gone, or came back under another epoch; note who has to be told everything."""
        now = {broker.id: broker.epoch for broker in reachable(self._image)}
        self._told = {broker: epoch for broker, epoch in self._told.items() if now.get(broker) == epoch}
        self._withheld = {broker: epoch for broker, epoch in self._withheld.items() if now.get(broker) == epoch}
        self._newcomers = {broker for broker in now if broker not in self._told and broker not in self._withheld}

    def _topics_behind_held(self, delta: Delta) -> frozenset[bytes]:
        held = frozenset().union(*(each.topics for each in self._held)) if self._held else frozenset()
        return delta.topics & held

    def _with_brokers_of_now(self, delta: Delta) -> Delta:
        """A broker replaces whom it takes for alive with each UpdateMetadata, so a late one must not bring back a
        broker that was fenced since.
        """
        after = msgspec.structs.replace(delta.after, brokers=self._image.brokers)
        return msgspec.structs.replace(delta, after=after)

    def _welcome(self) -> list[Order]:
        """Everything for newcomers; what waits for ZooKeeper reaches them later, with everybody else."""
        if not self._newcomers:
            return []
        newcomers = {broker.id: broker.epoch for broker in reachable(self._image) if broker.id in self._newcomers}
        self._told.update(newcomers)
        self._newcomers.clear()
        return full_orders(self._image_of_zookeeper(), self._claim, newcomers, self._listener)

    def _image_of_zookeeper(self) -> Image:
        """The newest image, with the topics that wait as they were before: nobody was told more of them yet."""
        topics, names = self._image.topics, self._image.topic_ids
        for held in reversed(self._held):
            for topic_id in held.topics:
                now, before = topics.get(topic_id), held.delta.before.topics.get(topic_id)
                if now is not None:
                    topics = topics.delete(topic_id)
                    names = names.delete(now.name) if names.get(now.name) == topic_id else names
                if before is not None:
                    topics, names = topics.set(topic_id, before), names.set(before.name, topic_id)
        return msgspec.structs.replace(self._image, topics=topics, topic_ids=names)
