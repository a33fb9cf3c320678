"""What ZooKeeper holds, as values: the whole tree of a cluster, one topic at a time.

In:   znodes as read, in bulk, and what the reading before this one knew (so that only what moved is decoded).
Out:  a `Tree`: topics with their partitions and configuration, broker configuration, producer ids, the families of
      security, and every oddity met on the way as an occurrence of a finding, with its path.
Elsewhere: the reading itself (node.zookeeper.tree_reader), quotas, credentials, ACLs and tokens (families.py), the
records (copy.py), which oddity blocks (gate.py).
Source: Kafka 3.9 `ZkData.scala`, `ZkTopicMigrationClient.scala`; unlike the latter nothing is invented for a
missing znode (F-23, F-26).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from migrator.driver.families import Families, described_credentials
from migrator.findings.content import MALFORMED_ZNODE, STATE_MISSING, TOPIC_ID_MISSING
from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import ConfigKey, ConfigType, Partition, Topic
from migrator.zk import paths
from migrator.zk.json_texts import check_json
from migrator.zk.passwords import PasswordEncoder, clear_config
from migrator.zk.znodes import (
    UNREADABLE,
    BrokerZnode,
    ControllerZnode,
    MigrationZnode,
    ProducerIdBlock,
    StateZnode,
    TopicZnode,
    ZkReassignment,
    parse,
    parse_config,
    replica_lists,
    topic_id_bytes,
)


class VersionedZnodeRead(Protocol):
    """A znode as read: its bytes, data version, and the transaction that last changed it."""

    @property
    def data(self) -> bytes | None: ...
    @property
    def version(self) -> int: ...
    @property
    def mzxid(self) -> int: ...


class TopicHead(msgspec.Struct, gc=False):
    """A topic's own znode, before its partition states are known."""

    name: str
    mzxid: int
    topic_id: bytes
    replicas: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]]
    removing: dict[int, tuple[int, ...]]


class TopicReading(msgspec.Struct, gc=False):
    """One topic, complete. The mzxids tell whether any of its znodes moved since."""

    topic: Topic
    config: dict[str, str]
    mzxid: int
    config_mzxid: int
    state_mzxids: array[int]
    controller_epoch_max: int
    """The highest controller epoch in any of its states: the next claim must be above it."""
    sound: bool = True
    """Whether nothing was odd about it; only a sound reading may be taken over by the next one."""


@dataclass(slots=True)
class Tree:
    """Everything that the copy, the gate and `check` want to know of one ZooKeeper tree.

    problems: what could not be read as Kafka writes it, in reading order.
    """

    cluster_id: str | None = None
    topics: dict[str, TopicReading] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """By broker id as text; "" is the default of all brokers. Passwords are encrypted, as they were read."""
    orphan_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Configuration of topics that do not exist, by topic name."""
    config_paths: set[str] = field(default_factory=set)
    """Each znode of a configuration, a user, a client, an address, ACLs or a token that exists, also the empty ones,
    and of the znodes above them those that a cluster may be without."""
    producer_ids: ProducerIdBlock | None = None
    producer_ids_version: int = -1
    brokers: dict[int, BrokerZnode] = field(default_factory=dict)
    controller: ControllerZnode | None = None
    controller_epoch: int | None = None
    migration: MigrationZnode | None = None
    migration_present: bool = False
    pending_deletions: list[str] = field(default_factory=list)
    ordered_moves: tuple[ZkReassignment, ...] = ()
    """What `/admin/reassign_partitions` says, begun or not."""
    families: Families = field(default_factory=Families)
    features: list[str] = field(default_factory=list)
    """Names of features that `/feature` finalizes; its status is "enabled"."""
    uncopied_configs: list[str] = field(default_factory=list)
    """Paths below `/config` of a kind that ZooKeeper-mode brokers do not have."""
    consumer_groups: list[str] = field(default_factory=list)
    """Groups of consumers that keep their offsets in ZooKeeper."""
    missing: list[str] = field(default_factory=list)
    """Persistent znodes that every broker makes and that do not exist (driver.places)."""
    guarded: dict[str, str] = field(default_factory=dict)
    """Access lists by path, where there is one; looked at where a takeover writes
    (`node.zookeeper.tree_reader.read_guards`).
    """
    lists_changed: list[str] = field(default_factory=list)
    """Znodes of topics, their configurations and states, and brokers' configurations whose access list was changed."""
    problems: list[Occurrence] = field(default_factory=list)
    znodes: int = 0
    zxid: int | None = None
    """ZooKeeper's newest transaction, where none was applied from the first answer to the last: then this is the tree
    right after it. None: something was applied meanwhile."""

    def partition_count(self) -> int:
        return sum(len(reading.topic.partitions) for reading in self.topics.values())

    def next_producer_id(self) -> int:
        """The first id that ZooKeeper has not handed out; -1 when it never handed out any."""
        return -1 if self.producer_ids is None else int(self.producer_ids.block_end) + 1

    def highest_controller_epoch(self) -> int:
        return max((reading.controller_epoch_max for reading in self.topics.values()), default=-1)


# --- topics -----------------------------------------------------------------------------------------------


def read_head(name: str, znode: VersionedZnodeRead) -> TopicHead:
    """A topic's znode. Raises a finding with the path when it is malformed or has no id (F-23)."""
    path = paths.topic(name)
    parsed = parse(TopicZnode, path, znode.data)
    if parsed.topic_id is None:
        raise TOPIC_ID_MISSING.error(path=path)
    replicas = replica_lists(path, parsed.partitions)
    if list(replicas) != list(range(len(replicas))):
        raise MALFORMED_ZNODE.error(path=path, reason=f"partition ids are {list(replicas)}, not 0 to n-1")
    adding, removing = replica_lists(path, parsed.adding_replicas), replica_lists(path, parsed.removing_replicas)
    unknown = (adding.keys() | removing.keys()) - replicas.keys()
    if unknown:
        raise MALFORMED_ZNODE.error(path=path, reason=f"partitions {sorted(unknown)} are reassigned and do not exist")
    return TopicHead(
        name=name,
        mzxid=znode.mzxid,
        topic_id=topic_id_bytes(path, parsed.topic_id),
        replicas=replicas,
        adding=adding,
        removing=removing,
    )


class StateReader:
    """Partition states to partitions. Equal replica lists become one tuple: there are few, and a million uses."""

    def __init__(self) -> None:
        self._lists: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._decode = msgspec.json.Decoder(StateZnode).decode

    def _shared(self, replicas: Iterable[int]) -> tuple[int, ...]:
        as_tuple = tuple(replicas)
        return self._lists.setdefault(as_tuple, as_tuple)

    def read(
        self,
        head: TopicHead,
        states: Iterator[VersionedZnodeRead | None],
        config: dict[str, str],
        config_mzxid: int,
        problems: list[Occurrence],
    ) -> TopicReading:
        """All partitions of one topic; `states` yields one znode (or None) per partition, ascending.

        A missing or malformed state is added to `problems`, and the partition is left out.
        """
        before = len(problems)
        partitions: list[Partition] = []
        mzxids: list[int] = []
        epoch_max = -1
        shared, decode = self._shared, self._decode
        for partition_id, replicas in head.replicas.items():
            znode = next(states)
            if znode is None:
                problems.append(STATE_MISSING.found(path=paths.state(head.name, partition_id)))
                mzxids.append(-1)
                continue
            mzxids.append(znode.mzxid)
            try:
                state = decode(check_json(znode.data or b""))
            except UNREADABLE as error:
                path = paths.state(head.name, partition_id)
                problems.append(MALFORMED_ZNODE.found(path=path, reason=words_of(error)))
                continue
            if state.controller_epoch > epoch_max:
                epoch_max = state.controller_epoch
            partitions.append(
                Partition(
                    partition_id,
                    shared(replicas),
                    shared(state.isr),
                    state.leader,
                    state.leader_epoch,
                    znode.version,
                    head.removing.get(partition_id, ()),
                    head.adding.get(partition_id, ()),
                    state.leader_recovery_state,
                )
            )
        topic = Topic(head.name, head.topic_id, tuple(partitions))
        sound = len(problems) == before
        return TopicReading(topic, config, head.mzxid, config_mzxid, array("q", mzxids), epoch_max, sound)


def head_again(before: TopicReading) -> TopicHead:
    """The head of a topic whose own znode did not move, without parsing it again."""
    partitions = before.topic.partitions
    return TopicHead(
        name=before.topic.name,
        mzxid=before.mzxid,
        topic_id=before.topic.id,
        replicas={partition.id: partition.replicas for partition in partitions},
        adding={partition.id: partition.adding for partition in partitions if partition.adding},
        removing={partition.id: partition.removing for partition in partitions if partition.removing},
    )


def read_config(path: str, znode: VersionedZnodeRead | None, problems: list[Occurrence]) -> tuple[dict[str, str], int]:
    """A configuration and its mzxid (-1 when there is no such znode); a malformed one becomes a problem."""
    if znode is None:
        return {}, -1
    try:
        return parse_config(path, znode.data), znode.mzxid
    except FindingError as error:
        problems.append(error.occurrence)
        return {}, znode.mzxid


# --- the tree as an image ---------------------------------------------------------------------------------


class ClearConfigs(NamedTuple):
    """Configurations of brokers with their passwords in clear.

    problems: passwords that cannot be decoded; the configuration of such a broker is left out as a whole.
    unreadable: these brokers, each with the first of its problems.
    """

    values: dict[str, dict[str, str]]
    problems: list[Occurrence]
    unreadable: dict[str, Occurrence]


def clear_broker_configs(tree: Tree, passwords: PasswordEncoder | None) -> ClearConfigs:
    """passwords: None when no secret is known; then every password is a problem."""
    found = ClearConfigs({}, [], {})
    for broker, values in tree.broker_configs.items():
        clear, problems = clear_config(paths.broker_config(broker), values, passwords)
        found.problems.extend(problems)
        if problems:
            found.unreadable[broker] = problems[0]
        else:
            found.values[broker] = clear
    return found


def as_image(
    tree: Tree, base: Image = EMPTY, position: Position | None = None, passwords: PasswordEncoder | None = None
) -> Image:
    """What ZooKeeper says, in the shape in which the log says it, so that the two can be compared.

    Brokers, controllers and features come from `base`: ZooKeeper has no form of them that we mirror. Configuration
    of topics that do not exist stays where it is, in ZooKeeper only. A broker with a password that cannot be decoded
    has no configuration here. Topics and configurations that are those of `base` are its very values: after a copy that
    is nearly all of a tree, and inside the window.
    """
    shared = {"topics": base.topics, "topic_ids": base.topic_ids, "configs": base.configs}
    draft = Draft(msgspec.structs.replace(EMPTY, brokers=base.brokers, controllers=base.controllers, **shared))
    moved = _put_topics(draft, tree, base)
    _put_configs(draft, tree, base, moved, clear_broker_configs(tree, passwords).values)
    tree.families.put_into(draft)
    if tree.producer_ids is not None:
        draft.set_next_producer_id(tree.next_producer_id())
    after = draft.finish(position or base.position).after
    return msgspec.structs.replace(after, features=base.features, migration=base.migration)


def _put_topics(draft: Draft, tree: Tree, base: Image) -> set[str]:
    """Replace the topics of `base` by those of the tree. Returns the names of those that are not the very same."""
    moved = [each.topic for each in tree.topics.values() if base.topics.get(each.topic.id) is not each.topic]
    names = {topic.name for topic in moved}
    for topic_id, topic in base.topics.items():
        if topic.name in names or topic.name not in tree.topics:
            draft.remove_topic(topic_id)
    for topic in moved:
        draft.put_topic(topic)
    return names


def _put_configs(
    draft: Draft, tree: Tree, base: Image, moved: Collection[str], brokers: dict[str, dict[str, str]]
) -> None:
    """Replace the configurations of `base` by those of the tree. moved: topics that were put anew, without theirs."""
    wanted = {ConfigKey(ConfigType.TOPIC, name): each.config for name, each in tree.topics.items() if each.config}
    wanted |= {ConfigKey(ConfigType.BROKER, broker): config for broker, config in brokers.items() if config}
    for key in base.configs:
        if key not in wanted:
            draft.put_config(key, ())
    for key, values in wanted.items():
        known = base.configs.get(key)
        if known is None or (key.type == ConfigType.TOPIC and key.name in moved) or dict(known) != values:
            draft.put_config(key, values.items())


def changed_since(copied: Tree, now: Tree, log: Image = EMPTY) -> list[str]:
    """Names of what is not what was copied: topics, configurations, and the families of security.

    Partition states are not looked at. A credential that the log has is ours: those that Kafka's format tool put into
    it were written into ZooKeeper after the copy. So is an assignment that the log has: moves that had arrived are
    ended right after the commit, and those that were only ordered begin then.
    """

    moved = {name for name, each in now.topics.items() if copied.topics.get(name) is not each}
    moved |= copied.topics.keys() - now.topics.keys()

    def described(tree: Tree) -> dict[str, object]:
        readings = ((name, tree.topics[name]) for name in moved if name in tree.topics)
        topics = {paths.topic(name): (assigned(each.topic), each.config) for name, each in readings}
        configs = {f"/config/brokers/{broker}": values for broker, values in tree.broker_configs.items() if values}
        return {**topics, **configs, **tree.families.described()}

    before, after = described(copied), described(now)
    ours = described_credentials(log.scram)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    for name in moved & now.topics.keys() & copied.topics.keys():
        path, was = paths.topic(name), copied.topics[name]
        by_log = log.topics.get(now.topics[name].topic.id)
        if path in changed and by_log is not None:
            ours[path] = (assigned(by_log), was.config)
    return sorted(path for path in changed if path not in after or ours.get(path) != after[path])


def assigned(topic: Topic) -> tuple[bytes, tuple[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...]]:
    """A topic without its leaders, ISRs and epochs."""
    return topic.id, tuple((each.id, each.replicas, each.adding, each.removing) for each in topic.partitions)


def missing_states(tree: Tree, target: Image) -> list[tuple[str, Partition]]:
    """Partitions that the log and the topic's znode have, and whose state znode does not exist.

    That is what a creation leaves that was too large for one multi, when only the first arrived.
    """
    found = []
    missing = {str(each.values["path"]) for each in tree.problems if each.finding.code == STATE_MISSING.code}
    for name, reading in tree.topics.items():
        topic = target.topics.get(reading.topic.id)
        if reading.sound or topic is None or topic.name != name:
            continue
        found += [(name, each) for each in topic.partitions if paths.state(name, each.id) in missing]
    return found


def replicas_gone(before: Tree | None, after: Tree) -> set[tuple[int, str, int]]:
    """Broker, topic, partition of replicas that ZooKeeper's controller took away between two readings.

    The request that deletes such a log may be lost with that controller.
    """
    gone: set[tuple[int, str, int]] = set()
    for name, now in after.topics.items():
        known = None if before is None else before.topics.get(name)
        if known is None or known is now or known.topic.id != now.topic.id:
            continue
        for partition in now.topic.partitions:
            was = known.topic.partition(partition.id)
            if was is not None and was.replicas != partition.replicas:
                gone |= {(broker, name, partition.id) for broker in set(was.replicas) - set(partition.replicas)}
    return gone


def live_and_assigned(tree: Tree) -> tuple[set[int], Mapping[int, str]]:
    """Broker ids in `/brokers/ids`, and each id in any assignment with one topic that names it."""
    assigned: dict[int, str] = {}
    for reading in tree.topics.values():
        for partition in reading.topic.partitions:
            for broker in partition.replicas:
                assigned.setdefault(broker, reading.topic.name)
    return set(tree.brokers), assigned
