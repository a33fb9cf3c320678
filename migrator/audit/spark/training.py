"""Make the archive of classes (classes.py), once: `python -m migrator.audit.spark.training [--note FILE]`.

In:   a file that shall name the archive, for who looks whether there is one without PySpark (lab/provision.py).
Out:  the archive in the user's cache directory, unless it is there; one line where it cannot be made.
How:  looks at two rows that differ go through a small audit and through a large one, in a session whose JVM keeps what
      it loaded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa

from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_fold import record_rows
from migrator.audit.normalise import TOPICS
from migrator.audit.rows import SideRow, topic_subject
from migrator.audit.spark import session as spark_session
from migrator.audit.spark.classes import archive_path, making_archive
from migrator.audit.spark.job import rehearse_a_look
from migrator.audit.spark.sources import counted_batches, log_rows, zookeeper_rows
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import RemoveTopicRecord, TopicRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message

SAMPLE_ID: Final = b"id of the sample"

END_TIMEOUT_S: Final = 300.0
"""The JVM writes the archive when it ends: 10 s of processor time, on a machine that others load, too."""


def sample(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give two topics, of which the log has one, for `mapInArrow`. The log's rows are of three splits: one of them only
    tells an id, and the id is given twice.
    """
    fingerprints = SecretFingerprints()
    rows = [SideRow(TOPICS, name, topic_subject(name), {"topic_id": name}) for name in ("a", "b")]
    told: list[Message] = [TopicRecord("a", SAMPLE_ID), RemoveTopicRecord(SAMPLE_ID), TopicRecord("a", SAMPLE_ID)]
    batches = [
        read_batch(build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=0, values=[encode_record(each, 0)]))
        for offset, each in enumerate(told)
    ]
    of_log = (row for batch in batches for row in log_rows(record_rows([batch], fingerprints)))
    yield from counted_batches(chain(zookeeper_rows(rows, fingerprints), of_log), 1)


def train(archive: Path) -> bool:
    """The draft becomes the archive when its JVM has ended: nobody ever sees half of one. False: there is no draft."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="training-", ignore_cleanup_errors=True) as directory:
        draft, scratch = Path(directory) / "draft.jsa", Path(directory) / "scratch"
        scratch.mkdir()
        with spark_session.spark_session("local[2]", scratch, making_archive(draft)) as spark:
            for tasks in (1, 2):
                rehearse_a_look(spark, Path(directory) / str(tasks), sample, tasks)
        spark_session.end_jvm(END_TIMEOUT_S)
        if draft.is_file():
            draft.replace(archive)
        return archive.is_file()


def made(archive: Path) -> None:
    """Make it; an empty file remembers that it did not work."""
    reason = "the JVM left none"
    try:
        if train(archive):
            return
    except FindingError as error:
        reason = str(error)
    print(f"going on without an archive of Spark's classes: {reason}", file=sys.stderr)
    archive.touch()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--note", type=Path, help="a file that shall name the archive")
    note = parser.parse_args(arguments).note
    archive = archive_path()
    if not archive.is_file():
        made(archive)
    if note is not None:
        note.write_text(str(archive))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
