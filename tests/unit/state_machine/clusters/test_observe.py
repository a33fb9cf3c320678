"""Looking: who rules, of which kind, since when, and for how long nobody does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from api.nodes import without_controller_s
from migrator.control_api.control_file import CONTROL_FILE
from migrator.control_api.operations import DriverOperation
from migrator.driver.claim import ClaimObservation
from migrator.findings.finding import FindingError
from migrator.findings.road import STOCK_WRITES_NOTHING
from migrator.model.partition_figures import PartitionFigures
from migrator.node.config.properties import VoterAddress
from migrator.node.observer.log_reader import refuses
from migrator.node.process.control import ControlServer
from migrator.node.quorum.metrics import Metrics
from migrator.wire.batch import build_batch
from migrator.wire.messages.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.raft import (
    DescribeQuorumPartitionResult,
    DescribeQuorumResponse,
    DescribeQuorumTopicResult,
    QuorumReplicaState,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.znodes import ControllerZnode, MigrationZnode
from state_machine.clusters import log_observer
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.log_observer import LogBroker, LogObservation, LogObserver, LogVoter
from state_machine.clusters.observe import (
    GAPS_KEPT,
    ControllerObservation,
    Gap,
    Observation,
    ZooKeeperObservation,
    observed_in_zookeeper,
    read_intent,
    summed_up,
)
from state_machine.evidence.after_dual_write import stuck_findings
from state_machine.policy.gates import Holder
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase
from state_machine.times.stretches import Moment
from tests.support.statuses import a_status
from tests.unit.state_machine.fakes import OPERATIONS, FakeController, FakeNetwork

OURS = (3000, 3001)
BROKER_RULES = ZooKeeperObservation(Holder.ZOOKEEPER_BROKER, holder_id=1)
OURS_IS_CONTROLLER = ZooKeeperObservation(Holder.OURS, holder_id=3000)


@pytest.mark.parametrize(
    ("controller", "kind"),
    [
        (None, Holder.NOBODY),
        (ControllerZnode(2, timestamp="1700000000123"), Holder.ZOOKEEPER_BROKER),
        (ControllerZnode(3000, timestamp="1700000000123", kraft_epoch=4), Holder.OURS),
        (ControllerZnode(77, timestamp="1700000000123", kraft_epoch=4), Holder.ANOTHER),
    ],
)
def test_the_holder_is_told_by_its_znode(controller: ControllerZnode | None, kind: Holder) -> None:
    observed = observed_in_zookeeper(ClaimObservation(epoch=5, controller=controller), OURS, (0, 1))
    assert observed.holder is kind
    assert observed.holder_since_ms == (None if controller is None else 1700000000123)


@pytest.mark.parametrize(
    ("claim", "offset"),
    [
        (ClaimObservation(), None),
        (ClaimObservation(migration_version=0, migration=None), -1),
        (ClaimObservation(migration_version=3, migration=MigrationZnode(3000, 1, 250, 1)), 250),
    ],
    ids=["absent", "not readable", "committed"],
)
def test_the_migration_znode_tells_what_is_mirrored(claim: ClaimObservation, offset: int | None) -> None:
    assert observed_in_zookeeper(claim, OURS, ()).migration_offset == offset


@pytest.mark.parametrize(
    ("claimed", "kraft", "in_log", "gap"),
    [
        (14, 22, None, 8),
        (14, 22, 25, 11),
        (14, 22, 9, 8),
        (30, 22, 25, 0),
        (None, 22, 25, None),
        (14, None, 25, None),
    ],
    ids=["the log is not known", "a later leader has not claimed", "an earlier look", "none", "no epoch", "a broker"],
)
def test_the_epoch_gap_is_an_upper_bound_and_unknown_where_a_part_of_it_is(
    claimed: int | None, kraft: int | None, in_log: int | None, gap: int | None
) -> None:
    zookeeper = ZooKeeperObservation(Holder.OURS, 3000, kraft_epoch=kraft, controller_epoch=claimed)
    log = LogObservation() if in_log is None else LogObservation(problem="", epoch=in_log)
    assert Observation(1.0, zookeeper=zookeeper, log=log).epoch_gap == gap


def a_driver(without_ms: int | None = None, window_ms: int | None = None) -> ControllerObservation:
    driver = {"without_controller_ms": without_ms, "window_ms": window_ms}
    return ControllerObservation(3000, 1, a_status(quorum={"leader": 3000, "epoch": 1}, driver=driver))


def test_nobody_rules_from_the_last_look_that_saw_somebody() -> None:
    first = summed_up(10.0, (), BROKER_RULES, None)
    second = summed_up(11.0, (a_driver(without_ms=300),), OURS_IS_CONTROLLER, first)
    third = summed_up(12.0, (ControllerObservation(3000, problem="gone"),), OURS_IS_CONTROLLER, second)
    fourth = summed_up(13.5, (a_driver(window_ms=80),), OURS_IS_CONTROLLER, third)
    fifth = summed_up(14.0, (a_driver(window_ms=80),), OURS_IS_CONTROLLER, fourth)
    assert [look.controlled_at for look in (first, second, third, fourth, fifth)] == [10.0, 10.0, 10.0, 13.5, 14.0]
    assert [look.gap_s for look in (third, fourth, fifth)] == [None, 3.5, 3.5]
    assert fifth.window_ms == 80
    assert fifth.gaps == (Gap(13.5, 3.5),)
    assert fifth.windows == (Gap(13.5, 0.08),)


def test_every_time_without_controller_is_kept_and_the_oldest_go_first() -> None:
    look = summed_up(0.0, (), BROKER_RULES, None)
    for turn in range(GAPS_KEPT + 5):
        nobody = summed_up(10.0 * turn + 1, (), ZooKeeperObservation(Holder.NOBODY), look)
        look = summed_up(10.0 * turn + 3, (), BROKER_RULES, nobody)
    assert len(look.gaps) == GAPS_KEPT
    assert look.gaps[-1].ended_at == 10.0 * (GAPS_KEPT + 4) + 3
    assert msgspec.convert(msgspec.to_builtins(look), Observation).gaps == look.gaps


def test_looks_that_could_not_read_zookeeper_are_no_gap() -> None:
    """An outage of ZooKeeper in which ours served was told as "last gap 22 s"."""
    blind = ZooKeeperObservation(problem="zk:2181 has not answered for 2 s")
    nobody = ZooKeeperObservation(Holder.NOBODY)
    first = summed_up(10.0, (a_driver(),), OURS_IS_CONTROLLER, None)
    second = summed_up(21.0, (a_driver(),), blind, first)
    third = summed_up(32.0, (a_driver(),), OURS_IS_CONTROLLER, second)
    assert third.gap_s is None
    fourth = summed_up(33.0, (), nobody, summed_up(32.5, (), blind, third))
    fifth = summed_up(35.0, (), BROKER_RULES, summed_up(34.0, (), blind, fourth))
    assert fifth.gap_s == 2.5


def led(now: float, by: int = 3001, migration: str = "MIGRATION") -> LogObservation:
    return LogObservation(now, problem="", leader=by, epoch=7, migration=migration)


def electing(now: float) -> LogObservation:
    return LogObservation(now, "3000: refused; 3001 does not lead; 3002 does not lead", no_leader=True)


def not_read(now: float) -> LogObservation:
    return LogObservation(now, "the quorum did not answer within 4 s")


SILENT = (ControllerObservation(3000, problem="stock runs in its place"),)


def unruled_s(look: Observation, now: float) -> float | None:
    """As it is shown where only the looks tell: the log of stock is asked beside them (test_true_views.py)."""
    snapshot: Any = SimpleNamespace(observation=look, phase=Phase.DUAL_WRITE, phase_row=PHASES[Phase.DUAL_WRITE])
    return without_controller_s(snapshot, now)


def test_stock_that_leads_is_a_controller_although_no_driver_of_ours_answers() -> None:
    """All the time under stock was reported as "without controller 118 s"."""
    look = summed_up(10.0, (a_driver(),), OURS_IS_CONTROLLER, None, led(10.0, by=3000))
    look = summed_up(11.0, SILENT, OURS_IS_CONTROLLER, look, electing(11.0))  # ours ends, to be replaced
    assert (look.controlled_at, unruled_s(look, 11.5)) == (10.0, 1.5)
    for now in (12.5, 60.0, 130.0):
        look = summed_up(now, SILENT, OURS_IS_CONTROLLER, look, led(now))
        assert (look.controlled_at, unruled_s(look, now + 1)) == (now, 0.0)
    assert look.gaps == (Gap(12.5, 2.5),)


def test_an_election_of_stock_is_a_time_without_controller() -> None:
    look = summed_up(10.0, SILENT, OURS_IS_CONTROLLER, None, led(10.0))
    look = summed_up(11.0, SILENT, OURS_IS_CONTROLLER, look, electing(11.0))
    look = summed_up(11.5, SILENT, OURS_IS_CONTROLLER, look, led(11.5, by=3002))
    assert look.gaps == (Gap(11.5, 1.5),)


def test_a_look_that_does_not_know_who_leads_begins_no_time_without_controller_and_ends_none() -> None:
    look = summed_up(10.0, SILENT, OURS_IS_CONTROLLER, None, not_read(10.0))
    assert look.controlled_at is None, "nothing is known yet"
    look = summed_up(20.0, SILENT, OURS_IS_CONTROLLER, look, led(20.0))
    for now in (30.0, 40.0):
        look = summed_up(now, SILENT, OURS_IS_CONTROLLER, look, not_read(now))
        assert unruled_s(look, now) == 0.0
    look = summed_up(50.0, SILENT, OURS_IS_CONTROLLER, look, led(50.0))
    assert look.gaps == ()
    look = summed_up(51.0, SILENT, OURS_IS_CONTROLLER, look, electing(51.0))
    look = summed_up(52.0, SILENT, OURS_IS_CONTROLLER, look, not_read(52.0))
    assert unruled_s(look, 52.0) == 2.0
    look = summed_up(53.0, SILENT, OURS_IS_CONTROLLER, look, led(53.0))
    assert look.gaps == (Gap(53.0, 3.0),)


def test_on_the_way_back_only_the_changes_of_the_controller_are_without_one() -> None:
    """Stock, ours in its place, then a broker in ZooKeeper mode."""
    nobody = ZooKeeperObservation(Holder.NOBODY)
    look = summed_up(10.0, SILENT, OURS_IS_CONTROLLER, None, led(10.0))
    look = summed_up(11.0, SILENT, OURS_IS_CONTROLLER, look, electing(11.0))
    look = summed_up(11.5, (a_voter(3000, leader=None),), OURS_IS_CONTROLLER, look, electing(11.5))
    look = summed_up(12.0, (a_driver(),), OURS_IS_CONTROLLER, look, led(12.0, by=3000))
    look = summed_up(60.0, (a_driver(),), OURS_IS_CONTROLLER, look, led(60.0, by=3000))
    look = summed_up(60.5, (a_voter(3000, leader=None, state="RETIRED"),), nobody, look, electing(60.5))
    look = summed_up(61.0, (a_voter(3000, leader=None, state="RETIRED"),), BROKER_RULES, look)
    look = summed_up(900.0, (), BROKER_RULES, look)
    assert look.gaps == (Gap(12.0, 2.0), Gap(61.0, 1.0))


def test_at_a_takeover_the_driver_says_it_whoever_leads_the_log() -> None:
    first = summed_up(10.0, (), BROKER_RULES, None)
    second = summed_up(11.0, (a_driver(without_ms=300),), OURS_IS_CONTROLLER, first, led(11.0, by=3000))
    assert second.controlled_at == 10.0


@pytest.mark.parametrize("holder", list(Holder))
def test_once_it_is_finalized_zookeeper_does_not_say_who_is_controller(holder: Holder) -> None:
    """Its znodes are removed, or it is switched off."""
    look = summed_up(10.0, SILENT, OURS_IS_CONTROLLER, None, led(10.0))
    for now in (20.0, 30.0):
        look = summed_up(now, (), ZooKeeperObservation(holder), look, led(now, migration="POST_MIGRATION"))
    assert (look.controlled_at, look.gaps) == (30.0, ())


def test_a_migration_that_is_over_does_not_count_what_the_next_one_claims() -> None:
    """The controllers of the next one have the same ids, and what answers is not looked at."""
    look = summed_up(10.0, (), BROKER_RULES, None)
    look = summed_up(20.0, SILENT, OURS_IS_CONTROLLER, look)
    assert unruled_s(look, 25.0) == 0.0


class Voter:
    """What a voter says when it is asked who leads: a partition, an error of the whole answer, or no answer."""

    def __init__(self, says: DescribeQuorumPartitionResult | int | Exception) -> None:
        self._says = says

    async def ask(self, *_: object) -> DescribeQuorumResponse:
        if isinstance(self._says, Exception):
            raise self._says
        if isinstance(self._says, int):
            return DescribeQuorumResponse(error_code=self._says)
        return DescribeQuorumResponse(topics=(DescribeQuorumTopicResult("__cluster_metadata", (self._says,)),))


FOLLOWS = DescribeQuorumPartitionResult(error_code=6)
REFUSED = ConnectionRefusedError(111, "Connect call failed")


@pytest.mark.parametrize(
    ("says", "no_leader"),
    [
        ((FOLLOWS, FOLLOWS, FOLLOWS), True),
        ((REFUSED, FOLLOWS, FOLLOWS), True),
        ((REFUSED, REFUSED, REFUSED), True),
        ((TimeoutError(), FOLLOWS, FOLLOWS), False),
        ((OSError("no route to host"), FOLLOWS, FOLLOWS), False),
        ((31, FOLLOWS, FOLLOWS), False),
        ((DescribeQuorumPartitionResult(error_code=31), FOLLOWS, FOLLOWS), False),
    ],
    ids=["all follow", "one is down", "all are down", "one hangs", "one is not reached", "refused", "refused there"],
)
def test_no_voter_leads_only_if_each_one_says_so_or_does_not_listen(says: tuple[Any, ...], no_leader: bool) -> None:
    """One that cannot be asked may lead: the log is then not known."""
    observer = LogObserver([VoterAddress(3000 + at, "127.0.0.1", 9) for at in range(3)], None)
    connections: Any = {3000 + at: Voter(each) for at, each in enumerate(says)}
    observer.reader.connections = connections
    found = asyncio.run(observer.look(10.0))
    assert (found.known, found.leader, found.no_leader) == (False, None, no_leader)


def test_replicas_lack_since_no_broker_was_missing_and_all_of_it_was_read() -> None:
    """From that time on the broker flaw of Z2K-2043 is named: not where a broker is away, of which that is the sign."""
    zero, one = (LogBroker(each, "incarnation", "ZooKeeper", fenced=False) for each in (0, 1))
    present = (zero, one)
    away = (zero, msgspec.structs.replace(one, fenced=True))
    stopping = (zero, msgspec.structs.replace(one, in_controlled_shutdown=True))
    look = None
    lacking = []
    for now, under_replicated, brokers, problem in (
        (10.0, 3, away, ""),
        (11.0, 3, present, ""),
        (40.0, 2, present, ""),  # fewer, and still not all
        (69.0, 1, present, ""),
        (81.0, 1, stopping, ""),
        (82.0, 1, present, ""),
        (83.0, 1, present, "no controller leads"),
        (84.0, 1, present, ""),
        (85.0, 0, present, ""),
        (86.0, 2, (), ""),  # before dual-write it knows of no broker
        (87.0, 2, present, ""),
        (20.0, 2, present, ""),  # the clock went back
        (60.0, 2, present, ""),  # nothing was observed for 40 s
    ):
        log = LogObservation(now, problem, brokers=brokers, under_replicated=under_replicated)
        look = summed_up(now, (), BROKER_RULES, look, log, Moment(now, now, "one life"))
        lacking.append(None if look.lacking is None else look.lacking.seconds)
    assert lacking == [None, 0.0, 29.0, 58.0, None, 0.0, None, 0.0, None, None, 0.0, 0.0, 0.0]


def test_a_stock_leader_that_writes_nothing_to_zookeeper_is_named_after_a_minute() -> None:
    """Kafka's driver lost the version of /migration: seen for 13 minutes, until the test was ended (kill matrix)."""
    stock = LogObservation(1.0, "", leader=3000, migration="MIGRATION", data_end=803)
    kraft = ZooKeeperObservation(Holder.OURS, holder_id=3000, migration_offset=633)
    moved, whole = (msgspec.structs.replace(kraft, migration_offset=each) for each in (700, 802))
    silent = ZooKeeperObservation(problem="no answer")
    final = msgspec.structs.replace(stock, migration="POST_MIGRATION")
    look, told = None, []
    for now, zookeeper, log in (
        (0.0, whole, stock),
        (20.0, kraft, stock),
        (45.0, kraft, stock),
        (70.0, moved, stock),
        (95.0, moved, stock),
        (120.0, moved, stock),
        (140.0, moved, msgspec.structs.replace(stock, data_end=820)),  # the log goes on
        (150.0, silent, stock),
        (160.0, moved, final),
        (170.0, moved, stock),
    ):
        look = summed_up(now, (), zookeeper, look, log, Moment(now, now, "one life"))
        told += [(now, each.code, each.text) for each in stuck_findings(look, {3000})]
        assert stuck_findings(look, {3001}) == (), "one of ours whose control port is silent"
    assert [(at, code) for at, code, _ in told] == [(140.0, STOCK_WRITES_NOTHING.code)]
    assert "Stock controller 3000 leads" in told[0][2]
    assert "119 records are missing there for 70 s" in told[0][2]


def test_the_last_window_is_remembered_when_its_controller_is_gone() -> None:
    first = summed_up(10.0, (a_driver(window_ms=80),), OURS_IS_CONTROLLER, None)
    assert summed_up(11.0, (ControllerObservation(3000, problem="gone"),), BROKER_RULES, first).window_ms == 80


def test_the_leader_is_the_one_whose_driver_counts() -> None:
    follower = a_voter(3001, leader=3000)
    leader = a_voter(3000, leader=3000)
    gone = ControllerObservation(3000, problem="gone")
    assert Observation(1.0, (follower, leader)).active is leader
    assert Observation(1.0, (gone, follower)).active is None, "a follower's driver is IDLE whatever goes on"
    assert Observation(1.0, (gone, follower)).answering is follower
    assert Observation(1.0, (gone,)).answering is None


def test_the_newest_log_is_the_leaders_also_where_stock_leads_which_has_no_control_port() -> None:
    """Another's directory lacks what was committed since it was stopped."""
    stock_leads = LogObservation(problem="", leader=3002)
    gone = ControllerObservation(3000, problem="gone")
    assert Observation(1.0, (gone,), log=stock_leads).newest_log == 3002
    assert Observation(1.0, (gone, a_voter(3001, leader=3001))).newest_log == 3001, "the log was not observed"
    assert Observation(1.0, (gone,)).newest_log is None


def test_of_two_that_say_they_lead_the_later_one_counts() -> None:
    """The one that was cut off learns of it by the check of its quorum only."""
    cut_off, later = a_voter(3000, leader=3000, epoch=4), a_voter(3001, leader=3001, epoch=5)
    assert Observation(1.0, (cut_off, later)).active is later


def test_a_controller_that_rolled_back_counts_although_it_leads_no_more() -> None:
    retired, follower = a_voter(3001, leader=None, state="RETIRED"), a_voter(3000, leader=None)
    assert Observation(1.0, (follower, retired)).active is retired


def test_nobody_rules_while_only_followers_answer() -> None:
    first = summed_up(10.0, (a_driver(), a_voter(3001, leader=3000)), OURS_IS_CONTROLLER, None)
    second = summed_up(
        11.0, (ControllerObservation(3000, problem="gone"), a_voter(3001, leader=3000)), OURS_IS_CONTROLLER, first
    )
    assert second.controlled_at == 10.0


def a_voter(node: int, *, leader: int | None, epoch: int = 1, state: str = "IDLE") -> ControllerObservation:
    driver = {"state": state, "window_ms": None, "without_controller_ms": None}
    return ControllerObservation(node, node, a_status(quorum={"leader": leader, "epoch": epoch}, driver=driver))


# --- the control port -------------------------------------------------------------------------------------


@pytest.fixture
def controller(tmp_path: Path) -> FakeController:
    return FakeController(ControllerEntry(3000, "/controller.properties", str(tmp_path)), time.time)


def port(controller: FakeController) -> ControlClient:
    return ControlClient(httpx.AsyncClient(transport=FakeNetwork([controller])))


def why_silent(controller: FakeController) -> str:
    with pytest.raises(FindingError) as caught:
        asyncio.run(port(controller).status(controller.entry))
    assert caught.value.code == "Z2K-4021"
    return str(caught.value.occurrence.values["reason"])


def test_a_controller_that_was_never_started_is_silent(controller: FakeController) -> None:
    assert "no control file" in why_silent(controller)


def test_the_control_file_of_a_dead_controller_is_no_answer(controller: FakeController) -> None:
    controller.start()
    controller.kill()
    assert "nothing listens" in why_silent(controller)


def test_somebody_else_on_the_port_is_no_answer(controller: FakeController) -> None:
    controller.start()
    controller.token = "another"
    assert "401" in why_silent(controller)


STRANGERS = {
    "a page": b"<html>It works</html>",
    "a list": b"[]",
    "another document": b'{"status": "ok"}',
    "a document that begins as ours": b'{"node": 3000, "run": "run-1", "quorum": {"leader": 3000}}',
    "no text": b"\xff\xfe",
    "nothing": b"",
}


@pytest.mark.parametrize("body", STRANGERS.values(), ids=STRANGERS)
@pytest.mark.parametrize("request_", ["status", "ask", "cancel"])
def test_a_foreign_one_on_a_dead_controllers_port_is_no_answer(
    controller: FakeController, body: bytes, request_: str
) -> None:
    controller.start()
    port = ControlClient(httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=body))))
    asks: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "status": lambda: port.status(controller.entry),
        "ask": lambda: port.ask(controller.entry, DriverOperation.TAKE_OVER, "why not"),
        "cancel": lambda: port.cancel(controller.entry, "why not"),
    }
    with pytest.raises(FindingError, match=r"Z2K-4021.*another program, or another release, answers"):
        asyncio.run(asks[request_]())


def test_an_address_that_is_none_is_no_answer(controller: FakeController) -> None:
    (Path(controller.entry.data) / CONTROL_FILE).write_text(json.dumps({"url": "http://:x", "token": "t", "pid": 1}))
    with pytest.raises(FindingError, match="Z2K-4021"):
        asyncio.run(ControlClient(httpx.AsyncClient()).status(controller.entry))


def test_another_node_that_answers_is_no_answer(controller: FakeController) -> None:
    controller.start()
    other = ControllerEntry(3001, "/controller.properties", controller.entry.data)
    with pytest.raises(FindingError, match="node 3000 answers in its place"):
        asyncio.run(port(controller).status(other))


def test_a_spoiled_control_file_is_no_answer(controller: FakeController) -> None:
    (Path(controller.entry.data) / CONTROL_FILE).write_text(json.dumps({"url": 1}))
    assert CONTROL_FILE in why_silent(controller)


def test_a_refused_operation_is_told_in_the_controllers_words(controller: FakeController) -> None:
    controller.start()
    with pytest.raises(FindingError, match=r"Z2K-6012.*no abort possible in IDLE"):
        asyncio.run(port(controller).ask(controller.entry, DriverOperation.ABORT, "why not"))


# --- the fake keeps the contract of the real one ----------------------------------------------------------


def test_the_fake_has_the_routes_of_the_real_control_port(controller: FakeController, tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    real = ControlServer(
        loop,
        tmp_path,
        status=a_status,
        metrics=Metrics(),
        driver=None,
    )
    paths = {route.path for route in real._app()._app.routes}  # type: ignore[attr-defined]
    loop.close()
    assert {route.path for route in controller.app().routes} <= paths  # type: ignore[attr-defined]
    assert {f"/v1/{ask}" for ask in DriverOperation} == {f"/v1/{operation}" for operation in OPERATIONS}


def test_the_fake_asks_for_the_token_as_the_real_one_does(controller: FakeController) -> None:
    async def answer() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(controller.app()), base_url="http://x") as http:
            return (await http.get("/v1/status")).status_code

    assert asyncio.run(answer()) == 401


def test_what_troubles_a_controller_itself_is_among_its_findings_also_without_a_driver() -> None:
    trouble, ended = {"code": "Z2K-3122"}, {"code": "Z2K-2017"}
    assert ControllerObservation(3000, status=a_status(findings=[trouble])).findings == [trouble]
    driver = {"finding": ended, "trouble": None}
    status = a_status(findings=[trouble], driver=driver)
    assert ControllerObservation(3000, status=status).findings == [trouble, ended]
    assert ControllerObservation(3000, status=a_status()).findings == ControllerObservation(3000).findings == []


@pytest.mark.parametrize(("znode", "said"), [(None, ""), (b'{"who": "Bo"}', '{"who": "Bo"}'), (b"", "unreadable")])
def test_the_finalize_intent_is_read_as_it_stands(znode: bytes | None, said: str) -> None:
    """Whatever it says: that it stands closes the rollback."""
    found = None if znode is None else SimpleNamespace(data=znode)
    session: Any = SimpleNamespace(get=lambda path: found if path == paths.FINALIZE_INTENT else None)
    assert read_intent(session) == said


def test_how_far_voters_are_is_told_by_the_clock_of_the_leader() -> None:
    quorum = DescribeQuorumPartitionResult(
        leader_id=3000,
        high_watermark=100,
        current_voters=(
            QuorumReplicaState(3002, log_end_offset=-1),
            QuorumReplicaState(3000, b"", 101, 50_000, 50_000),
            QuorumReplicaState(3001, b"", 99, 49_950, 49_600),
        ),
    )
    assert log_observer._voters(quorum) == (
        LogVoter(3000, 101, 0, 0, 0),
        LogVoter(3001, 99, 1, 50, 400),
        LogVoter(3002, -1, None, None, None),
    )


FAILED_6 = "Connect call failed ('::1', 9093, 0, 0)"
FAILED_4 = "Connect call failed ('127.0.0.1', 9093)"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(111, FAILED_4), True),
        (OSError(f"Multiple exceptions: [Errno 111] {FAILED_6}, [Errno 111] {FAILED_4}"), True),
        (OSError(f"Multiple exceptions: [Errno 113] {FAILED_6}, [Errno 111] {FAILED_4}"), False),
        (TimeoutError(), False),
    ],
)
def test_a_voter_is_down_where_each_address_of_its_name_refuses(error: Exception, expected: bool) -> None:
    """As Python 3.11 words it for a name with several addresses."""
    assert refuses(error) is expected


def test_users_whom_a_restart_may_lose_are_followed_through_the_log() -> None:
    """K-28: what stands between a Begin and the next one is one delta of Kafka's loader."""

    def told(*records: Message) -> tuple[str, ...]:
        observer = LogObserver([VoterAddress(3000, "127.0.0.1", 9)], None)
        values = [encode_record(each, 0) for each in records]
        observer._said.batches(build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=values))
        quorum = DescribeQuorumPartitionResult(partition_index=0, leader_id=3000, leader_epoch=1, high_watermark=9)
        return observer._summed_up(1.0, quorum, PartitionFigures()).scram_at_stake

    def a_user(name: str) -> UserScramCredentialRecord:
        return UserScramCredentialRecord(name, 1, b"s", b"k", b"v", 4_096)

    removed, barrier = RemoveUserScramCredentialRecord("ann", 1), (BeginTransactionRecord(), EndTransactionRecord())
    assert told(a_user("ann"), a_user("bob"), removed) == ("bob",)
    assert told(a_user("ann"), a_user("bob"), *barrier, removed, *barrier) == ()
    assert told(a_user("ann"), *barrier, removed, a_user("bob")) == ("bob",)
    of_nobody = (BeginTransactionRecord(), a_user("eve"), AbortTransactionRecord())
    assert told(*of_nobody, a_user("ann"), a_user("bob"), removed) == ("bob",), "eve was never known"
