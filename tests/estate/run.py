"""One run: a story, its faults, an operator who does what the status says, and what must hold at the end.

In:   a world and a plan. Out: a `Result` with what was violated.
Elsewhere: what must hold around each call (calls.py), faults (faults.py).
Rules: the operator has commands of the documentation only: advance, approve, rollback, resume, back. He mends a host
when the service needs somebody. A run that stands still although every host is whole is a violation.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from migrator.findings.road import LOSS_NOT_ACCEPTED, NODE_NOT_AS_JOURNAL
from migrator.fleet.roll import RollStep
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rows.observations import findings
from state_machine.rows.tables import Operation
from tests.estate.calls import LifeEnded, in_place
from tests.estate.faults import Fault, Plan, Story
from tests.estate.world import BROKERS, NODES, EstateWorld, without_zookeeper

STANDS_S: Final = 150.0
"""Nothing moves for so long although every host is whole: somebody is woken up."""
ROUND_S: Final = 3.0
"""Of the estate's time; what a round really takes is its calls."""
PATIENCE_S: Final = 6.0
"""Between two commands of the operator."""
ROUNDS_MAX: Final = 1_500
LIVES_MAX: Final = 20
NUMBERS: Final = re.compile(r"[0-9.]+")
TO: Final = {Phase.SOAK: Phase.FINALIZING, Phase.BROKERS_JOINING: Phase.BROKERS_JOINING}
"""Where `advance` has to say to what."""
ENDS: Final = (Phase.COMPLETED, Phase.ROLLED_BACK)


@dataclass(slots=True)
class Result:
    plan: Plan
    violations: list[str]
    reached: list[Fault]
    phase: str
    seconds: float
    rounds: int
    calls: int
    trace: list[str] = field(repr=False, default_factory=list)

    def __str__(self) -> str:
        head = (
            f"seed {self.plan.seed}: {self.phase} after {self.rounds} rounds, {self.calls} calls, {self.seconds:.1f} s"
        )
        faults = [f"  {'+' if each in self.reached else '-'} {each}" for each in self.plan.faults]
        return "\n".join([f"{head} ({self.plan.story})", *faults, *(f"  VIOLATED {each}" for each in self.violations)])


class Stuck(Exception):
    """Nothing moves any more."""


@dataclass(slots=True)
class Operator:
    """Looks at the status once a round. chance: between commands that the status offers at once."""

    world: EstateWorld
    plan: Plan
    chance: random.Random
    turned: bool = False
    _pressed_at: float = -1e9
    _moved_at: float = 0.0
    _last: object = None
    rounds: int = 0

    async def lead(self) -> None:
        """Until the end of the story, or of this life of the service."""
        while self.world.phase not in ENDS:
            await self.world.turn(ROUND_S)
            self.world.calls.mend(ROUND_S)
            self.rounds += 1
            if self.rounds > ROUNDS_MAX:
                raise Stuck(f"{ROUNDS_MAX} rounds, and no end: {self.world.phase}: {self.world.waiting}")
            self._watch()
            await self._look()

    def _watch(self) -> None:
        """Raises Stuck when nothing moves."""
        now = self.world.clock_steady()
        steps = frozenset((row.roll, row.node_id, row.step) for row in self.world.journal)
        found = (self.world.phase, steps, NUMBERS.sub("0", self.world.waiting), len(self.world.calls.standing))
        if found != self._last or self.world.calls.standing:
            self._last, self._moved_at = found, now
        elif now - self._moved_at > STANDS_S:
            raise Stuck(f"nothing moves in {self.world.phase}: {self.world.waiting}")

    async def _look(self) -> None:
        if self.world.clock_steady() - self._pressed_at < PATIENCE_S or self.world.phase in ENDS:
            return
        waiting = self.world.waiting
        failed = [row for row in self.world.journal if row.step == RollStep.FAILED]
        if not self.turned and self._turns_now():
            await self._roll_back()
        elif "blocked" in waiting and failed and " failed: " in waiting:
            self.world.calls.mend(0.0, everything=True)
            goes_back = "`zk2kraft back` returns" in waiting and self.chance.random() < 0.3
            await self._press("BACK" if goes_back else "RESUME")
        elif "runs with its previous file" in waiting or NODE_NOT_AS_JOURNAL.code in self._codes():
            await self._press("RESUME")
        elif "ready: " in waiting and not self.turned:
            to = {"to": TO[self.world.phase]} if self.world.phase in TO else {}
            await self._press("ADVANCE", **to)
        elif self.world.phase is Phase.DUAL_WRITE:
            self.world.enter(Phase.ROLLING_BROKERS)
        elif self.world.phase is Phase.SOAK and self.plan.story is Story.COMPLETED and "approved FINALIZING" in waiting:
            await self._press("APPROVE", who="Bo", to=Phase.FINALIZING)
        elif "approve --to ROLLING_BACK" in waiting:
            await self._press("APPROVE", who="Ada", to=Phase.ROLLING_BACK)

    def _codes(self) -> set[str]:
        """Of what the status names beside the phase."""
        return {each.code for each in findings(self.world.store, self.world.id, only_open=True)}

    def _turns_now(self) -> bool:
        phase, story = self.world.phase, self.plan.story
        whole = Counter(row.roll for row in self.world.journal if row.step == RollStep.WHOLE)
        match story:
            case Story.COMPLETED:
                return False
            case Story.BACK_HALF_WAY:
                return phase is Phase.ROLLING_BROKERS and whole[Roll.KRAFT] >= self.plan.turn
            case Story.BACK_AFTER_BROKERS:
                return phase is Phase.ROLLING_BROKERS and whole[Roll.KRAFT] == len(BROKERS)
            case Story.BACK_UNDER_STOCK:
                return phase is Phase.REPLACING_CONTROLLERS and whole[Roll.STOCK] >= self.plan.turn
            case Story.BACK_FROM_SOAK:
                return phase is Phase.SOAK

    async def _roll_back(self) -> None:
        operation = await self._press("ROLL_BACK")
        if operation.state == "succeeded":
            self.turned = True
        elif LOSS_NOT_ACCEPTED.code in operation.answer:
            await self._press("APPROVE", to=Phase.ROLLING_BACK)
        else:
            self.world.calls.mend(0.0, everything=True)
            self.world.calls.say(f"rollback refused: {operation.answer[:300]}")

    async def _press(self, name: str, **fields: object) -> Operation:
        self._pressed_at = self.world.clock_steady()
        self.world.calls.say(f"operator: {name} in {self.world.phase}: {self.world.waiting[:160]}")
        operation = await self.world.run_operation(name, **fields)
        if operation.state == "refused":
            self.world.calls.say(f"refused: {operation.answer[:300]}")
        return operation


def run(world: EstateWorld, plan: Plan, operator: Operator | None = None, dead: Collection[int] = ()) -> Result:
    """dead: nodes whose host is dead at the end; what is on them is not looked at."""
    began = time.monotonic()
    world.begin(plan)
    operator = operator or Operator(world, plan, random.Random(plan.seed + 1_000_000))
    violations: list[str] = []
    with in_place(world.calls), without_zookeeper(world):
        try:
            _lead(world, operator)
            violations += _end(world, dead)
        except Stuck as stuck:
            violations.append(str(stuck))
    violations = [*world.calls.violations, *world.violations, *violations]
    return Result(
        plan,
        violations,
        list(world.calls.reached),
        world.phase,
        time.monotonic() - began,
        operator.rounds,
        sum(world.calls.counted.values()),
        world.calls.trace,
    )


def _lead(world: EstateWorld, operator: Operator) -> None:
    """Life after life of the service, until the end of the story."""

    async def life(*, begins: bool) -> None:
        if begins:
            await (world.to_joining() if world.joins else world.to_rolling())
        await operator.lead()

    for number in range(LIVES_MAX):
        try:
            asyncio.run(life(begins=number == 0))
            return
        except LifeEnded:
            world.calls.say("the service lives anew")
            world.live_anew()
    raise Stuck(f"{LIVES_MAX} lives")


def _end(world: EstateWorld, dead: Collection[int]) -> list[str]:
    """What must hold when the migration is over: nodes, files, what was left behind."""
    world.calls.mend(0.0, everything=True)
    world.register()
    found = []
    completed = world.phase is Phase.COMPLETED
    for node in set(BROKERS).difference(dead):
        host, registered = world.hosts[node], world.hosts[node].registered()
        wanted = "KRaft" if completed else "ZooKeeper"
        if registered is None or registered.mode != wanted:
            found.append(f"broker {node} is {'down' if registered is None else registered.mode} in {world.phase}")
        text = host.properties.read_text()
        if ("process.roles" in text) is not completed:
            found.append(f"the file of broker {node} is not that of {world.phase}")
        if world.joins and text != world.first_file(node):
            found.append(f"the file of broker {node} is not the one with which it was found")
        if host.masked:
            found.append(f"the unit of broker {node} is still masked")
    for node in set(NODES).difference(dead):
        registered = world.hosts[node].registered()
        if completed and (registered is None or registered.flag):
            found.append(f"controller {node} is {'down' if registered is None else 'with the flag'} in {world.phase}")
        if not completed and registered is not None:
            found.append(f"stock runs as controller {node} in {world.phase}")
    for node in set(world.hosts).difference(dead):
        host = world.hosts[node]
        left = [each.name for each in host.properties.parent.iterdir() if ".zk2kraft-new" in each.name]
        if left:
            found.append(f"node {node} keeps {', '.join(left)}")
    return found
