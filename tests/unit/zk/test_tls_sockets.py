"""Sessions over TLS: who is believed, who is not and why, and that no answer stays behind in a record."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from kazoo.security import ACL, Id, Permissions

from migrator.findings.finding import FindingError
from migrator.zk import session as session_module
from migrator.zk import tls_sockets
from migrator.zk.reach import reach
from migrator.zk.session import ZkSession
from migrator.zk.tls_settings import NETTY, ZkStore, ZkTls
from migrator.zk.tls_sockets import sockets_of
from tests.support import tls_zookeeper
from tests.support.certificates import Authority, Signed
from tests.support.java_stores import (
    KEY_PASSWORD,
    KEYS_JKS,
    KEYS_PKCS12,
    STORE_PASSWORD,
    TRUST_PASSWORD,
    TRUSTED_JKS,
    TRUSTED_PKCS12,
)
from tests.support.tls_zookeeper import DATA, TlsZooKeeper, a_tls_zookeeper

WITHIN_S: Final = (1.5, 10.0, 40.0)
"""For a session that does not come to be: more than the first only where its trouble was not met within that."""
PATIENT_S: Final = 60.0
"""Where somebody answers: it ends what hangs."""
HOUR_S: Final = 3_600
ANSWERS: Final = 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def node(authority: Authority) -> Signed:
    return authority.sign("node")


def a_store(file: Path, kind: str = "PEM", password: str | None = None) -> ZkStore:
    return ZkStore("c.properties", "zookeeper.ssl.x.location", str(file), kind, password)


def a_client(authority: Authority, node: Signed | None = None) -> ZkTls:
    return ZkTls(None if node is None else a_store(node.pem), a_store(authority.trusted))


def a_server(authority: Authority, node: Signed, *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(node.pem)
    if asks:
        context.load_verify_locations(authority.trusted)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def session(port: int, tls: ZkTls | None, host: str = "127.0.0.1") -> ZkSession:
    return ZkSession(f"{host}:{port}", session_timeout_ms=4_000, tls=tls)


def why_not(port: int, tls: ZkTls | None, said: str, host: str = "127.0.0.1") -> str:
    """Why no session comes to be; it ends with the time that it has, and names its trouble if it met that until then.

    said: the trouble.
    """
    reason = ""
    for within_s in WITHIN_S:
        begun = time.monotonic()
        with pytest.raises(FindingError) as raised:
            session(port, tls, host).start(within_s)
        assert raised.value.code == "Z2K-2001"
        assert time.monotonic() - begun < within_s + PATIENT_S
        reason = str(raised.value.occurrence.values["reason"])
        assert f"no answer in {within_s} s" in reason
        if said in reason:
            return reason
    raise AssertionError(reason)


@pytest.fixture
def _nothing_else_wakes_kazoo(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pings after a third of its session's time-out; neither the answer to that nor the server's end comes soon."""
    answer = TlsZooKeeper._answer

    def patient(server: TlsZooKeeper, connection: socket.socket) -> None:
        connection.settimeout(HOUR_S)
        answer(server, connection)

    connected = struct.pack(">iiqi", 0, 1_000 * HOUR_S, 77, 16) + bytes(16) + b"\0"
    monkeypatch.setattr(tls_zookeeper, "CONNECTED", connected)
    monkeypatch.setattr(TlsZooKeeper, "_answer", patient)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_that_is_believed_is_asked(authority: Authority, node: Signed, version: str, host: str) -> None:
    tls = replace(a_client(authority, node), versions=(version,))
    with a_tls_zookeeper(a_server(authority, node, asks=True)) as server:
        opened = session(server.port, tls, host).start(PATIENT_S)
        try:
            assert opened.connected
            znode = opened.get("/a")
            assert znode is not None
            assert znode.data == DATA
            secured = opened._client._connection._socket
            assert secured.version() == version
        finally:
            opened.close()


@pytest.mark.usefixtures("_nothing_else_wakes_kazoo")
def test_many_answers_in_one_record_are_all_taken_at_once(authority: Authority, node: Signed) -> None:
    """kazoo alone takes one answer each time that the network has something, and sleeps on the rest."""
    with a_tls_zookeeper(a_server(authority, node)) as server:
        opened = session(server.port, a_client(authority)).start(PATIENT_S)
        try:
            asked = [opened._client.get_async(f"/{number}") for number in range(ANSWERS)]
            assert {each.get(timeout=PATIENT_S)[0] for each in asked} == {DATA}
        finally:
            opened.close()


def test_a_quiet_session_outlives_its_time_out(authority: Authority, node: Signed) -> None:
    """Pings go out and are answered, though a record without bytes for kazoo came before."""
    changes: list[str] = []
    with a_tls_zookeeper(a_server(authority, node)) as server:
        address = f"127.0.0.1:{server.port}"
        opened = ZkSession(address, session_timeout_ms=4_000, tls=a_client(authority), on_change=changes.append)
        opened.start(PATIENT_S)
        try:
            opened._client._session_timeout = 1_000
            connections = server.connections
            time.sleep(1.5)
            assert opened.get("/a") is not None
            assert (changes, server.connections) == (["connected"], connections)
        finally:
            opened.close()


def test_a_server_that_nobody_signed_for_us_is_not_believed(authority: Authority, node: Signed, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "other")
    with a_tls_zookeeper(a_server(authority, node)) as server:
        assert why_not(server.port, a_client(stranger), f"127.0.0.1:{server.port}: its certificate is not trusted (")
        assert why_not(server.port, ZkTls(), "not trusted")  # the system's authorities


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_for_another_host_is_refused_unless_names_are_not_verified(
    authority: Authority, host: str
) -> None:
    elsewhere = authority.sign("elsewhere", names="DNS:zk9.example,IP:127.0.0.9")
    with a_tls_zookeeper(a_server(authority, elsewhere)) as server:
        assert why_not(server.port, a_client(authority), f"its certificate is not for {host}", host)
        opened = session(server.port, replace(a_client(authority), verify_names=False), host).start(PATIENT_S)
        opened.close()


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_server_that_wants_a_certificate_says_so(authority: Authority, node: Signed, version: str) -> None:
    with a_tls_zookeeper(a_server(authority, node, asks=True)) as server:
        uncertified = replace(a_client(authority), versions=(version,))
        assert why_not(server.port, uncertified, "it refuses our TLS settings or certificate")


def test_a_server_without_tls_is_named_as_such(authority: Authority) -> None:
    with a_tls_zookeeper(None) as server:
        assert why_not(server.port, a_client(authority), "does not speak TLS")


def test_a_plain_session_at_a_port_with_tls_is_told_that(
    authority: Authority, node: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_sockets, "PROBE_S", PATIENT_S)
    for asks in (False, True):
        with a_tls_zookeeper(a_server(authority, node, asks=asks)) as server:
            said = f"127.0.0.1:{server.port}: this port speaks TLS, and this session does not"
            assert why_not(server.port, None, said)
    with a_tls_zookeeper(None) as server:
        session(server.port, None).start(PATIENT_S).close()


def test_a_command_takes_tls_from_kafka_opts(
    authority: Authority, node: Signed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text(f"{STORE_PASSWORD}\n")
    keys = tmp_path / "keys.p12"
    keys.write_bytes(KEYS_PKCS12)
    flags = {
        "zookeeper.client.secure": "true",
        "zookeeper.clientCnxnSocket": NETTY,
        "zookeeper.ssl.keyStore.location": str(keys),
        "zookeeper.ssl.keyStore.passwordPath": str(tmp_path / "password"),
        "zookeeper.ssl.trustStore.location": str(authority.trusted),
    }
    monkeypatch.setattr(session_module, "reach", partial(reach, within_s=PATIENT_S))
    monkeypatch.setenv("KAFKA_OPTS", " ".join(f"-D{key}={value}" for key, value in flags.items()))
    with a_tls_zookeeper(a_server(authority, node)) as server, ZkSession(f"127.0.0.1:{server.port}") as opened:
        assert opened.connected
        assert opened.sockets.name == "CN=node"
        (tmp_path / "password").unlink()
        with pytest.raises(FindingError, match=r"Z2K-1093 KAFKA_OPTS: zookeeper.ssl.keyStore.location .*password"):
            ZkSession("zk:1")


@pytest.mark.parametrize(
    ("keys", "trusted", "kind", "key_password"),
    [(KEYS_PKCS12, TRUSTED_PKCS12, "PKCS12", None), (KEYS_PKCS12, TRUSTED_JKS, "JKS", None)],
)
def test_stores_of_java_are_shown_and_trusted(
    tmp_path: Path, keys: bytes, trusted: bytes, kind: str, key_password: str | None
) -> None:
    for name, content in (("k", keys), ("t", trusted)):
        (tmp_path / name).write_bytes(content)
    tls = ZkTls(a_store(tmp_path / "k", kind, STORE_PASSWORD), a_store(tmp_path / "t", kind, TRUST_PASSWORD))
    assert sockets_of(tls).name == "CN=node"


@pytest.mark.parametrize(
    ("content", "kind", "password", "reason"),
    [
        (KEYS_JKS, "JKS", STORE_PASSWORD, "the password of its private key is wrong"),
        (KEYS_JKS, "JKS", KEY_PASSWORD, "its password is wrong"),
        (KEYS_PKCS12[:-1], "PKCS12", STORE_PASSWORD, "cut off"),
        (b"", "PEM", None, "no key and certificate"),
        (None, "PEM", None, "No such file"),
    ],
)
def test_a_store_that_cannot_be_read_is_refused_before_anything_is_connected(
    tmp_path: Path, content: bytes | None, kind: str, password: str | None, reason: str
) -> None:
    file = tmp_path / "store"
    if content is not None:
        file.write_bytes(content)
    for tls in (ZkTls(identity=a_store(file, kind, password)),):
        with pytest.raises(FindingError) as raised:
            session(1, tls)
        found = raised.value.occurrence.values
        assert (raised.value.code, found["origin"], found["key"]) == (
            "Z2K-1093", "c.properties", "zookeeper.ssl.x.location"
        )  # fmt: skip
        assert reason in found["reason"]
        assert not password or password not in str(raised.value)


def test_suites_are_those_of_the_file_and_unknown_ones_are_refused(authority: Authority) -> None:
    chosen = replace(a_client(authority), versions=("TLSv1.2",), ciphers=("ECDHE-ECDSA-AES128-GCM-SHA256",))
    context = sockets_of(chosen).context
    assert context is not None
    names = {each["name"] for each in context.now().get_ciphers() if each["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
    for unknown in (("NO-SUCH",), ("ECDHE-ECDSA-AES128-GCM-SHA256", "NO-SUCH")):
        with pytest.raises(FindingError, match="1 of its suites are not known"):
            sockets_of(replace(chosen, ciphers=unknown))


def test_znodes_of_the_certificates_name_are_ours(
    authority: Authority, node: Signed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ZkSession, "_ask_who_we_are", lambda _: None)  # as before ZooKeeper 3.7
    opened = session(1, a_client(authority, node))
    assert opened._is_ours(ACL(Permissions.ALL, Id("x509", "CN=node")))
    assert not opened._is_ours(ACL(Permissions.ALL, Id("x509", "CN=other")))
    assert not session(1, a_client(authority))._is_ours(ACL(Permissions.ALL, Id("x509", "CN=node")))
    assert not session(1, None)._is_ours(ACL(Permissions.ALL, Id("x509", "CN=node")))
