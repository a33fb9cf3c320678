"""What the node asks before a takeover, as the gate gets it: without any network."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.controller.removals import Removals
from migrator.driver.checks.settings import ControllerFileSettings
from migrator.driver.claim import ClaimObservation
from migrator.driver.gate import takeover_verdict
from migrator.findings.preflight import EARLIER_LOG
from migrator.model.draft import Delta
from migrator.model.verdict import Verdict
from migrator.node.brokers.send_rehearsal import SendEstimate
from migrator.node.driver import event_queue, takeover_gate
from migrator.node.zookeeper.request_limits import RequestLimits, ServerLimit
from tests.support.builders import a_broker
from tests.support.driver_acts import gate_acts
from tests.unit.driver.test_gate import VOTERS, a_quorum, a_zookeeper
from tests.unit.node.driver.test_driver_acts import a_driver, story


async def nothing(*_: Any) -> tuple[dict[int, Any], dict[int, str]]:
    return {}, {}


def a_gate(monkeypatch: pytest.MonkeyPatch, *limits: ServerLimit, asked: list[tuple[str, int]]) -> Any:
    """The gate of a healthy cluster, whose servers answer this."""
    return a_driver_at_its_gate(monkeypatch, *limits, asked=asked)[1]


def a_driver_at_its_gate(
    monkeypatch: pytest.MonkeyPatch, *limits: ServerLimit, asked: list[tuple[str, int]], **parts: Any
) -> tuple[Any, Any]:
    for name in ("survey_brokers", "ask_settings", "ask_denied"):
        monkeypatch.setattr(takeover_gate, name, nothing)
    monkeypatch.setattr(takeover_gate, "controller_settings", lambda config: ControllerFileSettings())
    config = SimpleNamespace(voter_ids=VOTERS, migration_enabled=True, takeover_max_ms=15_000, waived=frozenset())
    driver = a_driver(State.WAIT_BROKERS, config=config, session=a_zookeeper().session(), epoch=5, **parts)
    controller = driver.parts.controller
    controller.image, controller.removals, controller.heartbeat_ages_ms = a_quorum(), Removals(), dict
    controller.settings = SimpleNamespace(cluster_id="c")
    gate = gate_acts(driver, SimpleNamespace(ahead=lambda copy, limits: None))

    def answer(connect: str, wanted: int) -> tuple[ServerLimit, ...]:
        asked.append((connect, wanted))
        return limits

    gate._limits = RequestLimits(answer)
    return driver, gate


def test_each_server_is_asked_for_what_the_controllers_may_send(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        asked: list[tuple[str, int]] = []
        known = ServerLimit("zk1:2181", 300_000), ServerLimit("zk2:2181", 0, "Connection refused")
        gate = a_gate(monkeypatch, *known, asked=asked)
        gate.config.jute_maxbuffer = 400_000
        evidence = await gate._evidence()
        assert asked == [("zk:2181", 400_000)]
        assert (evidence.limits, evidence.limits_unknown) == (
            {"zk1:2181": 300_000},
            {"zk2:2181": "Connection refused"},
        )
        failed = {code for check in takeover_verdict(evidence).failed for code in check.codes}
        assert "Z2K-1115" in failed

    story(told)


def test_a_cluster_of_which_the_servers_take_enough_is_not_held_up_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        gate = a_gate(monkeypatch, ServerLimit("zk1:2181", 1_048_575), asked=[])
        evidence = await gate._evidence()
        assert "Z2K-1115" not in {code for check in takeover_verdict(evidence).failed for code in check.codes}

    story(told)


def test_the_takeover_waits_for_brokers_that_registered_and_read_another_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        gate = a_gate(monkeypatch, asked=[])
        contacts = gate.controller.contacts
        gate.controller.kept_out = dict
        assert await gate._missing_brokers() == "brokers [1, 2, 3] are registered and do not read this log yet"
        contacts.reading |= {1, 2, 3}
        assert await gate._missing_brokers() is None
        contacts.reading -= {2, 3}
        contacts.earlier_logs |= {broker: EARLIER_LOG.found(broker=broker) for broker in (2, 3)}
        assert await gate._missing_brokers() == (
            "Broker 2 still follows the metadata log of an earlier quorum. The same holds for brokers [3]."
        )
        evidence = await gate._evidence()
        assert "Z2K-1055" in {code for check in takeover_verdict(evidence).failed for code in check.codes}
        gate.controller.image = a_quorum(brokers=(a_broker(1),))
        contacts.clear([], 0)
        assert await gate._missing_brokers() == "brokers [2, 3] are not registered and unfenced yet (1/3)"

    story(told)


def test_a_broker_that_reads_no_more_closes_a_gate_that_was_about_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the gate asks takes seconds, in which a broker may turn out to follow another log."""

    async def waits(_: float) -> None:
        raise InterruptedError

    async def told() -> None:
        gate = a_gate(monkeypatch, asked=[])
        monkeypatch.setattr(gate.parts.events, "called", waits)
        contacts = gate.controller.contacts
        gate.controller.kept_out, gate.config.gates = dict, "auto"
        contacts.reading |= {1, 2, 3}

        async def observed() -> ClaimObservation:
            return ClaimObservation()

        def verdict(_: object) -> Verdict:
            contacts.reading.discard(3)
            return Verdict(())

        monkeypatch.setattr(takeover_gate, "takeover_verdict", verdict)
        gate.claim_watch = SimpleNamespace(observed=observed)
        with pytest.raises(InterruptedError):
            await gate.wait_brokers()

    story(told)


def test_what_brokers_add_to_the_time_without_controller_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        gate = a_gate(monkeypatch, asked=[])
        rehearsed: list[Any] = []

        def rehearse(*given: Any) -> SendEstimate:
            rehearsed.append(given)
            return SendEstimate(work_ms=40_000, sent_bytes=50_000_000)

        monkeypatch.setattr(takeover_gate, "rehearse_send", rehearse)
        evidence = await gate._evidence()
        assert rehearsed[0][1] is gate.controller.image
        assert 40_500 <= evidence.estimated_ms < 45_000
        assert "Z2K-2079" in {code for check in takeover_verdict(evidence).failed for code in check.codes}

    story(told)


# --- how often is looked ----------------------------------------------------------------------------------


def a_waiting_gate(monkeypatch: pytest.MonkeyPatch, *, look_ms: int = 100) -> tuple[Any, list[float], Any]:
    """Its takeover is paused, and a commit comes every half second. Second: when it looked, in seconds."""
    clock, looks = [0], list[float]()
    driver, gate = a_driver_at_its_gate(monkeypatch, asked=[], now_ms=lambda: clock[0])
    gate.controller.contacts.reading |= {1, 2, 3}
    gate.controller.kept_out, gate.config.gates = dict, "pause"

    async def observed() -> ClaimObservation:
        return ClaimObservation()

    async def evidence() -> object:
        looks.append(clock[0] / 1000)
        clock[0] += look_ms
        return SimpleNamespace()

    async def time_passes(event: asyncio.Event, timeout_s: float) -> bool:
        """As on a clock, with the commits that there are meanwhile."""
        ends = clock[0] + round(1000 * timeout_s)
        while clock[0] < ends and not event.is_set():
            clock[0] += min(500, ends - clock[0])
            driver.published(NOTHING)
            await asyncio.sleep(0)
            for at in list(calls):
                if clock[0] >= at:
                    calls.pop(at)()
        if clock[0] > 3_600_000:
            raise InterruptedError
        return event.is_set()

    calls: dict[int, Any] = {}
    monkeypatch.setattr(event_queue, "_set", time_passes)
    monkeypatch.setattr(takeover_gate, "takeover_verdict", lambda _: Verdict(()))
    gate.claim_watch = driver.claim_watch = SimpleNamespace(observed=observed, look=lambda: None)
    gate._evidence = evidence
    return (driver, gate), looks, calls


NOTHING = Delta(a_quorum(), a_quorum())


def test_an_hour_of_waiting_reads_zookeeper_and_asks_brokers_few_times_whatever_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was twice a second: every commit cut the pause short, and there are two a second."""

    async def told() -> None:
        (_, gate), looks, _ = a_waiting_gate(monkeypatch)
        with pytest.raises(InterruptedError):
            await gate.wait_brokers()
        assert 300 < len(looks) < 420
        assert looks[1] - looks[0] <= 1.6

    story(told)


def test_looks_at_a_large_tree_take_at_most_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        (_, gate), looks, _ = a_waiting_gate(monkeypatch, look_ms=3_000)
        with pytest.raises(InterruptedError):
            await gate.wait_brokers()
        assert 3_000 * len(looks) < 3_600_000 / 10

    story(told)


def test_an_operation_and_a_broker_that_comes_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        (driver, gate), looks, calls = a_waiting_gate(monkeypatch)
        came = Delta(a_quorum(), a_quorum(), brokers=frozenset({3}))
        calls[1_000_000] = driver.request_takeover
        calls[2_000_000] = lambda: driver.published(came)
        gate.operations = driver.operations = SimpleNamespace(takeover=False, request_takeover=lambda: True)
        with pytest.raises(InterruptedError):
            await gate.wait_brokers()
        for at in (1_000.0, 2_000.0):
            assert any(at <= each <= at + 0.6 for each in looks)
            assert len([each for each in looks if at < each < at + 10]) > 3  # and more often for a while

    story(told)
