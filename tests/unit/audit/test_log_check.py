"""Logs checked by themselves: each fault is named, and what is none is told as none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api import cli
from migrator.audit.log_check import LogCheck, check_logs
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.raft.types import SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import BeginTransactionRecord, ConfigRecord, EndTransactionRecord, TopicRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.builders import an_id

LATER = b"\x01\x7f\x00"
"""A record of a type that no release of today has."""


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=an_id(name))


def retention(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=value)


def values(records: Sequence[Message | bytes]) -> list[bytes]:
    return [each if isinstance(each, bytes) else encode_record(each, 0) for each in records]


class Voter:
    """A directory in the making: one batch for each call."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        self.end = 0

    def write(self, *records: Message | bytes, epoch: int = 1) -> Voter:
        batch = build_batch(base_offset=self.end, leader_epoch=epoch, timestamp_ms=0, values=values(records))
        with (self.directory / f"{0:020d}.log").open("ab") as file:
            file.write(batch)
        self.end += len(records)
        return self

    def snapshot(self, *records: Message | bytes, epoch: int = 1) -> Voter:
        """Of all until now."""
        SnapshotFiles(self.directory).write(SnapshotId(self.end, epoch), values(records), 0)
        return self


@pytest.fixture
def voters(tmp_path: Path) -> list[Voter]:
    """Two that agree: a snapshot of the first three offsets, and a record behind it."""
    found = [Voter(tmp_path / name) for name in ("one", "two")]
    for each in found:
        each.write(topic("a"), retention("1000")).write(topic("b")).snapshot(topic("a"), retention("1000"), topic("b"))
        each.write(topic("c"), epoch=2)
    return found


def check(*voters: Voter) -> LogCheck:
    return check_logs([each.directory for each in voters])


def test_logs_that_are_well_are_described(voters: list[Voter]) -> None:
    found = check(*voters)
    assert (found.exit_code, found.disagreements, found.parted) == (0, [], [])
    (one, _) = found.directories
    assert (one.begins, one.end, one.epoch, one.records, one.snapshot) == (0, 3, 2, 4, 2)


def test_a_snapshot_that_says_otherwise_is_named_by_key(voters: list[Voter]) -> None:
    """Also where the log goes on to say what the snapshot says: a controller that starts in between is wrong."""
    wrong = voters[0]
    for file in wrong.directory.glob("*.checkpoint"):
        file.unlink()
    SnapshotFiles(wrong.directory).write(SnapshotId(3, 1), values([topic("a"), retention("666"), topic("b")]), 0)
    wrong.write(retention("666"), epoch=2)
    found = check(wrong)
    (problem,) = found.directories[0].problems
    assert found.exit_code == 1
    assert problem.startswith("Z2K-5005 ")
    assert "its snapshot at offset 2 says otherwise of topic configs a" in problem


def test_an_epoch_that_goes_back_is_a_fault(tmp_path: Path) -> None:
    found = check(Voter(tmp_path / "one").write(topic("a"), epoch=3).write(topic("b"), epoch=2))
    assert "epoch 2 follows epoch 3 at offset 1" in found.directories[0].problems[0]


def test_a_transaction_out_of_turn_and_a_spoiled_checksum_are_faults(tmp_path: Path) -> None:
    twice = Voter(tmp_path / "twice").write(BeginTransactionRecord()).write(BeginTransactionRecord())
    assert "Z2K-5002" in check(twice).directories[0].problems[0]
    spoiled = Voter(tmp_path / "spoiled").write(topic("a")).write(topic("b"))
    segment = spoiled.directory / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    assert "checksum" in check(spoiled).directories[0].problems[0]


def test_records_of_a_later_release_are_counted_and_are_no_fault(tmp_path: Path) -> None:
    voter = Voter(tmp_path / "one").write(BeginTransactionRecord(), topic("a")).write(LATER, EndTransactionRecord())
    voter.snapshot(LATER)
    (found,) = check(voter).directories
    assert (found.unknown, found.problems) == (2, [])


def test_the_same_offset_of_one_epoch_with_other_bytes_is_a_fault_anywhere(voters: list[Voter]) -> None:
    voters[0].write(topic("d"), epoch=2)
    voters[1].write(topic("e"), epoch=2)
    found = check(*voters)
    (told,) = found.disagreements
    assert (found.exit_code, told[:8]) == (1, "Z2K-5006")
    assert "offset 4 of epoch 2 is not the same in both" in told


def test_a_tail_that_was_never_committed_is_no_fault_and_is_told(voters: list[Voter]) -> None:
    voters[0].write(topic("d"), epoch=2)
    voters[1].write(topic("e"), epoch=3)
    found = check(*voters)
    assert (found.exit_code, found.disagreements) == (0, [])
    assert "from offset 4 on, epoch 2 and 3" in found.parted[0]


def test_what_a_snapshot_of_anybody_stands_for_was_committed(voters: list[Voter]) -> None:
    voters[0].write(topic("d"), epoch=2)
    voters[1].write(topic("e"), epoch=3)
    voters[1].snapshot(topic("a"), retention("1000"), *map(topic, "bce"), epoch=3)
    (told,) = check(*voters).disagreements
    assert "offset 4 is of epoch 2 and 3, and a snapshot stands for it" in told


def test_the_command_says_it_and_ends_with_1(voters: list[Voter], tmp_path: Path) -> None:
    names = [str(each.directory) for each in voters]
    run = CliRunner().invoke
    well = run(cli.app, ["log", "check", *names])
    assert (well.exit_code, well.output.count(": well")) == (0, 2)
    missing = run(cli.app, ["log", "check", names[0], str(tmp_path / "nowhere")])
    assert missing.exit_code == 1
    assert "Z2K-5001" in missing.output
    assert json.loads(run(cli.app, ["log", "check", names[0], "--json"]).stdout)["directories"][0]["end"] == 3
