"""The answer to a request that is not done: the same error in every place where this kind of answer has one.

In:   a request and an error with its words.
Out:  the response message that a stock controller would send for that error.
Elsewhere: when a request is refused (requests.py). Brokers look for NOT_CONTROLLER anywhere in an answer and then ask
again, so it has to stand where their error counts look.
Source: Kafka 3.9 `*Request.getErrorResponse`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from migrator.wire.messages.configs import (
    AlterClientQuotasEntryResult,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from migrator.wire.messages.handshake import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from migrator.wire.messages.raft import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from migrator.wire.messages.security import (
    AclCreationResult,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreateAclsRequest,
    CreateAclsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from migrator.wire.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from migrator.wire.schema import Message

Refuse = Callable[[Any, int, str | None], Message]


def refuse(request: Message, error: int, words: str | None = None) -> Message:
    """The error answer to `request`; words are left out where the answer has no place for them."""
    return _REFUSALS[type(request)](request, error, words)


def is_refusable(request: type[Message]) -> bool:
    return request in _REFUSALS


def _only_code(response: Callable[..., Message]) -> Refuse:
    return lambda request, error, words: response(error_code=error)


def _with_words(response: Callable[..., Message]) -> Refuse:
    return lambda request, error, words: response(error_code=error, error_message=words)


def _create_topics(request: CreateTopicsRequest, error: int, words: str | None) -> Message:
    results = (CreatableTopicResult(each.name, error_code=error, error_message=words) for each in request.topics)
    return CreateTopicsResponse(topics=tuple(results))


def _delete_topics(request: DeleteTopicsRequest, error: int, words: str | None) -> Message:
    by_name = (DeletableTopicResult(name, error_code=error, error_message=words) for name in request.topic_names)
    by_state = (
        DeletableTopicResult(each.name, each.topic_id, error_code=error, error_message=words) for each in request.topics
    )
    return DeleteTopicsResponse(responses=(*by_name, *by_state))


def _create_partitions(request: CreatePartitionsRequest, error: int, words: str | None) -> Message:
    return CreatePartitionsResponse(
        results=tuple(CreatePartitionsTopicResult(each.name, error, words) for each in request.topics)
    )


def _incremental(request: IncrementalAlterConfigsRequest, error: int, words: str | None) -> Message:
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResourceResponse(error, words, each.resource_type, each.resource_name)
            for each in request.resources
        )
    )


def _alter_configs(request: AlterConfigsRequest, error: int, words: str | None) -> Message:
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(error, words, each.resource_type, each.resource_name)
            for each in request.resources
        )
    )


def _describe_configs(request: DescribeConfigsRequest, error: int, words: str | None) -> Message:
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResult(error, words, each.resource_type, each.resource_name) for each in request.resources
        )
    )


def _quotas(request: AlterClientQuotasRequest, error: int, words: str | None) -> Message:
    return AlterClientQuotasResponse(
        entries=tuple(AlterClientQuotasEntryResult(error, words, each.entity) for each in request.entries)
    )


def _create_acls(request: CreateAclsRequest, error: int, words: str | None) -> Message:
    return CreateAclsResponse(results=tuple(AclCreationResult(error, words) for _ in request.creations))


def _delete_acls(request: DeleteAclsRequest, error: int, words: str | None) -> Message:
    return DeleteAclsResponse(filter_results=tuple(DeleteAclsFilterResult(error, words) for _ in request.filters))


def _scram(request: AlterUserScramCredentialsRequest, error: int, words: str | None) -> Message:
    users = dict.fromkeys([*(each.name for each in request.deletions), *(each.name for each in request.upsertions)])
    return AlterUserScramCredentialsResponse(
        results=tuple(AlterUserScramCredentialsResult(user, error, words) for user in users)
    )


def _elect_leaders(request: ElectLeadersRequest, error: int, words: str | None) -> Message:
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                each.topic, tuple(ElectLeadersPartitionResult(number, error, words) for number in each.partitions)
            )
            for each in request.topic_partitions or ()
        ),
    )


def _alter_reassignments(request: AlterPartitionReassignmentsRequest, error: int, words: str | None) -> Message:
    responses = (
        ReassignableTopicResponse(
            topic.name,
            tuple(ReassignablePartitionResponse(each.partition_index, error, words) for each in topic.partitions),
        )
        for topic in request.topics
    )
    return AlterPartitionReassignmentsResponse(error_code=error, error_message=words, responses=tuple(responses))


_REFUSALS: Final[dict[type[Message], Refuse]] = {
    AddRaftVoterRequest: _with_words(AddRaftVoterResponse),
    AllocateProducerIdsRequest: _only_code(AllocateProducerIdsResponse),
    AlterClientQuotasRequest: _quotas,
    AlterConfigsRequest: _alter_configs,
    AlterPartitionReassignmentsRequest: _alter_reassignments,
    AlterPartitionRequest: _only_code(AlterPartitionResponse),
    AlterUserScramCredentialsRequest: _scram,
    AssignReplicasToDirsRequest: _only_code(AssignReplicasToDirsResponse),
    BrokerHeartbeatRequest: _only_code(BrokerHeartbeatResponse),
    BrokerRegistrationRequest: _only_code(BrokerRegistrationResponse),
    ControlledShutdownRequest: _only_code(ControlledShutdownResponse),
    ControllerRegistrationRequest: _with_words(ControllerRegistrationResponse),
    CreateAclsRequest: _create_acls,
    CreateDelegationTokenRequest: _only_code(CreateDelegationTokenResponse),
    CreatePartitionsRequest: _create_partitions,
    CreateTopicsRequest: _create_topics,
    DeleteAclsRequest: _delete_acls,
    DeleteTopicsRequest: _delete_topics,
    DescribeAclsRequest: _with_words(DescribeAclsResponse),
    DescribeClusterRequest: _with_words(DescribeClusterResponse),
    DescribeConfigsRequest: _describe_configs,
    DescribeDelegationTokenRequest: _only_code(DescribeDelegationTokenResponse),
    DescribeUserScramCredentialsRequest: _with_words(DescribeUserScramCredentialsResponse),
    ElectLeadersRequest: _elect_leaders,
    EnvelopeRequest: _only_code(EnvelopeResponse),
    ExpireDelegationTokenRequest: _only_code(ExpireDelegationTokenResponse),
    IncrementalAlterConfigsRequest: _incremental,
    ListPartitionReassignmentsRequest: _with_words(ListPartitionReassignmentsResponse),
    RemoveRaftVoterRequest: _with_words(RemoveRaftVoterResponse),
    RenewDelegationTokenRequest: _only_code(RenewDelegationTokenResponse),
    SaslAuthenticateRequest: _with_words(SaslAuthenticateResponse),
    SaslHandshakeRequest: _only_code(SaslHandshakeResponse),
    UnregisterBrokerRequest: _with_words(UnregisterBrokerResponse),
    UpdateFeaturesRequest: _with_words(UpdateFeaturesResponse),
    UpdateRaftVoterRequest: _only_code(UpdateRaftVoterResponse),
}
