"""Which of our requests are under way: one at a time to each other node, and a pause after one that failed.

In:   requests opened, answered, failed; the time.
Out:  who may be asked now, whose answer this is, when to look again.
Elsewhere: connections (node), what is asked (elections.py, leading.py, following.py).
Source: Kafka 3.9 `RequestManager`.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Requests:
    """Numbers are never used twice in the life of a process, so a late answer finds nothing."""

    timeout_ms: int
    backoff_ms: int
    _last: int = 0
    _under_way: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Peer to (number, deadline)."""
    _paused: dict[int, int] = field(default_factory=dict)
    """Peer to the end of its pause."""

    def is_ready(self, peer: int, now_ms: int) -> bool:
        return peer not in self._under_way and self._paused.get(peer, 0) <= now_ms

    def is_idle(self) -> bool:
        return not self._under_way

    def is_paused(self, peer: int, now_ms: int) -> bool:
        return self._paused.get(peer, 0) > now_ms

    def open(self, peer: int, now_ms: int) -> int:
        """Returns the number of a new request to `peer`."""
        assert peer not in self._under_way, f"a request to {peer} is under way"
        self._last += 1
        self._under_way[peer] = (self._last, now_ms + self.timeout_ms)
        return self._last

    def close(self, number: int) -> int | None:
        """The peer that answered; None when the request was given up before."""
        for peer, (opened, _) in self._under_way.items():
            if opened == number:
                del self._under_way[peer]
                return peer
        return None

    def pause(self, peer: int, now_ms: int) -> None:
        """Do not ask `peer` again at once."""
        self._paused[peer] = now_ms + self.backoff_ms

    def settle(self, now_ms: int) -> None:
        """Treat requests whose time is up as failed, and forget pauses that are over."""
        if self._paused:
            self._paused = {peer: until for peer, until in self._paused.items() if until > now_ms}
        for peer, (_, deadline_ms) in list(self._under_way.items()):
            if deadline_ms <= now_ms:
                del self._under_way[peer]
                self.pause(peer, now_ms)

    def reset(self) -> None:
        """Another role begins: nothing that was asked before matters any more."""
        self._under_way.clear()
        self._paused.clear()

    def deadlines(self) -> list[int]:
        """When a request will be late, or a pause over; as of the last `settle`."""
        return [*self._paused.values(), *(deadline for _, deadline in self._under_way.values())]
