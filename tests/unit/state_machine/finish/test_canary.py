"""Canary traffic: what counts against its budget, and that no answer of a broker ends it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.inventory import Canary, Inventory, parse_inventory
from migrator.model.verdict import Condition
from migrator.node.transport.oauth import claims_of
from state_machine.facts.accepted import WaiverFact
from state_machine.finish.canary import CanaryTraffic, assignments
from state_machine.finish.canary_budget import WINDOW_S, CanaryBudget
from state_machine.nodes.calls import HostThreads
from state_machine.nodes.kafka_clients import client_settings
from state_machine.policy.conditions import canary_is_well
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.gates import Evidence
from state_machine.rolling.table import cluster_ready
from state_machine.work.acts_after_dual_write import ActsAfterDualWrite, _Work
from tests.support.token_server import TokenServer
from tests.unit.state_machine.nodes.test_road_parts import INVENTORY
from tests.unit.state_machine.policy.test_road_gates import a_canary, evidence

WELL = a_canary(sent=100, failed=0, longest_s=0.1)


def condition(**changes: Any) -> Condition:
    road = evidence({"canary": a_canary(**{"sent": 100, **changes})}).road
    assert road is not None
    (found,) = canary_is_well(road)
    return found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem": "no broker answers"}, "no broker answers"),
        ({"age_s": 31.0}, "its figures are 31 s old"),
        ({"silent": (2,)}, "partitions [2] never answered"),
        ({"failed": 2}, "2 of 100 records failed"),
        ({"waiting_s": 31.0}, "a record has waited for 31 s"),
    ],
)
def test_no_node_is_stopped_while_the_canary_is_over_its_budget(changes: dict[str, Any], said: str) -> None:
    found = condition(**changes)
    assert (found.holds, found.message, found.codes) == (False, said, ("Z2K-4217",))
    for roll in (Roll.KRAFT, Roll.STOCK, Roll.SOAK, Roll.FINAL):
        ready = cluster_ready(evidence({"canary": a_canary(**{**changes, "sent": 100})}), roll)
        assert [each.name for each in ready.failed] == [found.name]


def test_one_record_in_a_hundred_is_inside_the_budget_and_no_canary_is_no_condition() -> None:
    assert condition(failed=1).holds
    ready = cluster_ready(evidence(), Roll.KRAFT)
    assert "canary" not in " ".join(each.name for each in ready.conditions)


def test_a_canary_that_somebody_waived_keeps_nobody_waiting_and_says_so() -> None:
    waiver = WaiverFact("Z2K-4217", None, "its ACL is being made", "ops", 2e9)
    road = evidence({"canary": a_canary(problem="not authorized"), "waivers": (waiver,)}).road
    assert road is not None
    (found,) = canary_is_well(road)
    assert found.holds
    assert "waived by ops" in found.message
    assert "not authorized" in found.message


def test_what_failed_leaves_the_budget_after_ten_minutes_and_what_waits_grows_old() -> None:
    budget = CanaryBudget(partitions=2)
    budget.sent(1, 0.0)
    budget.sent(2, 0.0)
    budget.answered(1, 0, 1.0, "timed out")
    budget.answered(1, 0, 2.0)  # an answer twice counts once
    found = budget.figures(5.0, at=100.0)
    assert (found.sent, found.failed, found.acknowledged, found.waiting_s) == (2, 1, 0, 5.0)
    assert found.silent == (0, 1)
    assert found.last_error == "timed out"
    budget.answered(2, 1, 6.0)
    later = budget.figures(WINDOW_S + 2.0, at=900.0)
    assert (later.sent, later.failed, later.acknowledged, later.waiting_s, later.silent) == (1, 0, 1, 0.0, (0,))
    assert (budget.answered_ever, budget.failed_ever) == (2, 1)  # for the report; they leave no budget


class FakeClient:
    """Answers at the next poll; a partition of `deaf` never does."""

    def __init__(self, deaf: int = -1) -> None:
        self.deaf = deaf
        self.unanswered = 0
        self.answers: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        if partition != self.deaf:
            self.answers.append(lambda: on_delivery(None, None))
        else:
            self.unanswered += 1

    def poll(self, timeout: float) -> int:
        time.sleep(min(timeout, 0.005))
        taken, self.answers = self.answers, []
        for each in taken:
            each()
        return len(taken)

    def flush(self, timeout: float) -> int:
        self.poll(0)
        return self.unanswered


def test_traffic_goes_on_after_a_client_that_could_not_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_machine.finish.canary.AGAIN_S", 0.02)
    made: list[int] = []

    def make() -> FakeClient:
        made.append(1)
        if len(made) == 1:
            raise OSError("no broker answers")
        if len(made) == 2:
            raise RuntimeError("a fault")
        return FakeClient(deaf=1)

    traffic = CanaryTraffic(Canary(records_per_s=100.0), 3, make)
    traffic.start()
    try:
        until = time.monotonic() + 120.0
        while traffic.figures().acknowledged < 10 and time.monotonic() < until:
            time.sleep(0.01)
        found = traffic.figures()
    finally:
        traffic.stop()
    assert found.acknowledged >= 10
    assert found.silent == (1,)
    assert found.problem == ""


def test_what_a_client_leaves_unanswered_fails_and_keeps_nobody_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client lives for five minutes; then nobody answers for its records any more, and the next one is as good."""
    monkeypatch.setattr("state_machine.finish.canary.CLIENT_LIFE_S", 0.05)
    monkeypatch.setattr("state_machine.finish.canary.ANSWERS_S", -1.0)
    clients = itertools.chain([FakeClient(deaf=1)], iter(FakeClient, None))
    traffic = CanaryTraffic(Canary(records_per_s=100.0, stall_s=1), 3, lambda: next(clients))
    traffic.start()
    try:
        until = time.monotonic() + 120.0
        while traffic.figures().silent != () and time.monotonic() < until:
            time.sleep(0.01)
        found = traffic.figures()
    finally:
        traffic.stop()
    assert found.silent == ()
    assert found.failed > 0
    assert found.last_error == "its client ended before it was answered"
    assert found.waiting_s < 30.0, "only the present client's records are waited for"


def test_partition_n_is_led_by_the_nth_broker_and_secrets_come_from_their_references(tmp_path: Any) -> None:
    assert assignments((1, 2, 5, 7)) == [[1, 2, 5], [2, 5, 7], [5, 7, 1], [7, 1, 2]]
    assert assignments((4,)) == [[4]]
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    secret.chmod(0o600)
    login = f'security: {{protocol: SASL_SSL, sasl_mechanism: PLAIN, username: u, password: "file:{secret}"}}, quorum'
    inventory = parse_inventory(INVENTORY.replace("quorum", login, 1).encode(), "x")
    found = client_settings(inventory)
    assert (found["sasl.password"], found["security.protocol"]) == ("hunter2", "SASL_SSL")


def logging_in(words: str) -> Inventory:
    return parse_inventory(INVENTORY.replace("quorum", f"security: {{{words}}}, quorum", 1).encode(), "x")


def test_a_client_without_gssapi_is_named() -> None:
    """The wheels of confluent-kafka have none."""
    kerberos = "protocol: SASL_PLAINTEXT, sasl_mechanism: GSSAPI, principal: zk2kraft@REALM, keytab: /k"
    with pytest.raises(FindingError) as raised:
        client_settings(logging_in(kerberos))
    assert raised.value.code == "Z2K-7061"


def test_tokens_are_fetched_by_librdkafkas_own_call(tmp_path: Path) -> None:
    server = TokenServer({"canary": "hunter2"})
    server.start()
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    words = f'protocol: SASL_SSL, sasl_mechanism: OAUTHBEARER, oauth_url: "{server.token_url}", username: canary'
    inventory = logging_in(f'{words}, password: "file:{secret}", scope: of-kafka')
    try:
        first, again = (client_settings(inventory)["oauth_cb"]("") for _ in range(2))
    finally:
        server.stop()
    assert first == again
    assert claims_of(first[0])["exp"] == first[1]
    assert server.asked == [("canary", "of-kafka")], "clients come and go, and share a token"
    assert "hunter2" not in str(client_settings(inventory))


def test_replicas_of_the_canary_topic_are_in_as_many_racks_as_there_are() -> None:
    """Ids that stand beside each other are in one rack: our own topic would keep that rack from going together."""
    racks = dict(enumerate("aaabbbccc"))
    placed = assignments(tuple(racks), racks)
    assert [each[0] for each in placed] == [*racks]
    assert all({racks[broker] for broker in each} == {"a", "b", "c"} for each in placed)
    assert assignments((1, 2, 3), {1: "a", 2: "a", 3: "b"}) == [[1, 3, 2], [2, 3, 1], [3, 1, 2]]


def test_evidence_of_a_migration_without_canary_has_none() -> None:
    known: Evidence = evidence()
    assert known.road is not None
    assert known.road.canary is None


def test_traffic_and_lock_end_where_the_road_does_as_after_a_rollback_without_controllers() -> None:
    release, stop = AsyncMock(), Mock()
    nothing: Any = None
    roller: Any = SimpleNamespace(release=release, before_stop={})
    road = ActsAfterDualWrite(nothing, nothing, roller, nothing, nothing, hosts=HostThreads())
    road._work[7] = _Work(nothing, nothing, canary=cast("Any", SimpleNamespace(stop=stop)))
    for _ in range(2):
        assert asyncio.run(road.rest(cast("Any", SimpleNamespace(id=7, documents={})))) == ()
    assert (stop.call_count, release.await_count) == (1, 1)
