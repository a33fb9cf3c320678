"""ACLs come and go: what is refused, what is written, and which ones a filter fits."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.controller.authorizer import AuthorizerRules
from migrator.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Situation
from migrator.controller.security.acls import create_acls, delete_acls, describe_acls
from migrator.model.draft import Draft
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    MigrationState,
)
from migrator.wire.errors import Error
from migrator.wire.messages.security import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from tests.support.builders import an_id, an_image
from tests.support.situations import a_situation, after

ANY, MATCH, LITERAL, PREFIXED = range(1, 5)
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
RULES = AuthorizerRules(frozenset({"User:admin"}))


def an_acl(name: str, pattern: int = LITERAL, operation: int = AclOperation.READ, principal: str = "User:a") -> Acl:
    return Acl(AclResource(TOPIC, pattern, name), AclEntry(principal, "*", operation, AclPermission.ALLOW))


def a_cluster(*acls: Acl, migration: MigrationState = MigrationState.MIGRATION) -> Situation:
    image = an_image(migration=migration)
    draft = Draft(image)
    for number, acl in enumerate(acls):
        draft.put_acl(an_id(f"{number}"), acl)
    return a_situation(draft.finish(image.position).after, authorizer=RULES)


def creating(**changes: Any) -> AclCreation:
    fields = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": AclPattern.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermission.ALLOW,
    }
    return AclCreation(**{**fields, **changes})


def create(situation: Situation, *creations: AclCreation) -> tuple[list[tuple[int, str | None]], Decision]:
    decision = create_acls(situation, CreateAclsRequest(creations))
    assert isinstance(decision.reply, CreateAclsResponse)
    return [(each.error_code, each.error_message) for each in decision.reply.results], decision


def test_an_acl_is_created_once_however_often_it_is_asked_for() -> None:
    situation = a_cluster()
    results, decision = create(situation, creating(), creating(), creating(principal="User:bob"))
    assert results == [(Error.NONE, None)] * 3
    assert len(decision.records) == 2
    there = after(situation, decision)
    entries = there.image.acl_entries(AclResource(TOPIC, LITERAL, "orders"))
    assert {each.principal for each in entries} == {"User:alice", "User:bob"}
    results, decision = create(there, creating())
    assert (results, decision.records) == ([(Error.NONE, None)], ())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resource_type": AclResourceType.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 1}, "Invalid resourceType 1"),
        ({"resource_type": 77}, "Invalid resourceType 77"),
        ({"resource_pattern_type": MATCH}, "Invalid patternType 2"),
        ({"operation": 1}, "Invalid operation 1"),
        ({"permission_type": 0}, "Invalid permissionType 0"),
        ({"principal": "alice"}, "Invalid principal alice"),
        ({"principal": ":alice"}, "Invalid principal :alice"),
        ({"resource_type": GROUP, "resource_name": "a/b"}, "cannot be named 'a/b'"),
        ({"resource_type": GROUP, "resource_name": ".."}, "cannot be named '..'"),
        ({"resource_type": GROUP, "resource_name": "a\x00"}, "cannot be named"),
    ],
)
def test_an_acl_that_cannot_be_is_refused_and_the_others_are_created(changes: dict[str, Any], words: str) -> None:
    results, decision = create(a_cluster(), creating(**changes), creating())
    assert results[0][0] == Error.INVALID_REQUEST
    assert words in str(results[0][1])
    assert results[1] == (Error.NONE, None)
    assert len(decision.records) == 1


def test_names_that_only_a_znode_cannot_have_are_taken_once_zookeeper_is_gone() -> None:
    gone = a_cluster(migration=MigrationState.POST_MIGRATION)
    results, _ = create(gone, creating(resource_type=GROUP, resource_name="a/b"))
    assert results == [(Error.NONE, None)]


def test_more_acls_than_one_batch_holds_are_refused_together() -> None:
    asked = (creating(resource_name=f"t{number}") for number in range(RECORDS_PER_REQUEST_MAX + 1))
    results, decision = create(a_cluster(), *asked)
    assert ({code for code, _ in results}, decision.records) == ({Error.POLICY_VIOLATION}, ())


def test_without_an_authorizer_nobody_heeds_acls_and_that_is_the_answer() -> None:
    bare = a_situation(an_image())
    results, decision = create(bare, creating())
    assert (results, decision.records) == ([(Error.SECURITY_DISABLED, "No Authorizer is configured.")], ())
    deleted = delete_acls(bare, DeleteAclsRequest((DeleteAclsFilter(),))).reply
    assert isinstance(deleted, DeleteAclsResponse)
    assert [each.error_code for each in deleted.filter_results] == [Error.SECURITY_DISABLED]
    described = describe_acls(bare, DescribeAclsRequest()).reply
    assert isinstance(described, DescribeAclsResponse)
    assert described.error_code == Error.SECURITY_DISABLED


# --- filters ----------------------------------------------------------------------------------------------

EXACT, WILD, PREFIX = an_acl("orders"), an_acl("*"), an_acl("ord", PREFIXED)
WRITES, OF_BOB = an_acl("orders", LITERAL, AclOperation.WRITE), an_acl("orders", LITERAL, principal="User:b")
SAME_NAME = an_acl("orders", PREFIXED)
ALL = (EXACT, WILD, PREFIX, WRITES, OF_BOB, SAME_NAME)


def a_filter(**changes: Any) -> DeleteAclsFilter:
    fields: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsFilter(**{**fields, **changes})


FILTERS: list[tuple[dict[str, Any], set[Acl]]] = [
    ({}, set(ALL)),
    ({"resource_name_filter": "orders"}, {EXACT, WRITES, OF_BOB, SAME_NAME}),
    ({"resource_name_filter": "orders", "pattern_type_filter": LITERAL}, {EXACT, WRITES, OF_BOB}),
    ({"resource_name_filter": "orders", "pattern_type_filter": PREFIXED}, {SAME_NAME}),
    ({"resource_name_filter": "orders", "pattern_type_filter": MATCH}, set(ALL)),
    ({"resource_name_filter": "ord", "pattern_type_filter": MATCH}, {WILD, PREFIX}),
    ({"resource_name_filter": "*"}, {WILD}),
    ({"pattern_type_filter": PREFIXED}, {PREFIX, SAME_NAME}),
    ({"principal_filter": "User:b"}, {OF_BOB}),
    ({"operation": AclOperation.WRITE}, {WRITES}),
    ({"permission_type": AclPermission.DENY}, set()),
    ({"host_filter": "10.0.0.1"}, set()),
    ({"host_filter": "*"}, set(ALL)),
    ({"resource_type_filter": GROUP}, set()),
]


@pytest.mark.parametrize(("changes", "expected"), FILTERS)
def test_a_filter_fits_what_stock_says_it_fits(changes: dict[str, Any], expected: set[Acl]) -> None:
    situation = a_cluster(*ALL)
    wanted = a_filter(**changes)
    decision = delete_acls(situation, DeleteAclsRequest((wanted,)))
    assert isinstance(decision.reply, DeleteAclsResponse)
    (result,) = decision.reply.filter_results
    assert (result.error_code, result.error_message) == (Error.NONE, None)
    assert len(result.matching_acls) == len(expected)
    assert set(after(situation, decision).image.acls.values()) == set(ALL) - expected

    asked = DescribeAclsRequest(
        **{name: getattr(wanted, name) for name in wanted.__struct_fields__ if name != "unknown"}
    )
    reply = describe_acls(situation, asked).reply
    assert isinstance(reply, DescribeAclsResponse)
    described = {
        Acl(
            AclResource(each.resource_type, each.pattern_type, each.resource_name),
            AclEntry(entry.principal, entry.host, entry.operation, entry.permission_type),
        )
        for each in reply.resources
        for entry in each.acls
    }
    assert described == expected


def test_an_acl_that_two_filters_fit_is_deleted_once_and_named_twice() -> None:
    situation = a_cluster(EXACT)
    decision = delete_acls(situation, DeleteAclsRequest((a_filter(), a_filter(resource_name_filter="orders"))))
    assert isinstance(decision.reply, DeleteAclsResponse)
    assert [len(each.matching_acls) for each in decision.reply.filter_results] == [1, 1]
    assert len(decision.records) == 1


@pytest.mark.parametrize("changes", [{"resource_type_filter": 0}, {"operation": 99}, {"pattern_type_filter": 0}])
def test_a_filter_of_unknown_kinds_is_refused(changes: dict[str, int]) -> None:
    decision = delete_acls(a_cluster(EXACT), DeleteAclsRequest((a_filter(**changes),)))
    assert isinstance(decision.reply, DeleteAclsResponse)
    assert decision.reply.filter_results[0].error_code == Error.INVALID_REQUEST
    assert decision.records == ()
