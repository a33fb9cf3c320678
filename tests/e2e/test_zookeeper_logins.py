"""Logins to ZooKeeper: by Kerberos there and back, and one whose server or key server is away."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.zk.multi import Create, Multi
from migrator.zk.session import ZkSession
from tests.e2e.support import wait_for
from tests.e2e.test_zookeeper_acls import GUARDED, PASSWORD, guarded_cluster, wrongly_guarded
from tests.e2e.whole_way import there_and_back, topic_made, waiting
from tests.support.key_server import REALM, KeyServer, why_not_here

pytestmark = pytest.mark.lab

KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
ANSWER_TO_CONNECT = 41
"""Bytes; what a server says next is about the login."""


@contextmanager
def breaking_logins(port: int, count: int) -> Iterator[tuple[int, list[int]]]:
    """A proxy before a server: the first connections end when the login begins. Yields its port, and their numbers."""
    broken: list[int] = []
    listener = socket.create_server((HOST, 0))

    def pipe(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        number = 0
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((HOST, port))
                number += 1
                threading.Thread(target=one, args=(number, client, server), daemon=True).start()

    def one(number: int, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):
            if number <= count:
                server.sendall(client.recv(65_536))
                client.sendall(server.recv(ANSWER_TO_CONNECT, socket.MSG_WAITALL))
                client.recv(65_536)  # the login begins
                broken.append(number)
                return
            threading.Thread(target=pipe, args=(server, client), daemon=True).start()
            pipe(client, server)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1], broken
    finally:
        listener.close()


def test_a_login_whose_server_goes_away_in_the_middle_of_it_is_tried_again(
    laboratory: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo takes it for a refusal and would never connect again: dual-write would stand still."""
    cluster = guarded_cluster(laboratory, monkeypatch)
    cluster.zookeeper.start()
    (server,) = cluster.zookeeper.servers
    changes: list[str] = []
    with breaking_logins(server.spec.port, 2) as (port, broken):
        session = ZkSession(f"{HOST}:{port}", on_change=changes.append, set_acl=True)
        try:
            session.start_in_background()
            wait_for(lambda: None if len(broken) == 2 else f"{broken}", "two logins are broken")
            wait_for(lambda: why_not_made(session, "/made"), "the third login is taken")
            assert "lost" not in changes, "it is the same session"
            assert session.apply(Multi((Create("/made/guarded", b""),))).applied
            entries, _ = session._client.get_acls("/made/guarded")
            assert {f"{each.id.scheme}:{each.id.id}:{each.perms}" for each in entries} == GUARDED
        finally:
            session.close()
    assert changes[-1] != "lost", "who closes a session hears no more of it"


def why_not_made(session: ZkSession, path: str) -> str | None:
    try:
        session.ensure_path(path)
        return None if session.get(path) is not None else "not made"
    except Exception as error:
        return str(error)


def kerberos_cluster(laboratory: Laboratory, keys: KeyServer, monkeypatch: pytest.MonkeyPatch) -> LabCluster:
    """Brokers, this process and its children are kafka/localhost; ZooKeeper calls them kafka."""
    jaas = laboratory.directory / "jaas.conf"
    words = 'required useKeyTab=true storeKey=true useTicketCache=false keyTab="{keytab}" principal="{principal}";'
    of = {name: words.format(keytab=keys.keytab(name), principal=f"{name}@{REALM}") for name in (SERVER, CLIENT)}
    jaas.write_text(f"Server {{ {KERBEROS} {of[SERVER]} }};\nClient {{ {KERBEROS} {of[CLIENT]} }};\n")
    flags = (f"-Djava.security.auth.login.config={jaas}", f"-Djava.security.krb5.conf={keys.configuration}")
    monkeypatch.setenv("KAFKA_OPTS", " ".join(flags))
    cluster = LabCluster(laboratory, brokers=2, extra={"zookeeper.set.acl": True})
    short = {"kerberos.removeHostFromPrincipal": True, "kerberos.removeRealmFromPrincipal": True}
    for server in cluster.zookeeper.servers:
        server.spec = replace(server.spec, extra={"authProvider.1": PROVIDER, **short})
        server.options = flags
    for broker in cluster.brokers:
        broker.options = flags
    return cluster


SERVER, CLIENT = "zookeeper/localhost", "kafka/localhost"


@pytest.mark.long
@pytest.mark.skipif(why_not_here() is not None, reason=why_not_here() or "")
def test_there_and_back_where_everybody_logs_in_by_kerberos(
    laboratory: Laboratory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-18: every znode of ours has the lists that Kafka's brokers give, and the key server may be away for a while."""
    laboratory.directory.mkdir(parents=True, exist_ok=True)
    keys = KeyServer(tmp_path / "keys", laboratory.ports.reserve())
    cluster = kerberos_cluster(laboratory, keys, monkeypatch)
    keys.start()
    try:
        ours = waiting(cluster, extra={"zookeeper.set.acl": True})

        def change(name: str) -> None:
            topic_made(cluster, name)
            assert wrongly_guarded(cluster) == {}, name

        leader = there_and_back(cluster, ours, tmp_path / "mark", change)
        assert PASSWORD not in str(leader.status())
        without_key_server(cluster, keys)
    finally:
        keys.stop()


def without_key_server(cluster: LabCluster, keys: KeyServer) -> None:
    """A session that begins while nobody gives tickets says so, and logs in once somebody does."""
    keys.stop()
    session = ZkSession(cluster.zookeeper_connect)
    try:
        session.start_in_background()
        wait_for(lambda: None if "no Kerberos ticket" in session._logins.fault else "no fault", "it gets no ticket")
        keys.start()
        wait_for(lambda: why_not_made(session, "/brokers"), "it reads and writes")
    finally:
        session.close()
