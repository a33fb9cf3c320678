"""By GSSAPI the service asks brokers without librdkafka: TLS and login of its inventory, and who is silent."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.inventory import Inventory, parse_inventory
from migrator.fleet.strict_yaml import dump_yaml
from migrator.node.transport.client_security import ClientSecurity
from migrator.tls.sources import PemSource
from migrator.wire.messages.topics import MetadataResponse
from state_machine.nodes import wire_client
from state_machine.nodes.replicas import read_replicas
from state_machine.nodes.wire_client import _tls, wire_security
from tests.support.certificates import Authority
from tests.support.inventories import an_inventory


def by_gssapi(addresses: str, **security: Any) -> Inventory:
    document = an_inventory()
    login = {"protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI", "principal": "zk2kraft@REALM"}
    document["cluster"] |= {"bootstrap_servers": addresses, "security": {**login, **security}}
    return parse_inventory(dump_yaml(document).encode(), "x")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.kerberos.tickets.find_spec", lambda _: "found")


def test_every_broker_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    problem = read_replicas(by_gssapi(f"{address},{address}")).problem
    assert problem.startswith("no broker answers: ")
    assert problem.count(f"{address}: ") == 2


def test_a_broker_that_is_silent_keeps_nobody_from_asking_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that fails at once is no answer. What is still asked when one has answered is given up."""
    given_up = []

    async def ask(host: str, port: int, security: ClientSecurity) -> MetadataResponse:
        match host:
            case "silent":
                try:
                    await asyncio.sleep(60)
                finally:
                    given_up.append(host)
            case "closed":
                raise ConnectionRefusedError("refused")
        return MetadataResponse()

    monkeypatch.setattr(wire_client, "_ask", ask)
    monkeypatch.setattr(wire_client, "NEXT_S", 0.01)
    assert read_replicas(by_gssapi("silent:1,closed:2,well:3")).problem == ""
    assert given_up == ["silent"]
    assert "closed:2: refused" in read_replicas(by_gssapi("closed:2")).problem


def test_a_keytab_that_cannot_be_read_is_a_problem_in_words() -> None:
    problem = read_replicas(by_gssapi("127.0.0.1:1", keytab="/nowhere/k")).problem
    assert "Z2K-3018" in problem
    assert "/nowhere/k: No such file" in problem


def test_tls_is_that_of_the_inventory(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("service")
    files = {"certificate_file": str(signed.certificate), "key_file": str(signed.key)}
    inventory = by_gssapi("h:1", protocol="SASL_SSL", ca_file=str(authority.trusted), **files)
    tls = _tls(inventory.cluster.security)
    assert tls.trusted == PemSource("ca_file", authority.trusted)
    assert isinstance(tls.identity, PemSource)
    assert tls.verify_names
    context = wire_security(inventory).context
    assert context is not None
    assert "authority of a test" in str(context.now().get_ca_certs())
    with pytest.raises(FindingError) as raised:
        wire_security(by_gssapi("h:1", protocol="SASL_SSL", ca_file=f"{tmp_path}/nowhere"))
    assert raised.value.code == "Z2K-3021"
