"""A ZooKeeper-mode controller that was displaced: asked until it says that it is not controller any more."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest

from migrator.findings.finding import FindingError
from migrator.model.values import Listener
from migrator.node.brokers import step_down
from migrator.node.brokers.step_down import NOT_CONTROLLER, wait_stepped_down
from migrator.node.transport import broker_client
from migrator.wire.codec import encode
from migrator.wire.messages.brokers import AllocateProducerIdsResponse
from tests.support.builders import a_broker

RULES = 77
"""BROKER_ID_NOT_REGISTERED: what a controller that rules answers to a broker that it does not know."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long connecting takes is no subject here."""
    monkeypatch.setattr(broker_client, "CONNECT_TIMEOUT_S", 60.0)


class Answering:
    """A broker that answers with these error codes, one after the other, and the last one for ever, or once."""

    def __init__(self, *codes: int, then_silent: bool = False) -> None:
        self.codes = list(codes)
        self.then_silent = then_silent
        self.asked: list[tuple[int, int]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                key, _, correlation = struct.unpack(">hhi", frame[:8])
                self.asked.append((key, int.from_bytes(frame[-13:-9], "big", signed=True)))
                if self.then_silent and not self.codes:
                    continue
                code = self.codes.pop(0) if self.then_silent or len(self.codes) > 1 else self.codes[0]
                body = encode(AllocateProducerIdsResponse(error_code=code), 0)
                writer.write(struct.pack(">ii", len(body) + 5, correlation) + b"\x00" + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def ask(answering: Answering, limit_s: float) -> None:
    async def told() -> None:
        server = await asyncio.start_server(answering.serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            broker = a_broker(1, listeners=(Listener("PLAINTEXT", "127.0.0.1", port),))
            await wait_stepped_down(broker, "PLAINTEXT", node_id=3000, limit_s=limit_s)

    asyncio.run(told())


def test_it_is_asked_until_it_is_not_controller_and_never_given_a_block() -> None:
    answering = Answering(RULES, RULES, NOT_CONTROLLER)
    ask(answering, limit_s=60.0)
    assert answering.asked == [(67, 3000)] * 3


def looks_at_the_clock(monkeypatch: pytest.MonkeyPatch, *times_s: float) -> None:
    """When each look of ours takes place: before the first question, before each one, and after the last."""
    left = list(times_s)
    monkeypatch.setattr(step_down, "time", SimpleNamespace(monotonic=lambda: left.pop(0)))


def test_one_that_goes_on_ruling_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    looks_at_the_clock(monkeypatch, 0.0, 0.0, 1.0, 60.0)
    answering = Answering(RULES)
    with pytest.raises(FindingError, match=r"Z2K-2060 Broker 1 .* 60000 ms.* 77"):
        ask(answering, limit_s=60.0)
    assert len(answering.asked) == 2


def test_what_it_answered_is_told_when_the_last_question_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    looks_at_the_clock(monkeypatch, 0.0, 0.0, 59.9, 60.0)
    with pytest.raises(FindingError, match=r"Z2K-2060 Broker 1 .* 77; then: no answer in time"):
        ask(Answering(RULES, then_silent=True), limit_s=60.0)
