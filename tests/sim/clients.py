"""Clients that write and read registers through whoever leads, and remember what they were told.

A read goes through the log as a write does: it is answered from the state at its own record. What a client is not told
for sure (its request or the answer was lost, the leader left) stays unknown, and the checker must allow for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.sim.invariants import Violation
from tests.sim.linearizable import Operation, is_linearizable

if TYPE_CHECKING:
    from tests.sim.world import World

REGISTERS = ("a", "b", "c")


@dataclass
class Pending:
    """What one client is waiting for."""

    client: int
    register: str
    is_write: bool
    operation: int
    begin: int
    closed: bool = False


class Clients:
    def __init__(self, world: World) -> None:
        self.world = world
        self.writes: dict[int, tuple[str, int]] = {}
        """Operation to register and value; a read is not among them."""
        self.history: dict[str, list[Operation]] = {register: [] for register in REGISTERS}
        self.last = 0
        self.clock = 0
        self.believed: dict[int, int] = {}
        self.open: dict[int, Pending] = {}
        """What each client waits for; at the end of a run it is unknown like the rest."""
        self.completed = 0
        self.unknowns = 0

    def start(self) -> None:
        for client in range(self.world.plan.clients):
            self.world.at(client + 1, self._next, client)

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def _next(self, client: int) -> None:
        """Ask whom we believe to lead, after the way to it; give up after a while and go on with something else."""
        world, rng = self.world, self.world.rng
        if world.healed:
            return
        self.last += 1
        register = REGISTERS[int(rng.random() * len(REGISTERS))]
        pending = Pending(client, register, rng.random() < 0.6, self.last, self._tick())
        self.open[client] = pending
        if pending.is_write:
            self.writes[self.last] = (register, self.last)
        target = self.believed.get(client) or rng.choice(world.plan.voter_ids)
        if rng.random() >= world.plan.weather.drop:
            count = 1 if rng.random() < 0.8 else 3
            world.at(world.delay_ms(), self._arrive, pending, target, count)
        world.at(4 * world.plan.settings.fetch_timeout_ms, self._give_up, pending)

    def _arrive(self, pending: Pending, target: int, count: int) -> None:
        if pending.closed:
            self._forget(pending)
            return
        if not self.world.nodes[target].propose(pending.operation, count, pending):
            self._forget(pending)  # surely not done
            self.believed[pending.client] = self.world.last_leader
            self._go_on(pending)

    def _forget(self, pending: Pending) -> None:
        self.writes.pop(pending.operation, None)

    def _go_on(self, pending: Pending) -> None:
        if not pending.closed:
            pending.closed = True
            self.world.at(1 + int(self.world.rng.random() * 2 * self.world.plan.think_ms), self._next, pending.client)

    def done(self, node: int, pending: Pending, registers: dict[str, int]) -> None:
        """The answer sets out; it may be lost on its way."""
        if isinstance(pending, Pending):
            value = pending.operation if pending.is_write else registers.get(pending.register, 0)
            lost = self.world.rng.random() < self.world.plan.weather.drop
            if lost:
                self.unknown(pending)
            else:
                self.world.at(self.world.delay_ms(), self._answered, node, pending, value)

    def _answered(self, node: int, pending: Pending, value: int) -> None:
        if pending.closed:
            return
        self.believed[pending.client] = node
        self.completed += 1
        self.history[pending.register].append(Operation(pending.is_write, value, pending.begin, self._tick()))
        self._go_on(pending)

    def unknown(self, pending: Pending) -> None:
        """It may have been done, may still be, or never."""
        if isinstance(pending, Pending) and not pending.closed:
            self._note_unknown(pending)
            self._go_on(pending)

    def _give_up(self, pending: Pending) -> None:
        if not pending.closed:
            self._note_unknown(pending)
            self._go_on(pending)

    def _note_unknown(self, pending: Pending) -> None:
        self.unknowns += 1
        if pending.is_write:
            self.history[pending.register].append(Operation(True, pending.operation, pending.begin))

    def check(self) -> None:
        for pending in self.open.values():
            self.unknown(pending)
        for register, history in self.history.items():
            if not is_linearizable(history):
                raise Violation(
                    "safety: reads and writes have no order", f"register {register}, {len(history)} operations"
                )
