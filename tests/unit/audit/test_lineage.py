"""Leader epochs beside those of copied segments (R-405-04): a real broker's checkpoints, and made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.audit.tiered.lineage import (
    END,
    Copied,
    EpochRange,
    highest_copied,
    is_of,
    not_covered,
    read_checkpoint,
    read_lineages,
)
from migrator.audit.tiered.segments import check_remote_segments
from migrator.findings.finding import FindingError
from tests.unit.audit.test_remote_segments import BIG, GONE, REAL

PLAIN = "X159B-84RfezBpifkCTLug"
HISTORY = [EpochRange(0, 0, 100), EpochRange(2, 100, 250), EpochRange(5, 250, END)]


def test_a_real_broker_answers_the_same_for_its_latest_tiered_offset() -> None:
    """ListOffsets -5 of t-plain-0 was 986 of epoch 2, with 0 to 264, 2 to 1002 and 4 behind it as epochs."""
    found = check_remote_segments([REAL], broker=REAL / "b1").partitions
    copied = {(each.topic, each.topic_id, each.partition): (each.copied, each.copied_epoch) for each in found}
    assert copied == {
        ("t-big", BIG, 0): (3886, 2),
        ("t-del", GONE, 0): (-1, -1),
        ("t-del", "oBXG9dbBRTW95_Zshw_Ddw", 0): (54, 0),
        ("t-one", "uNa88z3nRU2sIEz49HjBhA", 0): (145, 2),
        ("t-plain", PLAIN, 0): (986, 2),
        ("t-plain", PLAIN, 1): (1184, 1),
    }
    assert not [each.problems for each in found if each.problems]
    assert read_lineages(REAL / "b1")[PLAIN, 0] == [
        EpochRange(0, 0, 264),
        EpochRange(2, 264, 1002),
        EpochRange(4, 1002, END),
    ]
    assert (PLAIN, 0) in read_lineages(REAL / "b2")


@pytest.mark.parametrize(
    ("copied", "expected"),
    [
        ([], None),
        ([EpochRange(0, 0, 50)], Copied(49, 0)),
        ([EpochRange(0, 0, 100), EpochRange(2, 100, 120)], Copied(119, 2)),
        # a leader of epoch 2 that lost its leadership had copied more than was kept of that epoch
        ([EpochRange(0, 0, 100), EpochRange(2, 100, 300)], Copied(249, 2)),
        # of an epoch that this history does not have: an unclean election
        ([EpochRange(0, 0, 100), EpochRange(1, 100, 130)], Copied(99, 0)),
        ([EpochRange(1, 0, 130)], None),
    ],
)
def test_a_new_leader_looks_from_its_newest_epoch_backwards(copied: list[EpochRange], expected: Copied | None) -> None:
    assert highest_copied(HISTORY, copied) == expected


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        ([EpochRange(0, 0, 100), EpochRange(2, 100, 150)], []),
        ([EpochRange(0, 10, 40), EpochRange(0, 40, 100), EpochRange(2, 100, 150)], []),
        ([EpochRange(0, 0, 40), EpochRange(0, 60, 100)], [EpochRange(0, 40, 60)]),
        ([EpochRange(0, 0, 90), EpochRange(2, 100, 150)], [EpochRange(2, 90, 100)]),
        # what another history copied covers nothing of this one
        ([EpochRange(0, 0, 100), EpochRange(1, 100, 200), EpochRange(2, 200, 250)], [EpochRange(2, 100, 200)]),
        ([EpochRange(0, 0, 100), EpochRange(0, 20, 60), EpochRange(2, 100, 150)], []),
    ],
)
def test_what_no_segment_has_of_this_history_is_named(finished: list[EpochRange], expected: list[EpochRange]) -> None:
    assert list(not_covered(HISTORY, finished)) == expected


def test_a_segment_of_another_history_is_told_from_one_of_this() -> None:
    assert is_of(HISTORY, EpochRange(2, 200, 260))
    assert not is_of(HISTORY, EpochRange(2, 250, 260))
    assert not is_of(HISTORY, EpochRange(1, 100, 130))


@pytest.mark.parametrize(
    "text", ["", "1\n1\n0 0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n2\n2 0\n1 5\n", "0\n2\n1 9\n2 5\n", "0\n1\nx 0\n"]
)
def test_a_checkpoint_that_kafka_would_not_read_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_text(text)
    with pytest.raises(FindingError, match=f"Z2K-5001.*{file.name}"):
        read_checkpoint(file)


def test_a_broker_s_directory_without_partitions_is_named(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match=r"Z2K-5001.*no partition"):
        read_lineages(tmp_path)
    with pytest.raises(FindingError, match=r"Z2K-5001.*no partition"):
        read_lineages(tmp_path / "nowhere")


def test_an_empty_checkpoint_is_a_partition_that_nobody_wrote_to(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert read_checkpoint(tmp_path / "leader-epoch-checkpoint") == []
