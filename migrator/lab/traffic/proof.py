"""The outside reader, run as anybody would run it, on the traffic of a laboratory cluster.

In:   a cluster, traffic that has stopped, and which topics were deleted or re-created meanwhile.
Out:  the reader's report.   Errors: Z2K-6016 when it gave none.
Elsewhere: every judgement (outside_reader.py, which shares nothing with this package).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from migrator.findings.laboratory import READER_FAILED
from migrator.lab.cluster import LabCluster
from migrator.lab.traffic.control import client_words

READER: Final = Path(__file__).with_name("outside_reader.py")
DEADLINE_S: Final = 400.0
"""Longer than the reader's own deadlines for reading and settling together."""
SETTLE_S: Final = 90.0
"""Kafka's own topics too: after a kill they are whole later than those that a test waits for."""


class ReaderCheck(msgspec.Struct, frozen=True):
    """One line of the reader's report. first: the first failures, in words."""

    name: str
    compared: int
    failed: int
    not_read: int
    first: tuple[str, ...]


class ReaderReport(msgspec.Struct, frozen=True):
    """exit_code: 0 all good, 1 something failed, 2 something could not be checked.

    excluded:   acknowledgements and commits of deleted topics, left out of every condition.
    unpromised: records of this run that are in the log although nobody acknowledged them; a kill leaves some.
    foreign:    records of other writers.
    waited_for: what was not yet so when the reader first looked at the cluster; empty when it was whole at once.
    """

    exit_code: int
    run: str
    ended_in_order: bool
    excluded: int
    unpromised: int
    foreign: int
    waited_for: tuple[str, ...]
    took_s: float
    checks: tuple[ReaderCheck, ...]

    @property
    def bad(self) -> dict[str, tuple[str, ...]]:
        """The checks that failed or were not read, by name, with their first failures."""
        return {check.name: check.first for check in self.checks if check.failed or check.not_read}


def prove(
    cluster: LabCluster,
    ledger: Path,
    *,
    deleted: Iterable[str] = (),
    recreated: Mapping[str, str] | None = None,
    data_dirs: Iterable[Path] | None = None,
    name: str = "reader",
    without_zookeeper: bool = False,
    settle_s: float = SETTLE_S,
    client: Mapping[str, str] | None = None,
) -> ReaderReport:
    """Let the outside reader look at everything. Raises Z2K-6016.

    recreated: topic to the mark from which on it counts.
    data_dirs: of the brokers, or copies of them; None means where the brokers have them.
    without_zookeeper: the cluster has none any more; brokers tell what there is.
    settle_s: how long the cluster may need to be whole; what is bad at its end is bad.
    client: how the reader logs in to brokers, as librdkafka's keys.
    """
    laboratory = cluster.laboratory
    report = laboratory.directory / name / "report.json"
    if data_dirs is None:
        data_dirs = [path for broker in cluster.brokers for path in sorted(broker.directory.glob("data-*"))]
    command = [
        *(sys.executable, "-I", str(READER), "--json", "--settle-s", str(settle_s)),
        *("--bootstrap", cluster.bootstrap_servers, "--ledger", str(ledger)),
        *(() if without_zookeeper else ("--zookeeper", cluster.zookeeper_connect)),
        *client_words(report.parent, client or {}),
        *(word for path in data_dirs for word in ("--data-dir", str(path))),
        *(word for topic in deleted for word in ("--deleted", topic)),
        *(word for topic, mark in (recreated or {}).items() for word in ("--recreated", f"{topic}={mark}")),
    ]
    process = laboratory.processes.start(name, command, stdout=report)
    process.wait_for_exit(DEADLINE_S)
    exit_code = process.exit_code
    process.kill()
    try:
        return msgspec.json.decode(report.read_bytes(), type=ReaderReport)
    except msgspec.DecodeError as error:
        raise READER_FAILED.error(exit_code=exit_code, output=process.log_tail()) from error
