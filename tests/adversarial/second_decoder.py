"""A second decoder over a sample of a real log: Kafka's own dump tool reads the same batches, and every field is equal.

    python -m tests.adversarial.second_decoder DIRECTORY ... [--share 0.01] [--seed N]

What decoder and audit would get wrong together, an audit cannot show. `clean_runs` reads all of its voters' logs so.
Exit codes: 0 all are equal, 1 not.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from migrator.audit.log_plan import log_directory
from migrator.wire.batch import peek, read_batches
from migrator.wire.records import decode_record
from tests.contract.test_wire_dump_log import agree, lines_of_stock

AT_LEAST: Final = 20
"""Batches of each directory, where it has so many."""


def batches_in(directory: Path) -> Iterator[bytes]:
    """Those of every segment, as they are; a torn one at the end is left out."""
    for segment in sorted(log_directory(directory).glob("*.log")):
        data, position = segment.read_bytes(), 0
        while position < len(data):
            size = peek(data, position).size
            if position + size > len(data):
                return
            yield data[position : position + size]
            position += size


def compared(directory: Path, share: float, chance: Random) -> int:
    """How many records both decoders read, and read alike. Raises AssertionError with the field that is not."""
    whole = list(batches_in(directory))
    drawn = sorted(chance.sample(range(len(whole)), min(len(whole), max(AT_LEAST, round(share * len(whole))))))
    with tempfile.TemporaryDirectory() as name:
        segment = Path(name) / f"{0:020d}.log"
        segment.write_bytes(b"".join(whole[each] for each in drawn))
        lines = lines_of_stock(segment)
        ours = [value for batch in read_batches(segment.read_bytes()) for value in batch.values]
    stock = [json.loads(line.split("payload: ", 1)[1]) for line in lines if "payload: " in line]
    assert len(ours) == len(stock), f"{directory}: {len(ours)} records here, {len(stock)} there"
    for value, other in zip(ours, stock, strict=True):
        record = decode_record(value)
        assert other["type"].replace("_", "") == type(record).__name__.upper()
        agree(record, other["data"], other["version"], type(record).__name__)
    return len(ours)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directories", type=Path, nargs="+")
    parser.add_argument("--share", type=float, default=0.01, help="of the batches of each log")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    chance = Random(options.seed)
    for directory in options.directories:
        try:
            print(f"{directory}: {compared(directory, options.share, chance)} records, read alike", flush=True)
        except AssertionError as error:
            print(f"{directory}: NOT ALIKE: {error}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
