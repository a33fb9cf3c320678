"""Read a cluster's whole ZooKeeper tree, in bulk.

In:   a session, how hard it may press the ensemble, and the reading before this one if there was any.
Out:  a `Tree` (driver.tree). Topics whose znodes did not move since `before` are taken over unparsed.
Elsewhere: what the znodes mean (driver.tree, zk.znodes), when to read (the driver's acts, `check`, `rehearse`).
The reading is not a snapshot. After the claim nothing of the old controller can be written, and what is not fenced
by it (producer ids, assignments, first configs, ACLs, tokens) is looked at again at the end, in `moved_since`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from migrator.driver.families import Families
from migrator.driver.places import PLACE_PATHS
from migrator.driver.tree import (
    StateReader,
    TopicHead,
    TopicReading,
    Tree,
    head_again,
    read_config,
    read_head,
)
from migrator.findings.content import MALFORMED_ZNODE
from migrator.findings.finding import FindingError, Occurrence
from migrator.zk import paths
from migrator.zk.acl_znodes import ACL_ROOTS
from migrator.zk.bulk_read import Znode
from migrator.zk.pipeline import UNLIMITED, ReadLimits
from migrator.zk.session import ZkSession
from migrator.zk.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    ControllerZnode,
    parse,
    parse_controller_epoch,
    parse_features,
    parse_migration,
    parse_ordered_moves,
    parse_producer_ids,
)


def read_tree(
    session: ZkSession,
    limits: ReadLimits = UNLIMITED,
    before: Tree | None = None,
    *,
    claimed_by: int | None = None,
) -> Tree:
    """The whole tree. The producer-id block is read last: it moves on while ZooKeeper-mode brokers allocate.

    claimed_by: this node, if since `before` it wrote nothing but its claim and its presence. Then topics are taken over
        unread where ZooKeeper's own count of transactions says that nobody else wrote anything either.
    """
    tree = Tree()
    began = session.newest_zxid()
    tree.missing = missing_places(session)
    _read_cluster(session, tree)
    if claimed_by is not None and before is not None and _nothing_but_claim(session, before, began, claimed_by):
        _take_topics_over(tree, before)
    else:
        _read_topics(session, limits, tree, {} if before is None else before.topics)
    _read_controller_epoch(session, tree)
    _read_broker_configs(session, limits, tree)
    _read_families(session, limits, tree)
    _read_features(session, tree)
    _read_what_is_not_copied(session, tree)
    _read_producer_ids(session, tree)
    tree.zxid = began if session.newest_zxid() == began else None
    return tree


def _nothing_but_claim(session: ZkSession, before: Tree, newest: int, node: int) -> bool:
    """Whether every transaction from `before` to `newest` is one of those that made the claim's znodes as they are.

    Each transaction of a claim leaves its number on one of them until the next one comes. One that left none is
    somebody's, of whatever kind: then there are more transactions than numbers.
    """
    if before.zxid is None or before.problems:
        return False
    places = (*_OF_CLAIM, paths.presence(node))
    znodes = [znode for znode in session.get_many(places) if znode is not None]
    of_claim = {zxid for znode in znodes for zxid in (znode.czxid, znode.mzxid) if before.zxid < zxid <= newest}
    return newest - before.zxid == len(of_claim)


def _take_topics_over(tree: Tree, before: Tree) -> None:
    of_topics = paths.TOPIC_CONFIGS + "/"
    tree.topics = dict(before.topics)
    tree.orphan_configs = dict(before.orphan_configs)
    tree.config_paths |= {path for path in before.config_paths if path.startswith(of_topics)}
    tree.lists_changed += [path for path in before.lists_changed if not path.startswith(paths.BROKER_CONFIGS + "/")]
    tree.znodes += 2 * len(tree.topics) + tree.partition_count()


def missing_places(session: ZkSession) -> list[str]:
    """Persistent znodes that should exist and do not, parents before their children."""
    found = zip(PLACE_PATHS, session.get_many(PLACE_PATHS), strict=True)
    return [path for path, znode in found if znode is None]


def read_guards(session: ZkSession, tree: Tree) -> None:
    """Look for access lists where a takeover and dual-write write.

    On what brokers make first, on one topic, and where the reading found that a list was changed after its znode was
    made: on a hundred such znodes at most.
    """
    topic = next(iter(tree.topics), None)
    places = [*_WRITTEN_TO, *([] if topic is None else [paths.topic(topic), paths.partitions(topic)])]
    places += [path for path in tree.lists_changed[:GUARDS_LOOKED_AT] if path not in places]
    tree.guarded = {path: acl for path in places if (acl := session.guarded_by(path)) is not None}


def moved_since(session: ZkSession, tree: Tree) -> list[str]:
    """Paths of what the claim does not fence and what differs from `tree` now: nothing, if the copy may go on.

    Topics that came or went, topic znodes, configurations, pending deletions, the other families, producer ids.
    """
    now = Tree()
    _read_broker_configs(session, UNLIMITED, now)
    _read_families(session, UNLIMITED, now)
    _read_features(session, now)
    _read_pending(session, now)
    names, heads, configs = _topic_znodes(session, UNLIMITED)
    found = [paths.topic(name) for name in set(names) ^ set(tree.topics)]
    for name, head, config in zip(names, heads, configs, strict=True):
        reading = tree.topics.get(name)
        if reading is not None and head is not None and head.mzxid != reading.mzxid:
            found.append(paths.topic(name))
        if reading is not None and (-1 if config is None else config.mzxid) != reading.config_mzxid:
            found.append(paths.topic_config(name))
    if now.broker_configs != tree.broker_configs:
        found.append(paths.BROKER_CONFIGS)
    found += now.families.moved_since(tree.families)
    if now.features != tree.features:
        found.append(paths.FEATURE)
    if now.pending_deletions != tree.pending_deletions:
        found.append(paths.DELETE_TOPICS)
    _read_producer_ids(session, now)
    if now.producer_ids_version != tree.producer_ids_version:
        found.append(paths.PRODUCER_IDS)
    return sorted(found)


def descendants(session: ZkSession, path: str) -> list[str]:
    """Every znode below `path`, parents before children."""
    return descendants_of(session, [path])[path]


def descendants_of(session: ZkSession, tops: Iterable[str]) -> dict[str, list[str]]:
    """The same of many, level by level: thousands of topics cost no more round trips than one."""
    found: dict[str, list[str]] = {top: [] for top in tops}
    level = [(top, top) for top in found]
    while level:
        below = session.children_many([path for _, path in level])
        level = [
            (top, f"{path}/{name}")
            for (top, path), names in zip(level, below, strict=True)
            for name in sorted(names or ())
        ]
        for top, path in level:
            found[top].append(path)
    return found


# --- the parts --------------------------------------------------------------------------------------------


def _read_cluster(session: ZkSession, tree: Tree) -> None:
    """Cluster id, live brokers, `/controller` and `/migration`."""
    with _Problems(tree.problems):
        znode = session.get(paths.CLUSTER_ID)
        if znode is not None:
            tree.cluster_id = parse(ClusterIdZnode, paths.CLUSTER_ID, znode.data).id
    tree.brokers, odd = read_registrations(session)
    tree.problems += odd
    with _Problems(tree.problems):
        znode = session.get(paths.CONTROLLER)
        if znode is not None:
            tree.controller = parse(ControllerZnode, paths.CONTROLLER, znode.data)
    znode = session.get(paths.MIGRATION)
    tree.migration_present = znode is not None
    if znode is not None and znode.data:
        with _Problems(tree.problems):
            tree.migration = parse_migration(paths.MIGRATION, znode.data)
    _read_pending(session, tree)


def read_registrations(session: ZkSession) -> tuple[dict[int, BrokerZnode], list[Occurrence]]:
    """Who is in `/brokers/ids`, and which of these znodes no controller and no broker could read."""
    found: dict[int, BrokerZnode] = {}
    problems: list[Occurrence] = []
    ids = session.children(paths.BROKER_IDS) or []
    for broker, znode in zip(ids, session.get_many(map(paths.broker_id, ids)), strict=True):
        with _Problems(problems):
            if znode is not None:
                registration = parse(BrokerZnode, paths.broker_id(broker), znode.data)
                found[_broker_number(broker)] = registration
    return found, problems


def _read_controller_epoch(session: ZkSession, tree: Tree) -> None:
    """After the states, so that a controller that was elected meanwhile is not behind what it wrote."""
    with _Problems(tree.problems):
        znode = session.get(paths.CONTROLLER_EPOCH)
        if znode is not None:
            tree.controller_epoch = parse_controller_epoch(paths.CONTROLLER_EPOCH, znode.data)


def _broker_number(name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) <= 10):
        raise MALFORMED_ZNODE.error(path=paths.broker_id(name), reason="its name is not the id of a broker")
    return int(name)


def _read_pending(session: ZkSession, tree: Tree) -> None:
    tree.pending_deletions = session.children(paths.DELETE_TOPICS) or []
    with _Problems(tree.problems):
        znode = session.get(paths.REASSIGN_PARTITIONS)
        tree.ordered_moves = parse_ordered_moves(paths.REASSIGN_PARTITIONS, None if znode is None else znode.data)


@dataclass(slots=True)
class _Todo:
    """A topic whose states are to be read: its head, its configuration, and how it was before."""

    head: TopicHead
    config: dict[str, str]
    config_mzxid: int
    before: TopicReading | None
    sound: bool


def _topic_znodes(
    session: ZkSession, limits: ReadLimits
) -> tuple[list[str], Iterator[Znode | None], Iterator[Znode | None]]:
    names = session.children(paths.TOPICS) or []
    heads = session.get_many(map(paths.topic, names), limits)
    configs = session.get_many(map(paths.topic_config, names), limits)
    return names, heads, configs


def _read_topics(session: ZkSession, limits: ReadLimits, tree: Tree, before: dict[str, TopicReading]) -> None:
    todo = []
    names, heads, configs = _topic_znodes(session, limits)
    for name, znode, config_znode in zip(names, heads, configs, strict=True):
        if znode is None:
            continue  # deleted while we read
        _note_lists(tree, (paths.topic(name), znode), (paths.topic_config(name), config_znode))
        with _Problems(tree.problems):
            known = before.get(name)
            known = known if known is not None and known.sound else None
            oddities = len(tree.problems)
            head = head_again(known) if known is not None and known.mzxid == znode.mzxid else read_head(name, znode)
            if known is not None and config_znode is not None and known.config_mzxid == config_znode.mzxid:
                config, config_mzxid = known.config, known.config_mzxid
            else:
                config, config_mzxid = read_config(paths.topic_config(name), config_znode, tree.problems)
            if config_znode is not None:
                tree.config_paths.add(paths.topic_config(name))
            todo.append(_Todo(head, config, config_mzxid, known, sound=len(tree.problems) == oddities))
    _read_states(session, limits, tree, todo)
    _read_orphans(session, limits, tree, set(names))
    tree.znodes += 2 * len(names) + sum(len(each.head.replicas) for each in todo)


def _read_states(session: ZkSession, limits: ReadLimits, tree: Tree, todo: list[_Todo]) -> None:
    reader = StateReader()
    wanted = (paths.state(each.head.name, partition) for each in todo for partition in each.head.replicas)
    states = session.get_many(wanted, limits)
    for each in todo:
        chunk = list(islice(states, len(each.head.replicas)))
        listed = [p for p, z in zip(each.head.replicas, chunk, strict=True) if z is not None and z.acl_changes]
        tree.lists_changed += [paths.state(each.head.name, partition) for partition in listed]
        known = each.before
        if (
            known is not None
            and known.mzxid == each.head.mzxid
            and known.config_mzxid == each.config_mzxid
            and known.state_mzxids == array("q", (-1 if znode is None else znode.mzxid for znode in chunk))
        ):
            tree.topics[each.head.name] = known
        else:
            reading = reader.read(each.head, iter(chunk), each.config, each.config_mzxid, tree.problems)
            reading.sound = reading.sound and each.sound
            tree.topics[each.head.name] = reading


def _note_lists(tree: Tree, *read: tuple[str, Znode | None]) -> None:
    tree.lists_changed += [path for path, znode in read if znode is not None and znode.acl_changes]


def _read_orphans(session: ZkSession, limits: ReadLimits, tree: Tree, topics: set[str]) -> None:
    """Configuration of topics that do not exist: stock ignores it in silence, we carry it to the gate."""
    names = [name for name in session.children(paths.TOPIC_CONFIGS) or [] if name not in topics]
    for name, znode in zip(names, session.get_many(map(paths.topic_config, names), limits), strict=True):
        if znode is not None:
            tree.config_paths.add(paths.topic_config(name))
            values, _ = read_config(paths.topic_config(name), znode, tree.problems)
            tree.orphan_configs[name] = values


def _read_broker_configs(session: ZkSession, limits: ReadLimits, tree: Tree) -> None:
    names = session.children(paths.BROKER_CONFIGS) or []
    places = [f"{paths.BROKER_CONFIGS}/{name}" for name in names]
    for name, path, znode in zip(names, places, session.get_many(places, limits), strict=True):
        if znode is None:
            continue
        _note_lists(tree, (path, znode))
        tree.config_paths.add(path)
        values, _ = read_config(path, znode, tree.problems)
        tree.broker_configs["" if name == paths.DEFAULT_ENTITY else name] = values
    tree.znodes += len(names)


def _read_producer_ids(session: ZkSession, tree: Tree) -> None:
    with _Problems(tree.problems):
        znode = session.get(paths.PRODUCER_IDS)
        if znode is not None:
            tree.producer_ids_version = znode.version
            tree.producer_ids = parse_producer_ids(paths.PRODUCER_IDS, znode.data)


# --- quotas, credentials, ACLs, tokens ---------------------------------------------------------------------

_MAY_BE_MISSING: Final = (
    *(paths.ACLS, paths.ACL_CHANGES, paths.EXTENDED_ACLS, paths.PREFIXED_ACLS, paths.EXTENDED_ACL_CHANGES),
    *(paths.TOKENS.rpartition("/")[0], paths.TOKENS, paths.TOKEN_CHANGES),
)
"""Brokers make these only when they need them: with an authorizer, or with a secret for tokens."""


def _read_families(session: ZkSession, limits: ReadLimits, tree: Tree) -> None:
    tree.families = Families()
    existing = zip(_MAY_BE_MISSING, session.get_many(_MAY_BE_MISSING), strict=True)
    tree.config_paths |= {path for path, znode in existing if znode is not None}
    _read_entities(session, limits, tree)
    _read_acls(session, limits, tree)
    _read_tokens(session, limits, tree)
    tree.config_paths |= tree.families.mzxids.keys()
    tree.znodes += len(tree.families.mzxids)


def _read_entities(session: ZkSession, limits: ReadLimits, tree: Tree) -> None:
    """Users, clients, ips, and users' clients: quotas and SCRAM credentials share these znodes."""
    places: list[str] = []
    for root in (paths.USER_CONFIGS, paths.CLIENT_CONFIGS, paths.IP_CONFIGS):
        places += [f"{root}/{name}" for name in session.children(root) or []]
    users = [f"{path}/clients" for path in places if path.startswith(paths.USER_CONFIGS + "/")]
    for parent, names in zip(users, session.children_many(users, limits), strict=True):
        if names is not None:
            tree.config_paths.add(parent)
            places += [f"{parent}/{name}" for name in sorted(names)]
    for path, znode in zip(places, session.get_many(places, limits), strict=True):
        tree.families.take_entity(path, znode, tree.problems)


def _read_acls(session: ZkSession, limits: ReadLimits, tree: Tree) -> None:
    for pattern, root in ACL_ROOTS.items():
        kinds = session.children(root) or []
        types = [f"{root}/{kind}" for kind in kinds]
        tree.config_paths |= set(types)
        below = session.children_many(types, limits)
        places = [(kind, name) for kind, names in zip(kinds, below, strict=True) for name in sorted(names or ())]
        wanted = [f"{root}/{kind}/{name}" for kind, name in places]
        for place, path, znode in zip(places, wanted, session.get_many(wanted, limits), strict=True):
            tree.families.take_acls(pattern, place, path, znode, tree.problems)


def _read_tokens(session: ZkSession, limits: ReadLimits, tree: Tree) -> None:
    wanted = list(map(paths.token, session.children(paths.TOKENS) or []))
    for path, znode in zip(wanted, session.get_many(wanted, limits), strict=True):
        tree.families.take_token(path, znode, tree.problems)


def _read_features(session: ZkSession, tree: Tree) -> None:
    with _Problems(tree.problems):
        znode = session.get(paths.FEATURE)
        if znode is not None and znode.data:
            tree.features = sorted(parse_features(paths.FEATURE, znode.data).finalized)


_OF_CLAIM: Final = (paths.CONTROLLER_EPOCH, paths.CONTROLLER, paths.MIGRATION)

GUARDS_LOOKED_AT: Final = 100

_WRITTEN_TO: Final = (
    *("/", paths.CONTROLLER_EPOCH, paths.CONTROLLER, paths.MIGRATION),
    *(paths.TOPICS, paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS),
    *(paths.CONFIG_CHANGES, paths.USER_CONFIGS, paths.CLIENT_CONFIGS, paths.IP_CONFIGS, paths.PRODUCER_IDS),
    *(paths.ACLS, paths.ACL_CHANGES, paths.TOKENS, paths.DELETE_TOPICS),
)

_CONFIGS_OF_ZOOKEEPER: Final = frozenset({"brokers", "changes", "clients", "ips", "topics", "users"})


def _read_what_is_not_copied(session: ZkSession, tree: Tree) -> None:
    """Names alone: what `/config` holds of kinds that nobody copies, and consumers that keep offsets here."""
    others = [f"{paths.CONFIG}/{name}" for name in session.children(paths.CONFIG) or []]
    others = [path for path in others if path.rpartition("/")[2] not in _CONFIGS_OF_ZOOKEEPER]
    below = zip(others, session.children_many(others), strict=True)
    tree.uncopied_configs = [f"{path}/{name}" for path, names in below for name in sorted(names or ())]
    tree.consumer_groups = session.children(paths.CONSUMERS) or []


class _Problems:
    """`with _Problems(list):` turns a finding raised inside into an entry of the list."""

    def __init__(self, problems: list[Occurrence]) -> None:
        self._problems = problems

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, FindingError) and error.code.startswith("Z2K-1"):
            self._problems.append(error.occurrence)
            return True
        return False


__all__ = ["descendants", "missing_places", "moved_since", "read_guards", "read_registrations", "read_tree"]
