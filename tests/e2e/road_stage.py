"""A cluster on the road from ZooKeeper to the end, driven by the service, which tests kill at named points.

In:   a laboratory, and at which acts on which nodes the service dies.
Out:  `RoadStage`: to dual-write, to the end; what is asserted of a run.
Elsewhere: the fleet that the service operates (migrator/lab/fleet.py), traffic and its proof (migrator/lab/traffic).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

from migrator.lab.cluster import LabCluster
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.service import LabService
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove

NAME: Final = "road"
NOT_APPROVED: Final = "Z2K-4210"
TOPICS: Final = ("orders", "payments")
CONTROLLER_SETTINGS: Final = {
    "zk2kraft.gates": "pause",
    "metadata.log.max.record.bytes.between.snapshots": 4_000,
}
STEP_DEADLINE_S: Final = 240.0


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9 of the service at an act on a node. when: `at` its begin, or `after` its end. roll: the nth time."""

    act: str
    node: int
    when: str = "at"
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.when} {self.act} of {self.node} ({self.nth})"


class RoadStage:
    """kills: each happens once, in whatever order the road meets them."""

    def __init__(self, laboratory: Laboratory, kills: tuple[Kill, ...] = (), *, brokers: int = 3) -> None:
        self.laboratory = laboratory
        self.cluster = LabCluster(laboratory, brokers=brokers)
        self.service = LabService(
            laboratory,
            audit_engine="quick",
            fleets=str(laboratory.directory / "fleet"),
            settle_s=1.0,
            soak_s=5.0,
            brokers_gone_s=2.0,
            audit_every_s=20.0,
            node_deadline_s=180.0,
            drift_every_s=5,
        )
        self.traffic = Traffic(laboratory, self.cluster.bootstrap_servers, rate=150.0)
        self.left = list(kills)
        self.killed: list[Kill] = []
        self.migration = 0
        self._seen: dict[tuple[str, int], int] = {}
        self._dead = threading.Event()

    def to_dual_write(self) -> None:
        ours = start_ready_to_migrate(self.cluster, 3, CONTROLLER_SETTINGS)
        self.cluster.create_topics(TOPICS, config={"min.insync.replicas": "2"})
        self.traffic.start(TOPICS)
        self.traffic.wait_flowing()
        for each in ours:
            each.prepare()
        self.fleet = LabFleet(self.cluster, ours)
        self.fleet.before_act = self._before
        self.fleet.serve()
        self.fleet.write(NAME)
        self.service.start()
        self.migration = self.service.create(NAME, self.cluster, ours)
        for phase in ("PREFLIGHT", "QUORUM"):
            self.service.wait_gate(self.migration, phase)
            self.service.operation(self.migration, "advance", phase)
            if phase == "PREFLIGHT":  # a controller that is found leads from CREATED to QUORUM without a check
                self.service.wait_phase(self.migration, phase)
        self.service.wait_phase(self.migration, "READY")
        self.service.wait_gate(self.migration, "TAKEOVER")
        self.service.operation(self.migration, "advance", "TAKEOVER")
        self.service.wait_phase(self.migration, "DUAL_WRITE")

    def to_the_end(self) -> dict[str, Any]:
        """Through every gate; a service that was killed is started again. Returns the last view."""
        for phase, end in (
            ("ROLLING_BROKERS", "ROLLING_BROKERS"),
            ("REPLACING_CONTROLLERS", "SOAK"),
            ("FINALIZING", "COMPLETED"),
        ):
            if phase == "FINALIZING":
                self._wait_gate(phase, but=(NOT_APPROVED,))
                self.service.operation(self.migration, "approve", phase, "seen", who="second person")
            self._wait_gate(phase)
            self.service.operation(self.migration, "advance", phase)
            self._wait(lambda view, end=end: None if view["phase"] == end else f"{view['phase']}: {view['waiting']}")
        return self.service.view(self.migration)

    def assert_proven(self) -> None:
        """Every kill happened; nothing acknowledged is lost; never two nodes down by us."""
        assert self.left == [], f"never reached: {[str(each) for each in self.left]}"
        assert self.fleet.most_down == 1
        self.traffic.stop()
        assert self.traffic.status.lost == 0
        report = prove(self.cluster, self.traffic.ledger, without_zookeeper=True)
        assert report.bad == {}, report.bad

    # --- kills ---------------------------------------------------------------------------------------------

    def _before(self, act: str, node: int) -> None:
        """On the fleet's thread, before the act: the act itself goes on, as a command on a host would."""
        count = self._seen[act, node] = self._seen.get((act, node), 0) + 1
        for kill in [each for each in self.left if (each.act, each.node, each.nth) == (act, node, count)]:
            self.left.remove(kill)
            self.killed.append(kill)
            if kill.when == "at":
                self._kill()
            else:
                threading.Timer(0.3, self._kill).start()

    def _kill(self) -> None:
        self.service.process.kill()
        self._dead.set()

    def _alive(self) -> None:
        """A new life of the service, on the same directory and port."""
        if self._dead.is_set():
            self._dead.clear()
            self.service.start()

    def _wait_gate(self, phase: str, but: tuple[str, ...] = ()) -> None:
        def why_not(view: dict[str, Any]) -> str | None:
            edge = next((each for each in view["gates"] if each["to"] == phase), None)
            if edge is None:
                return f"{view['phase']}: {view['waiting']}"
            closed = [
                f"{each['name']}: {each['message']}"
                for each in edge["conditions"]
                if each["status"] != "True" and not set(each["codes"]) & set(but)
            ]
            return "; ".join(closed) or None

        self._wait(why_not)

    def _wait(self, why_not: Any) -> None:
        """As `wait_view`, across deaths of the service."""

        def reason() -> str | None:
            self._alive()
            if not self.service.process.alive:
                return "the service is dead"
            try:
                return str(found) if (found := why_not(self.service.view(self.migration))) is not None else None
            except Exception as error:  # it died between two words
                if not self.service.process.alive or self._dead.is_set():
                    return f"the service died ({type(error).__name__})"
                raise

        self.laboratory.wait(reason, name="road", deadline_s=STEP_DEADLINE_S, poll_every_s=0.2)


def run_to_the_end(laboratory: Laboratory, kills: tuple[Kill, ...]) -> None:
    """One whole road with these kills. Raises AssertionError, or the finding that stopped it."""
    stage = RoadStage(laboratory, kills)
    stage.to_dual_write()
    view = stage.to_the_end()
    road = view["road"]
    assert road["migration_state"] == "POST_MIGRATION"
    assert road["kraft"] == [0, 1, 2]
    assert road["zookeeper"] == []
    assert road["drifted"] == road["not_read"] == []
    assert "approved_by" in road["intent"]
    assert {row["roll"] for row in road["nodes"] if row["step"] == "WHOLE"} == {"kraft", "stock", "soak", "final"}
    stage.assert_proven()
