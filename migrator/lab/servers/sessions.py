"""End the ZooKeeper session of a process that was killed, as its time-out would some seconds later.

In:   the id of the session, as a znode of it names its owner.
Out:  its ephemeral znodes are gone.
Source: ZooKeeper 3.8 `SessionTrackerImpl`, `ZooKeeperServer.generatePasswd`: who knows the password of a session may go
on with it, and end it; it is the first 16 bytes of a Java random number generator that starts from the session's id.
Only for the laboratory: a session is never taken from a process that lives.
"""

from __future__ import annotations

import logging
import struct
from typing import Final

from kazoo.client import KazooClient

SECRET: Final = 0xB3415C00
"""The same in every ZooKeeper: it keeps nobody out, it only tells sessions of different servers apart."""

PASSWORD_WORDS: Final = 4
END_TIMEOUT_S: Final = 20.0

logger = logging.getLogger(__name__)


def end_session(hosts: str, session_id: int) -> None:
    """Go on with the session, and close it. One that has ended by itself meanwhile is as good."""
    kazoo = KazooClient(hosts=hosts, client_id=(session_id, password_of(session_id)), logger=logger)
    try:
        kazoo.start(timeout=END_TIMEOUT_S)
    finally:
        kazoo.stop()
        kazoo.close()


def password_of(session_id: int) -> bytes:
    """16 bytes, by java.util.Random (nextBytes takes the words of nextInt, the lowest byte first)."""
    state = ((session_id ^ SECRET) ^ 0x5DEECE66D) & (2**48 - 1)
    words = []
    for _ in range(PASSWORD_WORDS):
        state = (state * 0x5DEECE66D + 0xB) & (2**48 - 1)
        words.append(state >> 16)
    return struct.pack("<4I", *words)
