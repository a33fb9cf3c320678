"""A copy of ZooKeeper into a metadata log of its own, without touching the cluster.

In:   a ZooKeeper session, an empty directory.
Out:  a directory that `zk2kraft audit`, Kafka's dump tool and a stock controller can read, and how long each part took.
Elsewhere: the copy of a takeover, which is the same code (driver.copy), judged by the same gate (driver.gate).
The person who allows a takeover decides on this: it is what would be committed, minutes earlier.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.kept_reading import KEPT, KeptReading
from migrator.audit.passwords import PasswordReader
from migrator.audit.run import REHEARSAL, RehearsalMark
from migrator.controller.features import activation_records
from migrator.driver.copy import make_copy, producer_id_margin, transaction_batches
from migrator.driver.tree import clear_broker_configs
from migrator.findings.finding import FindingError
from migrator.findings.laboratory import REHEARSAL_OUT_UNUSABLE
from migrator.model.levels import LATEST
from migrator.node.config.encoder_config import encoder_of
from migrator.node.config.formatting import bootstrap_checkpoint
from migrator.node.log.log_replay import read_bootstrap
from migrator.node.log.log_store import LogStore
from migrator.node.log.storage import BOOTSTRAP, LOG_NAME, format_directory, write_durably, write_election_state
from migrator.node.tools.preflight import no_cluster
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.raft.types import ElectionState
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import LeaderChangeMessage, LeaderChangeVoter
from migrator.wire.records import encode_record
from migrator.zk import paths
from migrator.zk.passwords import EncoderSettings
from migrator.zk.pipeline import ReadLimits
from migrator.zk.session import ZkSession

REHEARSAL_NODE: Final = 0
EPOCH: Final = 1
SEGMENT_BYTES: Final = 1 << 30


class RehearsalResult(msgspec.Struct):
    """Keys of `zk2kraft rehearse --json` (a contract)."""

    topics: int
    partitions: int
    znodes: int
    records: int
    read_seconds: float
    encode_seconds: float
    write_seconds: float
    total_seconds: float
    peak_rss_bytes: int
    directory: str


def rehearse(
    session: ZkSession, directory: Path, limits: ReadLimits, passwords: EncoderSettings | None = None
) -> RehearsalResult:
    """Raises Z2K-6019 when the directory holds anything, Z2K-1001 when there is no cluster, and the first
    finding of an unreadable tree.

    passwords: the brokers' settings; None: a tree with passwords cannot be read.
    """
    if directory.exists() and not directory.is_dir():
        raise REHEARSAL_OUT_UNUSABLE.error(directory=str(directory), reason="it is not a directory")
    if directory.exists() and any(directory.iterdir()):
        raise REHEARSAL_OUT_UNUSABLE.error(directory=str(directory), reason="it is not empty")
    if session.get(paths.CLUSTER_ID) is None:
        raise FindingError(no_cluster(session))
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    started = time.monotonic()
    session.sync()
    copied_zxid = session.last_zxid()
    encoder = encoder_of(passwords)
    kept = KeptReading(PasswordReader.of(passwords))
    tree = read_tree(kept.session(session), limits)
    for problem in (*tree.problems, *clear_broker_configs(tree, encoder).problems):
        raise FindingError(problem)
    read = time.monotonic()
    copy = make_copy(tree, passwords=encoder)
    encoded = time.monotonic()
    cluster_id = tree.cluster_id or "unknown"
    format_directory(directory, cluster_id, REHEARSAL_NODE, bootstrap_checkpoint(LATEST))
    store = LogStore.open(directory / LOG_NAME, SEGMENT_BYTES)
    write_election_state(store.directory, ElectionState(EPOCH, leader=REHEARSAL_NODE), [REHEARSAL_NODE])
    now_ms = int(time.time() * 1000)
    for batch in _batches(directory, now_ms):
        store.append(store.end, EPOCH, [batch])
    for _, batch in transaction_batches(copy, now_ms):
        store.append(store.end, EPOCH, [batch])
    store.close()
    mark = RehearsalMark(producer_id_margin(len(tree.brokers)), copied_zxid)
    write_durably(directory / KEPT, kept.content())
    write_durably(directory / REHEARSAL, msgspec.json.encode(mark))
    written = time.monotonic()
    return RehearsalResult(
        topics=len(tree.topics),
        partitions=tree.partition_count(),
        znodes=tree.znodes,
        records=copy.record_count(),
        read_seconds=round(read - started, 3),
        encode_seconds=round(encoded - read, 3),
        write_seconds=round(written - encoded, 3),
        total_seconds=round(written - started, 3),
        peak_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        directory=str(directory),
    )


def _batches(directory: Path, now_ms: int) -> Iterator[bytes]:
    """What a leader writes before the copy: its epoch, then the bootstrap records."""
    voter = LeaderChangeVoter(REHEARSAL_NODE)
    change = LeaderChangeMessage(leader_id=REHEARSAL_NODE, voters=(voter,), granting_voters=(voter,))
    yield build_control_batch(base_offset=0, leader_epoch=EPOCH, timestamp_ms=now_ms, records=[change])
    records = activation_records(
        read_bootstrap(directory / BOOTSTRAP), log_is_empty=True, transaction_open=False, migration_enabled=True
    )
    values = [encode_record(record, version) for record, version in records]
    yield build_batch(base_offset=0, leader_epoch=EPOCH, timestamp_ms=now_ms, values=values)
