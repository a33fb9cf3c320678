"""Real starts with odd listeners: Kafka's controller and ours end alike, or listen with the same protocol.

What a port speaks is seen from outside: whether it takes a TLS handshake, and whether it answers without a login.
The files are those of tests/e2e/test_listener_files.py, with ports and hosts of this machine. All have a certificate:
without one stock listens with TLS, and no handshake with it ever ends.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from migrator.lab.ours import PROGRAM
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.probe import any_server
from migrator.lab.servers.processes import Process
from migrator.lab.servers.tools import random_cluster_id
from migrator.model.values import SecurityProtocol
from migrator.node.config.formatting import bootstrap_checkpoint, level_of
from migrator.node.log.storage import format_directory
from tests.e2e.support import wait_for
from tests.e2e.test_listener_files import REFUSALS, how_ours_reads, is_only_ours
from tests.support.certificates import Authority
from tests.support.listener_files import PORTS, Answer, ask_kafka, some_files, written
from tests.unit.node.config.test_listener_names import MAP_LACKS_CONTROLLER, MAP_LOWER_CASE

pytestmark = pytest.mark.lab

HOST = "127.0.0.1"
SAMPLE = {"": 11, "parser": 4, "start": 7, "only ours": 3}
"""How many of each: both start, stock's parser refuses, its start refuses, only ours refuses."""
_TOPIC = b"__cluster_metadata"
DESCRIBE_QUORUM = struct.pack(">hhihbb", 55, 0, 1, -1, 0, 2) + bytes([len(_TOPIC) + 1]) + _TOPIC + b"\2\0\0\0\0\0\0\0"
"""Version 0: a request that nobody answers before a login."""


def what_it_speaks(port: int) -> SecurityProtocol:
    try:
        with _connected(port, any_server(None)) as secure:
            answers = _answers(secure)
        return SecurityProtocol.SSL if answers else SecurityProtocol.SASL_SSL
    except (ssl.SSLError, ConnectionError):
        with _connected(port, None) as plain:
            return SecurityProtocol.PLAINTEXT if _answers(plain) else SecurityProtocol.SASL_PLAINTEXT


def _connected(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection((HOST, port), 20)
    return plain if tls is None else tls.wrap_socket(plain)


def _answers(connection: socket.socket) -> bool:
    connection.sendall(struct.pack(">i", len(DESCRIBE_QUORUM)) + DESCRIBE_QUORUM)
    try:
        return bool(connection.recv(4))
    except ConnectionError:
        return False


class Starts:
    """One controller at a time, of either kind, in a directory of its own."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._cluster = random_cluster_id()
        self._count = 0

    def stock(self, keys: Mapping[str, str]) -> tuple[str, Process]:
        name, file = self._prepared(keys)
        return name, self._laboratory.java(name, "kafka.Kafka", file, heap_mb=256)

    def ours(self, keys: Mapping[str, str]) -> tuple[str, Process]:
        name, file = self._prepared(keys)
        return name, self._laboratory.processes.start(name, [sys.executable, *PROGRAM, "controller", str(file)])

    def _prepared(self, keys: Mapping[str, str]) -> tuple[str, Path]:
        self._count += 1
        name = f"start-{self._count}"
        data = self._laboratory.directory / name / "data"
        data.mkdir(parents=True)
        format_directory(data, self._cluster, int(keys["node.id"]), bootstrap_checkpoint(level_of("3.9")))
        return name, written(data.parent / "server.properties", {**keys, "log.dirs": str(data)})

    def protocols(self, process: Process, ports: Mapping[int, str]) -> dict[str, str] | None:
        """By listener; None when the process ends."""
        try:
            waiting = list(ports)

            def why_not() -> str | None:
                while process.alive and waiting:
                    try:
                        socket.create_connection((HOST, waiting[0]), 5).close()
                    except OSError:
                        return f"port {waiting[0]} does not accept"
                    waiting.pop(0)
                return None if not process.alive or ports else "it runs"

            wait_for(why_not, "it listens or ends", deadline_s=150)
            return {name: what_it_speaks(port).name for port, name in ports.items()} if process.alive else None
        finally:
            process.kill()


def of_this_machine(laboratory: Laboratory, keys: dict[str, str]) -> dict[str, str]:
    """With hosts and ports that exist here; a port that is given twice stays so. At the other voters' nobody listens:
    stock's Raft client ends its process for lack of memory where it speaks in clear to a port with TLS.
    """
    ports = {port: laboratory.ports.reserve() for port in PORTS}
    voters = ",".join(f"{node}@{HOST}:{laboratory.ports.reserve()}" for node in (3001, 3002, 3003))
    found = {**keys, "controller.quorum.voters": voters}
    for key in ("listeners", "advertised.listeners"):
        for host in ("[::1]", "[::]", "0.0.0.0", "k-1.example", "a_b", "localhost", "::1"):
            found[key] = found.get(key, "").replace(host, HOST)
        for old, new in ports.items():
            found[key] = found[key].replace(f":{old}", f":{new}")
        if key not in keys:
            del found[key]
    return found


def ports_of(answer: Answer) -> dict[int, str]:
    listening = (each.rpartition("=")[0].partition("://") for each in answer.listeners.split(",") if each)
    return {int(place.rpartition(":")[2]): name for name, _, place in listening}


@pytest.mark.long
def test_kafkas_controller_and_ours_start_with_the_same_files_and_protocols(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "authority")
    candidates = [
        keys
        for keys in some_files(3604, 700, authority.sign("controller").pem, authority.trusted)
        if "zookeeper.connect" not in keys and {"listeners", "ssl.keystore.location"} <= keys.keys()
    ]
    answers = ask_kafka(laboratory, [written(tmp_path / f"{at}", keys) for at, keys in enumerate(candidates)])
    chosen: dict[str, list[dict[str, str]]] = defaultdict(list)
    for at, (keys, theirs) in enumerate(zip(candidates, answers, strict=True)):
        ours = how_ours_reads(tmp_path / f"{at}")
        kind = "only ours" if not theirs.by and is_only_ours(ours, theirs, keys) else theirs.by
        if len(chosen[kind]) < SAMPLE[kind]:
            chosen[kind].append(of_this_machine(laboratory, keys))
    assert {kind: len(found) for kind, found in chosen.items()} == SAMPLE
    starts = Starts(laboratory)
    for kind, sample in chosen.items():
        for keys in sample:
            (theirs,) = ask_kafka(laboratory, [written(tmp_path / "one", keys)])
            said = dict(zip(ports_of(theirs).values(), _protocols(theirs), strict=True)) or None
            name, process = starts.stock(keys)
            seen = starts.protocols(process, ports_of(theirs))
            if kind == "only ours":  # it runs; without a mechanism it closes every connection
                assert seen is not None, (name, keys)
            else:
                assert seen == said, (name, keys)
            name, process = starts.ours(keys)
            assert starts.protocols(process, ports_of(theirs)) == (None if kind == "only ours" else said), (name, keys)
            log = process.log_text()
            refused = any(f"{code} /" in log for code in REFUSALS)  # what a probe leaves in the log is none
            assert refused is (kind != ""), (name, log)


def _protocols(answer: Answer) -> list[str]:
    return [each.rpartition("=")[2] for each in answer.listeners.split(",") if each]


def test_a_client_without_a_login_is_not_answered_where_the_map_is_in_lower_case(laboratory: Laboratory) -> None:
    """As met in the field; and a misspelt name in the map ends the start."""
    port = laboratory.ports.reserve()
    starts = Starts(laboratory)

    def keys(text: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in text.replace("31201", str(port)).splitlines())

    for start in (starts.stock, starts.ours):
        _, process = start(keys(MAP_LOWER_CASE))
        assert starts.protocols(process, {port: "CONTROLLER"}) == {"CONTROLLER": "SASL_PLAINTEXT"}
        _, process = start(keys(MAP_LACKS_CONTROLLER))
        assert starts.protocols(process, {port: "CONTROLLER"}) is None
    assert "Z2K-3010" in process.log_text()
