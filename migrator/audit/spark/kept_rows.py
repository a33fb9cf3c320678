"""Where the rows of an audit are between two steps: in Parquet files, or with the executors that made them.

In:   rows, and a place: what they would be called in the directory of the audit, or at its address.
Out:  the same rows, as often as they are asked for.
Elsewhere: which rows (job.py). Rule: nothing is made twice. Rows that an executor took with it are an error, and are
not read anew: ZooKeeper would have gone on meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from typing import Final, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from migrator.audit.history.hadoop_path import KeptPath

PARQUET: Final[Mapping[str, str]] = {"parquet.enable.dictionary#data": "false"}
"""No two rows say the same."""


class KeptRows(Protocol):
    """schema: of the rows at this place, in SQL."""

    def add(self, place: KeptPath, rows: DataFrame) -> None: ...
    def at(self, place: KeptPath, schema: str) -> DataFrame: ...


class RowsInFiles:
    """Keeps them in a directory that every executor sees. A replay finds them there."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def add(self, place: KeptPath, rows: DataFrame) -> None:
        rows.write.mode("append").options(**PARQUET).parquet(str(place))

    def at(self, place: KeptPath, schema: str) -> DataFrame:
        return self._spark.read.schema(schema).parquet(str(place))


class RowsWithExecutors:
    """Leaves them on the executors' disks until the session ends, encrypted as `spark.io.encryption.enabled` says.

    Rows that an earlier audit kept in files are read there.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._files = RowsInFiles(spark)
        self._rows: defaultdict[KeptPath, list[DataFrame]] = defaultdict(list)

    def add(self, place: KeptPath, rows: DataFrame) -> None:
        self._rows[place].append(rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY))

    def at(self, place: KeptPath, schema: str) -> DataFrame:
        if place not in self._rows:
            return self._files.at(place, schema)
        return reduce(DataFrame.unionAll, self._rows[place])
