"""How whole the replicas of a cluster are, as its brokers tell any client: for restarts that no metadata log leads.

In:   the inventory. Out: `ReplicasSeen`, asked for by the loop; it never waits.
Elsewhere: the restarts with original files after a rollback (rolling/original.py).
Rules: a fresh client for each reading, with bounded calls: brokers that just changed their controller keep a client of
before waiting. A reading counts only when it names every broker; a broker that has no metadata yet names none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from migrator.findings.finding import FindingError, words_of
from migrator.fleet.inventory import Inventory
from migrator.model.verdict import Condition
from state_machine.nodes.kafka_clients import client_settings
from state_machine.nodes.wire_client import ask_metadata, speaks_gssapi
from state_machine.policy.conditions import rests_on, why_lacking
from state_machine.times.stretches import Moment, ObservedTime, gone_on, passed

THIS_LIFE: Final = "this one"
"""What is kept here ends with the service."""

ANSWER_S: Final = 5.0
EVERY_S: Final = 1.0
FRESH_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class ReplicasSeen:
    """One reading. brokers: that the metadata names. problem: why there is none; empty when there is one.

    under_replicated_leader: the broker that leads every under-replicated partition; None where several do, or none.
    lacking: replicas and ISR of every partition whose ISR is not all of its replicas, each pair once.
    """

    brokers: tuple[int, ...] = ()
    under_replicated: int = 0
    under_replicated_leader: int | None = None
    leaderless: int = 0
    problem: str = ""
    lacking: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()


def read_replicas(inventory: Inventory) -> ReplicasSeen:
    """Blocks. What a broker or a secret does is a problem in words."""
    try:
        brokers, partitions = _by_wire(inventory) if speaks_gssapi(inventory) else _by_librdkafka(inventory)
    except (KafkaException, FindingError, OSError) as error:
        return ReplicasSeen(problem=words_of(error))
    lacking = [each for each in partitions if set(each.isr) != set(each.replicas)]
    leaders = {each.leader for each in lacking}
    return ReplicasSeen(
        brokers=tuple(sorted(brokers)),
        under_replicated=len(lacking),
        under_replicated_leader=leaders.pop() if len(leaders) == 1 and min(leaders) >= 0 else None,
        leaderless=sum(each.leader < 0 for each in partitions),
        lacking=tuple(sorted({(tuple(sorted(each.replicas)), tuple(sorted(each.isr))) for each in lacking})),
    )


class _Partition(NamedTuple):
    leader: int
    replicas: Collection[int]
    isr: Collection[int]


def _by_librdkafka(inventory: Inventory) -> tuple[Collection[int], list[_Partition]]:
    found = AdminClient(client_settings(inventory)).list_topics(timeout=ANSWER_S)
    partitions = (each for topic in found.topics.values() for each in topic.partitions.values())
    return found.brokers.keys(), [_Partition(each.leader, each.replicas, each.isrs) for each in partitions]


def _by_wire(inventory: Inventory) -> tuple[Collection[int], list[_Partition]]:
    found = ask_metadata(inventory)
    partitions = (each for topic in found.topics for each in topic.partitions)
    return (
        [each.node_id for each in found.brokers],
        [_Partition(each.leader_id, each.replica_nodes, each.isr_nodes) for each in partitions],
    )


def _without(seen: ReplicasSeen, out: Collection[int]) -> ReplicasSeen:
    """What was seen, as if the brokers that are left out had no replicas. Nothing is known of the leaders then."""
    if not out or seen.problem:
        return seen
    lacks = [(replicas, isr) for replicas, isr in seen.lacking if set(replicas) - set(isr) - set(out)]
    return replace(seen, under_replicated=len(lacks), under_replicated_leader=None, leaderless=0)


def at_stake(seen: ReplicasSeen, broker: int) -> int:
    """Kinds of partitions that lack a replica already and would lose a second one with this broker. Clients are not
    told the minimum ISR, so that any second one counts.
    """
    return sum(broker in isr for _, isr in seen.lacking)


class ReplicasWatch:
    """The replicas of one migration, in this life of the service. read: makes one reading; blocks. away: calls it on a
    thread.
    """

    def __init__(
        self,
        read: Callable[[Inventory], ReplicasSeen] = read_replicas,
        steady: Callable[[], float] = time.monotonic,
        away: Callable[..., Coroutine[Any, Any, ReplicasSeen]] = asyncio.to_thread,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._began_by_clock = 0.0
        self._moment: Moment | None = None
        self._read = read
        self._away = away
        self._steady = steady
        self._task: asyncio.Task[ReplicasSeen] | None = None
        self._began = -1e9
        self._seen: ReplicasSeen | None = None
        self._seen_at = 0.0
        self._whole: ObservedTime | None = None
        self._lacking: ObservedTime | None = None

    def tend(self, inventory: Inventory, wanted: Collection[int], out: Collection[int] = ()) -> None:
        """Take what was read, and begin the next reading when it is due. wanted: brokers that have to be there. out:
        brokers that are left out by name: what lacks only them is as whole as it can be.
        """
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            self._take(_without(task.result(), out), wanted)
        if self._task is None and self._steady() - self._began >= EVERY_S:
            self._began, self._began_by_clock = self._steady(), self._clock()
            self._task = asyncio.create_task(self._away(self._read, inventory))

    def _take(self, seen: ReplicasSeen, wanted: Collection[int]) -> None:
        self._seen, self._seen_at = seen, self._began
        missing = set(wanted) - set(seen.brokers)
        before, self._moment = self._moment, Moment(self._began_by_clock, self._began, THIS_LIFE)
        passed_s = passed(before, self._moment)
        known = not seen.problem and not missing
        whole = known and not seen.under_replicated and not seen.leaderless
        self._whole = gone_on(self._whole, passed_s, holds=whole)
        self._lacking = gone_on(self._lacking, passed_s, holds=known and bool(seen.under_replicated))

    def at_stake(self, broker: int) -> int:
        return 0 if self._seen is None else at_stake(self._seen, broker)

    def conditions(self, wanted: Collection[int], settle_s: float) -> tuple[Condition, ...]:
        """The conditions on replicas before a broker is stopped, and before the next one."""
        seen, age = self._seen, self._steady() - self._seen_at
        if seen is None or age > FRESH_S:
            said = "no reading yet" if seen is None else f"the last reading is {age:.0f} s old"
            return (Condition("brokers tell how whole the replicas are", False, said),)
        missing = sorted(set(wanted) - set(seen.brokers))
        settled = 0.0 if self._whole is None else self._whole.seconds
        lacking = None if self._lacking is None else self._lacking.seconds
        return (
            Condition("brokers tell how whole the replicas are", not seen.problem, seen.problem or f"{age:.0f} s ago"),
            Condition(
                "clients see every broker",
                not missing,
                f"brokers {missing} are missing" if missing else f"{len(seen.brokers)} brokers",
            ),
            Condition(
                "no partition is under-replicated or without a leader",
                not seen.problem and not seen.under_replicated and not seen.leaderless,
                f"under-replicated partitions: {seen.under_replicated}; partitions without a leader: {seen.leaderless}"
                + why_lacking(lacking, seen.under_replicated_leader),
            ),
            Condition(
                f"nothing was under-replicated for {settle_s:g} s",
                self._whole is not None and settled >= settle_s,
                f"every partition has been fully replicated for {settled:.0f} s"
                + rests_on("" if self._whole is None else self._whole.text),
            ),
        )
