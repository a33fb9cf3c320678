"""What one broker says beside the log: each kind of difference by name, what is none, and which side stands alone."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import pytest

from migrator.audit.brokers.answers import (
    LOGS,
    BrokerReading,
    acl_facts,
    broker_config_facts,
    quota_facts,
    scram_facts,
    token_facts,
)
from migrator.audit.brokers.compare import compare_broker
from migrator.audit.compare import (
    MOVED_ON,
    AskedBroker,
    AuditReport,
    BrokersSide,
    Difference,
    FamilyCount,
)
from migrator.audit.fingerprints import HIDDEN, SecretFingerprints
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, TOPIC_CONFIGS, TOPICS, LogFacts, id_text
from migrator.audit.run import _with_brokers
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError
from migrator.model.topic_configs import ConfigSource
from migrator.node.brokers.what_they_say import _Questions, _Refused, read_brokers
from migrator.node.tools import third_side as module
from migrator.node.tools.third_side import BrokersAsked, third_side
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import PLAINTEXT
from migrator.wire.messages.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    DescribedQuotas,
    QuotaValue,
)
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.security import (
    AclDescription,
    DescribeAclsResource,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialInfo,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.schema import Message

TOPIC_ID: Final = bytes(15) + b"\x07"
ACL: Final = "/kafka-acl/Topic/orders"
READS: Final = '["allow","read","User:ada","*"]'
ALICE: Final = "/config/users/alice"
TOKEN: Final = "/delegation_token/tokens/t1"


def a_log_of() -> list[Message]:
    """The records of it."""
    return [
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=4),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        ConfigRecord(resource_type=4, resource_name="1", name="log.cleaner.threads", value="2"),
        ConfigRecord(resource_type=4, resource_name="", name="ssl.key.password", value="secret"),
        ClientQuotaRecord(entity=(ClientQuotaEntity("user", "alice"),), key="producer_byte_rate", value=1.5),
        UserScramCredentialRecord(name="alice", mechanism=2, salt=b"s", iterations=4096),
        AccessControlEntryRecord(
            id=bytes(16),
            resource_type=2,
            resource_name="orders",
            pattern_type=3,
            principal="User:ada",
            host="*",
            operation=3,
            permission_type=3,
        ),
        *(
            DelegationTokenRecord("User:ada", "User:root", ("User:eve", "User:bob"), 1, 30, 20, token)
            for token in ("t1", "hidden")
        ),
    ]


def a_log() -> LogFacts:
    log = LogFacts()
    for record in a_log_of():
        log.apply(record)
    return log


def says(broker: int = 1) -> dict[str, dict[str, Any]]:
    """What a broker in KRaft mode says that has everything."""
    logs: dict[str, Any] = {"log": True, "topic_id": id_text(TOPIC_ID)}
    if broker == 1:
        logs["leads at"] = 4
    return {
        TOPICS: {"orders": {"id": id_text(TOPIC_ID)}},
        PARTITIONS: {"orders-0": {"replicas": [1, 2], "leader": 1, "leader_epoch": 4, "isr": [2, 1]}},
        LOGS: {"orders-0": logs} if broker < 3 else {},
        ACLS: {ACL: {READS: 1}},
        TOPIC_CONFIGS: {"orders": {"retention.ms": "1000"}},
        BROKER_CONFIGS: {
            **({"1": {"log.cleaner.threads": "2"}} if broker == 1 else {}),
            "": {"ssl.key.password": HIDDEN},
        },
        QUOTAS: {ALICE: {"producer_byte_rate": 1.5}},
        SCRAM: {ALICE: {"SCRAM-SHA-512 iterations": 4096}},
        TOKENS: {TOKEN: dict(a_log().security.facts(TOKENS)[TOKEN])},
    }


Spoil = Callable[[dict[str, dict[str, Any]]], None]


def put(family: str, key: str, name: str, value: Any) -> Spoil:
    return lambda facts: facts[family][key].update({name: value})


def drop(family: str, key: str) -> Spoil:
    return lambda facts: facts[family].pop(key) and None


def add(family: str, key: str, facts_: dict[str, Any]) -> Spoil:
    return lambda facts: facts[family].update({key: facts_})


def compared(reading: BrokerReading, log: LogFacts | None = None) -> list[tuple[str, str, str, str]]:
    found = compare_broker(reading, log or a_log(), SecretFingerprints())
    return [(each.family, each.key, each.field_, each.kind) for each in found.differences]


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_broker_that_has_everything_differs_in_nothing(broker: int) -> None:
    """The third one has no replica. A broker hides secrets and tokens, and is not asked settings of others; an ISR is a
    set.
    """
    assert compared(BrokerReading(broker, kraft=True, facts=says(broker))) == []


def test_of_a_broker_in_zookeeper_mode_only_what_it_is_a_side_of_is_compared() -> None:
    facts = {family: told for family, told in says().items() if family in (TOPICS, PARTITIONS, LOGS, ACLS)}
    found = compare_broker(BrokerReading(1, kraft=False, facts=facts), a_log(), SecretFingerprints())
    assert found.differences == []
    assert {name for name, counts in found.counts.items() if counts.compared} == {TOPICS, PARTITIONS, LOGS, ACLS}


FAULTS: Final[list[tuple[Spoil, list[tuple[str, str, str, str]]]]] = [
    (put(TOPICS, "orders", "id", "other"), [(TOPICS, "orders", "id", "changed")]),
    (drop(TOPICS, "orders"), [(TOPICS, "orders", "", "missing on broker")]),
    (add(TOPICS, "gone", {"id": "x"}), [(TOPICS, "gone", "", "missing in log")]),
    (put(PARTITIONS, "orders-0", "leader_epoch", 3), [(PARTITIONS, "orders-0", "leader_epoch", "changed")]),
    (put(PARTITIONS, "orders-0", "isr", [1]), [(PARTITIONS, "orders-0", "isr", "changed")]),
    (drop(PARTITIONS, "orders-0"), [(PARTITIONS, "orders-0", "", "missing on broker")]),
    (put(LOGS, "orders-0", "topic_id", "another one"), [(LOGS, "orders-0", "topic_id", "changed")]),
    (put(LOGS, "orders-0", "leads at", "earlier"), [(LOGS, "orders-0", "leads at", "changed")]),
    (drop(LOGS, "orders-0"), [(LOGS, "orders-0", "", "missing on broker")]),
    (add(LOGS, "stray-3", {"log": True}), [(LOGS, "stray-3", "", "missing in log")]),
    (drop(ACLS, ACL), [(ACLS, ACL, "", "missing on broker")]),
    (put(ACLS, ACL, '["deny","all","User:eve","*"]', 1),
     [(ACLS, ACL, '["deny","all","User:eve","*"]', "missing in log")]),
    (put(TOPIC_CONFIGS, "orders", "retention.ms", "5"), [(TOPIC_CONFIGS, "orders", "retention.ms", "changed")]),
    (drop(BROKER_CONFIGS, "1"), [(BROKER_CONFIGS, "1", "", "missing on broker")]),
    (drop(BROKER_CONFIGS, ""), [(BROKER_CONFIGS, "", "", "missing on broker")]),
    (put(QUOTAS, ALICE, "producer_byte_rate", 2.0), [(QUOTAS, ALICE, "producer_byte_rate", "changed")]),
    (put(SCRAM, ALICE, "SCRAM-SHA-512 iterations", 8192),
     [(SCRAM, ALICE, "SCRAM-SHA-512 iterations", "changed")]),
    (put(TOKENS, TOKEN, "expires", 21), [(TOKENS, TOKEN, "expires", "changed")]),
    (put(TOKENS, TOKEN, "token owner", "User:eve"), [(TOKENS, TOKEN, "token owner", "changed")]),
    (add(TOKENS, "/delegation_token/tokens/t9", {"expires": 1}),
     [(TOKENS, "/delegation_token/tokens/t9", "", "missing in log")]),
    (drop(TOKENS, TOKEN), []),
]  # fmt: skip
"""What is wrong with broker 1, and what is told of it: family, key, field, kind."""


@pytest.mark.parametrize(("spoil", "told"), FAULTS)
def test_each_difference_is_told_by_name_and_nothing_else_is(
    spoil: Spoil, told: list[tuple[str, str, str, str]]
) -> None:
    facts = says()
    spoil(facts)
    assert compared(BrokerReading(1, kraft=True, facts=facts)) == told


def test_a_reassignment_that_is_not_over_is_no_difference_on_disks() -> None:
    """The replica that comes may have no log yet, and the one that goes still has its own."""
    log = a_log()
    log.apply(TopicRecord(name="moves", topic_id=bytes(15) + b"\x09"))
    moving = PartitionRecord(
        partition_id=0,
        topic_id=bytes(15) + b"\x09",
        replicas=(2, 3),
        isr=(2,),
        leader=2,
        leader_epoch=0,
        adding_replicas=(3,),
        removing_replicas=(1,),
    )
    log.apply(moving)
    for broker in (1, 3):
        facts = says(broker)
        facts[TOPICS]["moves"] = {"id": id_text(bytes(15) + b"\x09")}
        facts[PARTITIONS]["moves-0"] = {"replicas": [2, 3], "leader": 2, "leader_epoch": 0, "isr": [2]}
        if broker == 1:
            facts[LOGS]["moves-0"] = {"log": True}
        assert compared(BrokerReading(broker, kraft=True, facts=facts), log) == []


def test_answers_have_the_keys_and_fields_of_the_two_other_sides() -> None:
    log = a_log()
    acl = DescribeAclsResource(2, "orders", 3, (AclDescription("User:ada", "*", 3, 3),))
    assert acl_facts([acl]) == log.security.facts(ACLS)
    quota = DescribedQuotas((ClientQuotaEntity("user", "alice"),), (QuotaValue("producer_byte_rate", 1.5),))
    assert quota_facts([quota]) == log.security.facts(QUOTAS)
    alice = DescribeUserScramCredentialsResult("alice", credential_infos=(ScramCredentialInfo(2, 4096),))
    assert scram_facts([alice, DescribeUserScramCredentialsResult("bob", 91)]) == {
        ALICE: {"SCRAM-SHA-512 iterations": 4096}
    }
    renewers = tuple(DescribedDelegationTokenRenewer("User", each) for each in ("bob", "eve"))
    token = DescribedDelegationToken("User", "ada", "User", "root", 1, 20, 30, "t1", b"secret", renewers)
    assert token_facts([token]) == {TOKEN: log.security.facts(TOKENS)[TOKEN]}
    threads = DescribeConfigsResourceResult(
        name="log.cleaner.threads",
        value="3",
        synonyms=(
            DescribeConfigsSynonym("log.cleaner.threads", "3", ConfigSource.DYNAMIC_BROKER),
            DescribeConfigsSynonym("log.cleaner.threads", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
            DescribeConfigsSynonym("log.cleaner.threads", "1", ConfigSource.STATIC_BROKER),
        ),
    )
    told = broker_config_facts(1, DescribeConfigsResult(configs=(threads,)))
    assert told == {"1": {"log.cleaner.threads": "3"}, "": {"log.cleaner.threads": "2"}}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (DescribeDelegationTokenResponse(61), {}),
        (DescribeDelegationTokenResponse(64), {}),
        (DescribeDelegationTokenResponse(), {TOKENS: {}}),
        (DescribeDelegationTokenResponse(31), None),
    ],
    ids=["no secret key", "no login", "none to see", "another error"],
)
def test_a_broker_that_shows_no_tokens_is_no_side_of_them(
    answer: DescribeDelegationTokenResponse, told: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`KafkaApis.handleDescribeTokensRequest`: who may see no token gets an empty list, and no error."""

    async def asked(*given: Any) -> DescribeDelegationTokenResponse:
        return answer

    monkeypatch.setattr(_Questions, "_ask", asked)
    questions = _Questions(1, BrokerConnection("k1", 9092, "test"), a_log())
    if told is None:
        with pytest.raises(_Refused, match="DescribeDelegationToken answered error 31"):
            asyncio.run(questions._tokens())
        return
    assert asyncio.run(questions._tokens()) == told
    facts = (
        {**says(), TOKENS: {}} if TOKENS in told else {name: each for name, each in says().items() if name != TOKENS}
    )
    assert compared(BrokerReading(1, kraft=True, facts=facts)) == []


# --- the looks, and who stands alone ----------------------------------------------------------------------


class Played:
    """Brokers whose answers are played, look by look; the last one goes on."""

    def __init__(self, *looks: dict[int, dict[str, dict[str, Any]]], silent: dict[int, str] | None = None) -> None:
        self.looks = list(looks)
        self.silent = silent or {}
        self.asked: list[set[int] | None] = []

    async def __call__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        log: LogFacts,
        security: Any,
        take: Callable[[BrokerReading], None],
        *,
        only: Iterable[int] | None,
        without: Collection[int],
        limit_s: float,
    ) -> Any:
        self.asked.append(None if only is None else set(only))
        facts = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        for each, told in facts.items():
            if each not in without and (only is None or each in only):
                take(BrokerReading(each, kraft=True, facts=told))
        return dict(self.silent)


def with_epoch(value: int) -> dict[int, dict[str, dict[str, Any]]]:
    facts = {1: says(1), 2: says(2)}
    put(PARTITIONS, "orders-0", "leader_epoch", value)(facts[2])
    return facts


def looked(monkeypatch: pytest.MonkeyPatch, played: Played, two_sides: Sequence[Difference] = ()) -> BrokersSide:
    monkeypatch.setattr(module, "read_brokers", played)
    return third_side(BrokersAsked("k1:9092"), a_log, two_sides, looks_after_s=(0.0, 0.0, 0.0))


def test_a_broker_that_says_the_same_in_every_look_differs_and_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(with_epoch(3))
    side = looked(monkeypatch, played)
    assert [(each.broker, each.field_, each.alone) for each in side.differences] == [(2, "leader_epoch", "broker")]
    assert played.asked == [None, {2}, {2}, {2}], "only who differs is asked again"
    assert not side.same
    assert side.complete


@pytest.mark.parametrize("looks", [(3, 4), (1, 2, 3, 4), (1, 2, 3, 2), (3, 2, 3, 3)])
def test_a_broker_that_catches_up_or_moves_is_none_that_differs(
    monkeypatch: pytest.MonkeyPatch, looks: tuple[int, ...]
) -> None:
    side = looked(monkeypatch, Played(*map(with_epoch, looks)))
    assert side.differences == []
    assert side.same
    assert not any(each.different for each in side.families)


@pytest.mark.parametrize(
    ("zookeeper", "log", "rule", "alone"),
    [(3, 4, "", "log"), (9, 4, "", "each"), (3, 4, MOVED_ON, None)],
    ids=["as ZooKeeper", "all three differ", "ZooKeeper went on since the rehearsal, and the broker with it"],
)
def test_who_stands_alone(
    monkeypatch: pytest.MonkeyPatch, zookeeper: int, log: int, rule: str, alone: str | None
) -> None:
    two = Difference(PARTITIONS, "orders-0", "leader_epoch", "changed", zookeeper, log, rule)
    side = looked(monkeypatch, Played(with_epoch(3)), [two])
    assert [each.alone for each in side.differences] == ([] if alone is None else [alone])
    assert side.same is (alone is None)


def test_zookeeper_stands_alone_where_every_broker_says_what_the_log_says(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Difference(PARTITIONS, "orders-0", "leader_epoch", "changed", 9, 4)
    of_no_broker = Difference("producer ids", "next", "next_producer_id", "changed", 1, 2)
    side = looked(monkeypatch, Played({1: says(1), 2: says(2)}), [two, of_no_broker])
    assert side.zookeeper_alone == ["partitions orders-0 leader_epoch"]
    assert side.same


def test_a_silent_broker_and_a_family_that_is_refused_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    side = looked(monkeypatch, Played({1: says(1)}, silent={2: "no answer within 30 s"}))
    assert (side.same, side.complete) == (False, False)
    assert [(each.broker, each.mode, each.problem) for each in side.asked] == [
        (1, "KRaft", ""),
        (2, "", "no answer within 30 s"),
    ]
    refused = BrokerReading(1, kraft=True, facts=copy.deepcopy(says()), problems={ACLS: "error 31"})
    del refused.facts[ACLS]
    found = compare_broker(refused, a_log(), SecretFingerprints())
    assert [(each.family, each.kind, each.reason) for each in found.differences] == [(ACLS, "not read", "error 31")]


def test_a_broker_that_differs_in_one_look_and_is_silent_in_the_next_has_not_contradicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(with_epoch(3))

    async def then_gone(*given: Any, **named: Any) -> Any:
        if played.asked:
            return {2: "connection refused"}
        return await played(*given, **named)

    monkeypatch.setattr(module, "read_brokers", then_gone)
    side = third_side(BrokersAsked("k1:9092"), a_log, looks_after_s=(0.0,))
    assert [(each.broker, each.mode, each.outcome) for each in side.asked] == [
        (1, "KRaft", "passed"),
        (2, "", "incomplete"),
    ]
    assert side.differences == []
    assert not any(each.different for each in side.families)


def test_a_difference_that_nobody_had_time_to_look_at_again_is_no_contradiction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "read_brokers", Played(with_epoch(3)))
    side = third_side(BrokersAsked("k1:9092"), a_log, looks_after_s=(0.0,), limit_s=-1.0)
    assert [(each.broker, each.outcome) for each in side.asked] == [(1, "passed"), (2, "incomplete")]
    assert "no time was left" in side.asked[1].problem
    assert side.differences == []


def test_a_line_names_the_first_brokers_that_are_not_well() -> None:
    asked = [AskedBroker(each, "", "refused") for each in range(5)]
    asked += [AskedBroker(7, "KRaft", compared=9, different=2), AskedBroker(8, "KRaft", compared=9, refused="ACLs: 31")]
    side = BrokersSide(asked=asked, not_asked=[9])
    assert side.words == (
        "18 keys of 2 brokers compared, 2 different; broker 0: refused; broker 1: refused; broker 2: refused; "
        "and 4 more; not asked: 9"
    )
    assert (side.outcome, side.complete) == ("diverged", False)


def test_brokers_that_told_nothing_have_not_passed() -> None:
    assert BrokersSide().outcome == "incomplete"
    assert BrokersSide(asked=[AskedBroker(1, "KRaft")]).outcome == "incomplete"
    assert not BrokersSide(asked=[AskedBroker(1, "KRaft")]).complete


def test_brokers_that_all_fall_silent_between_two_looks_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(with_epoch(3))

    async def then_nobody(*given: Any, **named: Any) -> Any:
        if played.asked:
            raise OSError("no broker answers: k1:9092: connection refused")
        return await played(*given, **named)

    monkeypatch.setattr(module, "read_brokers", then_nobody)
    with pytest.raises(FindingError, match=r"Z2K-5001 .*connection refused"):
        third_side(BrokersAsked("k1:9092"), a_log, looks_after_s=(0.0,))


def test_what_two_sides_said_stays_where_no_broker_can_be_read() -> None:
    two = AuditReport(True, [FamilyCount(TOPICS, 1, 1)], [], [], {"total": 1.0}, {}, {}, "quick")

    def nobody(*given: Any) -> BrokersSide:
        raise AUDIT_CANNOT_READ.error(what="the brokers", reason="connection refused")

    def faulty(*given: Any) -> BrokersSide:
        raise KeyError("orders")

    for third, said in ((nobody, "connection refused"), (faulty, "KeyError")):
        report = _with_brokers(two, third, "", None)
        assert (report.families, report.same, report.exit_code) == (two.families, False, 2)
        assert report.brokers is not None
        assert said in report.brokers.problem


@pytest.mark.parametrize("addresses", ["k1", "k1:port", "", "k1:9092,", "k1:99999"])
def test_what_is_no_address_is_said(addresses: str) -> None:
    with pytest.raises(FindingError, match="Z2K-5001"):
        third_side(BrokersAsked(addresses), a_log)


def test_a_broker_that_is_left_out_is_named_and_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(with_epoch(3))
    monkeypatch.setattr(module, "read_brokers", played)
    side = third_side(BrokersAsked("k1:9092", without=frozenset({2})), a_log, looks_after_s=(0.0,))
    assert (side.same, side.not_asked, [each.broker for each in side.asked]) == (True, [2], [1])


def test_addresses_are_those_that_brokers_registered() -> None:
    """Of one listener, and of no broker that is left out; one that left the cluster is asked no more."""
    log = a_log()
    for broker in (1, 2, 3):
        inside = BrokerEndpoint("INSIDE", f"b{broker}", 9093, 1)
        log.apply(
            RegisterBrokerRecord(broker_id=broker, end_points=(inside, BrokerEndpoint("OUT", "gate", 9000 + broker)))
        )
    log.apply(UnregisterBrokerRecord(broker_id=3))
    asked = BrokersAsked("registered", listener="INSIDE", without=frozenset({2}))
    assert asked.addresses(log) == [("b1", 9093)]
    assert BrokersAsked("registered").addresses(log) == [("gate", 9001), ("gate", 9002)], "the plain one"
    with pytest.raises(FindingError, match=r"Z2K-5001 .*listener OTHER"):
        BrokersAsked("registered", listener="OTHER").addresses(log)


def test_a_program_that_is_no_broker_at_a_registered_address_is_named_and_ends_nothing() -> None:
    async def story() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"\x00\x00\x00\x09no broker")
            await writer.drain()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(OSError, match=f"127.0.0.1:{port}: "):
                await read_brokers([("127.0.0.1", port)], a_log(), PLAINTEXT, lambda _: None)

    asyncio.run(story())


def test_no_broker_that_answers_is_not_read() -> None:
    with pytest.raises(FindingError, match="Z2K-5001"):
        third_side(BrokersAsked("127.0.0.1:1"), a_log)
