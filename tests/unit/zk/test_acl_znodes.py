"""ACLs and delegation tokens go into znodes and come back; what no Kafka wrote is named with its path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    DelegationToken,
)
from migrator.zk.acl_znodes import (
    acl_change,
    acl_data,
    acl_path,
    acl_resource,
    parse_acls,
    parse_token,
    token_change,
    token_data,
)
from tests.support.arbitrary_images import acls, tokens

PATH = "/kafka-acl/Topic/orders"
ENTRY = AclEntry("User:alice", "*", AclOperation.DESCRIBE_CONFIGS, AclPermission.ALLOW)
AN_ACL = {"principal": "User:alice", "permissionType": "Allow", "host": "*", "operation": "DescribeConfigs"}
A_TOKEN = {
    "version": 3, "owner": "User%3Aalice", "tokenRequester": "User%3Abob", "renewers": ["User%3Acarol"],
    "issueTimestamp": 1, "maxTimestamp": 3, "expiryTimestamp": 2, "tokenId": "abc",
}  # fmt: skip
TOKEN_PATH = "/delegation_token/tokens/abc"


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@given(acls)
def test_every_resource_has_its_place(acl: Acl) -> None:
    path = acl_path(acl.resource)
    assert path is not None
    *root, type_name, name = path.split("/")
    pattern = {"/kafka-acl": AclPattern.LITERAL, "/kafka-acl-extended/prefixed": AclPattern.PREFIXED}["/".join(root)]
    assert acl_resource(pattern, type_name, name) == acl.resource


@given(st.frozensets(acls.map(lambda acl: acl.entry)))
def test_every_operation_and_permission_comes_back(entries: frozenset[AclEntry]) -> None:
    assert parse_acls(PATH, acl_data(entries)) == entries


def test_acls_are_written_as_kafka_writes_them() -> None:
    assert acl_data([ENTRY]) == as_json({"acls": [AN_ACL], "version": 1})
    assert acl_path(AclResource(AclResourceType.TRANSACTIONAL_ID, AclPattern.PREFIXED, "a b")) == (
        "/kafka-acl-extended/prefixed/TransactionalId/a b"
    )


def test_words_are_read_in_any_case_and_an_empty_list_is_nothing() -> None:
    told = {**AN_ACL, "permissionType": "ALLOW", "operation": "describeconfigs"}
    assert parse_acls(PATH, as_json({"version": 1, "acls": [told]})) == {ENTRY}
    for data in (None, b"", as_json({"version": 1, "acls": []})):
        assert parse_acls(PATH, data) == frozenset()


@pytest.mark.parametrize(
    "value",
    [
        {"version": 2, "acls": []},
        {"acls": []},
        {"version": 1},
        {"version": 1, "acls": [{}]},
        *({"version": 1, "acls": [{**AN_ACL, **change}]} for change in (
            {"operation": "Any"}, {"operation": "Unknown"}, {"operation": "DESCRIBE_CONFIGS"},
            {"permissionType": "Maybe"}, {"principal": "alice"}, {"principal": ""}, {"host": 5}, {"host": "x" * 40_000},
        )),
    ],
)  # fmt: skip
def test_acls_that_no_authorizer_could_act_on_are_named(value: Any) -> None:
    with pytest.raises(FindingError) as raised:
        parse_acls(PATH, as_json(value))
    assert (raised.value.code, raised.value.occurrence.values["path"]) == ("Z2K-1001", PATH)


@pytest.mark.parametrize("type_name", ["topic", "Broker", "Any", "TOPIC"])
def test_a_type_that_kafka_does_not_look_at_is_named(type_name: str) -> None:
    with pytest.raises(FindingError, match=f"/kafka-acl/{type_name}/x"):
        acl_resource(AclPattern.LITERAL, type_name, "x")


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "a\x00b", "a\x7f", "\ue000"])
def test_a_resource_that_zookeeper_has_no_name_for_has_no_place(name: str) -> None:
    assert acl_path(AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, name)) is None
    assert acl_path(AclResource(1, AclPattern.LITERAL, "x")) is None
    assert acl_path(AclResource(AclResourceType.TOPIC, 1, "x")) is None


def test_a_change_is_told_in_the_form_of_its_pattern() -> None:
    literal = AclResource(AclResourceType.GROUP, AclPattern.LITERAL, "a:b")
    assert acl_change(literal) == ("/kafka-acl-changes/acl_changes_", b"GROUP:a:b")
    prefixed = AclResource(AclResourceType.DELEGATION_TOKEN, AclPattern.PREFIXED, "x")
    told = {"version": 1, "resourceType": "DELEGATION_TOKEN", "name": "x", "patternType": "PREFIXED"}
    assert acl_change(prefixed) == ("/kafka-acl-extended-changes/acl_changes_", as_json(told))
    assert token_change("abc") == ("/delegation_token/token_changes/token_change_", b"abc")


@given(tokens)
def test_a_token_comes_back(token: DelegationToken) -> None:
    assert parse_token(f"/delegation_token/tokens/{token.id}", token_data(token)) == token


@pytest.mark.parametrize(("version", "requester"), [(1, "User:alice"), (2, "User:alice"), (3, "User:bob")])
def test_below_version_3_the_owner_asked(version: int, requester: str) -> None:
    found = parse_token(TOKEN_PATH, as_json({**A_TOKEN, "version": version}))
    assert found == DelegationToken("abc", "User:alice", requester, ("User:carol",), 1, 3, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4}, {"version": 0}, {"tokenId": "other"}, {"owner": "alice"}, {"owner": "User:alice"},
        {"tokenRequester": None}, {"renewers": ["x"]}, {"issueTimestamp": "1"}, {"maxTimestamp": 2**63},
    ],
    ids=str,
)  # fmt: skip
def test_a_token_that_no_broker_could_read_is_named(change: dict[str, Any]) -> None:
    with pytest.raises(FindingError) as raised:
        parse_token(TOKEN_PATH, as_json({**A_TOKEN, **change}))
    assert (raised.value.code, raised.value.occurrence.values["path"]) == ("Z2K-1001", TOKEN_PATH)


def test_a_token_without_data_is_named() -> None:
    with pytest.raises(FindingError):
        parse_token(TOKEN_PATH, None)
