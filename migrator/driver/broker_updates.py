"""Who has which metadata: decides for each commit which broker gets everything, and which gets what changed.

In:   commits in their order, how far ZooKeeper is, which broker refused a request.
Out:  orders (update_requests.py) in the order in which they must be queued.
Elsewhere: the queues and the sockets (node.brokers.broker_channels), what a broker has and whether a full send would
drop any of it (node.brokers.full_sends, guard.py).
Rules: a replica that comes or goes, and a new configuration's topic, wait until ZooKeeper has them, since brokers read
it there; leaders and ISRs of other topics do not wait. Later changes of a topic that waits wait behind it.
A broker that came back may have every log that was committed before it registered (it may have run in KRaft mode), so
it gets everything only when none of that waits for ZooKeeper any more.
Source: R-866-06, R-866-07.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from migrator.driver.claim import Claim
from migrator.driver.mirror import needs_zookeeper_first
from migrator.driver.update_requests import BrokerUpdate, delta_updates, full_updates, healing_updates, reachable
from migrator.model.draft import Delta
from migrator.model.image import NOWHERE, Image, Position


@dataclass(frozen=True, slots=True)
class _Held:
    """Topics of one commit of which brokers may hear once ZooKeeper is at `until`."""

    delta: Delta
    topics: frozenset[bytes]
    until: Position


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A broker that gets everything next. It may have what was committed up to `may_have`."""

    epoch: int
    may_have: Position


@dataclass(frozen=True, slots=True)
class FullSendPlan:
    """What a full send to these brokers is made of."""

    image: Image
    claim: Claim
    brokers: frozenset[int]
    listener: str

    def updates(self) -> list[BrokerUpdate]:
        """Encoded, which takes seconds for a million partitions: for a thread."""
        return full_updates(self.image, self.claim, self.brokers, self.listener)


def _hosts(image: Image, broker: int, topic: str, partition: int) -> bool:
    found = image.topic(topic)
    there = None if found is None else found.partition(partition)
    return there is not None and broker in there.replicas


class BrokerUpdates:
    """One per claim. `image` is the newest commit it was shown."""

    def __init__(self, claim: Claim, listener: str, image: Image) -> None:
        self._claim = claim
        self._listener = listener
        self._image = image
        self._updated: dict[int, int] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._lives: dict[int, int] = {}
        """The epoch under which a broker got everything last, also of those that are fenced now."""
        self._held: deque[_Held] = deque()

    def everything(self, withheld: Collection[int] = ()) -> list[BrokerUpdate]:
        """The full send to every broker that can be reached, but for those that did not say what they have yet.

        withheld: they wait, until `welcome`.
        """
        brokers = {broker.id: broker.epoch for broker in reachable(self._image)}
        self._waiting = {broker: _Waiting(brokers[broker], NOWHERE) for broker in brokers if broker in withheld}
        self._held.clear()  # the full send contains them, and ZooKeeper was reconciled before it
        self._tell({broker: epoch for broker, epoch in brokers.items() if broker not in withheld})
        return full_updates(self._image, self._claim, self._updated, self._listener)

    def waiting(self) -> dict[int, int]:
        """Brokers that have to get everything, with their epochs."""
        return {broker: waiting.epoch for broker, waiting in self._waiting.items()}

    def admissible(self) -> dict[int, int]:
        """Those of them for which nothing that they may have waits for ZooKeeper any more."""
        return {broker: waiting.epoch for broker, waiting in self._waiting.items() if self._is_admissible(waiting)}

    def _is_admissible(self, waiting: _Waiting) -> bool:
        return not self._held or waiting.may_have < self._held[0].until

    def welcome(self, brokers: Collection[int]) -> FullSendPlan:
        """Plan the full send of brokers that wait. From here on they get each change behind it, until `withhold`."""
        admitted = {broker: waiting.epoch for broker, waiting in self._waiting.items() if broker in brokers}
        for broker in admitted:
            del self._waiting[broker]
        self._tell(self._updated | admitted)
        return FullSendPlan(self._image_of_zookeeper(), self._claim, frozenset(admitted), self._listener)

    def withhold(self, broker: int, epoch: int) -> None:
        """It refused, or must not get its full send: it waits for everything once more."""
        if self._updated.get(broker) == epoch:
            del self._updated[broker]
            self._waiting[broker] = _Waiting(epoch, NOWHERE)

    def published(self, delta: Delta) -> list[BrokerUpdate]:
        """A commit: orders that may leave at once. What waits for ZooKeeper is kept."""
        self._image = delta.after
        self._update_audience()
        waiting = needs_zookeeper_first(delta) | self._topics_behind_held(delta)
        updates = delta_updates(
            delta,
            self._claim,
            self._updated,
            self._listener,
            delta.topics - waiting,
            refresh=bool(delta.brokers),
        )
        if waiting:
            self._held.append(_Held(delta, waiting, delta.after.position))
        return updates

    def mirrored(self, position: Position) -> list[BrokerUpdate]:
        """ZooKeeper has everything up to `position`: what waited for that may leave."""
        updates: list[BrokerUpdate] = []
        while self._held and self._held[0].until <= position:
            held = self._held.popleft()
            delta = self._with_brokers_of_now(held.delta)
            updates += delta_updates(delta, self._claim, self._updated, self._listener, held.topics, refresh=False)
        return updates

    def heal(self, broker: int, leftovers: Iterable[tuple[str, int]]) -> list[BrokerUpdate]:
        """What has to come before the next FULL LeaderAndIsr of a broker that refused one.

        leftovers: what it does not host by the log. Where brokers have no update of that yet, because ZooKeeper
        has to know first, it keeps its log: the others still follow it.
        """
        image = self._image_of_zookeeper()
        unused = [(topic, partition) for topic, partition in leftovers if not _hosts(image, broker, topic, partition)]
        return healing_updates(image, self._claim, image.brokers[broker], self._listener, unused)

    def audience(self) -> dict[int, int]:
        """Brokers that got everything, with the epoch under which they were."""
        return dict(self._updated)

    def _tell(self, updated: dict[int, int]) -> None:
        self._updated = updated
        self._lives |= updated

    def _update_audience(self) -> None:
        """Forget who is fenced, gone, or came back under another epoch; note who has to get everything."""
        now = {broker.id: broker.epoch for broker in reachable(self._image)}
        self._updated = {broker: epoch for broker, epoch in self._updated.items() if now.get(broker) == epoch}
        self._waiting = {
            broker: self._waiting_since(broker, epoch) for broker, epoch in now.items() if broker not in self._updated
        }

    def _waiting_since(self, broker: int, epoch: int) -> _Waiting:
        known = self._waiting.get(broker)
        if known is not None and known.epoch == epoch:
            return known
        is_new_life = self._lives.get(broker) != epoch
        return _Waiting(epoch, self._image.position if is_new_life else NOWHERE)

    def _topics_behind_held(self, delta: Delta) -> frozenset[bytes]:
        held = frozenset().union(*(each.topics for each in self._held)) if self._held else frozenset()
        return delta.topics & held

    def _with_brokers_of_now(self, delta: Delta) -> Delta:
        """A broker replaces whom it takes for alive with each UpdateMetadata, so a late one must not bring back a
        broker that was fenced since.
        """
        after = msgspec.structs.replace(delta.after, brokers=self._image.brokers)
        return msgspec.structs.replace(delta, after=after)

    def _image_of_zookeeper(self) -> Image:
        """The newest image, with the topics that wait as they were before: no broker got more of them yet."""
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
