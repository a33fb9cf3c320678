"""Audits of three sides while administrators change everything: whatever is not wrong has to pass (R-866).

    python -m tests.adversarial.clean_runs [--audits 500] [--seed N] [--spark-every 5] [--report FILE.json]

Three brokers with an authorizer, three controllers of ours, the service, traffic. A third of the audits is made in
dual-write with all brokers in ZooKeeper mode, a third with two in KRaft mode, a third with all of them. Meanwhile
topics come, grow, move and go, and configurations, ACLs, quotas, SCRAM credentials and leaders change. Each audit is
the command's own, in one process as the service's warm one: quick, and every few with Spark; of a voter's directory or
of a copy by address. Nobody is restarted: a broker that is away makes an audit incomplete, and has to.

Prints each audit that did not pass, and a table. Exit codes: 0 all passed, 1 not all; then the files are kept.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from api.commands.audits import audit
from migrator.audit.spark.kept_session import KeptSession
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from tests.adversarial.kept import PASSED, outcome_of
from tests.adversarial.kraft_changes import Story
from tests.adversarial.second_decoder import compared
from tests.adversarial.stories_back import roll_and_pause
from tests.e2e.road_stage import CONTROLLER_SETTINGS, TOPICS, RoadStage

MASTER: Final = "local[2]"
BROKERS: Final[dict[str, Value]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
SECURED: Final[Mapping[str, Value]] = {
    **CONTROLLER_SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
PAUSE_S: Final = (0.02, 0.4)
MODES: Final = ("dual-write", "hybrid", "KRaft")
TOPICS_MAX: Final = 30
TOLD_EVERY: Final = 25


class Changes(Story):
    """Without what breaks; it does not grow without end."""

    def __init__(self, cluster: LabCluster, seed: int) -> None:
        super().__init__(cluster, list(TOPICS), seed)
        breaks = (self.kill_leader, self.restart_broker, self.kill_broker, self.pause_leader_to_be)
        self._steps = [step for step in self._steps if step[1] not in breaks]

    def create_topic(self) -> None:
        if len(self._topics) < TOPICS_MAX:
            super().create_topic()
        else:
            self.delete_topic()


class SecuredStage(RoadStage):
    """Whose cluster has ACLs."""

    controller_settings = SECURED


@dataclass
class Result:
    """tried: by mode and engine. wrong: an audit that did not pass, as it said. met: changes while audits ran.

    read_alike: records of the voters' logs that a second decoder reads as ours does.
    """

    tried: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    met: int = 0
    expected: int = 0
    read_alike: int = 0

    def lines(self) -> Iterator[str]:
        for name, count in sorted(self.tried.items()):
            took = sorted(self.seconds[name])
            yield f"{name:20} {count:4} audits, median {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s"
        yield f"{self.met} changes meanwhile, {self.expected} keys on their way; {len(self.wrong)} audits not passed"
        yield f"{self.read_alike} records of three logs, read alike by Kafka's own tool"


@contextmanager
def changing(story: Story, seed: int) -> Iterator[None]:
    """One change behind the other, until the end."""
    over, chance = threading.Event(), Random(f"{seed} pauses")

    def go() -> None:
        while not over.wait(chance.uniform(*PAUSE_S)):
            story.step()

    thread = threading.Thread(target=go, name="changes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


@dataclass
class Auditor:
    """Audits as the command does, again and again."""

    stage: RoadStage
    story: Story
    sessions: KeptSession
    result: Result
    spark_every: int
    chance: Random

    def audit(self, mode: str, count: int) -> None:
        for number in range(count):
            engine = "quick" if number % self.spark_every else "spark"
            before, began = sum(self.story.tally.values()), time.monotonic()
            report = self._once(engine)
            name = f"{mode}, {engine}"
            self.result.tried[name] += 1
            self.result.seconds.setdefault(name, []).append(time.monotonic() - began)
            self.result.met += sum(self.story.tally.values()) - before
            self.result.expected += len(report["expected"])
            if not report["same"]:
                sides = report.get("brokers") or {}
                told = {"mode": mode, "engine": engine, "number": number, "differences": report["differences"]}
                told["brokers"] = {key: sides.get(key) for key in ("problem", "differences", "asked")}
                self.result.wrong.append(told)
                print(f"NOT PASSED: {json.dumps(told)}", flush=True)
            if not (number + 1) % TOLD_EVERY:
                print(f"{mode}: {number + 1} audits, {len(self.result.wrong)} not passed", flush=True)

    def _once(self, engine: str) -> dict[str, Any]:
        ours = self.stage.fleet.ours
        addresses = ",".join(each.spec.voters.split(",")[number].partition("@")[2] for number, each in enumerate(ours))
        kraft = self.chance.choice([addresses, *(str(each.data) for each in ours)])
        with redirect_stdout(io.StringIO()) as printed:
            audit(
                self.stage.cluster.zookeeper_connect,
                kraft,
                engine,
                MASTER,
                None,
                None,
                "registered",
                allow_moved=False,
                as_json=True,
                sessions=self.sessions,
            )
        self.sessions.tidy()
        return dict(json.loads(printed.getvalue()))


def run(laboratory: Laboratory, audits: int, seed: int, spark_every: int) -> Result:
    result = Result()
    cluster = LabCluster(laboratory, extra=BROKERS)
    stage = SecuredStage(laboratory, cluster=cluster)
    (laboratory.directory / "spark").mkdir()
    sessions = KeptSession(laboratory.directory / "spark", MASTER)
    story = Changes(cluster, seed)
    auditor = Auditor(stage, story, sessions, result, spark_every, Random(f"{seed} logs"))
    try:
        stage.to_dual_write()
        for number, mode in enumerate(MODES):
            if mode == "hybrid":
                roll_and_pause(stage, 2)
            elif mode == "KRaft":
                stage.service.operation(stage.migration, "resume")
                stage.wait_view(lambda view: None if len(view["road"]["kraft"]) == 3 else view["waiting"])
                cluster.wait_isr_whole(TOPICS)
            print(f"{mode}: the mode begins", flush=True)
            with changing(story, seed + number):
                auditor.audit(mode, audits // len(MODES) + (number < audits % len(MODES)))
        result.read_alike = sum(compared(each.data, 1.0, Random(seed)) for each in stage.fleet.ours)
    finally:
        sessions.stop()
    for what, count in sorted(story.tally.items()):
        print(f"  {count:5} {what}")
    return result


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--audits", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spark-every", type=int, default=5)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(words)

    def play(laboratory: Laboratory) -> None:
        result = run(laboratory, options.audits, options.seed, options.spark_every)
        print("\n".join(result.lines()), flush=True)
        if options.report is not None:
            options.report.write_text(json.dumps(vars(result), indent=1))
        assert not result.wrong, f"{len(result.wrong)} audits did not pass"

    outcome = outcome_of("clean", play)
    print(outcome, flush=True)
    return 0 if outcome == PASSED else 1


if __name__ == "__main__":
    sys.exit(main())
