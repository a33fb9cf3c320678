"""What the node asks before a takeover, as the gate gets it: without any network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from migrator.control_api.states import State
from migrator.controller.removals import Removals
from migrator.driver.checks.settings import ControllerFileSettings
from migrator.driver.claim import ClaimObservation
from migrator.driver.gate import takeover_verdict
from migrator.findings.preflight import EARLIER_LOG
from migrator.model.verdict import Verdict
from migrator.node.driver import takeover_gate
from migrator.node.zookeeper.request_limits import RequestLimits, ServerLimit
from tests.support.driver_acts import gate_acts
from tests.unit.driver.test_gate import VOTERS, a_broker, a_quorum, a_zookeeper
from tests.unit.node.test_driver_acts import a_driver, story


async def nothing(*_: Any) -> tuple[dict[int, Any], dict[int, str]]:
    return {}, {}


def a_gate(monkeypatch: pytest.MonkeyPatch, *limits: ServerLimit, asked: list[tuple[str, int]]) -> Any:
    """Of a healthy cluster, whose servers answer this."""
    for name in ("survey_brokers", "ask_settings", "ask_denied"):
        monkeypatch.setattr(takeover_gate, name, nothing)
    monkeypatch.setattr(takeover_gate, "controller_settings", lambda config: ControllerFileSettings())
    config = SimpleNamespace(voter_ids=VOTERS, migration_enabled=True, takeover_max_ms=15_000, waived=frozenset())
    driver = a_driver(State.WAIT_BROKERS, config=config, session=a_zookeeper().session(), epoch=5)
    driver.laboratory = False
    driver.quorum = SimpleNamespace(foreign_voters=tuple)
    controller = driver.controller
    controller.image, controller.removals, controller.heartbeat_ages_ms = a_quorum(), Removals(), dict
    controller.settings = SimpleNamespace(cluster_id="c")
    gate = gate_acts(driver, SimpleNamespace(ahead=lambda copy, limits: None))  # type: ignore[arg-type]

    def answer(connect: str, wanted: int) -> tuple[ServerLimit, ...]:
        asked.append((connect, wanted))
        return limits

    gate._limits = RequestLimits(answer)
    return gate


def test_each_server_is_asked_for_what_the_controllers_may_send(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        asked: list[tuple[str, int]] = []
        known = ServerLimit("zk1:2181", 300_000), ServerLimit("zk2:2181", 0, "Connection refused")
        gate = a_gate(monkeypatch, *known, asked=asked)
        gate.config.jute_maxbuffer = 400_000  # type: ignore[misc]
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

    async def told() -> None:
        gate = a_gate(monkeypatch, asked=[])
        contacts = gate.controller.contacts
        gate.controller.kept_out, gate.config.gates = dict, "auto"
        contacts.reading |= {1, 2, 3}

        async def observed() -> ClaimObservation:
            return ClaimObservation(None, None)

        def verdict(_: object) -> Verdict:
            contacts.reading.discard(3)
            return Verdict(())

        async def waits(_: float) -> None:
            raise InterruptedError

        monkeypatch.setattr(takeover_gate, "takeover_verdict", verdict)
        gate._driver.claim_watch = SimpleNamespace(observed=observed)
        gate._driver.events = SimpleNamespace(changed=waits)
        with pytest.raises(InterruptedError):
            await gate.wait_brokers()

    story(told)
