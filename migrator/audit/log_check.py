"""Check metadata logs by themselves: is each one whole, does its snapshot say the same, do the voters agree?

In:   directories of controllers, ours or stock's, while they run or after. Nothing is written, no ZooKeeper is asked.
Out:  a `LogCheck`: of each directory what it covers and what is wrong with it, and where two of them part.
Elsewhere: the log compared with ZooKeeper (run.py), the plan of a directory (log_plan.py), its snapshot (beside.py).
Rules: a snapshot stands for committed records of the log that it lies beside. So two logs that both have one of an
offset may not part there. Elsewhere a voter that was cut off may have records that were never committed, and cuts them
off when it comes back: that two logs part there, in different epochs, is told and no fault. The same offset in the same
epoch with other bytes is a fault anywhere. A whole log from which Kafka makes another image is told, too (K-28).
A log of a later Kafka has records that are not known here: they are counted, and what they say is not compared.
Source: KIP-595 (log matching), KIP-630 (snapshots), KIP-868 (transactions); Kafka 3.9 and 4.x formats.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.beside import facts_by_key, others_in_snapshot
from migrator.audit.kafka_flaws.scram_replay import ScramReplay
from migrator.audit.log_plan import TRIMMED_MEANWHILE, LogPlan, LogSplit, begins_at, bytes_of, plan_log
from migrator.audit.log_source import CommittedRecords
from migrator.audit.normalise import LogFacts
from migrator.findings.audit import LOG_LOSES_SCRAM, LOG_NOT_WHOLE, LOGS_PART
from migrator.findings.finding import FindingError
from migrator.model.values import ScramMechanism
from migrator.wire.batch import Batch, peek, read_batches
from migrator.wire.batch_header import BatchHeader
from migrator.wire.messages.metadata import BeginTransactionRecord
from migrator.wire.records import decode_record
from migrator.wire.schema import Message

OTHERS_TOLD: Final = 10
"""Keys of a snapshot that are named one by one."""


class DirectoryCheck(msgspec.Struct):
    """begins: the first offset that the directory has record by record. end: the last one; -1 without any.

    snapshot: the last offset that its newest snapshot stands for; -1 without one. unknown: records of a later release,
    with which the snapshot is not compared.
    """

    directory: str
    begins: int = 0
    end: int = -1
    epoch: int = -1
    records: int = 0
    snapshot: int = -1
    unknown: int = 0
    problems: list[str] = []


class LogCheck(msgspec.Struct):
    """parted: where two logs have records of different epochs, which is no fault by itself; in words."""

    directories: list[DirectoryCheck]
    disagreements: list[str] = []
    parted: list[str] = []

    @property
    def exit_code(self) -> int:
        """0 all is well, 1 not."""
        return int(bool(self.disagreements) or any(each.problems for each in self.directories))


@dataclass(slots=True)
class _Batches:
    """Those of a log without its snapshot, in order: a gigabyte of log has millions."""

    first: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))
    epoch: array[int] = field(default_factory=lambda: array("q"))
    crc: array[int] = field(default_factory=lambda: array("Q"))

    def note(self, header: BatchHeader) -> None:
        self.first.append(header.base_offset)
        self.last.append(header.last_offset)
        self.epoch.append(header.leader_epoch)
        self.crc.append(header.crc)


@dataclass(slots=True)
class _Checked:
    found: DirectoryCheck
    batches: _Batches = field(default_factory=_Batches)

    def covers(self, offset: int) -> bool:
        """Whether its own snapshot says that this was committed."""
        return offset <= self.found.snapshot


def check_logs(directories: Sequence[Path]) -> LogCheck:
    """Never raises for what is wrong with a log: that is the answer."""
    checked = [_check(each) for each in directories]
    told = LogCheck([each.found for each in checked])
    for one, other in combinations(checked, 2):
        _agree(one, other, told)
    return told


# --- one directory ----------------------------------------------------------------------------------------


def _check(directory: Path) -> _Checked:
    """A controller that runs deletes old files: a directory that lost one meanwhile is read again."""
    tries = TRIMMED_MEANWHILE
    while True:
        checked = _Checked(DirectoryCheck(str(directory)))
        found = checked.found
        try:
            plan = plan_log(directory, beside=True)
            found.end, found.epoch, found.records = plan.offset, plan.epoch, plan.records
            found.begins, found.snapshot = begins_at(plan) + 1, max(begins_at(plan), plan.beside_offset)
            _Reading(checked).read(plan)
        except FindingError as error:
            tries -= 1
            if isinstance(error.__cause__, FileNotFoundError) and tries >= 0:
                continue
            found.problems.append(str(error))
        return checked


class _Reading:
    """Goes over the batches of one plan, the log and then the snapshot beside it."""

    def __init__(self, checked: _Checked) -> None:
        self._found = checked.found
        self._batches = checked.batches
        self._epoch = -1
        self._scram = ScramReplay()

    def read(self, plan: LogPlan) -> None:
        """Raises what ends a reading: bytes that are none of a batch, transactions out of turn, contradictions."""
        facts, records = LogFacts(), CommittedRecords()
        compared_at = plan.beside_offset
        if begins_at(plan) >= 0:
            self._epoch = plan.epochs[0].epoch
        for split in plan.splits:
            records.snapshot_offset = split.snapshot_offset
            for batch in self._batches_of(split):
                for record in self._records(batch, records):
                    if 0 <= compared_at < records.at:
                        self._scram.begin_here()
                        self._compare(plan, facts)
                        compared_at = -1
                    self._scram.take(record)
                    if not self._found.unknown:
                        facts.apply(record)
            if split.snapshot_offset >= 0:
                self._scram.begin_here()
        if compared_at >= 0:
            self._scram.begin_here()
            self._compare(plan, facts)
        for mechanism, users in self._scram.lost().items():
            lost = LOG_LOSES_SCRAM.error(
                directory=self._found.directory,
                count=len(users),
                mechanism=ScramMechanism(mechanism).name.replace("SHA_", "SCRAM-SHA-"),
                users=", ".join(users[:OTHERS_TOLD]),
            )
            self._found.problems.append(str(lost))

    def _batches_of(self, split: LogSplit) -> Iterator[Batch]:
        data, position = bytes_of(split), 0
        while split.snapshot_offset < 0 and position < len(data):
            header = peek(data, position)
            self._batches.note(header)
            position += header.size
            if header.leader_epoch < self._epoch:
                self._note(f"epoch {header.leader_epoch} follows epoch {self._epoch} at offset {header.base_offset}")
            self._epoch = max(self._epoch, header.leader_epoch)
        yield from read_batches(data)

    def _records(self, batch: Batch, records: CommittedRecords) -> Iterator[Message]:
        """Those that count, as far as they are known."""
        for offset, value in enumerate(batch.values, batch.base_offset):
            try:
                record = decode_record(value)
            except FindingError:
                self._found.unknown += 1
                continue
            if isinstance(record, BeginTransactionRecord):
                self._scram.take(record)
            yield from records.take_one(offset, record)

    def _compare(self, plan: LogPlan, log: LogFacts) -> None:
        facts, records = LogFacts(), CommittedRecords()
        for split in plan.beside:
            for batch in read_batches(bytes_of(split)):
                for record in self._records(batch, records):
                    if not self._found.unknown:
                        facts.apply(record)
        if self._found.unknown:
            return  # of a later release: what they say is not known
        others = list(others_in_snapshot(facts_by_key(facts), facts_by_key(log), plan.beside_offset))
        for each in others[:OTHERS_TOLD]:
            self._note(f"its snapshot at offset {each.offset} says otherwise of {each.family} {each.key}")
        if len(others) > OTHERS_TOLD:
            self._note(f"its snapshot says otherwise of {len(others)} keys in all")

    def _note(self, reason: str) -> None:
        self._found.problems.append(str(LOG_NOT_WHOLE.error(directory=self._found.directory, reason=reason)))


# --- voters ----------------------------------------------------------------------------------------------------


def _agree(one: _Checked, other: _Checked, told: LogCheck) -> None:
    """The first place where two logs have something else."""
    places = f"{one.found.directory} and {other.found.directory}"
    a, b = one.batches, other.batches
    common = 0
    for left, right in _in_both(a, b):
        common += 1
        if (a.last[left], a.epoch[left], a.crc[left]) == (b.last[right], b.epoch[right], b.crc[right]):
            continue
        offset, epochs = a.first[left], (a.epoch[left], b.epoch[right])
        if epochs[0] == epochs[1]:
            reason = f"offset {offset} of epoch {epochs[0]} is not the same in both"
        elif one.covers(offset) and other.covers(offset):
            reason = f"offset {offset} is of epoch {epochs[0]} and {epochs[1]}, and a snapshot of each stands for it"
        else:
            told.parted.append(f"{places}: from offset {offset} on, epoch {epochs[0]} and {epochs[1]}")
            return
        told.disagreements.append(str(LOGS_PART.error(directories=places, reason=reason)))
        return
    if not common and _overlap(a, b):
        reason = "they have the same offsets, and no batch begins at the same one"
        told.disagreements.append(str(LOGS_PART.error(directories=places, reason=reason)))


def _in_both(one: _Batches, other: _Batches) -> Iterator[tuple[int, int]]:
    """Places of batches that begin at the same offset."""
    left = right = 0
    while left < len(one.first) and right < len(other.first):
        difference = one.first[left] - other.first[right]
        if difference == 0:
            yield left, right
        left, right = left + (difference <= 0), right + (difference >= 0)


def _overlap(one: _Batches, other: _Batches) -> bool:
    if not one.first or not other.first:
        return False
    return max(one.first[0], other.first[0]) <= min(one.last[-1], other.last[-1])
