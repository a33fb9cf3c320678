"""The metadata log as any observer reads it, whoever leads: ours or stock.

In:   the voters' addresses and how to speak to them.
Out:  `LogObservation`: registrations, replicas, the state of the migration, how far each voter is.
Elsewhere: reading it (migrator/node/observer/log_reader.py), what a controller of ours says of itself (control.py),
what the observation means (policy/gates_forward.py).
Rules: what cannot be read is a problem in words, and the figures of the observation before do not take its place.
Source: Kafka 3.9 `ClusterControlManager.registerController`.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec
from immutables import Map

from migrator.audit.kafka_flaws.scram_replay import SCRAM_KEYS, ScramReplay
from migrator.driver.only_kraft import only_kraft
from migrator.findings.finding import FindingError, words_of
from migrator.model.at_a_stop import MIN_ISR, MinIsr, TakenAtStop, whole_number
from migrator.model.features.kept_min_isr import OwnMinIsr
from migrator.model.image import METADATA_VERSION, Config, Image
from migrator.model.later_configs import RAISED_OF_BROKERS, RAISED_OF_TOPICS, refused_later
from migrator.model.later_kafka import LaterNode, is_without_zookeeper, levels_of
from migrator.model.partition_figures import PartitionCounter, PartitionFigures
from migrator.model.values import Broker, ConfigKey, ConfigType, Controller
from migrator.node.config.properties import VoterAddress
from migrator.node.log.log_replay import LogReplay, read_snapshot
from migrator.node.observer.log_reader import ANSWER_S, METADATA_TOPIC, LogReader, NoLeaderError
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.raft.types import SnapshotId
from migrator.wire.batch import read_batches
from migrator.wire.messages.configs import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from migrator.wire.messages.raft import (
    DescribeQuorumPartitionResult,
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochTopic,
    PreferredCandidate,
)
from migrator.wire.records import decode_record

END_VERSION: Final = 1
API_VERSIONS_VERSION: Final = 3
UPDATE_FEATURES_VERSION: Final = 1
RAISE_S: Final = 30.0
LOOK_S: Final = 4.0
"""Longest look; a log that is longer than one look can read is read on by the next one."""
SOFTWARE_EVERY_S: Final = 3.0
SOFTWARE_ANSWER_S: Final = 1.0
"""A voter that is silent may not take the look's time."""
NOT_KNOWN: Final[Mapping[int, int]] = {}
REFUSED_SHOWN: Final = 20
"""Each is a finding of its own on the page."""
TOPICS_SHOWN: Final = 3
NODES_SHOWN: Final = 10
BROKER_WORD: Final = "broker"
CONTROLLER_WORD: Final = "controller"
NO_OP_KEY: Final = 20
MIGRATION_KEY: Final = 21
"""Api keys of NoOpRecord and ZkMigrationStateRecord, the second byte of a record's value."""


class LogBroker(msgspec.Struct, frozen=True):
    """A registration. incarnation: another one after each start. unassigned_dirs: replicas here without directory.

    levels: lowest and highest metadata.version of its software, as this start registered them.
    at_stake: partitions that lack replicas, and that its stop would take offline or below their minimum ISR.
    """

    id: int
    incarnation: str
    mode: str
    fenced: bool
    in_controlled_shutdown: bool = False
    rack: str = ""
    epoch: int = -1
    under_replicated: int = 0
    unassigned_dirs: int = 0
    offline_dirs: int = 0
    levels: tuple[int, int] | None = None
    at_stake: int = 0

    @property
    def ready(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


class LogController(msgspec.Struct, frozen=True):
    """A controller's registration: what the *running* process said, whatever its file says by now."""

    id: int
    incarnation: str
    zk_migration_ready: bool
    levels: tuple[int, int] | None = None


class VoterSoftware(msgspec.Struct, frozen=True):
    """What a voter answers to ApiVersions: its range of metadata.version, and whether it runs with the migration flag.

    It is of the process that runs, also where nobody can register, or where a leader registers everybody as not ready.
    """

    id: int
    lowest: int
    highest: int
    zk_migration_ready: bool


class LogVoter(msgspec.Struct, frozen=True):
    """lag: committed records that the leader does not know it to have; None: it never fetched.

    caught_up_ms_ago: when it last had all that the leader had. None: never, or nobody said.
    """

    id: int
    log_end: int
    lag: int | None
    fetched_ms_ago: int | None = None
    caught_up_ms_ago: int | None = None


class VoterLevels(msgspec.Struct, frozen=True):
    """metadata.version: lowest and highest that the software supports, and the finalized one as this voter knows it.

    features: the finalized levels of all others, kraft.version too. (It says the ranges of none of them: those begin
    with 0, which no release sends before version 4 of ApiVersions.)
    """

    lowest: int
    highest: int
    finalized: int
    features: Mapping[str, int] = {}


class SupportedRange(msgspec.Struct, frozen=True):
    """Levels of a feature that some nodes registered. nodes: in words, the first ones and how many more."""

    feature: str
    lowest: int
    highest: int
    nodes: str


class LaterProblem(msgspec.Struct, frozen=True):
    """One value that a later Kafka refuses. where: whose configuration, in words. low: the least it takes."""

    where: str
    key: str
    value: str
    low: int
    since: str


class LogObservation(msgspec.Struct, frozen=True):
    """One look. problem: why there is nothing; empty when everything below `high_watermark` was read.

    no_leader:      every voter was asked, and none leads. False with no `leader`: it is not known whether one leads.
    migration_at:   offset of the record that set the state, -1 when it came with a snapshot.
    data_end:       offset behind the last record that is no NoOp.
    under_replicated_leader: the broker that leads every under-replicated partition; None where several do, or none.
    """

    at: float = 0.0
    problem: str = "not observed yet"
    no_leader: bool = False
    leader: int | None = None
    epoch: int = 0
    high_watermark: int = 0
    offset: int = -1
    migration: str = "NONE"
    migration_at: int = -1
    data_end: int = 0
    metadata_version: int = 0
    brokers: tuple[LogBroker, ...] = ()
    controllers: tuple[LogController, ...] = ()
    voters: tuple[LogVoter, ...] = ()
    software: tuple[VoterSoftware, ...] = ()
    """Of voters that answered lately."""
    topics: int = 0
    partitions: int = 0
    under_replicated: int = 0
    under_replicated_leader: int | None = None
    under_min_isr: int = 0
    reassignments: int = 0
    leaderless: int = 0
    orphans: int = 0
    """Replicas on brokers that are not registered."""
    features: tuple[str, ...] = ()
    """Finalized ones above 0, beside metadata.version."""
    feature_levels: dict[str, int] = {}
    """Of those."""
    supported: tuple[SupportedRange, ...] = ()
    own_min_isr: tuple[OwnMinIsr, ...] = ()
    """Topics with `min.insync.replicas` of their own, by value."""
    scram_at_stake: tuple[str, ...] = ()
    """Users whose SCRAM credentials a node may not know that starts on this log without a newer snapshot (K-28)."""
    only_kraft: tuple[str, ...] = ()
    """Configuration that has no form in ZooKeeper, in words; the first ones, and how many more there are."""
    refused_later: tuple[LaterProblem, ...] = ()
    """Configuration that a later Kafka does not take, the first `REFUSED_SHOWN`."""
    single: TakenAtStop = TakenAtStop()
    at_minimum: TakenAtStop = TakenAtStop()
    """What the stop of a broker takes although every partition is whole (migrator.model.at_a_stop)."""
    min_isr: MinIsr = MinIsr()
    in_transaction: bool = False
    """A metadata transaction is open, such as that of a copy."""

    @property
    def known(self) -> bool:
        return not self.problem

    @property
    def later(self) -> tuple[LaterNode, ...]:
        """Nodes of a release without ZooKeeper, voters first. An answer counts more than a registration."""
        answered = {each.id: (each.lowest, each.highest) for each in self.software}
        registered = {each.id: each.levels for each in self.controllers if each.levels is not None}
        voters = ((node, True, levels) for node, levels in sorted({**registered, **answered}.items()))
        brokers = ((each.id, False, each.levels) for each in self.brokers if each.mode == "KRaft")
        return tuple(
            LaterNode(node, is_voter, *levels)
            for node, is_voter, levels in (*voters, *brokers)
            if levels is not None and is_without_zookeeper(levels)
        )

    @property
    def later_leader(self) -> LaterNode | None:
        return next((each for each in self.later if each.is_voter and each.id == self.leader), None)

    def broker(self, broker_id: int) -> LogBroker | None:
        return next((each for each in self.brokers if each.id == broker_id), None)

    def controller(self, node_id: int) -> LogController | None:
        return next((each for each in self.controllers if each.id == node_id), None)

    def voter(self, node_id: int) -> LogVoter | None:
        return next((each for each in self.voters if each.id == node_id), None)


class _Replayed:
    """What the log says so far, as a sink of what is read."""

    blocks = False

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.replay = LogReplay()
        self.counter = PartitionCounter()
        self.scram = ScramReplay()
        self.migration_at = -1
        self.data_end = 0

    def snapshot(self, content: bytes, snapshot: SnapshotId) -> None:
        replay = _of_snapshot(content, snapshot)
        self.begin()
        self.replay, self.data_end = replay, snapshot.end_offset
        self.scram = ScramReplay((each.mechanism, each.user) for each in replay.image.scram)

    def batches(self, data: bytes) -> None:
        for batch in read_batches(data):
            for offset, value in enumerate(batch.values, batch.base_offset):
                key = value[1] if len(value) > 1 else -1
                if key == MIGRATION_KEY:
                    self.migration_at = offset
                if key != NO_OP_KEY:
                    self.data_end = offset + 1
                if key in SCRAM_KEYS:
                    self.scram.take(decode_record(value))
        self.replay.apply(data)


class LogObserver:
    """A place in the log of one quorum, kept from look to look."""

    def __init__(
        self,
        voters: Sequence[VoterAddress],
        cluster_id: str | None,
        security: ClientSecurity = PLAINTEXT,
        look_s: float = LOOK_S,
    ) -> None:
        """look_s: longest look."""
        self._look_s = look_s
        self._voters = tuple(voters)
        self._cluster_id = cluster_id
        self._said = _Replayed()
        self.reader = LogReader(voters, cluster_id, self._said, security)
        self._software: dict[int, VoterSoftware] = {}
        self._of_configs: tuple[Map[ConfigKey, Config] | None, tuple[LaterProblem, ...], tuple[OwnMinIsr, ...]] = (
            None,
            (),
            (),
        )
        self._asked_at: float | None = None

    @property
    def image(self) -> Image:
        """Committed, as of the last look."""
        return self._said.replay.image

    def close(self) -> None:
        self.reader.close()

    async def look(self, now: float, min_isr: Mapping[int, int] = NOT_KNOWN) -> LogObservation:
        """Read up to what is committed. Never raises for what a network or a peer does.

        min_isr: `min.insync.replicas` in the files of brokers, as far as it is known.
        """
        try:
            async with asyncio.timeout(self._look_s):
                quorum = await self.reader.read()
                await self._ask_software(now)
                counter = self._said.counter
                counter.min_isr_of_files = min_isr
                figures = await asyncio.to_thread(counter.count, self.image)
        except TimeoutError:
            return LogObservation(now, f"the quorum did not answer within {self._look_s:.0f} s")
        except NoLeaderError as error:
            return LogObservation(now, words_of(error), no_leader=True)
        except (OSError, FindingError) as error:
            return LogObservation(now, words_of(error))
        if self.reader.end < quorum.high_watermark:
            return LogObservation(now, f"read up to offset {self.reader.end} of {quorum.high_watermark}")
        return self._summed_up(now, quorum, figures)

    async def ask_to_lead(self, node: int, observed: LogObservation) -> None:
        """What the leader would send when it stops, with this voter as its only successor. Raises OSError.

        observed: its leader and epoch; a voter that knows of a later epoch refuses.
        """
        partition = EndQuorumEpochPartition(
            0, observed.leader or 0, observed.epoch, preferred_candidates=(PreferredCandidate(node),)
        )
        request = EndQuorumEpochRequest(self._cluster_id, (EndQuorumEpochTopic(METADATA_TOPIC, (partition,)),))
        answer = await self.reader.connections[node].ask(request, END_VERSION, EndQuorumEpochResponse, ANSWER_S)
        errors = [each.error_code for topic in answer.topics for each in topic.partitions if each.error_code]
        if answer.error_code or errors:
            raise OSError(f"controller {node} answers EndQuorumEpoch with error {answer.error_code or errors[0]}")

    async def levels_of(self, node: int) -> VoterLevels:
        """What a voter says of itself in ApiVersions. Raises OSError or TimeoutError."""
        answer, supported = await self._api_versions(node, ANSWER_S)
        finalized = next((each for each in answer.finalized_features if each.name == METADATA_VERSION), None)
        level = 0 if finalized is None else finalized.max_version_level
        others = {each.name: each.max_version_level for each in answer.finalized_features if each is not finalized}
        return VoterLevels(supported.min_version, supported.max_version, level, others)

    async def _api_versions(self, node: int, within_s: float) -> tuple[ApiVersionsResponse, SupportedFeatureKey]:
        """What a node supports, with its range of metadata.version. Raises OSError or TimeoutError."""
        request = ApiVersionsRequest(client_software_name="zk2kraft-service", client_software_version="1")
        answer = await self.reader.connections[node].ask(request, API_VERSIONS_VERSION, ApiVersionsResponse, within_s)
        supported = next((each for each in answer.supported_features if each.name == METADATA_VERSION), None)
        if answer.error_code or supported is None:
            raise OSError(f"controller {node} answers ApiVersions without metadata.version (error {answer.error_code})")
        return answer, supported

    async def _ask_software(self, now: float) -> None:
        """Every voter, at most every few seconds. One that does not answer is not known."""
        if self._asked_at is not None and 0 <= now - self._asked_at < SOFTWARE_EVERY_S:
            return
        self._asked_at = now
        answers = await asyncio.gather(*(self._software_of(voter.id) for voter in self._voters))
        self._software = {each.id: each for each in answers if each is not None}

    async def _software_of(self, node: int) -> VoterSoftware | None:
        try:
            answer, supported = await self._api_versions(node, SOFTWARE_ANSWER_S)
        except (OSError, TimeoutError, FindingError):
            return None
        return VoterSoftware(node, supported.min_version, supported.max_version, answer.zk_migration_ready)

    async def raise_feature(self, feature: str, level: int, observed: LogObservation) -> None:
        """Ask the leader to finalize a feature at `level`, upgrade only. Raises OSError when it is refused."""
        assert observed.leader is not None, "the gate wants a leader"
        request = UpdateFeaturesRequest(
            timeout_ms=int(RAISE_S * 1000), feature_updates=(FeatureUpdateKey(feature, level, upgrade_type=1),)
        )
        answer = await self.reader.connections[observed.leader].ask(
            request, UPDATE_FEATURES_VERSION, UpdateFeaturesResponse, RAISE_S
        )
        said = [(answer.error_code, answer.error_message)]
        said += [(each.error_code, each.error_message) for each in answer.results]
        for code, words in said:
            if code:
                raise OSError(f"controller {observed.leader} answers error {code}: {words}")

    def _look_at_configs(self) -> tuple[tuple[LaterProblem, ...], tuple[OwnMinIsr, ...]]:
        """Looked for again only where a configuration has changed."""
        configs = self.image.configs
        if self._of_configs[0] is not configs:
            self._of_configs = (
                configs,
                tuple(islice(problems_later(configs), REFUSED_SHOWN)),
                tuple(own_min_isr(configs)),
            )
        return self._of_configs[1:]

    def _summed_up(
        self, now: float, quorum: DescribeQuorumPartitionResult, figures: PartitionFigures
    ) -> LogObservation:
        said, image = self._said, self.image
        refused, own = self._look_at_configs()
        return LogObservation(
            at=now,
            problem="a metadata transaction is open" if said.replay.transaction_open else "",
            in_transaction=said.replay.transaction_open,
            leader=quorum.leader_id,
            epoch=quorum.leader_epoch,
            high_watermark=quorum.high_watermark,
            offset=said.replay.end - 1,
            migration=image.migration.name,
            migration_at=said.migration_at,
            data_end=said.data_end,
            metadata_version=image.metadata_version,
            brokers=tuple(_broker(each, figures) for _, each in sorted(image.brokers.items())),
            controllers=tuple(_controller(each) for _, each in sorted(image.controllers.items())),
            voters=_voters(quorum),
            software=tuple(each for _, each in sorted(self._software.items())),
            topics=len(image.topics),
            partitions=figures.partitions,
            under_replicated=figures.under_replicated,
            under_replicated_leader=figures.under_replicated_leader,
            under_min_isr=figures.under_min_isr,
            reassignments=figures.reassignments,
            leaderless=figures.leaderless,
            orphans=_orphans(image),
            features=tuple(
                sorted(name for name, level in image.features.items() if level and name != METADATA_VERSION)
            ),
            feature_levels={
                name: level for name, level in sorted(image.features.items()) if level and name != METADATA_VERSION
            },
            scram_at_stake=tuple(user for users in said.scram.lost().values() for user in users),
            only_kraft=only_kraft(image.configs),
            refused_later=refused,
            supported=tuple(supported_ranges(image)),
            own_min_isr=own,
            single=figures.single,
            at_minimum=figures.at_minimum,
            min_isr=figures.min_isr,
        )


def _of_snapshot(content: bytes, snapshot: SnapshotId) -> LogReplay:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "snapshot"
        path.write_bytes(content)
        return read_snapshot(path, snapshot)


def _broker(broker: Broker, figures: PartitionFigures) -> LogBroker:
    mine = figures.brokers.get(broker.id)
    return LogBroker(
        id=broker.id,
        incarnation=str(uuid.UUID(bytes=broker.incarnation)),
        mode="ZooKeeper" if broker.migrating else "KRaft",
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        rack=broker.rack or "",
        epoch=broker.epoch,
        under_replicated=0 if mine is None else mine.under_replicated,
        unassigned_dirs=0 if mine is None else mine.unassigned_dirs,
        offline_dirs=0 if mine is None else len(mine.offline_dirs),
        levels=levels_of(broker.features),
        at_stake=0 if mine is None else mine.at_stake,
    )


def _controller(controller: Controller) -> LogController:
    incarnation = str(uuid.UUID(bytes=controller.incarnation))
    return LogController(controller.id, incarnation, controller.zk_migration_ready, levels_of(controller.features))


def _voters(quorum: DescribeQuorumPartitionResult) -> tuple[LogVoter, ...]:
    """Ages by the leader's own clock: its own entry has the time of the answer."""
    stamps: Mapping[int, int] = {each.replica_id: each.last_fetch_timestamp for each in quorum.current_voters}
    newest = max(stamps.values(), default=-1)
    return tuple(
        LogVoter(
            each.replica_id,
            each.log_end_offset,
            None if each.log_end_offset < 0 else max(quorum.high_watermark - each.log_end_offset, 0),
            newest - each.last_fetch_timestamp if each.last_fetch_timestamp >= 0 and newest >= 0 else None,
            max(newest - each.last_caught_up_timestamp, 0) if each.last_caught_up_timestamp >= 0 else None,
        )
        for each in sorted(quorum.current_voters, key=lambda voter: voter.replica_id)
    )


def problems_later(configs: Map[ConfigKey, Config]) -> Iterator[LaterProblem]:
    """Name what a later Kafka refuses of topics and brokers, in order of type and name."""
    said = {
        ConfigType.TOPIC: ("topic {}", RAISED_OF_TOPICS),
        ConfigType.BROKER: ("configuration of broker {}", RAISED_OF_BROKERS),
    }
    for key, config in sorted(configs.items()):
        if key.type in said:
            words, minimums = said[ConfigType(key.type)]
            where = words.format(key.name) if key.name else "configuration of all brokers"
            yield from (LaterProblem(where, *each) for each in refused_later(config, minimums))


def own_min_isr(configs: Map[ConfigKey, Config]) -> Iterator[OwnMinIsr]:
    """Count topics with a value of their own, the lowest value first."""
    found: dict[int, list[str]] = {}
    for key, config in configs.items():
        value = whole_number(config.get(MIN_ISR)) if key.type == ConfigType.TOPIC else None
        if value is not None:
            found.setdefault(value, []).append(key.name)
    for value, names in sorted(found.items()):
        yield OwnMinIsr(value, len(names), tuple(nsmallest(TOPICS_SHOWN, names)))


def supported_ranges(image: Image) -> Iterator[SupportedRange]:
    """Group nodes by what they registered of each feature. One that does not name it has level 0 alone."""
    nodes = [(BROKER_WORD, each.id, each.features) for _, each in sorted(image.brokers.items())]
    nodes += [(CONTROLLER_WORD, each.id, each.features) for _, each in sorted(image.controllers.items())]
    names = sorted({each.name for _, _, features in nodes for each in features})
    for name in names:
        groups: dict[tuple[str, int, int], list[int]] = {}
        for role, node, features in nodes:
            low, high = next(((each.lowest, each.highest) for each in features if each.name == name), (0, 0))
            groups.setdefault((role, low, high), []).append(node)
        for (role, low, high), ids in groups.items():
            more = f" and {len(ids) - NODES_SHOWN} more" if len(ids) > NODES_SHOWN else ""
            some = ", ".join(map(str, ids[:NODES_SHOWN])) + more
            yield SupportedRange(name, low, high, f"{role}{'s' if len(ids) > 1 else ''} {some}")


def _orphans(image: Image) -> int:
    known = set(image.brokers)
    return sum(1 for _, partition in image.partitions() for broker in partition.replicas if broker not in known)
