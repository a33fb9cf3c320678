"""Looking: who rules, of which kind, since when, and for how long nobody does."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest

from migrator.control_api.control_file import CONTROL_FILE
from migrator.control_api.operations import DriverOperation
from migrator.driver.claim import ClaimObservation
from migrator.findings.finding import FindingError
from migrator.node.process.control import ControlServer
from migrator.node.quorum.metrics import Metrics
from migrator.wire.messages.raft import DescribeQuorumPartitionResult, QuorumReplicaState
from migrator.zk import paths
from migrator.zk.znodes import ControllerZnode, MigrationZnode
from state_machine.clusters import log_observer
from state_machine.clusters.control import ControlClient
from state_machine.clusters.inventory import ControllerEntry
from state_machine.clusters.log_observer import LogBroker, LogObservation, LogVoter
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
from state_machine.policy.gates import Holder
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


def test_replicas_lack_since_no_broker_was_missing_and_all_of_it_was_read() -> None:
    """From that time on the broker flaw of Z2K-2043 is named: not where a broker is away, of which that is the sign."""
    zero, one = (LogBroker(each, "incarnation", "ZooKeeper", fenced=False) for each in (0, 1))
    present = (zero, one)
    away = (zero, msgspec.structs.replace(one, fenced=True))
    stopping = (zero, msgspec.structs.replace(one, in_controlled_shutdown=True))
    look = None
    since = []
    for now, under_replicated, brokers, problem in (
        (10.0, 3, away, ""),
        (11.0, 3, present, ""),
        (80.0, 1, present, ""),  # fewer, and still not all
        (81.0, 1, stopping, ""),
        (82.0, 1, present, ""),
        (83.0, 1, present, "no controller leads"),
        (84.0, 1, present, ""),
        (85.0, 0, present, ""),
        (86.0, 2, (), ""),  # before dual-write it knows of no broker
        (87.0, 2, present, ""),
        (20.0, 2, present, ""),  # the clock went back
    ):
        log = LogObservation(now, problem, brokers=brokers, under_replicated=under_replicated)
        look = summed_up(now, (), BROKER_RULES, look, log)
        since.append(look.lacking_since)
    assert since == [None, 11.0, 11.0, None, 82.0, None, 84.0, None, None, 87.0, 20.0]


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
    asks = {
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
    paths = {route.path for route in real._app().routes}  # type: ignore[attr-defined]
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
