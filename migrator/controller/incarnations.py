"""Which software registered a controller: our incarnation ids can be told from Kafka's, which are random.

In:   random bytes; the incarnation of a registration.
Out:  an id whose second half is a check of its first one. Of Kafka's ids one in 2^64 looks so by chance.
Why: a registration is in the log and in every snapshot, also one that a stock controller wrote, and every leader reads
it. Nothing else says durably who was stock. It may be of a process that is gone: a fetch says who runs now.
Below metadata.version 3.7-IV0 no controller registers; then only fetches tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from migrator.model.values import Controller

_HALF: Final = 8
_SALT: Final = b"zk2kraft controller"


def our_incarnation(drawn: bytes) -> bytes:
    """drawn: 8 random bytes. The text of the id never begins with a dash, as with Kafka's own."""
    assert len(drawn) == _HALF, len(drawn)
    first = bytes([drawn[0] & 0x7F]) + drawn[1:]
    return first + _check(first)


def is_ours(incarnation: bytes) -> bool:
    return incarnation[_HALF:] == _check(incarnation[:_HALF])


def registered_by_others(controllers: Mapping[int, Controller], voters: Iterable[int]) -> list[int]:
    """Voters whose registration is not one of ours; one that never registered is not among them."""
    return [each for each in sorted(voters) if each in controllers and not is_ours(controllers[each].incarnation)]


def _check(first: bytes) -> bytes:
    return hashlib.sha256(_SALT + first).digest()[:_HALF]
