"""Which decision answers which request, and what is answered when there may be none.

In:   a request with its version, the situation, and whether metadata may be changed now.
Out:  a `Decision`; for an Envelope, the answer to the request inside it.
Elsewhere: requests of the quorum itself (raft, node), reading and writing frames (node.listener.server).
Source: Kafka 3.9 `ControllerApis`, `QuorumController`. What stock advertises and does not answer is answered with the
error that the request's own answer has room for, so that a client hears why, and no broker loses the request from its
list.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from migrator.controller.authorizer import Asker
from migrator.controller.brokers import (
    heartbeat,
    heartbeat_without_change,
    register_broker,
    register_controller,
    unregister_broker,
)
from migrator.controller.configs import ConfigOperation, alter_configs, incremental_alter_configs
from migrator.controller.decision import Decision, Situation
from migrator.controller.feature_updates import update_features
from migrator.controller.features import FORWARDABLE
from migrator.controller.partitions.alter_partition import alter_partition
from migrator.controller.partitions.directories import assign_replicas
from migrator.controller.partitions.elect_leaders import elect_leaders
from migrator.controller.partitions.reassignments import alter_reassignments, list_reassignments
from migrator.controller.producer_ids import allocate_producer_ids
from migrator.controller.quotas import alter_client_quotas
from migrator.controller.refusals import refuse
from migrator.controller.security.acls import create_acls, delete_acls, describe_acls
from migrator.controller.security.permissions import decide_allowed
from migrator.controller.security.scram import alter_scram
from migrator.controller.security.tokens import create_token, expire_token, renew_token
from migrator.controller.topics import create_partitions, create_topics, delete_topics
from migrator.findings.finding import FindingError
from migrator.model.values import MigrationState
from migrator.wire.errors import Error
from migrator.wire.frames import (
    API_KEYS,
    decode_request,
    encode_response,
    read_request_header,
)
from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    EnvelopeRequest,
    EnvelopeResponse,
    UnregisterBrokerRequest,
)
from migrator.wire.messages.configs import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from migrator.wire.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from migrator.wire.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from migrator.wire.principal import decode_principal
from migrator.wire.schema import Message

BEFORE_MIGRATION: Final = (
    BrokerRegistrationRequest,
    BrokerHeartbeatRequest,
    ControllerRegistrationRequest,
    UnregisterBrokerRequest,
)
"""What a controller answers in pre-migration mode; everything else is NOT_CONTROLLER there."""

OF_ADMINISTRATORS: Final = (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    CreatePartitionsRequest,
    IncrementalAlterConfigsRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
    CreateDelegationTokenRequest,
    RenewDelegationTokenRequest,
    ExpireDelegationTokenRequest,
)
"""What can wait while ZooKeeper is too far behind. What clients are served with cannot: leaders, ISRs, producer ids."""


def _only_takes_away(request: Message) -> bool:
    """What makes ZooKeeper's work less is no reason to wait for ZooKeeper: it may be the cure."""
    match request:
        case DeleteTopicsRequest() | DeleteAclsRequest():
            return True
        case AlterClientQuotasRequest():
            return bool(request.entries) and all(op.remove for entry in request.entries for op in entry.ops)
        case AlterUserScramCredentialsRequest():
            return bool(request.deletions) and not request.upsertions
        case IncrementalAlterConfigsRequest():
            operations = [each.config_operation for resource in request.resources for each in resource.configs]
            return bool(operations) and set(operations) == {ConfigOperation.DELETE}
        case AlterPartitionReassignmentsRequest():
            moves = [each for topic in request.topics for each in topic.partitions]
            return bool(moves) and all(each.replicas is None for each in moves)
        case ExpireDelegationTokenRequest():
            return request.expiry_time_period_ms < 0
        case _:
            return False


OF_BROKERS: Final = (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    AllocateProducerIdsRequest,
)
"""What brokers need to live: sessions and fencing, leaders and ISRs, producer ids."""


def decide(
    situation: Situation,
    request: Message,
    version: int,
    *,
    writes_allowed: bool,
    brokers_served: bool = False,
    blocked: str | None = None,
) -> Decision:
    """The answer to one request that is not an Envelope and not of the quorum.

    brokers_served: though not all may be written, what brokers need is decided on, in migration.
    blocked: why changes of administrators are refused now, in words for them (R-866-12).
    """
    if brokers_served and situation.image.migration is MigrationState.MIGRATION and isinstance(request, OF_BROKERS):
        return decide_allowed(situation, request, lambda allowed: _decide(situation, allowed, version))
    if not writes_allowed and not isinstance(request, BEFORE_MIGRATION):
        return Decision(refuse(request, Error.NOT_CONTROLLER, "The controller does not change metadata now."))
    if not writes_allowed and situation.image.migration is MigrationState.MIGRATION:
        return _while_leaving(situation, request)
    if blocked is not None and isinstance(request, OF_ADMINISTRATORS) and not _only_takes_away(request):
        return Decision(refuse(request, Error.POLICY_VIOLATION, blocked))
    return decide_allowed(situation, request, lambda allowed: _decide(situation, allowed, version))


def _decide(situation: Situation, request: Message, version: int) -> Decision:
    match request:
        case BrokerHeartbeatRequest():
            return heartbeat(situation, request)
        case AlterPartitionRequest():
            return alter_partition(situation, request, version)
        case AssignReplicasToDirsRequest():
            return assign_replicas(situation, request)
        case BrokerRegistrationRequest():
            return register_broker(situation, request)
        case ControllerRegistrationRequest():
            return register_controller(situation, request)
        case UnregisterBrokerRequest():
            return unregister_broker(situation, request)
        case AllocateProducerIdsRequest():
            return allocate_producer_ids(situation, request)
        case CreateTopicsRequest():
            return create_topics(situation, request, version)
        case DeleteTopicsRequest():
            return delete_topics(situation, request, version)
        case CreatePartitionsRequest():
            return create_partitions(situation, request, version)
        case IncrementalAlterConfigsRequest():
            return incremental_alter_configs(situation, request)
        case AlterConfigsRequest():
            return alter_configs(situation, request)
        case ElectLeadersRequest():
            return elect_leaders(situation, request)
        case AlterPartitionReassignmentsRequest():
            return alter_reassignments(situation, request)
        case ListPartitionReassignmentsRequest():
            return list_reassignments(situation, request)
        case AlterClientQuotasRequest():
            return alter_client_quotas(situation, request)
        case AlterUserScramCredentialsRequest():
            return alter_scram(situation, request)
        case CreateAclsRequest():
            return create_acls(situation, request)
        case DeleteAclsRequest():
            return delete_acls(situation, request)
        case UpdateFeaturesRequest():
            return update_features(situation, request)
        case DescribeAclsRequest():
            return describe_acls(situation, request)
        case CreateDelegationTokenRequest():
            return create_token(situation, request, version)
        case RenewDelegationTokenRequest():
            return renew_token(situation, request)
        case ExpireDelegationTokenRequest():
            return expire_token(situation, request)
        case _:
            words = f"{type(request).__name__.removesuffix('Request')} is not supported by the migrating controller."
            return Decision(refuse(request, Error.UNSUPPORTED_VERSION, words))


def _while_leaving(situation: Situation, request: Message) -> Decision:
    """In migration and yet not allowed to write: claiming again, going back, fenced. Nothing may be decided any more,
    also no election by a heartbeat: both sides were compared, or are about to be. Brokers ask again.
    """
    if isinstance(request, BrokerHeartbeatRequest):
        return heartbeat_without_change(situation, request)
    if isinstance(request, ControllerRegistrationRequest):
        return register_controller(situation, request)
    return Decision(refuse(request, Error.NOT_CONTROLLER, "The controller does not change metadata now."))


# --- Envelope ---------------------------------------------------------------------------------------------


class EnvelopeRefused(Exception):
    """The envelope itself is answered with this error; the request inside is not looked at."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error

    def response(self) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=self.error)


@dataclass(frozen=True, slots=True)
class Opened:
    """What was in an envelope: a request, and for whom it is."""

    version: int
    correlation_id: int
    request: Message
    asker: Asker


def open_envelope(envelope: EnvelopeRequest) -> Opened:
    """Raises `EnvelopeRefused` in stock's order."""
    try:
        if envelope.request_principal is None:
            raise EnvelopeRefused(Error.PRINCIPAL_DESERIALIZATION_FAILURE)
        principal = decode_principal(envelope.request_principal)
    except FindingError as error:
        raise EnvelopeRefused(Error.PRINCIPAL_DESERIALIZATION_FAILURE) from error
    if len(envelope.client_host_address) not in (4, 16):
        raise EnvelopeRefused(Error.INVALID_REQUEST)
    try:
        header = read_request_header(envelope.request_data)
    except FindingError as error:
        raise EnvelopeRefused(Error.UNSUPPORTED_VERSION) from error
    if header.api_key not in FORWARDABLE:
        raise EnvelopeRefused(Error.INVALID_REQUEST)
    try:
        _, message = decode_request(envelope.request_data)
    except FindingError as error:
        raise EnvelopeRefused(Error.UNSUPPORTED_VERSION) from error
    host = host_of(envelope.client_host_address)
    named = f"{principal.type}:{principal.name}"
    asker = Asker(named, host, principal.token_authenticated, client_id=header.client_id or "")
    return Opened(header.api_version, header.correlation_id, message, asker)


def host_text(peer: str) -> str:
    """The address of a connection as Java writes it: of IPv6 with its scope, where it has one."""
    address, percent, scope = peer.partition("%")
    try:
        return host_of(ip_address(address).packed) + percent + scope
    except ValueError:
        return peer


def host_of(address: bytes) -> str:
    """4 or 16 bytes as Java writes them, since that is how ACLs name hosts: all eight groups, no "::"."""
    if len(address) == 16 and address[:12] == bytes(10) + b"\xff\xff":
        address = address[12:]
    if len(address) == 4:
        return ".".join(map(str, address))
    return ":".join(f"{int.from_bytes(address[at : at + 2], 'big'):x}" for at in range(0, 16, 2))


def wrap_envelope(reply: Message, version: int, correlation_id: int) -> EnvelopeResponse:
    """The answer for the client inside the answer for its broker; NOT_CONTROLLER makes the broker ask again."""
    if says_not_controller(reply):
        return EnvelopeResponse(error_code=Error.NOT_CONTROLLER)
    return EnvelopeResponse(response_data=encode_response(reply, version, correlation_id=correlation_id)[4:])


def says_not_controller(reply: Message) -> bool:
    """Whether NOT_CONTROLLER stands anywhere in an answer, at the top or in one of its results."""
    if getattr(reply, "error_code", 0) == Error.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results", "entries", "filter_results"):
        for each in getattr(reply, name, None) or ():
            if getattr(each, "error_code", 0) == Error.NOT_CONTROLLER:
                return True
    return False


def api_name(key: int) -> str:
    return API_KEYS[key].name if key in API_KEYS else f"request {key}"
