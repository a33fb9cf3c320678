"""Whether there is a server at all: names are resolved and TCP connections tried, before a session is begun.

In:   the servers of a connect string. Out: nothing as soon as one of them accepts, else each with the reason.
Elsewhere: the session (session.py), whose client would try a mistyped address for as long as it may.
Limits: a server that accepts may still have no majority, or want TLS; that the session finds out.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Sequence
from typing import Final, TypeAlias

from migrator.findings.finding import words_of
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.model.connect_string import places_of

WITHIN_S: Final = 2.0
"""For all of them together: they are tried at the same time."""

Server: TypeAlias = tuple[str, int]


def reach(connect: str, within_s: float = WITHIN_S) -> None:
    """Raises Z2K-2001, with each address and why it cannot be used, when none of them accepts."""
    try:
        servers = sorted(set(places_of(connect)))
    except ValueError as error:
        reason = f"it is not HOST:PORT[,HOST:PORT][/chroot] ({error})"
        raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason=reason) from error
    refused = _tried(servers, within_s)
    if refused is not None:
        reason = "; ".join(f"{host}:{port}: {why}" for (host, port), why in refused.items())
        raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason=reason)


def _tried(servers: Sequence[Server], within_s: float) -> dict[Server, str] | None:
    """Why each is refused; None as soon as one accepts. A thread that a resolver keeps is left behind: a daemon."""
    answers: queue.SimpleQueue[tuple[Server, str]] = queue.SimpleQueue()
    for server in servers:
        threading.Thread(target=_try, args=(server, within_s, answers), daemon=True, name="zookeeper-reach").start()
    refused = dict.fromkeys(servers, f"no answer within {within_s:g} s")
    deadline = time.monotonic() + within_s
    for _ in servers:
        try:
            server, why = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if not why:
            return None
        refused[server] = why
    return refused


def _try(server: Server, within_s: float, answers: queue.SimpleQueue[tuple[Server, str]]) -> None:
    answers.put((server, _why_not(server, within_s)))


def _why_not(server: Server, within_s: float) -> str:
    """Empty when it accepts."""
    try:
        socket.create_connection(server, within_s).close()
    except socket.gaierror as error:
        return f"the name is not resolved ({words_of(error)})"
    except TimeoutError:
        return f"no answer within {within_s:g} s"
    except OSError as error:
        return words_of(error)
    except (UnicodeError, OverflowError):
        return "it is no address"
    return ""
