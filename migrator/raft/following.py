"""What a follower and an observer do: fetch, cut what is not shared, append, load snapshots, notice a silent leader.

In:   answers to fetches, flushes of the own disk, the time.
Out:  fetches, truncations, appends, snapshot parts, the high watermark as the leader told it.
Elsewhere: what the leader answers (leading.py), what becomes of a follower whose leader is gone (elections.py).
Source: KIP-595, KIP-630; Kafka 3.9 `KafkaRaftClient.handleFetchResponse`, `.handleFetchSnapshotResponse`,
`.pollFollower`.

We differ in one thing: an answer that contradicts our log (a gap, an overlap, another snapshot than was asked for) is
not taken and not counted as a sign of life, where stock ends its process.
"""

from __future__ import annotations

from migrator.raft.effects import (
    AdvanceHighWatermark,
    AppendReplicated,
    DropSnapshotPart,
    Flush,
    InstallSnapshot,
    SendFetch,
    SendFetchSnapshot,
    Truncate,
    WriteSnapshotPart,
)
from migrator.raft.elections import apply_common_fields, stand
from migrator.raft.epochs import EpochEnd
from migrator.raft.quorum import QuorumState
from migrator.raft.roles import Download, Follower
from migrator.raft.types import FetchAnswered, FetchSnapshotAnswered, ReplicatedBatch, SnapshotId
from migrator.wire.errors import Error

# --- asking -----------------------------------------------------------------------------------------------


def poll_follower(q: QuorumState, role: Follower, now_ms: int) -> None:
    if not q.log.is_on_disk:  # the offset of a fetch says that everything before it is on disk
        return
    if q.is_voter and role.fetch_deadline_ms <= now_ms:
        stand(q, now_ms)
    elif not q.is_voter and (role.fetch_deadline_ms <= now_ms or q.requests.is_paused(role.leader, now_ms)):
        ask_anybody(q, now_ms)
    elif q.requests.is_ready(role.leader, now_ms):
        ask_leader(q, role, now_ms)


def poll_observer(q: QuorumState, now_ms: int) -> None:
    """An observer asks any voter until one names the leader; a voter waits to be told."""
    if not q.is_voter and q.log.is_on_disk:
        ask_anybody(q, now_ms)


def ask_anybody(q: QuorumState, now_ms: int) -> None:
    """One fetch at a time to a voter by chance: its refusal names the leader."""
    if not q.requests.is_idle():
        return
    ready = [voter for voter in q.others if q.requests.is_ready(voter, now_ms)]
    if ready:
        _send_fetch(q, ready[q.chance(len(ready))], now_ms)


def ask_leader(q: QuorumState, role: Follower, now_ms: int) -> None:
    if role.download is None:
        _send_fetch(q, role.leader, now_ms)
        return
    number = q.requests.open(role.leader, now_ms)
    size = q.settings.snapshot_part_bytes
    wanted, position = role.download.snapshot, role.download.position
    q.out.append(SendFetchSnapshot(number, role.leader, q.node_id, q.epoch, wanted, position, size))


def _send_fetch(q: QuorumState, voter: int, now_ms: int) -> None:
    number = q.requests.open(voter, now_ms)
    wait_ms = q.settings.fetch_wait_ms
    q.out.append(SendFetch(number, voter, q.node_id, q.epoch, q.log.end, q.log.last_epoch, wait_ms))


# --- records ----------------------------------------------------------------------------------------------


def on_fetch_answered(q: QuorumState, answer: FetchAnswered, now_ms: int) -> None:
    peer = q.requests.close(answer.request)
    if peer is None or apply_common_fields(q, peer, answer, now_ms):
        return
    role = q.role
    if answer.error is not Error.NONE or not isinstance(role, Follower) or role.leader != peer:
        q.requests.pause(peer, now_ms)
        return
    if take_answer(q, role, answer):
        role.has_fetched = True
        role.fetch_deadline_ms = now_ms + role.fetch_timeout_ms
    else:
        q.requests.pause(peer, now_ms)


def take_answer(q: QuorumState, role: Follower, answer: FetchAnswered) -> bool:
    """False when the answer makes no sense for this log."""
    if answer.diverging_epoch >= 0:
        truncate_to_leader(q, EpochEnd(answer.diverging_epoch, answer.diverging_end))
        return True
    if answer.snapshot is not None:
        return begin_download(q, role, answer.snapshot)
    if not fits(q, answer.batches):
        return False
    if answer.batches:
        q.log.append_replicated(answer.batches)
        q.out.append(AppendReplicated(answer.batches))
        q.out.append(Flush(q.log.generation))
    follow_high_watermark(q, answer.high_watermark)
    return True


def fits(q: QuorumState, batches: tuple[ReplicatedBatch, ...]) -> bool:
    """Whether the batches go on where the log ends, without a gap, and in epochs that do not fall."""
    end, epoch = q.log.end, q.log.last_epoch
    for batch in batches:
        if batch.base_offset != end or batch.count < 1 or not epoch <= batch.epoch <= q.epoch:
            return False
        end, epoch = end + batch.count, batch.epoch
    return True


def truncate_to_leader(q: QuorumState, agreed: EpochEnd) -> None:
    """Cut what the leader does not have (R-595-07). Committed records are never among it."""
    end = q.log.end_shared_with(agreed)
    assert end >= q.log.committed, f"told to truncate to {end}, but {q.log.committed} is committed"
    if end < q.log.end:
        q.log.truncate(end)
        q.out.append(Truncate(end))


def follow_high_watermark(q: QuorumState, told: int) -> None:
    """A leader that is new, or an answer that waited, may know less than we do already."""
    # The leader may have committed more than has arrived here yet.
    offset = min(told, q.log.end)
    if offset > q.log.committed:
        q.log.committed = offset
        q.out.append(AdvanceHighWatermark(offset))


# --- snapshots --------------------------------------------------------------------------------------------


def begin_download(q: QuorumState, role: Follower, snapshot: SnapshotId) -> bool:
    """The log no longer reaches back to where ours ends, so the state comes as a whole (R-595-08)."""
    # One that ends before what is committed here would take committed records away.
    is_sound = snapshot.end_offset > q.log.committed and 0 <= snapshot.epoch <= q.epoch
    if not is_sound or snapshot in q.log.snapshots:
        return False
    role.download = Download(snapshot)
    return True


def on_fetch_snapshot_answered(q: QuorumState, answer: FetchSnapshotAnswered, now_ms: int) -> None:
    peer = q.requests.close(answer.request)
    if peer is None or apply_common_fields(q, peer, answer, now_ms):
        return
    role = q.role
    if not isinstance(role, Follower) or role.leader != peer or role.download is None:
        q.requests.pause(peer, now_ms)
        return
    if answer.error is Error.NONE and _continues(role.download, answer):
        role.has_fetched = True
        role.fetch_deadline_ms = now_ms + role.fetch_timeout_ms
        _take_part(q, role, role.download, answer)
        return
    if answer.error in (Error.NONE, Error.SNAPSHOT_NOT_FOUND):  # it is gone, and a newer one is offered by a fetch
        role.fetch_deadline_ms = now_ms + role.fetch_timeout_ms
    q.out.append(DropSnapshotPart(role.download.snapshot))
    role.download = None
    q.requests.pause(peer, now_ms)


def _continues(download: Download, answer: FetchSnapshotAnswered) -> bool:
    # An empty part would be asked for again without end; one that is too long would not fit the size that was said.
    is_asked = answer.snapshot == download.snapshot and answer.position == download.position
    return is_asked and 0 < len(answer.data) <= answer.size - answer.position


def _take_part(q: QuorumState, role: Follower, download: Download, answer: FetchSnapshotAnswered) -> None:
    q.out.append(WriteSnapshotPart(download.snapshot, download.position, answer.data))
    download.position += len(answer.data)
    if download.position == answer.size:
        role.download = None
        install(q, download.snapshot, answer.size)


def install(q: QuorumState, snapshot: SnapshotId, size: int) -> None:
    """The state jumps to the end of the snapshot, and the log begins there."""
    q.log.snapshot_sizes[snapshot] = size
    q.log.reset(snapshot)
    q.out.append(InstallSnapshot(snapshot))
    q.out.append(AdvanceHighWatermark(snapshot.end_offset))
