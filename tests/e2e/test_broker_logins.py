"""Where brokers log in to each other by Kerberos or by tokens: ours tell them things, audits read all three sides."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.inventory import Inventory, parse_inventory
from migrator.fleet.strict_yaml import dump_yaml
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import random_cluster_id
from migrator.node.config.properties import PeerKind, read_access
from migrator.node.tools.log_of_quorum import log_of_quorum
from migrator.node.transport.client_security import client_security
from state_machine.finish.canary import client_of
from state_machine.nodes.replicas import read_replicas
from tests.e2e.quorums import start, wait_ruling
from tests.e2e.support import wait_for
from tests.e2e.whole_way import fail_over, rollback, topic_made, waiting
from tests.support.inventories import an_inventory
from tests.support.key_server import REALM, KeyServer, why_not_here
from tests.support.token_server import AUDIENCE, TokenServer

pytestmark = pytest.mark.lab

BY_NAME = "localhost"
"""Of which the key server has principals."""
BROKER, OURS = "kafka/localhost", "zk2kraft/localhost"
SESSION_MS = 4_000
AUDIT_S = 120.0
CANARY_TOPIC = "zk2kraft-canary"
SECRETS = {"broker": "br0ker", "zk2kraft": "c0ntr0ller"}
KAFKAS = "org.apache.kafka.common.security.oauthbearer"


@dataclass(frozen=True)
class Estate:
    """How everybody logs in. broker, ours: keys of files, with LISTENER for the listener's name in lower case.

    inventory: of cluster.security. flags: of every JVM. logins: how often ours have got what a login needs. silence,
    speak: who gives that out.
    """

    mechanism: str
    broker: Mapping[str, Value]
    ours: Mapping[str, Value]
    logins: Callable[[], int]
    silence: Callable[[], None]
    speak: Callable[[], None]
    secrets: Callable[[], list[str]]
    inventory: Mapping[str, str]
    flags: tuple[str, ...] = field(default=())

    def of(self, keys: Mapping[str, Value], listener: str) -> dict[str, Value]:
        return {key.replace("LISTENER", listener.lower()): value for key, value in keys.items()}


@pytest.fixture
def kerberos(laboratory: Laboratory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Estate]:
    keys = KeyServer(tmp_path / "keys", laboratory.ports.reserve())
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    keytabs = {name: keys.keytab(name) for name in (BROKER, OURS)}
    logins = {name: f'{module} keyTab="{file}" principal="{name}@{REALM}";' for name, file in keytabs.items()}
    common: dict[str, Value] = {
        "listener.name.LISTENER.sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }
    flag = f"-Djava.security.krb5.conf={keys.configuration}"
    monkeypatch.setenv("KAFKA_OPTS", flag)
    journal = tmp_path / "keys" / "kdc.log"

    def tickets() -> int:
        """With a ticket for a broker in them; each login gets a new one."""
        return sum("TGS_REQ" in line and f"{OURS}@" in line for line in journal.read_text().splitlines())

    keys.start()
    yield Estate(
        "GSSAPI",
        {**common, "listener.name.LISTENER.gssapi.sasl.jaas.config": logins[BROKER]},
        {**common, "listener.name.LISTENER.gssapi.sasl.jaas.config": logins[OURS]},
        tickets,
        keys.stop,
        keys.start,
        list,
        {"principal": f"{OURS}@{REALM}", "keytab": str(keytabs[OURS])},
        (flag,),
    )
    keys.stop()


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Estate]:
    server = TokenServer(SECRETS)

    def keys(client: str) -> dict[str, Value]:
        login = f'clientId="{client}" clientSecret="{SECRETS[client]}" scope="of-{client}" extension_estate="test"'
        mine = "listener.name.LISTENER."
        return {
            f"{mine}sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{mine}oauthbearer.sasl.jaas.config": f"{KAFKAS}.OAuthBearerLoginModule required {login};",
            f"{mine}oauthbearer.sasl.login.callback.handler.class": f"{KAFKAS}.OAuthBearerLoginCallbackHandler",
            f"{mine}oauthbearer.sasl.server.callback.handler.class": f"{KAFKAS}.OAuthBearerValidatorCallbackHandler",
            f"{mine}sasl.oauthbearer.token.endpoint.url": server.token_url,
            f"{mine}sasl.oauthbearer.jwks.endpoint.url": server.jwks,
            f"{mine}sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def silence() -> None:
        server.is_down = True

    def speak() -> None:
        server.is_down = False

    def given() -> int:
        return server.asked.count(("zk2kraft", "of-zk2kraft"))

    server.start()
    file = tmp_path / "token"  # beside credentials, which controllers have: as somebody's agent renews it
    file.write_text(server.token("service", "of-service"))
    yield Estate(
        "OAUTHBEARER",
        keys("broker"),
        keys("zk2kraft"),
        given,
        silence,
        speak,
        lambda: [*SECRETS.values(), "eyJ"],
        {"oauth_url": f"file://{file}"},
    )
    server.stop()


@pytest.fixture(params=["GSSAPI", "OAUTHBEARER"])
def estate(request: pytest.FixtureRequest) -> Estate:
    if request.param == "GSSAPI" and (reason := why_not_here()) is not None:
        pytest.skip(reason)
    found = request.getfixturevalue("kerberos" if request.param == "GSSAPI" else "tokens")
    assert isinstance(found, Estate)
    return found


def cluster_of(laboratory: Laboratory, estate: Estate) -> LabCluster:
    """Clients without a login; brokers and controllers on INSIDE, where every session ends after four seconds."""
    sessions: dict[str, Value] = {
        f"listener.name.inside.{estate.mechanism.lower()}.connections.max.reauth.ms": SESSION_MS,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": estate.mechanism,
    }
    cluster = LabCluster(laboratory, brokers=2, extra={**sessions, **estate.of(estate.broker, "INSIDE")})
    for broker in cluster.brokers:
        inside = f"INSIDE://{BY_NAME}:{laboratory.ports.reserve()}"
        listeners = f"PLAINTEXT://{HOST}:{broker.spec.port},{inside}"
        extra: dict[str, Value] = {"listeners": listeners, "advertised.listeners": listeners}
        broker.spec = replace(broker.spec, extra={**broker.spec.extra, **extra})
        broker.options = estate.flags
    return cluster


def three_sides(cluster: LabCluster, leader: OurController) -> None:
    """Every broker is asked as this controller asks it, and says what ZooKeeper and the log say."""
    command = [sys.executable, "-m", "api", "audit", "-z", cluster.zookeeper_connect, "--kraft", str(leader.data)]
    command += ["--brokers", "registered", "--controller", str(leader.properties_file), "--engine", "quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = json.loads(done.stdout)["brokers"]["asked"]
    assert [(each["broker"], each["problem"]) for each in asked] == [(0, ""), (1, "")]


def test_there_and_back_where_brokers_log_in_to_each_other(laboratory: Laboratory, estate: Estate) -> None:
    cluster = cluster_of(laboratory, estate)
    to_brokers: dict[str, Value] = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": estate.mechanism,
    }
    ours = waiting(cluster, extra={**to_brokers, **estate.of(estate.ours, "INSIDE")})
    start(ours)
    leader = wait_ruling(ours)
    topic_made(cluster, "made-in-dual-write")
    three_sides(cluster, leader)
    clients_of_the_service(cluster, inventory_of(cluster, estate))

    before = estate.logins()
    for number in range(3):  # each longer than a session
        wait_for(_later(SESSION_MS / 1_000), "a session ends")
        topic_made(cluster, f"made-in-session-{number}")
    if estate.mechanism == "GSSAPI":
        assert estate.logins() > before, "ours logged in anew before their sessions ended"
    assert before > 0

    leader = fail_over(ours, leader)
    topic_made(cluster, "made-after-the-fail-over")
    three_sides(cluster, leader)
    text = leader.process.log_text() + str(leader.status())
    assert not [each for each in estate.secrets() if each in text]
    rollback(cluster, leader)
    topic_made(cluster, "made-after-the-rollback")


def inventory_of(cluster: LabCluster, estate: Estate) -> Inventory:
    """The service reaches brokers on INSIDE, too."""
    document = an_inventory()
    inside = (str(broker.spec.extra["listeners"]).partition("INSIDE://")[2] for broker in cluster.brokers)
    document["cluster"] |= {
        "bootstrap_servers": ",".join(inside),
        "security": {"protocol": "SASL_PLAINTEXT", "sasl_mechanism": estate.mechanism, **estate.inventory},
    }
    document["canary"] = {}
    document["brokers"] = [{**deepcopy(document["brokers"][0]), "id": broker.broker_id} for broker in cluster.brokers]
    return parse_inventory(dump_yaml(document).encode(), "of a test")


def clients_of_the_service(cluster: LabCluster, inventory: Inventory) -> None:
    """Replicas are read by both mechanisms; canary traffic is sent by what confluent-kafka's wheels have."""
    seen = read_replicas(inventory)
    assert (seen.problem, seen.brokers, seen.under_replicated) == ("", (0, 1), 0)
    if inventory.cluster.security.sasl_mechanism == "GSSAPI":
        with pytest.raises(FindingError) as raised:
            client_of(inventory)
        assert raised.value.code == "Z2K-7061"
        return
    answers: list[object] = []
    client = client_of(inventory)
    for partition in range(len(cluster.brokers)):
        client.produce(CANARY_TOPIC, b"x", partition=partition, on_delivery=lambda error, _: answers.append(error))
    assert client.flush(30.0) == 0
    assert answers == [None, None]


def _later(seconds: float) -> Callable[[], str | None]:
    ends = time.monotonic() + seconds
    return lambda: None if time.monotonic() >= ends else "it lasts"


def test_the_log_of_a_stock_controller_is_read_as_its_file_says(laboratory: Laboratory, estate: Estate) -> None:
    """Ours would not run with such a file. Without its key server or token server, the reason is told."""
    keys: dict[str, Value] = {
        "listeners": f"CONTROLLER://{BY_NAME}:{{port}}",
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "sasl.mechanism.controller.protocol": estate.mechanism,
        **estate.of(estate.broker, "CONTROLLER"),
    }
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect="", migrating=False, extra=keys)
    spec = replace(spec, extra={**spec.extra, "listeners": f"CONTROLLER://{BY_NAME}:{spec.port}"})
    cluster_id = random_cluster_id()
    stock = StockController(laboratory, spec, cluster_id)
    stock.options = estate.flags
    stock.start()
    stock.wait_ready()
    file = laboratory.directory / "as-client.properties"
    lines = {**spec.properties(), **estate.of(estate.ours, "CONTROLLER")}
    file.write_text("\n".join(f"{key}={value}" for key, value in lines.items()))
    file.chmod(0o600)
    access = read_access(file, PeerKind.CONTROLLERS)
    at = f"{BY_NAME}:{spec.port}"
    with log_of_quorum(at, cluster_id, client_security(access.security)) as log:
        assert list(log.directory.rglob("*.log"))
    estate.silence()
    wanted = "no Kerberos ticket" if estate.mechanism == "GSSAPI" else "HTTP 503, temporarily_unavailable"
    with (
        pytest.raises(Exception, match=wanted) as raised,
        log_of_quorum(at, cluster_id, client_security(access.security), patience_s=3.0),
    ):
        pass
    assert "Z2K-4117" in str(raised.value)
    estate.speak()
