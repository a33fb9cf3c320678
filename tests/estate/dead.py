"""One host is dead from some moment of a phase to the end of the run, and the cluster goes back all the same.

In:   a world, a `Death`. Out: a `Result`, as of any run.
Elsewhere: faults that somebody mends (faults.py), the operator of the other runs (run.py).
Rules: nobody mends the host. The operator has what the documentation says of a dead host: waivers that name a node,
`kafka-cluster.sh unregister`, and in FINALIZING `zk2kraft abort`. He waits for a while before he goes back.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from migrator.findings.road import FILES_NOT_READ, LOSS_NOT_ACCEPTED, NODE_HOLDS_WAY_BACK
from migrator.fleet.roll import RollStep
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from state_machine.rollback.stops import MAJORITY
from tests.estate.faults import Plan, Story
from tests.estate.run import Operator, Result, run
from tests.estate.world import BROKERS, NODES, EstateWorld

FORWARD_S: Final = 45.0
"""Of the estate's time: he waits so long after the death for the way forward."""


def at_its_begin(world: EstateWorld) -> bool:
    return True


def when_whole(roll: Roll, count: int) -> Callable[[EstateWorld], bool]:
    """count: nodes of the roll that are there again."""
    return lambda world: Counter(row.roll for row in world.journal if row.step == RollStep.WHOLE)[roll] >= count


def when_stopped(roll: Roll, node: int) -> Callable[[EstateWorld], bool]:
    """Between its stop and its start."""
    away = (RollStep.STOPPED, RollStep.WRITTEN)
    return lambda world: any((row.roll, row.node_id) == (roll, node) and row.step in away for row in world.journal)


@dataclass(frozen=True, slots=True)
class Death:
    """Of the host of `node`: in `phase`, as soon as `when` holds. story: where the run goes until then."""

    node: int
    phase: Phase
    when: Callable[[EstateWorld], bool] = at_its_begin
    story: Story = Story.COMPLETED


DEATHS: Final = {
    "broker-before-brokers": Death(2, Phase.ROLLING_BROKERS),
    "broker-in-kraft-mode": Death(0, Phase.ROLLING_BROKERS, when_whole(Roll.KRAFT, 1)),
    "broker-not-yet-in-kraft-mode": Death(2, Phase.ROLLING_BROKERS, when_whole(Roll.KRAFT, 1)),
    "broker-in-its-restart": Death(1, Phase.ROLLING_BROKERS, when_stopped(Roll.KRAFT, 1)),
    "broker-before-controllers": Death(1, Phase.REPLACING_CONTROLLERS),
    "controller-before-controllers": Death(NODES[1], Phase.REPLACING_CONTROLLERS),
    "controller-of-stock": Death(NODES[1], Phase.REPLACING_CONTROLLERS, when_whole(Roll.STOCK, 2)),
    "controller-in-its-replacement": Death(NODES[1], Phase.REPLACING_CONTROLLERS, when_stopped(Roll.STOCK, NODES[1])),
    "broker-in-the-soak": Death(1, Phase.SOAK),
    "controller-in-the-soak": Death(NODES[2], Phase.SOAK),
    "broker-before-the-finalize": Death(1, Phase.FINALIZING),
    "controller-before-the-finalize": Death(NODES[2], Phase.FINALIZING),
    "broker-on-the-way-back": Death(1, Phase.ROLLING_BACK, story=Story.BACK_AFTER_BROKERS),
    "broker-back-in-its-restart": Death(
        1, Phase.ROLLING_BACK, when_stopped(Roll.BACK, 1), story=Story.BACK_AFTER_BROKERS
    ),
    "broker-on-the-way-back-from-the-soak": Death(1, Phase.ROLLING_BACK, story=Story.BACK_FROM_SOAK),
    "controller-on-the-way-back": Death(NODES[2], Phase.ROLLING_BACK, story=Story.BACK_FROM_SOAK),
    "controller-back-in-its-restart": Death(
        NODES[1], Phase.ROLLING_BACK, when_stopped(Roll.OURS, NODES[1]), story=Story.BACK_FROM_SOAK
    ),
}
"""By the name under which `--dead` runs it."""


@dataclass(slots=True)
class Survivor(Operator):
    """died_at: of the estate's time; None: the host lives. waived: what and which node, as written to the inventory."""

    death: Death = Death(0, Phase.ROLLING_BROKERS)
    died_at: float | None = None
    waived: frozenset[tuple[str, int]] = frozenset()

    async def lead(self) -> None:
        await Operator.lead(self)
        await self.world.turn()  # once more: what the status says at the end

    async def _look(self) -> None:
        death, world = self.death, self.world
        if self.died_at is None and world.phase is death.phase and death.when(world):
            self.died_at = world.clock_steady()
            world.calls.say(f"** the host of node {death.node} is dead")
            world.calls.unplug(world.hosts[death.node])
        if self.died_at is not None and self.turned and self._accepts():
            return
        await Operator._look(self)

    def _turns_now(self) -> bool:
        if self.death.phase is Phase.ROLLING_BACK:
            return Operator._turns_now(self)
        return self.died_at is not None and self.world.clock_steady() - self.died_at >= FORWARD_S

    async def _roll_back(self) -> None:
        """From FINALIZING by way of the soak. What the answer names is accepted, and it is requested again."""
        leaves = self.world.phase is Phase.FINALIZING
        operation = await self._press("ABORT" if leaves else "ROLL_BACK")
        if operation.state == "succeeded":
            self.turned = not leaves
        elif LOSS_NOT_ACCEPTED.code in operation.answer:
            await self._press("APPROVE", to=Phase.ROLLING_BACK)
        elif f"controller {self.death.node}" in operation.answer:
            self._waive(FILES_NOT_READ.code if leaves else NODE_HOLDS_WAY_BACK.code, self.death.node)

    def _accepts(self) -> bool:
        """What the status asks for because of this host; True when something was new."""
        node, waiting, before = self.death.node, self.world.waiting, self.waived
        failed = any((row.node_id, row.step) == (node, RollStep.FAILED) for row in self.world.journal)
        unproven = f"the guard of controller {node} is proven" in waiting
        if failed or unproven or NODE_HOLDS_WAY_BACK.code in self._codes():
            self.world.left_out.add(node)
            self._waive(NODE_HOLDS_WAY_BACK.code, node)
        if MAJORITY in waiting:
            for each in set(NODES) - {node}:
                self._waive(MAJORITY, each)
        if f"in KRaft mode: brokers [{node}]" in waiting and node in self.world.sessions:
            self.world.calls.say(f"operator: kafka-cluster.sh unregister --id {node}")
            del self.world.sessions[node]
            return True
        return self.waived != before

    def _waive(self, what: str, node: int) -> None:
        if (what, node) in self.waived:
            return
        self.waived |= {(what, node)}
        self.world.calls.say(f"operator: a waiver of {what} for node {node}")
        assert self.world.settings.fleets is not None, "it has hosts"
        file = self.world.settings.fleets / "orders.yaml"
        rows = [
            {"what": what, "node": node, "owner": "Ada", "reason": "its disk is dead", "end": "2099-01-01T00:00:00Z"}
            for what, node in sorted(self.waived)
        ]
        file.write_text(json.dumps({**json.loads(file.read_text()), "waivers": rows}))


def outlive(world: EstateWorld, name: str) -> Result:
    """The run of DEATHS with this name."""
    death = DEATHS[name]
    plan = Plan(0, death.story, 1, (), (0,) * len(world.hosts))
    operator = Survivor(world, plan, random.Random(0), death=death)
    result = run(world, plan, operator, dead=(death.node,))
    if operator.died_at is None:
        result.violations.append(f"no host died: {death.phase} was not reached as it is meant")
    elif result.phase != Phase.ROLLED_BACK:
        result.violations.append(f"it ends in {result.phase}")
    elif death.node in BROKERS and f"{death.node}" not in world.waiting:
        result.violations.append(f"the status does not name broker {death.node}: {world.waiting}")
    return result
