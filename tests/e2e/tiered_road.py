"""The road of a tiered cluster, and what `zk2kraft log tiered` says of it at each point.

In:   a laboratory. Out:  `TieredStage`: as `RoadStage`, with a report of before the migration, and comparisons with it.
Elsewhere: the cluster's tiered topic (tiered_stage.py), the stories (tests/adversarial/stories_tiered.py).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from migrator.lab.ours import PROGRAM
from migrator.lab.servers.artifacts import with_remote_store
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from tests.e2e.road_stage import CONTROLLER_SETTINGS, RoadStage
from tests.e2e.support import wait_for
from tests.e2e.tiered_stage import SYSTEM, TIERED_TOPIC, fill_history, tiered_settings

AGAIN: Final = "made-again"
METADATA: Final = "__remote_log_metadata"
FINISHED: Final = "COPY_SEGMENT_FINISHED"
SETTLES_S: Final = 120.0
COMMAND_S: Final = 900.0


class TieredStage(RoadStage):
    """Every topic of the traffic is tiered, and rolls a segment at least every ten seconds."""

    topic_config: Mapping[str, str] = {**TIERED_TOPIC, "min.insync.replicas": "2", "segment.ms": "10000"}
    controller_settings: Mapping[str, Value] = {**CONTROLLER_SETTINGS, SYSTEM: True}

    def __init__(self, laboratory: Laboratory) -> None:
        laboratory.artifacts = with_remote_store(laboratory.artifacts)
        self.store = laboratory.directory / "remote"
        super().__init__(laboratory, broker_extra=tiered_settings(self.store, replicas=3))
        self._copies = 0
        self.zookeeper = ("-z", self.cluster.zookeeper_connect)

    def before_traffic(self) -> None:
        fill_history(self.cluster, self.store)
        self.cluster.create_topics([AGAIN], partitions=1, config=TIERED_TOPIC)
        produce(self, AGAIN, bytes(1_000), 100)

    def before_service(self) -> None:
        """Brokers are still on their own."""
        wait_for(lambda: None if self.has_copied(AGAIN) else "nothing", f"{AGAIN} is copied", SETTLES_S)
        self.before = self.keep("before", *self.zookeeper)

    def has_copied(self, topic: str) -> bool:
        return any(self.store.glob(f"*/{topic}-0-*/*.log"))

    # --- what the product says of tiered storage ---

    def copied(self) -> Path:
        """A copy of a running broker's partitions of the topic, as an operator makes it."""
        self._copies += 1
        target = self.laboratory.directory / f"copy-{self._copies}"
        for each in sorted((self.cluster.brokers[0].directory / "data-0").glob(f"{METADATA}-*")):
            shutil.copytree(each, target / each.name)
        return target

    def tiered(self, *words: str) -> tuple[int, Any]:
        """Exit code and document of `zk2kraft log tiered --json` for a new copy."""
        command = [sys.executable, *PROGRAM, "log", "tiered", str(self.copied()), "--json", *words]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        assert ran.returncode in (0, 1), (command, ran.returncode, ran.stderr)
        return ran.returncode, json.loads(ran.stdout)

    def keep(self, name: str, *words: str) -> Path:
        """What was there by now, as a file."""
        _, document = self.tiered(*words)
        file = self.laboratory.directory / f"{name}.json"
        file.write_text(json.dumps(document))
        print(f"{name}: {said(document)}", flush=True)
        return file

    def assert_kept(self, file: Path, *words: str, what: str) -> None:
        """Everything of that file is still there, in the topic and in the store."""
        latest: list[Any] = []

        def why_not() -> str | None:
            code, document = self.tiered("--against", str(file), *words)
            latest[:] = [document]
            others = [each for each in document["differences"] if each["kind"] != "topic id"]
            assert not others, others
            return None if code == 0 else f"{document['differences']}"

        wait_for(why_not, f"{what}: deletions have begun", SETTLES_S)
        (document,) = latest
        parts = document["partitions"]
        counts = {key: sum(each[key] for each in parts) for key in ("same", "went_on", "deleted", "new")}
        print(f"{what}: {document['compared']} segments compared: {counts}", flush=True)
        assert counts["same"] + counts["went_on"] == document["compared"]
        assert counts["new"] > 0, "records were copied meanwhile"
        gone = {each["topic"] for each in parts if each["deleted"]}
        assert gone <= {AGAIN}, gone
        self.assert_stored(json.loads(file.read_bytes()), except_topics=gone)

    def assert_stored(self, document: Any, except_topics: set[str]) -> None:
        """The store has a file of that size for each finished segment."""
        for partition in document["partitions"]:
            if partition["topic"] in except_topics:
                continue
            place = f"{partition['topic']}-{partition['partition']}-{partition['topic_id']}"
            for each in partition["segments"]:
                if each["state"] == FINISHED:
                    name = f"{each['start']:020}-{each['segment']}.log"
                    (found,) = self.store.rglob(f"{place}/{name}")
                    assert found.stat().st_size == each["bytes"], found


def said(document: Any) -> str:
    states: dict[str, int] = {}
    for partition in document["partitions"]:
        for state, count in partition["states"].items():
            states[state] = states.get(state, 0) + count
    return f"{document['records']} records, {states}"


def produce(stage: TieredStage, topic: str, value: bytes, count: int) -> None:
    """Batches of at most ten records: a segment ends between two batches."""
    settings = {"bootstrap.servers": stage.cluster.bootstrap_servers, "acks": "all", "batch.num.messages": 10}
    producer = Producer(settings)
    for _ in range(count):
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0
