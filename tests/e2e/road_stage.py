"""A cluster on the road from ZooKeeper to the end, driven by the service, while tests kill who takes part.

In:   a laboratory, and who is killed at which points.
Out:  `RoadStage`: to dual-write, to the end, to dual-write again after a rollback; what is asserted of a run.
Elsewhere: the kills (road_kills.py), the fleet that the service operates (migrator/lab/fleet.py), traffic and its proof
(migrator/lab/traffic).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import httpx

from migrator.findings.finding import FindingError
from migrator.findings.road import FINALIZE_WAITS, STOCK_WRITES_NOTHING
from migrator.findings.service import GATE_CLOSED
from migrator.lab.cluster import LOOKS_FOR_FLAWS_S, LabCluster
from migrator.lab.fleet import LabFleet
from migrator.lab.ours import UNHURRIED, OurController, our_quorum, start_ready_to_migrate
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.lab.service import LabService
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
from migrator.zk import paths
from tests.e2e.road_kills import INTENT, Kill, RoadKills
from tests.e2e.support import LONG_WINDOW

NAME: Final = "road"
NOT_APPROVED: Final = "Z2K-4210"
TOPICS: Final = ("orders", "payments")
CONTROLLER_SETTINGS: Final[Mapping[str, Value]] = {
    **LONG_WINDOW,
    "zk2kraft.gates": "pause",
    **UNHURRIED,
    "metadata.log.max.record.bytes.between.snapshots": 4_000,
}
STEP_DEADLINE_S: Final = 960.0
"""A roll of three nodes takes 80 s, and much longer beside other clusters; who hangs is ended by it."""
AT_THE_END: Final = {
    "migration_state": "POST_MIGRATION",
    "kraft": [0, 1, 2],
    "zookeeper": [],
    "drifted": [],
    "not_read": [],
}
"""What is seen of the nodes, once each has answered."""
RETIRED_S: Final = 240.0
"""They ask the brokers for a minute."""
RECORDS_PER_S: Final = 20.0
"""Some are under way at every moment of minutes; the processors are for those who are restarted."""


class RoadStage:
    """kills: each happens once, in whatever order the road meets them (road_kills.py).

    joins: brokers start without migration settings, and the service restarts all but the first with them; that one its
    operator has restarted.
    service: how steps are asked for. settings: further keys of its file, or others in place of these.
    cluster: made by the caller. client: how the traffic logs in to it, as librdkafka's keys.
    """

    fleet_of: type[LabFleet] = LabFleet
    """Who carries the service's acts out."""
    topic_config: Mapping[str, str] = {"min.insync.replicas": "2"}
    """Of the topics that the traffic writes to."""
    controller_settings: Mapping[str, Value] = CONTROLLER_SETTINGS

    def __init__(
        self,
        laboratory: Laboratory,
        kills: tuple[Kill, ...] = (),
        *,
        log_directories: int = 1,
        broker_extra: Mapping[str, Value] | None = None,
        joins: bool = False,
        service: type[LabService] = LabService,
        cluster: LabCluster | None = None,
        client: Mapping[str, str] | None = None,
        settings: Mapping[str, str | bool] | None = None,
    ) -> None:
        self.joins = joins
        self.controller_before: int | None = None
        """The broker that is the active controller when others join."""
        self.laboratory = laboratory
        self.cluster = cluster or LabCluster(laboratory, log_directories=log_directories, extra=broker_extra)
        of_service: dict[str, Any] = {
            "audit_engine": "quick",
            "fleets": str(laboratory.directory / "fleet"),
            "settle_s": 1.0,
            "soak_s": 5.0,
            "brokers_gone_s": 2.0,
            "audit_every_s": 20.0,
            "node_deadline_s": 360.0,
            "drift_every_s": 5,
            **(settings or {}),
        }
        self.service = service(laboratory, **of_service)
        self.traffic = Traffic(laboratory, self.cluster.bootstrap_servers, rate=RECORDS_PER_S, client=client)
        self.migration = 0
        self._traffic_began = False
        self._kills = kills
        self._dead = threading.Event()
        self.restarted_flawed = 0
        self._looked_for_flaws_at = 0.0
        self._killing = threading.Lock()

    def to_dual_write(self) -> None:
        ours = self.start_cluster()
        self.begin_traffic()
        self._control(NAME, ours, self._kills)
        self.service.start()
        self._migrate(NAME)

    def to_dual_write_again(self, name: str, kills: tuple[Kill, ...]) -> None:
        """After ROLLED_BACK: a fresh quorum on the addresses of the retired one, which brokers have in their files.

        The service restarts them all the same: each has to register anew.
        """
        self.wait_view(lambda _: self._who_has_not_ended(), RETIRED_S)
        self.joins = True
        retired = self.fleet.ours
        for each in retired:
            each.directory.rename(each.directory.with_name(f"{each.name}-before-{name}"))
        ours = [OurController(self.laboratory, each.spec, each.cluster_id) for each in retired]
        self._control(name, ours, ())
        self._migrate(name)
        self._arm(kills)

    def _who_has_not_ended(self) -> str | None:
        """Retired controllers stay while a broker forwards nothing: Z2K-2043, whose runbook restarts that broker."""
        left = [each.name for each in self.fleet.ours if each.listens]
        if left:
            self._restart_flawed()
        return f"{left} have not ended" if left else None

    def _restart_flawed(self) -> int:
        if time.monotonic() - self._looked_for_flaws_at <= LOOKS_FOR_FLAWS_S:
            return 0
        self._looked_for_flaws_at = time.monotonic()
        found = self.cluster.restart_flawed()
        self.restarted_flawed += found
        return found

    def _follow_runbook(self, view: Mapping[str, Any]) -> None:
        """Of Z2K-4244: the leading stock controller is restarted. Of Z2K-2043, where a node failed: the broker that met
        the flaw is. Then the service goes on.
        """
        if any(each["code"] == STOCK_WRITES_NOTHING.code for each in view["findings"]):
            print(
                f"{self.kills.kill_leader()} wrote nothing to ZooKeeper (Z2K-4244): killed, its host starts it",
                flush=True,
            )
        rows = (view.get("road") or {}).get("nodes", ())  # an earlier release has none
        failed = [row["node_id"] for row in rows if row["step"] == "FAILED"]
        if failed and self._restart_flawed():
            print(f"{failed} failed by the flaw of Z2K-2043: its broker was restarted; resumed", flush=True)
            self.service.operation(self.migration, "resume")

    def _control(self, name: str, ours: list[OurController], kills: tuple[Kill, ...]) -> None:
        """These controllers and the brokers as a fleet of this name, with those who are killed at its acts."""
        for each in ours:
            each.prepare()
        self.fleet = self.fleet_of(self.cluster, ours)
        self._arm(kills)
        self.before_service()
        self.fleet.serve()
        self.fleet.write(name)

    def _arm(self, kills: tuple[Kill, ...]) -> None:
        """From now on; rolls of nodes are counted from here."""
        self.kills = RoadKills(kills, self.fleet, self.kill_service)
        self.fleet.before_act = self.kills.before_act
        self.fleet.after_act = self.kills.after_act

    def _migrate(self, name: str) -> None:
        self.migration = self.service.create(name, self.cluster, self.fleet.ours)
        for phase in ("PREFLIGHT", "QUORUM"):
            self.step(phase)
            if phase == "PREFLIGHT":  # a controller that is found leads from CREATED to QUORUM without a check
                self.service.wait_phase(self.migration, phase)
        if self.joins:
            self.service.wait_phase(self.migration, "BROKERS_JOINING")
            self.service.wait_gate(self.migration, "BROKERS_JOINING")
            held = self.cluster.zk.read(paths.CONTROLLER)
            assert held is not None, "brokers have a controller before the takeover"
            self.controller_before = int(json.loads(held)["brokerid"])
            self.step("BROKERS_JOINING")
            self._wait_phase("READY")
        self.service.wait_phase(self.migration, "READY")
        self.step("TAKEOVER")
        self.service.wait_phase(self.migration, "DUAL_WRITE")

    def begin_traffic(self) -> None:
        """Once; those who have something to try before the migration begin it earlier."""
        if self._traffic_began:
            return
        self._traffic_began = True
        self.cluster.create_topics(TOPICS, config=self.topic_config)
        self.before_traffic()
        self.traffic.start(TOPICS)
        self.traffic.wait_flowing()

    def start_cluster(self) -> list[OurController]:
        """Brokers that run, and controllers for them that are not formatted yet."""
        if self.joins:
            return self.start_to_join()
        return start_ready_to_migrate(self.cluster, 3, self.controller_settings)

    def before_traffic(self) -> None:
        """What its clients need, once the topics are there."""

    def before_service(self) -> None:
        """What the fleet's inventory and the service need, before either is written or started."""

    def start_to_join(self) -> list[OurController]:
        """A cluster in ZooKeeper mode."""
        self.cluster.start()
        return self.with_first_joined()

    def with_first_joined(self) -> list[OurController]:
        """Controllers, not started; the settings of the first broker are the operator's work."""
        ours = our_quorum(self.cluster, 3, self.controller_settings)
        first = self.cluster.brokers[0]
        first.restart_as(first.spec.as_migrating(ours[0].spec.voters))
        return ours

    def to_the_end(self) -> dict[str, Any]:
        """Through every gate; a service that was killed is started again. Returns the last view."""
        self.to_soak()
        return self.to_completed()

    def to_soak(self) -> None:
        self.advance("ROLLING_BROKERS")
        self.advance("REPLACING_CONTROLLERS")
        self._wait_phase("SOAK")
        self._meet("SOAK", "after")

    def to_completed(self) -> dict[str, Any]:
        """From SOAK on. Returns the last view."""
        self.advance("FINALIZING")
        self.wait_view(lambda view: None if view["phase"] == "COMPLETED" else self._why_not_completed(view))
        self._meet("COMPLETED", "after")
        return self._wait_phase("COMPLETED")

    def until_killed(self) -> None:
        """Forward until everybody died who is to die, and not a step further."""

        def done() -> bool:
            return not self.kills.left

        for phase in ("ROLLING_BROKERS", "REPLACING_CONTROLLERS"):
            self.wait_view(lambda view, phase=phase: None if done() else self._why_not_open(view, phase))  # type: ignore[misc]
            self._meet(phase, "at")
            if done():
                return
            self.advance(phase)
            if done():
                return
        self.wait_view(
            lambda view: None if done() or view["phase"] == "SOAK" else f"{view['phase']}: {view['waiting']}"
        )
        self._meet("SOAK", "after")
        self.wait_view(lambda view: None if done() else self._why_not_open(view, "FINALIZING"))
        self._meet("FINALIZING", "at")

    def assert_one_at_a_time(self) -> None:
        """Never two nodes down by us, and every kill did what it should."""
        assert self.kills.troubles == [], self.kills.troubles
        assert self.fleet.most_down <= 1, f"{self.fleet.most_down} nodes were down by the service at one time"

    def assert_proven(self, deleted: Iterable[str] = ()) -> None:
        """Every kill happened; nothing acknowledged is lost; never two nodes down by us. deleted: topics."""
        assert self.kills.left == [], f"never reached: {[str(each) for each in self.kills.left]}"
        assert self.fleet.most_down, "the service stopped a node"
        self.assert_one_at_a_time()
        self.traffic.stop()
        assert self.traffic.status.lost == 0, self.traffic.status
        report = prove(
            self.cluster,
            self.traffic.ledger,
            deleted=deleted,
            without_zookeeper=True,
            client=self.cluster.login,
        )
        assert report.bad == {}, report.bad

    # --- gates ---------------------------------------------------------------------------------------------

    def advance(self, phase: str) -> None:
        """As an operator does: asks when the gate is open, and again when something died just then and closed it, be
        that before the request was accepted or before it was carried out.
        """
        self.wait_view(lambda view: self._why_not_open(view, phase))
        self._meet(phase, "at")
        if phase == "FINALIZING" and self.kills.wants(INTENT):
            threading.Thread(target=self._watch_intent, name="intent", daemon=True).start()
        ends = time.monotonic() + STEP_DEADLINE_S
        while self.wait_view(lambda view: self._why_not_open(view, phase))["phase"] != phase:
            assert time.monotonic() < ends, f"{phase} was refused again and again"
            try:
                asked = self.service.operation(self.migration, "advance", phase)["operation"]["id"]
                ended = self._wait_ended(asked)
            except (FindingError, OSError, httpx.HTTPError) as error:
                if not self.kills.happened and GATE_CLOSED.code not in str(error):
                    raise
                continue
            if ended["state"] == "succeeded":
                break
            closed = ended["verdict"] is not None and not ended["verdict"]["holds"]
            assert self.kills.happened or closed, f"{phase}: {ended['state']}: {ended['answer']}"
        self._meet(phase, "after")

    def step(self, phase: str) -> None:
        """As `advance`, where nobody is killed: a gate may close for a moment, for a heartbeat that comes late."""
        while True:
            self.service.wait_gate(self.migration, phase)
            try:
                asked = self.service.operation(self.migration, "advance", phase)["operation"]["id"]
            except FindingError as error:
                if GATE_CLOSED.code not in str(error):
                    raise
                continue
            ended = self._wait_ended(asked)
            if not self.service.was_closed(ended):
                assert ended["state"] == "succeeded", f"{phase}: {ended['state']}: {ended['answer']}"
                return

    def _wait_ended(self, operation: int) -> dict[str, Any]:
        def found(view: dict[str, Any]) -> dict[str, Any]:
            return dict(next(each for each in view["operations"] if each["id"] == operation))

        return found(self.wait_view(lambda view: None if found(view)["ended_at"] else f"request {operation} is open"))

    def _why_not_open(self, view: dict[str, Any], phase: str) -> str | None:
        """Approves when nothing else is missing: an approval ends with every change of what was agreed to."""
        edge = next((each for each in view["gates"] if each["to"] == phase), None)
        if edge is None:
            return None if view["phase"] == phase else f"{view['phase']}: {view['waiting']}"
        closed = [each for each in edge["conditions"] if each["status"] != "True"]
        if closed and all(NOT_APPROVED in each["codes"] for each in closed):
            self._approve(phase)
            return "approved just now"
        return "; ".join(f"{each['name']}: {each['message']}" for each in closed) or None

    def _why_not_completed(self, view: dict[str, Any]) -> str:
        """Who dies between the advance and the first stop changes what was agreed to: the other person looks again."""
        if any(each["code"] == FINALIZE_WAITS.code for each in view["findings"]):
            self._approve("FINALIZING")
        return f"{view['phase']}: {view['waiting']}"

    def _approve(self, phase: str) -> None:
        try:
            self.service.operation(self.migration, "approve", phase, "seen", who="second person")
        except FindingError as error:
            if GATE_CLOSED.code not in str(error):
                raise

    def _wait_phase(self, phase: str) -> dict[str, Any]:
        return self.wait_view(lambda view: None if view["phase"] == phase else f"{view['phase']}: {view['waiting']}")

    def _watch_intent(self) -> None:
        """A look every few milliseconds, so that the kill comes close behind the znode, before or after the row."""
        ends = time.monotonic() + STEP_DEADLINE_S
        while not self.cluster.zk.exists(paths.FINALIZE_INTENT) and time.monotonic() < ends:
            time.sleep(0.005)
        self.kills.meet(INTENT, "after")

    # --- the service ---------------------------------------------------------------------------------------

    def kill_service(self) -> None:
        with self._killing:
            self.service.process.kill()
            self._dead.set()

    def _meet(self, point: str, when: str) -> None:
        """A victim may be waited for that only the service starts, so a dead service comes back meanwhile."""
        met = threading.Thread(target=self.kills.meet, args=(point, when), name=f"{when} {point}", daemon=True)
        met.start()
        while met.is_alive():
            self._alive()
            met.join(0.5)

    def _alive(self) -> None:
        """A new life of the service, on the same directory and port; it may be killed while it starts."""
        while self._dead.is_set():
            self._dead.clear()
            try:
                self.service.start()
            except FindingError:
                with self._killing:  # its end is seen before the kill has ended
                    if not self._dead.is_set():
                        raise

    def wait_view(
        self, why_not: Callable[[dict[str, Any]], str | None], deadline_s: float = STEP_DEADLINE_S
    ) -> dict[str, Any]:
        """Across deaths of the service. Returns the view that has it."""
        latest: dict[str, Any] = {}

        def reason() -> str | None:
            self._alive()
            if not self.service.process.alive:
                return "the service is dead"
            try:
                latest.update(self.service.view(self.migration))
                self._follow_runbook(latest)
                return why_not(latest)
            except Exception as error:  # it died between two words
                with self._killing:  # the signal is felt before the kill has ended
                    if not self.service.process.alive or self._dead.is_set():
                        return f"the service died ({type(error).__name__})"
                raise

        self.laboratory.wait(reason, name="road", deadline_s=deadline_s, poll_every_s=0.5)
        return latest


def why_not_at_the_end(view: dict[str, Any]) -> str | None:
    seen = {key: view["road"][key] for key in AT_THE_END}
    return None if seen == AT_THE_END else str(seen)


def run_to_the_end(laboratory: Laboratory, kills: tuple[Kill, ...]) -> None:
    """One whole road with these kills. Raises AssertionError, or the finding that stopped it."""
    stage = RoadStage(laboratory, kills)
    stage.to_dual_write()
    stage.to_the_end()
    assert_completed(stage)
    stage.assert_proven()


def assert_completed(stage: RoadStage) -> None:
    road = stage.wait_view(why_not_at_the_end)["road"]
    assert "approved_by" in road["intent"]
    rolls = {"kraft", "stock", "soak", "final"} | ({"join"} if stage.joins else set())
    assert {row["roll"] for row in road["nodes"] if row["step"] == "WHOLE"} == rolls
