"""What goes wrong in one run, drawn from its seed.

In:   a seed and the nodes of a story. Out: a `Plan`: where the story turns back, and faults at calls of the actuator.
Elsewhere: how a fault is done (calls.py), what a run does about it (run.py).
Rules: a fault is named by node, act and how often that act was called, so that it is the same one in every run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Effect(StrEnum):
    """Of one call, or from one call on until somebody mends it.

    DROPPED: the connection is reset after some bytes. REFUSED: closed before the first byte; ssh ends with 255.
    HANGS: nothing answers any more. FOREIGN_KEY: the host shows another key. DISK_FULL: below the files of properties.
    LINK_DOWN: the host cannot be reached. POWER_CUT: everything on it ends; it boots later. CRASHED: its broker or
    controller ends by kill -9 and its supervisor starts it again. SERVICE_KILLED: the service lives anew on its rows.
    DATABASE_BACK: the same, and its database is that from before the round. CLOCK_BACK, CLOCK_FORWARD: of the service,
    by an hour. HOST_CLOCK: of the host, by a day.
    """

    DROPPED = "dropped"
    REFUSED = "refused"
    HANGS = "hangs"
    FOREIGN_KEY = "foreign key"
    DISK_FULL = "disk full"
    LINK_DOWN = "link down"
    POWER_CUT = "power cut"
    CRASHED = "crashed"
    SERVICE_KILLED = "service killed"
    DATABASE_BACK = "database back"
    CLOCK_BACK = "clock back"
    CLOCK_FORWARD = "clock forward"
    HOST_CLOCK = "host clock"


LASTING: Final = frozenset({Effect.FOREIGN_KEY, Effect.DISK_FULL, Effect.LINK_DOWN, Effect.POWER_CUT})
"""Somebody mends them: after a while, or when the service says that it needs somebody."""
WEIGHTS: Final = {
    Effect.DROPPED: 6,
    Effect.REFUSED: 2,
    Effect.HANGS: 1,
    Effect.FOREIGN_KEY: 1,
    Effect.DISK_FULL: 2,
    Effect.LINK_DOWN: 2,
    Effect.POWER_CUT: 4,
    Effect.CRASHED: 2,
    Effect.SERVICE_KILLED: 4,
    Effect.DATABASE_BACK: 1,
    Effect.CLOCK_BACK: 1,
    Effect.CLOCK_FORWARD: 1,
    Effect.HOST_CLOCK: 1,
}
ACTS: Final = {"write": 5, "stop": 4, "start": 4, "read": 4, "status": 2, "read_many": 2}
OFTEN: Final = {"write": 6, "stop": 2, "start": 2, "read": 12, "status": 6, "read_many": 4}
"""The latest call of an act that is drawn."""
HANDSHAKE_BYTES: Final = (2_400, 3_200)
"""About what ssh carries before the command, from the host and to it."""
BYTES_MAX: Final = 8_000


class Story(StrEnum):
    """Where a run goes. The ways back say where they turn."""

    COMPLETED = "to the end"
    BACK_HALF_WAY = "back from the middle of the brokers"
    BACK_AFTER_BROKERS = "back when every broker is in KRaft mode"
    BACK_UNDER_STOCK = "back from the middle of the controllers"
    BACK_FROM_SOAK = "back from the soak"


@dataclass(frozen=True, slots=True)
class Fault:
    """nth: from 1, which call of `act` on `node`. after_bytes of one direction; more than there are: when it ended.

    lasts_s: of the estate's time, unless the service asks for somebody before.
    """

    node: int
    act: str
    nth: int
    effect: Effect
    to_host: bool
    after_bytes: int
    lasts_s: float

    def __str__(self) -> str:
        way = "to the host" if self.to_host else "from the host"
        lasting = f", for {self.lasts_s:.0f} s" if self.effect in LASTING else ""
        return f"{self.effect} at {self.act} {self.nth} of node {self.node}, {self.after_bytes} bytes {way}{lasting}"


@dataclass(frozen=True, slots=True)
class Plan:
    """turn: how many brokers or controllers are whole when the story turns back in the middle. joins: it begins in
    BROKERS_JOINING, with the first restart of each broker, instead of in ROLLING_BROKERS.
    """

    seed: int
    story: Story
    turn: int
    faults: tuple[Fault, ...]
    skews: tuple[int, ...]
    joins: bool = False

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed}: {self.story} ({self.turn})", *(f"  {each}" for each in self.faults)])


def plan_of(seed: int, brokers: Sequence[int], controllers: Sequence[int]) -> Plan:
    """One to four faults; every fifth run has none but the story."""
    chance = random.Random(seed)
    story = list(Story)[seed % len(Story)]
    nodes = [*brokers, *brokers, *controllers] if story in OF_CONTROLLERS else list(brokers)
    faults = [_drawn(chance, nodes) for _ in range(chance.randint(1, 4))]
    skews = tuple(chance.choice((0, 0, 0, 7, -7, 3600, -86_400)) for _ in (*brokers, *controllers))
    return Plan(seed, story, chance.randint(1, 2), tuple(faults), skews)


def that_joins(plan: Plan, brokers: Sequence[int]) -> Plan:
    """The same story from the first restart on, back to the original files, with faults of brokers only."""
    story = plan.story if plan.story in (Story.BACK_HALF_WAY, Story.BACK_AFTER_BROKERS) else Story.BACK_HALF_WAY
    faults = tuple(each for each in plan.faults if each.node in brokers)
    return replace(plan, story=story, faults=faults, joins=True)


def with_cut_writes(plan: Plan, brokers: Sequence[int]) -> Plan:
    """The same story, and the connection is lost somewhere in the first file that is put in place."""
    chance = random.Random(plan.seed)
    first = [
        Fault(node, "write", nth, Effect.DROPPED, True, chance.randint(4_000, 7_000), 0.0)
        for node in brokers
        for nth in (2, 3)  # the first one keeps the file before
    ]
    return replace(plan, faults=tuple(first))


OF_CONTROLLERS: Final = (Story.COMPLETED, Story.BACK_UNDER_STOCK, Story.BACK_FROM_SOAK)


def _drawn(chance: random.Random, nodes: Sequence[int]) -> Fault:
    act = chance.choices(list(ACTS), list(ACTS.values()))[0]
    effect = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    to_host = chance.random() < 0.5
    after = chance.choice((0, chance.randint(0, BYTES_MAX), chance.randint(*HANDSHAKE_BYTES), 1 << 30))
    if effect is Effect.DROPPED:
        after = chance.choice((chance.randint(0, BYTES_MAX), chance.randint(2_000, 5_000)))
    nth = chance.randint(1, OFTEN[act])
    return Fault(chance.choice(list(nodes)), act, nth, effect, to_host, after, chance.choice((3.0, 20.0, 90.0)))
