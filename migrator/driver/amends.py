"""What was damaged in ZooKeeper after the commit, and how each oddity is put right: the log is the truth.

In:   a tree as read, with its problems, and what the log says.
Out:  `Amends`: znodes to rewrite, znodes to remove with all below them, and what is left as it is, with an alarm.
Elsewhere: reading (node.zookeeper.tree_reader), sending and reading again (node.zookeeper.amending), the differences
that are left then (mirror.py), what stops a copy instead (gate.py).
Rules, by name:
  the log's topic    the znode of a topic that the log has is rewritten; also when it has a partition too many
  only in ZooKeeper  a topic, a name or a configuration that the log cannot have is removed, with all below it; so is
                     configuration of a broker whose name is no id, also an empty one
  one id, one topic  a topic with an id that the log has under another name is only in ZooKeeper; so are two with one id
  the log's value    a znode that cannot be read, and of which the log has a value, is overwritten by the difference
  no value           one of which the log has none is emptied, or removed where nothing lies below it
  too large          what no server takes in one request stays as it is
  not ours           whatever is not mirrored stays as it is
Nobody is kept waiting by any of them: what cannot be put right is named, and bars the way back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from migrator.driver.checks.content import BROKER_ID
from migrator.driver.tree import Tree
from migrator.findings.content import STATE_MISSING
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.zookeeper import ZNODE_NOT_WRITTEN
from migrator.model.image import NO_CONFIG, NO_QUOTAS, Image
from migrator.model.values import ConfigKey, ConfigType, Partition, ScramKey, ScramMechanism, Topic
from migrator.zk import paths
from migrator.zk.acl_znodes import ACL_ROOTS, acl_resource
from migrator.zk.entity_znodes import entity_of
from migrator.zk.multi import ZNODE_BYTES_MAX
from migrator.zk.znodes import config_data, state_data, topic_data


@dataclass(slots=True)
class Amends:
    """rewrite: data by path, None for a znode without any. remove: subtrees. left: problems of znodes that are not
    mirrored, or too large.
    """

    rewrite: dict[str, bytes | None] = field(default_factory=dict)
    remove: set[str] = field(default_factory=set)
    left: list[Occurrence] = field(default_factory=list)

    @property
    def places(self) -> list[str]:
        return sorted({*self.rewrite, *self.remove})


def amends(tree: Tree, target: Image, zk_epoch: int, znode_bytes_max: int = ZNODE_BYTES_MAX) -> Amends:
    """zk_epoch: that of the claim, for partition states. znode_bytes_max: of path and data."""
    found = _Amending(tree, target, zk_epoch)
    for problem in tree.problems:
        found.take(problem)
    found.shared_ids()
    found.odd_brokers()
    made = found.made
    made.remove = {path for path in made.remove if not _below_any(path.rpartition("/")[0], made.remove)}
    made.rewrite = {path: data for path, data in made.rewrite.items() if not _below_any(path, made.remove)}
    for path, size in sorted((path, len(path.encode()) + len(data or b"")) for path, data in made.rewrite.items()):
        if size > znode_bytes_max:
            del made.rewrite[path]
            made.left.append(ZNODE_NOT_WRITTEN.found(path=path, bytes=size, limit=znode_bytes_max))
    return made


def _below_any(path: str, removed: Iterable[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in removed)


class _Amending:
    def __init__(self, tree: Tree, target: Image, zk_epoch: int) -> None:
        self.made = Amends()
        self._tree = tree
        self._target = target
        self._zk_epoch = zk_epoch

    def take(self, problem: Occurrence) -> None:
        """One problem of the reading."""
        path = str(problem.values.get("path", ""))
        words = path.split("/")
        match words[1:]:
            case ["brokers", "topics", name]:
                self._topic(name)
            case ["brokers", "topics", name, "partitions", partition, "state"]:
                self._state(name, int(partition), path, is_missing=problem.code == STATE_MISSING.code)
            case ["config", "topics", name]:
                self._config(path, ConfigKey(ConfigType.TOPIC, name), foreign_one=name not in self._target.topic_ids)
            case ["config", "brokers", name]:
                key = ConfigKey(ConfigType.BROKER, "" if name == paths.DEFAULT_ENTITY else name)
                self._config(path, key, foreign_one=False)
            case ["config", "users" | "clients" | "ips", *_]:
                self._entity(path)
            case ["latest_producer_id_block"]:
                if self._target.next_producer_id <= 0:
                    self.made.rewrite[path] = None
            case ["admin", *_]:
                pass  # an order: taken away unread (orders.py)
            case ["delegation_token", "tokens", token]:
                if token not in self._target.tokens:
                    self.made.remove.add(path)
            case _:
                self._acls_or_left(path, problem)

    # --- topics --------------------------------------------------------------------------------------------

    def _by_name(self, name: str) -> Topic | None:
        topic_id = self._target.topic_ids.get(name)
        return None if topic_id is None else self._target.topics[topic_id]

    def _topic(self, name: str) -> None:
        topic = self._by_name(name)
        if topic is None:
            self.made.remove |= {paths.topic(name), paths.topic_config(name)}
        else:
            self.made.rewrite[paths.topic(name)] = topic_data(topic)

    def _state(self, name: str, number: int, path: str, *, is_missing: bool) -> None:
        """A missing one of the log's is made with its parents (tree.missing_states)."""
        topic = self._by_name(name)
        if topic is None:
            return  # the whole topic is only in ZooKeeper: the difference deletes it
        partition: Partition | None = topic.partition(number)
        if partition is None:
            self.made.rewrite[paths.topic(name)] = topic_data(topic)
            self.made.remove.add(paths.partition(name, number))
        elif not is_missing:
            self.made.rewrite[path] = state_data(partition, self._zk_epoch)

    def shared_ids(self) -> None:
        """Brokers could not tell the logs of two such topics apart, nor has the log a form of it."""
        names: dict[bytes, list[str]] = {}
        for name, reading in self._tree.topics.items():
            names.setdefault(reading.topic.id, []).append(name)
        for topic_id, of_id in names.items():
            known = self._target.topics.get(topic_id)
            if known is not None:
                foreign = [name for name in of_id if name != known.name]
            else:
                foreign = of_id if len(of_id) > 1 else []  # one alone is deleted by the difference
            for name in foreign:
                self._topic(name)

    def odd_brokers(self) -> None:
        """Configuration of what cannot be a broker, also an empty one: brokers read the names, and end over such a one
        when they start.
        """
        for name in self._tree.broker_configs:
            if name and not BROKER_ID.fullmatch(name):
                self._config(paths.broker_config(name), ConfigKey(ConfigType.BROKER, name), foreign_one=True)

    # --- the other families --------------------------------------------------------------------------------

    def _config(self, path: str, key: ConfigKey, *, foreign_one: bool) -> None:
        if foreign_one and not self._target.configs.get(key, NO_CONFIG):
            self.made.remove.add(path)
        elif not self._target.configs.get(key, NO_CONFIG):
            self.made.rewrite[path] = config_data({})

    def _entity(self, path: str) -> None:
        try:
            entity = entity_of(path)
        except (FindingError, ValueError, KeyError):
            self.made.remove.add(path)
            return
        user = entity.parts[0][1] if entity.types == ("user",) else None
        has_credential = user is not None and any(ScramKey(user, each) in self._target.scram for each in ScramMechanism)
        if not has_credential and not self._target.quotas.get(entity, NO_QUOTAS):
            self.made.rewrite[path] = config_data({})

    def _acls_or_left(self, path: str, problem: Occurrence) -> None:
        for pattern, root in ACL_ROOTS.items():
            kind, _, name = path.removeprefix(f"{root}/").partition("/")
            if path.startswith(f"{root}/") and name:
                try:
                    resource = acl_resource(pattern, kind, name)
                except FindingError:
                    self.made.remove.add(path)
                    return
                if not self._target.acl_entries(resource):
                    self.made.remove.add(path)
                return
        self.made.left.append(problem)
