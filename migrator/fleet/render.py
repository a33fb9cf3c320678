"""From a node's present file the next one: for the migration, for KRaft, for stock, without ZooKeeper, and back.

In:   a document (properties_file.py), and `Wanted`: what the inventory says about the cluster.
Out:  `Rendered`: the next document, what changed and why, findings. Blocking findings: do not write it.
Elsewhere: reading and writing files on nodes (files.py), Kafka's own opinion (kafka_parser.py).
Rules: `RULES`, applied in their order. Every other key, comment and line stays where it is. Rendering twice is
rendering once. Source: Kafka 3.9 `KafkaConfig`, its operations page, `docs/inventory.md`.
"""

from __future__ import annotations

import difflib
import hashlib
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, assert_never

from migrator.findings.finding import FindingError, Occurrence, Severity
from migrator.findings.fleet import (
    FILE_CONFLICT,
    METADATA_DIRECTORY_SHARED,
    PROPERTIES_KEY_TWICE,
    RENDER_REFUSED,
    RENDER_UNSURE,
)
from migrator.fleet.joins import Controllers, joining_findings, same_name_findings
from migrator.fleet.properties_file import Document, has_placeholder, joined, names_in
from migrator.fleet.takeover_settings import forbidding_findings, not_judged
from migrator.model.broker_settings import NOT_KNOWN
from migrator.model.connect_string import chroot_of
from migrator.model.hidden_keys import is_hidden
from migrator.model.levels import LEVELS
from migrator.model.listeners import (
    DEFAULT_MAP,
    BadListeners,
    inter_broker_listener,
    mapped,
    normalised,
    protocols_of,
)
from migrator.model.values import SecurityProtocol

FLAG: Final = "zookeeper.metadata.migration.enable"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
DEFAULT_LOG_DIR: Final = "/tmp/kafka-logs"


class FileKind(StrEnum):
    """Which file is wanted. MIGRATION, KRAFT, BACK, ORIGINAL: of a broker. STOCK, FINALIZED, BACK: of a controller.

    BACK: a broker's migration file again. ORIGINAL: the file from before its migration file.
    """

    MIGRATION = "migration"
    KRAFT = "kraft"
    STOCK = "stock"
    FINALIZED = "finalized"
    BACK = "back"
    ORIGINAL = "original"


class Action(StrEnum):
    """What a rule does with a key.

    SET: has this value; one that cannot be filled in leaves the key as it is.
    DEFAULT: the same, only where the key is missing.
    EXTEND: a list has these entries as well.
    REPLACE: one value becomes another; further values stay.
    RENAME: the same value under another key, at the same place.
    REMOVE, KEEP: as they say. NEED: the file has to have it, or nothing is written.
    """

    SET = "set"
    DEFAULT = "default"
    EXTEND = "extend"
    REPLACE = "replace"
    RENAME = "rename"
    REMOVE = "remove"
    KEEP = "keep"
    NEED = "need"


@dataclass(frozen=True, slots=True)
class RenderRule:
    """key: a name, or the beginning of names with `*` at the end. value: `{name}` is a field of `Wanted`.

    since: the first Kafka version in which the reason holds.
    """

    key: str
    action: Action
    value: str
    reason: str
    since: str

    def is_about(self, key: str) -> bool:
        return key.startswith(self.key[:-1]) if self.key.endswith("*") else key == self.key


_QUORUM: Final = (
    RenderRule("controller.quorum.voters", Action.SET, "{voters}", "the broker finds the controllers by it", "3.0"),
    RenderRule("controller.listener.names", Action.SET, "{controller_listener}", "on which controllers listen", "3.0"),
    RenderRule(
        "listener.security.protocol.map",
        Action.EXTEND,
        "{controller_listener}:{controller_protocol}",
        "outside KRaft it has no default",
        "3.4",
    ),
    RenderRule("sasl.mechanism.controller.protocol", Action.DEFAULT, "{sasl_mechanism}", "GSSAPI otherwise", "3.0"),
    RenderRule("controller.quorum.voters", Action.NEED, "", "without it no controller is found", "3.0"),
    RenderRule("controller.listener.names", Action.NEED, "", "without it no controller is found", "3.0"),
)
_SUPER_USERS: Final = RenderRule(
    "super.users", Action.EXTEND, "{super_users}", "controllers and brokers act on the cluster", "3.4"
)
_NO_ZOOKEEPER: Final = RenderRule(
    "zookeeper.*", Action.REMOVE, "", "with the flag, any directory failure would halt a KRaft broker", "3.7"
)
_TOKEN_KEY: Final = RenderRule(
    "delegation.token.master.key", Action.RENAME, "delegation.token.secret.key", "the one name that 4.0 knows", "3.0"
)
_OURS: Final = RenderRule("zk2kraft.*", Action.REMOVE, "", "only our controllers know these keys", "3.9")

_MIGRATION: Final = (
    RenderRule("broker.id", Action.NEED, "", "the id has to be in the file; a generated one is not migrated", "3.4"),
    RenderRule("zookeeper.connect", Action.NEED, "", "a broker in migration mode still lives in ZooKeeper mode", "3.4"),
    RenderRule(
        "inter.broker.protocol.version", Action.DEFAULT, "{metadata_version}", "it equals metadata.version", "3.4"
    ),
    RenderRule("inter.broker.protocol.version", Action.NEED, "", "unset, it follows the installed software", "3.4"),
    RenderRule(FLAG, Action.SET, "true", "the broker registers with the KRaft controllers", "3.4"),
    *_QUORUM,
    _SUPER_USERS,
    RenderRule("control.plane.listener.name", Action.KEEP, "", "allowed until the broker runs in KRaft mode", "3.9"),
)
_KRAFT: Final = (
    RenderRule("process.roles", Action.SET, "broker", "it makes the node a KRaft broker", "3.0"),
    RenderRule("broker.id", Action.RENAME, "node.id", "the same number; meta.properties stays as it is", "3.0"),
    RenderRule("node.id", Action.NEED, "", "a KRaft broker has no generated id", "3.0"),
    *_QUORUM,
    _NO_ZOOKEEPER,
    RenderRule("authorizer.zookeeper.*", Action.REMOVE, "", "AclAuthorizer's own connection", "3.0"),
    RenderRule("inter.broker.protocol.version", Action.REMOVE, "", "metadata.version stands in its place", "3.3"),
    RenderRule("control.plane.listener.name", Action.REMOVE, "", "refused in KRaft mode", "3.0"),
    RenderRule(
        "broker.id.generation.enable", Action.REMOVE, "", "ids come from ZooKeeper only in ZooKeeper mode", "3.0"
    ),
    RenderRule("reserved.broker.max.id", Action.REMOVE, "", "ids come from ZooKeeper only in ZooKeeper mode", "3.0"),
    RenderRule("authorizer.class.name", Action.REPLACE, "{standard_authorizer}", "ACLs are in the metadata log", "3.2"),
    _SUPER_USERS,
    _TOKEN_KEY,
    RenderRule("metadata.log.dir", Action.KEEP, "", "formatted already; another one would lack meta.properties", "3.0"),
    RenderRule("password.encoder.*", Action.KEEP, "", "unused in KRaft mode, needed for the way back", "3.9"),
)
_UNKRAFT: Final = (
    RenderRule("process.roles", Action.REMOVE, "", "without it the broker runs in ZooKeeper mode", "3.0"),
    RenderRule("node.id", Action.RENAME, "broker.id", "the same number", "3.0"),
    RenderRule("zookeeper.connect", Action.DEFAULT, "{zookeeper}", "where the broker registers", "3.0"),
    RenderRule("authorizer.class.name", Action.REPLACE, "{acl_authorizer}", "ACLs are read from ZooKeeper", "3.0"),
)
_STOCK: Final = (
    RenderRule("process.roles", Action.NEED, "", "a stock controller in our place is a controller only", "3.0"),
    RenderRule("node.id", Action.NEED, "", "same id, same directory", "3.0"),
    RenderRule("controller.quorum.voters", Action.NEED, "", "voters are static until the end", "3.0"),
    RenderRule("zookeeper.connect", Action.NEED, "", "Kafka refuses the flag without it", "3.4"),
    RenderRule(FLAG, Action.SET, "true", "without it the next election ends the migration for good", "3.4"),
    RenderRule("password.encoder.*", Action.KEEP, "", "stock copies brokers' encoded passwords with them", "3.4"),
    _OURS,
)
_FINALIZED: Final = (
    RenderRule("process.roles", Action.NEED, "", "a controller", "3.0"),
    RenderRule("node.id", Action.NEED, "", "same id, same directory", "3.0"),
    RenderRule("controller.quorum.voters", Action.NEED, "", "voters are static until the end", "3.0"),
    RenderRule(
        "zookeeper.*", Action.REMOVE, "", "flag and address of ZooKeeper; the migration ends with this file", "3.4"
    ),
    _TOKEN_KEY,
    _OURS,
)

RULES: Final[Mapping[tuple[str, FileKind], tuple[RenderRule, ...]]] = {
    ("broker", FileKind.MIGRATION): _MIGRATION,
    ("broker", FileKind.KRAFT): _KRAFT,
    ("broker", FileKind.BACK): (*_UNKRAFT, *_MIGRATION),
    ("broker", FileKind.ORIGINAL): (),
    ("controller", FileKind.STOCK): _STOCK,
    ("controller", FileKind.FINALIZED): _FINALIZED,
    ("controller", FileKind.BACK): (),
}
"""By role and kind. The way back of a controller, and a broker's original file, have no rules: the predecessor is
written again, with later changes.
"""

AUTHORIZERS: Final = {
    "{standard_authorizer}": (STANDARD_AUTHORIZER, (ACL_AUTHORIZER, "kafka.security.auth.SimpleAclAuthorizer")),
    "{acl_authorizer}": (ACL_AUTHORIZER, (STANDARD_AUTHORIZER,)),
}
"""Of a REPLACE: the new value, and the values that it takes the place of."""

_OF_THE_MODE: Final = frozenset({"process.roles", "node.id", "broker.id", "authorizer.class.name", FLAG})
"""Never taken for a change that somebody made since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the files of a cluster have to say. Empty: nothing is said, and the file's own value stays.

    voters:            `controller.quorum.voters`.
    zookeeper:         connect string with chroot.
    metadata_version:  as `inter.broker.protocol.version` has it, such as "3.9".
    super_users:       principals of controllers and brokers.
    passwords_encoded: brokers' dynamic configuration holds encoded passwords.
    controllers:       of each controller on the same host, its directories.
    node:              id in the inventory; None when it is not compared.
    stock:             Kafka's own controllers take over, which run the classes that brokers have.
    """

    voters: str = ""
    controller_listener: str = ""
    controller_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    zookeeper: str = ""
    metadata_version: str = ""
    super_users: tuple[str, ...] = ()
    passwords_encoded: bool = False
    controllers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    node: int | None = None
    stock: bool = False


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key that a rule changed; its value is in no message."""

    key: str
    action: Action
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """present: what it was rendered from. document: the next file."""

    role: str
    kind: FileKind
    present: Document
    document: Document
    changes: tuple[KeyChange, ...]
    findings: tuple[Occurrence, ...]

    @property
    def content(self) -> bytes:
        return self.document.content

    @property
    def checksum(self) -> str:
        """SHA-256 of the content, in hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def blocked(self) -> bool:
        return any(each.finding.severity is Severity.BLOCKS for each in self.findings)

    def require(self) -> Rendered:
        """Raises the first blocking finding."""
        for each in self.findings:
            if each.finding.severity is Severity.BLOCKS:
                raise FindingError(each)
        return self

    def diff(self) -> list[str]:
        """A unified diff for people, secrets hidden."""
        return list(
            difflib.unified_diff(
                self.present.shown(),
                self.document.shown(),
                f"{self.present.name} (present)",
                f"{self.present.name} ({self.kind})",
                lineterm="",
            )
        )


def render(role: str, present: Document, kind: FileKind, wanted: Wanted, before: Document | None = None) -> Rendered:
    """role: `broker` or `controller`. before: for BACK, the kept predecessor of the present file; for ORIGINAL, that of
    the migration file.
    """
    assert (role, kind) in RULES, f"a {role} has no {kind} file"
    start, rules = present, RULES[role, kind]
    conflicts: tuple[Occurrence, ...] = ()
    if kind is FileKind.BACK and before is not None:
        start = _carried(role, present, before, wanted, FileKind.KRAFT if role == "broker" else FileKind.STOCK)
    if kind is FileKind.ORIGINAL and before is not None:
        start = _original(present, before, wanted)
    if rules is RULES["broker", FileKind.BACK] and start.value("process.roles") is None:
        rules = _MIGRATION  # the predecessor, or back already
    document, changes = _applied(rules, start, wanted)
    if before is not None and kind is FileKind.BACK:
        forward = FileKind.KRAFT if role == "broker" else FileKind.STOCK
        conflicts = tuple(_conflicts(role, present, before, wanted, forward))
    findings = (*_repeated(document), *conflicts, *_CHECKS[role](present, document, kind, wanted, before))
    return Rendered(role, kind, present, document, changes, tuple(findings))


# --- rules ------------------------------------------------------------------------------------------------


def _applied(
    rules: tuple[RenderRule, ...], document: Document, wanted: Wanted
) -> tuple[Document, tuple[KeyChange, ...]]:
    changes = []
    for rule in rules:
        after = _with_rule(rule, document, wanted)
        if after.lines != document.lines:
            changes += [
                KeyChange(key, rule.action, rule.reason, rule.since)
                for key in sorted({*document.values, *after.values})
                if document.value(key) != after.value(key)
            ]
        document = after
    return document, tuple(changes)


def _with_rule(rule: RenderRule, document: Document, wanted: Wanted) -> Document:
    match rule.action:
        case Action.KEEP | Action.NEED:
            return document
        case Action.REMOVE:
            return document.without(rule.is_about)
        case Action.RENAME:
            both = document.value(rule.value) is not None
            return document.without(rule.is_about) if both else document.renamed(rule.key, rule.value)
        case Action.REPLACE:
            new, old = AUTHORIZERS[rule.value]
            return document.with_values({rule.key: new}) if document.value(rule.key) in old else document
        case Action.SET | Action.DEFAULT:
            value = _filled(rule.value, wanted)
            is_there = rule.action is Action.DEFAULT and document.value(rule.key) is not None
            return document if is_there or not value else document.with_values({rule.key: value})
        case Action.EXTEND:
            return _extended(rule, document, wanted)
        case _:
            assert_never(rule.action)


def _filled(value: str, wanted: Wanted) -> str:
    """ "" when a field that it names is empty."""
    fields = {
        "voters": wanted.voters,
        "controller_listener": wanted.controller_listener.upper(),
        "sasl_mechanism": wanted.sasl_mechanism,
        "zookeeper": wanted.zookeeper,
        "metadata_version": wanted.metadata_version,
    }
    return value if "{" not in value else fields[value.strip("{}")]


def _extended(rule: RenderRule, document: Document, wanted: Wanted) -> Document:
    """The map gets the controllers' listener where it lacks it; super users are added where an authorizer asks."""
    present = document.value(rule.key)
    if rule.key == "super.users":
        if document.value("authorizer.class.name") is None:
            return document
        names = names_in(present, ";")
        more = [name for name in wanted.super_users if name not in names]
        return document.with_values({rule.key: joined((*names, *more), ";")}) if more else document
    entries = names_in(present or DEFAULT_MAP)
    named = {entry.name for entry in mapped(present or DEFAULT_MAP)}
    listeners = [normalised(wanted.controller_listener)] if wanted.controller_listener else []
    more = [f"{name}:{wanted.controller_protocol}" for name in listeners if name not in named]
    return document.with_values({rule.key: joined((*entries, *more))}) if more else document


def _original(present: Document, before: Document, wanted: Wanted) -> Document:
    """What the migration file was rendered from, with later changes. Keys that the migration needs are as they were;
    changes of a KRaft file stay in it, since it has other keys.
    """
    if present.value("process.roles") is not None or present.lines == before.lines:
        return Document(present.name, before.lines)
    carried = _carried("broker", present, before, wanted, FileKind.MIGRATION)
    needed = {rule.key for rule in _MIGRATION}
    values = {key: value for key in needed if (value := before.value(key)) is not None}
    return carried.without(lambda key: key in needed and key not in values).with_values(values)


def _carried(role: str, present: Document, before: Document, wanted: Wanted, forward: FileKind) -> Document:
    """The predecessor, with every change that somebody made to the present file since it was rendered from it.

    A key that is missing in the present file is no change that is kept: a file that was cut lacks keys as well.
    forward: the kind of the present file.
    """
    back_already = forward is FileKind.KRAFT and present.value("process.roles") is None
    if back_already and not before.values.keys() - present.values.keys():
        return present
    rendered, _ = _applied(RULES[role, forward], before, wanted)
    since = {
        key: value
        for key, value in present.values.items()
        if rendered.value(key) != value and key not in _OF_THE_MODE and before.value(key) != value
    }
    return Document(present.name, before.with_values(since).lines)


def _conflicts(
    role: str, present: Document, before: Document, wanted: Wanted, forward: FileKind
) -> Iterator[Occurrence]:
    """Keys that the migration changed and somebody else too. What a rule extends has the changes of both."""
    if forward is FileKind.KRAFT and present.value("process.roles") is None:
        return  # not the file that the migration wrote: only one side changed it
    rendered, _ = _applied(RULES[role, forward], before, wanted)
    extended = {rule.key for rule in RULES[role, forward] if rule.action is Action.EXTEND}
    for key, found in present.values.items():
        was, written = before.value(key), rendered.value(key)
        if was is None or was == written or found in (was, written) or key in _OF_THE_MODE | extended:
            continue
        shown = ["(hidden)" if is_hidden(key) else each or "absent" for each in (was, written, found)]
        yield FILE_CONFLICT.found(file=present.name, key=key, before=shown[0], written=shown[1], found=shown[2])


# --- checks -----------------------------------------------------------------------------------------------


def _repeated(document: Document) -> Iterator[Occurrence]:
    for key, times in document.repeated().items():
        yield PROPERTIES_KEY_TWICE.found(file=document.name, key=key, times=times)


def _check_broker(
    present: Document, document: Document, kind: FileKind, wanted: Wanted, before: Document | None
) -> Iterator[Occurrence]:
    def refused(key: str, reason: str) -> Occurrence:
        return RENDER_REFUSED.found(file=document.name, kind=kind, key=key, reason=reason)

    def unsure(key: str, reason: str) -> Occurrence:
        return RENDER_UNSURE.found(file=document.name, kind=kind, key=key, reason=reason)

    roles = names_in(present.value("process.roles"))
    if kind is FileKind.MIGRATION and roles:
        yield refused("process.roles", f"the node has roles ({joined(roles)}), so it is in KRaft mode already")
    if "controller" in roles:
        yield refused("process.roles", "the node is a controller too; combined nodes are not migrated")
    if kind is FileKind.ORIGINAL and before is None:
        yield refused("zookeeper.connect", "the file from before the migration is in the predecessor only (--before)")
    if kind is FileKind.BACK and roles and before is None:
        reason = "without the predecessor (--before) other zookeeper keys, such as TLS, are not there again"
        yield unsure("zookeeper.connect", reason)
    yield from _missing(RULES["broker", kind], document, kind, wanted.node)
    yield from _check_identity(present, document, wanted, refused)
    if kind is FileKind.MIGRATION:
        controllers = Controllers(wanted.controller_listener, wanted.controller_protocol, wanted.sasl_mechanism)
        yield from joining_findings(document, controllers, refused, unsure)
    if kind is FileKind.KRAFT:
        yield from same_name_findings(document, refused)
    ibp = document.value("inter.broker.protocol.version")
    as_found = kind is FileKind.ORIGINAL
    if ibp and wanted.metadata_version and not as_found and not _same_version(ibp, wanted.metadata_version):
        reason = f"it is {ibp}, and the controllers have metadata.version {wanted.metadata_version}"
        yield refused("inter.broker.protocol.version", reason)
    yield from _check_authorizer(document, kind, unsure)
    if kind is FileKind.MIGRATION:
        yield from _check_takeover(document, wanted, unsure)
    yield from _check_directories(document, wanted)


def _check_controller(
    present: Document, document: Document, kind: FileKind, wanted: Wanted, before: Document | None
) -> Iterator[Occurrence]:
    def refused(key: str, reason: str) -> Occurrence:
        return RENDER_REFUSED.found(file=document.name, kind=kind, key=key, reason=reason)

    if names_in(document.value("process.roles")) not in ((), ("controller",)):
        yield refused("process.roles", "it is not exactly: controller")
    if kind is FileKind.BACK and before is None:
        yield refused("zk2kraft.*", "our own keys are in the predecessor only (--before)")
    yield from _missing(RULES["controller", kind], document, kind, wanted.node)
    yield from _check_identity(present, document, wanted, refused)
    if kind is FileKind.STOCK and wanted.passwords_encoded and document.value("password.encoder.secret") is None:
        yield refused("password.encoder.secret", "brokers have encoded passwords; stock would copy them as they are")
    if document.value("controller.quorum.bootstrap.servers"):
        yield refused("controller.quorum.bootstrap.servers", "dynamic voters are no part of the migration")
    if kind in (FileKind.STOCK, FileKind.FINALIZED):
        yield from _check_mechanism(document, refused)


def _check_mechanism(document: Document, refused: Callable[[str, str], Occurrence]) -> Iterator[Occurrence]:
    """Stock ends at its start where the mechanism between brokers is not enabled, on a controller as well."""
    try:
        listener, protocol = inter_broker_listener(document.values, protocols_of(document.values))
    except BadListeners as error:
        if not has_placeholder(document.value(error.key) or ""):
            yield refused(error.key, error.reason)
        return
    if protocol not in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL):
        return
    key = f"listener.name.{listener.lower()}.sasl.enabled.mechanisms"
    enabled = names_in(document.value(key) or document.value("sasl.enabled.mechanisms") or "GSSAPI")
    mechanism = document.value("sasl.mechanism.inter.broker.protocol") or "GSSAPI"
    if mechanism not in enabled and not any(map(has_placeholder, (mechanism, *enabled))):
        yield refused("sasl.mechanism.inter.broker.protocol", f"stock does not start without {key}={mechanism}")


_CHECKS: Final = {"broker": _check_broker, "controller": _check_controller}


def _missing(
    rules: tuple[RenderRule, ...], document: Document, kind: FileKind, node: int | None
) -> Iterator[Occurrence]:
    """node: its id in the inventory. One that only the command line of the process has (`--override`) is not enough."""
    for rule in rules:
        if rule.action is Action.NEED and not document.value(rule.key):
            if rule.key == "broker.id" and document.value("node.id"):
                continue  # the same key to Kafka
            reason = f"it is missing, and the inventory does not say it ({rule.reason})"
            if node is not None and rule.key in ("broker.id", "node.id"):
                reason = (
                    f"it is missing in the file; the inventory says {node}: write {rule.key}={node} ({rule.reason})"
                )
            yield RENDER_REFUSED.found(file=document.name, kind=kind, key=rule.key, reason=reason)


def _check_identity(
    present: Document, document: Document, wanted: Wanted, refused: Callable[[str, str], Occurrence]
) -> Iterator[Occurrence]:
    ids = {key: value for key in ("broker.id", "node.id") if (value := present.value(key)) is not None}
    if len(set(ids.values())) > 1:
        yield refused("node.id", f"it is {ids['node.id']}, and broker.id is {ids['broker.id']}")
    for key, value in ids.items():
        if wanted.node is not None and not has_placeholder(value) and value != str(wanted.node):
            yield refused(key, f"it is {value}, the inventory says {wanted.node}")
        elif not has_placeholder(value) and not value.isdecimal():
            yield refused(key, f"{value} is no id; generated ids are not migrated")
    roles = names_in(document.value("process.roles"))
    own = ids.get("node.id", ids.get("broker.id"))
    voters = {voter.partition("@")[0] for voter in names_in(document.value("controller.quorum.voters"))}
    if roles == ("broker",) and own in voters:
        yield refused("controller.quorum.voters", f"it names this broker ({own})")
    if roles == ("controller",) and voters and own is not None and not has_placeholder(own) and own not in voters:
        yield refused("controller.quorum.voters", f"it does not name this node ({own})")


def _check_authorizer(
    document: Document, kind: FileKind, unsure: Callable[[str, str], Occurrence]
) -> Iterator[Occurrence]:
    name = document.value("authorizer.class.name")
    if kind is FileKind.KRAFT and name not in (None, "", STANDARD_AUTHORIZER):
        yield unsure("authorizer.class.name", f"{name} is no class of Kafka's; it may read ACLs from ZooKeeper")
    if name and has_placeholder(document.value("super.users") or ""):
        yield unsure("super.users", "a part comes from a config provider, so nobody knows whether it names all brokers")


def _check_takeover(
    document: Document, wanted: Wanted, unsure: Callable[[str, str], Occurrence]
) -> Iterator[Occurrence]:
    """A broker with such a file would be restarted for a takeover that its gate then refuses."""
    level = _level(wanted.metadata_version or document.value("inter.broker.protocol.version") or "")
    known = replace(
        NOT_KNOWN,
        chroot=chroot_of(wanted.zookeeper) if wanted.zookeeper else None,
        level=level if isinstance(level, int) else None,
        classes=document.values if wanted.stock else None,
    )
    yield from forbidding_findings(document, wanted.node, known)
    for key in not_judged(document):
        yield unsure(key, "it comes from a config provider, so only the gate before the takeover knows whether it fits")


def _check_directories(document: Document, wanted: Wanted) -> Iterator[Occurrence]:
    logs = names_in(document.value("log.dirs") or document.value("log.dir") or DEFAULT_LOG_DIR)
    metadata = document.value("metadata.log.dir") or logs[0]
    for directory in dict.fromkeys((metadata, *logs)):
        for node, others in wanted.controllers.items():
            for other in others:
                if _is_within(directory, other):
                    yield METADATA_DIRECTORY_SHARED.found(
                        file=document.name, directory=directory, other=other, node=node
                    )


def _is_within(path: str, directory: str) -> bool:
    one, other = posixpath.normpath(path), posixpath.normpath(directory)
    return one == other or one.startswith(other.rstrip("/") + "/")


def _same_version(one: str, other: str) -> bool:
    """A release stands for its last level, as in Kafka; a name that nobody knows equals itself."""
    return _level(one) == _level(other)


def _level(version: str) -> int | str:
    name = ".".join(version.split(".")[:2])
    found = [level for level, known in LEVELS.items() if known == name or known.startswith(f"{name}-")]
    return max(found, default=0) or version
