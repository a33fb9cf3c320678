"""What one road showed, from moments and counts to the table in which two roads stand side by side.

In:   a road's stretches, the ledger of its traffic, when the controller answered, what its controllers logged.
Out:  `RoadFigures`, and the tables as Markdown.
Elsewhere: who walks the road (stock_road.py), who asks the controller (controller_probe.py).
Times are microseconds of the wall clock where they end in `_us`, else seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import msgspec

from migrator.lab.traffic.figures import figures_between, longest_stall_ms
from migrator.lab.traffic.ledger import Entry

STOCK: Final = "stock, by hand"
OURS: Final = "zk2kraft"
BY_SERVICE: Final = "stock, by the service"
NO_CONTROLLER_LEAST_S: Final = 1.0
"""A shorter time between two answers is no outage: a request on its way and a busy machine look the same."""

STATE: Final = re.compile(r"^\[([\d-]+ [\d:,]+)\] INFO .*transitioning from (\w+) to (\w+) state", re.MULTILINE)
COPIED: Final = re.compile(r"^\[([\d-]+ [\d:,]+)\] INFO .*Completed migration of metadata from ZooKeeper", re.M)
VOTER: Final = re.compile(r"^(\d+)\s+\S+\s+\d+\s+(-?\d+)\s.*\s(Leader|Follower)[ \t]*$", re.MULTILINE)


class Phase(StrEnum):
    """The parts of a road, in words of the table. Only ours has REPLACE and SOAK."""

    PREPARE = "controllers are made and started"
    JOIN = "brokers restart with the migration settings"
    CHECK = "checks, rehearsal, audits, open gates"
    TAKEOVER = "takeover, until dual-write"
    ROLL = "brokers restart into KRaft"
    REPLACE = "controllers are replaced by stock"
    SOAK = "soak: stock controllers restart"
    FINALIZE = "controllers restart without the migration settings"
    END = "ZooKeeper stops, a topic is created"


class Stretch(msgspec.Struct, frozen=True):
    phase: Phase
    began: float
    ended: float


class Stretches:
    """Which phase it is, moment by moment, without gaps."""

    def __init__(self) -> None:
        self.found: list[Stretch] = []
        self._now: tuple[Phase, float] | None = None

    def begin(self, phase: Phase, at: float | None = None) -> None:
        """at: when the phase began, where that is known only afterwards."""
        at = time.time() if at is None else at
        self._close(at)
        self._now = phase, at

    def end(self) -> None:
        self._close(time.time())

    def _close(self, at: float) -> None:
        if self._now is not None:
            phase, began = self._now
            self.found.append(Stretch(phase, began, max(began, at)))
        self._now = None


class Takeover(msgspec.Struct, frozen=True):
    """As the controller that made it logged it.

    claimed: when it began to take `/controller`; the time without controller counts from here.
    copy_s:  from the claim that was taken to the committed copy. window_s: from `claimed` to dual-write.
    """

    claimed: float
    copy_s: float
    window_s: float


class PhaseFigures(msgspec.Struct, frozen=True):
    """stall_s: the longest time without any acknowledgement. unserved_s: without an answer of a controller."""

    phase: Phase
    seconds: float
    stall_s: float
    unserved_s: float


class RoadFigures(msgspec.Struct, frozen=True):
    """One road. outages_s: the times without a controller that serves of a second and more, in order.

    slowest_s: the longest time from sending one record to its acknowledgement.
    """

    system: str
    seconds: float
    phases: list[PhaseFigures]
    slowest_s: float
    outages_s: list[float]
    copy_s: float
    window_s: float
    broker_restarts: int
    controller_restarts: int
    acknowledged: int
    lost: int
    wrong: dict[str, tuple[str, ...]]


def phase_figures(
    stretches: Iterable[Stretch], acknowledged_us: Sequence[int], served_us: Sequence[int]
) -> list[PhaseFigures]:
    """A row for each phase that there was: its stretches together in seconds, the worst of them in stalls."""
    known = list(stretches)
    found = []
    for phase in dict.fromkeys(each.phase for each in known):
        mine = [(_us(each.began), _us(each.ended)) for each in known if each.phase is phase]
        found.append(
            PhaseFigures(
                phase,
                seconds=round(sum(end - start for start, end in mine) / 1e6, 1),
                stall_s=round(max(longest_stall_ms(acknowledged_us, *each) for each in mine) / 1000, 2),
                unserved_s=round(max(longest_stall_ms(served_us, *each) for each in mine) / 1000, 2),
            )
        )
    return found


def outages_s(served_us: Iterable[int], start: float, end: float) -> list[float]:
    """Every time between neighbouring answers that is long enough to be one; the edges count as answers."""
    first, last = _us(start), _us(end)
    inside = [first, *sorted(each for each in served_us if first < each < last), last]
    gaps = [(later - earlier) / 1e6 for earlier, later in pairwise(inside)]
    return [round(gap, 2) for gap in gaps if gap >= NO_CONTROLLER_LEAST_S]


def slowest_s(entries: Iterable[Entry], start: float, end: float) -> float:
    figures = figures_between(entries, _us(start), _us(end))
    return round((figures.acknowledgement.max_ms or 0.0) / 1000, 2)


def _us(seconds: float) -> int:
    return int(seconds * 1e6)


# --- what controllers log ---------------------------------------------------------------------------------


def stock_takeover(log: str) -> Takeover | None:
    """log: of the stock controller's present run. None when it has not come to dual-write by a copy of its own."""
    entered = {to: _at(at) for at, _, to in reversed(STATE.findall(log))}  # the first time that each was entered
    copied = COPIED.search(log)
    if copied is None or not {"BECOME_CONTROLLER", "ZK_MIGRATION", "DUAL_WRITE"} <= entered.keys():
        return None
    claimed = entered["BECOME_CONTROLLER"]
    return Takeover(
        claimed=claimed,
        copy_s=round(_at(copied[1]) - entered["ZK_MIGRATION"], 3),
        window_s=round(entered["DUAL_WRITE"] - claimed, 3),
    )


def our_takeover(events: Iterable[Mapping[str, Any]]) -> Takeover | None:
    """events: of one of our controllers, oldest first. None when it has not taken over."""
    entered: dict[str, float] = {}
    for each in events:
        if each.get("event") == "driver.state":
            entered[each["to"]] = datetime.fromisoformat(each["timestamp"]).timestamp()
        elif each.get("event") == "dual_write.entered" and "SYNCING" in entered and "COPYING" in entered:
            window_s = each["window_ms"] / 1000
            ended = datetime.fromisoformat(each["timestamp"]).timestamp()
            return Takeover(ended - window_s, round(entered["SYNCING"] - entered["COPYING"], 3), window_s)
    return None


def _at(text: str) -> float:
    """Of log4j, which writes local time."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").timestamp()


def leader_and_lags(text: str) -> tuple[int | None, dict[int, int]]:
    """From `kafka-metadata-quorum describe --replication`: who leads, and how far each voter is behind."""
    voters = [(int(node), int(lag), status) for node, lag, status in VOTER.findall(text)]
    leader = next((node for node, _, status in voters if status == "Leader"), None)
    return leader, {node: lag for node, lag, _ in voters}


# --- the tables -------------------------------------------------------------------------------------------


def table(roads: Sequence[RoadFigures]) -> str:
    """The one table: a column for each road; then a row for each phase."""
    rows = [
        ("longest producer stall, and in which phase", [_worst(each, "stall_s") for each in roads]),
        ("slowest acknowledgement of one record", [f"{each.slowest_s:.1f} s" for each in roads]),
        ("longest time without a controller that serves", [_worst(each, "unserved_s") for each in roads]),
        ("all such times of 1 s and more", [_sum(each.outages_s) for each in roads]),
        ("copy: from the claim to the committed copy", [f"{each.copy_s:.2f} s" for each in roads]),
        ("from the claim to dual-write, as the controller logs it", [f"{each.window_s:.2f} s" for each in roads]),
        ("restarts of brokers", [str(each.broker_restarts) for each in roads]),
        ("restarts of controllers", [str(each.controller_restarts) for each in roads]),
        ("total time", [f"{each.seconds:.0f} s" for each in roads]),
        ("acknowledged records", [f"{each.acknowledged:,}" for each in roads]),
        ("lost records", [str(each.lost) for each in roads]),
    ]
    names = [each.system for each in roads]
    lines = ["| | " + " | ".join(names) + " |", "| --- " + "| ---: " * len(names) + "|"]
    lines += [f"| {what} | " + " | ".join(cells) + " |" for what, cells in rows]
    lines += ["", "| phase: time, longest stall, longest time without a controller | " + " | ".join(names) + " |"]
    lines.append("| --- " + "| ---: " * len(names) + "|")
    lines += [f"| {phase} | " + " | ".join(_phase(each, phase) for each in roads) + " |" for phase in _phases(roads)]
    return "\n".join(lines)


def _phases(roads: Iterable[RoadFigures]) -> list[Phase]:
    there = {row.phase for each in roads for row in each.phases}
    return [phase for phase in Phase if phase in there]


def _phase(road: RoadFigures, phase: Phase) -> str:
    row = next((each for each in road.phases if each.phase is phase), None)
    return "-" if row is None else f"{row.seconds:.0f} s, {row.stall_s:.2f} s, {row.unserved_s:.2f} s"


def _worst(road: RoadFigures, figure: str) -> str:
    row = max(road.phases, key=lambda each: float(getattr(each, figure)))
    return f"{getattr(row, figure):.2f} s ({row.phase})"


def _sum(gaps: Sequence[float]) -> str:
    return f"{sum(gaps):.1f} s in {len(gaps)}" if gaps else "none"
