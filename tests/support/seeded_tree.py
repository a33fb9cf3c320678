"""A cluster's tree in a plain ZooKeeper, without brokers: as big as a test wants it, in Kafka's own bytes.

In:   a session on an empty ZooKeeper (or chroot), or one in memory, and how many topics and partitions.
Out:  topics `t000000`, `t000001`, ... with partitions, states and configurations; broker configurations by id and for
      all brokers; a block of producer ids; three registered brokers.
Every value depends on the numbers alone, so two trees of the same size are equal.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from migrator.zk.multi import Create, Multi
from migrator.zk.session import PendingMulti, ZkSession
from tests.support.fake_zookeeper import FakeEnsemble

REPLICAS, LEADER_EPOCHS = 3, 101
"""Of a varied tree."""

OPERATIONS_PER_MULTI = 500
MULTIS_IN_FLIGHT = 16

ROOTS = (
    "/admin/delete_topics",
    "/brokers/ids",
    "/brokers/topics",
    "/cluster",
    "/config/brokers",
    "/config/changes",
    "/config/clients",
    "/config/ips",
    "/config/topics",
    "/config/users",
)


@dataclass(frozen=True)
class SeededTree:
    """What to seed. broker_configs: by znode name, which is `<default>` for all brokers."""

    topics: int = 3
    partitions: int = 2
    brokers: tuple[int, ...] = (1, 2, 3)
    broker_configs: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {"<default>": {"log.cleaner.threads": "2"}, "1": {"log.cleaner.threads": "3"}}
    )
    producer_block_end: int = 5_999
    controller_epoch: int = 1
    security: Mapping[str, bytes] = field(default_factory=dict)
    """Znodes of quotas, credentials, ACLs and tokens, parents first: `EVERY_SECURITY_FAMILY`, or none."""
    varied: bool = False
    """Replicas and leader epochs differ, as they do after years; else all partitions say the same."""

    def name(self, number: int) -> str:
        return f"t{number:06d}"

    def topic_ids(self) -> dict[str, bytes]:
        return {self.name(each): an_id(self.name(each)) for each in range(self.topics)}

    def creates(self) -> Iterator[Create]:
        """Every znode below `ROOTS`, parents first."""
        yield from self._cluster()
        for number in range(self.topics):
            yield from self._topic(number)

    def seed(self, session: ZkSession) -> None:
        for root in ROOTS:
            session.ensure_path(root)
        waiting: deque[PendingMulti] = deque()
        remaining = self.creates()
        while chunk := tuple(islice(remaining, OPERATIONS_PER_MULTI)):
            waiting.append(session.send(Multi(chunk)))
            if len(waiting) > MULTIS_IN_FLIGHT:
                assert waiting.popleft().outcome().applied
        assert all(each.outcome().applied for each in waiting)

    def plant(self, ensemble: FakeEnsemble) -> None:
        """The same in memory."""
        for root in ROOTS:
            ensemble.create(root)
        for each in self.creates():
            ensemble.create(each.path, each.data)

    def _cluster(self) -> Iterator[Create]:
        yield Create("/cluster/id", b'{"version":"1","id":"AAAAAAAAQAqAAAAAAAAAAA"}')
        yield Create("/controller_epoch", str(self.controller_epoch).encode())
        block = {"version": 1, "broker": 1, "block_start": str(self.producer_block_end - 999)}
        yield Create("/latest_producer_id_block", _json({**block, "block_end": str(self.producer_block_end)}))
        for broker in self.brokers:
            yield Create(f"/brokers/ids/{broker}", _json(_registration(broker)))
        for name, values in self.broker_configs.items():
            yield Create(f"/config/brokers/{name}", config_json(values))
        for path, data in self.security.items():
            yield Create(path, data)

    def _topic(self, number: int) -> Iterator[Create]:
        name = self.name(number)
        first = number % len(self.brokers) if self.varied else 0
        replicas = (*self.brokers[first:], *self.brokers[:first])[:REPLICAS] if self.varied else self.brokers
        yield Create(f"/brokers/topics/{name}", topic_json(name, range(self.partitions), replicas))
        yield Create(f"/config/topics/{name}", config_json({"retention.ms": str(1_000 + number)}))
        yield Create(f"/brokers/topics/{name}/partitions", b"")
        for partition in range(self.partitions):
            yield Create(f"/brokers/topics/{name}/partitions/{partition}", b"")
            epoch = (7 * number + 13 * partition) % LEADER_EPOCHS if self.varied else 0
            state = state_json(replicas, replicas[0], epoch) if self.varied else state_json(self.brokers)
            yield Create(f"/brokers/topics/{name}/partitions/{partition}/state", state)


def an_id(name: str) -> bytes:
    """A stable 16-byte id, whose text begins with a letter."""
    return b"\x10" + hashlib.sha256(name.encode()).digest()[:15]


def id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


Moves = Mapping[str, list[int]]


def topic_json(
    name: str,
    partitions: range | list[int],
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    adding: Moves | None = None,
    removing: Moves | None = None,
) -> bytes:
    assignment = {str(each): list(replicas) for each in partitions}
    found = {"version": 3, "topic_id": id_text(an_id(name)), "partitions": assignment}
    return _json({**found, "adding_replicas": adding or {}, "removing_replicas": removing or {}})


def state_json(
    isr: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    leader_epoch: int = 0,
    recovery: int = 0,
    controller_epoch: int = 1,
) -> bytes:
    found = {
        "controller_epoch": controller_epoch,
        "leader": leader,
        "version": 1,
        "leader_epoch": leader_epoch,
        "isr": list(isr),
    }
    return _json({**found, "leader_recovery_state": recovery} if recovery else found)


def config_json(values: Mapping[str, str]) -> bytes:
    return _json({"version": 1, "config": dict(values)})


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


SALT, OTHER_SALT = "c2FsdCBvZiBhIHRlc3Q=", "b3RoZXIgc2FsdCBvZiBhIHRlc3Q="


def scram_text(salt: str = SALT) -> str:
    return f"salt={salt},stored_key=c3RvcmVkIGtleQ==,server_key=c2VydmVyIGtleQ==,iterations=4096"


def acls_json(*allowed: str, principal: str = "User:alice") -> bytes:
    entry = {"principal": principal, "permissionType": "Allow", "host": "*"}
    return _json({"version": 1, "acls": [{**entry, "operation": each} for each in allowed]})


def token_json(token: str, owner: str = "User%3Aowner-of-a-token") -> bytes:
    times = {"issueTimestamp": 1, "maxTimestamp": 3, "expiryTimestamp": 2}
    who = {"owner": owner, "tokenRequester": owner, "renewers": ["User%3Arenewer-of-a-token"]}
    return _json({"version": 3, **who, **times, "tokenId": token})


EVERY_SECURITY_FAMILY: Final[dict[str, bytes]] = {
    "/config/users/alice": config_json({"producer_byte_rate": "1024", "SCRAM-SHA-512": scram_text()}),
    "/config/users/alice/clients": b"",
    "/config/users/alice/clients/<default>": config_json({"request_percentage": "12.5"}),
    "/config/users/b%40b": config_json({"SCRAM-SHA-256": scram_text()}),
    "/config/users/<default>": config_json({"consumer_byte_rate": "9"}),
    "/config/clients/app": config_json({"controller_mutation_rate": "0.5"}),
    "/config/ips/<default>": config_json({"connection_creation_rate": "5"}),
    "/kafka-acl": b"",
    "/kafka-acl/Topic": b"",
    "/kafka-acl/Topic/*": acls_json("Read", "DescribeConfigs"),
    "/kafka-acl/Cluster": b"",
    "/kafka-acl/Cluster/kafka-cluster": acls_json("ClusterAction"),
    "/kafka-acl-extended": b"",
    "/kafka-acl-extended/prefixed": b"",
    "/kafka-acl-extended/prefixed/Group": b"",
    "/kafka-acl-extended/prefixed/Group/app-": acls_json("Read"),
    "/delegation_token": b"",
    "/delegation_token/tokens": b"",
    "/delegation_token/tokens/abc": token_json("abc"),
}
"""Each of quotas, credentials, ACLs and tokens, with the znodes above them, parents first."""


def _registration(broker: int) -> dict[str, Any]:
    return {
        "version": 5,
        "endpoints": [f"PLAINTEXT://127.0.0.1:{9090 + broker}"],
        "host": "127.0.0.1",
        "port": 9090 + broker,
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
        "jmx_port": -1,
        "timestamp": "1700000000000",
    }
