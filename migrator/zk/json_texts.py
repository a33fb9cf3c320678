"""Bytes that Kafka's reader of JSON takes for none, and ours would read: what it skips, it checks too.

In:   the bytes of a znode.
Out:  why Kafka has no JSON there, or nothing. For what Kafka reads of the rest, see the readers.
Elsewhere: reading for the copy (znodes.py, acl_znodes.py), for audits (audit.normalise, audit.security_facts); tried
against Kafka's own classes by tests/e2e/test_kafkas_own_readers.py.
Why:  msgspec does not look into a value that nobody wants. Kafka parses the whole text first. Where it cannot, it takes
a topic for one without partitions, and a configuration or a list of ACLs for an empty one, in silence.
Source: Jackson 2.16 in Kafka 3.7 to 3.9 (`UTF8StreamJsonParser`, `StreamReadConstraints`); Kafka 3.6 has no limits.
"""

from __future__ import annotations

from typing import Final

import msgspec

NUMBER_SIGNS_MAX: Final = 1_000
NAME_BYTES_MAX: Final = 50_000

_SIGNS: Final = bytes(ord("0") if chr(each) in "-+.0123456789eE" else ord(" ") for each in range(256))
_LONG_NUMBER: Final = b"0" * (NUMBER_SIGNS_MAX + 1)


def check_json(data: bytes) -> bytes:
    """Return the same bytes. Raises what decoders raise (`msgspec.DecodeError`, `UnicodeDecodeError`)."""
    data.decode()
    if len(data) > NUMBER_SIGNS_MAX:
        _check_lengths(data)
    return data


def _check_lengths(data: bytes) -> None:
    """In one pass or two, whatever stands there: anybody may write a znode."""
    if _LONG_NUMBER in data.translate(_SIGNS):
        raise msgspec.DecodeError(f"it has more than {NUMBER_SIGNS_MAX:,} signs of a number in a row")
    if len(data) > NAME_BYTES_MAX:
        parts = data.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')  # every other one is a string
        for text, behind in zip(parts[1::2], parts[2::2], strict=False):
            if len(text) > NAME_BYTES_MAX and behind.lstrip().startswith(b":"):
                raise msgspec.DecodeError(f"a key takes more than {NAME_BYTES_MAX:,} bytes")
