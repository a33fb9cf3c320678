"""OAUTHBEARER as a client: tokens of files and endpoints, kept as long as they are good, and in no text of ours."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.model.values import SecurityProtocol
from migrator.node.transport.client_security import client_security
from migrator.node.transport.oauth import OauthLogin, OauthSide, TokenSource, claims_of, refuse_endpoint
from migrator.node.transport.sasl import OAUTHBEARER, SaslRefused
from migrator.node.transport.security import ListenerSecurity, SaslSettings
from migrator.tls.sources import PemSource
from tests.support.certificates import Authority
from tests.support.token_server import TokenServer

SECRET = "s3cret"
CLIENT = "controller"


@pytest.fixture
def server() -> Iterator[TokenServer]:
    found = TokenServer({CLIENT: SECRET, "a+b%3Ac": "d%26e"})
    found.start()
    yield found
    found.stop()


class Clock:
    def __init__(self) -> None:
        self.later_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.later_s


def a_source(server: TokenServer, clock: Clock | None = None, secret: str = SECRET) -> TokenSource:
    return TokenSource(OauthLogin(server.token_url, CLIENT, secret, "of kafka"), clock or Clock())


def test_a_token_of_an_endpoint_is_asked_for_once_and_anew_after_four_fifths_of_its_life(server: TokenServer) -> None:
    clock = Clock()
    source = a_source(server, clock)

    async def both() -> set[str]:
        return {each.text for each in await asyncio.gather(source.token(), source.token())}

    assert len(asyncio.run(both())) == 1
    assert server.asked == [(CLIENT, "of kafka")]
    clock.later_s = 0.7 * server.lifetime_s
    source.token_now()
    assert len(server.asked) == 1
    clock.later_s = 0.9 * server.lifetime_s
    server.lifetime_s *= 3
    source.token_now()
    assert len(server.asked) == 2


def test_a_token_is_used_to_its_end_while_the_endpoint_gives_no_other(server: TokenServer) -> None:
    clock = Clock()
    source = a_source(server, clock)
    first = source.token_now()
    server.is_down = True
    clock.later_s = 0.9 * server.lifetime_s
    assert source.token_now() is first
    clock.later_s = 1.1 * server.lifetime_s
    with pytest.raises(OSError, match=re.escape("gave no token (HTTP 503, temporarily_unavailable)")):
        source.token_now()


def test_a_refused_client_is_told_by_the_code_of_the_standard_and_by_no_secret(server: TokenServer) -> None:
    with pytest.raises(OSError, match=re.escape("(HTTP 401, invalid_client)")) as raised:
        a_source(server, secret="wr0ng").token_now()
    assert "wr0ng" not in str(raised.value)
    server.stop()
    with pytest.raises(OSError, match="cannot be asked: ConnectError"):
        a_source(server).token_now()
    server.start = lambda: None  # type: ignore[method-assign]  # the fixture stops it once more
    server.stop = lambda: None  # type: ignore[method-assign]


def test_odd_names_of_clients_are_encoded_where_kafka_is_told_to(server: TokenServer) -> None:
    """As Java's `URLEncoder` does it; this server compares what it is sent."""
    assert TokenSource(OauthLogin(server.token_url, "a b:c", "d&e", encoded=True)).token_now().subject == "a+b%3Ac"


def test_an_endpoint_with_tls_is_verified(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = TokenServer({CLIENT: SECRET}, tls=authority.sign("tokens").pem)
    server.start()
    trusted = PemSource("ssl.truststore.certificates", authority.trusted)
    try:
        login = OauthLogin(server.token_url, CLIENT, SECRET, trusted=trusted)
        assert TokenSource(login).token_now().subject == CLIENT
        with pytest.raises(OSError, match="cannot be asked: ConnectError"):
            TokenSource(replace(login, trusted=None)).token_now()
    finally:
        server.stop()
    assert len(server.asked) == 1


def test_what_a_library_logs_of_a_request_has_no_address_in_it(
    server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A URL may have a secret in it."""
    with caplog.at_level("DEBUG"):
        TokenSource(OauthLogin(f"{server.token_url}?key={SECRET}", CLIENT, SECRET)).token_now()
    assert SECRET not in caplog.text


def test_the_token_of_a_file_is_read_for_each_login(server: TokenServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = TokenSource(OauthLogin(f"file://{file}"))
    for subject in ("one", "other"):
        file.write_text(server.token(subject) + "\n")
        assert source.token_now().subject == subject
    file.write_text(server.token("late", lifetime_s=-30))
    with pytest.raises(OSError, match=r"the token ended 3\d s ago"):
        source.token_now()
    file.write_text("no.token")
    with pytest.raises(OSError, match="no JWT that says when it ends"):
        source.token_now()


def test_the_message_is_that_of_kafka_and_a_refusal_is_acknowledged_once(server: TokenServer) -> None:
    source = TokenSource(OauthLogin(server.token_url, CLIENT, SECRET, extensions={"traceId": "7"}))

    async def talk() -> tuple[bytes, bytes | None, bytes | None]:
        side = OauthSide(source)
        first = await side.first()
        welcome = await OauthSide(source).answer(b"")
        refused = await side.answer(b'{"status":"invalid_token"}')
        with pytest.raises(SaslRefused, match="refuses the token, invalid_token"):
            await side.answer(b"")
        return first, welcome, refused

    first, welcome, refused = asyncio.run(talk())
    token = source.token_now().text
    assert first == f"n,,\x01auth=Bearer {token}\x01traceId=7\x01\x01".encode()
    assert (welcome, refused) == (None, b"\x01")


@pytest.mark.parametrize("text", ["", "one", "a.b.c", "a.e30.c", "a.eyJleHAiOiJ4In0.c", "a.W10.c"])
def test_what_is_no_token_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="no JWT"):
        claims_of(text)


@pytest.mark.parametrize("url", ["", "ldap://h/t", "file:token", "file://host/token", "https:///t", "http:t"])
def test_what_is_no_address_of_a_token_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="it "):
        refuse_endpoint(url)


def test_nothing_of_a_login_is_in_its_text(server: TokenServer) -> None:
    login = OauthLogin("https://user:s3cret@h/t", CLIENT, SECRET, extensions={"traceId": SECRET})
    token = a_source(server).token_now()
    for text in (repr(login), repr(token), str(SaslSettings((), OAUTHBEARER, {}, oauth=login))):
        assert SECRET not in text
        assert token.text not in text


def test_a_file_without_a_token_ends_a_start(tmp_path: Path) -> None:
    login = OauthLogin(f"file://{tmp_path}/nowhere")
    settings = SaslSettings((), OAUTHBEARER, {}, oauth=login)
    with pytest.raises(FindingError) as raised:
        client_security(ListenerSecurity("c.properties", "INSIDE", SecurityProtocol.SASL_PLAINTEXT, None, settings))
    assert raised.value.code == "Z2K-3018"
    assert "No such file" in str(raised.value)
