"""Do the settings of controllers and brokers go together, and with what ZooKeeper holds?

In:   what this controller's file says (`ControllerFileSettings`), what each broker says that it was set to, the tree.
Out:  occurrences of findings; what only has to change before a broker runs in KRaft mode is a warning.
Elsewhere: asking brokers (node.survey), reading files (node.config), the configuration in ZooKeeper (content.py).
Limits: brokers do not show values of keys that Kafka has no type for (`super.users`), nor secrets; of a secret it is
seen whether it is set.
Source: Kafka 3.9 `KafkaConfig`, `ServerConfigs`, `ZkConfigs`; docs/cases.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
)
from migrator.model import levels
from migrator.model.topic_rules import REMOTE_SYSTEM
from migrator.zk import paths

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
DEFAULT_PRINCIPALS: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_AUTHORIZER: Final = "authorizer.class.name"
_POLICIES: Final = ("alter.config.policy.class.name", "create.topic.policy.class.name")
_TOKEN_KEYS: Final = ("delegation.token.secret.key", "delegation.token.master.key")

ASKED: Final = (
    *(_AUTHORIZER, *_POLICIES, *_TOKEN_KEYS, "control.plane.listener.name", "principal.builder.class", REMOTE_SYSTEM),
    *("log.dirs", "socket.request.max.bytes", "zookeeper.connect", "zookeeper.set.acl"),
)
"""Keys that brokers are asked for."""
REQUEST_MAX_BYTES: Final = 104_857_600
"""Kafka's default of `socket.request.max.bytes`."""
REQUEST_SHARE: Final = 0.8
HIDDEN: Final = "(hidden)"
"""Stands for a secret that is set."""


@dataclass(frozen=True, slots=True)
class ControllerFileSettings:
    """What the brokers' settings are compared with.

    file: where it is said, for reports. chroot: of zookeeper.connect, "" for none.
    authorizer, token_key: whether there is one.
    set_acl: whether what they make in ZooKeeper has access lists.
    remote_storage: whether they take tiered topics. level: metadata.version of the quorum.
    """

    file: str = "the controllers' files"
    chroot: str = ""
    authorizer: bool = False
    token_key: bool = False
    set_acl: bool = False
    remote_storage: bool = False
    level: int = levels.LATEST


def controller_findings(tree: Tree, ours: ControllerFileSettings) -> Iterator[Occurrence]:
    """What ZooKeeper holds and these controllers could not take care of."""
    held = sorted(tree.families.acls)
    if held and not ours.authorizer:
        yield ACLS_UNHEEDED.found(count=len(held), first=held[0].name)
    elif paths.ACLS in tree.config_paths and not ours.authorizer:
        yield AUTHORIZER_ABSENT.found(path=paths.ACLS, file=ours.file)
    if tree.families.tokens and ours.level < levels.TOKENS:
        yield LEVEL_WITHOUT_TOKENS.found(count=len(tree.families.tokens), level=levels.level_name(ours.level))
    elif tree.families.tokens and not ours.token_key:
        yield TOKENS_WITHOUT_KEY.found(count=len(tree.families.tokens))
    tiered = sorted(tiered_topics(configs_of(tree)))
    if tiered and not ours.remote_storage:
        yield CONTROLLERS_WITHOUT_TIERS.found(count=len(tiered), first=tiered[0], file=ours.file)


def request_limit_finding(broker: int, settings: Mapping[str, str], size: int) -> Occurrence | None:
    """A broker closes the connection on a larger request. size: about how many bytes the full one has."""
    limit = int(settings.get("socket.request.max.bytes", REQUEST_MAX_BYTES))
    if needed_limit(size) <= limit:
        return None
    return TOO_BIG_FOR_ONE_REQUEST.found(bytes=size, broker=broker, limit=limit, needed=needed_limit(size))


def needed_limit(size: int) -> int:
    """What socket.request.max.bytes has to be, with room for what the estimate does not see."""
    return math.ceil(size / REQUEST_SHARE)


def broker_findings(broker: int, settings: Mapping[str, str], ours: ControllerFileSettings) -> Iterator[Occurrence]:
    """settings: what an operator set, by key; defaults are left out, and secrets are `HIDDEN`."""
    for key, reason in _forbidding(settings, ours):
        yield BROKER_SETTING_FORBIDS.found(broker=broker, key=key, value=settings[key], reason=reason)
    for key, reason in _for_later(settings):
        yield BROKER_SETTING_FOR_LATER.found(broker=broker, key=key, value=settings[key], reason=reason)


def _forbidding(settings: Mapping[str, str], ours: ControllerFileSettings) -> Iterator[tuple[str, str]]:
    connect = settings.get("zookeeper.connect")
    if connect is not None and paths.chroot_of(connect) != ours.chroot:
        yield "zookeeper.connect", f"the controllers use the chroot {ours.chroot or '/'}"
    if settings.get("zookeeper.set.acl") == "true" and not ours.set_acl:
        yield "zookeeper.set.acl", f"the broker creates znodes with access lists, and {ours.file} does not set the same"
    if settings.get("zookeeper.set.acl", "false") == "false" and ours.set_acl:
        yield "zookeeper.set.acl", f"{ours.file} sets it, and this broker could not change what the controllers create"
    authorizer = settings.get(_AUTHORIZER)
    if authorizer and authorizer != ACL_AUTHORIZER:
        yield _AUTHORIZER, "it is unknown where this class keeps its ACLs and what KRaft mode makes of them"
    elif authorizer and not ours.authorizer:
        yield _AUTHORIZER, f"{ours.file} sets no authorizer, so in dual-write every client could change the cluster"
    for key in _POLICIES:
        if settings.get(key):
            yield key, "in dual-write controllers decide on such requests, and this release runs no policy class"
    for key in _TOKEN_KEYS:
        if settings.get(key) and ours.level < levels.TOKENS:
            yield key, f"metadata.version {levels.level_name(ours.level)} has no tokens; 3.6-IV2 has"
        elif settings.get(key) and not ours.token_key:
            yield key, f"{ours.file} sets no key, so in dual-write tokens could not be created, renewed or expired"
    if "," in settings.get("log.dirs", "") and ours.level < levels.DIRECTORIES:
        yield "log.dirs", f"metadata.version {levels.level_name(ours.level)} knows no directories; 3.7-IV2 does"
    if settings.get(REMOTE_SYSTEM) == "true" and not ours.remote_storage:
        yield (
            REMOTE_SYSTEM,
            f"{ours.file} does not set it, so in dual-write no tiered topic could be created or changed",
        )
    if settings.get("principal.builder.class", DEFAULT_PRINCIPALS) != DEFAULT_PRINCIPALS:
        yield "principal.builder.class", "controllers read the principals of Kafka's own builder only"


def _for_later(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if settings.get("control.plane.listener.name"):
        yield "control.plane.listener.name", "a broker in KRaft mode does not start with it"
    if settings.get(_AUTHORIZER) == ACL_AUTHORIZER:
        yield _AUTHORIZER, "in KRaft mode it has to be Kafka's StandardAuthorizer, with the same super.users"
