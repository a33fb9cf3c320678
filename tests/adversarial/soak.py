"""Hours in hybrid: two brokers in KRaft mode, one in ZooKeeper mode, our controllers, the service, traffic, trouble.

    python -m tests.adversarial.soak [--minutes 120] [--audits 6] [--seed N] [--report FILE.json]

The service has rolled two brokers of three and is paused. Then a story of changes drawn from the seed: topics,
partitions, configurations, moves, elections, quotas, SCRAM; brokers restarted, killed and hung, the active controller
and the service killed, ZooKeeper restarted and killed. What has to hold: each audit on demand, so many at even
distances, passes, and each of the service's own schedule that ended; every acknowledged record is there, in order; and
the memory of service and controllers does not grow: in the last third of the time no process is larger than the
largest of the second third by more than a fifth and 20 MB.

Exit codes: 0 all of that held, 1 it did not; the report says what, and the laboratory's files are kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

from migrator.control_api.states import State
from migrator.findings.finding import FindingError
from migrator.lab.ours import CONTROL_FILE
from migrator.lab.servers.broker import BrokerMode, BrokerProcess
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.ledger import Failed, read_ledger
from tests.adversarial.kept import PASSED, outcome_of
from tests.adversarial.kraft_changes import DOWN_S, WHOLE_S, Story
from tests.adversarial.stories_back import roll_and_pause
from tests.adversarial.stories_support import create, wait_whole
from tests.e2e.road_kills import SESSION_S
from tests.e2e.road_stage import TOPICS, RoadStage

IN_KRAFT_MODE: Final = 2
PAUSE_S: Final = (0.5, 3.0)
LOOK_EVERY_S: Final = 15.0
ZOOKEEPER_AWAY_S: Final = 3.0
GROWTH, GROWTH_MB = 1.2, 20.0
TOPICS_MAX: Final = 30
"""Of the story: what grows with the number of topics would hide what grows with time."""


class HybridStory(Story):
    """What the service and ZooKeeper add to it; who leads is the stage's to know."""

    def __init__(self, stage: RoadStage, seed: int) -> None:
        super().__init__(stage.cluster, list(TOPICS), seed)
        self.wrong: list[str] = []
        """Waits in vain; a step that was merely refused or not answered is none."""
        self.stage = stage
        kept = [step for step in self._steps if step[1] not in (self.allow, self.disallow)]  # no authorizer here
        self._steps = [*kept, (2, self.restart_zookeeper), (1, self.kill_zookeeper), (1, self.kill_service)]

    def create_topic(self) -> None:
        if len(self._topics) < TOPICS_MAX:
            super().create_topic()
        else:
            self.delete_topic()

    def away_s(self, broker: BrokerProcess) -> float:
        """As in the kill matrix: one in ZooKeeper mode until its sessions have ended (road_kills.py)."""
        return DOWN_S if broker.spec.mode is BrokerMode.KRAFT else SESSION_S

    def kill_leader(self) -> None:
        self.stage.kills.kill_leader()
        time.sleep(DOWN_S)
        self._wait_led()

    def restart_zookeeper(self) -> None:
        (server,) = self.stage.cluster.zookeeper.servers
        server.stop()
        time.sleep(ZOOKEEPER_AWAY_S)
        server.start_as_written()
        self._wait_led()

    def kill_zookeeper(self) -> None:
        (server,) = self.stage.cluster.zookeeper.servers
        server.kill()
        time.sleep(ZOOKEEPER_AWAY_S)
        server.start_as_written()
        self._wait_led()

    def kill_service(self) -> None:
        self.stage.kill_service()
        self.stage.wait_view(lambda view: None if view["phase"] == "ROLLING_BROKERS" else view["phase"])

    def _wait_led(self) -> None:
        """One of ours leads, its driver is in dual-write, and every replica is in sync."""
        try:
            self.stage.wait_view(why_not_in_dual_write)
            self.cluster.wait_isr_whole(self.load, WHOLE_S)
        except FindingError as error:
            self.wrong.append(str(error))
            raise


def why_not_in_dual_write(view: dict[str, Any]) -> str | None:
    states = {each["node_id"]: each["driver"] for each in view["quorum"] if each["leads"]}
    in_dual_write = any(str(each).partition(":")[0] == State.DUAL_WRITE for each in states.values())
    return None if in_dual_write else f"those who lead are {states}"


class Memory(threading.Thread):
    """Resident memory of the service and of our controllers, looked at until `stop`; whoever was killed is left out."""

    def __init__(self, stage: RoadStage) -> None:
        super().__init__(name="memory", daemon=True)
        self.samples: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """By process: seconds since the beginning, MB."""
        self._stage = stage
        self._over = threading.Event()
        self._began = time.monotonic()

    def run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            pids = {"service": self._stage.service.process.pid}
            for each in self._stage.fleet.ours:
                with suppress(OSError, ValueError, KeyError):
                    pids[each.name] = int(json.loads((each.data / CONTROL_FILE).read_text())["pid"])
            for name, pid in pids.items():
                with suppress(OSError, StopIteration, IndexError):
                    self.samples[name].append((time.monotonic() - self._began, resident_mb(pid)))

    def stop(self) -> None:
        self._over.set()
        self.join()

    def thirds(self) -> dict[str, list[float]]:
        """The most that each process had in each third of the time, MB."""
        whole = max((at for samples in self.samples.values() for at, _ in samples), default=0.0)
        return {
            name: [
                max((mb for at, mb in samples if third <= 3 * at / whole <= third + 1), default=0.0)
                for third in range(3)
            ]
            for name, samples in self.samples.items()
        }


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


@dataclass
class Result:
    seed: int
    minutes: float
    steps: Counter[str] = field(default_factory=Counter)
    audits: list[tuple[float, bool, float]] = field(default_factory=list)
    """Minute, whether it passed, seconds it took."""
    scheduled: dict[int, str] = field(default_factory=dict)
    """Result by number; one that was cut short is incomplete."""
    memory_mb: dict[str, list[float]] = field(default_factory=dict)
    acknowledged: int = 0
    stall_ms: float = 0.0
    given_up: dict[str, int] = field(default_factory=dict)
    """Records that the client library gave up, of transactions that were sent again too, by error and minute."""
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        passed = sum(ok for _, ok, _ in self.audits)
        return [
            (
                f"seed {self.seed}: {self.minutes:g} minutes, {sum(self.steps.values())} steps, "
                f"{self.acknowledged} acknowledged, longest stall {self.stall_ms:.0f} ms"
            ),
            f"audits on demand: {passed} of {len(self.audits)} passed",
            f"audits of the schedule: {dict(Counter(self.scheduled.values()))}",
            *(f"  {count:5} {what}" for what, count in sorted(self.steps.items())),
            *(f"  {name}: {', '.join(f'{mb:.0f}' for mb in most)} MB" for name, most in sorted(self.memory_mb.items())),
            *(f"  {count:5} given up, {what}" for what, count in self.given_up.items()),
            *(f"WRONG: {each}" for each in self.wrong),
        ]


def run(laboratory: Laboratory, minutes: float, audits: int, seed: int) -> Result:
    result = Result(seed, minutes)
    stage = RoadStage(laboratory)
    stage.to_dual_write()
    roll_and_pause(stage, IN_KRAFT_MODE)
    create(stage.cluster, "made-in-hybrid")
    wait_whole(stage.cluster)
    story, pauses, memory = HybridStory(stage, seed), Random(f"{seed} pauses"), Memory(stage)
    memory.start()
    began = time.monotonic()
    for number in range(1, audits + 1):
        while time.monotonic() - began < 60 * minutes * number / audits:
            story.step()
            time.sleep(pauses.uniform(*PAUSE_S))
        note_audit(stage, story, result, (time.monotonic() - began) / 60)
    memory.stop()
    result.steps, result.memory_mb = story.tally, memory.thirds()
    result.wrong += story.wrong
    result.wrong += [
        f"{name} grew: {', '.join(f'{mb:.0f}' for mb in most)} MB in the thirds"
        for name, most in result.memory_mb.items()
        if most[2] > most[1] * GROWTH + GROWTH_MB
    ]
    clear_aside(stage, story.deleted())
    try:
        stage.assert_proven(deleted=story.deleted())
    except AssertionError as error:
        result.wrong.append(f"not proven: {error}")
    result.given_up = given_up(stage.traffic.ledger)
    result.acknowledged = stage.traffic.status.acknowledged
    result.stall_ms = stage.traffic.status.since_mark.longest_stall_ms
    return result


def given_up(ledger: Path) -> dict[str, int]:
    entries = [each for each in read_ledger(ledger) if isinstance(each, Failed)]
    clock = (datetime.fromtimestamp(each.failed_us / 1e6, UTC) for each in entries)
    return dict(Counter(f"{each.error} at {at:%H:%M} UTC" for each, at in zip(entries, clock, strict=True)))


def clear_aside(stage: RoadStage, deleted: Collection[str]) -> None:
    """As an operator does: a broker that was away while a topic was deleted moves its log aside and keeps it (Kafka 3.9
    `LogManager`). A log of any other topic stays where it is, and fails the proof.
    """
    for broker in stage.cluster.brokers:
        for aside in broker.directory.glob("data-*/*-stray"):
            if aside.name.rpartition(".")[0].rpartition("-")[0] in deleted:
                print(f"{broker.name} kept {aside.name} aside", flush=True)
                shutil.rmtree(aside)


def note_audit(stage: RoadStage, story: HybridStory, result: Result, minute: float) -> None:
    """On demand, while traffic goes on; and what the schedule's audits came to since."""
    try:
        story._wait_led()
        asked = time.monotonic()
        audit = stage.service.audit(stage.migration, "quick")
    except FindingError as error:
        result.wrong.append(f"audit at minute {minute:.1f}: {error}")
        return
    result.audits.append((minute, bool(audit["passed"]), time.monotonic() - asked))
    if not audit["passed"]:
        result.wrong.append(f"audit {audit['id']} at minute {minute:.1f}: {audit}")
    for each in stage.service.view(stage.migration)["audits"]:
        if each["purpose"] == "schedule" and each["result"] is not None and each["id"] not in result.scheduled:
            result.scheduled[each["id"]] = each["result"]
            if each["result"] == "diverged":
                result.wrong.append(f"audit {each['id']} of the schedule diverged: {each}")
    print(f"minute {minute:.1f}: audit passed {audit['passed']}, {sum(story.tally.values())} steps", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--audits", type=int, default=6, help="on demand, at even distances")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()

    def play(laboratory: Laboratory) -> None:
        result = run(laboratory, options.minutes, options.audits, options.seed)
        print("\n".join(result.lines()), flush=True)
        if options.report is not None:
            options.report.write_text(json.dumps(vars(result), indent=1))
        assert not result.wrong, f"{len(result.wrong)} lines are WRONG"

    outcome = outcome_of("soak", play)
    print(outcome, flush=True)
    return 0 if outcome == PASSED else 1


if __name__ == "__main__":
    sys.exit(main())
