"""Compare the rows of both sides in Spark.

In:   DataFrames of rows (`SIDE_SCHEMA`), one for each side.
Out:  `joined`: every key once, with whether the texts of its facts are equal, and both texts where they are not;
      `judged`: for those, what became of the key, one row per difference.
Elsewhere: the rules (compare.py, the same as in the quick engine), which looks there are (spark_job.py).
Rules: a key is equal only by its facts; everything else goes through `compare.judge`. A partition or a configuration
that one side lacks is not told when that side lacks its topic too, or could not read it: the topic is the difference.
A row that was not read is always told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from migrator.audit.compare import Difference, Outcome, Rules, judge, unread_key
from migrator.audit.normalise import FAMILIES, PARTITIONS, TOPIC_CONFIGS, TOPICS
from migrator.audit.rows import WHOLE_SIDE, facts_of_text, facts_text

JUDGED_SCHEMA: Final = (
    "family string, key string, subject string, outcome string, nth int, field string, kind string, zookeeper string, "
    "log string, rule string, mzxid bigint, offset bigint"
)
_JUDGED_ARROW: Final = pa.schema(
    [
        ("family", pa.string()),
        ("key", pa.string()),
        ("subject", pa.string()),
        ("outcome", pa.string()),
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


def joined(zookeeper: DataFrame, log: DataFrame) -> DataFrame:
    """The full outer join of both sides by family and key. What is equal needs no text: it is in the inputs."""
    left, right = zookeeper.alias("z"), log.alias("l")
    both = left.join(right, (F.col("z.family") == F.col("l.family")) & (F.col("z.key") == F.col("l.key")), "full_outer")
    problem = F.coalesce(F.col("z.problem"), F.lit(""))
    equal = F.coalesce((F.col("z.facts") == F.col("l.facts")) & (problem == ""), F.lit(False))
    rows = both.select(
        F.coalesce("z.family", "l.family").alias("family"),
        F.coalesce("z.key", "l.key").alias("key"),
        F.coalesce("z.subject", "l.subject").alias("subject"),
        equal.alias("equal"),
        (F.col("z.facts").isNotNull() & F.col("l.facts").isNotNull()).alias("on_both"),
        F.when(~equal, F.col("z.facts")).alias("zookeeper"),
        F.when(~equal, F.col("l.facts")).alias("log"),
        problem.alias("problem"),
        F.col("z.version").alias("mzxid"),
        F.col("l.version").alias("offset"),
    )
    return rows.where(F.col("family") != WHOLE_SIDE)


def judged(rows: DataFrame, rules: Rules) -> DataFrame:
    """What became of every key whose texts differ. rows: as `joined` gives them. rules: without names of topics."""
    return _in_scope(rows).select(*_Judge.COLUMNS).mapInArrow(_Judge(rules), JUDGED_SCHEMA)


def _in_scope(rows: DataFrame) -> DataFrame:
    """What is not equal, without what goes with its topic.

    topic_exists: whether either side has the topic that the row is about.
    """
    topics = rows.where(F.col("family") == TOPICS)
    known = topics.select("subject", F.col("on_both").alias("topic_on_both"), F.lit(True).alias("topic_exists"))
    marked = rows.where(~F.col("equal")).join(known, "subject", "left")
    marked = marked.fillna(False, ["topic_on_both", "topic_exists"])
    goes_along = (F.col("family") == PARTITIONS) | ((F.col("family") == TOPIC_CONFIGS) & F.col("topic_exists"))
    one_sided = ~F.col("on_both") & (F.col("problem") == "")
    return marked.where(~(goes_along & one_sided & ~F.col("topic_on_both")))


class _Judge:
    """For `mapInArrow`: the rules of compare.py, key by key."""

    COLUMNS: Final = ("family", "key", "subject", "zookeeper", "log", "problem", "mzxid", "offset", "topic_exists")

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [row for each in batch.to_pylist() for row in self._rows(each)]
            if found:
                columns = [pa.array(column, field.type) for column, field in _by_column(found)]
                yield pa.RecordBatch.from_arrays(columns, schema=_JUDGED_ARROW)

    def _rows(self, each: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        outcome, found = self._judge(each)
        place = each["family"], each["key"], each["subject"], outcome.value
        moved = each["mzxid"], each["offset"]
        if not found:
            yield *place, 0, "", "", "null", "null", "", *moved
        for nth, one in enumerate(found):
            told = one.field_, str(one.kind), facts_text(one.zookeeper), facts_text(one.log), one.rule
            yield *place, nth, *told, *moved

    def _judge(self, each: dict[str, Any]) -> tuple[Outcome, list[Difference]]:
        family, key = each["family"], each["key"]
        if each["problem"]:
            return Outcome.NOT_READ, [unread_key(family, key, each["problem"])]
        topics = frozenset([key] if family == TOPIC_CONFIGS and each["topic_exists"] else [])
        sides = facts_of_text(each["zookeeper"]), facts_of_text(each["log"])
        mzxid = -1 if each["mzxid"] is None else each["mzxid"]
        return judge(family, key, *sides, replace(self._rules, topics=topics), mzxid)


def _by_column(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, Any]]:
    return zip(zip(*rows, strict=True), _JUDGED_ARROW, strict=True)


# --- what comes to the driver ------------------------------------------------------------------------------


def counts(rows: DataFrame, verdicts: DataFrame) -> list[tuple[str, Outcome, int]]:
    """(family, outcome, keys)."""
    equal = rows.where("equal").select("family", F.lit(Outcome.EQUAL.value).alias("outcome"))
    rest = verdicts.where("nth = 0").select("family", "outcome")
    found = equal.unionByName(rest).groupBy("family", "outcome").count().collect()
    return [(row["family"], Outcome(row["outcome"]), row["count"]) for row in found]


def first_differences(verdicts: DataFrame, outcomes: Sequence[Outcome], most: int) -> list[Difference]:
    """The first `most`, in the order of reports."""
    wanted = verdicts.where(F.col("outcome").isin(*[each.value for each in outcomes]) & (F.col("kind") != ""))
    ordered = wanted.orderBy(_place(), "key", "field").limit(most)
    return [
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


def _place() -> Column:
    names = F.array(*[F.lit(name) for name in FAMILIES])
    return F.array_position(names, F.col("family"))
