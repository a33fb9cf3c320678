"""Kafka's own tool and ours read the same records of `__remote_log_metadata` (R-405-01)."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from migrator.audit.tiered.reader import read_remote_log
from migrator.lab.servers.laboratory import Laboratory
from migrator.wire.messages.remote_log import RemoteLogSegmentMetadataRecord, RemoteLogSegmentMetadataUpdateRecord

REAL = Path(__file__).parents[1] / "support/tiered"
STATED = re.compile(r"id=(?P<id>[\w-]{22})\}.*state=(?P<state>[A-Z_]+)")


def test_kafka_s_own_tool_reads_the_same_segments_and_states(laboratory: Laboratory) -> None:
    for number in range(3):
        (file,) = (REAL / f"__remote_log_metadata-{number}").glob("*.log")
        dumped = laboratory.tool(
            "kafka.tools.DumpLogSegments", "--remote-log-metadata-decoder", "--print-data-log", "--files", str(file)
        )
        by_kafka = [(each["id"], each["state"]) for line in dumped.splitlines() if (each := STATED.search(line))]
        ours = [
            (_text(each.segment.id), STATES[each.state])
            for each in read_remote_log(file.parent)
            if isinstance(each, (RemoteLogSegmentMetadataRecord, RemoteLogSegmentMetadataUpdateRecord))
        ]
        assert by_kafka == ours, dumped[:2_000]
        assert len(ours) > 50


STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
