"""What records add up to, against a slow twin that keeps every record and answers each question from the whole list."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_fold import Fold, held_records, packed_records, record_rows
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, TOPIC_CONFIGS, TOPICS, Facts, LogFacts, id_text
from migrator.audit.rows import UNKNOWN_TOPIC_SUBJECT, SideRow
from migrator.audit.security_facts import ACLS, QUOTAS, SCRAM, TOKENS
from migrator.findings.finding import FindingError
from migrator.wire.batch import build_batch, read_batch
from migrator.wire.messages.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from tests.support.builders import an_id

SECURITY = ["quota", "scram", "token", "acl", "acl"]
users = st.sampled_from(["alice", "b@b~ c"])
quota_records = st.builds(
    lambda user, client, key, value, remove: ClientQuotaRecord((*client, user), key, value, remove),
    st.builds(ClientQuotaEntity, st.just("user"), st.none() | users),
    st.sampled_from([(), (ClientQuotaEntity("client-id", "app"),)]),
    st.sampled_from(["producer_byte_rate", "request_percentage"]),
    st.floats(0, 1e6),
    st.booleans(),
)
scram_records = st.builds(
    UserScramCredentialRecord, users, st.sampled_from([1, 2]), st.binary(), st.just(b"k"), st.just(b"v"), st.just(4096)
) | st.builds(RemoveUserScramCredentialRecord, users, st.sampled_from([1, 2]))
token_records = st.builds(
    DelegationTokenRecord, st.just("User:a"), st.just("User:b"), st.just(("User:c",)), token_id=st.sampled_from("xy")
) | st.builds(RemoveDelegationTokenRecord, st.sampled_from("xy"))

NAMES = ["orders", "pay-1", "pay"]


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Records in an order that a controller could have written: lives of topics, changes, configurations."""
    history: list[Message] = []
    alive: dict[str, tuple[bytes, int]] = {}
    acls: list[bytes] = []
    lives = 0
    for _ in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from(NAMES))
        topic_id, partitions = alive.get(name, (b"", 0))
        whats = ["grow", "grow", "change", "change", "remove", "config", "broker", "ids", "noop", *SECURITY]
        what = draw(st.sampled_from(whats))
        match what:
            case "grow" if not topic_id:
                lives += 1
                alive[name] = (an_id(f"{name}{lives}"), 0)
                history.append(TopicRecord(name=name, topic_id=alive[name][0]))
            case "grow":
                history.append(draw(partition_records(topic_id, partitions)))
                alive[name] = (topic_id, partitions + 1)
            case "change" if partitions:
                history.append(draw(change_records(topic_id, draw(st.integers(0, partitions - 1)))))
            case "remove" if topic_id:
                history.append(RemoveTopicRecord(topic_id=topic_id))
                del alive[name]
            case "config" if topic_id:
                history.append(draw(config_records(2, name)))
            case "broker":
                history.append(draw(config_records(4, draw(st.sampled_from(["", "1"])))))
            case "quota":
                history.append(draw(quota_records))
            case "scram":
                history.append(draw(scram_records))
            case "token":
                history.append(draw(token_records))
            case "acl" if len(acls) > 0 and draw(st.booleans()):
                history.append(RemoveAccessControlEntryRecord(acls.pop(draw(st.integers(0, len(acls) - 1)))))
            case "acl":
                lives += 1
                acls.append(an_id(f"acl {lives}"))
                name, host = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["*", "h"]))
                history.append(AccessControlEntryRecord(acls[-1], 2, name, 3, "User:a", host, 3, 2))
            case "ids":
                history.append(ProducerIdsRecord(broker_id=1, next_producer_id=draw(st.integers(0, 1 << 40))))
            case _:
                history.append(NoOpRecord())
    return history


@st.composite
def partition_records(draw: st.DrawFn, topic_id: bytes, partition: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=(1, 2, 3),
        isr=(1, 2),
        leader=draw(st.sampled_from([-1, 1, 2])),
        leader_epoch=draw(st.integers(0, 9)),
        partition_epoch=draw(st.integers(0, 9)),
    )


@st.composite
def change_records(draw: st.DrawFn, topic_id: bytes, partition: int) -> PartitionChangeRecord:
    lists = st.none() | st.lists(st.integers(1, 5), max_size=3).map(tuple)
    return PartitionChangeRecord(
        partition_id=partition,
        topic_id=topic_id,
        isr=draw(lists),
        leader=draw(st.sampled_from([-2, -1, 1, 2])),
        replicas=draw(lists),
        adding_replicas=draw(lists),
        removing_replicas=draw(lists),
        leader_recovery_state=draw(st.sampled_from([-1, 0, 1])),
    )


def config_records(resource: int, name: str) -> st.SearchStrategy[ConfigRecord]:
    keys = st.sampled_from(["retention.ms", "ssl.key.password"])
    return st.builds(
        lambda key, value: ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value),
        keys,
        st.none() | st.text(max_size=5),
    )


# --- the slow twin ----------------------------------------------------------------------------------------


def slow_facts(history: Sequence[Message]) -> dict[tuple[str, str], Facts]:
    """Every fact, each found by going over the whole history again."""
    found: dict[tuple[str, str], Facts] = {}
    removed = {each.topic_id for each in history if isinstance(each, RemoveTopicRecord)}
    for at, born in enumerate(history):
        if isinstance(born, TopicRecord) and born.topic_id not in removed:
            found |= slow_topic(born.name, born.topic_id, history)
            found |= slow_config(TOPIC_CONFIGS, 2, born.name, history[at:])
    for broker in ("", "1"):
        found |= slow_config(BROKER_CONFIGS, 4, broker, history)
    found |= slow_security(history)
    ids = [each.next_producer_id for each in history if isinstance(each, ProducerIdsRecord)]
    return found | ({("producer ids", "next"): {"next_producer_id": ids[-1]}} if ids else {})


def slow_security(history: Sequence[Message]) -> dict[tuple[str, str], Facts]:
    """The last word on each quota, credential and token; each ACL that has no end."""
    words: dict[tuple[str, str], dict[Any, Facts]] = {}
    ended = {each.id for each in history if isinstance(each, RemoveAccessControlEntryRecord)}
    for record in history:
        match record:
            case ClientQuotaRecord():
                by_type = {each.entity_type: each.entity_name for each in record.entity}
                path = f"/config/users/{SANITISED[by_type['user']]}"
                path += "/clients/app" if "client-id" in by_type else ""
                said = {} if record.remove else {record.key: record.value}
                words.setdefault((QUOTAS, path), {})[record.key] = said
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                name = f"SCRAM-SHA-{256 * record.mechanism}"
                credential: Facts = {}
                if isinstance(record, UserScramCredentialRecord):
                    keys = {"salt": record.salt, "stored_key": record.stored_key, "server_key": record.server_key}
                    credential |= {f"{name} {each}": base64.b64encode(value).decode() for each, value in keys.items()}
                    credential[f"{name} iterations"] = 4096
                words.setdefault((SCRAM, f"/config/users/{SANITISED[record.name]}"), {})[record.mechanism] = credential
            case AccessControlEntryRecord() if record.id not in ended:
                told = json.dumps(["deny", "read", "User:a", record.host], separators=(",", ":"))
                told_before = words.setdefault((ACLS, f"/kafka-acl/Topic/{record.resource_name}"), {})
                told_before[told] = {told: told_before.get(told, {told: 0})[told] + 1}
            case DelegationTokenRecord() | RemoveDelegationTokenRecord():
                token: Facts = {
                    "token id": record.token_id,
                    "token owner": "User:a",
                    "token requester": "User:b",
                    "token renewers": ["User:c"],
                }
                token |= {"issued": 0, "latest": 0, "expires": 0}
                gone = isinstance(record, RemoveDelegationTokenRecord)
                words[TOKENS, f"/delegation_token/tokens/{record.token_id}"] = {"": {} if gone else token}
    merged = {
        key: {name: value for said in parts.values() for name, value in said.items()} for key, parts in words.items()
    }
    return {key: facts for key, facts in merged.items() if facts}


SANITISED = {None: "<default>", "alice": "alice", "b@b~ c": "b%40b%7E%20c"}


def slow_topic(name: str, topic_id: bytes, history: Sequence[Message]) -> dict[tuple[str, str], Facts]:
    found: dict[tuple[str, str], Facts] = {(TOPICS, name): {"id": id_text(topic_id)}}
    for born in history:
        if isinstance(born, PartitionRecord) and born.topic_id == topic_id:
            changes = [
                each
                for each in history
                if isinstance(each, PartitionChangeRecord)
                and (each.topic_id, each.partition_id) == (topic_id, born.partition_id)
            ]
            found[PARTITIONS, f"{name}-{born.partition_id}"] = slow_partition(born, changes)
    return found


def slow_partition(born: PartitionRecord, changes: list[PartitionChangeRecord]) -> Facts:
    def newest(first: Any, later: list[Any], nothing: Any) -> Any:
        said = [each for each in later if each != nothing]
        return list(said[-1] if said else first) if nothing is None else (said[-1] if said else first)

    leaders = [each.leader for each in changes]
    return {
        "replicas": newest(born.replicas, [each.replicas for each in changes], None),
        "adding": newest(born.adding_replicas, [each.adding_replicas for each in changes], None),
        "removing": newest(born.removing_replicas, [each.removing_replicas for each in changes], None),
        "leader": newest(born.leader, leaders, -2),
        "leader_epoch": born.leader_epoch + sum(each != -2 for each in leaders),
        "isr": newest(born.isr, [each.isr for each in changes], None),
        "recovery": newest(born.leader_recovery_state, [each.leader_recovery_state for each in changes], -1),
        "partition_epoch": born.partition_epoch + len(changes),
    }


def slow_config(family: str, resource: int, name: str, history: Sequence[Message]) -> dict[tuple[str, str], Facts]:
    said = {
        each.name: each.value
        for each in history
        if isinstance(each, ConfigRecord) and (each.resource_type, each.resource_name) == (resource, name)
    }
    values = {key: value for key, value in said.items() if value is not None}
    return {(family, name): values} if values else {}


# --- tests ------------------------------------------------------------------------------------------------


def facts_of(history: Sequence[Message]) -> dict[tuple[str, str], Facts]:
    facts = LogFacts()
    for record in history:
        facts.apply(record)
    return {(family, key): values for family, key, values in facts.rows()}


@settings(max_examples=300, deadline=None)
@given(histories())
def test_records_add_up_to_what_the_whole_history_says(history: list[Message]) -> None:
    assert facts_of(history) == slow_facts(history)


@settings(max_examples=150, deadline=None)
@given(histories())
def test_subjects_folded_apart_add_up_to_the_same_as_the_log_in_one_piece(history: list[Message]) -> None:
    """What the Spark job does: records by subject, each subject folded alone, secrets as hashes."""
    fingerprints = SecretFingerprints()
    expected = {
        place: fingerprints.facts(values) if place[0] in (TOPIC_CONFIGS, BROKER_CONFIGS, SCRAM, TOKENS) else values
        for place, values in facts_of(history).items()
    }
    found = folded_by_subject(history, fingerprints)
    assert {(row.family, row.key): row.facts for row in found} == expected
    assert all(0 <= row.version < len(history) for row in found)


def folded_by_subject(history: Sequence[Message], fingerprints: SecretFingerprints) -> list[SideRow]:
    if not history:
        return []
    versions = {PartitionRecord: 1, PartitionChangeRecord: 1}
    values = [encode_record(record, versions.get(type(record), 0)) for record in history]
    data = build_batch(base_offset=0, leader_epoch=1, timestamp_ms=0, values=values)
    rows = list(record_rows([read_batch(data)], fingerprints))
    names = {row.id: row.subject for row in rows if row.subject is not None}
    packed: defaultdict[str, list[bytes]] = defaultdict(list)
    for row in rows:
        packed[row.subject or names[row.id] or ""].append(row.data or b"")
    folds: list[Fold] = []
    for subject, data_of_it in packed.items():
        folds.append(Fold())
        for held in held_records(packed_records(data_of_it)):
            folds[-1].take(held.offset, held.decoded(), subject)
    return [row for fold in folds for row in fold.rows()]


@pytest.mark.parametrize(
    "record",
    [
        PartitionRecord(partition_id=0, topic_id=an_id("x")),
        PartitionChangeRecord(partition_id=0, topic_id=an_id("x")),
        RemoveTopicRecord(topic_id=an_id("x")),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_about_a_topic_that_was_never_created_is_a_finding_that_names_it(record: Message) -> None:
    with pytest.raises(FindingError, match=f"Z2K-5002.*{type(record).__name__}.*{id_text(an_id('x'))}"):
        LogFacts().apply(record)


def test_an_acl_that_ends_without_a_beginning_or_begins_twice_is_a_finding() -> None:
    facts = LogFacts()
    with pytest.raises(FindingError, match=f"Z2K-5002.*{an_id('x').hex()}"):
        facts.apply(RemoveAccessControlEntryRecord(an_id("x")))
    facts.apply(AccessControlEntryRecord(an_id("x"), 2, "orders", 3, "User:a", "*", 3, 3))
    with pytest.raises(FindingError, match=f"Z2K-5002.*{an_id('x').hex()}"):
        facts.apply(AccessControlEntryRecord(an_id("x"), 2, "orders", 3, "User:a", "*", 3, 3))


def test_a_topic_that_is_created_twice_is_a_finding() -> None:
    facts = LogFacts()
    facts.apply(TopicRecord(name="orders", topic_id=an_id("a")))
    with pytest.raises(FindingError, match="Z2K-5002"):
        facts.apply(TopicRecord(name="orders", topic_id=an_id("b")))


def test_a_fold_stops_at_a_record_that_does_not_fit_and_says_where() -> None:
    change = PartitionChangeRecord(partition_id=3, topic_id=an_id("x"))
    data = build_batch(base_offset=40, leader_epoch=1, timestamp_ms=0, values=[encode_record(change, 1)])
    (row,) = record_rows([read_batch(data)], SecretFingerprints())
    fold = Fold()
    (held,) = held_records(packed_records([row.data or b""]))
    fold.take(held.offset, held.decoded(), UNKNOWN_TOPIC_SUBJECT + str(row.id))
    (told,) = fold.rows()
    assert told.family == ""
    assert told.key == "the log at offset 40"
    assert "partition 3" in told.problem
