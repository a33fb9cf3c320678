"""Materialise the log in Spark: from records to the rows that they add up to.

In:   a DataFrame of records (`RECORD_SCHEMA`), and what aborted transactions drop.
Out:  a DataFrame of rows (`SIDE_SCHEMA`).
Elsewhere: what a record changes (normalise.LogFacts, by way of log_fold.Fold), reading bytes (spark_sources.py).
How it scales: every record gets its subject (records about partitions only have a topic id, and the end of an ACL only
the ACL's, so what gave these ids is joined), one shuffle brings the records of a subject together in log order, and
each task folds its subjects in one pass. A topic that was deleted and made again under the same name is the same
subject, so the order of both lives is kept. Nothing but the markers of transactions comes to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from migrator.audit.log_fold import MARKER_TYPES, NAMING_RECORDS, Fold
from migrator.audit.log_source import Dropped, Marker
from migrator.audit.rows import TOPIC_SUBJECT, UNKNOWN_TOPIC_SUBJECT
from migrator.audit.spark_sources import SIDE_SCHEMA, side_batches


def markers_of(records: DataFrame) -> list[Marker]:
    """All of them: two for each transaction, and a log has a transaction or two (its bootstrap, the copy)."""
    found = records.where(F.col("type").isin(*MARKER_TYPES)).select("offset", "type").collect()
    return [Marker(row["offset"], row["type"]) for row in found]


def folded(records: DataFrame, dropped: list[Dropped], tasks: int, subjects: DataFrame | None = None) -> DataFrame:
    """Rows of all subjects, or of those in `subjects` (column `subject`). tasks: into how many the fold is cut."""
    told = with_subjects(committed(records, dropped))
    wanted = told if subjects is None else told.join(subjects, "subject", "left_semi")
    together = wanted.repartition(tasks, "subject").sortWithinPartitions("offset", "nth")
    return together.select("offset", "type", "data", "subject").mapInArrow(_fold, SIDE_SCHEMA)


def committed(records: DataFrame, dropped: list[Dropped]) -> DataFrame:
    """Without the markers, and without what lies in a dropped transaction. A snapshot is older than any of these."""
    counts = records.where(~F.col("type").isin(*MARKER_TYPES))
    if not dropped:
        return counts
    ranges = counts.sparkSession.createDataFrame(dropped, "first bigint, last bigint")
    inside = (F.col("offset") >= F.col("first")) & (F.col("last").isNull() | (F.col("offset") <= F.col("last")))
    return counts.join(F.broadcast(ranges), inside, "left_anti")


def with_subjects(records: DataFrame) -> DataFrame:
    """Give the records that have only an id the subject of the topic, or of the ACL, that this id was given to."""
    by_name = F.coalesce(F.col("subject"), F.concat(F.lit(TOPIC_SUBJECT), F.col("name")))
    naming = records.where(F.col("type").isin(*NAMING_RECORDS))
    names = naming.groupBy("topic_id").agg(F.min(by_name).alias("named"))
    by_id = F.concat(F.lit(UNKNOWN_TOPIC_SUBJECT), F.col("topic_id"))
    joined = records.join(names, "topic_id", "left")
    return joined.withColumn("subject", F.coalesce(F.col("subject"), F.col("named"), by_id))


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task: records of whole subjects in log order, to their rows."""
    fold = Fold()
    for batch in batches:
        for record in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            fold.take(*record)
    yield from side_batches(fold.rows())
