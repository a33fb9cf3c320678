"""A directory of a quorum with dynamic voters is known as one, whichever of its files says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.node.log.dynamic_voters import refuse_dynamic_voters
from migrator.node.log.storage import LOG_NAME, QUORUM_STATE, write_election_state
from migrator.raft.types import ElectionState
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from migrator.wire.messages.metadata import NoOpRecord
from migrator.wire.records import encode_record

SEGMENT = f"{0:020d}.log"
FORMATTED = f"{0:020d}-{0:010d}.checkpoint"


def a_control_batch(*records: object, offset: int = 0) -> bytes:
    return build_control_batch(base_offset=offset, leader_epoch=1, timestamp_ms=0, records=records)  # type: ignore[arg-type]


DATA = build_batch(base_offset=1, leader_epoch=1, timestamp_ms=0, values=[encode_record(NoOpRecord(), 0)])
LEADER = a_control_batch(LeaderChangeMessage(leader_id=1))
VOTERS = VotersRecord(voters=(VotersRecordVoter(3000), VotersRecordVoter(3001)))


def a_directory(tmp_path: Path, **files: bytes) -> Path:
    directory = tmp_path / LOG_NAME
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "named", "what"),
    [
        ({FORMATTED: a_control_batch(SnapshotHeaderRecord(), KRaftVersionRecord(kraft_version=1), VOTERS)}, FORMATTED,
         "kraft.version to 1"),
        ({SEGMENT: LEADER + DATA + a_control_batch(VOTERS, offset=2)}, SEGMENT, "voters 3000, 3001"),
        ({QUORUM_STATE: b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":1}'}, QUORUM_STATE, "data_version"),
    ],
)  # fmt: skip
def test_the_file_that_says_so_is_named(tmp_path: Path, files: dict[str, bytes], named: str, what: str) -> None:
    with pytest.raises(FindingError) as raised:
        refuse_dynamic_voters(a_directory(tmp_path, **files))
    assert raised.value.code == "Z2K-3020"
    assert raised.value.occurrence.values["file"] == str(tmp_path / LOG_NAME / named)
    assert what in raised.value.occurrence.values["what"]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {SEGMENT: b""},
        {SEGMENT: LEADER + DATA, FORMATTED: a_control_batch(SnapshotHeaderRecord(), KRaftVersionRecord())},
        {SEGMENT: LEADER + DATA[:-3]},
        {SEGMENT: b"\x01" * 200, QUORUM_STATE: b"{"},
    ],
)
def test_static_voters_and_what_cannot_be_read_are_left_to_others(tmp_path: Path, files: dict[str, bytes]) -> None:
    refuse_dynamic_voters(a_directory(tmp_path, **files))


def test_a_directory_that_never_took_part_or_has_static_voters_is_fine(tmp_path: Path) -> None:
    refuse_dynamic_voters(tmp_path)
    write_election_state(a_directory(tmp_path) / LOG_NAME, ElectionState(3, voted_for=2), (1, 2, 3))
    refuse_dynamic_voters(tmp_path)
