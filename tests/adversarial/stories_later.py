"""Stories of a Kafka without ZooKeeper that takes a controller's place before COMPLETED: before it leads, and after.

In:   a laboratory; each story makes its own cluster. Elsewhere: the list of them (end_of_road.py), the conditions
(state_machine/policy/later.py).
Rules: the later Kafka gets the directory and the file as they are, as an upgraded package does. Each story ends as the
runbooks say: 3.9 back before it led, with an empty directory where it wrote a snapshot; after it led, the others go on
and it gets an empty directory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from migrator.lab.classes import prepared
from migrator.lab.ours import OurController
from migrator.lab.servers.artifacts import LATER_KAFKA_VERSION
from migrator.lab.servers.controller import StockController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.tools import format_storage
from migrator.node.log.log_replay import read_snapshot
from migrator.node.log.snapshot_files import SnapshotFiles
from migrator.zk import paths
from tests.adversarial.stories_forward import as_stock
from tests.adversarial.stories_support import MIGRATION, create, wait_observed, wait_whole
from tests.e2e.quorums import wait_ruling
from tests.e2e.road_kills import leader_of, wait_leader
from tests.e2e.road_stage import NOT_APPROVED, RoadStage
from tests.e2e.support import assert_same, wait_for

NAME: Final = "no node runs a Kafka without ZooKeeper"
WAITS, LEADS, TOLD, JAR = "Z2K-4232", "Z2K-4233", "Z2K-2024", "Z2K-7042"
REFUSED: Final = 78
ELECTIONS_MAX: Final = 10
LATER_FETCH_MS: Final = 5_000
"""It stands after the others, whose pre-votes it refuses until then: so it is the one that wins."""


class UnitsStage(RoadStage):
    """Controllers of ours are units of their own, which the service does not start."""

    def __init__(self, laboratory: Laboratory) -> None:
        super().__init__(laboratory, settings={"start_controllers": False})

    def step(self, phase: str) -> None:
        super().step(phase)
        if phase == "QUORUM":
            for each in self.fleet.ours:
                each.launch()
            for each in self.fleet.ours:
                each.wait_ready()


# --- what the stories look at -----------------------------------------------------------------------------


def codes(view: dict[str, Any]) -> set[str]:
    return {each["code"] for each in view["findings"]}


def conditions(view: dict[str, Any], to: str) -> dict[str, dict[str, Any]]:
    """By name, of the step to this phase."""
    edge = next(each for each in view["gates"] if each["to"] == to)
    return {each["name"]: each for each in edge["conditions"]}


def wait_named(stage: RoadStage, code: str, node: int) -> dict[str, Any]:
    def why_not(view: dict[str, Any]) -> str | None:
        named = [each for each in view["findings"] if each["code"] == code and str(node) in each["says"]]
        return None if named else f"{code} is not said: {sorted(codes(view))}"

    return stage.wait_view(why_not, deadline_s=60.0)


def wait_unnamed(stage: RoadStage) -> dict[str, Any]:
    def why_not(view: dict[str, Any]) -> str | None:
        left = codes(view) & {WAITS, LEADS, TOLD}
        return f"{left} are still said" if left else None

    return stage.wait_view(why_not, deadline_s=120.0)


def assert_waits(stage: RoadStage, node: int, forward: str) -> None:
    """Named before it leads; the step forward is closed by it; everything can still be undone."""
    wait_named(stage, WAITS, node)

    def why_open(view: dict[str, Any]) -> str | None:
        found = conditions(view, forward)[NAME]
        return None if found["status"] == "False" else f"{NAME}: {found['status']}, {found['message']}"

    view = stage.wait_view(why_open, deadline_s=30.0)  # findings and gates are of two moments
    assert LEADS not in codes(view)
    closed = conditions(view, forward)[NAME]
    assert WAITS in closed["codes"]
    assert f"controller {node}" in closed["message"]
    assert NAME in [each["name"] for each in view["standing"]["conditions"] if each["status"] != "True"]
    assert not view["undo"]["irreversible"]
    assert view["undo"]["command"] == "zk2kraft rollback"
    print(f"before it led: {closed['message']}", flush=True)


def assert_led(stage: RoadStage, node: int, way_back: str) -> None:
    """Named; undo, report and the condition of the way back (by its name) say what happened."""
    view = wait_named(stage, LEADS, node)
    assert view["undo"]["irreversible"]
    assert view["undo"]["command"] == ""
    assert f"controller {node}" in view["undo"]["does"]
    closed = conditions(view, "ROLLING_BACK")[way_back]
    assert closed["status"] == "False"
    assert LEADS in closed["codes"]
    assert f"controller {node} runs a Kafka without ZooKeeper" in closed["message"]
    report = stage.service.get(f"/migrations/{stage.migration}/change-report")
    assert report["back"]["irreversible"]
    assert report["back"]["irreversible_since"]
    assert [each for each in report["notices"] if f"controller {node} led" in each and LEADS in each]
    print(f"while it leads: {closed['message']}; undo: {view['undo']['does']}", flush=True)


def assert_open_again(stage: RoadStage, node: int) -> None:
    """After the runbook: nothing is said, everything can be undone, and the report still knows who led."""
    view = wait_unnamed(stage)
    assert not view["undo"]["irreversible"]
    report = stage.service.get(f"/migrations/{stage.migration}/change-report")
    assert not report["back"]["irreversible"]
    assert [each for each in report["notices"] if f"controller {node} led" in each]


def in_zookeeper(stage: RoadStage, topic: str) -> bool:
    return stage.cluster.zk.read(f"{paths.TOPICS}/{topic}/partitions/0/state") is not None


def wait_in_zookeeper(stage: RoadStage, topic: str) -> None:
    wait_for(lambda: None if in_zookeeper(stage, topic) else f"no {topic}", f"ZooKeeper has {topic}")


def elect(node: int, voters: str, end_leader: Callable[[int], None], start: Callable[[int], None]) -> None:
    """End leaders, and start them again, until this one leads."""
    for _ in range(ELECTIONS_MAX):
        leader = wait_leader(voters)
        if leader == node:
            return
        wait_observed(voters, lambda log: all(each.lag == 0 for each in log.voters), "every voter has the log")
        end_leader(leader)
        wait_for(lambda: None if leader_of(voters) is not None else "nobody", "another leads")
        start(leader)
    assert leader_of(voters) == node, f"it was not elected in {ELECTIONS_MAX} elections"


def elect_with_the_only_whole_log(stage: RoadStage, node: int, others: Sequence[OurController]) -> None:
    """One of ours is down while a topic is made; the other one, which leads, dies; the first one comes back without it.

    Of the two that run then only the later Kafka has all that was committed, so ours has to vote for it.
    """
    voters = others[0].voters
    leader = wait_ruling(others)
    behind = next(each for each in others if each is not leader)
    behind.stop()
    create(stage.cluster, "made-without-one-of-ours")
    wait_in_zookeeper(stage, "made-without-one-of-ours")
    has_it = "the later Kafka has the whole log"
    wait_observed(voters, lambda log: [each.lag for each in log.voters if each.id == node] == [0], has_it)
    leader.kill()
    again(behind)
    wait_for(lambda: None if leader_of(voters) == node else f"{leader_of(voters)} leads", "the later Kafka leads")
    again(leader)


# --- the stories ------------------------------------------------------------------------------------------


def later_kafka_in_dual_write(laboratory: Laboratory) -> None:
    """In the place of one of ours: named, and never a successor; 3.9 back; elected all the same; the way out."""
    stage = UnitsStage(laboratory)
    stage.to_dual_write()
    ours = {each.spec.node_id: each for each in stage.fleet.ours}
    voters = stage.fleet.ours[0].voters
    node = next(each for each in sorted(ours) if each != wait_leader(voters))
    others = [each for number, each in ours.items() if number != node]
    later = as_stock(ours[node], **{"controller.quorum.fetch.timeout.ms": LATER_FETCH_MS})
    later.kafka = prepared(LATER_KAFKA_VERSION)

    ours[node].stop()
    later.start()
    later.wait_ready()
    assert_waits(stage, node, "ROLLING_BROKERS")
    assert_told(others, node)
    for turn in ("first", "second"):  # a leader that leaves names the other one of ours
        leader = wait_ruling(others)
        leader.stop()
        wait_for(lambda: None if leader_of(voters) is not None else "nobody", "another leads")
        assert leader_of(voters) != node, "it was elected after a leader of ours had left in order"
        again(leader)
        assert_told(others, node)  # one that has just started asks for pre-votes until it knows, and may lose
        create(stage.cluster, f"made-beside-it-{turn}")
        wait_in_zookeeper(stage, f"made-beside-it-{turn}")

    assert_snapshot(later)
    later.stop()
    again(ours[node])  # on the snapshot that the later one wrote as a follower
    forgot = "its own log does not have the migration"
    stage.wait_view(lambda view: None if forgot in says(view, TOLD) else says(view, TOLD), deadline_s=60.0)
    ours[node].stop()
    empty(later, 1)
    ours[node].prepare()
    again(ours[node])
    view = wait_unnamed(stage)
    assert conditions(view, "ROLLING_BROKERS")[NAME]["status"] == "True"
    assert_same(stage.cluster, wait_ruling(list(ours.values())).data)
    print("put back before it led: nothing was lost", flush=True)

    ours[node].stop()
    later.start()
    later.wait_ready()
    elect_with_the_only_whole_log(stage, node, others)
    assert_led(stage, node, "no Kafka without ZooKeeper has ended dual-write")
    assert_told(others, node, "it leads")
    create(stage.cluster, "made-by-later")
    assert not in_zookeeper(stage, "made-by-later")

    later.stop()  # the runbook of Z2K-4233
    wait_ruling(others)
    wait_in_zookeeper(stage, "made-by-later")
    empty(later, 2)
    ours[node].prepare()
    again(ours[node])
    assert_open_again(stage, node)
    wait_observed(voters, lambda log: all(each.lag == 0 for each in log.voters), "every voter has the log")
    assert ours[node].status()["log"]["migration"] == MIGRATION
    wait_whole(stage.cluster)
    assert_same(stage.cluster, wait_ruling(list(ours.values())).data)
    stage.traffic.stop()
    assert stage.traffic.status.lost == 0


def empty(controller: StockController, turn: int) -> None:
    """As the runbooks say: its metadata directory is moved aside."""
    (controller.directory / "data").rename(controller.directory / f"data-aside-{turn}")


def assert_snapshot(later: StockController) -> None:
    """It writes them as a follower too, and they leave the migration out."""

    def forgot() -> str | None:
        stored = SnapshotFiles(later.metadata_log).stored()
        newest = read_snapshot(SnapshotFiles(later.metadata_log).path(stored[-1]), stored[-1]).image if stored else None
        return None if newest is not None and newest.migration.name == "NONE" else "no snapshot of it yet"

    wait_for(forgot, "the later Kafka writes a snapshot as a follower", deadline_s=60.0)


def says(view: dict[str, Any], code: str) -> str:
    return "; ".join(each["says"] for each in view["findings"] if each["code"] == code)


def again(controller: OurController) -> None:
    controller.launch()
    controller.wait_ready()


def assert_told(ours: Sequence[OurController], node: int, words: str = "") -> None:
    """By each of ours, whether it leads or not: in its status and its metrics."""

    def why_not() -> str | None:
        for each in ours:
            said = [found["says"] for found in each.status()["findings"] if found["code"] == TOLD]
            if not any(f"Controller {node}" in one and words in one for one in said):
                return f"{each.name} says {said}"
        return None

    wait_for(why_not, "controllers of ours name it", deadline_s=60.0)
    assert all(each.metrics().get(f"zk2kraft_finding{{{TOLD}}}") == 1.0 for each in ours)


def later_kafka_in_soak(laboratory: Laboratory) -> None:
    """In the place of stock: refused by the guard, named without it; 3.9 back; elected; the way out, and to the end."""
    stage = RoadStage(laboratory)
    stage.to_dual_write()
    stage.advance("ROLLING_BROKERS")
    stage.advance("REPLACING_CONTROLLERS")
    stage.wait_view(lambda view: None if view["phase"] == "SOAK" else f"{view['phase']}: {view['waiting']}")
    stage.wait_view(why_soaking)
    voters, stock = stage.fleet.ours[0].voters, stage.fleet.stock
    node = next(each for each in sorted(stock) if each != wait_leader(voters))
    later, guard = stock[node], stock[node].behind

    upgrade(later, ())
    later.behind = guard
    later.start_as_written()
    wait_for(lambda: "it runs" if later.is_running else None, "the guard refuses it")
    assert later.process.exit_code == REFUSED
    assert JAR in later.process.log_text()
    later.behind = ()  # a unit without the guard
    later.start_as_written()
    later.wait_ready()
    assert_waits(stage, node, "FINALIZING")

    stop(later)
    empty(later, 1)  # it writes a snapshot after 4,000 bytes
    format_storage(laboratory, later.properties_file, later.cluster_id, later.spec.release)
    put_back(later, guard)
    view = wait_unnamed(stage)
    assert conditions(view, "FINALIZING")[NAME]["status"] == "True"
    assert conditions(view, "ROLLING_BACK")[NAME]["status"] == "True"
    create(stage.cluster, "made-before-it-led")
    wait_in_zookeeper(stage, "made-before-it-led")
    print("put back before it led: nothing was lost", flush=True)

    upgrade(later, ())
    later.start_as_written()
    later.wait_ready()
    elect(node, voters, lambda leader: stop(stock[leader]), lambda leader: start(stock[leader]))
    assert_led(stage, node, NAME)
    flag = conditions(stage.service.view(stage.migration), "ROLLING_BACK")["no voter runs without the migration flag"]
    assert f"voters [{node}] know no such flag" in flag["message"], flag
    create(stage.cluster, "made-by-later")
    assert not in_zookeeper(stage, "made-by-later")

    later.stop()  # the runbook of Z2K-4233
    wait_observed(voters, lambda log: log.migration == MIGRATION and log.leader != node, "3.9 leads on in MIGRATION")
    wait_in_zookeeper(stage, "made-by-later")
    empty(later, 2)
    format_storage(laboratory, later.properties_file, later.cluster_id, later.spec.release)
    put_back(later, guard)
    assert_open_again(stage, node)
    view = stage.wait_view(lambda view: None if ready_of_all(view) else "a voter does not count as ready")
    assert conditions(view, "ROLLING_BACK")[NAME]["status"] == "True"
    stage.advance("FINALIZING")
    stage.wait_view(lambda view: None if view["phase"] == "COMPLETED" else f"{view['phase']}: {view['waiting']}")
    stage.assert_proven()


def why_soaking(view: dict[str, Any]) -> str | None:
    """None when only the approval is missing: the service restarts and elects nobody any more."""
    closed = [
        each["name"]
        for each in conditions(view, "FINALIZING").values()
        if each["status"] != "True" and NOT_APPROVED not in each["codes"]
    ]
    return f"{closed} are not True" if closed else None


def ready_of_all(view: dict[str, Any]) -> bool:
    """Also those that registered while the later one led, and that it noted as not ready: they answer themselves."""
    return bool(conditions(view, "ROLLING_BACK")["no voter runs without the migration flag"]["status"] == "True")


def upgrade(stock: StockController, behind: tuple[str, ...]) -> None:
    """Stopped; from its next start on the later Kafka runs on its directory and file."""
    stock.stop()
    stock.kafka, stock.behind = prepared(LATER_KAFKA_VERSION), behind


def put_back(stock: StockController, guard: tuple[str, ...]) -> None:
    """Kafka 3.9 again, behind the guard."""
    stop(stock)
    stock.kafka, stock.behind = None, guard
    start(stock)


def stop(stock: StockController) -> None:
    if stock.is_running:
        stock.stop()


def start(stock: StockController) -> None:
    stock.start_as_written()
    stock.wait_ready()
