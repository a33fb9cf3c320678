"""Bring the rows of both sides together in Spark, subject by subject.

In:   a DataFrame of rows (`INPUT_SCHEMA`), and what aborted transactions drop.
Out:  a DataFrame of those that count: all rows of a subject in one task, ZooKeeper's first, then the log's in order.
Elsewhere: reading bytes (sources.py), what becomes of a subject (compare.py).
How it scales: every record gets its subject (records about partitions only have a topic id, and the end of an ACL only
the ACL's, so the few that gave these ids are sent to every task), and one shuffle by subject does the rest. A topic
that was deleted and made again under the same name is the same subject, so the order of both lives is kept.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from migrator.audit.log_fold import MARKER_TYPES, NAMING_RECORDS
from migrator.audit.log_source import Dropped, Marker
from migrator.audit.rows import UNKNOWN_TOPIC_SUBJECT
from migrator.audit.spark.sources import LOG, READ

JUDGED_COLUMNS: Final = ("side", "subject", "place", "nth", "kind", "key", "text", "problem")


def is_marker() -> Column:
    return (F.col("side") == LOG) & F.col("kind").isin(*MARKER_TYPES)


def markers_of(rows: DataFrame) -> list[Marker]:
    """All of them: two for each transaction, and a log has a transaction or two (its bootstrap, the copy)."""
    return [Marker(row["place"], row["kind"]) for row in rows.where(is_marker()).select("place", "kind").collect()]


def committed(rows: DataFrame, dropped: list[Dropped]) -> DataFrame:
    """Without the markers, and without what lies in a dropped transaction. A snapshot is older than any of these."""
    counts = rows.where((F.col("side") != READ) & ~is_marker())
    if not dropped:
        return counts
    inside = F.lit(False)
    for first, last in dropped:
        inside |= (F.col("place") >= first) & (F.lit(True) if last is None else F.col("place") <= last)
    return counts.where((F.col("side") != LOG) | ~inside)


def with_subjects(rows: DataFrame, all_rows: DataFrame) -> DataFrame:
    """Give the records that have only an id the subject of the topic, or of the ACL, that this id was given to."""
    naming = all_rows.where((F.col("side") == LOG) & F.col("kind").isin(*NAMING_RECORDS))
    names = naming.groupBy(F.col("key").alias("id")).agg(F.min("subject").alias("named"))
    nameless = (rows.side == LOG) & rows.subject.isNull() & (rows.key == names.id)
    told = rows.join(F.broadcast(names), nameless, "left")
    by_id = F.concat(F.lit(UNKNOWN_TOPIC_SUBJECT), F.col("key"))
    return told.withColumn("subject", F.coalesce("subject", "named", by_id)).select(*JUDGED_COLUMNS)


def together(rows: DataFrame, tasks: int) -> DataFrame:
    """The shuffle. tasks: into how many the subjects are cut."""
    return rows.repartition(tasks, "subject").sortWithinPartitions("subject", "side", "place", "nth")
