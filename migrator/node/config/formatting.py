"""Make a controller's directories usable, as Kafka's storage tool does.

In:   a configuration, the cluster's id, optionally the release whose metadata.version the cluster begins with.
Out:  formatted directories, and one line per directory for the person who asked.
Elsewhere: the files (storage.py).
Source: Kafka 3.9 `StorageTool`, `Formatter`, `MetadataVersion`.
"""

from __future__ import annotations

import re
from typing import Final

from migrator.findings.quorum import DIRECTORY_UNUSABLE, UNKNOWN_RELEASE
from migrator.findings.service import NO_CLUSTER_ID
from migrator.model.image import METADATA_VERSION
from migrator.model.levels import LATEST, LEVELS, level_of_release
from migrator.node.config.properties import NodeConfig
from migrator.node.log.storage import format_directory, is_formatted, read_meta_properties
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from migrator.wire.messages.metadata import FeatureLevelRecord
from migrator.wire.records import encode_record

LOWEST_BOOTSTRAP: Final = 4
CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
"""Sixteen bytes in base64 without padding, as Kafka's `Uuid` writes them."""


def level_of(release: str) -> int:
    """ "3.9", "3.9.2" and "3.9-IV0" all mean level 21: the highest level of that release, or that level by name."""
    level = level_of_release(release)
    if not level:
        raise UNKNOWN_RELEASE.error(release=release, known=f"3.3 to {LEVELS[LATEST]}")
    return max(level, LOWEST_BOOTSTRAP)


def bootstrap_checkpoint(level: int) -> bytes:
    """What a new log begins with, in the snapshot format at epoch 0 and time 0."""
    value = encode_record(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level), 0)
    return b"".join(
        (
            build_control_batch(base_offset=0, leader_epoch=0, timestamp_ms=0, records=[SnapshotHeaderRecord()]),
            build_batch(base_offset=1, leader_epoch=0, timestamp_ms=0, values=[value]),
            build_control_batch(base_offset=2, leader_epoch=0, timestamp_ms=0, records=[SnapshotFooterRecord()]),
        )
    )


def _refuse_no_id(given: str) -> None:
    if CLUSTER_ID.fullmatch(given) is None:
        raise NO_CLUSTER_ID.error(given=given)


def format_node(config: NodeConfig, cluster_id: str, release: str | None, *, ignore_formatted: bool) -> list[str]:
    """Format what is not formatted yet. Raises Z2K-3012 for what belongs to somebody else, Z2K-4198 for no id."""
    _refuse_no_id(cluster_id)
    level = level_of(release or config.given.get("inter.broker.protocol.version") or LEVELS[LATEST])
    directories = sorted({config.metadata_log_dir, *config.log_dirs})
    for directory in filter(is_formatted, directories):  # all are looked at before one is changed
        meta = read_meta_properties(directory)
        if (meta.cluster_id, meta.node_id) != (cluster_id, config.node_id):
            reason = f"it is formatted for cluster {meta.cluster_id}, node {meta.node_id}"
            raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=reason)
        if not ignore_formatted:
            reason = "it is already formatted (--ignore-formatted passes over such directories)"
            raise DIRECTORY_UNUSABLE.error(directory=str(directory), reason=reason)
    lines = []
    for directory in directories:
        if not is_formatted(directory):
            format_directory(directory, cluster_id, config.node_id, bootstrap_checkpoint(level))
            lines.append(f"Formatting metadata directory {directory} with {METADATA_VERSION} {LEVELS[level]}.")
    return lines or ["All of the log directories are already formatted."]
