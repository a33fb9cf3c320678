"""Which names ZooKeeper takes in a path, which names of topics are too much alike, and which hosts can be connected to.

In:   a name as a request or a record has it.
Out:  whether a znode can have it; what topics have in common that are too much alike; why a host is none.
Elsewhere: how names are escaped in paths (zk.entity_znodes), what a topic may be named (controller.names, which decides
requests; driver.checks.content, which looks at what exists).
Source: Kafka 3.9 `Topic.hasCollision`. ZooKeeper 3.8 `PathUtils.validatePath`, which sees UTF-16: a sign beyond U+FFFF
is two surrogates there, and refused. Hosts: RFC 1035 (labels of 1 to 63 bytes), RFC 3490 for those that are not ASCII.
"""

from __future__ import annotations

from typing import Final

HOST_LENGTH_MAX: Final = 255
RELATIVE: Final = (".", "..")
"""ZooKeeper refuses a path with one of these as a part, escaped or not: no byte of them is escaped by Kafka."""


def is_znode_name(name: str) -> bool:
    """No slash, no control sign, no surrogate, and no relative name."""
    return name not in ("", *RELATIVE) and "/" not in name and not any(_refused(ord(sign)) for sign in name)


def _refused(code: int) -> bool:
    return code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0


def unified(name: str) -> str:
    """The name of a topic as some of Kafka's metrics have it: topics of one unified name share them."""
    return name.replace(".", "_")


def host_problem(host: str) -> str | None:
    """Why nobody can connect to `host`, whatever a name server says; None when that is not known."""
    if not host:
        return "it is empty"
    if any(sign.isspace() or ord(sign) <= 0x20 or 0x7F <= ord(sign) <= 0x9F for sign in host):
        return "it contains a space or a control character"
    if len(host) > HOST_LENGTH_MAX:
        return f"it has {len(host)} characters, and a name has at most {HOST_LENGTH_MAX}"
    try:
        host.encode("idna")
    except UnicodeError as error:
        return str(error.__cause__ or error)
    return None
