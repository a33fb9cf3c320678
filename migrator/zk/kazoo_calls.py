"""One question to ZooKeeper through kazoo: to whom it goes, how long it may take, and what its trouble is called.

In:   kazoo's client, a path. Out: a refusal where nothing is connected, kazoo's exceptions as findings.
Elsewhere: the questions themselves (session.py, pipeline.py).
Errors: Z2K-2002 when an answer was lost or nothing is connected, Z2K-2004 when the server refuses.
"""

from __future__ import annotations

from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from migrator.findings.finding import FindingError, words_of
from migrator.findings.zookeeper import ZOOKEEPER_LOST, ZOOKEEPER_REFUSES
from migrator.zk.bulk_read import Znode

CALL_TIMEOUT_S: Final = 30.0
"""Longer than any session time-out in use: a call that lasts longer is a lost connection, not a slow one."""


def is_connected(client: KazooClient) -> bool:
    """Whether the server takes writes: one without a majority, which can still be read, does not count."""
    return bool(client.client_state == KeeperState.CONNECTED)


def refuse_unconnected(client: KazooClient, path: str, fault: str = "") -> None:
    """kazoo would keep the request until it is connected again, however long that takes. fault: of the last login."""
    if not is_connected(client):
        raise ZOOKEEPER_LOST.error(path=path, reason=fault or "not connected to a server that takes writes")


class translated:
    """kazoo's exceptions as ours."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        match error:
            case None | FindingError():
                return
            case ConnectionLoss() | SessionExpiredError() | ConnectionClosedError() | KazooTimeoutError():
                raise ZOOKEEPER_LOST.error(path=self._path, reason=_WORDS[type(error)]) from error
            case NoAuthError() | AuthFailedError():
                raise ZOOKEEPER_REFUSES.error(path=self._path, reason=_WORDS[type(error)]) from error
            case KazooException():
                raise ZOOKEEPER_REFUSES.error(path=self._path, reason=words_of(error)) from error


_WORDS: Final[dict[type[BaseException], str]] = {
    ConnectionLoss: "the connection broke",
    SessionExpiredError: "the session expired",
    ConnectionClosedError: "the connection is closed",
    KazooTimeoutError: f"no answer within {CALL_TIMEOUT_S:.0f} s",
    NoAuthError: "an access list does not allow it",
    AuthFailedError: "the login was refused",
}


def znode_of(data: bytes, stat: Any) -> Znode:
    return Znode(data, stat.version, stat.mzxid, stat.czxid, stat.ephemeralOwner or 0, stat.aversion, stat.numChildren)
