"""SASL conversations: the examples of the standards, both ends with each other, and what must never be told."""

from __future__ import annotations

import base64

import pytest

from migrator.model.jaas import parse_login_module
from migrator.node.transport.sasl import (
    SCRAM_HASHES,
    ClientSide,
    PlainClient,
    PlainServer,
    SaslRefused,
    ScramClient,
    ScramServer,
    ServerSide,
    scram_credential,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def talk(client: ClientSide, server: ServerSide) -> str | None:
    """Who the server then believes it speaks to; the client is content as well."""
    token: bytes | None = client.first()
    for _ in range(4):
        if token is None:
            return server.user
        token = client.answer(server.answer(token))
    raise AssertionError("no end")


def a_scram_server(mechanism: str, user: str, password: str, iterations: int = 4_096) -> ScramServer:
    credential = scram_credential(mechanism, password, SALT, iterations)
    return ScramServer(mechanism, lambda _, name: credential if name == user else None, "servernonce")


def test_the_example_of_rfc_7677() -> None:
    client = ScramClient("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    credential = scram_credential("SCRAM-SHA-256", "pencil", SALT, 4_096)
    server = ScramServer("SCRAM-SHA-256", lambda *_: credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = server.answer(client.first())
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = client.answer(challenge)
    assert proof is not None
    assert proof.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    verified = server.answer(proof)
    assert verified == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert client.answer(verified) is None
    assert server.user == "user"


@pytest.mark.parametrize("mechanism", SCRAM_HASHES)
@pytest.mark.parametrize("user", ["broker", "a=b,c", "=2C"])
def test_both_ends_of_scram_agree_whatever_the_name(mechanism: str, user: str) -> None:
    assert talk(ScramClient(mechanism, user, "s3cret", "nonce"), a_scram_server(mechanism, user, "s3cret")) == user


def test_both_ends_of_plain_agree() -> None:
    assert talk(PlainClient("ä", "ö,\\"), PlainServer({"ä": "ö,\\"})) == "ä"


def test_who_does_not_know_the_password_is_told_the_same_as_who_does_not_exist() -> None:
    told = set()
    for user, password in (("broker", "wrong"), ("nobody", "s3cret")):
        for client, server in (
            (PlainClient(user, password), PlainServer({"broker": "s3cret"})),
            (ScramClient("SCRAM-SHA-512", user, password, "n"), a_scram_server("SCRAM-SHA-512", "broker", "s3cret")),
        ):
            with pytest.raises(SaslRefused) as refused:
                talk(client, server)
            assert server.user is None
            told.add(str(refused.value))
            assert not {word for word in (user, password, "s3cret") if word in str(refused.value)}
    assert len(told) == 2  # one text for each mechanism


@pytest.mark.parametrize(
    "token", [b"", b"\0a", b"\0a\0", b"\0\0b", b"other\0broker\0s3cret", b"\0broker\0s3cret\0", b"\xff\0broker\0s3cret"]
)
def test_plain_refuses_what_is_not_three_parts_of_one_user(token: bytes) -> None:
    server = PlainServer({"broker": "s3cret", "a": ""})
    with pytest.raises(SaslRefused):
        server.answer(token)
    assert server.user is None


@pytest.mark.parametrize(
    "token",
    [
        b"", b"n", b"n,,", b"y,,n=broker,r=x", b"n,,n=broker", b"n,,r=x", b"n,,n=broker,r=", b"n,,n=bro=ker,r=x",
        b"n,a=other,n=broker,r=x", b"n,,n=broker,r=x,tokenauth=true", b"n,,n=\xff,r=x", b"p=tls-unique,,n=broker,r=x",
    ],
)  # fmt: skip
def test_scram_refuses_what_is_no_first_message(token: bytes) -> None:
    with pytest.raises(SaslRefused):
        a_scram_server("SCRAM-SHA-256", "broker", "s3cret").answer(token)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda proof: proof[:-5] + b"AAA==",
        lambda proof: proof.replace(b"servernonce", b"anothernonce"),
        lambda proof: proof.partition(b",p=")[0],
        lambda proof: proof.partition(b",p=")[0] + b",p=" + base64.b64encode(b"short"),
        lambda proof: proof.partition(b",p=")[0] + b",p=?",
        lambda _: b"",
    ],
)
def test_scram_refuses_a_proof_that_is_none(spoil: object) -> None:
    server = a_scram_server("SCRAM-SHA-256", "broker", "s3cret")
    client = ScramClient("SCRAM-SHA-256", "broker", "s3cret", "nonce")
    proof = client.answer(server.answer(client.first()))
    with pytest.raises(SaslRefused):
        server.answer(spoil(proof))  # type: ignore[operator]
    assert server.user is None


@pytest.mark.parametrize(
    "challenge",
    [b"", b"r=other,s=AAAA,i=4096", b"r=nonce,s=AAAA,i=4096", b"r=nonceX,s=AAAA,i=4095", b"r=nonceX,s=AAAA,i=99999999",
     b"r=nonceX,s=?,i=4096", b"e=other-error"],
)  # fmt: skip
def test_a_scram_client_does_not_believe_any_server(challenge: bytes) -> None:
    with pytest.raises(SaslRefused):
        ScramClient("SCRAM-SHA-256", "broker", "s3cret", "nonce").answer(challenge)


def test_a_scram_client_wants_the_server_to_know_the_password_too() -> None:
    client = ScramClient("SCRAM-SHA-256", "broker", "s3cret", "nonce")
    client.answer(b"r=nonceX,s=AAAA,i=4096")
    with pytest.raises(SaslRefused, match="does not know"):
        client.answer(b"v=" + base64.b64encode(bytes(32)))


def test_a_weak_credential_is_not_used() -> None:
    with pytest.raises(SaslRefused):
        a_scram_server("SCRAM-SHA-256", "broker", "s3cret", iterations=4_095).answer(b"n,,n=broker,r=x")


# --- JAAS -------------------------------------------------------------------------------------------------


def test_a_login_module_is_read_as_kafka_writes_it() -> None:
    module = parse_login_module(
        'org.X required\n username="admin" password="a \\"b\\" = ; c"\tuser_admin=\'x\' user_b-c=plain ;'
    )
    assert module.name == "org.X"
    assert dict(module.options) == {
        "username": "admin", "password": 'a "b" = ; c', "user_admin": "x", "user_b-c": "plain"
    }  # fmt: skip
    assert "admin" not in repr(module)


@pytest.mark.parametrize(
    "text",
    ["", "org.X", "org.X required", "org.X needed;", 'org.X required password="s3cret"',
     'org.X required password="s3cret;', 'org.X required password "s3cret";', "org.X required password=;",
     "org.X required; org.Y required;",
     'org.X required "s3cret";'],
)  # fmt: skip
def test_what_is_no_login_module_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        parse_login_module(text)
    assert "s3cret" not in str(raised.value)
