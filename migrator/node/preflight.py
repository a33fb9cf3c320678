"""`zk2kraft check`: is this cluster fit to be migrated? Reads only.

In:   a ZooKeeper session, and the properties files of the controllers to be.
Out:  occurrences of findings, those that block first; the same content findings as the takeover gate's.
Elsewhere: the findings of the content (driver.gate), what only a running quorum can see (its gate).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from migrator.driver.gate import content_findings
from migrator.driver.tree import Tree
from migrator.errors import (
    CLUSTER_ID_DIFFERS,
    CONTROLLER_FILES_DISAGREE,
    FOREIGN_MIGRATION,
    MALFORMED_ZNODE,
    FindingError,
    Occurrence,
    Severity,
)
from migrator.node.config import NodeConfig, read_config
from migrator.node.encoder_config import encoder_of
from migrator.node.storage import read_meta_properties
from migrator.node.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.session import ReadLimits, ZkSession
from migrator.zk.znodes import migration_data


def check(session: ZkSession, controllers: Sequence[Path], limits: ReadLimits) -> tuple[Tree, list[Occurrence]]:
    """Everything that can be known without a running quorum."""
    tree = read_tree(session, limits)
    configs, faults = _read_files(controllers)
    first = configs[0] if configs else None
    found = content_findings(tree, passwords=encoder_of(None if first is None else first.passwords))
    if tree.cluster_id is None and not any(each.values.get("path") == paths.CLUSTER_ID for each in found):
        found.append(MALFORMED_ZNODE.found(path=paths.CLUSTER_ID, reason="it does not exist; is the chroot right?"))
    if tree.migration_present:
        text = "null or unreadable" if tree.migration is None else migration_data(tree.migration).decode()
        found.append(FOREIGN_MIGRATION.found(found=text))
    found += [*faults, *_controller_findings(tree, configs)]
    return tree, sorted(found, key=lambda each: each.finding.severity is not Severity.BLOCKS)


def exit_code(found: Sequence[Occurrence]) -> int:
    """0 go, 1 warnings, 2 blocked."""
    if any(each.finding.severity is Severity.BLOCKS for each in found):
        return 2
    return 1 if found else 0


def _read_files(files: Sequence[Path]) -> tuple[list[NodeConfig], list[Occurrence]]:
    """Those that can be read, and what is wrong with the others."""
    configs: list[NodeConfig] = []
    faults: list[Occurrence] = []
    for file in files:
        try:
            configs.append(read_config(file))
        except FindingError as error:
            faults.append(error.occurrence)
    return configs, faults


def _controller_findings(tree: Tree, configs: Sequence[NodeConfig]) -> Iterator[Occurrence]:
    for config in configs:
        yield from _file_findings(tree, config)
        if config.voters != configs[0].voters:
            reason = f"controller.quorum.voters differs from {configs[0].file}"
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
        if config.passwords != configs[0].passwords:
            reason = f"password.encoder.* differs from {configs[0].file}"
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)


def _file_findings(tree: Tree, config: NodeConfig) -> Iterator[Occurrence]:
    taken = sorted(set(config.voter_ids) & set(tree.brokers))
    if taken:
        yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=f"node ids {taken} are brokers' ids")
    if not config.migration_enabled:
        reason = "zookeeper.metadata.migration.enable is not true"
        yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
    for broker, znode in sorted(tree.brokers.items()):
        names = [endpoint.partition("://")[0] for endpoint in znode.endpoints]
        if config.inter_broker_listener not in names:
            reason = f"broker {broker} has no listener {config.inter_broker_listener} (it has {names})"
            yield CONTROLLER_FILES_DISAGREE.found(file=config.file, reason=reason)
    try:
        meta = read_meta_properties(config.metadata_log_dir)
    except FindingError:
        return  # not formatted yet, or on another machine
    if meta.cluster_id != tree.cluster_id:
        yield CLUSTER_ID_DIFFERS.found(zookeeper=tree.cluster_id, controllers=meta.cluster_id)
