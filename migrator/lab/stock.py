"""A migration from beginning to dual-write and a few changes in it, recorded: the yardstick for other controllers.

In:   `python -m migrator.lab.stock --dir D [--topics N] [--partitions P]`, or `record_migration` with any controller.
Out:  in D: every LeaderAndIsr, StopReplica and UpdateMetadata that brokers were sent and answered, as `<n>.bin`, and
      `index.json`: when, to which broker, in which step, api key, version, type.
Elsewhere: the steps in dual-write (changes.py), reading the frames (frames.py, and our codec).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from migrator.findings.finding import FindingError
from migrator.lab.changes import PARTITIONS, SETTLE_DEADLINE_S, TOPICS, ChangeScript, Plan
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.frames import CONTROLLER_REQUESTS, LEADER_AND_ISR, UPDATE_METADATA, ControlType, Frame, Recorder
from migrator.lab.servers.laboratory import Laboratory

DUAL_WRITE_DEADLINE_S: Final = 180.0


class ControllerUnderTest(Protocol):
    """A quorum that can take a cluster over: Kafka's own, or another one to be compared with it."""

    @property
    def voters(self) -> str:
        """`controller.quorum.voters`, known before it starts: brokers need it to get ready."""

    def start(self) -> None:
        """Start every controller; returns when they answer."""

    def wait_dual_write(self, deadline_s: float) -> float:
        """Return when both sides are written and every broker has been sent its full state."""

    def stop(self) -> None: ...


MakeController = Callable[[LabCluster], ControllerUnderTest]
"""Makes the controller for a running ZooKeeper cluster, in that cluster's laboratory; does not start it."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded, and how long the parts took. `index` is the path of index.json."""

    index: Path
    frames: list[Frame]
    seconds: dict[str, float]


def stock_quorum(cluster: LabCluster) -> ControllerUnderTest:
    """One stock controller."""
    return cluster.quorum(1)


NOBODY_ELSE_MOVES: Final = {"auto.leader.rebalance.enable": "false"}
"""Seconds after a restart the ZooKeeper controller gives leaderships back by itself, in the middle of the script."""


def record_migration(
    laboratory: Laboratory,
    directory: Path,
    plan: Plan,
    make_controller: MakeController = stock_quorum,
    brokers: int = 3,
) -> Recording:
    """Run the script on a new cluster in `laboratory` and save what brokers were sent to `directory`."""
    recorder = Recorder(keep=CONTROLLER_REQUESTS)
    cluster = LabCluster(laboratory, brokers=brokers, recorder=recorder, extra=NOBODY_ELSE_MOVES)
    changes = ChangeScript(cluster, recorder, plan)
    clock = _Clock()

    changes.begin("zookeeper")
    cluster.start()
    clock.lap("cluster")
    changes.create_initial_topics()
    clock.lap("topics")

    controller = make_controller(cluster)
    changes.begin("migration-mode")
    cluster.restart_as(lambda spec: spec.as_migrating(controller.voters))
    cluster.wait_isr_whole(plan.names, SETTLE_DEADLINE_S)
    clock.lap("migration_mode")

    changes.begin("takeover")
    controller.start()
    clock.lap("controller")
    controller.wait_dual_write(DUAL_WRITE_DEADLINE_S)
    _wait_told_everything(recorder, cluster)
    clock.lap("dual_write")

    changes.run()
    clock.lap("changes")
    controller.stop()
    index = recorder.save(directory, _about(cluster, changes, plan, clock.seconds))
    return Recording(index, recorder.frames(), clock.seconds)


def _wait_told_everything(recorder: Recorder, cluster: LabCluster) -> None:
    """Every broker of the script hosts partitions, so each is sent a full request of both kinds."""
    for broker in cluster.brokers:
        for api_key in (LEADER_AND_ISR, UPDATE_METADATA):

            def is_full(frame: Frame, tap: str = broker.name, api_key: int = api_key) -> bool:
                return frame.tap == tap and frame.api_key == api_key and frame.control_type is ControlType.FULL

            what = f"a full request of api {api_key} to {broker.name}"
            recorder.wait_for(is_full, what=what, deadline_s=SETTLE_DEADLINE_S)


def _about(cluster: LabCluster, changes: ChangeScript, plan: Plan, seconds: dict[str, float]) -> dict[str, Any]:
    """The head of the index: enough to read the frames without the cluster."""
    brokers = [
        {
            "id": broker.broker_id,
            "tap": broker.name,
            "port": broker.spec.port,
            "advertised": broker.spec.advertised_port,
        }
        for broker in cluster.brokers
    ]
    return {
        "about": "payload of each frame without its 4-byte length; api keys 4 LeaderAndIsr, 5 StopReplica, "
        "6 UpdateMetadata",
        "kafka": cluster.laboratory.artifacts.version,
        "cluster_id": cluster.cluster_id,
        "topics": plan.topics,
        "partitions": plan.partitions,
        "brokers": brokers,
        "steps": [{"label": label, "began": began} for label, began in changes.steps],
        "seconds": seconds,
    }


class _Clock:
    """Seconds from lap to lap."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = round(now - self._last, 2)
        self._last = now


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m migrator.lab.stock", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, required=True, help="where the frames and index.json go")
    parser.add_argument("--topics", type=int, default=TOPICS, help="topics before the migration")
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="partitions of each topic")
    chosen = parser.parse_args(arguments)
    plan = Plan(chosen.topics, chosen.partitions)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="zk2kraft-stock-") as work,
            Laboratory(Path(work), prepared()) as laboratory,
        ):
            recording = record_migration(laboratory, chosen.dir, plan)
    except FindingError as error:
        print(error, error.occurrence.finding.remedy, sep="\n", file=sys.stderr)
        return 1
    print(f"{len(recording.frames)} frames in {recording.index.parent}; seconds: {recording.seconds}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
