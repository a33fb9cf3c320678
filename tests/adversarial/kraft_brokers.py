"""Three KRaft-mode brokers under traffic and administrators, on controllers of Kafka's, then on ours.

    python -m tests.adversarial.kraft_brokers [--minutes 20] [--log-directories 2] [--seed N] [--report FILE.json]

Each of the two runs lasts so many minutes: producers that want every record acknowledged by all in sync, and a story of
changes drawn from the seed (kraft_changes.py): topics, partitions, configurations, moves, elections, ACLs, quotas,
SCRAM, the active controller killed, brokers restarted and killed. The first topic of all gets a leader that hangs
while it is made, so that both logs show what followers say of a leader that has not heard of a topic yet. What has to
hold at the end: every acknowledged record is there; and the brokers on our controllers complain of nothing that those
on Kafka's do not complain of (kinds of WARN, ERROR and FATAL in their logs, log_kinds.py).

Exit codes: 0 all of that held, 1 a record is lost, 2 no record is lost and a kind of complaint is new; the directory of
the runs is kept then.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from migrator.lab.classes import prepared
from migrator.lab.kraft import KraftCluster, Whose
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from tests.adversarial.kraft_changes import Story
from tests.adversarial.log_kinds import Kind, kinds, only_in

LOAD: Final = ["load-0", "load-1", "load-2"]
PARTITIONS: Final = 6
EVERY_S: Final = 0.005
PAUSE_S: Final = (0.2, 1.5)
DELIVERY_MS: Final = 120_000
READ_S: Final = 120.0
AUTHORIZER: Final[dict[str, Value]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": True,
    "super.users": "User:ANONYMOUS",
}


class Traffic:
    """Writes numbered records until it is stopped, and keeps what was acknowledged."""

    def __init__(self, client: dict[str, str]) -> None:
        self.acknowledged: set[tuple[str, int]] = set()
        self.refused: Counter[str] = Counter()
        reliable = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": DELIVERY_MS}
        self._producer = Producer({**client, **reliable, "linger.ms": 5})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        """How many records are still unanswered after their time-out."""
        self._over.set()
        self._thread.join()
        return self._producer.flush(DELIVERY_MS / 1000 + 30)

    def _write(self) -> None:
        number = 0
        while not self._over.wait(EVERY_S):
            topic = LOAD[number % len(LOAD)]
            try:
                self._producer.produce(topic, str(number), on_delivery=self._note(topic, number))
                number += 1
            except BufferError:
                self.refused["the producer's buffer is full"] += 1
            self._producer.poll(0)

    def _note(self, topic: str, number: int) -> Any:
        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is None:
                self.acknowledged.add((topic, number))
            else:
                self.refused[error.name()] += 1

        return delivered


def read_all(client: dict[str, str]) -> Counter[tuple[str, int]]:
    """Every record of the load topics, and how often it is there. Raises TimeoutError when an end is not reached."""
    settings = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**client, **settings, "isolation.level": "read_committed"})
    missing = {(topic, number) for topic in LOAD for number in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in missing])
    seen: Counter[tuple[str, int]] = Counter()
    began = time.monotonic()
    try:
        while missing:
            if time.monotonic() - began > READ_S:
                raise TimeoutError(f"{len(missing)} partitions were not read to their end")
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                if error is None:
                    seen[str(message.topic()), int(message.value() or b"-1")] += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    missing.discard((str(message.topic()), int(message.partition() or 0)))
                elif error.fatal():
                    raise KafkaException(error)
    finally:
        consumer.close()
    return seen


@dataclass
class Result:
    """What one run came to."""

    whose: Whose
    seconds: float = 0.0
    steps: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    lost: list[tuple[str, int]] = field(default_factory=list)
    twice: int = 0
    kinds: Counter[Kind] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        said = (
            f"{self.acknowledged} acknowledged, {len(self.lost)} lost, {self.twice} twice, refused {dict(self.refused)}"
        )
        return [
            f"{self.whose}: {self.seconds:.0f} s, {sum(self.steps.values())} steps, {said}",
            *(f"  {count:4} {what}" for what, count in sorted(self.steps.items())),
        ]

    def report(self) -> dict[str, Any]:
        return {
            "whose": self.whose,
            "seconds": self.seconds,
            "steps": dict(self.steps),
            "acknowledged": self.acknowledged,
            "refused": dict(self.refused),
            "lost": self.lost,
            "twice": self.twice,
            "kinds": {str(kind): count for kind, count in self.kinds.items()},
        }


def run(laboratory: Laboratory, whose: Whose, minutes: float, seed: int, log_directories: int) -> Result:
    cluster = KraftCluster(
        laboratory, whose, extra=AUTHORIZER, controller_extra=AUTHORIZER, log_directories=log_directories
    )
    cluster.start()
    Story(cluster, [], seed).pause_leader_to_be()
    cluster.create_topics(LOAD, partitions=PARTITIONS, config={"min.insync.replicas": "2"})
    traffic, story = Traffic(cluster.client), Story(cluster, LOAD, seed)
    pauses = Random(f"{seed} pauses")
    traffic.start()
    began = time.monotonic()
    while time.monotonic() - began < 60 * minutes:
        story.step()
        time.sleep(pauses.uniform(*PAUSE_S))
    cluster.wait_isr_whole(LOAD)
    unanswered = traffic.stop()
    seen = read_all(cluster.client)
    result = Result(whose, time.monotonic() - began, story.tally, len(traffic.acknowledged), traffic.refused)
    result.lost = sorted(each for each in traffic.acknowledged if not seen[each])
    result.twice = sum(count > 1 for count in seen.values())
    result.refused["without an answer"] += unanswered
    cluster.stop()
    for broker in cluster.brokers:
        result.kinds += kinds(broker.process.log.read_text(errors="replace"))  # all of its lives
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.kraft_brokers", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of each of the two runs")
    parser.add_argument("--log-directories", type=int, default=2, help="of each broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="zk2kraft-kraft-brokers-"))
    results = []
    for whose in (Whose.STOCK, Whose.OURS):
        with Laboratory(directory / whose, prepared()) as laboratory:
            results.append(run(laboratory, whose, options.minutes, options.seed, options.log_directories))
        print("\n".join(results[-1].lines()), flush=True)
    stock, ours = results
    new = only_in(ours.kinds, stock.kinds)
    gone = only_in(stock.kinds, ours.kinds)
    print(f"seed {options.seed}: {len(ours.kinds)} kinds of complaint on ours, {len(stock.kinds)} on stock")
    for title, found in (("on ours only", new), ("on stock only", gone)):
        print(f"{title}: {len(found)}")
        print("".join(f"  {count:5} {kind}\n" for kind, count in found.most_common()), end="")
    if options.report is not None:
        told = {"seed": options.seed, "runs": [each.report() for each in results], "new": list(map(str, new))}
        options.report.write_text(json.dumps(told, indent=1))
    code = 1 if any(each.lost for each in results) else 2 if new else 0
    if code:
        print(f"the runs are kept in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
