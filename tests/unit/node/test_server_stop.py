"""A listener that is closed is closed, whoever waits for an answer on it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.controller.decision import Decision, Error
from migrator.model.image import EMPTY
from migrator.node.active_controller import ActiveController, _everything_follows
from migrator.node.applied_log import AppliedLog
from migrator.node.log_replay import read_ahead
from migrator.node.pending_appends import PendingAppend, PendingAppends
from migrator.wire.messages.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse


def a_controller_that_commits_nothing() -> Any:
    """Leads, and has one append that is never committed; every answer waits for it."""
    controller = ActiveController.__new__(ActiveController)
    controller.epoch = 1
    controller._is_apart = False
    controller.newest = EMPTY
    controller._resumed = asyncio.Event()
    controller._resumed.set()
    controller._pending = PendingAppends()
    controller._pending.add(PendingAppend(10, None))
    controller._carry_out = lambda decision: _waiting(controller, decision)  # type: ignore[method-assign]
    controller._situation = lambda *_: None  # type: ignore[method-assign,assignment,return-value]
    controller._may_write = lambda: True  # type: ignore[method-assign]
    controller.blocked = lambda: None
    controller.unmirrored = _everything_follows
    return controller


def _waiting(controller: Any, decision: Any) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    controller._pending.wait(future, decision.reply)
    return future


def test_a_request_that_waits_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling a task cancels the future that it waits for as well: that is no loss of leadership."""
    monkeypatch.setattr("migrator.node.active_controller.decide", _decided)

    async def told() -> None:
        controller = a_controller_that_commits_nothing()
        connection = asyncio.create_task(controller.submit(BrokerHeartbeatRequest(), 1))
        await asyncio.sleep(0)
        connection.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connection

    asyncio.run(asyncio.wait_for(told(), 5))


def test_a_request_that_waits_is_answered_when_the_leadership_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.node.active_controller.decide", _decided)

    async def told() -> None:
        controller = a_controller_that_commits_nothing()
        controller.image = controller.newest = EMPTY
        controller._elected, controller._log = None, AppliedLog(SimpleNamespace(), read_ahead([]))  # type: ignore[arg-type]
        controller._on_lost, controller._catch_up = lambda epoch: None, lambda: None
        waiting = asyncio.create_task(controller.submit(BrokerHeartbeatRequest(), 1))
        await asyncio.sleep(0)
        controller.stop_leading(1)
        answer = await waiting
        assert answer.error_code == Error.NOT_CONTROLLER

    asyncio.run(asyncio.wait_for(told(), 5))


def _decided(*_: Any, **__: Any) -> Any:
    return Decision(BrokerHeartbeatResponse())
