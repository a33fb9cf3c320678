"""Requests and responses as they travel: a length, a header, the message.

In:   a message with its version and correlation id, or one frame without its length.
Out:  the whole frame, or header and message.
Elsewhere: reading a frame from a socket and matching answers to requests (node), the messages (`messages/`).
Errors: Z2K-3001 for anything that is no request or response of Kafka 3.9, an unknown key or version included. Stock
closes the connection then, and so should the caller; ApiVersions is the exception, see `read_request_header`.
Source: Kafka 3.9 `RequestHeader`, `ApiKeys`, KIP-482, KIP-511. Which header a message has follows from its key and
version alone:

    request header 0    key, version, correlation id                ControlledShutdown version 0 only
    request header 1    and the client id                           versions before the flexible ones
    request header 2    and a tagged section                        flexible versions
    response header 0   correlation id                              not flexible, and ApiVersions in every version
    response header 1   and a tagged section                        flexible versions

The client id has its old form (length in two bytes) in header 2 as well.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import FindingError
from migrator.findings.quorum import MALFORMED_BYTES
from migrator.wire.codec import UnencodableError, decode_from, encode_into
from migrator.wire.generate import SomeMessage
from migrator.wire.messages import (
    brokers,
    configs,
    control,
    handshake,
    offsets,
    partitions,
    raft,
    replication,
    security,
    topics,
)
from migrator.wire.packing import skip_tags
from migrator.wire.schema import Declaration, Message, declaration_of
from migrator.wire.short_messages import with_short_messages

# What stock brokers and controllers accept by default (socket.request.max.bytes). The largest of ours, an
# UpdateMetadata for 200,000 partitions, takes a tenth of it.
FRAME_BYTES_MAX: Final = 104_857_600

API_VERSIONS: Final = 18
CONTROLLED_SHUTDOWN: Final = 7
CLIENT_ID_BYTES_MAX: Final = 0x7FFF

_START: Final = struct.Struct(">hhi")  # key, version, correlation id
_LENGTH: Final = struct.Struct(">i")
_TLS_HANDSHAKE: Final = b"\x16\x03"
"""How a record of a TLS client begins: handshake, major version 3 (RFC 8446, section 5.1)."""


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request with its response; both have the same versions."""

    request: type[Message]
    response: type[Message]

    @property
    def declared(self) -> Declaration:
        return declaration_of(self.request)

    @property
    def key(self) -> int:
        assert self.declared.api_key is not None, self.request
        return self.declared.api_key

    @property
    def name(self) -> str:
        return self.declared.name.removesuffix("Request")


API_KEYS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        Api(replication.FetchRequest, replication.FetchResponse),
        Api(offsets.ListOffsetsRequest, offsets.ListOffsetsResponse),
        Api(topics.MetadataRequest, topics.MetadataResponse),
        Api(control.LeaderAndIsrRequest, control.LeaderAndIsrResponse),
        Api(control.StopReplicaRequest, control.StopReplicaResponse),
        Api(control.UpdateMetadataRequest, control.UpdateMetadataResponse),
        Api(brokers.ControlledShutdownRequest, brokers.ControlledShutdownResponse),
        Api(handshake.SaslHandshakeRequest, handshake.SaslHandshakeResponse),
        Api(handshake.ApiVersionsRequest, handshake.ApiVersionsResponse),
        Api(topics.CreateTopicsRequest, topics.CreateTopicsResponse),
        Api(topics.DeleteTopicsRequest, topics.DeleteTopicsResponse),
        Api(offsets.OffsetForLeaderEpochRequest, offsets.OffsetForLeaderEpochResponse),
        Api(security.DescribeAclsRequest, security.DescribeAclsResponse),
        Api(security.CreateAclsRequest, security.CreateAclsResponse),
        Api(security.DeleteAclsRequest, security.DeleteAclsResponse),
        Api(configs.DescribeConfigsRequest, configs.DescribeConfigsResponse),
        Api(configs.AlterConfigsRequest, configs.AlterConfigsResponse),
        Api(configs.DescribeLogDirsRequest, configs.DescribeLogDirsResponse),
        Api(handshake.SaslAuthenticateRequest, handshake.SaslAuthenticateResponse),
        Api(topics.CreatePartitionsRequest, topics.CreatePartitionsResponse),
        Api(security.CreateDelegationTokenRequest, security.CreateDelegationTokenResponse),
        Api(security.RenewDelegationTokenRequest, security.RenewDelegationTokenResponse),
        Api(security.ExpireDelegationTokenRequest, security.ExpireDelegationTokenResponse),
        Api(security.DescribeDelegationTokenRequest, security.DescribeDelegationTokenResponse),
        Api(partitions.ElectLeadersRequest, partitions.ElectLeadersResponse),
        Api(configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse),
        Api(partitions.AlterPartitionReassignmentsRequest, partitions.AlterPartitionReassignmentsResponse),
        Api(partitions.ListPartitionReassignmentsRequest, partitions.ListPartitionReassignmentsResponse),
        Api(configs.DescribeClientQuotasRequest, configs.DescribeClientQuotasResponse),
        Api(configs.AlterClientQuotasRequest, configs.AlterClientQuotasResponse),
        Api(security.DescribeUserScramCredentialsRequest, security.DescribeUserScramCredentialsResponse),
        Api(security.AlterUserScramCredentialsRequest, security.AlterUserScramCredentialsResponse),
        Api(raft.VoteRequest, raft.VoteResponse),
        Api(raft.BeginQuorumEpochRequest, raft.BeginQuorumEpochResponse),
        Api(raft.EndQuorumEpochRequest, raft.EndQuorumEpochResponse),
        Api(raft.DescribeQuorumRequest, raft.DescribeQuorumResponse),
        Api(partitions.AlterPartitionRequest, partitions.AlterPartitionResponse),
        Api(configs.UpdateFeaturesRequest, configs.UpdateFeaturesResponse),
        Api(brokers.EnvelopeRequest, brokers.EnvelopeResponse),
        Api(replication.FetchSnapshotRequest, replication.FetchSnapshotResponse),
        Api(brokers.DescribeClusterRequest, brokers.DescribeClusterResponse),
        Api(brokers.BrokerRegistrationRequest, brokers.BrokerRegistrationResponse),
        Api(brokers.BrokerHeartbeatRequest, brokers.BrokerHeartbeatResponse),
        Api(brokers.UnregisterBrokerRequest, brokers.UnregisterBrokerResponse),
        Api(brokers.AllocateProducerIdsRequest, brokers.AllocateProducerIdsResponse),
        Api(brokers.ControllerRegistrationRequest, brokers.ControllerRegistrationResponse),
        Api(brokers.AssignReplicasToDirsRequest, brokers.AssignReplicasToDirsResponse),
        Api(raft.AddRaftVoterRequest, raft.AddRaftVoterResponse),
        Api(raft.RemoveRaftVoterRequest, raft.RemoveRaftVoterResponse),
        Api(raft.UpdateRaftVoterRequest, raft.UpdateRaftVoterResponse),
    )
}


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What a request says before its message. client_id: None where header or client did not give one."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int

    @property
    def is_supported(self) -> bool:
        """False only for an ApiVersions request of a version from the future."""
        return API_KEYS[self.api_key].declared.has(self.api_version)


@dataclass(frozen=True, slots=True)
class ResponseHeader:
    correlation_id: int
    body_position: int


# --- which header -------------------------------------------------------------------------------------------


def request_header_version(api_key: int, version: int) -> int:
    if api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if API_KEYS[api_key].declared.is_flexible(version) else 1


def response_header_version(api_key: int, version: int) -> int:
    if api_key == API_VERSIONS:  # a client has to understand the answer before it knows what the server speaks
        return 0
    return 1 if API_KEYS[api_key].declared.is_flexible(version) else 0


# --- writing ------------------------------------------------------------------------------------------------


def encode_request(request: Message, version: int, *, correlation_id: int, client_id: str | None) -> bytes:
    """A whole frame, length included."""
    key = _key_of(request)
    header_version = request_header_version(key, version)
    out = bytearray(_LENGTH.size)
    out += _START.pack(key, version, correlation_id)
    if header_version >= 1:
        out += _client_id_bytes(client_id)
    if header_version >= 2:
        out.append(0)
    return _finished(request, version, out)


def encode_response(response: Message, version: int, *, correlation_id: int) -> bytes:
    """A whole frame, length included; correlation_id is that of the request.

    An error message that is too long for its field is shortened: it quotes what was asked, which may be as long.
    """
    try:
        return _response_frame(response, version, correlation_id)
    except UnencodableError:
        return _response_frame(with_short_messages(response), version, correlation_id)


def _response_frame(response: Message, version: int, correlation_id: int) -> bytes:
    out = bytearray(_LENGTH.size)
    out += _LENGTH.pack(correlation_id)
    if response_header_version(_key_of(response), version) >= 1:
        out.append(0)
    return _finished(response, version, out)


def _key_of(message: Message) -> int:
    key = declaration_of(message).api_key
    api = API_KEYS.get(-1 if key is None else key)
    if api is None or type(message) not in (api.request, api.response):
        raise UnencodableError(f"{type(message).__name__} is neither a request nor a response")
    return api.key


def _client_id_bytes(client_id: str | None) -> bytes:
    if client_id is None:
        return b"\xff\xff"
    raw = client_id.encode()
    if len(raw) > CLIENT_ID_BYTES_MAX:
        raise UnencodableError(f"the client id has {len(raw)} bytes, but at most {CLIENT_ID_BYTES_MAX} are possible")
    return len(raw).to_bytes(2, "big") + raw


def _finished(message: Message, version: int, out: bytearray) -> bytes:
    encode_into(message, version, out)
    size = len(out) - _LENGTH.size
    if size > FRAME_BYTES_MAX:
        raise UnencodableError(f"{type(message).__name__} takes {size} bytes, but peers accept {FRAME_BYTES_MAX}")
    _LENGTH.pack_into(out, 0, size)
    return bytes(out)


# --- reading ------------------------------------------------------------------------------------------------


def read_frame_length(prefix: bytes, bytes_max: int = FRAME_BYTES_MAX) -> int:
    """The length of the frame that follows these four bytes; refused before anything is read or allocated."""
    if len(prefix) != _LENGTH.size:
        raise _malformed("The frame", 0, "its length has four bytes")
    (length,) = _LENGTH.unpack(prefix)
    if not 0 <= length <= bytes_max:
        hello = ", and these bytes begin a TLS handshake: the peer speaks TLS, and this port does not"
        is_tls = prefix.startswith(_TLS_HANDSHAKE)
        raise _malformed(
            "The frame", 0, f"its length is {length}, but 0 to {bytes_max} are possible{hello if is_tls else ''}"
        )
    return int(length)


def read_request_header(frame: bytes) -> RequestHeader:
    """The header of a request; `frame` does not hold the length.

    An unknown key or version is refused, except an ApiVersions request of any version: it has to be answered with
    error 35 at version 0 (`is_supported` is False), so for it even an unreadable client id is no obstacle.
    """
    if len(frame) < _START.size:
        raise _malformed("The request header", 0, "the bytes end inside it")
    key, version, correlation_id = _START.unpack_from(frame)
    api = API_KEYS.get(key)
    if api is None:
        raise _malformed("The request header", 0, f"requests with key {key} are not known")
    supported = api.declared.has(version)
    if not supported and key != API_VERSIONS:
        known = f"{api.declared.lowest} to {api.declared.highest}"
        raise _malformed("The request header", 2, f"{api.name} has versions {known}, not {version}")
    try:
        client_id, position = _read_rest_of_header(frame, request_header_version(key, version))
    except FindingError:
        if supported:
            raise
        client_id, position = None, len(frame)
    return RequestHeader(key, version, correlation_id, client_id, position)


def _read_rest_of_header(frame: bytes, header_version: int) -> tuple[str | None, int]:
    client_id, position = None, _START.size
    if header_version >= 1:
        client_id, position = _read_client_id(frame, position)
    if header_version >= 2:
        position = _read_header_tags("The request header", frame, position)
    return client_id, position


def _read_client_id(frame: bytes, position: int) -> tuple[str | None, int]:
    start = position + 2
    length = int.from_bytes(frame[position:start], "big", signed=True)
    if start > len(frame) or length < -1 or start + length > len(frame):
        raise _malformed("The request header", position, "the client id does not end within the frame")
    if length == -1:
        return None, start
    try:
        return frame[start : start + length].decode(), start + length
    except UnicodeDecodeError:
        raise _malformed("The request header", start, "the client id is not UTF-8") from None


def read_response_header(frame: bytes, api_key: int, version: int) -> ResponseHeader:
    """The header of the response to a request with this key and version; `frame` does not hold the length."""
    if len(frame) < _LENGTH.size:
        raise _malformed("The response header", 0, "the bytes end inside it")
    (correlation_id,) = _LENGTH.unpack_from(frame)
    position = _LENGTH.size
    if response_header_version(api_key, version) >= 1:
        position = _read_header_tags("The response header", frame, position)
    return ResponseHeader(correlation_id, position)


def _read_header_tags(what: str, frame: bytes, position: int) -> int:
    try:
        return skip_tags(frame, position, len(frame))
    except FindingError as error:
        raise _malformed(what, position, error.occurrence.values["reason"]) from None


def decode_request(frame: bytes) -> tuple[RequestHeader, Message]:
    """Header and message; raises Z2K-3001 for an ApiVersions version from the future too, whose body nobody knows."""
    header = read_request_header(frame)
    return header, decode_request_body(header, frame)


def decode_request_body(header: RequestHeader, frame: bytes) -> Message:
    """The message behind a header that was read already."""
    return _read_body(API_KEYS[header.api_key].request, header.api_version, frame, header.body_position)


def decode_response(response: type[SomeMessage], version: int, frame: bytes) -> tuple[int, SomeMessage]:
    """Correlation id and message of the answer to a request that was sent at `version`.

    A server that does not know an ApiVersions version answers at version 0, so that is tried second.
    """
    key = declaration_of(response).api_key or 0
    assert API_KEYS[key].response is response, response
    header = read_response_header(frame, key, version)
    try:
        return header.correlation_id, _read_body(response, version, frame, header.body_position)
    except FindingError as as_asked:
        if key != API_VERSIONS:
            raise
        try:
            return header.correlation_id, _read_body(response, 0, frame, header.body_position)
        except FindingError:
            raise as_asked from None


def _read_body(message: type[SomeMessage], version: int, frame: bytes, position: int) -> SomeMessage:
    body, end = decode_from(message, version, frame, position)
    if end != len(frame):
        raise _malformed(f"{message.__name__} version {version}", end, f"{len(frame) - end} bytes are left behind it")
    return body


def _malformed(what: str, position: int, reason: str) -> FindingError:
    return MALFORMED_BYTES.error(what=what, position=position, reason=reason)
