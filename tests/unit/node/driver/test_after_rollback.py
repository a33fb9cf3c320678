"""After a rollback, brokers that forward nothing are named: at the second look, and until they answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.findings.finding import Occurrence
from migrator.node.driver import after_rollback
from migrator.node.transport.client_security import PLAINTEXT
from tests.support.builders import a_broker, an_image
from tests.support.driver_acts import only_parts

NAMED = "Z2K-2043"


class Alarms(dict[str, Occurrence | None]):
    def alarm(self, name: str, found: Occurrence | None) -> None:
        self[name] = found


@pytest.fixture
def forwards(monkeypatch: pytest.MonkeyPatch) -> dict[int, bool]:
    """What brokers answer; one that is missing is away."""
    answers: dict[int, bool] = {}

    async def ask(brokers: Any, *_: Any) -> tuple[dict[int, bool], dict[int, str]]:
        known = [broker.id for broker in brokers]
        return {each: answers[each] for each in known if each in answers}, {}

    monkeypatch.setattr(after_rollback, "ask_forwarding", ask)
    return answers


def test_silence_is_named_at_the_second_look_and_until_it_ends(forwards: dict[int, bool]) -> None:
    alarms: Any = Alarms()
    config: Any = SimpleNamespace(inter_broker_listener="PLAINTEXT", node_id=3000)
    controller: Any = SimpleNamespace(image=an_image(brokers=[a_broker(number) for number in range(3)]))
    parts = only_parts(progress=alarms, config=config, controller=controller, to_brokers=PLAINTEXT)
    act = after_rollback.AfterRollback(parts=parts)

    def looked(**answers: bool) -> str | None:
        forwards.clear()
        forwards.update({int(name[1:]): answer for name, answer in answers.items()})
        asyncio.run(act.look())
        found = alarms[NAMED]
        return None if found is None else found.text

    assert looked(b0=True, b1=False, b2=True) is None, "once may be a controller that is new"
    said = looked(b0=False, b1=False)
    assert said is not None
    assert said.endswith("1 brokers answered no request that they forward to the controller: [1].")
    assert looked(b0=True, b2=False) is None, "broker 1 is away: it is being restarted"
    assert looked(b0=True, b1=True, b2=True) is None
