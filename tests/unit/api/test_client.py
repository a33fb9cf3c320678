"""The command line as a client of REST: exit codes, and what it prints for people and programs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from api import cli, client
from api.client import Client, ServiceRefused
from api.lines import audit_line
from api.models import AuditScheduleView, Problem
from migrator.findings.content import ISR_INCOMPLETE
from migrator.findings.finding import FindingError
from state_machine.children.commands import Result
from state_machine.policy.phases import Phase
from tests.unit.api.service import BASE, Served
from tests.unit.state_machine.fakes import check_that_found, denied, diverged, red_audit


class Wire(httpx.BaseTransport):
    """From the client into the application of the test; after each operation the loop goes round once."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._served.http.request(
            request.method, str(request.url), content=request.read(), headers=dict(request.headers)
        )
        if request.method == "POST":
            self._served.rounds(2)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture
def runner(served: Served, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """The command line, wired to the application of the test."""
    real = client.Client

    def wired(url: str, *, as_json: bool) -> Client:
        return real(url, as_json=as_json, transport=Wire(served))

    monkeypatch.setattr(client, "Client", wired)
    return CliRunner(env={"ZK2KRAFT_URL": BASE})


def run(runner: CliRunner, *words: str) -> tuple[int, str]:
    result = runner.invoke(cli.app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def document(runner: CliRunner, *words: str) -> tuple[int, Any]:
    """Standard output alone, as a program reads it."""
    result = runner.invoke(cli.app, [*words, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


def test_advance_follows_its_operation_to_the_row(runner: CliRunner, served: Served) -> None:
    code, output = run(runner, "advance", "--to", "PREFLIGHT", "--reason", "first look")
    assert code == 0
    assert "advance: succeeded CREATED to PREFLIGHT" in output
    assert served.world.events[0].reason == "first look"


def test_a_closed_gate_is_exit_4_and_prints_each_failed_check(runner: CliRunner, served: Served) -> None:
    served.world.runner.results["audit"] = Result(1, red_audit("a-0"), "")
    served.run(served.world.to_ready())
    code, output = run(runner, "advance")
    assert code == 4
    assert "Z2K-4005" in output
    assert "False   the audit of the last rehearsal passed: 3 keys compared" in output
    assert "[Z2K-4020]" in output


def test_a_step_that_the_table_does_not_have_is_exit_4(runner: CliRunner) -> None:
    code, found = document(runner, "abort")
    assert (code, found["code"]) == (4, "Z2K-4003")


def test_an_operation_that_the_loop_refuses_is_exit_4_with_its_checks(runner: CliRunner, served: Served) -> None:
    """The last look allowed it, the cluster moved meanwhile."""
    served.run(served.world.to_ready())
    served.world.controller.brokers = (0, 1)
    code, output = run(runner, "advance")
    assert code == 4
    assert "advance: refused" in output
    assert "False   every broker is registered, unfenced" in output


def test_gates_are_exit_4_while_the_step_forward_is_closed(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_ready())
    assert run(runner, "gates")[0] == 0
    run(runner, "pause", "--reason", "lunch")
    code, output = run(runner, "gates")
    assert code == 4
    assert "False   the migration is not paused: paused by" in output


def test_a_dry_run_prints_the_gate_and_does_nothing(runner: CliRunner, served: Served) -> None:
    code, output = run(runner, "advance", "--dry-run")
    assert code == 0
    assert output.startswith("advance to PREFLIGHT (a person): open")
    assert served.world.store.operations(1) == []


def test_status_says_where_it_is_who_rules_and_how_to_go_back(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_dual_write())
    _, output = run(runner, "status")
    assert output.startswith("orders  DUAL_WRITE for")
    assert "controller  controller 3000 (zk2kraft, KRaft mode)" in output
    assert "without controller  not now; last takeover: 80 ms" in output
    assert "controller 3000  driver=DUAL_WRITE" in output
    assert "broker 0  ready" in output
    assert "undo from here  zk2kraft rollback" in output


def test_status_says_how_far_zookeeper_is_behind_and_since_when_changes_are_refused(
    runner: CliRunner, served: Served
) -> None:
    served.run(served.world.to_dual_write())
    assert "ZooKeeper lacks  - records: WITHIN" in run(runner, "status")[1]
    served.world.controller.divergence = diverged("OVER", records=12, behind_ms=14_500, blocking_ms=4_500)
    served.rounds(1)
    _, output = run(runner, "status")
    assert "ZooKeeper lacks  12 records, the oldest for 14 s: OVER; changes refused for 4.5 s" in output
    assert "Z2K-2041  ZooKeeper lacks 12 records, the oldest for 14 s; the limits are 100 records and 10 s." in output


def test_status_shows_the_first_findings_of_a_code_and_where_the_others_are(runner: CliRunner, served: Served) -> None:
    found = [ISR_INCOMPLETE.found(partition=f"o-{each}", replicas=(1, 2), isr=(1,), leader=1) for each in range(200)]
    served.world.runner.results["check"] = check_that_found(*found)
    served.run(served.world.to_preflight())
    served.rounds(3)
    _, output = run(runner, "status")
    assert output.count("Z2K-1008  o-") == 3
    assert "  and 197 more of Z2K-1008; all are on /migrations/1/findings/Z2K-1008\n" in output


def test_status_says_which_principal_lacks_what_how_often_and_since_when(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_dual_write())
    served.world.controller.denials = [denied(served.world.clock())]
    served.rounds(1)
    said = r"controller 3000 denies User:c ClusterAction on the cluster: 5490 requests \(VoteRequest\) in 1 min . s, "
    assert re.search(said + "the last [^ ]+ m?s ago from 10.0.0.7", run(runner, "status")[1])


def test_json_is_what_the_service_answers_and_nothing_else(runner: CliRunner, served: Served) -> None:
    code, found = document(runner, "status")
    assert (code, found["phase"]) == (0, "CREATED")
    assert document(runner, "migrations")[1]["items"][0]["name"] == "orders"


def test_an_audit_that_was_asked_for_is_waited_for(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_dual_write())
    code, output = run(runner, "audits", "--request", "--engine", "quick")
    assert (code, "demand by quick: passed" in output) == (0, True)
    served.world.runner.results["audit"] = Result(1, red_audit("a-0"), "")
    assert run(runner, "audits", "--request")[0] == 1
    assert "demand by quick: diverged" in run(runner, "audits")[1]


def test_the_report_ends_with_what_was_not_verified(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_dual_write())
    lines = run(runner, "report")[1].splitlines()
    assert lines[-1].startswith("not verified")


def test_several_migrations_need_a_number(runner: CliRunner, served: Served) -> None:
    fields = {name: getattr(served.world.inventory, name) for name in served.world.inventory.__struct_fields__}
    served.world.store.create(type(served.world.inventory)(**{**fields, "name": "payments"}), who="x", at=1.0)
    result = runner.invoke(cli.app, ["status"])
    assert isinstance(result.exception, FindingError)
    assert "1 (orders), 2 (payments)" in str(result.exception)
    assert run(runner, "status", "-m", "2")[1].startswith("payments  CREATED")


def test_nobody_at_the_address_is_a_finding() -> None:
    with pytest.raises(FindingError, match="Z2K-4018"):
        Client("http://127.0.0.1:1", as_json=False).migrations()


class Noting(httpx.BaseTransport):
    """Answers every request with a refusal, and keeps what was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append((str(request.url).removeprefix(BASE), json.loads(request.read() or b"{}")))
        return httpx.Response(409, json=a_problem("Z2K-4003").model_dump())


def a_problem(code: str) -> Problem:
    return Problem(type="urn:x", title="", status=409, detail="", instance="", code=code, remedy="", runbook="")


@pytest.mark.parametrize(
    ("words", "address", "to"),
    [
        (("finalize-version",), "/api/v1/migrations/1/finalize-version", "COMPLETED"),
        (("approve",), "/api/v1/migrations/1/agreement?to=FINALIZING", None),
        (("approve", "--to", "ROLLING_BACK"), "/api/v1/migrations/1/agreement?to=ROLLING_BACK", None),
        (("rollback",), "/api/v1/migrations/1/rollback", None),
    ],
)
def test_a_command_names_the_phase_that_it_is_about_where_nobody_does(
    words: tuple[str, ...], address: str, to: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    noting, real = Noting(), client.Client
    monkeypatch.setattr(client, "Client", lambda url, *, as_json: real(BASE, as_json=as_json, transport=noting))
    assert run(CliRunner(), *words, "-m", "1")[0] == 4
    assert [(where, body.get("to")) for where, body in noting.sent] == [(address, to)]


def test_an_answer_that_is_no_json_is_a_finding(served: Served) -> None:
    class Strange(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, text="<html>another program</html>")

    with pytest.raises(FindingError, match="Z2K-4018"):
        Client(BASE, as_json=False, transport=Strange()).migrations()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"items": [{"id": 1, "name": "orders"}]}, "items.0.phase: Field required"),
        ({"items": [{"id": 1, "name": "orders", "phase": "HOVERING"}]}, "items.0.phase"),
        ([], "Page"),
    ],
    ids=["a field is missing", "a phase of another release", "another shape"],
)
def test_an_answer_of_another_release_is_a_finding_that_names_the_field(answer: Any, named: str) -> None:
    class Other(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json=answer)

    with pytest.raises(FindingError, match=re.escape(named)) as found:
        Client(BASE, as_json=False, transport=Other()).migrations()
    assert found.value.code == "Z2K-4018"


def test_a_field_that_this_release_does_not_know_is_no_fault_and_is_in_the_json(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    class Newer(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={**served.get("/migrations"), "colour": "green"})

    assert Client(BASE, as_json=True, transport=Newer()).migrations() == 0
    assert json.loads(capsys.readouterr().out)["colour"] == "green"


@pytest.mark.parametrize(("code", "exit_code"), [("Z2K-4005", 4), ("Z2K-4003", 4), ("Z2K-4004", 1), ("Z2K-4024", 1)])
def test_only_refusals_are_exit_4(code: str, exit_code: int) -> None:
    assert ServiceRefused(a_problem(code)).exit_code == exit_code


def test_the_loop_of_the_test_is_the_real_one(served: Served) -> None:
    """A guard for this file: the wire runs rounds, so a settled operation was settled by the reconciler."""
    served.post("/migrations/1/advance")
    asyncio.run(served.world.rounds())
    assert served.world.steps == ["PREFLIGHT"]


def test_a_mistyped_address_is_changed_from_the_command_line(runner: CliRunner, served: Served, tmp_path: Path) -> None:
    code, view = document(runner, "change", "--zookeeper", "zk9:2181/kafka", "--reason", "typo")
    assert (code, view["zookeeper"], view["operations"][0]["reason"]) == (0, "zk9:2181/kafka", "typo")
    file = tmp_path / "change.json"
    file.write_text('{"bootstrap_servers": "kafka9:9092"}')
    assert document(runner, "change", "--file", str(file))[1]["bootstrap_servers"] == "kafka9:9092"
    file.write_text("[]")
    with pytest.raises(FindingError, match="Z2K-4107"):
        cli.app(["change", "--file", str(file)], standalone_mode=False)


def test_a_migration_is_deleted_from_the_command_line_or_refused_with_4(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_dual_write())
    assert run(runner, "delete", "-m", "1")[0] == 4
    served.world.controller.on_ask = lambda operation: served.world.rollback()
    assert run(runner, "rollback")[0] == 0
    served.rounds(3)
    assert document(runner, "delete", "-m", "1") == (0, {"removed": 1})
    assert document(runner, "migrations")[1]["items"] == []


@pytest.mark.parametrize(
    ("word", "state", "events", "phase", "code"),
    [
        ("advance", "succeeded", [Phase.PREFLIGHT], Phase.PREFLIGHT, 0),
        ("advance", "succeeded", [Phase.TAKEOVER], Phase.DUAL_WRITE, 0),
        ("advance", "succeeded", [Phase.TAKEOVER], Phase.COPY, 5),
        ("advance", "succeeded", [Phase.TAKEOVER], Phase.READY, 1),
        ("advance", "accepted", [], None, 5),
        ("advance", "recorded", [], None, 5),
        ("advance", "refused", [], None, 4),
        ("advance", "cancelled", [], None, 1),
        ("abort", "succeeded", [Phase.ABORTING], Phase.READY, 0),
        ("abort", "succeeded", [Phase.ABORTING], Phase.DUAL_WRITE, 1),
        ("rollback", "succeeded", [Phase.ROLLING_BACK], Phase.ROLLED_BACK, 0),
        ("rollback", "succeeded", [Phase.ROLLING_BACK], Phase.ROLLING_BACK, 5),
        ("rollback", "succeeded", [Phase.ROLLING_BACK], Phase.DUAL_WRITE, 1),
        ("pause", "succeeded", [], None, 0),
    ],
)
def test_a_step_ends_with_its_outcome(
    word: str, state: str, events: list[Phase], phase: Phase | None, code: int
) -> None:
    assert client.outcome_code(word, state, events, phase) == code


def test_a_takeover_that_the_driver_only_keeps_is_not_done(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_ready())
    code, output = run(runner, "advance", "--wait", "0")
    assert code == 5
    assert "advance: recorded" in output
    assert run(runner, "advance", "--no-wait")[0] == 4, "another one is pending"


def test_a_takeover_is_followed_into_dual_write(runner: CliRunner, served: Served) -> None:
    served.run(served.world.to_ready())
    served.world.controller.on_ask = lambda operation: served.world.take_over()
    code, found = document(runner, "advance")
    assert (code, found["phase"]) == (0, "DUAL_WRITE")


def test_no_wait_ends_as_soon_as_it_is_recorded(runner: CliRunner, served: Served) -> None:
    code, found = document(runner, "advance", "--no-wait")
    assert (code, found["phase"]) == (0, None)


def test_the_status_line_of_the_audits_says_the_last_and_the_next() -> None:
    observed = AuditScheduleView(
        every_s=900,
        next_at=1_030.0,
        last=7,
        result="diverged",
        finished_at=990.0,
        differences=2,
        passed_at=None,
        diverged_twice=False,
        overdue=False,
    )

    def line(now: float, **changes: object) -> str:
        return audit_line(observed.model_copy(update=changes), now)

    assert line(1_000.0) == "audits  audit 7 diverged 10 s ago, 2 different; the next one in 30 s"
    assert line(5.0, last=None, next_at=1.0) == "audits  none has finished yet; the next one now"
    assert "off" in line(5.0, every_s=0)
