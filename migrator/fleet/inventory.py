"""The inventory: which nodes a cluster has, where their files are, and how each is operated.

In:   a YAML document.
Out:  an `Inventory`; `check_inventory` says what contradicts itself; `wanted_of` what rendered files have to say.
Elsewhere: making one from other files (importing.py), reading secrets (secrets.py), acting (actuators.py).
Errors: Z2K-7001, Z2K-7002 with the place in the document, and the findings of its checks.
Rules: it holds no secret. docs/reference/inventory.schema.json is generated from these structs.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.fleet import (
    CFK_MANAGED,
    IMPORT_PLACEHOLDER,
    INVENTORY_HOLDS_SECRET,
    INVENTORY_INVALID,
    INVENTORY_UNREADABLE,
    NOT_FROZEN,
    OPERATOR_MANAGED,
    STATEFULSET_UNSAFE,
    STRIMZI_MANAGED,
    WAIVER_ENDED,
)
from migrator.fleet.render import Wanted
from migrator.fleet.secrets import is_reference
from migrator.fleet.strict_yaml import YamlRefused, load_yaml
from migrator.fleet.unfilled import is_unfilled
from migrator.model.connect_string import BROKER_ADDRESSES_MAX
from migrator.model.hidden_keys import SECRET_WORDS

VERSION: Final = 1
NODES_MAX: Final = 1_000
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SECRET_NAMES: Final = (*SECRET_WORDS, "passwd", "token", "private_key")

Text = Annotated[str, Meta(max_length=1_000)]
Reason = Annotated[str, Meta(min_length=1, max_length=1_000)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,252}$")]
"""Never begins with a dash, so that it is no option of a command."""
Host = Annotated[
    str,
    Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9._\-]{0,252}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{1,44})$"),
]
"""A name, an IPv4 address, or an IPv6 address without brackets."""
FilePath = Annotated[str, Meta(pattern=r"^/[^\x00-\x1f]{1,1000}$")]
NodeId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Seconds = Annotated[int, Meta(ge=1, le=7 * 86_400)]
Reference = Annotated[
    str, Meta(description="file:/PATH, exec:/COMMAND ARGUMENT... or systemd:NAME; never the secret itself")
]
Clock = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$", description="HH:MM in UTC")]
Moment = Annotated[datetime, Meta(tz=True, description="RFC 3339 with a time zone, such as 2026-11-24T10:00:00Z")]
ConnectString = Annotated[str, Meta(pattern=r"^[!-~]+$", max_length=2_000)]
BrokerAddresses = Annotated[str, Meta(pattern=r"^[!-~]+$", max_length=BROKER_ADDRESSES_MAX)]
Level = Annotated[str, Meta(pattern=r"^[0-9]\.[0-9]+(-IV[0-9]+)?$")]
"""Of metadata.version, and of inter.broker.protocol.version from 1.0 on."""
Release = Annotated[
    str,
    Meta(
        pattern=r"^([0-9]+\.[0-9]+(\.[0-9]+)?)?$", description="of Apache Kafka, such as 2.8.2; of Confluent, Kafka's"
    ),
]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A part of the document; a key that does not exist is refused."""


# --- actuators --------------------------------------------------------------------------------------------


class ManualActuator(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="manual"):
    """A person acts. exchange: a directory of the service; copies of present files and evidence are put there."""

    exchange: FilePath


class ExecActuator(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="exec"):
    """Commands of a template act. template: its file name. settings: further values that the template names."""

    template: Name
    settings: dict[Annotated[str, Meta(pattern=r"^[a-z][a-z_]{0,63}$")], Text] = {}


class ExternalActuator(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="external"):
    """Another tool acts on bundles. exchange: a directory of the service for bundles, present files and evidence."""

    exchange: FilePath


class LabActuator(_Strict, frozen=True, kw_only=True, tag_field="kind", tag="lab"):
    """A process of the laboratory."""


ActuatorSpec: TypeAlias = ManualActuator | ExecActuator | ExternalActuator | LabActuator


# --- nodes ------------------------------------------------------------------------------------------------


class Kubernetes(_Strict, frozen=True, kw_only=True):
    """Where a node is a pod. config_source: what its file comes from, such as `configmap/kafka#server-0.properties`.

    labels: of the pod or its StatefulSet; an operator is recognised by them.
    """

    namespace: Name
    kind: Text = "StatefulSet"
    api_version: Text = "apps/v1"
    name: Name
    ordinal: Annotated[int, Meta(ge=0, le=100_000)]
    update_strategy: Text
    retained_volumes: bool
    config_source: Text
    labels: dict[Text, Text] = {}


class Frozen(_Strict, frozen=True, kw_only=True):
    """Recorded evidence that configuration management leaves this node alone."""

    tool: Annotated[str, Meta(min_length=1, max_length=100)]
    by: Annotated[str, Meta(min_length=1, max_length=100)]
    since: Moment
    note: Text = ""


class Node(_Strict, frozen=True, kw_only=True):
    """One process. unit: of systemd or another supervisor. actuator: absent takes the inventory's own.

    properties: its file, as its process reads it. metadata_log_dir: absent takes the first of log_dirs.
    guard: of a controller, where zk2kraft-guard lies on its host. kafka: the release that it runs now, for a plan;
    absent takes the inventory's own.
    """

    id: NodeId
    host: Host
    rack: Text = ""
    properties: FilePath
    log_dirs: Annotated[tuple[FilePath, ...], Meta(min_length=1, max_length=100)]
    metadata_log_dir: FilePath | None = None
    unit: Name | None = None
    container: Name | None = None
    actuator: ActuatorSpec | None = None
    kubernetes: Kubernetes | None = None
    frozen: Frozen | None = None
    guard: FilePath | None = None
    kafka: Release = ""

    @property
    def metadata_directory(self) -> str:
        return self.metadata_log_dir or self.log_dirs[0]


# --- the cluster ------------------------------------------------------------------------------------------


class Security(_Strict, frozen=True, kw_only=True):
    """How the service reaches brokers. Secrets are references.

    username, password: with OAUTHBEARER the client id and its secret, where oauth_url is no file.
    oauth_url: file:///PATH of a token, or http(s)://HOST/PATH of a token server. principal, keytab: for GSSAPI, the own
    principal, and its key; without a keytab, tickets are taken from the cache of the service's user.
    kerberos_service: the first part of the brokers' principals.
    """

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] = ""
    username: Text = ""
    password: Reference = ""
    ca_file: FilePath | None = None
    certificate_file: FilePath | None = None
    key_file: FilePath | None = None
    key_password: Reference = ""
    oauth_url: Text = ""
    scope: Text = ""
    principal: Text = ""
    keytab: FilePath | None = None
    kerberos_service: Text = "kafka"


class Quorum(_Strict, frozen=True, kw_only=True):
    """What rendered files say about the controllers. voters: `controller.quorum.voters`.

    metadata_version: as `inter.broker.protocol.version` of the brokers has it, such as "3.9". Absent: a broker's
    file has to say it.
    super_users: principals of controllers and brokers, such as `User:broker`.
    passwords_encoded: brokers have passwords in their dynamic configuration.
    """

    voters: ConnectString
    listener: Name = "CONTROLLER"
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Text = ""
    metadata_version: Level = ""
    super_users: tuple[Annotated[str, Meta(pattern=r"^[^:;]+:[^;]+$")], ...] = ()
    passwords_encoded: bool = False


class Cluster(_Strict, frozen=True, kw_only=True):
    """zookeeper: connect string with chroot. zookeeper_security: DIGEST-MD5 login, where the ensemble wants one."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,63}$")]
    zookeeper: ConnectString
    bootstrap_servers: BrokerAddresses
    quorum: Quorum
    security: Security = Security()


class Timeouts(_Strict, frozen=True, kw_only=True):
    """Seconds. log_recovery: until a broker that was not shut down in order is whole again; it may take hours."""

    act: Seconds = 60
    stop: Seconds = 900
    start: Seconds = 300
    log_recovery: Seconds = 14_400
    in_sync: Seconds = 7_200
    evidence: Seconds = 86_400


class Window(_Strict, frozen=True, kw_only=True):
    """A maintenance window in UTC. One whose end is before its start ends on the next day. days: those it starts on."""

    start: Clock
    end: Clock
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = DAYS

    def has(self, now: datetime) -> bool:
        """Whether a step may begin now."""
        moment, today = now.strftime("%H:%M"), now.weekday()
        if self.start <= self.end:
            return DAYS[today] in self.days and self.start <= moment < self.end
        late = DAYS[today] in self.days and moment >= self.start
        return late or (DAYS[today - 1] in self.days and moment < self.end)


class Canary(_Strict, frozen=True, kw_only=True):
    """Traffic of the service's own, where somebody wants it: a topic with one partition led by each broker.

    errors_max: the share of records of the last ten minutes that may fail. stall_s: so long no record may wait.
    """

    topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._\-]{1,200}$")] = "zk2kraft-canary"
    records_per_s: Annotated[float, Meta(gt=0, le=100)] = 1.0
    errors_max: Annotated[float, Meta(ge=0, le=1)] = 0.01
    stall_s: Seconds = 30


class Waiver(_Strict, frozen=True, kw_only=True):
    """An accepted exception. what: the name of a condition or the code of a finding. node: absent for the cluster."""

    what: Annotated[str, Meta(min_length=1, max_length=200)]
    node: NodeId | None = None
    reason: Reason
    owner: Annotated[str, Meta(min_length=1, max_length=100)]
    end: Moment


class Inventory(_Strict, frozen=True, kw_only=True):
    """The document. version: of this form; another one is refused by a program that does not know it.

    at_once: what is restarted together on the way forward: one node, or the brokers of one rack where every partition
    keeps its minimum ISR without them. kafka: the release that nodes run now which name none.
    """

    version: Literal[1]
    cluster: Cluster
    actuator: ActuatorSpec | None = None
    brokers: Annotated[tuple[Node, ...], Meta(min_length=1, max_length=NODES_MAX)]
    controllers: Annotated[tuple[Node, ...], Meta(min_length=1, max_length=7)]
    timeouts: Timeouts = Timeouts()
    maintenance_windows: tuple[Window, ...] = ()
    at_once: Literal["node", "rack"] = "node"
    waivers: tuple[Waiver, ...] = ()
    canary: Canary | None = None
    kafka: Release = ""

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (*self.brokers, *self.controllers)

    def node(self, node_id: int) -> Node | None:
        return next((node for node in self.nodes if node.id == node_id), None)

    def actuator_of(self, node: Node) -> ActuatorSpec:
        spec = node.actuator or self.actuator
        assert spec is not None, f"node {node.id} has no actuator, which the checks refuse"
        return spec

    def is_in_window(self, now: datetime) -> bool:
        """Whether a step may begin now. Without windows: always."""
        return not self.maintenance_windows or any(each.has(now.astimezone(UTC)) for each in self.maintenance_windows)

    def waiver(self, what: str, node_id: int | None, now: datetime) -> Waiver | None:
        """The one that holds now; one for the cluster holds for each node."""
        return next(
            (each for each in self.waivers if each.what == what and each.node in (None, node_id) and now < each.end),
            None,
        )


# --- reading ----------------------------------------------------------------------------------------------


def read_inventory(file: Path) -> Inventory:
    """Raises Z2K-7001 or Z2K-7002. What contradicts itself is said by `check_inventory`."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise INVENTORY_UNREADABLE.error(file=str(file), reason=error.strerror or words_of(error)) from error
    return parse_inventory(content, str(file))


def parse_inventory(content: bytes, name: str) -> Inventory:
    try:
        document = load_yaml(content)
    except YamlRefused as error:
        raise INVENTORY_UNREADABLE.error(file=name, reason=words_of(error)) from error
    if isinstance(document, dict) and document.get("version") != VERSION:
        reason = f"it is {document.get('version')}; this release reads version {VERSION}"
        raise INVENTORY_INVALID.error(file=name, where="version", reason=reason)
    for where in _secrets_in(document):
        raise INVENTORY_HOLDS_SECRET.error(file=name, where=where)
    try:
        return msgspec.convert(document, Inventory)
    except msgspec.ValidationError as error:
        where, reason = _place_of(str(error))
        raise INVENTORY_INVALID.error(file=name, where=where, reason=reason) from error


def schema() -> dict[str, Any]:
    """The JSON schema of the document."""
    found = msgspec.json.schema(Inventory)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "zk2kraft inventory", **found}


def wanted_of(inventory: Inventory, node: Node) -> Wanted:
    """What the rendered file of this node has to say."""
    quorum = inventory.cluster.quorum
    return Wanted(
        voters=quorum.voters,
        controller_listener=quorum.listener,
        controller_protocol=quorum.protocol,
        sasl_mechanism=quorum.sasl_mechanism,
        zookeeper=inventory.cluster.zookeeper,
        metadata_version=quorum.metadata_version,
        super_users=quorum.super_users,
        passwords_encoded=quorum.passwords_encoded,
        controllers={
            each.id: tuple(dict.fromkeys((each.metadata_directory, *each.log_dirs)))
            for each in inventory.controllers
            if each.host == node.host and each.id != node.id
        },
        node=node.id,
    )


def _place_of(error: str) -> tuple[str, str]:
    """ "brokers[0].host" and the reason, of msgspec's text."""
    reason, _, place = error.partition(" - at `")
    return place.rstrip("`").removeprefix("$").removeprefix(".") or "the document", reason


def _secrets_in(part: Any, where: str = "") -> Iterator[str]:
    """Places whose names say that they hold a secret, and whose text is no reference."""
    if isinstance(part, Mapping):
        for key, value in part.items():
            place = f"{where}.{key}" if where else str(key)
            named = any(word in str(key).lower() for word in SECRET_NAMES) and key != "passwords_encoded"
            if named and isinstance(value, str) and value and not is_reference(value):
                yield place
            yield from _secrets_in(value, place)
    elif isinstance(part, list):
        for number, value in enumerate(part):
            yield from _secrets_in(value, f"{where}[{number}]")


# --- checks -----------------------------------------------------------------------------------------------


def check_inventory(inventory: Inventory, name: str, now: datetime) -> tuple[Occurrence, ...]:
    """What contradicts itself, or may not be migrated this way. now: with a time zone."""
    return tuple(
        finding
        for check in (
            _operators,
            _identities,
            _actuators,
            _directories,
            _stateful_sets,
            _references,
            _quorum,
            _unfilled,
        )
        for finding in check(inventory, name)
    ) + tuple(_ended(inventory, name, now))


def require_inventory(inventory: Inventory, name: str, now: datetime) -> Inventory:
    """Raises the first finding of the checks. A waiver that ended waives nothing, and is no reason to leave nodes as
    they are: who has to know it is told (file_watch.py), and what it accepted closes its own gate again.
    """
    for each in check_inventory(inventory, name, now):
        if each.code != WAIVER_ENDED.code:
            raise FindingError(each)
    return inventory


def _places(inventory: Inventory) -> Iterator[tuple[str, Node]]:
    for role, nodes in (("brokers", inventory.brokers), ("controllers", inventory.controllers)):
        for number, node in enumerate(nodes):
            yield f"{role}[{number}]", node


STRIMZI: Final = ("strimzi.io/", "strimzi", "kafka.strimzi.io", "strimzipodset", "kafkanodepool")
CFK: Final = ("platform.confluent.io", "confluent-operator", "confluent-platform", "confluentinc")
OTHERS: Final = ("kafka.banzaicloud.io", "koperator", "kafka-operator", "cruisecontrol-operator")


def _operators(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    for place, node in _places(inventory):
        pod = node.kubernetes
        if pod is None:
            continue
        signs = [f"kind {pod.kind}", f"apiVersion {pod.api_version}"]
        signs += [f"label {key}={value}" for key, value in pod.labels.items()]
        where = f"{place}.kubernetes"
        for finding, words in ((STRIMZI_MANAGED, STRIMZI), (CFK_MANAGED, CFK), (OPERATOR_MANAGED, OTHERS)):
            if sign := next((each for each in signs if any(word in each.lower() for word in words)), None):
                yield finding.found(file=name, where=where, sign=sign)
                break
        else:
            if (pod.kind, pod.api_version) != ("StatefulSet", "apps/v1"):
                yield OPERATOR_MANAGED.found(file=name, where=where, sign=f"{signs[0]}, {signs[1]}")


def _identities(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    """Brokers and controllers share one namespace of ids; a file belongs to one node."""
    ids: dict[int, str] = {}
    files: dict[tuple[str, str], str] = {}
    for place, node in _places(inventory):
        if node.id in ids:
            reason = f"id {node.id} is {ids[node.id]}'s already; brokers and controllers share one namespace"
            yield INVENTORY_INVALID.found(file=name, where=f"{place}.id", reason=reason)
        ids.setdefault(node.id, place)
        if node.kubernetes is None:
            key = (node.container or node.host, node.properties)
            if key in files:
                reason = f"it is {files[key]}'s file on the same host"
                yield INVENTORY_INVALID.found(file=name, where=f"{place}.properties", reason=reason)
            files.setdefault(key, place)


def _actuators(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    for place, node in _places(inventory):
        spec = node.actuator or inventory.actuator
        if spec is None:
            reason = "neither the node nor the inventory has one"
            yield INVENTORY_INVALID.found(file=name, where=f"{place}.actuator", reason=reason)
        elif isinstance(spec, ExternalActuator) and node.frozen is None:
            yield NOT_FROZEN.found(file=name, where=f"{place}.frozen")


def _directories(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    """Two processes on one host share no directory."""
    for place, node in _places(inventory):
        own = [posixpath.normpath(each) for each in dict.fromkeys((node.metadata_directory, *node.log_dirs))]
        doubled = [each for each, times in Counter(map(posixpath.normpath, node.log_dirs)).items() if times > 1]
        if doubled:
            yield INVENTORY_INVALID.found(file=name, where=f"{place}.log_dirs", reason=f"{doubled[0]} occurs twice")
        for other_place, other in _places(inventory):
            if other.host != node.host or other.id == node.id or node.container or node.kubernetes:
                continue
            theirs = {posixpath.normpath(each) for each in (other.metadata_directory, *other.log_dirs)}
            if shared := [each for each in own if any(_is_within(each, their) for their in theirs)]:
                reason = f"{shared[0]} is a directory of {other_place} on the same host, or inside one"
                yield INVENTORY_INVALID.found(file=name, where=f"{place}.log_dirs", reason=reason)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _stateful_sets(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    sources: dict[tuple[str, str], str] = {}
    for place, node in _places(inventory):
        pod = node.kubernetes
        if pod is None:
            continue
        if pod.update_strategy != "OnDelete":
            reason = f"it is {pod.update_strategy}, so Kubernetes restarts pods by itself; OnDelete is needed"
            yield STATEFULSET_UNSAFE.found(file=name, where=f"{place}.kubernetes.update_strategy", reason=reason)
        if not pod.retained_volumes:
            reason = "a volume that goes with its pod loses the broker's data"
            yield STATEFULSET_UNSAFE.found(file=name, where=f"{place}.kubernetes.retained_volumes", reason=reason)
        key = (pod.namespace, pod.config_source)
        if key in sources:
            reason = f"{pod.config_source} is the file of {sources[key]} as well; each ordinal needs its own"
            yield STATEFULSET_UNSAFE.found(file=name, where=f"{place}.kubernetes.config_source", reason=reason)
        sources.setdefault(key, place)


def _references(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    security = inventory.cluster.security
    for field in ("password", "key_password"):
        value = getattr(security, field)
        if value and not is_reference(value):
            yield INVENTORY_HOLDS_SECRET.found(file=name, where=f"cluster.security.{field}")
    if security.protocol.startswith("SASL") and (lacks := _what_login_lacks(security)):
        yield INVENTORY_INVALID.found(file=name, where="cluster.security", reason=f"{security.protocol} needs {lacks}")


def _what_login_lacks(security: Security) -> str:
    """Empty where the login is whole."""
    match security.sasl_mechanism:
        case "GSSAPI":
            return "" if security.principal else "principal for GSSAPI"
        case "OAUTHBEARER" if not security.oauth_url.startswith(("file:///", "http://", "https://")):
            return "oauth_url for OAUTHBEARER: file:///PATH or http(s)://HOST/PATH"
        case "OAUTHBEARER":
            is_whole = security.oauth_url.startswith("file:") or (security.username and security.password)
            return "" if is_whole else "username and password for OAUTHBEARER: the client id and its secret"
        case "":
            return "sasl_mechanism, username and password"
        case _:
            return "" if security.username else "sasl_mechanism, username and password"


def _quorum(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    """Every voter is a controller of the inventory, and the other way round."""
    voters = {voter.partition("@")[0] for voter in inventory.cluster.quorum.voters.split(",")}
    controllers = {str(node.id) for node in inventory.controllers}
    if voters != controllers:
        reason = f"it names {', '.join(sorted(voters))}; the controllers are {', '.join(sorted(controllers))}"
        yield INVENTORY_INVALID.found(file=name, where="cluster.quorum.voters", reason=reason)


def _unfilled(inventory: Inventory, name: str) -> Iterator[Occurrence]:
    """Settings of actuators are not asked: a command may take such a text as it is."""
    for place, value in _texts(inventory):
        if is_unfilled(value):
            yield IMPORT_PLACEHOLDER.found(file=name, where=place, key=place.rpartition(".")[2], value=value)


def _texts(inventory: Inventory) -> Iterator[tuple[str, str]]:
    cluster = inventory.cluster
    yield "cluster.zookeeper", cluster.zookeeper
    yield "cluster.bootstrap_servers", cluster.bootstrap_servers
    yield "cluster.quorum.voters", cluster.quorum.voters
    yield "cluster.quorum.sasl_mechanism", cluster.quorum.sasl_mechanism
    for user in cluster.quorum.super_users:
        yield "cluster.quorum.super_users", user
    for role, nodes in (("brokers", inventory.brokers), ("controllers", inventory.controllers)):
        for number, node in enumerate(nodes):
            place = f"{role}[{number}]"
            yield f"{place}.rack", node.rack
            yield f"{place}.properties", node.properties
            for directory in node.log_dirs:
                yield f"{place}.log_dirs", directory
            yield f"{place}.metadata_log_dir", node.metadata_log_dir or ""
            yield f"{place}.guard", node.guard or ""


def _ended(inventory: Inventory, name: str, now: datetime) -> Iterator[Occurrence]:
    ids = {node.id for node in inventory.nodes}
    for number, each in enumerate(inventory.waivers):
        where = f"waivers[{number}]"
        if each.node is not None and each.node not in ids:
            reason = f"there is no node {each.node}"
            yield INVENTORY_INVALID.found(file=name, where=f"{where}.node", reason=reason)
        if each.end <= now:
            node = "of the cluster" if each.node is None else each.node
            yield WAIVER_ENDED.found(file=name, where=where, what=each.what, node=node, end=each.end.isoformat())
