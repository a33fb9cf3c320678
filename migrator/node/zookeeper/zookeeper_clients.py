"""Who else speaks to ZooKeeper? Tools that pass Kafka by do not see what a KRaft controller does (F-57).

In:   a session, whose connect string names the servers to ask; their answers to the command `cons`.
Out:  occurrences: the sessions that are of no broker, and the servers that do not tell.
Limits: a program on a broker's host has its address and is taken for the broker, whose authorizer has a session of its
own there. ZooKeeper answers `cons` only where 4lw.commands.whitelist has it.
Source: ZooKeeper's four letter words.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from migrator.findings.content import FOREIGN_SESSIONS, SESSIONS_NOT_READ
from migrator.findings.finding import Occurrence, words_of
from migrator.model.connect_string import place_of, servers_of
from migrator.zk import paths
from migrator.zk.session import ZkSession
from migrator.zk.tls_sockets import ZkSockets, fault_of

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 64 << 20
SHOWN: Final = 20

_CONNECTION: Final = re.compile(r"^ ?/(.+):\d+\[\d+\]\(.*\bsid=0x([0-9a-f]+)", re.MULTILINE)
_NOT_ALLOWED: Final = "not in the whitelist"


@dataclass(frozen=True, slots=True)
class Connection:
    """One client of one server: where from, under which session."""

    address: str
    session: int


def foreign_sessions(session: ZkSession) -> Iterator[Occurrence]:
    """Ask every server of the connect string. Sessions of brokers are told by who holds `/brokers/ids/*`."""
    found: list[Connection] = []
    for server in servers_of(session.connect):
        answer = _ask(server, session.sockets)
        if isinstance(answer, str):
            found += parse_connections(answer)
        else:
            yield answer
    ids = [paths.broker_id(name) for name in session.children(paths.BROKER_IDS) or []]
    brokers = {znode.owner for znode in session.get_many(ids) if znode is not None and znode.owner}
    foreign = not_of_brokers(found, brokers, session.session_id)
    if foreign:
        texts = [f"{each.address} (session 0x{each.session:x})" for each in foreign]
        more = [f"and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
        yield FOREIGN_SESSIONS.found(count=len(foreign), clients=", ".join(texts[:SHOWN] + more))


def parse_connections(answer: str) -> list[Connection]:
    """The connections with a session; that of the question itself has none."""
    return [Connection(address, int(sid, 16)) for address, sid in _CONNECTION.findall(answer)]


def not_of_brokers(found: Iterable[Connection], brokers: Collection[int], own: int) -> list[Connection]:
    """Neither a broker's session nor our own, and not from an address at which a broker is."""
    everyone = sorted(set(found), key=lambda each: (each.address, each.session))
    hosts = {each.address for each in everyone if each.session in brokers}
    return [each for each in everyone if each.session not in {*brokers, own} and each.address not in hosts]


def _ask(server: str, sockets: ZkSockets) -> str | Occurrence:
    try:
        with sockets.open(place_of(server), TIMEOUT_S) as connection:
            connection.sendall(b"cons")
            answer = b""
            while len(answer) < ANSWER_BYTES_MAX and (part := connection.recv(1 << 16)):
                answer += part
    except ssl.SSLError as error:
        return SESSIONS_NOT_READ.found(server=server, reason=fault_of(error, place_of(server)[0]))
    except (OSError, ValueError, OverflowError) as error:  # ValueError: a host that is no name
        return SESSIONS_NOT_READ.found(server=server, reason=words_of(error))
    text = answer.decode(errors="replace")
    if _NOT_ALLOWED in text:
        return SESSIONS_NOT_READ.found(server=server, reason="cons is not in 4lw.commands.whitelist")
    return text
