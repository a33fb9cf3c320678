"""What page, status and metrics say of nodes is true in every phase: under stock controllers, and of a failed node."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from api.client import Client
from api.lines import status_lines
from migrator.findings.finding import FindingError
from migrator.model.printable import OBEYED
from state_machine.audits import audit_rows
from state_machine.clusters.log_observer import LogObservation, LogVoter
from state_machine.clusters.observe import ZooKeeperObservation
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phases import Phase
from tests.unit.api.service import Served
from tests.unit.api.test_pages import read
from tests.unit.state_machine.fakes import PASSED_AUDIT
from tests.unit.state_machine.rolling.test_rolling import Rolling
from tests.unit.state_machine.under_stock import UnderStock
from tests.unit.state_machine.world import World

LEADER = "controller 3000 (stock, KRaft mode), leader of voters 3000, 3001, 3002 in epoch 5"


def served_world(world: World, directory: Path) -> Iterator[Served]:
    yield Served(directory, world=world)
    world.store.close()


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Served]:
    """Three voters, of which stock takes the place."""
    yield from served_world(UnderStock(tmp_path), tmp_path)


@pytest.fixture
def rolling(tmp_path: Path) -> Iterator[Served]:
    yield from served_world(Rolling(tmp_path), tmp_path)


def under_stock(served: Served) -> UnderStock:
    assert isinstance(served.world, UnderStock)
    return served.world


def metric(served: Served, name: str) -> float | None:
    found = re.search(rf'^zk2kraft_{name}{{migration="orders"}} (\S+)$', served.http.get("/metrics").text, re.M)
    return None if found is None else float(found.group(1))


def first_screen(served: Served) -> str:
    text = read(served)
    return text[: text.index("Steps from here")]


def observe_log(world: World, **changes: object) -> None:
    world.log.observed = msgspec.structs.replace(world.log.observed, **changes)


# --- stock controllers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.SOAK, Phase.FINALIZING, Phase.COMPLETED])
def test_under_stock_the_first_box_names_the_stock_leader_and_its_voters(stock: Served, phase: Phase) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    world._enter(phase)
    asyncio.run(world.turn())
    assert LEADER in first_screen(stock)
    view = stock.get("/migrations/1")
    assert (view["active_controller"]["node_id"], view["active_controller"]["kraft_epoch"]) == (3000, 5)
    assert [(each["kind"], each["leads"], each["problem"], each["ready"]) for each in view["quorum"]] == [
        ("stock", True, "", True),
        ("stock", False, "", True),
        ("stock", False, "", True),
    ]
    said = "\n".join(status_lines(stock.view()))
    assert LEADER in said
    for wrong in ("which does not answer", "no control file", "not observed yet"):
        assert wrong not in read(stock)
        assert wrong not in said


def test_under_stock_every_broker_is_shown_as_the_metadata_log_has_it(stock: Served) -> None:
    asyncio.run(under_stock(stock).to_soak())
    brokers = stock.get("/migrations/1")["brokers"]
    assert [(each["id"], each["registered"], each["mode"], each["problem"]) for each in brokers] == [
        (broker, True, "KRaft", "") for broker in (0, 1, 2)
    ]
    assert metric(stock, "brokers_not_ready") == 0
    assert stock.get("/migrations/1/brokers")["items"] == brokers


def test_under_stock_a_broker_that_is_away_or_in_zookeeper_mode_is_named(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    first, second, _ = world.log.observed.brokers
    observe_log(
        world, brokers=(msgspec.structs.replace(first, fenced=True), msgspec.structs.replace(second, mode="ZooKeeper"))
    )
    asyncio.run(world.rounds())
    brokers = stock.get("/migrations/1")["brokers"]
    assert [each["problem"] for each in brokers] == ["fenced", "in ZooKeeper mode", "not registered"]
    assert metric(stock, "brokers_not_ready") == 3


def test_once_zookeeper_is_stopped_the_first_box_still_names_the_leader(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    world._enter(Phase.COMPLETED)
    world.zookeeper.observed = ZooKeeperObservation(problem="no server answers")
    world.clock.pass_by(100.0)
    asyncio.run(world.turn(2))
    text = first_screen(stock)
    assert LEADER in text
    assert "not now" in text
    assert "Blocked" not in text
    assert metric(stock, "without_controller_seconds") == 0


def test_voters_of_which_none_leads_are_a_time_without_controller(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    world.log.observed = LogObservation(problem="none of them leads", no_leader=True)
    asyncio.run(world.rounds(4, seconds=1.0))
    view = stock.get("/migrations/1")
    assert view["active_controller"]["says"] == "none: every voter was asked, and none leads"
    assert view["without_controller_s"] >= 3
    assert not any(each["ready"] for each in view["quorum"])
    assert metric(stock, "without_controller_seconds") == view["without_controller_s"]


def test_a_log_that_cannot_be_read_is_unknown_and_no_good_news(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    world.log.observed = LogObservation(problem="3000: the certificate has expired")
    asyncio.run(world.rounds(2))
    view = stock.get("/migrations/1")
    assert "unknown: the metadata log is not observed: 3000: the certificate has expired" in first_screen(stock)
    assert [each["problem"] for each in view["brokers"]] == ["unknown: 3000: the certificate has expired"] * 3
    assert all("unknown" in each["problem"] for each in view["quorum"])
    for unknown in ("without_controller_seconds", "dual_write_lag_records"):
        assert metric(stock, unknown) is None


def test_a_stock_voter_that_is_behind_is_shown_as_such(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    observe_log(world, voters=(LogVoter(3000, 100, 0, 0), LogVoter(3001, 93, 7, 60_000), LogVoter(3002, -1, None)))
    asyncio.run(world.rounds())
    problems = [each["problem"] for each in stock.get("/migrations/1")["quorum"]]
    assert problems == ["", "it is 7 records behind", "it has never fetched"]


def test_while_ours_are_replaced_each_controller_is_shown_as_what_it_is(stock: Served) -> None:
    world = under_stock(stock)

    async def story() -> None:
        await world.to_replacing(3001, 3002)
        await world.turn(3)

    asyncio.run(story())
    view = stock.get("/migrations/1")
    assert [(each["node_id"], each["kind"], each["ready"]) for each in view["quorum"]] == [
        (3000, "zk2kraft", True),
        (3001, "stock", True),
        (3002, "stock", True),
    ]
    assert view["active_controller"]["says"] == "controller 3000 (zk2kraft, KRaft mode)"


def test_the_lag_of_zookeeper_is_known_while_stock_writes_to_it_and_absent_where_nothing_does(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_ready())
    assert metric(stock, "dual_write_lag_records") is None
    assert metric(stock, "last_window_seconds") is None


def test_in_soak_the_lag_is_what_the_log_has_more_than_zookeeper(stock: Served) -> None:
    world = under_stock(stock)
    asyncio.run(world.to_soak())
    observe_log(world, data_end=100)
    world.zookeeper.observed = msgspec.structs.replace(world.zookeeper.observed, migration_offset=87)
    asyncio.run(world.rounds())
    assert metric(stock, "dual_write_lag_records") == 12
    assert "ZooKeeper is behind by 12 records" in first_screen(stock)
    world._enter(Phase.COMPLETED)
    asyncio.run(world.rounds())
    assert metric(stock, "dual_write_lag_records") is None


# --- brokers that go over ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "problem"),
    [
        (Phase.READY, "in KRaft mode"),
        (Phase.DUAL_WRITE, "in KRaft mode"),
        (Phase.ROLLING_BROKERS, ""),
        (Phase.REPLACING_CONTROLLERS, ""),
        (Phase.ROLLING_BACK, ""),
    ],
)
def test_a_broker_in_kraft_mode_is_wrong_only_where_the_phase_wants_another(
    served: Served, phase: Phase, problem: str
) -> None:
    world = served.world
    served.run(world.to_dual_write())
    world.controller.kraft = (0,)
    served.rounds()
    with world.store.writing() as session:
        world_row = session.get_one(type(world.snapshot.migration), world.id)
        world_row.phase = phase
    assert served.get("/migrations/1")["brokers"][0]["problem"] == problem
    assert metric(served, "brokers_not_ready") == float(bool(problem) or 2 * (phase is Phase.REPLACING_CONTROLLERS))


# --- a failed node ----------------------------------------------------------------------------------------


def failed(served: Served) -> Rolling:
    world = served.world
    assert isinstance(world, Rolling)

    async def story() -> None:
        await world.to_rolling()
        await world.until(lambda: world.step(0) == "STARTED")
        assert metric_in(world) == (0.0, 0.0)
        world.hosts.state(0, "stopped")
        await world.until(lambda: world.step(0) == "FAILED")
        await world.turn(2)

    asyncio.run(story())
    return world


def metric_in(world: World) -> tuple[float, float]:
    from api.figures import figures_of

    values = figures_of(world.store, world.id, world.clock).values
    return values["blocked"], values["roll_failed_nodes"]


def test_a_failed_node_moves_the_metrics_until_it_is_mended(rolling: Served) -> None:
    world = failed(rolling)
    assert (metric(rolling, "blocked"), metric(rolling, "roll_failed_nodes")) == (1, 1)

    async def mended() -> None:
        await world.run_operation("RESUME", who="Ada", reason="its disk is mended")
        await world.until(lambda: world.rolled)

    asyncio.run(mended())
    assert (metric(rolling, "blocked"), metric(rolling, "roll_failed_nodes")) == (0, 0)


def test_a_failed_node_is_in_the_first_screen_with_its_runbook_and_both_remedies(rolling: Served) -> None:
    failed(rolling)
    page = rolling.http.get("/migrations/1").text
    first = page[: page.index("Steps from here")]
    assert '<a href="/runbooks/Z2K-4203">Z2K-4203</a>' in first
    assert 'href="/migrations/1/steps/resume"' in first
    assert 'href="/migrations/1/steps/back"' in first
    assert "no node of the rolling restart has failed: broker 0: Z2K-4203" in read(rolling)
    said = status_lines(rolling.view())
    assert any(line.startswith("BLOCKED  no node of the rolling restart has failed: broker 0") for line in said)


def test_the_form_back_sends_the_failed_node_back_as_rest_does(rolling: Served) -> None:
    world = failed(rolling)
    assert "broker 0 has failed: Z2K-4203" in read(rolling, "/migrations/1/steps/back")
    sent = {"name": "orders", "who": "Ada", "reason": "its disk is gone", "key": "k1"}
    assert rolling.http.post("/migrations/1/steps/back", data=sent).status_code == 303
    asyncio.run(world.turn())
    (operation,) = (each for each in world.store.operations(1) if each.name == "BACK")
    assert (operation.state, operation.who) == ("succeeded", "Ada")
    assert world.step(0) != "FAILED"


def test_the_form_back_is_refused_where_no_node_failed(rolling: Served) -> None:
    asyncio.run(rolling.world.to_dual_write())
    assert "back is not possible in DUAL_WRITE" in read(rolling, "/migrations/1/steps/back")
    refused = rolling.http.post("/migrations/1/steps/back", data={"name": "orders", "who": "Ada"})
    assert refused.status_code == 409
    assert "Z2K-4216" in refused.text
    assert rolling.world.store.operations(1)[0].name != "BACK"


def test_a_node_that_failed_on_the_way_forward_blocks_no_rollback(rolling: Served) -> None:
    world = failed(rolling)
    with world.store.writing() as session:
        session.get_one(type(world.snapshot.migration), world.id).phase = Phase.ROLLING_BACK
    view = rolling.get("/migrations/1")
    assert world.nodes_of(Roll.KRAFT)[0].step == "FAILED"
    assert metric(rolling, "roll_failed_nodes") == 0
    assert all("has failed" not in each["name"] or each["status"] == "True" for each in view["standing"]["conditions"])


# --- runbooks ---------------------------------------------------------------------------------------------


def test_a_runbook_is_a_page_of_the_service(served: Served) -> None:
    text = read(served, "/runbooks/Z2K-4203")
    assert "Z2K-4203" in text
    assert "Do 1." in text
    assert "Z2K-4004" in read(served, "/runbooks/Z2K-9999", 404)
    assert served.http.get("/runbooks/..%2Fpyproject").status_code in (404, 422)


def test_followers_are_in_the_order_of_their_numbers(served: Served) -> None:
    served.world.controller.brokers = (0, 1, 2, 10, 11, 20)
    served.run(served.world.to_dual_write())
    assert "0 at 10, 1 at 10, 2 at 10, 10 at 10, 11 at 10, 20 at 10" in read(served)
    assert list(served.get("/migrations/1")["quorum"][0]["observers"]) == ["0", "1", "2", "10", "11", "20"]


# --- phase and reason -------------------------------------------------------------------------------------


def test_the_reason_of_the_phase_before_is_never_shown_in_the_next_one(served: Served) -> None:
    """The driver takes over faster than a round: phase and reason are read before the round is at its end."""
    world = served.world
    served.run(world.to_ready())
    seen: list[tuple[str, str]] = []
    act = world.reconciler._acts.act

    async def look_first(*given: object) -> object:
        row = world.snapshot.migration
        seen.append((row.phase, row.waiting))
        return await act(*given)  # type: ignore[arg-type]

    world.reconciler._acts.act = look_first  # type: ignore[assignment,method-assign]
    world.controller.on_ask = lambda operation: world.take_over(until="AUDITING")
    served.run(world.run_operation("ADVANCE"))
    served.rounds()
    assert ("AUDIT", "AUDIT: entered AUDITING") in seen, seen
    assert all(reason.startswith(f"{phase}:") for phase, reason in seen if phase in ("TAKEOVER", "COPY", "AUDIT")), seen


# --- what others write ------------------------------------------------------------------------------------

HOSTILE = ("\x1b[2Jroot", "Ada\r\nREADY", "a\x00b", "\u202eadA", "tab\there", "line\u2028break")


@pytest.mark.parametrize("text", HOSTILE)
def test_who_and_why_take_nothing_that_a_terminal_obeys(served: Served, text: str) -> None:
    for body in ({"who": text}, {"reason": text}):
        assert served.post("/migrations/1/pause", body).status_code == 422, body
        assert served.http.request("PATCH", "/api/v1/migrations/1", json=body).status_code == 422
    assert served.post("/migrations/1/audits", {"who": text}).status_code == 422
    assert served.http.request("DELETE", "/api/v1/migrations/1", params={"who": text}).status_code == 422
    form = {"name": "orders", "who": "Ada", "reason": text}
    assert served.http.post("/migrations/1/steps/pause", data=form).status_code == 422
    assert served.world.store.operations(1) == []


@pytest.mark.parametrize("text", HOSTILE)
def test_the_command_line_shows_what_an_older_service_took(
    served: Served, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of before, and whatever a cluster calls its topics."""
    with served.world.store.writing() as session:
        session.get_one(type(served.world.snapshot.migration), 1).waiting = f"paused by {text}"
    client = Client("http://127.0.0.1:8085", as_json=False, transport=Answers(served))
    client.status(1)
    shown = capsys.readouterr().out
    assert "paused by" in shown
    assert not re.search(f"[{OBEYED}]", shown.replace("\n", ""))
    assert shown.count("\n") == len(status_lines(served.view()))


class Answers(httpx.BaseTransport):
    """Asks the application of the test in this process."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, headers = str(request.url.raw_path, "ascii"), {"Content-Type": "application/json"}
        answer = self._served.http.request(request.method, path, content=request.read(), headers=headers)
        return httpx.Response(answer.status_code, content=answer.content)


def test_a_change_of_the_inventory_is_a_new_version_so_that_no_update_is_lost(served: Served) -> None:
    """Two people who saw version 1: the second one is told."""
    first = {"bootstrap_servers": "kafka1:9092", "expected_version": 1}
    answer = served.http.request("PATCH", "/api/v1/migrations/1", json=first)
    assert (answer.status_code, answer.json()["version"]) == (200, 2)
    second = served.http.request("PATCH", "/api/v1/migrations/1", json={**first, "bootstrap_servers": "kafka2:9092"})
    assert (second.status_code, second.json()["code"]) == (409, "Z2K-4006")
    assert served.get("/migrations/1")["bootstrap_servers"] == "kafka1:9092"
    assert served.post("/migrations/1/advance", {"expected_version": 1}).status_code == 409


def test_an_inventory_that_moved_meanwhile_is_not_written_over(served: Served) -> None:
    """The version is compared in the transaction that writes, not only before it."""
    world = served.world
    world.store.change_inventory(1, world.inventory, who="Ada", reason="", at=1.0, expected_version=1)
    with pytest.raises(FindingError, match="Z2K-4006"):
        world.store.change_inventory(1, world.inventory, who="Ada", reason="", at=1.0, expected_version=1)


# --- small ------------------------------------------------------------------------------------------------


def test_an_empty_page_shows_how_a_migration_is_created(served: Served) -> None:
    served.world.store.migrations = list  # type: ignore[method-assign]
    assert '"bootstrap_servers": "kafka1:9092"' in read(served, "/")


def test_the_page_says_which_service_its_commands_have_to_ask(served: Served) -> None:
    assert "--url" not in read(served)
    answer = served.http.get("http://localhost:9085/migrations/1")
    assert "--url http://localhost:9085" in answer.text


def test_an_audit_that_the_command_line_requests_says_who_did(served: Served) -> None:
    served.run(served.world.to_dual_write())
    client = Client("http://127.0.0.1:8085", as_json=True, transport=Answers(served))
    client.audits(1, ask=True, engine="quick", wait_s=0.0, who="ada")
    assert served.get("/migrations/1/audits")["items"][0]["who"] == "ada"


def an_audit(served: Served, expected: int, left_off: dict[str, int]) -> int:
    store, migration = served.world.store, served.world.id
    run, _ = audit_rows.ask_audit(store, migration, purpose="schedule", engine="quick", who="service", at=1.0)
    same = {
        "family": "partitions",
        "field": "partition_epoch",
        "kind": "changed",
        "zookeeper": 1,
        "log": 2,
        "rule": "r",
    }
    found = [{**same, "key": f"t-{number}"} for number in range(expected)]
    audit_rows.finish(store, run.id, {**PASSED_AUDIT, "expected": found, "left_off": left_off}, at=2.0)
    return run.id


def test_differences_page_to_their_end(served: Served) -> None:
    number = an_audit(served, 133, {})
    link, keys = f"/audits/{number}/differences", []
    while link:
        page = served.get(link)
        keys += [each["key"] for each in page["items"]]
        link = (page["next"] or "").removeprefix("/api/v1")
    assert keys == [f"t-{number}" for number in range(133)]
    assert served.get(f"/audits/{number}")["left_off"] == {}
    assert "t-132" in read(served, f"/audits/{number}")


def test_an_audit_says_how_many_differences_its_report_left_off(served: Served) -> None:
    number = an_audit(served, 600, {"expected": 7_000})
    audit = served.get(f"/audits/{number}")
    assert (audit["left_off"], audit["position"].keys()) == ({"expected": 7000}, {"zk", "kraft"})
    text = read(served, f"/audits/{number}")
    assert "Only the first 500 are shown" in text
    assert "7,000 more expected differences" in text
