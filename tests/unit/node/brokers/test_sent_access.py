"""How tasks of Spark log in to brokers: by what travels inside them, on a host where none of the files is."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.model.values import SecurityProtocol
from migrator.node.brokers.sent_access import AccessOfFile, PlainAccess, SentAccess, access_to_send
from migrator.node.config.properties import PeerKind, read_access
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.node.transport.security import ListenerSecurity, read_security
from tests.support.certificates import Authority

MASTER = "spark://cluster:7077"
MODULES = "org.apache.kafka.common.security"
SECRETS = ("c0ntr0ller", "of-others", "of the client", "PRIVATE KEY")
BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol"


def security(protocol: SecurityProtocol, mechanism: str, login: str, **keys: str) -> ListenerSecurity:
    given = {
        BETWEEN_BROKERS: mechanism,
        "sasl.enabled.mechanisms": mechanism,
        f"listener.name.inside.{mechanism.lower()}.sasl.jaas.config": f"{MODULES}.{login};",
        **{name.replace("__", "."): value for name, value in keys.items()},
    }
    return read_security("c.properties", given, "INSIDE", protocol, accepts=False, asks_by=BETWEEN_BROKERS)


def arrived(found: ListenerSecurity, *gone: Path) -> tuple[SentAccess, ClientSecurity]:
    """What a task has: pickled once, and no file of the driver's is there any more."""
    access = access_to_send(found, MASTER)
    assert callable(access)
    sent = access()
    assert not [secret for secret in SECRETS if secret in repr(sent)]
    task = pickle.dumps(sent)
    for each in gone:
        shutil.rmtree(each)
    there = pickle.loads(task)
    assert isinstance(there, SentAccess)
    return there, there.here()


def first_token(found: ClientSecurity) -> bytes:
    async def story() -> bytes:
        assert found.begin is not None
        return await found.begin("b1").first()

    return asyncio.run(story())


def a_token(**claims: Any) -> str:
    parts = (json.dumps(each).encode() for each in ({"alg": "RS256"}, {"exp": time.time() + 600, **claims}))
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in (*parts, b"signed"))


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_password_and_tls_keys_arrive_and_nothing_else_of_the_file_does(tmp_path: Path, kind: str) -> None:
    here = tmp_path / "driver"
    authority = Authority(here)
    signed = authority.sign("auditor")
    stores = {"ssl__keystore__type": "PEM", "ssl__keystore__location": str(signed.pem)}
    if kind == "PKCS12":
        from tests.support.certificates import openssl

        store = here / "auditor.p12"
        words = ("pkcs12", "-export", "-in", signed.certificate, "-inkey", signed.key, "-out", store, "-name", "x")
        openssl(*words, "-passout", "pass:st0re-s3cret")
        stores = {"ssl__keystore__type": "PKCS12", "ssl__keystore__location": str(store)}
        stores["ssl__keystore__password"] = "st0re-s3cret"
    found = security(
        SecurityProtocol.SASL_SSL,
        "PLAIN",
        'plain.PlainLoginModule required username="us" password="c0ntr0ller" user_others="of-others"',
        ssl__truststore__type="PEM",
        ssl__truststore__location=str(authority.trusted),
        **stores,
    )
    sent, there = arrived(found, here)
    assert there.context is not None
    assert first_token(there) == b"\0us\0c0ntr0ller"
    assert b"of-others" not in pickle.dumps(sent), "who may come in by this file is nobody's business"
    assert str(here).encode() not in pickle.dumps(sent)


def test_a_scram_login_arrives() -> None:
    login = 'scram.ScramLoginModule required username="us" password="c0ntr0ller"'
    _, there = arrived(security(SecurityProtocol.SASL_PLAINTEXT, "SCRAM-SHA-512", login))
    assert there.mechanism == "SCRAM-SHA-512"
    assert first_token(there).startswith(b"n,,n=us,r=")


def test_a_token_arrives_without_the_secret_that_got_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from migrator.node.transport import oauth

    token = a_token(sub="auditor")
    monkeypatch.setattr(oauth, "_asked", lambda login: token)
    found = security(
        SecurityProtocol.SASL_PLAINTEXT,
        "OAUTHBEARER",
        'oauthbearer.OAuthBearerLoginModule required clientId="us" clientSecret="of the client" extension_estate="e"',
        listener__name__inside__sasl__oauthbearer__token__endpoint__url="https://tokens.example/token",
        listener__name__inside__oauthbearer__sasl__login__callback__handler__class=(
            f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
    )
    sent, there = arrived(found)
    assert b"of the client" not in pickle.dumps(sent)
    assert b"tokens.example" not in pickle.dumps(sent)
    assert token not in repr(sent)
    assert first_token(there) == f"n,,\x01auth=Bearer {token}\x01estate=e\x01\x01".encode()


def test_a_token_of_a_file_is_the_one_of_the_moment(tmp_path: Path) -> None:
    """Whoever renews it needs no new audit: each look sends what stands there then."""
    file = tmp_path / "token"
    file.write_text(first := a_token(sub="first"))
    found = security(
        SecurityProtocol.SASL_PLAINTEXT,
        "OAUTHBEARER",
        "oauthbearer.OAuthBearerLoginModule required",
        listener__name__inside__sasl__oauthbearer__token__endpoint__url=f"file://{file}",
        listener__name__inside__oauthbearer__sasl__login__callback__handler__class=(
            f"{MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
    )
    access = access_to_send(found, MASTER)
    assert callable(access)
    looks = [access()]
    file.write_text(second := a_token(sub="second"))
    looks.append(access())
    file.unlink()
    assert [token in first_token(each.here()).decode() for each, token in zip(looks, (first, second), strict=True)] == [
        True,
        True,
    ]
    with pytest.raises(OSError, match="the token's file cannot be read"):
        access()


def test_a_kerberos_login_stays_and_its_principal_is_named() -> None:
    login = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="us@EXAMPLE"'
    given = {
        BETWEEN_BROKERS: "GSSAPI",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.inside.gssapi.sasl.jaas.config": f"{login};",
    }
    found = read_security(
        "c.properties", given, "INSIDE", SecurityProtocol.SASL_PLAINTEXT, accepts=False, asks_by=BETWEEN_BROKERS
    )
    told = access_to_send(found, MASTER)
    assert isinstance(told, str)
    assert told.startswith("Z2K-5017 The Kerberos login of us@EXAMPLE for brokers cannot go to the executors of spark:")


def test_a_key_that_cannot_be_read_is_named_before_anything_is_sent(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pem = authority.sign("auditor").pem
    login = 'plain.PlainLoginModule required username="us" password="c0ntr0ller"'
    stores = {"ssl__keystore__type": "PEM", "ssl__keystore__location": str(pem)}
    found = security(SecurityProtocol.SASL_SSL, "PLAIN", login, **stores)
    pem.unlink()
    access = access_to_send(found, MASTER)
    assert callable(access)
    with pytest.raises(FindingError) as refused:
        access()
    assert refused.value.code == "Z2K-3021"


def test_tasks_of_this_host_read_the_file_themselves(tmp_path: Path) -> None:
    """Spark encrypts nothing in `local[...]`: a task has the name of the file, and no login."""
    lines = {
        "process.roles": "controller",
        "node.id": "3000",
        "controller.quorum.voters": "3000@127.0.0.1:19093",
        "listeners": "CONTROLLER://127.0.0.1:19093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(tmp_path / "metadata"),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INSIDE:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.enabled.mechanisms": "PLAIN",
        BETWEEN_BROKERS: "PLAIN",
        "listener.name.inside.plain.sasl.jaas.config": (
            f'{MODULES}.plain.PlainLoginModule required username="us" password="c0ntr0ller";'
        ),
    }
    file = tmp_path / "controller.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    task = pickle.dumps(AccessOfFile(file))
    assert b"c0ntr0ller" not in task
    there: AccessOfFile = pickle.loads(task)
    assert first_token(there.here()) == b"\0us\0c0ntr0ller"
    assert read_access(file, PeerKind.BROKERS).listener == "INSIDE"
    assert PlainAccess().here() is PLAINTEXT
