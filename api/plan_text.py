"""The plan of an estate, as one page of text and as JSON.

In:   `EstatePlan`. Out: lines; a document for programs.
Elsewhere: the legs (state_machine/change/legs.py), who makes the plan (api/commands/plan.py).
Rules: sixty brokers are one page: nodes of one release are one line, whose ids are ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from migrator.model.features.raises import Raise, undo_of_raise
from state_machine.change.document import Leg
from state_machine.policy.fleet_evidence import BROKERS

BY_HAND: Final = "you"
BY_SERVICE: Final = "zk2kraft"
HOUR_S: Final = 3600.0
UNREAD_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """A node of the inventory."""

    id: int
    host: str
    rack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EstatePlan:
    """releases: of brokers, by id, as far as they are known. unread: why hosts did not show theirs.

    name: of the cluster. windows: maintenance windows, in words.

    features: decisions after the last leg. seconds: shortest and longest restart of one node, by role; measured: roles
    of which a person gave it.
    """

    name: str
    brokers: tuple[PlannedNode, ...]
    controllers: tuple[PlannedNode, ...]
    windows: tuple[str, ...]
    releases: Mapping[int, str]
    unread: Mapping[int, str]
    last: str
    legs: tuple[Leg, ...]
    features: tuple[Raise, ...]
    seconds: Mapping[str, tuple[float, float]]
    measured: Collection[str]
    settle_s: float

    @property
    def unknown(self) -> tuple[int, ...]:
        """Brokers whose release nobody says."""
        return tuple(each.id for each in self.brokers if each.id not in self.releases)

    @property
    def restarts(self) -> int:
        return sum(each.restarts for each in self.legs)

    def as_json(self) -> dict[str, Any]:
        """Keys are a contract."""
        return {
            "name": self.name,
            "to": self.last,
            "hosts": [
                {"host": each.host, "broker": each.id, "rack": each.rack, "kafka": self.releases.get(each.id)}
                for each in self.brokers
            ],
            "controllers": [{"host": each.host, "controller": each.id} for each in self.controllers],
            "unknown": list(self.unknown),
            "unread": {str(node): reason for node, reason in self.unread.items()},
            "windows": list(self.windows),
            "legs": [{key: value for key, value in asdict(each).items() if key != "state"} for each in self.legs],
            "restarts": self.restarts,
            "low_s": round(sum(each.low_s for each in self.legs), 1),
            "high_s": round(sum(each.high_s for each in self.legs), 1),
            "seconds_of_one": {role: list(those) for role, those in self.seconds.items()},
            "features": [{"feature": each.text, "undo": undo_of_raise(each.feature)} for each in self.features],
        }


def plan_lines(plan: EstatePlan) -> list[str]:
    return [*_head(plan), "", *_table(plan), "", *_foot(plan)]


def _head(plan: EstatePlan) -> Iterator[str]:
    hosts = len({each.host for each in (*plan.brokers, *plan.controllers)})
    yield (
        f"plan of {plan.name}: {len(plan.brokers)} brokers and {len(plan.controllers)} "
        f"controllers on {hosts} hosts, to Kafka {plan.last}"
    )
    by_release: dict[str, list[int]] = {}
    for each in plan.brokers:
        by_release.setdefault(plan.releases.get(each.id, "not known"), []).append(each.id)
    for release, ids in sorted(by_release.items()):
        first = next(each.host for each in plan.brokers if each.id == ids[0])
        more = first if len(ids) == 1 else f"{first} and {len(ids) - 1} more host{'s' if len(ids) > 2 else ''}"
        yield f"runs now    {release:<10}  brokers {ranges(ids)} ({more})"
    for node, reason in list(plan.unread.items())[:UNREAD_SHOWN]:
        yield f"not read    broker {node}: {reason}"
    if len(plan.unread) > UNREAD_SHOWN:
        yield f"not read    and {len(plan.unread) - UNREAD_SHOWN} more brokers"
    yield f"windows     {'; '.join(plan.windows) or 'none: restarts begin at any time'}"


def _table(plan: EstatePlan) -> Iterator[str]:
    rows = [("", "leg", "restarts", "hours", "windows", "by", "phase")]
    for each in plan.legs:
        windows = "-" if each.windows is None else _between(*map(str, each.windows))
        rows.append(
            (
                f"{each.number}",
                each.what + (" *" if each.irreversible else ""),
                f"{each.restarts}" if each.restarts else "-",
                _hours(each.low_s, each.high_s),
                windows,
                BY_SERVICE if each.phase else BY_HAND,
                each.phase or "-",
            )
        )
    low, high = (sum(getattr(each, end) for each in plan.legs) for end in ("low_s", "high_s"))
    rows.append(("", "all", f"{plan.restarts}", _hours(low, high), "", "", ""))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = [
            f"{cell:>{width}}" if at in (0, 2, 3, 4) else f"{cell:<{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def _foot(plan: EstatePlan) -> Iterator[str]:
    yield "* irreversible:"
    for each in plan.legs:
        if each.irreversible:
            yield f"  leg {each.number}: {each.irreversible}; {each.decides}"
    yield "decides: one person takes every other leg (`zk2kraft advance`, or your own change); what leads back:"
    backs: dict[str, list[int]] = {}
    for each in plan.legs:
        if each.undo:
            backs.setdefault(each.undo, []).append(each.number)
    for undo, legs in backs.items():
        yield f"  leg{'s' if len(legs) > 1 else ''} {ranges(legs)}: {undo}"
    for each in plan.legs:
        if each.because:
            yield f"leg {each.number} is there because {each.because}"
    if plan.features:
        yield f"then Kafka {plan.last} has {len(plan.features)} more decisions, each approved by another person:"
        final = [each.text for each in plan.features if not undo_of_raise(each.feature)]
        undone = [each.text for each in plan.features if undo_of_raise(each.feature)]
        yield f"  {', '.join(undone)}"
        if final:
            yield f"  {', '.join(final)}, which cannot be undone; all others can be lowered"
    for role, (low, high) in plan.seconds.items():
        how = "as you measured it" if role in plan.measured else _assumed(role, plan.settle_s)
        yield f"one restart of {role}s: {_between(f'{low:g}', f'{high:g}')} s, {how}"
    yield "hours leave out waiting for people and windows; `you`: restarts by your own means, one node at a time"


def _assumed(role: str, settle_s: float) -> str:
    timeouts = "stop, start and in_sync" if role == BROKERS else "stop and start"
    return f"assumed: the laboratory's and settle_s ({settle_s:g}), to the timeouts {timeouts}"


def _hours(low_s: float, high_s: float) -> str:
    if high_s < HOUR_S / 20:
        return "< 0.1" if high_s else "-"
    return _between(*(f"{each / HOUR_S:.1f}" for each in (low_s, high_s)))


def _between(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def ranges(ids: Iterable[int]) -> str:
    """ "1-3, 7"."""
    found: list[list[int]] = []
    for each in sorted(ids):
        if found and each == found[-1][1] + 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in found)
