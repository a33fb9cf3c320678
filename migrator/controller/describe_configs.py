"""Configuration is described: of topics, of brokers, of subscriptions to clients' metrics.

In:   DescribeConfigs, the committed image, what this node's file says, who asks.
Out:  for each resource its keys with their values and where these are from, or why it is not described.
Elsewhere: what a topic may have (model.topic_configs), changing it (configs.py).
Rules: any controller answers, also one that does not lead. Secrets are never in an answer.
Source: Kafka 3.9 `ConfigHelper`. We differ in two things. Of this node only what is set is listed, in its file or
dynamically, not every default of Kafka's. A key has no documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from migrator.controller.authorizer import CLUSTER_NAME, Asker, is_allowed
from migrator.controller.decision import ControllerSettings, ItemRefused
from migrator.controller.names import refuse_name
from migrator.model.broker_configs import BROKER_CONFIGS
from migrator.model.config_values import BadValue, ConfigRule, Value, parse_value
from migrator.model.hidden_keys import is_hidden
from migrator.model.image import Image
from migrator.model.topic_configs import TOPIC_CONFIGS, ConfigSource, Inherited, effective
from migrator.model.values import AclOperation, AclResourceType, ConfigType
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

CLIENT_METRICS_SOURCE: Final = 7
TYPES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
"""Kafka's numbers; 0 is unknown."""
ON_CLUSTER: Final = (ConfigType.BROKER, ConfigType.BROKER_LOGGER, ConfigType.CLIENT_METRICS)


@dataclass(frozen=True, slots=True)
class _Found:
    """One key: its text, where it is from, and every place where it is set, the strongest first."""

    name: str
    value: str | None
    source: int
    rule: ConfigRule | None = None
    synonyms: tuple[tuple[str, str | None, int], ...] = ()
    read_only: bool = False


def describe_configs(
    image: Image, settings: ControllerSettings, request: DescribeConfigsRequest, asker: Asker, version: int
) -> DescribeConfigsResponse:
    described = _Described(image, settings, asker)
    return DescribeConfigsResponse(
        results=tuple(described.result(each, version, synonyms=request.include_synonyms) for each in request.resources)
    )


class _Described:
    def __init__(self, image: Image, settings: ControllerSettings, asker: Asker) -> None:
        self._image = image
        self._settings = settings
        self._asker = asker

    def result(self, asked: DescribeConfigsResource, version: int, *, synonyms: bool) -> DescribeConfigsResult:
        error, words = Error.NONE, None
        found: Iterable[_Found] = ()
        try:
            self._check_allowed(asked)
            found = self._found(asked)
        except ItemRefused as refused:
            error, words = refused.error, refused.message
        return DescribeConfigsResult(
            error,
            words,
            asked.resource_type,
            asked.resource_name,
            tuple(
                _entry(each, version, synonyms=synonyms)
                for each in found
                if not asked.configuration_keys or each.name in asked.configuration_keys
            ),
        )

    def _check_allowed(self, asked: DescribeConfigsResource) -> None:
        rules = self._settings.authorizer
        type_, name, error = AclResourceType.TOPIC, asked.resource_name, Error.TOPIC_AUTHORIZATION_FAILED
        if asked.resource_type in ON_CLUSTER:
            type_, name, error = AclResourceType.CLUSTER, CLUSTER_NAME, Error.CLUSTER_AUTHORIZATION_FAILED
        elif asked.resource_type != ConfigType.TOPIC:
            words = f"Unexpected resource type {asked.resource_type} for resource {asked.resource_name}"
            raise ItemRefused(Error.INVALID_REQUEST, words)
        if rules is not None and not is_allowed(
            self._image, rules, self._asker, AclOperation.DESCRIBE_CONFIGS, type_, name
        ):
            raise ItemRefused(error)

    def _found(self, asked: DescribeConfigsResource) -> list[_Found]:
        name = asked.resource_name
        match asked.resource_type:
            case ConfigType.TOPIC:
                return self._topic(name)
            case ConfigType.BROKER:
                return self._node(name)
            case ConfigType.CLIENT_METRICS:
                if not name:
                    raise ItemRefused(Error.INVALID_REQUEST, "Client metrics subscription name must not be empty")
                values = self._image.config(ConfigType.CLIENT_METRICS, name)
                return [_Found(key, value, CLIENT_METRICS_SOURCE) for key, value in sorted(values.items())]
            case _:
                raise ItemRefused(Error.INVALID_REQUEST, "A migrating controller does not describe its loggers.")

    def _topic(self, name: str) -> list[_Found]:
        refusal = refuse_name(name)
        if refusal is not None:
            raise ItemRefused(Error.INVALID_TOPIC_EXCEPTION, refusal)
        if name not in self._image.topic_ids:
            raise ItemRefused(Error.UNKNOWN_TOPIC_OR_PARTITION)
        own = self._image.config(ConfigType.TOPIC, name)
        places = self._places()
        inherited = Inherited(*places.values())
        found = []
        for key, (text, source) in sorted(effective(own, inherited).items()):
            rule = TOPIC_CONFIGS[key]
            set_in = [(key, text, int(ConfigSource.DYNAMIC_TOPIC))] if key in own else []
            for place, values in places.items():
                set_in += [(each, values[each], int(place)) for each, _ in rule.synonyms if each in values]
            found.append(_Found(key, _text(text, rule), source, rule, tuple(set_in)))
        return found

    def _places(self) -> dict[ConfigSource, Mapping[str, str]]:
        """Where a key of this node can be set, the strongest first."""
        return {
            ConfigSource.DYNAMIC_BROKER: self._image.config(ConfigType.BROKER, str(self._settings.node_id)),
            ConfigSource.DYNAMIC_DEFAULT_BROKER: self._image.config(ConfigType.BROKER, ""),
            ConfigSource.STATIC_BROKER: self._settings.static,
        }

    def _node(self, name: str) -> list[_Found]:
        places = self._places()
        if not name:
            places = {ConfigSource.DYNAMIC_DEFAULT_BROKER: places[ConfigSource.DYNAMIC_DEFAULT_BROKER]}
        elif re.fullmatch(r"[+-]?[0-9]{1,10}", name) is None:
            raise ItemRefused(Error.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
        elif int(name) != self._settings.node_id:
            words = f"Unexpected broker id, expected {self._settings.node_id} or empty string, but received {name}"
            raise ItemRefused(Error.INVALID_REQUEST, words)
        found = []
        for key in sorted({each for values in places.values() for each in values}):
            rule, hidden = BROKER_CONFIGS.get(key), is_hidden(key) or key in self._settings.hidden
            set_in = [
                (key, None if hidden else values[key], int(place)) for place, values in places.items() if key in values
            ]
            text, source = set_in[0][1:]
            found.append(_Found(key, text, source, rule, tuple(set_in), read_only=rule is None))
        return found


def _text(text: str, rule: ConfigRule) -> str:
    """As Kafka prints what it parsed; what it cannot parse as it stands."""
    try:
        value: Value = parse_value(text, rule)
    except BadValue:
        return text
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entry(found: _Found, version: int, *, synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=found.name,
        value=found.value,
        read_only=found.read_only,
        is_default=version == 0 and found.source == ConfigSource.DEFAULT,
        config_source=found.source,
        is_sensitive=found.value is None,
        synonyms=tuple(DescribeConfigsSynonym(*each) for each in found.synonyms) if synonyms else (),
        config_type=0 if found.rule is None else TYPES[found.rule.kind],
        documentation=None,
    )
