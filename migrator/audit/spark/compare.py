"""Fold and judge the rows of both sides in Spark, in one stage.

In:   a DataFrame of rows (`INPUT_SCHEMA`) with the subjects together (fold.py).
Out:  `judged`: every key that is not equal, one row per difference; the equal ones as numbers, of subjects without any
      difference as one number for each task (no subject), else for each subject. The last row of a task says how many
      rows it took, and what it gave: rows, and keys of each family by outcome.
Elsewhere: what becomes of a subject (subjects.py), the rules (compare.py), which looks there are (job.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from migrator.audit.beside import facts_by_key, others_in_snapshot, told
from migrator.audit.compare import Difference, DifferenceKind, ExpectedDifferences, KeyOutcome, unread_key, within_bytes
from migrator.audit.log_fold import Fold, HeldRecord, PackedRecords, held_records, packed_records, said_of_topic
from migrator.audit.log_states import NO_OFFSET, OffsetRange
from migrator.audit.normalise import FAMILIES, PARTITIONS, TOPIC_CONFIGS, TOPICS, Facts, KnownPartitions, LogFacts
from migrator.audit.rows import TOPIC_SUBJECT, WHOLE_SIDE, SideRow, facts_text
from migrator.audit.spark.shipped import SentFile
from migrator.audit.spark.sources import BESIDE, LOG, PACKED, ZOOKEEPER, InputRow
from migrator.audit.spark.topic_rows import PackedTopic, assigned_in, unpacked
from migrator.audit.subjects import Agreed, JudgedKey, ZkRow, judge_subject, moved_keys
from migrator.audit.zk_source import usual_state
from migrator.findings.finding import FindingError
from migrator.zk.bulk_read import Znode

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
_TOPIC: Final = msgspec.msgpack.Decoder(PackedTopic)


class SubjectJudge:
    """Judges the rows of whole subjects for `mapInArrow`, and gives what became of their keys."""

    def __init__(
        self,
        rules: ExpectedDifferences,
        window: OffsetRange | None = None,
        beside: int = -1,
        sent: SentFile | None = None,
    ) -> None:
        """window: of a dual-write, the offsets that ZooKeeper had while it was read. beside: the last offset that the
        snapshot beside the log stands for; -1 without one. sent: in place of the file that the rules name.
        """
        self._rules = rules
        self._sent = sent
        self._beside = beside
        self._window = window or OffsetRange(NO_OFFSET, NO_OFFSET)
        self._known: KnownPartitions = {}
        self._agreed = Agreed()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self._sent is not None:
            self._rules = replace(self._rules, read=self._sent.path())
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
        yield _batch([*found, _last_row(taken, given)])

    def _subject(self, subject: str, rows: list[InputRow], equal: Counter[str]) -> list[JudgedRow]:
        """Counts equal keys in `equal` where nothing of the subject is to be looked at again."""
        records = _packed(rows, LOG)
        if self._same_topic(subject, rows, records, equal):
            return []
        held = held_records(records)
        fold = _folded(subject, held, self._window.low)
        facts = list(fold.rows())
        if facts and facts[0].family == WHOLE_SIDE:
            return [_unread(subject, facts[0])]
        log = {(row.family, row.key): row for row in facts}
        moved = moved_keys(fold.states, fold.states.changed(), self._window.high)
        judged = list(judge_subject(subject, _of_zookeeper(rows), log, self._rules, moved))
        if self._beside >= 0:
            judged += self._other_in_snapshot(subject, rows, held)
        same = Counter(each.family for each in judged if each.outcome is KeyOutcome.EQUAL)
        if sum(same.values()) == len(judged):
            equal.update(same)
            return []
        counted = [_count(family, subject, KeyOutcome.EQUAL, keys) for family, keys in same.items()]
        told = (each for each in judged if each.outcome is not KeyOutcome.EQUAL)
        return [*counted, *chain.from_iterable(_rows(each, subject) for each in told)]

    def _other_in_snapshot(self, subject: str, rows: list[InputRow], held: list[HeldRecord]) -> Iterator[JudgedKey]:
        before = _folded(subject, (each for each in held if each.offset <= self._beside), NO_OFFSET)
        snapshot = _folded(subject, held_records(_packed(rows, BESIDE)), NO_OFFSET)
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

    # --- topics of which nothing is to be told ---------------------------------------------------------------

    def _same_topic(
        self, subject: str, rows: list[InputRow], records: list[PackedRecords], equal: Counter[str]
    ) -> bool:
        """Whether both sides, and the snapshot, say the same of a topic to the letter, and nothing moved while
        ZooKeeper was read; then its keys are counted in `equal`. False says nothing: then key by key is judged.
        """
        of_zookeeper = [row for row in rows if row[0] == ZOOKEEPER]
        if not of_zookeeper or not records or any(row[4] != PACKED for row in of_zookeeper):
            return False
        packs = [_TOPIC.decode(row[6] or b"") for row in of_zookeeper]
        is_one = packs[0].znode is not None and all(each.znode is None for each in packs[1:])
        if not is_one or max(_end(each) for each in records) > self._window.low:
            return False
        name = subject.removeprefix(TOPIC_SUBJECT)
        try:
            log = said_of_topic(records, self._known)
            if log is None or (self._beside >= 0 and not self._is_in_snapshot(name, rows, records, log)):
                return False
        except (FindingError, KeyError):
            return False
        told, in_log, config = _of_topic(log, name)
        facts, assigned = assigned_in(name, packs)
        if told != facts or (None if config is None else facts_text(config)) != packs[0].config:
            return False
        partitions = sum(len(pack.partitions) for pack in packs)
        if partitions != len(in_log) or not all(self._agrees(pack, assigned, in_log) for pack in packs):
            return False
        equal[TOPICS] += 1
        equal[PARTITIONS] += partitions
        equal[TOPIC_CONFIGS] += config is not None
        return True

    def _is_in_snapshot(self, name: str, rows: list[InputRow], records: list[PackedRecords], log: LogFacts) -> bool:
        """Whether the snapshot beside the log says what the log said up to its offset."""
        moved = max(_end(each) for each in records) > self._beside
        before = said_of_topic(records, self._known, self._beside) if moved else log
        beside = said_of_topic(_packed(rows, BESIDE), self._known)
        if before is None or beside is None:
            return False
        return _of_topic(before, name) == _of_topic(beside, name)

    def _agrees(self, pack: PackedTopic, assigned: Mapping[int, Facts], in_log: Mapping[int, Facts]) -> bool:
        agreed = self._agreed
        for partition, which, version in zip(pack.partitions, pack.which, pack.versions, strict=True):
            assignment, expected, data = assigned[partition], in_log.get(partition), pack.states[which]
            if expected is None:
                return False
            known = agreed.get((data, id(assignment), id(expected)))
            if known is None:
                state = usual_state(Znode(data, version, 0, 0, 0), None)
                if not agreed.says_the_same(assignment, data, version, state, expected, usable=True):
                    return False
            elif known[0] != version:
                return False
        return True


def _of_topic(log: LogFacts, name: str) -> tuple[Facts | None, Mapping[int, Facts], Facts | None]:
    return log.topic(name), log.partitions(name), log.config(TOPIC_CONFIGS, name)


def _packed(rows: Iterable[InputRow], side: int) -> list[PackedRecords]:
    return packed_records(row[6] or b"" for row in rows if row[0] == side)


def _end(pack: PackedRecords) -> int:
    """The offset from which its last record counts."""
    return pack.place(pack.offsets[-1])[0]


def _of_zookeeper(rows: Iterable[InputRow]) -> Iterator[ZkRow]:
    topics: list[tuple[str, int, list[PackedTopic]]] = []
    for side, _, mzxid, _, family, key, data, problem in rows:
        if side != ZOOKEEPER:
            continue
        if family != PACKED:
            yield ZkRow(family, key or "", None if data is None else data.decode(), mzxid, problem)
            continue
        pack = _TOPIC.decode(data or b"")
        if pack.znode is not None:  # one that was read twice is told twice
            topics.append((key or "", mzxid, []))
        topics[-1][2].append(pack)
    for name, mzxid, packs in topics:
        read = unpacked(name, mzxid, packs)
        for row in (read.topic, *read.partitions(None)):
            yield ZkRow(row.family, row.key, facts_text(row.facts), row.version, row.problem)
        if packs[0].config is not None:
            yield ZkRow(TOPIC_CONFIGS, name, packs[0].config, packs[0].config_mzxid, "")


def _folded(subject: str, held: Iterable[HeldRecord], low: int) -> Fold:
    """What the records of a subject add up to."""
    fold = Fold(low)
    for each in held:
        fold.take(each.offset, each.decoded(), subject)
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


def _last_row(taken: int, given: Counter[tuple[str, str]]) -> JudgedRow:
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
