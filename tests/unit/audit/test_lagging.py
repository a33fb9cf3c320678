"""A broker that only lags, told from one that differs: by what the quorum's leader says that it has read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from api.commands.audits import print_brokers
from migrator.audit.brokers.answers import LOGS
from migrator.audit.brokers.lagging import LAG_MS, LAG_OFFSETS, ReadUpTo, lag_of
from migrator.audit.compare import AskedBroker, BrokerDifference, BrokersSide
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, TOPIC_CONFIGS, TOPICS, id_text
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM
from migrator.node.config.properties import VoterAddress
from migrator.node.tools import third_side as module
from migrator.node.tools.quorum_lag import positions, read_up_to
from migrator.node.tools.third_side import BrokersAsked, LagAsked, third_side
from migrator.wire.messages.metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.raft import DescribeQuorumPartitionResult, QuorumReplicaState
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.schema import Message
from tests.unit.audit.test_brokers_side import ALICE, TOPIC_ID, Played, a_log_of, add, drop, put, says

READ: Final = 99
"""The last offset that the broker has."""
NEW: Final = bytes(15) + b"\x09"
Spoil = Callable[[dict[str, dict[str, Any]]], None]


def states_behind(*later: Message) -> Callable[[int], LogStates]:
    """The log of test_brokers_side, all of it up to offset 50, and records from 100 on."""

    def read(low: int) -> LogStates:
        states = LogStates(low)
        for record in a_log_of():
            states.take(50, record)
        for offset, record in enumerate(later, READ + 1):
            states.take(offset, record)
        return states

    return read


def audited(
    monkeypatch: pytest.MonkeyPatch,
    facts: dict[str, dict[str, Any]],
    *later: Message,
    offsets: int = 7,
    ms: int = 4_000,
    asked: Callable[[], dict[int, ReadUpTo]] | None = None,
) -> BrokersSide:
    """Broker 1 says `facts` in every look, and has read up to `READ`; all that the log said since are `later`."""
    monkeypatch.setattr(module, "read_brokers", Played({1: facts}))
    behind = states_behind(*later)
    lag = LagAsked(asked or (lambda: {1: ReadUpTo(READ + 1, lag_of(offsets, ms))}), behind)
    return third_side(BrokersAsked("k1:9092"), lambda: behind(READ).facts, lag=lag, looks_after_s=(0.0, 0.0))


LATER: Final[list[tuple[Message, tuple[str, str]]]] = [
    (ConfigRecord(2, "orders", "retention.ms", "2000"), (TOPIC_CONFIGS, "orders")),
    (ConfigRecord(2, "orders", "segment.ms", "7"), (TOPIC_CONFIGS, "orders")),
    (ConfigRecord(4, "1", "log.cleaner.threads", None), (BROKER_CONFIGS, "1")),
    (ConfigRecord(4, "", "background.threads", "9"), (BROKER_CONFIGS, "")),
    (ClientQuotaRecord((ClientQuotaEntity("user", "alice"),), "producer_byte_rate", 9.0), (QUOTAS, ALICE)),
    (UserScramCredentialRecord("alice", 2, b"s", iterations=8192), (SCRAM, ALICE)),
    (RemoveAccessControlEntryRecord(id=bytes(16)), (ACLS, "/kafka-acl/Topic/orders")),
    (PartitionChangeRecord(0, TOPIC_ID, leader=2), (PARTITIONS, "orders-0")),
    (TopicRecord(name="new", topic_id=NEW), (TOPICS, "new")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("later", "place"), LATER, ids=[f"{place[0]}-{number}" for number, (_, place) in enumerate(LATER)]
)
def test_what_the_log_said_before_what_the_broker_has_not_read_is_lag(
    later: Message, place: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the bound it is expected. Beyond it, it is told, and as lag."""
    facts = says()
    if place[0] == PARTITIONS:  # it is not asked about what the log lets others lead
        del facts[LOGS]["orders-0"]["leads at"]
    side = audited(monkeypatch, facts, later)
    (asked,) = side.asked
    assert side.differences == []
    assert (side.outcome, asked.different, asked.lag) == ("passed", 0, lag_of(7, 4_000))
    assert asked.lagging >= 1
    assert sum(each.expected for each in side.families) == asked.lagging
    assert asked.lag_words.startswith("lags, by no more than a healthy broker may: ")
    assert asked.lag_words.endswith(", behind by 7 offsets, 4 s")

    side = audited(monkeypatch, facts, later, offsets=1_204, ms=35_000)
    assert place in {(each.family, each.key) for each in side.differences}
    assert all(each.lags and each.alone == "broker" for each in side.differences)
    assert (side.outcome, side.asked[0].different) == ("diverged", side.asked[0].lagging)
    assert "lags: " in side.words
    assert side.words.endswith("behind by 1,204 offsets, 35 s")


@pytest.mark.parametrize(
    ("offsets", "ms", "passes"),
    [(LAG_OFFSETS, LAG_MS, True), (LAG_OFFSETS + 1, 0, False), (0, LAG_MS + 1, False), (1, -1, False)],
    ids=["at both bounds", "too many records", "too long", "nobody knows for how long"],
)
def test_lag_beyond_either_bound_is_told(offsets: int, ms: int, passes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    side = audited(monkeypatch, says(), ConfigRecord(2, "orders", "retention.ms", "2"), offsets=offsets, ms=ms)
    assert side.same is passes


def with_made_up(facts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    put(TOPIC_CONFIGS, "orders", "retention.ms", "666")(facts)
    return facts


@pytest.mark.parametrize(
    ("spoil", "later"),
    [
        (put(TOPIC_CONFIGS, "orders", "retention.ms", "666"), ConfigRecord(2, "orders", "retention.ms", "2000")),
        (drop(TOPIC_CONFIGS, "orders"), ConfigRecord(2, "orders", "retention.ms", "2000")),
        (put(TOPIC_CONFIGS, "orders", "planted", "1"), ConfigRecord(2, "orders", "retention.ms", "2000")),
        (put(PARTITIONS, "orders-0", "leader_epoch", 3), PartitionChangeRecord(0, TOPIC_ID, leader=2)),
        (put(TOPIC_CONFIGS, "orders", "retention.ms", "666"), ConfigRecord(4, "1", "log.cleaner.threads", "3")),
        (put(TOPICS, "orders", "id", id_text(TOPIC_ID)), ConfigRecord(4, "", "ssl.key.password", None)),
        (put(LOGS, "orders-0", "topic_id", "another one"), ConfigRecord(2, "orders", "retention.ms", "2000")),
        (put(LOGS, "orders-0", "leads at", "later"), PartitionChangeRecord(0, TOPIC_ID, leader=1)),
        (add(LOGS, "stray-3", {"log": True}), ConfigRecord(2, "orders", "retention.ms", "2000")),
        (add(QUOTAS, "/config/users/eve", {"producer_byte_rate": 1.0}),
         ClientQuotaRecord((ClientQuotaEntity("user", "eve"),), "producer_byte_rate", 2.0)),
    ],
)  # fmt: skip
def test_a_value_that_the_log_never_had_is_a_difference_however_far_the_broker_is_behind(
    spoil: Spoil, later: Message, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that was removed, too: the broker hides which one it has."""
    facts = says()
    spoil(facts)
    side = audited(monkeypatch, facts, later)
    assert side.outcome == "diverged"
    assert side.differences
    assert not any(each.lags for each in side.differences)


def test_a_broker_that_has_every_record_and_differs_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    side = audited(monkeypatch, with_made_up(says()), offsets=0, ms=0)
    assert side.words.endswith("broker 1: 1 key differs; it has every record of the log")
    side = audited(monkeypatch, with_made_up(says()))
    assert side.words.endswith("broker 1: 1 key differs; no lag explains it: behind by 7 offsets, 4 s")


def test_what_it_had_before_it_read_so_far_is_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that it does not apply is one that it has: it got stuck."""
    monkeypatch.setattr(module, "read_brokers", Played({1: says()}))
    behind = states_behind(ConfigRecord(2, "orders", "retention.ms", "2000"))
    lag = LagAsked(lambda: {1: ReadUpTo(READ + 2, lag_of(0, 0))}, behind)
    side = third_side(BrokersAsked("k1:9092"), lambda: behind(READ).facts, lag=lag, looks_after_s=(0.0,))
    assert [(each.family, each.lags) for each in side.differences] == [(TOPIC_CONFIGS, False)]


def test_logs_of_a_broker_that_has_not_heard_yet_are_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new replica, one that is gone, and an epoch at which it should lead."""
    facts = says()
    put(LOGS, "orders-0", "leads at", "earlier")(facts)
    side = audited(monkeypatch, facts, PartitionChangeRecord(0, TOPIC_ID, leader=1))
    assert (side.outcome, side.differences) == ("passed", [])
    new = [TopicRecord("new", NEW), PartitionRecord(0, NEW, replicas=(1,), isr=(1,), leader=1)]
    side = audited(monkeypatch, says(), *new)
    assert (side.outcome, side.differences) == ("passed", [])
    gone = says()
    del gone[LOGS]["orders-0"]["leads at"]
    side = audited(monkeypatch, gone, RemoveTopicRecord(TOPIC_ID))
    assert (side.outcome, side.differences) == ("passed", [])


def test_without_the_leaders_word_whoever_stays_behind_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    later = ConfigRecord(2, "orders", "retention.ms", "2000")

    def silent() -> dict[int, ReadUpTo]:
        raise OSError("c1:9093: connection refused")

    side = audited(monkeypatch, says(), later, asked=silent)
    assert side.outcome == "diverged"
    assert side.lag_problem == "the quorum does not say who lags: c1:9093: connection refused"
    side = audited(monkeypatch, says(), later, asked=dict)
    assert (side.outcome, side.asked[0].lag, side.lag_problem) == ("diverged", None, "")


def test_the_terminal_says_who_lags_and_whose_disks_were_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lags = BrokerDifference(1, TOPIC_CONFIGS, "orders", "", "missing on broker", None, {"a": "1"}, "broker", lags=True)
    side = BrokersSide(
        asked=[
            AskedBroker(1, "KRaft", compared=9, different=1, lagging=1, lag=lag_of(1_204, 35_000)),
            AskedBroker(2, "KRaft", compared=9, lagging=2, lag=lag_of(7, 4_000), listed_at_ms=1_000),
            AskedBroker(3, "", compared=9, listed_at_ms=1_000),
            AskedBroker(4, "KRaft", compared=9, different=1, lag=lag_of(0, 0)),
        ],
        differences=[lags],
        lag_problem="the quorum does not say who lags: refused",
    )
    print_brokers(side)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == (
        "brokers: 1 (KRaft mode), 2 (KRaft mode, its disks as of 1970-01-01T00:00:01Z), "
        "3 (its disks as of 1970-01-01T00:00:01Z), 4 (KRaft mode); keys of all of them:"
    )
    assert lines[3:] == [
        "broker 1: lags: 1 key, behind by 1,204 offsets, 35 s",
        "broker 2: lags, by no more than a healthy broker may: 2 keys, behind by 7 offsets, 4 s",
        "broker 4: it has every record of the log",
        "the quorum does not say who lags: refused",
        "lags, missing on broker: broker 1: topic configs orders: broker=None log={'a': '1'}; the broker stands alone",
    ]


def test_a_leader_says_how_far_observers_are_by_its_own_clock() -> None:
    def state(node: int, end: int, caught_up: int) -> QuorumReplicaState:
        return QuorumReplicaState(node, log_end_offset=end, last_caught_up_timestamp=caught_up)

    found = positions(
        DescribeQuorumPartitionResult(
            leader_id=3000,
            current_voters=(state(3000, 500, 90_000), state(3001, 499, 89_900)),
            observers=(
                state(1, 500, 89_990),
                state(2, 300, 55_000),
                state(4, -1, -1),
                state(5, 9, -1),
                state(-1, 5, 5),
            ),
        )
    )
    assert {broker: (each.end, each.lag.offsets, each.lag.ms) for broker, each in found.items()} == {
        1: (500, 0, 10),
        2: (300, 200, 35_000),
        3001: (499, 1, 100),
        3000: (500, 0, 0),
        5: (9, 491, -1),
    }
    assert positions(DescribeQuorumPartitionResult(leader_id=7)) == {}


def test_a_quorum_without_a_leader_is_an_error() -> None:
    with pytest.raises(OSError, match=r"127\.0\.0\.1:1"):
        read_up_to([VoterAddress(-1, "127.0.0.1", 1)], None)
