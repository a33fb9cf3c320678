"""The report for a change board by REST, on the page and by the command line."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from api import client
from api.client import Client
from api.lines import gate_lines, operation_lines, status_lines
from api.models import EdgeView, EventView, OperationView, VerdictView
from state_machine.policy.phases import Phase
from state_machine.rows.store import find_migration
from state_machine.rows.tables import JournalRow
from tests.support.seeded_change import Stage, seeded_change
from tests.unit.api.service import BASE, Served
from tests.unit.api.test_client import Wire, document, run
from tests.unit.api.test_pages import read, text_of


@pytest.fixture
def completed(tmp_path: Path) -> Iterator[Served]:
    """A service whose database has a whole migration."""
    (tmp_path / "service").mkdir()
    made = Served(tmp_path / "service")
    made.world.store.close()
    seeded = seeded_change(tmp_path / "seeded", Stage.COMPLETED)
    parts = made.app.state.parts
    made.app.state.parts = type(parts)(seeded.store, seeded.settings, lambda: seeded.now, parts.wake, lambda: None)
    yield made
    seeded.store.close()


@pytest.fixture
def runner(completed: Served, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    real = client.Client

    def wired(url: str, *, as_json: bool) -> Client:
        return real(url, as_json=as_json, transport=Wire(completed))

    monkeypatch.setattr(client, "Client", wired)
    return CliRunner(env={"ZK2KRAFT_URL": BASE})


def test_the_command_prints_what_is_irreversible_and_what_was_not_verified(runner: CliRunner) -> None:
    code, said = run(runner, "report", "--change")
    assert code == 0
    for words in (
        "change of orders-prod: completed, in COMPLETED",
        "irreversible from here  since 2026-11-24T18:01:00Z",
        "approved  FINALIZING by Grace",
        "broker 1  WHOLE 2026-11-24T15:01:00Z, 32 s, 2 conditions held",
        "without controller  takeover",
        "canary  3 of 43200 records failed",
        "not verified  waived: Z2K-7040 of node 3002, by Grace",
    ):
        assert words in said


def test_the_page_that_the_command_writes_is_the_one_of_the_service(
    runner: CliRunner, completed: Served, tmp_path: Path
) -> None:
    file = tmp_path / "change.html"
    code, found = document(runner, "report", "--change", "--html", str(file))
    assert code == 0
    assert found == completed.get("/migrations/1/change-report")
    assert file.read_text() == completed.http.get("/api/v1/migrations/1/change-report.html").text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_html_without_change_is_refused(runner: CliRunner) -> None:
    code, said = run(runner, "report", "--html", "/nowhere/change.html")
    assert code == 2
    assert "--change" in said


def test_the_page_carries_its_style_and_its_policy_allows_nothing_else(completed: Served) -> None:
    answer = completed.http.get("/api/v1/migrations/1/change-report.html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; style-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert answer.headers["content-type"].startswith("text/html")
    assert "irreversible from here" in text_of(answer.text)
    other = completed.http.get("/migrations/1").headers["content-security-policy"]
    assert "style-src 'self'" in other


def test_nobody_reads_the_report_without_the_token(served: Served) -> None:
    for path in ("change-report", "change-report.html"):
        assert served.foreign_request.get(f"/api/v1/migrations/1/{path}").status_code == 401
        assert served.http.get(f"/api/v1/migrations/99/{path}").status_code == 404


@pytest.mark.parametrize(("column", "value"), [("roll", "sideways"), ("step", "LOST"), ("kind", "unheard-of")])
def test_a_damaged_row_of_the_journal_is_a_finding(completed: Served, column: str, value: str) -> None:
    with completed.app.state.parts.store.writing() as session:
        setattr(session.scalars(select(JournalRow)).first(), column, value)
    for path in ("change-report", "change-report.html"):
        answer = completed.http.get(f"/api/v1/migrations/1/{path}")
        assert answer.status_code >= 400
        assert answer.json()["code"] == "Z2K-4102"


@pytest.mark.parametrize("phase", list(Phase))
def test_the_report_is_made_in_every_phase(served: Served, phase: Phase) -> None:
    with served.world.store.writing() as session:
        find_migration(session, 1).phase = phase
    assert served.get("/migrations/1/change-report")["phase"] == phase
    text_of(served.http.get("/api/v1/migrations/1/change-report.html").text)


def test_page_and_commands_say_before_and_after_finalizing_that_it_is_irreversible(served: Served) -> None:
    with served.world.store.writing() as session:
        find_migration(session, 1).phase = Phase.SOAK
    assert "irreversible from here: nothing leads back after this step" in read(served)
    assert "irreversible from here" in read(served, "/migrations/1/steps/advance")
    (edge,) = (each for each in served.get("/migrations/1/gates")["items"] if each["to"] == Phase.FINALIZING)
    assert any("irreversible from here" in line for line in gate_lines(EdgeView.model_validate(edge)))
    assert not any(line.startswith("irreversible") for line in status_lines(served.view()))

    with served.world.store.writing() as session:
        find_migration(session, 1).phase = Phase.FINALIZING
    assert "irreversible from here" in read(served)
    assert any(line.startswith("irreversible from here") for line in status_lines(served.view()))
    operation = OperationView(
        id=1, operation="advance", to=None, who="Ada", reason="", at=1.0, state="succeeded", answer="", ended_at=1.0,
        verdict=None,
    )  # fmt: skip
    event = EventView(
        version=9, from_phase=Phase.SOAK, to_phase=Phase.FINALIZING, trigger="advance", who="Ada", reason="", at=1.0,
        recorded_at=1.0, source="", verdict=VerdictView(holds=True, conditions=[]),
    )  # fmt: skip
    assert operation_lines(operation, [event])[-1].startswith("irreversible from here")
    elsewhere = event.model_copy(update={"to_phase": Phase.SOAK})
    assert not any("irreversible" in each for each in operation_lines(operation, [elsewhere]))
