"""What executors get to log in to ZooKeeper with: it travels in a task, and its text and no file show it."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

from migrator.audit.spark.sent_login import SentLogin, login_to_send
from migrator.findings.audit import LOGIN_STAYS_HERE
from migrator.findings.finding import FindingError
from migrator.findings.preflight import ZOOKEEPER_TLS_UNUSABLE
from migrator.model.jaas import KERBEROS
from migrator.zk.login import DIGEST, DigestLogin
from tests.support.certificates import Authority

MASTER = "spark://cluster:7077"
NETTY = "org.apache.zookeeper.ClientCnxnSocketNetty"


def options(monkeypatch: pytest.MonkeyPatch, jaas: Path, *flags: str) -> None:
    monkeypatch.setenv("KAFKA_OPTS", " ".join([f"-Djava.security.auth.login.config={jaas}", *flags]))


def test_a_process_that_is_nobody_sends_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    assert login_to_send(MASTER) is None


def test_a_kerberos_login_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jaas = tmp_path / "jaas"
    jaas.write_text(f'Client {{ {KERBEROS} required useKeyTab=true keyTab="/k" principal="audit@EXAMPLE.COM"; }};')
    options(monkeypatch, jaas)
    with pytest.raises(FindingError, match=r"audit@EXAMPLE\.COM") as refused:
        login_to_send(MASTER)
    assert refused.value.code == LOGIN_STAYS_HERE.code == "Z2K-5015"


def test_user_and_tls_keys_arrive_where_none_of_the_files_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "driver"
    here.mkdir()
    authority = Authority(here)
    pem, password = authority.sign("auditor").pem, here / "password"
    password.write_text("of the key store\n")
    jaas = here / "jaas"
    jaas.write_text(f'Client {{ {DIGEST} required username="audit" password="s3cret"; }};')
    store = f"-Dzookeeper.ssl.keyStore.location={pem}", f"-Dzookeeper.ssl.keyStore.passwordPath={password}"
    trust = f"-Dzookeeper.ssl.trustStore.location={authority.trusted}"
    options(monkeypatch, jaas, "-Dzookeeper.client.secure=true", f"-Dzookeeper.clientCnxnSocket={NETTY}", *store, trust)
    sent = login_to_send(MASTER)
    assert sent is not None
    assert "s3cret" not in repr(sent)
    assert "of the key store" not in repr(sent)
    assert "BEGIN" not in repr(sent)
    task = pickle.dumps(sent)
    monkeypatch.delenv("KAFKA_OPTS")
    shutil.rmtree(here)
    arrived: SentLogin = pickle.loads(task)
    assert arrived.user == DigestLogin("audit", "s3cret")
    session = arrived.session("127.0.0.1:1")
    assert session.sockets.context is not None
    assert session.sockets.name == "CN=auditor"


def test_a_key_that_cannot_be_read_is_named_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = "-Dzookeeper.client.secure=true", f"-Dzookeeper.clientCnxnSocket={NETTY}"
    missing = f"-Dzookeeper.ssl.keyStore.location={tmp_path / 'none.pem'}", "-Dzookeeper.ssl.keyStore.password=x"
    monkeypatch.setenv("KAFKA_OPTS", " ".join([*tls, *missing]))
    with pytest.raises(FindingError) as refused:
        login_to_send(MASTER)
    assert refused.value.code == ZOOKEEPER_TLS_UNUSABLE.code
