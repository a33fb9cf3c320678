"""Znode bytes to values and back, strictly.

In:   the bytes of one znode, and its path for the error.
Out:  typed values. What Kafka's readers tolerate in silence (unparsable JSON as "no configuration") is an error
      here, Z2K-1001 with the path: a migration must not guess. Unknown JSON keys are ignored, as in Kafka.
Elsewhere: reading and writing (session.py), what becomes of the values (driver).
Source: Kafka 3.9 `ZkData.scala`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Final, TypeVar

import msgspec

from migrator.findings.content import MALFORMED_ZNODE, PRODUCER_IDS_EMPTY
from migrator.findings.finding import words_of
from migrator.model.values import ZERO_ID, Listener, Partition, Recovery, SecurityProtocol, Topic, is_password
from migrator.zk.json_texts import check_json
from migrator.zk.paths import BROKER_CONFIGS

T = TypeVar("T")

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding may raise, whatever the bytes: the last one when they are nested too deeply to be Kafka's."""

INT32_MAX: Final = 2**31 - 1
Int32 = Annotated[int, msgspec.Meta(ge=-INT32_MAX - 1, le=INT32_MAX)]
"""As Kafka's readers: a larger number would be refused only when a record is made of it."""
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

RECORD_TEXT_BYTES_MAX: Final = 32_767
"""No text in a metadata record may be longer, in Kafka as here; ZooKeeper takes longer ones."""

PRODUCER_ID_BLOCK_MAX: Final = INT32_MAX
"""Ids of one block: Kafka throws for more."""

PRODUCER_ID_MAX: Final = 2**63 - 2**32
"""The end of a block is below this, so that the next id and its margin are numbers as well."""


class TopicZnode(msgspec.Struct, gc=False):
    """`/brokers/topics/<T>`: partition id (text) to replicas. Versions 1 and 2 lack the later keys."""

    partitions: dict[str, list[Int32]]
    topic_id: str | None = None
    adding_replicas: dict[str, list[Int32]] = {}
    removing_replicas: dict[str, list[Int32]] = {}
    version: int = 1


class StateZnode(msgspec.Struct, gc=False):
    """`…/partitions/<P>/state`. The partition epoch is the znode's data version, not a field."""

    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    controller_epoch: Int32
    version: int = 1
    leader_recovery_state: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0


class ConfigZnode(msgspec.Struct, gc=False):
    version: int
    config: dict[str, str]


class ControllerZnode(msgspec.Struct, frozen=True, gc=False):
    """`/controller`: who is the controller. `kraft_epoch` is -1 for a ZooKeeper-mode broker."""

    brokerid: Int32
    version: int = 1
    timestamp: str = ""
    kraft_epoch: Int32 = msgspec.field(default=-1, name="kraftControllerEpoch")


class MigrationZnode(msgspec.Struct, frozen=True, gc=False):
    """`/migration`: how far the log is mirrored. Offset -1 means that nothing was committed yet."""

    kraft_controller_id: Int32 = -1
    kraft_controller_epoch: Int32 = -1
    kraft_metadata_offset: Int64 = -1
    kraft_metadata_epoch: Int32 = -1
    version: int = 0


class MigrationJson(msgspec.Struct, gc=False):
    """The same as it stands in ZooKeeper: nothing may be missing."""

    kraft_controller_id: Int32
    kraft_controller_epoch: Int32
    kraft_metadata_offset: Int64
    kraft_metadata_epoch: Int32
    version: int


class ProducerIdBlock(msgspec.Struct, frozen=True, gc=False):
    """`/latest_producer_id_block`: the block most recently handed out, both ends included (as text)."""

    broker: Int32
    block_start: str
    block_end: str
    version: int = 1


DISABLED_FEATURES: Final = 0
"""Status of `/feature` where feature versions are off (KIP-584)."""
FEATURE_STATUSES: Final = (DISABLED_FEATURES, 1)
FEATURE_VERSIONS: Final = (1, 2)


class ZkReassignment(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """New replicas for one partition, ordered through ZooKeeper. Kafka ignores an order with a key that it does not
    know.
    """

    topic: str
    partition: Int32
    replicas: list[Int32]


class ReassignZnode(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """`/admin/reassign_partitions`: what was ordered there. What moves already is in the topics' own znodes."""

    version: int
    partitions: list[ZkReassignment]


class ClusterIdZnode(msgspec.Struct, gc=False):
    version: str
    id: str


class BrokerZnode(msgspec.Struct, gc=False):
    """`/brokers/ids/<id>`. The ZooKeeper broker epoch is the znode's czxid."""

    version: int
    endpoints: list[str] = []
    host: str | None = None
    port: int = -1
    rack: str | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    features: Any = None
    """Of any form: who reads a registration for its listeners does not end on it."""

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """Lowest and highest level by feature. Kafka's brokers in ZooKeeper mode support none."""
        told = self.features if isinstance(self.features, dict) else {}
        found = ((name, bounds) for name, bounds in told.items() if isinstance(bounds, dict))
        ends = ((name, bounds.get("min_version"), bounds.get("max_version")) for name, bounds in found)
        return {name: (low, high) for name, low, high in ends if isinstance(low, int) and isinstance(high, int)}


class FeatureZnode(msgspec.Struct, gc=False):
    """`/feature`. Kafka 3.9 writes status 0 below inter.broker.protocol.version 2.7-IV0, and 1 from there on."""

    version: int
    status: int
    features: dict[str, dict[str, Int32]]

    @property
    def finalized(self) -> dict[str, int]:
        """Levels by feature. What a disabled znode names counts for no broker."""
        if self.status == DISABLED_FEATURES:
            return {}
        return {name: levels["max_version_level"] for name, levels in self.features.items()}


_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {
    each: msgspec.json.Decoder(each)
    for each in (
        TopicZnode,
        StateZnode,
        ConfigZnode,
        ControllerZnode,
        MigrationJson,
        ProducerIdBlock,
        ReassignZnode,
        ClusterIdZnode,
        BrokerZnode,
        FeatureZnode,
    )
}


def parse(kind: type[T], path: str, data: bytes | None) -> T:
    """The value that `data` holds. Raises Z2K-1001 naming `path` when it does not hold one."""
    try:
        value: T = _DECODERS[kind].decode(check_json(data or b""))
    except UNREADABLE as error:
        raise MALFORMED_ZNODE.error(path=path, reason=words_of(error)) from error
    return value


# --- topics -----------------------------------------------------------------------------------------------


def topic_id_bytes(path: str, text: str) -> bytes:
    """The 16 bytes of a topic id in Kafka's text form (22 characters, URL-safe base64, no padding)."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError) as error:
        raise MALFORMED_ZNODE.error(path=path, reason=f"topic_id {text!r} is not base64") from error
    if len(raw) != 16 or raw == ZERO_ID or topic_id_text(raw) != text:
        raise MALFORMED_ZNODE.error(path=path, reason=f"topic_id {text!r} is not the id of a topic")
    return raw


def topic_id_text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def replica_lists(path: str, assignment: dict[str, list[int]]) -> dict[int, tuple[int, ...]]:
    """An assignment by partition id, ascending."""
    for key in assignment:
        if not _PARTITION_ID.fullmatch(key):
            raise MALFORMED_ZNODE.error(path=path, reason=f"a partition id is not a number ({key!r})")
    return {int(key): tuple(assignment[key]) for key in sorted(assignment, key=int)}


_PARTITION_ID: Final = re.compile("0|[1-9][0-9]{0,9}")
"""In one form only: "1" and "01" would be one partition with two assignments."""


def parse_ordered_moves(path: str, data: bytes | None) -> tuple[ZkReassignment, ...]:
    """What `/admin/reassign_partitions` orders; without data nothing. Raises Z2K-1001."""
    if not data:
        return ()
    znode = parse(ReassignZnode, path, data)
    if znode.version != 1:
        raise MALFORMED_ZNODE.error(path=path, reason=f"version {znode.version} of a reassignment is not known")
    return tuple(znode.partitions)


def topic_data(topic: Topic) -> bytes:
    """`/brokers/topics/<T>` as Kafka 3.9 writes it (version 3)."""
    return msgspec.json.encode(
        {
            "removing_replicas": {str(each.id): each.removing for each in topic.partitions if each.removing},
            "partitions": {str(each.id): each.replicas for each in topic.partitions},
            "topic_id": topic_id_text(topic.id),
            "adding_replicas": {str(each.id): each.adding for each in topic.partitions if each.adding},
            "version": 3,
        }
    )


def state_data(partition: Partition, controller_epoch: int) -> bytes:
    """A partition's state znode. `leader_recovery_state` is written only when it is not RECOVERED, as Kafka does."""
    isr = ",".join(map(str, partition.isr))
    recovery = "" if partition.recovery == Recovery.RECOVERED else f',"leader_recovery_state":{int(partition.recovery)}'
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{partition.leader},"version":1,'
        f'"leader_epoch":{partition.leader_epoch},"isr":[{isr}]{recovery}}}'
    ).encode()


# --- configs ----------------------------------------------------------------------------------------------


def parse_config(path: str, data: bytes | None) -> dict[str, str]:
    """The configuration of one entity; a znode without data holds none."""
    if not data:
        return {}
    znode = parse(ConfigZnode, path, data)
    if znode.version != 1:
        raise MALFORMED_ZNODE.error(path=path, reason=f"version {znode.version} of a configuration is not known")
    for key, value in znode.config.items():
        is_encrypted = path.startswith(BROKER_CONFIGS) and is_password(key)  # and shorter when it is decoded
        longest = max(len(key.encode()), 0 if is_encrypted else len(value.encode()))
        if longest > RECORD_TEXT_BYTES_MAX:
            reason = f"{key[:60]} takes {longest} bytes, a metadata record holds {RECORD_TEXT_BYTES_MAX}"
            raise MALFORMED_ZNODE.error(path=path, reason=reason)
    return znode.config


def config_data(values: dict[str, str]) -> bytes:
    return msgspec.json.encode({"version": 1, "config": values})


def config_change_data(entity_path: str) -> bytes:
    """A change notification; `entity_path` is like `topics/orders` or `brokers/<default>`."""
    return msgspec.json.encode({"version": 2, "entity_path": entity_path})


# --- controller, epoch, migration, producer ids -----------------------------------------------------------


def parse_controller_epoch(path: str, data: bytes | None) -> int:
    if not re.fullmatch(rb"-?[0-9]{1,10}", data or b"") or abs(int(data or b"")) > INT32_MAX:
        raise MALFORMED_ZNODE.error(path=path, reason=f"{data!r} is not a number of 32 bits")
    return int(data or b"")


def controller_data(controller_id: int, kraft_epoch: int, timestamp_ms: int) -> bytes:
    return msgspec.json.encode(
        {
            "version": 2,
            "brokerid": controller_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": kraft_epoch,
        }
    )


def parse_migration(path: str, data: bytes | None) -> MigrationZnode:
    found = parse(MigrationJson, path, data)
    if found.version != 0:
        raise MALFORMED_ZNODE.error(path=path, reason=f"version {found.version} of /migration is not known")
    return MigrationZnode(
        found.kraft_controller_id,
        found.kraft_controller_epoch,
        found.kraft_metadata_offset,
        found.kraft_metadata_epoch,
    )


def parse_features(path: str, data: bytes | None) -> FeatureZnode:
    """Finalized features. Raises Z2K-1001 where Kafka throws: a broker in ZooKeeper mode stops at its start then."""
    znode = parse(FeatureZnode, path, data)
    if znode.version not in FEATURE_VERSIONS or znode.status not in FEATURE_STATUSES:
        reason = f"version {znode.version} with status {znode.status} is not known"
        raise MALFORMED_ZNODE.error(path=path, reason=reason)
    for name, levels in znode.features.items():
        highest = levels.get("max_version_level", 0)
        lowest = 1 if znode.version > 1 else levels.get("min_version_level", 0)
        if not 1 <= lowest <= highest:
            raise MALFORMED_ZNODE.error(path=path, reason=f"the levels of {name[:60]} are {lowest} to {highest}")
    return znode


def migration_data(znode: MigrationZnode) -> bytes:
    return msgspec.json.encode(
        {
            "version": 0,
            "kraft_metadata_offset": znode.kraft_metadata_offset,
            "kraft_controller_id": znode.kraft_controller_id,
            "kraft_metadata_epoch": znode.kraft_metadata_epoch,
            "kraft_controller_epoch": znode.kraft_controller_epoch,
        }
    )


def parse_producer_ids(path: str, data: bytes | None) -> ProducerIdBlock | None:
    """The newest block, or None while none was handed out (the znode exists without data).

    Raises Z2K-1065 for a text of no bytes, which is not the same: Kafka throws for it, and hands out no ids.
    """
    if data is None:
        return None
    if not data:
        raise PRODUCER_IDS_EMPTY.error(path=path)
    block = parse(ProducerIdBlock, path, data)
    for text in (block.block_start, block.block_end):
        if not re.fullmatch("[0-9]{1,19}", text) or int(text) >= PRODUCER_ID_MAX:
            raise MALFORMED_ZNODE.error(path=path, reason=f"{text[:40]!r} is not a producer id")
    ids = int(block.block_end) - int(block.block_start) + 1
    if ids < 1:
        raise MALFORMED_ZNODE.error(path=path, reason=f"it ends at {block.block_end}, before {block.block_start}")
    if ids > PRODUCER_ID_BLOCK_MAX:
        raise MALFORMED_ZNODE.error(path=path, reason=f"a block has {ids} ids, and Kafka reads {PRODUCER_ID_BLOCK_MAX}")
    return block


def producer_ids_data(broker: int, first: int, last: int) -> bytes:
    return msgspec.json.encode({"version": 1, "broker": broker, "block_start": str(first), "block_end": str(last)})


# --- brokers ----------------------------------------------------------------------------------------------


def listeners(path: str, znode: BrokerZnode) -> tuple[Listener, ...]:
    """The endpoints of a broker registration, in its order."""
    protocols = znode.listener_security_protocol_map or {}
    found = []
    for endpoint in znode.endpoints:
        name, separator, address = endpoint.partition("://")
        name = name.upper()  # as brokers read each other's names
        host, colon, port = address.rpartition(":")
        protocol = protocols.get(name, name).upper()
        is_port = re.fullmatch("[0-9]{1,5}", port)
        if not separator or not colon or not is_port or protocol not in SecurityProtocol.__members__:
            raise MALFORMED_ZNODE.error(path=path, reason=f"endpoint {endpoint!r} cannot be read")
        found.append(Listener(name, host.strip("[]"), int(port), SecurityProtocol[protocol]))
    return tuple(found)
