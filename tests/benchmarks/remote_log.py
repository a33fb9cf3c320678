"""`make bench-remote-log`: what `zk2kraft log tiered` needs for a large `__remote_log_metadata` (R-405-07).

In:   `python -m tests.benchmarks.remote_log [--records 1000000] [--metadata-partitions 50]`.
Out:  of a log of that many records, and of one of a fourth of it: seconds of a processor, records for each of them, the
      most memory; the same of a comparison with a kept report. Ratios that stay near 1 say that the work is linear.
Elsewhere: the reader (migrator/audit/tiered/segments.py), the figures (docs/benchmarks.md).
Brokers write each record as a batch of its own, and so does this: two records for each segment.
Fails when a run does not end with exit code 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from migrator.wire.batch import build_batch
from migrator.wire.codec import encode
from migrator.wire.messages.remote_log import (
    REMOTE_RECORDS,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemoteRecord,
    RemoteSegmentId,
    RemoteTopicPartition,
    SegmentLeaderEpoch,
)
from migrator.wire.primitives import encode_uvarint

SEGMENTS_PER_PARTITION: Final = 500
RECORDS_PER_SEGMENT: Final = 10_000
WROTE_MAX: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Needed:
    """Of one process. cpu_s: of a processor. peak_mb: the most memory that it held."""

    took_s: float
    cpu_s: float
    peak_mb: float


def records_of(number: int) -> Iterator[RemoteRecord]:
    """Of one partition: each segment is begun and finished."""
    place = RemoteTopicPartition(f"topic-{number // 10}", (number // 10).to_bytes(16, "big"), number % 10)
    for each in range(SEGMENTS_PER_PARTITION):
        segment = RemoteSegmentId(place, (number * SEGMENTS_PER_PARTITION + each + 1).to_bytes(16, "big"))
        start = each * RECORDS_PER_SEGMENT
        epochs = (SegmentLeaderEpoch(each // 100, start),)
        yield RemoteLogSegmentMetadataRecord(
            segment, start, start + RECORDS_PER_SEGMENT - 1, 1, each, each, epochs, segment_size_in_bytes=1 << 30
        )
        yield RemoteLogSegmentMetadataUpdateRecord(segment, 1, each, state=1)


def value_of(record: RemoteRecord) -> bytes:
    (kind,) = [key for key, each in REMOTE_RECORDS.items() if isinstance(record, each)]
    return b"".join(map(encode_uvarint, (1, kind, 0))) + encode(record, 0)


def write(directory: Path, records: int, metadata_partitions: int) -> None:
    """Partitions of topics in turn, each in one partition of the metadata topic."""
    ends = [0] * metadata_partitions
    logs: list[bytearray] = [bytearray() for _ in ends]
    paths = [directory / f"__remote_log_metadata-{each}" / f"{0:020d}.log" for each in range(metadata_partitions)]
    for each in paths:
        each.parent.mkdir(parents=True)
        each.touch()
    for number in range(records // (2 * SEGMENTS_PER_PARTITION)):
        at = number % metadata_partitions
        for record in records_of(number):
            logs[at] += build_batch(base_offset=ends[at], leader_epoch=0, timestamp_ms=0, values=[value_of(record)])
            ends[at] += 1
        if len(logs[at]) > WROTE_MAX:
            with paths[at].open("ab") as file:
                file.write(logs[at])
            logs[at].clear()
    for path, left in zip(paths, logs, strict=True):
        with path.open("ab") as file:
            file.write(left)


def run(words: list[str], out: Path) -> Needed:
    """One process; what it prints goes to a file, as an operator keeps it."""
    command = [sys.executable, "-m", "api", "log", "tiered", *words, "--json"]
    with out.open("wb") as file:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=file)
        _, status, used = os.wait4(process.pid, 0)
        took = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (command, process.returncode)
    return Needed(took, used.ru_utime + used.ru_stime, used.ru_maxrss / 1_024)


def measured(home: Path, records: int, metadata_partitions: int) -> dict[str, Needed]:
    directory = home / f"log-{records}"
    began = time.monotonic()
    write(directory, records, metadata_partitions)
    size = sum(each.stat().st_size for each in directory.rglob("*.log"))
    print(f"{records:,} records, {size / 1e6:.0f} MB, written in {time.monotonic() - began:.0f} s", flush=True)
    file = home / f"report-{records}.json"
    return {
        "read": run([str(directory)], file),
        "compared": run([str(directory), "--against", str(file)], home / "compared.json"),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.remote_log")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--metadata-partitions", type=int, default=50)
    chosen = parser.parse_args(arguments)
    small = chosen.records // 4
    with tempfile.TemporaryDirectory(prefix="zk2kraft-remote-log-") as home:
        found = {each: measured(Path(home), each, chosen.metadata_partitions) for each in (small, chosen.records)}
    print(f"load {os.getloadavg()[0]:.1f}")
    for records, needs in found.items():
        for name, each in needs.items():
            rate = records / each.cpu_s
            print(
                f"{records:>9,} {name:>8}: {each.took_s:6.1f} s, {each.cpu_s:6.1f} s of a processor, "
                f"{rate:,.0f} records a second, {each.peak_mb:,.0f} MB"
            )
    for name in ("read", "compared"):
        less, more = found[small][name], found[chosen.records][name]
        ratio = (more.cpu_s / less.cpu_s) * small / chosen.records
        print(f"{name}: a record of the larger log costs {ratio:.2f} times one of the smaller")
    return 0


if __name__ == "__main__":
    sys.exit(main())
