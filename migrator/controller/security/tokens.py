"""Delegation tokens are made, renewed and ended.

In:   CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken; the time of day.
Out:  DelegationToken records and removals; the new token with its secret, which only its owner hears.
Elsewhere: logging in with a token (brokers), describing tokens (brokers), how they stand in ZooKeeper (zk.acl_znodes).
Rules: a token's secret is derived from its id with the key in the properties file, which every node has; it is neither
stored nor logged. Without that key the answer is DELEGATION_TOKEN_AUTH_DISABLED. Nobody gets a token by a token, and
nobody who did not log in. An owner has a type: without one no broker could read the token (stock takes it, and its
brokers fail on it).
Source: Kafka 3.9 `DelegationTokenControlManager`, `ControllerApis`; KIP-48, KIP-900.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from migrator.controller.authorizer import ANONYMOUS, Asker, TokenRules, is_allowed
from migrator.controller.decision import Decision, Record, Situation
from migrator.controller.znode_limits import larger_than_zookeeper_takes
from migrator.model import levels
from migrator.model.values import AclOperation, AclResourceType, DelegationToken
from migrator.model.znode_sizes import token_bytes
from migrator.records.builders import token_record
from migrator.wire.errors import Error
from migrator.wire.messages.metadata import RemoveDelegationTokenRecord
from migrator.wire.messages.security import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

VERSION_REQUESTER: Final = 3
"""From this version on the answer says who asked, and an owner can be named."""
NO_TIME: Final = -1
USER: Final = "User"
SWEPT_MAX: Final = 1_000
"""Expired tokens that one look removes; the rest waits for the next one."""
SECRETS_MAX: Final = 128 * 1024
"""Derived secrets that are remembered: a request names its token by the secret, so it is compared with every one."""


class _Refused(Exception):
    def __init__(self, error: Error, time_ms: int = 0) -> None:
        super().__init__(error.name)
        self.error = error
        self.time_ms = time_ms


def secret_of(token_id: str, rules: TokenRules) -> bytes:
    return _secret_of(token_id, rules.secret_key)


@lru_cache(maxsize=SECRETS_MAX)
def _secret_of(token_id: str, key: str) -> bytes:
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


# --- the requests -----------------------------------------------------------------------------------------


def create_token(situation: Situation, request: CreateDelegationTokenRequest, version: int) -> Decision:
    requester = situation.asker.principal if situation.asker is not None else ANONYMOUS
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    try:
        asker = _known(situation)
        _check_owner(situation, asker, owner)
        rules = _enabled(situation)
        if any(each.principal_type != USER for each in request.renewers) or owner.startswith(":"):
            raise _Refused(Error.INVALID_PRINCIPAL_TYPE)
    except _Refused as refused:
        return Decision(_created(refused.error, owner, requester, version, time_ms=refused.time_ms))
    now = situation.wall_ms
    lifetime = min(rules.max_lifetime_ms, request.max_lifetime_ms) if request.max_lifetime_ms > 0 else None
    max_ms = now + (rules.max_lifetime_ms if lifetime is None else lifetime)
    token = DelegationToken(
        id=urlsafe_b64encode(situation.new_id(())).rstrip(b"=").decode(),
        owner=owner,
        requester=requester,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
        issued_ms=now,
        max_ms=max_ms,
        expires_ms=min(max_ms, now + rules.renew_lifetime_ms),
    )
    if larger_than_zookeeper_takes(situation, "The token", token_bytes(token), lambda: 0) is not None:
        return Decision(_created(Error.POLICY_VIOLATION, owner, requester, version))
    reply = _created(Error.NONE, owner, requester, version, token, secret_of(token.id, rules))
    return Decision(reply, ((token_record(token), 0),))


def renew_token(situation: Situation, request: RenewDelegationTokenRequest) -> Decision:
    try:
        rules, token = _find(situation, request.hmac)
        _check_alive(situation, token)
        _check_renewer(situation, token)
    except _Refused as refused:
        return Decision(RenewDelegationTokenResponse(refused.error, refused.time_ms))
    longer = rules.renew_lifetime_ms
    if request.renew_period_ms > 0:
        longer = min(longer, request.renew_period_ms)
    renewed = replace(token, expires_ms=min(token.max_ms, situation.wall_ms + longer))
    return Decision(RenewDelegationTokenResponse(Error.NONE, renewed.expires_ms), ((token_record(renewed), 0),))


def expire_token(situation: Situation, request: ExpireDelegationTokenRequest) -> Decision:
    try:
        _, token = _find(situation, request.hmac)
        _check_renewer(situation, token)
        if request.expiry_time_period_ms >= 0:
            _check_alive(situation, token)
    except _Refused as refused:
        return Decision(ExpireDelegationTokenResponse(refused.error, refused.time_ms))
    now = situation.wall_ms
    if request.expiry_time_period_ms < 0:
        return Decision(ExpireDelegationTokenResponse(Error.NONE, now), (_removal(token),))
    ending = replace(token, expires_ms=min(token.max_ms, now + request.expiry_time_period_ms))
    return Decision(ExpireDelegationTokenResponse(Error.NONE, ending.expires_ms), ((token_record(ending), 0),))


def expired_tokens(situation: Situation) -> list[Record]:
    """Removals of tokens that nobody can use any more. Only with the key: else they are not ours to judge."""
    if situation.settings.tokens is None:
        return []
    now = situation.wall_ms
    gone = [token for token in situation.image.tokens.values() if min(token.max_ms, token.expires_ms) < now]
    return [_removal(token) for token in gone[:SWEPT_MAX]]


# --- what has to hold -------------------------------------------------------------------------------------


def _known(situation: Situation) -> Asker:
    asker = situation.asker
    if asker is None or asker.principal == ANONYMOUS or asker.by_token:
        raise _Refused(Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    return asker


def _check_owner(situation: Situation, asker: Asker, owner: str) -> None:
    """Everybody may have a token; for somebody else one needs a permission."""
    rules = situation.settings.authorizer
    if owner == asker.principal or rules is None:
        return
    if not is_allowed(situation.image, rules, asker, AclOperation.CREATE_TOKENS, AclResourceType.USER, owner):
        raise _Refused(Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED, NO_TIME)


def _enabled(situation: Situation) -> TokenRules:
    rules = situation.settings.tokens
    if rules is None:
        raise _Refused(Error.DELEGATION_TOKEN_AUTH_DISABLED)
    if situation.image.metadata_version < levels.TOKENS:
        raise _Refused(Error.UNSUPPORTED_VERSION)
    return rules


def _find(situation: Situation, secret: bytes) -> tuple[TokenRules, DelegationToken]:
    _known(situation)
    rules = _enabled(situation)
    for token in situation.image.tokens.values():
        if hmac.compare_digest(secret_of(token.id, rules), secret):
            return rules, token
    raise _Refused(Error.DELEGATION_TOKEN_NOT_FOUND)


def _check_alive(situation: Situation, token: DelegationToken) -> None:
    if min(token.max_ms, token.expires_ms) < situation.wall_ms:
        raise _Refused(Error.DELEGATION_TOKEN_EXPIRED)


def _check_renewer(situation: Situation, token: DelegationToken) -> None:
    asker = _known(situation)
    if asker.principal not in (token.owner, *token.renewers):
        raise _Refused(Error.DELEGATION_TOKEN_OWNER_MISMATCH)


def _removal(token: DelegationToken) -> Record:
    return RemoveDelegationTokenRecord(token_id=token.id), 0


def _created(
    error: Error,
    owner: str,
    requester: str,
    version: int,
    token: DelegationToken | None = None,
    secret: bytes = b"",
    *,
    time_ms: int = 0,
) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    asked_type, _, asked_name = requester.partition(":") if version >= VERSION_REQUESTER else ("", "", "")
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=asked_type,
        token_requester_principal_name=asked_name,
        issue_timestamp_ms=time_ms if token is None else token.issued_ms,
        expiry_timestamp_ms=time_ms if token is None else token.expires_ms,
        max_timestamp_ms=time_ms if token is None else token.max_ms,
        token_id="" if token is None else token.id,
        hmac=secret,
    )
