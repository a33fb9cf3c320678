"""A tree with everything that Kafka may have written in some release or some mood, and that may be copied.

In:   a seed.
Out:  a `SeededTree` with every family, and the partitions that only a waiver lets through.
The seed chooses numbers, replicas and who gets what; the oddities themselves are in every tree. What is refused (no
topic id, no state, passwords, pending deletions, unknown words) is in the gate's tests.
Source: facts zookeeper-and-migration 1; Kafka 3.9 `ZkData.scala`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from migrator.zk.entity_znodes import sanitise
from tests.support.seeded_tree import SeededTree, acls_json, an_id, config_json, id_text, scram_text, token_json

BROKERS: Final = (1, 2, 3, 4)
SANE: Final = range(6)
OTHERS: Final = {"some later release": ["writes", {"this": 1}], "null": None}
"""Keys that every reader has to leave alone."""
NAMES: Final = ("alice", "b@b", "carol smith", "d/e", "zoë", "CN=f,O=g", "~h*", "日本", "a%2Fb", "x+y", "<default >")
TYPES: Final = ("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
OPERATIONS: Final = (
    *("All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs"),
    *("AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens"),
)
LONG: Final = "v" * 30_000
UNUSUAL: Final = '{"a":"ü\\n\\"q\\" \U0001f600",\t"b":[1]}'
BLOCK_ENDS: Final = (999, 5_999, 2**31 - 1, 2**53 + 7, 2**62 + 999)


@dataclass(frozen=True)
class OddTree:
    """What to seed, and what a person has to wave through. moved: topics with replicas on their way."""

    tree: SeededTree
    waived: tuple[str, ...]
    ordered: str


CONTROLLER_EPOCH: Final = 40


def odd_tree(seed: int) -> OddTree:
    chance = Random(seed)
    topics = _Topics(chance)
    topics.plant()
    tree = SeededTree(
        topics=len(SANE),
        partitions=chance.randint(1, 4),
        brokers=BROKERS,
        broker_configs=_broker_configs(chance),
        producer_block_end=chance.choice(BLOCK_ENDS),
        controller_epoch=CONTROLLER_EPOCH,
        security={**topics.znodes, **_entities(chance), **_acls(chance), **_tokens(chance), **_leftovers()},
    )
    return OddTree(tree, tuple(topics.waived), topics.ordered)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()  # with spaces, and escapes for what is not ASCII


# --- topics -----------------------------------------------------------------------------------------------


class _Topics:
    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.znodes: dict[str, bytes] = {}
        self.waived: list[str] = []
        self.ordered = "ordered"

    def plant(self) -> None:
        self._topic("no-config", config=None)
        self._topic("null-config", config=b"")
        self._topic("empty-config", config=config_json({}))
        self._topic("a.b_c-D", config=_json({"config": {"retention.ms": "-1"}, "version": 1, **OTHERS}))
        self._topic("n" * 249, config=config_json({"cleanup.policy": "compact,delete"}))
        self._topic("...", config=config_json({"no.such.key": "kept", "k": ""}))
        self._topic(
            "words.of-all_kinds",
            config=config_json({"confluent.placement": '{"a":"ü\\n\\"q\\" \U0001f600"}', "l": LONG}),
        )
        self._topic("_")
        self._topic("written-by-2.4", version=2, without=("removing_replicas",))
        self._topic("without-moves", without=("adding_replicas", "removing_replicas"))
        self._topic("with-more-keys", more=OTHERS)
        self._topic("gets-replicas", partitions={0: (4, 2, 1, 3)}, isr=(1, 2, 3), adding={"0": [4]})
        self._topic("loses-replicas", partitions={0: (1, 3, 2)}, isr=(3, 1, 2), removing={"0": [2]})
        self._topic(
            "moves",
            partitions={0: (4, 2, 3, 1), 1: (4, 3, 1, 2)},
            isr=(1, 2, 3),
            adding={"0": [4], "1": [4, 3]},
            removing={"0": [1], "1": [1, 2]},
        )
        self._topic("has-arrived", partitions={0: (4, 2, 1)}, isr=(4, 1, 2), adding={"0": [4]}, removing={"0": [1]})
        self._topic(self.ordered, partitions={0: (1, 2, 3)}, isr=(1, 2, 3))
        self._topic("leaderless", partitions={0: (1, 2, 3)}, isr=(2,), leader=-1, waived=True)
        self._topic("recovers", partitions={0: (2, 1, 3)}, isr=(2,), leader=2, recovery=1, waived=True)
        self._topic("recovers-whole", partitions={0: (2, 1)}, isr=(1, 2), leader=1, recovery=1)
        self._topic("alone", partitions={0: (3,)}, isr=(3,), leader=3)
        self._topic("late", leader_epoch=2**31 - 1)
        self._topic("other-order", partitions={0: (3, 1, 2)}, isr=(1, 2, 3), leader=1)

    def _topic(
        self,
        name: str,
        partitions: dict[int, tuple[int, ...]] | None = None,
        *,
        config: bytes | None = b"",
        isr: tuple[int, ...] = (),
        leader: int | None = None,
        leader_epoch: int | None = None,
        recovery: int = 0,
        adding: dict[str, list[int]] | None = None,
        removing: dict[str, list[int]] | None = None,
        version: int = 3,
        without: tuple[str, ...] = (),
        more: dict[str, Any] | None = None,
        waived: bool = False,
    ) -> None:
        assigned = self._some_partitions() if partitions is None else partitions
        topic = {
            "topic_id": id_text(an_id(name)),
            "partitions": {str(number): list(each) for number, each in assigned.items()},
            "version": version,
            "adding_replicas": adding or {},
            "removing_replicas": removing or {},
            **(more or {}),
        }
        root = f"/brokers/topics/{name}"
        self.znodes[root] = _json({key: value for key, value in topic.items() if key not in without})
        if config is not None:
            self.znodes[f"/config/topics/{name}"] = config
        self.znodes[f"{root}/partitions"] = b""
        for number, replicas in assigned.items():
            in_sync = isr or replicas
            state = {
                "leader": in_sync[0] if leader is None else leader,
                "isr": list(in_sync),
                "leader_epoch": self._chance.randint(0, 70_000) if leader_epoch is None else leader_epoch,
                "controller_epoch": self._chance.randint(1, CONTROLLER_EPOCH),
                "version": 1,
                **({"leader_recovery_state": recovery} if recovery or self._chance.random() < 0.2 else {}),
                **(more or {}),
            }
            self.znodes[f"{root}/partitions/{number}"] = b""
            self.znodes[f"{root}/partitions/{number}/state"] = _json(state)
            if waived:
                self.waived.append(f"{name}-{number}")

    def _some_partitions(self) -> dict[int, tuple[int, ...]]:
        count = self._chance.randint(1, 5)
        return {each: tuple(self._chance.sample(BROKERS, self._chance.randint(1, 4))) for each in range(count)}


def _leftovers() -> dict[str, bytes]:
    """What a copy has to leave alone, and a plan that was never begun beside one that was."""
    plan = [
        {"topic": "ordered", "partition": 0, "replicas": [2, 1]},
        {"topic": "moves", "partition": 0, "replicas": [4, 2, 3]},
        {"topic": "gone", "partition": 0, "replicas": [1]},
    ]
    return {
        "/admin/reassign_partitions": _json({"version": 1, "partitions": plan}),
        "/admin/preferred_replica_election": b'{"version":1,"partitions":[{"topic":"moves","partition":0}]}',
        "/config/topics/gone": config_json({"retention.ms": "1"}),
        "/feature": b'{"version":2,"status":1,"features":{}}',
        "/isr_change_notification": b"",
        "/isr_change_notification/isr_change_0000000007": b'{"version":1,"partitions":[]}',
        "/consumers": b"",
        "/consumers/old": b"",
        "/config/changes/config_change_0000000000": b'{"version":2,"entity_path":"topics/gone"}',
    }


# --- configuration, quotas, credentials -------------------------------------------------------------------


def _broker_configs(chance: Random) -> dict[str, dict[str, str]]:
    return {
        "<default>": {"log.cleaner.threads": "2", "message.max.bytes": str(chance.randint(1_000_012, 9_000_000))},
        "1": {"log.cleaner.threads": "3", "leader.replication.throttled.rate": "1"},
        "2": {},
        "77": {"log.retention.ms": "-1", "made.by.a.tool": "ü"},
    }


def _entities(chance: Random) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in ("<default>", *(sanitise(each) for each in NAMES)):
        found[f"/config/users/{name}"] = _user(chance, name)
        if chance.random() < 0.6:
            found[f"/config/users/{name}/clients"] = b""
            for client in chance.sample(("<default>", *map(sanitise, NAMES)), chance.randint(0, 3)):
                found[f"/config/users/{name}/clients/{client}"] = config_json(_rates(chance))
    for client in ("<default>", *map(sanitise, NAMES)):
        found[f"/config/clients/{client}"] = config_json(_rates(chance))
    for address in ("<default>", "127.0.0.1", sanitise("::1"), "localhost"):
        found[f"/config/ips/{address}"] = config_json({"connection_creation_rate": str(chance.randint(0, 2**31 - 1))})
    found["/config/users/nothing"] = b""
    found["/config/users/nothing-more"] = config_json({})
    found["/config/clients/nothing"] = b'{"version":1,"config":{}}'
    found["/config/ips/10.0.0.7"] = b""
    return found


def _user(chance: Random, name: str) -> bytes:
    values = _rates(chance)
    if name != "<default>":
        for mechanism in chance.sample(("SCRAM-SHA-256", "SCRAM-SHA-512"), chance.randint(0, 2)):
            values[mechanism] = scram_text()
    return _json({"config": values, "version": 1, **OTHERS})


def _rates(chance: Random) -> dict[str, str]:
    values = {
        "producer_byte_rate": str(chance.randint(1, 2**53)),
        "consumer_byte_rate": chance.choice(("9", "1024", "9223372036854775807")),
        "request_percentage": chance.choice(("12.5", "1.0E-4", "200.0", "7")),
        "controller_mutation_rate": chance.choice(("0.5", "1.0E7", "10.0")),
    }
    return {key: values[key] for key in chance.sample(sorted(values), chance.randint(0, 4))}


# --- ACLs and tokens --------------------------------------------------------------------------------------


def _acls(chance: Random) -> dict[str, bytes]:
    found = {
        "/kafka-acl": b"",
        "/kafka-acl-extended": b"",
        "/kafka-acl-extended/prefixed": b"",
        "/kafka-acl-changes": b"",
        "/kafka-acl-extended-changes": b"",
    }
    for root in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
        for kind in TYPES:
            found[f"{root}/{kind}"] = b""
            names = ("kafka-cluster",) if kind == "Cluster" else chance.sample(("orders", "*", "größe", "a b", "p-"), 3)
            for name in names:
                found[f"{root}/{kind}/{name}"] = _entries(chance)
    found["/kafka-acl/Topic/nobodys"] = acls_json()
    found["/kafka-acl/Group/null"] = b""
    found["/kafka-acl/Topic/everything"] = acls_json(*OPERATIONS, principal="Group:all of them")
    found["/kafka-acl/Topic/twice"] = acls_json("Read", "Read")
    return found


def _entries(chance: Random) -> bytes:
    """In words of any case, as Kafka reads them."""
    entries = [
        {
            "principal": chance.choice(("User:alice", "User:CN=f,O=g, C=de", "User:*", "Group:ünits", "User:a:b")),
            "permissionType": chance.choice(("Allow", "Deny", "ALLOW", "deny")),
            "host": chance.choice(("*", "127.0.0.1", "2001:db8::1")),
            "operation": chance.choice((*OPERATIONS, "read", "DESCRIBECONFIGS")),
            **OTHERS,
        }
        for _ in range(chance.randint(1, 6))
    ]
    return _json({"version": 1, "acls": entries})


def _tokens(chance: Random) -> dict[str, bytes]:
    found = {"/delegation_token": b"", "/delegation_token/tokens": b"", "/delegation_token/token_changes": b""}
    for number, name in enumerate(NAMES):
        token = f"{'-_'[number % 2]}token{number:03}AbCdEfGhIjKl"
        found[f"/delegation_token/tokens/{token}"] = token_json(token, sanitise(f"User:{name}"))
    old: dict[str, Any] = {
        "owner": sanitise("User:old"),
        "renewers": [],
        "issueTimestamp": chance.randint(0, 2**41),
        "maxTimestamp": 2**62,
        "expiryTimestamp": 2**41,
    }
    for version in (1, 2):
        token = f"of-version-{version}"
        found[f"/delegation_token/tokens/{token}"] = _json({**old, "version": version, "tokenId": token})
    return found
