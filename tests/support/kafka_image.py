"""The metadata as Kafka's own dump tool tells it, folded without any code of ours, and our image in the same words.

In:   text of `kafka-dump-log --cluster-metadata-decoder`; or an image of ours.
Out:  `Facts`: what is known, by a key such as ("topic", id) or ("partition", id, 3), in values that compare.
Elsewhere: running the tool (lab.servers.tools). Nothing here may use controller.replay or wire: that is what is
looked at.
Source: Kafka 3.9 `*Delta.replay`, `PartitionRegistration.merge`; facts raft-and-controller 5.2, 7.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from migrator.model.image import Image

Facts = dict[tuple[Any, ...], Any]
Data = dict[str, Any]

_RECORD: Final = re.compile(r"^\| offset: (\d+) .*? payload: (\{.*\})$")
_SNAPSHOT: Final = re.compile(r"^Snapshot end offset: (\d+), epoch: (\d+)$")
_SEGMENT: Final = re.compile(r"^Log starting offset: (\d+)$")
NO_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNCHANGED: Final = -2


@dataclass(slots=True)
class Dump:
    """What one directory holds. snapshots: by end offset and epoch.   log: offsets with their records."""

    snapshots: dict[tuple[int, int], list[Data]] = field(default_factory=dict)
    log: list[tuple[int, Data]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def facts(self, end: int | None = None) -> Facts:
        """Everything before offset `end`: the newest snapshot that is not behind it, then the log."""
        usable = [each for each in self.snapshots if end is None or each[0] <= end]
        base = max(usable, default=None)
        records = [] if base is None else list(self.snapshots[base])
        begin = 0 if base is None else base[0]
        assert begin >= min(self.starts), f"the log begins at {min(self.starts)}, behind {begin}"
        records += [record for offset, record in self.log if begin <= offset and (end is None or offset < end)]
        return fold(records)


def parse_dump(text: str) -> Dump:
    dump = Dump()
    into: list[Data] | None = None
    for line in text.splitlines():
        if snapshot := _SNAPSHOT.match(line):
            into = dump.snapshots.setdefault((int(snapshot[1]), int(snapshot[2])), [])
        elif segment := _SEGMENT.match(line):
            dump.starts.append(int(segment[1]))
            into = None
        elif record := _RECORD.match(line):
            data = json.loads(record[2])
            if into is None:
                dump.log.append((int(record[1]), data))
            else:
                into.append(data)
    return dump


def fold(records: Iterable[Data]) -> Facts:
    """Replay records as Kafka's tool shows them; a transaction counts at its end or not at all."""
    facts: Facts = {}
    waiting: list[Data] | None = None
    for record in records:
        match record["type"]:
            case "BEGIN_TRANSACTION_RECORD":
                waiting = []
            case "ABORT_TRANSACTION_RECORD":
                waiting = None
            case "END_TRANSACTION_RECORD":
                for each in waiting or ():
                    _RULES[each["type"]](facts, each["data"])
                waiting = None
            case kind if waiting is None:
                _RULES[kind](facts, record["data"])
            case _:
                waiting.append(record)
    return facts


# --- what each record does --------------------------------------------------------------------------------


def _broker(facts: Facts, data: Data) -> None:
    facts["broker", data["brokerId"]] = {
        "epoch": data["brokerEpoch"],
        "incarnation": data["incarnationId"],
        "listeners": sorted((e["name"], e["host"], e["port"], e["securityProtocol"]) for e in data["endPoints"]),
        "features": _ranges(data["features"]),
        "rack": data["rack"],
        "fenced": data["fenced"],
        "leaving": data.get("inControlledShutdown", False),
        "migrating": data.get("isMigratingZkBroker", False),
        "directories": sorted(data.get("logDirs", ())),
    }


def _broker_change(facts: Facts, data: Data) -> None:
    broker = facts["broker", data["brokerId"]]
    assert broker["epoch"] == data["brokerEpoch"], data
    if data.get("fenced", 0):
        broker["fenced"] = data["fenced"] > 0
    if data.get("inControlledShutdown", 0):
        broker["leaving"] = True
    if data.get("logDirs"):
        broker["directories"] = sorted(data["logDirs"])


def _controller(facts: Facts, data: Data) -> None:
    facts["controller", data["controllerId"]] = {
        "incarnation": data["incarnationId"],
        "ready": data["zkMigrationReady"],
        "listeners": sorted((e["name"], e["host"], e["port"], e["securityProtocol"]) for e in data["endPoints"]),
        "features": _ranges(data["features"]),
    }


def _ranges(features: Iterable[Data]) -> list[tuple[str, int, int]]:
    return sorted((each["name"], each["minSupportedVersion"], each["maxSupportedVersion"]) for each in features)


def _topic_removed(facts: Facts, data: Data) -> None:
    name = facts.pop(("topic", data["topicId"]))
    for key in [key for key in facts if key[:2] == ("partition", data["topicId"]) or key[:3] == ("config", 2, name)]:
        del facts[key]


def _partition(facts: Facts, data: Data) -> None:
    facts["partition", data["topicId"], data["partitionId"]] = {
        "replicas": data["replicas"],
        "isr": data["isr"],
        "removing": data["removingReplicas"],
        "adding": data["addingReplicas"],
        "leader": data["leader"],
        "recovery": data.get("leaderRecoveryState", 0),
        "leader epoch": data["leaderEpoch"],
        "partition epoch": data["partitionEpoch"],
        "directories": _directories(data.get("directories")),
    }


def _directories(given: list[str] | None) -> list[str]:
    """No directory known of any replica: Kafka holds as many empty ids as there are replicas, or none, as it read."""
    return [] if given is None or set(given) <= {NO_DIRECTORY} else given


def _partition_change(facts: Facts, data: Data) -> None:
    partition = facts["partition", data["topicId"], data["partitionId"]]
    names = {"isr": "isr", "replicas": "replicas", "removingReplicas": "removing", "addingReplicas": "adding"}
    for theirs, name in names.items():
        if data.get(theirs) is not None:
            partition[name] = data[theirs]
    if data.get("directories") is not None:
        partition["directories"] = _directories(data["directories"])
    if data.get("leader", UNCHANGED) != UNCHANGED:
        partition["leader"] = data["leader"]
        partition["leader epoch"] += 1
    if data.get("leaderRecoveryState", -1) >= 0:
        partition["recovery"] = data["leaderRecoveryState"]
    partition["partition epoch"] += 1


def _config(facts: Facts, data: Data) -> None:
    key = "config", data["resourceType"], data["resourceName"], data["name"]
    if data["value"] is None:
        facts.pop(key, None)
    else:
        facts[key] = data["value"]


def _producer_ids(facts: Facts, data: Data) -> None:
    facts["next producer id",] = data["nextProducerId"]


def _feature(facts: Facts, data: Data) -> None:
    facts.pop(("feature", data["name"]), None)
    if data["featureLevel"]:
        facts["feature", data["name"]] = data["featureLevel"]


def _migration(facts: Facts, data: Data) -> None:
    """A snapshot of a log that never was in migration may say so or say nothing."""
    facts.pop(("migration",), None)
    if data["zkMigrationState"]:
        facts["migration",] = data["zkMigrationState"]


def _topic(facts: Facts, data: Data) -> None:
    assert ("topic", data["topicId"]) not in facts
    facts["topic", data["topicId"]] = data["name"]


def _unregistered(facts: Facts, data: Data) -> None:
    del facts["broker", data["brokerId"]]


def _quota(facts: Facts, data: Data) -> None:
    entity = tuple(sorted((each["entityType"], each["entityName"] or "") for each in data["entity"]))
    key = "quota", entity, data["key"]
    if data["remove"]:
        facts.pop(key, None)
    else:
        facts[key] = data["value"]


def _credential(facts: Facts, data: Data) -> None:
    kept = data["salt"], data["storedKey"], data["serverKey"], data["iterations"]
    facts["scram", data["name"], data["mechanism"]] = kept


def _credential_removed(facts: Facts, data: Data) -> None:
    facts.pop(("scram", data["name"], data["mechanism"]))


def _acl(facts: Facts, data: Data) -> None:
    facts["acl", data["id"]] = {name: value for name, value in data.items() if name != "id"}


def _acl_removed(facts: Facts, data: Data) -> None:
    del facts["acl", data["id"]]


def _nothing(facts: Facts, data: Data) -> None:
    """Moves the offset only."""


_RULES: Final[dict[str, Callable[[Facts, Data], None]]] = {
    "REGISTER_BROKER_RECORD": _broker,
    "BROKER_REGISTRATION_CHANGE_RECORD": _broker_change,
    "UNREGISTER_BROKER_RECORD": _unregistered,
    "REGISTER_CONTROLLER_RECORD": _controller,
    "TOPIC_RECORD": _topic,
    "REMOVE_TOPIC_RECORD": _topic_removed,
    "PARTITION_RECORD": _partition,
    "PARTITION_CHANGE_RECORD": _partition_change,
    "CONFIG_RECORD": _config,
    "PRODUCER_IDS_RECORD": _producer_ids,
    "FEATURE_LEVEL_RECORD": _feature,
    "ZK_MIGRATION_STATE_RECORD": _migration,
    "CLIENT_QUOTA_RECORD": _quota,
    "USER_SCRAM_CREDENTIAL_RECORD": _credential,
    "REMOVE_USER_SCRAM_CREDENTIAL_RECORD": _credential_removed,
    "ACCESS_CONTROL_ENTRY_RECORD": _acl,
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD": _acl_removed,
    "NO_OP_RECORD": _nothing,
}


# --- an image of ours -------------------------------------------------------------------------------------


def facts_of(image: Image) -> Facts:
    """The same facts, as our image holds them."""
    facts: Facts = {("feature", name): level for name, level in image.features.items()}
    if image.migration:
        facts["migration",] = int(image.migration)
    if image.next_producer_id >= 0:
        facts["next producer id",] = image.next_producer_id
    for broker in image.brokers.values():
        facts["broker", broker.id] = {
            "epoch": broker.epoch,
            "incarnation": _text(broker.incarnation),
            "listeners": sorted((e.name, e.host, e.port, e.protocol) for e in broker.listeners),
            "features": sorted((e.name, e.lowest, e.highest) for e in broker.features),
            "rack": broker.rack,
            "fenced": broker.fenced,
            "leaving": broker.in_controlled_shutdown,
            "migrating": broker.migrating,
            "directories": sorted(map(_text, broker.log_dirs)),
        }
    for controller in image.controllers.values():
        facts["controller", controller.id] = {
            "incarnation": _text(controller.incarnation),
            "ready": controller.zk_migration_ready,
            "listeners": sorted((e.name, e.host, e.port, e.protocol) for e in controller.listeners),
            "features": sorted((e.name, e.lowest, e.highest) for e in controller.features),
        }
    for topic in image.topics.values():
        facts["topic", _text(topic.id)] = topic.name
    for topic, partition in image.partitions():
        facts["partition", _text(topic.id), partition.id] = {
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "removing": list(partition.removing),
            "adding": list(partition.adding),
            "leader": partition.leader,
            "recovery": int(partition.recovery),
            "leader epoch": partition.leader_epoch,
            "partition epoch": partition.partition_epoch,
            "directories": list(map(_text, partition.directories)),
        }
    for key, config in image.configs.items():
        facts |= {("config", key.type, key.name, name): value for name, value in config.items()}
    return facts


def _text(identity: bytes) -> str:
    """16 bytes as Kafka writes them."""
    return base64.urlsafe_b64encode(identity).rstrip(b"=").decode()


def differences(left: Facts, right: Facts) -> list[str]:
    """What is not the same, in words; empty when nothing is."""
    keys = sorted(left.keys() | right.keys(), key=str)
    return [f"{key}: {left.get(key)} | {right.get(key)}" for key in keys if left.get(key) != right.get(key)]
