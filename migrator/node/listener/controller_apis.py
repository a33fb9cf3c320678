"""What is answered to each request: by the quorum, from the image, or as the active controller decides.

In:   decoded requests, each with who asks.
Out:  one response per request, a fault of ours included.
Elsewhere: bytes and connections (server.py), requests to the quorum (quorum_apis.py), decisions (active_controller.py).
Source: Kafka 3.9 `ControllerApis`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from migrator.controller.authorizer import ANONYMOUS, Asker
from migrator.controller.contacts import NAMED_MAX
from migrator.controller.describe_configs import describe_configs
from migrator.controller.features import api_versions, describe_cluster
from migrator.controller.refusals import is_refusable, refuse
from migrator.controller.requests import EnvelopeRefused, open_envelope, wrap_envelope
from migrator.controller.security.permissions import ON_CLUSTER
from migrator.findings.finding import FindingError
from migrator.findings.preflight import RELEASE_KEEPS_LEADERS, RELEASE_TOO_OLD
from migrator.model.image import METADATA_VERSION
from migrator.model.levels import LATEST, level_name, level_of_release
from migrator.model.values import MigrationState, ScramCredential, ScramKey
from migrator.node.brokers.denials import Denials
from migrator.node.leader.active_controller import ActiveController
from migrator.node.leader.voter_observations import VoterObservations
from migrator.node.listener.earlier_logs import EarlierLogs
from migrator.node.quorum.quorum_apis import QuorumApis, replica_of
from migrator.node.quorum.raft_node import RaftNode
from migrator.node.transport.sasl import SCRAM_NUMBERS
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS, RequestHeader
from migrator.wire.messages.brokers import (
    BrokerRegistrationRequest,
    DescribeClusterRequest,
    EnvelopeRequest,
    EnvelopeResponse,
)
from migrator.wire.messages.configs import DescribeConfigsRequest
from migrator.wire.messages.handshake import ApiVersionsRequest
from migrator.wire.messages.raft import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from migrator.wire.messages.replication import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from migrator.wire.schema import Message, declaration_of

log = structlog.get_logger()

REFUSED_AFTER_MS: Final = 500
"""Stock brokers allow their Fetch as much; their request times out after 2 s."""
KAFKA_CLIENT: Final = "apache-kafka-java"
"""How brokers name themselves in ApiVersions, with their release."""
KEEP_LEADERS: Final = frozenset({"3.6.0", "3.6.1"})
"""Releases whose brokers take no LeaderAndIsr for a partition with an equal leader epoch, whoever sends it.
Source: Kafka 3.6.2 and 3.7.0 `ReplicaManager.becomeLeaderOrFollower`, KAFKA-16121.
"""


@dataclass(slots=True)
class Caller:
    """Who is at the other end of one connection, as far as it said."""

    software: str = ""
    release: str = ""
    asker: Asker = field(default_factory=lambda: Asker(ANONYMOUS, ""))


class ControllerApis:
    """The requests of one listener."""

    def __init__(
        self,
        raft: RaftNode,
        controller: ActiveController,
        quorum: QuorumApis,
        *,
        listener: str,
        observed: VoterObservations | None = None,
        denials: Denials | None = None,
    ) -> None:
        self._raft = raft
        self._controller = controller
        self._quorum = quorum
        self._listener = listener
        self._seen = observed or VoterObservations()
        self._denials = denials or Denials(time.monotonic)
        self._odd_hosts: dict[int, str] = {}
        self._earlier_logs = EarlierLogs(raft, controller)

    def find_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """The credential in the committed log; a node that does not know yet what is committed knows nobody."""
        return self._controller.image.scram.get(ScramKey(user, SCRAM_NUMBERS[mechanism]))

    def allows(self, request: Message, asker: Asker) -> bool:
        """Whether somebody may ask this at all."""
        return self._controller.allows(request, asker)

    async def answer(self, header: RequestHeader, request: Message, caller: Caller) -> Message:
        self._note(request, caller)
        try:
            asker = replace(caller.asker, client_id=header.client_id or "")
            if isinstance(request, FetchRequest | FetchSnapshotRequest) and self._cannot_read(request, caller):
                return await refused_reader(request)
            reply = await self._route(header.api_version, request, asker)
            if isinstance(request, FetchRequest | FetchSnapshotRequest) and self._earlier_logs.refuses(request, reply):
                return await refused_reader(request)
            if isinstance(request, BrokerRegistrationRequest):
                self._name_odd_host(request.broker_id)
            return reply
        except FindingError:
            raise
        except Exception:
            # A fault of ours: the peer gets an error it survives, the log gets the whole story.
            log.exception("request.failed", request=type(request).__name__, client=header.client_id)
            if not is_refusable(type(request)):
                raise
            return refuse(request, Error.UNKNOWN_SERVER_ERROR)

    def _cannot_read(self, request: FetchRequest | FetchSnapshotRequest, caller: Caller) -> bool:
        """Whether this is a broker whose release does not know the log's level: it would end at a record of it.

        Or, before the takeover, one that would refuse what it is told after it. Stock controllers may have begun a
        dual-write with such a broker: without metadata it would be worse off.
        """
        broker = replica_of(request) if isinstance(request, FetchRequest) else request.replica_id
        highest = level_of_release(caller.release) if caller.software == KAFKA_CLIENT else 0
        if broker < 0 or broker in self._raft.voter.voters or not highest:
            return False
        level = self._controller.image.features.get(METADATA_VERSION)  # none before its own log is read
        refused = self._controller.contacts.too_old
        too_old = highest < (level or LATEST)
        before_takeover = self._controller.image.migration is MigrationState.PRE_MIGRATION
        if not too_old and not (before_takeover and caller.release in KEEP_LEADERS):
            refused.pop(broker, None)
            return False
        if level is not None and broker not in refused and len(refused) < NAMED_MAX:
            found = (
                RELEASE_TOO_OLD.found(broker=broker, release=caller.release, level=level_name(level))
                if too_old
                else RELEASE_KEEPS_LEADERS.found(broker=broker, release=caller.release)
            )
            log.warning("fetch.refused", code=found.code, reason=found.text)
            refused[broker] = found
        return True

    def _name_odd_host(self, broker: int) -> None:
        """One line per broker and host: it asks again and again."""
        found = self._controller.contacts.odd_hosts.get(broker)
        if found is not None and self._odd_hosts.get(broker) != found.text:
            log.warning("registration.refused", code=found.code, reason=found.text)
            self._odd_hosts[broker] = found.text

    def _note(self, request: Message, caller: Caller) -> None:
        """Keep which software fetches: of voters it matters."""
        match request:
            case ApiVersionsRequest():
                caller.software = request.client_software_name
                caller.release = request.client_software_version
            case FetchRequest() if (replica := replica_of(request)) in self._raft.voter.voters:
                self._seen.fetched(replica, caller.software, self._raft.now_ms(), caller.release)
            case _:
                pass

    async def _route(self, version: int, request: Message, asker: Asker) -> Message:
        """asker: who is connected, or for whom a broker passed the request on."""
        if not self._controller.allows(request, asker):
            self._denials.denied(type(request).__name__, ON_CLUSTER[type(request)], asker.principal, asker.host)
            return _denied(request)
        match request:
            case FetchRequest():
                return await self._quorum.fetch(request, version, self._listener)
            case ApiVersionsRequest():
                enabled = self._controller.settings.migration_enabled
                return api_versions(self._controller.image, version, migration_enabled=enabled)
            case EnvelopeRequest():
                return await self._envelope(request)
            case DescribeQuorumRequest():
                return self._quorum.describe(request, version)
            case DescribeClusterRequest():
                return describe_cluster(
                    self._controller.image,
                    request,
                    version,
                    cluster_id=self._controller.settings.cluster_id,
                    leader=self._raft.voter.leader,
                    listener=self._listener,
                )
            case DescribeConfigsRequest():
                return describe_configs(self._controller.image, self._controller.settings, request, asker, version)
            case VoteRequest():
                return await self._quorum.vote(request, version, self._listener)
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                return await self._quorum.leader_claim(request, version, self._listener)
            case AddRaftVoterRequest() | RemoveRaftVoterRequest() | UpdateRaftVoterRequest():
                return self._quorum.change_voters(request, self._listener)
            case FetchSnapshotRequest():
                return await self._quorum.fetch_snapshot(request, version, self._listener)
            case _:
                return await self._controller.submit(request, version, asker)

    async def _envelope(self, envelope: EnvelopeRequest) -> EnvelopeResponse:
        try:
            inner = open_envelope(envelope)
        except EnvelopeRefused as refused:
            return refused.response()
        reply = await self._route(inner.version, inner.request, inner.asker)
        return wrap_envelope(reply, inner.version, inner.correlation_id)


def _denied(request: Message) -> Message:
    if is_refusable(type(request)):
        return refuse(request, Error.CLUSTER_AUTHORIZATION_FAILED)
    key = declaration_of(type(request)).api_key
    assert key is not None
    response: Any = API_KEYS[key].response
    denied: Message = response(error_code=Error.CLUSTER_AUTHORIZATION_FAILED)
    return denied


async def refused_reader(request: FetchRequest | FetchSnapshotRequest) -> Message:
    """The error that every release takes for a controller that is starting or stopping: it asks again, at once.

    So it comes as late as the answer to one that has everything would.
    """
    allowed_ms = request.max_wait_ms if isinstance(request, FetchRequest) else REFUSED_AFTER_MS
    await asyncio.sleep(min(allowed_ms, REFUSED_AFTER_MS) / 1000)
    if isinstance(request, FetchRequest):
        return FetchResponse(error_code=Error.BROKER_NOT_AVAILABLE)
    return FetchSnapshotResponse(error_code=Error.BROKER_NOT_AVAILABLE)
