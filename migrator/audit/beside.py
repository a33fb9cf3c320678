"""The newest snapshot beside a whole log: a controller that starts begins with it, so it has to say what the log says.

In:   the snapshot's splits (log_plan.py), and what the records of the log up to its offset add up to.
Out:  each key of which the two say different things, as differences of a report.
Elsewhere: both with ZooKeeper (compare.py), the same in tasks (spark/compare.py).
Why:  other voters, and a controller with an empty disk, replay the log; this one, started again, does not. Both are
what the cluster may be told tomorrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from migrator.audit.cluster import is_forgotten
from migrator.audit.compare import Difference, DifferenceKind
from migrator.audit.log_plan import LogPlan, read_split
from migrator.audit.log_source import records_of
from migrator.audit.log_states import Key, OtherInSnapshot
from migrator.audit.normalise import Facts, LogFacts
from migrator.audit.rows import facts_text


def read_snapshot(plan: LogPlan) -> LogFacts:
    """What the snapshot beside the log adds up to. Raises Z2K-5001 or Z2K-5002."""
    facts = LogFacts()
    for split in plan.beside:
        for batch in read_split(split):
            for _, record in records_of(batch):
                facts.apply(record)
    return facts


def facts_by_key(facts: LogFacts) -> dict[Key, Facts]:
    """Not copied: of use until the next record is applied."""
    return {(family, key): found for family, key, found in facts.rows()}


def others_in_snapshot(
    snapshot: Mapping[Key, Facts], log: Mapping[Key, Facts], offset: int
) -> Iterator[OtherInSnapshot]:
    for key in sorted({*snapshot, *log}):
        in_snapshot, in_log = snapshot.get(key), log.get(key)
        if in_snapshot != in_log and not is_forgotten(key, in_snapshot, in_log):
            first, second = (None if each is None else dict(each) for each in (in_snapshot, in_log))
            yield OtherInSnapshot(*key, first, second, offset)


def told(found: OtherInSnapshot) -> list[Difference]:
    """Field by field; one for the whole key where one of the two does not have it. Secrets are fingerprints already."""
    if found.snapshot is None or found.log is None:
        return [_told(found, "", found.snapshot, found.log)]
    return [
        _told(found, each, found.snapshot.get(each), found.log.get(each))
        for each in sorted({*found.snapshot, *found.log})
        if found.snapshot.get(each) != found.log.get(each)
    ]


def _told(found: OtherInSnapshot, field: str, snapshot: object, log: object) -> Difference:
    says = "has no such key" if snapshot is None and not field else f"says {facts_text(snapshot)}"
    rule = f"a controller that starts here loads the snapshot up to offset {found.offset}, which {says}"
    return Difference(found.family, found.key, field, DifferenceKind.OTHER_IN_SNAPSHOT, None, log, rule)
