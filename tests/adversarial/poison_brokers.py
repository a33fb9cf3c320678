"""Brokers that are none: registrations with hosts that are no names, and more listeners than anybody has.

In:   the cluster's id, the controller's port.
Out:  each registered, and unfenced where that is granted, so that a controller has to tell it everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from migrator.lab.servers.broker import LISTENER
from migrator.wire.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from tests.adversarial.poison_requests import BROKEN
from tests.adversarial.poison_wire import ask

FIRST_ID: Final = 900
LEVEL_OF_3_9: Final = 21
OFFSET: Final = 2**62
"""Further than any log: whoever has read so far is caught up."""

HOSTS: Final = (
    *("kafka-0..svc", ".", "..", "", " ", "a" * 64, f"{'a' * 64}.example", "a" * 300, "b" * 20_000, "host name"),
    *(
        "zoë.example",
        "日本",
        "xn--",
        "-a-",
        "a_b",
        "127.0.0.1\n",
        "[::1",
        "::1%lo",
        "256.1.1.1",
        "a/b",
        "a:b",
        "a\x00b",
        BROKEN,
    ),
)
"""Those that no resolver takes are refused or fail at once; none of them may reach further than this machine."""


def registrations(chance: Random, cluster_id: str) -> Iterator[tuple[str, BrokerRegistrationRequest]]:
    number = FIRST_ID
    for host in HOSTS:
        shown = host if len(host) < 30 else f"{host[:4]}… ({len(host)})"
        yield f"host {shown!r}", _broker(chance, cluster_id, number, (_listener(host),))
        number += 1
    many = tuple(RegistrationListener(f"L{each}", "127.0.0.1", 1, 0) for each in range(2_000))
    yield "2000 listeners", _broker(chance, cluster_id, number, (_listener("127.0.0.1"), *many))
    yield "the same listener twice", _broker(chance, cluster_id, number + 1, (_listener("127.0.0.1"),) * 2)
    yield "port 0", _broker(chance, cluster_id, number + 2, (RegistrationListener(LISTENER, "127.0.0.1", 0, 0),))
    odd = RegistrationListener(LISTENER, "127.0.0.1", 1, 127)
    yield "a protocol that nobody knows", _broker(chance, cluster_id, number + 3, (odd,))
    yield "nobody listens there", _broker(chance, cluster_id, number + 4, (_listener("127.0.0.1"),))


def _listener(host: str) -> RegistrationListener:
    return RegistrationListener(LISTENER, host, 1, 0)


def _broker(
    chance: Random, cluster_id: str, number: int, listeners: tuple[RegistrationListener, ...]
) -> BrokerRegistrationRequest:
    features = (RegistrationFeature("metadata.version", LEVEL_OF_3_9, LEVEL_OF_3_9),)
    directories = (chance.randbytes(16),)
    return BrokerRegistrationRequest(
        number, cluster_id, chance.randbytes(16), listeners, features, None, True, directories
    )


def register(port: int, request: BrokerRegistrationRequest) -> str:
    """Register and ask to be unfenced; what was answered, in words."""
    answer = ask(port, request, BrokerRegistrationResponse)
    if answer is None:
        return "closed"
    if answer.error_code:
        return f"{answer.error_code}"
    beat = BrokerHeartbeatRequest(request.broker_id, answer.broker_epoch, OFFSET, want_fence=False)
    alive = ask(port, beat, BrokerHeartbeatResponse)
    if alive is None:
        return "registered, then closed"
    return f"registered, then {alive.error_code or ('fenced' if alive.is_fenced else 'unfenced')}"
