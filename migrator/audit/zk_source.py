"""ZooKeeper's side of an audit: the rows of the audited families, and what the tree says of itself.

In:   a ZooKeeper session, which names to read, how hard the ensemble may be pressed.
Out:  `SideRow`s, topics with their partitions together; a znode that cannot be parsed becomes a row with its problem.
Elsewhere: what a znode means (normalise.py), who asks (quick.py in one pass, spark/sources.py in ranges of names).
Errors: what ZooKeeper does not answer or refuses is raised as it is (Z2K-2001, 2002, 2004): nothing is known then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol

from migrator.audit.cluster import (
    CLUSTER,
    FIRST_CONTROLLER_EPOCH,
    LIST,
    METADATA_VERSION,
    MIGRATION_STATE,
    EpochLimit,
    Facts,
    cluster_id_facts,
    controller_epoch_facts,
)
from migrator.audit.normalise import (
    BROKER_CONFIGS,
    ORDERS,
    PARTITIONS,
    PRODUCER_IDS,
    PRODUCER_IDS_KEY,
    TOPIC_CONFIGS,
    TOPICS,
    partition_key,
    state_at_once,
    zk_config,
    zk_producer_ids,
    zk_state,
    zk_topic,
)
from migrator.audit.passwords import PasswordReader, clear_facts
from migrator.audit.rows import (
    BROKER_SUBJECT,
    CLUSTER_SUBJECT,
    LIST_SUBJECT,
    ORDER_SUBJECT,
    PRODUCER_IDS_SUBJECT,
    TOPIC_SUBJECT,
    ZNODE_SUBJECT,
    SideRow,
    subject_of,
    topic_subject,
)
from migrator.audit.security_facts import ACL_ROOTS, ENTITY_ROOTS, TOKEN_ROOT, families_at, zk_facts
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.content import MALFORMED_ZNODE
from migrator.findings.finding import FindingError
from migrator.model.image import Position
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.pipeline import UNLIMITED, ReadLimits

TOPICS_AT_ONCE: Final = 1_000
"""Topics whose assignments are held while their states are read: bounds the memory of a reader."""

_ROOTS: Final = {TOPIC_CONFIGS: paths.TOPIC_CONFIGS, BROKER_CONFIGS: paths.BROKER_CONFIGS}


class ZnodeReader(Protocol):
    """Gives znodes whose paths are known."""

    def get_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]: ...


class Session(ZnodeReader, Protocol):
    def get(self, path: str) -> Znode | None: ...
    def children(self, path: str) -> list[str] | None: ...
    def children_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[list[str] | None]: ...
    def sync(self, path: str = "/") -> None: ...
    def unwritable(self, path: str) -> str | None: ...
    @property
    def lists_changed(self) -> list[str]: ...


class TopicRead(NamedTuple):
    """A topic as ZooKeeper tells it. Of a topic that cannot be read nothing is known about its partitions.

    znode: of the topic.
    assigned: by partition. states: the znodes of the same partitions, in the same order; None where there is none.
    listed:   how many partitions have a znode, which was read before the assignment; 0 where nobody asked.
    """

    topic: SideRow
    znode: Znode
    assigned: dict[int, Facts]
    states: list[Znode | None]
    listed: int

    def partition(self, partition: int, znode: Znode | None, epochs: EpochLimit | None) -> SideRow:
        return _partition(self.topic.key, partition, self.assigned[partition], self.topic.version, znode, epochs)

    def partitions(self, epochs: EpochLimit | None) -> list[SideRow]:
        """epochs: whether a state has a controller epoch that there never was; None: not asked."""
        return [self.partition(each, znode, epochs) for each, znode in zip(self.assigned, self.states, strict=True)]

    @property
    def may_have_others(self) -> bool:
        """Whether znodes of partitions that it was not assigned may be there: there are too many, or one of its own is
        missing, so that their number says nothing.
        """
        return bool(self.assigned) and (self.listed > len(self.assigned) or None in self.states)


def topic_reads(
    session: ZnodeReader, names: Iterable[str], limits: ReadLimits = UNLIMITED, *, counted: bool = False
) -> Iterator[TopicRead]:
    """Read topics in the order of `names`; one that does not exist (any more) is left out.

    counted: read how many partitions have a znode, too. A topic that grows has its assignment before their znodes.
    """
    remaining = iter(names)
    while chunk := list(islice(remaining, TOPICS_AT_ONCE)):
        yield from _chunk_of_topics(session, chunk, limits, counted=counted)


def _chunk_of_topics(
    session: ZnodeReader, names: list[str], limits: ReadLimits, *, counted: bool
) -> Iterator[TopicRead]:
    heads = []
    wanted = ((paths.partitions(name), paths.topic(name)) if counted else (paths.topic(name),) for name in names)
    found = session.get_many(chain.from_iterable(wanted), limits)
    for name in names:
        above = next(found) if counted else None
        znode = next(found)
        if znode is not None:
            heads.append((0 if above is None else above.children, znode, *_topic(name, znode)))
    places = (paths.states(row.key, assigned) for _, _, row, assigned in heads)
    states = session.get_many(chain.from_iterable(places), limits)
    for listed, znode, row, assigned in heads:
        yield TopicRead(row, znode, assigned, list(islice(states, len(assigned))), listed)


def unassigned_partitions(session: Session, names: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[SideRow]:
    """Znodes of partitions that no assignment has. A topic that grows has its assignment before their znodes, so they
    are listed first.
    """
    remaining = iter(names)
    while chunk := list(islice(remaining, TOPICS_AT_ONCE)):
        listed = list(session.children_many(map(paths.partitions, chunk), limits))
        for name, found, znode in zip(chunk, listed, session.get_many(map(paths.topic, chunk), limits), strict=True):
            _, assigned = _topic(name, znode) if znode is not None else (None, {})
            for each in sorted(set(found or ()) - set(map(str, assigned))) if assigned else ():
                yield SideRow(PARTITIONS, f"{name}-{each}", topic_subject(name), {"assigned": False})


def _persistent(path: str, znode: Znode) -> bytes | None:
    """Its data. Raises Z2K-1001 for a znode that goes with a session, or by a time: nobody's metadata is kept there."""
    if znode.owner:
        raise MALFORMED_ZNODE.error(path=path, reason=f"it is not persistent (owner {znode.owner:#x})")
    return znode.data


def _topic(name: str, znode: Znode) -> tuple[SideRow, dict[int, Facts]]:
    path = paths.topic(name)
    try:
        facts, assigned = zk_topic(path, _persistent(path, znode))
    except FindingError as error:
        return _problem(TOPICS, name, topic_subject(name), znode.mzxid, error), {}
    return SideRow(TOPICS, name, topic_subject(name), facts, znode.mzxid), assigned


def _partition(
    topic: str,
    partition: int,
    assignment: Facts,
    assigned_at: int,
    znode: Znode | None,
    epochs: EpochLimit | None,
) -> SideRow:
    """Assignment and state together; without a state znode the assignment alone."""
    key, subject = partition_key(topic, partition), topic_subject(topic)
    if znode is None:
        return SideRow(PARTITIONS, key, subject, assignment, assigned_at)
    path = paths.state(topic, partition)
    try:
        state = zk_state(path, _persistent(path, znode), znode.version, epochs)
    except FindingError as error:
        return _problem(PARTITIONS, key, subject, znode.mzxid, error)
    return SideRow(PARTITIONS, key, subject, {**assignment, **state}, max(assigned_at, znode.mzxid))


def usual_state(znode: Znode | None, epochs: EpochLimit | None) -> Facts | None:
    """The facts but for the version of a state znode that Kafka can read, and that a controller may have written; None
    of any other one, of which `TopicRead.partition` says more.
    """
    if znode is None or znode.owner:
        return None
    found = state_at_once(znode.data)
    if found is None:
        return None
    controller_epoch, said = found
    return None if epochs is not None and epochs.is_above(controller_epoch) else said


def config_rows(
    session: ZnodeReader,
    family: str,
    names: Iterable[str],
    limits: ReadLimits = UNLIMITED,
    passwords: PasswordReader | None = None,
) -> Iterator[SideRow]:
    """Configurations by znode name; one without values says nothing and is left out.

    passwords: what decodes those of brokers; a broker with one that cannot be decoded is not read.
    """
    root, wanted = _ROOTS[family], list(names)

    def parse(path: str, data: bytes | None) -> Facts:
        facts = zk_config(path, data)
        return facts if family != BROKER_CONFIGS else clear_facts(path, facts, passwords)

    for name, znode in zip(wanted, session.get_many((f"{root}/{name}" for name in wanted), limits), strict=True):
        key = "" if family == BROKER_CONFIGS and name == paths.DEFAULT_ENTITY else name
        if znode is None:
            continue
        row = _single(family, key, znode, f"{root}/{name}", parse)
        if row.facts or row.problem:
            yield row


def producer_id_row(session: Session) -> SideRow:
    """Always one row: no znode means that no block was handed out."""
    znode = session.get(paths.PRODUCER_IDS)
    if znode is None:
        return SideRow(PRODUCER_IDS, PRODUCER_IDS_KEY, subject_of(PRODUCER_IDS, ""), {})
    return _single(PRODUCER_IDS, PRODUCER_IDS_KEY, znode, paths.PRODUCER_IDS, zk_producer_ids)


def _single(family: str, key: str, znode: Znode, path: str, parse: Callable[[str, bytes | None], Facts]) -> SideRow:
    subject = subject_of(family, key)
    try:
        return SideRow(family, key, subject, parse(path, _persistent(path, znode)), znode.mzxid)
    except FindingError as error:
        return _problem(family, key, subject, znode.mzxid, error)


def _problem(family: str, key: str, subject: str, mzxid: int, error: FindingError) -> SideRow:
    return SideRow(family, key, subject, None, mzxid, error.occurrence.text)


# --- the cluster as a whole -------------------------------------------------------------------------------


def cluster_rows(session: Session) -> Iterator[SideRow]:
    """One row of each key, whatever the tree has: what stands nowhere is judged, too."""
    for path, parse in ((paths.CLUSTER_ID, cluster_id_facts), (paths.CONTROLLER_EPOCH, controller_epoch_facts)):
        znode = session.get(path)
        if znode is None:
            yield SideRow(CLUSTER, path, CLUSTER_SUBJECT, {})
        else:
            yield _single(CLUSTER, path, znode, path, parse)
    _, kraft_epoch = _holder(session)
    offset = _member(session.get(paths.MIGRATION), "kraft_metadata_offset")
    in_dual_write = _above(kraft_epoch, 0) and _above(offset, -1)
    yield SideRow(CLUSTER, METADATA_VERSION, CLUSTER_SUBJECT, {})
    yield SideRow(CLUSTER, MIGRATION_STATE, CLUSTER_SUBJECT, {"dual_write": in_dual_write})


def list_rows(session: Session, wanted: Iterable[str]) -> Iterator[SideRow]:
    """One row of each of these znodes that nobody may write, or not this process with its login. wanted: paths."""
    for path in wanted:
        guarded = session.unwritable(path)
        if guarded is not None:
            yield SideRow(CLUSTER, path, subject_of(CLUSTER, path), {LIST: guarded})


def epoch_limit(session: Session) -> EpochLimit:
    def read() -> int | None:
        znode = session.get(paths.CONTROLLER_EPOCH)
        try:
            epoch = int(controller_epoch_facts(paths.CONTROLLER_EPOCH, znode.data)["epoch"]) if znode is not None else 0
        except FindingError:
            return None
        if epoch < FIRST_CONTROLLER_EPOCH:
            return None
        _, kraft_epoch = _holder(session)
        return max(epoch, kraft_epoch) if isinstance(kraft_epoch, int) else epoch

    return EpochLimit(read)


def _holder(session: Session) -> tuple[Any, Any]:
    """Who has the claim, and its KRaft epoch, as `/controller` says."""
    controller = session.get(paths.CONTROLLER)
    return _member(controller, "brokerid"), _member(controller, "kraftControllerEpoch")


# --- quotas, credentials, ACLs, tokens --------------------------------------------------------------------


def security_rows(session: Session, wanted: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[SideRow]:
    """wanted: paths of znodes. One that says nothing, or does not exist, has no row."""
    places = list(wanted)
    for path, znode in zip(places, session.get_many(places, limits), strict=True):
        if znode is None:
            continue
        try:
            found = zk_facts(path, _persistent(path, znode))
        except FindingError as error:
            for family in families_at(path):
                yield _problem(family, path, subject_of(family, path), znode.mzxid, error)
            continue
        for family, facts in found.items():
            if facts:
                yield SideRow(family, path, subject_of(family, path), facts, znode.mzxid)


def security_paths(session: Session, limits: ReadLimits = UNLIMITED) -> list[str]:
    """Every znode of a user, a client, an address, a resource with ACLs, and a token."""
    entities = [path for root in ENTITY_ROOTS.values() for path in _below(session, [f"/config/{root}"], limits)]
    clients = [f"{path}/clients" for path in entities if path.startswith(paths.USER_CONFIGS + "/")]
    entities += _below(session, clients, limits)
    acls = [path for root in ACL_ROOTS.values() for path in _below(session, _below(session, [root], limits), limits)]
    return [*entities, *acls, *_below(session, [TOKEN_ROOT], limits)]


def _below(session: Session, parents: list[str], limits: ReadLimits) -> list[str]:
    found = zip(parents, session.children_many(parents, limits), strict=True)
    return [f"{parent}/{name}" for parent, names in found for name in sorted(names or ())]


# --- orders -----------------------------------------------------------------------------------------------


def order_rows(session: Session) -> Iterator[SideRow]:
    """What a ZooKeeper controller would carry out. A topic that is to be deleted is an order of its own."""
    wanted = [*_below(session, [paths.DELETE_TOPICS], UNLIMITED), paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION]
    yield from order_rows_at(session, wanted)


def order_rows_at(session: ZnodeReader, wanted: Iterable[str]) -> Iterator[SideRow]:
    """wanted: paths of orders; one that is gone has no row."""
    places = list(wanted)
    for path, znode in zip(places, session.get_many(places), strict=True):
        if znode is not None:
            yield SideRow(ORDERS, path, subject_of(ORDERS, path), {"order": "given"}, znode.mzxid)


# --- subjects ---------------------------------------------------------------------------------------------


def subject_rows(
    subjects: Sequence[str], session: Session, limits: ReadLimits, passwords: PasswordReader | None
) -> Iterator[SideRow]:
    """All that ZooKeeper has of these subjects."""
    topics = _named(subjects, TOPIC_SUBJECT)
    brokers = [name or paths.DEFAULT_ENTITY for name in _named(subjects, BROKER_SUBJECT)]
    yield from topics_and_configs(session, topics, topics, limits)
    yield from config_rows(session, BROKER_CONFIGS, brokers, limits, passwords)
    if CLUSTER_SUBJECT in subjects:
        yield from cluster_rows(session)
    yield from list_rows(session, _named(subjects, LIST_SUBJECT))
    if PRODUCER_IDS_SUBJECT in subjects:
        yield producer_id_row(session)
    yield from security_rows(session, _named(subjects, ZNODE_SUBJECT), limits)
    yield from order_rows_at(session, _named(subjects, ORDER_SUBJECT))


def topics_and_configs(
    session: Session, topics: Sequence[str], configs: Sequence[str], limits: ReadLimits
) -> Iterator[SideRow]:
    epochs = epoch_limit(session)
    for read in topic_reads(session, topics, limits):
        yield read.topic
        yield from read.partitions(epochs)
    yield from unassigned_partitions(session, topics, limits)
    yield from config_rows(session, TOPIC_CONFIGS, configs, limits)


def _named(subjects: Sequence[str], prefix: str) -> list[str]:
    return sorted(subject.removeprefix(prefix) for subject in subjects if subject.startswith(prefix))


# --- names ------------------------------------------------------------------------------------------------


def topic_names(session: Session) -> list[str]:
    return session.children(paths.TOPICS) or []


def config_names(session: Session, family: str) -> list[str]:
    """Znode names: those of topics that do not exist too, and `<default>` for all brokers."""
    return session.children(_ROOTS[family]) or []


# --- the tree as a whole ----------------------------------------------------------------------------------


def describe_tree(session: Session, connect: str) -> dict[str, Any]:
    """What is audited, for the report. Raises Z2K-5001 where there is no Kafka: an empty chroot equals anything."""
    if session.children(paths.TOPICS) is None:
        raise AUDIT_CANNOT_READ.error(what=f"ZooKeeper at {connect}", reason=f"it has no {paths.TOPICS}")
    places = (paths.CLUSTER_ID, paths.CONTROLLER_EPOCH, paths.CONTROLLER, paths.MIGRATION)
    cluster, epoch, controller, migration = map(session.get, places)
    holder, kraft_epoch = _member(controller, "brokerid"), _member(controller, "kraftControllerEpoch")
    presence = session.get(paths.presence(holder)) if isinstance(holder, int) else None
    return {
        "connect": connect,
        "cluster_id": _member(cluster, "id"),
        "controller": holder,
        "controller_epoch": _member(epoch, None),
        "dual_write": _above(kraft_epoch, 0) and _above(_member(migration, "kraft_metadata_offset"), -1),
        "ours_leads": presence is not None and _member(presence, "kraft_epoch") == kraft_epoch,
    }


def mirrored_position(session: Session) -> Position:
    """Up to where ZooKeeper has the log by now; -1 where `/migration` does not say."""
    session.sync()
    migration = session.get(paths.MIGRATION)
    found = (_member(migration, "kraft_metadata_epoch"), _member(migration, "kraft_metadata_offset"))
    epoch, offset = (each if isinstance(each, int) else -1 for each in found)
    return Position(epoch, offset)


def _above(found: Any, limit: int) -> bool:
    return isinstance(found, int) and found > limit


def _member(znode: Znode | None, name: str | None) -> Any:
    """For show only: None where the znode is missing or is not what Kafka writes."""
    try:
        found = json.loads(znode.data or b"") if znode is not None else None
    except (ValueError, RecursionError):
        return None
    return found.get(name) if name is not None and isinstance(found, dict) else found
