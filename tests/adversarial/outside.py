"""Looks at the cluster from outside, and what cannot be in what they show.

In:   ZooKeeper and the brokers; what clients were told (load.py).
Out:  sentences that name a violation, none when all is as it has to be.
Nothing of the product's reading of ZooKeeper is used: the client is the laboratory's, the JSON is parsed here.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.zookeeper import ZooKeeperClient
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.security import DescribeAclsRequest, DescribeAclsResponse
from migrator.wire.messages.topics import MetadataRequest, MetadataResponse
from tests.adversarial.ledger import ABSENT, Entry, settled, wrong
from tests.adversarial.load import ACL_RESOURCES, Acl, Load, Snapshot
from tests.e2e.support import wait_for

AGREED_S: Final = 45.0
"""A topic that a controller was deleting when it went is deleted by the next one; a broker may have just come back."""
ASK_S: Final = 10.0
EPOCH_LOOK_S: Final = 0.01
PREFIX: Final = "storm"
ANY, TOPIC, LITERAL = 1, 2, 3


@dataclass
class Observation:
    """What one place showed. partitions: of the load's topics.   ids: of topics that have one there."""

    where: str
    partitions: dict[str, int]
    acls: set[Acl]
    ids: dict[str, str] = field(default_factory=dict)


@dataclass
class Outside:
    """ids: by topic and life; a topic that has another one was made again by somebody."""

    cluster: LabCluster
    load: Load
    ids: dict[tuple[str, int], str] = field(default_factory=dict)

    def wait_as_told(self) -> None:
        """Fails with the first violation of now that stays.

        Brokers hear of changes a moment later, so under load one or the other is always behind with something.
        """
        staying = set(self.violations())

        def why_not() -> str | None:
            nonlocal staying
            staying = staying and staying & set(self.violations())
            return min(staying, default=None)

        wait_for(why_not, "ZooKeeper and the brokers have what was acknowledged", deadline_s=AGREED_S)

    def violations(self) -> Iterator[str]:
        before = self.load.snapshot()
        observations = [self._zookeeper(), *asyncio.run(self._brokers())]
        after = self.load.snapshot()
        topics, acls = settled(before.topics, after.topics), settled(before.acls, after.acls)
        for observation in observations:
            for name, count, entry in wrong(topics, observation.partitions):
                yield f"{observation.where}: topic {name} has {count} partitions, and clients were told {entry}"
            for acl, here, entry in wrong(acls, dict.fromkeys(observation.acls, 1)):
                yield f"{observation.where}: of ACL {acl} there is {here}, and clients were told {entry}"
            yield from self._not_following(observation, after)
        yield from self._other_ids(observations[0], topics)
        yield from self.load.producers.violations
        yield from map(repr, self.load.faults())

    @staticmethod
    def _not_following(observation: Observation, told: Snapshot) -> Iterator[str]:
        yield from (
            f"{observation.where}: nobody made topic {name}"
            for name in observation.partitions.keys() - told.topics.keys()
        )
        yield from (f"{observation.where}: nobody made ACL {acl}" for acl in observation.acls - told.acls.keys())

    def _other_ids(self, observation: Observation, topics: Mapping[str, Entry]) -> Iterator[str]:
        for name, id_ in observation.ids.items():
            entry = topics.get(name)
            if entry is None or ABSENT in entry.possible:
                continue
            known = self.ids.setdefault((name, entry.life), id_)
            if known != id_:
                yield f"topic {name} had the id {known} and has {id_}: somebody made it again"

    # --- ZooKeeper -----------------------------------------------------------------------------------------

    def _zookeeper(self) -> Observation:
        zk = self.cluster.zk
        going = set(zk.children("/admin/delete_topics"))
        found = {
            name: json.loads(data)
            for name in zk.children("/brokers/topics")
            if name.startswith(PREFIX) and name not in going and (data := zk.read(f"/brokers/topics/{name}"))
        }
        return Observation(
            "ZooKeeper",
            {name: len(each["partitions"]) for name, each in found.items()},
            {acl for resource in ACL_RESOURCES for acl in _acls_of(zk, resource)},
            {name: each["topic_id"] for name, each in found.items()},
        )

    # --- brokers -------------------------------------------------------------------------------------------

    async def _brokers(self) -> list[Observation]:
        running = [broker for broker in self.cluster.brokers if broker.is_running]
        return [await _broker(f"broker {each.broker_id}", each.spec.port) for each in running]


def _acls_of(zk: ZooKeeperClient, resource: str) -> Iterator[Acl]:
    data = zk.read(f"/kafka-acl/Topic/{resource}")
    for each in json.loads(data)["acls"] if data else []:
        yield resource, each["principal"]


async def _broker(where: str, port: int) -> Observation:
    connection = BrokerConnection(HOST, port, "outside")
    try:
        metadata = await connection.ask(MetadataRequest(None, False), 12, MetadataResponse, ASK_S)
        asked = DescribeAclsRequest(TOPIC, None, LITERAL, None, None, ANY, ANY)
        acls = await connection.ask(asked, 3, DescribeAclsResponse, ASK_S)
    except (OSError, EOFError) as error:
        return Observation(f"{where} ({error})", {}, set())
    finally:
        connection.close()
    topics = {each.name: len(each.partitions) for each in metadata.topics if each.name and each.name.startswith(PREFIX)}
    found = {(each.resource_name, entry.principal) for each in acls.resources for entry in each.acls}
    return Observation(where, topics, {acl for acl in found if acl[0] in ACL_RESOURCES})


class EpochWatch:
    """Looks at `/controller_epoch` all the time; `violations` says where it did not grow.

    Its client is its own, so that nothing else that is read delays it.
    """

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="epoch-watch", daemon=True)
        self.highest = -1
        self.values = 0
        self.violations: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EPOCH_LOOK_S):
            try:
                data = self._read("/controller_epoch")
            except FindingError:
                continue
            self._note(-1 if data is None else int(data))

    def _note(self, epoch: int) -> None:
        if epoch < self.highest:
            self.violations.append(f"/controller_epoch was {self.highest} and is {epoch}")
        self.values += epoch > self.highest
        self.highest = max(self.highest, epoch)


def figures(load: Load, watch: EpochWatch) -> dict[str, Any]:
    """Numbers of a run."""
    return {
        "answers": dict(sorted(load.tally.items())),
        "producer ids": load.producers.count,
        "blocks of producer ids": load.producers.blocks,
        "highest producer id": load.producers.highest,
        "controller epochs": watch.values,
        "topics made": sum(entry.life for entry in load.snapshot().topics.values()),
    }
