"""Bring the rows of both sides together in Spark, subject by subject.

In:   a DataFrame of rows (`INPUT_SCHEMA`), and what aborted transactions drop.
Out:  a DataFrame of those that count: all rows of a subject in one task, ZooKeeper's first, then the log's in order.
Elsewhere: reading bytes (sources.py), what becomes of a subject (compare.py).
How it scales: every row gets its subject (some records about a topic only have its id, since another split has the one
that names it, and the end of an ACL only has the ACL's: what gave these ids is sent to every task), and one shuffle by
subject does the rest. A topic that was deleted and made again under the same name is the same subject, so the order of
both lives is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from migrator.audit.log_fold import (
    ENDING_RECORDS,
    MARKER_TYPES,
    NAMING_RECORDS,
    given_or_taken,
    held_records,
    packed_records,
)
from migrator.audit.log_source import Dropped, Marker
from migrator.audit.rows import UNKNOWN_TOPIC_SUBJECT
from migrator.audit.spark.sources import BESIDE, LOG, READ
from migrator.findings.audit import LOG_INCONSISTENT
from migrator.wire.messages.metadata import TopicRecord

JUDGED_COLUMNS: Final = ("side", "subject", "place", "nth", "kind", "key", "data", "problem")


IS_MARKER: Final = f"side = {LOG} and kind in {tuple(MARKER_TYPES)}"
_IS_NAMING: Final = f"side in ({LOG}, {BESIDE}) and kind in {tuple(NAMING_RECORDS)}"
GIVEN_IDS: Final = f"if(side = {READ}, cast(data as string), null)"
IS_NAMELESS: Final = f"side in ({LOG}, {BESIDE}) and subject is null and key is not null"
_SUBJECT: Final = f"coalesce(subject, concat('{UNKNOWN_TOPIC_SUBJECT}', key))"
_SUBJECT_BY_ID: Final = f"coalesce(subject, named, concat('{UNKNOWN_TOPIC_SUBJECT}', key))"
"""In SQL: built from parts, each part is a question to the JVM."""


_GIVE_OR_TAKE: Final = (*NAMING_RECORDS, *ENDING_RECORDS)
IDS_TOLD: Final = 100


def is_marker() -> Column:
    return F.expr(IS_MARKER)


def markers_of(rows: DataFrame) -> list[Marker]:
    """All of them: two for each transaction, and a log has a transaction or two (its bootstrap, the copy)."""
    return [Marker(row["place"], row["kind"]) for row in rows.where(is_marker()).select("place", "kind").collect()]


def committed(rows: DataFrame, dropped: list[Dropped]) -> DataFrame:
    """Leave out the markers and what lies in a dropped transaction. A snapshot is older than any of these."""
    counts = rows.where((F.col("side") != READ) & ~is_marker())
    if not dropped:
        return counts
    inside = F.lit(False)
    for first, last in dropped:
        inside |= (F.col("place") >= first) & (F.lit(True) if last is None else F.col("place") <= last)
    return counts.where((F.col("side") != LOG) | ~inside)


def with_subjects(rows: DataFrame, all_rows: DataFrame, tasks: int, *, nameless: bool) -> DataFrame:
    """Give the records that have only an id the subject of the topic, or of the ACL, that this id was given to.

    nameless: whether there are such; most of a copy tell their subject themselves.
    """
    if nameless:
        wanted = all_rows.where(IS_NAMELESS).select(F.expr("key as id")).distinct()
        naming = _in_one(all_rows.where(_IS_NAMING), tasks).select(F.expr("key as id"), "subject")
        few = naming.join(F.broadcast(wanted), "id", "left_semi")
        names = few.groupBy("id").agg(F.expr("min(subject) as named"))
        rows = rows.join(F.broadcast(names), F.expr(f"{IS_NAMELESS} and key = id"), "left")
    subject = _SUBJECT_BY_ID if nameless else _SUBJECT
    return rows.withColumn("subject", F.expr(subject)).select(*JUDGED_COLUMNS)


def refuse_ids_given_twice(rows: DataFrame, dropped: list[Dropped], tasks: int, told: Iterable[str]) -> None:
    """Raises Z2K-5002, as one reader of the whole log does: rows are judged by subject, and no subject sees that its id
    was given to another one, while it had it. A controller keeps the last one alone.

    told: `GIVEN_IDS` of all tasks. Nearly always no id comes again, and there is nothing to look for.
    """
    ids = " ".join(told).split()
    if len(set(ids)) == len(ids):
        return
    of_log = _in_one(committed(rows.where(F.expr(f"side = {LOG} and kind in {_GIVE_OR_TAKE}")), dropped), tasks)
    given = of_log.where(_IS_NAMING).groupBy(F.expr("key as id")).agg(F.expr("min(subject) < max(subject) as twice"))
    twice = [row["id"] for row in given.where("twice").select("id").limit(IDS_TOLD).collect()]
    if not twice:
        return
    data = [bytes(row["data"]) for row in of_log.where(F.col("key").isin(twice)).select("data").collect()]
    kept: set[str] = set()
    for held in held_records(packed_records(data)):
        record = held.decoded()
        kind, key = given_or_taken(record)
        if kind in ENDING_RECORDS:
            kept.discard(key)
        elif key in kept:
            topic = kind == TopicRecord.__name__
            named = f"{kind} of topic id {key}" if topic else f"record of the ACL {key}"
            reason = "this topic or its id exists" if topic else "an ACL has this id"
            raise LOG_INCONSISTENT.error(record=named, reason=reason)
        elif kind in NAMING_RECORDS:
            kept.add(key)


def together(rows: DataFrame, tasks: int) -> DataFrame:
    """The shuffle. tasks: into how many the subjects are cut; one reads them all in order, and there is no shuffle."""
    cut = _in_one(rows, tasks) if tasks == 1 else rows.repartition(tasks, "subject")
    return cut.sortWithinPartitions("subject", "side", "place", "nth")


def _in_one(rows: DataFrame, tasks: int) -> DataFrame:
    """Where there is one task, it takes them as they are."""
    return rows.coalesce(1) if tasks == 1 else rows
