"""The control port that other hosts reach: its keys, who is let in, and what follows its files."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from migrator.findings.finding import FindingError
from migrator.node.config.properties import NodeConfig, parse_config
from migrator.node.process.control import ControlServer, read_token
from migrator.node.quorum.metrics import Metrics
from tests.support.certificates import Authority
from tests.support.statuses import a_status

PREFIX = "zk2kraft.control.remote."
TOKEN = "t0ken-of-the-company"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def keys_of(authority: Authority, token: Path, **changes: str | None) -> dict[str, str]:
    keys: dict[str, str | None] = {
        "address": "localhost:0",
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


@pytest.mark.parametrize(("text", "mode"), [("", 0o600), (TOKEN, 0o604), ("\n", 0o600)])
def test_a_token_that_others_read_or_that_is_empty_is_none(
    authority: Authority, tmp_path: Path, text: str, mode: int
) -> None:
    remote = config_with(keys_of(authority, a_token(tmp_path, text, mode))).remote_control
    assert remote is not None
    with pytest.raises(FindingError, match=r"Z2K-3010.*token\.file") as raised:
        read_token(remote)
    assert TOKEN not in str(raised.value)


def test_only_a_certificate_of_the_authority_and_the_token_together_get_in(
    authority: Authority, tmp_path: Path
) -> None:
    """The token is read for each request; loopback has its own port and token as before."""
    stranger = Authority(tmp_path / "stranger")
    token = a_token(tmp_path)
    remote = config_with(keys_of(authority, token)).remote_control

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
            token.write_text("another")
            second = [await ask(mine, TOKEN), await ask(mine, "another")]
            token.unlink()
            async with httpx.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {port._token}"}) as http:
                near = (await http.get(f"{port.url}/v1/status")).status_code
            return [*first, *second, await ask(mine, "another"), near]
        finally:
            port.stop()

    told = asyncio.run(asyncio.wait_for(story(), 120))
    assert told == ["not connected", "not connected", 401, 401, 200, 401, 200, 503, 200]
