"""Which settings of a broker rule out the takeover, and which only have to change before KRaft mode.

In:   what an operator set, by key: as the broker itself answered, or as its file says; and the controllers' side of it.
Out:  keys with reasons.
Elsewhere: asking brokers (node.brokers.survey), reading their files (fleet.takeover_settings), occurrences of findings
(driver.checks.settings).
Rule: one rule judges an answer and a file, so that a file is refused before a restart for what the gate would refuse
after it. What is not known (None) rules out nothing.
Source: Kafka 3.9 `KafkaConfig`, `ServerConfigs`, `ZkConfigs`; docs/cases.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from migrator.model import levels
from migrator.model.connect_string import chroot_of
from migrator.model.topic_rules import REMOTE_SYSTEM

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
DEFAULT_PRINCIPALS: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
PRINCIPALS: Final = "principal.builder.class"
_AUTHORIZER: Final = "authorizer.class.name"
_POLICIES: Final = ("alter.config.policy.class.name", "create.topic.policy.class.name")
TOKEN_KEYS: Final = ("delegation.token.secret.key", "delegation.token.master.key")

ASKED: Final = (
    *(_AUTHORIZER, *_POLICIES, *TOKEN_KEYS, "control.plane.listener.name", PRINCIPALS, REMOTE_SYSTEM),
    *("log.dirs", "socket.request.max.bytes", "zookeeper.connect", "zookeeper.set.acl"),
)
"""Keys that brokers are asked for, and that their files are searched for."""


@dataclass(frozen=True, slots=True)
class ControllerFileSettings:
    """What the brokers' settings are compared with. None: not known.

    file: where it is said, for reports. chroot: of zookeeper.connect, "" for none.
    authorizer, token_key: whether there is one.
    set_acl: whether what they make in ZooKeeper has access lists.
    remote_storage: whether they take tiered topics. topic_defaults: what their topics inherit from the file, `log.*`.
    level: metadata.version of the quorum.
    classes: of Kafka's own controllers, the file in which they name the classes that they run; None: they are ours, and
             run none.
    """

    file: str = "the controllers' files"
    chroot: str | None = ""
    authorizer: bool | None = False
    token_key: bool | None = False
    set_acl: bool | None = False
    remote_storage: bool | None = False
    level: int | None = levels.LATEST
    topic_defaults: Mapping[str, str] | None = None
    classes: Mapping[str, str] | None = None


NOT_KNOWN: Final = ControllerFileSettings(
    chroot=None, authorizer=None, token_key=None, set_acl=None, remote_storage=None, level=None
)


def listener_principals(listener: str) -> str:
    """The key by which one listener has a principal builder of its own."""
    return f"listener.name.{listener.lower()}.{PRINCIPALS}"


def is_principals(key: str) -> bool:
    """Whether the key sets the principals of all listeners, or of one."""
    return key == PRINCIPALS or (key.startswith("listener.name.") and key.endswith(f".{PRINCIPALS}"))


def forbidding(settings: Mapping[str, str], ours: ControllerFileSettings) -> Iterator[tuple[str, str]]:
    """Keys that rule out the takeover, with the reason. settings: of one broker; defaults are left out."""
    connect = settings.get("zookeeper.connect")
    if connect is not None and ours.chroot is not None and chroot_of(connect) != ours.chroot:
        yield "zookeeper.connect", f"the controllers use the chroot {ours.chroot or '/'}"
    if settings.get("zookeeper.set.acl") == "true" and ours.set_acl is False:
        yield "zookeeper.set.acl", f"the broker creates znodes with access lists, and {ours.file} does not set the same"
    if settings.get("zookeeper.set.acl", "false") == "false" and ours.set_acl:
        yield "zookeeper.set.acl", f"{ours.file} sets it, and this broker could not change what the controllers create"
    yield from _deciding(settings, ours)
    for key in TOKEN_KEYS:
        if settings.get(key) and ours.level is not None and ours.level < levels.TOKENS:
            yield key, f"metadata.version {levels.level_name(ours.level)} has no tokens; 3.6-IV2 has"
        elif settings.get(key) and ours.token_key is False:
            yield key, f"{ours.file} sets no key, so in dual-write tokens could not be created, renewed or expired"
    if "," in settings.get("log.dirs", "") and ours.level is not None and ours.level < levels.DIRECTORIES:
        yield "log.dirs", f"metadata.version {levels.level_name(ours.level)} knows no directories; 3.7-IV2 does"
    if settings.get(REMOTE_SYSTEM) == "true" and ours.remote_storage is False:
        yield (
            REMOTE_SYSTEM,
            f"{ours.file} does not set it, so in dual-write no tiered topic could be created or changed",
        )


def _deciding(settings: Mapping[str, str], ours: ControllerFileSettings) -> Iterator[tuple[str, str]]:
    """Classes that decide on requests, which controllers would have to run in dual-write."""
    if ours.classes is not None:
        yield from _other_classes(settings, ours.file, ours.classes)
        return
    authorizer = settings.get(_AUTHORIZER)
    if authorizer and authorizer != ACL_AUTHORIZER:
        yield _AUTHORIZER, "it is unknown where this class keeps its ACLs and what KRaft mode makes of them"
    elif authorizer and ours.authorizer is False:
        yield _AUTHORIZER, f"{ours.file} sets no authorizer, so in dual-write every client could change the cluster"
    for key in _POLICIES:
        if settings.get(key):
            yield key, "in dual-write controllers decide on such requests, and this release runs no policy class"
    for key in sorted(filter(is_principals, settings)):
        if settings[key] not in ("", DEFAULT_PRINCIPALS):
            yield key, "controllers read the principals of Kafka's own builder only"


def _other_classes(settings: Mapping[str, str], file: str, classes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Kafka's own controllers run what their file names, and have to name what brokers run: from dual-write on they
    decide. An authorizer reads its ACLs in ZooKeeper or in the log, so that only its absence is told.
    """
    if settings.get(_AUTHORIZER) and not classes.get(_AUTHORIZER):
        yield _AUTHORIZER, f"{file} sets no authorizer, so in dual-write every client could change the cluster"
    for key in (*_POLICIES, *sorted(filter(is_principals, settings))):
        wanted = settings.get(key)
        if wanted and wanted != DEFAULT_PRINCIPALS and classes.get(key) != wanted:
            yield key, f"{file} has {classes.get(key) or 'none'}, and in dual-write controllers decide on such requests"


def has_no_way(key: str, value: object) -> bool:
    """Whether it rules out the takeover whatever is changed around it: a class that controllers would have to run."""
    return key in _POLICIES or is_principals(key) or (key == _AUTHORIZER and value != ACL_AUTHORIZER)


def for_later(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Keys that do no harm before the broker runs in KRaft mode, with the reason."""
    if settings.get("control.plane.listener.name"):
        yield "control.plane.listener.name", "a broker in KRaft mode does not start with it"
    if settings.get(_AUTHORIZER) == ACL_AUTHORIZER:
        yield _AUTHORIZER, "in KRaft mode it has to be Kafka's StandardAuthorizer, with the same super.users"
