"""Where Kafka keeps what in ZooKeeper. All paths are relative to the chroot.

Source: Kafka 3.9 `ZkData.scala`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

CLUSTER: Final = "/cluster"
CLUSTER_ID: Final = "/cluster/id"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
MIGRATION: Final = "/migration"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
CONFIG: Final = "/config"
CONSUMERS: Final = "/consumers"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
TOPIC_CONFIGS: Final = "/config/topics"
BROKER_CONFIGS: Final = "/config/brokers"
CLIENT_CONFIGS: Final = "/config/clients"
USER_CONFIGS: Final = "/config/users"
IP_CONFIGS: Final = "/config/ips"
ACLS: Final = "/kafka-acl"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"

ROOTS: Final = (
    *("/admin", "/brokers", CLUSTER, CONFIG, CONSUMERS, CONTROLLER, CONTROLLER_EPOCH, "/delegation_token", FEATURE),
    *("/isr_change_notification", ACLS, ACL_CHANGES, EXTENDED_ACLS, EXTENDED_ACL_CHANGES, PRODUCER_IDS),
    *("/log_dir_event_notification", MIGRATION),
)
"""Of all that Kafka keeps below its chroot, this project's own znodes included; the rest is of others, who share it.

Source: `ZkData.SecureRootPaths`, which has to name each of them, and `ConsumerPathZNode` of old consumers.
"""
ZOOKEEPER: Final = "/zookeeper"
"""ZooKeeper's own, where there is no chroot."""

PRESENCE_PREFIX: Final = "zk2kraft-"
FINALIZE_INTENT: Final = "/cluster/zk2kraft_finalize"
"""That the finalize was begun: a znode of its own, since `/migration` is rewritten by whoever leads."""
KRAFT_BROKERS: Final = "/cluster/zk2kraft_kraft_brokers"
"""That brokers registered in KRaft mode since the takeover (node.zookeeper.kraft_brokers)."""
ROAD_LOCK: Final = "/cluster/zk2kraft_road"
"""Of the service that restarts brokers and controllers of this cluster; ephemeral."""

DEFAULT_ENTITY: Final = "<default>"
"""The znode name of "all brokers", "all users" and so on; never sanitised."""


def topic(name: str) -> str:
    return f"/brokers/topics/{name}"


def partitions(topic_name: str) -> str:
    return f"/brokers/topics/{topic_name}/partitions"


def partition(topic_name: str, partition_id: int) -> str:
    return f"/brokers/topics/{topic_name}/partitions/{partition_id}"


def state(topic_name: str, partition_id: int) -> str:
    return f"/brokers/topics/{topic_name}/partitions/{partition_id}/state"


def states(topic_name: str, partition_ids: Iterable[int]) -> list[str]:
    above = f"{partitions(topic_name)}/"
    return [f"{above}{each}/state" for each in partition_ids]


def topic_config(name: str) -> str:
    return f"/config/topics/{name}"


def broker_config(broker: str) -> str:
    """broker: an id in decimal, or "" for the default of all brokers."""
    return f"/config/brokers/{broker or DEFAULT_ENTITY}"


def token(token_id: str) -> str:
    return f"/delegation_token/tokens/{token_id}"


def broker_id(broker: int | str) -> str:
    return f"/brokers/ids/{broker}"


def presence(node: int) -> str:
    """Ours, not Kafka's: the ephemeral znode of a controller that leads (node.zookeeper.presence).

    Nobody lists `/cluster`.
    """
    return f"{CLUSTER}/{PRESENCE_PREFIX}{node}"


def problem_of(path: str) -> str | None:
    """Why ZooKeeper takes no such path, None when it does.

    Source: ZooKeeper 3.8 `PathUtils.validatePath`, which sees UTF-16; its clients refuse relative parts as well.
    """
    found = _REFUSED.search(path)
    return None if found is None else f"ZooKeeper takes no path with {found[0]!r} in it"


_REFUSED: Final = re.compile("//|/\\.{1,2}(?=/|$)|[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
