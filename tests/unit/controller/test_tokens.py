"""Delegation tokens: who gets one, how long it lives, and who may end it."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import Any

import pytest

from migrator.controller.authorizer import ANONYMOUS, Asker, AuthorizerRules, TokenRules
from migrator.controller.decision import Decision, Situation
from migrator.controller.security.tokens import create_token, expire_token, expired_tokens, renew_token
from migrator.model.draft import Draft
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
from migrator.wire.codec import encode
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from migrator.wire.messages.security import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.support.builders import an_id, an_image
from tests.support.situations import a_situation, after, messages

NOW, DAY, WEEK = 1_700_000_000_000, 86_400_000, 7 * 86_400_000
RULES = TokenRules("a key", max_lifetime_ms=WEEK, renew_lifetime_ms=DAY)
ALICE, BOB, EVE = (Asker(f"User:{name}", "10.0.0.1") for name in ("alice", "bob", "eve"))


def a_cluster(asker: Asker | None = ALICE, *, level: int = 21, **settings: Any) -> Situation:
    image = an_image()
    draft = Draft(image)
    draft.set_feature("metadata.version", level)
    entry = AclEntry("User:bob", "*", AclOperation.CREATE_TOKENS, AclPermission.ALLOW)
    draft.put_acl(an_id("acl"), Acl(AclResource(AclResourceType.USER, AclPattern.LITERAL, "User:alice"), entry))
    fields: dict[str, Any] = {"tokens": RULES, **settings}
    return replace(a_situation(draft.finish(image.position).after, **fields), asker=asker, wall_ms=NOW)


def create(
    situation: Situation, version: int = 3, **asked: Any
) -> tuple[CreateDelegationTokenResponse, Decision, Situation]:
    decision = create_token(situation, CreateDelegationTokenRequest(**asked), version)
    assert isinstance(decision.reply, CreateDelegationTokenResponse)
    encode(decision.reply, version)
    return decision.reply, decision, after(situation, decision)


def the_token(situation: Situation) -> DelegationToken:
    (token,) = situation.image.tokens.values()
    return token


def at(situation: Situation, wall_ms: int, asker: Asker = ALICE) -> Situation:
    return replace(situation, wall_ms=wall_ms, asker=asker)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_token_is_made_and_its_secret_derived_from_its_id(version: int) -> None:
    bob = CreatableRenewers("User", "bob")
    reply, decision, there = create(a_cluster(), version, renewers=(bob,), max_lifetime_ms=-1)
    token = the_token(there)
    assert reply.error_code == Error.NONE
    assert token == DelegationToken(
        reply.token_id, "User:alice", "User:alice", ("User:bob",), NOW, NOW + WEEK, NOW + DAY
    )
    assert (reply.issue_timestamp_ms, reply.max_timestamp_ms, reply.expiry_timestamp_ms) == (
        NOW, NOW + WEEK, NOW + DAY,
    )  # fmt: skip
    assert reply.hmac == hmac.new(b"a key", reply.token_id.encode(), hashlib.sha512).digest()
    assert len(reply.token_id) == 22
    assert reply.token_requester_principal_name == ("alice" if version == 3 else "")
    (record,) = messages(decision)
    assert isinstance(record, DelegationTokenRecord)
    assert reply.hmac not in [getattr(record, name) for name in record.__struct_fields__]


@pytest.mark.parametrize(("asked", "lives"), [(0, WEEK), (-1, WEEK), (60_000, 60_000), (10 * WEEK, WEEK)])
def test_a_token_lives_no_longer_than_asked_and_allowed(asked: int, lives: int) -> None:
    reply, _, _ = create(a_cluster(), max_lifetime_ms=asked)
    assert reply.max_timestamp_ms == NOW + lives
    assert reply.expiry_timestamp_ms == NOW + min(lives, DAY)


@pytest.mark.parametrize(
    ("situation", "asked", "error"),
    [
        (a_cluster(None), {}, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (a_cluster(Asker(ANONYMOUS, "10.0.0.1")), {}, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (a_cluster(replace(ALICE, by_token=True)), {}, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (a_cluster(tokens=None), {}, Error.DELEGATION_TOKEN_AUTH_DISABLED),
        (a_cluster(level=13), {}, Error.UNSUPPORTED_VERSION),
        (a_cluster(), {"renewers": (CreatableRenewers("Group", "all"),)}, Error.INVALID_PRINCIPAL_TYPE),
    ],
)
def test_a_token_that_nobody_may_have_is_refused(situation: Situation, asked: dict[str, Any], error: Error) -> None:
    reply, decision, _ = create(situation, **asked)
    assert (reply.error_code, reply.hmac, decision.records) == (error, b"", ())


def test_a_token_for_somebody_else_needs_a_permission_where_permissions_are_looked_at() -> None:
    for_alice: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    heeding = AuthorizerRules(frozenset())
    reply, _, there = create(a_cluster(BOB, authorizer=heeding), **for_alice)
    assert reply.error_code == Error.NONE
    assert (the_token(there).owner, the_token(there).requester) == ("User:alice", "User:bob")
    reply, _, _ = create(a_cluster(EVE, authorizer=heeding), **for_alice)
    assert reply.error_code == Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    reply, _, _ = create(a_cluster(EVE), **for_alice)
    assert reply.error_code == Error.NONE


# --- renewing and ending ----------------------------------------------------------------------------------


def a_token() -> tuple[bytes, Situation]:
    reply, _, there = create(a_cluster(), renewers=(CreatableRenewers("User", "bob"),), max_lifetime_ms=3 * DAY)
    return reply.hmac, there


@pytest.mark.parametrize(
    ("asker", "later", "period", "expected"),
    [
        (ALICE, DAY // 2, -1, DAY // 2 + DAY),
        (BOB, DAY // 2, 1_000, DAY // 2 + 1_000),
        (ALICE, DAY // 2, 10 * DAY, DAY // 2 + DAY),
    ],
)
def test_a_token_is_renewed_by_its_owner_and_by_who_was_named(
    asker: Asker, later: int, period: int, expected: int
) -> None:
    secret, there = a_token()
    then = at(there, NOW + later, asker)
    decision = renew_token(then, RenewDelegationTokenRequest(secret, period))
    assert (decision.reply.error_code, decision.reply.expiry_timestamp_ms) == (0, NOW + expected)  # type: ignore[attr-defined]
    assert the_token(after(then, decision)).expires_ms == NOW + expected


def test_a_token_cannot_be_renewed_beyond_its_end() -> None:
    secret, there = a_token()
    for day in (0.9, 1.8, 2.7):
        there = at(there, int(NOW + day * DAY))
        there = after(there, renew_token(there, RenewDelegationTokenRequest(secret, -1)))
    assert the_token(there).expires_ms == NOW + 3 * DAY


@pytest.mark.parametrize(
    ("asker", "later", "secret", "error"),
    [
        (EVE, 0, None, Error.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, DAY + 1, None, Error.DELEGATION_TOKEN_EXPIRED),
        (ALICE, 0, b"another", Error.DELEGATION_TOKEN_NOT_FOUND),
        (Asker(ANONYMOUS, ""), 0, None, Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ],
)
def test_a_token_that_is_not_ones_own_or_over_is_not_renewed_or_ended(
    asker: Asker, later: int, secret: bytes | None, error: Error
) -> None:
    real, there = a_token()
    then = at(there, NOW + later, asker)
    for decision in (
        renew_token(then, RenewDelegationTokenRequest(secret or real, -1)),
        expire_token(then, ExpireDelegationTokenRequest(secret or real, 5)),
    ):
        assert (decision.reply.error_code, decision.records) == (error, ())  # type: ignore[attr-defined]


def test_a_token_ends_when_its_owner_says_so_and_at_once_also_when_it_is_over() -> None:
    secret, there = a_token()
    decision = expire_token(there, ExpireDelegationTokenRequest(secret, 5_000))
    assert the_token(after(there, decision)).expires_ms == NOW + 5_000
    over = at(there, NOW + 2 * DAY)
    decision = expire_token(over, ExpireDelegationTokenRequest(secret, -1))
    assert decision.reply.error_code == Error.NONE  # type: ignore[attr-defined]
    assert not after(over, decision).image.tokens


def test_what_is_over_is_swept_and_only_where_tokens_are_switched_on() -> None:
    _, there = a_token()
    assert expired_tokens(at(there, NOW + DAY)) == []
    over = at(there, NOW + DAY + 1)
    assert [record for record, _ in expired_tokens(over)] == [RemoveDelegationTokenRecord(token_id=the_token(there).id)]
    off = replace(over, settings=replace(over.settings, tokens=None))
    assert expired_tokens(off) == []


def test_the_key_is_nowhere_in_what_is_printed() -> None:
    assert "a key" not in repr(RULES)
    assert "a key" not in repr(a_cluster().settings)
