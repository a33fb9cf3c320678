"""A dual-write that stands still does not pass for ever: what ZooKeeper lacks for too long is a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.audit.compare import ExpectedDifferences
from migrator.audit.log_plan import plan_log
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import TOPIC_CONFIGS
from migrator.audit.quick import quick_audit
from migrator.audit.run import read_log
from migrator.audit.standstill import STANDS_STILL_MS, behind_ms
from migrator.model.image import NOWHERE, Position
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import ConfigRecord, NoOpRecord, RegisterBrokerRecord, TopicRecord
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.builders import an_id
from tests.unit.audit.test_busy_clusters import Busy

TOPIC = TopicRecord(name="a", topic_id=an_id("a"))
CLIENT_METRICS = ConfigRecord(resource_type=16, resource_name="m1", name="interval.ms", value="1000")


def a_log(directory: Path, *batches: tuple[int, Message]) -> Path:
    """Batches of one record, each with its time in seconds."""
    data = b""
    for offset, (at_s, record) in enumerate(batches):
        values = [encode_record(record, 0)]
        data += build_batch(base_offset=offset, leader_epoch=1, timestamp_ms=at_s * 1000, values=values)
    (directory / f"{0:020d}.log").write_bytes(data)
    return directory


@pytest.mark.parametrize(
    ("record", "mirrored", "expected"),
    [
        (TOPIC, 0, 300_000),
        (TOPIC, 1, 0),
        (NoOpRecord(), 0, 0),
        (RegisterBrokerRecord(broker_id=1), 0, 0),
        (CLIENT_METRICS, 0, 0),
        (ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"), 0, 300_000),
    ],
    ids=["lacks", "has it", "nothing", "a registration", "has no form in ZooKeeper", "a configuration"],
)
def test_the_age_of_the_oldest_record_that_zookeeper_should_have(
    record: Message, mirrored: int, expected: int, tmp_path: Path
) -> None:
    log = a_log(tmp_path, (50, NoOpRecord()), (100, record), (250, NoOpRecord()), (400, NoOpRecord()))
    for split_bytes in (1, 1 << 20):
        assert behind_ms(plan_log(log, split_bytes), mirrored) == expected
    assert read_log(str(log), mirrored, NOWHERE)[0].behind_ms == expected
    assert read_log(str(log))[0].behind_ms == 0, "nobody says that ZooKeeper follows"


@pytest.mark.parametrize(("behind", "exit_code"), [(STANDS_STILL_MS, 0), (STANDS_STILL_MS + 1, 1)])
def test_what_the_log_is_ahead_with_is_expected_for_two_minutes(behind: int, exit_code: int) -> None:
    """It passed for ever: six changes, or a deleted topic, that ZooKeeper never got."""
    busy = Busy()

    def read(low: int, wanted: Position) -> tuple[LogStates, Position]:
        states, position = busy.read_log(low, wanted)
        states.behind_ms = behind
        return states, position

    session = busy.ensemble.session()
    report = quick_audit(session, read, rules=ExpectedDifferences(4_000), settle_s=0, follows=True)
    assert report.exit_code == exit_code
    told = report.differences if exit_code else report.expected
    assert {(each.family, each.key) for each in told if each.family == TOPIC_CONFIGS} == {(TOPIC_CONFIGS, "t000001")}
