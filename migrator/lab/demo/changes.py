"""What an administrator does to the demo's cluster in dual-write, and how soon ZooKeeper has it.

In:   a cluster in dual-write with traffic.
Out:  for each change: seconds until the brokers acknowledged it, and until it was to be seen in ZooKeeper.
Elsewhere: whether it arrived unharmed (the audit, the outside reader).
Everything goes through the brokers that clients know, as with any cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    NewPartitions,
    NewTopic,
    ResourceType,
)

from migrator.findings.laboratory import DEMO_STOPPED
from migrator.lab.admin import ADMIN_TIMEOUT_S, alter_configs
from migrator.lab.cluster import LabCluster
from migrator.lab.traffic.control import Traffic

SEEN_DEADLINE_S: Final = 30.0
CREATED: Final = "demo-created"
MORE_PARTITIONS: Final = 2
RECREATED_MARK: Final = "re-created"


class DemoChange(msgspec.Struct, frozen=True):
    """acknowledged_s: until the brokers said it was done. in_zookeeper_s: from then on until ZooKeeper showed it."""

    what: str
    acknowledged_s: float
    in_zookeeper_s: float


class DemoChanges:
    """topics: of the cluster; the last one is deleted, the one before re-created, the first one grows."""

    def __init__(self, cluster: LabCluster, traffic: Traffic, topics: list[str], partitions: int) -> None:
        self._cluster = cluster
        self._traffic = traffic
        self._partitions = partitions
        self.grown, self.recreated, self.deleted = topics[0], topics[-2], topics[-1]

    def run(self) -> Iterator[DemoChange]:
        """Make them one after the other."""
        old = self._topic_id(self.recreated)
        yield self._created(CREATED)
        yield self._deleted(self.deleted)
        yield self._deleted(self.recreated)
        self._traffic.mark(RECREATED_MARK)
        yield self._created(self.recreated)
        assert self._topic_id(self.recreated) != old, "a new topic has a new id"
        more = self._partitions + MORE_PARTITIONS
        yield self._timed(
            f"topic {self.grown} has {more} partitions", lambda: self._grow(more), lambda: self._why_not(more)
        )
        yield self._configured(ResourceType.TOPIC, self.grown, "retention.ms", "86400000")
        broker = str(self._cluster.brokers[-1].broker_id)
        yield self._configured(ResourceType.BROKER, broker, "log.cleaner.backoff.ms", "16000")

    def _timed(self, what: str, change: Callable[[], None], why_not_seen: Callable[[], str | None]) -> DemoChange:
        began = time.monotonic()
        change()
        acknowledged = time.monotonic()
        seen = self._cluster.laboratory.wait(why_not_seen, name=what, deadline_s=SEEN_DEADLINE_S, poll_every_s=0.002)
        return DemoChange(what, round(acknowledged - began, 3), round(seen, 3))

    def _created(self, topic: str) -> DemoChange:
        """With a configuration of its own; the traffic writes to it at once."""
        admin, factor = self._cluster.admin(), min(3, len(self._cluster.brokers))
        new = NewTopic(topic, self._partitions, factor, config={"max.message.bytes": "2000000"})
        made = self._timed(
            f"topic {topic} created",
            lambda: _finish(admin.create_topics([new])),
            lambda: None if self._topic_id(topic) else f"{topic} is not in ZooKeeper",
        )
        self._traffic.add(topic)
        return made

    def _deleted(self, topic: str) -> DemoChange:
        """After the traffic has nothing under way to it."""
        self._traffic.drop(topic)
        path = f"/brokers/topics/{topic}"
        return self._timed(
            f"topic {topic} deleted",
            lambda: _finish(self._cluster.admin().delete_topics([topic])),
            lambda: f"{topic} is still in ZooKeeper" if self._cluster.zk.exists(path) else None,
        )

    def _grow(self, partitions: int) -> None:
        _finish(self._cluster.admin().create_partitions([NewPartitions(self.grown, partitions)]))

    def _configured(self, kind: ResourceType, name: str, key: str, value: str) -> DemoChange:
        path = f"/config/{kind.name.lower()}s/{name}"
        admin = self._cluster.admin_for(kind, name)  # connected before the change is timed

        def change() -> None:
            with _stopping_the_demo(name):
                alter_configs(admin, kind, name, {key: value})

        def why_not() -> str | None:
            found = self._document(path).get("config", {}).get(key)
            return None if found == value else f"{key} is {found} in ZooKeeper"

        return self._timed(f"{kind.name.lower()} {name}: {key}={value}", change, why_not)

    # --- ZooKeeper -----------------------------------------------------------------------------------------

    def _document(self, path: str) -> dict[str, Any]:
        data = self._cluster.zk.read(path)
        return dict(json.loads(data)) if data else {}

    def _topic_id(self, topic: str) -> str | None:
        return self._document(f"/brokers/topics/{topic}").get("topic_id")

    def _why_not(self, partitions: int) -> str | None:
        found = len(self._document(f"/brokers/topics/{self.grown}").get("partitions", {}))
        return None if found == partitions else f"{self.grown} has {found} partitions in ZooKeeper"


def _finish(futures: dict[Any, Any]) -> None:
    """Wait for an administrator's requests. Raises Z2K-6018 with the broker's own words."""
    for what, future in futures.items():
        with _stopping_the_demo(what):
            future.result(ADMIN_TIMEOUT_S)


@contextmanager
def _stopping_the_demo(what: object) -> Iterator[None]:
    """A request that failed raises Z2K-6018 with the broker's own words."""
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        said = str(error) or f"no answer in {ADMIN_TIMEOUT_S:.0f} s"
        reason = f"an administrator's request for {what} failed: {said}"
        raise DEMO_STOPPED.error(phase="DUAL_WRITE", reason=reason) from error
