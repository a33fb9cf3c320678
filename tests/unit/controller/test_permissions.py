"""What a client may have done by the controller: everything that is not allowed is answered and not decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrator.controller.authorizer import Asker, AuthorizerRules
from migrator.controller.decision import Decision, Situation
from migrator.controller.features import CONTROLLER_APIS, FORWARDABLE
from migrator.controller.refusals import is_refusable
from migrator.controller.requests import decide
from migrator.controller.security.permissions import OF_ONESELF, ON_CLUSTER, allowed_as_whole
from migrator.model.draft import Draft
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    ConfigType,
)
from migrator.wire.errors import Error
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from migrator.wire.schema import Message
from tests.support.builders import a_topic, an_id, an_image
from tests.support.situations import a_situation

ALICE = Asker("User:alice", "10.0.0.1")
RULES = AuthorizerRules(frozenset({"User:admin", "User:ANONYMOUS"}))
Grant = tuple[AclResourceType, str, AclOperation]


def topic(name: str, operation: AclOperation) -> Grant:
    return AclResourceType.TOPIC, name, operation


def cluster(operation: AclOperation) -> Grant:
    return AclResourceType.CLUSTER, "kafka-cluster", operation


def a_cluster(*grants: Grant, asker: Asker | None = ALICE) -> Situation:
    image = an_image(a_topic("mine"), a_topic("theirs"))
    draft = Draft(image)
    for number, (type_, name, operation) in enumerate(grants):
        entry = AclEntry("User:alice", "*", operation, AclPermission.ALLOW)
        draft.put_acl(an_id(f"acl {number}"), Acl(AclResource(type_, AclPattern.LITERAL, name), entry))
    return replace(a_situation(draft.finish(image.position).after, authorizer=RULES), asker=asker)


def ask(situation: Situation, request: Message) -> Decision:
    return decide(situation, request, API_KEYS_OF[type(request)].declared.highest, writes_allowed=True)


API_KEYS_OF = {api.request: api for api in API_KEYS.values()}
CREATE = CreateTopicsRequest((CreatableTopic("new-1", 1, 1), CreatableTopic("new-2", 1, 1)))


def codes(answers: Any, name: str = "name") -> dict[Any, Error]:
    return {getattr(each, name): Error(each.error_code) for each in answers}


def test_topics_are_created_where_that_is_allowed_and_their_configuration_is_shown_to_who_may_read_it() -> None:
    situation = a_cluster(topic("new-1", AclOperation.CREATE))
    reply: Any = (decision := ask(situation, CREATE)).reply
    assert codes(reply.topics) == {"new-1": Error.NONE, "new-2": Error.TOPIC_AUTHORIZATION_FAILED}
    assert len(decision.records) == 2
    made = reply.topics[0]
    assert (made.num_partitions, made.replication_factor, made.configs, made.topic_config_error_code) == (
        -1,
        -1,
        (),
        29,
    )

    both = a_cluster(cluster(AclOperation.CREATE), topic("new-2", AclOperation.DESCRIBE_CONFIGS))
    reply = ask(both, CREATE).reply
    assert codes(reply.topics) == {"new-1": Error.NONE, "new-2": Error.NONE}
    assert [bool(each.configs) for each in reply.topics] == [False, True]


@pytest.mark.parametrize(
    ("grants", "by_name", "by_id"),
    [
        ([], (29, "theirs"), (29, None)),
        ([topic("theirs", AclOperation.DESCRIBE)], (29, "theirs"), (29, "theirs")),
        ([topic("theirs", AclOperation.DELETE)], (0, "theirs"), (0, "theirs")),
        ([cluster(AclOperation.DELETE)], (0, "theirs"), (0, "theirs")),
    ],
)
def test_a_topic_is_deleted_by_who_may_and_its_name_shown_to_who_may_see_it(
    grants: list[Grant], by_name: tuple[int, str], by_id: tuple[int, str | None]
) -> None:
    for state, expected in [
        (DeleteTopicState(name="theirs"), by_name),
        (DeleteTopicState(name=None, topic_id=an_id("theirs")), by_id),
    ]:
        decision = ask(a_cluster(*grants), DeleteTopicsRequest(topics=(state,)))
        (result,) = decision.reply.responses  # type: ignore[attr-defined]
        assert (result.error_code, result.name) == expected
        assert bool(decision.records) == (expected[0] == 0)


def test_a_deletion_that_is_denied_in_part_is_sliced_like_any_other() -> None:
    """Else the records of a mass deletion were one batch, larger than any, and the request was refused."""
    both = DeleteTopicsRequest(topics=(DeleteTopicState(name="mine"), DeleteTopicState(name="theirs")))
    decision = ask(a_cluster(topic("mine", AclOperation.DELETE)), both)
    assert codes(decision.reply.responses) == {  # type: ignore[attr-defined]
        "mine": Error.NONE,
        "theirs": Error.TOPIC_AUTHORIZATION_FAILED,
    }
    assert decision.divisible


def test_a_topic_that_does_not_exist_looks_like_one_that_must_not_be_seen() -> None:
    for name in ("theirs", "nobody"):
        decision = ask(a_cluster(), DeleteTopicsRequest(topics=(DeleteTopicState(name=name),)))
        assert decision.reply.responses[0].error_code == Error.TOPIC_AUTHORIZATION_FAILED  # type: ignore[attr-defined]


def test_partitions_and_configurations_are_changed_where_that_is_allowed() -> None:
    grants = [topic("mine", AclOperation.ALTER), topic("mine", AclOperation.ALTER_CONFIGS)]
    grow = CreatePartitionsRequest(tuple(CreatePartitionsTopic(name, 2, None) for name in ("mine", "theirs")))
    decision = ask(a_cluster(*grants), grow)
    assert codes(decision.reply.results) == {  # type: ignore[attr-defined]
        "mine": Error.NONE,
        "theirs": Error.TOPIC_AUTHORIZATION_FAILED,
    }
    assert len(decision.records) == 1

    change = (IncrementalAlterableConfig("retention.ms", 0, "5"),)
    resources = [(ConfigType.TOPIC, "mine"), (ConfigType.TOPIC, "theirs"), (ConfigType.BROKER, "1"), (99, "odd")]
    request = IncrementalAlterConfigsRequest(
        tuple(IncrementalAlterConfigsResource(type_, name, change) for type_, name in resources)
    )
    decision = ask(a_cluster(*grants), request)
    assert codes(decision.reply.responses, "resource_name") == {  # type: ignore[attr-defined]
        "mine": Error.NONE,
        "theirs": Error.TOPIC_AUTHORIZATION_FAILED,
        "1": Error.CLUSTER_AUTHORIZATION_FAILED,
        "odd": Error.UNSUPPORTED_VERSION,
    }
    assert len(decision.records) == 1


@pytest.mark.parametrize("request_", ON_CLUSTER, ids=lambda each: each.__name__)
def test_what_concerns_the_cluster_is_allowed_or_refused_as_a_whole(request_: type[Message]) -> None:
    asked = request_()
    nobody, somebody = a_cluster(), a_cluster(cluster(ON_CLUSTER[request_]))
    assert not allowed_as_whole(nobody.image, RULES, ALICE, asked)
    assert allowed_as_whole(somebody.image, RULES, ALICE, asked)
    if is_refusable(request_):
        decision = ask(nobody, asked)
        assert decision.records == ()


def test_super_users_and_nodes_of_the_cluster_may_do_everything() -> None:
    for asker in (None, Asker("User:admin", "10.0.0.1"), Asker("User:ANONYMOUS", "10.0.0.1")):
        reply: Any = ask(a_cluster(asker=asker), CREATE).reply
        assert {each.error_code for each in reply.topics} == {Error.NONE}
        assert reply.topics[0].configs


API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
CONTROLLED_SHUTDOWN, DESCRIBE_CONFIGS, DESCRIBE_TOKENS, DESCRIBE_SCRAM = 7, 32, 41, 50


def test_every_request_has_its_permission() -> None:
    by_parts = {19, 20, 33, 37, 44}
    without_parts: tuple[type[Message], ...] = (*ON_CLUSTER, *OF_ONESELF)
    named = {API_KEYS_OF[each].key for each in without_parts}
    assert named | by_parts >= FORWARDABLE
    answered_before_anybody_is_known = {API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE}
    refused_anyway = {CONTROLLED_SHUTDOWN, DESCRIBE_CONFIGS, DESCRIBE_TOKENS, DESCRIBE_SCRAM}
    assert set(CONTROLLER_APIS) - named - by_parts == answered_before_anybody_is_known | refused_anyway
