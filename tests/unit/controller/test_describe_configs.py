"""Configuration is described as Kafka's controllers do, without a secret in it; subscriptions to metrics are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.controller.authorizer import Asker, AuthorizerRules
from migrator.controller.configs import incremental_alter_configs
from migrator.controller.decision import Decision
from migrator.controller.describe_configs import describe_configs
from migrator.driver.mirror import Shape, plan
from migrator.model.client_metrics import refuse_subscription
from migrator.model.hidden_keys import is_hidden
from migrator.model.topic_configs import TOPIC_CONFIGS, ConfigSource
from migrator.model.values import ConfigType
from migrator.wire.codec import decode, encode
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from tests.support.builders import a_claim, a_topic, an_image
from tests.support.situations import CONTROLLER, a_situation, after, replayed, the_settings

EVE = Asker("User:eve", "10.0.0.1")
FILE = {
    "log.retention.hours": "2",
    "listeners": "CONTROLLER://:9093",
    "listener.name.controller.plain.sasl.jaas.config": "password=hunter2",
    "ssl.keystore.password": "hunter2",
    "delegation.token.secret.key": "hunter2",
    "my.plugin.apikey": "hunter2",
    "sasl.oauthbearer.jwks.endpoint.url": "https://a",
}
IMAGE = an_image(
    a_topic("orders"),
    topic_configs={"orders": {"cleanup.policy": " compact , delete ", "preallocate": "TRUE"}},
    broker_configs={"": {"log.segment.bytes": "1024"}, str(CONTROLLER): {"log.segment.bytes": "2048"}},
)


def described(
    type_: int, name: str, *keys: str, version: int = 4, rules: AuthorizerRules | None = None, synonyms: bool = True
) -> DescribeConfigsResult:
    """The answer as the asker decodes it."""
    asked = DescribeConfigsRequest((DescribeConfigsResource(type_, name, keys or None),), synonyms)
    settings = the_settings(static=FILE, authorizer=rules)
    reply = describe_configs(IMAGE, settings, asked, EVE, version)
    (result,) = decode(DescribeConfigsResponse, version, encode(reply, version)).results
    return result


def entry(result: DescribeConfigsResult, key: str) -> DescribeConfigsResourceResult:
    return next(each for each in result.configs if each.name == key)


@pytest.mark.parametrize("version", range(5))
def test_a_topic_is_described_with_every_key_in_every_version(version: int) -> None:
    result = described(ConfigType.TOPIC, "orders", version=version)
    assert (result.error_code, [each.name for each in result.configs]) == (Error.NONE, sorted(TOPIC_CONFIGS))
    assert entry(result, "cleanup.policy").value == "compact,delete"
    assert entry(result, "preallocate").value == "true"
    assert entry(result, "retention.ms").value == "7200000"
    if version:
        assert entry(result, "cleanup.policy").config_source == ConfigSource.DYNAMIC_TOPIC
        assert entry(result, "retention.ms").config_source == ConfigSource.STATIC_BROKER
        assert entry(result, "flush.ms").config_source == ConfigSource.DEFAULT
        segment = entry(result, "segment.bytes")
        assert (segment.value, segment.config_source) == ("2048", ConfigSource.DYNAMIC_BROKER)
        assert [(each.value, each.source) for each in segment.synonyms] == [("2048", 2), ("1024", 3)]
    else:
        assert entry(result, "flush.ms").is_default
        assert not entry(result, "retention.ms").is_default


def test_only_what_is_asked_for_is_described() -> None:
    result = described(ConfigType.TOPIC, "orders", "retention.ms", "no.such.key", synonyms=False)
    assert [(each.name, each.synonyms) for each in result.configs] == [("retention.ms", ())]


def test_no_secret_of_this_nodes_file_is_in_an_answer() -> None:
    result = described(ConfigType.BROKER, str(CONTROLLER))
    assert "hunter2" not in repr(result)
    assert entry(result, "listeners").value == "CONTROLLER://:9093"
    assert entry(result, "my.plugin.apikey").is_sensitive
    assert [each.name for each in described(ConfigType.BROKER, "").configs] == ["log.segment.bytes"]
    assert all(map(is_hidden, ("ssl.key.password", "password.encoder.secret", "sasl.jaas.config", "ssl.keystore.key")))


def test_a_value_of_a_config_provider_is_as_secret_as_a_password() -> None:
    settings = replace(the_settings(static=FILE), hidden=frozenset({"log.retention.hours"}))
    asked = DescribeConfigsRequest((DescribeConfigsResource(ConfigType.BROKER, str(CONTROLLER), None),), True)
    (result,) = describe_configs(IMAGE, settings, asked, EVE, 4).results
    found = entry(result, "log.retention.hours")
    assert (found.value, found.is_sensitive) == (None, True)
    assert entry(result, "listeners").value == "CONTROLLER://:9093"


@pytest.mark.parametrize(
    ("type_", "name", "error"),
    [
        (ConfigType.TOPIC, "nothing", Error.UNKNOWN_TOPIC_OR_PARTITION),
        (ConfigType.TOPIC, "..", Error.INVALID_TOPIC_EXCEPTION),
        (ConfigType.BROKER, "1", Error.INVALID_REQUEST),
        (ConfigType.BROKER, "x", Error.INVALID_REQUEST),
        (ConfigType.BROKER_LOGGER, str(CONTROLLER), Error.INVALID_REQUEST),
        (ConfigType.CLIENT_METRICS, "", Error.INVALID_REQUEST),
        (ConfigType.GROUP, "g", Error.INVALID_REQUEST),
        (99, "x", Error.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_is_answered_by_itself(type_: int, name: str, error: Error) -> None:
    assert (described(type_, name).error_code, described(type_, name).configs) == (error, ())


@pytest.mark.parametrize(
    ("type_", "name", "error"),
    [
        (ConfigType.TOPIC, "orders", Error.TOPIC_AUTHORIZATION_FAILED),
        (ConfigType.BROKER, str(CONTROLLER), Error.CLUSTER_AUTHORIZATION_FAILED),
        (ConfigType.CLIENT_METRICS, "m", Error.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_read_configuration_is_told_so(type_: int, name: str, error: Error) -> None:
    assert described(type_, name, rules=AuthorizerRules(frozenset({"User:admin"}))).error_code == error


# --- subscriptions to clients' metrics --------------------------------------------------------------------


def subscribe(**values: str) -> tuple[int, Decision]:
    changes = tuple(IncrementalAlterableConfig(key.replace("_", "."), 0, value) for key, value in values.items())
    resource = IncrementalAlterConfigsResource(ConfigType.CLIENT_METRICS, "m", changes)
    decision = incremental_alter_configs(a_situation(IMAGE), IncrementalAlterConfigsRequest((resource,)))
    assert isinstance(decision.reply, IncrementalAlterConfigsResponse)
    return decision.reply.responses[0].error_code, decision


def test_a_subscription_is_kept_described_and_has_no_znode() -> None:
    error, decision = subscribe(metrics="*", interval_ms="1000", match="client_id=app-.*")
    assert error == Error.NONE
    image = after(a_situation(IMAGE), decision).image
    assert image.config(ConfigType.CLIENT_METRICS, "m")["interval.ms"] == "1000"
    reply = describe_configs(
        image,
        the_settings(),
        DescribeConfigsRequest((DescribeConfigsResource(ConfigType.CLIENT_METRICS, "m", None),)),
        EVE,
        4,
    )
    assert [(each.name, each.value) for each in reply.results[0].configs] == [
        ("interval.ms", "1000"),
        ("match", "client_id=app-.*"),
        ("metrics", "*"),
    ]
    delta = replayed(IMAGE, decision.records)
    assert delta.configs
    assert not plan(delta, a_claim(), delta.after.position, Shape()).multis


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("interval.ms", "100", None),
        ("interval.ms", "3600000", None),
        ("interval.ms", "99", Error.INVALID_REQUEST),
        ("interval.ms", "3600001", Error.INVALID_REQUEST),
        ("interval.ms", " 100", Error.UNKNOWN_SERVER_ERROR),
        ("interval.ms", "x", Error.UNKNOWN_SERVER_ERROR),
        ("metrics", "anything,,", None),
        ("other", "x", Error.INVALID_REQUEST),
        ("match", "client_id=a,client_source_port=9.*", None),
        ("match", "client_id=a,", None),
        ("match", ",", None),
        ("match", "", Error.INVALID_CONFIG),
        ("match", "client_id", Error.INVALID_CONFIG),
        ("match", "client_id=", Error.INVALID_CONFIG),
        ("match", "client_id=a=b", Error.INVALID_CONFIG),
        ("match", "client_id=[", Error.INVALID_CONFIG),
        ("match", "other=a", Error.INVALID_CONFIG),
    ],
)
def test_a_subscription_is_refused_as_by_stock(key: str, value: str, error: Error | None) -> None:
    refusal = refuse_subscription({key: value})
    assert (None if refusal is None else refusal.error) == error
