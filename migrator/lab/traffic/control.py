"""What a caller may ask of running traffic, and the traffic as its caller holds it.

In:   a laboratory and a bootstrap address; then marks, topics to add and to drop, the order to stop.
Out:  `Traffic`: a process of the laboratory, its status, its ledger.   Errors: Z2K-6013.
Elsewhere: the process itself (traffic/run.py).
Commands are lines of one JSON object, appended to a file that the traffic looks at ten times a second; its status
tells how many lines it has carried out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from migrator.findings.laboratory import TRAFFIC_FAILED
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.processes import Process
from migrator.lab.traffic.figures import TrafficFigures, figures_between, mark_us
from migrator.lab.traffic.ledger import read_ledger
from migrator.lab.traffic.status import TrafficState, TrafficStatus

LEDGER: Final = "ledger.jsonl"
STATUS: Final = "status.json"
CLIENT: Final = "client.json"
COMMANDS: Final = "commands.jsonl"
RATE: Final = 450.0
"""Records a second: 50,000 in under two minutes."""

FLOW_DEADLINE_S: Final = 180.0
COMMAND_DEADLINE_S: Final = 150.0
"""A dropped topic is done when its last record was answered, which a stopped broker can delay."""

STOP_DEADLINE_S: Final = 300.0
"""A record that is never answered ends its transaction after 130 s, and all of it is then sent again."""
LOOK_EVERY_S: Final = 0.1


def client_words(directory: Path, client: Mapping[str, str]) -> tuple[str, ...]:
    """The words that name a file with these settings, which is made here: passwords are no arguments of a process."""
    if not client:
        return ()
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / CLIENT
    file.touch(mode=0o600)
    file.write_bytes(msgspec.json.encode(client))
    return ("--client", str(file))


class MarkCommand(msgspec.Struct, frozen=True, tag="mark", tag_field="command"):
    """at_us: when it was so for the caller; microseconds of the wall clock."""

    name: str
    at_us: int


class Add(msgspec.Struct, frozen=True, tag="add", tag_field="command"):
    topic: str


class Drop(msgspec.Struct, frozen=True, tag="drop", tag_field="command"):
    topic: str


class Stop(msgspec.Struct, frozen=True, tag="stop", tag_field="command"):
    pass


Command: TypeAlias = MarkCommand | Add | Drop | Stop


class CommandFile:
    """The traffic's side: which commands are new. A line without its end is still being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._decoder = msgspec.json.Decoder[Command](Command)
        path.touch()

    def new(self) -> list[Command]:
        """The commands since the last call. Raises msgspec.DecodeError on a line that is none."""
        if self._path.stat().st_size == self._position:
            return []
        with self._path.open("rb") as commands:
            commands.seek(self._position)
            whole, end, _ = commands.read().rpartition(b"\n")
        self._position += len(whole) + len(end)
        return [self._decoder.decode(line) for line in whole.splitlines()]


class Traffic:
    """Running traffic, as its caller holds it. Its laboratory ends it at the latest.

    name: of the process and its directory, and the beginning of its groups and transactional ids.
    client: how its clients log in, as librdkafka's keys.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        bootstrap: str,
        *,
        rate: float = RATE,
        name: str = "traffic",
        client: Mapping[str, str] | None = None,
    ) -> None:
        self.laboratory = laboratory
        self.bootstrap = bootstrap
        self.rate = rate
        self.name = name
        self.directory = laboratory.directory / name
        self._client = dict(client or {})
        self._process: Process | None = None
        self._accepted = 0

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def ledger(self) -> Path:
        return self.directory / LEDGER

    @property
    def status(self) -> TrafficStatus:
        return TrafficStatus.read(self.directory / STATUS)

    def start(self, topics: Iterable[str]) -> None:
        """Start the process; `wait_flowing` waits for the first records. One start for each name and directory."""
        command = [
            *(sys.executable, "-m", "migrator.lab.traffic.run", "run"),
            *("--bootstrap", self.bootstrap, "--dir", str(self.directory), "--name", self.name),
            *("--rate", str(self.rate), "--topics", ",".join(topics)),
            *client_words(self.directory, self._client),
        ]
        self._process = self.laboratory.processes.start(self.name, command)

    def wait_flowing(self, deadline_s: float = FLOW_DEADLINE_S) -> float:
        """Wait until each partition of each topic has an acknowledged record. Returns the seconds. Raises Z2K-6003."""

        def why_not(status: TrafficStatus) -> str | None:
            if status.state is not TrafficState.RUNNING:
                return status.state
            if status.missing_topics:
                return f"no broker names {', '.join(status.missing_topics)}"
            silent = f"{status.silent_partitions} of {status.partitions} partitions have no record yet"
            return silent if status.silent_partitions or not status.partitions else None

        return self._wait(why_not, deadline_s)

    def wait_acknowledged(self, count: int, deadline_s: float) -> float:
        """Wait until `count` records are acknowledged since the start. Returns the seconds. Raises Z2K-6003."""

        def why_not(status: TrafficStatus) -> str | None:
            return None if status.acknowledged >= count else f"{status.acknowledged} of {count} records acknowledged"

        return self._wait(why_not, deadline_s)

    def wait_aborted(self, deadline_s: float) -> float:
        """Wait until a transaction was aborted on purpose, as every tenth one is. Raises Z2K-6003."""

        def why_not(status: TrafficStatus) -> str | None:
            found = status.transactions
            return None if found.aborted_on_purpose else f"{found.committed} transactions committed, none aborted"

        return self._wait(why_not, deadline_s)

    def mark(self, name: str) -> None:
        """Give this moment a name, for `figures` and for the reader. Returns at once."""
        self._ask(MarkCommand(name, time.time_ns() // 1000))

    def add(self, topic: str) -> None:
        """Write to and read a topic that exists; returns when the traffic has heard of it."""
        self._ask_and_wait(Add(topic), lambda _: None)

    def drop(self, topic: str) -> None:
        """Leave a topic alone; returns when nothing is under way to it any more, so that it may be deleted."""
        self._ask_and_wait(Drop(topic), lambda status: f"{topic} is settling" if topic in status.settling else None)

    def stop(self) -> TrafficStatus:
        """Let everything be answered and committed, and end. Returns the last status. Raises Z2K-6013."""
        self._ask(Stop())
        self.process.wait_for_exit(STOP_DEADLINE_S)
        exit_code = self.process.exit_code
        self.process.kill()
        if exit_code != 0:
            raise TRAFFIC_FAILED.error(name=self.name, exit_code=exit_code, output=self.process.log_tail())
        return self.status

    def figures(self, from_mark: str, to_mark: str) -> TrafficFigures:
        """What clients felt between two marks, from the ledger. Raises Z2K-6014, Z2K-6015."""
        entries = list(read_ledger(self.ledger))
        return figures_between(entries, mark_us(entries, from_mark), mark_us(entries, to_mark))

    def _ask(self, command: Command) -> None:
        with (self.directory / COMMANDS).open("ab") as commands:
            commands.write(msgspec.json.encode(command) + b"\n")
        self._accepted += 1

    def _ask_and_wait(self, command: Command, why_not: Callable[[TrafficStatus], str | None]) -> None:
        self._ask(command)
        asked = self._accepted

        def why_not_done(status: TrafficStatus) -> str | None:
            return why_not(status) if status.commands_done >= asked else "it has not read the command yet"

        self._wait(why_not_done, COMMAND_DEADLINE_S)

    def _wait(self, why_not: Callable[[TrafficStatus], str | None], deadline_s: float) -> float:
        def reason() -> str | None:
            try:
                return why_not(self.status)
            except FileNotFoundError:
                return "it has not said anything yet"

        return self.laboratory.wait(
            reason, name=self.name, deadline_s=deadline_s, process=self.process, poll_every_s=LOOK_EVERY_S
        )
