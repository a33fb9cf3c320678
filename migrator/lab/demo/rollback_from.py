"""`zk2kraft demo --rollback-from`: to some point of the road, back with clients at work, and then to the end.

In:   what every demo has (run.py), and the point. Out: the report of `--full` (full.py), with the rollback in it.
Elsewhere: the road itself (full.py), what the service does in the rollback (state_machine/rollback/plan.py).
The traffic of the first migration stops after the rollback, so that the outside reader can look at everything; another
one begins then. The second migration has a name and a freshly formatted quorum of its own, as after every rollback.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from migrator.findings.laboratory import DEMO_STOPPED
from migrator.http.addresses import REPORT
from migrator.lab.demo.full import NOT_APPROVED, ROLL_DEADLINE_S, FullDemo, tell_full
from migrator.lab.demo.full_report import FullReport, NodeRestart, RolledBack
from migrator.lab.demo.pace import WakeUps
from migrator.lab.demo.points import Point
from migrator.lab.demo.progress import ProgressReporter
from migrator.lab.demo.run import NAME, TRAFFIC_DEADLINE_S, Options
from migrator.lab.ours import OurController, our_quorum
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove

AGAIN: Final = "demo-again"
"""Name of the second migration; the first one keeps its own, and its history."""
RETIRED: Final = "retired"
BACK_DEADLINE_S: Final = 8 * ROLL_DEADLINE_S
END_DEADLINE_S: Final = 180.0
"""Retired controllers ask the brokers for a minute whether they forward requests."""
ACKNOWLEDGED_BEFORE: Final = 10_000


class RollbackFromDemo(FullDemo):
    """There, back, and to the end."""

    def __init__(self, point: Point, *given: Any) -> None:
        super().__init__(*given)
        self.point = point

    def run_back_and_to_the_end(self) -> FullReport:
        self._open_the_page()
        self._to_dual_write(self._build(), NAME)
        held = self._to_the_point()
        self._roll_back(held)
        self._to_dual_write(self._build_again(), AGAIN)
        return self._from_dual_write()

    # --- there ---------------------------------------------------------------------------------------------

    def _to_the_point(self) -> bool:
        """Returns whether the migration is paused there."""
        match self.point:
            case Point.DUAL_WRITE:
                return False
            case Point.ROLLING_BROKERS_HALF:
                nodes = [broker.broker_id for broker in self.cluster.brokers]
                self._half("ROLLING_BROKERS", "kraft", nodes)
                return True
            case Point.ROLLING_BROKERS:
                self._brokers_to_kraft()
                return False
            case Point.REPLACING_CONTROLLERS_HALF:
                self._brokers_to_kraft()
                self._half("REPLACING_CONTROLLERS", "stock", [each.spec.node_id for each in self.controllers])
                return True
            case Point.SOAK:
                self._brokers_to_kraft()
                self._stock_controllers()
                self.service.wait_gate(self.migration, "FINALIZING", but=[NOT_APPROVED])  # the soak is over
                return False

    def _half(self, phase: str, roll: str, nodes: list[int]) -> None:
        """Half of the nodes, at least one; the pause is ordered while the last of them starts."""
        assert self.fleet is not None
        count = max(len(nodes) // 2, 1)
        began: set[int] = set()
        enough = threading.Event()

        def pause_in_time(act: str, node: int) -> None:
            if act == "start" and node in nodes:
                began.add(node)
                if len(began) == count and not enough.is_set():
                    enough.set()
                    self.service.operation(self.migration, "pause", reason="half of them are enough")

        self._next_stage(f"half of {phase}")
        self.service.wait_gate(self.migration, phase)
        self.fleet.after_act = pause_in_time
        self._go_on(phase, "the gate is open")
        self._some_rolled(roll, count, 3 * ROLL_DEADLINE_S)
        self.fleet.after_act = None

    # --- back ----------------------------------------------------------------------------------------------

    def _roll_back(self, held: bool) -> None:
        """By one operation; then the outside reader looks at everything."""
        assert self.fleet is not None
        self.traffic.wait_acknowledged(min(ACKNOWLEDGED_BEFORE, self.options.acknowledged_least), TRAFFIC_DEADLINE_S)
        self._next_stage("rollback")
        view = self.service.wait_gate(self.migration, "ROLLING_BACK")
        told = {**view["undo"], "back": None if view["road"] is None else view["road"]["back"]}
        self.progress.say("rollback", f"from {self.point}; restarts: {told['restarts']}; lost: {told['lost']}")
        began = time.monotonic()
        if held:
            self._go_on("ROLLING_BACK", "the demo goes back from here", word="rollback")
            self.service.operation(self.migration, "resume")
            self.service.wait_view(self.migration, self._why_not_back, deadline_s=BACK_DEADLINE_S)
        else:
            self._go_on(
                "ROLLING_BACK",
                "the demo goes back from here",
                through="ROLLED_BACK",
                word="rollback",
                within_s=BACK_DEADLINE_S,
            )
        seconds = round(time.monotonic() - began, 1)
        self._wait_whole()
        self._next_stage("after the rollback")
        self._create("after-the-rollback")
        self.traffic.stop()
        self.progress.say("traffic", f"stopped, everything answered  {self._counters()}")
        reader = prove(self.cluster, self.traffic.ledger, name="reader-after-rollback")
        verdict = "all correct" if not reader.bad else f"wrong: {reader.bad}"
        self.progress.say("outside reader", f"after the rollback: {verdict}")
        report = self.service.get(REPORT(number=self.migration))
        journal = self._keep_change_report()
        self.rolled_back = RolledBack(
            point=self.point,
            seconds=seconds,
            longest_stall_ms=next(each.longest_stall_ms for each in reversed(self.stages) if each.name == "rollback"),
            restarts=[
                NodeRestart(each["roll"], each["node"], each["seconds"])
                for each in journal["restarts"]
                if each["seconds"] is not None
            ],
            told=told,
            phases=report["phases"],
            traffic=self.traffic.status,
            outside_reader=reader,
        )
        self._most_down = self.fleet.most_down

    def _why_not_back(self, view: dict[str, Any]) -> str | None:
        self._tend(view)
        return None if view["phase"] == "ROLLED_BACK" else f"{view['phase']}: {view['waiting']}"

    # --- again ---------------------------------------------------------------------------------------------

    def _build_again(self) -> OurController:
        """A fresh quorum in the place of the retired one, and traffic on the same topics."""
        self._wait_until_ours_ended()
        for each in self.controllers:
            each.directory.rename(each.directory.with_name(f"{RETIRED}-{each.spec.node_id}"))
        self.controllers = our_quorum(self.cluster, self.options.controllers, self.controller_settings())
        for each in self.controllers:
            each.prepare()
        self.traffic = Traffic(self.laboratory, self.cluster.bootstrap_servers, name="traffic-again")
        self.traffic.start(self.topics)
        self.traffic.wait_flowing()
        self._stage = ("to dual-write again", time.time())
        self.migration = self.service.create(AGAIN, self.cluster, self.controllers)
        self.progress.say("again", f"migration {self.migration} of the same cluster, with a fresh quorum")
        return self.controllers[0]

    def _wait_until_ours_ended(self) -> None:
        ends = time.monotonic() + END_DEADLINE_S

        def why_not(view: dict[str, Any]) -> str | None:
            left = [each.spec.node_id for each in self.controllers if each.listens]
            if left and time.monotonic() > ends:
                raise DEMO_STOPPED.error(phase=view["phase"], reason=f"controllers {left} run on: {view['waiting']}")
            return f"controllers {left} end: {view['waiting']}" if left else None

        self.service.wait_view(self.migration, why_not, deadline_s=END_DEADLINE_S + 30)


def run_back_and_full(
    point: Point,
    laboratory: Laboratory,
    options: Options,
    progress: ProgressReporter,
    artifacts: Artifacts,
    wake_ups: WakeUps,
) -> bool:
    demo = RollbackFromDemo(point, laboratory, options, progress, artifacts, wake_ups)
    return tell_full(demo.run_back_and_to_the_end(), options, progress)
