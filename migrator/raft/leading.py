"""What a leader does: append, serve fetches, find out what is committed, notice that nobody listens.

In:   records of the controller, flushes of the own disk, fetches of voters and observers, the time.
Out:  appends, answers, the high watermark, resignation.
Elsewhere: how it became leader (elections.py), what a follower does with the answers (following.py).
Source: KIP-595; Kafka 3.9 `LeaderState`, `KafkaRaftClient.handleFetchRequest`, `.pollLeader`.

We differ in four things. A leader counts itself by what is on its disk, and shows only that. When its disk confirms
nothing for the check-quorum time, it resigns: followers that fetch do not know that it commits nothing. A fetch that
waits is answered when the high watermark rises as well, not only when records come, so that a follower learns of a
commit within a round trip and not half a second later (as KIP-1166 does for followers that can tell what they know).
And an INVALID_REQUEST is answered at the top and never for the partition, where it ends a stock process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from migrator.raft.effects import AdvanceHighWatermark, AnswerFetch, AnswerFetchSnapshot, Append, Flush
from migrator.raft.quorum import QuorumState
from migrator.raft.roles import Leadership, ParkedFetch, ReplicaProgress
from migrator.raft.types import AppendRequested, FetchReceived, FetchSnapshotReceived, LogFlushed, RequestDropped
from migrator.wire.errors import Error

FETCH_WAIT_MAX_MS: Final = 60_000
"""No fetch is parked longer, whatever it asks for: a lost client must not hold memory for ever."""

OBSERVER_FORGOTTEN_AFTER_MS: Final = 300_000
"""An observer that was silent this long is no longer described (as stock)."""

# --- appending --------------------------------------------------------------------------------------------


def on_append_requested(q: QuorumState, event: AppendRequested, now_ms: int) -> None:
    lead = q.leadership
    assert lead is not None, "append without leadership"
    assert event.epoch == q.epoch, f"append for epoch {event.epoch}, this is {q.epoch}"
    offset = q.log.append(q.epoch, sum(payload.count for payload in event.payloads))
    q.out.append(Append(q.epoch, offset, event.payloads))
    _flush_soon(q, lead, event, now_ms)


def _flush_soon(q: QuorumState, lead: Leadership, event: AppendRequested, now_ms: int) -> None:
    """At once, or when the linger is over: one flush and one fetch then carry what came meanwhile."""
    if q.settings.append_linger_ms <= 0:
        _order_flush(q, lead, now_ms)
        return
    lead.lingering_bytes += sum(len(payload.batch) for payload in event.payloads)
    if lead.flush_due_ms is None:
        lead.flush_due_ms = now_ms + q.settings.append_linger_ms
    if lead.lingering_bytes >= q.settings.linger_bytes_max:
        _flush_lingering(q, lead, now_ms)


def _flush_lingering(q: QuorumState, lead: Leadership, now_ms: int) -> None:
    lead.flush_due_ms, lead.lingering_bytes = None, 0
    _order_flush(q, lead, now_ms)


def _order_flush(q: QuorumState, lead: Leadership, now_ms: int) -> None:
    # The oldest flush that is under way counts: later appends give a disk that hangs no more time.
    if lead.flush_deadline_ms is None:
        lead.flush_deadline_ms = now_ms + q.settings.check_quorum_ms
    q.out.append(Flush(q.log.generation))


def on_log_flushed(q: QuorumState, event: LogFlushed, now_ms: int) -> None:
    """A flush that began before the log was cut says nothing about what lies there now."""
    if event.generation != q.log.generation:
        return
    assert event.end <= q.log.end, f"flushed to {event.end}, the log ends at {q.log.end}"
    q.log.durable_end = max(q.log.durable_end, event.end)
    if isinstance(q.role, Leadership):
        # A flush ended, so the disk works: what was appended meanwhile has the whole time again.
        q.role.flush_deadline_ms = None if q.log.is_on_disk else now_ms + q.settings.check_quorum_ms
        advance_high_watermark(q, q.role)
        answer_parked(q, q.role, now_ms)


# --- the high watermark -----------------------------------------------------------------------------------


def advance_high_watermark(q: QuorumState, lead: Leadership) -> bool:
    """Committed is what a majority has on disk, and only once the own epoch's first record is among it.

    Records of earlier epochs are committed by that first record and never by being counted: a majority may have
    them and a later leader may still not (Raft, figure 8). Self counts with what is flushed, not with what is written.
    """
    ends = sorted((_end_on_disk(q, lead, voter) for voter in q.voters), reverse=True)
    candidate = ends[q.majority - 1]
    if candidate <= lead.start or (lead.high_watermark is not None and candidate <= lead.high_watermark):
        return False
    lead.high_watermark = candidate
    assert candidate >= q.log.committed, f"committed {candidate} after {q.log.committed}"
    q.log.committed = candidate
    q.out.append(AdvanceHighWatermark(candidate))
    return True


def _end_on_disk(q: QuorumState, lead: Leadership, voter: int) -> int:
    if voter == q.node_id:
        return q.log.durable_end
    progress = lead.replicas.get(voter)
    return -1 if progress is None else progress.end


# --- fetches ----------------------------------------------------------------------------------------------


def on_fetch_received(q: QuorumState, ask: FetchReceived, now_ms: int) -> None:
    refusal = refusal_of_fetch(q, ask)
    if refusal is not None:
        q.out.append(refusal)
        return
    lead = q.role
    assert isinstance(lead, Leadership)
    note_contact(q, lead, ask.replica, now_ms)
    answer = _answer(q, ask)
    if answer.diverging_epoch < 0 and answer.snapshot is None:
        note_progress(q, lead, ask, now_ms)
        if ask.replica in q.others and advance_high_watermark(q, lead):
            # Once more: the high watermark that the answer carries has just moved.
            answer = _answer(q, ask)
            answer_parked(q, lead, now_ms)
        if not _has_news(lead, answer, ask) and ask.max_wait_ms > 0:
            lead.parked[ask.request] = ParkedFetch(ask, now_ms + min(ask.max_wait_ms, FETCH_WAIT_MAX_MS))
            return
    _send(q, lead, answer, ask)


def _send(q: QuorumState, lead: Leadership, answer: AnswerFetch, ask: FetchReceived) -> None:
    progress = lead.replicas.get(ask.replica)
    if progress is not None:
        progress.told = answer.high_watermark
    q.out.append(answer)


def _has_news(lead: Leadership, answer: AnswerFetch, ask: FetchReceived) -> bool:
    """Anything but "nothing new": an error, records, or a high watermark above the one that the reader was told."""
    if answer.error is not Error.NONE or answer.read_to > ask.offset:
        return True
    progress = lead.replicas.get(ask.replica)
    return progress is not None and progress.told is not None and progress.told < answer.high_watermark


def refusal_of_fetch(q: QuorumState, ask: FetchReceived) -> AnswerFetch | None:
    """The checks of a fetch, in the order of `KafkaRaftClient`. None when it is in order."""
    error = Error.NONE
    if ask.cluster_id is not None and ask.cluster_id != q.cluster_id:
        error = Error.INCONSISTENT_CLUSTER_ID
    elif ask.offset < 0 or ask.max_wait_ms < 0 or not 0 <= ask.last_epoch <= max(ask.epoch, 0):
        error = Error.INVALID_REQUEST
    if error is not Error.NONE:
        return _refuse(q, ask, error, top_level=True)
    error = _refusal_of_reader(q, ask.epoch)
    return None if error is Error.NONE else _refuse(q, ask, error)


def _refusal_of_reader(q: QuorumState, epoch: int) -> Error:
    """What every request to a leader is checked for."""
    if epoch < q.epoch:
        return Error.FENCED_LEADER_EPOCH
    if epoch > q.epoch:
        return Error.UNKNOWN_LEADER_EPOCH
    if not isinstance(q.role, Leadership):
        return Error.NOT_LEADER_OR_FOLLOWER
    return Error.BROKER_NOT_AVAILABLE if q.stopping else Error.NONE


def _refuse(q: QuorumState, ask: FetchReceived, error: Error, *, top_level: bool = False) -> AnswerFetch:
    return AnswerFetch(ask.request, error, q.leader, q.epoch, q.high_watermark, q.log.start, top_level=top_level)


def _answer(q: QuorumState, ask: FetchReceived) -> AnswerFetch:
    """Records, or where the logs part, or which snapshot to load; the tests in the order of `KafkaRaftClient`."""
    # What is not yet on our disk is not shown: a crash could take it back after a replica applied it.
    end = max(q.log.durable_end, ask.offset)
    answer = AnswerFetch(
        ask.request, Error.NONE, q.leader, q.epoch, q.high_watermark, q.log.start, ask.offset, read_to=end
    )
    # First: a log that was trimmed has no epochs left by which an old reader could be judged.
    snapshot = q.log.snapshot_for(ask.offset, ask.last_epoch)
    if snapshot is not None:
        return replace(answer, snapshot=snapshot, read_from=None, read_to=ask.offset)
    agreed = q.log.divergence(ask.offset, ask.last_epoch)
    if agreed is not None:
        return replace(
            answer, diverging_epoch=agreed.epoch, diverging_end=agreed.offset, read_from=None, read_to=ask.offset
        )
    return answer


def note_contact(q: QuorumState, lead: Leadership, replica: int, now_ms: int) -> None:
    """A majority that asks for anything, records or a snapshot, is a majority that is there (R-595-05)."""
    if replica not in q.others:
        return
    lead.to_begin.discard(replica)
    lead.heard.add(replica)
    # This node itself is one of the majority.
    if len(lead.heard) >= q.majority - 1:
        lead.heard.clear()
        lead.check_quorum_deadline_ms = now_ms + q.settings.check_quorum_ms


def note_progress(q: QuorumState, lead: Leadership, ask: FetchReceived, now_ms: int) -> None:
    """The offset of a fetch says what its sender has on disk."""
    if ask.replica < 0 or ask.replica == q.node_id:
        return
    if ask.replica not in lead.replicas:
        _forget_silent_observers(q, lead, now_ms)
    progress = lead.replicas.setdefault(ask.replica, ReplicaProgress())
    if ask.offset >= q.log.end:
        progress.last_caught_up_ms = now_ms
    # It has all that there was when it last asked, so it was caught up with this log until then.
    elif ask.offset >= progress.leader_end_then >= 0:
        progress.last_caught_up_ms = progress.last_fetch_ms
    progress.end = ask.offset
    progress.last_fetch_ms = now_ms
    progress.leader_end_then = q.log.end


def _forget_silent_observers(q: QuorumState, lead: Leadership, now_ms: int) -> None:
    for replica, seen in list(lead.replicas.items()):
        if replica not in q.voters and now_ms - seen.last_fetch_ms >= OBSERVER_FORGOTTEN_AFTER_MS:
            del lead.replicas[replica]


def answer_parked(q: QuorumState, lead: Leadership, now_ms: int) -> None:
    """Answer each parked fetch for which there is news, or whose time is up."""
    for request, parked in list(lead.parked.items()):
        answer = _answer(q, parked.ask)
        if _has_news(lead, answer, parked.ask) or parked.deadline_ms <= now_ms:
            del lead.parked[request]
            _send(q, lead, answer, parked.ask)


def on_request_dropped(q: QuorumState, event: RequestDropped) -> None:
    if isinstance(q.role, Leadership):
        q.role.parked.pop(event.request, None)


# --- snapshots for others ---------------------------------------------------------------------------------


def on_fetch_snapshot_received(q: QuorumState, ask: FetchSnapshotReceived, now_ms: int) -> None:
    """A piece of a snapshot. What we cannot serve is "not found": stock readers end on the other error codes."""
    answer = AnswerFetchSnapshot(ask.request, Error.NONE, q.leader, q.epoch, ask.snapshot)
    if ask.cluster_id is not None and ask.cluster_id != q.cluster_id:
        q.out.append(replace(answer, error=Error.INCONSISTENT_CLUSTER_ID, top_level=True))
        return
    error = _refusal_of_reader(q, ask.epoch)
    size = q.log.snapshot_sizes.get(ask.snapshot, 0)
    if error is Error.NONE and not (ask.snapshot in q.log.snapshots and 0 <= ask.position < size):
        error = Error.SNAPSHOT_NOT_FOUND
    if error is not Error.NONE:
        q.out.append(replace(answer, error=error))
        return
    assert isinstance(q.role, Leadership)
    note_contact(q, q.role, ask.replica, now_ms)
    if ask.replica in q.others:
        q.role.replicas.setdefault(ask.replica, ReplicaProgress()).last_fetch_ms = now_ms
    q.out.append(replace(answer, position=ask.position, max_bytes=ask.max_bytes, size=size))


# --- time -------------------------------------------------------------------------------------------------


def poll_leader(q: QuorumState, lead: Leadership, now_ms: int) -> None:
    if lead.flush_due_ms is not None and lead.flush_due_ms <= now_ms:
        _flush_lingering(q, lead, now_ms)
    is_stuck = lead.flush_deadline_ms is not None and lead.flush_deadline_ms <= now_ms
    # Alone there is nobody who could lead in its place.
    if q.others and (is_stuck or lead.check_quorum_deadline_ms <= now_ms):
        q.resign(now_ms)


def on_ticked(q: QuorumState, now_ms: int) -> None:
    if isinstance(q.role, Leadership):
        answer_parked(q, q.role, now_ms)
