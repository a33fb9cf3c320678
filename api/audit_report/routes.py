"""The address of the page of an audit.

In:   the number of an audit. Out: its report as a page.
Elsewhere: how it looks (views.py), the audit as JSON (api/rest/audits.py).
"""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from api.audit_report.views import AboutAudit, as_html, style
from api.rest.guard import HEADERS, POLICY
from api.rest.parts import Number, ServiceParts
from api.rest.problems import described
from api.standalone import style_hash
from migrator.http.addresses import AUDIT_PAGE
from state_machine.audits import audit_rows

router = APIRouter(tags=["audits"])


@router.get(AUDIT_PAGE.template, response_class=HTMLResponse, responses=described(404, 422))
def get_audit_page(parts: ServiceParts, number: Number) -> HTMLResponse:
    """The report of a finished audit as one page that can be printed and kept: it needs nothing from elsewhere."""
    run = audit_rows.audit(parts.store, number)
    kept = audit_rows.kept_audit(run)
    about = AboutAudit(f"audit {run.id}, {run.purpose}", run.finished_at, str(kept.directory), kept.has_inputs)
    policy = HEADERS[POLICY].replace("style-src 'self'", f"style-src '{style_hash(style())}'")
    return HTMLResponse(as_html(msgspec.to_builtins(kept.report), about), headers={POLICY: policy})
