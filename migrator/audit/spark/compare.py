"""Fold and judge the rows of both sides in Spark, in one stage.

In:   a DataFrame of rows (`INPUT_SCHEMA`) with the subjects together (fold.py).
Out:  `judged`: every key that is not equal, one row per difference; the equal ones as numbers, of subjects without any
      difference as one number for each task (no subject), else for each subject. The last row of a task says how many
      rows it took, and what it gave: rows, and keys of each family by outcome.
Elsewhere: what becomes of a subject (subjects.py), the rules (compare.py), which looks there are (job.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from migrator.audit.beside import facts_by_key, others_in_snapshot, told
from migrator.audit.compare import Difference, DifferenceKind, ExpectedDifferences, KeyOutcome, unread_key, within_bytes
from migrator.audit.log_fold import Fold
from migrator.audit.log_states import NO_OFFSET, OffsetRange
from migrator.audit.normalise import FAMILIES
from migrator.audit.rows import WHOLE_SIDE, SideRow, facts_text
from migrator.audit.spark.sources import BESIDE, LOG, ZOOKEEPER, InputRow
from migrator.audit.subjects import JudgedKey, ZkRow, judge_subject, moved_keys

JUDGED_SCHEMA: Final = (
    "family string, key string, subject string, outcome string, keys bigint, nth int, field string, kind string, "
    "zookeeper string, log string, rule string, mzxid bigint, offset bigint"
)
_JUDGED_ARROW: Final = pa.schema(
    [
        ("family", pa.string()),
        ("key", pa.string()),
        ("subject", pa.string()),
        ("outcome", pa.string()),
        ("keys", pa.int64()),
        ("nth", pa.int32()),
        ("field", pa.string()),
        ("kind", pa.string()),
        ("zookeeper", pa.string()),
        ("log", pa.string()),
        ("rule", pa.string()),
        ("mzxid", pa.int64()),
        ("offset", pa.int64()),
    ]
)

IDENTITY: Final = ("family", "key", "field", "kind", "zookeeper", "log")
"""A difference is the same in two looks when all of these are: nothing of it moved in between."""

TAKEN: Final = "taken"
"""The outcome of the last row of a task: `keys` says how many rows it took, `zookeeper` what it gave (`Given`)."""

ROWS: Final = "rows"
"""In `Given`, how many rows there are, the last one too."""

Given = list[tuple[str, str, int]]
"""Keys by family and outcome, as JSON."""

ROWS_PER_BATCH: Final = 5_000

JudgedRow = tuple[Any, ...]
_SUBJECT: Final = itemgetter(1)


class SubjectJudge:
    """Judges the rows of whole subjects for `mapInArrow`, and gives what became of their keys."""

    def __init__(self, rules: ExpectedDifferences, window: OffsetRange | None = None, beside: int = -1) -> None:
        """window: of a dual-write, the offsets that ZooKeeper had while it was read. beside: the last offset that the
        snapshot beside the log stands for; -1 without one.
        """
        self._rules = rules
        self._beside = beside
        self._window = window or OffsetRange(NO_OFFSET, NO_OFFSET)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = 0
        equal: Counter[str] = Counter()
        given: Counter[tuple[str, str]] = Counter()
        found: list[JudgedRow] = []
        rows = (row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))
        for subject, members in groupby(rows, key=_SUBJECT):
            read = list(members)
            taken += len(read)
            found += self._subject(subject, read, equal)
            if len(found) >= ROWS_PER_BATCH:
                _add(given, found)
                yield _batch(found)
                found = []
        found += [_count(family, None, KeyOutcome.EQUAL, keys) for family, keys in equal.items()]
        _add(given, found)
        yield _batch([*found, _end(taken, given)])

    def _subject(self, subject: str, rows: list[InputRow], equal: Counter[str]) -> list[JudgedRow]:
        """Counts equal keys in `equal` where nothing of the subject is to be looked at again."""
        fold = _folded(subject, rows, self._window.low)
        facts = list(fold.rows())
        if facts and facts[0].family == WHOLE_SIDE:
            return [_unread(subject, facts[0])]
        log = {(row.family, row.key): row for row in facts}
        moved = moved_keys(fold.states, fold.states.changed(), self._window.high)
        judged = list(judge_subject(subject, _of_zookeeper(rows), log, self._rules, moved))
        if self._beside >= 0:
            judged += self._other_in_snapshot(subject, rows)
        same = Counter(each.family for each in judged if each.outcome is KeyOutcome.EQUAL)
        if sum(same.values()) == len(judged):
            equal.update(same)
            return []
        counted = [_count(family, subject, KeyOutcome.EQUAL, keys) for family, keys in same.items()]
        told = (each for each in judged if each.outcome is not KeyOutcome.EQUAL)
        return [*counted, *chain.from_iterable(_rows(each, subject) for each in told)]

    def _other_in_snapshot(self, subject: str, rows: list[InputRow]) -> Iterator[JudgedKey]:
        before = _folded(subject, (row for row in rows if row[0] == LOG and row[2] <= self._beside), NO_OFFSET)
        snapshot = _folded(subject, (row for row in rows if row[0] == BESIDE), NO_OFFSET, BESIDE)
        unread = [row for row in snapshot.rows() if row.family == WHOLE_SIDE]
        for row in unread:
            reason = f"the snapshot beside the log: {row.problem}"
            yield JudgedKey(
                WHOLE_SIDE, row.key, KeyOutcome.NOT_READ, [unread_key(WHOLE_SIDE, row.key, reason)], None, None
            )
        if unread:
            return
        log, beside = facts_by_key(before.states.facts), facts_by_key(snapshot.states.facts)
        for each in others_in_snapshot(beside, log, self._beside):
            yield JudgedKey(each.family, each.key, KeyOutcome.DIFFERENT, told(each), None, None)


def _of_zookeeper(rows: Iterable[InputRow]) -> Iterator[ZkRow]:
    for side, _, mzxid, _, family, key, text, problem in rows:
        if side == ZOOKEEPER:
            yield ZkRow(family, key or "", text, mzxid, problem)


def _folded(subject: str, rows: Iterable[InputRow], low: int, wanted: int = LOG) -> Fold:
    """What the records of a subject add up to. wanted: LOG, or BESIDE."""
    fold = Fold(low)
    for side, _, offset, _, kind, _, data, _ in rows:
        if side == wanted:
            fold.take(offset, kind, data or "", subject)
    return fold


def _rows(judged: JudgedKey, subject: str) -> Iterator[JudgedRow]:
    place = judged.family, judged.key, subject, judged.outcome.value
    moved = judged.mzxid, judged.offset
    if not judged.differences:
        yield *place, 1, 0, "", "", "null", "null", "", *moved
    for nth, one in enumerate(judged.differences):
        told = one.field_, str(one.kind), facts_text(one.zookeeper), facts_text(one.log), one.rule
        yield *place, int(nth == 0), nth, *told, *moved


def _unread(subject: str, row: SideRow) -> JudgedRow:
    told = "", str(DifferenceKind.NOT_READ), "null", "null", row.problem
    return WHOLE_SIDE, row.key, subject, KeyOutcome.NOT_READ.value, 1, 0, *told, None, None


def _count(family: str, subject: str | None, outcome: str, keys: int) -> JudgedRow:
    return family, "", subject, str(outcome), keys, 0, "", "", "null", "null", "", None, None


def _add(given: Counter[tuple[str, str]], rows: Sequence[JudgedRow]) -> None:
    for family, _, _, outcome, keys, *_ in rows:
        given[family, outcome] += keys
    given[WHOLE_SIDE, ROWS] += len(rows)


def _end(taken: int, given: Counter[tuple[str, str]]) -> JudgedRow:
    given += Counter({(WHOLE_SIDE, ROWS): 1, (WHOLE_SIDE, TAKEN): taken})
    told = msgspec.json.encode([(*key, keys) for key, keys in given.items()]).decode()
    return WHOLE_SIDE, "", None, TAKEN, taken, 0, "", "", told, "null", "", None, None


def _batch(rows: Sequence[JudgedRow]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), _JUDGED_ARROW, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=_JUDGED_ARROW)


# --- what comes to the driver ------------------------------------------------------------------------------

Counts = Counter[tuple[str, str]]
"""Keys by (family, outcome)."""


def counting() -> dict[str, Column]:
    """What to observe of judged rows, for `counted`. One column for each number would take seconds to plan."""
    return {"rows": F.count(F.lit(1)), "given": F.expr(f"collect_list(if(outcome = '{TAKEN}', zookeeper, null))")}


def counted(given: Iterable[str]) -> Counts:
    """What the tasks say that they gave, as it was observed."""
    found: Counts = Counter()
    for task in given:
        for family, outcome, keys in msgspec.json.decode(task, type=Given):
            found[family, outcome] += keys
    return found


def counts(verdicts: DataFrame) -> Counts:
    """The same, of rows that were kept."""
    found = verdicts.groupBy("family", "outcome").agg(F.sum("keys").alias("keys")).collect()
    return Counter({(row["family"], row["outcome"]): row["keys"] for row in found})


def first_differences(verdicts: DataFrame, outcomes: Sequence[KeyOutcome], most: int) -> tuple[list[Difference], int]:
    """The first `most`, in the order of reports, and how many there are beside them."""
    wanted = verdicts.where(F.col("outcome").isin(*[each.value for each in outcomes]) & (F.col("kind") != ""))
    ordered = wanted.orderBy(_place(), "key", "field").limit(most)
    found = [
        Difference(
            family=row["family"],
            key=row["key"],
            field_=row["field"],
            kind=row["kind"],
            zookeeper=msgspec.json.decode(row["zookeeper"]),
            log=msgspec.json.decode(row["log"]),
            rule=row["rule"],
        )
        for row in ordered.collect()
    ]
    kept = within_bytes(found)
    return kept, (wanted.count() if len(found) == most or len(kept) < len(found) else len(found)) - len(kept)


def _place() -> Column:
    names = F.array(*[F.lit(name) for name in FAMILIES])
    return F.array_position(names, F.col("family"))
