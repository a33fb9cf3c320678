"""Errors as RFC 9457 problem details, always with the code of a finding.

In:   findings, refusals of gates, requests that were not understood.
Out:  `application/problem+json` answers, and how OpenAPI describes them.
Elsewhere: the findings (migrator.findings), pages show the same object (pages).
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from api.models import FieldFault, Problem
from api.views import condition_view
from migrator.findings.audit import KEPT_AUDIT_UNREADABLE
from migrator.findings.finding import FindingError
from migrator.findings.road import BACK_REFUSED, NOT_A_RAISE
from migrator.findings.service import (
    ADDRESS_NOT_DECLARED,
    AGREED_TO_ANOTHER,
    BODY_TOO_LARGE,
    DATABASE_SILENT,
    FOREIGN_REQUEST,
    GATE_CLOSED,
    KEY_USED_AGAIN,
    NAME_TAKEN,
    NO_SUCH_THING,
    NOT_CONFIRMED,
    NOT_OBSERVED,
    NOT_POSSIBLE_HERE,
    NOT_REMOVABLE,
    OPERATION_PENDING,
    PATH_OUTSIDE,
    REQUEST_NOT_UNDERSTOOD,
    SERVICE_FAULT,
    SERVICE_RUNS_ALREADY,
    TOKEN_NEEDED,
    VERSION_MOVED,
)
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from state_machine.rows.transition import GateClosed
from state_machine.trouble import StoreError, is_database_trouble, words_of

log = structlog.get_logger()

PROBLEM_JSON: Final = "application/problem+json"

STATUS: Final = {
    REQUEST_NOT_UNDERSTOOD.code: 422,
    NOT_A_RAISE.code: 422,
    PATH_OUTSIDE.code: 422,
    ADDRESS_NOT_DECLARED.code: 422,
    KEY_USED_AGAIN.code: 422,
    ZOOKEEPER_UNREACHABLE.code: 422,
    NO_SUCH_THING.code: 404,
    KEPT_AUDIT_UNREADABLE.code: 404,
    BODY_TOO_LARGE.code: 413,
    FOREIGN_REQUEST.code: 403,
    TOKEN_NEEDED.code: 401,
    NOT_OBSERVED.code: 503,
    DATABASE_SILENT.code: 503,
    SERVICE_RUNS_ALREADY.code: 503,
    **{
        finding.code: 409
        for finding in (
            AGREED_TO_ANOTHER,
            BACK_REFUSED,
            GATE_CLOSED,
            NAME_TAKEN,
            NOT_CONFIRMED,
            NOT_POSSIBLE_HERE,
            NOT_REMOVABLE,
            VERSION_MOVED,
            OPERATION_PENDING,
        )
    },
}


def problem(error: FindingError, instance: str, status: int | None = None) -> Problem:
    """The one shape of an error. A finding that no handler expects is ours to explain: 500."""
    found = error.occurrence
    failed = error.verdict.failed if isinstance(error, GateClosed) else ()
    possible = str(found.values.get("possible", ""))
    return Problem(
        type=f"urn:zk2kraft:finding:{found.code}",
        title=found.finding.means,
        status=status or STATUS.get(found.code, 500),
        detail=found.text,
        instance=instance,
        code=found.code,
        remedy=found.finding.remedy,
        runbook=f"runbooks/{found.code}.md",
        conditions=[condition_view(each.as_json()) for each in failed],
        possible=[] if possible in ("", "nothing") else possible.split(", "),
    )


def answer(found: Problem, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(found.model_dump(mode="json"), found.status, headers, PROBLEM_JSON)


def invalid(error: RequestValidationError, instance: str) -> Problem:
    """What was wrong, field by field; what was sent is not repeated."""
    errors = [FieldFault(where=[str(part) for part in each["loc"]], says=each["msg"]) for each in error.errors()]
    first = f"{'.'.join(errors[0].where)}: {errors[0].says}" if errors else "it is not valid"
    found = problem(REQUEST_NOT_UNDERSTOOD.error(reason=first), instance)
    return found.model_copy(update={"errors": errors})


def from_http(error: HTTPException, instance: str) -> Problem:
    """What the framework refuses: an unknown address, a wrong method, a body that is no JSON."""
    finding = NO_SUCH_THING.error(what=f"address {instance}") if error.status_code == 404 else None
    return problem(finding or REQUEST_NOT_UNDERSTOOD.error(reason=str(error.detail)), instance, error.status_code)


def add_handlers(app: FastAPI) -> None:
    @app.exception_handler(FindingError)
    def on_finding(request: Request, error: FindingError) -> Response:
        return answer(problem(error, request.url.path))

    @app.exception_handler(RequestValidationError)
    def on_invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(invalid(error, request.url.path))

    @app.exception_handler(HTTPException)
    def on_http(request: Request, error: HTTPException) -> Response:
        return answer(from_http(error, request.url.path), dict(error.headers or {}))

    @app.exception_handler(StoreError)
    def on_database(request: Request, error: StoreError) -> Response:
        if not is_database_trouble(error):
            raise error
        found = DATABASE_SILENT.error(reason=words_of(error))
        log.warning("request.database_failed", path=request.url.path, reason=found.occurrence.text)
        return answer(problem(found, request.url.path))

    @app.exception_handler(Exception)
    def on_fault(request: Request, error: Exception) -> Response:
        """Give the answer its shape; the fault itself goes on to the server, which logs it."""
        return answer(problem(SERVICE_FAULT.error(fault=type(error).__name__), request.url.path))


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes the errors of an address."""
    said = {
        400: "the body is no text",
        401: "the token of the service is missing or wrong",
        403: "the request came from a foreign web page",
        404: "there is no such thing",
        409: "refused: by the table, by a gate (each failed condition is named), or because something moved",
        422: "the request was not understood",
        503: "the service does not observe clusters now, or its database does not answer",
    }
    reference = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": said[status], "content": {PROBLEM_JSON: {"schema": reference}}} for status in statuses
    }


def openapi_with_problems(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document with the schema of problems, which no address returns as its ordinary answer, and with what
    every address may answer.
    """
    document = FastAPI.openapi(app)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    if "Problem" not in schemas:
        schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas["Problem"] = schema
    answers = [operation["responses"] for path in document["paths"].values() for operation in path.values()]
    for each in answers:  # behind every address there is the database
        each.setdefault("503", described(503)[503])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document
