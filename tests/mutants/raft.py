"""Faults of `migrator/raft`: the promises of the consensus core."""

from __future__ import annotations

from typing import Final

from tests.mutants.fault import Fault

UNIT: Final = ("tests/unit/raft",)

RAFT: Final = "migrator/raft/"

FAULTS: Final = (
    Fault(
        RAFT + "elections.py",
        "if not isinstance(q.role, Unattached | Prospective) or q.leader != NOBODY:",
        "if not isinstance(q.role, Unattached | Prospective):",
        "a second vote in an epoch that has a leader",
        UNIT,
    ),
    Fault(
        RAFT + "elections.py",
        "        return q.state.voted_for == ask.candidate\n",
        "        return True\n",
        "two votes in one epoch: two leaders",
        UNIT,
    ),
    Fault(
        RAFT + "elections.py",
        "    return (ask.last_epoch, ask.last_offset) >= (own.epoch, own.offset)",
        "    return ask.last_offset >= own.offset",
        "a candidate without committed records is elected",
        UNIT,
    ),
    Fault(
        RAFT + "elections.py",
        "    if voter not in q.others:\n        return Error.INVALID_VOTER_KEY\n",
        "",
        "a node that is no voter leads the quorum",
        UNIT,
    ),
    Fault(
        RAFT + "quorum.py",
        "self.majority = len(voters) // 2 + 1",
        "self.majority = (len(voters) + 1) // 2",
        "two majorities among an even number of voters",
        UNIT,
    ),
    Fault(
        RAFT + "quorum.py",
        "            self.out.append(Persist(state))\n",
        "            pass\n",
        "a vote or an epoch that a crash takes back",
        UNIT,
    ),
    Fault(
        RAFT + "quorum.py",
        "ElectionState(epoch, voted_for=self.node_id), role)",
        "ElectionState(epoch), role)",
        "a candidate that restarts votes for another one in its own epoch",
        UNIT,
    ),
    Fault(
        RAFT + "leading.py",
        "    if candidate <= lead.start or (lead",
        "    if candidate < lead.start or (lead",
        "records of an earlier epoch are committed by being counted (Raft, figure 8)",
        UNIT,
    ),
    Fault(
        RAFT + "leading.py",
        "        return q.log.durable_end\n    progress",
        "        return q.log.end\n    progress",
        "a leader counts itself before its disk has the records",
        UNIT,
    ),
    Fault(
        RAFT + "leading.py",
        "    if event.generation != q.log.generation:\n        return\n",
        "",
        "a flush from before a truncation vouches for what was appended after it",
        UNIT,
    ),
    Fault(
        RAFT + "leading.py",
        "    end = max(q.log.durable_end, ask.offset)\n",
        "    end = max(q.log.end, ask.offset)\n",
        "replicas apply records that a crash of the leader takes back",
        UNIT,
    ),
    Fault(
        RAFT + "leading.py",
        "    if q.others and (is_stuck or lead.check_quorum_deadline_ms <= now_ms):\n",
        "    if q.others and is_stuck:\n",
        "a leader that nobody hears leads for ever",
        UNIT,
    ),
    Fault(
        RAFT + "following.py",
        "    if not q.log.is_on_disk:  # the offset",
        "    if False:  # the offset",
        "a follower acknowledges records that are not on its disk",
        UNIT,
    ),
    Fault(
        RAFT + "following.py",
        "        if batch.base_offset != end or batch.count < 1 or not epoch <= batch.epoch <= q.epoch:",
        "        if batch.count < 1 or not epoch <= batch.epoch <= q.epoch:",
        "a follower takes records with a gap",
        UNIT,
    ),
    Fault(
        RAFT + "snapshots.py",
        "SnapshotId(event.end, q.log.epoch_before(event.end))",
        "SnapshotId(event.end, q.epoch)",
        "a snapshot under a wrong name: a restart resets the log and loses acknowledged records",
        UNIT,
    ),
    Fault(
        RAFT + "elections.py",
        "    if not role.unable or silent:\n",
        "    if not role.unable:\n",
        "beside a voter of Kafka 3.9 a working leader is deposed, though the other zk2kraft controller hears it",
        UNIT,
    ),
    Fault(
        RAFT + "elections.py",
        " and len(role.granted) > len(role.rejected):",
        ":",
        "the refusal of the only voter that can be asked does not count",
        UNIT,
    ),
    Fault(
        RAFT + "quorum.py",
        "[each for each in self.others if each not in self.unfit]",
        "list(self.others)",
        "a leader that leaves names a Kafka without ZooKeeper as its successor, which ends dual-write",
        UNIT,
    ),
)
