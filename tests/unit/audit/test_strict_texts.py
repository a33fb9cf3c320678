"""What Kafka's own reader refuses is not read, whatever it equals: each of these once passed an audit.

Proof: Kafka 3.9.2's own classes, asked for some hundreds of texts of each kind (tests/e2e/test_kafkas_own_readers.py).
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from migrator.audit.java_texts import java_double, java_int, java_long
from migrator.audit.normalise import LogFacts, zk_config, zk_producer_ids, zk_state, zk_topic
from migrator.audit.passwords import PasswordReader, Secrets
from migrator.audit.security_facts import ACLS, QUOTAS, TOKENS, zk_facts
from migrator.audit.zk_source import config_rows, security_rows, topic_reads
from migrator.findings.finding import FindingError
from migrator.model.values import UNASSIGNED_DIRECTORY
from migrator.wire.messages.metadata import PartitionRecord, TopicRecord
from migrator.zk.bulk_read import Znode
from tests.support.builders import an_id

BLOCK = {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"}
ACL = {"principal": "User:a", "host": "*", "operation": "Read", "permissionType": "Allow"}
TOKEN = {
    "version": 3, "owner": "User%3Aa", "tokenRequester": "User%3Ab", "renewers": [], "issueTimestamp": 1,
    "maxTimestamp": 3, "expiryTimestamp": 2, "tokenId": "abc",
}  # fmt: skip
SCRAM = "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations="
STATE = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def quota(name: str, value: str) -> bytes:
    return text({"version": 1, "config": {name: value}})


@pytest.mark.parametrize(
    "change",
    [
        {"block_end": 999},
        {"block_start": 0},
        {"block_end": " 48_999 "},
        {"block_end": "1e3"},
        {"block_end": str(2**63)},
        {"broker": "1"},
        {"block_start": None},
        {"broker": 2**31},
        {"block_end": "2147483647"},
        {"block_start": "-9223372036854775808"},
        {"block_end": "\U0001d7d9"},
    ],
)
def test_a_block_of_producer_ids_that_no_broker_can_read(change: dict[str, Any]) -> None:
    assert zk_producer_ids("/latest_producer_id_block", text(BLOCK))["next_producer_id"] == 1_000
    with pytest.raises(FindingError, match="Z2K-1001"):
        zk_producer_ids("/latest_producer_id_block", text({**BLOCK, **change}))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/kafka-acl/Topic/t", text({"version": 2, "acls": [ACL]})),
        ("/kafka-acl/Topic/t", text({"acls": [ACL]})),
        ("/delegation_token/tokens/abc", text({**TOKEN, "version": 4})),
        ("/delegation_token/tokens/abc", text({**TOKEN, "version": 0})),
        ("/config/users/a", quota("producer_byte_rate", "1_000")),
        ("/config/users/a", quota("producer_byte_rate", "1E3")),
        ("/config/users/a", quota("consumer_byte_rate", "1000.0")),
        ("/config/users/a", quota("producer_byte_rate", "1e30")),
        ("/config/users/a", quota("producer_byte_rate", " 1000")),
        ("/config/users/a", quota("request_percentage", "\u0661\u0660")),
        ("/config/users/a", quota("request_percentage", "1_0.5")),
        ("/config/ips/10.0.0.1", quota("connection_creation_rate", "7.0")),
        ("/config/ips/10.0.0.1", quota("connection_creation_rate", str(2**31))),
        ("/config/users/a", quota("SCRAM-SHA-256", SCRAM + "8_192")),
        ("/config/users/a", quota("SCRAM-SHA-256", SCRAM + "4096,more=1")),
        ("/config/users/a", quota("SCRAM-SHA-256", "salt=c2FsdA==,iterations=4096")),
        ("/config/users/a", quota("SCRAM-SHA-256", SCRAM.replace("c2FsdA==", "c2FsdA=") + "4096")),
        ("/config/users/a", quota("SCRAM-SHA-256", SCRAM.replace("c2FsdA==", "c2Fsd-==") + "4096")),
        ("/config/users/a", quota("SCRAM-SHA-256", SCRAM.replace("c2FsdA==", "c2Fsd") + "4096")),
        ("/config/users/a", quota("producer_byte_rate", "\u0661\u0660")),
        ("/kafka-acl/Topic/t", text({"version": 1, "acls": [{**ACL, "operation": "Any"}]})),
        ("/kafka-acl/Topic/t", text({"version": 1, "acls": [{**ACL, "principal": "alice"}]})),
        ("/kafka-acl/Topic/t", b'{"version":1,"acls":[],"more":"\xff"}'),
        ("/delegation_token/tokens/abc", text({**TOKEN, "owner": "alice"})),
        ("/delegation_token/tokens/abc", text({**TOKEN, "owner": "User%3Aa%4"})),
        ("/delegation_token/tokens/abc", text({**TOKEN, "renewers": ["User%3A%zz"]})),
        ("/delegation_token/tokens/abc", text({**TOKEN, "tokenRequester": None})),
        ("/delegation_token/tokens/abc", text({**TOKEN, "issueTimestamp": 2**63})),
    ],
)
def test_a_znode_that_kafkas_own_reader_refuses(path: str, data: bytes) -> None:
    with pytest.raises(FindingError, match="Z2K-1001"):
        zk_facts(path, data)


def test_what_kafka_writes_and_reads_is_read() -> None:
    assert zk_facts("/kafka-acl/Topic/t", text({"version": 1, "acls": [ACL]}))[ACLS]
    for version in (1, 2, 3):
        assert zk_facts("/delegation_token/tokens/abc", text({**TOKEN, "version": version}))[TOKENS]
    found = zk_facts("/config/users/a", quota("request_percentage", " 1.5e1d "))[QUOTAS]
    assert found == {"request_percentage": 15.0}
    assert zk_facts("/config/ips/10.0.0.1", quota("connection_creation_rate", "+7"))[QUOTAS]
    assert zk_config("/config/topics/t", b"{}") == {}, "Kafka: no configuration"
    one, other = (zk_facts("/delegation_token/tokens/abc", text({**TOKEN, "renewers": each})) for each in (
        ["User%3Ac", "User%3Ad"], ["User%3Ad", "User%3Ac"]
    ))  # fmt: skip
    assert one == other, "renewers are a set"
    asked = text({**TOKEN, "version": 2, "tokenRequester": 7})
    assert zk_facts("/delegation_token/tokens/abc", asked)[TOKENS]["token requester"] == "User:a", "Kafka does not look"
    written, otherwise = (
        zk_facts("/config/users/a", quota("SCRAM-SHA-256", SCRAM.replace("c2FsdA==", salt) + "4096"))
        for salt in ("c2FsdA==", "c2FsdA")
    )
    assert written == otherwise, "padding says nothing"


def test_words_of_acls_are_those_that_kafka_reads() -> None:
    """In any case. A word that it does not know is Unknown, whatever other alphabets make of it."""

    def facts(operation: str) -> Any:
        return zk_facts("/kafka-acl/Topic/t", text({"version": 1, "acls": [{**ACL, "operation": operation}]}))[ACLS]

    assert facts("CREATETOKENS") == facts("CreateTokens") != facts("CreateTo\u212aens")
    assert facts("CreateTo\u212aens") == facts("CREATE_TOKENS") == facts("Unknown")


TOPIC = {"version": 3, "partitions": {"0": [1, 2]}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": {"0": [2**31]}},
        {"partitions": {"4294967296": [1]}},
        {"partitions": {"-0": [1]}},
        {"adding_replicas": None},
        {"adding_replicas": {"0": [2**31]}},
        {"removing_replicas": None},
        {"topic_id": None},
        {"topic_id": ""},
        {"topic_id": "AAAAAAAAAAAAAAAAAAAAA"},
        {"topic_id": "+/+/+/+/+/+/+/+/+/+/+A"},
    ],
)
def test_a_topic_that_kafkas_own_reader_refuses(change: dict[str, Any]) -> None:
    assert zk_topic("/brokers/topics/t", text(TOPIC))[0] == {"id": TOPIC["topic_id"]}
    with pytest.raises(FindingError, match="Z2K-1001"):
        zk_topic("/brokers/topics/t", text({**TOPIC, **change}))


def test_an_id_is_the_id_that_kafka_reads_in_whatever_form() -> None:
    for other in ("AAAAAAAAAAAAAAAAAAAAAQ==", "AAAAAAAAAAAAAAAAAAAAAR"):
        assert zk_topic("/brokers/topics/t", text({**TOPIC, "topic_id": other}))[0] == {"id": TOPIC["topic_id"]}


@pytest.mark.parametrize("key", ["controller_epoch", "leader", "leader_epoch"])
def test_a_number_of_a_state_that_does_not_fit_into_kafkas_is_not_read(key: str) -> None:
    with pytest.raises(FindingError, match="Z2K-1001"):
        zk_state("/s", text({**STATE, key: 2**31}), 0)


def test_a_text_of_no_bytes_is_no_block_of_producer_ids_and_not_nothing() -> None:
    assert zk_producer_ids("/latest_producer_id_block", None) == {}
    with pytest.raises(FindingError, match="Z2K-1065"):
        zk_producer_ids("/latest_producer_id_block", b"")


def test_a_password_with_a_letter_that_is_not_ascii_ends_no_audit() -> None:
    """It ended with exit code 70, without a report."""
    parts = dict.fromkeys(("encryptedPassword", "initializationVector", "salt"), "\u0661")
    words = {"keyFactoryAlgorithm": "PBKDF2WithHmacSHA512", "cipherAlgorithm": "AES/CBC/PKCS5Padding", "keyLength": 128}
    pairs = {**parts, **words, "iterations": 16, "passwordLength": 1}
    encoded = ",".join(f"{name}:{value}" for name, value in pairs.items())
    for text_of_a_broker in (encoded, encoded + ",no colon"):
        with pytest.raises(FindingError, match="Z2K-1070"):
            PasswordReader(Secrets(("secret",))).clear("/config/brokers/1", "ssl.key.password", text_of_a_broker)


@pytest.mark.parametrize("recovery", [2, -1])
def test_a_state_whose_recovery_no_kafka_knows_is_not_read(recovery: int) -> None:
    assert zk_state("/s", text({**STATE, "leader_recovery_state": 1}), 0)["recovery"] == 1
    with pytest.raises(FindingError, match="Z2K-1001"):
        zk_state("/s", text({**STATE, "leader_recovery_state": recovery}), 0)


def test_java_takes_digits_of_any_script_for_whole_numbers_and_of_one_for_others() -> None:
    """As `Character.digit` does; tried with Java 17."""
    assert java_long("\u0661\u0660") == 10
    assert java_int("-2147483648") == -(2**31)
    assert java_double("Infinity") == java_double("0x1p9999") == float("inf")
    assert java_double(" -0x1.8p3d ") == -12.0
    for read, wrong in ((java_long, "1 "), (java_int, "2147483648"), (java_double, "0x1"), (java_double, "nan")):
        with pytest.raises(ValueError, match="it "):
            read(wrong)


DEEP = b'{"unknown":' + b"[" * 100_000


@pytest.mark.parametrize(
    "read",
    [
        lambda: zk_topic("/brokers/topics/t", DEEP),
        lambda: zk_config("/config/topics/t", DEEP),
        lambda: zk_facts("/config/users/a", DEEP),
        lambda: zk_facts("/kafka-acl/Topic/t", DEEP),
    ],
    ids=["topic", "configuration", "user", "ACLs"],
)
def test_what_is_nested_too_deeply_is_named_and_ends_no_audit(read: Any) -> None:
    """The audit ended with exit code 70, without a report."""
    with pytest.raises(FindingError, match=r"Z2K-1001.*nested too deeply"):
        read()


class OneZnode:
    """An ensemble that answers every path with one znode."""

    def __init__(self, znode: Znode) -> None:
        self.znode = znode

    def get_many(self, paths: Any, limits: Any = None) -> Any:
        return (self.znode for _ in paths)


def test_a_znode_that_goes_with_a_session_is_not_read() -> None:
    """Its text is right, and it is gone tomorrow."""
    ensemble: Any = OneZnode(Znode(quota("retention.ms", "7"), 0, 1, 1, 0x1000_0001))
    (row,) = config_rows(ensemble, "topic configs", ["t"])
    assert "not persistent (owner 0x10000001)" in row.problem
    assert all("not persistent" in each.problem for each in security_rows(ensemble, ["/config/users/a"]))
    ensemble.znode = msgspec.structs.replace(ensemble.znode, data=text({"version": 2, "partitions": {"0": [1]}}))
    (rows,) = topic_reads(ensemble, ["t"])
    assert "not persistent" in rows.topic.problem


def test_a_partition_with_fewer_directories_than_replicas_is_a_log_that_no_controller_loads() -> None:
    facts = LogFacts()
    facts.apply(TopicRecord(name="t", topic_id=an_id("t")))
    whole = PartitionRecord(
        topic_id=an_id("t"), replicas=(1, 2), isr=(1, 2), leader=1, directories=(UNASSIGNED_DIRECTORY,) * 2
    )
    facts.apply(whole)
    with pytest.raises(FindingError, match=r"Z2K-5002.*1 directories for 2 replicas"):
        facts.apply(msgspec.structs.replace(whole, partition_id=1, directories=(UNASSIGNED_DIRECTORY,)))
