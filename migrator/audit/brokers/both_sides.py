"""What the third side is compared with: the log as it is and as it was, and what ZooKeeper and the log said.

Elsewhere: who reads them (audit/run.py), who compares (disks_side.py, node/tools/third_side.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from migrator.audit.brokers.tasks import RunsTasks
from migrator.audit.compare import Difference
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import LogFacts

SETTLES_MS: Final = 10_000
"""What a broker has at a time, the log may have said so much earlier: a broker does it within half a second, and two
hosts have two clocks."""


@dataclass(frozen=True, slots=True)
class LogSince:
    """What the log says now, and said since an offset (`low`). reaches: it has all that it said since then."""

    states: LogStates
    low: int
    reaches: bool


@dataclass(frozen=True, slots=True)
class ReadSides:
    """Both other sides, for who asks brokers.

    read:       the log, as it is when it is called.
    behind:     the same, with all that it said behind an offset.
    since:      the same, with all that it said since shortly before each of these times, in ms.
    between:    differences of ZooKeeper and the log, expected ones too.
    cluster_id: of both; None: it is not known.
    tasks:      of the engine that compared both; None: it has none, and this process asks brokers.
    """

    read: Callable[[], LogFacts]
    behind: Callable[[int], LogStates]
    since: Callable[[Sequence[int]], list[LogSince]]
    between: Sequence[Difference] = ()
    cluster_id: str | None = None
    tasks: RunsTasks | None = None
