"""The whole simulation: virtual time, the network, the faults, the storm and the healing.

Everything that happens is an entry in one queue, ordered by virtual time and by the order of its making; all chance
comes from one generator. So a seed is a run: the same seed gives the same steps on every machine.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from typing import Any

from migrator.raft.types import Event, RequestFailed, ResignRequested, Stopping
from tests.sim.clients import Clients
from tests.sim.disk import Losses
from tests.sim.invariants import Ledger, Violation
from tests.sim.node import SimNode
from tests.sim.plan import STORM_MS_MAX, Action, Plan

HEAL_UNITS = 200
"""A healed majority must commit and everybody must follow within so many election timeouts."""


class World:
    node_type: type[SimNode] = SimNode

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed ^ 0x5EED)
        self.now = 0
        self.steps = 0
        self.healed = False
        self.counts: Counter[str] = Counter()
        self.losses = Losses()
        self.ledger = Ledger()
        self.clients = Clients(self)
        self.last_leader = 1
        self.story: list[str] = []
        self._queue: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        self._made = 0
        self._sent = 0
        self._cut: Counter[tuple[int, int]] = Counter()
        self._delivered: dict[tuple[int, int], int] = {}
        skew = plan.weather.skew
        self.nodes = {
            node: self.node_type(node, self, 1 + skew * (2 * self.rng.random() - 1), self.rng.randint(0, 10**6))
            for node in plan.node_ids
        }
        self.voters = [self.nodes[node] for node in plan.voter_ids]
        if skew:
            self.count("skewed clocks")

    # --- time ----------------------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Any, *args: Any) -> None:
        self._made += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._made, action, args))

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def tell(self, line: str) -> None:
        """For the trace and the report."""
        self.story.append(f"{self.steps:6} {self.now / 1000:9.3f} s  {line}")

    def run(self) -> None:
        """The storm, then the healing; raises `Violation` at the first broken promise."""
        try:
            self._storm()
            self._heal()
            self.clients.check()
        except AssertionError as error:
            raise Violation("safety: a node refused to go on", str(error)) from error
        self.count("power cuts that lost records", self.losses.batches)
        self.count("torn writes", self.losses.torn)

    def _storm(self) -> None:
        for node in self.nodes.values():
            node.boot()
        for action in self.plan.actions:
            self.at(action.at_ms, self._act, action)
        self.clients.start()
        self._watch()
        self._run_until(STORM_MS_MAX)

    def _run_until(self, end_ms: int) -> None:
        queue, pop, limit = self._queue, heapq.heappop, self.plan.storm_events
        while queue and self.steps < limit and self.now < end_ms:
            self.now, _, action, args = pop(queue)
            action(*args)

    def _watch(self) -> None:
        """What no event of a node shows: that it did nothing."""
        for node in self.voters:
            if node.alive:
                self.ledger.no_zombie.check(self, node)
        self.at(self.plan.settings.fetch_timeout_ms // 2, self._watch)

    # --- the network ---------------------------------------------------------------------------------------

    def delay_ms(self) -> int:
        low, high = self.plan.weather.delay_ms if not self.healed else (1, 5)
        return low + int(self.rng.random() * (high - low + 1))

    def _transmit(self, source: int, target: int, deliver: Any, *args: Any) -> bool:
        """One message on its way, perhaps twice, perhaps never. False when it is surely lost at once."""
        weather, chance = self.plan.weather, self.rng.random
        if self._cut[source, target]:
            self.count("messages cut off")
            return False
        if not self.healed:
            if chance() < weather.drop:
                self.count("messages dropped")
                return False
            if weather.duplicate and chance() < weather.duplicate:
                self.count("messages duplicated")
                self.at(self.delay_ms(), deliver, *args)
        self._sent += 1
        self.at(self.delay_ms(), self._arrive, source, target, self._sent, deliver, args)
        return True

    def _arrive(self, source: int, target: int, number: int, deliver: Any, args: tuple[Any, ...]) -> None:
        link = source, target
        if self._cut[link]:
            self.count("messages cut off")
            return
        if number < self._delivered.get(link, 0):
            self.count("messages reordered")
        else:
            self._delivered[link] = number
        deliver(*args)

    def ask(self, sender: SimNode, target: int, number: int, build: Any) -> None:
        """A request. When nobody listens, the sender may be told so, as a closed port does."""
        source, life = sender.node_id, sender.incarnation
        sent = self._transmit(source, target, self._requested, source, life, target, number, build)
        if not sent and self.rng.random() < 0.3:
            self.at(self.delay_ms(), self._answered, source, life, RequestFailed(number))

    def _requested(self, source: int, life: int, target: int, number: int, build: Any) -> None:
        node = self.nodes[target]
        if node.alive:
            node.request(source, life, number, build)
        elif self.rng.random() < 0.7:
            self._transmit(target, source, self._answered, source, life, RequestFailed(number))

    def answer(self, source: int, target: int, life: int, event: Event) -> None:
        self._transmit(source, target, self._answered, target, life, event)

    def _answered(self, target: int, life: int, event: Event) -> None:
        """Answers belong to a connection, and that dies with the process that asked."""
        node = self.nodes[target]
        if node.incarnation == life:
            node.deliver(event)
        else:
            self.count("late answers")

    # --- faults --------------------------------------------------------------------------------------------

    def led(self, node: int, epoch: int) -> None:
        self.last_leader = node
        self.count("elections")
        self.tell(f"node {node} leads epoch {epoch}")

    def crash(self, node: SimNode, *, power_cut: bool, down_ms: int | None = None) -> None:
        if not node.alive:
            return
        self.tell(f"node {node.node_id} {'loses power' if power_cut else 'is killed'}")
        node.die(power_cut=power_cut)
        down_ms = down_ms if down_ms is not None else int(self.rng.random() * 4 * self.plan.settings.fetch_timeout_ms)
        self.at(down_ms + 1, self._restart, node)

    def _restart(self, node: SimNode) -> None:
        if not node.alive:
            self.count("restarts")
            self.tell(f"node {node.node_id} starts")
            node.boot()

    def _act(self, action: Action) -> None:
        if self.healed:
            return
        self.tell(str(action))
        nodes = [self.nodes[node] for node in action.nodes]
        if action.kind != "crash-at":
            self.count(action.kind)
        match action.kind:
            case "kill":
                self.crash(nodes[0], power_cut=False, down_ms=action.span_ms)
            case "power-cut" | "power-cut-all":
                for node in nodes:
                    self.crash(node, power_cut=True, down_ms=action.span_ms)
            case "power-cut-leader":
                self.crash(self.nodes[self.last_leader], power_cut=True, down_ms=action.span_ms)
            case "crash-at":
                nodes[0].crash_at = action.detail
            case "partition":
                rest = [node for node in self.plan.node_ids if node not in action.nodes]
                self._cut_for(action.span_ms, [(a, b) for a in action.nodes for b in rest], both=True)
            case "isolate":
                lone = action.nodes[0]
                self._cut_for(action.span_ms, [(lone, each) for each in self.plan.node_ids if each != lone], both=True)
            case "one-way":
                self._cut_for(action.span_ms, [(action.nodes[0], action.nodes[1])], both=False)
            case "pause":
                nodes[0].pause(True)
                self.at(action.span_ms, self._resume, nodes[0], nodes[0].incarnation)
            case "slow-disk":
                nodes[0].slow_factor = int(action.detail)
                self.at(action.span_ms, self._quicken, nodes[0])
            case "stop":
                nodes[0].deliver(Stopping())
                self.at(action.span_ms, self._stopped, nodes[0], nodes[0].incarnation)
            case "resign":
                if nodes[0].takes_proposals:
                    nodes[0].deliver(ResignRequested(nodes[0].voter.epoch))
            case _:
                raise ValueError(action.kind)

    def _cut_for(self, span_ms: int, links: list[tuple[int, int]], *, both: bool) -> None:
        if both:
            links = links + [(b, a) for a, b in links]
        for link in links:
            self._cut[link] += 1
        self.at(span_ms, self._mend, links)

    def _mend(self, links: list[tuple[int, int]]) -> None:
        for link in links:
            self._cut[link] = max(0, self._cut[link] - 1)

    def _resume(self, node: SimNode, incarnation: int) -> None:
        if node.alive and node.incarnation == incarnation:
            node.pause(False)

    def _quicken(self, node: SimNode) -> None:
        node.slow_factor = 1

    def _stopped(self, node: SimNode, incarnation: int) -> None:
        if node.alive and node.incarnation == incarnation:
            self.crash(node, power_cut=False, down_ms=self.plan.settings.election_timeout_ms)

    # --- healing -------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        """Only a majority of the voters comes back, sometimes all; it must commit, and everybody must learn of it."""
        self.healed = True
        self.tell("healed")
        missing = self._who_stays_down()
        self._cut.clear()
        for node in self.nodes.values():
            node.slow_factor, node.crash_at = 1, None
            if node in missing:
                node.die(power_cut=True)
                node.incarnation += 1
            elif not node.alive:
                self._restart(node)
            else:
                if node.voter.stopping:
                    node.die(power_cut=False)
                    self._restart(node)
                node.pause(False)
        self._until_everybody_has_a_new_record([node for node in self.nodes.values() if node not in missing], missing)

    def _who_stays_down(self) -> list[SimNode]:
        spare = (len(self.voters) - 1) // 2
        return self.rng.sample(self.voters, self.rng.randint(0, spare))

    def _until_everybody_has_a_new_record(self, living: list[SimNode], missing: list[SimNode]) -> None:
        deadline = self.now + HEAL_UNITS * self.plan.settings.election_timeout_ms
        probe_at = self.now
        target: int | None = None
        while self.now < deadline:
            if self.now >= probe_at and (target is None or self.ledger.committed.end < target):
                target = self._probe(living) or target
                probe_at = self.now + self.plan.settings.election_timeout_ms
            if target is not None and all(node.alive and node.machine.applied >= target for node in living):
                return
            if not self._queue:
                break
            self.now, _, action, args = heapq.heappop(self._queue)
            if not (missing and action == self._restart and args[0] in missing):
                action(*args)
        applied = {node.node_id: node.machine.applied for node in living}
        roles = {node.node_id: f"{node.voter.standing} {node.voter.epoch}" for node in living}
        raise Violation("liveness: a healed majority makes no progress", f"wanted {target}; {applied}; {roles}")

    def _probe(self, living: list[SimNode]) -> int | None:
        """Append at the leader; the offset that must be applied everywhere, or None when nobody leads yet."""
        self.clients.last += 1
        for node in living:
            if node.takes_proposals and node.propose(self.clients.last, 1, None) and node.voter.leadership is not None:
                return node.voter.log.end
        return None
