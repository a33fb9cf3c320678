"""The principal that a broker puts into Envelope: whom it authenticated, behind a version of two bytes.

In:   a `DefaultPrincipalData`, or the bytes of EnvelopeRequest.request_principal.
Out:  the other one.
Elsewhere: what that principal may do (controller). A broker with a principal builder of its own sends other bytes,
which nobody but that builder can read; they are Z2K-3001 here and 97 PRINCIPAL_DESERIALIZATION_FAILURE to the broker.
Source: Kafka 3.9 `DefaultKafkaPrincipalBuilder`.
"""

from __future__ import annotations

from typing import Final

from migrator.wire.codec import decode, encode
from migrator.wire.messages.security import DefaultPrincipalData

PRINCIPAL_VERSION: Final = 0


def encode_principal(principal: DefaultPrincipalData) -> bytes:
    return PRINCIPAL_VERSION.to_bytes(2, "big") + encode(principal, PRINCIPAL_VERSION)


def decode_principal(data: bytes) -> DefaultPrincipalData:
    version = int.from_bytes(data[:2], "big", signed=True)
    return decode(DefaultPrincipalData, version, data[2:])
