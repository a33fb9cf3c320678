"""Builds encoders and decoders when they are first needed, and keeps them.

In:   a declared message class and a version.
Out:  `encoder_for` and `decoder_for`: plain functions, one per class and version, each built in under a millisecond.
Elsewhere: the words of the generated source (`encoders`, `decoders`), the public face (`codec`).
Errors: decoders raise Z2K-3001 and nothing else, whatever the bytes; encoders raise Z2K-3002 and UnencodableError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

from migrator.findings.finding import FindingError
from migrator.findings.quorum import MALFORMED_BYTES
from migrator.wire.decoders import decoder_source
from migrator.wire.encoders import encoder_source
from migrator.wire.schema import Message, Part, declaration_of
from migrator.wire.source import GeneratedSource

SomeMessage = TypeVar("SomeMessage", bound=Message)

Encoder = Callable[[Any, bytearray], None]
Decoder = Callable[[bytes, int, int], tuple[SomeMessage, int]]

# What generated encoders run into when a value has the wrong type or size.
CANNOT_WRITE: Final = (struct.error, TypeError, AttributeError, ValueError, OverflowError)
# What generated decoders run into when the bytes are wrong: refusals, the end of the buffer, text that is not UTF-8.
CANNOT_READ: Final = (FindingError, struct.error, IndexError, UnicodeDecodeError)


@cache
def encoder_for(message: type[Message], version: int) -> Encoder:
    """The function that appends a message of this class to a bytearray; what it raises still wants `unencodable`."""
    if not declaration_of(message).has(version):
        raise ValueError(f"{message.__name__} version {version} does not exist")
    return encoder_source(message, version).compiled("encode")


@cache
def part_encoder_for(part: type[Part], message: type[Message], version: int) -> Encoder:
    """The same for a part, as it stands in messages of this class and version."""
    return encoder_source(message, version, part).compiled("encode")


@cache
def decoder_for(message: type[SomeMessage], version: int) -> Decoder[SomeMessage]:
    """The function that reads a message of this class from buffer[position:end]."""
    if not declaration_of(message).has(version):
        return _refuse_version(message, version)
    return _compiled(message, version, "")


@cache
def streaming_decoder_for(
    message: type[SomeMessage], version: int, array: str, wanted: frozenset[str]
) -> Callable[..., Any]:
    """Like `decoder_for`; the elements of one array go one by one to the fourth argument and are not kept."""
    return _compiled(message, version, array, wanted)


def _compiled(
    message: type[Message], version: int, handed_on: str, wanted: frozenset[str] = frozenset()
) -> Callable[..., Any]:
    source = decoder_source(message, version, handed_on, wanted)
    source.namespace["FAILURES"] = CANNOT_READ
    source.namespace["located"] = _locator(f"{message.__name__} version {version}", source)
    return source.compiled("decode")


def _locator(name: str, source: GeneratedSource) -> Callable[[Exception, int], FindingError]:
    """Name message, field and place of a failure; the field follows from the line of generated code it was in."""

    def located(error: Exception, position: int) -> FindingError:
        assert error.__traceback__ is not None
        field = source.field_at(error.__traceback__.tb_lineno)
        return MALFORMED_BYTES.error(
            what=f"{name}, {field}" if field else name, position=position, reason=_reason(error)
        )

    return located


def _reason(error: Exception) -> str:
    match error:
        case FindingError():
            return str(error.occurrence.values["reason"])
        case UnicodeDecodeError():
            return "the text is not UTF-8"
        case _:
            return "the bytes end inside it"


def _refuse_version(message: type[Message], version: int) -> Callable[..., Any]:
    declared = declaration_of(message)

    def refuse_version(_buffer: bytes, position: int, _end: int) -> Any:
        raise MALFORMED_BYTES.error(
            what=f"{declared.name} version {version}",
            position=position,
            reason=f"versions {declared.lowest} to {declared.highest} are known",
        )

    return refuse_version
