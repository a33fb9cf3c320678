"""How the service reaches a cluster where librdkafka cannot: by GSSAPI, with the client of controllers and audits.

In:   an inventory. Out: `wire_security`, how brokers are spoken to; `ask_metadata`, what one of them tells any client.
Elsewhere: clients of librdkafka (kafka_clients.py), logging in (node.transport.kerberos_side).
Rule: krb5.conf is the host's, or the one that KAFKA_OPTS names (`-Djava.security.krb5.conf`), as for ZooKeeper.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from migrator.findings.finding import words_of
from migrator.fleet.inventory import Inventory, Security
from migrator.fleet.secrets import resolve
from migrator.model.jaas import KerberosLogin
from migrator.model.values import SecurityProtocol
from migrator.node.transport.broker_client import BrokerConnection
from migrator.node.transport.client_security import ClientSecurity, client_security
from migrator.node.transport.sasl import GSSAPI
from migrator.node.transport.security import ClientAuth, ListenerSecurity, SaslSettings, TlsSettings
from migrator.tls.contexts import TLS_VERSIONS
from migrator.tls.sources import PemSource
from migrator.wire.messages.topics import MetadataRequest, MetadataResponse
from migrator.zk.login import flags_of

CLIENT_ID: Final = "zk2kraft-service"
METADATA: Final = 12
ANSWER_S: Final = 5.0
NEXT_S: Final = 2.0


def speaks_gssapi(inventory: Inventory) -> bool:
    return inventory.cluster.security.sasl_mechanism == GSSAPI


def wire_security(inventory: Inventory) -> ClientSecurity:
    """Reads keys and secrets now. Raises OSError, Z2K-3018, Z2K-3021, Z2K-7010."""
    security = inventory.cluster.security
    assert speaks_gssapi(inventory), "everybody else is a client of librdkafka"
    protocol = SecurityProtocol[security.protocol]
    configuration = flags_of(os.environ).get("java.security.krb5.conf", "")
    login = KerberosLogin(
        security.principal, security.keytab or "", configuration=configuration, service=security.kerberos_service
    )
    tls = _tls(security) if protocol is SecurityProtocol.SASL_SSL else None
    where = f"the inventory of {inventory.cluster.name}"
    sasl = SaslSettings((), GSSAPI, {}, kerberos=login)
    return client_security(ListenerSecurity(where, "cluster.security", protocol, tls, sasl))


def _tls(security: Security) -> TlsSettings:
    shown = [Path(each) for each in (security.key_file, security.certificate_file) if each]
    text = "\n".join(each.read_text() for each in shown)
    return TlsSettings(
        identity=PemSource("certificate_file", text=text) if shown else None,
        key_password=resolve(security.key_password).reveal() if security.key_password else None,
        trusted=PemSource("ca_file", Path(security.ca_file)) if security.ca_file else None,
        client_auth=ClientAuth.NONE,
        verify_names=True,
        versions=TLS_VERSIONS,
    )


def ask_metadata(inventory: Inventory) -> MetadataResponse:
    """What the first broker that answers says of all topics. Blocks. Raises OSError when none does, and findings."""
    security = wire_security(inventory)
    return asyncio.run(_first(inventory.cluster.bootstrap_servers.split(","), security))


async def _first(addresses: Sequence[str], security: ClientSecurity) -> MetadataResponse:
    """The next one is asked as soon as those before it failed, or let it wait: one dead host costs `NEXT_S`."""
    reasons, left = [], deque(addresses)
    asked: dict[asyncio.Task[MetadataResponse], str] = {}
    try:
        while left or asked:
            if left:
                address = left.popleft().strip()
                host, _, port = address.rpartition(":")
                asked[asyncio.create_task(_ask(host.strip("[]"), int(port), security))] = address
            done, _ = await asyncio.wait(asked, timeout=NEXT_S, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = asked.pop(task)
                try:
                    return task.result()
                except (OSError, TimeoutError) as error:
                    reasons.append(f"{address}: {words_of(error) or type(error).__name__}")
        raise OSError("no broker answers: " + "; ".join(reasons))
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _ask(host: str, port: int, security: ClientSecurity) -> MetadataResponse:
    connection = BrokerConnection(host, port, CLIENT_ID, security)
    try:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return await connection.ask(request, METADATA, MetadataResponse, ANSWER_S)
    finally:
        connection.close()
