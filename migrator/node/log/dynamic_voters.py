"""Whether a directory belongs to a quorum whose voters are listed in its log (kraft.version 1).

In:   a metadata directory, formatted or not; it is only read.
Out:  nothing, or Z2K-3020 naming the file that says so.
Elsewhere: the voters that we go by (config/properties.py), the files themselves (log_store.py, snapshot_files.py,
storage.py).
Rules: to be asked before anything is written: with other voters than the rest of a quorum one counts other majorities.
A file that cannot be read says nothing here; whoever opens it next says what is wrong with it.
Source: KIP-853; Kafka 3.9 `Formatter.writeDynamicQuorumSnapshot`, `KRaftControlRecordStateMachine`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from migrator.findings.finding import FindingError
from migrator.findings.quorum import DYNAMIC_VOTERS
from migrator.node.log.storage import LOG_NAME, QUORUM_STATE
from migrator.wire.batch import peek, read_batch
from migrator.wire.batch_header import HEADER_BYTES
from migrator.wire.messages.control_records import KRaftVersionRecord, VotersRecord


def refuse_dynamic_voters(metadata_directory: Path) -> None:
    """Raises Z2K-3020 when the quorum of this directory has, or once had, dynamic voters."""
    directory = metadata_directory / LOG_NAME
    if _election_state_is_dynamic(directory / QUORUM_STATE):
        raise DYNAMIC_VOTERS.error(file=str(directory / QUORUM_STATE), what="its data_version is 1")
    for path in sorted([*directory.glob("*.checkpoint"), *directory.glob("*.log")]):
        for what in _told_in(path):
            raise DYNAMIC_VOTERS.error(file=str(path), what=what)


def _election_state_is_dynamic(path: Path) -> bool:
    try:
        state = json.loads(path.read_bytes().split(b"\n", 1)[0])
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(state, dict) and state.get("data_version") == 1


def _told_in(path: Path) -> Iterator[str]:
    """What the control batches of a segment or snapshot say of dynamic voters; other batches are passed over."""
    size = path.stat().st_size
    with path.open("rb") as file:
        position = 0
        try:
            while position < size:
                file.seek(position)
                header = peek(file.read(HEADER_BYTES))
                if header.is_control:
                    file.seek(position)
                    yield from _told_by(file.read(header.size), header.base_offset)
                position += header.size
        except FindingError:
            return  # a torn or damaged end, which the log itself is asked about


def _told_by(batch: bytes, offset: int) -> Iterator[str]:
    for record in read_batch(batch).control_records:
        match record:
            case KRaftVersionRecord(kraft_version=level) if level > 0:
                yield f"a record at or behind offset {offset} sets kraft.version to {level}"
            case VotersRecord(voters=voters):
                ids = ", ".join(str(each.voter_id) for each in voters)
                yield f"a record at or behind offset {offset} lists the voters {ids}"
