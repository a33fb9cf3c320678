"""What a migration is about: where the cluster is, and which controllers of ours belong to it.

In:   the body of `POST migrations`, kept as it was given.
Out:  `ClusterInventory`; what is wrong with the controllers' files (read, never written).
Elsewhere: what a controller does with its file (node.config).
Rule: controllers of the service run with zk2kraft.gates=pause, so that no takeover begins without its gate.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

import msgspec

from migrator.findings.content import CONTROLLER_FILES_DISAGREE
from migrator.findings.driver import LOG_RETIRED
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.quorum import DIRECTORY_UNUSABLE
from migrator.findings.service import GATES_NOT_PAUSED
from migrator.model.connect_string import chroot_of, place_of, servers_of
from migrator.node.config.properties import NodeConfig, read_config
from migrator.node.log.storage import RetiredMark, read_meta_properties
from state_machine.facts.engines import ControllerEngine


class ControllerEntry(msgspec.Struct, frozen=True):
    """One voter. properties: its file. data: its metadata log directory, where its control file appears.

    control: https://HOST:PORT of its control port where it runs on another host. Then the service starts none, `data`
    is a path over there, and `properties` is a copy of its file over here.
    """

    node_id: int
    properties: str
    data: str
    control: str = ""

    @property
    def is_remote(self) -> bool:
        return bool(self.control)


class BrokerEntry(msgspec.Struct, frozen=True):
    """One broker; kept and shown, and expected to register before a takeover."""

    id: int
    host: str = ""
    note: str = ""


class ClusterInventory(msgspec.Struct, frozen=True):
    """zookeeper: connect string with chroot. audit_engine: "spark" or "quick". engine: whose controllers take over."""

    name: str
    zookeeper: str
    bootstrap_servers: str
    controllers: tuple[ControllerEntry, ...]
    brokers: tuple[BrokerEntry, ...] = ()
    audit_engine: str = "spark"
    engine: ControllerEngine = ControllerEngine.OURS

    @property
    def has_stock(self) -> bool:
        """Kafka's own controllers take over; none of ours ever runs."""
        return self.engine is ControllerEngine.STOCK

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(each.node_id for each in self.controllers)


def file_faults(inventory: ClusterInventory, outside: Mapping[int, Occurrence] | None = None) -> dict[int, Occurrence]:
    """What keeps the service from starting a controller, by node id. outside: those whose files are not read at all."""
    barred = outside or {}
    found = {each.node_id: barred.get(each.node_id) or _fault(inventory, each) for each in inventory.controllers}
    return {node: fault for node, fault in found.items() if fault is not None}


def _fault(inventory: ClusterInventory, entry: ControllerEntry) -> Occurrence | None:
    try:
        file = Path(entry.properties)
        if file.exists() and not file.is_file():
            raise OSError(errno.EINVAL, "it is no regular file", entry.properties)  # a pipe would be waited for
        config = read_config(Path(entry.properties), stock=inventory.has_stock)
        if inventory.has_stock:
            return _contradiction(inventory, entry, config)
        if entry.is_remote:
            return _contradiction(inventory, entry, config)
        read_meta_properties(config.metadata_log_dir)
        retired = RetiredMark(config.metadata_log_dir).read()
    except FindingError as error:
        return error.occurrence
    except OSError as error:
        return DIRECTORY_UNUSABLE.found(directory=entry.data, reason=words_of(error))
    if retired is not None:
        return LOG_RETIRED.found(controller=f"a ZooKeeper-mode broker, since {retired}")
    return _contradiction(inventory, entry, config)


def _contradiction(inventory: ClusterInventory, entry: ControllerEntry, config: NodeConfig) -> Occurrence | None:
    if config.gates != "pause" and not inventory.has_stock:
        return GATES_NOT_PAUSED.found(file=entry.properties, value=config.gates)
    if not config.migration_enabled and not inventory.has_stock:
        reason = "zookeeper.metadata.migration.enable is not true"
        return CONTROLLER_FILES_DISAGREE.found(file=entry.properties, reason=reason)
    if config.node_id != entry.node_id:
        reason = f"node.id is {config.node_id}, the inventory says {entry.node_id}"
        return CONTROLLER_FILES_DISAGREE.found(file=entry.properties, reason=reason)
    if set(config.voter_ids) != set(inventory.node_ids):
        voters, ours = sorted(config.voter_ids), sorted(inventory.node_ids)
        reason = f"controller.quorum.voters names nodes {voters}, the inventory {ours}; the service needs all of them"
        return CONTROLLER_FILES_DISAGREE.found(file=entry.properties, reason=reason)
    here, there = config.metadata_log_dir, Path(entry.data)
    if here != there if entry.is_remote else here.resolve() != there.resolve():
        reason = f"its metadata log is in {config.metadata_log_dir}, the inventory says {entry.data}"
        return CONTROLLER_FILES_DISAGREE.found(file=entry.properties, reason=reason)
    if not _same_ensemble(config.zookeeper_connect or "", inventory.zookeeper):
        reason = f"zookeeper.connect is {config.zookeeper_connect}, the inventory says {inventory.zookeeper}"
        return CONTROLLER_FILES_DISAGREE.found(file=entry.properties, reason=reason)
    return None


def _same_ensemble(left: str, right: str) -> bool:
    """The same chroot, and at least one server in common (each side may name only some of them)."""
    servers = (set(map(place_of, servers_of(each))) for each in (left, right))
    return chroot_of(left) == chroot_of(right) and bool(set.intersection(*servers))
