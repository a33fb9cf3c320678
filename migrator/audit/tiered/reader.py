"""`__remote_log_metadata` as it lies on a broker's disk: directories of its partitions, and their records in order.

In:   directories of partitions, or that hold some: copies, or those of a broker that runs.
Out:  one directory for each partition of the topic; its records.
Elsewhere: what they add up to (segments.py).
Rules: brokers write each record as a batch of its own, so a file is read in large pieces and not batch by batch. A torn
batch at the very end is a writer at work; one elsewhere is damage.
Source: KIP-405; Kafka 3.9 `TopicBasedRemoteLogMetadataManager`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError, words_of
from migrator.wire.batch_header import TornBatchError, checked_records
from migrator.wire.loose_batch import loose_values
from migrator.wire.messages.remote_log import RemoteRecord, decode_remote_record

TOPIC: Final = "__remote_log_metadata"
PIECE_BYTES: Final = 4 << 20
_PARTITION: Final = re.compile(rf"{TOPIC}-(\d+)")


def metadata_partitions(directories: Iterable[Path]) -> dict[int, Path]:
    """Finds the directories by number. Raises Z2K-5001, also for a partition that is given twice."""
    found: dict[int, Path] = {}
    for each in directories:
        below = sorted(each.glob(f"{TOPIC}-*")) if not _PARTITION.fullmatch(each.name) else [each]
        named = {int(match[1]): path for path in below if (match := _PARTITION.fullmatch(path.name))}
        if not named:
            raise AUDIT_CANNOT_READ.error(what=str(each), reason=f"there is no directory {TOPIC}-N in it")
        for number, path in sorted(named.items()):
            if found.setdefault(number, path) != path:
                reason = f"{found[number]} is the same partition, and one copy of each is read"
                raise AUDIT_CANNOT_READ.error(what=str(path), reason=reason)
    return dict(sorted(found.items()))


def read_remote_log(directory: Path) -> Iterator[RemoteRecord]:
    """The records of one partition of the topic, in order. Raises Z2K-5001."""
    return RemoteLogReader(directory).records()


class RemoteLogReader:
    """One partition of the topic, read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.end = 0
        """The offset behind the last record that was read."""

    def records(self) -> Iterator[RemoteRecord]:
        segments = sorted(each for each in self._directory.glob("*.log") if each.stem.isdecimal())
        if not segments:
            raise AUDIT_CANNOT_READ.error(what=str(self._directory), reason="there is no segment in it")
        for path in segments:
            try:
                yield from self._of(path)
            except TornBatchError as error:
                if path != segments[-1]:
                    raise AUDIT_CANNOT_READ.error(what=str(path), reason=words_of(error)) from error
            except (OSError, FindingError) as error:
                raise AUDIT_CANNOT_READ.error(what=str(path), reason=words_of(error)) from error

    def _of(self, path: Path) -> Iterator[RemoteRecord]:
        """Of one file: what is behind the last whole batch of a piece is the beginning of the next piece."""
        with path.open("rb") as file:
            left = b""
            while more := file.read(PIECE_BYTES + len(left)):
                data, position = left + more, 0
                try:
                    while position < len(data):
                        header, records = checked_records(data, position)
                        if not header.is_control:
                            values = loose_values(records, header.record_count)
                            yield from (decode_remote_record(each) for each in values if each is not None)
                        self.end = header.last_offset + 1
                        position += header.size
                except TornBatchError:
                    pass
                left = data[position:]
            if left:
                raise TornBatchError(path.stat().st_size - len(left))
