"""One cluster for many of stock's flaws: its tests run one after the other, and each leaves it as the next wants it.

In:   nothing; the cluster is made once for the module that asks for `stage`.
Out:  `Stage`: the cluster, the controller of ours, and what the tests do to both.
Brokers have AclAuthorizer, and whoever nobody said anything about may do everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.security import ACL, make_acl, make_digest_acl

from migrator.findings.finding import FindingError
from migrator.lab.admin import alter_configs
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.zk.multi import Multi, Operation
from migrator.zk.session import ZkSession
from tests.e2e.support import once, ready_cluster, spoil, unspoil, wait_for

TOPICS: Final = [f"topic-{number}" for number in range(3)]
BROKERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:nobody",
}
CONTROLLER: Final[dict[str, Value]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "zookeeper.session.timeout.ms": 60_000,
    "metadata.log.max.record.bytes.between.snapshots": 4_000,
    "metadata.max.retention.bytes": 20_000,
    "metadata.log.segment.bytes": 8_192,
}
"""Snapshots come early. A claim that is not settled yet outlives a kill until the next life, also on a busy machine."""
THROTTLED: Final = "follower.replication.throttled.replicas"
"""Its value may be long."""
SOMEBODY: Final = ("digest", "somebody:else")


Undo = Callable[[], None]


def _nothing() -> None: ...


@dataclass(slots=True)
class Stage:
    cluster: LabCluster
    controller: OurController
    directory: Path
    stopper: Undo = _nothing
    """Takes back what keeps the gate closed."""

    @property
    def stalled(self) -> Path:
        return self.directory / "stalled"

    @property
    def lost(self) -> Path:
        return self.directory / "lost"

    # --- our controller ------------------------------------------------------------------------------------

    def driver(self) -> dict[str, Any]:
        return dict(self.controller.status()["driver"])

    def wait_dual_write(self) -> None:
        self.controller.wait_dual_write()

    def wait_calm(self, moves: int) -> None:
        """Wait until the driver has moved since, and is in dual-write with nothing on its way to ZooKeeper."""

        def why_not() -> str | None:
            status = self.controller.status()
            driver = status["driver"]
            if len(self.controller.driver_states()) <= moves or driver["state"] != "DUAL_WRITE":
                return f"{driver['state']}: {driver['reason']}"
            lag = status["dual_write"]["lag_records"]
            return f"{lag} records behind" if lag else None

        wait_for(why_not, "ZooKeeper was compared and is written again")

    def again(self) -> None:
        """kill -9, and the next life up to dual-write."""
        self.controller.kill()
        self.controller.start()
        self.wait_dual_write()

    def moves(self) -> int:
        return len(self.controller.driver_states())

    def breaks(self) -> int:
        return sum(event.get("event") == "dual_write.broken" for event in self.controller.events())

    def refusals(self) -> int:
        """Answers with an error to what brokers were told."""
        return sum(event.get("event") == "broker.refused" for event in self.controller.events())

    @contextmanager
    def about_to_compare(self) -> Iterator[None]:
        """The next life of the controller leads, takes requests, and has neither read ZooKeeper nor told a broker."""
        go = self.directory / "go"
        go.unlink(missing_ok=True)
        self.stalled.unlink(missing_ok=True)
        spoil(self.controller, self.stalled, stall_before="reconcile", go=str(go))
        self.controller.start()
        wait_for(lambda: None if self.stalled.exists() else "not there yet", "it is about to compare")
        yield
        go.touch()
        self.wait_dual_write()
        unspoil(self.controller)

    def is_unfenced(self, broker: int) -> bool:
        return any(each["id"] == broker and not each["fenced"] for each in self.controller.status()["brokers"])

    def trim_log(self) -> None:
        """Change things until every segment on disk begins after now: the rest is in a snapshot."""
        now, turns = self.controller.status()["quorum"]["log_end"], count(1)

        def why_not() -> str | None:
            begins = min(int(segment.stem) for segment in self.controller.metadata_log.glob("*.log"))
            if begins >= now:
                return None
            turn = next(turns)
            long = ",".join(f"{turn}:{broker}" for broker in range(500))
            values = {THROTTLED: long}
            once(
                self.cluster.new_admin,
                lambda admin: alter_configs(admin, ResourceType.TOPIC, TOPICS[0], values),
                "a topic's configuration is changed",
            )
            return f"after {turn} changes the log begins at {begins}, not at {now}"

        wait_for(why_not, "what the log said is in a snapshot only")

    def wait_trouble(self, code: str, state: str) -> dict[str, Any]:
        """The driver says what holds it up, in its status and to Prometheus."""
        found: dict[str, Any] = {}

        def why_not() -> str | None:
            try:
                metrics = self.controller.metrics()
            except (OSError, ValueError, FindingError) as error:
                return str(error)
            named = f"zk2kraft_driver_finding{{{code}}}" in metrics
            driver = self.driver()
            found.update(driver["trouble"] or driver["finding"] or {})
            shown = named and f"zk2kraft_driver_state{{{state}}}" in metrics and found.get("code") == code
            return None if shown else str(driver)[:300]

        wait_for(why_not, f"{state} with {code}")
        return found

    def wait_gate_names(self, code: str) -> None:
        def why_not() -> str | None:
            gate = self.controller.status()["gate"]
            failed = [] if gate is None else [each for each in gate["conditions"] if each["status"] != "True"]
            return None if code in json.dumps(failed) else f"{self.driver()['reason']}"

        wait_for(why_not, f"the gate names {code}")

    def block(self, undo: Undo) -> None:
        """Something that closes the gate was done: only now may what closed it before go."""
        before, self.stopper = self.stopper, undo
        before()

    def asked(self, ask: Callable[[AdminClient], Future[Any]]) -> None:
        """An administrator's request, sent once, by a client that connects: one that was made before a broker died may
        wait for it.
        """
        once(self.cluster.new_admin, lambda admin: ask(admin).result(120), "an administrator is answered")

    # --- ZooKeeper behind everybody's back ------------------------------------------------------------------

    def change(self, *operations: Operation) -> None:
        with ZkSession(self.cluster.zookeeper_connect) as session:
            outcome = session.apply(Multi(operations))
            assert outcome.applied, outcome

    def json_at(self, path: str) -> dict[str, Any]:
        data = self.cluster.zk.read(path)
        assert data is not None, f"{path} does not exist"
        return dict(json.loads(data))

    def written(self, paths: list[str]) -> Mapping[str, tuple[int, int] | None]:
        """The transaction that last wrote each znode, and its version."""
        with ZkSession(self.cluster.zookeeper_connect) as session:
            found = session.get_many(paths)
            return {
                path: None if each is None else (each.mzxid, each.version)
                for path, each in zip(paths, found, strict=True)
            }

    def keep_from_us(self, path: str, *, readable: bool) -> Undo:
        """Only another identity may change the znode (or even read it), as on an ensemble with access lists."""
        own = make_digest_acl(*SOMEBODY[1].split(":"), all=True)
        others = [make_acl("world", "anyone", read=True)] if readable else []
        self._set_acls(path, [own, *others])
        return lambda: self._set_acls(path, [make_acl("world", "anyone", all=True)])

    def _set_acls(self, path: str, acls: list[ACL]) -> None:
        client = KazooClient(hosts=self.cluster.zookeeper_connect, auth_data=[SOMEBODY])
        client.start(timeout=60)
        try:
            client.set_acls(path, acls)
        finally:
            client.stop()
            client.close()

    # --- what brokers say -----------------------------------------------------------------------------------

    def named_by(self, servers: str) -> set[int]:
        """The brokers that these tell clients of."""
        return set(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=60).brokers)

    def topics_known_by(self, servers: str) -> set[str]:
        return set(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=60).topics)

    def partitions_known(self, topic: str) -> dict[int, set[int]]:
        """By broker: which partitions it tells clients of."""
        found = {}
        for broker in self.cluster.brokers:
            admin = AdminClient({"bootstrap.servers": broker.address})
            found[broker.broker_id] = set(admin.list_topics(topic, timeout=60).topics[topic].partitions)
        return found

    def why_not_known(self, topic: str, partitions: set[int]) -> str | None:
        """After a fail-over dual-write is entered when the full update left; a busy one applies it later."""
        known = self.partitions_known(topic)
        return None if all(each == partitions for each in known.values()) else f"known are {known}"

    def logs_of(self, topic: str, broker: int) -> list[str]:
        """Directories of its partitions on the broker's disk; those that were moved aside do not count."""
        found = self.cluster.brokers[broker].directory.glob(f"data-*/{topic}-*")
        return [path.name for path in found if path.name.removeprefix(f"{topic}-").isdigit()]


@contextmanager
def a_stage(laboratory: Laboratory, directory: Path) -> Iterator[Stage]:
    """Brokers that wait to migrate; the controller is not started."""
    with ready_cluster(laboratory, len(TOPICS), extra=CONTROLLER, broker_extra=BROKERS) as (cluster, controller):
        yield Stage(cluster, controller, directory)
