"""What must hold after every step, whatever the weather; each rule is one small class with a name.

The ledger sees every append, vote, fetch, commit and loss of every node at the moment at which it happens, and keeps
what all nodes together have shown so far. It compares by digests of whole prefixes, so each check costs the same
however long the logs are. A rule that is broken raises `Violation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from migrator.raft.effects import AnswerVote, Lead, SendFetch, SendVote
from migrator.wire.errors import Error
from tests.sim.disk import EMPTY_DIGEST, Entry, SimDisk

if TYPE_CHECKING:
    from tests.sim.node import SimNode
    from tests.sim.world import World


class Violation(Exception):
    """A promise was broken. `rule` names it, `story` says who did what."""

    def __init__(self, rule: str, story: str) -> None:
        super().__init__(f"{rule}: {story}")
        self.rule, self.story = rule, story

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str]]:
        return Violation, (self.rule, self.story)


class OneLeaderPerEpoch:
    rule = "safety: two leaders in one epoch"

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}

    def led(self, epoch: int, node: int) -> None:
        first = self.leaders.setdefault(epoch, node)
        if first != node:
            raise Violation(self.rule, f"epoch {epoch}: node {first}, then node {node}")


class LeaderIsNeverASecondTime:
    rule = "safety: an epoch was opened twice by its leader"

    def __init__(self) -> None:
        self.opened: set[int] = set()

    def led(self, epoch: int, node: int) -> None:
        if epoch in self.opened:
            raise Violation(self.rule, f"epoch {epoch} by node {node}")
        self.opened.add(epoch)


class OneVotePerEpoch:
    rule = "safety: a node voted twice in one epoch"

    def __init__(self) -> None:
        self.votes: dict[tuple[int, int], int] = {}

    def voted(self, node: int, epoch: int, candidate: int) -> None:
        first = self.votes.setdefault((node, epoch), candidate)
        if first != candidate:
            raise Violation(self.rule, f"node {node} in epoch {epoch}: for {first}, then for {candidate}")


class PromiseOnDisk:
    rule = "safety: a promise left the node before it was on its disk"

    def vote(self, node: SimNode, epoch: int, candidate: int) -> None:
        stored = node.disk.state
        if stored.epoch < epoch or (stored.epoch == epoch and stored.voted_for != candidate and stored.leader < 0):
            raise Violation(self.rule, f"node {node.node_id} votes for {candidate} in epoch {epoch}, has {stored}")

    def epoch(self, node: SimNode, epoch: int) -> None:
        if node.disk.state.epoch < epoch:
            raise Violation(self.rule, f"node {node.node_id} answers in epoch {epoch}, has {node.disk.state}")

    def fetch(self, node: SimNode, offset: int) -> None:
        on_disk = node.disk.synced_end
        if on_disk < offset:
            raise Violation(self.rule, f"node {node.node_id} fetches from {offset}, has {on_disk} on disk")


class LogMatching:
    """Raft's: where two logs have a record of the same offset and epoch, they are equal up to it."""

    rule = "safety: two logs differ below a record that they share"

    def __init__(self) -> None:
        self.digests: dict[tuple[int, int], tuple[int, int]] = {}

    def appended(self, node: int, entry: Entry) -> None:
        first, digest = self.digests.setdefault((entry.end, entry.epoch), (node, entry.digest))
        if digest != entry.digest:
            story = f"nodes {first} and {node} before offset {entry.end} of epoch {entry.epoch}"
            raise Violation(self.rule, story)


class Committed:
    """Every prefix that any node called committed, and the longest of them."""

    def __init__(self) -> None:
        self.digests: dict[int, int] = {0: EMPTY_DIGEST}
        self.end = 0
        self.by_epoch: dict[int, int] = {0: 0}
        """How far the leader of each epoch has committed."""

    def covers(self, disk: SimDisk, offset: int) -> bool:
        """Whether every record before `offset` is on this disk, in its log or in a snapshot."""
        if disk.start >= offset or any(snapshot.end_offset >= offset for snapshot in disk.snapshots):
            return True
        return disk.digest_at(offset, on_disk=True) == self.digests[offset]


class CommittedIsTheSameForAll:
    rule = "safety: two nodes call different records committed"

    def advanced(self, committed: Committed, node: int, offset: int, digest: int | None) -> None:
        if digest is None:
            raise Violation(self.rule, f"node {node} advances to {offset}, where no batch of its log ends")
        if committed.digests.setdefault(offset, digest) != digest:
            raise Violation(self.rule, f"node {node} before offset {offset}")


class HighWatermarkWithinMajority:
    rule = "safety: committed, but not on the disks of a majority"

    def check(self, world: World, committed: Committed, offset: int, why: str) -> None:
        having = [node for node in world.voters if committed.covers(node.disk, offset)]
        if len(having) <= len(world.voters) // 2:
            who = ", ".join(str(node.node_id) for node in having) or "nobody"
            raise Violation(self.rule, f"records before {offset} are on the disks of {who}; {why}")


class HighWatermarkForward:
    rule = "safety: the high watermark went back"

    def advanced(self, node: SimNode, offset: int) -> None:
        if offset < node.high_watermark:
            raise Violation(self.rule, f"node {node.node_id}: {offset} after {node.high_watermark}")


class LeaderCompleteness:
    rule = "safety: a leader lacks a committed record"

    def led(self, committed: Committed, node: SimNode, epoch: int) -> None:
        # A leader that was paused before it could act may come after its successors: they committed without it.
        end = max(end for before, end in committed.by_epoch.items() if before < epoch)
        if node.disk.start <= end and node.disk.digest_at(end) != committed.digests[end]:
            story = f"node {node.node_id} leads epoch {epoch} without what was committed before offset {end}"
            raise Violation(self.rule, story)


class SameState:
    rule = "safety: two state machines differ at one offset"

    def __init__(self) -> None:
        self.digests: dict[int, int] = {}

    def applied(self, node: SimNode) -> None:
        machine = node.machine
        if self.digests.setdefault(machine.applied, machine.digest) != machine.digest:
            raise Violation(self.rule, f"node {node.node_id} at offset {machine.applied}")


class NoZombie:
    """A leader that a majority does not ask for anything must not go on believing that it leads (R-595-05)."""

    rule = "safety: a leader without a majority leads on"
    PATIENCE = 3.5
    """In fetch timeouts. A window of 1.5 begins anew when a majority was heard in it; who was heard at its begin may
    be silent for nearly two windows. The rest is for disks and for what is under way inside the node."""

    def check(self, world: World, node: SimNode) -> None:
        if node.voter.leadership is None or not node.is_idle or len(world.voters) == 1:
            return
        since = node.heard.get(node.node_id, world.now)
        others = sorted(
            (node.heard.get(each.node_id, since) for each in world.voters if each is not node), reverse=True
        )
        silent_ms = (world.now - max(since, others[len(world.voters) // 2 - 1])) * node.rate
        if silent_ms > self.PATIENCE * world.plan.settings.fetch_timeout_ms:
            story = f"node {node.node_id} in epoch {node.voter.epoch}, after {silent_ms:.0f} ms of silence"
            raise Violation(self.rule, story)


class Ledger:
    """Tells each rule what happened."""

    def __init__(self) -> None:
        self.one_leader = OneLeaderPerEpoch()
        self.once = LeaderIsNeverASecondTime()
        self.one_vote = OneVotePerEpoch()
        self.on_disk = PromiseOnDisk()
        self.matching = LogMatching()
        self.committed = Committed()
        self.same_commits = CommittedIsTheSameForAll()
        self.majority = HighWatermarkWithinMajority()
        self.forward = HighWatermarkForward()
        self.complete = LeaderCompleteness()
        self.same_state = SameState()
        self.no_zombie = NoZombie()

    def after_append(self, node: SimNode, entry: Entry) -> None:
        self.matching.appended(node.node_id, entry)

    def after_lead(self, world: World, node: SimNode, effect: Lead) -> None:
        self.one_leader.led(effect.epoch, node.node_id)
        self.once.led(effect.epoch, node.node_id)
        self.complete.led(self.committed, node, effect.epoch)

    def before_vote(self, node: SimNode, answer: AnswerVote, candidate: int) -> None:
        if answer.epoch > 0 and answer.error is not Error.INCONSISTENT_CLUSTER_ID:
            self.on_disk.epoch(node, answer.epoch)
        if answer.granted:
            self.on_disk.vote(node, answer.epoch, candidate)
            self.one_vote.voted(node.node_id, answer.epoch, candidate)

    def before_candidacy(self, node: SimNode, asked: SendVote) -> None:
        self.on_disk.vote(node, asked.epoch, node.node_id)
        self.one_vote.voted(node.node_id, asked.epoch, node.node_id)

    def before_fetch(self, node: SimNode, fetch: SendFetch) -> None:
        self.on_disk.fetch(node, fetch.offset)

    def after_advance(self, world: World, node: SimNode, offset: int) -> None:
        self.forward.advanced(node, offset)
        self.same_commits.advanced(self.committed, node.node_id, offset, node.disk.digest_at(offset))
        self.majority.check(world, self.committed, offset, f"node {node.node_id} advances")
        self.committed.end = max(self.committed.end, offset)
        if node.voter.leadership is not None:
            self.committed.by_epoch[node.voter.epoch] = offset

    def after_apply(self, node: SimNode) -> None:
        self.same_state.applied(node)

    def after_loss(self, world: World, node: SimNode) -> None:
        """A crash, a truncation, a reset: what was committed must still be on a majority's disks."""
        self.majority.check(world, self.committed, self.committed.end, f"node {node.node_id} lost records")
