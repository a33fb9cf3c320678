"""The pages: one migration, the form before a step, an audit, and the list.

In:   the objects that REST shows (api.views), and forms.
Out:  HTML; a form that was accepted leads back to the page of its migration.
Elsewhere: what the fields mean (api.models: its help texts are shown here), accepting an operation (`rest/actions.py`).
Rules: the page renews itself in place, and stays while the service is away; without scripts, by a meta refresh. A form
never does, so that nobody loses what they type. A step that matters shows its gate and asks for the cluster's name.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from api.models import (
    ActionIn,
    BrokerView,
    ControllerView,
    DenialView,
    FeatureGroupView,
    MigrationView,
    Problem,
    RoadNodeView,
    RoadView,
)
from api.pages import words
from api.pages.forms import form_of, render, templates
from api.pages.runbooks import linked, runbook
from api.pages.trend import trends
from api.rest.actions import ask, order, record, require_way_back
from api.rest.parts import Number, Parts, ServiceParts
from api.rest.problems import invalid, problem
from api.views import audit_view, finding_view, migration_line, migration_view
from migrator.findings.finding import FindingError
from migrator.findings.service import NO_SUCH_THING, NOT_CONFIRMED
from state_machine.audits import audit_rows
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import NO_CHOICE, OPERATIONS, OperationName, Phase
from state_machine.rows.observations import findings

router = APIRouter(include_in_schema=False)

STYLE: Final = Path(__file__).parent.parent / "templates" / "style.css"
SCRIPT: Final = STYLE.with_name("page.js")
NAMES: Final = {row.word: name for name, row in OPERATIONS.items() if row.has_form}
"""Steps with a form, in the words of the command line."""
LOCAL: Final = "http://127.0.0.1:8085"
"""Which service the command line asks unless it is told another one (cli.py)."""
DIFFERENCES_SHOWN: Final = 500
AUDITS_SHOWN: Final = 30
FINDINGS_SHOWN: Final = 5_000
"""On one page; a browser takes that many rows."""

Code = Annotated[str, PathParameter(pattern=r"^Z2K-\d{4}$")]

templates.globals |= {
    "help": {name: field.description for name, field in MigrationView.model_fields.items()},
    "denial_help": {name: field.description for name, field in DenialView.model_fields.items()},
    "feature_help": {name: field.description for name, field in FeatureGroupView.model_fields.items()},
    "broker_help": {name: field.description for name, field in BrokerView.model_fields.items()},
    "controller_help": {name: field.description for name, field in ControllerView.model_fields.items()},
    "road_help": {name: field.description for name, field in RoadNodeView.model_fields.items()},
    "road_view_help": {name: field.description for name, field in RoadView.model_fields.items()},
    "forward": {phase: row.does for phase, row in PHASES.items() if row.does},
    "simple": {row.word: row.does for row in OPERATIONS.values() if row.does},
    "phase": Phase,
    "no_choice": NO_CHOICE,
}
templates.filters |= {
    "span": words.span,
    "clock": words.clock,
    "stamp": words.stamp,
    "yes": words.yes,
    "dash": words.dash,
    "sentence": words.sentence,
    "linked": linked,
}


Form = Annotated[dict[str, str], Depends(form_of)]


@router.get("/style.css")
def style() -> FileResponse:
    return FileResponse(STYLE, media_type="text/css")


@router.get("/page.js")
def script() -> FileResponse:
    return FileResponse(SCRIPT, media_type="text/javascript")


@router.get("/")
def index(parts: ServiceParts) -> Response:
    """The page of the only migration, or the list."""
    rows = parts.store.migrations()
    if len(rows) == 1:
        return RedirectResponse(f"/migrations/{rows[0].id}", 303)
    lines = [migration_line(row, parts.troubles.get(row.id)) for row in rows]
    return render("index.html", lines=lines, now=parts.clock())


@router.get("/migrations/{number}")
def show_migration(parts: ServiceParts, number: Number, request: Request) -> Response:
    try:
        view = migration_view(parts.store, number, parts.clock())
    except FindingError as error:
        return _problem_page(problem(error, f"/migrations/{number}"), "/")
    url = str(request.base_url).rstrip("/")
    return render("migration.html", view=view, now=view.now, url=url, local=LOCAL)


@router.get("/migrations/{number}/findings/{code}")
def show_findings(parts: ServiceParts, number: Number, code: Code) -> Response:
    """Every open finding of one code. It does not renew itself."""
    try:
        rows = findings(parts.store, number, only_open=True, code=code, limit=FINDINGS_SHOWN)
        name = parts.store.snapshot(number).migration.name
    except FindingError as error:
        return _problem_page(problem(error, f"/migrations/{number}"), "/")
    views = [finding_view(row) for row in rows]
    now, limit = parts.clock(), FINDINGS_SHOWN
    return render("findings.html", number=number, name=name, code=code, rows=views, limit=limit, now=now)


@router.get("/migrations/{number}/steps/{word}")
def show_form(parts: ServiceParts, number: Number, word: str) -> Response:
    """The form before a step, with its gate as it is now. It does not renew itself."""
    try:
        view = migration_view(parts.store, number, parts.clock())
        _name_of(word)
    except FindingError as error:
        return _problem_page(problem(error, f"/migrations/{number}/steps/{word}"), "/")
    edge = next((each for each in view.gates if each.trigger == word), None)
    key = secrets.token_urlsafe(12)
    remedy = next((each for each in (view.road.remedies if view.road else []) if each.word == word), None)
    return render("step.html", view=view, word=word, edge=edge, remedy=remedy, key=key, now=view.now)


@router.post("/migrations/{number}/steps/{word}")
def take_step(parts: ServiceParts, number: Number, word: str, form: Form) -> Response:
    """What the form sends; the same operation as by REST."""
    here = f"/migrations/{number}"
    try:
        _record(parts, number, word, form)
    except FindingError as error:
        return _problem_page(problem(error, f"{here}/steps/{word}"), here)
    except ValidationError as error:
        refused = RequestValidationError(error.errors())
        return _problem_page(invalid(refused, f"{here}/steps/{word}"), here)
    return RedirectResponse(f"{here}#operations", 303)


@router.get("/runbooks/{code}")
def show_runbook(code: Code) -> Response:
    """What to do about a finding, as its page of this release says it. It does not renew itself."""
    text = runbook(code)
    if text is None:
        return _problem_page(problem(NO_SUCH_THING.error(what=f"runbook {code}"), f"/runbooks/{code}"), "/")
    return render("runbook.html", code=code, text=text)


@router.get("/migrations/{number}/audits")
def show_audits(parts: ServiceParts, number: Number) -> Response:
    """The last finished audits, and how each family went from one to the next. It does not renew itself."""
    try:
        audits = [audit_view(each) for each in audit_rows.finished_audits(parts.store, number, limit=AUDITS_SHOWN)]
        name = parts.store.snapshot(number).migration.name
    except FindingError as error:
        return _problem_page(problem(error, f"/migrations/{number}/audits"), "/")
    return render("audits.html", number=number, name=name, audits=audits, rows=trends(audits), now=parts.clock())


@router.get("/audits/{number}")
def show_audit(parts: ServiceParts, number: Number) -> Response:
    try:
        audit = audit_view(audit_rows.audit(parts.store, number))
    except FindingError as error:
        return _problem_page(problem(error, f"/audits/{number}"), "/")
    found = audit_rows.differences(parts.store, number, cursor=0, limit=DIFFERENCES_SHOWN)
    return render("audit.html", audit=audit, differences=found, limit=DIFFERENCES_SHOWN, now=parts.clock())


def _record(parts: Parts, number: int, word: str, form: dict[str, str]) -> None:
    name = _name_of(word)
    snapshot = parts.store.snapshot(number)
    typed = form.get("name", "").strip()
    if typed != snapshot.migration.name:
        raise NOT_CONFIRMED.error(typed=repr(typed))
    fields = {key: form[key] for key in ("to", "expected_version", "reason", "who") if form.get(key)}
    operation = order(name, ActionIn.model_validate(fields), form.get("key"))
    if parts.store.known_operation(number, operation) is not None:
        return
    if name == OperationName.BACK:
        require_way_back(parts, number)
    elif OPERATIONS[name].trigger is not None:
        ask(parts, number, operation)
    record(parts, number, operation)


def _name_of(word: str) -> str:
    if word not in NAMES:
        raise NO_SUCH_THING.error(what=f"step {word}")
    return NAMES[word]


def _problem_page(found: Problem, back: str) -> HTMLResponse:
    return render("problem.html", found.status, problem=found, back=back, now=0)
