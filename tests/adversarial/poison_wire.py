"""How poison is sent: over plain sockets, with bytes that no client library would let through.

In:   a message, or raw bytes; a port.
Out:  in words what came back. Nothing here fails when the other side refuses, closes or says nothing.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec

from migrator.findings.finding import FindingError
from migrator.lab.servers.ports import HOST
from migrator.wire.frames import decode_response, encode_request
from migrator.wire.messages.brokers import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from migrator.wire.messages.configs import UpdateFeaturesRequest, UpdateFeaturesResponse
from migrator.wire.messages.partitions import AlterPartitionRequest, AlterPartitionResponse
from migrator.wire.messages.security import DefaultPrincipalData
from migrator.wire.messages.topics import CreatableTopic, CreateTopicsRequest, MetadataRequest, MetadataRequestTopic
from migrator.wire.principal import encode_principal
from migrator.wire.schema import Message, declaration_of
from tests.adversarial.poison_requests import BROKEN
from tests.support import storm_sender

RESPONSES: Final[dict[type[Message], type[Message]]] = {
    **storm_sender.RESPONSES,
    UpdateFeaturesRequest: UpdateFeaturesResponse,
    UnregisterBrokerRequest: UnregisterBrokerResponse,
    AllocateProducerIdsRequest: AllocateProducerIdsResponse,
    BrokerHeartbeatRequest: BrokerHeartbeatResponse,
    AlterPartitionRequest: AlterPartitionResponse,
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse,
    ControllerRegistrationRequest: ControllerRegistrationResponse,
}
ANSWER_S: Final = 10.0
NO_UTF8: Final = b"\xff\xfe\xed\xa0\x80\xc0\x80\xff"
CLIENT: Final = "poison"
HEAD: Final = struct.Struct(">hhi")


def version_of(request: Message) -> int:
    """The highest that both sides know."""
    return declaration_of(type(request)).highest


def frame_of(request: Message) -> bytes:
    """With its length, and with bytes that are no UTF-8 where the request has the word for them."""
    return encode_request(request, version_of(request), correlation_id=1, client_id=CLIENT).replace(
        BROKEN.encode(), NO_UTF8
    )


def in_envelope(request: Message) -> bytes:
    """As a broker forwards what a client sent it."""
    principal = encode_principal(DefaultPrincipalData("User", "ANONYMOUS"))
    return frame_of(EnvelopeRequest(frame_of(request)[4:], principal, bytes((127, 0, 0, 1))))


def exchange(port: int, frame: bytes, timeout_s: float = ANSWER_S) -> bytes | None:
    """The payload of one answer; None when the other side closes or says nothing in time."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(frame)
            length = int.from_bytes(_exactly(connection, 4))
            return _exactly(connection, length)
    except OSError:
        return None


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return bytes(data)


def ask(port: int, request: Message, response: type[Message], timeout_s: float = ANSWER_S) -> Any:
    """The decoded answer, or None."""
    answer = exchange(port, frame_of(request), timeout_s)
    return None if answer is None else decode_response(response, version_of(request), answer)[1]


def codes_of(answer: Any) -> list[int]:
    """Every error code of a decoded answer; none of no answer."""
    return [] if answer is None else list(errors_in(msgspec.to_builtins(answer)))


def send_straight(port: int, request: Message, response: type[Message]) -> str:
    return said(exchange(port, frame_of(request)), request, response)


def send_forwarded(port: int, request: Message, response: type[Message]) -> str:
    """To the controller; the answer is that of the inner request."""
    answer = exchange(port, in_envelope(request))
    if answer is None:
        return "closed"
    outer = decode_response(EnvelopeResponse, 0, answer)[1]
    if outer.error_code or outer.response_data is None:
        return f"envelope {outer.error_code}"
    return said(outer.response_data, request, response)


def said(answer: bytes | None, request: Message, response: type[Message]) -> str:
    """Error codes and how often each, or what there was instead."""
    if answer is None:
        return "closed"
    try:
        codes = Counter(codes_of(decode_response(response, version_of(request), answer)[1]))
    except FindingError as error:
        return f"not decoded: {error.code}"
    return (
        ", ".join(f"{code}" if count == 1 else f"{code} ({count} times)" for code, count in sorted(codes.items()))
        or "no code"
    )


def errors_in(answer: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name == "error_code":
                yield value
            else:
                yield from errors_in(value)
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from errors_in(each)


# --- frames -----------------------------------------------------------------------------------------------


def broken_frames(chance: Random) -> Iterator[tuple[str, bytes]]:
    """What in words, and bytes with a length in front that may be a lie."""
    whole = frame_of(CreateTopicsRequest((CreatableTopic("cut-short", 1, 1),)))
    yield "a request cut short", whole[: len(whole) // 2]
    yield "a body cut short, its length right", _with_length(whole[4:-5])
    yield "an Envelope around nothing", frame_of(EnvelopeRequest(b"", None, b""))
    yield "an Envelope around half a request", frame_of(EnvelopeRequest(whole[4:20], None, bytes(4)))
    yield (
        "an Envelope in an Envelope",
        frame_of(EnvelopeRequest(in_envelope(CreateTopicsRequest())[4:], None, bytes(4))),
    )
    for length in (0, -1, 1, 2**31 - 1, -(2**31)):
        yield f"a length of {length}", length.to_bytes(4, signed=True) + b"\x00" * 8
    for key in (-1, 3, 4, 5, 6, 7, 35, 999, 2**15 - 1):
        yield f"api key {key}", _with_length(HEAD.pack(key, 0, 1) + b"\xff\xff" + b"\x00" * 20)
    for key, version in ((19, 99), (18, 99), (1, -1), (62, 2**15 - 1)):
        yield (
            f"version {version} of api key {key}",
            _with_length(HEAD.pack(key, version, 1) + b"\xff\xff" + b"\x00" * 20),
        )
    yield "an array of 2^28 topics", _with_length(HEAD.pack(19, 7, 1) + b"\xff\xff\x00" + b"\xff\xff\xff\xff\x01")
    yield "2^28 tagged fields", _with_length(HEAD.pack(19, 7, 1) + b"\xff\xff" + b"\xff\xff\xff\xff\x01" + b"\x00" * 9)
    yield "a client id that is no text", _with_length(HEAD.pack(19, 7, 1) + b"\x00\x08" + NO_UTF8 + b"\x00" * 12)
    yield (
        "4 MB of Metadata",
        frame_of(MetadataRequest(tuple(MetadataRequestTopic(name="m" * 200) for _ in range(20_000)))),
    )
    for _ in range(8):
        yield "random bytes", _with_length(chance.randbytes(chance.choice((8, 100, 10_000))))
    for key in (1, 19, 44, 49, 51, 52, 58, 62, 63):
        yield (
            f"a random body of api key {key}",
            _with_length(HEAD.pack(key, 0, 1) + b"\xff\xff\x00" + chance.randbytes(200)),
        )


def _with_length(payload: bytes) -> bytes:
    return len(payload).to_bytes(4) + payload
