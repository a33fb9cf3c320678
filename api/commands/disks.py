"""The command that lists a broker's disks, on its host.

In:   what the command line read. Out: an exit code, and a listing on standard output.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.brokers.disk_listing import ListedReplica, LogDirectory
from migrator.audit.brokers.list_disks import list_disks
from migrator.findings.finding import FindingError
from migrator.model.printable import printable, printable_lines

ALL, A_PART, NOTHING = 0, 1, 2
PROBLEMS_SHOWN: Final = 20


def list_log_directories(directories: list[Path]) -> int:
    """0: all was listed. 1: something could not be read, which the listing says too. 2: there is no listing."""
    problems = 0
    try:
        for line in list_disks(directories, time.time_ns() // 1_000_000):
            sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
            if isinstance(line, LogDirectory | ListedReplica) and line.problem:
                problems += 1
                if problems <= PROBLEMS_SHOWN:
                    place = line.path if isinstance(line, LogDirectory) else line.key
                    print(printable(f"not read: {place}: {line.problem}"), file=sys.stderr)
    except FindingError as error:
        print(printable_lines(f"{error}\n{error.occurrence.finding.remedy}"), file=sys.stderr)
        return NOTHING
    finally:
        sys.stdout.flush()
    return A_PART if problems else ALL
