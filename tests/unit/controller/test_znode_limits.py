"""A znode that ZooKeeper could not take is refused before anything is committed; what shrinks one never is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from migrator.controller.authorizer import Asker, AuthorizerRules, TokenRules
from migrator.controller.decision import Decision, Situation
from migrator.controller.requests import decide
from migrator.findings.zookeeper import ZNODE_TOO_LARGE
from migrator.model.image import Image
from migrator.model.values import (
    Acl,
    AclEntry,
    AclPattern,
    AclResource,
    AclResourceType,
    ConfigType,
    MigrationState,
    QuotaEntity,
    ScramMechanism,
)
from migrator.model.znode_sizes import acls_bytes, config_bytes, token_bytes, topic_bytes, user_bytes
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterConfigsResource,
    ClientQuotaOp,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from migrator.wire.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from migrator.wire.messages.security import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreatableRenewers,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    ExpireDelegationTokenRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from migrator.wire.schema import Message
from migrator.zk.acl_znodes import acl_data, acl_path, token_data
from migrator.zk.entity_znodes import entity_data, entity_path
from migrator.zk.multi import ZNODE_BYTES_MAX
from migrator.zk.paths import token as token_path
from migrator.zk.paths import topic as topic_path
from migrator.zk.znodes import config_data, topic_data
from tests.support.arbitrary_images import images
from tests.support.builders import a_partition, a_topic, an_image
from tests.support.situations import a_situation, after

ORDERS = AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "orders")


def a_cluster(image: Image, limit: int = ZNODE_BYTES_MAX, **changes: Any) -> Situation:
    situation = a_situation(
        image,
        authorizer=AuthorizerRules(frozenset({"User:admin"})),
        tokens=TokenRules("a key", max_lifetime_ms=10_000, renew_lifetime_ms=1_000),
        znode_bytes_max=limit,
    )
    return replace(situation, asker=Asker("User:admin", "10.0.0.1"), wall_ms=1_700_000_000_000, **changes)


def asked(situation: Situation, request: Message, blocked: str | None = None) -> tuple[list[int], list[str], Decision]:
    """Every error code and word of the answer, and the decision."""
    decision = decide(situation, request, 3, writes_allowed=True, blocked=blocked)
    parts: list[Any] = []
    for name in ("topics", "responses", "results", "entries", "filter_results"):
        parts += getattr(decision.reply, name, ())
    parts = [each for part in parts for each in getattr(part, "partitions", None) or [part]] or [decision.reply]
    words = [each.error_message for each in parts if getattr(each, "error_message", None)]
    return [each.error_code for each in parts], words, decision


def acls(first: int, count: int, resource: str = "orders") -> CreateAclsRequest:
    users = (f"User:application-{at:06}" for at in range(first, first + count))
    return CreateAclsRequest(tuple(AclCreation(2, resource, 3, user, "*", 3, 3) for user in users))


def topic(name: str, partitions: int, *replicas: int) -> CreateTopicsRequest:
    manual = tuple(CreatableReplicaAssignment(at, replicas) for at in range(partitions))
    return CreateTopicsRequest((CreatableTopic(name, -1, -1, manual),))


def grow(name: str, count: int) -> CreatePartitionsRequest:
    return CreatePartitionsRequest((CreatePartitionsTopic(name, count, None),))


def moves(name: str, to: tuple[int, ...] | None, *partitions: int) -> AlterPartitionReassignmentsRequest:
    asked_for = tuple(ReassignablePartition(each, to) for each in partitions)
    return AlterPartitionReassignmentsRequest(60_000, (ReassignableTopic(name, asked_for),))


def broker_config(operation: int, *names: str) -> IncrementalAlterConfigsRequest:
    value = None if operation else "v" * 900
    changes = tuple(IncrementalAlterableConfig(name, operation, value) for name in names)
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsResource(ConfigType.BROKER, "1", changes),))


def scram(user: str, salt: int) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest((), (ScramCredentialUpsertion(user, 1, 4096, b"s" * salt, b"x"),))


def test_the_ten_thousandth_acl_of_a_resource_is_refused_before_zookeeper_would() -> None:
    situation = a_cluster(an_image())
    created = 0
    for first in range(0, 20_000, 2_000):
        codes, words, decision = asked(situation, acls(first, 2_000))
        situation = after(situation, decision)
        created += codes.count(Error.NONE)
        if set(codes) != {Error.NONE}:
            break
    assert set(codes) == {Error.NONE, Error.POLICY_VIOLATION}, "those that fit are created, the rest is refused"
    assert ZNODE_TOO_LARGE.code in words[0]
    assert "TOPIC:orders" in words[0]
    entries = situation.image.acl_entries(ORDERS)
    assert len(entries) == created > 7_000
    assert 0.9 * ZNODE_BYTES_MAX < len(acl_data(entries)) <= ZNODE_BYTES_MAX
    assert asked(situation, acls(0, 1, "payments"))[0] == [Error.NONE], "another resource has its own znode"
    assert asked(situation, acls(0, 5))[0] == [Error.NONE] * 5, "they are there already"


def test_a_topic_grows_until_its_znode_is_full() -> None:
    situation = a_cluster(an_image(a_topic("orders", 1)))
    count, codes = 1, [int(Error.NONE)]
    while codes == [Error.NONE] and count < 100_000:
        codes, words, decision = asked(situation, grow("orders", count + 10_000))
        situation, count = after(situation, decision), count + 10_000
    assert codes == [Error.POLICY_VIOLATION]
    assert "Topic orders" in words[0]
    assert count > 50_000
    grown = situation.image.topic("orders")
    assert grown is not None
    assert len(topic_data(grown)) <= ZNODE_BYTES_MAX
    removed = DeleteTopicsRequest((DeleteTopicState("orders"),))
    assert asked(situation, removed)[0] == [Error.NONE]


def test_a_topic_is_not_created_larger_than_its_znode() -> None:
    situation = a_cluster(an_image(), limit=2_000)
    assert asked(situation, topic("small", 20, 1, 2, 3))[0] == [Error.NONE]
    assert asked(situation, topic("large", 200, 1, 2, 3))[0] == [Error.POLICY_VIOLATION]


def test_replicas_that_come_need_room_until_the_move_ends_and_taking_back_needs_none() -> None:
    image = an_image(a_topic("orders", [a_partition(at, (1,)) for at in range(60)]), brokers=(1, 2, 3))
    situation = a_cluster(image, limit=1_500)
    codes, words, decision = asked(situation, moves("orders", (2, 3), *range(60)))
    assert set(codes) == {Error.NONE, Error.POLICY_VIOLATION}
    assert ZNODE_TOO_LARGE.code in words[-1]
    begun = after(situation, decision)
    moving = begun.image.topic("orders")
    assert moving is not None
    assert len(topic_data(moving)) <= 1_500
    back, _, _ = asked(replace(begun, settings=replace(begun.settings, znode_bytes_max=10)), moves("orders", None, 0))
    assert back == [Error.NONE]


def test_a_brokers_configuration_is_refused_where_it_grows_and_not_where_it_shrinks() -> None:
    kept = {f"plugin.{at}": "v" * 900 for at in range(5)}
    situation = a_cluster(an_image(broker_configs={"1": kept}), limit=4_000)
    assert asked(situation, broker_config(0, "plugin.more"))[0] == [Error.POLICY_VIOLATION]
    assert asked(situation, broker_config(1, "plugin.1"))[0] == [Error.NONE]
    shorter = tuple(AlterableConfig(name, "w") for name in kept)
    old_form = AlterConfigsRequest((AlterConfigsResource(ConfigType.BROKER, "1", shorter),))
    assert asked(situation, old_form)[0] == [Error.NONE]


def test_salts_and_renewers_have_no_limit_but_the_znodes() -> None:
    situation = a_cluster(an_image(), limit=3_000)
    assert asked(situation, scram("alice", 2_500))[0] == [Error.POLICY_VIOLATION]
    decided = asked(situation, scram("alice", 32))
    assert decided[0] == [Error.NONE]
    renewers = tuple(CreatableRenewers("User", f"application-{at}") for at in range(200))
    assert asked(situation, CreateDelegationTokenRequest(renewers=renewers))[0] == [Error.POLICY_VIOLATION]
    assert asked(situation, CreateDelegationTokenRequest(renewers=renewers[:5]))[0] == [Error.NONE]


@pytest.mark.parametrize("changes", [{"migration": MigrationState.NONE}, {"migration": MigrationState.POST_MIGRATION}])
def test_a_cluster_without_zookeeper_has_no_such_limit(changes: dict[str, Any]) -> None:
    assert asked(a_cluster(an_image(**changes), limit=10), topic("large", 100, 1, 2, 3))[0] == [Error.NONE]


# --- at the limit of divergence ---------------------------------------------------------------------------

ALICE = ScramCredentialDeletion("alice", 1)
QUOTA = (ClientQuotaEntity("user", "alice"),)
CURES = [
    DeleteTopicsRequest((DeleteTopicState("orders"),)),
    DeleteAclsRequest((DeleteAclsFilter(2, "orders", 3, None, None, 1, 1),)),
    AlterClientQuotasRequest((AlterClientQuotasEntry(QUOTA, (ClientQuotaOp("request_percentage", 0.0, True),)),)),
    AlterUserScramCredentialsRequest((ALICE,), ()),
    broker_config(1, "plugin.1"),
    moves("orders", None, 0),
    ExpireDelegationTokenRequest(b"no token", -1),
]
WAITING = [
    acls(0, 1),
    AlterClientQuotasRequest((AlterClientQuotasEntry(QUOTA, (ClientQuotaOp("request_percentage", 1.0, False),)),)),
    AlterUserScramCredentialsRequest((ALICE,), scram("bob", 16).upsertions),
    broker_config(0, "plugin.1"),
    moves("orders", (2,), 0),
    ExpireDelegationTokenRequest(b"no token", 1),
    topic("new", 1, 1),
]


@pytest.mark.parametrize("request_", CURES)
def test_what_only_takes_away_does_not_wait_for_a_zookeeper_that_is_behind(request_: Message) -> None:
    codes, _, _ = asked(a_cluster(an_image(a_topic("orders"))), request_, blocked="ZooKeeper is behind")
    assert Error.POLICY_VIOLATION not in codes


@pytest.mark.parametrize("request_", WAITING)
def test_everything_else_of_administrators_waits(request_: Message) -> None:
    codes, _, _ = asked(a_cluster(an_image(a_topic("orders"))), request_, blocked="ZooKeeper is behind")
    assert set(codes) == {Error.POLICY_VIOLATION}


# --- the sizes themselves ---------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(image=images())
def test_a_size_is_never_smaller_than_the_znode_and_not_much_larger(image: Image) -> None:
    for each in image.topics.values():
        actual = len(topic_path(each.name)) + len(topic_data(each))
        assert actual <= topic_bytes(each.name, each.partitions) <= actual + 400 + 3 * len(each.name.encode())
    for resource in {acl.resource for acl in image.acls.values()}:
        path, entries = acl_path(resource), image.acl_entries(resource)
        if path is not None:
            actual = len(path.encode()) + len(acl_data(entries))
            assert actual <= acls_bytes(resource.name, entries) <= actual + 400 + 3 * len(path.encode())
    for key, values in image.configs.items():
        assert len(key.name.encode()) + len(config_data(dict(values))) <= config_bytes(key.name, values)
    for kept in image.tokens.values():
        assert len(token_path(kept.id)) + len(token_data(kept)) <= token_bytes(kept)
    for user in {each.user for each in image.scram}:
        entity = QuotaEntity((("user", user),))
        credentials = {ScramMechanism(each.mechanism): kept for each, kept in image.scram.items() if each.user == user}
        path = entity_path(entity) or ""
        actual = len(path) + len(entity_data(image.quotas.get(entity, {}), credentials))
        assert actual <= user_bytes(user, credentials.values())


def test_an_acl_is_counted_with_its_resource() -> None:
    acl = Acl(ORDERS, AclEntry('User:"\n', "10.0.0.1", 3, 3))
    assert len(acl_data([acl.entry])) <= acls_bytes(ORDERS.name, [acl.entry])
