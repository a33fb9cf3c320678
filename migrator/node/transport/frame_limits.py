"""How large a request may be, by what it asks and by who asks, before its body is read.

In:   the key and the size that a frame says of itself, who is at the other end, what that one may do.
Out:  why the connection ends; None when the frame may be read.
Elsewhere: who somebody is (authentication.py), what is answered (controller_apis.py), what one element of an array
needs at least (wire: a count is compared with the bytes that are left before anything is built).
Source: `socket.request.max.bytes` is Kafka's, and its only limit. The others are ours: every voter reads what anybody
sends, and a body of 4 MB costs nearly a second of the loop and 90 MB before anybody asks whether it is allowed. What a
controller does not serve ends the connection, as in Kafka's `SocketServer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from migrator.controller.authorizer import Asker
from migrator.controller.features import CONTROLLER_APIS
from migrator.wire.frames import API_KEYS
from migrator.wire.messages.brokers import EnvelopeRequest
from migrator.wire.schema import Message

SMALL_BYTES_MAX: Final = 65_536
"""Always read. Requests about one node are never larger, nor is anything that somebody sends who may not ask it."""

PARTLY_ALLOWED_BYTES_MAX: Final = 1_048_576
"""Of requests whose topics are looked at one by one, from somebody who is no broker: thousands of topics."""

ABOUT_ONE_NODE: Final = frozenset({1, 7, 17, 18, 29, 36, 41, 50, 52, 53, 54, 55, 59, 60, 63, 64, 67, 70, 80, 81, 82})
"""Fetch and FetchSnapshot of the one metadata log, the quorum's own, heartbeats, logins, questions without lists."""

ON_THREAD_BYTES: Final = 1 << 18
"""What is larger is decoded on a thread: the loop has heartbeats."""

Allows = Callable[[Message, Asker], bool]


def refuse_key(key: int) -> str | None:
    if key in CONTROLLER_APIS:
        return None
    name = API_KEYS[key].name if key in API_KEYS else f"request {key}"
    return f"{name} is not served by a controller"


def refuse_size(key: int, size: int, asker: Asker, allows: Allows, request_bytes_max: int) -> str | None:
    """size: of the frame without its length. allows: whether somebody may ask such a request at all."""
    refusal = refuse_key(key)
    if refusal is not None:
        return refusal
    limit = min(_limit(key, asker, allows) if size > SMALL_BYTES_MAX else SMALL_BYTES_MAX, request_bytes_max)
    if size > limit:
        return f"{API_KEYS[key].name} of {size} bytes from {asker.principal}, who may send {limit}"
    return None


def _limit(key: int, asker: Asker, allows: Allows) -> int:
    kind = API_KEYS[key].request
    if key in ABOUT_ONE_NODE or not allows(kind(), asker):
        return SMALL_BYTES_MAX
    is_broker = allows(EnvelopeRequest(), asker)
    return UNLIMITED if is_broker or key in WHOLE else PARTLY_ALLOWED_BYTES_MAX


UNLIMITED: Final = 1 << 31
WHOLE: Final = frozenset({30, 31, 43, 45, 46, 49, 51, 56, 57, 58, 62, 73})
"""Allowed or not as a whole: who may ask them may ask all of it."""
