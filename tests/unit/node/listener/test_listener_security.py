"""The controller listener with TLS and SASL, over real sockets: who gets in, and what the others are told."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from migrator.findings.finding import FindingError
from migrator.model.values import SecurityProtocol
from migrator.node.listener.controller_apis import ControllerApis
from migrator.node.listener.server import ControllerServer
from migrator.node.quorum.quorum_apis import QuorumApis
from migrator.node.transport import broker_client
from migrator.node.transport.authentication import AuthenticationStep, ConnectionAuthentication
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import ClientSecurity, client_security
from migrator.node.transport.security import (
    ClientAuth,
    ListenerSecurity,
    SaslLogin,
    SaslSettings,
    TlsSettings,
)
from migrator.node.transport.tls import check_stores
from migrator.tls.sources import PemSource, StoreSource
from migrator.wire.frames import encode_request
from migrator.wire.messages.brokers import DescribeClusterRequest, DescribeClusterResponse
from migrator.wire.messages.handshake import ApiVersionsRequest, ApiVersionsResponse, SaslAuthenticateRequest
from migrator.wire.messages.partitions import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.support.builders import an_image
from tests.support.certificates import Authority, Signed, openssl
from tests.support.java_stores import (
    KEY_PASSWORD,
    KEYS_JKS,
    KEYS_PKCS12,
    STORE_PASSWORD,
    TRUST_PASSWORD,
    TRUSTED_JKS,
    TRUSTED_PKCS12,
)

PASSWORD = "s3cret"
TIMEOUT_S = 60.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, certificates and logins take their time, which is no subject here."""
    monkeypatch.setattr(broker_client, "CONNECT_TIMEOUT_S", TIMEOUT_S)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def node(authority: Authority) -> Signed:
    return authority.sign("node")


def a_tls(authority: Authority, identity: Signed | None, **more: Any) -> TlsSettings:
    shown = None if identity is None else PemSource("ssl.keystore.location", identity.pem)
    trusted = PemSource("ssl.truststore.location", authority.trusted)
    settings = TlsSettings(shown, None, trusted, ClientAuth.NONE, True, ("TLSv1.2", "TLSv1.3"))
    return replace(settings, **more)


def a_sasl(password: str = PASSWORD, mechanism: str = "PLAIN") -> SaslSettings:
    login = SaslLogin("controller", password, {"controller": PASSWORD})
    return SaslSettings(("PLAIN",), mechanism, {"PLAIN": login, mechanism: login})


def a_listener(tls: TlsSettings | None = None, sasl: SaslSettings | None = None) -> ListenerSecurity:
    both = SecurityProtocol.SASL_SSL if tls else SecurityProtocol.SASL_PLAINTEXT
    return ListenerSecurity("c.properties", "CONTROLLER", both, tls, sasl, failure_delay_ms=0)


@asynccontextmanager
async def serving(security: ListenerSecurity) -> AsyncIterator[int]:
    """A listener whose controller can describe an empty cluster; the port."""
    settings = SimpleNamespace(cluster_id="c", migration_enabled=True)

    async def submit(request: Any, version: int, asker: Any) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(
            error_message=f"{len(request.topics)} topics, the first is {request.topics[0].name}"
        )

    controller: Any = SimpleNamespace(image=an_image(), settings=settings, allows=lambda *_: True, submit=submit)
    raft: Any = SimpleNamespace(voter=SimpleNamespace(leader=-1))
    quorum = QuorumApis(raft, wall_ms=lambda: 0)
    server = ControllerServer(ControllerApis(raft, controller, quorum, listener="CONTROLLER"), security)
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        await server.stop()


async def describe(port: int, how: ClientSecurity, host: str = "127.0.0.1") -> str:
    """Ask something that only who is known may ask."""
    connection = BrokerConnection(host, port, "a test", how)
    try:
        asked = DescribeClusterRequest(endpoint_type=2)
        return (await connection.ask(asked, 1, DescribeClusterResponse, TIMEOUT_S)).cluster_id
    finally:
        connection.close()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    """Returns the reasons with which connections were refused. No secret may be in anything that was logged."""
    with capture_logs() as logged:
        asyncio.run(asyncio.wait_for(test(), 3 * TIMEOUT_S))
    assert PASSWORD not in str(logged)
    assert "wr0ng" not in str(logged)
    return [each["reason"] for each in logged if each["event"] == "connection.refused"]


def test_who_knows_the_password_gets_in_over_tls(authority: Authority, node: Signed) -> None:
    security = a_listener(a_tls(authority, node), a_sasl())

    async def test() -> None:
        async with serving(security) as port:
            assert await describe(port, client_security(security)) == "c"
            assert await describe(port, client_security(security), "localhost") == "c"

    assert run(test) == []


def test_a_session_that_the_server_ends_is_opened_anew_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that meets its end would be lost: the server closes the connection."""
    security = a_listener(None, a_sasl())
    authenticate = ConnectionAuthentication.authenticate
    opened: list[int] = []

    def with_an_end(self: ConnectionAuthentication, request: SaslAuthenticateRequest) -> AuthenticationStep:
        opened.append(1)
        step = authenticate(self, request)
        return replace(step, answer=msgspec.structs.replace(step.answer, session_lifetime_ms=10_000))

    monkeypatch.setattr(ConnectionAuthentication, "authenticate", with_an_end)
    now_s = [100.0]
    for module in ("client_security", "broker_client"):
        monkeypatch.setattr(f"migrator.node.transport.{module}.monotonic", lambda: now_s[0])

    async def test() -> None:
        async with serving(security) as port:
            connection = BrokerConnection("127.0.0.1", port, "a test", client_security(security))
            for at_s, connections in ((100.0, 1), (108.4, 1), (108.6, 2), (117.0, 2), (117.2, 3)):
                now_s[0] = at_s
                await connection.ask(DescribeClusterRequest(endpoint_type=2), 1, DescribeClusterResponse, TIMEOUT_S)
                assert len(opened) == connections, at_s
            connection.close()

    assert run(test) == []


def test_who_does_not_know_it_is_refused_and_the_connection_ends(authority: Authority, node: Signed) -> None:
    tls = a_tls(authority, node)

    async def test() -> None:
        async with serving(a_listener(tls, a_sasl())) as port:
            with pytest.raises(OSError, match=r"refused our login.*Invalid username or password"):
                await describe(port, client_security(a_listener(tls, a_sasl("wr0ng"))))

    assert run(test) == ["PLAIN: Authentication failed: Invalid username or password"]


def test_a_mechanism_that_is_not_enabled_is_refused_by_name(authority: Authority, node: Signed) -> None:
    async def test() -> None:
        async with serving(a_listener(None, a_sasl())) as port:
            with pytest.raises(OSError, match=r"does not take SCRAM-SHA-256.*error 33.*PLAIN"):
                await describe(port, client_security(a_listener(None, a_sasl(mechanism="SCRAM-SHA-256"))))

    assert len(run(test)) == 1


def test_before_it_is_known_who_asks_only_versions_are_told() -> None:
    async def test() -> None:
        async with serving(a_listener(None, a_sasl())) as port:
            connection = BrokerConnection("127.0.0.1", port, "a test")
            answer = await connection.ask(ApiVersionsRequest(), 3, ApiVersionsResponse, TIMEOUT_S)
            assert {17, 36} <= {each.api_key for each in answer.api_keys}
            with pytest.raises(OSError, match="the connection was closed"):
                await connection.ask(DescribeClusterRequest(endpoint_type=2), 1, DescribeClusterResponse, TIMEOUT_S)

    assert run(test) == ["DescribeCluster before it authenticated"]


def test_who_is_not_known_yet_gets_no_memory() -> None:
    async def test() -> None:
        async with serving(a_listener(None, a_sasl())) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">i", 600_000))
            assert await reader.read() == b""
            writer.close()

    assert run(test) == ["a request of 600000 bytes before it authenticated"]


def test_without_tls_nothing_is_understood(authority: Authority, node: Signed) -> None:
    async def test() -> None:
        async with serving(a_listener(a_tls(authority, node))) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode_request(ApiVersionsRequest(), 0, correlation_id=1, client_id=None))
            assert API_VERSIONS_ANSWER not in await reader.read()
            writer.close()

    (reason,) = run(test)
    assert reason.startswith("TLS: ")


API_VERSIONS_ANSWER = struct.pack(">ih", 1, 0)


def test_a_client_certificate_is_wanted_and_must_be_of_the_authority(authority: Authority, node: Signed) -> None:
    foreign_one = Authority(node.pem.parent / "strangers").sign("stranger")
    wants = a_listener(a_tls(authority, node, client_auth=ClientAuth.REQUIRED))

    async def test() -> None:
        async with serving(wants) as port:
            assert await describe(port, client_security(a_listener(a_tls(authority, authority.sign("peer"))))) == "c"
            for shown in (None, foreign_one):
                with pytest.raises((OSError, EOFError)):
                    await describe(port, client_security(a_listener(a_tls(authority, shown))))

    assert all(reason.startswith("TLS: ") for reason in run(test))


def test_a_server_must_be_who_was_asked_for_and_of_the_authority(authority: Authority) -> None:
    elsewhere = authority.sign("elsewhere", "DNS:elsewhere")
    foreign = Authority(elsewhere.pem.parent / "others")

    async def test() -> None:
        async with serving(a_listener(a_tls(authority, elsewhere))) as port:
            with pytest.raises(OSError, match=r"(?i)ip address mismatch"):
                await describe(port, client_security(a_listener(a_tls(authority, None))))
            unnamed = a_tls(authority, None, verify_names=False)
            assert await describe(port, client_security(a_listener(unnamed))) == "c"
            with pytest.raises(OSError, match="certificate verify failed"):
                await describe(port, client_security(a_listener(a_tls(foreign, None, verify_names=False))))

    run(test)


def test_a_large_request_passes_through_tls(authority: Authority, node: Signed) -> None:
    """Larger than what the streams hold back, several times over."""
    security = a_listener(a_tls(authority, node))
    topics = tuple(ListPartitionReassignmentsTopics(f"{number:0100}", (1,)) for number in range(60_000))
    asked = ListPartitionReassignmentsRequest(topics=topics)

    async def test() -> None:
        async with serving(security) as port:
            connection = BrokerConnection("127.0.0.1", port, "a test", client_security(security))
            for _ in range(3):
                answer = await connection.ask(asked, 0, ListPartitionReassignmentsResponse, TIMEOUT_S)
                assert answer.error_message == f"60000 topics, the first is {0:0100}"
            connection.close()

    assert run(test) == []


def test_a_certificate_may_itself_be_what_is_trusted(authority: Authority, node: Signed) -> None:
    """As in Kafka: a truststore may hold the peer's certificate alone."""
    pinned = replace(a_tls(authority, None), trusted=PemSource("ssl.truststore.location", node.certificate))

    async def test() -> None:
        async with serving(a_listener(a_tls(authority, node))) as port:
            assert await describe(port, client_security(a_listener(pinned))) == "c"

    run(test)


@pytest.mark.parametrize("in_one_line", [False, True])
def test_key_and_certificates_may_stand_in_the_file_itself(
    authority: Authority, node: Signed, in_one_line: bool
) -> None:
    text = node.pem.read_text()
    given = PemSource("ssl.keystore.key", text=" ".join(text.split("\n")) if in_one_line else text)
    trusted = PemSource("ssl.truststore.certificates", text=authority.trusted.read_text())
    security = a_listener(replace(a_tls(authority, node), identity=given, trusted=trusted))

    async def test() -> None:
        async with serving(security) as port:
            assert await describe(port, client_security(security)) == "c"

    run(test)


def test_an_encrypted_key_needs_its_password_and_never_asks_for_it(
    authority: Authority, node: Signed, tmp_path: Path
) -> None:
    pem = tmp_path / "locked.pem"
    openssl("pkcs8", "-topk8", "-in", node.key, "-out", pem, "-passout", f"pass:{PASSWORD}")
    pem.write_text(pem.read_text() + node.certificate.read_text())
    locked = replace(a_tls(authority, node), identity=PemSource("ssl.keystore.location", pem))
    check_stores(a_listener(replace(locked, key_password=PASSWORD)))
    for password in (None, "wr0ng"):
        with pytest.raises(FindingError, match=r"Z2K-3021.*ssl.keystore.location") as raised:
            check_stores(a_listener(replace(locked, key_password=password)))
        assert "wr0ng" not in str(raised.value)


@pytest.mark.parametrize("content", [None, b"", b"no PEM", bytes(range(256))])
def test_a_store_that_cannot_be_read_is_named(authority: Authority, node: Signed, tmp_path: Path, content: Any) -> None:
    pem = tmp_path / "a.pem"
    if content is not None:
        pem.write_bytes(content)
    for spoiled, key in (
        ({"identity": PemSource("ssl.keystore.location", pem)}, "ssl.keystore.location"),
        ({"trusted": PemSource("ssl.truststore.location", pem)}, "ssl.truststore.location"),
    ):
        with pytest.raises(FindingError) as raised:
            check_stores(a_listener(replace(a_tls(authority, node), **spoiled)))  # type: ignore[arg-type]
        assert (raised.value.code, raised.value.occurrence.values["key"]) == ("Z2K-3021", key)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kinds", ["jks", "p12"])
def test_a_listener_with_stores_of_java_is_spoken_with(tmp_path: Path, kinds: str) -> None:
    keys, trusted = (KEYS_JKS, TRUSTED_JKS) if kinds == "jks" else (KEYS_PKCS12, TRUSTED_PKCS12)
    shown = StoreSource("ssl.keystore.location", written(tmp_path / "k", keys), STORE_PASSWORD)
    believed = StoreSource("ssl.truststore.location", written(tmp_path / "t", trusted), TRUST_PASSWORD)
    password = KEY_PASSWORD if kinds == "jks" else None
    tls = TlsSettings(shown, password, believed, ClientAuth.REQUIRED, True, ("TLSv1.2", "TLSv1.3"))
    security = a_listener(tls, a_sasl())

    async def test() -> None:
        async with serving(security) as port:
            assert await describe(port, client_security(security)) == "c"
            with pytest.raises(OSError, match=r"."):
                await describe(port, client_security(a_listener(replace(tls, identity=None), a_sasl())))

    run(test)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k", "t"]


@pytest.mark.parametrize(
    ("content", "password", "reason"),
    [
        (KEYS_JKS, "wr0ng", "password is wrong"),
        (KEYS_PKCS12, "wr0ng", "password is wrong"),
        (KEYS_JKS[:300], STORE_PASSWORD, "cut off"),
        (TRUSTED_JKS, TRUST_PASSWORD, "no private key"),
        (None, STORE_PASSWORD, "No such file"),
    ],
)
def test_a_store_of_java_that_cannot_be_read_is_refused_by_its_key(
    authority: Authority, tmp_path: Path, content: bytes | None, password: str, reason: str
) -> None:
    file = tmp_path / "store.jks"
    if content is not None:
        file.write_bytes(content)
    for shown in (True, False):
        source = StoreSource("ssl.keystore.location", file, password, shown=shown)
        with pytest.raises(FindingError) as raised:
            check_stores(a_listener(replace(a_tls(authority, None), identity=source)))
        found = raised.value.occurrence.values
        assert (raised.value.code, found["key"]) == ("Z2K-3021", "ssl.keystore.location")
        assert reason in found["reason"]
        assert (str(file) in found["reason"]) == shown
        assert password not in str(raised.value)
