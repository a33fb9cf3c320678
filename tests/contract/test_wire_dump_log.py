"""Our metadata records and batches as Kafka's own tool reads them, field by field and by name.

kio has no metadata records, so here stock is the second implementation: we write a log segment with arbitrary records
of every type and version, and kafka-dump-log, which reads with the classes of stock controllers, prints it as JSON.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from migrator.lab.servers.artifacts import KAFKA_VERSION, LATER_KAFKA_VERSION, kafka_artifacts
from migrator.lab.servers.tools import dump_log_segments
from migrator.wire.batch import ControlRecord, build_batch, build_control_batch
from migrator.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordVoter,
)
from migrator.wire.messages.metadata import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    RegisterBrokerRecord,
    UnregisterControllerRecord,
)
from migrator.wire.messages.shared import KRaftVersionFeature, RaftEndpoint
from migrator.wire.primitives import uuid_text
from migrator.wire.records import RECORD_TYPES, encode_record
from migrator.wire.schema import ARRAY, UUID, Message, Part, Sized, Slot, WireType, declaration_of, slots_of
from tests.unit.wire.arbitrary_messages import arbitrary, every_version

RECORDS_EACH = 12
NOW_MS = 1_700_000_000_123
TOOL_TIMEOUT_S = 120

VOTER = VotersRecordVoter(3, bytes(range(16)), (RaftEndpoint("CONTROLLER", "h", 9093),), KRaftVersionFeature(0, 1))
CONTROL_RECORDS: tuple[ControlRecord, ...] = (
    LeaderChangeMessage(0, 3, (LeaderChangeVoter(1), LeaderChangeVoter(3)), (LeaderChangeVoter(3),)),
    SnapshotHeaderRecord(0, NOW_MS),
    SnapshotFooterRecord(),
    KRaftVersionRecord(0, 1),
    VotersRecord(0, (VOTER,)),
)


OF_LATER_KAFKA: dict[type[Message], int] = {
    RegisterBrokerRecord: 4,
    BrokerRegistrationChangeRecord: 3,
    ClearElrRecord: 0,
    UnregisterControllerRecord: 0,
}
"""Versions that 3.9 does not know."""


def lines_of_stock(segment: Path, release: str = KAFKA_VERSION) -> list[str]:
    artifacts = kafka_artifacts(release)
    command = [
        artifacts.java.path, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", artifacts.class_path,
        dump_log_segments(artifacts), "--cluster-metadata-decoder", "--files", str(segment),
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, timeout=TOOL_TIMEOUT_S, check=True)
    return ended.stdout.decode().splitlines()


@pytest.mark.lab
@pytest.mark.parametrize("release", [KAFKA_VERSION, LATER_KAFKA_VERSION])
def test_stock_reads_every_record_as_we_meant_it(tmp_path: Path, release: str) -> None:
    chance = random.Random("kafka-dump-log")
    records = [
        (arbitrary(chance, message, version), version)
        for message, version in every_version(iter(RECORD_TYPES.values()))
        if release != KAFKA_VERSION or version < OF_LATER_KAFKA.get(message, 99)
        for _ in range(RECORDS_EACH)
    ]
    values = [encode_record(record, version) for record, version in records]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build_batch(base_offset=0, leader_epoch=1, timestamp_ms=NOW_MS, values=values))

    lines = lines_of_stock(segment, release)
    assert any("isvalid: true" in line for line in lines)
    read = [json.loads(line.split("payload: ", 1)[1]) for line in lines if "payload: " in line]
    assert len(read) == len(records)
    for (record, version), stock in zip(records, read, strict=True):
        assert stock["type"].replace("_", "") == type(record).__name__.upper()
        assert stock["version"] == version
        agree(record, stock["data"], version, type(record).__name__)


@pytest.mark.lab
def test_stock_reads_every_control_record_as_we_meant_it(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(
        b"".join(
            build_control_batch(base_offset=offset, leader_epoch=1, timestamp_ms=NOW_MS, records=[record])
            for offset, record in enumerate(CONTROL_RECORDS)
        )
    )
    lines = lines_of_stock(segment)
    assert sum("isControl: true" in line and "isvalid: true" in line for line in lines) == len(CONTROL_RECORDS)
    shown = [line for line in lines if line.startswith("| offset: ")]
    assert "controlType: LEADER_CHANGE(2)" in shown[0]
    for record, line in zip(CONTROL_RECORDS[1:], shown[1:], strict=True):
        agree(record, json.loads(line[line.index("{") :]), 0, declaration_of(record).name)


# --- do they say the same? ----------------------------------------------------------------------------------


def agree(ours: Part, stock: dict[str, Any], version: int, path: str) -> None:
    """Every field by its name; stock leaves tagged fields out where they hold their default."""
    names = set()
    for slot in slots_of(type(ours)):
        if slot.field.exists_in(version) and not is_ours(slot):
            names.add(stock_name(slot.name))
            shown = stock.get(stock_name(slot.name), default_as_stock_shows_it(slot.default))
            meant = as_stock_shows_it(slot.field.type, getattr(ours, slot.name), version)
            assert meant == shown, f"{path}.{slot.name}"
    assert set(stock) <= names, path


def is_ours(slot: Slot) -> bool:
    """Tags so high are not Kafka's: its readers skip what we say with them."""
    return slot.field.tag is not None and slot.field.tag > 10_000


def as_stock_shows_it(wire_type: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    match wire_type:
        case ARRAY():
            return [as_stock_shows_it(wire_type.element, element, version) for element in value]
        case _ if wire_type is UUID:
            return uuid_text(value)
        case Sized(name="bytes"):
            return base64.b64encode(value).decode()
        case type():
            return shown_part(value, version)
        case _:
            return value


def shown_part(part: Message | Part, version: int) -> dict[str, Any]:
    return {
        stock_name(slot.name): as_stock_shows_it(slot.field.type, getattr(part, slot.name), version)
        for slot in slots_of(type(part))
        if slot.field.exists_in(version)
    }


def default_as_stock_shows_it(default: Any) -> Any:
    return [] if default == () else default


def stock_name(name: str) -> str:
    first, *others = name.replace("kraft", "k_raft").split("_")
    return first + "".join(other.capitalize() for other in others)
