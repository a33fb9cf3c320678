"""Live traffic in a process of its own: producers over every partition, two consumer groups, a ledger of promises.

In:   `python -m migrator.lab.traffic.run run --bootstrap … --topics a,b --dir DIR`; commands in `DIR/commands.jsonl`.
Out:  `DIR/ledger.jsonl` (the proof), `DIR/status.json` (live counters); exit 0 when nothing was left unanswered.
      `… figures --dir DIR --from MARK --to MARK` says afterwards what clients felt in between.
Elsewhere: the same from Python (control.py), the judgement whether anything was lost (outside_reader.py).
A process of its own, because a caller that is busy in Python would otherwise be measured instead of the brokers.
SIGTERM and Ctrl-C stop it like the command `stop`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, assert_never

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from migrator.findings.finding import FindingError
from migrator.lab.traffic.clients import METADATA_TIMEOUT_S, Surroundings, Topics, now_us
from migrator.lab.traffic.consumers import GroupReader
from migrator.lab.traffic.control import (
    COMMANDS,
    LEDGER,
    RATE,
    STATUS,
    Add,
    Command,
    CommandFile,
    Drop,
    MarkCommand,
    Stop,
)
from migrator.lab.traffic.figures import figures_between, mark_us
from migrator.lab.traffic.ledger import (
    FORMAT,
    Began,
    LedgerWriter,
    Marked,
    RunEnded,
    TopicAdded,
    TopicDropped,
    read_ledger,
)
from migrator.lab.traffic.producers import IdempotentLane, Lane, TransactionalLane
from migrator.lab.traffic.records import VALUE_BYTES
from migrator.lab.traffic.status import TrafficState
from migrator.lab.traffic.tally import Tally

TURN_S: Final = 0.1
"""How often commands are looked for and the ledger goes to the disk."""

STATUS_EVERY_S: Final = 0.5
TOPICS_EVERY_S: Final = 2.0
"""How often the brokers are asked for partitions that were added to a topic."""

TRANSACTIONAL_SHARE: Final = 0.25


class Run:
    """One run: the threads, and the main loop that carries out commands and tells how it goes."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topics: Iterable[str],
        directory: Path,
        client: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        run = f"{time.time_ns() // 1_000_000:x}-{os.getpid():x}"
        self.ledger = LedgerWriter(directory / LEDGER)
        self.ledger.write(Began(FORMAT, run, VALUE_BYTES, now_us()))
        self.tally = Tally(run)
        self.here = Surroundings(name, run, bootstrap, Topics(), self.ledger, self.tally, client or {})
        self.wanted: set[str] = set()
        self.lanes: list[Lane] = []
        self.groups: list[GroupReader] = []
        self._status_file = directory / STATUS
        self._commands = CommandFile(directory / COMMANDS)
        self._commands_done = 0
        self._told_to_stop = False
        self._state = TrafficState.STARTING
        self._told_at = 0.0
        self._asked_at = 0.0
        self._admin = AdminClient(self.here.client_settings("admin"))
        for topic in topics:
            self._add(topic)

    def go(self, rate: float, transactional_share: float) -> None:
        """Run until told to stop and everything is answered. Raises what a thread of the traffic raised."""
        self._tell()
        with ThreadPoolExecutor(thread_name_prefix="traffic") as threads:
            try:
                self._ask_for_topics()
                self.lanes = [
                    IdempotentLane("plain", self.here, rate * (1 - transactional_share)),
                    TransactionalLane("transactional", self.here, rate * transactional_share),
                ]
                self.groups = [
                    GroupReader(self.here, f"{self.here.name}-by-hand", by_hand=True),
                    GroupReader(self.here, f"{self.here.name}-automatic", by_hand=False),
                ]
                reading = [threads.submit(group.run) for group in self.groups]
                writing = [threads.submit(lane.run) for lane in self.lanes]
                self._state = TrafficState.RUNNING
                self._turn_until(lambda: self.here.stopping.is_set(), [*writing, *reading])
                self._state = TrafficState.STOPPING
                self._turn_until(lambda: all(future.done() for future in writing), [*writing, *reading])
                self.here.written.set()
                self._turn_until(lambda: all(future.done() for future in reading), reading)
            finally:
                self.here.stopping.set()
                self.here.written.set()
        self._end()

    def stop(self) -> None:
        """Stop at the next turn. Sets a flag and nothing else, so that a signal handler may call it at any point."""
        self._told_to_stop = True

    def _end(self) -> None:
        assert self.tally.outstanding() == 0, f"{self.tally.outstanding()} records were never answered"
        self.ledger.write(RunEnded(now_us()))
        self.ledger.close()
        self._state = TrafficState.STOPPED
        self._tell()

    def _turn_until(self, is_done: Callable[[], bool], futures: list[Future[None]]) -> None:
        """The main loop. Raises as soon as one of the threads did."""
        while not is_done():
            running = [future for future in futures if not future.done()]
            wait(running, timeout=TURN_S, return_when=FIRST_COMPLETED)
            for future in futures:
                if future.done():
                    future.result()
            if self.here.faults:
                raise self.here.faults[0]
            self._turn()

    def _turn(self) -> None:
        if self._told_to_stop:
            self.here.stopping.set()
        for command in self._commands.new():
            self._carry_out(command)
            self._commands_done += 1
            self._told_at = 0.0
        now = time.monotonic()
        if now - self._asked_at >= TOPICS_EVERY_S:
            self._ask_for_topics()
        if now - self._told_at >= STATUS_EVERY_S:
            self._tell()
        self.ledger.flush()

    def _carry_out(self, command: Command) -> None:
        match command:
            case MarkCommand():
                self.ledger.write(Marked(command.name, command.at_us))
                self.tally.mark(command.name, command.at_us / 1e6)
            case Add():
                self._add(command.topic)
                self._ask_for_topics()
            case Drop():
                self._drop(command.topic)
            case Stop():
                self.stop()
            case _:
                assert_never(command)

    def _add(self, topic: str) -> None:
        self.wanted.add(topic)
        if self.tally.added(topic):
            self.here.topics.returns += 1
        self.ledger.write(TopicAdded(topic, now_us()))
        counts = self.here.topics.counts
        self._use(counts, self.wanted - counts.keys())

    def _drop(self, topic: str) -> None:
        self.wanted.discard(topic)
        self.tally.dropped(topic)
        self.ledger.write(TopicDropped(topic, now_us()))
        left = {name: count for name, count in self.here.topics.counts.items() if name != topic}
        self._use(left, self.wanted - left.keys())

    def _ask_for_topics(self) -> None:
        """Learn the numbers of partitions. A topic that the brokers do not name keeps its number: it is not dropped."""
        self._asked_at = time.monotonic()
        try:
            named = self._admin.list_topics(timeout=METADATA_TIMEOUT_S).topics
        except KafkaException as error:
            self.tally.error(f"metadata {error.args[0].name()}")
            return
        counted = {topic: len(named[topic].partitions) for topic in self.wanted if topic in named}
        found = {topic: count for topic, count in counted.items() if count}
        known = {topic: count for topic, count in self.here.topics.counts.items() if topic in self.wanted}
        self._use(known | found, self.wanted - found.keys())

    def _use(self, counts: Mapping[str, int], missing: Iterable[str]) -> None:
        if counts != self.here.topics.counts:
            self.here.topics.counts = counts
        self.tally.set_topics(counts, missing)

    def _tell(self) -> None:
        self._told_at = time.monotonic()
        known = [*(lane.topics for lane in self.lanes), *(group.topics for group in self.groups)]
        in_use = {topic for topics in known for topic in topics}
        self.tally.status(self._state, self._commands_done, in_use).write(self._status_file)


def main(arguments: list[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        if chosen.verb == "figures":
            return _figures(chosen)
        client = None if chosen.client is None else json.loads(chosen.client.read_bytes())
        run = Run(chosen.name, chosen.bootstrap, filter(None, chosen.topics.split(",")), chosen.dir, client)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: run.stop())
        run.go(chosen.rate, chosen.transactional_share)
    except FindingError as error:
        print(error, error.occurrence.finding.remedy, sep="\n", file=sys.stderr)
        return 1
    return 0


def _figures(chosen: argparse.Namespace) -> int:
    entries = list(read_ledger(chosen.dir / LEDGER))
    moments = [
        int(float(word) * 1e6) if _is_time(word) else mark_us(entries, word) for word in (chosen.start, chosen.end)
    ]
    print(msgspec.json.format(msgspec.json.encode(figures_between(entries, *moments)), indent=1).decode())
    return 0


def _is_time(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m migrator.lab.traffic.run", description=(__doc__ or "").splitlines()[0]
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="produce and consume until SIGTERM")
    run.add_argument("--bootstrap", required=True, help="host:port,...")
    run.add_argument("--topics", required=True, help="names with commas between; the topics exist")
    run.add_argument("--dir", type=Path, required=True, help="ledger, status and commands live here")
    run.add_argument("--name", default="traffic", help="begins the names of groups and transactional ids")
    run.add_argument("--client", type=Path, help="JSON file with further settings of the client library")
    run.add_argument("--rate", type=float, default=RATE, help="records a second, all producers together")
    run.add_argument("--transactional-share", type=float, default=TRANSACTIONAL_SHARE, help="0 to 1 of the rate")
    figures = verbs.add_parser("figures", help="what clients felt between two moments, as JSON")
    figures.add_argument("--dir", type=Path, required=True)
    figures.add_argument("--from", dest="start", required=True, help="a mark, or seconds of the wall clock")
    figures.add_argument("--to", dest="end", required=True, help="a mark, or seconds of the wall clock")
    return parser


if __name__ == "__main__":
    sys.exit(main())
