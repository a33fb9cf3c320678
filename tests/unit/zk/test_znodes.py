"""Each znode format: what Kafka writes is read, what we write is read again, and nothing else gets through."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError, Occurrence
from migrator.model.values import Listener, SecurityProtocol
from migrator.zk.znodes import (
    PRODUCER_ID_MAX,
    RECORD_TEXT_BYTES_MAX,
    BrokerZnode,
    ClusterIdZnode,
    ConfigZnode,
    ControllerZnode,
    FeatureZnode,
    MigrationJson,
    MigrationZnode,
    ProducerIdBlock,
    StateZnode,
    TopicZnode,
    config_change_data,
    config_data,
    controller_data,
    listeners,
    migration_data,
    parse,
    parse_config,
    parse_controller_epoch,
    parse_features,
    parse_migration,
    parse_ordered_moves,
    parse_producer_ids,
    producer_ids_data,
    replica_lists,
    state_data,
    topic_data,
    topic_id_bytes,
    topic_id_text,
)
from tests.support.arbitrary_images import partitions
from tests.support.builders import a_partition, a_topic

PATH = "/some/path"

KAFKA_WRITES: dict[type[Any], tuple[bytes, Any]] = {
    TopicZnode: (
        (
            b'{"removing_replicas":{},"partitions":{"0":[1,2]},"topic_id":"gSJTHuz4SBW8WFvXJLDhIw",'
            b'"adding_replicas":{"0":[2]},"version":3}'
        ),
        TopicZnode({"0": [1, 2]}, "gSJTHuz4SBW8WFvXJLDhIw", {"0": [2]}, {}, 3),
    ),
    StateZnode: (
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2],"leader_recovery_state":1}',
        StateZnode(1, 7, [1, 2], 3, 1, 1),
    ),
    ConfigZnode: (b'{"version":1,"config":{"retention.ms":"1"}}', ConfigZnode(1, {"retention.ms": "1"})),
    ControllerZnode: (
        b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}',
        ControllerZnode(1, 2, "1700000000000", -1),
    ),
    MigrationJson: (
        (
            b'{"version":0,"kraft_metadata_offset":1200,"kraft_controller_id":3000,"kraft_metadata_epoch":4,'
            b'"kraft_controller_epoch":5}'
        ),
        MigrationJson(3000, 5, 1200, 4, 0),
    ),
    ProducerIdBlock: (
        b'{"version":1,"broker":2,"block_start":"5000","block_end":"5999"}',
        ProducerIdBlock(2, "5000", "5999"),
    ),
    ClusterIdZnode: (b'{"version":"1","id":"gSJTHuz4SBW8WFvXJLDhIw"}', ClusterIdZnode("1", "gSJTHuz4SBW8WFvXJLDhIw")),
    BrokerZnode: (
        (
            b'{"features":{},"listener_security_protocol_map":{"IN":"SSL"},"endpoints":["IN://h:9093"],"jmx_port":-1,'
            b'"port":-1,"host":null,"version":5,"timestamp":"1700000000000","rack":"r"}'
        ),
        BrokerZnode(5, ["IN://h:9093"], None, -1, "r", {"IN": "SSL"}, {}),
    ),
    FeatureZnode: (
        b'{"version":2,"status":1,"features":{"f":{"max_version_level":1}}}',
        FeatureZnode(2, 1, {"f": {"max_version_level": 1}}),
    ),
}
KINDS = sorted(KAFKA_WRITES, key=lambda kind: kind.__name__)


def named(kind: Any) -> str:
    return str(getattr(kind, "__name__", ""))


def attempt(read: Callable[..., Any], *arguments: Any) -> Any:
    """The value, or the finding that was made instead of it; anything else that is raised fails the test."""
    try:
        return read(*arguments)
    except FindingError as error:
        return error.occurrence


def refusal(read: Callable[..., Any], *arguments: Any) -> str:
    """The reason of Z2K-1001, which has to name the path."""
    with pytest.raises(FindingError) as raised:
        read(*arguments)
    assert raised.value.code == "Z2K-1001"
    assert raised.value.occurrence.values["path"] == PATH
    return str(raised.value.occurrence.values["reason"])


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_what_kafka_writes_is_read(kind: type[Any]) -> None:
    data, value = KAFKA_WRITES[kind]
    assert parse(kind, PATH, data) == value


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_key_that_is_not_known_is_passed_over_as_in_kafka(kind: type[Any]) -> None:
    data, value = KAFKA_WRITES[kind]
    assert parse(kind, PATH, data[:-1] + b',"later":{"x":[1,null]}}') == value


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_a_key_that_is_needed_may_not_be_missing(kind: type[Any]) -> None:
    document = json.loads(KAFKA_WRITES[kind][0])
    fields = {each.encode_name: each for each in msgspec.structs.fields(kind)}
    for key, declared in fields.items():
        rest = json.dumps({name: value for name, value in document.items() if name != key}).encode()
        if declared.required:
            assert key in refusal(parse, kind, PATH, rest)
        else:
            parse(kind, PATH, rest)


WRONG: list[Any] = [None, True, 1.5, 2**63, -(2**64), "text", [], [1.5], ["x"], {}, {"x": None}, {"x": 1}, {"x": [{}]}]


@given(data=st.data())
def test_a_value_of_another_type_is_refused_or_harmless(data: st.DataObject) -> None:
    """Whatever stands in a key: a finding, or a value of the declared type."""
    kind = data.draw(st.sampled_from(KINDS))
    document = json.loads(KAFKA_WRITES[kind][0])
    document[data.draw(st.sampled_from(sorted(document)))] = data.draw(st.sampled_from(WRONG))
    value = attempt(parse, kind, PATH, json.dumps(document).encode())
    if isinstance(value, Occurrence):
        assert (value.code, value.values["path"]) == ("Z2K-1001", PATH)
    else:
        assert msgspec.convert(msgspec.to_builtins(value), kind) == value


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"null",
        b"[]",
        b"1",
        b'"text"',
        b"{",
        b"{}x",
        b"{'version':1}",
        b'{"version":NaN}',
        b'{"version":Infinity}',
        b'{"version":1e999}',
        b'\xef\xbb\xbf{"version":1}',
        b"[" * 100_000,
        b'{"version":1,"x":' + b"[" * 100_000,
        b'{"version":1,"x":' + b'{"a":' * 100_000,
        b'{"version":1,"features":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"version":' + b"9" * 100_000 + b"}",
        bytes(64),
    ],
    ids=lambda data: repr(data[:24]) if data else repr(data),
)
@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_what_is_no_such_document_is_refused_with_its_path(kind: type[Any], data: bytes | None) -> None:
    assert refusal(parse, kind, PATH, data)


@pytest.mark.parametrize("text", [b"\xff", b"\xc3(", b"\\ud800", b"\\udfff", b"\xed\xa0\x80", b"a\x00b", b"\n"])
@pytest.mark.parametrize(
    "data",
    [b'{"version":1,"config":{"%s":"b"}}', b'{"version":1,"config":{"a":"%s"}}', b'{"version":"1","id":"%s"}'],
)
def test_what_is_no_text_in_utf_8_is_refused(data: bytes, text: bytes) -> None:
    kind = ClusterIdZnode if b"id" in data else ConfigZnode
    assert refusal(parse, kind, PATH, data.replace(b"%s", text))


def anything_near(kind: type[Any]) -> st.SearchStrategy[bytes]:
    """The right document with a piece cut out or put in."""
    data = KAFKA_WRITES[kind][0]
    places = st.integers(0, len(data))
    pieces = st.binary(max_size=6) | st.sampled_from(
        [b"[" * 3000, b'{"a":' * 3000, b"9" * 5000, b'"', b"\\u", b"-", b"e9"]
    )
    return st.builds(lambda start, end, piece: data[:start] + piece + data[max(start, end) :], places, places, pieces)


READERS: list[tuple[type[Any], Callable[[str, bytes], Any]]] = [
    *((kind, lambda path, data, kind=kind: parse(kind, path, data)) for kind in KINDS),
    (ConfigZnode, parse_config),
    (MigrationJson, parse_migration),
    (FeatureZnode, parse_features),
    (ProducerIdBlock, parse_producer_ids),
    (ConfigZnode, parse_controller_epoch),
    (TopicZnode, lambda path, data: replica_lists(path, parse(TopicZnode, path, data).partitions)),
    (TopicZnode, lambda path, data: topic_id_bytes(path, parse(TopicZnode, path, data).topic_id or "")),
    (BrokerZnode, lambda path, data: listeners(path, parse(BrokerZnode, path, data))),
]


@given(data=st.data(), reader=st.sampled_from(range(len(READERS))))
def test_any_bytes_give_a_value_or_a_finding_and_nothing_else(data: st.DataObject, reader: int) -> None:
    kind, read = READERS[reader]
    given_bytes = data.draw(anything_near(kind) | st.binary(max_size=200))
    value = attempt(read, PATH, given_bytes)
    if isinstance(value, Occurrence):
        expected = "Z2K-1065" if (read, given_bytes) == (parse_producer_ids, b"") else "Z2K-1001"
        assert (value.code, value.values["path"]) == (expected, PATH)


# --- topics and states ------------------------------------------------------------------------------------


@given(partition=partitions(0), controller_epoch=st.integers(0, 2**31 - 1))
def test_a_state_that_we_write_is_the_one_that_is_read(partition: Any, controller_epoch: int) -> None:
    data = state_data(partition, controller_epoch)
    read = parse(StateZnode, PATH, data)
    assert (read.leader, read.leader_epoch, tuple(read.isr)) == (
        partition.leader,
        partition.leader_epoch,
        partition.isr,
    )
    assert (read.controller_epoch, read.leader_recovery_state) == (controller_epoch, partition.recovery)
    assert (b"leader_recovery_state" in data) is bool(partition.recovery)  # as Kafka: only when it is not RECOVERED


def test_a_topic_that_we_write_is_kafkas_version_3() -> None:
    topic = a_topic("orders", [a_partition(0, adding=(3,)), a_partition(1, (2, 1), removing=(1,))])
    assert json.loads(topic_data(topic)) == {
        "version": 3,
        "topic_id": topic_id_text(topic.id),
        "partitions": {"0": [1, 2, 3], "1": [2, 1]},
        "adding_replicas": {"0": [3]},
        "removing_replicas": {"1": [1]},
    }


@given(raw=st.binary(min_size=16, max_size=16).filter(any))
def test_a_topic_id_is_its_text_and_back(raw: bytes) -> None:
    text = topic_id_text(raw)
    assert len(text) == 22
    assert topic_id_bytes(PATH, text) == raw


@given(text=st.text(max_size=24) | st.text(st.sampled_from("Aa0-_+/="), min_size=20, max_size=24))
def test_one_topic_id_has_one_text_only(text: str) -> None:
    raw = attempt(topic_id_bytes, PATH, text)
    assert isinstance(raw, Occurrence) or topic_id_text(raw) == text


@pytest.mark.parametrize(
    "text", ["", "A" * 22, "A" * 21, "A" * 23, "gSJTHuz4SBW8WFvXJLDhIw==", "+" * 22, "gSJTHuz4SBW8WFvXJLDhI!", "é" * 22]
)
def test_what_is_no_topic_id_is_refused(text: str) -> None:
    assert repr(text) in refusal(topic_id_bytes, PATH, text)


@pytest.mark.parametrize(
    "key", ["", " 0", "00", "01", "+1", "-1", "1_0", "\u0663", "\u00b2", "1.0", "9" * 11, "9" * 5000]
)
def test_a_partition_id_is_written_in_one_way_only(key: str) -> None:
    """Otherwise two keys could be one partition, and one of its assignments would be lost."""
    assert "partition id" in refusal(replica_lists, PATH, {"0": [1], key: [2]})


# --- configurations ---------------------------------------------------------------------------------------


@given(values=st.dictionaries(st.text(max_size=20), st.text(max_size=60), max_size=5))
def test_a_configuration_that_we_write_is_the_one_that_is_read(values: dict[str, str]) -> None:
    assert parse_config(PATH, config_data(values)) == values


@pytest.mark.parametrize("data", [None, b""])
def test_a_configuration_znode_without_data_holds_none(data: bytes | None) -> None:
    assert parse_config(PATH, data) == {}


@pytest.mark.parametrize("version", [0, 2, -1])
def test_a_configuration_of_another_version_is_not_guessed_at(version: int) -> None:
    assert f"version {version}" in refusal(parse_config, PATH, b'{"version":%d,"config":{}}' % version)


@pytest.mark.parametrize("values", [{"k" * 32_768: "v"}, {"k": "v" * 32_768}, {"k": "\u00e9" * 16_384}])
def test_a_text_that_no_metadata_record_holds_is_named_before_anything_is_copied(values: dict[str, str]) -> None:
    assert f"32768 bytes, a metadata record holds {RECORD_TEXT_BYTES_MAX}" in refusal(
        parse_config, PATH, config_data(values)
    )


def test_a_change_of_configuration_is_told_as_brokers_read_it() -> None:
    assert config_change_data("brokers/<default>") == b'{"version":2,"entity_path":"brokers/<default>"}'


# --- the claim and producer ids ---------------------------------------------------------------------------


@given(node=st.integers(0, 2**31 - 1), epoch=st.integers(-1, 2**31 - 1), now_ms=st.integers(0, 2**45))
def test_a_claim_that_we_write_is_the_one_that_is_read(node: int, epoch: int, now_ms: int) -> None:
    read = parse(ControllerZnode, PATH, controller_data(node, epoch, now_ms))
    assert read == ControllerZnode(node, 2, str(now_ms), epoch)


def test_a_controller_of_an_old_broker_has_no_kraft_epoch() -> None:
    assert parse(ControllerZnode, PATH, b'{"version":1,"brokerid":2,"timestamp":"1"}').kraft_epoch == -1


int32, int64 = st.integers(-1, 2**31 - 1), st.integers(-1, 2**63 - 1)


@given(znode=st.builds(MigrationZnode, int32, int32, int64, int32))
def test_a_migration_that_we_write_is_the_one_that_is_read(znode: MigrationZnode) -> None:
    assert parse_migration(PATH, migration_data(znode)) == znode


@pytest.mark.parametrize("version", [1, -1, 2**40])
def test_a_migration_of_another_version_is_not_guessed_at(version: int) -> None:
    data = migration_data(MigrationZnode()).replace(b'"version":0', b'"version":%d' % version)
    assert refusal(parse_migration, PATH, data)


@pytest.mark.parametrize("key", [each.name for each in msgspec.structs.fields(MigrationJson)])
def test_a_migration_that_lacks_anything_is_refused_as_by_kafka(key: str) -> None:
    """Each once had a default: a controller and an offset of -1 were read, where stock throws."""
    whole = json.loads(migration_data(MigrationZnode(3000, 5, 1200, 4)))
    del whole[key]
    assert f"`{key}`" in refusal(parse_migration, PATH, json.dumps(whole).encode())


@pytest.mark.parametrize(("data", "epoch"), [(b"0", 0), (b"17", 17), (b"2147483647", 2**31 - 1), (b"-1", -1)])
def test_a_controller_epoch_is_a_number_in_text(data: bytes, epoch: int) -> None:
    assert parse_controller_epoch(PATH, data) == epoch


@pytest.mark.parametrize(
    "data",
    [None, b"", b" 1", b"1\n", b"+1", b"1_0", b"0x1", b"1.0", "\u0663".encode(), b"2147483648", b"9" * 5000, b"\xff"],
)
def test_what_is_no_controller_epoch_is_refused(data: bytes | None) -> None:
    assert "is not a number" in refusal(parse_controller_epoch, PATH, data)


@given(first=st.integers(0, PRODUCER_ID_MAX - 1_000), broker=int32)
def test_a_block_of_producer_ids_that_we_write_is_the_one_that_is_read(first: int, broker: int) -> None:
    read = parse_producer_ids(PATH, producer_ids_data(broker, first, first + 999))
    assert read == ProducerIdBlock(broker, str(first), str(first + 999))


def test_the_znode_of_producer_ids_has_no_data_until_the_first_block() -> None:
    """A text of no bytes is no block, and not nothing: Kafka's `ProducerIdBlockZNode` throws for it."""
    assert parse_producer_ids(PATH, None) is None
    with pytest.raises(FindingError, match="Z2K-1065"):
        parse_producer_ids(PATH, b"")


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", "1"),
        ("0", "-1"),
        ("0", "\u00b2"),
        ("\u0663", "9"),
        ("0", " 9"),
        ("0", "9" * 5000),
        ("0", str(2**63 - 1)),
        ("5", "4"),
        ("0", "2147483647"),
    ],
)
def test_a_block_that_is_no_range_of_producer_ids_is_refused(start: str, end: str) -> None:
    """F-29: the next id is made from its end, so nothing is guessed."""
    assert refusal(parse_producer_ids, PATH, _block(start, end))


def _block(start: str, end: str) -> bytes:
    return json.dumps({"version": 1, "broker": 1, "block_start": start, "block_end": end}).encode()


# --- brokers ----------------------------------------------------------------------------------------------


def test_endpoints_are_read_with_their_protocols() -> None:
    znode = BrokerZnode(
        5,
        ["PLAINTEXT://h:9092", "IN://[::1]:9093", "SASL_SSL://:9094"],
        listener_security_protocol_map={"IN": "SSL", "PLAINTEXT": "PLAINTEXT", "SASL_SSL": "SASL_SSL"},
    )
    assert listeners(PATH, znode) == (
        Listener("PLAINTEXT", "h", 9092, SecurityProtocol.PLAINTEXT),
        Listener("IN", "::1", 9093, SecurityProtocol.SSL),
        Listener("SASL_SSL", "", 9094, SecurityProtocol.SASL_SSL),
    )


def test_without_a_map_a_listener_is_called_like_its_protocol() -> None:
    assert listeners(PATH, BrokerZnode(3, ["SSL://h:1"]))[0].protocol is SecurityProtocol.SSL
    assert listeners(PATH, BrokerZnode(3, ["ssl://h:1"])) == (Listener("SSL", "h", 1, SecurityProtocol.SSL),)


@pytest.mark.parametrize(
    "endpoint", ["h:9092", "IN://h:9092", "PLAINTEXT://h", "PLAINTEXT://h:", "PLAINTEXT://h:x", "SSL://h:\u00b2"]
)
def test_an_endpoint_that_nobody_could_reach_is_refused(endpoint: str) -> None:
    assert repr(endpoint) in refusal(listeners, PATH, BrokerZnode(5, [endpoint]))


# --- features ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "features", "finalized"),
    [
        (1, {"x": {"max_version_level": 3}, "y": {"min_version_level": 1, "max_version_level": 2}}, {"x": 3, "y": 2}),
        (0, {"x": {"max_version_level": 3}}, {}),
    ],
)
def test_only_a_znode_that_is_disabled_finalizes_nothing(
    status: int, features: dict[str, Any], finalized: dict[str, int]
) -> None:
    data = json.dumps({"version": 2, "status": status, "features": features}).encode()
    assert parse_features(PATH, data).finalized == finalized


@pytest.mark.parametrize(
    "text",
    [
        '{"version":2,"status":5,"features":{}}',
        '{"version":3,"status":1,"features":{}}',
        '{"version":2,"features":{}}',
        '{"version":2,"status":0}',
        '{"version":2,"status":0,"features":{"x":7}}',
        '{"version":2,"status":1,"features":{"x":{}}}',
        '{"version":2,"status":1,"features":{"x":{"max_version_level":0}}}',
        '{"version":1,"status":1,"features":{"x":{"max_version_level":2}}}',
        '{"version":1,"status":1,"features":{"x":{"min_version_level":3,"max_version_level":2}}}',
    ],
)
def test_features_for_which_a_broker_stops_at_its_start_are_refused(text: str) -> None:
    assert refusal(parse_features, PATH, text.encode())


# --- what nobody wants and Kafka parses all the same ------------------------------------------------------


@pytest.mark.parametrize(
    "more", [b'"more":"\xff"', b'"\xff":1', b'"more":' + b"1" * 1_001, b'"' + b"m" * 50_001 + b'" :1'], ids=len
)
@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_what_kafka_cannot_parse_as_a_whole_is_refused_as_a_whole(kind: type[Any], more: bytes) -> None:
    """Kafka takes such a topic for one without partitions, and such a configuration for an empty one."""
    data = KAFKA_WRITES[kind][0]
    assert refusal(parse, kind, PATH, data[:-1] + b"," + more + b"}")


def test_long_texts_and_lists_are_no_long_numbers_or_names() -> None:
    replicas = b'{"partitions":{"0":[' + b",".join([b"1000"] * 50_000) + b"]}}"
    assert len(parse(TopicZnode, PATH, replicas).partitions["0"]) == 50_000
    assert parse_config(PATH, config_data({"a": "x" * 30_000, "b": ",".join("101" for _ in range(7_000))}))


def test_an_order_with_a_key_that_kafka_does_not_know_is_not_carried_out() -> None:
    order = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}
    assert parse_ordered_moves(PATH, json.dumps(order).encode())
    assert "more" in refusal(parse_ordered_moves, PATH, json.dumps({**order, "more": 1}).encode())
    order["partitions"][0]["more"] = 1  # type: ignore[index]
    assert "more" in refusal(parse_ordered_moves, PATH, json.dumps(order).encode())


@pytest.mark.parametrize(
    ("features", "ranges"),
    [
        (None, {}),
        ({}, {}),
        ({"x": {"min_version": 1, "max_version": 4}, "y": {"min_version": 1}, "z": 3}, {"x": (1, 4)}),
    ],
)
def test_a_broker_says_in_its_znode_which_features_it_supports(
    features: dict[str, Any] | None, ranges: dict[str, tuple[int, int]]
) -> None:
    assert BrokerZnode(5, features=features).ranges == ranges
