"""The same story for every controller: what an administrator does to a cluster in dual-write, step by step.

In:   a cluster in dual-write, a recorder on its taps.
Out:  frames labelled with the step that caused them; each step ends when its effect has arrived everywhere.
Elsewhere: bringing the cluster there (stock.py).
Assignments are given, never chosen by a controller, and the order is fixed: two controllers that run this script on
equal clusters must send equal decisions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from migrator.lab.admin import ADMIN_TIMEOUT_S, by_new_clients
from migrator.lab.cluster import LabCluster
from migrator.lab.frames import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, Direction, Frame, Recorder
from migrator.lab.servers.tools import elect_preferred_leaders, reassign

SETTLE_DEADLINE_S: Final = 180.0
QUIET_S: Final = 3.0
TOPICS_PER_REQUEST: Final = 200
"""What a ZooKeeper controller creates well within the request timeout."""

TOPICS: Final = 4
PARTITIONS: Final = 3
CREATED: Final = "created-in-dual-write"
CHANGED_CONFIG: Final = ("retention.ms", "3600001")
MORE_PARTITIONS: Final = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How large the cluster's content is. At least 2 topics: one is deleted, another one grows."""

    topics: int = TOPICS
    partitions: int = PARTITIONS

    def __post_init__(self) -> None:
        assert min(self.topics - 1, self.partitions) >= 1, f"too small for the script: {self}"

    @property
    def names(self) -> list[str]:
        return [f"lab-{number:05}" for number in range(self.topics)]

    @property
    def deleted(self) -> str:
        return self.names[0]

    @property
    def grown(self) -> str:
        return self.names[1]


class ChangeScript:
    """The script. `run` does all steps; each step is also a method."""

    def __init__(self, cluster: LabCluster, recorder: Recorder, plan: Plan) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self.plan = plan
        self.steps: list[tuple[str, float]] = []
        self._brokers = [broker.broker_id for broker in cluster.brokers]

    def run(self) -> None:
        steps: list[tuple[str, Callable[[], None]]] = [
            ("create-topic", self.create_topic),
            ("delete-topic", self.delete_topic),
            ("add-partitions", self.add_partitions),
            ("change-config", self.change_config),
            ("stop-broker", self.stop_broker),
            ("start-broker", self.start_broker),
            ("elect-leaders", self.elect_leaders),
            ("drop-replica", self.drop_replica),
        ]
        for label, step in steps:
            self.begin(label)
            step()
        self.begin("end")

    def begin(self, label: str) -> None:
        """From now on frames belong to this step."""
        self.recorder.label = label
        self.steps.append((label, time.time()))

    def create_initial_topics(self) -> None:
        """The content that the migration finds."""
        names = self.plan.names
        for first in range(0, len(names), TOPICS_PER_REQUEST):
            self._create(names[first : first + TOPICS_PER_REQUEST])
        self.cluster.wait_isr_whole(names, SETTLE_DEADLINE_S)

    def create_topic(self) -> None:
        self._create([CREATED])
        self._wait_told(UPDATE_METADATA, CREATED, self._brokers)
        self.cluster.wait_isr_whole([CREATED], SETTLE_DEADLINE_S)

    def delete_topic(self) -> None:
        topic = self.plan.deleted
        self._ask(lambda admin: admin.delete_topics([topic]), f"{topic} is deleted")
        self._wait_told(STOP_REPLICA, topic, self._brokers_of(self.plan.names.index(topic)))
        self._wait_told(UPDATE_METADATA, topic, self._brokers)
        self._wait(lambda: f"{topic} is still in ZooKeeper" if self._in_zookeeper(topic) else None, topic)

    def add_partitions(self) -> None:
        topic, before = self.plan.grown, self.plan.partitions
        added = [self._replicas(1, before + number) for number in range(MORE_PARTITIONS)]
        total = before + MORE_PARTITIONS
        more = NewPartitions(topic, total, replica_assignment=added)
        self._ask(lambda admin: admin.create_partitions([more]), f"{topic} has {total} partitions")
        self._wait_told(UPDATE_METADATA, topic, self._brokers)
        self.cluster.wait_isr_whole([topic], SETTLE_DEADLINE_S)

    def change_config(self) -> None:
        """Brokers hear of it through ZooKeeper alone, so that is where its effect is waited for."""
        topic, (key, value) = self.plan.grown, CHANGED_CONFIG
        self.cluster.alter_configs(ResourceType.TOPIC, topic, {key: value})

        def why_not() -> str | None:
            data = self.cluster.zk.read(f"/config/topics/{topic}")
            config = json.loads(data)["config"] if data else {}
            return None if config.get(key) == value else f"{key} is {config.get(key)} in ZooKeeper"

        self._wait(why_not, topic)

    def stop_broker(self) -> None:
        """The last broker leaves in good order: its leaderships move, the others are told."""
        leaver = self.cluster.brokers[-1]
        leaver.stop()
        stayers = [broker for broker in self._brokers if broker != leaver.broker_id]
        self._wait_told(UPDATE_METADATA, self.plan.grown, stayers)
        self._wait(lambda: f"{leaver.name} is still in an ISR" if self._is_in_an_isr(leaver.broker_id) else None, "ISR")

    def start_broker(self) -> None:
        returner = self.cluster.brokers[-1]
        returner.start()
        returner.wait_ready()
        self._wait_told(LEADER_AND_ISR, self.plan.grown, [returner.broker_id])
        self.cluster.wait_isr_whole(self._topics(), SETTLE_DEADLINE_S)
        self._wait_quiet()

    def elect_leaders(self) -> None:
        """Leadership goes back to each partition's first replica; whoever is elsewhere is told to everybody."""
        moving = [topic for topic in self._topics() if self._is_badly_led(topic)]
        elect_preferred_leaders(self.cluster.laboratory, self.cluster.bootstrap_servers)
        self._wait(self._why_not_preferred, "preferred leaders")
        for topic in moving:
            self._wait_told(UPDATE_METADATA, topic, self._brokers)

    def drop_replica(self) -> None:
        """One partition loses its last replica by reassignment, which ends with a StopReplica that deletes."""
        topic, replicas = self.plan.grown, self._replicas(1, 0)
        reassign(self.cluster.laboratory, self.cluster.bootstrap_servers, {(topic, 0): replicas[:-1]})
        self._wait_told(STOP_REPLICA, topic, replicas[-1:])
        self._wait_told(LEADER_AND_ISR, topic, replicas[:-1])
        self._wait_told(UPDATE_METADATA, topic, self._brokers)
        self.cluster.wait_isr_whole([topic], SETTLE_DEADLINE_S)

    def _create(self, names: Iterable[str]) -> None:
        topics = [_new_topic(name, self._assignment(name)) for name in names]
        self._ask(
            lambda admin: admin.create_topics(topics, operation_timeout=ADMIN_TIMEOUT_S),
            f"{len(topics)} topics are created",
        )

    def _ask(self, ask: Callable[[AdminClient], dict[Any, Any]], what: str) -> None:
        """An administrator's request, by whichever client connects; raises the broker's own error."""
        by_new_clients(self.cluster.new_admin, lambda admin: _finish(ask(admin)), what, deadline_s=2 * ADMIN_TIMEOUT_S)

    def _assignment(self, name: str) -> list[list[int]]:
        number = self.plan.names.index(name) if name in self.plan.names else self.plan.topics
        return [self._replicas(number, partition) for partition in range(self.plan.partitions)]

    def _replicas(self, topic: int, partition: int) -> list[int]:
        """Up to three brokers, the first one going round with topic and partition."""
        count = len(self._brokers)
        return [self._brokers[(topic + partition + n) % count] for n in range(min(3, count))]

    def _brokers_of(self, topic: int) -> list[int]:
        replicas = (self._replicas(topic, partition) for partition in range(self.plan.partitions))
        return sorted({broker for each in replicas for broker in each})

    def _topics(self) -> list[str]:
        return [*(name for name in self.plan.names if name != self.plan.deleted), CREATED]

    def _in_zookeeper(self, topic: str) -> bool:
        return self.cluster.zk.exists(f"/brokers/topics/{topic}")

    def _states(self, *topics: str) -> Iterable[tuple[list[int], dict[str, Any]]]:
        """Replicas and state of every partition (of these topics), as ZooKeeper has them."""
        for topic in topics or self._topics():
            data = self.cluster.zk.read(f"/brokers/topics/{topic}")
            for partition, replicas in json.loads(data or b'{"partitions": {}}')["partitions"].items():
                state = self.cluster.partition_state(topic, int(partition))
                if state is not None:
                    yield replicas, state

    def _is_in_an_isr(self, broker: int) -> bool:
        return any(broker in state["isr"] for _, state in self._states())

    def _is_badly_led(self, topic: str) -> bool:
        return any(state["leader"] != replicas[0] for replicas, state in self._states(topic))

    def _why_not_preferred(self) -> str | None:
        waiting = sum(state["leader"] != replicas[0] for replicas, state in self._states())
        return f"{waiting} partitions are led by another replica" if waiting else None

    def _wait(self, why_not: Callable[[], str | None], name: str) -> None:
        self.cluster.laboratory.wait(why_not, name=name, deadline_s=SETTLE_DEADLINE_S, poll_every_s=0.05)

    def _wait_quiet(self) -> None:
        """Until nobody has been told anything for a moment: the end of what a returner is told has no other sign."""
        deadline, seen = time.monotonic() + SETTLE_DEADLINE_S, -1
        while time.monotonic() < deadline and (now := len(self.recorder.frames())) != seen:
            seen = now
            time.sleep(QUIET_S)

    def _wait_told(self, api_key: int, topic: str, brokers: Iterable[int]) -> None:
        """Wait until each of these brokers got such a request that names the topic, in this step."""
        label = self.recorder.label
        for broker in brokers:
            tap = f"broker-{broker}"

            def tells(frame: Frame, tap: str = tap) -> bool:
                is_request = frame.direction is Direction.REQUEST and frame.api_key == api_key
                return is_request and frame.tap == tap and frame.label == label and frame.names(topic)

            what = f"a request of api {api_key} naming {topic} to {tap} in {label}"
            self.recorder.wait_for(tells, what=what, deadline_s=SETTLE_DEADLINE_S)


def _new_topic(name: str, assignment: list[list[int]]) -> Any:
    return NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)


def _finish(futures: dict[Any, Any]) -> None:
    """Wait for all answers to a request; raises the broker's own error."""
    for future in futures.values():
        future.result(ADMIN_TIMEOUT_S)
