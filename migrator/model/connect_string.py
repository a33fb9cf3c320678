"""A connect string, such as `zk1:2181,zk2:2181/kafka`, as ZooKeeper's own client reads it.

In:   the text of `zookeeper.connect`, or of an option that takes the same.
Out:  its servers as written, host and port of each, the chroot, and the text without what may be left out.
Errors: ValueError for a text that names no server, or a port that is no number.
Rules: spaces around servers and empty ones, such as behind a trailing comma, mean nothing. A server without a port has
2181. All servers of one string share the chroot.
Source: ZooKeeper 3.8 `ConnectStringParser`, `StringUtils.split`, `NetUtils.getIPV6HostAndPort`.
"""

from __future__ import annotations

import re
from typing import Final

from migrator.model.listeners import JAVA_BLANKS

BROKER_ADDRESSES_MAX: Final = 260_000
"""Characters of the addresses of a thousand brokers, each with a host name of 253 and a port."""

DEFAULT_PORT: Final = 2181
_IN_BRACKETS: Final = re.compile(r"\[(.*)\](?::([0-9]*))?")


def servers_of(connect: str) -> tuple[str, ...]:
    """The servers in their order, each as it is written."""
    return tuple(server for each in connect.partition("/")[0].split(",") if (server := each.strip(JAVA_BLANKS)))


def chroot_of(connect: str) -> str:
    """The chroot of a connect string, "" for none."""
    return f"/{connect.strip(JAVA_BLANKS).partition('/')[2]}".rstrip("/")


def place_of(server: str) -> tuple[str, int]:
    """Host and port of one server; an IPv6 address comes without its brackets. Raises ValueError."""
    bracketed = _IN_BRACKETS.fullmatch(server)
    if bracketed is not None:
        host, port = bracketed[1], bracketed[2]
    else:
        host, _, port = server.rpartition(":") if ":" in server else (server, "", "")
    if not host or not re.fullmatch("[0-9]{0,5}", port or ""):
        raise ValueError(f"{server!r} is not HOST:PORT")
    return host, int(port or DEFAULT_PORT)


def places_of(connect: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each server. Raises ValueError."""
    places = tuple(map(place_of, servers_of(connect)))
    if not places:
        raise ValueError("it names no server")
    return places


def plain_form(connect: str) -> str:
    """The same without spaces and empty servers, each with its port. Raises ValueError."""
    servers = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places_of(connect))
    return ",".join(servers) + chroot_of(connect)
