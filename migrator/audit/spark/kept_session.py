"""A Spark session that serves one audit after the other, in place of one for each (session.py).

In:   a directory for everything that Spark writes for itself.
Out:  `KeptSession`, which is called like `spark_session`, and does not stop what it started.
Elsewhere: the process that has it (warm_process.py), what an audit does in it (job.py).
Rule: what one audit left behind is deleted before the next one begins: nothing would need it, and it would add up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from migrator.audit.spark.classes import using_archive
from migrator.audit.spark.job import rehearse_a_look
from migrator.audit.spark.session import ended_when_interrupted, started, told_as_findings
from migrator.audit.spark.training import sample
from migrator.findings.audit import AUDIT_ROWS_LOST, SPARK_FAILED
from migrator.findings.finding import FindingError

DISTRUSTED: Final = (SPARK_FAILED.code, AUDIT_ROWS_LOST.code)
"""After these nobody knows what state the session is in."""

LEFT_BEHIND: Final = ("blockmgr-*/*/shuffle_*", "blockmgr-*/*/rdd_*", "spark-*/pyspark-*/*")
"""Shuffles, rows that stayed with tasks, and functions of more than a megabyte, which PySpark writes down."""


class KeptSession:
    """directory: of Spark alone; it has to exist. distrusted: what an audit ended with that the session may be to
    blame for. Such a result does not count, and the process has to end.
    """

    def __init__(self, directory: Path, master: str) -> None:
        self.distrusted: FindingError | None = None
        self._directory = directory
        self._master = master
        self._session: SparkSession | None = None

    @contextmanager
    def __call__(self, master: str, scratch: Path) -> Iterator[SparkSession]:
        """scratch: of this audit; Spark has a directory of its own here."""
        assert master == self._master, f"this process audits on {self._master}, not on {master}"
        try:
            with told_as_findings(master), ended_when_interrupted():
                yield self._running()
        except FindingError as error:
            self.distrusted = error if error.code in DISTRUSTED else None
            raise

    def _running(self) -> SparkSession:
        if self._session is None:
            self._session = started(self._master, self._directory, using_archive())
        return self._session

    def warm_up(self) -> None:
        """Start Spark, and let it load whatever an audit needs. Raises Z2K-5003."""
        with tempfile.TemporaryDirectory(dir=self._directory) as name, self(self._master, Path(name)) as spark:
            rehearse_a_look(spark, Path(name), sample)
        self.tidy()

    def tidy(self) -> None:
        """Forget what the last audit left, in memory and on disk, and give memory back before the next one."""
        if self._session is None:
            return
        gateway: Any = self._session.sparkContext._gateway
        gateway.jvm.System.gc()
        for pattern in LEFT_BEHIND:
            for file in self._directory.glob(pattern):
                file.unlink(missing_ok=True)

    def stop(self) -> None:
        """End Spark; the next audit would start it again."""
        if self._session is not None:
            self._session.stop()
            self._session = None
