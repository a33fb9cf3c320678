"""Logs checked by themselves: each fault is named, and what is none is told as none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from api import cli
from migrator.audit import log_check
from migrator.audit.log_check import LogCheck, check_logs
from migrator.audit.log_plan import LogPlan, plan_log
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.raft.types import SnapshotId
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
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


def test_what_snapshots_of_both_stand_for_was_committed(voters: list[Voter]) -> None:
    """One alone is no proof: a voter that was down while the others went on still has its tail of before."""
    voters[0].write(topic("d"), epoch=2)
    voters[1].write(topic("e"), epoch=3)
    voters[1].snapshot(topic("a"), retention("1000"), *map(topic, "bce"), epoch=3)
    assert check(*voters).exit_code == 0
    voters[0].snapshot(topic("a"), retention("1000"), *map(topic, "bcd"), epoch=2)
    (told,) = check(*voters).disagreements
    assert "offset 4 is of epoch 2 and 3, and a snapshot of each stands for it" in told


def test_a_record_that_is_not_known_takes_no_other_with_it(tmp_path: Path) -> None:
    voter = Voter(tmp_path / "one").write(BeginTransactionRecord(), LATER).write(topic("a"), EndTransactionRecord())
    voter.write(topic("b"), LATER).write(retention("1"))
    assert check(voter).directories[0].problems == []


def test_a_snapshot_of_a_later_epoch_than_the_log_is_refused(tmp_path: Path) -> None:
    """A stock controller deletes that log when it starts."""
    voter = Voter(tmp_path / "one").write(topic("a")).write(topic("b"))
    voter.end = 1
    voter.snapshot(topic("a"), epoch=9)
    assert "deletes that log" in check(voter).directories[0].problems[0]


def test_two_logs_of_the_same_offsets_without_a_common_batch_part(tmp_path: Path) -> None:
    """Each begins with a snapshot; their batches are cut otherwise."""
    found = []
    for name, begins, sizes in (("one", 1, (3, 3)), ("other", 2, (3, 1))):
        voter = Voter(tmp_path / name)
        SnapshotFiles(voter.directory).write(SnapshotId(begins, 1), values([topic("a")]), 0)
        data, offset = b"", begins
        for size in sizes:
            records = values([topic(f"t{offset + each}") for each in range(size)])
            data += build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=0, values=records)
            offset += size
        (voter.directory / f"{begins:020d}.log").write_bytes(data)
        found.append(voter)
    assert "no batch begins at the same one" in check(*found).disagreements[0]


def test_a_file_that_a_running_controller_deleted_is_read_again_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voter = Voter(tmp_path / "one").write(topic("a"))
    plans: list[LogPlan] = []
    left = 0

    def plan_of_a_file_that_goes(path: Path, *, beside: bool) -> LogPlan:
        plan = plan_log(path, beside=beside)
        plans.append(plan)
        gone = msgspec.structs.replace(plan.splits[0], file=str(tmp_path / "gone.log"))
        return msgspec.structs.replace(plan, splits=[gone]) if len(plans) <= left else plan

    monkeypatch.setattr(log_check, "plan_log", plan_of_a_file_that_goes)
    for left, problems in ((2, 0), (100, 1)):  # noqa: B007  (the plan of a file that goes reads it)
        plans.clear()
        assert len(check(voter).directories[0].problems) == problems


def test_the_command_says_it_and_ends_with_1(voters: list[Voter], tmp_path: Path) -> None:
    names = [str(each.directory) for each in voters]
    run = CliRunner().invoke
    well = run(cli.app, ["log", "check", *names])
    assert (well.exit_code, well.output.count(": well")) == (0, 2)
    missing = run(cli.app, ["log", "check", names[0], str(tmp_path / "nowhere")])
    assert missing.exit_code == 1
    assert "Z2K-5001" in missing.output
    assert json.loads(run(cli.app, ["log", "check", names[0], "--json"]).stdout)["directories"][0]["end"] == 3


# --- K-28: a log that is right, and that Kafka replays wrongly ---------------------------------------------


def a_user(name: str, mechanism: int = 1) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(name, mechanism, b"s", b"k", b"v", 4_096)


def removed(name: str, mechanism: int = 1) -> RemoveUserScramCredentialRecord:
    return RemoveUserScramCredentialRecord(name, mechanism)


@pytest.mark.parametrize("mechanism", [1, 2])
def test_users_that_a_restart_would_lose_are_named(tmp_path: Path, mechanism: int) -> None:
    voter = Voter(tmp_path / "one").write(*(a_user(each, mechanism) for each in "abc")).write(removed("a", mechanism))
    (problem,) = check(voter).directories[0].problems
    assert problem.startswith("Z2K-5011 ")
    assert f"may not know 2 SCRAM-SHA-{256 * mechanism} credentials: b, c" in problem


@pytest.mark.parametrize(
    "what",
    [
        lambda log: log.snapshot(*(a_user(each) for each in "bc")),
        lambda log: log.write(removed("b")).write(removed("c")),
        lambda log: log.write(BeginTransactionRecord(), EndTransactionRecord()).write(a_user("b"), a_user("c")),
    ],
    ids=["a snapshot behind the removal", "nobody is left", "set again behind a transaction"],
)
def test_where_a_restart_loses_nobody_nothing_is_told(tmp_path: Path, what: Callable[[Voter], Voter]) -> None:
    log = Voter(tmp_path / "one").write(*(a_user(each) for each in "abc")).write(removed("a"))
    assert check(what(log)).exit_code == 0


def test_a_removal_between_transactions_or_behind_a_known_user_loses_nobody(tmp_path: Path) -> None:
    barrier = (BeginTransactionRecord(), EndTransactionRecord())
    ours = Voter(tmp_path / "ours").write(a_user("a"), a_user("b")).write(*barrier, removed("a"), *barrier)
    ours.write(a_user("c"))
    known = Voter(tmp_path / "known").write(a_user("a")).snapshot(a_user("a")).write(a_user("b"), a_user("c"))
    known.write(removed("b"))
    assert check(ours).exit_code == check(known).exit_code == 0
    assert check(known.write(removed("a"))).directories[0].problems[0].startswith("Z2K-5011 ")
