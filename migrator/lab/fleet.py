"""The laboratory's processes as a fleet that the service operates by `exec` templates, like hosts of its own.

In:   servers by node id. Out: an inventory file and a template in a directory; a socket that carries out their acts.
Elsewhere: the command that speaks to it (fleetctl.py), inventory and templates themselves (migrator.fleet).
Rules: files are read and written by the template's own commands on disk. A node starts with the file as it is, whatever
the laboratory last wrote. An act on a node that is there already does nothing.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from migrator.findings.finding import FindingError
from migrator.lab import fleetctl
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.broker import BrokerMode, BrokerProcess
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import read
from migrator.lab.servers.server import Server

TEMPLATE: Final = "laboratory.yaml"
GUARD: Final = "zk2kraft-guard"
LISTENER: Final = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class ActDone:
    """What the fleet did, for tests and reports. at: seconds since 1970."""

    act: str
    node: int


class LabFleet:
    """One cluster's brokers and the stock controllers that take the place of ours.

    before_act, after_act: called with the act and the node, on the thread of the act; tests stop things there. `write`
    and `written` stand around the writing of a properties file, not of what is written beside it.
    """

    def __init__(self, cluster: LabCluster, controllers: Iterable[OurController]) -> None:
        self.cluster = cluster
        self.ours = list(controllers)
        laboratory = cluster.laboratory
        self.stock = {each.spec.node_id: StockController(laboratory, each.spec, each.cluster_id) for each in self.ours}
        self.servers: dict[int, Server] = {broker.broker_id: broker for broker in cluster.brokers}
        self.servers.update(self.stock)
        self.done: list[ActDone] = []
        self.most_down = 0
        """The most nodes that were stopped and not yet started again at one time. A controller of ours that is put back
        is started by the service, and counts as started once its control port is open.
        """
        self._down: set[int] = set()
        self.before_act: Callable[[str, int], None] | None = None
        self.after_act: Callable[[str, int], None] | None = None
        self.directory = laboratory.directory / "fleet"
        self.canary = False
        """Whether the inventory wants canary traffic."""
        self.security: Mapping[str, object] = {}
        """How the service reaches brokers, with references to secrets, as the inventory has it."""
        self.quorum_security: Mapping[str, object] = {}
        """Further keys of the inventory's quorum: protocol, mechanism, super users, encoded passwords."""
        self.guard = self.directory / GUARD
        """Stock controllers start behind it, as they do on a host of their own."""
        self._locks = {node: threading.Lock() for node in self.servers}
        self._socket: socket.socket | None = None

    # --- files for the service -----------------------------------------------------------------------------

    def write(self, name: str) -> Path:
        """The inventory NAME.yaml and its template, in the directory that `fleets` of the service names."""
        templates = self.directory / "templates"
        templates.mkdir(parents=True, exist_ok=True, mode=0o700)
        for place in (self.directory, templates):
            place.chmod(0o700)
        self._install_guard()
        self._write_file(templates / TEMPLATE, self._template())
        self._write_file(self.directory / f"{name}.yaml", self._inventory(name))
        return self.directory

    def _write_file(self, path: Path, document: Mapping[str, object]) -> None:
        """JSON is YAML."""
        path.write_text(json.dumps(document, indent=1) + "\n")
        path.chmod(0o600)

    def _install_guard(self) -> None:
        self.guard.write_bytes(shipped_guard().read_bytes())
        self.guard.chmod(0o755)
        for each in self.stock.values():
            each.behind = (str(self.guard),)

    def _template(self) -> dict[str, object]:
        shell = ["/bin/sh", "-c"]
        control = [sys.executable, "-I", "-S", fleetctl.__file__, str(self._socket_path)]
        tell = 'case "$path" in *.properties) "$@" {} "$id" </dev/null >/dev/null;; esac; '
        new = (
            'new="$path.zk2kraft-new"; cat > "$new"; sum=$(sha256sum < "$new"); '
            'test "${sum%% *}" = "$sha256" || { rm -f -- "$new"; exit 65; }; sync -- "$new"; mv -f -- "$new" "$path"; '
        )
        proof = 'sum=$(sha256sum); printf \'\\n%s %s\\n\' "$2" "${sum%% *}"'
        whole = 'test -e "$1" || exit 66; set -e; cat -- "$1"; exec < "$1"; ' + proof
        names = 'test -d "$1" || exit 66; set -e; names=$(ls -A -- "$1"); printf %s "$names"; '
        names += 'sum=$(printf %s "$names" | sha256sum); printf \'\\n%s %s\\n\' "$2" "${sum%% *}"'
        write = f"set -e; umask 077; path=$1; id=$2; sha256=$3; shift 3; {tell.format('write')}{new}"
        write += tell.format("written")
        return {
            "version": 1,
            "about": "processes of a laboratory on this machine",
            "acts": {
                "read": {"argv": [*shell, whole, "sh", "{path}", "{trailer}"]},
                "list": {"argv": [*shell, names, "sh", "{path}", "{trailer}"]},
                "write": {"argv": [*shell, write, "sh", "{path}", "{id}", "{checksum}", *control]},
                "stop": {"argv": [*control, "stop", "{id}"]},
                "start": {"argv": [*control, "start", "{id}"]},
                "status": {"argv": [*control, "status", "{id}"]},
                "launch": {"argv": [*control, "launch", "{id}"]},
            },
            "status_words": {"running": "^running", "stopped": "^stopped", "pid": "pid ([1-9][0-9]*)"},
        }

    def _inventory(self, name: str) -> dict[str, object]:
        first = self.ours[0].spec
        return {
            "version": 1,
            "cluster": {
                "name": name,
                "zookeeper": self.cluster.zookeeper_connect,
                "bootstrap_servers": self.cluster.bootstrap_servers,
                "quorum": {
                    "voters": first.voters,
                    "listener": LISTENER,
                    "metadata_version": first.release,
                    **self.quorum_security,
                },
                **({"security": self.security} if self.security else {}),
            },
            "actuator": {"kind": "exec", "template": TEMPLATE},
            **({"canary": {"records_per_s": 5, "errors_max": 0.0}} if self.canary else {}),
            "brokers": [
                {
                    "id": each.broker_id,
                    "host": HOST,
                    "properties": str(each.properties_file),
                    "log_dirs": [str(each.directory / f"data-{n}") for n in range(each.spec.log_directories)],
                }
                for each in self.cluster.brokers
            ],
            "controllers": [
                {
                    "id": each.spec.node_id,
                    "host": HOST,
                    "properties": str(each.properties_file),
                    "log_dirs": [str(each.data)],
                    "guard": str(self.guard),
                }
                for each in self.ours
            ],
        }

    # --- acts ----------------------------------------------------------------------------------------------

    @property
    def _socket_path(self) -> Path:
        return self.directory / "socket"

    def serve(self) -> None:
        """Until the laboratory closes."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._socket_path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._socket_path))
        listening.listen()
        self._socket = listening
        threading.Thread(target=self._accept, args=(listening,), name="fleet", daemon=True).start()
        self.cluster.laboratory.on_close.callback(listening.close)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), name="fleet-act", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            act, _, node = connection.recv(200).decode().strip().partition(" ")
            try:
                answer = f"ok {self.act(act, int(node))}"
            except (FindingError, OSError, KeyError, ValueError, AssertionError) as error:
                answer = f"no {error}"
            connection.sendall(answer.encode())

    def act(self, act: str, node: int) -> str:
        """One act at a time on each node."""
        server = self.servers[node]
        if act == "status":
            return f"running pid {server.process.pid}" if server.is_running else "stopped"
        if act == "launch":
            libs = (server.kafka or self.cluster.laboratory.artifacts).libs
            words = [*server.behind, "java", "-cp", f"{libs}/*", server.main_class, str(server.properties_file)]
            return " ".join(words)
        if self.before_act is not None:
            self.before_act(act, node)
        said = self._carry_out(act, node, server)
        if self.after_act is not None:
            self.after_act(act, node)
        return said

    def _carry_out(self, act: str, node: int, server: Server) -> str:
        with self._locks[node]:
            if act == "stop":
                self.done.append(ActDone(act, node))
                self._down -= {each.spec.node_id for each in self.ours if each.listens}
                self._down.add(node)
                self.most_down = max(self.most_down, len(self._down))
                return self._stop(server)
            if act == "start":
                self.done.append(ActDone(act, node))
                said = self._start(server)
                self._down.discard(node)
                return said
            if act in ("write", "written"):  # the command itself writes
                return act
        raise ValueError(f"no such act: {act}")

    def start_again(self, node: int) -> str:
        """As a host does with a process that ended by itself; one that was stopped by an act stays so."""
        with self._locks[node]:
            return "it was stopped" if node in self._down else self._start(self.servers[node])

    def _stop(self, server: Server) -> str:
        if not server.is_running:
            return "it did not run"
        return f"stopped in {server.stop():.1f} s"

    def _start(self, server: Server) -> str:
        """With the file as it is; a broker's mode is what its file says."""
        if server.is_running:
            return "it runs"
        if isinstance(server, BrokerProcess):
            server.spec = replace(
                server.spec, mode=mode_of(read(server.properties_file)), voters=self.ours[0].spec.voters
            )
        server.start_as_written()
        return f"started as process {server.process.pid}"


def shipped_guard() -> Path:
    """Of the source tree, or of the installed package."""
    here = Path(__file__).resolve().parents[2]
    return next(each for each in (here / "docker/guard" / GUARD, here / "zk2kraft_guard" / GUARD) if each.is_file())


def mode_of(properties: Mapping[str, str]) -> BrokerMode:
    if "process.roles" in properties:
        return BrokerMode.KRAFT
    flag = properties.get("zookeeper.metadata.migration.enable", "false")
    return BrokerMode.MIGRATING if flag == "true" else BrokerMode.ZOOKEEPER
