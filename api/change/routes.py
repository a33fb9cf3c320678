"""Addresses of the change report.

In:   the number of a migration. Out: the report as JSON, and as a page of its own.
Elsewhere: what it says (state_machine.change), how it looks (views.py).
"""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from api.change.views import as_html, as_json, style
from api.rest.guard import HEADERS, POLICY
from api.rest.parts import Number, Parts, ServiceParts
from api.rest.problems import described
from api.standalone import style_hash
from migrator.http.addresses import CHANGE_PAGE, CHANGE_REPORT
from state_machine.change.document import ChangeReport
from state_machine.change.facts import read_facts
from state_machine.change.report import change_report
from state_machine.rows.store import understood

router = APIRouter(tags=["migrations"])


@router.get(CHANGE_REPORT.template, responses=described(404, 422))
def get_change_report(parts: ServiceParts, number: Number) -> ChangeReport:
    """The report for a change board: plan, durations, risks, way back; what was done, and what was not verified."""
    return _report(parts, number)


@router.get(CHANGE_PAGE.template, response_class=HTMLResponse, responses=described(404, 422))
def get_change_page(parts: ServiceParts, number: Number) -> HTMLResponse:
    """The same as one page that can be printed and kept: it needs nothing from elsewhere."""
    policy = HEADERS[POLICY].replace("style-src 'self'", f"style-src '{style_hash(style())}'")
    return HTMLResponse(as_html(as_json(_report(parts, number))), headers={POLICY: policy})


def _report(parts: Parts, number: int) -> ChangeReport:
    """Raises Z2K-4004, and Z2K-4102 for rows that cannot be understood."""
    with understood(number):
        return change_report(read_facts(parts.store, parts.settings, number, parts.clock()))
