"""ZooKeeper with TLS, client certificates and a login; brokers and ours with Java's stores; a password from a file."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value
from migrator.node.zookeeper.request_limits import ask_servers
from migrator.zk.multi import JUTE_MAXBUFFER
from migrator.zk.session import ZkSession
from tests.e2e.support import AUDIT_DEADLINE_S, assert_same, wait_for
from tests.e2e.whole_way import rollback, topic_made, waiting
from tests.support.java_keytool import JavaStores

pytestmark = pytest.mark.lab

NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"
PROVIDERS = "org.apache.kafka.common.config.provider"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL_PASSWORD = "c0ntr0ller"
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN_PASSWORD = "the-brokers-s3cret"


def to_zookeeper(stores: JavaStores, kind: str, keys: Path, password: str) -> dict[str, Value]:
    """A broker's and a controller's keys alike."""
    return {
        "zookeeper.ssl.client.enable": True,
        "zookeeper.clientCnxnSocket": NETTY,
        "zookeeper.ssl.keystore.location": str(keys),
        "zookeeper.ssl.keystore.password": password,
        "zookeeper.ssl.keystore.type": kind,
        "zookeeper.ssl.truststore.location": str(stores.trusted),
        "zookeeper.ssl.truststore.password": password,
    }


def between_nodes(stores: JavaStores, keys: Path, password: str) -> dict[str, Value]:
    """SASL_SSL for controllers, with stores whose types are Kafka's default: the file says which it is."""
    login = f'{LOGIN} username="node" password="{SASL_PASSWORD}" user_node="{SASL_PASSWORD}";'
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": password,
        "ssl.truststore.location": str(stores.trusted),
        "ssl.truststore.password": password,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": login,
    }


def secured(laboratory: Laboratory, stores: JavaStores) -> LabCluster:
    """Its ZooKeeper takes nobody without TLS and a certificate on the port that brokers and controllers use."""
    of_brokers = to_zookeeper(stores, "JKS", stores.jks("broker"), stores.password)
    of_brokers |= between_nodes(stores, stores.pkcs12("broker"), stores.password)
    stores.jks("controller"), stores.pkcs12("controller")  # the trust store has all of them when ZooKeeper reads it
    extra = {**of_brokers, "zookeeper.set.acl": True}
    cluster = LabCluster(laboratory, brokers=2, extra=extra, secure=of_a_secure_zookeeper(stores))
    for server in (*cluster.zookeeper.servers, *cluster.brokers):
        server.options = (login(stores),)
    return cluster


def of_a_secure_zookeeper(stores: JavaStores) -> dict[str, Value]:
    return {
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "ssl.clientAuth": "need",
        "ssl.keyStore.location": str(stores.jks("zookeeper")),
        "ssl.keyStore.password": stores.password,
        "ssl.trustStore.location": str(stores.trusted),
        "ssl.trustStore.password": stores.password,
    }


def login(stores: JavaStores) -> str:
    """A user of ZooKeeper, whom it takes over TLS as well: what brokers make can be changed by nobody else."""
    jaas = stores.password_file.with_suffix(".jaas")
    jaas.write_text(
        f'Server {{ {DIGEST} required user_kafka="{LOGIN_PASSWORD}"; }};\n'
        f'Client {{ {DIGEST} required username="kafka" password="{LOGIN_PASSWORD}"; }};\n'
    )
    return f"-Djava.security.auth.login.config={jaas}"


def flags(stores: JavaStores, **changes: str | None) -> str:
    """KAFKA_OPTS of a command, as for ZooKeeper's own clients."""
    given: dict[str, str | None] = {
        "zookeeper.client.secure": "true",
        "zookeeper.clientCnxnSocket": NETTY,
        "zookeeper.ssl.keyStore.location": str(stores.pkcs12("controller")),
        "zookeeper.ssl.keyStore.passwordPath": str(stores.password_file),
        "zookeeper.ssl.trustStore.location": str(stores.trusted),
        "zookeeper.ssl.trustStore.passwordPath": str(stores.password_file),
    }
    given |= {name.replace("__", "."): value for name, value in changes.items()}
    return " ".join([login(stores), *(f"-D{key}={value}" for key, value in given.items() if value is not None)])


def check(cluster: LabCluster, ours: OurController, options: str) -> subprocess.CompletedProcess[str]:
    words = ["check", "--zookeeper", cluster.zookeeper_connect, "--controllers", str(ours.properties_file)]
    command = [sys.executable, "-m", "api", *words, "--clients"]
    environment = {**os.environ, "KAFKA_OPTS": options}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=AUDIT_DEADLINE_S, check=False, env=environment
    )


def why_not_limited(cluster: LabCluster, session: ZkSession) -> str | None:
    """A server that is slow to answer has no limit yet."""
    (limit,) = ask_servers(cluster.zookeeper_connect, 2 * JUTE_MAXBUFFER, session.sockets)
    return None if (limit.passed, limit.unknown) == (JUTE_MAXBUFFER, "") else str(limit)


def why_not_refused(cluster: LabCluster, reason: str) -> str | None:
    """No session comes to be; one that had no answer at all in its time knows no reason."""
    with pytest.raises(FindingError, match="Z2K-2001") as refused:
        ZkSession(cluster.zookeeper_connect).start(3)
    return None if reason in str(refused.value) else str(refused.value)


def test_there_and_back_where_zookeeper_wants_tls_and_certificates(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = JavaStores(laboratory.directory / "stores")
    cluster = secured(laboratory, stores)
    from_file = f"${{f:{stores.password_file.with_suffix('.properties')}:stores}}"
    stores.password_file.with_suffix(".properties").write_text(f"stores={stores.password}\n")
    providers = {"config.providers": "f", "config.providers.f.class": f"{PROVIDERS}.FileConfigProvider"}
    to_zk = to_zookeeper(stores, "JKS", stores.jks("controller"), from_file)
    between = between_nodes(stores, stores.pkcs12("controller"), from_file)
    (ours,) = waiting(cluster, extra={**providers, **to_zk, **between, "zookeeper.set.acl": True})
    assert stores.password not in ours.properties_file.read_text()
    monkeypatch.setenv("KAFKA_OPTS", flags(stores))  # of this test's own sessions
    ours.environment["KAFKA_OPTS"] = login(stores)

    found = check(cluster, ours, flags(stores))
    assert found.returncode in (0, 1), found.stdout + found.stderr
    assert "brokers [0, 1]" in found.stdout
    assert "Z2K-1045" not in found.stdout, "znodes of the brokers' login are ours as well"
    with ZkSession(cluster.zookeeper_connect) as session:
        wait_for(partial(why_not_limited, cluster, session), "ZooKeeper's limit is found")
    for options, reason in (
        (flags(stores, zookeeper__ssl__keyStore__location=None), "it refuses our TLS settings or certificate"),
        (flags(stores, zookeeper__ssl__trustStore__location=None), "its certificate is not trusted"),
        (login(stores), "this port speaks TLS, and this session does not"),
    ):
        monkeypatch.setenv("KAFKA_OPTS", options)
        wait_for(partial(why_not_refused, cluster, reason), reason)
    monkeypatch.setenv("KAFKA_OPTS", flags(stores))

    ours.launch()
    ours.wait_ready()
    ours.wait_dual_write()
    topic_made(cluster, "made-in-dual-write")
    assert cluster.zk.read("/brokers/topics/made-in-dual-write") is not None
    assert_same(cluster, ours.data)
    rollback(cluster, ours)
    topic_made(cluster, "made-after-the-rollback")

    text = ours.process.log.read_text(errors="replace") + str(ours.status())
    assert not [secret for secret in (stores.password, SASL_PASSWORD, LOGIN_PASSWORD, "PRIVATE KEY") if secret in text]
