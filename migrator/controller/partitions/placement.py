"""Where new replicas go: striped over racks and brokers, or where somebody wants them.

In:   the usable brokers with their racks, how many partitions and replicas, and chance; or a replica list by hand.
Out:  one replica list per partition, the preferred leader first; or the reason why it cannot be done; the directory of
a new replica.
Source: Kafka 3.9 `StripedReplicaPlacer`: the leader on the next unfenced broker of the current rack, followers
round-robin over the racks, everything shifted by one per partition, shuffled when all leaders were used once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from random import Random

from migrator.model.values import UNASSIGNED_DIRECTORY, ZERO_ID, Broker


class PlacementRefused(Exception):
    """There is no room; the text is the client's error message."""


class _Brokers:
    """A list that is walked once per epoch, each time from one place further on."""

    def __init__(self, brokers: list[int], chance: Random) -> None:
        self.ids = sorted(brokers)
        self._offset = chance.randrange(len(self.ids)) if self.ids else 0
        self._index = 0
        self._epoch = 0

    def next(self, epoch: int) -> int | None:
        if not self.ids:
            return None
        if epoch != self._epoch:
            self._epoch, self._index = epoch, 0
            self._offset = (self._offset + 1) % len(self.ids)
        if self._index >= len(self.ids):
            return None
        broker = self.ids[(self._index + self._offset) % len(self.ids)]
        self._index += 1
        return broker


class _Rack:
    def __init__(self, brokers: Iterable[Broker], chance: Random) -> None:
        members = list(brokers)
        self.fenced = _Brokers([broker.id for broker in members if broker.fenced], chance)
        self.unfenced = _Brokers([broker.id for broker in members if not broker.fenced], chance)

    def next(self, epoch: int) -> int | None:
        found = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if found is None else found

    def shuffle(self, chance: Random) -> None:
        chance.shuffle(self.unfenced.ids)
        chance.shuffle(self.fenced.ids)


def place(brokers: Iterable[Broker], partitions: int, replicas: int, chance: Random) -> list[tuple[int, ...]]:
    """brokers: registered and not in controlled shutdown; fenced ones may follow but not lead."""
    usable = list(brokers)
    unfenced = sum(not broker.fenced for broker in usable)
    if replicas <= 0:
        raise PlacementRefused("Invalid replication factor: the replication factor must be positive.")
    if unfenced == 0:
        raise PlacementRefused("All brokers are currently fenced.")
    if replicas > len(usable):
        raise PlacementRefused(
            f"The target replication factor of {replicas} cannot be reached because only {len(usable)} broker(s) are "
            "registered."
        )
    by_rack: dict[str, list[Broker]] = {}
    for broker in usable:
        by_rack.setdefault(broker.rack or "", []).append(broker)
    racks = [_Rack(by_rack[name], chance) for name in sorted(by_rack)]
    return _Striper(racks, unfenced, chance).place(partitions, replicas)


class _Striper:
    def __init__(self, racks: list[_Rack], unfenced: int, chance: Random) -> None:
        self._racks = racks
        self._unfenced = unfenced
        self._chance = chance
        self._offset = chance.randrange(len(racks))
        self._epoch = 0

    def place(self, partitions: int, replicas: int) -> list[tuple[int, ...]]:
        return [self._one(replicas) for _ in range(partitions)]

    def _one(self, replicas: int) -> tuple[int, ...]:
        if self._epoch == self._unfenced and self._unfenced > 1:
            self._chance.shuffle(self._racks)
            for rack in self._racks:
                rack.shuffle(self._chance)
            self._epoch = 0
        start = self._offset % len(self._racks)
        leader_rack, leader = self._leader(start)
        chosen = [leader]
        index = start
        skip: int | None = leader_rack  # the leader's rack is passed over once
        while len(chosen) < replicas:
            if index == skip:
                skip = None
            else:
                broker = self._racks[index].next(self._epoch)
                if broker is not None:
                    chosen.append(broker)
            index = (index + 1) % len(self._racks)
        self._epoch += 1
        self._offset = start + 1
        return tuple(chosen)

    def _leader(self, start: int) -> tuple[int, int]:
        for step in range(len(self._racks)):
            rack = (start + step) % len(self._racks)
            broker = self._racks[rack].unfenced.next(self._epoch)
            if broker is not None:
                return rack, broker
        raise AssertionError("an unfenced broker exists and every epoch starts its list anew")


# --- by hand ----------------------------------------------------------------------------------------------


def manual_problem(known: Container[int], replicas: Sequence[int], size: int | None = None) -> str | None:
    """Why nobody may place a partition like that. known: ids of registered brokers; size: how many are wanted."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    for broker in sorted(replicas):
        if broker not in known:
            return f"The manual partition assignment includes broker {broker}, but no such broker is registered."
        if replicas.count(broker) > 1:
            return f"The manual partition assignment includes the broker {broker} more than once."
    if size is not None and len(replicas) != size:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {size} replica(s)."
        )
    return None


def default_directory(broker: Broker) -> bytes:
    """The one directory of the broker; ZERO_ID (MIGRATING) when it registered none, UNASSIGNED when several."""
    if len(broker.log_dirs) == 1:
        return broker.log_dirs[0]
    return ZERO_ID if not broker.log_dirs else UNASSIGNED_DIRECTORY
