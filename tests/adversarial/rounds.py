"""What a run does in each of its rounds: one takeover, and how it ends. Decided by the seed alone.

Most rounds end before the copy is committed, so that the brokers need no restart and the next round can begin at once
(docs/undo.md). One in `WHOLE_EVERY` goes on to dual-write and back, and then a fresh quorum and restarted brokers have
to follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from random import Random
from typing import Final


class End(StrEnum):
    """How a takeover is cut short, or how far it goes."""

    ABORT = "an operator aborts it"
    KILL = "kill -9, started again when ZooKeeper has noticed"
    KILL_AND_START = "kill -9, started again at once"
    STOP = "stopped cleanly"
    OVERDUE = "stands still until the limit of the window"
    ROLLBACK = "goes on to dual-write and is rolled back"
    ROLLBACK_AFTER_KILL = "goes on to dual-write, kill -9 there, and is rolled back"
    RELEASE = "goes on to dual-write, kill -9 there, and is rolled back without controllers"


BEFORE_THE_COMMIT: Final = ("latch", "claim", "raise epoch", "read", "encode", "audit", "append")
"""Effects of the driver (migrator.node.quorum.hooks) before which it can stand still, and then be cut short."""
CAN_BE_ABORTED: Final = BEFORE_THE_COMMIT[:-1]
UNDER_THE_LIMIT: Final = ("read", "encode", "audit")
"""Where the limit of the window ends a takeover that stands still: from the claim until the commit has begun."""
AFTER_THE_COMMIT: Final = ("persist", "reconcile", "update", "enter dual-write")
WHOLE: Final = (End.ROLLBACK, End.RELEASE, End.ROLLBACK_AFTER_KILL)
WHOLE_EVERY: Final = 18
STANDS_S: Final = (0.0, 1.5)
RUNS_S: Final = (0.0, 0.2)
"""Of a takeover that nothing holds up the window is about this long."""

SHARES: Final = {End.ABORT: 48, End.KILL: 10, End.KILL_AND_START: 18, End.STOP: 18, End.OVERDUE: 6}


@dataclass(frozen=True, slots=True)
class Round:
    """stands_before: an effect; "" when the cut comes some time after the claim, wherever the driver is by then.

    after_s: seconds from there to the cut.
    """

    number: int
    stands_before: str
    after_s: float
    end: End

    @property
    def is_whole(self) -> bool:
        return self.end in WHOLE

    def __str__(self) -> str:
        where = f"stands {self.after_s:.2f} s before {self.stands_before!r}" if self.stands_before else ""
        return f"round {self.number}: {where or f'runs {self.after_s:.2f} s after the claim'}; {self.end}"


def rounds(seed: int, count: int, whole_every: int = WHOLE_EVERY) -> Iterator[Round]:
    """The last of every `whole_every` is whole, so that it is the fresh quorum's turn next."""
    chance = Random(seed)
    whole = cycle(WHOLE)
    for number in range(1, count + 1):
        if number % whole_every == 0:
            effect = chance.choice((*BEFORE_THE_COMMIT, *AFTER_THE_COMMIT))
            yield Round(number, effect, chance.uniform(0.0, 0.5), next(whole))
        else:
            yield _cut_short(number, chance)


def _cut_short(number: int, chance: Random) -> Round:
    end = chance.choices(list(SHARES), list(SHARES.values()))[0]
    if end is End.OVERDUE:
        return Round(number, chance.choice(UNDER_THE_LIMIT), 0.0, end)
    if chance.random() < 0.3:
        return Round(number, "", chance.uniform(*RUNS_S), end)
    places = CAN_BE_ABORTED if end is End.ABORT else BEFORE_THE_COMMIT
    return Round(number, chance.choice(places), chance.uniform(*STANDS_S), end)
