"""The feature levels of a cluster, read: the matrix of its nodes, and what another metadata.version would do.

In:   a metadata log directory, and where they are known a ZooKeeper session and answers of controllers to ApiVersions.
Out:  `FeatureReport` (model/features/changes.py), which the command prints and writes as JSON.
Elsewhere: the judgement (model/features), the log of a running quorum as a directory (log_of_quorum.py).
Rules: R-778-01, R-778-03, R-778-04, R-778-05. A registration that the running process contradicts counts as it answers.
Source: Kafka 3.9 `BrokerIdZNode` (version 5 from inter.broker.protocol.version 2.7-IV0 on), `FeatureZNode`.
A broker in ZooKeeper mode supports no features (`KafkaServer.brokerFeatures` is empty) and says nothing of its release,
so that its znode tells of levels only that they are below 2.7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from migrator.audit.log_plan import plan_log, read_split
from migrator.audit.log_source import CommittedRecords
from migrator.controller.replay import replay
from migrator.driver.tree import Tree
from migrator.findings.audit import LOG_INCONSISTENT
from migrator.findings.finding import FindingError, words_of
from migrator.findings.road import LEVEL_NOT_KNOWN
from migrator.model import levels
from migrator.model.draft import Contradiction, Draft
from migrator.model.features.changes import FeatureReport, level_change, level_changes
from migrator.model.features.losses import Loss, losses
from migrator.model.features.matrix import (
    FeatureMatrix,
    NodeFeatures,
    NodeMode,
    feature_matrix,
    registered_nodes,
)
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import FeatureRange, MigrationState
from migrator.node.config.properties import VoterAddress
from migrator.node.tools.unmirrored import voters_named
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse
from migrator.wire.messages.metadata import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.session import ZkSession
from migrator.zk.znodes import BrokerZnode, parse, parse_features

ANSWER_S: Final = 5.0
API_VERSIONS_VERSION: Final = 3
"""Brokers and controllers of 3.6 know no later one."""
IBP: Final = "inter.broker.protocol.version"
ZNODE_OF_FEATURES: Final = 5
"""Version of a broker's znode from inter.broker.protocol.version 2.7-IV0 on."""


class LogRead(msgspec.Struct, frozen=True):
    """What a log says. voters: as its newest leader named them; empty where that record is gone.

    eligible: partitions with eligible leader replicas, as TOPIC-NUMBER.
    """

    image: Image
    voters: frozenset[int]
    eligible: tuple[str, ...]


def level_named(text: str) -> int:
    """Read a level as people write it: "3.9", "3.8-IV0" or "20". Raises Z2K-4222."""
    found = int(text) if text.isdecimal() and len(text) < 6 else levels.level_of_release(text)
    if found < levels.FEATURE_RECORDS:
        names = f"{levels.level_name(levels.FEATURE_RECORDS)} to {levels.level_name(levels.LATEST)}"
        raise LEVEL_NOT_KNOWN.error(text=text, known=names)
    return found


def feature_report(
    log: LogRead, session: ZkSession | None = None, answers: Sequence[NodeFeatures] = (), *, to: int | None = None
) -> FeatureReport:
    """Put a log beside ZooKeeper and the answers of controllers. to: only this level is judged."""
    nodes = {each.name: each for each in registered_nodes(log.image, log.voters)}
    for each in answers:
        nodes[each.name] = _with_answer(nodes.get(each.name), each)
    in_zookeeper = None
    if session is not None:
        for each in nodes_of_zookeeper(live_brokers(session)):
            nodes.setdefault(each.name, each)
        in_zookeeper = finalized_in_zookeeper(session)
    matrix = feature_matrix(nodes.values(), log.image.features, log.image.migration.name, in_zookeeper)

    def lost(level: int) -> tuple[Loss, ...]:
        return losses(log.image, level, log.eligible)

    if to is None or matrix.effective is None:
        changes = level_changes(matrix, lost)
    else:
        changes = () if to == matrix.effective else (level_change(matrix, to, lost),)
    return FeatureReport(matrix, changes, log.image.position)


def _with_answer(registered: NodeFeatures | None, answered: NodeFeatures) -> NodeFeatures:
    """ApiVersions leaves out ranges that begin at 0; a registration has them."""
    if registered is None:
        return answered
    named = {each.name for each in answered.ranges}
    others = tuple(each for each in registered.ranges if each.name not in named)
    return msgspec.structs.replace(registered, ranges=(*answered.ranges, *others), is_alive=True)


# --- the log ----------------------------------------------------------------------------------------------


def read_log(directory: Path) -> LogRead:
    """Read a whole directory, as it is on disk. Raises Z2K-5001, and Z2K-5002 where records contradict each other."""
    plan = plan_log(directory)
    committed, draft, eligible = CommittedRecords(), Draft(EMPTY), _EligibleReplicas()
    voters: frozenset[int] = frozenset()
    for split in plan.splits:
        committed.snapshot_offset = split.snapshot_offset
        for batch in read_split(split):
            voters = voters_named(batch) or voters
            for record in committed.take(batch):
                eligible.take(record)
                try:
                    replay(draft, record)
                except Contradiction as error:
                    name = f"{type(record).__name__} at or before offset {committed.at}"
                    raise LOG_INCONSISTENT.error(record=name, reason=words_of(error)) from error
    image = draft.finish(Position(plan.epoch, plan.offset)).after
    return LogRead(image, voters, tuple(eligible.named(image)))


class _EligibleReplicas:
    """Which partitions have eligible leader replicas (KIP-966). No image of ours has them."""

    def __init__(self) -> None:
        self._of: dict[bytes, set[int]] = {}

    def take(self, record: Message) -> None:
        match record:
            case PartitionRecord() | PartitionChangeRecord():
                self._note(record.topic_id, record.partition_id, record.eligible_leader_replicas)
            case RemoveTopicRecord():
                self._of.pop(record.topic_id, None)

    def _note(self, topic_id: bytes, partition: int, replicas: Sequence[int] | None) -> None:
        """replicas: None: no change."""
        if replicas:
            self._of.setdefault(topic_id, set()).add(partition)
        elif replicas is not None and topic_id in self._of:
            self._of[topic_id].discard(partition)

    def named(self, image: Image) -> Iterable[str]:
        for topic_id, partitions in self._of.items():
            topic = image.topics.get(topic_id)
            if topic is not None:
                yield from (f"{topic.name}-{each}" for each in partitions)


# --- ZooKeeper --------------------------------------------------------------------------------------------


def live_brokers(session: ZkSession) -> dict[int, BrokerZnode]:
    """Registrations in ZooKeeper by id. Raises Z2K-1001 for one that Kafka does not write so."""
    ids = sorted(int(each) for each in session.children(paths.BROKER_IDS) or () if each.isdecimal())
    found = zip(ids, session.get_many([paths.broker_id(each) for each in ids]), strict=True)
    return {
        number: parse(BrokerZnode, paths.broker_id(number), znode.data) for number, znode in found if znode is not None
    }


def nodes_of_zookeeper(
    brokers: Mapping[int, BrokerZnode], ibp: Mapping[int, int] | None = None
) -> tuple[NodeFeatures, ...]:
    """Brokers as ZooKeeper has them. ibp: levels from their files, where these are known."""
    found = []
    for number, znode in sorted(brokers.items()):
        level = (ibp or {}).get(number, 0 if znode.version < ZNODE_OF_FEATURES else None)
        ranges = tuple(FeatureRange(name, *bounds) for name, bounds in znode.ranges.items())
        found.append(NodeFeatures(f"broker {number}", NodeMode.ZOOKEEPER, ranges, level, is_alive=True))
    return tuple(found)


def before_a_quorum(tree: Tree, brokers: Sequence[tuple[str, Mapping[str, str]]]) -> FeatureMatrix | None:
    """The cases before a takeover, when no log has a level. brokers: id and settings of each whose file is known.

    None where a migration was begun: its log has a level, which only `zk2kraft features` reads.
    """
    if tree.migration_present:
        return None
    ibp = {
        int(number): levels.level_of_release(settings[IBP])
        for number, settings in brokers
        if number.isdecimal() and IBP in settings
    }
    nodes = nodes_of_zookeeper(tree.brokers, ibp)
    return feature_matrix(nodes, {}, MigrationState.NONE.name, dict.fromkeys(tree.features, 0) or None)


def finalized_in_zookeeper(session: ZkSession) -> dict[str, int] | None:
    """What `/feature` finalizes, as a broker reads it; None: it does not exist. Raises Z2K-1001."""
    znode = session.get(paths.FEATURE)
    return None if znode is None or not znode.data else parse_features(paths.FEATURE, znode.data).finalized


# --- controllers ------------------------------------------------------------------------------------------


def ask_controllers(
    addresses: Sequence[VoterAddress], image: Image, security: ClientSecurity = PLAINTEXT
) -> tuple[tuple[NodeFeatures, ...], dict[str, str]]:
    """Ask each address for its ApiVersions, all beside each other. Blocks, at most `ANSWER_S`.

    image: a registered listener at an address says whose it is; else the address is its name. Returns the nodes that
    answered, and why the others did not.
    """
    return asyncio.run(_ask_all(addresses, image, security))


async def _ask_all(
    addresses: Sequence[VoterAddress], image: Image, security: ClientSecurity
) -> tuple[tuple[NodeFeatures, ...], dict[str, str]]:
    answers = await asyncio.gather(*(_ask(each, security) for each in addresses), return_exceptions=True)
    names = {
        (listener.host, listener.port): f"controller {each.id}"
        for each in image.controllers.values()
        for listener in each.listeners
    }
    nodes, silent = [], {}
    for at, answer in zip(addresses, answers, strict=True):
        address = f"{at.host}:{at.port}"
        if isinstance(answer, (OSError, TimeoutError, FindingError)):
            silent[address] = words_of(answer)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            name = names.get((at.host, at.port), f"controller at {address}")
            nodes.append(NodeFeatures(name, ranges=answer, is_alive=True))
    return tuple(nodes), silent


async def _ask(at: VoterAddress, security: ClientSecurity) -> tuple[FeatureRange, ...]:
    connection = BrokerConnection(at.host, at.port, "zk2kraft-features", security)
    request = ApiVersionsRequest(client_software_name="zk2kraft-features", client_software_version="1")
    try:
        answer = await connection.ask(request, API_VERSIONS_VERSION, ApiVersionsResponse, ANSWER_S)
    finally:
        connection.close()
    if answer.error_code:
        raise OSError(f"it answers ApiVersions with error {answer.error_code}")
    return tuple(FeatureRange(each.name, each.min_version, each.max_version) for each in answer.supported_features)
