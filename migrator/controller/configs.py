"""Configuration of topics and brokers is changed and described.

In:   IncrementalAlterConfigs (some keys), AlterConfigs (everything; keys left out go back to their default).
Out:  Config records; each resource is all or nothing, resources are independent.
Elsewhere: which values a topic may have (model.topic_configs). Values of brokers are validated by brokers.
Source: Kafka 3.9 `ConfigurationControlManager`, `ControllerConfigurationValidator`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum

from migrator.controller.decision import Decision, ItemRefused, Record, Situation
from migrator.controller.names import refuse_name
from migrator.controller.znode_limits import larger_than_zookeeper_takes
from migrator.model.client_metrics import refuse_subscription
from migrator.model.config_lists import list_default, split_as_java
from migrator.model.image import NO_CONFIG
from migrator.model.topic_rules import refuse_topic_config
from migrator.model.values import ConfigKey, ConfigType, MigrationState, is_password
from migrator.model.znode_sizes import config_bytes
from migrator.records.builders import config_record
from migrator.wire.errors import Error
from migrator.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def incremental_alter_configs(situation: Situation, request: IncrementalAlterConfigsRequest) -> Decision:
    counted = Counter((each.resource_type, each.resource_name) for each in request.resources)
    records: list[Record] = []
    results = []
    for asked in request.resources:
        error, message = Error.NONE, None
        try:
            if counted[asked.resource_type, asked.resource_name] > 1:
                raise ItemRefused(Error.INVALID_REQUEST, "Duplicate resource.")
            records += _alter(situation, asked)
        except ItemRefused as refused:
            error, message = refused.error, refused.message
        results.append(
            IncrementalAlterConfigsResourceResponse(error, message, asked.resource_type, asked.resource_name)
        )
    if request.validate_only:
        records = []
    return Decision(IncrementalAlterConfigsResponse(responses=tuple(results)), tuple(records))


def alter_configs(situation: Situation, request: AlterConfigsRequest) -> Decision:
    """The old form, which `kafka-configs` still uses for brokers: what is not named is removed."""
    counted = Counter((each.resource_type, each.resource_name) for each in request.resources)
    records: list[Record] = []
    results = []
    for asked in request.resources:
        error, message = Error.NONE, None
        try:
            if counted[asked.resource_type, asked.resource_name] > 1:
                raise ItemRefused(Error.INVALID_REQUEST, "Duplicate resource.")
            records += _replace(situation, asked)
        except ItemRefused as refused:
            error, message = refused.error, refused.message
        results.append(AlterConfigsResourceResponse(error, message, asked.resource_type, asked.resource_name))
    if request.validate_only:
        records = []
    return Decision(AlterConfigsResponse(responses=tuple(results)), tuple(records))


def _alter(situation: Situation, asked: IncrementalAlterConfigsResource) -> list[Record]:
    key = ConfigKey(asked.resource_type, asked.resource_name)
    _check_resource(key)
    now = situation.image.configs.get(key, NO_CONFIG)
    touched: dict[str, str | None] = {}
    for config in asked.configs:  # a key that is named twice: the last one counts
        touched[config.name] = _new_value(now.get(config.name), config, key)
    return _written(situation, key, touched)


def _replace(situation: Situation, asked: AlterConfigsResource) -> list[Record]:
    key = ConfigKey(asked.resource_type, asked.resource_name)
    _check_resource(key)
    now = situation.image.configs.get(key, NO_CONFIG)
    named: dict[str, str | None] = {config.name: config.value for config in asked.configs}
    gone: dict[str, str | None] = {name: None for name in now if name not in named}
    return _written(situation, key, named | gone)


def _written(situation: Situation, key: ConfigKey, touched: Mapping[str, str | None]) -> list[Record]:
    """The records by which these keys get their values (None: none), if the whole may be."""
    now = situation.image.configs.get(key, NO_CONFIG)
    after: dict[str, str] = dict(now)
    for name, value in touched.items():
        after.pop(name, None)
        if value is not None:
            after[name] = value
    _check_passwords(situation, key, touched)
    if key.type == ConfigType.TOPIC:
        _check_topic(situation, after, now)
    elif key.type == ConfigType.CLIENT_METRICS:
        _check_subscription(after)
    _check_exists(situation, key)
    if key.type in (ConfigType.TOPIC, ConfigType.BROKER):  # of the others ZooKeeper has no form
        _check_size(situation, key, after)
    # Brokers reload files (keystores) when a value is set again, so a BROKER resource is always written.
    always = key.type == ConfigType.BROKER
    return [(config_record(key, name, value), 0) for name, value in touched.items() if always or now.get(name) != value]


def _check_size(situation: Situation, key: ConfigKey, after: Mapping[str, str]) -> None:
    now = situation.image.configs.get(key, NO_CONFIG)
    what = f"The configuration of {ConfigType(key.type).name.lower()} {key.name or '<default>'}"
    words = larger_than_zookeeper_takes(
        situation, what, config_bytes(key.name, after), lambda: config_bytes(key.name, now)
    )
    if words is not None:
        raise ItemRefused(Error.POLICY_VIOLATION, words)


def _check_subscription(after: Mapping[str, str]) -> None:
    bad = refuse_subscription(after)
    if bad is not None:
        raise ItemRefused(Error(bad.error), bad.words)


def _check_topic(situation: Situation, after: Mapping[str, str], before: Mapping[str, str]) -> None:
    refusal = refuse_topic_config(after, before=before, inherited=situation.inherited)
    if refusal is not None:
        raise ItemRefused(Error.INVALID_CONFIG, refusal)


def _check_resource(key: ConfigKey) -> None:
    """Whether such a resource can be at all; whether it is there is asked after its values, as stock does."""
    match key.type:
        case ConfigType.TOPIC:
            if not key.name:
                raise ItemRefused(Error.INVALID_REQUEST, "Default topic resources are not allowed.")
            refusal = refuse_name(key.name)
            if refusal is not None:
                raise ItemRefused(Error.INVALID_TOPIC_EXCEPTION, refusal)
        case ConfigType.BROKER:
            if key.name and re.fullmatch(r"[0-9]{1,10}", key.name) is None:
                raise ItemRefused(Error.INVALID_REQUEST, f"Unable to parse broker name as a base 10 number: {key.name}")
        case ConfigType.CLIENT_METRICS:
            if not key.name:
                raise ItemRefused(Error.INVALID_REQUEST, "Subscription name can't be empty")
        case ConfigType.BROKER_LOGGER:
            raise ItemRefused(Error.INVALID_REQUEST, "The loggers of a migrating controller cannot be changed.")
        case ConfigType.GROUP:
            raise ItemRefused(Error.UNSUPPORTED_VERSION, "This cluster has no group configuration.")
        case _:
            raise ItemRefused(Error.UNSUPPORTED_VERSION, f"Unknown resource type {key.type}.")


def _check_exists(situation: Situation, key: ConfigKey) -> None:
    image = situation.image
    match key.type:
        case ConfigType.TOPIC:
            if key.name not in image.topic_ids:
                raise ItemRefused(Error.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{key.name}' does not exist.")
        case ConfigType.BROKER if key.name:
            if int(key.name) not in {*image.brokers, *image.controllers, situation.settings.node_id}:
                raise ItemRefused(Error.BROKER_ID_NOT_REGISTERED, f"No node with id {key.name} found.")
        case _:
            pass
    if key.type == ConfigType.BROKER and key.name in situation.unmirrored:
        raise ItemRefused(Error.INVALID_CONFIG, situation.unmirrored[key.name].in_full)


def _check_passwords(situation: Situation, key: ConfigKey, touched: Iterable[str]) -> None:
    """While ZooKeeper is written as well: there passwords are encrypted, which takes the brokers' secret."""
    if situation.settings.encodes_passwords or situation.image.migration != MigrationState.MIGRATION:
        return
    passwords = [name for name in touched if is_password(name)]
    if key.type == ConfigType.BROKER and passwords:
        text = (
            f"Z2K-1010 {passwords[0]} cannot be changed while the cluster is migrated: the controllers have no "
            "password.encoder.secret with which ZooKeeper-mode brokers could read it."
        )
        raise ItemRefused(Error.INVALID_CONFIG, text)


def _new_value(now: str | None, asked: IncrementalAlterableConfig, key: ConfigKey) -> str | None:
    name, operation = asked.name, asked.config_operation
    match operation:
        case ConfigOperation.SET:
            return asked.value
        case ConfigOperation.DELETE:
            return None
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            default = list_default(key.type, name)
            if default is None:
                text = f"Can't {ConfigOperation(operation).name} to key {name} because its type is not LIST."
                raise ItemRefused(Error.INVALID_CONFIG, text)
            # Stock begins with the key's own default, not with what the resource inherits.
            parts = [part for part in (default if now is None else now).split(",") if part]
            for part in split_as_java(asked.value or ""):
                if operation == ConfigOperation.APPEND and part not in parts:
                    parts.append(part)
                elif operation == ConfigOperation.SUBTRACT and part in parts:
                    parts.remove(part)
            return ",".join(parts)
        case _:
            raise ItemRefused(Error.INVALID_REQUEST, f"Unknown operation {operation}.")
