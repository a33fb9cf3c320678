"""Reading a quorum over its sockets, from a stand-in that answers Fetch from a list of batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.audit.live_log import LiveLog, fetch_into, read_live
from migrator.audit.log_plan import plan_log
from migrator.audit.log_source import CommittedRecords
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import TopicRecord
from migrator.wire.records import encode_record
from tests.support.builders import an_id
from tests.support.fetch_stand_in import EPOCH, a_controller


def a_batch(offset: int, *names: str) -> bytes:
    values = [encode_record(TopicRecord(name=name, topic_id=an_id(name)), 0) for name in names]
    return build_batch(base_offset=offset, leader_epoch=EPOCH, timestamp_ms=0, values=values)


def names(addresses: str) -> list[str]:
    return [each.name for each in read_live(addresses, CommittedRecords()) if isinstance(each, TopicRecord)]


def test_the_leader_is_found_among_the_addresses_and_read_to_its_end() -> None:
    batches = a_batch(0, "a", "b"), a_batch(2, "c")
    with a_controller(*batches) as leader, a_controller(*batches, leads=False) as follower:
        assert names(f"{follower.address}, {leader.address}") == ["a", "b", "c"]


def test_what_is_not_committed_yet_is_left_out() -> None:
    with a_controller(a_batch(0, "a", "b"), a_batch(2, "c")) as leader:
        leader.high_watermark = 2
        assert names(leader.address) == ["a", "b"]


def test_after_a_lost_connection_the_next_address_goes_on_and_repeats_nothing() -> None:
    batches = [a_batch(offset, f"t{offset}") for offset in range(5)]
    with a_controller(*batches, hangs_up_after=4) as first, a_controller(*batches) as second:
        assert names(f"{first.address},{second.address}") == [f"t{offset}" for offset in range(5)]


def test_no_leader_is_not_read_and_says_why() -> None:
    with (
        a_controller(a_batch(0, "a"), leads=False) as follower,
        pytest.raises(FindingError, match=r"Z2K-5001.*does not lead"),
    ):
        names(follower.address)


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:1", ""])
def test_an_address_that_is_none_or_does_not_answer_is_not_read(address: str) -> None:
    with pytest.raises(FindingError, match="Z2K-5001"):
        names(address)


def test_a_live_log_becomes_segments_that_each_look_continues(tmp_path: Path) -> None:
    with a_controller(a_batch(0, "a", "b")) as leader:
        live = LiveLog(leader.address)
        fetch_into(tmp_path, live)
        assert plan_log(tmp_path).offset == 1
        fetch_into(tmp_path, live)
        assert [each.name for each in tmp_path.iterdir()] == [f"{0:020d}.log"]
        leader.batches.append(a_batch(2, "c"))
        leader.high_watermark = 3
        fetch_into(tmp_path, live)
        assert plan_log(tmp_path).offset == 2
        assert len(list(tmp_path.iterdir())) == 2


def test_a_log_that_grows_with_every_answer_is_read_up_to_where_it_began(tmp_path: Path) -> None:
    """A busy cluster commits faster than it is read: this reading once had no end."""
    batches = [a_batch(number, f"t{number}") for number in range(50)]
    with a_controller(*batches) as leader:
        leader.high_watermark = 3
        leader.before_answer = lambda: setattr(leader, "high_watermark", min(50, leader.high_watermark + 1))
        live = LiveLog(leader.address)
        fetch_into(tmp_path, live)
        assert live.next_offset < 10
        fetch_into(tmp_path, live)
        assert live.next_offset < 20
