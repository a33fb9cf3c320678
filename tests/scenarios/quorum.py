"""The stage of a metadata quorum: the simulator of tests/sim in good weather, and only what a story says happens.

A message takes 2 ms, a write to disk 1 ms. A power cut takes every record that was not flushed. What is printed are
moves of the nodes and what they say to each other about leadership; the invariants of the simulator hold all the time.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any

from migrator.raft.effects import (
    AdvanceHighWatermark,
    AnswerFetch,
    Effect,
    InstallSnapshot,
    Persist,
    SendBeginQuorumEpoch,
    SendEndQuorumEpoch,
    SendVote,
    Standing,
    TakeSnapshot,
    TrimLog,
    Truncate,
)
from migrator.raft.roles import QuorumSettings
from migrator.raft.types import NOBODY, Event, ResignRequested, Stopping
from tests.scenarios.story import Stage
from tests.sim.disk import SimDisk
from tests.sim.node import SimNode
from tests.sim.plan import Plan, Weather
from tests.sim.world import World

STILL: dict[str, Any] = {"drop": 0.0, "duplicate": 0.0, "delay_ms": (2, 2), "disk_ms": (1, 1), "torn": 0.0}
NEVER_MS = 10**8
TO = "<to>"
SEEDS = range(1, 200)


class QuietDisk(SimDisk):
    """Loses everything that was not synced, where the simulator's own disk loses some of it by chance."""

    def lose_power(self, rng: Any, torn: float, losses: Any) -> None:
        self.part = None
        losses.batches += len(self.entries) - self.synced
        self._keep(self.synced)


class StoryNode(SimNode):
    """Tells the story what it does."""

    world: StoryWorld

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.disk = QuietDisk()
        self.said: set[tuple[str, int]] = set()

    def _receive(self, event: Event) -> None:
        waiting, before = len(self.rest), self._place()
        super()._receive(event)
        said: dict[str, list[int]] = {}
        for effect in list(self.rest)[waiting:]:
            line, to = self._says(effect), getattr(effect, "to", NOBODY)
            if (line, to) not in self.said:
                said.setdefault(line, []).append(to)
        for line, to in said.items():
            if line:
                self._tell(line.replace(TO, f"{'node' if len(to) == 1 else 'nodes'} {', '.join(map(str, to))}"))
        self.said |= {(line, each) for line, to in said.items() for each in to if TO in line}
        if self._place() not in (before, ""):
            self._tell(f"is {self._place()}")

    def _write(self, effect: Effect) -> None:
        super()._write(effect)
        match effect:
            case Persist(state) if state.voted_for not in (NOBODY, self.node_id):
                self._tell(f"votes for node {state.voted_for} in epoch {state.epoch}")
            case _:
                pass

    def _tell(self, line: str) -> None:
        self.world.tell(f"node {self.node_id} {line}")

    def _place(self) -> str:
        """What it is now. Nothing of a leader and of a voter that gave its vote: both tell that themselves."""
        standing, leader = self.voter.standing, self.voter.leader
        if standing in (Standing.LEADER, Standing.VOTED):
            return ""
        follows = f", leader node {leader}" if standing in (Standing.FOLLOWER, Standing.OBSERVER) else ""
        return f"{standing} in epoch {self.voter.epoch}" + (follows if leader != NOBODY else "")

    def _says(self, effect: Effect) -> str:
        """TO stands for whom it says it to; what is said again to the same node is not told again."""
        match effect:
            case SendVote(epoch=epoch, pre_vote=True):
                return f"asks {TO}: would you vote for me after epoch {epoch}?"
            case SendEndQuorumEpoch(epoch=epoch, successors=successors):
                return f"tells {TO}: I leave epoch {epoch}, successors {', '.join(map(str, successors))}"
            case SendBeginQuorumEpoch(epoch=epoch):
                return f"tells {TO}: I lead epoch {epoch}"
            case Truncate(end):
                return f"cuts its log back from {self.disk.end} to {end}"
            case AdvanceHighWatermark(offset) if self.voter.leadership is not None:
                return f"commits up to {offset}"
            case TakeSnapshot(snapshot):
                return f"takes a snapshot at {snapshot.end_offset}"
            case TrimLog(snapshot):
                return f"begins its log at {snapshot.end_offset}"
            case InstallSnapshot(snapshot):
                return f"installs the snapshot of {snapshot.end_offset}"
            case AnswerFetch(snapshot=snapshot, request=request) if snapshot is not None:
                return f"tells node {self.waiting[request][0]}: load the snapshot of {snapshot.end_offset}"
            case _:
                return ""


class StoryWorld(World):
    node_type = StoryNode

    def tell(self, line: str) -> None:
        self.story.append(f"{self.now / 1000:8.3f} s  {line}")

    def let_pass(self, ms: int) -> None:
        end_ms = self.now + ms
        while self._queue and self._queue[0][0] <= end_ms:
            self.now, _, action, args = heapq.heappop(self._queue)
            action(*args)
        self.now = end_ms


class QuorumStage:
    def __init__(self, plan: Plan) -> None:
        self.world = StoryWorld(plan)
        self.operation = 0
        for node in self.world.nodes.values():
            node.boot()
        self.world._watch()

    def do(self, words: list[str]) -> list[str]:
        """run MS; append NODE COUNT; status; partition A,B / C; cut A B; heal; disk NODE MS; and commands to a node."""
        before = len(self.world.story)
        match words:
            case ["run", ms]:
                self.world.let_pass(int(ms))
            case ["status"]:
                return self.status()
            case ["append", node, count]:
                return [self.append(int(node), int(count))]
            case ["partition", some, "/", rest]:
                links = [(a, b) for a in numbers(some) for b in numbers(rest)]
                self.world._cut_for(NEVER_MS, links, both=True)
            case ["cut", source, target]:
                self.world._cut_for(NEVER_MS, [(int(source), int(target))], both=False)
            case ["heal"]:
                self.world._cut.clear()
            case ["disk", node, ms]:
                self.world.nodes[int(node)].slow_factor = int(ms)
            case [verb, node]:
                self._to_node(verb, self.world.nodes[int(node)])
            case _:
                raise ValueError("not a command of a quorum")
        return self.world.story[before:]

    def _to_node(self, verb: str, node: SimNode) -> None:
        match verb:
            case "kill" | "power-cut":
                node.die(power_cut=verb == "power-cut")
            case "start":
                node.slow_factor = 1
                node.boot()
            case "pause" | "resume":
                node.pause(verb == "pause")
            case "resign":
                node.deliver(ResignRequested(node.voter.epoch))
            case "stop":
                node.deliver(Stopping())
            case _:
                raise ValueError("not a command to a node")

    def append(self, node: int, count: int) -> str:
        self.operation += 1
        if not self.world.nodes[node].propose(self.operation, count, None):
            return f"refused: node {node} does not lead"
        return f"node {node} appended up to {self.world.nodes[node].voter.log.end}"

    def status(self) -> list[str]:
        lines = ["node  standing    epoch  leader  log end  on disk  committed"]
        for node in self.world.nodes.values():
            if not node.alive:
                lines.append(f"{node.node_id:>4}  down")
                continue
            voter = node.voter
            leader = "-" if voter.leader == NOBODY else voter.leader
            lines.append(
                f"{node.node_id:>4}  {voter.standing:<10}  {voter.epoch:>5}  {leader:>6}  "
                f"{voter.log.end:>7}  {voter.log.durable_end:>7}  {max(voter.high_watermark, 0):>9}"
            )
        return lines


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def quorum(words: list[str]) -> tuple[Stage, list[str]]:
    """voters=N, and if wanted observers=N old=A,B (no Vote v2) pre-vote=no snapshot-after=BYTES leader=N.

    leader: the story begins 3 s after the start, when that node was elected.
    """
    given = dict(word.split("=", 1) for word in words)
    settings = QuorumSettings(pre_vote=given.pop("pre-vote", "yes") == "yes")
    if "snapshot-after" in given:
        settings = replace(settings, snapshot_after_bytes=int(given.pop("snapshot-after")), retention_bytes=0)
    plan = Plan(
        seed=SEEDS[0],
        voters=int(given.pop("voters")),
        observers=int(given.pop("observers", "0")),
        settings=settings,
        weather=Weather(**STILL),
        clients=0,
        think_ms=1,
        storm_events=10**9,
        old_voters=tuple(numbers(given.pop("old"))) if "old" in given else (),
    )
    leader = int(given.pop("leader", "0"))
    if given:
        raise ValueError(f"unknown: {', '.join(given)}")
    return (QuorumStage(plan), []) if not leader else _led_by(leader, plan)


def _led_by(leader: int, plan: Plan) -> tuple[Stage, list[str]]:
    """Chance decides who stands first: the first seed that makes it this node."""
    for seed in SEEDS:
        stage = QuorumStage(replace(plan, seed=seed))
        stage.world.let_pass(3_000)
        if stage.world.last_leader == leader and stage.world.counts["elections"] == 1:
            return stage, [f"node {leader} leads epoch 1, the others follow"]
    raise ValueError(f"node {leader} is elected with none of the seeds")
