"""Demos with one planted fault each, on real processes: every one of them has to end red, and for that reason.

    python -m tests.adversarial.planted_faults [--only lost,stall,audit] [--dir DIRECTORY]

| fault | what is done |
| --- | --- |
| lost | one acknowledged record is deleted from its partition, right before the outside reader reads |
| stall | every broker stands still (SIGSTOP) for 12 s in dual-write |
| audit | the last audit of dual-write is left out |

Exit codes: 0 every demo was red for the planted reason alone, 1 one was not. A demo takes about four minutes.
Elsewhere: the judgement of a report, fault by fault (tests/unit/lab/test_demo_report.py).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from migrator.lab.classes import prepared
from migrator.lab.demo.pace import WakeUps
from migrator.lab.demo.progress import ProgressReporter
from migrator.lab.demo.run import REPORT, Demo, Options, run_demo, write_report
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.proof import ReaderReport

STALL_S: Final = 12.0


class LostRecord(Demo):
    """One acknowledged record is deleted; its neighbours stay."""

    def _read_from_outside(self) -> ReaderReport:
        partition = TopicPartition(self.topics[5], 0)
        consumer = Consumer({**self.cluster.client, "group.id": "planted"})
        low, high = consumer.get_watermark_offsets(partition, timeout=60)
        consumer.close()
        assert high > low, partition
        partition.offset = low + 1
        self.cluster.admin().delete_records([partition])[partition].result(60)
        self.progress.say("planted", f"{partition.topic}-0 lost offset {low}")
        return super()._read_from_outside()


class Stall(Demo):
    """Nobody acknowledges anything for a while. Brokers keep their ZooKeeper sessions over it: where one expires, Kafka
    may never load a coordinator of transactions (docs/adversarial.md).
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        for broker in self.cluster.brokers:
            broker.spec = replace(broker.spec, extra={**broker.spec.extra, "zookeeper.session.timeout.ms": 40_000})

    def _audit(self) -> dict[str, Any]:
        for broker in self.cluster.brokers:
            broker.pause()
        time.sleep(STALL_S)
        for broker in self.cluster.brokers:
            broker.resume()
        self.progress.say("planted", f"every broker stood still for {STALL_S:.0f} s")
        self.cluster.wait_isr_whole(self._present_topics())
        return super()._audit()


class AuditLeftOut(Demo):
    """The second audit of dual-write is not made."""

    def _audit(self) -> dict[str, Any]:
        told = self.service.get(f"/migrations/{self.migration}/report")["audits"]
        made = [each for each in told if each["purpose"] == "demand"]
        return dict(made[-1]) if made else super()._audit()


FAULTS: Final[dict[str, tuple[type[Demo], str]]] = {
    "lost": (LostRecord, r"^outside reader: .*offset \d+"),
    "stall": (Stall, r"^dual-write: no acknowledgement for 1\d,\d{3}\.\d ms"),
    "audit": (AuditLeftOut, r"^1 of 2 audits were made in dual-write$"),
}


def problems_of(fault: str, directory: Path) -> list[str]:
    """What the report of a demo with this fault names."""

    def show(
        laboratory: Laboratory, options: Options, progress: ProgressReporter, artifacts: Artifacts, wake_ups: WakeUps
    ) -> bool:
        report = FAULTS[fault][0](laboratory, options, progress, artifacts, wake_ups).run()
        write_report(report, options)
        return report.ok

    passed = run_demo(Options(directory=directory, browser=False), show)
    problems = list(json.loads((directory / REPORT).read_text())["problems"])
    assert passed == (1 if problems else 0)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=",".join(FAULTS))
    parser.add_argument("--dir", type=Path)
    chosen = parser.parse_args()
    prepared()
    directory = chosen.dir or Path(tempfile.mkdtemp(prefix="zk2kraft-planted-"))
    wrong = 0
    for fault in chosen.only.split(","):
        problems = problems_of(fault, directory / fault)
        planted = bool(problems) and all(re.search(FAULTS[fault][1], each) for each in problems)
        wrong += not planted
        print(f"{fault}: {'red, as it has to be' if planted else 'WRONG'}: {problems}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
