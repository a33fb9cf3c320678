"""The metadata log as any observer reads it, whoever leads: ours or stock.

In:   the voters' addresses and how to speak to them.
Out:  `LogObservation`: registrations, replicas, the state of the migration, how far each voter is.
Elsewhere: what a controller of ours says of itself (control.py), what the observation means (policy/road_gates.py).
Rules: Fetch with replica id -1 changes nothing in the quorum. Only what is below the high watermark counts. What cannot
be read is a problem in words, and the figures of the observation before do not take its place.
Source: KIP-595 (Fetch, DescribeQuorum), KIP-630 (FetchSnapshot); Kafka 3.9 `ClusterControlManager.registerController`.
"""

from __future__ import annotations

import asyncio
import errno
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from migrator.driver.only_kraft import only_kraft
from migrator.findings.finding import FindingError, words_of
from migrator.model.at_a_stop import MinIsr, TakenAtStop
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.later_kafka import LaterNode, is_without_zookeeper, levels_of
from migrator.model.partition_figures import PartitionCounter, PartitionFigures
from migrator.model.values import Broker, Controller
from migrator.node.config.properties import VoterAddress
from migrator.node.log.log_replay import LogReplay, read_snapshot
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.raft.types import SnapshotId
from migrator.wire.batch import TornBatchError, peek, read_batches
from migrator.wire.messages.configs import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from migrator.wire.messages.raft import (
    DescribeQuorumPartition,
    DescribeQuorumPartitionResult,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    EndQuorumEpochPartition,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    EndQuorumEpochTopic,
    PreferredCandidate,
)
from migrator.wire.messages.replication import (
    FetchPartition,
    FetchPartitionResult,
    FetchRequest,
    FetchResponse,
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
    FetchTopic,
    WireSnapshotId,
)

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
DESCRIBE_VERSION: Final = 1
NOT_LEADER: Final = 6
"""Error NOT_LEADER_OR_FOLLOWER: any voter but the leader answers DescribeQuorum with it."""
END_VERSION: Final = 1
FETCH_VERSION: Final = 13
SNAPSHOT_VERSION: Final = 0
API_VERSIONS_VERSION: Final = 3
UPDATE_FEATURES_VERSION: Final = 1
RAISE_S: Final = 30.0
FETCH_BYTES_MAX: Final = 8 << 20
SNAPSHOT_BYTES_MAX: Final = 1 << 30
LOOK_S: Final = 4.0
"""Longest look; a log that is longer than one look can read is read on by the next one."""
ANSWER_S: Final = 2.0
SOFTWARE_EVERY_S: Final = 3.0
SOFTWARE_ANSWER_S: Final = 1.0
"""A voter that is silent may not take the look's time."""
ON_A_THREAD_BYTES: Final = 1 << 16
NOT_KNOWN: Final[Mapping[int, int]] = {}
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
    """metadata.version: lowest and highest that the software supports, and the finalized one as this voter knows it."""

    lowest: int
    highest: int
    finalized: int


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
    only_kraft: tuple[str, ...] = ()
    """Configuration that has no form in ZooKeeper, in words; the first ones, and how many more there are."""
    single: TakenAtStop = TakenAtStop()
    at_minimum: TakenAtStop = TakenAtStop()
    """What the stop of a broker takes although every partition is whole (migrator.model.at_a_stop)."""
    min_isr: MinIsr = MinIsr()

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


class NoLeaderError(OSError):
    """Every voter says that it does not lead, or nothing listens at its address."""


class LogSink(Protocol):
    """Who keeps what is read, as it is on the wire. Called on threads, one call after the other."""

    def begin(self) -> None: ...
    def snapshot(self, content: bytes, snapshot: SnapshotId) -> None: ...
    def batches(self, data: bytes) -> None: ...


class LogObserver:
    """A place in the log of one quorum, kept from look to look."""

    def __init__(
        self,
        voters: Sequence[VoterAddress],
        cluster_id: str | None,
        security: ClientSecurity = PLAINTEXT,
        sink: LogSink | None = None,
        look_s: float = LOOK_S,
    ) -> None:
        """sink: gets what is read before it counts as read. look_s: longest look."""
        self._sink = sink
        self._look_s = look_s
        self._voters = tuple(voters)
        self._cluster_id = cluster_id
        self._connections = {
            voter.id: BrokerConnection(voter.host, voter.port, "zk2kraft-service", security) for voter in voters
        }
        self._leader: int | None = None
        self._software: dict[int, VoterSoftware] = {}
        self._asked_at: float | None = None
        self._begin()

    @property
    def end(self) -> int:
        """The offset behind the last record that was read."""
        return self._replay.end

    @property
    def image(self) -> Image:
        """Committed, as of the last look."""
        return self._replay.image

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def look(self, now: float, min_isr: Mapping[int, int] = NOT_KNOWN) -> LogObservation:
        """Read up to what is committed. Never raises for what a network or a peer does.

        min_isr: `min.insync.replicas` in the files of brokers, as far as it is known.
        """
        try:
            async with asyncio.timeout(self._look_s):
                quorum = await self._describe()
                await self._read_to(quorum)
                await self._ask_software(now)
                self._counter.min_isr_of_files = min_isr
                figures = await asyncio.to_thread(self._counter.count, self._replay.image)
        except TimeoutError:
            return LogObservation(now, f"the quorum did not answer within {self._look_s:.0f} s")
        except NoLeaderError as error:
            return LogObservation(now, words_of(error), no_leader=True)
        except (OSError, FindingError) as error:
            return LogObservation(now, words_of(error))
        if self._replay.end < quorum.high_watermark:
            return LogObservation(now, f"read up to offset {self._replay.end} of {quorum.high_watermark}")
        return self._summed_up(now, quorum, figures)

    async def ask_to_lead(self, node: int, observed: LogObservation) -> None:
        """What the leader would send when it stops, with this voter as its only successor. Raises OSError.

        observed: its leader and epoch; a voter that knows of a later epoch refuses.
        """
        partition = EndQuorumEpochPartition(
            0, observed.leader or 0, observed.epoch, preferred_candidates=(PreferredCandidate(node),)
        )
        request = EndQuorumEpochRequest(self._cluster_id, (EndQuorumEpochTopic(METADATA_TOPIC, (partition,)),))
        answer = await self._connections[node].ask(request, END_VERSION, EndQuorumEpochResponse, ANSWER_S)
        errors = [each.error_code for topic in answer.topics for each in topic.partitions if each.error_code]
        if answer.error_code or errors:
            raise OSError(f"controller {node} answers EndQuorumEpoch with error {answer.error_code or errors[0]}")

    async def levels_of(self, node: int) -> VoterLevels:
        """What a voter says of itself in ApiVersions. Raises OSError or TimeoutError."""
        answer, supported = await self._api_versions(node, ANSWER_S)
        finalized = next((each for each in answer.finalized_features if each.name == METADATA_VERSION), None)
        level = 0 if finalized is None else finalized.max_version_level
        return VoterLevels(supported.min_version, supported.max_version, level)

    async def _api_versions(self, node: int, within_s: float) -> tuple[ApiVersionsResponse, SupportedFeatureKey]:
        """What a node supports, with its range of metadata.version. Raises OSError or TimeoutError."""
        request = ApiVersionsRequest(client_software_name="zk2kraft-service", client_software_version="1")
        answer = await self._connections[node].ask(request, API_VERSIONS_VERSION, ApiVersionsResponse, within_s)
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

    async def raise_level(self, level: int, observed: LogObservation) -> None:
        """Ask the leader to finalize metadata.version at `level`, upgrade only. Raises OSError when it is refused."""
        assert observed.leader is not None, "the gate wants a leader"
        request = UpdateFeaturesRequest(
            timeout_ms=int(RAISE_S * 1000), feature_updates=(FeatureUpdateKey(METADATA_VERSION, level, upgrade_type=1),)
        )
        answer = await self._connections[observed.leader].ask(
            request, UPDATE_FEATURES_VERSION, UpdateFeaturesResponse, RAISE_S
        )
        said = [(answer.error_code, answer.error_message)]
        said += [(each.error_code, each.error_message) for each in answer.results]
        for code, words in said:
            if code:
                raise OSError(f"controller {observed.leader} answers error {code}: {words}")

    def _begin(self) -> None:
        self._replay = LogReplay()
        self._counter = PartitionCounter()
        self._last_epoch = 0
        self._migration_at = -1
        self._data_end = 0

    # --- who leads -----------------------------------------------------------------------------------------

    async def _describe(self) -> DescribeQuorumPartitionResult:
        """Ask the last leader first. Raises OSError when no voter is found to lead: `NoLeaderError` when none does.

        A voter that is silent, or that cannot be reached, may lead; one whose address refuses the connection does not.
        """
        reasons, certain = [], bool(self._voters)
        for voter in sorted(self._voters, key=lambda each: each.id != self._leader):
            try:
                found = await self._describe_at(voter.id)
            except (OSError, TimeoutError, FindingError) as error:
                reasons.append(f"{voter.id}: {words_of(error)}")
                certain = certain and _refuses(error)
                continue
            if found is not None:
                self._leader = voter.id
                return found
            reasons.append(f"{voter.id} does not lead")
        self._leader = None
        raise (NoLeaderError if certain else OSError)("; ".join(reasons) or "no voter is known")

    async def _describe_at(self, node: int) -> DescribeQuorumPartitionResult | None:
        """None: it says that it does not lead. Raises OSError for any other answer: it may lead."""
        topic = DescribeQuorumTopic(METADATA_TOPIC, (DescribeQuorumPartition(0),))
        request = DescribeQuorumRequest((topic,))
        answer = await self._connections[node].ask(request, DESCRIBE_VERSION, DescribeQuorumResponse, ANSWER_S)
        if answer.error_code or not answer.topics or not answer.topics[0].partitions:
            raise OSError(f"it answers DescribeQuorum with error {answer.error_code}")
        partition = answer.topics[0].partitions[0]
        if partition.error_code not in (0, NOT_LEADER):
            raise OSError(f"it answers DescribeQuorum with error {partition.error_code}")
        return None if partition.error_code or partition.leader_id != node else partition

    # --- the log -------------------------------------------------------------------------------------------

    async def _read_to(self, quorum: DescribeQuorumPartitionResult) -> None:
        while self._replay.end < quorum.high_watermark:
            answer = await self._fetch(quorum)
            if answer.snapshot_id.end_offset >= 0:
                await self._fetch_snapshot(quorum, SnapshotId(answer.snapshot_id.end_offset, answer.snapshot_id.epoch))
                continue
            if answer.diverging_epoch.end_offset >= 0:
                await _undivided(self._begin_anew)
                continue
            if answer.error_code:
                raise OSError(f"controller {quorum.leader_id} answers Fetch with error {answer.error_code}")
            if not await self._take(bytes(answer.records or b""), quorum.high_watermark):
                return

    async def _fetch(self, quorum: DescribeQuorumPartitionResult) -> FetchPartitionResult:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=quorum.leader_epoch,
            fetch_offset=self._replay.end,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=FETCH_BYTES_MAX,
        )
        topic = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        request = FetchRequest(cluster_id=self._cluster_id, replica_id=-1, max_wait_ms=0, topics=(topic,))
        answer = await self._connections[quorum.leader_id].ask(request, FETCH_VERSION, FetchResponse, ANSWER_S)
        if answer.error_code or not answer.responses or not answer.responses[0].partitions:
            raise OSError(f"controller {quorum.leader_id} answers Fetch with error {answer.error_code}")
        return answer.responses[0].partitions[0]

    async def _take(self, data: bytes, high_watermark: int) -> bool:
        """Apply the committed batches of `data`; False when there is none."""
        position, epoch = 0, self._last_epoch
        while position < len(data):
            try:
                header = peek(data, position)
            except TornBatchError:
                break
            if position + header.size > len(data) or header.last_offset >= high_watermark:
                break
            position, epoch = position + header.size, header.leader_epoch
        if not position:
            return False
        if position > ON_A_THREAD_BYTES or self._sink is not None:
            await _undivided(self._keep, data[:position], epoch)
        else:
            self._keep(data[:position], epoch)
        return True

    def _keep(self, data: bytes, epoch: int) -> None:
        """A sink that cannot write leaves the place in the log where it is."""
        if self._sink is not None:
            self._sink.batches(data)
        self._apply(data)
        self._last_epoch = epoch

    def _begin_anew(self) -> None:
        if self._sink is not None:
            self._sink.begin()
        self._begin()

    def _apply(self, data: bytes) -> None:
        for batch in read_batches(data):
            for offset, value in enumerate(batch.values, batch.base_offset):
                key = value[1] if len(value) > 1 else -1
                if key == MIGRATION_KEY:
                    self._migration_at = offset
                if key != NO_OP_KEY:
                    self._data_end = offset + 1
        self._replay.apply(data)

    async def _fetch_snapshot(self, quorum: DescribeQuorumPartitionResult, snapshot: SnapshotId) -> None:
        """Begin anew with a snapshot: the log does not reach back to where we are."""
        with tempfile.TemporaryFile() as file:
            size, position = 1, 0
            while position < size:
                part = FetchSnapshotPartition(
                    partition=0,
                    current_leader_epoch=quorum.leader_epoch,
                    snapshot_id=WireSnapshotId(snapshot.end_offset, snapshot.epoch),
                    position=position,
                )
                request = FetchSnapshotRequest(
                    cluster_id=self._cluster_id,
                    replica_id=-1,
                    max_bytes=FETCH_BYTES_MAX,
                    topics=(FetchSnapshotTopic(METADATA_TOPIC, (part,)),),
                )
                connection = self._connections[quorum.leader_id]
                answer = await connection.ask(request, SNAPSHOT_VERSION, FetchSnapshotResponse, ANSWER_S)
                if answer.error_code or not answer.topics or not answer.topics[0].partitions:
                    raise OSError(f"FetchSnapshot is answered with error {answer.error_code}")
                piece = answer.topics[0].partitions[0]
                data = bytes(piece.unaligned_records or b"")
                if piece.error_code or not data or piece.size > SNAPSHOT_BYTES_MAX:
                    raise OSError(f"snapshot {snapshot} cannot be read: error {piece.error_code}, {piece.size} bytes")
                file.write(data)
                size, position = piece.size, position + len(data)
            file.seek(0)
            content = file.read()
        await _undivided(self._begin_with, content, snapshot)

    def _begin_with(self, content: bytes, snapshot: SnapshotId) -> None:
        replay = _replayed(content, snapshot)
        if self._sink is not None:
            self._sink.snapshot(content, snapshot)
        self._begin()
        self._replay = replay
        self._last_epoch = snapshot.epoch
        self._data_end = snapshot.end_offset

    # --- what it says --------------------------------------------------------------------------------------

    def _summed_up(
        self, now: float, quorum: DescribeQuorumPartitionResult, figures: PartitionFigures
    ) -> LogObservation:
        image = self._replay.image
        return LogObservation(
            at=now,
            problem="a metadata transaction is open" if self._replay.transaction_open else "",
            leader=quorum.leader_id,
            epoch=quorum.leader_epoch,
            high_watermark=quorum.high_watermark,
            offset=self._replay.end - 1,
            migration=image.migration.name,
            migration_at=self._migration_at,
            data_end=self._data_end,
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
            only_kraft=only_kraft(image.configs),
            single=figures.single,
            at_minimum=figures.at_minimum,
            min_isr=figures.min_isr,
        )


def _refuses(error: Exception) -> bool:
    """Whether nothing listens there. For a name with several addresses, asyncio makes one OSError of all texts."""
    said = str(error)
    failed, refused = said.count("Connect call failed"), said.count(f"[Errno {errno.ECONNREFUSED}] Connect call failed")
    return isinstance(error, ConnectionRefusedError) or 0 < failed == refused


async def _undivided(work: Callable[..., None], *arguments: Any) -> None:
    """Do blocking work on a thread, to its end: a look that is cancelled waits for it, so that no two are at work."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _replayed(content: bytes, snapshot: SnapshotId) -> LogReplay:
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


def _orphans(image: Image) -> int:
    known = set(image.brokers)
    return sum(1 for _, partition in image.partitions() for broker in partition.replicas if broker not in known)
