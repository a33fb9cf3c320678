"""Brokers whose every listener wants TLS and a login, with an authorizer and a control plane: there and back.

And listeners that every file names in small letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from migrator.driver.checks.settings import ACL_AUTHORIZER
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from tests.e2e.quorums import start
from tests.e2e.support import wait_for
from tests.e2e.whole_way import there_and_back, topic_made, waiting
from tests.support.certificates import Authority

pytestmark = pytest.mark.lab

LISTENERS = ("CLIENTS", "INSIDE", "CONTROLPLANE", "CONTROLLER")
USERS = ("broker", "controller", "admin", "alice", "bob")
REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED
PASSES = (KafkaError.NOT_CONTROLLER, KafkaError.REQUEST_TIMED_OUT, KafkaError._TIMED_OUT)
"""Answers of a cluster whose controller is busy, or changed a moment ago."""


def password(user: str) -> str:
    return f"s3cret-0f-{user}"


def secured(authority: Authority, user: str) -> dict[str, Value]:
    """What brokers and controllers have alike: TLS and PLAIN on every listener, brokers told things on INSIDE."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = " ".join(f'user_{name}="{password(name)}"' for name in USERS)
    jaas = f'{module} required username="{user}" password="{password(user)}" {users};'
    return {
        "listener.security.protocol.map": ",".join(f"{name}:SASL_SSL" for name in LISTENERS),
        "inter.broker.listener.name": "INSIDE",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign(user).pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        **{f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas for name in LISTENERS},
    }


def login(authority: Authority, user: str) -> dict[str, str]:
    """librdkafka's keys."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password(user),
        "ssl.ca.location": str(authority.trusted),
    }


def secured_cluster(laboratory: Laboratory, authority: Authority) -> LabCluster:
    """No listener without TLS and login; the ZooKeeper controller speaks on a control plane of its own."""
    extra = {
        **secured(authority, "broker"),
        "control.plane.listener.name": "CONTROLPLANE",
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:broker;User:admin",
    }
    cluster = LabCluster(laboratory, brokers=2, extra=extra, client=login(authority, "admin"))
    for broker in cluster.brokers:
        ports = {"CLIENTS": broker.spec.port, **{name: laboratory.ports.reserve() for name in LISTENERS[1:3]}}
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
        own: dict[str, Value] = {"listeners": listeners, "advertised.listeners": listeners}
        broker.spec = replace(broker.spec, extra={**broker.spec.extra, **own})
    return cluster


def allow(cluster: LabCluster, user: str, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    bindings = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", each, AclPermissionType.ALLOW)
        for each in operations
    ]

    def why_not() -> str | None:
        """Made once more, an ACL is the same one."""
        admin = cluster.new_admin()  # it has to outlive its requests
        try:
            for future in admin.create_acls(bindings).values():
                future.result(120)
        except KafkaException as error:
            if error.args[0].code() not in PASSES:
                raise
            return str(error.args[0].str())
        return None

    wait_for(why_not, f"{user} has its permissions")


def why_not_written(cluster: LabCluster, who: dict[str, str], topic: str) -> KafkaError | None:
    """One record by this user."""
    told: list[KafkaError | None] = []
    producer = Producer({**cluster.client, **who, "message.timeout.ms": "120000"})
    producer.produce(topic, "x", on_delivery=lambda error, _: told.append(error))
    producer.flush(150)
    return told[0]


def permitted(cluster: LabCluster, authority: Authority) -> Callable[[str], None]:
    """What happens at each stop of the way: a topic, a permission for it, and brokers that heed both."""

    def at(name: str) -> None:
        topic_made(cluster, name)
        allow(cluster, "alice", ResourceType.TOPIC, name, AclOperation.WRITE)

        def why_not() -> str | None:
            error = why_not_written(cluster, login(authority, "alice"), name)
            assert error is None or error.code() == REFUSED, error
            return None if error is None else "alice may not write yet"

        wait_for(why_not, f"brokers know of the permission for {name}")
        error = why_not_written(cluster, login(authority, "bob"), name)
        assert error is not None
        assert error.code() == REFUSED

    return at


def test_there_and_back_with_sasl_ssl_an_authorizer_and_a_control_plane(laboratory: Laboratory, tmp_path: Path) -> None:
    """The controllers are no super users of the brokers: what they need there, ACLs allow them."""
    authority = Authority(tmp_path / "authority")
    cluster = secured_cluster(laboratory, authority)
    ours = waiting(
        cluster,
        extra={
            **secured(authority, "controller"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:controller;User:broker;User:admin",
        },
    )
    needed = (AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    allow(cluster, "controller", ResourceType.BROKER, "kafka-cluster", *needed)
    allow(cluster, "controller", ResourceType.TOPIC, "*", AclOperation.DESCRIBE)
    leader = there_and_back(cluster, ours, tmp_path / "mark", permitted(cluster, authority))
    text = leader.process.log.read_text(errors="replace") + str(leader.status())
    assert not [user for user in USERS if password(user) in text]


def test_brokers_and_controllers_whose_files_name_the_listener_in_small_letters_reach_dual_write(
    laboratory: Laboratory,
) -> None:
    """As met in the field: /brokers/ids says INTERNAL, every file says internal."""
    names: dict[str, Value] = {
        "listener.security.protocol.map": "internal : plaintext, CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "internal",
    }
    cluster = LabCluster(laboratory, brokers=2, extra=names)
    for broker in cluster.brokers:
        listeners = f"internal://{HOST}:{broker.spec.port}"
        own: dict[str, Value] = {"listeners": listeners, "advertised.listeners": listeners}
        broker.spec = replace(broker.spec, extra={**broker.spec.extra, **own})
    ours = waiting(cluster, extra=names)
    start(ours)
    ours[0].wait_dual_write()
    topic_made(cluster, "after")
    registered = {listener for each in ours[0].status()["brokers"] for listener in each["listeners"]}
    assert registered == {f"INTERNAL://{HOST}:{broker.spec.port}" for broker in cluster.brokers}
