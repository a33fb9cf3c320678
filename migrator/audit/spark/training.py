"""Make the archive of classes (classes.py), once: `python -m migrator.audit.spark.training`.

In:   nothing.
Out:  the archive in the user's cache directory, unless it is there; one line where it cannot be made.
How:  one look at two rows that differ goes through the whole audit, in a session whose JVM keeps what it loaded.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.normalise import TOPICS
from migrator.audit.rows import SideRow, topic_subject
from migrator.audit.spark import session as spark_session
from migrator.audit.spark.classes import archive_path, making_archive
from migrator.audit.spark.job import rehearse_a_look
from migrator.audit.spark.sources import counted_batches, zookeeper_rows
from migrator.findings.finding import FindingError

END_TIMEOUT_S = 60.0


def sample(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: two topics that the log does not have."""
    rows = [SideRow(TOPICS, name, topic_subject(name), {"topic_id": name}) for name in ("a", "b")]
    yield from counted_batches(zookeeper_rows(rows, SecretFingerprints()), 1)


def train(archive: Path) -> None:
    """The draft becomes the archive when its JVM has ended: nobody ever sees half of one."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="training-") as directory:
        draft, scratch = Path(directory) / "draft.jsa", Path(directory) / "scratch"
        scratch.mkdir()
        with spark_session.spark_session("local[2]", scratch, making_archive(draft)) as spark:
            rehearse_a_look(spark, Path(directory), sample)
        spark_session.end_jvm(END_TIMEOUT_S)
        if draft.is_file():
            draft.replace(archive)


def main() -> int:
    archive = archive_path()
    if archive.is_file():
        return 0
    try:
        train(archive)
    except FindingError as error:
        print(f"going on without an archive of Spark's classes: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
