"""What a controller begins with: its configuration and the log on its disk, as the cores want them.

In:   a `NodeConfig`, an open log.
Out:  the voter, the settings of the active controller, the log replayed.
Elsewhere: starting anything (controller.py), reading and checking the files (config/properties.py, storage.py).
"""

from __future__ import annotations

from random import SystemRandom

from migrator.controller.decision import ControllerSettings
from migrator.driver.machine import all_in_kraft_mode
from migrator.model.image import Image
from migrator.model.values import MigrationState
from migrator.node.config.properties import NodeConfig
from migrator.node.log.log_replay import ReadAhead, read_ahead, read_snapshot
from migrator.node.log.log_store import LogStore
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.node.log.storage import read_election_state
from migrator.raft.epochs import EpochCache
from migrator.raft.voter import LogView, Voter
from migrator.zk.multi import HEADROOM_BYTES


def make_voter(config: NodeConfig, cluster_id: str, store: LogStore) -> Voter:
    """The core of the quorum, as the disk has it."""
    return Voter(
        node_id=config.node_id,
        voters=config.voter_ids,
        cluster_id=cluster_id,
        state=read_election_state(store.directory),
        log=view_of(store),
        settings=config.quorum,
        chance=SystemRandom().randrange,
    )


def view_of(store: LogStore) -> LogView:
    """What the core knows of the log and its snapshots; opening the log has synced it."""
    files = SnapshotFiles(store.directory)
    stored = files.stored()
    return LogView(
        start=store.start,
        end=store.end,
        durable_end=store.end,
        epochs=EpochCache(store.epochs.entries),
        snapshots=stored,
        snapshot_sizes={each: files.size(each) for each in stored},
    )


def settings_of(config: NodeConfig, cluster_id: str) -> ControllerSettings:
    """What the active controller decides with, as the file says."""
    return ControllerSettings(
        node_id=config.node_id,
        cluster_id=cluster_id,
        migration_enabled=config.migration_enabled,
        inter_broker_listener=config.inter_broker_listener,
        voters=tuple(config.voter_ids),
        session_timeout_ms=config.broker_session_timeout_ms,
        default_replication_factor=config.default_replication_factor,
        num_partitions=config.num_partitions,
        delete_topic_enabled=config.delete_topic_enabled,
        unclean_leader_election=config.unclean_leader_election,
        authorizer=config.authorizer,
        tokens=config.tokens,
        encodes_passwords=config.passwords is not None,
        mutation_windows_s=config.mutation_windows_s,
        znode_bytes_max=config.jute_maxbuffer - HEADROOM_BYTES,
        static=config.given,
        hidden=config.provided,
    )


def zookeeper_needed(stored: Image) -> bool:
    """Whether a controller of a migration has to reach ZooKeeper before it starts.

    Not where the log on its disk says that every broker runs in KRaft mode, or that the migration is over: such a
    cluster lives without ZooKeeper. What the log says when this node leads decides what it may do (driver.machine).
    """
    match stored.migration:
        case MigrationState.POST_MIGRATION:
            return False
        case MigrationState.MIGRATION:
            return not all_in_kraft_mode(stored)
        case _:
            return True


def replay_stored(store: LogStore) -> ReadAhead:
    """Replay what the disk holds, on a thread: at the start nobody knows yet how much of it is committed.

    Nothing is replayed over a gap, or on a snapshot that the log is not the continuation of: a crash inside an
    installation leaves such a log, and the core orders it to be begun anew when it starts (`ResetLog`).
    """
    view = view_of(store)
    if not view.snapshots:
        return read_ahead(store.batches() if store.start == 0 else ())
    newest = view.snapshots[-1]
    if view.lacks(newest) or newest.end_offset < store.start:
        return read_ahead(())
    return read_ahead(store.batches(), read_snapshot(SnapshotFiles(store.directory).path(newest), newest))
