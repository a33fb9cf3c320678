"""Everything that ZooKeeper's content can hold against a migration: one offence each, and what has to be said of it.

In:   the tree of `TREE`, in a real ZooKeeper or in memory.
Out:  znodes that make one offence, the code of its finding, and the exact place that the finding names.
No two offences touch the same znode, so they can be planted all at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from migrator.findings.finding import Occurrence
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.session import ZkSession
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import (
    SeededTree,
    acls_json,
    an_id,
    config_json,
    id_text,
    scram_text,
    state_json,
    token_json,
    topic_json,
)

TREE: Final = SeededTree(topics=15, partitions=2)


@dataclass(frozen=True)
class Offence:
    """znodes: data by path, None for one that is removed. place: as `place_of` finds it in the occurrence."""

    code: str
    place: str
    znodes: dict[str, bytes | None]

    def __str__(self) -> str:
        return f"{self.code} {self.place}"


def place_of(found: Occurrence | dict[str, Any]) -> str:
    """The one value of a finding that says where: a path, or what its kind of finding names instead of one."""
    values = found.values if isinstance(found, Occurrence) else found
    return str(next((values[key] for key in _SAYS_WHERE if key in values), values))


_SAYS_WHERE: Final = ("path", "partition", "first", "broker", "brokers", "node", "found", "file")


def t(number: int) -> str:
    return TREE.name(number)


def _topic(number: int, **changes: Any) -> bytes:
    return json.dumps({**json.loads(topic_json(t(number), range(2))), **changes}).encode()


def _state(**changes: Any) -> bytes:
    return json.dumps({**json.loads(state_json()), **changes}).encode()


def a_registration(number: int, version: int = 5, rack: str | None = None) -> bytes:
    """A broker of /brokers/ids. Like Kafka's own, it has no key for a rack that it does not name."""
    endpoints = [f"PLAINTEXT://127.0.0.1:{19_090 + number % 10}"]
    found = {"version": version, "endpoints": endpoints, "host": "127.0.0.1", "port": 19_090}
    return json.dumps(found if rack is None else {**found, "rack": rack}).encode()


def _znode(code: str, path: str, data: bytes | None) -> Offence:
    return Offence(code, path, {path: data})


_BAD_NAME: Final = "orders of today"
_ALIKE: Final = ("orders.eu", "orders_eu")
_LOCAL: Final = "/config/brokers/2"
_RACKS: Final = {4: "a", 5: "a", 6: "b"}

OFFENCES: Final = (
    _znode("Z2K-1001", paths.topic_config(t(0)), b"not json"),
    _znode("Z2K-1001", paths.state(t(0), 0), b"{"),
    _znode("Z2K-1001", "/config/clients/app", config_json({"producer_byte_rate": "a thousand"})),
    _znode("Z2K-1001", "/config/users/alice", config_json({"producer_bite_rate": "1"})),
    _znode("Z2K-1001", "/config/users/bob/clients/x", config_json({"consumer_byte_rate": "1.5"})),
    _znode("Z2K-1001", "/config/ips/10.0.0.1", config_json({"request_percentage": "1"})),
    _znode("Z2K-1001", "/config/users/user@x", config_json({"producer_byte_rate": "1"})),
    _znode("Z2K-1001", "/config/users/carol", config_json({"SCRAM-SHA-256": scram_text()[:20]})),
    _znode("Z2K-1001", "/kafka-acl/Topic/broken", acls_json("Any")),
    _znode("Z2K-1001", "/delegation_token/tokens/broken", b"{}"),
    _znode("Z2K-1001", paths.PRODUCER_IDS, b'{"version":1,"broker":1,"block_start":"9","block_end":"1"}'),
    _znode("Z2K-1001", "/config/brokers/one", config_json({"log.cleaner.threads": "1"})),
    _znode("Z2K-1002", paths.topic(t(1)), b'{"version":1,"partitions":{"0":[1,2,3],"1":[1,2,3]}}'),
    _znode("Z2K-1003", paths.state(t(2), 1), None),
    Offence("Z2K-1005", "half-gone", {"/admin/delete_topics/half-gone": b""}),
    Offence("Z2K-1006", f"{t(3)}-0", {paths.topic(t(3)): _topic(3, adding_replicas={"0": [3]})}),
    Offence("Z2K-1007", "3", {"/brokers/ids/3": None}),
    Offence("Z2K-1008", f"{t(4)}-1", {paths.state(t(4), 1): state_json((1, 2))}),
    _znode("Z2K-1009", paths.state(t(5), 0), _state(leader_recovery_state=1)),
    _znode("Z2K-1010", _LOCAL, config_json({"listener.name.x.ssl.key.password": "secret"})),
    _znode("Z2K-1011", paths.topic_config("nobody"), config_json({"a": "b"})),
    _znode("Z2K-1015", paths.topic_config(t(13)), config_json({"min.insync.replicas": "4"})),
    Offence(
        "Z2K-1017",
        paths.topic_config("__consumer_offsets"),
        {
            paths.topic("__consumer_offsets"): topic_json("__consumer_offsets", range(1)),
            paths.state("__consumer_offsets", 0): state_json(),
        },
    ),
    _znode("Z2K-1030", paths.topic_config(t(6)), config_json({"retention.ms": "soon"})),
    Offence(
        "Z2K-1016",
        paths.topic(t(14)),
        {
            **{paths.broker_id(each): a_registration(each, rack=rack) for each, rack in _RACKS.items()},
            paths.topic(t(14)): _topic(14, partitions={"0": [4, 6], "1": [4, 5]}),
            paths.state(t(14), 0): state_json((4, 6), leader=4),
            paths.state(t(14), 1): state_json((4, 5), leader=4),
        },
    ),
    _znode(
        "Z2K-1030",
        paths.topic_config(t(7)),
        config_json({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}),
    ),
    _znode("Z2K-1031", paths.topic_config(t(8)), config_json({"retention.ms": "9", "vendor.tier": "x"})),
    _znode("Z2K-1032", "/config/brokers/<default>", config_json({"log.cleaner.threads": "many"})),
    _znode("Z2K-1033", "/config/brokers/1", config_json({"advertised.listeners": "PLAINTEXT://elsewhere:9092"})),
    Offence(
        "Z2K-1034",
        paths.topic(_BAD_NAME),
        {
            paths.topic(_BAD_NAME): topic_json(_BAD_NAME, range(1)),
            paths.state(_BAD_NAME, 0): state_json(),
        },
    ),
    _znode("Z2K-1035", paths.topic(t(9)), _topic(9, partitions={})),
    Offence("Z2K-1036", paths.CONTROLLER_EPOCH, {paths.state(t(10), 1): _state(controller_epoch=40)}),
    Offence(
        "Z2K-1038",
        paths.topic(_ALIKE[0]),
        {
            **{paths.topic(each): topic_json(each, range(1)) for each in _ALIKE},
            **{paths.state(each, 0): state_json() for each in _ALIKE},
        },
    ),
    Offence("Z2K-1039", "[1001]", {"/brokers/ids/1001": a_registration(1001)}),
    _znode("Z2K-1040", "/brokers/ids/2", a_registration(2, version=4)),
    _znode("Z2K-1041", "/config/brokers/77", config_json({"log.cleaner.threads": "1"})),
    _znode("Z2K-1042", "/config/client-metrics/push", config_json({"interval.ms": "1000"})),
    _znode("Z2K-1048", "/consumers/old-app", b""),
    Offence(
        "Z2K-1001",
        paths.topic(t(12)),
        {paths.topic(t(12)): _topic(12, topic_id=id_text(an_id(t(11))))},
    ),
)
"""What `content_findings` names, in a quorum's gate and in `check` alike. Passwords: see Z2K-1010."""

CLAIMED: Final = (
    Offence(
        "Z2K-1037",
        "4000",
        {paths.CONTROLLER: controller_data(4000, 7, 1)},
    ),
    Offence(
        "Z2K-2006",
        migration_data(MigrationZnode(4000, 7, 77, 3)).decode(),
        {paths.MIGRATION: migration_data(MigrationZnode(4000, 7, 77, 3))},
    ),
)
"""What stands of somebody's claim."""

FOR_FILES: Final = (
    Offence("Z2K-1020", "orders", {"/kafka-acl/Topic/orders": acls_json("Read")}),
    Offence("Z2K-1044", "{'count': 1}", {"/delegation_token/tokens/abc": token_json("abc")}),
)
"""Nothing wrong with them, but controllers without an authorizer and a key could not take care of them."""


def plant(ensemble: FakeEnsemble, offences: Iterable[Offence]) -> None:
    for each in offences:
        for path, data in each.znodes.items():
            if data is None:
                del ensemble.nodes[path]
            else:
                ensemble.create(path, data)


def plant_for_real(session: ZkSession, offences: Iterable[Offence]) -> None:
    for each in offences:
        for path, data in each.znodes.items():
            session.ensure_path(path.rpartition("/")[0] or "/")
            there = session.get(path) is not None
            operation = Delete(path) if data is None else SetData(path, data) if there else Create(path, data)
            assert session.apply(Multi((operation,))).applied, path
