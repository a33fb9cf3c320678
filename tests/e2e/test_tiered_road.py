"""A tiered cluster in dual-write and back at once: every copied segment is where it was (R-405-05, R-405-07).

The longer stories, to the end and back from the soak: `python -m tests.adversarial.end_of_road --only
tiered,tiered_back`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from migrator.lab.ours import PROGRAM
from migrator.lab.servers.artifacts import Artifacts, with_remote_store
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.road_stage import NAME
from tests.e2e.tiered_road import AGAIN, COMMAND_S, TieredStage, produce
from tests.e2e.tiered_stage import RECORDS, TIERED_TOPIC, records_from_0

pytestmark = pytest.mark.lab

CONDITION: Final = "controllers' files have tiered storage as brokers' have"


@pytest.fixture
def laboratory(tmp_path: Path, kafka_artifacts: Artifacts) -> Iterator[Laboratory]:
    with Laboratory(tmp_path / "lab", with_remote_store(kafka_artifacts)) as opened:
        yield opened
    assert opened.processes.running == []


def condition(stage: TieredStage) -> tuple[str, str]:
    """Of the gate of ROLLING_BROKERS: status and message."""
    gates = stage.service.view(stage.migration)["gates"]
    conditions = [each for edge in gates if edge["to"] == "ROLLING_BROKERS" for each in edge["conditions"]]
    return next(((each["status"], each["message"]) for each in conditions if each["name"] == CONDITION), ("", ""))


def test_dual_write_and_a_rollback_leave_every_copied_segment_where_it_was(laboratory: Laboratory) -> None:
    stage = TieredStage(laboratory)
    stage.to_dual_write()
    both = (*stage.zookeeper, "--kraft", str(stage.fleet.ours[0].metadata_log))
    stage.cluster.create_topics(["made-in-dual-write"], partitions=1, config=TIERED_TOPIC)
    produce(stage, AGAIN, bytes(1_000), 100)
    stage.assert_kept(stage.before, *both, what="DUAL_WRITE")
    stage.service.wait_gate(stage.migration, "ROLLING_BROKERS")
    assert condition(stage) == ("True", "brokers [0, 1, 2] have it, and the controllers too")

    # a controller's file that lost the line closes it, and the line again opens it
    file = stage.fleet.ours[1].properties_file
    whole = file.read_text()
    file.write_text(whole.replace("remote.log.storage.system.enable=true\n", ""))
    assert file.read_text() != whole
    named = f"{file} of controller {stage.fleet.ours[1].spec.node_id} does not set"
    stage.wait_view(lambda view: None if any(named in each["says"] for each in view["findings"]) else "not named")
    assert condition(stage)[0] == "False"
    file.write_text(whole)
    stage.service.wait_gate(stage.migration, "ROLLING_BROKERS")

    in_dual_write = stage.keep("in-dual-write", *both)
    stage.service.operation(stage.migration, "rollback")
    stage.service.wait_phase(stage.migration, "ROLLED_BACK")
    produce(stage, AGAIN, bytes(1_000), 100)
    stage.assert_kept(stage.before, *stage.zookeeper, what=f"{NAME}, since the beginning")
    stage.assert_kept(in_dual_write, *stage.zookeeper, what=f"{NAME}, since dual-write")
    assert records_from_0(stage.cluster) == list(range(RECORDS))
    command = [sys.executable, *PROGRAM, "check", "-z", stage.cluster.zookeeper_connect]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert "5 tiered topics (docs/tiered-storage.md" in ran.stdout, ran
    print(ran.stdout)
    command = [sys.executable, *PROGRAM, "log", "tiered", str(stage.copied()), *stage.zookeeper]
    for words in ([], ["--against", str(in_dual_write)]):
        print(subprocess.run([*command, *words], capture_output=True, text=True, check=True).stdout)
