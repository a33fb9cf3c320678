"""Tasks that go on where they were: each step of one gets the rows that its step before has left.

In:   a Spark session, how many tasks, and steps: what makes rows of rows.
Out:  of each step the rows that are told; the others stay with the executors, as there may be many.
Elsewhere: the steps that ask brokers (node/tools/asking_by_tasks.py); rows of the two other sides (kept_rows.py).
Rules: a step is pickled, so it carries whatever it needs. On a network everything that Spark sends or writes is
encrypted, or the session does not start (Z2K-5007). In `local[...]` Spark may write a large step into its own
directory, in clear; so there a step carries no login (node/brokers/sent_access.py). No step is made twice: its rows are
kept before anybody looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from migrator.audit.brokers.tasks import SLOT, TOLD, KeptRow, KeptStep
from migrator.audit.engines import is_local
from migrator.audit.spark.session import told_as_findings

KEPT_SCHEMA: Final = "owner int, nth int, data binary"
_KEPT_ARROW: Final = pa.schema([("owner", pa.int32()), ("nth", pa.int32()), ("data", pa.binary())])
_BEGINNING: Final = ("cast(id as int) as owner", f"{SLOT} as nth", "cast('' as binary) as data")


class SparkTasks:
    """Those of a session that goes on meanwhile."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def master(self) -> str:
        return self._spark.sparkContext.master or ""

    @property
    def remote(self) -> bool:
        return not is_local(self.master)

    @property
    def at_once(self) -> int:
        return int(self._spark.sparkContext.defaultParallelism)

    def keep(self, tasks: int) -> KeptTasks:
        return KeptTasks(self._spark, tasks)


class KeptTasks:
    """Rows are on the executors' disks until the session forgets them, as those of `RowsWithExecutors`."""

    def __init__(self, spark: SparkSession, tasks: int) -> None:
        self._master = spark.sparkContext.master or ""
        self._rows = spark.range(0, tasks, 1, tasks).selectExpr(*_BEGINNING)

    def run(self, step: KeptStep) -> list[KeptRow]:
        with told_as_findings(self._master):
            rows = self._rows.mapInArrow(_StepInArrow(step), KEPT_SCHEMA)
            self._rows = rows.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
            told = self._rows.where(f"nth = {TOLD}").collect()
        return [KeptRow(row["owner"], row["nth"], bytes(row["data"])) for row in told]


@dataclass(frozen=True, slots=True)
class _StepInArrow:
    """A step, for `mapInArrow`."""

    step: KeptStep

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in self.step(_rows_in(batches)):
            yield pa.RecordBatch.from_pylist([row._asdict()], schema=_KEPT_ARROW)


def _rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[KeptRow]:
    for batch in batches:
        for owner, nth, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield KeptRow(owner, nth, data)
