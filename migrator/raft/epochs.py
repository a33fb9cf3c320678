"""The lineage of leader epochs: at which offset did each epoch begin?

In:   (epoch, start offset) pairs in the order in which the log saw them.
Out:  where an epoch ended, by which a leader tells a replica how far their logs agree.
Elsewhere: the checkpoint file (node.log.log_store), what is answered to a fetch (voter.py).
Source: R-595-07; Kafka 3.9 `LeaderEpochFileCache`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class EpochEnd:
    """An epoch and the offset after its last record."""

    epoch: int
    offset: int


class EpochCache:
    """Ascending epochs with ascending start offsets; an epoch without records is not kept."""

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries or ():
            self.assign(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start: int) -> bool:
        """Note that `epoch` begins at `start`; True when that was news. Epochs may not go back."""
        if self._epochs:
            assert epoch >= self._epochs[-1], f"epoch {epoch} after {self._epochs[-1]}"
            if epoch == self._epochs[-1]:
                return False
        while self._starts and self._starts[-1] >= start:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        return True

    def end_of(self, epoch: int, log_end: int) -> EpochEnd | None:
        """The largest known epoch that is not above `epoch`, and where it ended.

        An epoch older than all ended where the first one begins: the replica drops what it has from then. None for an
        epoch above the latest: this log never saw it.
        """
        if not self._epochs or epoch > self._epochs[-1]:
            return None
        index = bisect_right(self._epochs, epoch)
        ended = log_end if index == len(self._epochs) else self._starts[index]
        return EpochEnd(self._epochs[index - 1] if index else epoch, ended)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at `offset`, or None when the lineage begins later."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None

    def truncate_to(self, end: int) -> None:
        """Forget what begins at `end` or later."""
        while self._starts and self._starts[-1] >= end:
            self._epochs.pop()
            self._starts.pop()

    def truncate_before(self, start: int) -> None:
        """Forget what ended at `start` or earlier; the epoch that holds `start` begins there from now on."""
        index = bisect_right(self._starts, start)
        if index == 0:
            return
        del self._epochs[: index - 1], self._starts[: index - 1]
        self._starts[0] = start

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()

    def first_start(self) -> EpochEnd | None:
        return EpochEnd(self._epochs[0], self._starts[0]) if self._epochs else None
