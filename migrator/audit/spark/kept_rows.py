"""Where the rows of an audit are between two steps: in Parquet files, or with the executors that made them.

In:   rows, and a place: what they would be called in the directory of the audit.
Out:  the same rows, as often as they are asked for.
Elsewhere: which rows (job.py). Rule: nothing is made twice. Rows that an executor took with it are an error, and are
not read anew: ZooKeeper would have gone on meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Final, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

PARQUET: Final[Mapping[str, str]] = {"parquet.enable.dictionary#data": "false"}
"""No two rows say the same."""


class KeptRows(Protocol):
    """schema: of the rows at this place, in SQL."""

    def add(self, place: Path, rows: DataFrame) -> None: ...
    def at(self, place: Path, schema: str) -> DataFrame: ...


class RowsInFiles:
    """Keeps them in a directory that every executor sees. A replay finds them there."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def add(self, place: Path, rows: DataFrame) -> None:
        rows.write.mode("append").options(**PARQUET).parquet(str(place))

    def at(self, place: Path, schema: str) -> DataFrame:
        return self._spark.read.schema(schema).parquet(str(place))


class RowsWithExecutors:
    """Leaves them on the executors' disks until the session ends, encrypted as `spark.io.encryption.enabled` says."""

    def __init__(self) -> None:
        self._rows: defaultdict[Path, list[DataFrame]] = defaultdict(list)

    def add(self, place: Path, rows: DataFrame) -> None:
        self._rows[place].append(rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY))

    def at(self, place: Path, schema: str) -> DataFrame:
        return reduce(DataFrame.unionAll, self._rows[place])
