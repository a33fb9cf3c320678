"""Who a process is for ZooKeeper, as KAFKA_OPTS and a JAAS file say it; and which znodes hold secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.zk.login import LoginPlace, ZkLogin, is_sensitive, login_in, login_place
from migrator.zk.session import process_login

FLAG = "-Djava.security.auth.login.config="
PLACE = LoginPlace("/etc/kafka/jaas.conf", "Client")
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
JAAS = f"""
// for brokers themselves
KafkaServer {{
  org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="y";
}};
Client {{
  {DIGEST} required
  username="kafka"
  password="a \\"secret\\"; {{1}}";
}};
"""


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ("", None),
        ("-Xmx1g", None),
        (f"-Xmx1g {FLAG}/etc/kafka/jaas.conf", PLACE),
        (f"{FLAG}file:/etc/kafka/jaas.conf", PLACE),
        (f"'{FLAG}/etc/our kafka/jaas.conf'", LoginPlace("/etc/our kafka/jaas.conf", "Client")),
        (f"{FLAG}/etc/kafka/jaas.conf -Dzookeeper.sasl.clientconfig=Zk", LoginPlace("/etc/kafka/jaas.conf", "Zk")),
        (f"{FLAG}/etc/kafka/jaas.conf -Dzookeeper.sasl.client=false", None),
    ],
)
def test_the_place_of_the_login_is_that_of_kafkas_own_processes(options: str, place: LoginPlace | None) -> None:
    assert login_place({"KAFKA_OPTS": options}) == place


def test_the_login_is_read_from_its_section() -> None:
    assert login_in(PLACE, JAAS) == ZkLogin("kafka", 'a "secret"; {1}')
    assert "secret" not in repr(login_in(PLACE, JAAS))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no section Client"),
        (JAAS.replace("Client {", "Customer {"), "it has no section Client"),
        (JAAS.replace('username="kafka"', ""), "it has no username"),
        (JAAS.replace(DIGEST, "com.sun.security.auth.module.Krb5LoginModule"), "Krb5LoginModule is not supported"),
    ],
)
def test_a_login_that_cannot_be_used_is_told_without_its_password(text: str, reason: str) -> None:
    with pytest.raises(FindingError, match=reason) as caught:
        login_in(PLACE, text)
    assert caught.value.code == "Z2K-1092"
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_stops_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"{FLAG}{tmp_path / 'nowhere'}")
    with pytest.raises(FindingError, match="nowhere"):
        process_login()


@pytest.mark.parametrize(
    ("path", "sensitive"),
    [("/config/users/alice", True), ("/config/brokers/1", True), ("/delegation_token/tokens/t", True)]
    + [(path, False) for path in ("/config/topics/t", "/brokers/topics/t", "/controller", "/kafka-acl/Topic/t")],
)
def test_what_holds_secrets_may_be_read_by_its_maker_only(path: str, *, sensitive: bool) -> None:
    assert is_sensitive(path) == sensitive
