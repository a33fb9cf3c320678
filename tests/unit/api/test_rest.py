"""REST: operations are recorded once, refusals name every failed check, and looking has no side effect."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError, ProgrammingError

from state_machine.audits import audit_rows
from state_machine.children.commands import Result
from state_machine.clusters.log_observer import LogObservation
from state_machine.policy.phases import Phase
from state_machine.rows.tables import PhaseEvent
from tests.unit.api.service import Served
from tests.unit.state_machine.fakes import PASSED_AUDIT, red_audit

INVENTORY: dict[str, Any] = {
    "name": "payments",
    "zookeeper": "zk1:2181,zk2:2181/kafka",
    "bootstrap_servers": "kafka1:9092",
    "controllers": [{"node_id": 3000, "properties": "/etc/c.properties", "data": "/var/data"}],
}
PROBLEM = "application/problem+json"


def assert_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Every error has this one shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    assert found["code"] == code
    assert found["type"] == f"urn:zk2kraft:finding:{code}"
    assert found["detail"]
    assert found["remedy"]
    assert found["runbook"] == f"runbooks/{code}.md"
    return found


# --- migrations -------------------------------------------------------------------------------------------


def test_a_migration_is_created_and_found_again(served: Served) -> None:
    answer = served.post("/migrations", INVENTORY)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/migrations/2"
    found = served.get("/migrations/2")
    assert (found["name"], found["phase"], found["version"]) == ("payments", "CREATED", 1)
    assert found["audit_engine"] == "quick", "what the service has"
    assert [line["name"] for line in served.get("/migrations")["items"]] == ["orders", "payments"]


def test_a_migration_of_a_mistyped_zookeeper_is_not_created(served: Served) -> None:
    served.unreachable = {"zk-typo:2181/kafka": "zk-typo:2181: the name is not resolved"}
    found = assert_problem(
        served.post("/migrations", {**INVENTORY, "zookeeper": "zk-typo:2181/kafka"}), 422, "Z2K-2001"
    )
    assert "zk-typo:2181: the name is not resolved" in found["detail"]
    assert [line["name"] for line in served.get("/migrations")["items"]] == ["orders"]
    change = {"zookeeper": "zk-typo:2181/kafka", "who": "test"}
    assert_problem(served.http.request("PATCH", "/api/v1/migrations/1", json=change), 422, "Z2K-2001")
    assert served.get("/migrations/1")["zookeeper"] != change["zookeeper"]


def test_creating_twice_with_one_key_creates_one(served: Served) -> None:
    answers = [served.post("/migrations", INVENTORY, **{"Idempotency-Key": "k1"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = served.post("/migrations", {**INVENTORY, "name": "clicks"}, **{"Idempotency-Key": "k1"})
    assert_problem(other, 422, "Z2K-4007")


def test_a_name_that_is_taken_is_refused(served: Served) -> None:
    assert_problem(served.post("/migrations", {**INVENTORY, "name": "orders"}), 409, "Z2K-4015")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"zookeeper": "zk1"}, "body.zookeeper"),
        ({"name": "two words"}, "body.name"),
        ({"controllers": []}, "body.controllers"),
        ({"controllers": INVENTORY["controllers"] * 2}, "body.controllers"),
        ({"brokers": [{"id": 1}, {"id": 1}]}, "body.brokers"),
        ({"colour": "red"}, "body.colour"),
    ],
)
def test_an_inventory_that_cannot_be_is_refused_with_its_field(
    served: Served, change: dict[str, Any], where: str
) -> None:
    found = assert_problem(served.post("/migrations", {**INVENTORY, **change}), 422, "Z2K-4002")
    assert ".".join(found["errors"][0]["where"]) == where


@pytest.mark.parametrize(
    "path", ["/migrations/9", "/migrations/9/gates", "/audits/9", "/migrations/1/operations/9", "/nix"]
)
def test_what_does_not_exist_is_a_problem_too(served: Served, path: str) -> None:
    assert_problem(served.http.get("/api/v1" + path), 404, "Z2K-4004")


def test_a_wrong_method_and_a_body_that_is_no_json_are_problems(served: Served) -> None:
    assert_problem(served.http.put("/api/v1/migrations"), 405, "Z2K-4002")
    broken = served.http.post("/api/v1/migrations", content=b"{", headers={"content-type": "application/json"})
    assert_problem(broken, 422, "Z2K-4002")


def test_a_fault_of_ours_has_the_same_shape(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.world.store, "migrations", lambda: 1 / 0)
    assert_problem(served.http.get("/api/v1/migrations"), 500, "Z2K-4024")


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [(OperationalError, 503, "Z2K-4120"), (DatabaseError, 503, "Z2K-4120"), (ProgrammingError, 500, "Z2K-4024")],
)
def test_a_database_that_fails_is_named_and_a_wrong_statement_is_a_fault_of_ours(
    served: Served, monkeypatch: pytest.MonkeyPatch, kind: type[DBAPIError], status: int, code: str
) -> None:
    def fail() -> None:
        raise kind("SELECT secret", None, RuntimeError("disk I/O error"))

    monkeypatch.setattr(served.world.store, "migrations", fail)
    found = assert_problem(served.http.get("/api/v1/migrations"), status, code)
    assert "secret" not in found["detail"]


# --- steps ------------------------------------------------------------------------------------------------


def test_an_accepted_operation_has_an_address_and_becomes_a_row(served: Served) -> None:
    answer = served.post("/migrations/1/advance", {"to": "PREFLIGHT", "expected_version": 1, "reason": "go"})
    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted["operation"]["state"] == "recorded"
    assert answer.headers["location"] == accepted["link"]
    assert served.woken == 1
    served.rounds()
    assert served.http.get(accepted["link"]).json()["state"] == "succeeded"
    (event,) = served.http.get(accepted["event"]).json()["items"]
    assert (event["from_phase"], event["to_phase"], event["reason"]) == ("CREATED", "PREFLIGHT", "go")


def test_repeating_an_operation_with_its_key_is_safe_even_after_it_is_done(served: Served) -> None:
    key = {"Idempotency-Key": "k1"}
    first = served.post("/migrations/1/advance", {"to": "PREFLIGHT"}, **key)
    served.rounds()
    again = served.post("/migrations/1/advance", {"to": "PREFLIGHT"}, **key)
    assert again.status_code == 202
    assert first.json()["link"] == again.json()["link"]
    assert again.json()["operation"]["state"] == "succeeded"
    assert len(served.get("/migrations/1/events")["items"]) == 1


def test_a_key_for_another_operation_is_refused(served: Served) -> None:
    served.post("/migrations/1/advance", {}, **{"Idempotency-Key": "k1"})
    other = served.post("/migrations/1/rollback", {}, **{"Idempotency-Key": "k1"})
    assert_problem(other, 422, "Z2K-4007")


def test_a_closed_gate_is_409_with_every_failed_check_and_records_nothing(served: Served) -> None:
    served.run(served.world.to_preflight())
    served.world.runner.results["check"] = Result(3, None, "Z2K-2001 nobody")
    served.run(served.world.rounds(3, seconds=300))
    served.rounds()
    found = assert_problem(served.post("/migrations/1/advance"), 409, "Z2K-4005")
    assert [check["name"] for check in found["conditions"]] == ["`check` finds nothing that blocks"]
    assert found["conditions"][0]["codes"] == ["Z2K-4014"]
    assert "Z2K-2001 nobody" in found["conditions"][0]["message"]
    assert [operation["state"] for operation in served.get("/migrations/1")["operations"]] == ["succeeded"]


def test_a_step_that_the_table_does_not_have_is_409_and_says_what_is_possible(served: Served) -> None:
    found = assert_problem(served.post("/migrations/1/abort"), 409, "Z2K-4003")
    assert found["detail"] == "abort is not possible in CREATED; possible here: advance, rollback."
    assert found["possible"] == ["advance", "rollback"]


def test_a_phase_that_is_far_ahead_is_refused_by_name(served: Served) -> None:
    found = assert_problem(served.post("/migrations/1/advance", {"to": "FINALIZING"}), 409, "Z2K-4003")
    assert "FINALIZING" in found["detail"]


def test_no_broker_goes_back_where_none_failed(served: Served) -> None:
    found = assert_problem(served.post("/migrations/1/back", {"who": "Bo"}), 409, "Z2K-4216")
    assert "possible in BROKERS_JOINING, ROLLING_BROKERS, ROLLING_BACK, not in CREATED" in found["detail"]


def test_nothing_is_approved_where_nothing_needs_an_approval(served: Served) -> None:
    found = assert_problem(served.post("/migrations/1/approve", {"who": "Bo"}), 409, "Z2K-4003")
    assert "approve is not possible in CREATED" in found["detail"]


def test_metadata_version_is_raised_in_completed_only(served: Served) -> None:
    found = assert_problem(served.post("/migrations/1/finalize-version", {"who": "Ada"}), 409, "Z2K-4003")
    assert "finalize-version is not possible in CREATED" in found["detail"]


def test_a_version_that_moved_is_409(served: Served) -> None:
    assert_problem(served.post("/migrations/1/advance", {"expected_version": 7}), 409, "Z2K-4006")


def test_a_second_operation_before_the_first_is_settled_is_409(served: Served) -> None:
    served.post("/migrations/1/advance")
    found = assert_problem(served.post("/migrations/1/advance"), 409, "Z2K-4009")
    assert "/api/v1/migrations/1/operations/1" in found["detail"]


def test_a_dry_run_shows_the_gate_and_records_nothing(served: Served) -> None:
    served.run(served.world.to_ready())
    answer = served.http.post("/api/v1/migrations/1/advance?dry_run=true", json={"to": "DUAL_WRITE"})
    assert answer.status_code == 200
    edge = answer.json()["edge"]
    assert (edge["trigger"], edge["to"], edge["holds"]) == ("advance", "TAKEOVER", True)
    assert edge["command"] == "zk2kraft advance --migration 1 --to TAKEOVER"
    served.rounds(3)
    assert served.world.phase is Phase.READY
    assert served.world.controller.asked == []


@pytest.mark.parametrize("word", ["approve", "back", "pause", "resume", "advance?dryrun=true"])
def test_a_parameter_that_the_address_has_not_is_refused_before_anything_is_recorded(served: Served, word: str) -> None:
    answer = served.http.post(f"/api/v1/migrations/1/{word}{'?dry_run=true' * ('?' not in word)}", json={})
    assert answer.status_code == 422
    assert answer.json()["code"] == "Z2K-4002"
    assert "this address has no such parameter" in answer.text
    assert served.http.get("/api/v1/migrations/1/operations/1").status_code == 404


def test_the_rows_of_an_operation_are_at_the_address_that_its_answer_names(served: Served) -> None:
    """Rows before it are not its rows."""
    verdict = {"holds": True, "conditions": []}
    before = {"from_phase": "READY", "to_phase": "TAKEOVER", "trigger": "ADVANCE", "verdict": verdict}
    origin = {"who": "driver", "reason": "", "source_run": "r", "source_number": 1}
    with served.world.store.writing() as session:
        session.add(PhaseEvent(migration_id=1, version=0, at=1.0, recorded_at=1.0, **before, **origin))
    first = served.post("/migrations/1/advance", {"to": "PREFLIGHT"}).json()
    served.rounds(3)
    assert [each["to_phase"] for each in served.get("/migrations/1/events")["items"]] == ["TAKEOVER", "PREFLIGHT"]
    assert [each["to_phase"] for each in served.http.get(first["event"]).json()["items"]] == ["PREFLIGHT"]


@pytest.mark.parametrize(
    "path",
    ["migrations?name=x", "migrations/1?a=1", "migrations/1/events?signal=1", "migrations/1/findings?codes=Z2K-1008"],
)
def test_a_question_with_a_parameter_that_the_address_has_not_is_refused(served: Served, path: str) -> None:
    found = assert_problem(served.http.get(f"/api/v1/{path}"), 422, "Z2K-4002")
    assert "this address has no such parameter" in found["detail"]


def test_a_dry_run_of_a_closed_gate_is_refused_the_same_way(served: Served) -> None:
    served.run(served.world.to_preflight())
    served.world.clock.pass_by(60)
    answer = served.http.post("/api/v1/migrations/1/advance?dry_run=true", json={})
    found = assert_problem(answer, 409, "Z2K-4005")
    assert found["conditions"][0]["message"].endswith("s ago"), "a service that does not look lets nobody go on"


def test_hold_and_resume_are_operations_without_a_transition(served: Served) -> None:
    assert served.post("/migrations/1/pause", {"reason": "lunch", "who": "Ada"}).status_code == 202
    served.rounds()
    assert served.get("/migrations/1")["paused"] == "paused by Ada: lunch"
    assert_problem(served.post("/migrations/1/advance"), 409, "Z2K-4005")
    assert served.post("/migrations/1/resume").status_code == 202
    served.rounds()
    assert served.get("/migrations/1")["paused"] is None
    assert served.get("/migrations/1/events")["items"] == []


# --- looking ----------------------------------------------------------------------------------------------


def test_gates_show_every_step_with_each_check_and_change_nothing(served: Served) -> None:
    served.run(served.world.to_ready())
    before = served.get("/migrations/1")["version"]
    edges = served.get("/migrations/1/gates")["items"]
    assert [(edge["trigger"], edge["by"], edge["to"]) for edge in edges] == [
        ("advance", "a person", "TAKEOVER"),
        ("abort", "a person", "READY"),
        ("rollback", "a person", "ROLLING_BACK"),
        ("takeover began", "the driver", "TAKEOVER"),
    ]
    assert all(check["message"] for edge in edges for check in edge["conditions"])
    assert served.get("/migrations/1")["version"] == before


def test_the_parts_of_a_migration_are_those_of_the_whole(served: Served) -> None:
    served.run(served.world.to_dual_write())
    whole = served.get("/migrations/1")
    for part in ("gates", "brokers", "quorum", "events"):
        assert served.get(f"/migrations/1/{part}")["items"] == whole[part]
    assert [each["phase"] for each in whole["steps"] if each["state"] == "now"] == ["DUAL_WRITE"]
    assert whole["active_controller"]["says"] == "controller 3000 (zk2kraft, KRaft mode)"
    assert whole["dual_write"]["offset"] == 9
    assert whole["undo"]["command"] == "zk2kraft rollback"


def test_while_no_controller_answers_brokers_are_shown_as_they_were(served: Served) -> None:
    served.run(served.world.to_dual_write())
    served.world.launcher.answers = False
    served.world.controller.kill()
    served.world.log.observed = LogObservation(problem="3000: refused", no_leader=True)
    served.rounds(3)
    whole = served.get("/migrations/1")
    assert whole["brokers"][0]["registered"] is None
    assert "no controller answers; last seen" in whole["brokers"][0]["problem"]
    assert whole["brokers"][0]["listeners"] == ["PLAINTEXT://127.0.0.1:9092"]
    assert whole["without_controller_s"] > 1
    assert whole["active_controller"]["says"] == "controller 3000 (zk2kraft, KRaft mode), which does not answer"
    assert not whole["standing"]["holds"]


def test_the_report_has_times_and_what_was_not_verified(served: Served) -> None:
    served.run(served.world.to_dual_write())
    report = served.get("/migrations/1/report")
    phases = [each["phase"] for each in report["phases"]]
    assert phases == [
        "CREATED", "PREFLIGHT", "QUORUM", "BROKERS_JOINING", "READY", "TAKEOVER", "COPY", "AUDIT", "DUAL_WRITE",
    ]  # fmt: skip
    assert report["takeover_s"] == 0.06
    assert report["window_ms"] == 80
    assert any("no audit passed since the takeover" in each for each in report["not_verified"])
    store, migration, at = served.world.store, served.world.id, served.world.clock()
    run, _ = audit_rows.ask_audit(store, migration, purpose="schedule", engine="quick", who="service", at=at)
    audit_rows.finish(store, run.id, PASSED_AUDIT, at=at)
    report = served.get("/migrations/1/report")
    assert not any("no audit passed since the takeover" in each for each in report["not_verified"])


# --- audits -----------------------------------------------------------------------------------------------


def test_an_audit_on_demand_is_run_by_the_loop_and_read_page_by_page(served: Served) -> None:
    served.run(served.world.to_dual_write())
    served.world.runner.results["audit"] = Result(1, red_audit("a-0", "a-1", "a-2"), "")
    asked = served.post("/migrations/1/audits", {"engine": "spark"})
    assert asked.status_code == 202
    assert asked.json()["state"] == "asked"
    served.rounds(2)
    link = asked.headers["location"]
    audit = served.http.get(link).json()
    assert (audit["state"], audit["passed"], audit["engine"], audit["purpose"]) == ("done", False, "spark", "demand")
    page = served.http.get(audit["differences"] + "?limit=2").json()
    print(page)
    assert [each["key"] for each in page["items"]] == ["a-0", "a-1"]
    rest = served.http.get(page["next"]).json()
    assert [each["key"] for each in rest["items"]] == ["a-2"]
    assert rest["next"] is None


def test_an_audit_reads_the_directory_of_the_active_controller(served: Served) -> None:
    served.run(served.world.to_dual_write())
    served.post("/migrations/1/audits")
    served.rounds(2)
    run = served.world.runner.runs[-1]
    assert run[run.index("--kraft") + 1] == served.world.inventory.controllers[0].data


def test_asking_for_an_audit_twice_with_one_key_asks_once(served: Served) -> None:
    for _ in range(2):
        assert served.post("/migrations/1/audits", {}, **{"Idempotency-Key": "k1"}).status_code == 202
    assert len(audit_rows.audits(served.world.store, 1)) == 1


# --- health -----------------------------------------------------------------------------------------------


def test_ready_means_that_the_loop_goes_round(served: Served) -> None:
    assert served.http.get("/healthz").text == "ok"
    assert_problem(served.http.get("/readyz"), 503, "Z2K-4019")
    served.last_round_at = served.world.clock() - 1
    assert served.http.get("/readyz").status_code == 200
    served.last_round_at = served.world.clock() - 60
    assert_problem(served.http.get("/readyz"), 503, "Z2K-4019")


def test_figures_name_the_phase_and_the_seconds_without_a_controller(served: Served) -> None:
    served.run(served.world.to_dual_write())
    text = served.http.get("/metrics").text
    assert 'zk2kraft_phase{migration="orders",phase="DUAL_WRITE"} 1.0' in text
    assert 'zk2kraft_without_controller_seconds{migration="orders"} 0.0' in text
    assert 'zk2kraft_last_window_seconds{migration="orders"} 0.08' in text
    assert 'zk2kraft_epoch_gap{migration="orders"} 0.0' in text


def test_the_epoch_gap_is_a_figure_as_long_as_it_is_known(served: Served) -> None:
    served.run(served.world.to_dual_write())
    zookeeper = served.world.zookeeper
    zookeeper.observed = msgspec.structs.replace(zookeeper.observed, kraft_epoch=11, controller_epoch=4)
    served.rounds(1)
    assert 'zk2kraft_epoch_gap{migration="orders"} 7.0' in served.http.get("/metrics").text
    zookeeper.nobody_rules()
    served.rounds(1)
    assert "zk2kraft_epoch_gap{" not in served.http.get("/metrics").text


# --- who may ask ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example:8085"},
    ],
)
def test_other_web_pages_cannot_use_a_browser_to_reach_the_service(served: Served, headers: dict[str, str]) -> None:
    found = served.http.post("/api/v1/migrations/1/advance", json={}, headers=headers)
    assert_problem(found, 403, "Z2K-4023")
    assert served.world.store.operations(1) == []


@pytest.mark.parametrize(
    "headers", [{}, {"origin": "http://127.0.0.1:8085"}, {"host": "localhost:9000", "origin": "http://localhost:9000"}]
)
def test_the_services_own_page_and_programs_may_ask(served: Served, headers: dict[str, str]) -> None:
    assert served.http.post("/api/v1/migrations/1/advance", json={}, headers=headers).status_code == 202


def test_every_answer_tells_browsers_what_a_page_may_do(served: Served) -> None:
    headers = served.http.get("/api/v1/migrations").headers
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"


def test_openapi_describes_every_error_as_a_problem(served: Served) -> None:
    document = served.get("/openapi.json")
    assert "Problem" in document["components"]["schemas"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    assert list(response["content"]) == [PROBLEM], f"{method} {path} {status}"
            assert operation.get("description"), f"{method} {path} says nothing about itself"


# --- change and remove ------------------------------------------------------------------------------------


def test_a_mistyped_address_is_patched_and_a_wrong_field_is_not(served: Served) -> None:
    answer = served.http.request("PATCH", "/api/v1/migrations/1", json={"zookeeper": "zk9:2181/kafka", "who": "Ada"})
    assert (answer.status_code, answer.json()["zookeeper"]) == (200, "zk9:2181/kafka")
    assert answer.json()["operations"][0]["operation"] == "change"
    wrong: list[dict[str, Any]] = [{"zookeeper": "no port"}, {"phase": "READY"}, {"controllers": []}]
    for body in wrong:
        assert served.http.request("PATCH", "/api/v1/migrations/1", json=body).status_code == 422
    moved = served.http.request("PATCH", "/api/v1/migrations/1", json={"expected_version": 9})
    assert (moved.status_code, moved.json()["code"]) == (409, "Z2K-4006")


def test_a_migration_that_claimed_nothing_is_deleted(served: Served) -> None:
    assert served.http.request("DELETE", "/api/v1/migrations/1?who=Ada").status_code == 204
    assert served.get("/migrations")["items"] == []
    assert served.http.get("/api/v1/migrations/1").status_code == 404
    assert served.http.request("DELETE", "/api/v1/migrations/1").status_code == 404


def test_a_migration_in_dual_write_is_not_deleted(served: Served) -> None:
    served.run(served.world.to_dual_write())
    answer = served.http.request("DELETE", "/api/v1/migrations/1")
    assert (answer.status_code, answer.json()["code"]) == (409, "Z2K-4106")
    assert "DUAL_WRITE" in answer.json()["detail"]


def test_a_migration_whose_files_lie_outside_the_roots_is_not_created(served: Served) -> None:
    outside = [{"node_id": 3000, "properties": "/root/.ssh/id_rsa", "data": "/var/data"}]
    answer = served.post("/migrations", {**INVENTORY, "name": "outside", "controllers": outside})
    assert (answer.status_code, answer.json()["code"]) == (422, "Z2K-4112")
    changed = served.http.request("PATCH", "/api/v1/migrations/1", json={"controllers": outside})
    assert (changed.status_code, changed.json()["code"]) == (422, "Z2K-4112")


def test_a_controller_on_another_host_is_taken_only_at_a_declared_address(served: Served) -> None:
    """The service would show its token there."""
    entry = {"node_id": 3000, "properties": "/etc/copy.properties", "data": "/var/lib/zk2kraft"}
    remote = [{**entry, "control": "https://169.254.169.254:443"}]
    answer = served.post("/migrations", {**INVENTORY, "name": "remote", "controllers": remote})
    assert (answer.status_code, answer.json()["code"]) == (422, "Z2K-4118")
    changed = served.http.request("PATCH", "/api/v1/migrations/1", json={"controllers": remote})
    assert (changed.status_code, changed.json()["code"]) == (422, "Z2K-4118")
    plain = [{**entry, "control": "http://controller-1:80"}]
    answer = served.post("/migrations", {**INVENTORY, "name": "plain", "controllers": plain})
    assert answer.status_code == 422
