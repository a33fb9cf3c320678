"""The properties file of a controller: the same file with which a stock Kafka controller runs.

In:   the text of a Java properties file.
Out:  a `NodeConfig`, and the names of keys that nobody knows (each is worth one warning).
Elsewhere: what the directories hold (storage.py), values from elsewhere (providers.py), TLS (transport/security.py for
listeners, zk/tls_settings.py for ZooKeeper).
Errors: Z2K-3010 for a key that we know and cannot honour: a drop-in that silently does less is a trap.
Source: Kafka 3.9 `KafkaConfig`, `QuorumConfig`, `KRaftConfigs`. Our own keys start with `zk2kraft.`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

import javaproperties

from migrator.commands.ownership import why_foreign
from migrator.controller.authorizer import ANONYMOUS, STANDARD_AUTHORIZER, AuthorizerRules, TokenRules
from migrator.controller.mutation_quotas import WINDOW_S, WINDOWS
from migrator.driver.checks.restarts import is_true
from migrator.driver.checks.waivers import PartitionWaiver, parse_waiver
from migrator.driver.divergence import BLOCK, POLICIES, DivergenceLimits
from migrator.driver.window import TAKEOVER_MAX_MS
from migrator.findings.finding import words_of
from migrator.findings.quorum import CONFIG_MISSING, CONFIG_NOT_HONOURED, CONFIG_UNREADABLE
from migrator.model.broker_settings import ControllerFileSettings
from migrator.model.connect_string import chroot_of
from migrator.model.listeners import (
    CONTROLLER_NAMES,
    JAVA_BLANKS,
    LISTENERS,
    PORT_MAX,
    BadListeners,
    ControllerListeners,
    controller_listeners,
    controller_names,
)
from migrator.model.topic_rules import REMOTE_SYSTEM
from migrator.model.values import Listener, SecurityProtocol
from migrator.node.config.encoder_config import read_encoder
from migrator.node.config.helpers import helped
from migrator.node.config.providers import resolve
from migrator.node.log.log_store import SEGMENT_MS
from migrator.node.transport.security import (
    BETWEEN_VOTERS,
    CONTROL_PREFIX,
    FAILURE_DELAY_MS,
    TLS_KEYS,
    TO_BROKERS,
    ListenerSecurity,
    read_remote_control,
    read_security,
    require_mechanism_between_brokers,
)
from migrator.raft.roles import QuorumSettings
from migrator.wire.frames import FRAME_BYTES_MAX
from migrator.zk.login import flags_of
from migrator.zk.multi import JUTE_MAXBUFFER, JUTE_MAXBUFFER_MIN
from migrator.zk.passwords import EncoderSettings
from migrator.zk.tls_settings import ZkTls, tls_settings

NO_LIMIT: Final = 2**62


NODE_ID_MAX: Final = 2**31 - 1
REQUEST_BYTES_MAX: Final = 2**31 - 1
WAIVE: Final = "zk2kraft.waive"
DELAY_MS_MAX: Final = 2**31 - 1
"""As Kafka's type of the key."""


@dataclass(frozen=True, slots=True)
class VoterAddress:
    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RemoteControl:
    """The control port for other hosts. token_file: who asks shows what stands in it, beside a certificate."""

    host: str
    port: int
    security: ListenerSecurity
    token_file: Path


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What a controller runs with. Times in milliseconds, sizes in bytes, as in Kafka's names.

    file:    where it was read from, for messages.
    given:   every key as written, for topic defaults and reports.
    unknown: keys that neither Kafka nor we know. is_stock: it is the file of one of Kafka's own controllers.
    """

    file: str
    node_id: int
    voters: tuple[VoterAddress, ...]
    listeners: tuple[Listener, ...]
    """Where this node listens; only controller listeners."""
    advertised: tuple[Listener, ...]
    metadata_log_dir: Path
    log_dirs: tuple[Path, ...]
    zookeeper_connect: str | None
    migration_enabled: bool
    inter_broker_listener: str
    inter_broker_protocol: SecurityProtocol
    zookeeper_tls: ZkTls | None = None
    """None: plain TCP. The file's keys, and for what it does not say those of KAFKA_OPTS."""
    zookeeper_set_acl: bool = False
    zookeeper_session_timeout_ms: int = 18_000
    zookeeper_connection_timeout_ms: int = 18_000
    append_linger_ms: int = 25
    segment_bytes: int = 1 << 30
    segment_ms: int = SEGMENT_MS
    idle_interval_ms: int = 500
    broker_session_timeout_ms: int = 9_000
    broker_heartbeat_interval_ms: int = 2_000
    default_replication_factor: int = 1
    num_partitions: int = 1
    delete_topic_enabled: bool = True
    auto_leader_rebalance: bool = True
    leader_imbalance_check_interval_s: int = 300
    unclean_leader_election: bool = False
    unclean_check_interval_ms: int = 300_000
    connections_max: int = 2**31 - 1
    connections_idle_ms: int | None = 600_000
    """None: for ever."""
    quorum: QuorumSettings = field(default_factory=QuorumSettings)
    security: Mapping[str, ListenerSecurity] = field(default_factory=dict)
    """Listeners that are not PLAINTEXT, by name: controller listeners, and the one on which brokers are told things."""
    controller_listener: str = "CONTROLLER"
    """The first of controller.listener.names: on it this node speaks to the other voters."""
    authorizer: AuthorizerRules | None = None
    """Who may do everything, and what holds where no ACL is; None without an authorizer."""
    tokens: TokenRules | None = None
    token_check_interval_ms: int = 3_600_000
    passwords: EncoderSettings | None = None
    """How brokers encrypt their passwords in ZooKeeper; None when this file has no secret for it."""
    # --- ours
    gates: str = "auto"
    takeover_max_ms: int = 15_000
    control_address: str = "127.0.0.1:0"
    remote_control: RemoteControl | None = None
    """Where the service asks from another host; None: from this one only."""
    export_dir: Path | None = None
    waived: tuple[PartitionWaiver, ...] = ()
    """Partitions (`topic-0`) whose incomplete ISR somebody accepted by name."""
    divergence: DivergenceLimits = field(default_factory=DivergenceLimits)
    request_bytes_max: int = FRAME_BYTES_MAX
    """The largest request that this node reads (socket.request.max.bytes)."""
    mutation_windows_s: int = WINDOWS * WINDOW_S
    """Over which time quotas of created and deleted partitions are counted."""
    jute_maxbuffer: int = JUTE_MAXBUFFER
    """The smallest `jute.maxbuffer` of all ZooKeeper servers and brokers."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    provided: frozenset[str] = frozenset()
    """Keys whose values came from a config provider: none of them is shown."""
    unknown: tuple[str, ...] = ()
    is_stock: bool = False

    @property
    def voter_ids(self) -> tuple[int, ...]:
        return tuple(voter.id for voter in self.voters)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PeerKind(StrEnum):
    """Whom a tool speaks to, by the file of a controller."""

    CONTROLLERS = "controllers"
    BROKERS = "brokers"


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """listener: on which they are spoken to. security: None for PLAINTEXT."""

    listener: str
    security: ListenerSecurity | None


def controller_settings(config: NodeConfig) -> ControllerFileSettings:
    """The part of it that brokers' settings are compared with."""
    return ControllerFileSettings(
        file=config.file,
        chroot=chroot_of(config.zookeeper_connect or ""),
        authorizer=config.authorizer is not None,
        token_key=config.tokens is not None,
        set_acl=config.zookeeper_set_acl,
        remote_storage=is_true(config.given.get(REMOTE_SYSTEM)),
        classes=config.given if config.is_stock else None,
        topic_defaults={key: value for key, value in config.given.items() if key.startswith("log.")},
    )


def read_config(path: Path, *, stock: bool = False) -> NodeConfig:
    """Read and check a file. Raises Z2K-3017 when it cannot be read, Z2K-3010 or Z2K-3011 naming file and key.

    stock: it is the file of one of Kafka's own controllers, which runs classes that ours does not; whoever reads it
    only asks, and has the login of a client.
    """
    text, foreign = _text_of(path)
    return parse_config(text, str(path), foreign=foreign, stock=stock)


def read_access(path: Path, peer: PeerKind) -> PeerAccess:
    """Read how the controller of a file speaks to others, for a tool that only asks.

    It may be the file of a stock controller that ours would not run with. Raises as `read_config` does.
    """
    text, foreign = _text_of(path)
    return _parser_of(text, str(path), os.environ, foreign).access(peer)


def read_voters(path: Path) -> tuple[VoterAddress, ...]:
    """Read whom a controller's file names as voters. The file may be one as `read_access` takes it."""
    text, foreign = _text_of(path)
    return _parser_of(text, str(path), os.environ, foreign).voters()


def _text_of(path: Path) -> tuple[str, str | None]:
    """The file, and why others than the operator may have written it."""
    try:
        with path.open("rb") as opened:
            foreign = why_foreign(os.fstat(opened.fileno()), str(path))
            return opened.read().decode("latin-1"), foreign  # as Java reads properties
    except OSError as error:
        raise CONFIG_UNREADABLE.error(file=str(path), reason=error.strerror or words_of(error)) from error


def parse_config(
    text: str,
    file: str = "controller.properties",
    environment: Mapping[str, str] = os.environ,
    foreign: str | None = None,
    *,
    stock: bool = False,
) -> NodeConfig:
    """environment: for what the file takes from variables, and for TLS to ZooKeeper as KAFKA_OPTS says.

    foreign: why others than the operator may have written the file; it then names no executables. stock: as of
    `read_config`.
    """
    return _parser_of(text, file, environment, foreign).config(stock=stock)


def _parser_of(text: str, file: str, environment: Mapping[str, str], foreign: str | None) -> _Parser:
    try:
        written = javaproperties.loads(text)
    except ValueError as error:  # an escape that Java does not read either
        raise CONFIG_UNREADABLE.error(file=file, reason=words_of(error)) from error
    resolved = resolve(file, written, environment, foreign)
    given = {key: value.strip(JAVA_BLANKS) for key, value in resolved.values.items()}
    return _Parser(file, given, resolved.provided, environment)


class _Parser:
    """Reads typed values out of the properties and refuses what cannot be honoured."""

    def __init__(
        self,
        file: str,
        given: dict[str, str],
        provided: frozenset[str] = frozenset(),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """provided: keys whose values came from a provider, and are not shown."""
        self._file = file
        self._given = given
        self._provided = provided
        self._environment = environment

    def config(self, *, stock: bool = False) -> NodeConfig:
        self._refuse_what_cannot_be_honoured(stock=stock)
        listening = self._listening()
        inter_broker, protocol = listening.inter_broker
        metadata_log_dir, log_dirs = self._directories()
        node_id = self._int("node.id", None, at_most=NODE_ID_MAX)
        voters = self.voters()
        if node_id not in [voter.id for voter in voters]:
            self._refuse("controller.quorum.voters", f"it does not name this node ({node_id})")
        migration = self._bool("zookeeper.metadata.migration.enable", False)
        if migration and not self._given.get("zookeeper.connect"):
            raise CONFIG_MISSING.error(file=self._file, key="zookeeper.connect", reason="migration is enabled")
        security = self._security(
            listening, to_brokers=migration or stock, to_voters=len(voters) > 1 or stock, stock=stock
        )
        session = self._int("zookeeper.session.timeout.ms", 18_000, at_least=100)
        return NodeConfig(
            file=self._file,
            node_id=node_id,
            voters=voters,
            listeners=listening.listeners,
            advertised=listening.advertised,
            metadata_log_dir=metadata_log_dir,
            log_dirs=log_dirs,
            zookeeper_connect=self._given.get("zookeeper.connect"),
            zookeeper_tls=self._zookeeper_tls(),
            zookeeper_set_acl=self._bool("zookeeper.set.acl", False),
            migration_enabled=migration,
            inter_broker_listener=inter_broker,
            inter_broker_protocol=protocol,
            security=security,
            controller_listener=listening.names[0],
            zookeeper_session_timeout_ms=session,
            zookeeper_connection_timeout_ms=self._int("zookeeper.connection.timeout.ms", session, at_least=100),
            append_linger_ms=self._int("controller.quorum.append.linger.ms", 25),
            segment_bytes=self._int("metadata.log.segment.bytes", 1 << 30, at_least=1024),
            segment_ms=self._int("metadata.log.segment.ms", SEGMENT_MS, at_least=1),
            idle_interval_ms=self._int("metadata.max.idle.interval.ms", 500),
            broker_session_timeout_ms=self._int("broker.session.timeout.ms", 9_000, at_least=1),
            broker_heartbeat_interval_ms=self._int("broker.heartbeat.interval.ms", 2_000, at_least=1),
            default_replication_factor=self._int("default.replication.factor", 1, at_least=1),
            num_partitions=self._int("num.partitions", 1, at_least=1),
            delete_topic_enabled=self._bool("delete.topic.enable", True),
            auto_leader_rebalance=self._bool("auto.leader.rebalance.enable", True),
            leader_imbalance_check_interval_s=self._int("leader.imbalance.check.interval.seconds", 300, at_least=1),
            unclean_leader_election=self._bool("unclean.leader.election.enable", False),
            unclean_check_interval_ms=self._int("unclean.leader.election.interval.ms", 300_000, at_least=1),
            connections_max=self._int("max.connections", 2**31 - 1, at_least=1, at_most=2**31 - 1),
            connections_idle_ms=self._idle_ms(),
            quorum=self._quorum_settings(),
            authorizer=self._authorizer({listener.protocol for listener in listening.listeners}, stock=stock),
            tokens=self._tokens(),
            token_check_interval_ms=self._int("delegation.token.expiry.check.interval.ms", 3_600_000, at_least=1),
            passwords=read_encoder(self._given, self._int, self._refuse),
            gates=self._one_of("zk2kraft.gates", "auto", ("auto", "pause")),
            takeover_max_ms=self._int("zk2kraft.takeover.max.ms", 15_000, at_least=1, at_most=TAKEOVER_MAX_MS),
            control_address=self._control_address(),
            remote_control=self._remote_control(),
            export_dir=self._export_dir(),
            waived=self._waivers(),
            divergence=DivergenceLimits(
                seconds=self._int("zk2kraft.divergence.max.seconds", DivergenceLimits().seconds, at_least=1),
                records=self._int("zk2kraft.divergence.max.records", DivergenceLimits().records, at_least=1),
                policy=self._one_of("zk2kraft.divergence.policy", BLOCK, POLICIES),
            ),
            request_bytes_max=self._int(
                "socket.request.max.bytes", FRAME_BYTES_MAX, at_least=1, at_most=REQUEST_BYTES_MAX
            ),
            mutation_windows_s=self._int("controller.quota.window.num", WINDOWS, at_least=1)
            * self._int("controller.quota.window.size.seconds", WINDOW_S, at_least=1),
            jute_maxbuffer=self._int("zk2kraft.zookeeper.jute.maxbuffer", JUTE_MAXBUFFER, at_least=JUTE_MAXBUFFER_MIN),
            given=self._given,
            provided=self._provided,
            unknown=tuple(sorted(key for key in self._given if not is_known(key))),
            is_stock=stock,
        )

    def access(self, peer: PeerKind) -> PeerAccess:
        listening = self._listening()
        if peer is PeerKind.BROKERS:
            (name, protocol), asks_by = listening.inter_broker, TO_BROKERS
        else:
            name, asks_by = listening.names[0], BETWEEN_VOTERS
            protocol = listening.protocols[name]
        if protocol is SecurityProtocol.PLAINTEXT:
            return PeerAccess(name, None)
        security = read_security(
            self._file,
            self._given,
            name,
            protocol,
            accepts=False,
            asks_by=asks_by,
            hidden=self._provided,
            flags=flags_of(self._environment),
        )
        return PeerAccess(name, security)

    def _quorum_settings(self) -> QuorumSettings:
        """Kafka's keys and defaults. The linger stays ours: one flush at a time gathers what comes meanwhile."""
        default = QuorumSettings()
        return QuorumSettings(
            election_timeout_ms=self._int("controller.quorum.election.timeout.ms", 1_000, at_least=1),
            fetch_timeout_ms=self._int("controller.quorum.fetch.timeout.ms", 2_000, at_least=1),
            election_backoff_max_ms=self._int("controller.quorum.election.backoff.max.ms", 1_000, at_least=1),
            request_timeout_ms=self._int("controller.quorum.request.timeout.ms", 2_000, at_least=1),
            retry_backoff_ms=self._int("controller.quorum.retry.backoff.ms", 20, at_least=1),
            snapshot_after_bytes=self._int(
                "metadata.log.max.record.bytes.between.snapshots", default.snapshot_after_bytes, at_least=1
            ),
            snapshot_after_ms=self._limit("metadata.log.max.snapshot.interval.ms", default.snapshot_after_ms, off=0),
            retention_bytes=self._limit("metadata.max.retention.bytes", default.retention_bytes, off=-1),
            retention_ms=self._limit("metadata.max.retention.ms", default.retention_ms, off=-1),
        )

    def _authorizer(self, protocols: Collection[int], *, stock: bool) -> AuthorizerRules | None:
        name = self._given.get("authorizer.class.name")
        if not name:
            return None
        if stock:
            return AuthorizerRules(frozenset(), False)
        if name != STANDARD_AUTHORIZER:
            self._refuse("authorizer.class.name", f"on controllers only {STANDARD_AUTHORIZER} is supported")
        given = (user.strip() for user in self._given.get("super.users", "").split(";"))
        super_users = frozenset(user for user in given if user)
        if any(not all(user.partition(":")) for user in super_users):
            self._refuse("super.users", "principals are Type:name, with a semicolon between them")
        if SecurityProtocol.SSL in protocols:
            self._refuse("authorizer.class.name", "names in certificates are not principals yet; use SASL_SSL")
        if SecurityProtocol.PLAINTEXT in protocols and ANONYMOUS not in super_users:
            reason = f"on a PLAINTEXT controller listener brokers come as {ANONYMOUS}, who has to be a super user"
            self._refuse("super.users", reason)
        return AuthorizerRules(super_users, self._bool("allow.everyone.if.no.acl.found", False))

    def _zookeeper_tls(self) -> ZkTls | None:
        if not self._given.get("zookeeper.connect"):
            return None
        return tls_settings(self._environment, self._given, self._file, self._provided)

    def _tokens(self) -> TokenRules | None:
        """The older name of the key counts where the newer one is not given, as in Kafka."""
        key = self._given.get("delegation.token.secret.key") or self._given.get("delegation.token.master.key")
        if not key:
            return None
        week_ms, day_ms = 7 * 86_400_000, 86_400_000
        return TokenRules(
            secret_key=key,
            max_lifetime_ms=self._int("delegation.token.max.lifetime.ms", week_ms, at_least=1),
            renew_lifetime_ms=self._int("delegation.token.expiry.time.ms", day_ms, at_least=1),
        )

    # --- what we cannot do ---------------------------------------------------------------------------------

    def _refuse_what_cannot_be_honoured(self, *, stock: bool) -> None:
        roles = self._names("process.roles")
        if roles != ["controller"]:
            self._refuse("process.roles", "a controller runs on its own node; combined mode is not supported")
        if self._given.get("controller.quorum.bootstrap.servers"):
            self._refuse("controller.quorum.bootstrap.servers", "dynamic voters (kraft.version 1) are not supported")
        for key in ("alter.config.policy.class.name", "create.topic.policy.class.name"):
            if self._given.get(key) and not stock:
                self._refuse(key, "policy classes are Java and are not run here")

    def _refuse(self, key: str, reason: str) -> NoReturn:
        """What came from a provider is shown neither as the value nor as a part of the reason."""
        value = "(hidden)" if is_secret(key) or key in self._provided else self._given.get(key, "")
        if key in self._provided:
            reason = "the value, which came from a config provider, is not one that this key can have"
        for other in self._provided:
            if self._given[other]:
                reason = reason.replace(self._given[other], "(hidden)")
        raise CONFIG_NOT_HONOURED.error(file=self._file, key=key, value=value, reason=reason)

    # --- typed values --------------------------------------------------------------------------------------

    def _names(self, key: str) -> list[str]:
        return [name.strip() for name in self._given.get(key, "").split(",") if name.strip()]

    def _waivers(self) -> tuple[PartitionWaiver, ...]:
        try:
            return tuple(map(parse_waiver, self._names(WAIVE)))
        except ValueError as error:
            self._refuse(WAIVE, str(error))

    def _bool(self, key: str, default: bool) -> bool:
        value = self._given.get(key, str(default)).lower()
        if value not in ("true", "false"):
            self._refuse(key, "it is neither true nor false")
        return value == "true"

    def _int(self, key: str, default: int | None, at_least: int = 0, at_most: int = 2**63 - 1) -> int:
        text = self._given.get(key, "" if default is None else str(default))
        if not text:
            raise CONFIG_MISSING.error(file=self._file, key=key, reason="it has no default")
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not at_least <= int(text) <= at_most:
            self._refuse(key, f"it is not a number from {at_least} to {at_most}")
        return int(text)

    def _idle_ms(self) -> int | None:
        """Below zero Kafka closes no silent connection."""
        idle_ms = self._int("connections.max.idle.ms", 600_000, at_least=-(2**63))
        return None if idle_ms < 0 else idle_ms

    def _limit(self, key: str, default: int, *, off: int) -> int:
        """A number, or `off`, by which Kafka's key says that there is no limit."""
        number = self._int(key, default, at_least=off)
        return NO_LIMIT if number == off else number

    def _one_of(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        value = self._given.get(key, default)
        if value not in choices:
            self._refuse(key, f"it is not one of {', '.join(choices)}")
        return value

    def _listening(self) -> ControllerListeners:
        names = controller_names(self._given)
        if not names:
            raise CONFIG_MISSING.error(file=self._file, key=CONTROLLER_NAMES, reason="it names the quorum")
        is_default = LISTENERS not in self._given and SecurityProtocol.PLAINTEXT.name in names
        if not self._given.get(LISTENERS) and not is_default:
            raise CONFIG_MISSING.error(file=self._file, key=LISTENERS, reason="a controller has to listen")
        try:
            return controller_listeners(self._given)
        except BadListeners as error:
            self._refuse(error.key, error.reason)

    def _security(
        self, listening: ControllerListeners, *, to_brokers: bool, to_voters: bool, stock: bool
    ) -> dict[str, ListenerSecurity]:
        """Of each listener that is not PLAINTEXT. to_brokers, to_voters: whom this node asks on its own account."""
        require_mechanism_between_brokers(self._file, self._given, *listening.inter_broker, self._provided)
        protocols = {name: listening.protocols[name] for name in listening.names}
        asks_by = {listening.names[0]: BETWEEN_VOTERS} if to_voters else {}
        if to_brokers:
            name, protocol = listening.inter_broker
            if protocols.setdefault(name, protocol) is not protocol:
                reason = (
                    f"brokers are told things on {name} with {protocol.name}, and {name} is a listener of this node"
                )
                self._refuse("listener.security.protocol.map", f"{reason} by {protocols[name].name}")
            asks_by = {name: TO_BROKERS, **asks_by}
        delay_key = "connection.failed.authentication.delay.ms"
        failure_delay_ms = self._int(delay_key, FAILURE_DELAY_MS, at_most=DELAY_MS_MAX)
        return {
            name: read_security(
                self._file,
                self._given,
                name,
                protocol,
                accepts=name in listening.names and not stock,
                asks_by=asks_by.get(name),
                failure_delay_ms=failure_delay_ms,
                hidden=self._provided,
                flags=flags_of(self._environment),
            )
            for name, protocol in protocols.items()
            if protocol is not SecurityProtocol.PLAINTEXT
        }

    def _control_address(self) -> str:
        """On loopback only: the token goes in clear."""
        key = "zk2kraft.control.address"
        address = self._given.get(key, "127.0.0.1:0")
        host, _ = self._host_and_port(key, address)
        if not _is_loopback(host):
            self._refuse(
                key,
                "it is not on loopback, and the token of this port is sent in clear; other hosts need "
                f"{CONTROL_PREFIX}address",
            )
        return address

    def _remote_control(self) -> RemoteControl | None:
        key, token_key = f"{CONTROL_PREFIX}address", f"{CONTROL_PREFIX}token.file"
        if key not in self._given:
            alone = next((each for each in sorted(self._given) if each.startswith(CONTROL_PREFIX)), None)
            if alone is not None:
                raise CONFIG_MISSING.error(file=self._file, key=key, reason=f"{alone} is set, and it means nothing")
            return None
        host, port = self._host_and_port(key, self._given[key])
        if not port:
            self._refuse(key, "port 0 takes any free port, and nobody would learn which")
        if not self._given.get(token_key):
            raise CONFIG_MISSING.error(
                file=self._file, key=token_key, reason="a certificate alone does not let the service in"
            )
        security = read_remote_control(self._file, self._given, self._provided)
        return RemoteControl(host, port, security, Path(self._given[token_key]))

    def _host_and_port(self, key: str, address: str) -> tuple[str, int]:
        match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})", address)
        if match is None or int(match[2]) > PORT_MAX:
            self._refuse(key, "it is not host:port, such as 127.0.0.1:9999")
        return match[1].strip("[]"), int(match[2])

    def _export_dir(self) -> Path | None:
        key = "zk2kraft.export.dir"
        if self._given.get(key) == "":
            self._refuse(key, "it names no directory")
        return Path(self._given[key]) if key in self._given else None

    def _directories(self) -> tuple[Path, tuple[Path, ...]]:
        key = "log.dirs" if "log.dirs" in self._given else "log.dir"
        log_dirs = tuple(map(Path, self._names(key))) if key in self._given else (Path("/tmp/kafka-logs"),)
        if not log_dirs:
            self._refuse(key, "it names no directory")
        return Path(self._given.get("metadata.log.dir") or log_dirs[0]), log_dirs

    def voters(self) -> tuple[VoterAddress, ...]:
        voters = []
        for entry in self._names("controller.quorum.voters"):
            match = re.fullmatch(r"([0-9]{1,10})@(.+):([0-9]{1,5})", entry)
            if (
                match is None
                or match[2] == "0.0.0.0"
                or int(match[1]) > NODE_ID_MAX
                or not 0 < int(match[3]) <= PORT_MAX
            ):
                self._refuse("controller.quorum.voters", f"{entry!r} is not id@host:port")
            else:
                voters.append(VoterAddress(int(match[1]), match[2].strip("[]"), int(match[3])))
        if not voters:
            raise CONFIG_MISSING.error(file=self._file, key="controller.quorum.voters", reason="it names the quorum")
        if len({voter.id for voter in voters}) != len(voters):
            self._refuse("controller.quorum.voters", "an id occurs twice")
        return tuple(voters)


# --- which keys exist -------------------------------------------------------------------------------------

_OURS: Final = frozenset(
    {
        "zk2kraft.gates",
        "zk2kraft.takeover.max.ms",
        "zk2kraft.control.address",
        f"{CONTROL_PREFIX}address",
        f"{CONTROL_PREFIX}token.file",
        "zk2kraft.export.dir",
        WAIVE,
        "zk2kraft.divergence.max.seconds",
        "zk2kraft.divergence.max.records",
        "zk2kraft.divergence.policy",
        "zk2kraft.zookeeper.jute.maxbuffer",
    }
)

_KAFKA_FAMILIES: Final = (
    "advertised.", "allow.", "alter.", "authorizer.", "auto.", "background.", "broker.", "client.", "compression.",
    "config.providers", "connection", "connections.", "control.", "controlled.", "controller.", "create.",
    "default.", "delegation.", "delete.", "early.", "eligible.", "fetch.", "group.", "initial.", "inter.", "kafka.",
    "leader.", "listener.", "listeners", "log.", "max.", "message.", "metadata.", "metric", "min.", "node.", "num.",
    "offset", "offsets.", "password.", "principal.", "process.", "producer.", "queued.", "quota.", "remote.",
    "replica.", "replication.", "request.", "reserved.", "sasl.", "security.", "server.", "socket.", "ssl.",
    "super.", "telemetry.", "transaction.", "transactional.", "unclean.", "unstable.", "zookeeper.",
)  # fmt: skip
"""First words of Kafka 3.9's broker configuration. Most of it means nothing to a controller, in stock as here."""


def is_secret(key: str) -> bool:
    """Whether its value may never be shown, as in Kafka's `Password` type."""
    return key.endswith((".password", ".secret", "sasl.jaas.config", "ssl.keystore.key"))


def is_known(key: str) -> bool:
    """Whether Kafka 3.9 or we have a key of this name; a misspelt `zk2kraft.` key is unknown."""
    if key.startswith(f"{CONTROL_PREFIX}ssl."):
        return key.removeprefix(CONTROL_PREFIX) in TLS_KEYS
    if key.startswith("zk2kraft."):
        return key in _OURS or helped(key) is not None
    return key.startswith(_KAFKA_FAMILIES)
