"""How the service reaches a cluster as any Kafka client does.

In:   an inventory. Out: settings of librdkafka, with the secrets in them.
Elsewhere: who uses them (replicas.py, finish/canary.py), what a secret's reference is (migrator.fleet.secrets).
"""

from __future__ import annotations

from typing import Any

from migrator.fleet.inventory import Inventory
from migrator.fleet.secrets import resolve


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
        "sasl.username": security.username,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file,
    }
    found |= {key: value for key, value in optional.items() if value}
    for key, reference in (("sasl.password", security.password), ("ssl.key.password", security.key_password)):
        if reference:
            found[key] = resolve(reference).reveal()
    return found
