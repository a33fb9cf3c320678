"""Who a process is for ZooKeeper, as KAFKA_OPTS and a JAAS file say it; and which znodes hold secrets."""

from __future__ import annotations

import base64
import os
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.kerberos import tickets as kerberos
from migrator.kerberos.tickets import TicketError, Tickets, environment_for
from migrator.model.jaas import KerberosLogin
from migrator.zk.login import DigestLogin, LoginPlace, is_sensitive, login_in, login_place
from migrator.zk.session import ZkSession, process_login

FLAG = "-Djava.security.auth.login.config="
PLACE = LoginPlace("/etc/kafka/jaas.conf", "Client")
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
PRINCIPAL = "kafka/broker-1.example.com@EXAMPLE.COM"
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
    assert login_in(PLACE, JAAS) == DigestLogin("kafka", 'a "secret"; {1}')
    assert "secret" not in repr(login_in(PLACE, JAAS))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no section Client"),
        (JAAS.replace("Client {", "Customer {"), "it has no section Client"),
        (JAAS.replace('username="kafka"', ""), "it has no username"),
        (JAAS.replace(DIGEST, "com.example.Login"), "com.example.Login is not supported"),
        (f"Client {{ {KERBEROS} required useKeyTab=true keyTab=k; }};", "it has no principal"),
        (f'Client {{ {KERBEROS} required useKeyTab=true principal="{PRINCIPAL}"; }};', "it has no keyTab"),
        (f'Client {{ {KERBEROS} required principal="{PRINCIPAL}"; }};', "nobody is here to ask for a password"),
        (
            f'Client {{ {KERBEROS} required useKeyTab=true keyTab="${{user.home}}/k" principal=p; }};',
            "only Java replaces",
        ),
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


# --- Kerberos -------------------------------------------------------------------------------------------------


def by_kerberos(options: str, **flags: str) -> KerberosLogin:
    given = {name.replace("__", "."): value for name, value in flags.items()}
    text = f'Client {{ {KERBEROS} required {options} principal="{PRINCIPAL}"; }};'
    found = login_in(LoginPlace("/etc/kafka/jaas.conf", "Client", given), text)
    assert isinstance(found, KerberosLogin)
    return found


@pytest.mark.parametrize(
    ("options", "flags", "environment"),
    [
        (
            'useKeyTab=true storeKey=true keyTab="FILE:/etc/kafka.keytab"',
            {"java__security__krb5__conf": "/etc/our-krb5.conf"},
            {
                "KRB5_CONFIG": "/etc/our-krb5.conf",
                "KRB5_CLIENT_KTNAME": "FILE:/etc/kafka.keytab",
                "KRB5CCNAME": "MEMORY:zk2kraft",
            },
        ),
        ("useTicketCache=true ticketCache=/run/tickets", {}, {"KRB5CCNAME": "/run/tickets"}),
        ("useTicketCache=true", {}, {}),
        (
            "useTicketCache=true useKeyTab=true keyTab=k ticketCache=/run/tickets",
            {},
            {"KRB5_CLIENT_KTNAME": "FILE:k", "KRB5CCNAME": "MEMORY:zk2kraft"},
        ),
    ],
)
def test_tickets_come_from_the_keytab_or_from_a_cache(
    options: str, flags: dict[str, str], environment: dict[str, str]
) -> None:
    assert environment_for(by_kerberos(options, **flags)) == environment


def test_the_service_of_the_servers_is_as_the_flag_says() -> None:
    assert by_kerberos("useTicketCache=true").service == "zookeeper"
    assert by_kerberos("useTicketCache=true", zookeeper__sasl__client__username="zk").service == "zk"


@pytest.mark.parametrize(
    "flag",
    [
        *("java__security__krb5__realm", "zookeeper__server__principal", "zookeeper__server__realm"),
        *("zookeeper__sasl__client__canonicalize__hostname", "sun__security__krb5__principal"),
    ],
)
def test_a_flag_of_java_that_would_not_be_honoured_is_refused(flag: str) -> None:
    with pytest.raises(FindingError, match="is not supported") as caught:
        by_kerberos("useTicketCache=true", **{flag: "x"})
    assert caught.value.code == "Z2K-1092"


def test_an_access_list_may_name_a_principal_with_or_without_host_and_realm() -> None:
    names = {"kafka", "kafka@EXAMPLE.COM", "kafka/broker-1.example.com", PRINCIPAL}
    assert by_kerberos("useTicketCache=true").names == names
    assert DigestLogin("kafka", "p").names == {"kafka"}


def test_without_the_package_the_login_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("migrator.kerberos.tickets.find_spec", lambda _: None)
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f'Client {{ {KERBEROS} required useTicketCache=true principal="{PRINCIPAL}"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"{FLAG}{jaas}")
    with pytest.raises(FindingError, match=re.escape("zk2kraft[kerberos]")) as caught:
        ZkSession("127.0.0.1:1")
    assert caught.value.code == "Z2K-1092"


def test_a_keytab_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.kerberos.tickets.find_spec", lambda _: "found")
    jaas = tmp_path / "jaas.conf"
    words = f'useKeyTab=true keyTab="{tmp_path}/nowhere" principal="{PRINCIPAL}"'
    jaas.write_text(f"Client {{ {KERBEROS} required {words}; }};")
    monkeypatch.setenv("KAFKA_OPTS", f"{FLAG}{jaas}")
    with pytest.raises(FindingError, match="nowhere"):
        ZkSession("127.0.0.1:1")


def tickets_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Tickets:
    """With another program in the place of the one that speaks with the key server."""
    file = tmp_path / "program.py"
    file.write_text(f"import base64, sys, time\nsay = lambda *words: print(*words, flush=True)\n{program}\n")
    monkeypatch.setattr(kerberos, "PROGRAM", file)
    return Tickets(KerberosLogin(PRINCIPAL))


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """The next ones have numbers beyond those that `select` takes."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    with ExitStack() as held:
        while held.enter_context(open(os.devnull)).fileno() < 1100:
            pass
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.usefixtures("many_descriptors")
def test_a_login_is_words_of_a_process_that_has_its_ticket_before_the_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"""
say("token", base64.b64encode(" ".join(sys.argv[1:]).encode()).decode())
said = base64.b64decode(sys.stdin.readline()).decode()
say("token" if said == "first" else "fault", "{encoded("second")}")
said = base64.b64decode(sys.stdin.readline()).decode()
say("done" if said == "last" else "fault", "{encoded("end")}")
"""
    tickets = tickets_of(tmp_path, monkeypatch, program)
    tickets.ask("zk-1")
    assert tickets.answer(None) == (f"zookeeper zk-1 {PRINCIPAL}".encode(), False)
    assert tickets.answer(b"first") == (b"second", False)
    assert tickets.answer(b"last") == (b"end", True)
    tickets.end()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("say('fault', 'Cannot contact any KDC for realm EXAMPLE.COM')", "Cannot contact any KDC"),
        ("time.sleep(60)", "the key server does not answer"),
        ("sys.exit(3)", "its process ended with exit code 3"),
    ],
)
def test_no_ticket_is_told_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    monkeypatch.setattr(kerberos, "TICKET_S", 0.5 if "sleep" in program else 60.0)
    tickets = tickets_of(tmp_path, monkeypatch, program)
    with pytest.raises(TicketError, match=reason):
        tickets.ask("zk-1")
    with pytest.raises(TicketError, match="no ticket was asked for"):
        tickets.answer(None)


def test_without_a_ticket_no_server_is_connected_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f'Client {{ {KERBEROS} required useTicketCache=true principal="{PRINCIPAL}"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"{FLAG}{jaas}")
    monkeypatch.setattr(kerberos, "find_spec", lambda _: "found")
    tickets_of(tmp_path, monkeypatch, "say('fault', 'Clock skew too great')")
    before = dict(os.environ)
    with socket.create_server(("127.0.0.1", 0)) as server:
        session = ZkSession(f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(FindingError, match="no Kerberos ticket: Clock skew too great") as raised:
            session.start(3.0)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert raised.value.code == "Z2K-2001"
    assert dict(os.environ) == before
