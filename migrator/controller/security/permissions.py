"""Which request needs which permission, where the properties file names an authorizer.

In:   a request, for whom (who is connected, or whose request a broker passed on), and how it is decided on if allowed.
Out:  the decision on what is allowed of it; what is not is answered beside it, and nothing of that is decided.
Elsewhere: who may do what (authorizer.py), who somebody is (node.transport.authentication).
Rules: brokers pass requests on before they look at permissions, so nobody else looks. A topic that somebody may not
even see is answered like one that does not exist. A request that is not named here is refused.
Source: Kafka 3.9 `ControllerApis`, `AclApis`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from migrator.controller.authorizer import CLUSTER_NAME, Asker, AuthorizerRules, is_allowed
from migrator.controller.decision import Decision, Situation
from migrator.controller.refusals import refuse
from migrator.model.image import Image
from migrator.model.values import ZERO_ID, AclOperation, AclResourceType, ConfigType
from migrator.wire.errors import Error
from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    DescribeClusterRequest,
    EnvelopeRequest,
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
from migrator.wire.messages.raft import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from migrator.wire.messages.replication import FetchRequest, FetchSnapshotRequest
from migrator.wire.messages.security import (
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from migrator.wire.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from migrator.wire.schema import Message

Decide = Callable[[Message], Decision]

ON_CLUSTER: Final[dict[type[Message], AclOperation]] = {
    AddRaftVoterRequest: AclOperation.ALTER,
    AlterPartitionRequest: AclOperation.CLUSTER_ACTION,
    AssignReplicasToDirsRequest: AclOperation.CLUSTER_ACTION,
    BeginQuorumEpochRequest: AclOperation.CLUSTER_ACTION,
    BrokerHeartbeatRequest: AclOperation.CLUSTER_ACTION,
    BrokerRegistrationRequest: AclOperation.CLUSTER_ACTION,
    ControllerRegistrationRequest: AclOperation.CLUSTER_ACTION,
    DescribeAclsRequest: AclOperation.DESCRIBE,
    DescribeClusterRequest: AclOperation.ALTER,
    EndQuorumEpochRequest: AclOperation.CLUSTER_ACTION,
    EnvelopeRequest: AclOperation.CLUSTER_ACTION,
    FetchRequest: AclOperation.CLUSTER_ACTION,
    FetchSnapshotRequest: AclOperation.CLUSTER_ACTION,
    UpdateRaftVoterRequest: AclOperation.CLUSTER_ACTION,
    VoteRequest: AclOperation.CLUSTER_ACTION,
    AllocateProducerIdsRequest: AclOperation.CLUSTER_ACTION,
    AlterClientQuotasRequest: AclOperation.ALTER_CONFIGS,
    AlterPartitionReassignmentsRequest: AclOperation.ALTER,
    AlterUserScramCredentialsRequest: AclOperation.ALTER,
    CreateAclsRequest: AclOperation.ALTER,
    DeleteAclsRequest: AclOperation.ALTER,
    DescribeQuorumRequest: AclOperation.DESCRIBE,
    ElectLeadersRequest: AclOperation.ALTER,
    ListPartitionReassignmentsRequest: AclOperation.DESCRIBE,
    RemoveRaftVoterRequest: AclOperation.ALTER,
    UnregisterBrokerRequest: AclOperation.ALTER,
    UpdateFeaturesRequest: AclOperation.ALTER,
}
"""Requests that are allowed or refused as a whole."""

OF_ONESELF: Final = (CreateDelegationTokenRequest, RenewDelegationTokenRequest, ExpireDelegationTokenRequest)
"""Tokens are asked for by those they are for; their own rules come with them."""

CONFIG_NEEDS: Final = {
    ConfigType.TOPIC: (AclResourceType.TOPIC, Error.TOPIC_AUTHORIZATION_FAILED),
    ConfigType.BROKER: (AclResourceType.CLUSTER, Error.CLUSTER_AUTHORIZATION_FAILED),
    ConfigType.CLIENT_METRICS: (AclResourceType.CLUSTER, Error.CLUSTER_AUTHORIZATION_FAILED),
}


@dataclass(frozen=True, slots=True)
class _Permissions:
    image: Image
    rules: AuthorizerRules
    asker: Asker

    def on_cluster(self, operation: AclOperation) -> bool:
        return is_allowed(self.image, self.rules, self.asker, operation, AclResourceType.CLUSTER, CLUSTER_NAME)

    def on_topic(self, operation: AclOperation, name: str) -> bool:
        return is_allowed(self.image, self.rules, self.asker, operation, AclResourceType.TOPIC, name)


def decide_allowed(situation: Situation, request: Message, decide: Decide) -> Decision:
    """decide: what would be decided if everything were allowed."""
    rules, asker = situation.settings.authorizer, situation.asker
    if rules is None or asker is None or asker.principal in rules.super_users or isinstance(request, OF_ONESELF):
        return decide(request)
    may = _Permissions(situation.image, rules, asker)
    match request:
        case CreateTopicsRequest():
            return _create_topics(may, request, decide)
        case DeleteTopicsRequest():
            return _delete_topics(may, request, decide)
        case CreatePartitionsRequest():
            topics = request.topics
            denied = [topic for topic in topics if not may.on_topic(AclOperation.ALTER, topic.name)]
            return _in_parts(request, "topics", "results", denied, Error.TOPIC_AUTHORIZATION_FAILED, decide)
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
            return _alter_configs(may, request, decide)
        case _:
            if type(request) in ON_CLUSTER and allowed_as_whole(may.image, rules, asker, request):
                return decide(request)
            return Decision(refuse(request, Error.CLUSTER_AUTHORIZATION_FAILED, None))


def allowed_as_whole(image: Image, rules: AuthorizerRules, asker: Asker, request: Message) -> bool:
    """Whether a request on the cluster is allowed; others, whose parts are judged one by one, always are."""
    operation = ON_CLUSTER.get(type(request))
    return operation is None or _Permissions(image, rules, asker).on_cluster(operation)


def _in_parts(
    request: Any,
    parts: str,
    answers: str,
    denied: Iterable[Any],
    error: Error,
    decide: Decide,
    words: str | None = None,
) -> Decision:
    """Decide on the parts that are not denied; the others are answered with the error."""
    refused = tuple(denied)
    if not refused:
        return decide(request)
    allowed = _without(getattr(request, parts), refused)
    decision = decide(replace(request, **{parts: allowed}))
    denials = refuse(replace(request, **{parts: refused}), error, words)
    reply: Any = decision.reply
    together = (*getattr(reply, answers), *getattr(denials, answers))
    return dataclasses.replace(decision, reply=replace(reply, **{answers: together}))


def _without(parts: Iterable[Any], denied: Iterable[Any]) -> tuple[Any, ...]:
    """The very objects; comparing thousands of them by content with each other would take seconds."""
    left_out = set(map(id, denied))
    return tuple(each for each in parts if id(each) not in left_out)


# --- topics -----------------------------------------------------------------------------------------------


def _create_topics(may: _Permissions, request: CreateTopicsRequest, decide: Decide) -> Decision:
    """Who may not read configurations does not hear what the new topic's is."""
    denied = []
    if not may.on_cluster(AclOperation.CREATE):
        denied = [topic for topic in request.topics if not may.on_topic(AclOperation.CREATE, topic.name)]
    error, words = Error.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."
    decision = _in_parts(request, "topics", "topics", denied, error, decide, words)
    reply = decision.reply
    assert isinstance(reply, CreateTopicsResponse)
    shown = tuple(
        each if each.error_code or may.on_topic(AclOperation.DESCRIBE_CONFIGS, each.name) else _without_configs(each)
        for each in reply.topics
    )
    return dataclasses.replace(decision, reply=replace(reply, topics=shown))


def _without_configs(result: CreatableTopicResult) -> CreatableTopicResult:
    return replace(
        result,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
        topic_config_error_code=Error.TOPIC_AUTHORIZATION_FAILED,
    )


def _delete_topics(may: _Permissions, request: DeleteTopicsRequest, decide: Decide) -> Decision:
    """A name or id that leads to a topic which may be deleted is decided on, with all other kinds of trouble."""
    if may.on_cluster(AclOperation.DELETE):
        return decide(request)
    states = list(request.topics) or [DeleteTopicState(name=name) for name in request.topic_names]
    denied = [each for each in states if not _may_delete(may, each)]
    decision = decide(replace(request, topics=_without(states, denied), topic_names=()))
    hidden = tuple(replace(each, name=_visible(may, each)) for each in denied)
    denials = refuse(replace(request, topics=hidden, topic_names=()), Error.TOPIC_AUTHORIZATION_FAILED, None)
    assert isinstance(decision.reply, DeleteTopicsResponse)
    assert isinstance(denials, DeleteTopicsResponse)
    together = (*decision.reply.responses, *denials.responses)
    return dataclasses.replace(decision, reply=replace(decision.reply, responses=together))


def _may_delete(may: _Permissions, asked: DeleteTopicState) -> bool:
    if asked.name is None:
        topic = may.image.topics.get(asked.topic_id)
        return topic is None or may.on_topic(AclOperation.DELETE, topic.name)
    if not may.on_topic(AclOperation.DESCRIBE, asked.name):
        return False
    return asked.name not in may.image.topic_ids or may.on_topic(AclOperation.DELETE, asked.name)


def _visible(may: _Permissions, asked: DeleteTopicState) -> str | None:
    """The name in the answer: as in the request, and of an id only for who may see the topic."""
    if asked.name is not None or asked.topic_id == ZERO_ID:
        return asked.name
    topic = may.image.topics[asked.topic_id]
    return topic.name if may.on_topic(AclOperation.DESCRIBE, topic.name) else None


# --- configurations ---------------------------------------------------------------------------------------


def _alter_configs(
    may: _Permissions, request: AlterConfigsRequest | IncrementalAlterConfigsRequest, decide: Decide
) -> Decision:
    """Types that nobody has are left to the decision, which refuses them."""
    by_error: dict[Error, list[Any]] = {}
    for each in request.resources:
        if each.resource_type not in CONFIG_NEEDS:
            continue
        type_, error = CONFIG_NEEDS[ConfigType(each.resource_type)]
        name = each.resource_name if type_ is AclResourceType.TOPIC else CLUSTER_NAME
        if not is_allowed(may.image, may.rules, may.asker, AclOperation.ALTER_CONFIGS, type_, name):
            by_error.setdefault(error, []).append(each)
    for error, denied in by_error.items():
        decide = partial(_in_parts, parts="resources", answers="responses", denied=denied, error=error, decide=decide)
    return decide(request)
