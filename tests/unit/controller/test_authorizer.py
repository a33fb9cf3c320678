"""Who may do what: the rules of StandardAuthorizer, and told a second time in the plainest words."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.authorizer import Asker, AuthorizerRules, is_allowed
from migrator.model.draft import Draft
from migrator.model.image import Image
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
)
from tests.support.builders import an_id, an_image

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = AclPattern
DENY, ALLOW = AclPermission
ALICE = Asker("User:alice", "10.0.0.1")
RULES = AuthorizerRules(frozenset({"User:admin"}))


def an_acl(
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: AclPermission = ALLOW,
    *,
    pattern: AclPattern = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    type_: AclResourceType = TOPIC,
) -> Acl:
    return Acl(AclResource(type_, pattern, name), AclEntry(principal, host, operation, permission))


def with_acls(acls: Iterable[Acl]) -> Image:
    image = an_image()
    draft = Draft(image)
    for number, acl in enumerate(acls):
        draft.put_acl(an_id(f"{number}"), acl)
    return draft.finish(image.position).after


@pytest.mark.parametrize(
    ("acls", "operation", "expected"),
    [
        ([], AclOperation.READ, False),
        ([an_acl()], AclOperation.READ, True),
        ([an_acl()], AclOperation.WRITE, False),
        ([an_acl()], AclOperation.DESCRIBE, True),  # implied
        ([an_acl(operation=AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE_CONFIGS, True),
        ([an_acl(operation=AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE, False),
        ([an_acl(operation=AclOperation.ALL)], AclOperation.DELETE, True),
        ([an_acl(), an_acl(permission=DENY)], AclOperation.READ, False),  # a denial outweighs
        ([an_acl(operation=AclOperation.WRITE), an_acl(permission=DENY)], AclOperation.DESCRIBE, True),
        ([an_acl(), an_acl(operation=AclOperation.ALL, permission=DENY)], AclOperation.READ, False),
        ([an_acl("*")], AclOperation.READ, True),
        ([an_acl("ord", pattern=PREFIXED)], AclOperation.READ, True),
        ([an_acl("orders", pattern=PREFIXED)], AclOperation.READ, True),
        ([an_acl("ord")], AclOperation.READ, False),
        ([an_acl("*", pattern=PREFIXED)], AclOperation.READ, False),
        ([an_acl(principal="User:*")], AclOperation.READ, True),
        ([an_acl(principal="User:bob")], AclOperation.READ, False),
        ([an_acl(principal="Group:alice")], AclOperation.READ, False),
        ([an_acl(host="10.0.0.1")], AclOperation.READ, True),
        ([an_acl(host="10.0.0.2")], AclOperation.READ, False),
        ([an_acl(type_=GROUP)], AclOperation.READ, False),
        ([an_acl(), an_acl("ord", permission=DENY, pattern=PREFIXED, principal="User:*")], AclOperation.READ, False),
    ],
)  # fmt: skip
def test_acls_decide(acls: list[Acl], operation: AclOperation, expected: bool) -> None:
    assert is_allowed(with_acls(acls), RULES, ALICE, operation, TOPIC, "orders") is expected


def test_a_super_user_may_do_what_is_denied() -> None:
    image = with_acls([an_acl(principal="User:*", operation=AclOperation.ALL, permission=DENY)])
    admin = Asker("User:admin", "10.0.0.9")
    assert is_allowed(image, RULES, admin, AclOperation.DELETE, TOPIC, "orders")


def test_without_any_acl_on_a_resource_the_file_decides() -> None:
    open_ = AuthorizerRules(frozenset(), allow_everyone=True)
    assert is_allowed(with_acls([]), open_, ALICE, AclOperation.READ, TOPIC, "orders")
    others = with_acls([an_acl(principal="User:bob")])
    assert not is_allowed(others, open_, ALICE, AclOperation.READ, TOPIC, "orders")
    assert is_allowed(others, open_, ALICE, AclOperation.READ, TOPIC, "payments")


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
ACLS = st.builds(
    an_acl,
    NAMES,
    st.sampled_from([AclOperation.ALL, AclOperation.READ, AclOperation.ALTER, AclOperation.DESCRIBE]),
    st.sampled_from(AclPermission),
    pattern=st.sampled_from(AclPattern),
    principal=st.sampled_from(["User:alice", "User:*", "User:bob"]),
    host=st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
    type_=st.sampled_from([TOPIC, GROUP]),
)


def plainly(acls: Iterable[Acl], operation: AclOperation, name: str) -> bool:
    about = [
        each.entry
        for each in acls
        if each.resource.type == TOPIC
        and (
            name.startswith(each.resource.name)
            if each.resource.pattern == PREFIXED
            else each.resource.name in (name, "*")
        )
    ]
    mine = [each for each in about if each.principal != "User:bob" and each.host != "10.0.0.2"]
    denied = any(each.permission == DENY and each.operation in (AclOperation.ALL, operation) for each in mine)
    gives = {operation, AclOperation.ALL}
    if operation == AclOperation.DESCRIBE:
        gives |= {AclOperation.READ, AclOperation.ALTER}
    return not denied and any(each.permission == ALLOW and each.operation in gives for each in mine)


@settings(max_examples=300, deadline=None)
@given(
    acls=st.lists(ACLS, unique=True, max_size=6),
    operation=st.sampled_from([AclOperation.READ, AclOperation.ALTER, AclOperation.DESCRIBE]),
    name=st.sampled_from(["a", "ab", "abc", "abd", "b", "c"]),
)
def test_every_answer_is_the_one_of_the_plain_words(acls: list[Acl], operation: AclOperation, name: str) -> None:
    assert is_allowed(with_acls(acls), RULES, ALICE, operation, TOPIC, name) is plainly(acls, operation, name)
