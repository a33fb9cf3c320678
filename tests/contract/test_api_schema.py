"""Requests made up by schemathesis from our OpenAPI document, against the application in this process.

Nothing is faked in the application; the cluster behind it is (a loop that found a cluster in dual-write). Whatever is
sent: no fault of ours, no status and no shape that the document does not name, nothing invalid accepted.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from structlog.testing import capture_logs

from api.app import make_app
from tests.unit.api.service import BASE, Served

EXAMPLES = 12
"""Per address and kind of data; there are about 25 addresses, and the whole stays under half a minute."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

DOCUMENT: dict[str, Any] = make_app(None, "unused").openapi()  # type: ignore[arg-type]
OPERATIONS = [(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def api() -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as directory, capture_logs():
        served = Served(Path(directory))
        asyncio.run(served.world.to_dual_write())
        served.last_round_at = served.world.clock()
        yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", served.app)
        served.world.store.close()


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda part: str(part))
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_no_request_meets_a_fault_or_an_answer_that_the_document_does_not_name(
    api: Any, path: str, method: str, mode: schemathesis.GenerationMode
) -> None:
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    def requests(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(base_url=BASE, checks=CHECKS)

    if mode is schemathesis.GenerationMode.NEGATIVE and not _can_be_wrong(path, method):
        pytest.skip("there is nothing in this request that could be invalid")
    requests()


def _can_be_wrong(path: str, method: str) -> bool:
    operation = DOCUMENT["paths"][path][method]
    return bool(operation.get("parameters") or operation.get("requestBody"))


def test_the_document_names_every_address_of_the_contract() -> None:
    base = "/api/v1/migrations/{number}"
    wanted = {f"{base}/{word}" for word in ("advance", "abort", "rollback", "pause", "resume", "gates", "brokers")}
    wanted |= {f"{base}/{word}" for word in ("quorum", "findings", "events", "audits", "report")}
    wanted |= {"/api/v1/migrations", base, "/api/v1/audits/{number}", "/api/v1/audits/{number}/differences"}
    assert wanted | {"/healthz", "/readyz", "/metrics"} <= set(DOCUMENT["paths"])
