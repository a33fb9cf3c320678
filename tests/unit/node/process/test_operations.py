"""What a person asks the driver for: kept for as long as it is meant, refused at once when it cannot be kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from migrator.control_api.states import State
from migrator.node.driver.driver_state import DriverState
from migrator.node.driver.operations import TAKEOVER_KEPT_MS, DriverOperations
from migrator.node.process import control
from migrator.node.process.control import ControlServer
from migrator.node.quorum.metrics import Metrics
from tests.support.statuses import a_status
from tests.unit.node.driver.test_driver_acts import a_driver, story


class Clock:
    ms = 0

    def __call__(self) -> int:
        return self.ms


def some(state: State, clock: Clock | None = None) -> DriverOperations:
    return DriverOperations(DriverState(state=state), clock or Clock())


def test_an_operation_for_a_takeover_counts_no_longer_than_its_evidence_is_fresh() -> None:
    clock = Clock()
    operations = some(State.WAIT_BROKERS, clock)
    assert operations.request_takeover()
    clock.ms = TAKEOVER_KEPT_MS - 1
    assert operations.standing() == ["takeover"]
    clock.ms = TAKEOVER_KEPT_MS
    assert not operations.takeover
    assert operations.standing() == []


def test_the_time_of_an_export_does_not_count() -> None:
    clock = Clock()
    operations = some(State.WAIT_BROKERS, clock)
    operations.wait_longer(1000)
    assert not operations.takeover
    operations.request_takeover()
    clock.ms = TAKEOVER_KEPT_MS
    operations.wait_longer(5000)
    assert operations.takeover


def test_a_takeover_that_has_not_begun_is_withdrawn_once() -> None:
    operations = some(State.ABORTED)
    operations.request_takeover()
    assert [operations.cancel_takeover(), operations.cancel_takeover()] == [True, False]


@pytest.mark.parametrize("state", State)
def test_what_is_not_kept_is_refused_and_what_is_under_way_is_not_asked_twice(state: State) -> None:
    operations = some(state)
    waits = state in {State.WAIT_QUORUM, State.WAIT_BROKERS, State.ABORTED}
    claimed = {State.TAKING_OVER, State.COPYING, State.AUDITING, State.COMMITTING, State.SYNCING}
    has_begun = state in claimed | {State.UPDATING_BROKERS, State.DUAL_WRITE}
    assert (operations.request_takeover(), operations.takeover) == (waits or has_begun, waits)
    rules = state in {State.COMMITTING, State.RESUMING, State.SYNCING, State.UPDATING_BROKERS, State.DUAL_WRITE}
    goes_back = state in {State.ROLLING_BACK, State.ROLLING_BACK_EARLY, State.RETIRED}
    assert (operations.request_rollback(), operations.rollback) == (rules or goes_back, rules)


def test_the_control_port_refuses_what_the_driver_does_not_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ASK_TIMEOUT_S", 60.0)  # how soon the loop answers is no subject here

    async def told() -> None:
        driver = a_driver(State.WAIT_BROKERS, config=SimpleNamespace(gates="pause"))
        port = ControlServer(asyncio.get_running_loop(), tmp_path, status=a_status, metrics=Metrics(), driver=driver)
        headers = {"authorization": f"Bearer {port._token}"}
        transport = httpx.ASGITransport(port._app())

        async def ask(operation: str) -> tuple[int, Any]:
            async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as http:
                answer = await http.post(f"/v1/{operation}", json={})
                return answer.status_code, answer.json()

        assert await ask("cancel") == (200, {"cancelled": False})
        assert await ask("takeover") == (202, {"accepted": "takeover"})
        assert await ask("cancel") == (200, {"cancelled": True})
        code, said = await ask("rollback")
        assert (code, "WAIT_BROKERS" in said["detail"]) == (409, True)
        driver.now.state = State.FENCED
        assert (await ask("takeover"))[0] == 409

    story(told)


def test_a_controller_without_a_migration_refuses_every_operation(tmp_path: Path) -> None:
    async def told() -> None:
        port = ControlServer(SimpleNamespace(), tmp_path, status=a_status, metrics=Metrics(), driver=None)  # type: ignore[arg-type]
        port._on_loop = lambda function: function()  # type: ignore[method-assign]
        transport = httpx.ASGITransport(port._app())
        headers = {"authorization": f"Bearer {port._token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as http:
            for operation in ("takeover", "abort", "rollback"):
                assert (await http.post(f"/v1/{operation}", json={})).status_code == 409

    story(told)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"reason", b'{"reason": 7}', b'{"reason": "gew\xfcnscht"}', b'{"x":' + b"[" * 2000],
    ids=["none", "a list", "no JSON", "a number", "Latin-1", "deep"],
)
def test_a_body_that_cannot_be_read_is_refused_in_words_and_nothing_is_asked(tmp_path: Path, body: bytes) -> None:
    async def told() -> None:
        port = ControlServer(SimpleNamespace(), tmp_path, status=a_status, metrics=Metrics(), driver=None)  # type: ignore[arg-type]
        port._on_loop = pytest.fail  # type: ignore[method-assign, assignment]
        transport = httpx.ASGITransport(port._app())
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            answer = await http.post("/v1/abort", content=body)
            assert answer.status_code == 401, "who asks is looked at first"
            answer = await http.post("/v1/abort", content=body, headers={"authorization": f"Bearer {port._token}"})
            assert answer.status_code == 422
            assert "JSON object" in answer.json()["detail"]
            answer = await http.get("/v1/abort")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")

    story(told)
