"""`make bench-road`: the road from ZooKeeper to stock KRaft, by hand as Kafka's documentation says, and by zk2kraft.

In:   `python -m tests.benchmarks.stock_road [--topics N] [--rate R] [--only stock|driven|ours] [--directory D]
      [--save]`.
Out:  one table for both on stdout; the figures of each as a line of JSON on stderr; 1 when a record is lost.
Elsewhere: figures and table (road_figures.py), the probe and the rule of restarts (controller_probe.py).
Three clusters in one run, one after the other: three brokers each, the same topics, traffic, rate and machine.

The stock side does what a careful operator does by hand (Kafka 3.9 documentation, "ZooKeeper to KRaft Migration"):

1. Format three stock controllers with the cluster's id, the migration settings and `zookeeper.connect`. Start them.
2. Restart the brokers with the migration settings and the controllers' addresses, one after the other.
3. Wait until the active controller logs that the migration is completed and that it writes to both sides.
4. Restart the brokers in KRaft mode, without a ZooKeeper setting, one after the other.
5. Ask `kafka-metadata-quorum` who leads. Restart the controllers without the migration settings, one after the other,
   the leader last. After each, wait until no voter is behind. This finalizes.
6. Look into the log: the migration state is POST_MIGRATION.
7. Stop ZooKeeper. Create a topic.

The side of zk2kraft: three of our controllers, driven by the service through every phase from PREFLIGHT to COMPLETED.
It restarts brokers and controllers by `exec` templates. Step 7 is the same.

The third road is the same service with `engine: stock`: Kafka's own controllers, started and led by it.

The rule before the next restart is the same: for `SETTLE_S`, each broker says that nothing is under-replicated,
internal topics included. The service adds conditions of its own. `SHORTENED` says what neither side waits for here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import msgspec
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.demo.report import machine
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import our_quorum
from migrator.lab.servers.broker import BrokerProcess, BrokerSpec
from migrator.lab.servers.controller import StockController, StockQuorum
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.tools import describe_quorum
from migrator.lab.service import LabService
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.ledger import Acknowledged, read_ledger
from migrator.lab.traffic.proof import ReaderReport, prove
from tests.benchmarks.controller_probe import ControllerProbe, metadata_of, why_not_whole
from tests.benchmarks.figures import between_markers
from tests.benchmarks.road_figures import (
    BY_SERVICE,
    OURS,
    STOCK,
    Phase,
    RoadFigures,
    Stretches,
    Takeover,
    leader_and_lags,
    our_takeover,
    outages_s,
    phase_figures,
    slowest_s,
    stock_takeover,
    table,
)

PAGE: Final = Path(__file__).parents[2] / "docs" / "performance.md"
PAGE_WIDTH: Final = 120
MARKER: Final = "stock-road"
TOPICS: Final = 8
RATE: Final = 200.0
BEFORE_S: Final = 10.0
"""Traffic flows this long before the first step."""

SETTLE_S: Final = 1.0
SOAK_S: Final = 5.0
GONE_S: Final = 2.0
AUDIT_EVERY_S: Final = 20.0
STEP_DEADLINE_S: Final = 240.0
TOPIC_DEADLINE_S: Final = 30.0
NAME: Final = "twin"
NOT_APPROVED: Final = "Z2K-4210"
ENDED: Final = "migration state from MIGRATION to POST_MIGRATION"
ACKNOWLEDGED: Final = "acknowledged records"
"""The outside reader's check of them."""

CONTROLLER_SETTINGS: Final[Mapping[str, Value]] = {
    "zk2kraft.gates": "pause",
    "metadata.log.max.record.bytes.between.snapshots": 4_000,
}
STOCK_SETTINGS: Final[Mapping[str, Value]] = {"metadata.log.max.record.bytes.between.snapshots": 4_000}
SHORTENED: Final = (
    f"Both sides wait {SETTLE_S:g} s before the next restart. "
    f"SOAK lasts {SOAK_S:g} s (default 24 h), and `/brokers/ids` is empty for {GONE_S:g} s before FINALIZING "
    f"(default 60 s). The quick engine audits every {AUDIT_EVERY_S:g} s (default: Spark, every 15 minutes)."
)


class Twin:
    """One cluster of ZooKeeper-mode brokers with traffic and a probe, and what happens to it."""

    def __init__(self, laboratory: Laboratory, topics: int, rate: float) -> None:
        self.laboratory = laboratory
        self.cluster = LabCluster(laboratory)
        self.topics = [f"topic-{number}" for number in range(topics)]
        self.traffic = Traffic(laboratory, self.cluster.bootstrap_servers, rate=rate)
        self.probe = ControllerProbe({each.broker_id: each.spec.port for each in self.cluster.brokers})
        self.stretches = Stretches()
        self.broker_restarts = 0
        self.controller_restarts = 0

    @contextmanager
    def under_traffic(self) -> Iterator[None]:
        """From a whole cluster with flowing traffic on."""
        self.cluster.start()
        self.cluster.create_topics(self.topics, config={"min.insync.replicas": "2"})
        self.traffic.start(self.topics)
        self.traffic.wait_flowing()
        self.wait_whole(BEFORE_S)
        with self.probe:
            yield

    def begin(self, phase: Phase, at: float | None = None) -> None:
        self.stretches.begin(phase, at)
        print(f"{datetime.now(UTC):%H:%M:%S} {phase}", file=sys.stderr, flush=True)

    def wait_whole(self, settle_s: float = SETTLE_S) -> None:
        """Until every broker has said for so long that nothing is under-replicated."""
        since: list[float] = []

        def why_not() -> str | None:
            reason = self._why_not_whole()
            if reason is not None:
                since.clear()
                return reason
            since.append(time.monotonic())
            whole_s = since[-1] - since[0]
            return None if whole_s >= settle_s else f"whole for {whole_s:.1f} s"

        self.laboratory.wait(why_not, name="replicas", deadline_s=STEP_DEADLINE_S, poll_every_s=0.1)

    def _why_not_whole(self) -> str | None:
        try:
            answers = {each.broker_id: metadata_of(each.spec.port) for each in self.cluster.brokers}
        except OSError as error:
            return f"a broker does not answer ({error})"
        return why_not_whole(answers, self.topics)

    def restart_brokers(self, change: Callable[[BrokerSpec], BrokerSpec]) -> None:
        """One after the other."""
        for broker in self.cluster.brokers:
            self._restart(broker, change)

    def _restart(self, broker: BrokerProcess, change: Callable[[BrokerSpec], BrokerSpec]) -> None:
        self.broker_restarts += 1
        broker.restart_as(change(broker.spec))
        self.wait_whole()

    def end(self) -> None:
        """ZooKeeper goes; a topic comes."""
        self.begin(Phase.END)
        self.cluster.zookeeper.stop()
        new = NewTopic("after-zookeeper", 4, 3)
        admin = self.cluster.admin()
        for future in admin.create_topics([new], operation_timeout=TOPIC_DEADLINE_S).values():
            future.result(TOPIC_DEADLINE_S)
        self.topics.append("after-zookeeper")
        self.wait_whole()
        self.stretches.end()

    def figures(self, system: str, takeover: Takeover) -> RoadFigures:
        """After the end; stops the traffic."""
        status = self.traffic.stop()
        report = prove(self.cluster, self.traffic.ledger, without_zookeeper=True)
        entries = list(read_ledger(self.traffic.ledger))
        acknowledged_us = [each.acknowledged_us for each in entries if isinstance(each, Acknowledged)]
        stretches = self.stretches.found
        began, ended = stretches[0].began, stretches[-1].ended
        return RoadFigures(
            system=system,
            seconds=round(ended - began, 1),
            phases=phase_figures(stretches, acknowledged_us, self.probe.served_us),
            slowest_s=slowest_s(entries, began, ended),
            outages_s=outages_s(self.probe.served_us, began, ended),
            copy_s=takeover.copy_s,
            window_s=takeover.window_s,
            broker_restarts=self.broker_restarts,
            controller_restarts=self.controller_restarts,
            acknowledged=status.acknowledged,
            lost=_lost(report),
            wrong=report.bad,
        )


def _lost(report: ReaderReport) -> int:
    """Acknowledged records that the outside reader did not find. Records that it could not read fail the run."""
    return next(each.failed for each in report.checks if each.name == ACKNOWLEDGED)


# --- stock, by hand ---------------------------------------------------------------------------------------


def stock_road(twin: Twin) -> RoadFigures:
    """The steps of the module's docstring."""
    with twin.under_traffic():
        twin.begin(Phase.PREPARE)
        quorum = twin.cluster.quorum(3)
        quorum.start()
        twin.begin(Phase.JOIN)
        twin.restart_brokers(lambda spec: spec.as_migrating(quorum.voters))
        quorum.wait_dual_write(STEP_DEADLINE_S)
        takeover = _takeover_of(quorum)
        twin.begin(Phase.TAKEOVER, at=takeover.claimed)  # stock claims as soon as the last broker registers
        twin.wait_whole()
        twin.begin(Phase.ROLL)
        twin.restart_brokers(lambda spec: spec.as_kraft(quorum.voters))
        twin.begin(Phase.FINALIZE)
        _finalize(twin, quorum)
        twin.end()
    return twin.figures(STOCK, takeover)


def _takeover_of(quorum: StockQuorum) -> Takeover:
    found = [stock_takeover(each.process.log_text()) for each in quorum.controllers]
    taken = next((each for each in found if each is not None), None)
    assert taken is not None, "no stock controller logged a completed migration"
    return taken


def _finalize(twin: Twin, quorum: StockQuorum) -> None:
    leader, _ = leader_and_lags(describe_quorum(twin.laboratory, quorum.addresses, "--replication"))
    for controller in sorted(quorum.controllers, key=lambda each: each.spec.node_id == leader):
        twin.controller_restarts += 1
        controller.stop()
        controller.spec = replace(controller.spec, migrating=False)
        controller.start()
        controller.wait_ready()
        _wait_voters(twin, quorum)
        twin.wait_whole()
    twin.laboratory.wait(lambda: _why_not_final(quorum.controllers), name="finalize", deadline_s=STEP_DEADLINE_S)


def _wait_voters(twin: Twin, quorum: StockQuorum) -> None:
    """As `kafka-metadata-quorum` tells; asked again while a voter is behind."""

    def why_not() -> str | None:
        leader, lags = leader_and_lags(describe_quorum(twin.laboratory, quorum.addresses, "--replication"))
        behind = {node: lag for node, lag in lags.items() if lag}
        return None if leader is not None and not behind else f"the leader is {leader}, behind are {behind}"

    twin.laboratory.wait(why_not, name="voters", deadline_s=STEP_DEADLINE_S, poll_every_s=0.5)


def _why_not_final(controllers: list[StockController]) -> str | None:
    left = [each.name for each in controllers if ENDED not in each.process.log_text()]
    return f"not POST_MIGRATION on {', '.join(left)}" if left else None


# --- zk2kraft ---------------------------------------------------------------------------------------------


class Driven:
    """The service as an operator and a second person use it, by its REST API. after_brokers: the phase that is next."""

    after_brokers = "REPLACING_CONTROLLERS"

    def __init__(self, twin: Twin) -> None:
        self.twin = twin
        self.service = LabService(
            twin.laboratory,
            audit_engine="quick",
            fleets=str(twin.laboratory.directory / "fleet"),
            settle_s=SETTLE_S,
            soak_s=SOAK_S,
            brokers_gone_s=GONE_S,
            audit_every_s=AUDIT_EVERY_S,
            node_deadline_s=STEP_DEADLINE_S,
            drift_every_s=5,
        )
        self.migration = 0

    def prepare(self) -> None:
        """Controllers are formatted, the service runs and knows the migration; nothing has begun."""
        cluster = self.twin.cluster
        self.controllers = our_quorum(cluster, 3, CONTROLLER_SETTINGS)
        for each in self.controllers:
            each.prepare()
        self.fleet = LabFleet(cluster, self.controllers)
        self.fleet.serve()
        self.fleet.write(NAME)
        self.service.start()
        self.migration = self.service.create(NAME, cluster, self.controllers)

    def wait_gate(self, phase: str) -> None:
        """Until it is open; a second person approves as soon as nothing else is missing."""

        def why_not(view: dict[str, Any]) -> str | None:
            edge = next((each for each in view["gates"] if each["to"] == phase), None)
            if edge is None:
                return f"{view['phase']}: {view['waiting']}"
            closed = [each for each in edge["conditions"] if each["status"] != "True"]
            if closed and all(NOT_APPROVED in each["codes"] for each in closed):
                self.service.operation(self.migration, "approve", phase, "all evidence is there", who="second person")
                return "approved just now"
            return "; ".join(f"{each['name']}: {each['message']}" for each in closed) or None

        self.service.wait_view(self.migration, why_not, deadline_s=STEP_DEADLINE_S)

    def go_on(self, phase: str, through: str | None = None) -> None:
        """Ask for it, and wait until it is there. through: the phase to which it leads by itself."""
        self.service.operation(self.migration, "advance", phase)
        self.service.wait_phase(self.migration, through or phase, deadline_s=3 * STEP_DEADLINE_S)

    def wait_brokers(self) -> None:
        """Until every broker is whole in KRaft mode."""

        def why_not(view: dict[str, Any]) -> str | None:
            nodes = [each for each in view["road"]["nodes"] if each["roll"] == "kraft"]
            left = {each["node_id"]: each["step"] for each in nodes if each["step"] != "WHOLE"}
            assert "FAILED" not in left.values(), f"the roll failed: {nodes}"
            return None if nodes and not left else f"{view['phase']}: {view['waiting']}"

        self.service.wait_view(self.migration, why_not, deadline_s=3 * STEP_DEADLINE_S)

    def restarts(self, *nodes: int) -> int:
        """How often the service started one of these nodes."""
        return sum(each.act == "start" and each.node in nodes for each in self.fleet.done)

    def takeover(self) -> Takeover:
        logs = (self.service.directory / "data" / "controllers").glob("*.log")
        found = [our_takeover(_events(each)) for each in logs]
        taken = next((each for each in found if each is not None), None)
        assert taken is not None, "no controller of ours logged a takeover"
        return taken


def _events(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def our_road(twin: Twin) -> RoadFigures:
    return driven_road(twin, Driven(twin), OURS)


def driven_road(twin: Twin, driven: Driven, system: str) -> RoadFigures:
    """Through every phase that this engine has."""
    with twin.under_traffic():
        twin.begin(Phase.PREPARE)
        driven.prepare()
        twin.begin(Phase.CHECK)
        driven.wait_gate("PREFLIGHT")
        driven.go_on("PREFLIGHT")
        driven.wait_gate("QUORUM")
        driven.go_on("QUORUM", through="BROKERS_JOINING")
        driven.wait_gate("BROKERS_JOINING")
        twin.begin(Phase.JOIN)
        driven.go_on("BROKERS_JOINING", through="READY")
        twin.begin(Phase.CHECK)
        driven.wait_gate("TAKEOVER")
        twin.begin(Phase.TAKEOVER)
        driven.go_on("TAKEOVER", through="DUAL_WRITE")
        twin.begin(Phase.CHECK)
        driven.wait_gate("ROLLING_BROKERS")
        twin.begin(Phase.ROLL)
        driven.go_on("ROLLING_BROKERS")
        driven.wait_brokers()
        twin.begin(Phase.CHECK)
        driven.wait_gate(driven.after_brokers)
        if driven.after_brokers != "SOAK":
            twin.begin(Phase.REPLACE)
            driven.go_on(driven.after_brokers, through="SOAK")
            twin.begin(Phase.SOAK)
        else:
            twin.begin(Phase.SOAK)
            driven.go_on("SOAK")
        driven.wait_gate("FINALIZING")
        twin.begin(Phase.FINALIZE)
        driven.go_on("FINALIZING", through="COMPLETED")
        twin.end()
        twin.broker_restarts = driven.restarts(*(each.broker_id for each in twin.cluster.brokers))
        twin.controller_restarts = driven.restarts(*driven.fleet.stock)
    return twin.figures(system, driven.takeover())


# --- stock, by the service --------------------------------------------------------------------------------


class DrivenStock(Driven):
    """With `engine: stock`: of the controllers their files and empty directories, as an operator prepares them."""

    after_brokers = "SOAK"

    def prepare(self) -> None:
        cluster = self.twin.cluster
        self.controllers = our_quorum(cluster, 3, STOCK_SETTINGS)
        for each in self.controllers:
            each.data.mkdir(parents=True, exist_ok=True)
            write(each.properties_file, each.spec.properties())
        self.fleet = LabFleet(cluster, self.controllers)
        self.fleet.serve()
        self.fleet.write(NAME)
        self.service.start()
        self.migration = self.service.create(NAME, cluster, self.controllers, engine="stock")

    def takeover(self) -> Takeover:
        found = [stock_takeover(each.process.log_text()) for each in self.fleet.stock.values()]
        taken = next((each for each in found if each is not None), None)
        assert taken is not None, "no stock controller logged a completed migration"
        return taken


def driven_stock_road(twin: Twin) -> RoadFigures:
    """Without the phase that replaces controllers; the last broker's restart is the takeover."""
    return driven_road(twin, DrivenStock(twin), BY_SERVICE)


# --- the run ----------------------------------------------------------------------------------------------

ROADS: Final[dict[str, Callable[[Twin], RoadFigures]]] = {
    "stock": stock_road,
    "driven": driven_stock_road,
    "ours": our_road,
}


def measure(name: str, directory: Path, topics: int, rate: float) -> RoadFigures:
    with Laboratory(directory / name, prepared()) as laboratory:
        twin = Twin(laboratory, topics, rate)
        found = ROADS[name](twin)
    print(msgspec.json.encode(found).decode(), file=sys.stderr, flush=True)
    print(f"answers that refused, by error code: {dict(twin.probe.refused)}", file=sys.stderr, flush=True)
    return found


def page_text(found: list[RoadFigures], topics: int, rate: float, on: datetime) -> str:
    """What `--save` puts between the markers of docs/performance.md. It is printed right after the runs."""
    here = machine()
    setting = (
        f"{on:%Y-%m-%d}; {here['cores']} cores, {here['memory_gib']:.0f} GiB, everything on loopback; load average "
        f"{os.getloadavg()[2]:.0f} over the last 15 minutes. Kafka 3.9.2, three brokers and three controllers on each "
        f"side, {topics} topics x 4 partitions with `min.insync.replicas=2`, {rate:g} records a second. One run of "
        f"each, one after the other. {SHORTENED}"
    )
    return f"{fill(setting, PAGE_WIDTH, break_on_hyphens=False)}\n\n{table(found)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--rate", type=float, default=RATE, help="records a second")
    parser.add_argument("--only", choices=tuple(ROADS))
    parser.add_argument("--directory", type=Path, help="keeps logs and data of both sides")
    parser.add_argument("--save", action="store_true", help="renew the table of docs/performance.md")
    arguments = parser.parse_args()
    names = tuple(ROADS) if arguments.only is None else (arguments.only,)
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary)
        found = [measure(each, directory, arguments.topics, arguments.rate) for each in names]
    text = page_text(found, arguments.topics, arguments.rate, datetime.now(UTC))
    print(text)
    if arguments.save:
        PAGE.write_text(between_markers(PAGE.read_text(), MARKER, text))
    for each in found:
        for check, first in each.wrong.items():
            print(f"{each.system}: {check}: {', '.join(first)}", file=sys.stderr)
    return 1 if any(each.lost or each.wrong for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
