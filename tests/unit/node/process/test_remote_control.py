"""The control port that other hosts reach: its keys, who is let in, and what follows its files."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from migrator.findings.finding import FindingError
from migrator.node.config.properties import NodeConfig, RemoteControl, parse_config
from migrator.node.process.control import BODY_BYTES_MAX, ControlServer, read_tokens
from migrator.node.quorum.metrics import Metrics
from migrator.tls import renewal
from tests.support.certificates import Authority
from tests.support.statuses import a_status

PREFIX = "zk2kraft.control.remote."
TOKEN = "t0ken-of-the-company"
NEXT = "the-next-t0ken-of-the-company"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def keys_of(authority: Authority, token: Path, **changes: str | None) -> dict[str, str]:
    keys: dict[str, str | None] = {
        "address": "localhost:9643",
        "token.file": str(token),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.sign("controller").pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trusted),
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    return {PREFIX + key: value for key, value in keys.items() if value is not None}


def config_with(keys: dict[str, str]) -> NodeConfig:
    lines = {
        "process.roles": "controller",
        "node.id": "3000",
        "controller.quorum.voters": "3000@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "log.dirs": "/data",
        **keys,
    }
    return parse_config("\n".join(f"{key}={value}" for key, value in lines.items()))


def a_token(tmp_path: Path, text: str = TOKEN + "\n", mode: int = 0o600) -> Path:
    file = tmp_path / "token"
    file.write_text(text)
    file.chmod(mode)
    return file


def remote_of(authority: Authority, token: Path, **changes: str | None) -> RemoteControl:
    """On a free port."""
    found = config_with(keys_of(authority, token, **changes)).remote_control
    assert found is not None
    return replace(found, port=0)


def test_without_its_address_there_is_none(authority: Authority, tmp_path: Path) -> None:
    assert config_with({}).remote_control is None
    with pytest.raises(FindingError, match=r"Z2K-3011.*control\.remote\.address"):
        config_with(keys_of(authority, a_token(tmp_path), address=None))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token__file": None}, r"Z2K-3011.*token\.file is missing"),
        ({"ssl__keystore__location": None}, r"Z2K-3021.*needs a certificate"),
        ({"ssl__truststore__location": None}, r"Z2K-3021.*ssl\.truststore\.location.*public authority"),
        ({"address": "9999"}, r"Z2K-3010.*host:port"),
        ({"address": "localhost:0"}, r"Z2K-3010.*nobody would learn"),
    ],
)
def test_a_half_of_it_is_refused(
    authority: Authority, tmp_path: Path, changes: dict[str, str | None], words: str
) -> None:
    with pytest.raises(FindingError, match=words):
        config_with(keys_of(authority, a_token(tmp_path), **changes))


def test_plain_keys_stand_in_for_its_own_as_with_a_listener(authority: Authority, tmp_path: Path) -> None:
    own = keys_of(authority, a_token(tmp_path))
    plain = {key.removeprefix(PREFIX) if ".ssl." in key else key: value for key, value in own.items()}
    files = [
        (each.security.tls.identity.file, each.security.tls.trusted.file)  # type: ignore[union-attr]
        for each in (config_with(plain).remote_control, config_with(own).remote_control)
        if each is not None
    ]
    assert files == [(authority.trusted.with_name("controller.pem"), authority.trusted)] * 2
    assert config_with(own).unknown == ()
    assert config_with({**own, f"{PREFIX}ssl.keystore.loction": "x"}).unknown == (f"{PREFIX}ssl.keystore.loction",)


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", 0o600),
        (TOKEN, 0o604),
        ("\n", 0o600),
        ("t0ken", 0o600),
        (f"{TOKEN} ", 0o600),
        (f"{TOKEN}\n" * 3, 0o600),
        (f"{TOKEN}\u00e9", 0o600),
    ],
)
def test_a_token_that_others_read_or_that_no_header_can_hold_is_none(
    authority: Authority, tmp_path: Path, text: str, mode: int
) -> None:
    remote = config_with(keys_of(authority, a_token(tmp_path, text, mode))).remote_control
    assert remote is not None
    with pytest.raises(FindingError, match=r"Z2K-3010.*token\.file") as raised:
        read_tokens(remote)
    assert TOKEN not in str(raised.value)


def test_only_a_certificate_of_the_authority_and_the_token_together_get_in(
    authority: Authority, tmp_path: Path
) -> None:
    """The token is read for each request; loopback has its own port and token as before."""
    stranger = Authority(tmp_path / "stranger")
    token = a_token(tmp_path)
    remote = remote_of(authority, token)

    async def story() -> list[Any]:
        port = ControlServer(
            asyncio.get_running_loop(), tmp_path, status=a_status, metrics=Metrics(), driver=None, remote=remote
        )
        port.start("127.0.0.1:0")

        async def ask(shown: Path | None, given: str) -> int | str:
            context = ssl.create_default_context(cafile=str(authority.trusted))
            if shown is not None:
                context.load_cert_chain(shown)
            headers = {"authorization": f"Bearer {given}"}
            async with httpx.AsyncClient(verify=context, trust_env=False, timeout=30, headers=headers) as http:
                try:
                    return (await http.get(f"https://localhost:{port.remote_port}/v1/status")).status_code
                except httpx.TimeoutException:
                    raise
                except httpx.TransportError:
                    return "not connected"

        try:
            mine = authority.sign("service").pem
            first = [
                await ask(None, TOKEN),
                await ask(stranger.sign("x").pem, TOKEN),
                await ask(mine, "wrong"),
                await ask(mine, port._token),
                await ask(mine, TOKEN),
            ]
            token.write_text(f"{NEXT}\n{TOKEN}\n")
            both = [await ask(mine, TOKEN), await ask(mine, NEXT)]
            token.write_text(NEXT)
            second = [*both, await ask(mine, TOKEN), await ask(mine, NEXT)]
            token.unlink()
            async with httpx.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {port._token}"}) as http:
                near = (await http.get(f"{port.url}/v1/status")).status_code
            return [*first, *second, await ask(mine, NEXT), near]
        finally:
            port.stop()

    told = asyncio.run(asyncio.wait_for(story(), 120))
    assert told == ["not connected", "not connected", 401, 401, 200, 200, 200, 401, 200, 503, 200]


def test_without_the_token_nothing_is_told_and_no_body_is_read(authority: Authority, tmp_path: Path) -> None:
    """Also of what loopback tells without one; and one that has the token sends no more than an operation needs."""
    remote = remote_of(authority, a_token(tmp_path))
    large = b"x" * (BODY_BYTES_MAX + 1)

    async def story() -> list[int]:
        port = ControlServer(
            asyncio.get_running_loop(), tmp_path, status=a_status, metrics=Metrics(), driver=None, remote=remote
        )
        port.start("127.0.0.1:0")
        context = ssl.create_default_context(cafile=str(authority.trusted))
        context.load_cert_chain(authority.sign("service").pem)
        url, known = f"https://localhost:{port.remote_port}", {"authorization": f"Bearer {TOKEN}"}
        try:
            async with httpx.AsyncClient(verify=context, trust_env=False, timeout=30) as http:
                answers = [
                    await http.get(f"{url}/metrics"),
                    await http.get(f"{url}/healthz"),
                    await http.post(f"{url}/v1/rollback", content=large),
                    await http.post(f"{url}/v1/rollback", content=large, headers=known),
                    await http.get(f"{url}/healthz", headers=known),
                ]
            return [each.status_code for each in answers]
        finally:
            port.stop()

    assert asyncio.run(asyncio.wait_for(story(), 120)) == [401, 401, 401, 413, 200]


def test_who_is_not_trusted_any_more_does_not_come_back_by_an_old_session(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is resumed shows no certificate: this port gives none."""
    monkeypatch.setattr(renewal, "LOOK_EVERY_S", 0.0)
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.trusted.read_text())
    remote = remote_of(authority, a_token(tmp_path), ssl__truststore__location=str(trusted))
    context = ssl.create_default_context(cafile=str(authority.trusted))
    context.load_cert_chain(authority.sign("service").pem)

    def ask(port: int, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool, bool]:
        """The session for the next time, whether this one was resumed, and whether there was an answer."""
        plain = socket.create_connection(("localhost", port), timeout=30)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
            connection.sendall(f"GET /healthz HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            try:
                answered = bool(connection.recv(1000))
            except OSError:  # it is refused after its own side of the handshake
                answered = False
            return connection.session, bool(connection.session_reused), answered

    async def story() -> None:
        port = ControlServer(
            asyncio.get_running_loop(), tmp_path, status=a_status, metrics=Metrics(), driver=None, remote=remote
        )
        port.start("127.0.0.1:0")
        assert port.remote_port is not None
        try:
            session, _, answered = await asyncio.to_thread(ask, port.remote_port, None)
            assert answered
            trusted.write_text(Authority(tmp_path / "another").trusted.read_text())
            for given in (None, session):
                async with asyncio.timeout(60):
                    while (seen := await asyncio.to_thread(ask, port.remote_port, given))[2]:
                        assert not seen[1], "the session was resumed"
                        await asyncio.sleep(0.05)
        finally:
            port.stop()

    asyncio.run(story())
