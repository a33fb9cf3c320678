"""`zk2kraft demo --full`: a real cluster goes from ZooKeeper to stock KRaft, to a later Kafka, with clients at work.

In:   what every demo has (run.py). Out: the story on standard output, a report; 0 when all evidence passed.
Elsewhere: the way to dual-write (run.py), what the service does on it (state_machine/work).
Every step goes through the service's REST API, and the service operates every node by `exec` templates. The roll to the
later Kafka, after COMPLETED, is the operator's own work here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # public, but not re-exported for mypy

from migrator.findings.laboratory import DEMO_STOPPED
from migrator.http.addresses import CHANGE_PAGE, CHANGE_REPORT
from migrator.http.addresses import REPORT as REPORT_ADDRESS
from migrator.lab.classes import prepared
from migrator.lab.demo.full_report import FullReport, NodeRestart, RolledBack, Stage, full_problems
from migrator.lab.demo.pace import WakeUps
from migrator.lab.demo.progress import ProgressReporter
from migrator.lab.demo.report import ClusterFigures, machine, versions
from migrator.lab.demo.run import NAME, REPORT, Demo, Options, write_report
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import UNHURRIED, OurController
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION, Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import Server
from migrator.lab.service import LabService
from migrator.lab.traffic.figures import figures_between
from migrator.lab.traffic.ledger import read_ledger
from migrator.lab.traffic.proof import prove

ENGINE: Final = "quick"
CHANGE_REPORTS: Final = "change-reports"
NOT_APPROVED: Final = "Z2K-4210"
SETTLE_S: Final = 3.0
SOAK_S: Final = 30.0
GONE_S: Final = 5.0
AUDIT_EVERY_S: Final = 60.0
SNAPSHOT_BYTES: Final = 4_000
ROLL_DEADLINE_S: Final = 240.0
RESUME_DEADLINE_S: Final = 60.0
WHOLE_DEADLINE_S: Final = 90.0
TOPIC_DEADLINE_S: Final = 30.0

SHORTENED: Final = (
    f"nothing under-replicated for {SETTLE_S:g} s before the next restart; the default is 60 s",
    f"SOAK lasts {SOAK_S:g} s; the default is 24 h",
    f"/brokers/ids was empty for {GONE_S:g} s before FINALIZING; the default is 60 s",
    f"controllers write a snapshot after {SNAPSHOT_BYTES:,} bytes of records; Kafka's default is 20 MB",
    "audits by the quick engine, every minute; the default is Spark, every 15 minutes",
    "no soak between FINALIZING and the later Kafka, and none of its gates (deprecated requests, removed keys)",
)
NOT_VERIFIED: Final = (
    "listeners with TLS or SASL, an authorizer, two log directories: none here",
    "clocks, disks and networks of more than one machine: everything ran on loopback",
    "elections within Kafka's default times: these controllers, which share a machine, have three times as long",
)
NO_ROLLBACK: Final = "the way back from here: none of it was used (`zk2kraft demo --rollback-from` shows it)"


class FullDemo(Demo):
    """To the end."""

    engine: ClassVar[str] = ENGINE

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.stages: list[Stage] = []
        self.fleet: LabFleet | None = None
        self.rolled_back: RolledBack | None = None
        self._most_down = 0
        self._stage = ("", 0.0)

    def a_service(self) -> LabService:
        return LabService(
            self.laboratory,
            audit_engine=ENGINE,
            fleets=str(self.laboratory.directory / "fleet"),
            settle_s=SETTLE_S,
            soak_s=SOAK_S,
            brokers_gone_s=GONE_S,
            audit_every_s=AUDIT_EVERY_S,
            node_deadline_s=ROLL_DEADLINE_S,
            drift_every_s=5,
        )

    def controller_settings(self) -> dict[str, Value]:
        return {
            "zk2kraft.gates": "pause",
            **UNHURRIED,
            "metadata.log.max.record.bytes.between.snapshots": SNAPSHOT_BYTES,
        }

    def run_to_the_end(self) -> FullReport:
        self._open_the_page()
        self._to_dual_write(self._build(), NAME)
        return self._from_dual_write()

    def _to_dual_write(self, first: OurController, name: str) -> None:
        """A migration that was created under this name; its fleet stands beside the service."""
        self.fleet = LabFleet(self.cluster, self.controllers)
        self.fleet.canary = True
        self.fleet.serve()
        self.fleet.write(name)
        self._go_on("PREFLIGHT", "a look at the cluster")
        self.service.wait_gate(self.migration, "QUORUM")
        self._go_on("QUORUM", "nothing stands in the way")
        self._join(first)
        self._rehearsed()
        self._keep_change_report()
        self._wait_until_calm()
        self._go_on("TAKEOVER", "rehearsed and proven", through="DUAL_WRITE")
        self._tell_window()

    def _from_dual_write(self) -> FullReport:
        self._brokers_to_kraft()
        self._stock_controllers()
        self.service.wait_gate(self.migration, "FINALIZING", but=[NOT_APPROVED])
        self.service.operation(self.migration, "approve", "FINALIZING", "all evidence is there", who="second person")
        self._next_stage("finalize")
        self._step_to("FINALIZING", through="COMPLETED")
        view = self._view()
        created_s = self._without_zookeeper()
        self._next_stage("later Kafka")
        later = self._later_kafka()
        raised = self._raise_level()
        self._next_stage("end")
        return self._full_report(view, created_s, later, raised)

    def _build(self) -> OurController:
        """The first stage begins here, where traffic flows: the start of the cluster before it is no stall."""
        controller = super()._build()
        self._stage = ("to dual-write", time.time())
        return controller

    # --- the road ------------------------------------------------------------------------------------------

    def _brokers_to_kraft(self) -> None:
        self._next_stage("brokers to KRaft")
        self._step_to("ROLLING_BROKERS")
        self._rolled("kraft", 3 * ROLL_DEADLINE_S)

    def _stock_controllers(self) -> None:
        self._next_stage("stock controllers")
        self._step_to("REPLACING_CONTROLLERS", through="SOAK")
        self._rolled("stock", ROLL_DEADLINE_S)
        self._next_stage("soak")

    def _join(self, controller: OurController) -> None:
        """The service restarts the brokers with their migration files, one by one."""
        self.service.wait_phase(self.migration, "BROKERS_JOINING")
        self.service.wait_gate(self.migration, "BROKERS_JOINING")
        self._go_on("BROKERS_JOINING", "the gate is open", through="READY", within_s=3 * ROLL_DEADLINE_S)

    def _step_to(self, phase: str, through: str | None = None) -> None:
        self.service.wait_gate(self.migration, phase)
        self._go_on(phase, "the gate is open", through=through, within_s=3 * ROLL_DEADLINE_S)

    def _rolled(self, roll: str, deadline_s: float) -> None:
        """Every node of this roll is whole; a failed one ends the demo."""
        self._some_rolled(roll, None, deadline_s)

    def _some_rolled(self, roll: str, count: int | None, deadline_s: float) -> None:
        """count: so many nodes of this roll are whole; None: all of them."""

        def why_not(view: dict[str, Any]) -> str | None:
            nodes = [each for each in view["road"]["nodes"] if each["roll"] == roll]
            failed = next((each for each in nodes if each["step"] == "FAILED"), None)
            if failed is not None and self._tend(view):
                return "a broker was restarted"
            if failed is not None:
                raise DEMO_STOPPED.error(phase=view["phase"], reason=f"{roll} {failed['node_id']}: {failed['cause']}")
            whole = [each["node_id"] for each in nodes if each["step"] == "WHOLE"]
            enough = nodes and len(whole) >= (len(nodes) if count is None else count)
            return None if enough else f"{view['phase']}: {view['waiting']}"

        view = self.service.wait_view(self.migration, why_not, deadline_s=deadline_s)
        for each in view["road"]["nodes"]:
            if each["roll"] == roll and each["step"] == "WHOLE":
                self.progress.say(roll, f"{each['role']} {each['node_id']} whole after {each['took_s']:.1f} s")

    def _tend(self, view: dict[str, Any]) -> bool:
        """Where a node failed: restart the broker that met Kafka's flaw of Z2K-2043, if one did, as its runbook says.

        Returns whether one was restarted; then the service goes on.
        """
        if not _failed_nodes(view) or not self.cluster.restart_flawed():
            return False
        self.progress.say("runbook", "a broker met Kafka's flaw of Z2K-2043: it was restarted, and the service goes on")
        self.service.operation(self.migration, "resume")
        self.service.wait_view(
            self.migration,
            lambda now: f"failed: {_failed_nodes(now)}" if _failed_nodes(now) else None,
            deadline_s=RESUME_DEADLINE_S,
        )
        return True

    def _next_stage(self, name: str) -> None:
        before, began = self._stage
        now = time.time()
        ledger = list(read_ledger(self.traffic.ledger))
        figures = figures_between(ledger, int(began * 1e6), int(now * 1e6))
        stall = round(figures.longest_stall_ms, 1)
        self.stages.append(Stage(before, round(now - began, 1), stall))
        self.progress.say("stage", f"{before}: {now - began:.0f} s, longest stall {stall} ms  {self._counters()}")
        self._stage = (name, now)

    def _without_zookeeper(self) -> float:
        """ZooKeeper goes; the cluster does not notice."""
        self.watcher.stop()
        self.cluster.zookeeper.stop()
        self.progress.say("ZooKeeper", "stopped for good")
        began = time.monotonic()
        self._create("after-zookeeper")
        took = round(time.monotonic() - began, 2)
        self.progress.say("topic", f"after-zookeeper created in {took} s without ZooKeeper")
        return took

    def _create(self, topic: str) -> None:
        """Bounded, by a new client: one that lives on may wait for a broker that was stopped."""
        admin = self.cluster.admin()
        new = NewTopic(topic, self.options.partitions, min(3, self.options.brokers))
        for future in admin.create_topics([new], operation_timeout=TOPIC_DEADLINE_S).values():
            future.result(TOPIC_DEADLINE_S)
        self._wait_whole()

    def _wait_whole(self) -> float:
        def why_not() -> str | None:
            try:
                topics = self.cluster.admin().list_topics(timeout=5).topics
            except KafkaException as error:
                return f"no metadata ({error.args[0]})"
            bad = [
                f"{name}-{number}"
                for name, topic in topics.items()
                for number, each in topic.partitions.items()
                if each.leader < 0 or set(each.isrs) != set(each.replicas)
            ]
            return f"{len(bad)} partitions are not whole, for instance {bad[0]}" if bad else None

        return self.laboratory.wait(why_not, name="replicas", deadline_s=WHOLE_DEADLINE_S)

    # --- a later Kafka -------------------------------------------------------------------------------------

    def _later_kafka(self) -> list[NodeRestart]:
        """Software first, one node at a time; metadata.version afterwards. The guard is taken out of the units before,
        as the runbook of COMPLETED says: it starts no later Kafka.
        """
        assert self.fleet is not None
        later = prepared(LATER_KAFKA_VERSION)
        controllers: Iterable[Server] = self.fleet.stock.values()
        found = []
        for role, servers in (("controller", list(controllers)), ("broker", list(self.cluster.brokers))):
            for server in servers:
                began = time.monotonic()
                server.stop()
                server.kafka, server.behind = later, ()
                server.start_as_written()
                server.wait_ready()
                self._wait_whole()
                took = round(time.monotonic() - began, 1)
                node = int(server.name.rpartition("-")[2])
                found.append(NodeRestart(f"later {role}", node, took))
                self.progress.say("later Kafka", f"{role} {node} runs Kafka {later.version}, whole after {took} s")
        return found

    def _raise_level(self) -> str:
        """By the service, which another person lets do it; it cannot be undone."""
        self.service.wait_gate(self.migration, "COMPLETED", but=[NOT_APPROVED])
        self.service.operation(self.migration, "approve", "COMPLETED", "every node is new", who="second person")
        self.service.wait_gate(self.migration, "COMPLETED")
        before = self._view()["version"]
        self.service.operation(self.migration, "finalize-version", "COMPLETED", "every node runs a later Kafka")

        def why_not(view: dict[str, Any]) -> str | None:
            operation = next(iter(view["operations"]), None)
            if operation is not None and operation["state"] == "refused":
                raise DEMO_STOPPED.error(phase=view["phase"], reason=operation["answer"])
            return None if view["version"] != before else f"{view['phase']}: {view['waiting']}"

        view = self.service.wait_view(self.migration, why_not, deadline_s=WHOLE_DEADLINE_S)
        said = str(view["events"][-1]["reason"])
        self.progress.say("metadata.version", said)
        self._create("after-the-raise")
        return said

    # --- the report ----------------------------------------------------------------------------------------

    def _keep_change_report(self) -> dict[str, Any]:
        """As the change board would get it in this phase, page and JSON, beside the report of the demo."""
        document = self.service.get(CHANGE_REPORT(number=self.migration))
        page = self.service.page_of(CHANGE_PAGE(number=self.migration))
        directory = self.options.directory / CHANGE_REPORTS
        directory.mkdir(exist_ok=True)
        file = directory / f"{document['name']}-{document['phase']}"
        file.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        file.with_suffix(".html").write_text(page)
        self.progress.say("change report", f"of {document['name']} in {document['phase']}: {file.with_suffix('.html')}")
        return document

    def _full_report(self, view: dict[str, Any], created_s: float, later: list[NodeRestart], raised: str) -> FullReport:
        assert self.fleet is not None
        options = self.options
        self.traffic.wait_acknowledged(options.acknowledged_least, 300.0)
        self.traffic.stop()
        self.progress.say("traffic", f"stopped, everything answered  {self._counters()}")
        reader = prove(self.cluster, self.traffic.ledger, without_zookeeper=True)
        told = self.service.get(REPORT_ADDRESS(number=self.migration))
        self._keep_change_report()
        road = view["road"]
        report = FullReport(
            ok=False,
            problems=[],
            shortened=list(SHORTENED),
            not_verified=[
                *told["not_verified"],
                *NOT_VERIFIED,
                *((NO_ROLLBACK,) if self.rolled_back is None else ()),
            ],
            versions=versions(self.artifacts),
            machine=machine(),
            cluster=ClusterFigures(
                brokers=options.brokers,
                controllers=options.controllers,
                topics=options.topics,
                partitions=options.topics * options.partitions,
                replication=min(3, options.brokers),
            ),
            seconds=round(self.progress.seconds, 1),
            phases=told["phases"],
            stages=self.stages,
            restarts=[NodeRestart(each["roll"], each["node_id"], each["took_s"]) for each in road["nodes"]],
            most_down=max(self.fleet.most_down, self._most_down),
            approval=road["approval"] or {},
            intent=road["intent"],
            topic_without_zookeeper_s=created_s,
            later_kafka=LATER_KAFKA_VERSION,
            later_restarts=later,
            metadata_version_raised=raised,
            audits=told["audits"],
            audit_page=self._keep_audit_page(last_of_three_sides(told["audits"])),
            traffic=self.traffic.status,
            outside_reader=reader,
            rolled_back=self.rolled_back,
        )
        report.problems = full_problems(report, options)
        report.ok = not report.problems
        return report


def last_of_three_sides(audits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The newest audit that has a result and asked brokers."""
    return max((each for each in audits if each["result"] and each["brokers"]), key=lambda each: int(each["id"]))


def _failed_nodes(view: dict[str, Any]) -> list[int]:
    nodes = [] if view["road"] is None else view["road"]["nodes"]
    return [each["node_id"] for each in nodes if each["step"] == "FAILED"]


def run_full(
    laboratory: Laboratory, options: Options, progress: ProgressReporter, artifacts: Artifacts, wake_ups: WakeUps
) -> bool:
    report = FullDemo(laboratory, options, progress, artifacts, wake_ups).run_to_the_end()
    return tell_full(report, options, progress)


def tell_full(report: FullReport, options: Options, progress: ProgressReporter) -> bool:
    """Write and tell it; whether everything passed."""
    write_report(report, options)
    progress.plain()
    for problem in report.problems:
        progress.plain(f"NOT PASSED  {problem}")
    for each in report.shortened:
        progress.plain(f"shortened  {each}")
    for each in report.not_verified:
        progress.plain(f"not verified  {each}")
    progress.plain(f"report  {options.report or options.directory / REPORT}")
    verdict = "passed" if report.ok else "NOT PASSED"
    progress.plain(f"{verdict}: {report.traffic.counters}, {report.seconds} s")
    return report.ok
