"""What is said first on a connection: which versions there are, and who is calling.

In:   `schema`.
Out:  ApiVersions (18), SaslHandshake (17), SaslAuthenticate (36).
Elsewhere: the exception that an ApiVersions answer makes of headers (`frames`), SASL mechanisms (node).
Source: Kafka 3.9 message schemas, KIP-511, KIP-584; checked by tests/contract/test_wire_kio.py.
"""

from collections.abc import Sequence
from typing import Annotated

from migrator.wire.messages.shared import ErrorCode, ErrorMessage
from migrator.wire.schema import ARRAY, BOOL, BYTES, INT16, INT32, INT64, STRING, Field, Message, Part


class ApiVersionsRequest(Message, api_key=18, versions=(0, 4), flexible_since=3):
    """A client asks which requests this node answers, and introduces itself."""

    client_software_name: Annotated[
        str, Field(STRING, "letters, digits, '-' and '.'; anything else is refused with 42", since=3, droppable=True)
    ] = ""
    client_software_version: Annotated[str, Field(STRING, "same alphabet as the name", since=3, droppable=True)] = ""


class ApiVersion(Part):
    """The range of versions in which one request is answered."""

    api_key: Annotated[int, Field(INT16, "the kind of request")] = 0
    min_version: Annotated[int, Field(INT16, "lowest version, inclusive")] = 0
    max_version: Annotated[int, Field(INT16, "highest version, inclusive")] = 0


class SupportedFeatureKey(Part):
    """The range of levels of one feature that the node's software can run at."""

    name: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    min_version: Annotated[int, Field(INT16, "lowest level; 0 may be sent from version 4 on only")] = 0
    max_version: Annotated[int, Field(INT16, "highest level")] = 0


class FinalizedFeatureKey(Part):
    """The level of one feature that the whole cluster runs at."""

    name: Annotated[str, Field(STRING, "such as metadata.version")] = ""
    max_version_level: Annotated[int, Field(INT16, "the level")] = 0
    min_version_level: Annotated[int, Field(INT16, "the same level again; ranges were never used")] = 0


class ApiVersionsResponse(Message, api_key=18, versions=(0, 4), flexible_since=3):
    """The node's requests and features. Error 35 at version 0 means: ask again within the range given here."""

    error_code: ErrorCode = 0
    api_keys: Annotated[Sequence[ApiVersion], Field(ARRAY(ApiVersion), "every request that is answered here")] = ()
    throttle_time_ms: Annotated[
        int, Field(INT32, "how long a quota held this request back; 0: not at all", since=1, droppable=True)
    ] = 0
    supported_features: Annotated[
        Sequence[SupportedFeatureKey],
        Field(ARRAY(SupportedFeatureKey), "what the software can do", since=3, tag=0, droppable=True),
    ] = ()
    finalized_features_epoch: Annotated[
        int, Field(INT64, "metadata offset that the levels are as of; -1: unknown", since=3, tag=1, droppable=True)
    ] = -1
    finalized_features: Annotated[
        Sequence[FinalizedFeatureKey],
        Field(ARRAY(FinalizedFeatureKey), "what the cluster runs at", since=3, tag=2, droppable=True),
    ] = ()
    zk_migration_ready: Annotated[
        bool, Field(BOOL, "the answering controller has the migration switched on", since=3, tag=3, droppable=True)
    ] = False


class SaslHandshakeRequest(Message, api_key=17, versions=(0, 1)):
    """A client names the SASL mechanism. After version 0 the tokens follow without Kafka's headers."""

    mechanism: Annotated[str, Field(STRING, "such as PLAIN, SCRAM-SHA-512, GSSAPI, OAUTHBEARER")] = ""


class SaslHandshakeResponse(Message, api_key=17, versions=(0, 1)):
    """Accepted, or error 33 with the mechanisms there are."""

    error_code: ErrorCode = 0
    mechanisms: Annotated[Sequence[str], Field(ARRAY(STRING), "what this listener accepts")] = ()


class SaslAuthenticateRequest(Message, api_key=36, versions=(0, 2), flexible_since=2):
    """One token of the client."""

    auth_bytes: Annotated[bytes, Field(BYTES, "as the mechanism defines it")] = b""


class SaslAuthenticateResponse(Message, api_key=36, versions=(0, 2), flexible_since=2):
    """The server's next token, or error 58."""

    error_code: ErrorCode = 0
    error_message: ErrorMessage = ""
    auth_bytes: Annotated[bytes, Field(BYTES, "as the mechanism defines it")] = b""
    session_lifetime_ms: Annotated[
        int, Field(INT64, "after this long the client has to authenticate again; 0: never", since=1, droppable=True)
    ] = 0
