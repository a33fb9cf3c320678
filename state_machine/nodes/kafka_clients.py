"""How the service reaches a cluster as any Kafka client does.

In:   an inventory. Out: settings of librdkafka, with the secrets in them, or with what fetches tokens.
Elsewhere: who uses them (replicas.py, finish/canary.py), what a secret's reference is (migrator.fleet.secrets), tokens
(node.transport.oauth), the same by GSSAPI without librdkafka (wire_client.py).
Errors: Z2K-7061 where the login is GSSAPI and this build of librdkafka has none; Z2K-7010.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from confluent_kafka import KafkaException, Producer, version

from migrator.findings.fleet import CLIENT_LACKS_GSSAPI
from migrator.fleet.inventory import Inventory, Security
from migrator.fleet.secrets import resolve
from migrator.node.transport.oauth import OauthLogin, TokenSource
from migrator.node.transport.sasl import GSSAPI, OAUTHBEARER

SOURCES_MAX: Final = 16
"""Of tokens, by login: clients come and go, and a token server is not asked for each."""


def client_settings(inventory: Inventory) -> dict[str, Any]:
    """The settings of librdkafka. Secrets are read now."""
    security = inventory.cluster.security
    found: dict[str, Any] = {
        "bootstrap.servers": inventory.cluster.bootstrap_servers,
        "security.protocol": security.protocol,
        "client.id": "zk2kraft-canary",
        "log_level": 0,
    }
    optional = {
        "sasl.mechanism": security.sasl_mechanism,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file,
    }
    found |= {key: value for key, value in optional.items() if value}
    if security.key_password:
        found["ssl.key.password"] = resolve(security.key_password).reveal()
    secret = resolve(security.password).reveal() if security.password else ""
    match security.sasl_mechanism:
        case mechanism if mechanism == OAUTHBEARER:
            found["oauth_cb"] = _tokens(_source(security.oauth_url, security.username, secret, security.scope))
        case mechanism if mechanism == GSSAPI:
            found |= _kerberos(security)
            _refuse_without_gssapi(inventory.cluster.name, found)
        case _:
            named = {"sasl.username": security.username, "sasl.password": secret}
            found |= {key: value for key, value in named.items() if value}
    return found


@lru_cache(SOURCES_MAX)
def _source(url: str, client: str, secret: str, scope: str) -> TokenSource:
    return TokenSource(OauthLogin(url, client, secret, scope))


def _tokens(source: TokenSource) -> Callable[[str], tuple[str, float]]:
    """As librdkafka asks for one: the token, and its end in seconds since 1970. What is raised is a failure to it."""

    def give(_: str) -> tuple[str, float]:
        token = source.token_now()
        return token.text, token.ends_at

    return give


def _kerberos(security: Security) -> dict[str, str]:
    keytab = {"sasl.kerberos.keytab": str(security.keytab)} if security.keytab else {"sasl.kerberos.kinit.cmd": ""}
    names = {"sasl.kerberos.service.name": security.kerberos_service, "sasl.kerberos.principal": security.principal}
    return {**names, **keytab}


def _refuse_without_gssapi(cluster: str, settings: dict[str, Any]) -> None:
    """A client that is made and thrown away says it; it does not connect before it is used. Raises Z2K-7061."""
    try:
        Producer({key: settings[key] for key in ("security.protocol", "sasl.mechanism")})
    except KafkaException:
        raise CLIENT_LACKS_GSSAPI.error(cluster=cluster, version=version()) from None
