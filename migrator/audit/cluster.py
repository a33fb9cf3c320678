"""What tree and log say of the cluster as a whole: its id, the controller epoch, metadata.version, the migration state.

In:   the znodes that say it, and the records that do.
Out:  facts of the family `cluster`; of each key, how the two contradict each other or what no Kafka runs on.
Elsewhere: reading (zk_source.py, normalise.LogFacts), what becomes of a difference (compare.py).
Why:  none of it has a form on the other side, so that nothing compared it. A broker that finds no `/cluster/id` makes a
new one and ends. A controller with an epoch below that of a state can write that partition nevermore. A log whose
metadata.version is too low ends every controller, and one that says POST_MIGRATION ends the way back. A znode whose
access list keeps this process from writing it keeps a controller with the same login from it, too.
Source: Kafka 3.9 `KafkaZkClient`, `ZkPartitionStateMachine`, `MetadataVersion`, `ZkMigrationState`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from migrator.audit.java_texts import java_int
from migrator.findings.content import MALFORMED_ZNODE, ZNODE_GUARDED
from migrator.findings.finding import words_of
from migrator.model.levels import MIGRATION, level_name
from migrator.model.values import MigrationState
from migrator.wire.messages.metadata import FeatureLevelRecord, ZkMigrationStateRecord
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.json_texts import check_json

Facts = dict[str, Any]

CLUSTER: Final = "cluster"
METADATA_VERSION: Final = "metadata.version"
MIGRATION_STATE: Final = "migration state"
OF_THE_TREE: Final = (paths.CLUSTER_ID, paths.CONTROLLER_EPOCH)
OF_THE_LOG: Final = (METADATA_VERSION, MIGRATION_STATE)
CLUSTER_KEYS: Final = (*OF_THE_TREE, *OF_THE_LOG)

CLUSTER_RECORDS: Final = (FeatureLevelRecord, ZkMigrationStateRecord)

ABOVE: Final = "controller_epoch"
"""A field of a partition's facts, only where its state was written by a later controller than there ever was."""

LIST: Final = "access list"
"""The only field of a znode that nobody may write, or not this process with its login."""

FIRST_CONTROLLER_EPOCH: Final = 1
"""No controller ever had a lower one."""


# --- ZooKeeper's side -------------------------------------------------------------------------------------


class _ClusterIdJson(msgspec.Struct):
    id: str


_CLUSTER_ID_JSON: Final = msgspec.json.Decoder(_ClusterIdJson)


def cluster_id_facts(path: str, data: bytes | None) -> Facts:
    try:
        return {"id": _CLUSTER_ID_JSON.decode(check_json(data or b"")).id}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MALFORMED_ZNODE.error(path=path, reason=words_of(error)) from error


def controller_epoch_facts(path: str, data: bytes | None) -> Facts:
    """A number of 32 bits, as Kafka's `ControllerEpochZNode` reads it."""
    try:
        return {"epoch": java_int((data or b"").decode())}
    except ValueError as error:
        raise MALFORMED_ZNODE.error(path=path, reason="it is not a number of 32 bits") from error


class EpochLimit:
    """The highest controller epoch that a partition state can have been written with.

    read: of `/controller_epoch`, and of the KRaft controller that `/controller` names, which writes its own epoch into
    states where it is stock (F-40). A claim raises both before it writes any state, so whatever is above the limit is
    above one that is read after it, too, or nobody wrote it. None: not known; nothing is above it then.
    """

    def __init__(self, read: Callable[[], int | None]) -> None:
        self._read = read
        self._known = read()
        self._above = 0

    def is_above(self, epoch: int) -> bool:
        """Reads again for an epoch that is higher than all before: a tree may have as many as it has partitions."""
        if self._known is None or epoch <= self._known:
            return False
        if epoch > self._above:
            self._known = self._read()
            if self._known is None or epoch <= self._known:
                return False
            self._above = epoch
        return True


# --- the log's side ---------------------------------------------------------------------------------------


def cluster_key(record: Message) -> str | None:
    """Which key a record is about."""
    match record:
        case FeatureLevelRecord() if record.name == METADATA_VERSION:
            return METADATA_VERSION
        case ZkMigrationStateRecord():
            return MIGRATION_STATE
        case _:
            return None


def cluster_facts(record: Message) -> Facts | None:
    """What it says; None: the key is gone. A snapshot has a record of the state NONE, and a log none."""
    match record:
        case FeatureLevelRecord():
            return {"level": record.feature_level} if record.feature_level else None
        case ZkMigrationStateRecord():
            return {"state": record.zk_migration_state} if record.zk_migration_state else None
        case _:
            return None


# --- both -------------------------------------------------------------------------------------------------


def contradictions(key: str, zookeeper: Facts | None, log: Facts | None) -> tuple[str, str, Any, Any] | None:
    """Field, kind, what ZooKeeper says and what the log says; None where they go together. kind: as in `Difference`."""
    tree = zookeeper or {}
    if LIST in tree:
        return LIST, "changed", tree[LIST], f"one that lets a controller write it ({ZNODE_GUARDED.code})"
    if key == MIGRATION_STATE:
        return _state(tree, MigrationState.NONE if log is None else log["state"])
    if key == METADATA_VERSION and log is None:
        return "", "missing in log", None, None
    if key == METADATA_VERSION and log is not None and log["level"] < MIGRATION:
        return "level", "changed", f"at least {level_name(MIGRATION)}", level_name(log["level"])
    if key in OF_THE_TREE and not tree:
        return "", "missing in zookeeper", None, None
    if key == paths.CONTROLLER_EPOCH and tree["epoch"] < FIRST_CONTROLLER_EPOCH:
        return "epoch", "changed", tree["epoch"], f"at least {FIRST_CONTROLLER_EPOCH}"
    return None


def is_forgotten(key: tuple[str, str], snapshot: Facts | None, log: Facts | None) -> bool:
    """A controller of Kafka 4 writes no migration state into its snapshots: once it is over, none is as good."""
    over = log is not None and log.get("state") == MigrationState.POST_MIGRATION
    return key == (CLUSTER, MIGRATION_STATE) and snapshot is None and over


def _state(tree: Facts, state: int) -> tuple[str, str, Any, Any] | None:
    """In dual-write it is MIGRATION; in front of it anything but the end."""
    in_dual_write = bool(tree.get("dual_write"))
    if state == MigrationState.MIGRATION or (not in_dual_write and state != MigrationState.POST_MIGRATION):
        return None
    name = MigrationState(state).name if state in set(MigrationState) else str(state)
    return "state", "changed", "in dual-write" if in_dual_write else "not in dual-write", name
