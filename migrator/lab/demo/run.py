"""`zk2kraft demo`: a real cluster with clients at work goes to dual-write under our controller, and goes back.

In:   `Options`.
Out:  the story on standard output, a report as JSON; 0 when all evidence passed.
Elsewhere: each part (lab/cluster.py, lab/service.py, traffic/control.py, traffic/proof.py, changes.py), what counts as
passed (report.py).
Every step goes through the service's REST API. The demo itself is the operator: it restarts brokers one at a time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from migrator.findings.laboratory import DEMO_NOT_POSSIBLE, DEMO_STOPPED
from migrator.http.addresses import AUDIT_PAGE, STEPS
from migrator.http.addresses import REPORT as REPORT_ADDRESS
from migrator.lab.classes import prepared
from migrator.lab.cluster import LabCluster
from migrator.lab.demo.changes import RECREATED_MARK, DemoChange, DemoChanges
from migrator.lab.demo.pace import Moments, WakeUps, measure
from migrator.lab.demo.progress import ProgressReporter
from migrator.lab.demo.report import (
    LIMITS,
    ONE_CONTROLLER,
    ClusterFigures,
    DemoReport,
    DualWrite,
    FailOver,
    Rollback,
    Stopped,
    TakeoverFigures,
    family_table,
    machine,
    not_measured,
    notes,
    problems,
    versions,
    what_brokers_said,
)
from migrator.lab.ours import OurController, our_quorum
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.service import INSPECTION_DEADLINE_S, LabService
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.figures import WINDOW_S, figures_between
from migrator.lab.traffic.ledger import read_ledger
from migrator.lab.traffic.proof import ReaderReport, prove
from migrator.lab.watcher import (
    ClaimHolder,
    first_reign,
    longest_absence_s,
    read_observations,
    reigns,
    start_watcher,
    unseen_s,
)

MARKER: Final = ".zk2kraft-demo"
LAB: Final = "lab"
"""Data and logs of everything that ran; gone at the end of a demo that passed."""
BEFORE: Final = "before"
REPORT: Final = "report.json"
AUDIT_REPORT: Final = "audit.html"
NAME: Final = "demo"
ENGINE: Final = "spark"
ASTRAY: Final = ("READY", "ABORTING", "ROLLED_BACK")
"""Where no step forward of the demo ends: somebody or something went back."""

BROKER_AWAY_S: Final = 20.0
AFTER_ROLLBACK_S: Final = 5.0
ACKNOWLEDGED_LEAST: Final = 50_000
TRAFFIC_DEADLINE_S: Final = 300.0
PERSON_DEADLINE_S: Final = 24 * 3600.0
"""With --step a person decides when."""

CALM_MS: Final = 250.0
"""Of a hundred records of the last ten seconds, 99 are acknowledged within this time."""
CALM_WITHIN_S: Final = 30.0

KILLS: Final = 2
FAIL_OVER_DEADLINE_S: Final = 60.0
AFTER_KILL_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """directory: gets everything. report: a second copy of the report. keep: leave brokers' data and logs."""

    directory: Path
    report: Path | None = None
    brokers: int = 3
    controllers: int = 1
    topics: int = 30
    partitions: int = 4
    step: bool = False
    keep: bool = False
    browser: bool = True
    acknowledged_least: int = ACKNOWLEDGED_LEAST
    broker_away_s: float = BROKER_AWAY_S


Show = Callable[[Laboratory, Options, ProgressReporter, Artifacts, WakeUps], bool]


def run_demo(options: Options, show: Show | None = None) -> int:
    """Returns 0 when everything was passed, 1 when something was not. Raises Z2K-6017, Z2K-6018 and what stopped it.

    show: what is shown; None: to dual-write and back.
    """
    _check(options)
    clean(options.directory)
    artifacts = prepared()
    with ExitStack() as stack:
        progress = stack.enter_context(ProgressReporter())
        laboratory = stack.enter_context(Laboratory(options.directory / LAB, artifacts, say=progress.waiting))
        wake_ups = stack.enter_context(WakeUps())
        passed = (show or there_and_back)(laboratory, options, progress, artifacts, wake_ups)
    if passed and not options.keep:
        shutil.rmtree(options.directory / LAB)
    return 0 if passed else 1


def there_and_back(
    laboratory: Laboratory, options: Options, progress: ProgressReporter, artifacts: Artifacts, wake_ups: WakeUps
) -> bool:
    report = Demo(laboratory, options, progress, artifacts, wake_ups).run()
    write_report(report, options)
    _tell_end(progress, report, options)
    return report.ok


def write_report(report: msgspec.Struct, options: Options) -> None:
    text = msgspec.json.format(msgspec.json.encode(report), indent=1)
    for file in filter(None, (options.directory / REPORT, options.report)):
        file.write_bytes(text + b"\n")


def _check(options: Options) -> None:
    if options.controllers not in (1, 3, 5):
        raise DEMO_NOT_POSSIBLE.error(reason=f"{options.controllers} controllers are not 1, 3 or 5")
    if not 2 <= options.brokers <= 9:
        raise DEMO_NOT_POSSIBLE.error(reason=f"{options.brokers} brokers are not between 2 and 9")
    if options.topics < 3 or options.partitions < 1:
        raise DEMO_NOT_POSSIBLE.error(
            reason="it needs 3 topics or more (one gets partitions, one is deleted, one is created again)"
        )
    directory = options.directory
    if directory.exists() and any(directory.iterdir()) and not (directory / MARKER).exists():
        raise DEMO_NOT_POSSIBLE.error(reason=f"{directory} contains files that are not of a demo")


def clean(directory: Path) -> None:
    """What a demo before left is replaced. If it failed or was to be kept, its files are in BEFORE then, where those of
    one demo have room.
    """
    aside = directory / BEFORE
    if (directory / MARKER).exists() and not (directory / LAB).exists():
        shutil.rmtree(directory)
    elif (directory / MARKER).exists():
        shutil.rmtree(aside, ignore_errors=True)
        left = list(directory.iterdir())
        aside.mkdir()
        for each in left:
            each.rename(aside / each.name)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARKER).touch()


class Demo:
    """One run: what it needs, and what it has collected so far."""

    engine: ClassVar[str] = ENGINE
    controllers_of: ClassVar[str] = "zk2kraft"
    """`engine` of the migration."""

    def __init__(
        self,
        laboratory: Laboratory,
        options: Options,
        progress: ProgressReporter,
        artifacts: Artifacts,
        wake_ups: WakeUps,
    ) -> None:
        self.laboratory = laboratory
        self.options = options
        self.progress = progress
        self.artifacts = artifacts
        self.wake_ups = wake_ups
        self.cluster = LabCluster(laboratory, brokers=options.brokers)
        self.service = self.a_service()
        self.controllers: list[OurController] = []
        self.traffic = Traffic(laboratory, self.cluster.bootstrap_servers)
        self.topics = [f"demo-{number:02}" for number in range(options.topics)]
        self.changes = DemoChanges(self.cluster, self.traffic, self.topics, options.partitions)
        self.changed: list[DemoChange] = []
        self.stopped: list[Stopped] = []
        self.audit_page = ""
        self.fail_overs: list[FailOver] = []
        self.undo: dict[str, dict[str, Any]] = {}
        self.lag_ms = 0.0
        self.migration = 0
        self._calm_at = 0.0

    def a_service(self) -> LabService:
        return LabService(self.laboratory, audit_engine=self.engine, spark_master="local[2]")

    def controller_settings(self) -> dict[str, Value]:
        """Beside what every controller of the laboratory has."""
        return {"zk2kraft.gates": "pause"}

    def run(self) -> DemoReport:
        self._open_the_page()
        controller = self._build()
        self._go_on("PREFLIGHT", "the cluster is checked")
        self.service.wait_gate(self.migration, "QUORUM")
        self._go_on("QUORUM", "the check found nothing that blocks")
        self._join(controller)
        self._rehearsed()
        self._wait_until_calm()
        self._go_on("TAKEOVER", "the rehearsal passed", through="DUAL_WRITE")
        self._tell_window()
        self._audit()
        for change in self.changes.run():
            self._note(change)
        for number in range(self.options.brokers):
            self._stop_a_broker(number)
        if self.options.controllers > 1:
            for _ in range(KILLS):
                self._kill_the_active_controller()
        last_audit = self._audit()
        self.audit_page = self._keep_audit_page(last_audit)
        self.traffic.wait_acknowledged(self.options.acknowledged_least, TRAFFIC_DEADLINE_S)
        self.undo["DUAL_WRITE"] = self._view()["undo"]
        rollback = self._rollback()
        self.undo["ROLLED_BACK"] = self._view()["undo"]
        return self._report(rollback, self._read_from_outside(), last_audit)

    # --- the cluster and its clients -----------------------------------------------------------------------

    def _open_the_page(self) -> None:
        self.service.on_row = self._tell_row
        self.service.start()
        self.progress.plain(f"page  {self.service.page}")
        if self.options.browser and sys.stdout.isatty():
            with suppress(webbrowser.Error):
                webbrowser.open(self.service.page)

    def _build(self) -> OurController:
        options = self.options
        self.cluster.start()
        self.cluster.create_topics(self.topics, partitions=options.partitions)
        self.progress.say(
            "cluster",
            f"{options.brokers} brokers of Kafka {self.artifacts.version} in ZooKeeper mode, {options.topics} topics "
            f"x {options.partitions} partitions",
        )
        self.watcher, self.observations = start_watcher(self.laboratory, self.cluster.zookeeper_connect)
        self.traffic.start(self.topics)
        self.traffic.wait_flowing()
        self.progress.counters = self._counters
        self.progress.say("traffic", "idempotent and transactional producers on every partition, two consumer groups")
        controllers = our_quorum(self.cluster, options.controllers, self.controller_settings())
        for each in controllers:
            self.prepare_controller(each)
        self.controllers = controllers
        self.migration = self.service.create(NAME, self.cluster, controllers, engine=self.controllers_of)
        if self.options.browser and sys.stdout.isatty():
            self.progress.plain(f"page  {self.service.url}/migrations/{self.migration}")
        return controllers[0]

    def prepare_controller(self, controller: OurController) -> None:
        """Write its file and format its directory."""
        controller.prepare()

    def _join(self, controller: OurController) -> None:
        """The operator's part: every broker learns of the new controllers by a restart, one at a time."""
        self.service.wait_phase(self.migration, "BROKERS_JOINING", "READY")
        for broker in self.cluster.brokers:
            took = broker.restart_as(broker.spec.as_migrating(controller.voters))
            self.cluster.wait_isr_whole(self.topics)
            self.progress.say("broker", f"{broker.broker_id} restarted with the migration settings in {took:.1f} s")
            self._view()
        self.service.wait_phase(self.migration, "READY")

    def _stop_a_broker(self, number: int) -> None:
        broker = self.cluster.brokers[number]
        before = self.traffic.status.acknowledged
        broker.stop()
        self.progress.say("broker", f"{broker.broker_id} stopped for {self.options.broker_away_s:.0f} s")
        self._pause(self.options.broker_away_s, f"broker {broker.broker_id} is away")
        meanwhile = self.traffic.status.acknowledged - before
        broker.start()
        whole = broker.wait_ready() + self.cluster.wait_isr_whole(self._present_topics())
        self.stopped.append(Stopped(broker.broker_id, self.options.broker_away_s, round(whole, 2), meanwhile))
        self.progress.say(
            "broker", f"{broker.broker_id} back, all in sync after {whole:.1f} s; {meanwhile:,} acknowledged meanwhile"
        )

    def _kill_the_active_controller(self) -> None:
        """kill -9; another voter claims, and the service starts the dead one again."""
        active = next(each for each in self._view()["quorum"] if each["leads"])
        began = time.monotonic()
        os.kill(active["pid"], signal.SIGKILL)
        successor: list[int] = []

        def why_not(view: dict[str, Any]) -> str | None:
            for each in view["quorum"]:
                if each["leads"] and each["driver"].startswith("DUAL_WRITE") and each["pid"] != active["pid"]:
                    successor.append(each["node_id"])
                    return None
            return "no other controller is in dual-write yet"

        self.service.wait_view(self.migration, why_not, deadline_s=FAIL_OVER_DEADLINE_S)
        took = round(time.monotonic() - began, 2)
        self.fail_overs.append(FailOver(active["node_id"], successor[-1], took))
        self.progress.say(
            "controller", f"{active['node_id']} killed; {successor[-1]} is the active controller after {took} s"
        )
        self._pause(AFTER_KILL_S, "the killed controller is started again")

    def _present_topics(self) -> list[str]:
        return [topic for topic in self.topics if topic != self.changes.deleted]

    def _pause(self, seconds: float, why: str) -> None:
        ends = self.progress.seconds + seconds

        def why_not() -> str | None:
            self._view()
            return why if self.progress.seconds < ends else None

        self.laboratory.wait(why_not, name="clock", deadline_s=seconds + 30, poll_every_s=0.5)

    # --- the migration -------------------------------------------------------------------------------------

    def _go_on(
        self, to: str, reason: str, *, through: str | None = None, word: str = "advance", within_s: float = 120.0
    ) -> None:
        """Ask for the next step, or with --step let a person ask, and wait until it is taken.

        through: the phase to which the step leads by itself. A gate that was open may be closed for a moment, as a
        voter is a record behind; then the step is asked for again.
        """
        end = through or to
        asks = not self.options.step
        if not asks:
            self._tell_how(word, to)
        is_asked = asks and self.service.ask(self.migration, word, to, reason)
        seen = self._view()["version"]

        def why_not(view: dict[str, Any]) -> str | None:
            nonlocal is_asked
            if view["phase"] == end:
                return None
            self._tend(view)
            operation = next(iter(view["operations"]), None)
            if asks and (not is_asked or (operation is not None and self.service.was_closed(operation))):
                is_asked = self.service.ask(self.migration, word, to, reason)
                return f"{view['phase']}: its gate was closed"
            if asks and operation is not None and operation["state"] == "refused":
                raise DEMO_STOPPED.error(
                    phase=view["phase"], reason=f"{operation['operation']} was refused: {operation['answer']}"
                )
            if (
                view["version"] != seen
                and view["phase"] in ("READY", "ROLLED_BACK", "ABORTING")
                and end != view["phase"]
            ):
                raise DEMO_STOPPED.error(phase=view["phase"], reason=view["waiting"])
            return f"{view['phase']}: {view['waiting']}"

        deadline = PERSON_DEADLINE_S if self.options.step else within_s
        self.service.wait_view(self.migration, why_not, deadline_s=deadline)

    def _tell_how(self, word: str, to: str) -> None:
        url, number = self.service.url, self.migration
        step = url + STEPS[word](number=number)
        token = self.service.token_file
        body = json.dumps({"to": to, "who": "me"})
        self.progress.plain(
            f"\n  the gate to {to} is open. Check {url}/migrations/{number}, then type in a second terminal:\n"
            f"    export ZK2KRAFT_TOKEN_FILE={token}\n"
            f"    zk2kraft {word} --url {url} --migration {number}{' --to ' + to if word == 'advance' else ''}\n"
            f'    curl -X POST {step} -H "Authorization: Bearer $(cat {token})" '
            f"-H 'Content-Type: application/json' -d '{body}'\n"
        )

    def _rehearsed(self) -> None:
        """The service rehearses by itself in READY; the gate opens when the rehearsal was audited and is passed."""
        view = self.service.wait_gate(self.migration, "TAKEOVER")
        audit = next(each for each in view["audits"] if each["purpose"] == "rehearsal" and each["passed"])
        equal = sum(family["equal"] for family in audit["families"])
        expected = sum(family["expected"] for family in audit["families"])
        self.progress.say(
            "rehearsal",
            f"audited by {audit['engine']}: {equal:,} keys are equal, {expected} expected differences",
        )
        if audit["engine"] != self.engine:
            self.service.wait_view(self.migration, unconfirmed, deadline_s=INSPECTION_DEADLINE_S)
            self.progress.say("rehearsal", f"confirmed by {self.engine}")

    def _wait_until_calm(self) -> None:
        """Brokers that were restarted a moment ago are slow to acknowledge, and nobody begins a takeover then. Where a
        machine is never calm, it is not waited for.
        """
        ends = self.progress.seconds + CALM_WITHIN_S

        def why_not() -> str | None:
            self._view()
            p99_ms = self.traffic.status.latency.p99_ms
            if self.progress.seconds >= ends or (p99_ms is not None and p99_ms <= CALM_MS):
                return None
            return f"acknowledgements take up to {p99_ms} ms since the restarts"

        self.laboratory.wait(why_not, name="traffic", deadline_s=CALM_WITHIN_S + 30, poll_every_s=0.5)
        self._calm_at = time.time()

    def _tell_window(self) -> None:
        window = self._window()
        slowest = window.acknowledgement.max_ms
        self.progress.say(
            "no controller", f"for {window.driver_ms / 1000:.2f} s; the slowest acknowledgement took {slowest} ms"
        )
        undo = self._view()["undo"]
        self.progress.say(
            "undo from here", f"{undo['command']}: {undo['does']}; without controller: {undo['without_controller']}"
        )

    def _audit(self) -> dict[str, Any]:
        audit = self.service.audit(self.migration, self.engine)
        compared = sum(family["compared"] for family in audit["families"])
        verdict = "both sides are equal" if audit["passed"] else f"the audit did not pass: {audit['problem']}"
        brokers = what_brokers_said(audit)
        self.progress.say("audit", f"by {audit['engine']}: {compared:,} keys, {verdict}; brokers: {brokers}")
        return audit

    def _keep_audit_page(self, audit: Mapping[str, Any]) -> str:
        """Its self-contained page, beside the report of the demo. Returns where it is."""
        file = self.options.directory / AUDIT_REPORT
        file.write_text(self.service.page_of(AUDIT_PAGE(number=audit["id"])))
        self.progress.say("audit", f"what ZooKeeper, the log and the brokers said: {file}")
        return str(file)

    def _note(self, change: DemoChange) -> None:
        self.changed.append(change)
        self._view()
        lag = change.in_zookeeper_s * 1000
        self.progress.say("change", f"{change.what} in {change.acknowledged_s:.2f} s, in ZooKeeper {lag:.0f} ms later")

    def _rollback(self) -> Rollback:
        pids = [broker.process.pid for broker in self.cluster.brokers]
        self.service.wait_gate(self.migration, "ROLLING_BACK")
        self._go_on("ROLLING_BACK", "the demo ends with a rollback", through="ROLLED_BACK", word="rollback")
        began = self._entered("ROLLING_BACK")
        self._pause(AFTER_ROLLBACK_S, "clients go on under the ZooKeeper controller")
        self.watcher.stop()  # its last sample ends the last reign
        known = reigns(read_observations(self.observations))
        reign = first_reign(known, ClaimHolder.ZOOKEEPER, after=began)
        if reign is None:
            raise DEMO_STOPPED.error(phase="ROLLED_BACK", reason="no broker became controller")
        restarted = sum(broker.process.pid != pid for broker, pid in zip(self.cluster.brokers, pids, strict=True))
        self.progress.say("rolled back", f"broker {reign.node} is controller; {restarted} brokers were restarted")
        absent = longest_absence_s(known, start=began)
        return Rollback(round(reign.start - began, 3), round(absent, 3), restarted)

    def _entered(self, phase: str) -> float:
        """When a phase was entered last; wall clock, for a step of the driver its own."""
        return float(next(row["at"] for row in reversed(self._view()["events"]) if row["to_phase"] == phase))

    # --- what was seen -------------------------------------------------------------------------------------

    def _tend(self, view: dict[str, Any]) -> bool:
        """What an operator would do now, beside waiting; returns whether anything was done."""
        return False

    def _view(self) -> dict[str, Any]:
        """A look at the migration; the lag of dual-write is kept at its worst."""
        view = self.service.view(self.migration)
        if view["dual_write"] is not None:
            self.lag_ms = max(self.lag_ms, view["dual_write"]["lag_ms"] or 0.0)
        return view

    def _tell_row(self, row: Mapping[str, Any]) -> None:
        self.progress.say(row["to_phase"], f"{row['reason'] or row['trigger']}  {self._counters()}")

    def _counters(self) -> str:
        with suppress(FileNotFoundError):
            return f"[{self.traffic.status.counters}]"
        return ""

    def _window(self) -> TakeoverFigures:
        report = self.service.get(REPORT_ADDRESS(number=self.migration))
        start, end = self._entered("TAKEOVER"), self._entered("DUAL_WRITE")
        figures = figures_between(list(read_ledger(self.traffic.ledger)), int(start * 1e6), int(end * 1e6))
        known = reigns(read_observations(self.observations))
        return TakeoverFigures(
            without_controller_s=round(longest_absence_s(known, start, end), 3),
            driver_ms=report["window_ms"],
            takeover_s=report["takeover_s"],
            acknowledgement=figures.acknowledgement,
            transaction_end=figures.transaction_end,
            longest_stall_ms=figures.longest_stall_ms,
            zookeeper_unseen_s=round(unseen_s(known, start, end), 3),
        )

    def _moments(self) -> Moments:
        ready, takeover, dual_write, rolling_back, rolled_back = (
            self._entered(phase) for phase in ("READY", "TAKEOVER", "DUAL_WRITE", "ROLLING_BACK", "ROLLED_BACK")
        )
        return Moments(
            max(ready, self._calm_at - WINDOW_S), takeover, dual_write, rolling_back, rolled_back + AFTER_ROLLBACK_S
        )

    def _read_from_outside(self) -> ReaderReport:
        self.traffic.stop()
        self.progress.say("traffic", f"stopped; every request was answered  {self._counters()}")
        reader = prove(
            self.cluster,
            self.traffic.ledger,
            deleted=[self.changes.deleted],
            recreated={self.changes.recreated: RECREATED_MARK},
        )
        checked = sum(check.compared for check in reader.checks)
        verdict = "all correct" if not reader.bad else f"wrong: {reader.bad}"
        self.progress.say("outside reader", f"{checked:,} facts in {len(reader.checks)} checks, {verdict}")
        return reader

    def _report(self, rollback: Rollback, reader: ReaderReport, last_audit: dict[str, Any]) -> DemoReport:
        options = self.options
        told = self.service.get(REPORT_ADDRESS(number=self.migration))
        window = self._window()
        pace, stretches = measure(list(read_ledger(self.traffic.ledger)), self.wake_ups, self._moments())
        dual_write = told["migration"]["dual_write"] or {}
        report = DemoReport(
            ok=False,
            problems=[],
            notes=[],
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
            window=window,
            pace=pace,
            stretches=stretches,
            traffic=self.traffic.status,
            outside_reader=reader,
            audits=[each for each in told["audits"] if each["id"] != last_audit["id"]] + [last_audit],
            audit_page=self.audit_page,
            dual_write=DualWrite(
                changes=self.changed,
                lag_ms=self.lag_ms,
                in_zookeeper_s=max(change.in_zookeeper_s for change in self.changed),
                reconciled_writes=dual_write.get("reconciled_writes") or 0,
            ),
            brokers_stopped=self.stopped,
            fail_overs=self.fail_overs,
            rollback=rollback,
            undo=self.undo,
            not_verified=[
                *told["not_verified"],
                *not_measured(window),
                *([] if self.fail_overs else [ONE_CONTROLLER]),
                *LIMITS,
            ],
        )
        report.notes = notes(report)
        report.problems = problems(report, acknowledged_least=options.acknowledged_least)
        report.ok = not report.problems
        return report


def unconfirmed(view: Mapping[str, Any]) -> str | None:
    """A takeover cuts off the second engine's audit of the rehearsal, which would be told as one without a result."""
    ended = {each["state"] for each in view["audits"] if each["purpose"] == "confirmation"} - {"asked", "running"}
    return None if ended else f"{ENGINE} confirms the rehearsal"


def _tell_end(progress: ProgressReporter, report: DemoReport, options: Options) -> None:
    progress.plain()
    for line in family_table(report.audits[-1]):
        progress.plain(line)
    progress.plain()
    for problem in report.problems:
        progress.plain(f"failed  {problem}")
    for note in report.notes:
        progress.plain(f"slow  {note}")
    for each in report.not_verified:
        progress.plain(f"not verified  {each}")
    progress.plain(f"report  {options.report or options.directory / REPORT}")
    undo = report.undo["ROLLED_BACK"]
    progress.plain(f"undo from here: {undo['command'] or 'none needed'}; {undo['does']}; lost: {undo['lost']}")
