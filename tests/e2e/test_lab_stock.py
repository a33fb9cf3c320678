"""The stock migration is recorded whole: what brokers were sent, in which step, of which type."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.lab.changes import CREATED, Plan
from migrator.lab.frames import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControlType,
    Direction,
    Frame,
    load,
)
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.stock import record_migration

pytestmark = pytest.mark.lab

BROKERS = {"broker-0", "broker-1", "broker-2"}


@pytest.mark.long
def test_a_stock_migration_is_recorded_from_takeover_to_the_last_change(laboratory: Laboratory, tmp_path: Path) -> None:
    plan = Plan(topics=4, partitions=3)
    recording = record_migration(laboratory, tmp_path / "stock", plan)
    frames = recording.frames
    assert load(tmp_path / "stock") == frames

    def taps(label: str, api_key: int, kind: ControlType | None, topic: str = "") -> set[str]:
        """Which brokers were sent such a request in a step."""

        def fits(frame: Frame) -> bool:
            request = frame.direction is Direction.REQUEST and frame.api_key == api_key
            return request and frame.label == label and frame.control_type is kind and frame.names(topic)

        return {frame.tap for frame in frames if fits(frame)}

    assert taps("takeover", UPDATE_METADATA, ControlType.UNKNOWN) == BROKERS
    assert taps("takeover", LEADER_AND_ISR, ControlType.FULL, plan.grown) == BROKERS
    assert taps("takeover", UPDATE_METADATA, ControlType.FULL, plan.grown) == BROKERS
    assert taps("create-topic", LEADER_AND_ISR, ControlType.INCREMENTAL, CREATED) == BROKERS
    assert taps("create-topic", UPDATE_METADATA, ControlType.INCREMENTAL, CREATED) == BROKERS
    assert taps("delete-topic", STOP_REPLICA, None, plan.deleted) == BROKERS
    assert taps("add-partitions", LEADER_AND_ISR, ControlType.INCREMENTAL, plan.grown) == BROKERS
    assert taps("change-config", LEADER_AND_ISR, ControlType.INCREMENTAL) == set()
    assert {"broker-0", "broker-1"} <= taps("stop-broker", LEADER_AND_ISR, ControlType.INCREMENTAL)
    assert "broker-2" in taps("start-broker", LEADER_AND_ISR, ControlType.INCREMENTAL, plan.grown)
    assert taps("elect-leaders", LEADER_AND_ISR, ControlType.INCREMENTAL)
    assert taps("drop-replica", STOP_REPLICA, None, plan.grown) == {"broker-0"}

    index = json.loads(recording.index.read_text())
    assert index["kafka"] == laboratory.artifacts.version
    assert [step["label"] for step in index["steps"]][:4] == ["zookeeper", "migration-mode", "takeover", "create-topic"]
    assert all((tmp_path / "stock" / entry["file"]).stat().st_size == entry["bytes"] for entry in index["frames"])
    # every request of the controller was answered, or its broker was going down
    requests = [frame for frame in frames if frame.direction is Direction.REQUEST]
    assert len(frames) - len(requests) >= len(requests) - 6
