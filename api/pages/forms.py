"""Posted forms, and templates as answers.

In:   bodies of forms; values of templates.
Out:  the fields; HTML. A form with too many fields is Z2K-4002, as any request that is not understood.
Elsewhere: how large a form may be (migrator.http.bounded_body, api.app).
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qs

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import ClientDisconnect, Request

from migrator.findings.service import REQUEST_NOT_UNDERSTOOD

FIELDS_MAX: Final = 20

templates = Environment(
    loader=PackageLoader("api"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a posted form, the first value of each. Raises Z2K-4002."""
    try:
        body = (await request.body()).decode(errors="replace")
    except ClientDisconnect as error:
        raise REQUEST_NOT_UNDERSTOOD.error(reason="the form is incomplete") from error
    try:
        return {name: values[0] for name, values in parse_qs(body, max_num_fields=FIELDS_MAX).items()}
    except ValueError as error:
        raise REQUEST_NOT_UNDERSTOOD.error(reason=f"a form has at most {FIELDS_MAX} fields") from error


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(templates.get_template(template).render(**values), status)
