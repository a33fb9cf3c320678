"""ZooKeeper in trouble while controllers stand in every phase of a migration: the table of docs/zookeeper-trouble.md.

One ensemble of three for all; for each trouble ten controllers, each of a cluster of its own (trouble_stage.py). What
should come of each is in tests/support/zookeeper_trouble.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, ready_to_migrate
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.server import start_together
from migrator.lab.servers.zookeeper import ZooKeeper, ZooKeeperServer
from migrator.lab.traffic.control import Traffic
from migrator.lab.traffic.proof import prove
from tests.e2e.support import HANGS_AFTER_S, LONG_WINDOW, assert_same, copies, spoil, wait_for, wait_zookeeper_rules
from tests.e2e.test_lab_traffic import assert_all_good, assert_nothing_lost
from tests.e2e.trouble_stage import CLOSED, Cell, Stage, a_stage, elect_broker
from tests.support.kraft_load import ConfigChanges
from tests.support.zookeeper_trouble import ENDINGS, Phase, Trouble

pytestmark = [pytest.mark.lab, pytest.mark.long]

LIMIT_S = 20.0
SHORT_WINDOW = {"zk2kraft.takeover.max.ms": int(LIMIT_S * 1000)}
OUTAGE_S = 30.0
OUTAGE_OF_REAL_BROKERS_S = 20.0
"""Longer than their sessions."""
TOPICS = [f"topic-{number}" for number in range(3)]
RECORDS, RECORDS_PER_S = 1_000, 150.0
"""So many have to be acknowledged from each trouble on: seconds of traffic that leave a processor to the rest."""
EXPIRES = {"zookeeper.session.timeout.ms": 10_000}


@pytest.fixture(scope="module")
def three_servers(tmp_path_factory: pytest.TempPathFactory, kafka_artifacts: Artifacts) -> Iterator[ZooKeeper]:
    with Laboratory(tmp_path_factory.mktemp("ensemble") / "lab", kafka_artifacts) as laboratory:
        yield ZooKeeper(laboratory, servers=3, read_only=True)


@pytest.fixture
def ensemble(three_servers: ZooKeeper) -> ZooKeeper:
    """In good health, whatever the test before did to it."""
    start_together(server for server in three_servers.servers if not server.is_running)
    three_servers.wait_led()
    return three_servers


def check_endings(stage: Stage, trouble: Trouble) -> None:
    """Every controller comes to where the table says, and ZooKeeper says what it should then."""
    for phase, cell in stage.cells.items():
        ending = ENDINGS[phase, trouble]
        cell.controller.wait_state(*ending.states)
        state = cell.controller.state()
        if ending.code is not None and state in ("ABORTED", "RETIRED"):
            assert cell.driver()["finding"]["code"] == ending.code, (phase, cell.driver())
        cell.check(state)


def while_away(stage: Stage, topic: str = "made-meanwhile") -> None:
    """Each says that ZooKeeper is away, and what changes in dual-write meanwhile is answered."""
    for cell in stage.all():
        cell.wait_named("Z2K-2002")
    stage.cells[Phase.DUAL_WRITE].create(topic)


def connections(cell: Cell) -> int:
    events = cell.controller.events()
    return sum(each.get("event") == "zookeeper.session" and each["state"] == "connected" for each in events)


def test_every_server_restarts(laboratory: Laboratory, ensemble: ZooKeeper) -> None:
    with a_stage(laboratory, ensemble, "restart", LONG_WINDOW) as stage:
        stage.arrange()
        kill(ensemble.servers)
        stage.go()
        while_away(stage)
        start_together(ensemble.servers)
        check_endings(stage, Trouble.RESTART)
        stage.cells[Phase.DUAL_WRITE].wait_mirrored("made-meanwhile")


def test_the_leader_of_the_ensemble_is_killed(laboratory: Laboratory, ensemble: ZooKeeper) -> None:
    with a_stage(laboratory, ensemble, "leader", LONG_WINDOW) as stage:
        stage.arrange()
        ensemble.leader().kill()
        stage.go()
        stage.cells[Phase.DUAL_WRITE].create("made-meanwhile")
        check_endings(stage, Trouble.LEADER_LOST)
        stage.cells[Phase.DUAL_WRITE].wait_mirrored("made-meanwhile")


def test_a_session_expires_and_nothing_is_written_under_its_claim(laboratory: Laboratory, ensemble: ZooKeeper) -> None:
    """The processes stand still for longer than their sessions live, and wake up right before their next effect."""
    with a_stage(laboratory, ensemble, "expiry", {**LONG_WINDOW, **EXPIRES}) as stage:
        stage.arrange()
        stage.pause()
        stage.go()
        lost = [stage.cells[phase] for phase in (Phase.COPYING, Phase.AUDITING, Phase.COMMITTED)]
        for cell in lost:
            wait_for(lambda cell=cell: "it stands" if cell.holds_claim() else None, "the claim is gone")  # type: ignore[misc]
            elect_broker(cell.connect)
        time.sleep(5.0)  # the other sessions end within the time between two pings, and a tick
        before = [cell.versions() for cell in lost]
        stage.resume()
        check_endings(stage, Trouble.EXPIRED)
        assert [cell.versions() for cell in lost] == before


def test_zookeeper_has_no_majority_and_then_is_away_for_thirty_seconds_in_all(
    laboratory: Laboratory, ensemble: ZooKeeper
) -> None:
    """First one server is left: it would let itself be read by whoever says that he only reads. Then none is."""
    last, *others = ensemble.servers
    with a_stage(laboratory, ensemble, "outage", SHORT_WINDOW) as stage:
        stage.arrange()
        kill(others)
        began = time.monotonic()
        stage.go()
        wait_for(lambda: None if last.mode() == "read-only" else last.mode() or "silent", "it is read-only")
        before = [connections(cell) for cell in stage.all()]
        while_away(stage)
        time.sleep(max(0.0, LIMIT_S + 2.0 - (time.monotonic() - began)))
        wait_for(lambda: None if last.mode() == "read-only" else last.mode() or "silent", "it is read-only still")
        assert [connections(cell) for cell in stage.all()] == before
        last.kill()
        time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - began)))
        while_away(stage, "made-later")
        start_together(ensemble.servers)
        check_endings(stage, Trouble.OUTAGE)
        assert all(ENDINGS[phase, Trouble.OUTAGE] == ENDINGS[phase, Trouble.READ_ONLY] for phase in Phase)
        for name in ("made-meanwhile", "made-later"):
            stage.cells[Phase.DUAL_WRITE].wait_mirrored(name)


@pytest.mark.parametrize("trouble", [Trouble.NOT_READABLE, Trouble.NOT_WRITABLE])
def test_one_topic_is_closed_by_an_access_list(laboratory: Laboratory, ensemble: ZooKeeper, trouble: Trouble) -> None:
    with a_stage(laboratory, ensemble, trouble.name.lower(), SHORT_WINDOW) as stage:
        stage.arrange()
        for cell in stage.all():
            cell.close_topic(readable=trouble is Trouble.NOT_WRITABLE)
        stage.go()
        written = stage.cells[Phase.DUAL_WRITE]
        written.ask(ConfigChanges([CLOSED]))
        for phase in (Phase.WAITING, Phase.DUAL_WRITE):
            code = ENDINGS[phase, trouble].code
            assert code is not None
            stage.cells[phase].wait_named(code)
            stage.cells[phase].wait_named(CLOSED)
        for phase in list(Phase)[1:7]:
            ending = ENDINGS[phase, trouble]
            stage.cells[phase].controller.wait_state(*ending.states)
            assert ending.code is None or CLOSED in stage.cells[phase].driver()["finding"]["says"]
        for cell in stage.all():
            cell.open_topic()
        check_endings(stage, trouble)
        assert written.read(f"/config/topics/{CLOSED}")["config"]["retention.ms"] == "86400000"


def kill(servers: list[ZooKeeperServer]) -> None:
    for server in servers:
        server.kill()


def test_real_brokers_lose_nothing_while_zookeeper_loses_its_leader_and_then_everything(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """In the window, in dual-write while a broker dies as well, and in the rollback; under traffic."""
    cluster = LabCluster(laboratory, zookeepers=3, extra={"min.insync.replicas": 2})
    cluster.start()
    cluster.create_topics(TOPICS, partitions=4)
    controller = ready_to_migrate(cluster, TOPICS, LONG_WINDOW)
    zookeeper, plan = cluster.zookeeper, Plan(controller, tmp_path / "plan")
    traffic = Traffic(laboratory, cluster.bootstrap_servers, rate=RECORDS_PER_S)
    traffic.start(TOPICS)
    traffic.wait_flowing()

    plan.stand_before("audit")
    controller.start()
    plan.wait_standing()
    dead = zookeeper.leader()
    dead.kill()
    plan.go()
    controller.wait_dual_write()
    assert copies(controller) == 1
    start_together([dead])

    dying = cluster.brokers[2]
    kill(zookeeper.servers)
    began = time.monotonic()
    dying.kill()
    before = traffic.status.acknowledged
    traffic.wait_acknowledged(before + RECORDS, deadline_s=HANGS_AFTER_S)  # by leaders that ZooKeeper has not heard of
    assert controller.state() == "SYNCING"
    time.sleep(max(0.0, OUTAGE_OF_REAL_BROKERS_S - (time.monotonic() - began)))
    start_together(zookeeper.servers)
    controller.wait_dual_write()
    dying.start()
    dying.wait_ready()
    cluster.wait_isr_whole(TOPICS)
    cluster.create_topics(["made-afterwards"])
    cluster.wait_isr_whole([*TOPICS, "made-afterwards"])
    assert_same(cluster, controller.data)

    plan.stand_before("mark rolled back")
    controller.ask("rollback")
    plan.wait_standing()
    zookeeper.wait_led()
    zookeeper.leader().kill()
    plan.go()
    wait_zookeeper_rules(cluster)
    controller.wait_state("RETIRED")
    traffic.wait_acknowledged(traffic.status.acknowledged + RECORDS, deadline_s=HANGS_AFTER_S)
    assert_nothing_lost(traffic.stop())
    assert_all_good(prove(cluster, traffic.ledger))


class Plan:
    """Where a controller stands still next (tests/support/spoiled_controller.py)."""

    def __init__(self, controller: OurController, file: Path) -> None:
        self._file = file
        spoil(controller, file, plan=str(file))

    def stand_before(self, effect: str) -> None:
        for suffix in (".taken", ".go"):
            self._file.with_suffix(suffix).unlink(missing_ok=True)
        self._file.write_text(effect)

    def wait_standing(self) -> None:
        taken = self._file.with_suffix(".taken")
        wait_for(lambda: None if taken.exists() else "not there yet", "it stands before the effect")

    def go(self) -> None:
        self._file.with_suffix(".go").touch()
