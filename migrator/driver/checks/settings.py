"""Do the settings of controllers and brokers go together, and with what ZooKeeper holds?

In:   what this controller's file says (`ControllerFileSettings`), what each broker says that it was set to, the tree.
Out:  occurrences of findings; what only has to change before a broker runs in KRaft mode is a warning.
Elsewhere: the rule about a broker's settings (model.broker_settings), asking brokers (node.brokers.survey), reading
files (node.config, fleet.takeover_settings), the configuration in ZooKeeper (content.py).
Limits: brokers do not show values of keys that Kafka has no type for (`super.users`), nor secrets; of a secret it is
seen whether it is set.
Source: Kafka 3.9 `KafkaConfig`, `ServerConfigs`, `ZkConfigs`; docs/cases.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from migrator.driver.checks.restarts import configs_of, tiered_topics
from migrator.driver.tree import Tree
from migrator.findings.content import ACLS_UNHEEDED, AUTHORIZER_ABSENT, TOKENS_WITHOUT_KEY, TOO_BIG_FOR_ONE_REQUEST
from migrator.findings.finding import Occurrence
from migrator.findings.preflight import (
    BROKER_SETTING_FOR_LATER,
    BROKER_SETTING_FORBIDS,
    CONTROLLERS_WITHOUT_TIERS,
    LEVEL_WITHOUT_TOKENS,
    TIERS_REFUSED,
)
from migrator.model import levels
from migrator.model.broker_settings import (
    ACL_AUTHORIZER,
    DEFAULT_PRINCIPALS,
    ControllerFileSettings,
    for_later,
    forbidding,
)
from migrator.model.topic_configs import Inherited
from migrator.model.topic_rules import TOTAL_UNKNOWN, refuse_topic_config
from migrator.zk import paths

__all__ = [
    "ACL_AUTHORIZER",
    "DEFAULT_PRINCIPALS",
    "HIDDEN",
    "REQUEST_MAX_BYTES",
    "ControllerFileSettings",
    "broker_findings",
    "controller_findings",
    "needed_limit",
    "request_limit_finding",
]

REQUEST_MAX_BYTES: Final = 104_857_600
"""Kafka's default of `socket.request.max.bytes`."""
REQUEST_SHARE: Final = 0.8
HIDDEN: Final = "(hidden)"
"""Stands for a secret that is set."""


def controller_findings(tree: Tree, ours: ControllerFileSettings) -> Iterator[Occurrence]:
    """What ZooKeeper holds and these controllers could not take care of."""
    held = sorted(tree.families.acls)
    if held and ours.authorizer is False:
        yield ACLS_UNHEEDED.found(count=len(held), first=held[0].name)
    elif paths.ACLS in tree.config_paths and ours.authorizer is False:
        yield AUTHORIZER_ABSENT.found(path=paths.ACLS, file=ours.file)
    if tree.families.tokens and ours.level is not None and ours.level < levels.TOKENS:
        yield LEVEL_WITHOUT_TOKENS.found(count=len(tree.families.tokens), level=levels.level_name(ours.level))
    elif tree.families.tokens and ours.token_key is False:
        yield TOKENS_WITHOUT_KEY.found(count=len(tree.families.tokens))
    tiered = sorted(tiered_topics(configs_of(tree)))
    if tiered and ours.remote_storage is False:
        yield CONTROLLERS_WITHOUT_TIERS.found(count=len(tiered), first=tiered[0], file=ours.file)
    yield from _refused_tiers(tree, tiered, ours)


def _refused_tiers(tree: Tree, tiered: Sequence[str], ours: ControllerFileSettings) -> Iterator[Occurrence]:
    """Of what a topic inherits, controllers know the cluster's dynamic defaults and their own file, not the brokers'.

    What is refused whatever it inherits is a finding about the topic (content.py).
    """
    if ours.topic_defaults is None:
        return
    inherited = Inherited(brokers=tree.broker_configs.get("", {}), static=ours.topic_defaults)
    refused = [
        (name, reason)
        for name in tiered
        if name in tree.topics
        and refuse_topic_config(tree.topics[name].config, inherited=TOTAL_UNKNOWN, knows_storage=False) is None
        and (reason := refuse_topic_config(tree.topics[name].config, inherited=inherited, knows_storage=False))
    ]
    if refused:
        first, reason = refused[0]
        yield TIERS_REFUSED.found(count=len(refused), first=first, file=ours.file, reason=reason)


def request_limit_finding(broker: int | str, settings: Mapping[str, str], size: int) -> Occurrence | None:
    """A broker closes the connection on a larger request. size: about how many bytes the full one has."""
    limit = int(settings.get("socket.request.max.bytes", REQUEST_MAX_BYTES))
    if needed_limit(size) <= limit:
        return None
    return TOO_BIG_FOR_ONE_REQUEST.found(bytes=size, broker=broker, limit=limit, needed=needed_limit(size))


def needed_limit(size: int) -> int:
    """What socket.request.max.bytes has to be, with room for what the estimate does not see."""
    return math.ceil(size / REQUEST_SHARE)


def broker_findings(
    broker: int | str, settings: Mapping[str, str], ours: ControllerFileSettings
) -> Iterator[Occurrence]:
    """settings: what an operator set, by key; defaults are left out, and secrets are `HIDDEN`."""
    for key, reason in forbidding(settings, ours):
        yield BROKER_SETTING_FORBIDS.found(broker=broker, key=key, value=settings[key], reason=reason)
    for key, reason in for_later(settings):
        yield BROKER_SETTING_FOR_LATER.found(broker=broker, key=key, value=settings[key], reason=reason)
