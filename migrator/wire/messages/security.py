"""ACLs, SCRAM credentials and delegation tokens, as administrators ask for and change them.

In:   `schema`.
Out:  DescribeAcls (29), CreateAcls (30), DeleteAcls (31), CreateDelegationToken (38), RenewDelegationToken (39),
      ExpireDelegationToken (40), DescribeDelegationToken (41), DescribeUserScramCredentials (50),
      AlterUserScramCredentials (51), and the principal that Envelope carries.
Elsewhere: the principal's bytes with their version in front (`principal`), who may do what (controller).
Source: Kafka 3.9 message schemas, KIP-140, KIP-290, KIP-48, KIP-554; checked by tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import (
    AclHost,
    AclOperation,
    AclPermissionType,
    AclPrincipal,
    AclResourceName,
    AclResourceType,
    ErrorCode,
    ErrorMessage,
    PrincipalName,
    PrincipalType,
    ScramIterations,
    ScramMechanism,
    ScramUser,
    ThrottleTimeMs,
    TokenId,
)
from migrator.wire.schema import ARRAY, BOOL, BYTES, INT8, INT64, STRING, Field, Message, Part

PATTERN_LITERAL = 3

ResourceNameFilter = Annotated[str | None, Field(STRING, "the resource's name; None: any", nullable=True)]
PatternTypeFilter = Annotated[int, Field(INT8, "1 ANY, 2 MATCH, 3 LITERAL, 4 PREFIXED", since=1)]
PrincipalFilter = Annotated[str | None, Field(STRING, "who, as Type:name; None: anybody", nullable=True)]
HostFilter = Annotated[str | None, Field(STRING, "from which address; None: any entry", nullable=True)]
PatternTypeSince1 = Annotated[int, Field(INT8, "3 LITERAL, 4 PREFIXED; before version 1 all were literal", since=1)]
RequesterType = Annotated[str, Field(STRING, "kind of principal that asked for the token", since=3)]
RequesterName = Annotated[str, Field(STRING, "name of the principal that asked for the token", since=3)]
Hmac = Annotated[bytes, Field(BYTES, "the token's secret")]
IssueTime = Annotated[int, Field(INT64, "created, in ms since 1970")]
ExpiryTime = Annotated[int, Field(INT64, "ends unless renewed, in ms since 1970")]
MaxTime = Annotated[int, Field(INT64, "cannot be renewed beyond, in ms since 1970")]

# --- ACLs ---------------------------------------------------------------------------------------------------


class DescribeAclsRequest(Message, api_key=29, versions=(0, 3), flexible_since=2):
    """Ask for the ACLs that match a filter."""

    resource_type_filter: AclResourceType = 0
    resource_name_filter: ResourceNameFilter = ""
    pattern_type_filter: PatternTypeFilter = PATTERN_LITERAL
    principal_filter: PrincipalFilter = ""
    host_filter: HostFilter = ""
    operation: AclOperation = 0
    permission_type: AclPermissionType = 0


class AclDescription(Part):
    """One permission or denial."""

    principal: AclPrincipal = ""
    host: AclHost = ""
    operation: AclOperation = 0
    permission_type: AclPermissionType = 0


class DescribeAclsResource(Part):
    """The ACLs of one resource."""

    resource_type: AclResourceType = 0
    resource_name: AclResourceName = ""
    pattern_type: PatternTypeSince1 = PATTERN_LITERAL
    acls: Annotated[Sequence[AclDescription], Field(ARRAY(AclDescription), "who may or may not do what")] = ()


class DescribeAclsResponse(Message, api_key=29, versions=(0, 3), flexible_since=2):
    """The matching ACLs by resource."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    resources: Annotated[Sequence[DescribeAclsResource], Field(ARRAY(DescribeAclsResource), "by resource")] = ()


class AclCreation(Part):
    """An ACL to create."""

    resource_type: AclResourceType = 0
    resource_name: AclResourceName = ""
    resource_pattern_type: PatternTypeSince1 = PATTERN_LITERAL
    principal: AclPrincipal = ""
    host: AclHost = ""
    operation: AclOperation = 0
    permission_type: AclPermissionType = 0


class CreateAclsRequest(Message, api_key=30, versions=(0, 3), flexible_since=2):
    """Create ACLs."""

    creations: Annotated[Sequence[AclCreation], Field(ARRAY(AclCreation), "what to create")] = ()


class AclCreationResult(Part):
    """Created, or why not."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


class CreateAclsResponse(Message, api_key=30, versions=(0, 3), flexible_since=2):
    """An answer for each ACL, in the order of the request."""

    throttle_time_ms: ThrottleTimeMs = 0
    results: Annotated[Sequence[AclCreationResult], Field(ARRAY(AclCreationResult), "one for each asked")] = ()


class DeleteAclsFilter(Part):
    """Which ACLs to delete."""

    resource_type_filter: AclResourceType = 0
    resource_name_filter: ResourceNameFilter = ""
    pattern_type_filter: PatternTypeFilter = PATTERN_LITERAL
    principal_filter: PrincipalFilter = ""
    host_filter: HostFilter = ""
    operation: AclOperation = 0
    permission_type: AclPermissionType = 0


class DeleteAclsRequest(Message, api_key=31, versions=(0, 3), flexible_since=2):
    """Delete the ACLs that match any of these filters."""

    filters: Annotated[Sequence[DeleteAclsFilter], Field(ARRAY(DeleteAclsFilter), "which to delete")] = ()


class DeleteAclsMatchingAcl(Part):
    """An ACL that matched: deleted, or why not."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    resource_type: AclResourceType = 0
    resource_name: AclResourceName = ""
    pattern_type: PatternTypeSince1 = PATTERN_LITERAL
    principal: AclPrincipal = ""
    host: AclHost = ""
    operation: AclOperation = 0
    permission_type: AclPermissionType = 0


class DeleteAclsFilterResult(Part):
    """What one filter matched."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    matching_acls: Annotated[
        Sequence[DeleteAclsMatchingAcl], Field(ARRAY(DeleteAclsMatchingAcl), "what it matched")
    ] = ()


class DeleteAclsResponse(Message, api_key=31, versions=(0, 3), flexible_since=2):
    """An answer for each filter, in the order of the request."""

    throttle_time_ms: ThrottleTimeMs = 0
    filter_results: Annotated[
        Sequence[DeleteAclsFilterResult], Field(ARRAY(DeleteAclsFilterResult), "one for each filter")
    ] = ()


# --- delegation tokens --------------------------------------------------------------------------------------


class CreatableRenewers(Part):
    """Somebody who may renew the token."""

    principal_type: PrincipalType = ""
    principal_name: PrincipalName = ""


class CreateDelegationTokenRequest(Message, api_key=38, versions=(0, 3), flexible_since=2):
    """Ask for a token, for oneself or for another owner."""

    owner_principal_type: Annotated[
        str | None, Field(STRING, "kind of the owner; None: the requester", since=3, nullable=True)
    ] = ""
    owner_principal_name: Annotated[
        str | None, Field(STRING, "name of the owner; None: the requester", since=3, nullable=True)
    ] = ""
    renewers: Annotated[Sequence[CreatableRenewers], Field(ARRAY(CreatableRenewers), "who else may renew it")] = ()
    max_lifetime_ms: Annotated[int, Field(INT64, "how long it can be renewed; -1: the server's limit")] = 0


class CreateDelegationTokenResponse(Message, api_key=38, versions=(0, 3), flexible_since=2):
    """The token, or why there is none. The throttle time comes last here."""

    error_code: ErrorCode = 0
    principal_type: PrincipalType = ""
    principal_name: PrincipalName = ""
    token_requester_principal_type: RequesterType = ""
    token_requester_principal_name: RequesterName = ""
    issue_timestamp_ms: IssueTime = 0
    expiry_timestamp_ms: ExpiryTime = 0
    max_timestamp_ms: MaxTime = 0
    token_id: TokenId = ""
    hmac: Hmac = b""
    throttle_time_ms: ThrottleTimeMs = 0


class RenewDelegationTokenRequest(Message, api_key=39, versions=(0, 2), flexible_since=2):
    """Let a token live longer."""

    hmac: Hmac = b""
    renew_period_ms: Annotated[int, Field(INT64, "how much longer; -1: as configured")] = 0


class RenewDelegationTokenResponse(Message, api_key=39, versions=(0, 2), flexible_since=2):
    """The new end, or why it stays."""

    error_code: ErrorCode = 0
    expiry_timestamp_ms: ExpiryTime = 0
    throttle_time_ms: ThrottleTimeMs = 0


class ExpireDelegationTokenRequest(Message, api_key=40, versions=(0, 2), flexible_since=2):
    """Let a token end earlier."""

    hmac: Hmac = b""
    expiry_time_period_ms: Annotated[int, Field(INT64, "how much longer it lives; below 0: it ends now")] = 0


class ExpireDelegationTokenResponse(Message, api_key=40, versions=(0, 2), flexible_since=2):
    """The new end, or why it stays."""

    error_code: ErrorCode = 0
    expiry_timestamp_ms: ExpiryTime = 0
    throttle_time_ms: ThrottleTimeMs = 0


class DescribeDelegationTokenOwner(Part):
    """Somebody whose tokens are asked for."""

    principal_type: PrincipalType = ""
    principal_name: PrincipalName = ""


class DescribeDelegationTokenRequest(Message, api_key=41, versions=(0, 3), flexible_since=2):
    """Ask for tokens by owner."""

    owners: Annotated[
        Sequence[DescribeDelegationTokenOwner] | None,
        Field(ARRAY(DescribeDelegationTokenOwner), "None: all that the client may see", nullable=True),
    ] = ()


class DescribedDelegationTokenRenewer(Part):
    """Somebody who may renew the token."""

    principal_type: PrincipalType = ""
    principal_name: PrincipalName = ""


class DescribedDelegationToken(Part):
    """A token."""

    principal_type: PrincipalType = ""
    principal_name: PrincipalName = ""
    token_requester_principal_type: RequesterType = ""
    token_requester_principal_name: RequesterName = ""
    issue_timestamp: IssueTime = 0
    expiry_timestamp: ExpiryTime = 0
    max_timestamp: MaxTime = 0
    token_id: TokenId = ""
    hmac: Hmac = b""
    renewers: Annotated[
        Sequence[DescribedDelegationTokenRenewer],
        Field(ARRAY(DescribedDelegationTokenRenewer), "who else may renew it"),
    ] = ()


class DescribeDelegationTokenResponse(Message, api_key=41, versions=(0, 3), flexible_since=2):
    """The tokens. The throttle time comes last here."""

    error_code: ErrorCode = 0
    tokens: Annotated[Sequence[DescribedDelegationToken], Field(ARRAY(DescribedDelegationToken), "the tokens")] = ()
    throttle_time_ms: ThrottleTimeMs = 0


# --- SCRAM credentials --------------------------------------------------------------------------------------


class DescribeScramUser(Part):
    """A user who is asked about."""

    name: ScramUser = ""


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions=(0, 0), flexible_since=0):
    """Ask which credentials users have."""

    users: Annotated[
        Sequence[DescribeScramUser] | None, Field(ARRAY(DescribeScramUser), "None: all users", nullable=True)
    ] = ()


class ScramCredentialInfo(Part):
    """A credential, without anything secret."""

    mechanism: ScramMechanism = 0
    iterations: ScramIterations = 0


class DescribeUserScramCredentialsResult(Part):
    """The credentials of one user."""

    user: ScramUser = ""
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    credential_infos: Annotated[Sequence[ScramCredentialInfo], Field(ARRAY(ScramCredentialInfo), "by mechanism")] = ()


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions=(0, 0), flexible_since=0):
    """An answer for each user."""

    throttle_time_ms: ThrottleTimeMs = 0
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    results: Annotated[
        Sequence[DescribeUserScramCredentialsResult],
        Field(ARRAY(DescribeUserScramCredentialsResult), "by user"),
    ] = ()


class ScramCredentialDeletion(Part):
    """A credential to delete."""

    name: ScramUser = ""
    mechanism: ScramMechanism = 0


class ScramCredentialUpsertion(Part):
    """A credential to set."""

    name: ScramUser = ""
    mechanism: ScramMechanism = 0
    iterations: ScramIterations = 0
    salt: Annotated[bytes, Field(BYTES, "random bytes")] = b""
    salted_password: Annotated[bytes, Field(BYTES, "the derived key; never stored as it is")] = b""


class AlterUserScramCredentialsRequest(Message, api_key=51, versions=(0, 0), flexible_since=0):
    """Set and delete credentials."""

    deletions: Annotated[
        Sequence[ScramCredentialDeletion], Field(ARRAY(ScramCredentialDeletion), "which to delete")
    ] = ()
    upsertions: Annotated[
        Sequence[ScramCredentialUpsertion], Field(ARRAY(ScramCredentialUpsertion), "which to set")
    ] = ()


class AlterUserScramCredentialsResult(Part):
    """Done for one user, or why not."""

    user: ScramUser = ""
    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""


class AlterUserScramCredentialsResponse(Message, api_key=51, versions=(0, 0), flexible_since=0):
    """An answer for each user."""

    throttle_time_ms: ThrottleTimeMs = 0
    results: Annotated[
        Sequence[AlterUserScramCredentialsResult], Field(ARRAY(AlterUserScramCredentialsResult), "by user")
    ] = ()


# --- the principal inside Envelope --------------------------------------------------------------------------


class DefaultPrincipalData(Message, versions=(0, 0), flexible_since=0):
    """Whom a broker authenticated, as it tells the controller."""

    type: PrincipalType = ""
    name: PrincipalName = ""
    token_authenticated: Annotated[bool, Field(BOOL, "true: by a delegation token")] = False
