"""Mirror committed metadata into ZooKeeper: from a delta to conditional multis.

In:   a delta (what changed in the log, or what a reading of ZooKeeper showed to differ), the claim with every
      version that a write must name, and the shape of the tree where an image cannot tell it.
Out:  multis in order. Each begins with a check of `/controller_epoch` and sets `/migration` at the version that the one
      before it left; only the last one moves what it says. So a stale writer fails at its first operation, many can be
      in flight, nothing behind a refused one is applied, and `/migration` says what was applied whole.
Elsewhere: sending, and what to do when one is refused (node.driver.mirror_node); reading ZooKeeper
(node.zookeeper.tree_reader).
Rules: the same delta gives the same multis (R-866-02), but for the salts of passwords. A topic's creation or deletion
is one multi where it fits. Deletions come first, so that a name can be taken again (K-07). The data version of each
`state` znode follows its partition epoch: after a rollback the ZooKeeper controller and the brokers go on with these
versions. A version that is far behind is not made up in front of other writes, but noted (lagging.py).
An entity without quotas and credentials loses its znode, as when a ZooKeeper-mode controller takes them away, and
brokers hear of tokens too (K-10, K-13).
Source: KIP-866; Kafka 3.9 `KRaftMigrationZkWriter`, `ZkTopicMigrationClient`, `ZkConfigMigrationClient`,
`ZkAclMigrationClient`, `ZkDelegationTokenMigrationClient`; `AdminZkClient` for what is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from migrator.driver.chained import bytes_max, chained, guarded, pack
from migrator.driver.claim import Claim
from migrator.driver.lagging import NOTHING_LAGS, RAISES_MAX, Lagging
from migrator.driver.paths_set import PathsSet
from migrator.driver.unmirrored import Job, Unmirrored, attempted
from migrator.findings.zookeeper import TOPIC_NOT_WHOLE, ZNODE_NOT_WRITTEN
from migrator.model.diff import MIRRORED_CONFIGS, same_partition
from migrator.model.draft import Delta
from migrator.model.image import NO_CONFIG, NO_QUOTAS, Image, Position
from migrator.model.values import (
    AclResource,
    ConfigKey,
    ConfigType,
    Partition,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    ScramMechanism,
    Topic,
    is_password,
)
from migrator.zk import paths
from migrator.zk.acl_znodes import acl_change, acl_data, acl_path, token_change, token_data
from migrator.zk.entity_znodes import QUOTA_KEYS, entity_data, entity_path
from migrator.zk.multi import HEADROOM_BYTES, JUTE_MAXBUFFER, Check, Create, Delete, Multi, Operation, SetData
from migrator.zk.passwords import PasswordEncoder, encoded_config
from migrator.zk.znodes import (
    config_change_data,
    config_data,
    producer_ids_data,
    state_data,
    topic_data,
)

PRODUCER_ID_BLOCK: Final = 1_000


@dataclass(frozen=True, slots=True)
class Shape:
    """What an image cannot tell of the tree: which znodes exist (an empty one looks like none).

    configs: of configurations, entities, ACLs and tokens, and of the znodes above them that a cluster may lack.
    below: by topic name, every znode below the topic's own, where that was read. Of other topics there are exactly
        those that the image has.
    unreadable: brokers with a password in ZooKeeper that cannot be decoded: their configuration stays as it is there.
    unmirrored: subjects of what could not be written before. A topic among them is not as the image says, and nothing
        of it is changed before it was read again.
    jute_maxbuffer: what the servers take in one request.
    """

    configs: Set[str] = frozenset()
    below: Mapping[str, Collection[str]] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    unmirrored: frozenset[Hashable] = frozenset()
    lagging: Lagging = NOTHING_LAGS
    jute_maxbuffer: int = JUTE_MAXBUFFER


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """The multis, the claim and the znodes of `Shape.configs` that stand when all are applied."""

    multis: tuple[Multi, ...]
    claim: Claim
    configs: Set[str]
    writes: int
    """Znode writes without the checks and without `/migration`."""
    unmirrored: tuple[Unmirrored, ...] = ()
    """What was left out, all the rest being written: whatever it is, it keeps no other change from ZooKeeper."""
    lagging: Lagging = NOTHING_LAGS
    """Whose versions are behind their partition epochs when all are applied."""


def plan(
    delta: Delta, claim: Claim, at: Position, shape: Shape, passwords: PasswordEncoder | None = None
) -> MirrorPlan:
    """Turn one delta into multis; `at` is what `/migration` shall say afterwards.

    passwords: None when there is no secret to encode them with.

    Returns no multi at all for a delta that ZooKeeper has no form of (NoOps, broker registrations, features). Total: a
    change that cannot be planned, or whose paths ZooKeeper does not take, is `unmirrored`.
    """
    writer = _Writer(claim, shape, passwords)
    deleted, created, changed = _sort_topics(delta)
    created_names = {topic.name for topic in created}

    def stays(key: ConfigKey) -> bool:
        """Whether it stays in ZooKeeper as it is: passwords are neither published nor taken from a broker."""
        by_name = key.type == ConfigType.BROKER and key.name in shape.unreadable
        return by_name or (passwords is None and _holds_passwords(delta, key))

    configs = [
        key
        for key in sorted(delta.configs)
        if not (key.type == ConfigType.TOPIC and key.name in created_names) and not stays(key)
    ]
    after, entities = delta.after, _entities(delta)
    jobs = [Job("topic", each.name, each.id, partial(writer.delete_topic, each)) for each in deleted]
    jobs += [Job("topic", each.name, each.id, partial(writer.create_topic, each, after)) for each in created]
    jobs += [Job("topic", right.name, right.id, partial(writer.change_topic, left, right)) for left, right in changed]
    jobs += [Job("config", f"{key.type} {key.name}", key, partial(writer.write_config, key, after)) for key in configs]
    jobs += [Job("entity", str(each.parts), each, partial(writer.write_entity, each, after)) for each in entities]
    if delta.producer_ids and after.next_producer_id > 0:
        write = partial(writer.write_producer_ids, after.next_producer_id)
        jobs.append(Job("producer ids", "", PRODUCER_ID_BLOCK, write))
    jobs += [Job("ACLs", str(each), each, partial(writer.write_acls, each, after)) for each in sorted(delta.acls)]
    jobs += [Job("token", each, each, partial(writer.write_token, each, after)) for each in sorted(delta.tokens)]
    groups, unmirrored = attempted(writer.attempt, jobs)
    groups = [group for group in groups if group]
    # No multi, not even for the position: NoOps come every half second and would each be a write to ZooKeeper.
    if not groups:
        return MirrorPlan((), claim, shape.configs, 0, unmirrored, writer.lagging)
    multis, after_claim = chained(pack(groups, bytes_max(shape.jute_maxbuffer)), claim, at)
    return MirrorPlan(multis, after_claim, writer.configs, sum(map(len, groups)), unmirrored, writer.lagging)


def still_unmirrored(before: Iterable[Unmirrored], delta: Delta, planned: MirrorPlan) -> tuple[Unmirrored, ...]:
    """What is not in ZooKeeper once the delta is; what the delta touches was planned anew."""
    held = list(before)
    if not held:
        return planned.unmirrored
    touched: set[Hashable] = {*delta.topics, *delta.configs, *_entities(delta), *delta.acls, *delta.tokens}
    if delta.producer_ids:
        touched.add(PRODUCER_ID_BLOCK)
    return (*(each for each in held if each.subject not in touched), *planned.unmirrored)


def state_creation(
    missing: Iterable[tuple[str, Partition]],
    existing: Collection[str],
    claim: Claim,
    jute_maxbuffer: int = JUTE_MAXBUFFER,
) -> tuple[Multi, ...]:
    """Create the state znodes of these partitions, with their parents where those do not exist either.

    missing: topic name and partition. existing: those of the parents that exist.
    """
    states = list(missing)
    parents = {path: None for name, each in states for path in (paths.partitions(name), paths.partition(name, each.id))}
    operations: list[Operation] = [Create(path, b"") for path in parents if path not in existing]
    operations += [Create(paths.state(name, each.id), state_data(each, claim.zk_epoch)) for name, each in states]
    return guarded([Check(paths.CONTROLLER_EPOCH, claim.epoch_version)], operations, jute_maxbuffer)


def needs_zookeeper_first(delta: Delta) -> frozenset[bytes]:
    """Topics of which brokers may hear only after ZooKeeper has them: a broker that creates, drops or moves a
    replica reads the topic's configuration there. Leader and ISR changes wait for nothing.
    """
    return frozenset(topic_id for topic_id in delta.topics if _replicas_change(delta, topic_id))


def _replicas_change(delta: Delta, topic_id: bytes) -> bool:
    before, after = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
    if before is None or after is None or len(before.partitions) != len(after.partitions):
        return True
    return any(left.replicas != right.replicas for left, right in zip(before.partitions, after.partitions, strict=True))


def _holds_passwords(delta: Delta, key: ConfigKey) -> bool:
    """A broker's passwords are clear in the log and encrypted in ZooKeeper."""
    sides = delta.before.configs.get(key, NO_CONFIG), delta.after.configs.get(key, NO_CONFIG)
    return key.type == ConfigType.BROKER and any(is_password(name) for side in sides for name in side)


def _entities(delta: Delta) -> list[QuotaEntity]:
    """Whose znodes a delta touches. Users come last: their clients' znodes are below theirs."""
    touched = delta.quotas | {QuotaEntity((("user", key.user),)) for key in delta.scram}
    return sorted(touched, key=lambda entity: (entity.types == ("user",), entity.place))


def _sort_topics(delta: Delta) -> tuple[list[Topic], list[Topic], list[tuple[Topic, Topic]]]:
    deleted: list[Topic] = []
    created: list[Topic] = []
    changed: list[tuple[Topic, Topic]] = []
    for topic_id in delta.topics:
        before, after = delta.before.topics.get(topic_id), delta.after.topics.get(topic_id)
        if before is not None and after is not None:
            changed.append((before, after))
        elif before is not None:
            deleted.append(before)
        elif after is not None:
            created.append(after)
    return (
        sorted(deleted, key=lambda topic: topic.name),
        sorted(created, key=lambda topic: topic.name),
        sorted(changed, key=lambda pair: pair[1].name),
    )


class _Writer:
    """Operations per kind of change; keeps account of which znodes exist."""

    def __init__(self, claim: Claim, shape: Shape, passwords: PasswordEncoder | None) -> None:
        self._claim = claim
        self._passwords = passwords
        self._below = shape.below
        self._unmirrored = shape.unmirrored
        self._znode_bytes_max = shape.jute_maxbuffer - HEADROOM_BYTES
        self.configs = PathsSet(shape.configs)
        self._dropped: set[str] = set()
        self._noted: list[tuple[str, bool]] = []
        self.lagging = shape.lagging
        self._raises_left = RAISES_MAX

    def attempt(self, make: Callable[[], list[Operation]]) -> list[Operation]:
        """What `make` writes. When it raises, or ZooKeeper takes no such path, nothing of it is noted."""
        self._noted.clear()
        lagging, raises_left = self.lagging, self._raises_left
        try:
            group = make()
            for operation in group:
                problem = paths.problem_of(operation.path)
                if problem is not None:
                    raise ValueError(f"{operation.path}: {problem}")
                if isinstance(operation, (Create, SetData)) and operation.znode_bytes > self._znode_bytes_max:
                    raise ZNODE_NOT_WRITTEN.error(
                        path=operation.path, bytes=operation.znode_bytes, limit=self._znode_bytes_max
                    )
        except Exception:
            self.lagging, self._raises_left = lagging, raises_left
            for path, stands in reversed(self._noted):
                (self.configs.discard if stands else self.configs.add)(path)
            raise
        return group

    def _note(self, path: str, *, stands: bool) -> None:
        """From here on this znode exists, or does not."""
        if (path in self.configs) != stands:
            self._noted.append((path, stands))
            (self.configs.add if stands else self.configs.discard)(path)

    # --- topics --------------------------------------------------------------------------------------------

    def create_topic(self, topic: Topic, image: Image) -> list[Operation]:
        """The whole topic: its configuration first, since a broker reads it when it creates the log. Not all of it
        then (throttled replicas): the notification makes it read that too.
        """
        values = dict(image.config(ConfigType.TOPIC, topic.name))
        operations = [self._put_config(paths.topic_config(topic.name), values)]
        operations.append(Create(paths.topic(topic.name), topic_data(topic)))
        operations.append(Create(paths.partitions(topic.name), b""))
        for partition in topic.partitions:
            operations += self._create_partition(topic, partition)
        if values:
            operations.append(_config_changed(paths.topic_config(topic.name)))
        return operations

    def delete_topic(self, topic: Topic) -> list[Operation]:
        self.lagging = self.lagging.without(topic.id)
        operations: list[Operation] = [Delete(path) for path in self._znodes_below(topic)]
        config = paths.topic_config(topic.name)
        if config in self.configs:
            self._note(config, stands=False)
            operations.append(Delete(config))
        operations.append(Delete(paths.topic(topic.name)))
        return operations

    def _znodes_below(self, topic: Topic) -> list[str]:
        """Children before their parents: a znode with children cannot be deleted (K-09)."""
        read = self._below.get(topic.name)
        if read is not None:
            return _deepest_first(read)
        found = []
        for partition in topic.partitions:
            found += [paths.state(topic.name, partition.id), paths.partition(topic.name, partition.id)]
        return [*found, paths.partitions(topic.name)]

    def _delete_partition(self, topic: str, partition: int) -> list[Operation]:
        """What is there of a partition: as read, or else its two znodes."""
        path = paths.partition(topic, partition)
        read = self._below.get(topic)
        if read is None:
            return [Delete(paths.state(topic, partition)), Delete(path)]
        return [Delete(each) for each in _deepest_first(read) if each == path or each.startswith(f"{path}/")]

    def change_topic(self, before: Topic, after: Topic) -> list[Operation]:
        # Some of it is missing in ZooKeeper: a change would be written onto znodes that are not there.
        if after.id in self._unmirrored:
            raise TOPIC_NOT_WHOLE.error(topic=after.name)
        operations: list[Operation] = []
        if _assignment(before) != _assignment(after):
            operations.append(SetData(paths.topic(after.name), topic_data(after)))
        known = {partition.id: partition for partition in before.partitions}
        for partition in after.partitions:
            left = known.pop(partition.id, None)
            if left is None:
                if after.name in self._below:  # an administrator may have left znodes where the assignment names none
                    operations += self._delete_partition(after.name, partition.id)
                operations += self._create_partition(after, partition)
            elif not same_partition(left, partition):
                operations += self._change_state(after, left, partition)
        for partition_id in known:
            self.lagging = self.lagging.noted(after.id, partition_id, 0)
            operations += self._delete_partition(after.name, partition_id)
        return operations

    def _create_partition(self, topic: Topic, partition: Partition) -> list[Operation]:
        return [Create(paths.partition(topic.name, partition.id), b""), *self._create_state(topic, partition)]

    def _create_state(self, topic: Topic, partition: Partition) -> list[Operation]:
        """A new state znode is at version 0; each further write brings it nearer to the partition epoch."""
        path, data = paths.state(topic.name, partition.id), state_data(partition, self._claim.zk_epoch)
        raises = self._raises(partition.partition_epoch)
        self.lagging = self.lagging.noted(topic.id, partition.id, partition.partition_epoch - raises)
        return [Create(path, data), *(SetData(path, data, version) for version in range(raises))]

    def _change_state(self, topic: Topic, left: Partition, right: Partition) -> list[Operation]:
        """One write for what it says, and as many as the partition epoch has moved while the plan has some to spend.

        What lagged before goes on lagging by as much: it is raised when nothing waits. A version that is too high needs
        a new znode.
        """
        if _only_assignment_differs(left, right):
            return []
        path, data = paths.state(topic.name, right.id), state_data(right, self._claim.zk_epoch)
        version = left.partition_epoch - self.lagging.left(topic.id, right.id)
        if right.partition_epoch <= version:
            return [Delete(path, version), *self._create_state(topic, right)]
        needed = 0 if _says_the_same(left, right) else 1
        writes = needed + self._raises(right.partition_epoch - left.partition_epoch - needed)
        self.lagging = self.lagging.noted(topic.id, right.id, right.partition_epoch - version - writes)
        return [SetData(path, data, each) for each in range(version, version + writes)]

    def _raises(self, wanted: int) -> int:
        """How many writes that only raise a version this plan still makes."""
        raises = max(0, min(wanted, self._raises_left))
        self._raises_left -= raises
        return raises

    # --- configs and producer ids --------------------------------------------------------------------------

    def write_config(self, key: ConfigKey, image: Image) -> list[Operation]:
        """One resource and the notification by which brokers hear of it. Other resources have no znode."""
        if key.type not in MIRRORED_CONFIGS:
            return []
        is_topic = key.type == ConfigType.TOPIC
        if is_topic and key.name not in image.topic_ids:
            return self._drop(paths.topic_config(key.name))
        path = paths.topic_config(key.name) if is_topic else paths.broker_config(key.name)
        values = dict(image.configs.get(key, {}))
        if not is_topic:
            values = encoded_config(path, values, self._passwords)
        writes = [self._put_config(path, values)] if values else self._drop(path)
        if not writes:
            return []
        return [*writes, _config_changed(path)]

    def _put_config(self, path: str, values: dict[str, str]) -> Operation:
        return self._put(path, config_data(dict(sorted(values.items()))))

    def _put(self, path: str, data: bytes) -> Operation:
        if path in self.configs:
            return SetData(path, data)
        self._note(path, stands=True)
        return Create(path, data)

    def _drop(self, path: str) -> list[Operation]:
        if path not in self.configs:
            return []
        self._note(path, stands=False)
        self._dropped.add(path)
        return [Delete(path)]

    def _parents(self, path: str) -> list[Operation]:
        """Create what is missing above a znode; what every broker makes at its start is there."""
        words = path.split("/")
        above = ["/".join(words[:length]) for length in range(2, len(words))]
        missing = [each for each in above if each not in self.configs and each not in _ALWAYS_THERE]
        for each in missing:
            self._note(each, stands=True)
        return [Create(each, b"") for each in missing]

    def write_producer_ids(self, next_producer_id: int) -> list[Operation]:
        """The block before the next id, as if it had just been handed out: ZooKeeper goes on exactly there (K-12).

        It is signed with this node's id. Stock signs with -1, so that an audit sees whose rule the znode follows.
        """
        first = next_producer_id - PRODUCER_ID_BLOCK
        return [SetData(paths.PRODUCER_IDS, producer_ids_data(self._claim.node, first, next_producer_id - 1))]

    # --- users, clients, addresses -------------------------------------------------------------------------

    def write_entity(self, entity: QuotaEntity, image: Image) -> list[Operation]:
        """Quotas, and of a user the credentials too, which share its znode. Other entities have no znode."""
        path = entity_path(entity)
        limits, credentials = image.quotas.get(entity, NO_QUOTAS), _credentials(entity, image)
        if path is None:
            if entity.types in QUOTA_KEYS and (limits or credentials):
                raise ValueError("ZooKeeper takes no znode of this name")
            return []
        if limits or credentials:
            writes = [*self._parents(path), self._put(path, entity_data(dict(limits), credentials))]
        else:
            writes = self._drop_entity(path, entity, image)
        if not writes and path not in self._dropped:
            return []
        return [*writes, _config_changed(path)]

    def _drop_entity(self, path: str, entity: QuotaEntity, image: Image) -> list[Operation]:
        """The znode, and those above it that are left with nothing; one with clients below stays, without values."""
        if path not in self.configs:
            return []
        if f"{path}/clients" in self.configs:
            return [SetData(path, config_data({}))]
        writes = self._drop(path)
        if entity.types == ("user", "client-id"):
            clients = path.rpartition("/")[0]
            if not any(each.startswith(f"{clients}/") for each in self.configs):
                writes += self._drop(clients)
                user = QuotaEntity(entity.parts[:1])
                if user not in image.quotas and not _credentials(user, image):
                    writes += self._drop(clients.rpartition("/")[0])
        return writes

    # --- ACLs and tokens -----------------------------------------------------------------------------------

    def write_acls(self, resource: AclResource, image: Image) -> list[Operation]:
        """All ACLs of one resource, which share its znode. A name that ZooKeeper does not take has none."""
        path = acl_path(resource)
        if path is None:
            return []
        entries = image.acl_entries(resource)
        writes = [*self._parents(path), self._put(path, acl_data(entries))] if entries else self._drop(path)
        return self._notified(writes, *acl_change(resource))

    def write_token(self, token_id: str, image: Image) -> list[Operation]:
        path, token = paths.token(token_id), image.tokens.get(token_id)
        writes = self._drop(path) if token is None else [*self._parents(path), self._put(path, token_data(token))]
        return self._notified(writes, *token_change(token_id))

    def _notified(self, writes: list[Operation], path: str, updated: bytes) -> list[Operation]:
        return [*writes, *self._parents(path), Create(path, updated, sequence=True)] if writes else []


def _config_changed(path: str) -> Create:
    """The notification by which brokers read a configuration again."""
    updated = config_change_data(path.removeprefix(paths.CONFIG + "/"))
    return Create(paths.CONFIG_CHANGE_PREFIX, updated, sequence=True)


_ALWAYS_THERE: Final = frozenset({paths.CONFIG, paths.USER_CONFIGS, paths.CLIENT_CONFIGS, paths.IP_CONFIGS})


def _deepest_first(znodes: Iterable[str]) -> list[str]:
    return sorted(znodes, key=lambda path: (-path.count("/"), path))


def _credentials(entity: QuotaEntity, image: Image) -> dict[ScramMechanism, ScramCredential]:
    """A user's; all others have none."""
    name = entity.parts[0][1]
    if entity.types != ("user",) or name is None:
        return {}
    found = {mechanism: image.scram.get(ScramKey(name, mechanism)) for mechanism in ScramMechanism}
    return {mechanism: kept for mechanism, kept in found.items() if kept is not None}


def _assignment(topic: Topic) -> list[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    return [(each.id, each.replicas, each.adding, each.removing) for each in topic.partitions]


def _only_assignment_differs(left: Partition, right: Partition) -> bool:
    """What stands in the state znode is equal, its version included; the rest is the topic znode's."""
    return left.partition_epoch == right.partition_epoch and _says_the_same(left, right)


def _says_the_same(left: Partition, right: Partition) -> bool:
    """The data of the state znode is equal."""
    return (left.leader, left.leader_epoch, left.isr, left.recovery) == (
        right.leader,
        right.leader_epoch,
        right.isr,
        right.recovery,
    )
