"""What administrators do to a KRaft cluster, and what breaks meanwhile: one step after the other, as the seed says.

In:   a cluster, a seed. Out: `Story.step`: does one thing; how often what ended how.
Elsewhere: traffic, and what has to hold at the end (kraft_brokers.py).
The same seed gives the same story to two clusters, as far as their answers are the same. Requests go to any broker.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.kraft import KraftCluster
from migrator.lab.servers.broker import BrokerProcess
from migrator.lab.servers.ports import HOST
from migrator.model.values import ConfigType
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaOp,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.wire.messages.raft import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from migrator.wire.schema import Message

ANSWER_S: Final = 20.0
LEADER_S: Final = 30.0
RETENTION_MS: Final = (86_400_000, 172_800_000)
"""Longer than any story: what retention deletes looks like a loss."""
WHOLE_S: Final = 120.0
DOWN_S: Final = 2.0
"""How long whoever was killed stays away."""

REPLICAS: Final = 3
PARTITIONS_MAX: Final = 8
TROUBLE: Final = (KafkaException, FindingError, OSError, EOFError)

SomeMessage = TypeVar("SomeMessage", bound=Message)


class Story:
    """load: topics that traffic writes to, which only move and are never deleted."""

    def __init__(self, cluster: KraftCluster | LabCluster, load: list[str], seed: int) -> None:
        self.cluster = cluster
        self.load = load
        self.tally: Counter[str] = Counter()
        self._chance = Random(f"{seed} story")
        self._made = 0
        self._topics: dict[str, int] = {}
        self._acls: list[AclBinding] = []
        self._users: list[str] = []
        self._steps: list[tuple[int, Callable[[], None]]] = [
            (8, self.create_topic),
            (4, self.delete_topic),
            (4, self.grow_topic),
            (6, self.configure_topic),
            (3, self.configure_brokers),
            (5, self.move_replicas),
            (4, self.elect_preferred),
            (5, self.allow),
            (4, self.disallow),
            (4, self.limit_client),
            (4, self.change_scram),
            (2, self.kill_leader),
            (2, self.restart_broker),
            (1, self.kill_broker),
            (2, self.pause_leader_to_be),
        ]

    def step(self) -> str:
        """One step; its name. What was refused or not answered is counted and is no failure of the story."""
        weights = [weight for weight, _ in self._steps]
        (chosen,) = self._chance.choices([step for _, step in self._steps], weights)
        try:
            chosen()
            self.tally[f"{chosen.__name__} done"] += 1
        except TROUBLE as error:
            self.tally[f"{chosen.__name__} not done: {type(error).__name__} {str(error)[:60]}"] += 1
        return chosen.__name__

    def deleted(self) -> list[str]:
        """Topics of the story that it has deleted, or asked to delete."""
        return [name for number in range(self._made) if (name := f"story-{number}") not in self._topics]

    # --- topics --------------------------------------------------------------------------------------------

    def create_topic(self) -> None:
        name, partitions = f"story-{self._made}", self._chance.randint(1, 5)
        self._made += 1
        admin = self.cluster.admin()
        self._topics[name] = partitions
        _finish(admin.create_topics([NewTopic(name, partitions, REPLICAS)]))

    def delete_topic(self) -> None:
        if self._topics:
            name = self._chance.choice(sorted(self._topics))
            del self._topics[name]
            admin = self.cluster.admin()
            _finish(admin.delete_topics([name]))

    def grow_topic(self) -> None:
        small = sorted(name for name, count in self._topics.items() if count < PARTITIONS_MAX)
        if small:
            name = self._chance.choice(small)
            self._topics[name] += 1
            admin = self.cluster.admin()
            _finish(admin.create_partitions([NewPartitions(name, self._topics[name])]))

    def configure_topic(self) -> None:
        key, value = self._chance.choice(
            [
                ("retention.ms", str(self._chance.randrange(*RETENTION_MS))),
                ("max.message.bytes", str(self._chance.randrange(500_000, 2_000_000))),
                ("segment.bytes", str(self._chance.randrange(1 << 20, 1 << 24))),
            ]
        )
        self._configure(ConfigType.TOPIC, self._chance.choice(self.load), key, value)

    def configure_brokers(self) -> None:
        """All of them; librdkafka knows no resource without a name."""
        self._configure(ConfigType.BROKER, "", "message.max.bytes", str(self._chance.randrange(2_000_000, 3_000_000)))

    def _configure(self, kind: ConfigType, name: str, key: str, value: str) -> None:
        change = IncrementalAlterableConfig(key, 0, value)
        request = IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(kind, name, (change,)),))
        _refused(self._ask(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code)

    # --- leaders and replicas ------------------------------------------------------------------------------

    def move_replicas(self) -> None:
        """The same brokers in another order: another preferred leader; or two of them, and later three again."""
        brokers = [broker.broker_id for broker in self.cluster.brokers]
        self._chance.shuffle(brokers)
        topic = self._chance.choice([*self.load, *sorted(self._topics)])
        count = REPLICAS if topic in self.load else self._chance.choice([2, REPLICAS])
        moves = (ReassignablePartition(0, tuple(brokers[:count])),)
        request = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(topic, moves),))
        answer = self._ask(request, 0, AlterPartitionReassignmentsResponse)
        _refused(answer.error_code)

    def elect_preferred(self) -> None:
        request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
        _refused(self._ask(request, 2, ElectLeadersResponse).error_code)

    # --- people --------------------------------------------------------------------------------------------

    def allow(self) -> None:
        self._made += 1
        user = f"User:somebody-{self._made}"
        acl = AclBinding(
            ResourceType.TOPIC,
            self._chance.choice(["left", "right"]),
            ResourcePatternType.LITERAL,
            user,
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        self._acls.append(acl)
        admin = self.cluster.admin()
        _finish(admin.create_acls([acl]))

    def disallow(self) -> None:
        if self._acls:
            acl = self._acls.pop(self._chance.randrange(len(self._acls)))
            which = AclBindingFilter(
                acl.restype,
                acl.name,
                acl.resource_pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            admin = self.cluster.admin()
            _finish(admin.delete_acls([which]))

    def limit_client(self) -> None:
        entity = ClientQuotaEntity("client-id", f"client-{self._chance.randrange(5)}")
        remove = self._chance.random() < 0.3
        op = ClientQuotaOp("producer_byte_rate", 0.0 if remove else float(self._chance.randrange(10**6, 10**7)), remove)
        request = AlterClientQuotasRequest((AlterClientQuotasEntry((entity,), (op,)),))
        _refused(self._ask(request, 1, AlterClientQuotasResponse).entries[0].error_code)

    def change_scram(self) -> None:
        admin = self.cluster.admin()
        if self._users and self._chance.random() < 0.4:
            user = self._users.pop()
            _finish(
                admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)])
            )
            return
        self._made += 1
        user = f"person-{self._made}"
        self._users.append(user)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        _finish(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"secret")]))

    # --- what breaks ---------------------------------------------------------------------------------------

    def kill_leader(self) -> None:
        """kill -9 of the active controller, which comes back a moment later."""
        assert isinstance(self.cluster, KraftCluster), "who leads another cluster is for its own story to know"
        leader = self._active()
        controller = next(each for each in self.cluster.controllers if each.spec.node_id == leader)
        controller.kill()
        time.sleep(DOWN_S)
        controller.start()
        controller.wait_ready()
        self.cluster.wait_isr_whole(self.load, WHOLE_S)

    def restart_broker(self) -> None:
        broker = self._chance.choice(self.cluster.brokers)
        broker.stop()
        broker.start()
        broker.wait_ready()
        self.cluster.wait_isr_whole(self.load, WHOLE_S)

    def away_s(self, _: BrokerProcess) -> float:
        """How long this broker stays away once it was killed."""
        return DOWN_S

    def kill_broker(self) -> None:
        """kill -9, and back when its session has ended: a broker that comes earlier has to wait for that."""
        broker = self._chance.choice(self.cluster.brokers)
        broker.kill()
        time.sleep(self.away_s(broker))
        broker.start()
        broker.wait_ready()
        self.cluster.wait_isr_whole(self.load, WHOLE_S)

    def pause_leader_to_be(self) -> None:
        """A broker that hangs is made the leader of new partitions: others ask it before it has heard of them."""
        paused, other, third = self._chance.sample(self.cluster.brokers, REPLICAS)
        name = f"story-{self._made}"
        self._made += 1
        replicas = (paused.broker_id, other.broker_id, third.broker_id)
        assignments = tuple(CreatableReplicaAssignment(each, replicas) for each in range(PARTITIONS_MAX))
        request = CreateTopicsRequest(
            topics=(CreatableTopic(name, -1, -1, assignments=assignments),), timeout_ms=10_000
        )
        paused.pause()
        try:
            answer = self._ask(request, 7, CreateTopicsResponse, other.spec.port)
            time.sleep(DOWN_S)
        finally:
            paused.resume()
        _refused(answer.topics[0].error_code)
        self._topics[name] = PARTITIONS_MAX
        self.cluster.wait_isr_whole([*self.load, name], WHOLE_S)

    def _active(self) -> int:
        """Raises OSError when nobody says who leads the quorum."""
        topic = DescribeQuorumTopic("__cluster_metadata", (DescribeQuorumPartition(0),))
        began = time.monotonic()
        while time.monotonic() - began < LEADER_S:
            answer = self._ask(DescribeQuorumRequest(topics=(topic,)), 1, DescribeQuorumResponse)
            if answer.topics and answer.topics[0].partitions[0].leader_id >= 0:
                return answer.topics[0].partitions[0].leader_id
            time.sleep(0.2)
        raise OSError("nobody says who leads the quorum")

    def _ask(self, request: Message, version: int, response: type[SomeMessage], port: int | None = None) -> SomeMessage:
        """port: of a certain broker."""
        port = port or self._chance.choice(self.cluster.brokers).spec.port

        async def once() -> SomeMessage:
            connection = BrokerConnection(HOST, port, "adversary")
            try:
                return await connection.ask(request, version, response, ANSWER_S)
            finally:
                connection.close()

        return asyncio.run(once())


def _finish(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(ANSWER_S)


def _refused(code: int) -> None:
    if code:
        raise OSError(f"answered with error {code}")
