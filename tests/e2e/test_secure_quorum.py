"""The controller listener with TLS and SASL, with real Kafka on the other end: brokers, and a stock voter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.cluster import LabCluster
from migrator.lab.ours import OurController, our_quorum
from migrator.lab.servers.controller import StockController, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value, write
from migrator.lab.servers.tools import random_cluster_id
from migrator.model.values import SecurityProtocol
from migrator.node.config.properties import read_config
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import client_security
from migrator.node.transport.security import ListenerSecurity, SaslLogin, SaslSettings, read_security
from migrator.wire.messages.brokers import DescribeClusterRequest, DescribeClusterResponse
from tests.e2e.quorums import PATIENT, wait_ruling
from tests.e2e.support import HANGS_AFTER_S, LONG_WINDOW, assert_same, audit, produce, wait_for
from tests.e2e.two_kinds import two_kinds
from tests.support.certificates import Authority

pytestmark = pytest.mark.lab

TOPICS = ["topic-0", "topic-1"]
SECRETS = ("c0ntr0ller", "br0ker", "PRIVATE KEY")


def jaas(user: str) -> str:
    """One login for everybody's server side and for the own client side, as files of a real cluster have it."""
    passwords = {"controller": SECRETS[0], "broker": SECRETS[1]}
    users = " ".join(f'user_{name}="{password}"' for name, password in passwords.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="{user}" password="{passwords[user]}" {users};'


def sasl_ssl(authority: Authority, user: str, protocol: str = "SASL_SSL") -> dict[str, Value]:
    """What controllers and brokers have alike; the same keys and the same PEM files for ours and for stock."""
    return {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INSIDE:SASL_SSL,CONTROLLER:{protocol}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign(user).pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "ssl.client.auth": "required",  # of no meaning where there is SASL
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas(user),
        "listener.name.inside.plain.sasl.jaas.config": jaas(user),
    }


def assert_no_secret(ours: list[OurController]) -> None:
    for each in ours:
        text = each.process.log.read_text(errors="replace") + str(each.status())
        assert not [secret for secret in SECRETS if secret in text]


def test_voters_and_brokers_meet_over_sasl_ssl_and_go_on_when_the_leader_dies(laboratory: Laboratory) -> None:
    """Every connection but those of clients: voters with each other, brokers to controllers, controllers to brokers.

    At the end another authority takes over, and no controller is restarted for it. Brokers trust both from the start.
    """
    authority, renewed = Authority(laboratory.directory / "authority"), Authority(laboratory.directory / "renewed")
    both = laboratory.directory / "both.pem"
    both.write_text(authority.trusted.read_text() + renewed.trusted.read_text())
    cluster = LabCluster(laboratory, extra={**sasl_ssl(authority, "broker"), "ssl.truststore.location": str(both)})
    for broker in cluster.brokers:
        inside = laboratory.ports.reserve()
        listeners = f"PLAINTEXT://{HOST}:{broker.spec.port},INSIDE://{HOST}:{inside}"
        extra: dict[str, Value] = {"listeners": listeners, "advertised.listeners": listeners}
        extra["inter.broker.listener.name"] = "INSIDE"
        broker.spec = replace(broker.spec, extra={**broker.spec.extra, **extra})
    cluster.start()
    cluster.create_topics(TOPICS)
    secured = {**sasl_ssl(authority, "controller"), "inter.broker.listener.name": "INSIDE"}
    ours = our_quorum(cluster, 3, {**LONG_WINDOW, **PATIENT, **secured})
    cluster.restart_as(lambda spec: spec.as_migrating(ours[0].voters))
    cluster.wait_isr_whole(TOPICS)
    for each in ours:
        each.launch()
    for each in ours:
        each.wait_ready()

    wait_ruling(ours)
    cluster.create_topics(["made-under-ours"])
    produce(cluster, "made-under-ours", 100)
    leader = wait_ruling(ours)
    leader.kill()
    left = [each for each in ours if each is not leader]
    successor = wait_ruling(left)
    cluster.create_topics(["made-afterwards"])
    produce(cluster, "made-afterwards", 100)
    assert_same(cluster, successor.data)
    addresses = ",".join(f"{HOST}:{each.spec.port}" for each in ours)  # one of them is dead
    assert_same(cluster, addresses, controller=successor.properties_file)
    (refused,) = audit(cluster, addresses, exits=[2])["differences"]
    assert "Z2K-4117" in str(refused), "nobody is logged in without the file"

    renew(authority, renewed, both)
    broker = cluster.brokers[0]
    only_new: dict[str, Value] = {
        "ssl.keystore.location": str(renewed.sign("broker").pem),
        "listener.name.controller.ssl.truststore.type": "PEM",
        "listener.name.controller.ssl.truststore.location": str(renewed.trusted),
    }
    broker.restart_as(replace(broker.spec, extra={**broker.spec.extra, **only_new}))
    cluster.wait_isr_whole([*TOPICS, "made-under-ours", "made-afterwards"])
    cluster.create_topics(["made-with-new-certificates"])
    produce(cluster, "made-with-new-certificates", 100)
    wait_ruling(left)
    assert "certificates.renewed" in successor.process.log_text()
    assert_no_secret(left)


def renew(old: Authority, new: Authority, both: Path) -> None:
    """The files that the controllers have, in their places: a certificate of the new authority, trust in both."""
    certificate = old.trusted.with_name("controller.pem")
    certificate.write_text(new.sign("controller").pem.read_text())
    old.trusted.write_text(both.read_text())


@pytest.mark.parametrize(
    "protocol",
    ["SASL_SSL", pytest.param("SSL", marks=pytest.mark.long), pytest.param("SASL_PLAINTEXT", marks=pytest.mark.long)],
)
def test_a_stock_voter_and_ours_lead_and_follow_each_other(laboratory: Laboratory, protocol: str) -> None:
    """In both directions; with SSL both sides show a certificate."""
    authority = Authority(laboratory.directory / "authority")
    quorum = two_kinds(laboratory, sasl_ssl(authority, "controller", protocol))
    quorum.start()
    quorum.lead_in_turn()
    assert_no_secret(quorum.ours)


def as_client(laboratory: Laboratory, authority: Authority, mechanism: str, password: str) -> Path:
    """What Kafka's own tools are given to speak with a controller."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'org.apache.kafka.common.security.{module} required username="broker" password="{password}";'
    file = laboratory.directory / "client.properties"
    trusted: dict[str, Value] = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.trusted)}
    keys: dict[str, Value] = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": login}
    write(file, {**trusted, **keys})
    return file


async def describe(port: int, how: ListenerSecurity) -> str:
    connection = BrokerConnection(HOST, port, "a test", client_security(how))
    try:
        return (await connection.ask(DescribeClusterRequest(endpoint_type=2), 1, DescribeClusterResponse)).cluster_id
    finally:
        connection.close()


def test_kafkas_tools_log_in_to_ours_and_ours_to_stock_by_plain_and_scram(laboratory: Laboratory) -> None:
    """Credentials in the log as `kafka-storage format --add-scram` writes them; one directory, ours, then stock."""
    authority = Authority(laboratory.directory / "authority")
    secured = sasl_ssl(authority, "controller")
    secured["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    for mechanism in ("scram-sha-256", "scram-sha-512"):
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="broker" password="{SECRETS[1]}";'
        secured[f"listener.name.controller.{mechanism}.sasl.jaas.config"] = login
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect="", migrating=False, extra=secured)
    cluster_id = random_cluster_id()
    ours = OurController(laboratory, spec, cluster_id)
    write(ours.properties_file, spec.properties())
    words: list[str] = [f"--cluster-id={cluster_id}", "--config", str(ours.properties_file), "--release-version", "3.9"]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        words += ["--add-scram", f"{mechanism}=[name=broker,password={SECRETS[1]}]"]
    laboratory.tool("kafka.tools.StorageTool", "format", *words)

    ours.start()
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        file = as_client(laboratory, authority, mechanism, SECRETS[1])
        asked = ("--bootstrap-controller", f"{HOST}:{spec.port}", "--command-config", file, "describe", "--status")
        assert f"ClusterId:              {cluster_id}" in laboratory.tool(tool, *asked)
        as_client(laboratory, authority, mechanism, "wr0ng")
        with pytest.raises(FindingError, match="Authentication failed"):
            laboratory.tool(tool, *asked)
    assert_no_secret([ours])
    assert "wr0ng" not in ours.process.log_text()
    ours.stop()

    stock = StockController(laboratory, spec, cluster_id)
    stock.start()
    stock.wait_ready()
    config = read_config(ours.properties_file)
    listener = read_security(
        config.file, config.given, "CONTROLLER", SecurityProtocol.SASL_SSL, accepts=True, asks_by=None
    )
    assert listener.sasl is not None
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        for password, refused in ((SECRETS[1], False), ("wr0ng", True)):
            as_broker = SaslLogin("broker", password, {})
            how = replace(listener, sasl=SaslSettings((), mechanism, {mechanism: as_broker}))

            def why_not(how: ListenerSecurity = how) -> str | None:
                """Stock knows credentials a moment after it answers."""
                try:
                    asyncio.run(describe(spec.port, how))
                except OSError as error:
                    return str(error)
                return None

            def why_not_refused(why_not: Callable[[], str | None] = why_not) -> str | None:
                """It may take longer than we wait for an answer."""
                said = str(why_not())
                assert said != str(None), "a wrong password was taken"
                return None if "refused our login" in said else said

            if refused:
                wait_for(why_not_refused, f"stock refuses our {mechanism}")
            else:
                wait_for(why_not, f"stock takes our {mechanism}")


def test_a_store_that_cannot_be_read_stops_the_start_before_anything_is_written(laboratory: Laboratory) -> None:
    authority = Authority(laboratory.directory / "authority")
    extra = {**sasl_ssl(authority, "controller"), "ssl.truststore.location": "/nowhere/trusted.pem"}
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect="", migrating=False, extra=extra)
    ours = OurController(laboratory, spec, random_cluster_id())
    ours.prepare()
    before = sorted(map(str, ours.data.rglob("*")))
    ours.launch()
    assert ours.process.wait_for_exit(HANGS_AFTER_S)
    assert ours.process.exit_code == 1
    assert "Z2K-3021" in ours.process.log_text()
    assert sorted(map(str, ours.data.rglob("*"))) == before
