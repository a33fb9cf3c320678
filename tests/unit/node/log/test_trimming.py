"""Snapshots make old segments superfluous: then they go, however small they are."""

from __future__ import annotations

from pathlib import Path

from migrator.wire.messages.metadata import NoOpRecord
from tests.support.voter_on_disk import VoterOnDisk, comes_about, leader_change_at, records_at
from tests.unit.node.driver.test_driver_acts import story


def test_what_a_snapshot_covers_is_forgotten_although_no_segment_was_ever_full(tmp_path: Path) -> None:
    """The size of the log has a limit only when its active segment does not grow to a gibibyte first."""

    async def told() -> None:
        node = VoterOnDisk(tmp_path / "log", snapshot_after_bytes=1, retention_bytes=0)
        node.raft.start()
        node.follow(leader_change_at(0, 1, 2), committed=1)
        await comes_about(lambda: (segments(node), node.ends_of_snapshots()) == ([1], [1]))
        await node.flushed()
        node.follow(records_at(1, 1, NoOpRecord()), committed=2)
        await comes_about(lambda: (segments(node), node.ends_of_snapshots()) == ([2], [2]))
        assert not node.fatal
        await node.close()
        again = VoterOnDisk(tmp_path / "log")
        again.raft.start()
        again.follow(records_at(2, 1, NoOpRecord()), committed=3)
        await again.applied(3)
        assert not again.fatal
        await again.close()

    story(told)


def segments(node: VoterOnDisk) -> list[int]:
    return sorted(int(path.stem) for path in node.store.directory.glob("*.log"))
