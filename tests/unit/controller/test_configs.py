"""Configuration changes: what an operation leaves behind, what is written, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.controller.configs import ConfigOperation, alter_configs, incremental_alter_configs
from migrator.controller.decision import Decision, Situation
from migrator.findings.content import PASSWORD_UNDECODABLE
from migrator.model.config_lists import list_default
from migrator.model.topic_configs import TOPIC_CONFIGS, ConfigSource, Inherited, effective
from migrator.model.topic_rules import refuse_topic_config
from migrator.model.values import ConfigType, MigrationState
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from migrator.wire.messages.metadata import ConfigRecord
from tests.support.builders import a_topic, an_image
from tests.support.situations import CONTROLLER, a_situation, after, messages

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
THROTTLED = "leader.replication.throttled.replicas"

Accepted = tuple[str, int, str | None]


def a_cluster(
    topic: Mapping[str, str] | None = None, brokers: Mapping[str, Mapping[str, str]] | None = None
) -> Situation:
    image = an_image(a_topic("orders"), topic_configs={"orders": topic or {}}, broker_configs=brokers)
    return a_situation(image)


def a_resource(
    *asked: Accepted, type_: int = ConfigType.TOPIC, name: str = "orders"
) -> IncrementalAlterConfigsResource:
    changes = tuple(IncrementalAlterableConfig(key, operation, value) for key, operation, value in asked)
    return IncrementalAlterConfigsResource(type_, name, changes)


def alter(
    situation: Situation, *resources: IncrementalAlterConfigsResource, validate_only: bool = False
) -> tuple[list[IncrementalAlterConfigsResourceResponse], Decision]:
    request = IncrementalAlterConfigsRequest(resources, validate_only=validate_only)
    decision = incremental_alter_configs(situation, request)
    assert isinstance(decision.reply, IncrementalAlterConfigsResponse)
    return list(decision.reply.responses), decision


def topic_after(before: Mapping[str, str], *asked: Accepted) -> dict[str, str]:
    situation = a_cluster(before)
    (result,), decision = alter(situation, a_resource(*asked))
    assert result.error_code == Error.NONE, result.error_message
    return dict(after(situation, decision).image.config(ConfigType.TOPIC, "orders"))


# --- operations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "asked", "expected"),
    [
        ({}, [("retention.ms", SET, "5")], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("retention.ms", SET, "6")], {"retention.ms": "6"}),
        ({"retention.ms": "5"}, [("retention.ms", DELETE, None)], {}),
        ({"retention.ms": "5"}, [("retention.ms", SET, None)], {}),  # as DELETE
        ({}, [("retention.ms", DELETE, None)], {}),
        ({}, [("retention.ms", SET, "5"), ("retention.ms", SET, "6")], {"retention.ms": "6"}),  # the last one counts
        ({}, [("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "delete,compact"}),  # to the default
        ({"cleanup.policy": "compact"}, [("cleanup.policy", APPEND, "compact")], {"cleanup.policy": "compact"}),
        ({THROTTLED: "0:1"}, [(THROTTLED, APPEND, "0:2,0:1,0:3")], {THROTTLED: "0:1,0:2,0:3"}),
        ({THROTTLED: "0:1,0:2"}, [(THROTTLED, SUBTRACT, "0:1,9:9")], {THROTTLED: "0:2"}),
        ({THROTTLED: "0:1"}, [(THROTTLED, SUBTRACT, "0:1")], {THROTTLED: ""}),
        ({}, [("cleanup.policy", SUBTRACT, "delete")], {"cleanup.policy": ""}),
    ],
)
def test_an_operation_leaves_what_stock_leaves(
    before: dict[str, str], asked: list[Accepted], expected: dict[str, str]
) -> None:
    assert topic_after(before, *asked) == expected


def test_what_is_appended_to_begins_with_the_default_of_the_key_whatever_the_controllers_file_says() -> None:
    """Stock asks the ConfigDef: with log.cleanup.policy=compact in its file, `delete` is the result all the same."""
    situation = a_situation(an_image(a_topic("orders")), static={"log.cleanup.policy": "compact"})
    _, decision = alter(situation, a_resource(("cleanup.policy", APPEND, "delete")))
    (record,) = messages(decision)
    assert isinstance(record, ConfigRecord)
    assert record.value == "delete"


@pytest.mark.parametrize(
    ("key", "operation", "value", "expected"),
    [
        ("metric.reporters", APPEND, "a.Reporter", "a.Reporter"),
        ("ssl.enabled.protocols", SUBTRACT, "TLSv1.2", "TLSv1.3"),
        ("log.cleanup.policy", APPEND, "compact", "delete,compact"),
        ("metric.reporters", APPEND, "a,,b,", "a,,b"),  # Java drops only what is empty at the end
        ("metric.reporters", APPEND, ",", ""),
    ],
)
def test_lists_of_brokers_are_appended_to_as_well(key: str, operation: int, value: str, expected: str) -> None:
    (result,), decision = alter(a_cluster({}), a_resource((key, operation, value), type_=ConfigType.BROKER, name=""))
    assert result.error_code == Error.NONE, result.error_message
    (record,) = messages(decision)
    assert isinstance(record, ConfigRecord)
    assert (record.name, record.value) == (key, expected)


@pytest.mark.parametrize("key", ["log.cleaner.threads", "listener.name.x.ssl.enabled.protocols", "a.plugin.of.ours"])
def test_what_is_no_list_of_a_broker_is_not_appended_to(key: str) -> None:
    (result,), _ = alter(a_cluster({}), a_resource((key, APPEND, "x"), type_=ConfigType.BROKER, name=""))
    assert (result.error_code, key in (result.error_message or "")) == (Error.INVALID_CONFIG, True)


@given(st.lists(st.tuples(st.sampled_from([APPEND, SUBTRACT]), st.sampled_from(["0:1", "0:2", "1:1,0:1"])), max_size=6))
def test_a_list_that_is_appended_to_and_taken_from_is_a_set_in_order(steps: list[tuple[int, str]]) -> None:
    values: dict[str, str] = {}
    members: list[str] = []
    for operation, given_ in steps:
        values = topic_after(values, (THROTTLED, operation, given_))
        for part in given_.split(","):
            if operation == APPEND and part not in members:
                members.append(part)
            elif operation == SUBTRACT and part in members:
                members.remove(part)
        assert values.get(THROTTLED, "") == ",".join(members)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (("retention.ms", APPEND, "5"), Error.INVALID_CONFIG),
        (("retention.ms", SUBTRACT, "5"), Error.INVALID_CONFIG),
        (("no.such.key", SET, "5"), Error.INVALID_CONFIG),
        (("retention.ms", SET, "soon"), Error.INVALID_CONFIG),
        (("min.compaction.lag.ms", SET, str(2**63 - 1)), Error.NONE),
        (("max.compaction.lag.ms", SET, "1"), Error.NONE),
        (("retention.ms", 9, "5"), Error.INVALID_REQUEST),
    ],
)
def test_an_operation_that_does_not_fit_the_key_is_refused(asked: Accepted, error: Error) -> None:
    (result,), decision = alter(a_cluster(), a_resource(asked))
    assert result.error_code == error, result.error_message
    assert bool(decision.records) == (error is Error.NONE)


def test_a_topic_is_judged_by_its_whole_configuration() -> None:
    """What is there already and what is asked for may contradict each other (F-39)."""
    (result,), _ = alter(a_cluster({"max.compaction.lag.ms": "10"}), a_resource(("min.compaction.lag.ms", SET, "11")))
    assert result.error_code == Error.INVALID_CONFIG
    assert "min.compaction.lag.ms (11) > max.compaction.lag.ms (10)" in (result.error_message or "")
    (result,), _ = alter(a_cluster({"no.such.key": "1"}), a_resource(("retention.ms", SET, "1")))
    assert result.error_code == Error.INVALID_CONFIG


# --- resources --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "name", "error"),
    [
        (ConfigType.TOPIC, "nothing", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigType.TOPIC, "", Error.INVALID_REQUEST),
        (ConfigType.BROKER, "1", Error.NONE),
        (ConfigType.BROKER, "", Error.NONE),
        (ConfigType.BROKER, str(CONTROLLER), Error.NONE),
        (ConfigType.BROKER, "9", Error.BROKER_ID_NOT_REGISTERED),
        (ConfigType.BROKER, "one", Error.INVALID_REQUEST),
        (ConfigType.BROKER, "-1", Error.INVALID_REQUEST),
        (ConfigType.BROKER, "\N{SUPERSCRIPT TWO}", Error.INVALID_REQUEST),
        (ConfigType.CLIENT_METRICS, "", Error.INVALID_REQUEST),
        (ConfigType.BROKER_LOGGER, str(CONTROLLER), Error.INVALID_REQUEST),
        (ConfigType.GROUP, "g", Error.UNSUPPORTED_VERSION),
        (99, "x", Error.UNSUPPORTED_VERSION),
    ],
)
def test_a_resource_has_to_exist(type_: int, name: str, error: Error) -> None:
    (result,), decision = alter(a_cluster(), a_resource(("retention.ms", SET, "5"), type_=type_, name=name))
    assert (result.error_code, result.resource_type, result.resource_name) == (error, type_, name)
    assert bool(decision.records) == (error is Error.NONE)


def test_a_password_of_a_broker_is_changed_in_dual_write_only_with_the_brokers_secret() -> None:
    """It would stand in ZooKeeper in clear, where brokers expect it encrypted."""
    key = "listener.name.external.ssl.key.password"
    for operation, value in ((SET, "hunter2"), (DELETE, None)):
        (result,), decision = alter(a_cluster(), a_resource((key, operation, value), type_=ConfigType.BROKER, name="1"))
        assert result.error_code == Error.INVALID_CONFIG
        assert key in (result.error_message or "")
        assert "hunter2" not in (result.error_message or "")
        assert not decision.records
    known = a_situation(an_image(), encodes_passwords=True)
    (result,), decision = alter(known, a_resource((key, SET, "hunter2"), type_=ConfigType.BROKER, name="1"))
    assert (result.error_code, len(decision.records)) == (Error.NONE, 1)
    finalized = a_situation(an_image(migration=MigrationState.POST_MIGRATION))
    (result,), decision = alter(finalized, a_resource((key, SET, "x"), type_=ConfigType.BROKER, name="1"))
    assert (result.error_code, len(decision.records)) == (Error.NONE, 1)


@pytest.mark.parametrize("name", ["1", ""])
def test_what_could_not_follow_into_zookeeper_is_refused_with_the_finding(name: str) -> None:
    problem = PASSWORD_UNDECODABLE.found(
        path=f"/config/brokers/{name}", key="ssl.key.password", reason="another secret"
    )
    situation = replace(a_cluster(), unmirrored={name: problem})
    asked = a_resource(("log.cleaner.threads", SET, "2"), type_=ConfigType.BROKER, name=name)
    other = a_resource(("log.cleaner.threads", SET, "2"), type_=ConfigType.BROKER, name="2")
    (refused, taken), decision = alter(situation, asked, other)
    assert (refused.error_code, taken.error_code) == (Error.INVALID_CONFIG, Error.NONE)
    assert (refused.error_message or "").startswith("Z2K-1070 ")
    assert "password.encoder.secret" in (refused.error_message or "")
    assert [each.resource_name for each in messages(decision) if isinstance(each, ConfigRecord)] == ["2"]


def test_a_resource_is_all_or_nothing_and_does_not_hold_up_another() -> None:
    bad = a_resource(("retention.ms", SET, "5"), ("flush.ms", SET, "never"))
    good = a_resource(("log.cleaner.threads", SET, "2"), type_=ConfigType.BROKER, name="1")
    results, decision = alter(a_cluster(), bad, good)
    assert [each.error_code for each in results] == [Error.INVALID_CONFIG, Error.NONE]
    assert messages(decision) == [
        ConfigRecord(resource_type=ConfigType.BROKER, resource_name="1", name="log.cleaner.threads", value="2")
    ]


def test_a_resource_given_twice_is_refused_both_times() -> None:
    results, decision = alter(a_cluster(), a_resource(("retention.ms", SET, "5")), a_resource(("flush.ms", SET, "5")))
    assert [each.error_code for each in results] == [Error.INVALID_REQUEST] * 2
    assert decision.records == ()


def test_only_a_brokers_unchanged_value_is_written_again() -> None:
    """Brokers reload files (keystores) when the same value is set again."""
    situation = a_cluster({"retention.ms": "5"}, {"1": {"ssl.keystore.location": "/a"}})
    broker = a_resource(("ssl.keystore.location", SET, "/a"), type_=ConfigType.BROKER, name="1")
    _, decision = alter(situation, a_resource(("retention.ms", SET, "5"), ("flush.ms", DELETE, None)), broker)
    assert [getattr(each, "name", "") for each in messages(decision)] == ["ssl.keystore.location"]


def test_a_trial_is_judged_and_not_written() -> None:
    results, decision = alter(
        a_cluster(),
        a_resource(("retention.ms", SET, "5")),
        a_resource(("retention.ms", SET, "5"), name="x"),
        validate_only=True,
    )
    assert [each.error_code for each in results] == [Error.NONE, Error.UNKNOWN_TOPIC_OR_PARTITION]
    assert decision.records == ()


# --- what a topic may be configured to --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("retention.ms", ["-1", "0", "+5", " 7 ", str(2**63 - 1)], ["-2", "1.5", "", "five", str(2**63), "9" * 5_000]),
        ("retention.bytes", ["-1", "-99", "1"], ["1k"]),
        ("segment.bytes", ["14", str(2**31 - 1)], ["13", str(2**31), "1e9"]),
        ("min.insync.replicas", ["1", "3"], ["0"]),
        ("min.cleanable.dirty.ratio", ["0", "1", "0.5", ".5", "1.", "0.5d", "1e-3"], ["1.1", "-0.1", "half", "."]),
        ("preallocate", ["true", "FALSE"], ["yes", "1", ""]),
        (
            "cleanup.policy",
            ["compact", "delete", "compact,delete", "compact, delete", ""],
            ["compact,shrink", "compact,", ","],
        ),
        ("compression.type", ["zstd", "producer"], ["brotli", "ZSTD"]),
        ("compression.gzip.level", ["-1", "9"], ["10"]),
        ("message.timestamp.type", ["CreateTime"], ["createtime"]),
        (THROTTLED, ["", "*", "0:1", "0:1,1:2"], ["0", "0:1;1:2", "a:b"]),
    ],
)
def test_a_value_is_taken_or_refused_with_the_key_named(key: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        assert refuse_topic_config({key: value}) is None, value
    for value in bad:
        refusal = refuse_topic_config({key: value})
        assert refusal is not None, value
        assert key in refusal


ODD_VALUES = [
    (
        "retention.ms",
        ["\x01 5\n", "+5", "-1", "\u0665", "0" * 500 + "7"],
        ["\u20035", "5\u00a0", "5L", "0x5", "+", "", "1_0"],
    ),
    ("retention.bytes", [str(-(2**63)), str(2**63 - 1)], [str(-(2**63) - 1), str(2**63), "9" * 30_000]),
    ("min.insync.replicas", ["1"], ["0", "2147483648", "\U0001d7cf"]),
    ("preallocate", [" TRUE\t", "fal\u017fe"], ["true\u2003", "t", "yes"]),
    (
        "min.cleanable.dirty.ratio",
        ["NaN", "0x1p-1", "1e-9999", "0." + "0" * 300 + "1"],
        ["Infinity", "NaNd", "\u0661", "1_0"],
    ),
    ("compression.gzip.level", ["-1", "1", "9"], ["0", "-2", "10"]),
    ("compression.lz4.level", ["1", "17"], ["0", "18"]),
    ("compression.zstd.level", ["-131072", "22"], ["-131073", "23"]),
    (
        "message.format.version",
        ["3.9", "3.9-IV0", "0.8.2.1", "2.8.99", "4.0-IV0", " 1.0 "],
        ["foo", "", "4.0", "3", "3.9-IV7", "0.8"],
    ),
    (THROTTLED, ["*,", ",*,", "1:2 , 3:4", "1:2,,"], ["*,1:2", "*,*", "1:2:3", "\u0661:2"]),
    ("cleanup.policy", ["compact\t,\ndelete", "\x00delete"], ["delete,", "delete\u2003", "Delete"]),
]


@pytest.mark.parametrize(("key", "good", "bad"), ODD_VALUES)
def test_values_are_read_as_java_reads_them(key: str, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if refuse_topic_config({key: value}) is not None] == []
    assert [value for value in bad if refuse_topic_config({key: value}) is None] == []


TIERED = {"remote.log.storage.system.enable": "true"}
REMOTE = {"remote.storage.enable": "true"}


@pytest.mark.parametrize(
    ("values", "may"),
    [
        ({}, True),
        ({"cleanup.policy": "compact"}, False),
        ({"cleanup.policy": ""}, True),
        ({"local.retention.ms": "-1"}, False),
        ({"local.retention.ms": "-1", "retention.ms": "-1"}, True),
        ({"local.retention.ms": "8", "retention.ms": "7"}, False),
        ({"local.retention.bytes": "8", "retention.bytes": "7"}, False),
        ({"local.retention.bytes": "8", "retention.bytes": "-7"}, True),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "7", "retention.ms": "8"}, False),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "8", "retention.ms": "8"}, True),
    ],
)
def test_remote_storage_fits_to_retention_and_clean_up(values: dict[str, str], may: bool) -> None:
    assert (refuse_topic_config(REMOTE | values, inherited=Inherited(static=TIERED)) is None) == may
    assert refuse_topic_config(REMOTE | values, inherited=Inherited()) is not None, "no broker has remote storage"
    assert refuse_topic_config(values, inherited=Inherited(static=TIERED)) is None, (
        "a topic without it may have any of this"
    )


def test_remote_storage_is_not_switched_off_without_saying_what_becomes_of_the_data() -> None:
    assert refuse_topic_config({}, before=REMOTE, inherited=Inherited(static=TIERED)) is not None
    gone = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    assert refuse_topic_config(gone, before=REMOTE, inherited=Inherited(static=TIERED)) is None


def test_what_this_node_is_configured_with_counts_before_what_all_brokers_are() -> None:
    inherited = Inherited({"log.retention.ms": "3"}, {"log.retention.ms": "2"}, {"log.retention.ms": "1"})
    assert effective({}, inherited)["retention.ms"] == ("3", ConfigSource.DYNAMIC_BROKER)
    node = {"log.cleaner.min.compaction.lag.ms": "10"}
    image = an_image(a_topic("orders"), broker_configs={str(CONTROLLER): node})
    (result,), _ = alter(a_situation(image), a_resource(("max.compaction.lag.ms", SET, "5")))
    assert result.error_code == Error.INVALID_CONFIG


def test_what_brokers_inherit_counts_where_the_topic_says_nothing() -> None:
    brokers = {"log.cleaner.min.compaction.lag.ms": "10"}
    assert refuse_topic_config({"max.compaction.lag.ms": "5"}, inherited=Inherited(brokers=brokers)) is not None
    assert (
        refuse_topic_config({"max.compaction.lag.ms": "5"}, inherited=Inherited(brokers={"log.retention.hours": "x"}))
        is None
    )


def test_every_default_is_a_value_that_may_be_set() -> None:
    assert refuse_topic_config({name: rule.default for name, rule in TOPIC_CONFIGS.items()}) is None
    assert refuse_topic_config({}) is None
    assert refuse_topic_config({"b": None, "a": None}) == "Null value not supported for topic configs: a,b"
    assert list_default(ConfigType.TOPIC, "cleanup.policy") == "delete"
    assert list_default(ConfigType.TOPIC, "retention.ms") is None
    assert list_default(ConfigType.TOPIC, "no.such.key") is None


@pytest.mark.parametrize(
    ("topic", "brokers", "file", "expected"),
    [
        (
            {"retention.ms": "1"},
            {"log.retention.ms": "2"},
            {"log.retention.ms": "3"},
            ("1", ConfigSource.DYNAMIC_TOPIC),
        ),
        ({}, {"log.retention.ms": "2"}, {"log.retention.ms": "3"}, ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER)),
        ({}, {}, {"log.retention.hours": "1", "log.retention.minutes": "2"}, ("120000", ConfigSource.STATIC_BROKER)),
        ({}, {}, {"log.retention.hours": "1"}, ("3600000", ConfigSource.STATIC_BROKER)),
        ({}, {}, {"retention.ms": "7"}, ("604800000", ConfigSource.DEFAULT)),  # a file has the broker's name of it
    ],
)
def test_the_effective_value_is_the_nearest_one(
    topic: dict[str, str], brokers: dict[str, str], file: dict[str, str], expected: tuple[str, ConfigSource]
) -> None:
    found = effective(topic, Inherited(brokers=brokers, static=file))
    assert found["retention.ms"] == expected
    assert found.keys() == TOPIC_CONFIGS.keys()


# --- the old form -----------------------------------------------------------------------------------------


def whole(type_: int, name: str, **values: str | None) -> AlterConfigsResource:
    configs = tuple(AlterableConfig(key.replace("_", "."), value) for key, value in values.items())
    return AlterConfigsResource(type_, name, configs)


def replace_configs(
    situation: Situation, *resources: AlterConfigsResource, validate_only: bool = False
) -> tuple[list[tuple[int, str | None]], Decision]:
    decision = alter_configs(situation, AlterConfigsRequest(resources, validate_only=validate_only))
    assert isinstance(decision.reply, AlterConfigsResponse)
    return [(each.error_code, each.error_message) for each in decision.reply.responses], decision


def test_the_old_form_removes_what_it_does_not_name() -> None:
    situation = a_cluster({"retention.ms": "5", "cleanup.policy": "compact", "segment.bytes": "100"})
    asked = whole(ConfigType.TOPIC, "orders", retention_ms="5", segment_bytes="200")
    results, decision = replace_configs(situation, asked)
    assert results == [(Error.NONE, None)]
    assert messages(decision) == [  # what stays is not written again
        ConfigRecord(resource_type=ConfigType.TOPIC, resource_name="orders", name="segment.bytes", value="200"),
        ConfigRecord(resource_type=ConfigType.TOPIC, resource_name="orders", name="cleanup.policy", value=None),
    ]
    kept = after(situation, decision).image.config(ConfigType.TOPIC, "orders")
    assert dict(kept) == {"retention.ms": "5", "segment.bytes": "200"}


@pytest.mark.parametrize("broker", ["", "1"])
def test_the_old_form_writes_the_values_of_brokers_always_so_that_files_are_read_again(broker: str) -> None:
    situation = a_cluster(brokers={broker: {"log.cleaner.threads": "2", "log.cleaner.backoff.ms": "1"}})
    results, decision = replace_configs(situation, whole(ConfigType.BROKER, broker, log_cleaner_threads="2"))
    assert results == [(Error.NONE, None)]
    assert [(each.name, each.value) for each in messages(decision)] == [  # type: ignore[attr-defined]
        ("log.cleaner.threads", "2"),
        ("log.cleaner.backoff.ms", None),
    ]


def test_the_old_form_judges_what_is_left_and_each_resource_alone() -> None:
    situation = a_cluster({"max.compaction.lag.ms": "10"})
    good = whole(ConfigType.TOPIC, "orders", min_compaction_lag_ms="11")  # the contradiction goes with the old value
    results, decision = replace_configs(
        situation,
        good,
        whole(ConfigType.TOPIC, "nobody", retention_ms="1"),
        whole(ConfigType.BROKER, "9", log_cleaner_threads="2"),
        whole(ConfigType.BROKER, "1"),
        whole(ConfigType.BROKER, "1"),
        whole(99, "orders"),
    )
    assert [code for code, _ in results] == [
        Error.NONE,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.BROKER_ID_NOT_REGISTERED,
        Error.INVALID_REQUEST,
        Error.INVALID_REQUEST,
        Error.UNSUPPORTED_VERSION,
    ]
    assert len(decision.records) == 2
    refused, nothing = replace_configs(situation, whole(ConfigType.TOPIC, "orders", retention_ms="soon"))
    assert refused[0][0] == Error.INVALID_CONFIG
    assert nothing.records == ()


def test_the_old_form_only_validates_when_asked_to() -> None:
    results, decision = replace_configs(
        a_cluster(), whole(ConfigType.TOPIC, "orders", retention_ms="5"), validate_only=True
    )
    assert (results, decision.records) == ([(Error.NONE, None)], ())


def test_the_old_form_neither_sets_a_password_nor_takes_one_away_by_not_naming_it() -> None:
    password = "listener.name.x.ssl.keystore.password"
    kept = {"1": {password: "a secret", "log.cleaner.threads": "2"}}
    results, decision = replace_configs(
        a_cluster(brokers=kept), AlterConfigsResource(ConfigType.BROKER, "1", (AlterableConfig(password, "another"),))
    )
    assert (results[0][0], decision.records) == (Error.INVALID_CONFIG, ())
    results, decision = replace_configs(a_cluster(brokers=kept), whole(ConfigType.BROKER, "1", log_cleaner_threads="3"))
    assert (results[0][0], decision.records) == (Error.INVALID_CONFIG, ())
