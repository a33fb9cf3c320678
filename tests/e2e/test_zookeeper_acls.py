"""Brokers log in to ZooKeeper and guard what they make there; ours log in alike and guard it alike: there and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kazoo.exceptions import NoNodeError

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.zk.session import ZkSession
from tests.e2e.support import once
from tests.e2e.whole_way import there_and_back, topic_made, waiting

pytestmark = pytest.mark.lab

USER, PASSWORD = "kafka", "the-brokers-s3cret"
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
GUARDED = {f"sasl:{USER}:31", "world:anyone:1"}
SECRET = {f"sasl:{USER}:31"}
NOT_OURS = ("/consumers", "/zookeeper")


def guarded_cluster(laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch) -> LabCluster:
    """ZooKeeper knows one user, whom brokers and this process with its children log in as."""
    jaas = laboratory.directory / "jaas.conf"
    jaas.parent.mkdir(parents=True, exist_ok=True)
    jaas.write_text(
        f'Server {{ {MODULE} required user_{USER}="{PASSWORD}"; }};\n'
        f'Client {{ {MODULE} required username="{USER}" password="{PASSWORD}"; }};\n'
    )
    login = f"-Djava.security.auth.login.config={jaas}"
    monkeypatch.setenv("KAFKA_OPTS", login)
    cluster = LabCluster(laboratory, brokers=2, extra={"zookeeper.set.acl": True})
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    for server in cluster.zookeeper.servers:
        server.spec = replace(server.spec, extra={"authProvider.1": provider})
        server.options = (login,)
    for broker in cluster.brokers:
        broker.options = (login,)
    return cluster


def everything(session: ZkSession, path: str = "") -> Iterator[str]:
    for name in session.children(path or "/") or []:
        below = f"{path}/{name}"
        if not below.startswith(NOT_OURS):
            yield below
            yield from everything(session, below)


def wrongly_guarded(cluster: LabCluster) -> dict[str, set[str]]:
    """Znodes whose access list is not what Kafka's brokers give them."""
    found = {}
    with ZkSession(cluster.zookeeper_connect) as session:
        for path in everything(session):
            try:
                entries, _ = session._client.get_acls(path)
            except NoNodeError:  # an ephemeral one, or a notification that was heard
                continue
            lists = {f"{each.id.scheme}:{each.id.id}:{each.perms}" for each in entries}
            secret = path.startswith(("/config/users", "/config/brokers", "/delegation_token/tokens"))
            if lists != (SECRET if secret else GUARDED):
                found[path] = lists
    return found


def test_there_and_back_where_znodes_are_guarded(
    laboratory: Laboratory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-18, K-14: at each stop a topic and a user with a password; nothing that others may write or should not read."""
    cluster = guarded_cluster(laboratory, monkeypatch)
    ours = waiting(cluster, extra={"zookeeper.set.acl": True})
    made: list[str] = []

    def change(name: str) -> None:
        topic_made(cluster, name)
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        upsertion = UserScramCredentialUpsertion(name, how, b"any", b"salt of a test")
        once(
            cluster.new_admin,
            lambda admin: admin.alter_user_scram_credentials([upsertion])[name].result(120),
            f"a user {name} is made",
        )
        made.append(name)
        assert wrongly_guarded(cluster) == {}, name

    leader = there_and_back(cluster, ours, tmp_path / "mark", change)
    with ZkSession(cluster.zookeeper_connect) as session:
        assert set(made) <= set(session.children("/config/users") or [])
    text = leader.process.log.read_text(errors="replace") + str(leader.status())
    assert PASSWORD not in text
