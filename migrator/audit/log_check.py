"""Check metadata logs by themselves: is each one whole, does its snapshot say the same, do the voters agree?

In:   directories of controllers, ours or stock's, while they run or after. Nothing is written, no ZooKeeper is asked.
Out:  a `LogCheck`: of each directory what it covers and what is wrong with it, and where two of them part.
Elsewhere: the log compared with ZooKeeper (run.py), the plan of a directory (log_plan.py), its snapshot (beside.py).
Rules: what is covered by a snapshot of anybody was committed, so no two logs may part there. Behind it, a follower that
was cut off may have records that were never committed: that two logs part there, in different epochs, is told and no
fault. The same offset in the same epoch with other bytes is a fault anywhere.
A log of a later Kafka has records that are not known here: they are counted, and what they say is not compared.
Source: KIP-595 (log matching), KIP-630 (snapshots), KIP-868 (transactions); Kafka 3.9 and 4.x formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from migrator.audit.beside import facts_by_key, others_in_snapshot
from migrator.audit.log_plan import LogPlan, LogSplit, begins_at, plan_log, read_split
from migrator.audit.log_source import CommittedRecords
from migrator.audit.log_states import Key
from migrator.audit.normalise import Facts, LogFacts
from migrator.findings.audit import LOG_NOT_WHOLE, LOGS_PART
from migrator.findings.finding import FindingError
from migrator.wire.batch import Batch, peek
from migrator.wire.records import decode_record

OTHERS_TOLD: Final = 10
"""Keys of a snapshot that are named one by one."""


class DirectoryCheck(msgspec.Struct):
    """begins: the first offset that the directory has record by record. end: the last one; -1 without any.

    snapshot: the last offset that its newest snapshot stands for; -1 without one. unknown: records of a later release.
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


class _Place(NamedTuple):
    """A batch: where it ends, and what makes it itself."""

    last: int
    epoch: int
    crc: int


class _Checked(NamedTuple):
    found: DirectoryCheck
    batches: dict[int, _Place]
    """Of the log, by base offset; without those of snapshots."""


def check_logs(directories: Sequence[Path]) -> LogCheck:
    """Never raises for what is wrong with a log: that is the answer."""
    checked = [_check(each) for each in directories]
    told = LogCheck([each.found for each in checked])
    committed = max((each.found.snapshot for each in checked), default=-1)
    for one, other in combinations(checked, 2):
        _agree(one, other, committed, told)
    return told


# --- one directory ----------------------------------------------------------------------------------------


def _check(directory: Path) -> _Checked:
    checked = _Checked(DirectoryCheck(str(directory)), {})
    found = checked.found
    try:
        plan = plan_log(directory)
        found.end, found.epoch, found.records = plan.offset, plan.epoch, plan.records
        found.begins, found.snapshot = begins_at(plan) + 1, max(begins_at(plan), plan.beside_offset)
        _Reading(checked).read(plan)
    except FindingError as error:
        found.problems.append(str(error))
    return checked


class _Reading:
    """Goes over the batches of one plan, the log and then the snapshot beside it."""

    def __init__(self, checked: _Checked) -> None:
        self._found = checked.found
        self._batches = checked.batches
        self._epoch = -1

    def read(self, plan: LogPlan) -> None:
        """Raises what ends a reading: bytes that are none of a batch, transactions out of turn, contradictions."""
        facts, records = LogFacts(), CommittedRecords()
        before = None
        for split in plan.splits:
            self._note_places(split)
            for batch in read_split(split):
                if 0 <= plan.beside_offset < batch.base_offset and split.snapshot_offset < 0 and before is None:
                    before = facts_by_key(facts)
                self._take(batch, facts, records, split)
        if plan.beside:
            self._compare(plan, facts_by_key(facts) if before is None else before)

    def _note_places(self, split: LogSplit) -> None:
        """Headers alone; of the log, not of its snapshot."""
        if split.snapshot_offset >= 0:
            return
        with open(split.file, "rb") as file:
            file.seek(split.start)
            data = file.read(split.end - split.start)
        position = 0
        while position < len(data):
            header = peek(data, position)
            self._batches[header.base_offset] = _Place(header.last_offset, header.leader_epoch, header.crc)
            position += header.size
            if header.leader_epoch < self._epoch:
                reason = f"epoch {header.leader_epoch} follows epoch {self._epoch} at offset {header.base_offset}"
                self._note(reason)
            self._epoch = max(self._epoch, header.leader_epoch)

    def _take(self, batch: Batch, facts: LogFacts, records: CommittedRecords, split: LogSplit) -> None:
        """A record that is not known takes nothing from what the others say."""
        unknown = sum(not _is_known(value) for value in batch.values)
        self._found.unknown += unknown
        records.snapshot_offset = split.snapshot_offset
        if not unknown:
            for record in records.take(batch):
                facts.apply(record)

    def _compare(self, plan: LogPlan, log: Mapping[Key, Facts]) -> None:
        facts = LogFacts()
        unknown = self._found.unknown
        for split in plan.beside:
            for batch in read_split(split):
                self._take(batch, facts, CommittedRecords(), split)
        if unknown or self._found.unknown:
            return  # of a later release: what they say is not known
        others = list(others_in_snapshot(facts_by_key(facts), log, plan.beside_offset))
        for each in others[:OTHERS_TOLD]:
            reason = f"its snapshot at offset {each.offset} says otherwise of {each.family} {each.key}"
            self._note(reason)
        if len(others) > OTHERS_TOLD:
            self._note(f"its snapshot says otherwise of {len(others)} keys in all")

    def _note(self, reason: str) -> None:
        self._found.problems.append(str(LOG_NOT_WHOLE.error(directory=self._found.directory, reason=reason)))


def _is_known(value: bytes) -> bool:
    try:
        decode_record(value)
    except FindingError:
        return False
    return True


# --- voters ----------------------------------------------------------------------------------------------------


def _agree(one: _Checked, other: _Checked, committed: int, told: LogCheck) -> None:
    """The first place where two logs have something else."""
    for offset in sorted(one.batches.keys() & other.batches.keys()):
        left, right = one.batches[offset], other.batches[offset]
        if left == right:
            continue
        places = f"{one.found.directory} and {other.found.directory}"
        if left.epoch == right.epoch:
            reason = f"offset {offset} of epoch {left.epoch} is not the same in both"
        elif offset <= committed:
            reason = f"offset {offset} is of epoch {left.epoch} and {right.epoch}, and a snapshot stands for it"
        else:
            told.parted.append(f"{places}: from offset {offset} on, epoch {left.epoch} and {right.epoch}")
            return
        told.disagreements.append(str(LOGS_PART.error(directories=places, reason=reason)))
        return
