"""A cluster as companies have it: no listener without TLS and login, ACLs, guarded znodes, passwords from elsewhere.

In:   a laboratory.
Out:  `Estate`: its stores, logins and files, the properties of its nodes, the flags of its processes, and every secret
      that it has; `EstateStage`: a road (road_stage.py) on such a cluster.
Elsewhere: what is asserted (stories_estate.py).
Rules: no properties file has a secret in it. Passwords of stores and logins are in a file that `FileConfigProvider`
reads, the encoder's secret is a file of a directory, the trust store's password a variable of the process.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, our_quorum
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.server import start_together
from tests.e2e.road_stage import CONTROLLER_SETTINGS, NAME, TOPICS, RoadStage
from tests.e2e.support import once
from tests.support.java_keytool import SignedStore, SignedStores

PROVIDERS: Final = "org.apache.kafka.common.config.provider"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
SASL_OF_ZOOKEEPER: Final = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONFIG_TOOL: Final = "kafka.admin.ConfigCommand"

MECHANISM: Final = "SCRAM-SHA-512"
ITERATIONS: Final = 4_096
TRUST_VARIABLE: Final = "ESTATE_TRUST"
SUPER_USERS: Final = "User:broker;User:controller;User:admin"
BEFORE_BROKERS: Final = ("broker", "controller", "admin")
"""Users that have to be in ZooKeeper before any broker starts; the others an administrator makes."""
CLIENTS: Final = ("traffic", "service", "stranger")
CANARY_TOPIC: Final = "zk2kraft-canary"
PREFIX: Final = "listener.name.clients."
KINDS: Final = ("JKS", "JKS", "PKCS12")
"""Of the stores of brokers 0, 1, 2, and of the controllers alike."""
ADMIN_S: Final = 120.0


class Estate:
    """secrets: every text that may be in no answer, log, or row; by name."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.laboratory = laboratory
        self.secrets: dict[str, str] = {}
        self._directory = laboratory.directory / "secrets"
        (self._directory / "files").mkdir(parents=True)
        self.stores = SignedStores(laboratory.directory / "stores", self._secret("trust", "tr0st-of-stores"))
        for user in (*BEFORE_BROKERS, *CLIENTS):
            self._secret(f"scram-{user}", f"scr4m-of-{user}")
        for user in ("broker", "controller"):
            self._secret(f"quorum-{user}", f"pl41n-of-{user}")
        self._secret("zookeeper", "d1gest-of-znodes")
        self._secret("encoder", "enc0des-passwords")
        self._secret("backups", "encrypts-b4ckups")
        self._made: dict[int, SignedStore] = {}
        nodes = [*enumerate(KINDS), *((3000 + n, kind) for n, kind in enumerate(KINDS))]
        for node, kind in nodes:
            self._made[node] = self.make_store(f"node-{node}", kind)
        self.jaas = self._write("jaas.conf", self._jaas())
        names = "".join(f"{name}={text}\n" for name, text in self.secrets.items())
        self.values = self._write("values.properties", names)
        for name in ("encoder", "scram-service", "backups"):
            self._write(f"files/{name}", self.secrets[name])

    def make_store(self, name: str, kind: str) -> SignedStore:
        """With passwords of its own, which are secrets of the estate."""
        key_password = self._secret(f"key-{name}", f"k3y-of-{name}") if kind == "JKS" else ""
        return self.stores.make(name, kind, self._secret(f"store-{name}", f"st0re-of-{name}"), key_password)

    def _secret(self, name: str, text: str) -> str:
        self.secrets[name] = text
        return text

    def _write(self, name: str, text: str) -> Path:
        file = self._directory / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file

    def file_of(self, name: str) -> Path:
        return self._directory / "files" / name

    # --- ZooKeeper -----------------------------------------------------------------------------------------

    def _jaas(self) -> str:
        password = self.secrets["zookeeper"]
        return (
            f'Server {{ {DIGEST} required user_kafka="{password}"; }};\n'
            f'Client {{ {DIGEST} required username="kafka" password="{password}"; }};\n'
        )

    @property
    def login(self) -> str:
        """The flag by which a process is a user of ZooKeeper."""
        return f"-Djava.security.auth.login.config={self.jaas}"

    @property
    def environment(self) -> dict[str, str]:
        """Of every process of the estate that is no JVM."""
        return {"KAFKA_OPTS": self.login, TRUST_VARIABLE: self.secrets["trust"]}

    @contextmanager
    def logged_in(self) -> Iterator[None]:
        """Sessions of this process are those of the brokers' user meanwhile."""
        before = os.environ.get("KAFKA_OPTS")
        os.environ["KAFKA_OPTS"] = self.login
        try:
            yield
        finally:
            os.environ.pop("KAFKA_OPTS")
            if before is not None:
                os.environ["KAFKA_OPTS"] = before

    # --- properties ----------------------------------------------------------------------------------------

    def _value(self, name: str) -> str:
        return f"${{file:{self.values}:{name}}}"

    def _of_every_node(self, node: int) -> dict[str, Value]:
        store = self._made[node]
        key = self._value(f"key-node-{node}" if store.kind == "JKS" else f"store-node-{node}")
        return {
            "config.providers": "file,dir,env",
            "config.providers.file.class": f"{PROVIDERS}.FileConfigProvider",
            "config.providers.file.param.allowed.paths": str(self._directory),
            "config.providers.dir.class": f"{PROVIDERS}.DirectoryConfigProvider",
            "config.providers.env.class": f"{PROVIDERS}.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": f"^{TRUST_VARIABLE}$",
            "inter.broker.listener.name": "INSIDE",
            "ssl.keystore.location": str(store.file),
            "ssl.keystore.type": store.kind,
            "ssl.keystore.password": self._value(f"store-node-{node}"),
            "ssl.key.password": key,
            "ssl.truststore.location": str(self.stores.trusted),
            "ssl.truststore.type": "JKS",
            "ssl.truststore.password": f"${{env:{TRUST_VARIABLE}}}",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "listener.name.inside.sasl.enabled.mechanisms": MECHANISM,
            "super.users": SUPER_USERS,
            "zookeeper.set.acl": True,
            "password.encoder.secret": f"${{dir:{self._directory / 'files'}:encoder}}",
        }

    def of_broker(self, node: int, ports: Mapping[str, int], *, joined: bool) -> dict[str, Value]:
        """joined: its operator has written what the migration needs; else that is the service's work."""
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
        protocols = [*ports, *(["CONTROLLER"] if joined else [])]
        return {
            **self._of_every_node(node),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:SASL_SSL" for name in protocols),
            "sasl.enabled.mechanisms": MECHANISM,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "listener.name.inside.scram-sha-512.sasl.jaas.config": self._scram("broker"),
            "listener.name.controller.plain.sasl.jaas.config": self._plain("broker"),
            "authorizer.class.name": ACL_AUTHORIZER,
            **({"sasl.mechanism.controller.protocol": "PLAIN"} if joined else {}),
        }

    def of_controller(self, node: int) -> dict[str, Value]:
        users = " ".join(f'user_{user}="{self._value(f"quorum-{user}")}"' for user in ("broker", "controller"))
        return {
            **CONTROLLER_SETTINGS,
            **self._of_every_node(node),
            "listener.security.protocol.map": "CONTROLLER:SASL_SSL,INSIDE:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f"{self._plain('controller').rstrip(';')} {users};",
            "listener.name.inside.scram-sha-512.sasl.jaas.config": self._scram("controller"),
            "authorizer.class.name": STANDARD_AUTHORIZER,
        }

    def _scram(self, user: str) -> str:
        return f'{SCRAM} required username="{user}" password="{self._value(f"scram-{user}")}";'

    def _plain(self, user: str) -> str:
        return f'{PLAIN} required username="{user}" password="{self._value(f"quorum-{user}")}";'

    # --- clients -------------------------------------------------------------------------------------------

    def client(self, user: str) -> dict[str, str]:
        """librdkafka's keys."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": self.secrets[f"scram-{user}"],
            "ssl.ca.location": str(self.stores.authority.trusted),
        }

    @property
    def of_service(self) -> dict[str, object]:
        """How the service reaches brokers, as an inventory has it."""
        return {
            "protocol": "SASL_SSL",
            "sasl_mechanism": MECHANISM,
            "username": "service",
            "password": f"file:{self.file_of('scram-service')}",
            "ca_file": str(self.stores.authority.trusted),
        }


def estate_cluster(estate: Estate) -> LabCluster:
    """Not started. Two listeners, two log directories, and a login for ZooKeeper each."""
    laboratory = estate.laboratory
    cluster = LabCluster(laboratory, log_directories=2, client=estate.client("admin"))
    for server in cluster.zookeeper.servers:
        server.spec = replace(server.spec, extra={"authProvider.1": SASL_OF_ZOOKEEPER})
        server.options = (estate.login,)
    for broker in cluster.brokers:
        ports = {"CLIENTS": broker.spec.port, "INSIDE": laboratory.ports.reserve()}
        extra = estate.of_broker(broker.broker_id, ports, joined=broker.broker_id == 0)
        broker.spec = replace(broker.spec, extra=extra)
        broker.options = (estate.login,)
        broker.environment = {TRUST_VARIABLE: estate.secrets["trust"]}
    return cluster


class EstateStage(RoadStage):
    """The service writes the migration settings of brokers 1 and 2; those of broker 0 its operator wrote."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.estate = Estate(laboratory)
        super().__init__(
            laboratory,
            joins=True,
            cluster=estate_cluster(self.estate),
            client=self.estate.client("traffic"),
            settings={"backup_key": f"file:{self.estate.file_of('backups')}"},
        )
        self.service.environment |= self.estate.environment
        self.dynamic = self.estate.make_store("dynamic", "JKS")

    def start_cluster(self) -> list[OurController]:
        ours = self.unjoined()
        first = self.cluster.brokers[0]
        first.restart_as(first.spec.as_migrating(ours[0].spec.voters))
        return ours

    def unjoined(self) -> list[OurController]:
        """Users of the brokers themselves are in ZooKeeper before any of them starts."""
        self.cluster.zookeeper.start()
        for user in BEFORE_BROKERS:
            self._make_user_in_zookeeper(user)
        start_together(self.cluster.brokers)
        self.cluster.wait_whole()
        ours = our_quorum(self.cluster, 3)
        for each in ours:
            each.spec = replace(each.spec, extra=self.estate.of_controller(each.spec.node_id))
            each.environment |= self.estate.environment
        return ours

    def _make_user_in_zookeeper(self, user: str) -> None:
        """As `kafka-configs` does while no broker runs."""
        what = f"{MECHANISM}=[iterations={ITERATIONS},password={self.estate.secrets[f'scram-{user}']}]"
        words = ("--entity-type", "users", "--entity-name", user, "--alter", "--add-config", what)
        connect = self.cluster.zookeeper_connect
        self.laboratory.tool(CONFIG_TOOL, "--zookeeper", connect, *words, options=(self.estate.login,))

    def before_traffic(self) -> None:
        for user in CLIENTS:
            self.make_user(user)
        self.allow("traffic", ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE)
        for topic in TOPICS:
            self.allow("traffic", ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
        self.allow("traffic", ResourceType.GROUP, "traffic", AclOperation.READ, prefixed=True)
        self.allow("traffic", ResourceType.TRANSACTIONAL_ID, "traffic", AclOperation.WRITE, prefixed=True)
        self.allow("service", ResourceType.TOPIC, "*", AclOperation.DESCRIBE)
        self.allow("service", ResourceType.TOPIC, CANARY_TOPIC, AclOperation.CREATE, AclOperation.WRITE)
        self.allow("retired", ResourceType.TOPIC, TOPICS[0], AclOperation.ALL, how=AclPermissionType.DENY)
        self.set_store(0, self.dynamic)

    def before_service(self) -> None:
        self.fleet.canary = True
        self.fleet.security = self.estate.of_service
        self.fleet.quorum_security = {
            "protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "super_users": SUPER_USERS.split(";"),
            "passwords_encoded": True,
        }
        for stock in self.fleet.stock.values():
            stock.options = (self.estate.login,)
            stock.environment = {TRUST_VARIABLE: self.estate.secrets["trust"]}

    # --- what administrators do ----------------------------------------------------------------------------

    def make_user(self, user: str) -> None:
        password = self.estate.secrets[f"scram-{user}"].encode()
        what = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS), password, f"salt of {user}".encode()
        )
        once(
            self.cluster.new_admin,
            lambda admin: admin.alter_user_scram_credentials([what])[user].result(ADMIN_S),
            f"user {user} is made",
        )

    def allow(
        self,
        user: str,
        kind: ResourceType,
        name: str,
        *operations: AclOperation,
        prefixed: bool = False,
        how: AclPermissionType = AclPermissionType.ALLOW,
    ) -> None:
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        bindings = [AclBinding(kind, name, pattern, f"User:{user}", "*", each, how) for each in operations]

        def ask(admin: object) -> None:
            for future in admin.create_acls(bindings).values():  # type: ignore[attr-defined]
                future.result(ADMIN_S)

        once(self.cluster.new_admin, ask, f"{user} has its permissions")

    def set_store(self, broker: int, store: SignedStore) -> None:
        """By IncrementalAlterConfigs, with the passwords in clear, as clients send them."""
        values = {
            f"{PREFIX}ssl.keystore.location": str(store.file),
            f"{PREFIX}ssl.keystore.type": store.kind,
            f"{PREFIX}ssl.keystore.password": store.password,
            f"{PREFIX}ssl.key.password": store.key_password,
        }
        self.cluster.alter_configs(ResourceType.BROKER, str(broker), values)

    def serves(self, broker: int, store: SignedStore) -> str | None:
        """None when clients of this broker are shown the certificate of this store."""
        shown = ssl.get_server_certificate((HOST, self.cluster.brokers[broker].spec.port))
        return None if ssl.PEM_cert_to_DER_cert(shown) == store.certificate else "it shows another certificate"

    def acls(self) -> list[str]:
        """As an administrator lists them."""
        anything: Any = (
            None  # stands for all names, principals and hosts, though the types of this client know only texts
        )
        every = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            anything,
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        found = once(
            self.cluster.new_admin, lambda admin: admin.describe_acls(every).result(ADMIN_S), "ACLs are listed"
        )
        return sorted(
            f"{each.restype.name} {each.resource_pattern_type.name} {each.name}: "
            f"{each.permission_type.name} {each.principal} {each.operation.name} from {each.host}"
            for each in found
        )

    def users(self) -> dict[str, list[str]]:
        """SCRAM users, as an administrator lists them."""

        def listed(admin: AdminClient) -> dict[str, Any]:
            answer = admin.describe_user_scram_credentials()
            assert isinstance(answer, Future), "of all users there is one answer"
            return dict(answer.result(ADMIN_S))

        found = once(self.cluster.new_admin, listed, "users are listed")
        return {
            user: [f"{each.mechanism.name} {each.iterations}" for each in described.scram_credential_infos]
            for user, described in sorted(found.items())
        }

    def inventory_file(self) -> Path:
        return self.fleet.directory / f"{NAME}.yaml"
