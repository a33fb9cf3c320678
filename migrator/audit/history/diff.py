"""Compare two audits that were kept: which counts changed, and which differences are new, gone or changed.

In:   two `KeptRun`s.
Out:  a `RunsDiff`.
Elsewhere: reading them (kept_runs.py), its words (api/commands/audit_history.py).
Rules: a secret fingerprint has a key of its own in each audit, so two of them are never compared, and are shown as
`SECRET`. A report carries its first differences only: one that is past the end of the other report's list is neither
new nor gone, but not compared. The same holds for a third side that only one of them asked: that is a change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from enum import StrEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from migrator.audit.compare import (
    LAG,
    AskedBroker,
    AuditReport,
    BrokerDifference,
    BrokersSide,
    Difference,
    DifferenceKind,
    FamilyCount,
    KeyOutcome,
)
from migrator.audit.fingerprints import HASH_DIGITS, PREFIX
from migrator.audit.history.kept_runs import KeptRun

SECRET: Final = "a secret value"
_FINGERPRINT: Final = re.compile(re.escape(PREFIX) + f"[0-9a-f]{{{HASH_DIGITS}}}")

Told = TypeVar("Told")


class Change(StrEnum):
    """What became of a difference from the first run to the second."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


class RunFacts(msgspec.Struct, frozen=True):
    """Which audit one of the two is. exit_code: 0 passed, 1 diverged, 2 incomplete. seconds: it took.

    ended_at: seconds since 1970 in UTC. zk: what it said of ZooKeeper. offset, epoch: up to which it read the log.
    left_off: differences that its report does not carry. lacks: fields that its release did not write.
    """

    directory: str
    engine: str
    exit_code: int
    ended_at: float
    seconds: float
    offset: int
    epoch: int
    zk: dict[str, Any]
    brokers_asked: bool
    left_off: int
    lacks: tuple[str, ...]


class FamilyChange(msgspec.Struct, frozen=True):
    """Counts of a family in both runs; None: that run did not have the family."""

    family: str
    first: FamilyCount | None
    second: FamilyCount | None

    @property
    def changed(self) -> bool:
        return self.first != self.second


class ToldDifference(msgspec.Struct, frozen=True):
    """A difference of a report with what became of its key: different, expected or not read."""

    outcome: str
    difference: Difference


class DifferenceChange(msgspec.Struct, frozen=True):
    """One difference of ZooKeeper and log in both runs; None: that run did not have it."""

    change: Change
    first: ToldDifference | None
    second: ToldDifference | None


class BrokerDifferenceChange(msgspec.Struct, frozen=True):
    """One difference of a broker and the log in both runs; None: that run did not have it."""

    change: Change
    first: BrokerDifference | None
    second: BrokerDifference | None


class BrokerChange(msgspec.Struct, frozen=True):
    """What became of a broker that at least one of the runs asked."""

    broker: int
    first: AskedBroker | None
    second: AskedBroker | None


class ThirdSideDiff(msgspec.Struct, frozen=True):
    """What changed in what brokers said. brokers: only those of which anything changed.

    alone_new, alone_gone: where ZooKeeper stands alone in one of the runs, as `family key field`.
    problems: of both runs, why no broker was read. not_compared: differences that a report left off.
    """

    families: list[FamilyChange]
    brokers: list[BrokerChange]
    differences: list[BrokerDifferenceChange]
    alone_new: list[str]
    alone_gone: list[str]
    problems: tuple[str, str]
    not_compared: int
    secrets: int

    @property
    def changed(self) -> bool:
        lists = (self.brokers, self.differences, self.alone_new, self.alone_gone)
        return any(lists) or any(each.changed for each in self.families) or len(set(self.problems)) > 1


class RunsDiff(msgspec.Struct, frozen=True):
    """What is different in two reports (the JSON of `zk2kraft audit diff --json`; keys are a contract).

    same_cluster: None where a run does not know its cluster id.
    not_compared: differences of one run that the other one may have left off.
    secrets:      differences of both runs that are equal but for secret values, of which nothing can be said.
    brokers:      None unless both runs asked them.
    """

    first: RunFacts
    second: RunFacts
    changed: bool
    same_cluster: bool | None
    families: list[FamilyChange]
    differences: list[DifferenceChange]
    not_compared: int
    secrets: int
    brokers: ThirdSideDiff | None

    @property
    def exit_code(self) -> int:
        """0 nothing changed, 1 something changed, 2 not all could be compared, and nothing of the rest changed."""
        if self.changed:
            return 1
        return 2 if self.first.left_off or self.second.left_off else 0


def diff_runs(first: KeptRun, second: KeptRun, *, one_key: bool = False) -> RunsDiff:
    """Compare two kept audits, the earlier one first.

    one_key: both have the same fingerprints, as a replay has: secret values are compared then.
    """
    before, now = first.report, second.report
    families = _families(before.families, now.families)
    found = _paired(_told(before), _told(now), one_key=one_key)
    brokers = None if before.brokers is None or now.brokers is None else _brokers(before.brokers, now.brokers, one_key)
    other_sides = (before.brokers is None) != (now.brokers is None)
    changed = bool(found.changes) or any(each.changed for each in families) or other_sides
    return RunsDiff(
        first=_facts(first),
        second=_facts(second),
        changed=changed or (brokers is not None and brokers.changed),
        same_cluster=_same_cluster(before, now),
        families=families,
        differences=[DifferenceChange(*each) for each in found.changes],
        not_compared=found.not_compared,
        secrets=found.secrets,
        brokers=brokers,
    )


def without_brokers(run: KeptRun) -> KeptRun:
    """The same run as if nobody had asked brokers: what ZooKeeper and the log said of each other."""
    same = not any(each.different or each.not_read for each in run.report.families)
    return msgspec.structs.replace(run, report=msgspec.structs.replace(run.report, brokers=None, same=same))


def _facts(run: KeptRun) -> RunFacts:
    report = run.report
    left_off = sum(report.left_off.values()) + (0 if report.brokers is None else report.brokers.left_off)
    return RunFacts(
        directory=str(run.directory),
        engine=report.engine,
        exit_code=report.exit_code,
        ended_at=run.ended_at,
        seconds=report.seconds.get("total", 0.0),
        offset=report.kraft.get("offset", -1),
        epoch=report.kraft.get("epoch", -1),
        zk=report.zk,
        brokers_asked=report.brokers is not None,
        left_off=left_off,
        lacks=run.lacks,
    )


def _same_cluster(before: AuditReport, now: AuditReport) -> bool | None:
    ids = before.zk.get("cluster_id"), now.zk.get("cluster_id")
    return ids[0] == ids[1] if all(ids) else None


def _families(before: Iterable[FamilyCount], now: Iterable[FamilyCount]) -> list[FamilyChange]:
    """In the order of the second run; families that only the first one has are last."""
    first, second = ({each.family: each for each in counts} for counts in (before, now))
    return [FamilyChange(name, first.get(name), second.get(name)) for name in dict.fromkeys([*second, *first])]


# --- which difference is which ----------------------------------------------------------------------------


class _Listed(NamedTuple, Generic[Told]):
    """Differences of one run by what they are about, in the order of its report.

    may_lack: whether the list, which ends before it is whole, may lack this one.
    """

    known: dict[Hashable, Told]
    may_lack: Callable[[Told], bool]


class _Paired(NamedTuple, Generic[Told]):
    changes: list[tuple[Change, Told | None, Told | None]]
    not_compared: int
    secrets: int


def _told(report: AuditReport) -> _Listed[ToldDifference]:
    unread = DifferenceKind.NOT_READ
    told = [
        *(
            ToldDifference((KeyOutcome.NOT_READ if each.kind == unread else KeyOutcome.DIFFERENT).value, each)
            for each in report.differences
        ),
        *(ToldDifference(KeyOutcome.EXPECTED.value, each) for each in report.expected),
    ]
    told.sort(key=lambda each: each.difference.place)
    lists = {"differences": report.differences, "expected": report.expected}
    ends = [found[-1].place for name, found in lists.items() if found and report.left_off.get(name)]
    end = min(ends, default=None)

    def about(each: ToldDifference) -> Hashable:
        found = each.difference
        return found.family, found.key, found.field_, found.kind == DifferenceKind.OTHER_IN_SNAPSHOT

    return _Listed(_numbered(told, about), lambda each: end is not None and each.difference.place >= end)


def _told_of_brokers(side: BrokersSide) -> _Listed[BrokerDifference]:
    """Their order is that of families that another release may not know: a cut list may lack anything."""
    known = _numbered(side.differences, lambda each: (each.broker, each.family, each.key, each.field_))
    return _Listed(known, lambda _: bool(side.left_off))


def _numbered(told: Iterable[Told], about: Callable[[Told], Hashable]) -> dict[Hashable, Told]:
    """A key that ZooKeeper tells twice is two differences of one name."""
    seen: Counter[Hashable] = Counter()
    found: dict[Hashable, Told] = {}
    for each in told:
        name = about(each)
        found[name, seen[name]] = each
        seen[name] += 1
    return found


def _paired(before: _Listed[Told], now: _Listed[Told], *, one_key: bool) -> _Paired[Told]:
    changes: list[tuple[Change, Told | None, Told | None]] = []
    not_compared = secrets = 0
    for name in dict.fromkeys([*now.known, *before.known]):
        first, second = before.known.get(name), now.known.get(name)
        if first is None or second is None:
            one, other = (second, before) if first is None else (first, now)
            if one is not None and other.may_lack(one):
                not_compared += 1
                continue
            change = Change.NEW if first is None else Change.GONE
        elif _comparable(first, one_key) == _comparable(second, one_key):
            secrets += not one_key and _comparable(first, True) != _comparable(second, True)
            continue
        else:
            change = Change.CHANGED
        changes.append((change, _masked(first), _masked(second)))
    return _Paired(changes, not_compared, secrets)


def _comparable(told: Any, one_key: bool) -> Any:
    """Everything that a difference says, but how many changes a dual-write is behind, which no two audits share."""
    document = msgspec.to_builtins(told)
    found = document.get("difference", document)
    if str(found.get("rule", "")).startswith(LAG):
        found["rule"] = LAG
    return document if one_key else without_fingerprints(document)


def _masked(told: Told | None) -> Told | None:
    return None if told is None else msgspec.convert(without_fingerprints(msgspec.to_builtins(told)), type(told))


def without_fingerprints(value: Any) -> Any:
    """A JSON value with `SECRET` where a secret fingerprint is."""
    match value:
        case str():
            return _FINGERPRINT.sub(SECRET, value)
        case dict():
            return {key: without_fingerprints(each) for key, each in value.items()}
        case list():
            return [without_fingerprints(each) for each in value]
        case _:
            return value


# --- the third side ---------------------------------------------------------------------------------------


def _lasting(asked: AskedBroker | None) -> AskedBroker | None:
    """Without times: a listing, and a lag, is another one in every audit."""
    return None if asked is None else msgspec.structs.replace(asked, listed_at_ms=0, lag=None)


def _brokers(before: BrokersSide, now: BrokersSide, one_key: bool) -> ThirdSideDiff:
    first, second = ({each.broker: each for each in side.asked} for side in (before, now))
    asked = [BrokerChange(each, first.get(each), second.get(each)) for each in sorted({*first, *second})]
    found = _paired(_told_of_brokers(before), _told_of_brokers(now), one_key=one_key)
    alone = set(before.zookeeper_alone), set(now.zookeeper_alone)
    return ThirdSideDiff(
        families=_families(before.families, now.families),
        brokers=[each for each in asked if _lasting(each.first) != _lasting(each.second)],
        differences=[BrokerDifferenceChange(*each) for each in found.changes],
        alone_new=sorted(alone[1] - alone[0]),
        alone_gone=sorted(alone[0] - alone[1]),
        problems=(before.problem, now.problem),
        not_compared=found.not_compared,
        secrets=found.secrets,
    )
